# SPDX-License-Identifier: Apache-2.0
"""Reductions along an axis or several, and their gradients."""

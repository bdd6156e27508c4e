# SPDX-License-Identifier: Apache-2.0
"""Convolution: plans, and functions on arrays."""

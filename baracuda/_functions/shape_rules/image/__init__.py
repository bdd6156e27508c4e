# SPDX-License-Identifier: Apache-2.0
"""Shapes of functions on images."""

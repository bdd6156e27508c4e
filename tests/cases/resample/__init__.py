# SPDX-License-Identifier: Apache-2.0
"""Interpolation, sampling at positions, grids of affine maps, and pixel shuffle."""

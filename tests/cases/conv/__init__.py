# SPDX-License-Identifier: Apache-2.0
"""Convolution: contiguous rows of each rank, general rows, 8-bit operands, and windows as columns."""

# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms: the functions, and the reference's symbols for contiguous arrays."""

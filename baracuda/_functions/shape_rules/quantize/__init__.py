# SPDX-License-Identifier: Apache-2.0
"""Shapes of quantised arrays: affine codes, blocks, and narrow floats."""

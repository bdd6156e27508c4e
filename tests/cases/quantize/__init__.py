# SPDX-License-Identifier: Apache-2.0
"""Quantised weights and activations: affine codes, GGUF blocks, narrow floats, and their products."""

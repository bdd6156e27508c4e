# SPDX-License-Identifier: Apache-2.0
"""Gradients of the functions, shared by PyTorch and JAX: which function is the gradient of which, and formulas."""

# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops, one module for each form: unary, binary, ternary, where, cast, affine, fill, gated, prelu."""

# SPDX-License-Identifier: Apache-2.0
"""Attention: a module for each op table or two, and its formulas in float64."""

from . import dense, fa2, fused, gradients

CASES = (*dense.CASES, *gradients.CASES, *fa2.CASES, *fused.CASES)

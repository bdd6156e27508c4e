# SPDX-License-Identifier: Apache-2.0
"""Attention of paged and packed caches, merges of partial results, rings, and hyper connections."""

from . import dense, fa2, fused, gradients

CASES = (*dense.CASES, *gradients.CASES, *fa2.CASES, *fused.CASES)

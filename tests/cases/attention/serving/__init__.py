# SPDX-License-Identifier: Apache-2.0
"""Attention of paged and packed caches, merges of partial results, rings, and hyper connections."""

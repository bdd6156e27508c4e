# SPDX-License-Identifier: Apache-2.0
"""Indexing plans: gather, scatter, masked, and accumulate (scatter-add, index-add)."""

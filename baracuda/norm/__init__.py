# SPDX-License-Identifier: Apache-2.0
"""Norms: rows, channels, groups, batch, x + residual (sums), L2 and weight norm (lengths)."""

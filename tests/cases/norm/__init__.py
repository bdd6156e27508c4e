# SPDX-License-Identifier: Apache-2.0
"""Norms of rows and of groups of channels, and their gradients."""

from . import norm_add, norm_batch, norm_channels, norm_l2, norm_rows

CASES = (*norm_rows.CASES, *norm_add.CASES, *norm_channels.CASES, *norm_batch.CASES, *norm_l2.CASES)

"""Norms, of rows and of groups of channels, and their gradients."""

from . import norm_add, norm_channels, norm_rows

CASES = (*norm_rows.CASES, *norm_add.CASES, *norm_channels.CASES)

"""Norms, one module for each form: rows, channels, groups, sums, batch, lengths."""

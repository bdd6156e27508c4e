"""Norms, one module for each form: rows, channels, sums, batch, lengths."""

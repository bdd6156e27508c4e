"""Losses, one module for each form: elementwise, rows, classes, ctc."""

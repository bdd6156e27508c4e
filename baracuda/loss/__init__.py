# SPDX-License-Identifier: Apache-2.0
"""Losses, one module for each form: elementwise, rows, classes, ctc."""

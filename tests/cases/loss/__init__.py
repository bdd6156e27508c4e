# SPDX-License-Identifier: Apache-2.0
"""The loss family: a module for each op table or two."""

from . import ctc, elementwise, flce, logits, nll, options, rows, targets, weighted

CASES = (
    *elementwise.CASES,
    *rows.CASES,
    *nll.CASES,
    *flce.CASES,
    *ctc.CASES,
    *weighted.CASES,
    *logits.CASES,
    *targets.CASES,
    *options.CASES,
)

__all__ = ["CASES"]

"""The loss family, a module a table or two."""

from . import ctc, elementwise, flce, nll, rows

CASES = (*elementwise.CASES, *rows.CASES, *nll.CASES, *flce.CASES, *ctc.CASES)

__all__ = ["CASES"]

"""The loss family, a module a table."""

from . import elementwise

CASES = (*elementwise.CASES,)

__all__ = ["CASES"]

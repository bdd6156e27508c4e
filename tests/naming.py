# SPDX-License-Identifier: Apache-2.0
"""Names of parametrised cases, and of what a test does in a loop."""

import contextlib
import re
from collections.abc import Iterable

import pytest

from baracuda._library.op_table import ops

MOST_OPS = 40  # ops of an item, so that processes share the tests of large rows


def describe(value: object) -> str:
    """repr without addresses, which differ between the processes of a parallel run."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


class Tries:
    """Collects the failures of a loop, each with a label, so that one does not hide the others:

    with Tries() as tries:
        for ...:
            with tries(label):
                assert ...
    """

    MOST = 12  # failures that are shown

    def __init__(self):
        self.failures: list[str] = []

    @contextlib.contextmanager
    def __call__(self, label: object):
        try:
            yield
        except AssertionError as error:
            self.failures.append(f"[{label}] {error}")

    def __enter__(self) -> "Tries":
        return self

    def __exit__(self, kind, _error, _traceback) -> None:
        if kind is None and self.failures:
            shown = self.failures[: self.MOST]
            more = len(self.failures) - len(shown)
            raise AssertionError("\n".join(shown) + (f"\nand {more} more" if more else ""))


class OpsOfRow(list):
    """Ops of one row, which an item of a test runs in a loop: conftest.py."""


def each_row(names: Iterable[str]) -> pytest.MarkDecorator:
    """Parametrises a test by `op`. Each row of the op tables is an item, which calls the test for those of the row's
    ops that are among names and reports those that fail. A row of many ops has several items."""
    rows: dict[str, list[str]] = {}
    for op in names:
        rows.setdefault(ops()[op].row.name, []).append(op)
    items = []
    for row, of_row in rows.items():
        for k, i in enumerate(range(0, len(of_row), MOST_OPS)):
            name = row if len(of_row) <= MOST_OPS else f"{row} {k + 1}"
            items.append(pytest.param(OpsOfRow(of_row[i : i + MOST_OPS]), id=name))
    return pytest.mark.parametrize("op", items)

# SPDX-License-Identifier: Apache-2.0
"""The header states the limits of every argument."""

import collections
import functools
import importlib
import re

import pytest

from cases import CASES
from harness import ROWS

abi_limits, abi_table = (importlib.import_module(name) for name in ("abi_limits", "abi_table"))
TABLE = {row.name: row for row in abi_table.read_all()}
# The head of the header states these for every row: axes, ranks, extents, strides, pitches and element counts.
GENERAL = ("axis", "rank", "shape", "stride", "pitch")
LARGE = 2**31 - 9  # from this extent on an operand has more than 2^47 bytes


def refused_alone(case):
    """Yields (parameter, value) of the case's calls that are refused for one number or host array."""
    for bad in case.bad:
        changed = bad.scalars | bad.host
        named = re.match(r"(\w+)", bad.text.replace("\\", ""))
        if bad.status in (2, 3) and not (bad.null or bad.shift or bad.alias) and named and named[1] in changed:
            yield named[1], changed[named[1]]


def is_general(row, name, value):
    p = next(p for p in row.problem if p.name == name)
    if p.role in GENERAL or value is None or name.startswith("row_stride"):
        return True
    entries = value if isinstance(value, (tuple, list)) else (value,)
    numbers = any("shape" in q.name for q in row.problem) and name.endswith("numel")
    lengths = p.role == "extent" and all(e < 0 for e in entries if not isinstance(e, float))
    return numbers or lengths or any(e >= LARGE for e in entries) or (p.direction == "host" and min(entries) < 0)


def rows_by_stem():
    """Rows by their names up to the first slot."""
    found = collections.defaultdict(list)
    for row in TABLE.values():
        found[row.pattern.split("{")[0].rstrip("_")].append(row)
    return found


BY_STEM = rows_by_stem()


@functools.cache
def referred_by(name):
    """Rows whose name, or its stem, is a word of the row's text or begins one that goes on with an underscore."""
    begun = {word[:end] for word in re.findall(r"\w+", TABLE[name].doc) for end in ends_of(word)}
    return [other.name for stem in sorted(begun & BY_STEM.keys()) if len(stem) > 3 for other in BY_STEM[stem]]


def ends_of(word):
    return [*(match.start() for match in re.finditer("_", word)), len(word)]


def told_by(row, steps=3):
    """The texts of the row and of those that it refers to, in at most so many steps."""
    rows = {row.name}
    for _ in range(steps):
        rows |= {other for name in rows for other in referred_by(name)}
    for name in sorted(rows):
        yield TABLE[name].doc
        yield "; ".join(" ".join(item) for item in abi_limits.limits_of(TABLE[name]).items())


@pytest.mark.parametrize("name", CASES)
def test_limits_are_documented(name):
    row = TABLE[name]
    wrong = {p for p, value in refused_alone(CASES[name]) if not is_general(row, p, value)}
    if not wrong:
        return
    text = " ".join(told_by(row))
    assert not [p for p in wrong if not re.search(rf"\b{p}\b", text)]


def test_every_limit_is_of_a_parameter_and_tried():
    """A wrong value of the parameter is refused in some case."""
    tried = {p for case in CASES.values() for p, _ in refused_alone(case)}
    known = {p.name for row in ROWS.values() for p in row.problem}
    assert abi_limits.LIMITS.keys() <= known
    assert not abi_limits.LIMITS.keys() - tried

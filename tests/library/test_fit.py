# SPDX-License-Identifier: Apache-2.0
"""The coefficients in the sources are those that tools/fit computes, or as accurate as it says."""

import re

import mpmath as mp
import numpy as np
import pytest

from tools.fit.bounds import NATIVE, bounds, lists_of
from tools.fit.polynomials import polynomials

pytestmark = pytest.mark.unsanitized("no library is called")

CORE = NATIVE / "core" / "math"
POLYNOMIALS = list(polynomials())
BOUNDS = list(bounds())
NUMBER = r"[-+]?[0-9][0-9.]*(?:e[-+]?[0-9]+)?"


def committed(file: str) -> list[tuple[float, ...]]:
    """Arguments of each call of `series`, except for the first."""
    calls = re.findall(r"\bseries\(([^;]*?)\)", (CORE / file).read_text().replace("\n", " "))
    lists = (re.findall(rf"(?:(?<=, )|(?<=,\s))\s*({NUMBER})f?(?=[,\s]|$)", call) for call in calls)
    return [tuple(map(float, numbers)) for numbers in lists if numbers]


@pytest.mark.parametrize("polynomial", POLYNOMIALS, ids=[f"{p.file}: {p.name}" for p in POLYNOMIALS])
def test_coefficients(polynomial):
    found = polynomial.fit()
    kind = np.float32 if polynomial.bits == 24 else np.float64
    wanted = [kind(float(c)) for c in found.coefficients]
    same = [c for c in committed(polynomial.file) if [kind(v) for v in c] == wanted]
    assert same, f"python -m tools.fit prints {', '.join(map(repr, map(float, wanted)))}"
    assert found.error < polynomial.error


def test_every_polynomial_is_fitted():
    fitted = {(p.file, p.count) for p in POLYNOMIALS}
    fitted |= {(b.file.removeprefix("core/math/"), len(numbers)) for b in BOUNDS for numbers in b.lists()}
    for file in CORE.glob("*_cpu.h"):
        for coefficients in committed(file.name):
            assert (file.name, len(coefficients)) in fitted, f"{file.name}: {coefficients}"


@pytest.mark.parametrize("bound", BOUNDS, ids=[f"{b.file}: {b.name}" for b in BOUNDS])
def test_error_of_other_polynomials(bound):
    """The error is as recorded: neither larger, nor smaller by half."""
    error = float(mp.log(bound.largest_error(), 2))
    assert bound.error - 1 < error <= bound.error, f"2^{error:.2f}"


def test_every_polynomial_is_known():
    known = {numbers for bound in BOUNDS for numbers in bound.lists()}
    fitted = {f"core/math/{p.file}" for p in POLYNOMIALS}
    for path in (*NATIVE.glob("core/math/*.h"), *NATIVE.glob("elementwise/**/*.h")):
        file = str(path.relative_to(NATIVE))
        for numbers in lists_of(file):
            assert file in fitted or numbers in known, f"{file}: tools/fit/bounds.py lacks {', '.join(numbers)}"


def test_bits_of_one_over_two_pi():
    """1 / (2 pi) in 256 bits."""
    text = (CORE / "trigonometric_cpu.h").read_text()
    words = re.findall(r"0x([0-9a-f]{16})ull", text)
    with mp.workdps(120):
        assert int("".join(words), 16) == int(mp.floor(mp.mpf(2) ** 256 / (2 * mp.pi)))

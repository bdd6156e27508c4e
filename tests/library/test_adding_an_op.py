# SPDX-License-Identifier: Apache-2.0
"""A function is a row entry of a table and functors in the header above it: neither exists without the other."""

import importlib
import pathlib
import re
import shutil

import pytest

from harness import ROOT

abi_table = importlib.import_module("abi_table")
FAMILY = ROOT / "native" / "elementwise"
HELPERS = {  # functors of bk::op that are parts of others
    "IntegerPow", "SoftplusOfOne", "SoftplusOfOneBackward",
}  # fmt: skip


def functors(text):
    """The structs of bk::op in a header that are callable or name a Mirror, and the aliases."""
    (inside,) = re.findall(r"^namespace (?:bk::)?op {\n(.*?)^}  // namespace", text, flags=re.M | re.S) or [""]
    structs = re.findall(r"^struct (\w+)(?: : [^{;]*)? {(.*?)};\n\n?", inside + "\n", flags=re.M | re.S)
    aliases = set(re.findall(r"^using ([A-Z]\w*) =", inside, flags=re.M))
    callable_ = re.compile(r"operator\(\)|using Mirror")
    return {name for name, body in structs if callable_.search(body)} | aliases


def complaints(rows, texts):
    """An error for each function whose functor is not in its header, and for each functor that no function names."""
    defined = {name: set(re.findall(r"^(?:struct|using) (\w+)", text, flags=re.M)) for name, text in texts.items()}
    named, found = set(), set()
    for row in rows:
        if row.family != "elementwise":
            continue
        for _, slots in row.instances():
            header = row.includes_of(slots)[-1].removeprefix("elementwise/")
            for name in re.findall(r"bk::op::(\w+)", row.class_of(slots)):
                named.add(name)
                headers = [header, *re.findall(r'#include "elementwise/([\w/]+\.h)"', texts[header])]
                if not any(name in defined[other] for other in headers):
                    found.add(f"{name_of(header)} has no {name}, which [{row.name}] of {row.table}.abi needs")
    for header, text in texts.items():
        for name in functors(text) - named - HELPERS:
            found.add(f"no row has {name} of {name_of(header)}: a line of its table, or the gradient in it, is missing")
    return sorted(found)


def name_of(header):
    return pathlib.PurePath(header).name


def texts():
    return headers_of(FAMILY)


def headers_of(family):
    return {str(path.relative_to(family)): path.read_text() for path in sorted(family.rglob("*.h"))}


def test_functions_and_functors_agree():
    assert complaints(abi_table.read_all(), texts()) == []


def test_functors_are_found():
    assert {"Log1p", "Log1pBackward"} <= functors(texts()["functors/exponential.h"])
    assert {"GeluErf", "GeluErfBackward"} <= functors(texts()["functors/normal_distribution.h"])
    assert {"Eq", "Gt"} <= functors(texts()["functors/compare.h"])
    assert sum(len(functors(text)) for text in texts().values()) > 180


LINE = "        log1p             ln(1 + x) => dy / (1 + x)\n"
FUNCTORS = {
    name: f"""template <class T>
struct {name} {{
    using C = compute_t<T>;
    BK_HD C operator()({arguments}) const {{ return {value}; }}
}};
"""
    for name, arguments, value in (
        ("Log1p", "C x", "math::log1p<T>(x)"), ("Log1pBackward", "C dy, C x", "dy / (C(1) + x)"),
    )
}  # fmt: skip
UNNAMED = "no row has {} of exponential.h: a line of its table, or the gradient in it, is missing"


@pytest.mark.parametrize(("old", "new", "expected"), [
    (LINE, "", [UNNAMED.format("Log1p"), UNNAMED.format("Log1pBackward")]),
    (LINE, LINE.partition(" =>")[0] + "\n", [UNNAMED.format("Log1pBackward")]),
    (LINE, LINE.replace("log1p", "log3p"), [
        "exponential.h has no Log3p, which [unary_{F}_{T}] of unary.abi needs",
        "exponential.h has no Log3pBackward, which [unary_{F}_backward_{T}] of unary_backward.abi needs",
        UNNAMED.format("Log1p"), UNNAMED.format("Log1pBackward"),
    ]),
    (FUNCTORS["Log1p"], "", ["exponential.h has no Log1p, which [unary_{F}_{T}] of unary.abi needs"]),
    (FUNCTORS["Log1pBackward"], "",
     ["exponential.h has no Log1pBackward, which [unary_{F}_backward_{T}] of unary_backward.abi needs"]),
])  # fmt: skip
def test_missing_parts_are_named(tmp_path, old, new, expected):
    """Each part of CONTRIBUTING's example is left out, or wrong."""
    shutil.copytree(FAMILY, tmp_path / "elementwise")
    changed = [path for path in (tmp_path / "elementwise").rglob("*.*") if old in path.read_text()]
    assert [path.name for path in changed] == ["unary.abi" if old == LINE else "exponential.h"]
    changed[0].write_text(changed[0].read_text().replace(old, new))
    rows = [row for path in sorted(tmp_path.glob("elementwise/*.abi")) for row in abi_table.read_table(path)]
    found = complaints(rows, headers_of(tmp_path / "elementwise"))
    assert [text for text in found if "_strided" not in text] == expected


def test_a_function_below_the_wrong_header_is_named():
    rows = abi_table.read_table(FAMILY / "unary.abi")
    wrong = {**texts(), "functors/exponential.h": texts()["functors/rounding.h"]}
    assert "exponential.h has no Log1p, which [unary_{F}_{T}] of unary.abi needs" in complaints(rows, wrong)

# SPDX-License-Identifier: Apache-2.0
"""A function is what CONTRIBUTING.md says it is: a line of a table and functors. The compiler names what is missing."""

import importlib
import re
import subprocess
import textwrap

import pytest

from harness import ROOT
from harness.compilers import compiler

abi_table, gen_abi = (importlib.import_module(name) for name in ("abi_table", "gen_abi"))
pytestmark = pytest.mark.unsanitized("it runs nothing")

(SECTION,) = re.findall(r"^### A unary function$(.*?)^###? ", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.M | re.S)
LINE, FUNCTORS = (
    textwrap.dedent(re.search(rf"```{kind}\n(.*?)^ *```", SECTION, flags=re.M | re.S)[1]) for kind in ("ini", "cpp")
)
TABLE = """
[unary_{{F}}_{{T}}]
F =
    demo.h:
        {line}
T = f32
pointwise = in x, out y
doc = y = {{F}}(x).

[unary_{{F}}_backward_{{T}}]
gradients_of = unary_{{F}}_{{T}}
T = f32
pointwise = in dy, in saved, out dx
doc = dx from dy and saved.
"""
HEADER = """#pragma once
#include "core/math/math.h"
#include "core/types/dtype.h"

namespace bk::op {{
{functors}
}}  // namespace bk::op
"""


@pytest.fixture
def add(tmp_path, monkeypatch):
    """Returns a function that adds a function to a project without others. It returns the ops, the declarations of the
    header, and what the compiler says about them."""

    def add(line: str, functors: str) -> tuple[list[str], str, str]:
        family = tmp_path / "native" / "demo"
        (family / "functors").mkdir(parents=True)
        (family / "unary.abi").write_text(TABLE.format(line=" ".join(line.split())))
        (family / "functors" / "demo.h").write_text(HEADER.format(functors=functors))
        monkeypatch.setattr(abi_table, "ROOT", tmp_path)
        rows = abi_table.read_all()
        ((name, text),) = gen_abi.glue_files(gen_abi.select(rows, [], [])).items()
        (tmp_path / name).write_text(text)
        folders = [f"-I{folder}" for folder in (tmp_path / "native", ROOT / "native", ROOT / "include")]
        command = [*compiler("CXX", "g++"), "-std=c++17", "-fopenmp", "-fsyntax-only", "-x", "c++", *folders]
        result = subprocess.run([*command, tmp_path / name], capture_output=True, text=True, check=False)
        assert (result.returncode != 0) == ("error:" in result.stderr), result.stderr
        return [op for row in rows for op, _ in row.instances()], gen_abi.header_text(rows), result.stderr

    return add


def test_a_line_and_two_functors_are_a_function(add):
    ops, header, errors = add(LINE, FUNCTORS)
    assert "error:" not in errors
    assert sorted(ops) == [
        f"unary_log1p_{backward}f32{strided}" for backward in ("backward_", "") for strided in ("", "_strided")
    ]
    for op in ops:
        assert f" baracuda_kernels_{op}_run(" in header
    assert "ln(1 + x)" in header


@pytest.mark.parametrize("functor", ["Log1p", "Log1pBackward"])
def test_a_missing_functor_is_named(add, functor):
    kept = [text for text in re.split(r"(?=^template)", FUNCTORS, flags=re.M) if f"struct {functor} " not in text]
    *_, errors = add(LINE, "".join(kept))
    assert set(re.findall(r"error: .*?(\w+)\W (?:is not a member|in namespace)", errors)) == {functor}


def test_a_functor_of_other_operands_is_refused(add):
    *_, errors = add(LINE, FUNCTORS.replace("(C dy, C x)", "(C x)").replace("dy /", "x /"))
    assert "error:" in errors and "Log1pBackward" in errors


def test_a_gradient_belongs_to_a_line_that_has_one(add):
    with pytest.raises(abi_table.TableError, match=re.escape("[unary_{F}_backward_{T}]")):
        add(LINE.partition(" =>")[0], FUNCTORS)

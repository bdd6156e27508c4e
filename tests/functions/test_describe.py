# SPDX-License-Identifier: Apache-2.0
"""`python -m baracuda ops NAME` describes each op as the header does."""

import re
import subprocess
import sys

import pytest

from baracuda import composites, concatenation, functions
from baracuda._cli.describe import describe, find
from baracuda._functions.spec import specs
from baracuda._library.op_table import ops, rows
from baracuda._library.param import symbol_of
from baracuda.search import functions as search_functions
from harness import ROOT
from harness.child import child_environment

HEADER = " ".join((ROOT / "include" / "baracuda_kernels.h").read_text().split())


def test_what_it_says_of_every_op(library):
    """The description has the name, every argument with its shape, and the prototype of the first dtype."""
    seen = set()
    for op in ops().values():
        if (op.row.name, op.function) in seen:
            continue
        seen.add((op.row.name, op.function))
        lines = list(describe(op.name))
        if op.name in specs():  # a function that calls other ops: its description and theirs come first
            lines = lines[max(i for i, line in enumerate(lines) if line.startswith(f"{op.name} ")) :]
        assert lines[0].startswith(op.row.pattern.replace("{F}", op.function))
        for param in op.row.params:
            assert any(line.split()[:1] == [param.name] and param.shape in line for line in lines), param.name
        start = next(i for i, line in enumerate(lines) if line.startswith("  int32_t baracuda_kernels_"))
        prototype = " ".join(" ".join(lines[start:]).split())
        assert f" {symbol_of(op.name, 'run')}(" in prototype
        assert f"BARACUDA_API {prototype}" in HEADER


@pytest.mark.parametrize(
    ("name", "stems"),
    [
        ("gelu", {"unary_gelu_{T}", "unary_gelu_{T}_strided", "unary_gelu_backward_{T}"}),
        ("gelu_backward", {"unary_gelu_backward_{T}"}),
        ("segment_sum", {"segment_sum{I}_{T}", "segment_sum_backward{I}_{T}"}),
        ("segment_sum_backward", {"segment_sum_backward{I}_{T}"}),
        ("unary_gelu_bf16", {"unary_gelu_{T}"}),
        ("where", {"where_{T}", "where_i64cond_{T}", "where_backward_{T}"}),
        ("affine", {"affine_{T}", "affine_inplace_{T}"}),
    ],
)
def test_names(name, stems):
    found = {row.pattern.replace("{F}", function) for row, function in find(name)}
    assert stems <= found
    assert not any(re.search(r"erf|tanh|unsorted|grid", stem) for stem in found)


def test_every_function_is_found_by_its_name():
    for row in rows():
        for function in row.functions:
            assert (row, function) in find(function), (row.name, function)


@pytest.mark.parametrize("name", specs())
def test_every_function_on_arrays_is_found_by_its_name(name):
    """The description has the signature before the ops, and the gradient."""
    assert next(describe(name)) == f"baracuda.{name}({functions.signature(specs()[name], whole=True)})"
    found = {row.name for row, _ in find(name)}
    for each in (specs()[name], specs().get(f"{name}_backward", specs()[name])):
        assert {row.name for row in each.rows} <= found


@pytest.mark.parametrize(
    ("name", "ops"),
    [("matmul", {"gemm_dense_{T}"}), ("fmod", {"binary_remainder_{T}"}), ("nanmax", {"reduce_fmax_axes_{T}"}),
     ("cross_entropy", {"loss_cross_entropy_{T}"}), ("tile", {"repeat_{T}", "repeat_backward_{T}"})],
)  # fmt: skip
def test_names_that_the_table_has_not(name, ops):
    assert ops <= {row.pattern.replace("{F}", function) for row, function in find(name)}


def test_functions_of_many_arrays_have_a_signature():
    for name in (*concatenation.__all__, *composites.__all__, *search_functions.__all__):
        assert next(describe(name)).startswith(f"baracuda.{name}(")


def test_program(library):
    command = [sys.executable, "-m", "baracuda", "ops"]
    environment = child_environment(BARACUDA_LIB=library.path)
    result = subprocess.run([*command, "gelu"], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for part in (
        "x Phi(x)",
        "{T} [numel]  in",
        "f32 f16 bf16 f64",
        "deterministic",
        "baracuda_kernels_unary_gelu_f32_run(",
    ):
        assert part in result.stdout
    for name, meant in (("nonsense", ""), ("softmaks", ", perhaps softmax or ")):
        result = subprocess.run([*command, name], env=environment, capture_output=True, text=True, check=False)
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith(f"no op {name!r}{meant}")
        assert result.stderr.endswith("; `python -m baracuda ops` lists all\n")
    result = subprocess.run(command[:-1], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "all there is to know" in " ".join(result.stderr.split())


def test_functions_are_described_before_their_ops():
    lines = list(describe("cross_entropy"))
    assert lines[1].startswith("  Cross entropy of logits x")
    assert lines.index("") < next(k for k, line in enumerate(lines) if line.startswith("loss_cross_entropy"))

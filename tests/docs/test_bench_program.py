# SPDX-License-Identifier: Apache-2.0
"""`python -m baracuda bench`: which peers count, and the printed table. Times are not tested."""

import importlib.util
import re
import subprocess
import sys

import numpy as np
import pytest

import baracuda as bk
from baracuda._cli import bench
from baracuda._functions.spec import specs
from harness import ROOT
from harness.child import child_environment


def names(function, kind=bk.f32):
    spec = specs()[function]
    return [name for name, _ in bench.candidates(spec, kind, bench.operands(spec, kind, 64), "cpu")]


@pytest.fixture
def quickly(monkeypatch):
    monkeypatch.setattr(bench, "_SECONDS", 0.001)


def test_peers_compute_the_same():
    assert "numpy" in names("sqrt") and "numpy" in names("add") and "numpy" not in names("gelu")
    assert names("gelu", bk.bf16)[0] == "baracuda"
    if importlib.util.find_spec("torch"):
        assert "torch" in names("gelu") and "torch" in names("add", bk.i32)
    for function, module in (("cumsum", "numpy"), ("sum", "numpy"), ("matmul", "numpy"), ("softmax", "torch"),
                             ("layer_norm", "torch"), ("linear", "torch"), ("glu", "torch"), ("softmax", "jax"),
                             ("gelu", "jax"), ("flip", "numpy")):  # fmt: skip
        there = names(function)
        assert there[0] == "baracuda" and (module in there or not importlib.util.find_spec(module)), function
    own = np.float32([1, 2])
    assert bench.agrees(lambda: np.float32([1, 2.001]), own)
    for other in (lambda: np.float32([1, 3]), lambda: np.float32([1]), lambda: int("x"), lambda: None.x):
        assert not bench.agrees(other, own)


def test_the_table(quickly):
    lines = list(bench.bench("mul", "f32", (16, 64)))
    assert lines[0].startswith("mul, f32, ")
    assert [line for line in lines if "elements" in line] == ["16 elements", "64 elements"]
    assert "(64, 64)" in list(bench.bench("softmax", "f32", (4096,)))[1]
    rows = [re.fullmatch(r"  (\w+) +[\d.]+ us +[\d.]+ GB/s  #+", line) for line in lines if "us" in line]
    assert rows and all(rows)
    assert [row[1] for row in rows].count("baracuda") == 2


def test_refusals():
    with pytest.raises(bk.InvalidProblemError, match="no function 'frobnicate'"):
        list(bench.bench("frobnicate", "f32", (16,)))
    with pytest.raises(bk.UnsupportedError, match="segment_sum: it needs num_segments"):
        list(bench.bench("segment_sum", "f32", (16,)))
    with pytest.raises(bk.UnsupportedError, match="alibi: its operands are of several shapes"):
        list(bench.bench("alibi", "f32", (16,)))
    with pytest.raises(bk.UnsupportedError, match="x has dtype i32"):
        list(bench.bench("gelu", "i32", (16,)))


def test_program(library):
    command = [sys.executable, "-m", "baracuda", "bench"]
    environment = child_environment(BARACUDA_LIB=library.path)

    def run(*arguments):
        return subprocess.run([*command, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)

    result = run("sqrt", "--dtype", "f64", "--sizes", "16")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("sqrt, f64") and "16 elements" in result.stdout
    result = run("nonsense")
    assert (result.returncode, result.stdout) == (1, "")
    assert "no function 'nonsense'" in result.stderr

# SPDX-License-Identifier: Apache-2.0
"""The demo, as a user starts it."""

import importlib
import json
import pathlib
import re
import subprocess
import sys

import baracuda as bk
from baracuda.demo import classify
from harness.demo import run_demo, shares

ROOT = pathlib.Path(__file__).resolve().parents[2]
abi_table = importlib.import_module("abi_table")
gen_abi = importlib.import_module("gen_abi")
DTYPES = ["f32", "i64"]  # of DEMO_PART in the Makefile


def test_learns_to_tell_the_packages_apart(library):
    result = run_demo("--epochs", "3", "--backend", library.backend)
    assert result.returncode == 0, result.stdout + result.stderr
    accuracy, majority = shares(result.stdout)
    assert accuracy > 2 * majority
    assert "gradient check: passed" in result.stdout
    assert ("CUDA, " if library.backend == "cuda" else "CPU, ") in result.stdout.splitlines()[0]
    assert re.search(r"trained in [\d.]+ s: [\d,]+ texts/s, [\d,]+ indices/s", result.stdout)


def test_the_same_seed_gives_the_same_result(library):
    options = ("--epochs", "2", "--rows", "4096", "--backend", library.backend)
    first, second = (shares(run_demo(*options).stdout) for _ in range(2))
    assert first == second


def test_a_model_that_learned_nothing_is_a_failure(library):
    result = run_demo("--epochs", "0", "--backend", library.backend)
    assert result.returncode == 1
    assert result.stdout.rstrip().endswith("FAILED")


def test_a_wrong_gradient_is_found(library, monkeypatch):
    right = bk.upload

    def upload(array, dtype=None, **options):
        return right(array if dtype is not bk.f32 else array * (1 + 1e-3), dtype, **options)

    assert max(classify.check_gradients(library).values()) < classify.GRADIENT_TOLERANCE
    monkeypatch.setattr(bk, "upload", upload)
    assert min(classify.check_gradients(library).values()) > classify.GRADIENT_TOLERANCE


# Ops that a step of the language model looks up, in a process whose functions are not prepared yet.
CALLED = """
import dataclasses, json, sys
import baracuda as bk
from baracuda.demo import train

called, function, out = set(), bk.Library.function, sys.stdout

def record(self, op, kind="run"):
    called.add(op)
    return function(self, op, kind)

bk.Library.function = record
train.gemm_rate = lambda *_: 1e9
train.SIZES["tiny"] = dataclasses.replace(train.SIZES["tiny"], train_bytes=20_000, held_out_bytes=5_000)
sys.stdout = sys.stderr
train.main(sys.argv[1:])
print(json.dumps(sorted(called)), file=out)
"""


def test_make_demo_builds_what_it_calls(library):
    """The partial library of the Makefile has the units of what the language model calls, and no others."""
    options = ["--steps", "1", "--batch", "1", "--tokens", "2", "--dropout", "0.1", "--backend", library.backend]
    result = subprocess.run(
        [sys.executable, "-c", CALLED, *options], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert result.stdout, result.stderr
    called = set(json.loads(result.stdout))
    # make evaluates the line, so that its continuation and its conditions are those of a build
    shown = subprocess.run(
        ["make", "--no-print-directory", "-f", "Makefile", "--eval", "shown:; @echo '$(DEMO_FAMILIES)'", "shown"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    rows, families = abi_table.read_all(), shown.stdout.split()
    instances = gen_abi.select(rows, families, DTYPES)
    units = {op: row.unit_of(slots) for op, row, slots in instances}
    for _, name, _, unit in gen_abi.functions_in(instances, DTYPES, families):
        units[name.removeprefix("baracuda_kernels_").removesuffix("_run")] = unit
    assert called <= set(units)
    assert {units[op] for op in called} == set(units.values())

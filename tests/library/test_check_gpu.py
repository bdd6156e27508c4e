# SPDX-License-Identifier: Apache-2.0
"""tools/check_gpu.sh: the sanitizers' commands; failures are reported at once and recorded."""

import os
import subprocess

import pytest

from baracuda._library.op_table import ops, rows
from harness import ROOT
from harness.selection import one_a_row

pytestmark = pytest.mark.unsanitized("no library is called")

SCRIPT = ROOT / "tools" / "check_gpu.sh"


def test_an_op_of_every_row():
    chosen = [ops()[name] for name in one_a_row(ops().keys())]
    assert sorted(op.row.name for op in chosen) == sorted(row.name for row in rows())
    for op in chosen:
        assert op.slots.get("T") == "f32" or "f32" not in op.row.slots.get("T", ()), op.name
    assert one_a_row({"unary_neg_bf16", "unary_neg_f16"}) <= {"unary_neg_bf16", "unary_neg_f16"}


def check_gpu(out, stages, **environment):
    """Runs the script with a stand-in for Python that fails and prints what a stage runs."""
    python = out / "python"
    python.write_text('#!/bin/sh\n[ "$1" = -c ] && exit 1\necho "FAILED of $*"\necho last line\nexit ${STATUS:-1}\n')
    python.chmod(0o755)
    environment = {**os.environ, "STAGES": stages, **environment}
    return subprocess.run([SCRIPT, out, python], env=environment, capture_output=True, text=True, timeout=60)


def test_stages_that_fail(tmp_path):
    result = check_gpu(tmp_path, "tests bench", FAILURES="7", SECONDS_OF_BENCH="60")
    assert result.returncode == 1, result.stderr
    told = [line for line in result.stdout.splitlines() if line.startswith("FAILED of")]
    suite, bench = dict.fromkeys(told)  # the end of a log repeats it
    assert suite.startswith("FAILED of -m pytest") and "--maxfail 7" in suite and f"{tmp_path}/tests.xml" in suite
    assert bench == f"FAILED of -m tools.bench --json {tmp_path}/bench.json --seconds 60"
    assert (tmp_path / "failed").read_text() == "tests\nbench\n"


def test_the_suite_of_several_workers(tmp_path):
    """pytest-xdist, where it is installed, serves the test suite alone, not measurements."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" = -c ] || echo "FAILED of $*"\n')
    python.chmod(0o755)
    environment = os.environ | {"STAGES": "tests large", "WORKERS": "5"}
    told = subprocess.run(
        [SCRIPT, tmp_path, python], env=environment, capture_output=True, text=True, timeout=60
    ).stdout
    assert [" -n 5 " in line for line in told.splitlines() if line.startswith("FAILED of")] == [True, False]


def test_stages_that_pass(tmp_path):
    result = check_gpu(tmp_path, "demo", STATUS="0")
    assert result.returncode == 0 and "passed in" in result.stdout and "last line" in result.stdout
    assert (tmp_path / "demo.log").read_text().startswith("FAILED of -m baracuda.demo")

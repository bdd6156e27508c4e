# SPDX-License-Identifier: Apache-2.0
"""Random calls of every op in child processes: a crash is a failure that names the call. See harness/fuzz.py.

BARACUDA_FUZZ_CALLS   calls of each seed; by default as many as make test has time for
BARACUDA_FUZZ_SEED    the first seed; by default 1
"""

import os
import subprocess
import sys

import pytest

from harness.child import child_environment

CALLS = int(os.environ.get("BARACUDA_FUZZ_CALLS", "5000"))
FIRST_SEED = int(os.environ.get("BARACUDA_FUZZ_SEED", "1"))


@pytest.mark.parametrize("number", range(2))
def test_random_calls(library, tmp_path, number):
    log, seed = tmp_path / "call", FIRST_SEED + number
    log.write_bytes(bytes(8192))
    environment = child_environment(BARACUDA_LIB=library.path, OMP_NUM_THREADS="2")
    command = [sys.executable, "-m", "harness.fuzz", "--seed", str(seed), "--calls", str(CALLS), "--log", str(log)]
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=300 + CALLS // 10
    )
    call = log.read_bytes().partition(b"\0")[0].decode(errors="replace")
    assert result.returncode == 0, f"{result.stderr[-4000:]}\nexit status {result.returncode}, at {call}"
    ran, _, made, *_ = result.stdout.split()
    assert int(made) == CALLS
    assert int(ran) > CALLS // 4, result.stdout

# SPDX-License-Identifier: Apache-2.0
"""Runs make and other programs of the build, in an environment without the tests' variables."""

import os
import subprocess
import sys


def run(command, cwd, **changes):
    """Standard output and error of a command that succeeds."""
    result = attempt(command, cwd, **changes)
    assert result.returncode == 0, result.stdout
    return result.stdout


def attempt(command, cwd, **changes):
    dropped = ("LD_PRELOAD", "PYTHONPATH", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")
    environment = {k: v for k, v in os.environ.items() if k not in dropped and not k.startswith("BARACUDA_")} | changes
    return subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False, timeout=1200,
    )  # fmt: skip


def make(tree, *arguments, **changes):
    return run(["make", "--no-print-directory", *arguments, "VENV=", f"PYTHON={sys.executable}"], tree, **changes)

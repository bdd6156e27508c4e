# SPDX-License-Identifier: Apache-2.0
"""Starts the demo as a user does, and reads its output."""

import re
import subprocess
import sys

from .child import child_environment


def run_demo(*options: str) -> subprocess.CompletedProcess:
    environment = child_environment()
    command = [sys.executable, "-m", "baracuda.demo", "classify", *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def shares(output: str) -> tuple[float, float]:
    """The accuracy, and that of always guessing the most frequent label."""
    found = re.search(r"held-out accuracy: ([\d.]+) \(always the commonest label: ([\d.]+)\)", output)
    assert found, output
    return float(found[1]), float(found[2])

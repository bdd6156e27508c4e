# SPDX-License-Identifier: Apache-2.0
"""Starts a program once for each rank on this host, with the variables of torchrun and a rendezvous by files.

python -m baracuda.distributed --ranks 4 program.py arguments     # or -m module arguments
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence

from baracuda.distributed.environment import RENDEZVOUS
from baracuda.errors import InvalidProblemError


def run(command: Sequence[str], ranks: int, *, grace: float = 10.0, environment: dict[str, str] | None = None) -> int:
    """Run a command in `ranks` processes and return the first exit status that is not 0. When one fails, the others
    have `grace` seconds to raise their own errors; then they are killed. Threads of OpenMP are divided among the ranks.
    """
    if ranks < 1:
        raise InvalidProblemError(f"ranks is {ranks}, must be >= 1")
    with _sigterm_raises(), tempfile.TemporaryDirectory(prefix="baracuda-") as folder:
        url = pathlib.Path(folder, "rendezvous").as_uri()
        threads = str(max(1, len(os.sched_getaffinity(0)) // ranks))
        processes = []
        for rank in range(ranks):
            env = {"OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "passive", **os.environ, **(environment or {})}
            env |= {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), RENDEZVOUS: url}
            processes.append(subprocess.Popen(list(command), env=env))
        try:
            return _wait(processes, grace)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()


def _wait(processes: Sequence[subprocess.Popen[bytes]], grace: float) -> int:
    """The status of the first process that failed, or 0."""
    end = float("inf")
    failed = 0
    while None in [process.poll() for process in processes]:
        found = [process.returncode for process in processes if process.returncode]
        if found and not failed:
            failed, end = found[0], time.monotonic() + grace
        if time.monotonic() > end:
            break
        with contextlib.suppress(subprocess.TimeoutExpired):
            next(process for process in processes if process.returncode is None).wait(0.05)
    failed = failed or next((process.returncode for process in processes if process.returncode), 0)
    return 128 - failed if failed < 0 else failed


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    """SIGTERM raises SystemExit, so that the ranks are ended, where signals are handled: in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m baracuda.distributed", description="Start a program once for each rank on this host."
    )
    parser.add_argument("--ranks", type=int, required=True, help="number of processes, one a GPU where GPUs are used")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is a module")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    program = ["-m", options.program] if options.module else [options.program]
    return run([sys.executable, *program, *options.arguments], options.ranks)

# SPDX-License-Identifier: Apache-2.0
"""The chip that a library runs on: its name, and how fast it multiplies matrices."""

from __future__ import annotations

import os
import pathlib
import platform
import re
import time

import numpy as np

import baracuda as bk

SECONDS, LEAST_TRIALS, MOST_TRIALS = 0.5, 5, 300  # of the measurement


def describe_device(library: bk.Library) -> str:
    """Backend and chip."""
    if library.backend == "cuda":
        from cuda.bindings import runtime

        properties = runtime.cudaGetDeviceProperties(runtime.cudaGetDevice()[1])[1]
        name = properties.name.decode() if isinstance(properties.name, bytes) else properties.name
        return f"CUDA, {name.rstrip(chr(0))} (sm_{properties.major}{properties.minor})"
    try:
        facts = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        facts = ""
    model = re.search(r"model name\s*: (.*)", facts)
    return f"CPU, {model[1] if model else platform.machine()}, {os.cpu_count()} threads"


def gemm_rate(library: bk.Library, dtype: bk.ElementKind) -> float:
    """Floating point operations a second of the fastest of many products of square matrices, which stands for the
    chip's peak: what is measured is what can be reached under its clocks and its load.
    """
    n = 8192 if library.backend == "cuda" else 512
    a, b = (bk.upload(np.full((n, n), 0.5, np.float32), dtype, library=library) for _ in range(2))
    out = bk.empty((n, n), dtype, library=library)
    seconds: list[float] = []
    while len(seconds) < LEAST_TRIALS or (len(seconds) < MOST_TRIALS and sum(seconds) < SECONDS):
        bk.synchronize(library=library)
        start = time.perf_counter()
        bk.matmul(a, b, out=out)
        bk.synchronize(library=library)
        seconds.append(time.perf_counter() - start)
    return 2 * n**3 / min(seconds)

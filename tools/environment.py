# SPDX-License-Identifier: Apache-2.0
"""The machine and versions behind a measurement, and PyTorch if it is usable."""

from __future__ import annotations

import datetime
import os
import pathlib
import platform
from typing import Any

import numpy as np

import baracuda as bk


def import_torch(backend: str) -> Any:
    """The module, or None if it is missing or cannot use the backend."""
    try:
        import torch
    except ImportError:
        return None
    if backend == "cuda":
        return torch if torch.cuda.is_available() else None
    torch.set_num_threads(os.cpu_count() or 1)
    return torch


def environment(library: bk.Library, torch: Any) -> dict[str, Any]:
    """Device, driver and versions."""
    facts: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "backend": library.backend,
        "library": {key: value for key, value in library.build_info.items() if key != "vendors"},
        "python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()),
        "numpy": np.__version__,
        "torch": getattr(torch, "__version__", None),
    }
    if library.backend == "cuda":
        from cuda.bindings import runtime

        properties = runtime.cudaGetDeviceProperties(0)[1]
        name = properties.name.decode() if isinstance(properties.name, bytes) else properties.name
        facts["device"] = name.rstrip("\0")
        facts["l2_bytes"] = properties.l2CacheSize
        facts["driver"] = runtime.cudaDriverGetVersion()[1]
        facts["driver_release"] = _driver_release()
    else:
        facts["device"] = _processor()
        facts["threads"] = os.cpu_count()
    return facts


def _driver_release() -> str | None:
    try:
        words = pathlib.Path("/proc/driver/nvidia/version").read_text().split()
    except OSError:
        return None
    return next((word for word in words if word[0].isdigit() and word.count(".") >= 1), None)


def _processor() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), platform.machine())

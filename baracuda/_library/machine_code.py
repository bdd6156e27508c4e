# SPDX-License-Identifier: Apache-2.0
"""The machine code of a library that runs on this machine."""

from __future__ import annotations

import re

from baracuda._library.loader import Library
from baracuda.kinds import ArchSku

_CHIP = re.compile(r"sm_(\d+)(\d)([af]?)")
_INSTRUCTIONS = {"baseline": ArchSku.CPU, "avx2": ArchSku.AVX2, "avx512": ArchSku.AVX512}


def arch_of(library: Library) -> ArchSku | None:
    """The instruction set of a CPU library. For a CUDA library, its newest code for the current device: machine code of
    the device's major version, or else PTX for the driver's JIT. None without a device.
    """
    if library.backend == "cpu":
        return _INSTRUCTIONS.get(library.build_info.get("isa", "baseline"))
    device = capability()
    chips = sorted(map(_chip, library.build_info.get("archs", ())))
    fitting = [chip for chip in chips if device is not None and _serves(chip, device)]
    return ArchSku[f"SM{fitting[-1][0]}{fitting[-1][1]}{fitting[-1][2].upper()}"] if fitting else None


def capability() -> tuple[int, int] | None:
    """Compute capability of the calling thread's current device."""
    try:
        from cuda.bindings import runtime
    except ImportError:
        return None
    status, device = runtime.cudaGetDevice()
    if status != 0:
        return None
    names = runtime.cudaDeviceAttr
    wanted = (names.cudaDevAttrComputeCapabilityMajor, names.cudaDevAttrComputeCapabilityMinor)
    major, minor = (int(runtime.cudaDeviceGetAttribute(name, device)[1]) for name in wanted)
    return major, minor


def _chip(name: str) -> tuple[int, int, str]:
    """(9, 0, "a") for "sm_90a"."""
    found = _CHIP.fullmatch(name)
    assert found is not None, name
    return int(found[1]), int(found[2]), found[3]


def _serves(chip: tuple[int, int, str], device: tuple[int, int]) -> bool:
    """Code for a chip runs on it and, from PTX, on newer ones; that of sm_90a runs on sm_90 only."""
    return chip[:2] == device if chip[2] else chip[:2] <= device

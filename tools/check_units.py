#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bounds the compile time and the number of kernels of each translation unit of a build.

usage: check_units.py OBJECT... [--chips N] [--seconds 60] [--one-chip-seconds 120] [--kernels 200]

Larger units must be split: they keep one core busy after all others are done, also after every edit. The time is
the CPU time of the compiler, independent of load, as tools/compile.sh records it in OBJECT.seconds: 60 s, and 60 s
for each further chip of CUDA_ARCHS; 120 s for a unit whose name ends with its only chip (attention_sm90a). The time is
unknown, and reported as such, if ccache had the object.
"""

import argparse
import os
import pathlib
import re
import struct
import sys

from check_abi import SHT_SYMTAB, NotElfError, sections, symbols

SHF_ALLOC, SHF_STRINGS = 0x2, 0x20


def kernels(path: pathlib.Path) -> int:
    """Kernels of an object: the mangled names that nvcc registers, or the functions that launch each on the host.

    Optimised objects have the names as string literals that begin with _Z, and may have inlined the functions; -O0
    keeps the functions, and has the names among other constants.
    """
    data = path.read_bytes()
    names: set[bytes] = set()
    for _, _, flags, _, offset, size, *_ in sections(path, data):
        if flags & SHF_STRINGS and flags & SHF_ALLOC:
            names.update(name for name in data[offset : offset + size].split(b"\0") if name.startswith(b"_Z"))
    stubs: set[str] = set()
    for name, *_ in symbols(path, data, SHT_SYMTAB):
        if found := re.match(r"_Z\w*?L(\d+)(__device_stub__\w+)", name):
            stubs.add(found[2][: int(found[1])])  # skips its local variables
    return max(len(names), len(stubs))


def seconds(path: pathlib.Path) -> float | None:
    record = path.with_name(f"{path.name}.seconds")
    return float(record.read_text()) if record.exists() else None


def failures(args: argparse.Namespace) -> list[str]:
    """Violations, one per line; prints how close the other units are to the limits."""
    lines, units = [], []
    for path in args.object:
        is_of_one_chip = re.search(r"_sm\d+[af]?$", path.stem) is not None
        limit = args.one_chip_seconds if is_of_one_chip else args.seconds * args.chips
        units.append((path.stem, seconds(path), kernels(path)))
        _, time, count = units[-1]
        if time is not None and time > limit:
            lines.append(f"{path}: {time:.0f} s of CPU time, at most {limit:.0f}")
        if count > args.kernels:
            lines.append(f"{path}: {count} kernels, at most {args.kernels}")
    timed = [(time, name) for name, time, _ in units if time is not None]
    most, holder = max((count, name) for name, _, count in units)
    where = os.path.commonpath([path.parent for path in args.object])
    about = [f"{len(units)} units of {where}", f"{len(units) - len(timed)} of them from ccache"]
    if timed:
        longest, name = max(timed)
        about.append(f"{sum(time for time, _ in timed):.0f} s, the longest {longest:.0f} ({name})")
    if most:
        about.append(f"{sum(count for *_, count in units)} kernels, the most {most} ({holder})")
    print(*about, sep="; ")
    return lines


def main(arguments: list[str] | None = None) -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("object", type=pathlib.Path, nargs="+")
    ap.add_argument("--chips", type=int, default=1, help="number of chips that each unit is compiled for")
    ap.add_argument("--seconds", type=float, default=60)
    ap.add_argument("--one-chip-seconds", type=float, default=120)
    ap.add_argument("--kernels", type=int, default=200)
    args = ap.parse_args(arguments)
    try:
        lines = failures(args)
    except (OSError, NotElfError, struct.error) as error:
        lines = [f"check_units.py: {error}"]
    print(*lines, sep="\n", end="\n" if lines else "", file=sys.stderr)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""python -m baracuda info | ops [NAME] [--family FAMILY] | bench NAME [--dtype DTYPE] [--sizes N ...] | cflags"""

from __future__ import annotations

import argparse
import pathlib
import sys
import textwrap

import baracuda
from baracuda._cli.console import exit_status
from baracuda._cli.describe import alike, describe, guarantee
from baracuda._library.loader import cuda_unavailable
from baracuda._library.op_table import rows
from baracuda._library.vendor import how_to_install, load_lapack, preload, vendors
from baracuda.errors import BaracudaError


def devices() -> list[str]:
    """One line for each CUDA device, or one that says why there is none."""
    if reason := cuda_unavailable():
        return [f"none: {reason}"]
    from cuda.bindings import runtime

    status, count = runtime.cudaGetDeviceCount()
    if status != 0:
        return [f"none: {status.name}"]
    lines = []
    for index in range(count):
        status, found = runtime.cudaGetDeviceProperties(index)
        if status != 0:
            lines.append(f"{index}: {status.name}")
            continue
        name = found.name.decode() if isinstance(found.name, bytes) else found.name
        lines.append(f"{index}: {name}, sm_{found.major}{found.minor}, {found.totalGlobalMem / 2**30:.0f} GiB")
    return lines


def info() -> int:
    print(f"baracuda {baracuda.__version__}, Python {sys.version.split()[0]}")
    for line in devices():
        print(f"CUDA device {line}")
    try:
        library = baracuda.default_library()
    except BaracudaError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"library {library.path}")
    for key, value in library.build_info.items():
        if key != "vendors" and value:
            print(f"  {key:10s} {' '.join(value) if isinstance(value, list) else value}")
    print(f"  {'symbols':10s} {len(library.symbols())}")
    for key, about in vendors(library).items():
        try:
            found = preload(library, key)
        except BaracudaError:
            found = f"not found: {how_to_install(about)}"
        print(f"  {about['name']:10s} {found}")
    if library.backend == "cpu":
        print(f"  {'LAPACK':10s} {load_lapack() or 'this library alone: baracuda[linalg] brings OpenBLAS'}")
    return 0


def ops(name: str | None, family: str | None) -> int:
    if name is not None:
        lines = list(describe(name))
        if lines:
            print(*lines, sep="\n")
            return 0
        meant = f", perhaps {' or '.join(found)}" if (found := alike(name)) else ""
        print(f"no op {name!r}{meant}; `python -m baracuda ops` lists all", file=sys.stderr)
        return 1
    chosen = [row for row in rows() if family in (None, row.family)]
    if not chosen:
        families = sorted({row.family for row in rows()})
        print(f"no family {family!r}; there are {', '.join(families)}", file=sys.stderr)
        return 1
    for row in chosen:
        dtypes = " x ".join(" ".join(slot) for slot in row.slots.values())
        print(f"{row.family:13s} {row.pattern:38s} {dtypes:30s} {guarantee(row)}")
        if row.functions:
            names = f"{{F}}: {' '.join(row.functions)}"
            print(textwrap.fill(names, 116, initial_indent=" " * 14, subsequent_indent=" " * 19))
    return 0


def cflags() -> int:
    """The compiler flags for the headers of C and C++: those in the package, or the checkout's."""
    package = pathlib.Path(__file__).resolve().parent
    folders = [package / "include", package.parent / "include", package.parent / "build" / "include"]
    print(" ".join(f"-I{folder}" for folder in (folders[:1] if folders[0].exists() else folders[1:])))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m baracuda", description="What this installation can do.")
    parser.add_argument("--version", action="version", version=baracuda.__version__)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("info", help="the library in use, how it was built, and the CUDA devices")
    listing = commands.add_parser("ops", help="the op table: dtypes and guarantees; of one op, all there is to know")
    listing.add_argument("name", nargs="*", help="an op or a function: gelu, cross entropy, unary_gelu_backward_f16")
    listing.add_argument("--family", help="only this family")
    timing = commands.add_parser("bench", help="a function on arrays beside those of that name of what is installed")
    timing.add_argument("name", help="a function: gelu, add, softmax, matmul")
    timing.add_argument("--dtype", default="f32", help="f32 unless given")
    timing.add_argument("--sizes", type=int, nargs="+", default=[1 << 10, 1 << 16, 1 << 22], help="numbers of elements")
    commands.add_parser("cflags", help="compiler flags that find baracuda_kernels.h and the headers of C++")
    args = parser.parse_args()
    if args.command is None:
        parser.print_help(sys.stderr)
        return 2
    if args.command == "ops":
        return ops("_".join(args.name) or None, args.family)
    if args.command == "bench":
        from baracuda._cli.bench import run

        return run(args.name, args.dtype, tuple(args.sizes))
    return info() if args.command == "info" else cflags()


if __name__ == "__main__":
    sys.exit(exit_status(main))

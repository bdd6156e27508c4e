"""python -m baracuda info | ops [--family FAMILY]"""

from __future__ import annotations

import argparse
import sys

import baracuda
from baracuda._lib import cuda_unavailable, op_rows
from baracuda.errors import BaracudaError

_GUARANTEE = {"yes": "deterministic", "no": "not deterministic", "workspace": "deterministic with a workspace"}


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
        print(f"  {key:10s} {' '.join(value) if isinstance(value, list) else value}")
    print(f"  {'symbols':10s} {len(library.symbols())}")
    return 0


def ops(family: str | None) -> int:
    rows: dict[str, dict[str, object]] = {}
    choices: dict[str, list[list[str]]] = {}
    for entry in op_rows().values():
        if family in (None, entry["family"]):
            rows[entry["row"]] = entry
            slots = choices.setdefault(entry["row"], [[] for _ in entry["dtypes"]])
            for slot, dtype in zip(slots, entry["dtypes"]):
                if dtype not in slot:
                    slot.append(dtype)
    if not rows:
        families = sorted({entry["family"] for entry in op_rows().values()})
        print(f"no family {family!r}; there are {', '.join(families)}", file=sys.stderr)
        return 1
    for name, entry in rows.items():
        dtypes = " x ".join(" ".join(slot) for slot in choices[name])
        workspace = ", workspace" if entry["workspace"] and entry["deterministic"] == "yes" else ""
        print(f"{entry['family']:13s} {name:38s} {dtypes:30s} {_GUARANTEE[str(entry['deterministic'])]}{workspace}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m baracuda", description="What this installation can do.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="the library in use, how it was built, and the CUDA devices")
    listing = commands.add_parser("ops", help="the op table: dtypes and guarantees")
    listing.add_argument("--family", help="only this family")
    args = parser.parse_args()
    return info() if args.command == "info" else ops(args.family)


if __name__ == "__main__":
    sys.exit(main())

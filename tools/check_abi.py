#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the public header with the symbols that libraries export.

usage: check_abi.py HEADER LIB...

Exit status 1 and a diff if a prototype of the header has no symbol in a library, or a library exports anything else.
The symbols are read from the library's own table (ELF .dynsym), so neither nm nor the CUDA driver is needed.
"""

import argparse
import pathlib
import re
import struct
import sys
from collections.abc import Iterator

SHT_SYMTAB, SHT_DYNSYM, SHN_UNDEF, SHN_ABS = 2, 11, 0, 0xFFF1
GLOBAL, WEAK, UNIQUE = 1, 2, 10
HIDDEN = {1, 2}  # STV_INTERNAL, STV_HIDDEN


class NotElfError(Exception):
    """A file whose symbols cannot be read."""


def header_symbols(text: str) -> set[str]:
    """Functions that a header declares with BARACUDA_API."""
    return set(re.findall(r"^BARACUDA_API [^;(]*?(\w+)\(", text, flags=re.MULTILINE))


def _string(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode()


def sections(path: pathlib.Path, data: bytes) -> list[tuple[int, ...]]:
    """Section headers of a 64-bit little-endian ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise NotElfError(f"{path} is no 64-bit little-endian ELF file")
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    return [struct.unpack_from("<IIQQQQIIQQ", data, start + k * size) for k in range(count)]


def symbols(path: pathlib.Path, data: bytes, table: int) -> Iterator[tuple[str, int, int, int]]:
    """Name, info, other and section of each entry of a symbol table."""
    found = sections(path, data)
    for _, kind, _, _, offset, size, link, _, _, step in found:
        if kind != table:
            continue
        strings = data[found[link][4] : found[link][4] + found[link][5]]
        for at in range(offset, offset + size, step):
            name, info, other, section = struct.unpack_from("<IBBH", data, at)
            yield _string(strings, name), info, other, section


def exported_symbols(path: pathlib.Path) -> set[str]:
    """Names that a shared object defines for others."""
    names = set()
    for name, info, other, section in symbols(path, path.read_bytes(), SHT_DYNSYM):
        visible = info >> 4 in (GLOBAL, WEAK, UNIQUE) and other & 3 not in HIDDEN
        if visible and section not in (SHN_UNDEF, SHN_ABS):
            names.add(name)
    if not names:
        raise NotElfError(f"{path} exports nothing")
    return names


def differences(header: str, library: pathlib.Path) -> list[str]:
    """Lines of a diff, "-" for what is declared only and "+" for what is exported only."""
    declared, exported = header_symbols(header), exported_symbols(library)
    return [f"- {name}" for name in sorted(declared - exported)] + [f"+ {name}" for name in sorted(exported - declared)]


def main(arguments: list[str] | None = None) -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("header", type=pathlib.Path)
    ap.add_argument("library", type=pathlib.Path, nargs="+")
    args = ap.parse_args(arguments)
    failed = False
    for library in args.library:
        try:
            lines = differences(args.header.read_text(), library)
        except (OSError, NotElfError, struct.error) as error:
            lines = [f"check_abi.py: {error}"]
        if lines:
            failed = True
            print(f"--- {args.header}\n+++ {library}", *lines, sep="\n", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Text that every Python installation carries: the source of its standard library.

Files are taken in the order of a hash of their names, until the wanted number of bytes is reached, so that the choice
depends on the installed version alone. A part of the files, the first ones, is held out.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sysconfig
import zlib
from collections.abc import Iterator

# Tables, generated code, tests, and packages that are not the standard library's.
SKIPPED = {"encodings", "pydoc_data", "lib2to3", "test", "tests", "idle_test", "site-packages", "dist-packages"}
LARGEST = 200_000  # bytes of a file


@dataclasses.dataclass(frozen=True)
class Corpus:
    train: bytes
    held_out: bytes
    files: int
    held_out_files: int


def read_corpus(train_bytes: int, held_out_bytes: int) -> Corpus:
    """Whole files of at least so many bytes for both parts, or all there are for the first."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    names = {path.relative_to(root).as_posix(): path for path in _sources(root)}
    held_out: list[bytes] = []
    train: list[bytes] = []
    for name in sorted(names, key=lambda name: (zlib.crc32(name.encode()), name)):
        part = held_out if sum(map(len, held_out)) < held_out_bytes else train
        if part is train and sum(map(len, train)) >= train_bytes:
            break
        part.append(names[name].read_bytes())
    if not train:
        raise SystemExit(f"{root} does not carry enough source of the standard library")
    return Corpus(b"".join(train), b"".join(held_out), len(train), len(held_out))


def _sources(root: pathlib.Path) -> Iterator[pathlib.Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED]
        for path in [pathlib.Path(folder, name) for name in files if name.endswith(".py")]:
            if path.stat().st_size <= LARGEST:
                yield path

# SPDX-License-Identifier: Apache-2.0
"""Reader of GGUF files, versions 2 and 3: metadata, and tensors as views of the mapped file.

The layout is that of GGML's specification: magic, version, counts, key-value pairs, descriptions of tensors, and data
that begins at a multiple of general.alignment. A file is not trusted: every offset and length is checked against its
size, and ModelFileError names what does not fit.
"""

from __future__ import annotations

import dataclasses
import math
import mmap
import os
import struct
from typing import Any

import numpy as np

from baracuda.serve.blocks import TensorFormat, format_of
from baracuda.serve.errors import ModelFileError

Array = np.ndarray[Any, Any]

MAGIC = b"GGUF"
STRING, ARRAY = 8, 9
# NumPy dtypes of the scalar types of metadata, by type id.
SCALARS = {0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8"}
MAX_RANK = 4
MAX_NESTING = 4  # of arrays in arrays


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor of a file: `shape` is row-major, its last extent is the one whose values are adjacent."""

    name: str
    shape: tuple[int, ...]
    format: TensorFormat
    data: Array  # u1 (rows, bytes of a row), where the rows are all extents but the last


@dataclasses.dataclass(frozen=True)
class GgufFile:
    metadata: dict[str, Any]
    tensors: dict[str, Tensor]


def read(path: str | os.PathLike[str]) -> GgufFile:
    """The metadata and tensors of a file. The tensors view the mapped file, which stays open as long as they live."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size < len(MAGIC):
            raise ModelFileError(f"{path} is not a GGUF file: it is shorter than its magic number")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    reader = _Reader(mapped, str(path))
    if mapped[:4] != MAGIC:
        raise ModelFileError(f"{path} is not a GGUF file: it begins with {mapped[:4]!r}")
    reader.at = 4
    version = reader.scalar("<u4")
    if version not in (2, 3):
        raise ModelFileError(f"{path} has GGUF version {version}, must be 2 or 3")
    tensor_count, pair_count = reader.scalar("<u8"), reader.scalar("<u8")
    metadata: dict[str, Any] = {}
    for _ in range(pair_count):
        key = reader.string()
        metadata[key] = reader.value(reader.scalar("<u4"), 0)
    described = [_describe(reader) for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment <= 0:
        raise ModelFileError(f"{path}: general.alignment is {alignment!r}, must be > 0")
    start = -(-reader.at // alignment) * alignment
    whole = np.frombuffer(mapped, np.uint8)
    tensors = {}
    for name, shape, chosen, offset in described:
        if shape[-1] % chosen.values:
            raise ModelFileError(f"{path}: {name} has rows of {shape[-1]} values, {chosen.name} blocks {chosen.values}")
        row_bytes = shape[-1] // chosen.values * chosen.bytes
        rows = math.prod(shape[:-1])
        first, count = start + offset, rows * row_bytes
        if first + count > len(whole):
            raise ModelFileError(f"{path}: {name} ends at byte {first + count} of a file of {len(whole)} bytes")
        tensors[name] = Tensor(name, shape, chosen, whole[first : first + count].reshape(rows, row_bytes))
    return GgufFile(metadata, tensors)


def _describe(reader: _Reader) -> tuple[str, tuple[int, ...], TensorFormat, int]:
    name = reader.string()
    rank = reader.scalar("<u4")
    if not 1 <= rank <= MAX_RANK:
        raise ModelFileError(f"{reader.path}: {name} has {rank} axes, must be 1 to {MAX_RANK}")
    shape = tuple([reader.scalar("<u8") for _ in range(rank)])[::-1]
    chosen = format_of(reader.scalar("<u4"), f"{reader.path}: {name}")
    return name, shape, chosen, reader.scalar("<u8")


class _Reader:
    """Values from the current offset `at` on."""

    def __init__(self, data: mmap.mmap, path: str) -> None:
        self.data, self.path, self.at = data, path, 0

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise ModelFileError(f"{self.path} ends within its metadata, at byte {len(self.data)} of {end} or more")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def scalar(self, dtype: str) -> Any:
        return np.frombuffer(self.take(np.dtype(dtype).itemsize), dtype)[0].item()

    def string(self) -> str:
        return self.take(self.length()).decode("utf-8", "replace")

    def length(self) -> int:
        return int(struct.unpack("<Q", self.take(8))[0])

    def value(self, type_id: int, nesting: int) -> Any:
        """A number, a string, or a list of them."""
        if type_id == STRING:
            return self.string()
        if type_id in SCALARS:
            return self.scalar(SCALARS[type_id])
        if type_id != ARRAY or nesting >= MAX_NESTING:
            raise ModelFileError(f"{self.path}: metadata of the unknown type {type_id} at byte {self.at}")
        element = self.scalar("<u4")
        count = self.length()
        if element in SCALARS:
            dtype = np.dtype(SCALARS[element])
            return np.frombuffer(self.take(count * dtype.itemsize), dtype).tolist()
        return [self.value(element, nesting + 1) for _ in range(count)]

# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of several ranks, that any layout of ranks can read.

    folder/step-00000120/rank-00003.bin       the bytes of ranges of tensors, one after the other
    folder/step-00000120/rank-00003.json      for each range its tensor, split, elements, dtype, offset and CRC-32
    folder/step-00000120/whole.json           metadata, and the size and CRC-32 of each rank's json

Each rank writes what it owns into step-00000120.partial. When all have, rank 0 writes whole.json and renames the
folder, so that a folder of the final name is complete; older ones are removed afterwards, but for the last `keep`. A
reader takes the last step whose files are all there and have their checksums.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from baracuda.distributed.communicator import Communicator
from baracuda.distributed.errors import CheckpointError
from baracuda.distributed.mesh import Split
from baracuda.dtypes import f32_from_bf16

Array = np.ndarray[Any, Any]
_STEP = re.compile(r"step-(\d{8,})")


@dataclasses.dataclass(frozen=True)
class Range:
    """Elements [start, start + len(data)) of the flattened part `part` of `parts` of a tensor of some shape, as its
    split says.
    """

    name: str
    shape: tuple[int, ...]
    split: Split
    part: int
    parts: int
    start: int
    data: Array


def save(
    comm: Communicator, folder: pathlib.Path, step: int, ranges: Iterable[Range], metadata: Mapping[str, Any], *,
    keep: int = 2,
) -> pathlib.Path:  # fmt: skip
    """Write the checkpoint of a step; all ranks call it, and return when it is complete."""
    final = folder / f"step-{step:08}"
    partial = folder / f"{final.name}.partial"
    if comm.rank == 0:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    comm.barrier()
    index: list[dict[str, Any]] = []
    stem = partial / f"rank-{comm.rank:05}"
    with open(stem.with_suffix(".bin"), "wb") as file:
        for each in ranges:
            data = np.ascontiguousarray(each.data).reshape(-1)
            payload = data.view(np.uint8).data
            index.append({
                "name": each.name, "shape": each.shape, "axis": each.split.axis, "blocks": each.split.blocks,
                "part": each.part, "parts": each.parts, "start": each.start, "count": len(data),
                "dtype": data.dtype.name, "at": file.tell(), "crc": zlib.crc32(payload),
            })  # fmt: skip
            file.write(payload)
        _sync(file)
    text = json.dumps(index).encode()
    _write(stem.with_suffix(".json"), text)
    found = comm.all_gather_objects([len(text), zlib.crc32(text)])
    if comm.rank == 0:
        whole = {"step": step, "ranks": found, "metadata": dict(metadata)}
        _write(partial / "whole.json", json.dumps(whole).encode())
        shutil.rmtree(final, ignore_errors=True)
        os.replace(partial, final)
        _sync_folder(folder)
        for old in sorted(_steps(folder))[:-keep]:
            shutil.rmtree(folder / f"step-{old:08}", ignore_errors=True)
    comm.barrier()
    return final


def load(folder: pathlib.Path, step: int | None = None) -> Reader:
    """The last whole checkpoint of a folder, or that of a step. CheckpointError names what is wrong with each."""
    reasons = []
    for number in sorted(_steps(folder) if step is None else [step], reverse=True):
        try:
            return Reader(folder / f"step-{number:08}")
        except CheckpointError as error:
            reasons.append(str(error))
    raise CheckpointError(f"{folder} has no whole checkpoint{': ' * bool(reasons)}{'; '.join(reasons)}")


class Reader(Mapping[str, Array]):
    """Whole tensors by name, each assembled from its ranges when it is asked for; 16-bit floats as f32."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        try:
            whole = json.loads((path / "whole.json").read_bytes())
            self.step, self.metadata = int(whole["step"]), whole["metadata"]
            self._ranges: dict[str, list[tuple[pathlib.Path, dict[str, Any]]]] = {}
            for rank, (length, crc) in enumerate(whole["ranks"]):
                self._add(path / f"rank-{rank:05}", length, crc)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path} cannot be read: {type(error).__name__}: {error}") from error

    def __len__(self) -> int:
        return len(self._ranges)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ranges)

    def __getitem__(self, name: str) -> Array:
        first = self._ranges[name][0][1]
        split, shape, parts = Split(first["axis"], first["blocks"]), tuple(first["shape"]), first["parts"]
        parts = 1 if split.axis is None else parts
        local = split.shape(shape, parts)
        count = int(np.prod(local))
        arrays = [np.empty(count, self._dtype(first)) for _ in range(parts)]
        covered = [np.zeros(count, bool) for _ in range(parts)]
        for file, entry in self._ranges[name]:
            part = entry["part"] if parts > 1 else 0
            where = slice(entry["start"], entry["start"] + entry["count"])
            arrays[part][where] = self._read(file, entry)
            covered[part][where] = True
        if not all(each.all() for each in covered):
            raise CheckpointError(f"{self.path} has only some elements of {name}")
        return split.combine([each.reshape(local) for each in arrays])

    def _add(self, stem: pathlib.Path, length: int, crc: int) -> None:
        text = stem.with_suffix(".json").read_bytes()
        if (len(text), zlib.crc32(text)) != (length, crc):
            raise CheckpointError(f"{stem}.json is damaged")
        file, end = stem.with_suffix(".bin"), 0
        for entry in json.loads(text):
            self._ranges.setdefault(entry["name"], []).append((file, entry))
            end = entry["at"] + entry["count"] * _itemsize(entry["dtype"])
        if file.stat().st_size != end:
            raise CheckpointError(f"{file} has {file.stat().st_size} bytes, must have {end}")

    def _read(self, file: pathlib.Path, entry: Mapping[str, Any]) -> Array:
        count = entry["count"] * _itemsize(entry["dtype"])
        data = np.fromfile(file, np.uint8, count, offset=entry["at"])
        if zlib.crc32(data.data) != entry["crc"]:
            raise CheckpointError(f"{file} is damaged: {entry['name']} has another checksum")
        if entry["dtype"] == "bfloat16":
            return f32_from_bf16(data.view(np.uint16))
        found: Array = data.view(entry["dtype"])
        return found.astype(np.float32) if entry["dtype"] == "float16" else found

    @staticmethod
    def _dtype(entry: Mapping[str, Any]) -> np.dtype[Any]:
        return np.dtype(np.float32 if entry["dtype"] in ("bfloat16", "float16") else entry["dtype"])


def _itemsize(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


def _steps(folder: pathlib.Path) -> list[int]:
    found = [_STEP.fullmatch(path.name) for path in folder.iterdir()] if folder.is_dir() else []
    return [int(match[1]) for match in found if match]


def _write(path: pathlib.Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        _sync(file)


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: pathlib.Path) -> None:
    """The rename itself is on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

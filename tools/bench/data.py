# SPDX-License-Identifier: Apache-2.0
"""Buffers that our launches and the peers share, and float64 sums over sampled rows for the checks."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import baracuda as bk
from tools.bench.record import Operand
from tools.oracle.numerics import FP8, PACKED, STORAGE, bits_type, decode, encode, is_float, itemsize
from tools.oracle.reals import sigmoid, tanh

_BLOCK = 1 << 22  # period of random values without torch
_MOST = 24 << 30  # bytes of operands that problems share
# Fills computed from normal values. Sums of multiples of 1/16 are exact in f32 in any order.
FILLS: dict[str, Callable[[Any], Any]] = {
    "normal": lambda v: v,
    "sixteenths": lambda v: (v * 16).round() / 16,
    "positive": lambda v: abs(v) + 0.0625,
    "above one": lambda v: abs(v) + 1.0,
    "inside one": lambda v: tanh(v * 0.5),
    "probability": sigmoid,
    "counts": lambda v: (abs(v) * 4).round(),
    "flags": lambda v: abs(v) > 0.6745,
}
_TORCH = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "fp8e4m3": "float8_e4m3fn",
    "fp8e5m2": "float8_e5m2", "c32": "complex64", "c64": "complex128", "s4": "uint8", "u4": "uint8", "bool": "bool",
    **{f"{kind[0]}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_NUMPY_LACKS = ("bf16", *FP8, *PACKED)


@dataclasses.dataclass
class Buffer:
    """An operand in memory.

    torch   a tensor that views it with the op's shape; None without torch
    numpy   an array that views it with the op's shape; None on a GPU and for dtypes that NumPy lacks
    owner   the owner of the memory, without torch
    """

    operand: Operand
    dtype: str
    ptr: int
    torch: Any
    numpy: Any
    owner: Any = None

    @property
    def nbytes(self) -> int:
        return self.operand.cells * itemsize(self.dtype) // (2 if self.dtype in PACKED else 1)


class Data:
    """Allocates on the backend of `library`; `torch` is the module, or None; `compiles`: torch.compile is a peer.

    `rounds_up`: buffers have a power of two of elements, so that problems of many sizes share them.
    """

    def __init__(
        self,
        library: bk.Library,
        torch: Any,
        stream: int,
        seed: int = 20,
        fills: Mapping[str, Callable[[Any], Any]] = FILLS,
        *,
        compiles: bool = False,
        rounds_up: bool = False,
    ) -> None:
        self.library = library
        self.compiles = compiles
        self.rounds_up = rounds_up
        self.torch = torch
        self.stream = stream
        self.fills = fills
        self.rng = np.random.default_rng(seed)
        self.device = library.backend
        self._shared: dict[tuple[Any, ...], Any] = {}
        if torch is not None:
            torch.manual_seed(seed)

    def make(self, operand: Operand, dtype: str, slot: int) -> Buffer:
        """Problems share memory: operands of one problem have different slots."""
        count = operand.reach // 2 if dtype in PACKED else operand.reach
        if self.rounds_up:
            count = 1 << max(count - 1, 0).bit_length()
        key = (str(operand.fill), slot, dtype, count)
        if callable(operand.fill):
            raise TypeError("indices are made by index()")
        if key not in self._shared:
            if sum(flat.nbytes for flat in self._shared.values()) > _MOST:
                self._shared.clear()
            self._shared[key] = self._flat(operand.fill, dtype, count)
        return self._view(self._shared[key], operand, dtype)

    def index(self, operand: Operand, dtype: str, values: np.ndarray[Any, Any]) -> Buffer:
        values = np.ascontiguousarray(values, STORAGE[dtype])
        if self.torch is not None:
            return self._view(self.torch.from_numpy(values).to(self.device), operand, dtype)
        return self._view(bk.upload(values, library=self.library), operand, dtype)

    def _flat(self, fill: str | float, dtype: str, count: int) -> Any:
        """A flat tensor, or a TensorRef without torch."""
        if self.torch is None:
            if fill == "empty":
                values = np.zeros(min(count, _BLOCK))
            elif isinstance(fill, float):
                values = np.full(min(count, _BLOCK), fill)
            else:
                values = np.asarray(self.fills[fill](self.rng.standard_normal(min(count, _BLOCK))), np.float64)
            bits = encode(values if is_float(dtype) else values.astype(np.int64), dtype)
            return bk.upload(np.resize(bits, count).view(np.uint8), bk.u8, library=self.library)
        torch, kind = self.torch, getattr(self.torch, _TORCH[dtype])
        if fill == "empty":
            return torch.empty(count, dtype=kind, device=self.device)
        if isinstance(fill, float):
            return torch.full((count,), fill, device=self.device).to(kind)
        if dtype in PACKED:
            return torch.randint(0, 256, (count,), dtype=torch.uint8, device=self.device)
        wide = torch.float64 if dtype in ("f64", "c64") else torch.float32
        values = self.fills[fill](torch.randn(count, dtype=wide, device=self.device))
        # torch has few ops for unsigned integers of more than 8 bits
        unsigned = dtype in ("u16", "u32", "u64")
        return values.to(getattr(torch, _TORCH[f"i{dtype[1:]}"])).view(kind) if unsigned else values.to(kind)

    def _view(self, flat: Any, operand: Operand, dtype: str) -> Buffer:
        strides = operand.steps
        shift = operand.offset * itemsize(dtype)
        if self.torch is not None:
            pointer = flat.data_ptr() + shift
            view = flat if dtype in PACKED else flat.as_strided(operand.shape, strides, operand.offset)
            plain = self.device == "cpu" and dtype not in _NUMPY_LACKS
            return Buffer(operand, dtype, pointer, view, view.numpy() if plain else None)
        array = None
        if self.device == "cpu" and dtype not in _NUMPY_LACKS:
            kind = np.dtype({"f16": np.float16, "bool": np.bool_}.get(dtype, STORAGE[dtype]))
            memory = np.frombuffer((ctypes.c_char * flat.nbytes).from_address(flat.ptr), kind)[operand.offset :]
            steps = [s * kind.itemsize for s in strides]
            array = np.lib.stride_tricks.as_strided(memory, operand.shape, steps)
        return Buffer(operand, dtype, flat.ptr + shift, None, array, flat)

    # --- Samples for checks ------------------------------------------------------------------------------------------

    def cells(self, buffer: Buffer, positions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Elements at flat row-major positions; integers stay integers."""
        where = np.unravel_index(positions, buffer.operand.shape)
        if buffer.torch is not None and buffer.dtype not in PACKED:
            signed = getattr(self.torch, f"int{8 * itemsize(buffer.dtype)}")  # which every device can index
            at = [self.torch.from_numpy(np.ascontiguousarray(w)).to(self.device) for w in where]
            bits = buffer.torch.view(signed)[tuple(at)].cpu().numpy()
            return decode(bits.view(bits_type(buffer.dtype)), buffer.dtype)
        at = sum(w * s for w, s in zip(where, buffer.operand.steps))
        return self._host(buffer)[at]

    def rows(self, buffer: Buffer, index: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Rows of the buffer reshaped to [-1, last extent], in float64."""
        shape = buffer.operand.shape
        width = shape[-1] if len(shape) > 1 else 1
        if buffer.torch is not None:
            where = self.torch.from_numpy(np.ascontiguousarray(index)).to(buffer.torch.device)
            return buffer.torch.reshape(-1, width)[where].double().cpu().numpy()
        return self._host(buffer).reshape(-1, width)[index].astype(np.float64)

    def row_sums(
        self, buffer: Buffer, index: np.ndarray[Any, Any]
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Sum of the given rows and sum of their absolute values, in float64."""
        if buffer.torch is not None:
            where = self.torch.from_numpy(np.ascontiguousarray(index)).to(buffer.torch.device)
            chosen = buffer.torch[where].double()
            return chosen.sum(0).cpu().numpy(), chosen.abs().sum(0).cpu().numpy()
        chosen = self._host(buffer).reshape(buffer.operand.shape)[index].astype(np.float64)
        return chosen.sum(0), np.abs(chosen).sum(0)

    def _host(self, buffer: Buffer) -> np.ndarray[Any, Any]:
        """The flat memory up to the last element."""
        count = buffer.operand.reach - buffer.operand.offset
        nbytes = count * itemsize(buffer.dtype) // (2 if buffer.dtype in PACKED else 1)
        view = bk.TensorRef(buffer.ptr, (nbytes,), bk.u8)
        raw = bk.download(view, library=self.library)
        if buffer.dtype in PACKED:
            return decode(np.stack([raw & 15, raw >> 4], -1).reshape(-1), buffer.dtype)
        return decode(raw.view(bits_type(buffer.dtype)), buffer.dtype)


def bytes_view(buffer: Buffer) -> bk.TensorRef:
    """The memory of a row-major operand, to clear it."""
    return bk.TensorRef(buffer.ptr, (buffer.nbytes,), bk.u8)

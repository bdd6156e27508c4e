"""Buffers that our launches and the peers share, and float64 sums over sampled rows for the check before timing."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

import numpy as np

import baracuda as bk

_BLOCK = 1 << 22  # without torch, random values repeat after this many


@dataclasses.dataclass
class Buffer:
    view: bk.TensorRef
    torch: Any  # torch tensor over the same memory, None without torch
    numpy: Any  # NumPy array over the same memory, None on a GPU and for bf16

    @property
    def nbytes(self) -> int:
        return self.view.nbytes


class Data:
    """Allocates on the backend of `library`; `torch` is the module, or None."""

    def __init__(self, library: bk.Library, torch: Any, stream: int, seed: int = 20) -> None:
        self.library = library
        self.torch = torch
        self.stream = stream
        self.rng = np.random.default_rng(seed)
        self.device = library.backend
        if torch is not None:
            torch.manual_seed(seed)

    def torch_dtype(self, element: bk.ElementKind) -> Any:
        return getattr(self.torch, {"f16": "float16", "bf16": "bfloat16"}.get(element.token, element.numpy_dtype.name))

    def empty(self, shape: tuple[int, ...], element: bk.ElementKind) -> Buffer:
        if self.torch is not None:
            return self._of_torch(self.torch.empty(shape, dtype=self.torch_dtype(element), device=self.device))
        return self._of_view(bk.empty(shape, element, library=self.library))

    def normal(self, shape: tuple[int, ...], element: bk.ElementKind) -> Buffer:
        """Normal values, cut to multiples of 1/16: their sums in f32 are exact in any order."""
        if self.torch is not None:
            values = self.torch.randn(shape, dtype=self.torch_dtype(element), device=self.device)
            return self._of_torch(values.mul_(16).round_().div_(16))
        block = np.round(self.rng.standard_normal(_BLOCK, np.float32) * 16) / 16
        return self._of_view(bk.upload(np.resize(block, shape), element, library=self.library))

    def index(self, values: np.ndarray[Any, Any], element: bk.ElementKind = bk.i64) -> Buffer:
        if self.torch is not None:
            host = self.torch.from_numpy(np.ascontiguousarray(values, element.numpy_dtype))
            return self._of_torch(host.to(self.device) if self.device == "cuda" else host)
        return self._of_view(bk.upload(values, element, library=self.library))

    def rows(self, buffer: Buffer, index: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Rows of the buffer seen as [-1, last extent], in float64."""
        width = buffer.view.shape[-1] if buffer.view.rank > 1 else 1
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
        chosen = self._host(buffer)[index].astype(np.float64)
        return chosen.sum(0), np.abs(chosen).sum(0)

    def _host(self, buffer: Buffer) -> np.ndarray[Any, Any]:
        return buffer.numpy if buffer.numpy is not None else bk.download(buffer.view, library=self.library)

    def _of_torch(self, tensor: Any) -> Buffer:
        plain = self.device == "cpu" and tensor.dtype is not self.torch.bfloat16
        return Buffer(bk.tensor(tensor), tensor, tensor.numpy() if plain else None)

    def _of_view(self, view: bk.TensorRef) -> Buffer:
        array = None
        if self.device == "cpu" and view.dtype is not bk.bf16:
            block = (ctypes.c_char * view.nbytes).from_address(view.ptr)
            array = np.ndarray(view.shape, view.dtype.numpy_dtype, block)
        return Buffer(view, None, array)

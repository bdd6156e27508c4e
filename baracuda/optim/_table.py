# SPDX-License-Identifier: Apache-2.0
"""Tables of tensors in device memory (optim_table_fill in the C header), which steps and norms read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baracuda._arrays.frameworks import Framework
from baracuda._library.loader import Library
from baracuda.optim._arrays import Parameter, address_of

LISTS = ("params", "grads", "state0", "state1", "state2", "master", "ema")


class Table:
    """The table of some parameters of one dtype and device. Lists of addresses are those of LISTS."""

    def __init__(self, like: Parameter, sizes: Sequence[int]) -> None:
        self.like, self.library, self.framework = like, like.library, like.framework
        lib, ffi = self.library.lib, self.library.ffi
        self.sizes = np.array(sizes, np.int64)
        self.n = len(self.sizes)
        self._sizes = ffi.cast("int64_t *", self.sizes.ctypes.data)
        self.chunks = int(lib.baracuda_kernels_optim_chunk_count(self.n, self._sizes))
        if self.chunks < 0:
            self.library.check("optim_chunk_count", 2)
        self.nbytes = int(lib.baracuda_kernels_optim_table_bytes(self.n, self.chunks))
        self.host = np.zeros(self.nbytes // 8 + 1, np.uint64)
        self.on_device = self.library.backend == "cuda"
        self.memory = self.framework.bytes(self.nbytes + 16, like.array) if self.on_device else self.host
        at = address_of(self.framework, self.memory) if self.on_device else self.host.ctypes.data
        self.pointer = ffi.cast("void *", (at + 15) // 16 * 16 if self.on_device else at)
        self._host = ffi.cast("void *", self.host.ctypes.data)

    def fill(self, lists: Mapping[str, Sequence[int]], stream: Any, is_refill: bool = False) -> None:
        """Write all addresses. A refill leaves the tensors of the chunks, the end and most of a table, as they are on
        the device; the fill before has to have run there.
        """
        ffi, lib = self.library.ffi, self.library.lib
        arrays = {name: np.array(lists[name], np.uint64) if lists.get(name) else None for name in LISTS}
        given = [ffi.NULL if a is None else ffi.cast("void **", a.ctypes.data) for a in arrays.values()]
        status = lib.baracuda_kernels_optim_table_fill(self.n, self._sizes, *given, self._host, self.nbytes)
        self.library.check("optim_table_fill", status)
        self._upload(int(lib.baracuda_kernels_optim_table_bytes(self.n, 0)) if is_refill else self.nbytes, stream)

    def set_grads(self, addresses: Sequence[int], stream: Any) -> None:
        self.host[: self.n] = addresses
        self._upload(8 * self.n, stream)

    def _upload(self, nbytes: int, stream: Any) -> None:
        if self.on_device:
            run = self.library.lib.baracuda_kernels_optim_upload_run
            self.library.check("optim_upload", run(self._host, self.pointer, nbytes, stream))


def stream_of(framework: Framework, library: Library, like: Any) -> Any:
    """The framework's current stream as C takes it."""
    handle = framework.stream(like) if library.backend == "cuda" else 0
    return library.ffi.cast("void *", handle) if handle else library.ffi.NULL

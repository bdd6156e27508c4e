# SPDX-License-Identifier: Apache-2.0
"""Memory of either backend, and arrays in it between guard bytes."""

import numpy as np

from tools.oracle.numerics import PACKED, bits_type, decode, itemsize, pack, unpack

GUARD = 1024  # bytes at each end; a multiple of every vector width
NAN_POISON, FINITE_POISON = 0xFF, 0xA5
INDEX_GUARD = 0x00  # an index read from beyond its array would be valid


class HostMemory:
    """The CPU library's device memory."""

    class Block:
        def __init__(self, nbytes: int):
            self._owner = np.empty(nbytes + 256, np.uint8)
            address = self._owner.__array_interface__["data"][0]  # much faster than .ctypes
            start = -address % 256
            self._bytes = self._owner[start : start + nbytes]
            self.pointer = address + start

        def write(self, data: np.ndarray) -> None:
            self._bytes[: data.size] = data

        def read(self) -> np.ndarray:
            """The current bytes, as memory that must not be written."""
            return self._bytes

    def allocate(self, nbytes: int) -> "HostMemory.Block":
        return self.Block(nbytes)

    def synchronize(self) -> None:
        pass


class CudaMemory:
    """Memory of the current CUDA device."""

    class Block:
        def __init__(self, runtime, nbytes: int):
            self._runtime = runtime
            self.nbytes = nbytes
            self.pointer = int(cuda_check(runtime.cudaMalloc(max(nbytes, 1))))

        def write(self, data: np.ndarray) -> None:
            kind = self._runtime.cudaMemcpyKind.cudaMemcpyHostToDevice
            cuda_check(self._runtime.cudaMemcpy(self.pointer, data.ctypes.data, data.size, kind))
            # A copy from pageable memory may return before it has arrived, and not every stream waits for it.
            cuda_check(self._runtime.cudaStreamSynchronize(0))

        def read(self) -> np.ndarray:
            data = np.empty(self.nbytes, np.uint8)
            kind = self._runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
            cuda_check(self._runtime.cudaMemcpy(data.ctypes.data, self.pointer, data.size, kind))
            return data

        def __del__(self):
            if getattr(self, "pointer", 0):
                self._runtime.cudaFree(self.pointer)

    def __init__(self):
        from cuda.bindings import runtime

        self.runtime = runtime

    def allocate(self, nbytes: int) -> "CudaMemory.Block":
        return self.Block(self.runtime, nbytes)

    def synchronize(self) -> None:
        cuda_check(self.runtime.cudaDeviceSynchronize())


def cuda_check(result):
    """The value of a cuda.bindings call, which must have succeeded."""
    error, *values = result
    assert int(error) == 0, f"CUDA call failed: {error!r}"
    return values[0] if len(values) == 1 else tuple(values)


_memories: dict[str, object] = {}


def memory_of(backend: str):
    if backend not in _memories:
        _memories[backend] = CudaMemory() if backend == "cuda" else HostMemory()
    return _memories[backend]


def dense_strides(shape) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


class Guarded:
    """An array in backend memory between guard bytes; all elements that `bits` does not set are poisoned.

    A packed dtype (s4, u4) has one axis and no strides; offset then counts bytes.

    strides  in elements, any sign; default row-major
    offset   elements by which the first one misses a 256-byte boundary
    shift    bytes by which the pointer is off (for misaligned operands)
    """

    def __init__(self, memory, dtype, shape, strides=None, bits=None, poison=NAN_POISON, offset=0, shift=0):
        self.dtype, self.shape, size = dtype, tuple(shape), itemsize(dtype)
        self._extents = (-(-self.shape[0] // 2),) if dtype in PACKED else self.shape  # extents in memory
        strides = dense_strides(self._extents) if strides is None else tuple(strides)
        empty = 0 in self.shape
        steps = [0] if empty else [(e - 1) * s for e, s in zip(self._extents, strides)]
        low, high = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
        span = 0 if empty else high - low + 1
        total = 2 * GUARD + (offset + span) * size
        self._first = GUARD + (offset - low) * size
        self._strides = tuple(s * size for s in strides)
        self.image = np.full(total, poison, np.uint8)
        if bits is not None:
            self._cells(self.image)[...] = self._stored(bits)
        self.block = memory.allocate(total)
        self.block.write(self.image)
        self.pointer = self.block.pointer + self._first + shift

    @property
    def step(self) -> int:
        """Bytes from one index of the first axis to the next."""
        return self._strides[0]

    def _cells(self, image: np.ndarray) -> np.ndarray:
        if 0 in self.shape:
            return np.empty(self._extents, bits_type(self.dtype))
        return np.ndarray(self._extents, bits_type(self.dtype), image, self._first, self._strides)

    def _stored(self, bits: np.ndarray) -> np.ndarray:
        return pack(bits) if self.dtype in PACKED else bits

    def set_bits(self, bits: np.ndarray) -> None:
        """Replaces the elements, here and on the device."""
        self._cells(self.image)[...] = self._stored(bits)
        self.block.write(self.image)

    def bits(self) -> np.ndarray:
        """The elements as they are in memory."""
        cells = self._cells(self.block.read())
        return unpack(cells, self.shape[0]) if self.dtype in PACKED else cells.copy()

    def values(self) -> np.ndarray:
        return decode(self.bits(), self.dtype)

    def check(self, name: str, *, written: bool) -> None:
        """Asserts that no byte outside the elements has changed, and no element either unless `written`."""
        now = self.block.read()
        if (now == self.image).all():
            return
        expected = self.image.copy()
        if written:
            self._cells(expected)[...] = self._cells(now)
        where = np.flatnonzero(now != expected)
        assert where.size == 0, (
            f"{name}: {where.size} bytes changed that the op may not write, the first at byte "
            f"{where[0] - self._first} from the array's first cell"
        )


def guarded_bytes(memory, nbytes: int, *, offset: int = 0, poison: int = FINITE_POISON) -> Guarded:
    """A workspace: bytes at any alignment, with arbitrary content."""
    return Guarded(memory, "u8", (nbytes,), poison=poison, offset=offset)

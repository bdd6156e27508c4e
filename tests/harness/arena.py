# SPDX-License-Identifier: Apache-2.0
"""Memory between guard pages: an access past an array's end is a segmentation fault."""

import ctypes
import mmap

import numpy as np

PAGE = mmap.PAGESIZE
NONE, READ_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Slot:
    """`pages` pages, with a page without access before and after them."""

    def __init__(self, pages: int):
        self.size = pages * PAGE
        total = self.size + 2 * PAGE
        base = _libc.mmap(None, total, NONE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        assert base not in (None, ctypes.c_void_p(-1).value), "mmap failed"
        self.address = base + PAGE
        assert _libc.mprotect(self.address, self.size, READ_WRITE) == 0, "mprotect failed"
        self.bytes = np.frombuffer((ctypes.c_uint8 * self.size).from_address(self.address), np.uint8)

    def holds(self, first: int, end: int) -> bool:
        return self.address <= first and end <= self.address + self.size

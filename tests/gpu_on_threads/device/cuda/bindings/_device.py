# SPDX-License-Identifier: Apache-2.0
"""The device of the library whose kernels run on fibers: its memory, which the host cannot read, and its functions."""

import bisect
import ctypes
import mmap
import os
import threading

_SIZE = 1 << 34  # address space; only written pages take memory
_ALIGNMENT = 512
_FREED = 0xDD
_LONG = 1 << 16  # longer blocks are returned to the system when freed

_P, _N, _I = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_FUNCTIONS = {
    "memory": (None, _P, _N),
    "stream": (_N, _I),
    "close": (_I, _N),
    "set": (_I, _N, _P, _I, _N),
    "copy": (_I, _N, _P, _P, _N),
    "await": (_I, _N, _P, ctypes.c_uint32),
    "synchronize": (_I, _N),
    "synchronize_all": (None,),
    "query": (_I, _N),
    "begin": (_I, _N),
    "end": (_P, _N),
    "is_capturing": (_I, _N),
    "instance": (_P, _P),
    "launch": (_I, _P, _N),
    "drop": (None, _P),
}


class Device:
    def __init__(self):
        library = ctypes.CDLL(os.environ["BARACUDA_LIB"])
        for name, (result, *parameters) in _FUNCTIONS.items():
            function = library[f"baracuda_kernels_device_{name}"]
            function.restype, function.argtypes = result, parameters
            setattr(self, f"{name}_", function)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = _P
        libc.mmap.argtypes = (_P, _N, _I, _I, _I, ctypes.c_long)
        unreserved = 0x4000  # MAP_NORESERVE
        self.begin = libc.mmap(None, _SIZE, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | unreserved, -1, 0)
        if self.begin == _P(-1).value:
            raise MemoryError(f"{_SIZE} bytes of address space")
        self._give_back = libc.madvise
        self._give_back.argtypes = (_P, _N, _I)
        self.memory_(self.begin, _SIZE)
        self._lock = threading.RLock()  # a finaliser may free memory while this thread has it
        self._free = [(self.begin, _SIZE)]  # (address, bytes), by address
        self._taken = {}

    def holds(self, address):
        return self.begin <= address < self.begin + _SIZE

    def allocate(self, nbytes):
        """An address, or 0 if no free block is large enough."""
        size = -(-max(nbytes, 1) // _ALIGNMENT) * _ALIGNMENT
        with self._lock:
            for i, (address, available) in enumerate(self._free):
                if available >= size:
                    self._free[i : i + 1] = [(address + size, available - size)] if available > size else []
                    self._taken[address] = size
                    break
            else:
                return 0
        return address

    def free(self, address):
        """Whether the address was allocated; finishes all work first."""
        self.synchronize_all_()
        with self._lock:
            size = self._taken.pop(address, 0)
        if not size:
            return False
        if size < _LONG:
            self.set_(1, address, _FREED, size)
            self.synchronize_(1)
        else:
            page = mmap.PAGESIZE
            first, last = -(-address // page) * page, (address + size) // page * page
            self._give_back(first, last - first, 4)  # MADV_DONTNEED
        with self._lock:
            bisect.insort(self._free, (address, size))
            self._merge_free()
        return True

    def _merge_free(self):
        merged = self._free[:1]
        for address, size in self._free[1:]:
            last, length = merged[-1]
            if last + length == address:
                merged[-1] = (last, length + size)
            else:
                merged.append((address, size))
        self._free = merged


DEVICE = Device()

# SPDX-License-Identifier: Apache-2.0
"""Arrays in the memory of the library under test, with guards around them, and their values."""

import numpy as np

import baracuda as bk
from harness import NAN_POISON, Guarded, decode, encode, memory_of


class Device:
    """Makes arrays that functions take, with `offset` elements before the first 256-byte boundary."""

    def __init__(self, library):
        self.library, self.memory, self.live = library, memory_of(library.backend), []

    def put(self, values, dtype="f32", offset=0):
        values = np.asarray(values, np.float64 if dtype[0] in "fb" else np.int64)
        return self._ref(Guarded(self.memory, dtype, values.shape, bits=encode(values, dtype), offset=offset))

    def poison(self, shape, dtype="f32"):
        return self._ref(Guarded(self.memory, dtype, shape, poison=NAN_POISON))

    def _ref(self, array):
        self.live.append(array)
        return bk.TensorRef(array.pointer, array.shape, array.dtype, device=self.library.backend, owner=array)

    def bits(self, ref):
        self.memory.synchronize()
        return ref.owner.bits()

    def values(self, ref):
        """Numbers of an array of this class, or of one that baracuda made."""
        if isinstance(ref.owner, Guarded):
            return np.asarray(decode(self.bits(ref), ref.dtype.symbol), np.float64)
        return np.asarray(bk.download(ref, library=self.library), np.float64)

    def set(self, ref, values):
        ref.owner.set_bits(encode(np.asarray(values, np.float64), ref.dtype.symbol))

    def check(self):
        """Nothing was written beside the arrays."""
        self.memory.synchronize()
        for array in self.live:
            array.check("an array", written=True)

# SPDX-License-Identifier: Apache-2.0
"""The reference's symbols of bilinear interpolation, which are functions beside the rows: against float64 matrices,
both names, and what they refuse."""

import numpy as np
import pytest

from cases.model import Draw
from cases.resample.matrices import LINEAR, applied, matrix
from harness import NAN_POISON, Guarded, decode, encode, last_error, memory_of

BOUND = {"f32": 1e-5, "f64": 1e-12, "f16": 5e-3, "bf16": 4e-2}
FORWARD = ("interpolate_bilinear_2d_{}_run", "upsample_bilinear_2d_fw_{}_run")
BACKWARD = ("interpolate_bilinear_2d_backward_{}_run", "upsample_bilinear_2d_bw_{}_run")
PROBLEMS = [  # extents, align_corners, factors
    ((2, 3, 4, 5, 8, 10), 0, (0.0, 0.0)), ((1, 2, 7, 6, 3, 9), 0, (0.0, 0.0)), ((1, 2, 7, 6, 3, 9), 1, (0.0, 0.0)),
    ((1, 3, 5, 4, 11, 8), 0, (2.2, 2.0)), ((1, 2, 4, 4, 6, 6), 1, (1.5, 0.0)), ((1, 1, 1, 1, 1, 3), 1, (0.0, 0.0)),
    ((2, 2, 33, 17, 40, 60), 0, (0.0, 0.0)),
]  # fmt: skip


class Device:
    """Arrays in the library's memory, and calls of its functions by name."""

    def __init__(self, library):
        self.library, self.memory, self.live = library, memory_of(library.backend), []

    def put(self, values, dtype):
        array = Guarded(self.memory, dtype, values.shape, bits=encode(values, dtype))
        self.live.append(array)
        return array

    def empty(self, shape, dtype):
        array = Guarded(self.memory, dtype, shape, poison=NAN_POISON)
        self.live.append(array)
        return array

    def values(self, array):
        self.memory.synchronize()
        return np.asarray(decode(array.bits(), array.dtype))

    def call(self, name, *arguments):
        ffi = self.library.ffi
        given = [
            ffi.cast("void*", a.pointer) if isinstance(a, Guarded) else ffi.NULL if a is None else a for a in arguments
        ]
        return getattr(self.library.lib, f"baracuda_kernels_{name}")(*given)


@pytest.fixture
def device(library):
    return Device(library)


def matrices(extents, align, factors):
    return [matrix(LINEAR, n, m, bool(align), f) for n, m, f in zip(extents[2:4], extents[4:], factors)]


@pytest.mark.parametrize("names", [0, 1])
@pytest.mark.parametrize("dtype", BOUND)
def test_values(device, dtype, names):
    for extents, align, factors in PROBLEMS:
        n, c, ih, iw, oh, ow = extents
        draw, of = Draw({"T": dtype}, "bilinear"), matrices(extents, align, factors)
        x = draw.floats((n, c, ih, iw)).values
        y = device.empty((n, c, oh, ow), dtype)
        tail = (None, 0, align, *factors, None)
        assert device.call(FORWARD[names].format(dtype), *extents, device.put(x, dtype), y, *tail) == 0
        wanted = applied(of, x)
        assert np.all(np.abs(device.values(y) - wanted) <= BOUND[dtype] * np.maximum(np.abs(wanted), 1))
        dy, before = draw.floats((n, c, oh, ow)).values, draw.floats((n, c, ih, iw)).values
        dx = device.put(before, dtype)
        assert device.call(BACKWARD[names].format(dtype), *extents, device.put(dy, dtype), dx, *tail) == 0
        wanted = before + applied([each.T for each in of], dy)
        assert np.all(np.abs(device.values(dx) - wanted) <= 10 * BOUND[dtype] * np.maximum(np.abs(wanted), 1))


@pytest.mark.parametrize("name", ["interpolate_bilinear_2d", "interpolate_bilinear_2d_backward"])
def test_refusals(device, name):
    x, y = (device.put(np.zeros(shape), "f32") for shape in ((1, 2, 3, 4), (1, 2, 5, 6)))
    from_, to = (y, x) if "backward" in name else (x, y)
    plain = [1, 2, 3, 4, 5, 6]

    def run(extents=plain, pointers=(from_, to), align=0, factors=(0.0, 0.0)):
        can = device.call(f"{name}_f32_can_implement", *extents, *pointers, None, 0, align, *factors)
        return can, device.call(f"{name}_f32_run", *extents, *pointers, None, 0, align, *factors, None)

    assert run() == (0, 0)
    for k, extent in enumerate(("n", "c", "ih", "iw", "oh", "ow")):
        assert run([*plain[:k], -3, *plain[k + 1 :]]) == (2, 2)
        assert f"{extent} is -3" in last_error(device.library)
    for k, text in ((0, "scale_h_factor is -1"), (1, "scale_w_factor is")):
        factors = (-1.0, 0.0) if k == 0 else (0.0, float("inf"))
        assert run(factors=factors) == (2, 2)
        assert text in last_error(device.library)
    assert run(pointers=(None, to)) == (0, 2)
    assert run(pointers=(from_, None)) == (0, 2)
    assert run(pointers=(from_, from_)) == (0, 2)  # they overlap
    assert run([1, 2, 0, 4, 5, 6]) == (2, 2)
    for empty in ([0, 2, 3, 4, 5, 6], [1, 0, 3, 4, 5, 6]):
        assert run(empty, (None, None)) == (0, 0)

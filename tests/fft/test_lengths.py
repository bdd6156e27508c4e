# SPDX-License-Identifier: Apache-2.0
"""bk.fft along rows and columns of lengths that passes take whole, in parts or as convolutions, beside NumPy's in f64.

Numbers of fibers are around those of vectors; real fibers end in zeros after even and odd numbers of elements.
"""

import numpy as np
import pytest

import baracuda as bk

pytestmark = [pytest.mark.host_arrays, pytest.mark.needs_ops("fft_c2c_c32", "fft_r2c_f32", "fft_c2r_c32")]
LENGTHS = (61, 122, 128, 130, 243, 256, 257, 1000, 1023, 2048, 4097, 5120, 5121, 10240, 10400)
TOLERANCE = {np.float32: 1e-6, np.float64: 3e-15}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(n, dtype):
    rng = np.random.default_rng(n)
    for fibers in (1, 17):
        for axis in (0, 1):
            shape = (n, fibers) if axis == 0 else (fibers, n)
            x = rng.standard_normal(shape).astype(dtype)
            z = (x + 1j * rng.standard_normal(shape)).astype(np.result_type(dtype, np.complex64))
            for name, values, length in (
                ("fft", z, n), ("ifft", z, n), ("rfft", x, n), ("irfft", z, n), ("rfft", x, 2 * n), ("rfft", x, n + 3)
            ):  # fmt: skip
                wide = values.astype(np.result_type(values, np.float64))
                want = getattr(np.fft, name)(wide, length, axis)
                got = getattr(bk.fft, name)(values, length, axis)
                assert np.linalg.norm(got - want) <= TOLERANCE[dtype] * np.linalg.norm(want), (
                    name,
                    shape,
                    axis,
                    length,
                )

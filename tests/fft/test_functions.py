# SPDX-License-Identifier: Apache-2.0
"""bk.fft beside NumPy's transforms in f64: all names, norms, lengths, axes and strides."""

import itertools

import numpy as np
import pytest

import baracuda as bk

pytestmark = [
    pytest.mark.host_arrays,
    pytest.mark.needs_ops("fft_c2c_c32", "fft_r2c_f32", "fft_c2r_c32", "fft_cosine_f32", "roll_f32"),
]
REAL_RESULTS = ("irfft", "hfft")
REAL_ARGUMENTS = ("rfft", "ihfft")
SHAPES = ((1,), (7,), (3, 5), (2, 6, 4), (2, 3, 101))
TOLERANCE = {np.float32: 3e-6, np.float64: 1e-14}


def arrays(shape, dtype, seed=0):
    """A real array, a complex one, and others of the same values in other layouts."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape).astype(dtype)
    z = (x + 1j * rng.standard_normal(shape)).astype(np.result_type(dtype, np.complex64))
    return [x, z, z[..., ::-1], np.asfortranarray(z), np.asfortranarray(x)]


def near(got, want, dtype, what):
    assert got.shape == want.shape, what
    single = np.result_type(dtype, np.complex64) if np.iscomplexobj(want) else dtype
    assert got.dtype == single, what
    size = np.sqrt(np.sum(np.abs(want) ** 2)) if want.size else 0
    assert np.abs(got - want).max(initial=0) <= TOLERANCE[dtype] * max(size, 1), what


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_along_an_axis(name, dtype):
    for shape in SHAPES:
        for x, axis in itertools.product(arrays(shape, dtype), range(-len(shape), len(shape))):
            if name in REAL_ARGUMENTS and np.iscomplexobj(x):
                continue
            for n in (None, 1, 4, shape[axis] + 3, 2 * shape[axis] - 1):
                if n is None and name in REAL_RESULTS and shape[axis] == 1:
                    continue
                norm = ("backward", "ortho", "forward", None)[(axis + (n or 0)) % 4]
                want = getattr(np.fft, name)(x.astype(np.result_type(x, np.float64)), n, axis, norm)
                near(getattr(bk.fft, name)(x, n, axis, norm), want, dtype, (name, shape, axis, n, norm))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_along_axes(name, dtype):
    for shape in ((3, 5), (2, 6, 4), (5, 4, 3, 2)):
        for x, axes in itertools.product(arrays(shape, dtype), itertools.permutations(range(len(shape)), 2)):
            if name in REAL_ARGUMENTS and np.iscomplexobj(x):
                continue
            wide = x.astype(np.result_type(x, np.float64))
            for s in (None, (4, 3), (7, 2)):
                want = getattr(np.fft, f"{name}n")(wide, s, axes)
                near(getattr(bk.fft, f"{name}n")(x, s, axes), want, dtype, (name, shape, axes, s))
                near(getattr(bk.fft, f"{name}2")(x, s, axes), want, dtype, (name, shape, axes, s))
        x = arrays(shape, dtype)[0]
        near(getattr(bk.fft, f"{name}n")(x), getattr(np.fft, f"{name}n")(x.astype(np.float64)), dtype, (name, shape))


@pytest.mark.parametrize(
    "n", [2, 3, 13, 17, 61, 64, 97, 101, 127, 194, 211, 509, 1000, 1018, 1021, 2048, 4093, 4096, 10007]
)
def test_lengths(n):
    """Primes, twice primes, powers and products, which take other paths, and back again."""
    for dtype in (np.float32, np.float64):
        x, z, *_ = arrays((2, n), dtype, n)
        near(bk.fft.fft(z), np.fft.fft(z.astype(np.complex128)), dtype, n)
        near(bk.fft.rfft(x), np.fft.rfft(x.astype(np.float64)), dtype, n)
        near(bk.fft.ifft(bk.fft.fft(z)), z, dtype, n)
        near(bk.fft.irfft(bk.fft.rfft(x), n), x, dtype, n)
        near(bk.fft.fft(np.ascontiguousarray(z.T), axis=0), np.fft.fft(z.astype(np.complex128)).T, dtype, n)


@pytest.mark.parametrize("name", ["hfft", "ihfft"])
def test_hermitian_forms_of_several_axes(name):
    x = arrays((4, 6, 5), np.float64)[0 if name == "ihfft" else 1]
    got = getattr(bk.fft, f"{name}n")(x, axes=(0, 2))
    if name == "ihfft":
        near(got, np.conj(np.fft.rfftn(x, axes=(0, 2))) / 20, np.float64, name)
    else:
        near(got, np.fft.irfftn(np.conj(x), axes=(0, 2), norm="forward"), np.float64, name)


def test_shifts_and_frequencies():
    for shape in ((5,), (6,), (4, 5), (0, 3)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        for axes in (None, 0, (0,), tuple(range(len(shape)))):
            assert np.array_equal(bk.fft.fftshift(x, axes), np.fft.fftshift(x, axes))
            assert np.array_equal(bk.fft.ifftshift(x, axes), np.fft.ifftshift(x, axes))
    for n in range(1, 10):
        assert np.allclose(bk.fft.fftfreq(n, 0.3), np.fft.fftfreq(n, 0.3), rtol=1e-15)
        assert np.allclose(bk.fft.rfftfreq(n, 0.3), np.fft.rfftfreq(n, 0.3), rtol=1e-15)
    assert bk.fft.fftfreq(4, dtype=bk.f32).dtype == np.float32


def test_batches_without_elements():
    for name in ("fft", "rfft", "irfft"):
        x = np.zeros((0, 4), np.float32)
        assert getattr(bk.fft, name)(x).shape == getattr(np.fft, name)(x).shape


def test_results_in_place():
    z = arrays((3, 8), np.float32)[1].copy()
    want = np.fft.fft(z.astype(np.complex128))
    assert bk.fft.fft(z, out=z) is z
    near(z, want, np.float32, "in place")


def test_a_row_does_not_depend_on_others():
    """Alone, among others, and with a NaN beside it."""
    for n in (12, 61, 101, 300, 1009):
        z = arrays((40, n), np.float32)[1]
        whole = bk.fft.fft(z)
        assert np.array_equal(bk.fft.fft(z[7:8]), whole[7:8])
        beside = z.copy()
        beside[[6, 8]] = np.nan
        assert np.array_equal(bk.fft.fft(beside)[7], whole[7])


def test_large_numbers_stay_finite():
    for n in (64, 97, 1009):
        x = np.full((1, n), 2.0**110, np.complex64)
        assert np.isfinite(bk.fft.fft(x)).all(), n


@pytest.mark.parametrize("call, text", [
    (lambda x: bk.fft.fft(x, axis=2), "axis 2 is out of range"),
    (lambda x: bk.fft.fft(x, n=0), "lengths is 0, must be >= 1"),
    (lambda x: bk.fft.fft(x, norm="half"), "norm is 'half'"),
    (lambda x: bk.fft.fftn(x, s=(2, 3, 4)), "more lengths than"),
    (lambda x: bk.fft.fftn(x, s=(2,), axes=(0, 1)), "must have a length for each"),
    (lambda x: bk.fft.fftn(x, axes=(0, 0)), "has an axis twice"),
    (lambda x: bk.fft.fftn(x, axes=()), "must have one axis or more"),
    (lambda x: bk.fft.irfft(x[:, :1]), "must be >= 1"),
    (lambda x: bk.fft.fft(x[:, :0]), "must be >= 1"),
    (lambda x: bk.fft.fftfreq(0), "n is 0"),
    (lambda x: bk.fft.dct(x, type=5), "type is 5"),
    (lambda x: bk.fft.dct(x[:, :1], type=1), "must have 2 elements or more"),
    (lambda x: bk.fft.fftconvolve(x, x[0]), "must have as many axes"),
    (lambda x: bk.fft.fftconvolve(x, x, mode="some"), "mode is 'some'"),
])  # fmt: skip
def test_refusals(call, text):
    with pytest.raises(bk.InvalidProblemError, match=text):
        call(np.ones((3, 4), np.float32))


def test_complex_arguments_of_real_transforms_are_refused():
    for name in ("rfft", "ihfft", "dct"):
        with pytest.raises(bk.UnsupportedError, match="x is complex, must be real"):
            getattr(bk.fft, name)(np.ones(4, np.complex64))


@pytest.mark.needs_ops("cast_i64_f64", "cast_f16_f32")
def test_integers_and_halves():
    assert bk.fft.fft(np.arange(4)).dtype == np.complex128
    assert bk.fft.fft(np.arange(4, dtype=np.float16)).dtype == np.complex64


def test_cosines_are_inverse_and_orthogonal():
    x = arrays((3, 9), np.float64)[0]
    for name, kind in itertools.product(("dct", "dst"), (1, 2, 3, 4)):
        for norm in ("backward", "ortho", "forward"):
            there = getattr(bk.fft, name)(x, kind, norm=norm)
            near(getattr(bk.fft, f"i{name}")(there, kind, norm=norm), x, np.float64, (name, kind, norm))
        there = getattr(bk.fft, name)(x, kind, norm="ortho")
        assert np.allclose(np.sum(there**2, 1), np.sum(x**2, 1), rtol=1e-13), (name, kind)


def test_convolutions():
    a, b = np.random.default_rng(0).standard_normal((2, 30)), np.random.default_rng(1).standard_normal((2, 7))
    for mode in ("full", "same", "valid"):
        want = np.stack([np.convolve(p, q, mode) for p, q in zip(a, b)])
        near(bk.fft.fftconvolve(a, b, mode, axes=1), want, np.float64, mode)

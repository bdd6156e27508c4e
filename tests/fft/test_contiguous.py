# SPDX-License-Identifier: Apache-2.0
"""The reference's symbols: contiguous arrays [batch, dims], with and without a workspace."""

import numpy as np
import pytest

import baracuda as bk

pytestmark = [pytest.mark.needs_ops("fft_c2c_c32", "fft_c2c_c64", "fft_r2c_f32", "fft_c2r_c32")]
DIMS = (
    *((1,), (2,), (7,), (60,), (101,), (500,), (1021,), (2048,)),
    *((16,), (32,), (64,), (256,), (512,), (1024,)),
    *((4,), (6,), (61,), (122,), (192,), (243,), (257,), (289,), (360,)),
    *((1000,), (1009,), (2042,), (2187,), (4097,), (10000,)),
    *((64, 32), (3, 5), (17, 9), (8, 1), (250, 6), (4, 3, 5), (2, 30, 7)),
)
KINDS = {"f32": (np.float32, np.complex64, 4e-6), "f64": (np.float64, np.complex128, 2e-14)}
BATCH = 3


def function(library, name):
    return getattr(library.lib, f"baracuda_kernels_{name}")


def workspace(library, name, dims, batch=BATCH):
    found = library.ffi.new("size_t *")
    assert function(library, f"{name}_workspace_size")(len(dims), list(dims), batch, found) == 0
    return found[0]


def launch(library, name, arguments, x, y, nbytes):
    """The status; x and y are TensorRefs."""
    void, null = library.ffi.typeof("void *"), library.ffi.NULL
    scratch = bk.empty((max(nbytes, 1),), bk.u8, library=library)
    space = library.ffi.cast(void, scratch.ptr) if nbytes else null
    pointers = [library.ffi.cast(void, each.ptr) for each in (x, y)]
    return function(library, f"{name}_run")(*arguments, *pointers, space, nbytes, null)


def near(got, want, tolerance, what):
    assert np.abs(got - want).max() <= tolerance * np.sqrt(np.sum(np.abs(want) ** 2)), what


@pytest.mark.parametrize("real", KINDS)
@pytest.mark.parametrize("dims", DIMS, ids=str)
def test_arrays(library, dims, real):
    dtype, complex_dtype, tolerance = KINDS[real]
    rng = np.random.default_rng(len(dims))
    x = rng.standard_normal((BATCH, *dims)).astype(dtype)
    z = (x + 1j * rng.standard_normal(x.shape)).astype(complex_dtype)
    axes, kind = tuple(range(1, len(dims) + 1)), real.replace("f", "c")
    half = np.fft.rfftn(x.astype(np.float64), axes=axes)
    for has_workspace in (False, True):
        for inverse in (0, 1):
            want = (np.fft.ifftn if inverse else np.fft.fftn)(z.astype(np.complex128), axes=axes)
            nbytes = workspace(library, f"fft_nd_{kind}", dims) * has_workspace
            given, y = bk.upload(z, library=library), bk.empty(z.shape, kind, library=library)
            arguments = (len(dims), list(dims), BATCH, inverse)
            assert launch(library, f"fft_nd_{kind}", arguments, given, y, nbytes) == 0
            near(bk.download(y), want, tolerance, (dims, inverse))
            assert np.array_equal(bk.download(given), z)
            status = launch(library, f"fft_nd_{kind}", arguments, given, given, nbytes)
            assert status == 0 or (status == 4 and not has_workspace), (dims, status)
            if status == 0:
                near(bk.download(given), want, tolerance, (dims, inverse, "in place"))
        nbytes = workspace(library, f"rfft_nd_{real}", dims) * has_workspace
        given, y = bk.upload(x, library=library), bk.empty(half.shape, kind, library=library)
        assert launch(library, f"rfft_nd_{real}", (len(dims), list(dims), BATCH), given, y, nbytes) == 0
        near(bk.download(y), half, tolerance, dims)
        nbytes = workspace(library, f"irfft_nd_{real}", dims) * has_workspace
        given, y = bk.upload(half.astype(complex_dtype), library=library), bk.empty(x.shape, real, library=library)
        assert launch(library, f"irfft_nd_{real}", (len(dims), list(dims), BATCH), given, y, nbytes) == 0
        near(bk.download(y), x, tolerance, dims)
        if has_workspace or len(dims) == 1:
            assert np.array_equal(bk.download(given), half.astype(complex_dtype))


@pytest.mark.parametrize("real", KINDS)
@pytest.mark.parametrize("n", [4096, 8192, 32768])
def test_split_rows(library, n, real):
    """Real rows of two passes, of which one unpacks or packs."""
    dtype, complex_dtype, tolerance = KINDS[real]
    x = np.random.default_rng(n).standard_normal((BATCH, n)).astype(dtype)
    half = np.fft.rfft(x.astype(np.float64))
    given, y = bk.upload(x, library=library), bk.empty(half.shape, real.replace("f", "c"), library=library)
    nbytes = workspace(library, f"rfft_nd_{real}", (n,))
    assert launch(library, f"rfft_nd_{real}", (1, [n], BATCH), given, y, nbytes) == 0
    near(bk.download(y), half, tolerance, n)
    nbytes = workspace(library, f"irfft_nd_{real}", (n,))
    given, y = bk.upload(half.astype(complex_dtype), library=library), bk.empty(x.shape, real, library=library)
    assert launch(library, f"irfft_nd_{real}", (1, [n], BATCH), given, y, nbytes) == 0
    near(bk.download(y), x, tolerance, n)


def test_rows(library):
    """The symbols of one axis are those of several with one."""
    for n in (1, 12, 101, 700):
        z = np.random.default_rng(n).standard_normal((2, n, 2)).astype(np.float32).view(np.complex64)[..., 0]
        given, y = bk.upload(z, library=library), bk.empty(z.shape, bk.c32, library=library)
        assert launch(library, "fft_1d_c32", (n, 2, 0), given, y, 0) == 0
        near(bk.download(y), np.fft.fft(z.astype(np.complex128)), 4e-6, n)
        half = bk.empty((2, n // 2 + 1), bk.c32, library=library)
        x = bk.upload(np.ascontiguousarray(z.real), library=library)
        assert launch(library, "rfft_1d_f32", (n, 2), x, half, 0) == 0
        near(bk.download(half), np.fft.rfft(z.real.astype(np.float64)), 4e-6, n)
        back = bk.empty((2, n), bk.f32, library=library)
        assert launch(library, "irfft_1d_f32", (n, 2), half, back, 0) == 0
        near(bk.download(back), z.real, 4e-6, n)


def test_refusals(library):
    null = library.ffi.NULL
    run, size = function(library, "fft_nd_c32_run"), function(library, "fft_nd_c32_workspace_size")
    one = bk.zeros((4,), bk.c32, library=library)
    x = library.ffi.cast("void *", one.ptr)

    def refused(status, text):
        assert status == 2
        assert text in library.ffi.string(library.lib.baracuda_kernels_last_error()).decode()

    refused(run(4, [1, 1, 1, 1], 1, 0, x, x, null, 0, null), "rank is 4, must be 1, 2 or 3")
    refused(run(1, [-1], 1, 0, x, x, null, 0, null), "dims[0] is -1")
    refused(run(1, [4], -1, 0, x, x, null, 0, null), "batch is -1")
    refused(run(1, null, 1, 0, x, x, null, 0, null), "dims is NULL")
    refused(run(1, [4], 1, 0, null, x, null, 0, null), "x is NULL")
    refused(run(1, [4], 1, 0, x, null, null, 0, null), "y is NULL")
    refused(size(1, [4], 1, null), "out_bytes is NULL")
    refused(function(library, "fft_1d_c32_run")(-3, 1, 0, x, x, null, 0, null), "n is -3")
    assert run(1, [4], 0, 0, null, null, null, 0, null) == 0  # no batch
    assert run(1, [4], 1, 0, library.ffi.cast("void *", one.ptr + 4), x, null, 0, null) == 1  # misaligned

# SPDX-License-Identifier: Apache-2.0
"""The reference's functions of eigenvalues and singular values, which are not rows: column-major matrices with pitches,
against NumPy, within the reference's own tolerances; queries, workspaces, NaN, and what they refuse."""

import numpy as np
import pytest

from harness import NAN_POISON, Guarded, decode, encode, last_error, memory_of

EPS = {"f32": 2.0**-23, "c32": 2.0**-23, "f64": 2.0**-52, "c64": 2.0**-52}
REAL = {"f32": "f32", "f64": "f64", "c32": "f32", "c64": "f64"}
TAG = {"f32": 0, "f64": 1, "c32": 4, "c64": 5}
ALL, A, S, N = 65, ord("A"), ord("S"), ord("N")


class Device:
    """Arrays in the library's memory, and calls of its functions by name."""

    def __init__(self, library):
        self.library, self.memory, self.live = library, memory_of(library.backend), []
        self.ffi = library.ffi

    def put(self, values, dtype):
        return self._kept(Guarded(self.memory, dtype, values.shape, bits=encode(values, dtype)))

    def empty(self, shape, dtype):
        return self._kept(Guarded(self.memory, dtype, shape, poison=NAN_POISON))

    def _kept(self, array):
        self.live.append(array)
        return array

    def values(self, array):
        self.memory.synchronize()
        return np.asarray(decode(array.bits(), array.dtype))

    def function(self, name):
        try:
            return getattr(self.library.lib, f"baracuda_kernels_{name}")
        except self.ffi.error:
            pytest.skip("a partial library without this dtype")

    def call(self, name, *arguments):
        given = [self.ffi.cast("void*", a.pointer) if isinstance(a, Guarded) else self.ffi.NULL if a is None else a
                 for a in arguments]  # fmt: skip
        names = [t.cname for t in self.ffi.typeof(self.function(name)).args]
        given = [self.ffi.cast(t, a) if t.endswith("*") and a is not self.ffi.NULL else a for t, a in zip(names, given)]
        return self.function(name)(*given)

    def size(self, name, *arguments, sizes=1):
        """Asks for a workspace, and makes it."""
        outs = [self.ffi.new("size_t*") for _ in range(sizes)]
        assert self.function(name)(*arguments, *outs) == 0
        return [int(out[0]) for out in outs]

    def workspace(self, size):
        return self.empty((max(size, 1),), "u8")


@pytest.fixture
def device(library):
    found = Device(library)
    if not hasattr(library.lib, "baracuda_kernels_eigh_f32_run"):
        pytest.skip("a partial library without linear algebra")
    return found


def columns(a, pitch):
    """The memory of column-major matrices (..., m, n) with a pitch, NaN between."""
    padded = np.full((*a.shape[:-2], a.shape[-1], pitch), np.nan, a.dtype)
    padded[..., : a.shape[-2]] = np.swapaxes(a, -1, -2)
    return padded


def matrices(memory, m):
    return np.swapaxes(memory, -1, -2)[..., :m, :]


def drawn(dtype, *shape, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype[0] == "c" else 0)
    return a.astype({"f32": np.float32, "f64": np.float64, "c32": np.complex64, "c64": np.complex128}[dtype])


def near(x, n, dtype, scale=1.0):
    assert np.abs(x).max() <= 12 * n * EPS[dtype] * scale, np.abs(x).max() / (n * EPS[dtype] * scale)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("uplo", [0, 1])
def test_eigh(device, dtype, uplo):
    for n, pitch in ((1, 1), (2, 2), (7, 9), (40, 40)):
        a = drawn(dtype, n, n)
        given = device.put(columns(a, pitch), dtype)
        w, info = device.empty((n,), REAL[dtype]), device.empty((1,), "i32")
        (size,) = device.size(f"eigh_{dtype}_workspace_size", uplo, n)
        arguments = (uplo, n, pitch, given, w, info)
        if size:
            assert device.call(f"eigh_{dtype}_run", *arguments, device.workspace(size), size - 1, None) == 4
            assert "workspace has" in last_error(device.library)
        assert device.call(f"eigh_{dtype}_run", *arguments, device.workspace(size), size, None) == 0
        half = np.tril(a.T if uplo else a) if not uplo else np.tril(np.conj(a.T))
        half = half.astype(complex)
        whole = half + np.conj(np.tril(half, -1).T)
        whole = whole - 1j * np.diag(np.diag(whole).imag)
        memory, values = device.values(given), device.values(w)
        v = matrices(memory, n)
        norm = np.linalg.norm(whole, 2)
        near(whole @ v - v * values, n, dtype, norm)
        near(np.conj(v.T) @ v - np.eye(n), n, dtype)
        near(values - np.linalg.eigvalsh(whole), n, dtype, norm)
        assert np.isnan(memory[:, n:]).all() and device.values(info)[0] == 0


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("jobs", [(A, A), (S, S), (N, N), (S, N), (N, A), (A, N)])
def test_svd(device, dtype, jobs):
    for m, n in ((1, 1), (5, 3), (9, 9), (40, 8)):
        a, (jobu, jobv) = drawn(dtype, m, n), jobs
        given = device.put(columns(a, m + 2), dtype)
        s, info = device.empty((n,), dtype), device.empty((1,), "i32")
        u = device.empty((m if jobu == A else n, m + 1), dtype) if jobu != N else None
        vt = device.empty((n, n + 3), dtype) if jobv != N else None
        (size,) = device.size(f"svd_{dtype}_workspace_size", m, n)
        assert device.call(f"svd_{dtype}_run", jobu, jobv, m, n, m + 2, given, m + 1, n + 3, s, u, vt, info,
                           device.workspace(size), size, None) == 0  # fmt: skip
        values = device.values(s)
        near(values - np.linalg.svd(a.astype(float), compute_uv=False), m, dtype, values[0])
        if u is not None:
            left = matrices(device.values(u), m)
            near(left.T @ left - np.eye(left.shape[1]), m, dtype)
        if vt is not None:
            right = matrices(device.values(vt), n)
            near(right @ right.T - np.eye(n), m, dtype)
        if u is not None and vt is not None:
            near((left[:, :n] * values) @ right - a, m, dtype, values[0])
        assert device.values(info)[0] == 0


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("jobz", [0, 1])
def test_svd_batched(device, dtype, jobz):
    for n, batch in ((1, 3), (5, 4), (33, 2), (40, 1)):
        a = drawn(dtype, batch, n, n)
        given = device.put(columns(a, n + 1), dtype)
        s, info = device.empty((batch, n), dtype), device.empty((batch,), "i32")
        u, v = (device.empty((batch, n, n + k), dtype) if jobz else None for k in (2, 3))
        (size,) = device.size(f"svd_batched_{dtype}_workspace_size", jobz, n, batch)
        assert device.call(f"svd_batched_{dtype}_run", jobz, n, n + 1, n + 2, n + 3, given, s, u, v, info, batch,
                           device.workspace(size), size, None) == 0  # fmt: skip
        values = device.values(s)
        near(values - np.linalg.svd(a.astype(float), compute_uv=False), n, dtype, values.max())
        if jobz:
            left, right = (matrices(device.values(each), n) for each in (u, v))
            near((left * values[:, None]) @ np.swapaxes(right, 1, 2) - a, n, dtype, values.max())
        assert not device.values(info).any()


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_svda_batched(device, dtype):
    for m, n, rank in ((6, 4, 2), (4, 6, 3), (20, 9, 9)):
        a, batch = drawn(dtype, 3, m, n), 3
        given = device.put(columns(a, m), dtype)
        s, info = device.empty((batch, rank), dtype), device.empty((batch,), "i32")
        u, v = device.empty((batch, rank, m), dtype), device.empty((batch, rank, n), dtype)
        (size,) = device.size(f"svda_batched_{dtype}_workspace_size", 1, rank, m, n, batch)
        norms = device.ffi.new("double[]", batch)
        for residuals in (norms, None):
            extents = (1, rank, m, n, m, m, n, m * n, rank, m * rank, n * rank)
            arrays = (given, s, u, v, info, residuals)
            tail = (batch, device.workspace(size), size, None)
            assert device.call(f"svda_batched_{dtype}_run", *extents, *arrays, *tail) == 0
            values, left, right = device.values(s), matrices(device.values(u), m), matrices(device.values(v), n)
            whole = np.linalg.svd(a.astype(float), compute_uv=False)
            near(values - whole[:, :rank], m + n, dtype, whole.max())
            rest = a - (left * values[:, None]) @ np.swapaxes(right, 1, 2)
            near(np.linalg.norm(rest, axis=(1, 2)) - np.sqrt((whole[:, rank:] ** 2).sum(-1)), m + n, dtype, whole.max())
        near(np.array(list(norms)) - np.linalg.norm(rest, axis=(1, 2)), m + n, dtype, whole.max())


@pytest.mark.parametrize("dtype", EPS)
def test_eig(device, dtype):
    for n in (1, 2, 5, 17):
        a = drawn(dtype, n, n, seed=n)
        is_complex = dtype[0] == "c"
        for jobvl, jobvr in ((0, 0), (0, 1), (1, 1)):
            given = device.put(columns(a, n + 1), dtype)
            w, info = device.empty((n if is_complex else 2 * n,), dtype), device.empty((1,), "i32")
            vl = device.empty((n, n + 2), dtype) if jobvl else None
            vr = device.empty((n, n + 3), dtype) if jobvr else None
            size, host = device.size("eig_workspace_size", TAG[dtype], jobvl, jobvr, n, sizes=2)
            assert host == 0
            assert device.call("eig_run", TAG[dtype], jobvl, jobvr, n, n + 1, n + 2, n + 3, given, w, vl, vr, info,
                               device.workspace(size), size, None, 0, None) == 0  # fmt: skip
            values = device.values(w)
            values = values if is_complex else values[:n] + 1j * values[n:]
            norm, sides = np.linalg.norm(a, 2), []
            for each in (vl, vr):
                if each is None:
                    continue
                memory = matrices(device.values(each), n)
                vectors = memory.astype(complex)
                for k in range(n if not is_complex else 0):
                    if values[k].imag > 0:
                        vectors[:, k] = memory[:, k] + 1j * memory[:, k + 1]
                        vectors[:, k + 1] = np.conj(vectors[:, k])
                sides.append(vectors)
            if jobvr:
                near(a @ sides[-1] - sides[-1] * values, n, dtype, norm)
            if jobvl:
                near(np.conj(sides[0].T) @ a - values[:, None] * np.conj(sides[0].T), n, dtype, norm)
            assert device.values(info)[0] == 0


def test_failures_are_on_the_device(device):
    a = drawn("f64", 4, 4)
    a[2, 1] = np.nan
    given, w, info = device.put(columns(a, 4), "f64"), device.empty((4,), "f64"), device.empty((1,), "i32")
    (size,) = device.size("eigh_f64_workspace_size", 0, 4)
    assert device.call("eigh_f64_run", 0, 4, 4, given, w, info, device.workspace(size), size, None) == 0
    assert device.values(info)[0] == 5 and np.isnan(device.values(w)).all() and np.isnan(device.values(given)).all()


REFUSED = [
    ("eigh_f32_run", (2, 3, 3), "uplo is 2, must be 0 or 1"), ("eigh_f32_run", (0, 0, 3), "n is 0, must be > 0"),
    ("eigh_f32_run", (0, 3, 2), "lda is 2, must be >= n, 3"), ("eigh_f32_run", (0, 3, 3), "a_inout is NULL"),
    ("svd_f32_run", (1, N, 3, 3, 3), "jobu is 1, must be 'A', 'S' or 'N'"),
    ("svd_f32_run", (N, ord("O"), 3, 3, 3), "jobv is 79"),
    ("svd_f32_run", (N, N, 2, 3, 3), "m is 2, must be >= n, 3"), ("svd_f32_run", (N, N, 3, 3, 2), "lda is 2"),
    ("svd_batched_f64_run", (2, 3, 3, 3, 3), "jobz is 2"), ("svd_batched_f64_run", (0, 3, 3, 2, 3), "ldu is 2"),
    ("svda_batched_f32_run", (0, 4, 3, 5, 3, 3, 5), r"rank is 4, must be in \[1, 3\]"),
    ("svda_batched_f32_run", (0, 0, 3, 5, 3, 3, 5), r"rank is 0, must be in \[1, 3\]"),
    ("eig_run", (2, 0, 0, 3, 3), "dtype_tag is 2, must be 0, 1, 4 or 5"), ("eig_run", (0, 2, 0, 3, 3), "jobvl is 2"),
    ("eig_run", (0, 0, 0, 3, 2), "lda is 2"), ("eig_run", (0, 0, 0, 0, 2), "n is 0, must be > 0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "first", "text"), REFUSED)
def test_refuses(device, name, first, text):
    import re

    kinds = device.ffi.typeof(device.function(name)).args
    rest = [device.ffi.NULL if t.kind == "pointer" else 1 for t in kinds[len(first) :]]
    assert device.function(name)(*first, *rest) == 2
    assert re.match(rf"\w+: {text}", last_error(device.library)), last_error(device.library)


def test_queries_refuse(device):
    null, size = device.ffi.NULL, device.ffi.new("size_t*")
    for name, good in (("eigh_f32", (0, 4)), ("svd_f32", (5, 4)), ("svd_batched_f32", (1, 4, 2)),
                       ("svda_batched_f32", (1, 2, 5, 4, 2))):  # fmt: skip
        query = device.function(f"{name}_workspace_size")
        assert query(*good, size) == 0 and query(*good, null) == 2
        assert query(*good[:-1], 0, size) == 2
    query = device.function("eig_workspace_size")
    for given in ((0, 0, 1, 4, size, null), (0, 0, 1, 4, null, size), (3, 0, 1, 4, size, size)):
        assert query(*given) == 2

# SPDX-License-Identifier: Apache-2.0
"""The array API namespace against NumPy's, which follows the standard: dtypes, shapes and values of results, for arrays
that hypothesis generates. The standard's own suite is on no package index: ARRAY_API_TESTS_MODULE=baracuda.array_api
runs it from a checkout."""

import math
import pathlib

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import baracuda as bk
from baracuda import array_api as xp

FLOATS = [np.float32, np.float64]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
NUMERIC, BOOL = [*FLOATS, *INTEGERS], [np.bool_]
STANDARD = """
abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and
bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays broadcast_to
can_cast ceil clip concat conj copysign cos cosh count_nonzero cumulative_prod cumulative_sum diff divide
empty empty_like equal exp expand_dims expm1 eye finfo flip floor floor_divide from_dlpack full full_like
greater greater_equal hypot iinfo imag isdtype isfinite isin isinf isnan less less_equal linspace log log10
log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul matrix_transpose max maximum mean
meshgrid min minimum moveaxis multiply negative nextafter nonzero not_equal ones ones_like permute_dims
positive pow prod real reciprocal remainder repeat reshape result_type roll round searchsorted sign signbit
sin sinh sort sqrt square squeeze stack std subtract sum take take_along_axis tan tanh tensordot tile tril
triu trunc unique_all unique_counts unique_inverse unique_values unstack var vecdot where zeros zeros_like
linalg.cholesky linalg.cross linalg.det linalg.diagonal linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh
linalg.inv linalg.matmul linalg.matrix_norm linalg.matrix_power linalg.matrix_rank linalg.matrix_transpose
linalg.outer linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.svd linalg.svdvals linalg.tensordot
linalg.trace linalg.vecdot linalg.vector_norm bool e float32 float64 inf int16 int32 int64 int8 nan newaxis pi
uint16 uint32 uint64 uint8
""".split()
UNARY = {
    **dict.fromkeys("acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 reciprocal signbit sin "
                    "sinh sqrt tan tanh".split(), FLOATS),
    **dict.fromkeys("abs ceil floor negative positive round sign square trunc".split(), NUMERIC),
    **dict.fromkeys("isfinite isinf isnan".split(), NUMERIC),
    "bitwise_invert": INTEGERS + BOOL, "logical_not": BOOL,
}  # fmt: skip
BINARY = {
    **dict.fromkeys("atan2 copysign divide hypot logaddexp nextafter".split(), FLOATS),
    **dict.fromkeys("add multiply subtract maximum minimum less less_equal greater greater_equal".split(), NUMERIC),
    **dict.fromkeys("equal not_equal".split(), NUMERIC + BOOL),
    **dict.fromkeys("bitwise_and bitwise_or bitwise_xor".split(), INTEGERS + BOOL),
    **dict.fromkeys("logical_and logical_or logical_xor".split(), BOOL),
}  # fmt: skip
QUOTIENTS = ["floor_divide", "remainder"]
OF_AXES = {"sum": NUMERIC, "prod": NUMERIC, "mean": FLOATS, "max": NUMERIC, "min": NUMERIC, "std": FLOATS,
           "var": FLOATS, "all": NUMERIC + BOOL, "any": NUMERIC + BOOL, "count_nonzero": NUMERIC + BOOL,
           "argmax": NUMERIC, "argmin": NUMERIC}  # fmt: skip
EXAMPLES = settings(max_examples=30, deadline=None, database=None, suppress_health_check=list(HealthCheck))


def arrays(dtypes, shape, low=None, high=None):
    def elements(dtype):
        if dtype.kind == "f":
            special = st.sampled_from([0.0, -0.0, 0.5, 1.0, -1.5, 2.5, 3.0])
            if low is not None:
                return st.floats(low, high, width=dtype.itemsize * 8)
            limits = st.sampled_from([math.nan, math.inf, -math.inf])
            return special | limits | st.floats(-1e3, 1e3, width=dtype.itemsize * 8)
        return npst.from_dtype(dtype) if low is None or dtype.kind == "b" else st.integers(int(low), int(high))

    one = st.sampled_from(dtypes).map(np.dtype)
    return one.flatmap(lambda dtype: npst.arrays(dtype, shape, elements=elements(dtype), fill=st.nothing()))


SHAPES = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
FILLED = npst.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)


def same(got, expected, name=""):
    expected = np.asarray(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), name
    if got.dtype.kind == "f":
        bound = 1e-5 if got.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(got, expected, rtol=bound, atol=bound, err_msg=name)
    else:
        np.testing.assert_array_equal(got, expected, err_msg=name)


@pytest.fixture(autouse=True)
def _ieee():
    with np.errstate(all="ignore"):
        yield


def has(namespace, name):
    first, _, rest = name.partition(".")
    return hasattr(namespace, first) and (not rest or has(getattr(namespace, first), rest))


def test_the_exceptions_are_those_that_stand_in_the_list():
    lines = (pathlib.Path(__file__).parent / "array_api_exceptions.txt").read_text().splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    listed = {line.partition(":")[0]: line.partition(":")[2] for line in lines}
    assert all(reason.strip() for reason in listed.values())
    missing = {name for name in STANDARD if not has(xp, name)}
    assert {name for name in listed if "[" not in name} == missing
    assert set(dir(xp)) == {name for name in STANDARD if "." not in name and name not in missing} | {"fft", "linalg"}
    assert xp.__array_namespace_info__().capabilities()


@pytest.mark.parametrize("name", UNARY)
@EXAMPLES
@given(st.data())
def test_unary(name, data):
    x = data.draw(arrays(UNARY[name], SHAPES))
    expected = getattr(np, name)(x)
    same(
        getattr(xp, name)(x),
        x.copy() if name in ("ceil", "floor", "round", "trunc") and x.dtype.kind in "iu" else expected,
    )


@pytest.mark.parametrize("name", BINARY)
@EXAMPLES
@given(st.data())
def test_binary(name, data):
    """Operands are broadcast, and of two dtypes of one kind."""
    shapes = data.draw(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4)).input_shapes
    dtypes = BINARY[name]
    a = data.draw(arrays(dtypes, shapes[0]))
    b = data.draw(arrays([d for d in dtypes if np.dtype(d).kind == a.dtype.kind], shapes[1]))
    same(getattr(xp, name)(a, b), getattr(np, name)(a, b))


@pytest.mark.parametrize("name", QUOTIENTS)
@EXAMPLES
@given(st.data())
def test_quotients(name, data):
    a = data.draw(arrays(NUMERIC, (3, 4), 0, 100))
    b = data.draw(arrays([a.dtype], (4,), 1, 50))
    same(getattr(xp, name)(a, b), getattr(np, name)(a, b))


@EXAMPLES
@given(arrays(FLOATS, (3, 4), 0.125, 8), arrays(FLOATS, (4,), -3, 3))
def test_pow(a, b):
    same(xp.pow(a, b), np.pow(a, b))
    same(xp.pow(a, 2), np.pow(a, 2))


@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift"])
@EXAMPLES
@given(arrays(INTEGERS, (3, 4)), st.integers(0, 7))
def test_shifts(name, a, by):
    same(getattr(xp, name)(a, by), getattr(np, name)(a, by))


def test_numbers_beside_arrays():
    x = np.arange(3, dtype=np.float32)
    same(xp.add(1, x), x + 1)
    same(xp.multiply(x, 2.5), x * np.float32(2.5))
    with pytest.raises(bk.InvalidProblemError, match="none of the arguments is an array"):
        xp.add(1, 2)
    with pytest.raises(bk.BaracudaError):
        xp.add(x, x.astype(complex))


@EXAMPLES
@given(st.data())
def test_clip_and_where(data):
    x = data.draw(arrays(NUMERIC, (3, 4), 0, 100))
    low = data.draw(arrays([x.dtype], (4,), 0, 50))
    same(xp.clip(x), x)
    same(xp.clip(x, 10), np.clip(x, 10, None))
    same(xp.clip(x, None, low), np.clip(x, None, low))
    same(xp.clip(x, low, low), np.clip(x, low, low))
    mask = data.draw(arrays(BOOL, (3, 1)))
    same(xp.where(mask, x, low), np.where(mask, x, low))


@pytest.mark.parametrize("name", OF_AXES)
@EXAMPLES
@given(st.data())
def test_reductions(name, data):
    x = data.draw(arrays(OF_AXES[name], FILLED, *((0, 3) if name in ("prod", "sum", "std", "var", "mean") else ())))
    one = name.startswith("arg")
    axis = data.draw(
        st.none() | st.integers(-x.ndim, x.ndim - 1) | (st.nothing() if one else npst.valid_tuple_axes(x.ndim))
    )
    options = {"axis": axis, "keepdims": data.draw(st.booleans())}
    if one and axis is None:
        options["keepdims"] = False
    if name == "count_nonzero" and axis == ():
        return
    same(getattr(xp, name)(x, **options), getattr(np, name)(x, **options), name)


@EXAMPLES
@given(arrays(NUMERIC, (3, 4), 0, 3))
def test_dtypes_of_sums(x):
    same(xp.sum(x, dtype=np.float64), np.sum(x, dtype=np.float64))
    same(xp.cumulative_sum(x, axis=1, dtype=np.float32), np.cumulative_sum(x, axis=1, dtype=np.float32))
    if x.dtype.kind == "f":
        same(xp.std(x, axis=0, correction=1), np.std(x, axis=0, ddof=1))
        with pytest.raises(bk.UnsupportedError, match=r"correction is 0\.5"):
            xp.var(x, correction=0.5)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@EXAMPLES
@given(st.data())
def test_accumulations(name, data):
    x = data.draw(arrays(NUMERIC, FILLED, 0, 3))
    options = {"axis": data.draw(st.integers(-x.ndim, x.ndim - 1)), "include_initial": data.draw(st.booleans())}
    same(getattr(xp, name)(x, **options), getattr(np, name)(x, **options))
    same(getattr(xp, name)(x.reshape(-1)), getattr(np, name)(x.reshape(-1)))


@EXAMPLES
@given(st.data())
def test_copies(data):
    x = data.draw(arrays(NUMERIC + BOOL, FILLED))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    same(xp.flip(x, axis=axis), np.flip(x, axis=axis))
    same(xp.flip(x), np.flip(x))
    same(xp.roll(x, 2, axis=axis), np.roll(x, 2, axis=axis))
    same(xp.roll(x, -1), np.roll(x, -1))
    order = data.draw(st.permutations(range(x.ndim)))
    same(xp.permute_dims(x, tuple(order)), np.permute_dims(x, order))
    same(xp.tile(x, (2, 1)), np.tile(x, (2, 1)))
    same(xp.concat([x, x, x], axis=axis), np.concat([x, x, x], axis=axis))
    same(xp.concat([x], axis=None), x.reshape(-1))
    same(xp.stack([x, x, x], axis=axis), np.stack([x, x, x], axis=axis))
    indices = data.draw(arrays([np.int32, np.int64, np.uint8], (2, 2), 0, x.shape[axis] - 1))
    same(xp.take(x, indices, axis=axis), np.take(x, indices, axis=axis))
    same(xp.sort(x, axis=axis), np.sort(x, axis=axis))
    same(xp.sort(x, axis=axis, descending=True, stable=False), np.flip(np.sort(x, axis=axis), axis))
    same(xp.argsort(x, axis=axis), np.argsort(x, axis=axis, kind="stable"))
    along = np.argsort(x, axis=axis)
    same(xp.take_along_axis(x, along, axis=axis), np.take_along_axis(x, along, axis=axis))
    for got, expected in zip(xp.nonzero(x), np.nonzero(x), strict=True):
        same(got, expected)
    same(xp.diff(x, axis=axis), np.diff(x, axis=axis))
    same(xp.diff(x, axis=axis, prepend=x, append=x), np.diff(x, axis=axis, prepend=x, append=x))
    if x.ndim > 1:
        same(xp.tril(x, k=1), np.tril(x, k=1))
        same(xp.triu(x, k=-1), np.triu(x, k=-1))


@EXAMPLES
@given(st.data())
def test_products(data):
    a = data.draw(arrays(FLOATS, (2, 1, 3, 4), -2, 2))
    b = data.draw(arrays(FLOATS, (3, 4, 2), -2, 2))
    same(xp.matmul(a, b), np.matmul(a, b))
    same(xp.matmul(a[0, 0], b[0]), a[0, 0] @ b[0])
    same(xp.matmul(a[0, 0], a[0, 0, 0]), a[0, 0] @ a[0, 0, 0])
    same(xp.tensordot(a[0], b, axes=((2, 1), (1, 0))), np.tensordot(a[0], b, axes=((2, 1), (1, 0))))
    same(xp.tensordot(a, b, axes=0), np.tensordot(a, b, axes=0))
    x = data.draw(arrays(NUMERIC, (3, 4), 0, 3))
    same(xp.vecdot(x, x), np.vecdot(x, x))
    same(xp.linalg.outer(x[0], x[1]), np.linalg.outer(x[0], x[1]))
    same(xp.linalg.trace(x, offset=1), np.linalg.trace(x, offset=1))
    for ord in (0, 1, 2, 3, math.inf, -math.inf):
        same(xp.linalg.vector_norm(a, axis=-1, ord=ord), np.linalg.vector_norm(a, axis=-1, ord=ord))
    for ord in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        for keepdims in (False, True):
            got = xp.linalg.matrix_norm(a, ord=ord, keepdims=keepdims)
            same(got, np.linalg.matrix_norm(a, ord=ord, keepdims=keepdims), str(ord))
    same(xp.linalg.cross(x[:, :3], x[:, 1:]), np.linalg.cross(x[:, :3], x[:, 1:]))
    assert set(xp.linalg.__all__) == {name.partition(".")[2] for name in STANDARD if name.startswith("linalg.")}


@pytest.mark.parametrize("dtype", [*FLOATS, np.complex64, np.complex128])
def test_linalg(dtype):
    """The linalg extension, against NumPy's: names, dtypes, shapes and values. Vectors have a phase of their own."""
    rng, real = np.random.default_rng(3), np.finfo(dtype).dtype
    a = rng.standard_normal((2, 4, 4)).astype(dtype)
    if np.iscomplexobj(a):
        a = a + dtype(1j) * rng.standard_normal(a.shape).astype(real)
    b, wide = rng.standard_normal((2, 4, 3)).astype(dtype), a[:, :3]
    positive = (a @ np.conj(a.swapaxes(-1, -2)) + np.eye(4)).astype(dtype)
    bound = 1e-4 if real == np.float32 else 1e-12

    def close(got, expected):
        expected = np.asarray(expected)
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(got, expected, bound, bound)

    for name, x in (("inv", a), ("det", a), ("cholesky", positive), ("eigvalsh", positive), ("svdvals", wide),
                        ("pinv", wide), ("matrix_transpose", wide)):  # fmt: skip
        close(getattr(xp.linalg, name)(x), getattr(np.linalg, name)(x))
    close(xp.linalg.solve(a, b), np.linalg.solve(a, b))
    close(xp.linalg.solve(a, b[0, :, 0]), np.linalg.solve(a, b[0, :, 0]))
    close(xp.linalg.cholesky(positive, upper=True), np.linalg.cholesky(positive, upper=True))
    for power in (-2, 0, 1, 3):
        close(xp.linalg.matrix_power(a, power), np.linalg.matrix_power(a, power))
    for got, expected in zip(xp.linalg.slogdet(a), np.linalg.slogdet(a)):
        close(got, expected)
    ranks = xp.linalg.matrix_rank(np.stack([a[0], 0 * a[0]]))
    assert ranks.dtype == np.int64 and ranks.tolist() == [4, 0]
    assert xp.linalg.matrix_rank(a, rtol=0.999).tolist() == [1, 1]
    for mode in ("reduced", "complete"):
        q, r = xp.linalg.qr(wide.swapaxes(-1, -2), mode=mode)
        assert q.shape == (2, 4, 3 if mode == "reduced" else 4)
        np.testing.assert_allclose(q @ r, wide.swapaxes(-1, -2), bound, bound)
    for full in (False, True):
        found = xp.linalg.svd(wide, full_matrices=full)
        assert found.U.shape == (2, 3, 3) and found.Vh.shape == (2, 4 if full else 3, 4)
        np.testing.assert_allclose((found.U * found.S[:, None]) @ found.Vh[:, :3], wide, bound, bound)
    w, v = xp.linalg.eigh(positive)
    close(w, np.linalg.eigvalsh(positive))
    np.testing.assert_allclose(positive @ v, v * w[:, None], bound, 20 * bound)
    w, v = xp.linalg.eig(a)
    np.testing.assert_allclose(a @ v, v * w[:, None], bound, bound)
    np.testing.assert_allclose(np.sort_complex(xp.linalg.eigvals(a)[0]), np.sort_complex(w[0]), bound, bound)


def test_quotients_at_infinity_are_those_of_the_standard():
    """The standard has the limits; NumPy rounds the first ones to -1, and has NaN for infinity by a number."""
    inf = math.inf
    a, b = (
        np.float64([-1, 1, -1, 1, inf, -inf, inf, inf, 0, 5]),
        np.float64([inf, -inf, -inf, inf, 2, 2, -2, inf, 0, -2]),
    )
    got = xp.floor_divide(a, b)
    np.testing.assert_array_equal(got, [-0.0, -0.0, 0, 0, inf, -inf, -inf, np.nan, np.nan, -3])
    assert np.signbit(got[:4]).tolist() == [True, True, False, False]


BF16 = np.array([[1, -2.5, np.nan], [np.inf, -np.inf, 0]], np.float32)


@pytest.mark.parametrize("name", ["isinf", "isfinite", "isnan", "sign", "floor", "ceil", "round", "trunc", "abs"])
def test_bf16_is_a_float(name):
    for dtype in (ml_dtypes.bfloat16, np.float16):
        got = getattr(xp, name)(BF16.astype(dtype))
        np.testing.assert_array_equal(got.astype(np.float32), getattr(np, name)(BF16).astype(np.float32))
        view = bk.tensor(BF16.astype(dtype))  # its dtype does not depend on ml_dtypes
        np.testing.assert_array_equal(
            np.asarray(bk.download(getattr(xp, name)(view)), np.float32), got.astype(np.float32)
        )


def test_statistics_of_bf16():
    x = BF16[:, :2].astype(ml_dtypes.bfloat16)
    for name in ("max", "min", "sum", "prod"):
        got = getattr(xp, name)(x, axis=1)
        assert got.dtype == ml_dtypes.bfloat16
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(got.astype(np.float32), getattr(np, name)(BF16[:, :2], axis=1))
    assert xp.add(x, x.astype(np.float32)).dtype == np.float32
    with pytest.raises(bk.UnsupportedError, match="have no common one"):
        xp.add(x, np.ones((2, 2), np.int32))


def test_scalars_of_numpy_are_arrays():
    assert xp.floor(np.float64(-2.5)) == -3
    assert xp.isinf(np.float64(math.inf)) and xp.floor(-2.5) == -3
    assert xp.add(np.float64(1), np.float32(2)).dtype == np.float64


def test_bools_are_counted_by_sums():
    for f in (xp.sum, xp.prod):
        got = f(np.array([True, True, True]))
        assert got.dtype == np.int64
    assert xp.sum(np.array([True, True, False])) == 2


def test_axes_that_there_are_not_and_shapes_that_do_not_fit():
    x = np.ones((2, 3))
    for call in (lambda: xp.take(x, np.array([0]), axis=5), lambda: xp.take_along_axis(x, np.ones((2, 1), int), axis=2),
                 lambda: xp.cumulative_sum(x, axis=-3), lambda: xp.diff(x, axis=2),
                 lambda: xp.stack([x, x], axis=4)):  # fmt: skip
        with pytest.raises(bk.InvalidProblemError, match="axis is"):
            call()
    with pytest.raises(bk.InvalidProblemError, match="x1 has 1 elements along axis -1 and x2 3"):
        xp.vecdot(np.ones((2, 1)), x)
    assert xp.vecdot(np.ones((2, 1, 3)), np.ones((4, 3))).shape == (2, 4)
    assert xp.tile(x, (2, 0)).shape == (4, 0) and xp.tile(x, (0, 1, 1)).shape == (0, 2, 3)


def test_norms_of_any_order():
    x = np.array([[1.0, -2, 4], [0, 3, 5]])
    for order in (-1, -2.5, -math.inf, 0, 1, 2, 3, math.inf):
        with np.errstate(divide="ignore"):
            expected = np.linalg.vector_norm(x, axis=1, ord=order)
        np.testing.assert_allclose(xp.linalg.vector_norm(x, axis=1, ord=order), expected, 1e-12)
    assert xp.linalg.vector_norm(np.zeros(0), ord=math.inf) == 0


def test_dtypes_are_those_that_are_served():
    info = xp.__array_namespace_info__()
    assert not any("complex" in name for name in (*info.dtypes(), *info.default_dtypes()))
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}

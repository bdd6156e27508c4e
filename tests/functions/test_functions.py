# SPDX-License-Identifier: Apache-2.0
"""Every function on arrays against the oracle, on various shapes, strides and kinds of arrays."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import baracuda as bk
from baracuda._functions.spec import REQUIRED, specs
from expected import (
    choices,
    entry,
    gated,
    gated_gradient,
    gradients,
    has_gradient,
    has_value,
    intervals,
    of_integers,
    stored,
    value,
)
from plan_tools import odd
from tools.oracle import GATED, TRUTH

TOLERANCE = {np.dtype("f4"): 3e-6, np.dtype("f8"): 1e-12, np.dtype("f2"): 4e-3}
# Shapes of one, two and three operands: equal, broadcast, of other ranks, of rank 0, without elements.
SHAPES = {
    1: [((3, 4),), ((2, 3, 2),), ((5,),), ((),), ((0, 3),)],
    2: [
        ((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (4,)), ((2, 3, 4), (3, 1)), ((), (3, 4)), ((), ()),
        ((0, 4), (4,)), ((1, 0), (3, 1)),
    ],
    3: [((3, 4), (3, 4), (3, 4)), ((3, 4), (4,), ()), ((3, 1), (2, 1, 4), (1,)), ((0,), (), (1, 1))],
}  # fmt: skip


def summed(gradient, shape):
    """The gradient of an operand that was broadcast from `shape`."""
    axes = tuple(range(gradient.ndim - len(shape)))
    gradient = gradient.sum(axes)
    axes = tuple(d for d, extent in enumerate(shape) if extent == 1 and gradient.shape[d] != 1)
    return gradient.sum(axes, keepdims=True)


# --- functions of floats, and their gradients ------------------------------------------------------------------------


def drawn(rng, domains, shapes, dtype):
    """Operands on distinct grids: no two are equal, and none is on a kink."""
    return [odd(rng, shape, *domain, 32 >> k).astype(dtype) for k, (domain, shape) in enumerate(zip(domains, shapes))]


LAYOUTS = {
    "dense": lambda a: a,
    "columns": lambda a: a.T.copy().T,
    "backwards": lambda a: np.flip(np.flip(a).copy()) if a.ndim else a,
    "gaps": lambda a: np.repeat(a[..., None], 2, -1)[..., 0] if a.ndim else a,
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape) if a.ndim and a.shape[0] else a,
}


def arguments(name, numbers):
    """The numbers of a call by name, those without a default first."""
    return dict(zip([n.name for n in specs()[name].numbers], numbers))


def close(got, expected, factor=1):
    bound = TOLERANCE[got.dtype] * factor
    assert got.shape == np.shape(expected)
    np.testing.assert_allclose(got.astype(np.float64), stored(expected, got.dtype), rtol=bound, atol=bound)


SPECIAL = {"nextafter", "ldexp"}  # compared bit by bit, and with an integer operand: in OTHERS
SMOOTH = [n for n in specs() if not n.endswith("_backward") and n not in SPECIAL and has_value(entry(n))]
GRADIENTS = [f"{name}_backward" for name in SMOOTH if has_gradient(entry(name))]
INTEGER = [
    name for name, spec in specs().items()
    if getattr(entry(name), "integer", None) and any("i32" in row.slots["T"] for row in spec.rows)
]  # fmt: skip


def test_every_function_has_a_reference():
    """test_called_functions tests those that rows name by `call`."""
    own = {name for name, spec in specs().items() if not spec.row.calls}
    assert own - {*SMOOTH, *GRADIENTS, *INTEGER, *OTHERS} == set()
    assert {*GRADIENTS, *OTHERS} - set(specs()) == set()


@pytest.mark.parametrize("name", SMOOTH)
def test_forward(rng, name):
    """Each function is called twice, since the second call only fills in addresses."""
    f, call = entry(name), getattr(bk, name)
    domains = intervals(f)
    for (k, numbers), dtype in itertools.product(enumerate(choices(f)), (np.float32, np.float64)):
        named = arguments(name, numbers)
        layouts = ("dense",) if k else LAYOUTS
        for shapes, layout, _ in itertools.product(SHAPES[len(domains)], layouts, range(2)):
            arrays = [LAYOUTS[layout](array) for array in drawn(rng, domains, shapes, dtype)]
            got = call(*arrays, **named)
            assert type(got) is np.ndarray
            assert got.dtype == dtype
            close(got, value(f, *arrays, numbers=numbers))
            out = LAYOUTS[layout](np.ones_like(got)) if layout != "broadcast" else np.ones_like(got)
            assert call(*arrays, **named, out=out) is out
            np.testing.assert_array_equal(out, got)


@pytest.mark.parametrize("name", [name for name in SMOOTH if choices(entry(name)) != [()]])
def test_defaults(rng, name):
    """A number that is left out has the table's default, which is the oracle's."""
    f, spec = entry(name), specs()[name]
    defaults = [number.default for number in spec.numbers]
    (x,) = drawn(rng, intervals(f)[:1], [(3, 4)], np.float64)
    operands = [x] * len(spec.arrays)
    if REQUIRED in defaults:
        with pytest.raises(TypeError, match=spec.numbers[defaults.index(REQUIRED)].name):
            getattr(bk, name)(*operands)
    else:
        close(getattr(bk, name)(*operands), value(f, *operands, numbers=defaults))


@pytest.mark.parametrize("name", GRADIENTS)
def test_backward(rng, name):
    """Gradients are summed where an operand was broadcast, for every choice of results."""
    forward, spec, f = name.removesuffix("_backward"), specs()[name], entry(name)
    domains, inputs = intervals(f), [argument.name for argument in specs()[forward].arrays]
    saved = [argument.name for argument in spec.arrays]
    every = itertools.product(choices(f), SHAPES[len(domains)], ("dense", "columns", "gaps"))
    for numbers, shapes, layout in every:
        named = arguments(forward, numbers)
        operands = drawn(rng, domains, shapes, np.float64)
        y = value(f, *operands, numbers=numbers)
        dy = odd(rng, y.shape, -2, 2).astype(np.float64)
        whole = gradients(f, dy, *([y] if "y" in saved else operands), numbers=numbers)
        values = dict(zip(inputs, map(LAYOUTS[layout], operands))) | {"dy": LAYOUTS[layout](dy), "y": y}
        given = [values[argument] for argument in saved]
        got = getattr(bk, name)(*given, **named)
        results = got if isinstance(got, tuple) else (got,)
        assert len(results) == len(spec.outputs) == len(whole)
        for result, wanted, shape in zip(results, whole, shapes):
            close(result, summed(wanted, shape), 4)
        for k in range(len(results)) if spec.is_partial else ():
            needs = tuple(j == k for j in range(len(results)))
            alone = getattr(bk, name)(*given, **named, needs=needs)
            np.testing.assert_allclose(alone[k], results[k], 1e-14, 1e-14)  # another kernel may sum in another order
            assert [each is None for each in alone] == [j != k for j in range(len(results))]
            outs = [np.ones_like(result) if j == k else None for j, result in enumerate(results)]
            assert getattr(bk, name)(*given, **named, out=tuple(outs))[k] is outs[k]
            np.testing.assert_array_equal(outs[k], alone[k])


# --- integers, bools, comparisons -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", INTEGER)
@pytest.mark.parametrize("dtype", [bk.i8, bk.u8, bk.i32, bk.u64], ids=str)
def test_integers(rng, name, dtype):
    low, high = dtype.integer_range
    count = len(specs()[name].arrays)
    for shapes in SHAPES[count]:
        arrays = [rng.integers(max(low, -9), min(high, 9), shape).astype(dtype.numpy_dtype) for shape in shapes]
        got = getattr(bk, name)(*arrays)
        assert got.dtype == dtype.numpy_dtype
        expected = of_integers(entry(name), *arrays)
        np.testing.assert_array_equal(got, expected)
        assert got.shape == expected.shape


def compared(name):
    f = TRUTH[name].holds

    def check(rng, call):
        for dtype in (np.float32, np.int64, bool):
            for shapes in SHAPES[2]:
                a, b = (rng.integers(0, 2, shape).astype(dtype) for shape in shapes)
                got = call(a, b)
                assert got.dtype == bool
                np.testing.assert_array_equal(got, f(a, b))
        assert call(np.float32([1, np.nan]), 1.0).tolist() == f(np.float32([1, np.nan]), 1.0).tolist()

    return check


def logical(f, count=2):
    def check(rng, call):
        for shapes in SHAPES[count]:
            arrays = [rng.integers(0, 2, shape).astype(bool) for shape in shapes]
            np.testing.assert_array_equal(call(*arrays), f(*arrays))

    return check


# --- functions with shapes of their own -------------------------------------------------------------------------------


def gated_forward(name):
    def check(rng, call):
        for shape, axis in (((3, 4), -1), ((4, 3, 2), 0), ((2, 6), 1), ((2, 0), -1)):
            x = odd(rng, shape, -2, 2)
            for layout in ("dense", "columns"):
                got = call(LAYOUTS[layout](x.astype(np.float32)), axis=axis)
                close(got, gated(GATED[name], x, axis))

    return check


def gated_backward(name):
    def check(rng, call):
        x, dy = odd(rng, (4, 6), -2, 2), odd(rng, (4, 3), -2, 2)
        close(call(dy, LAYOUTS["columns"](x)), gated_gradient(GATED[name], dy, x, -1))

    return check


def nextafter(rng, call):
    a, b = (rng.standard_normal((3, 4)).astype(np.float32) for _ in range(2))
    np.testing.assert_array_equal(call(a, b[0]), np.nextafter(a, b[0]))


def ldexp(rng, call):
    a, b = odd(rng, (3, 4), -2, 2).astype(np.float32), rng.integers(-5, 5, (3, 1)).astype(np.int32)
    np.testing.assert_array_equal(call(a, b), np.ldexp(a, b))
    np.testing.assert_array_equal(call(a, 3), a * 8)


def ldexp_backward(rng, call):
    a, b, dy = odd(rng, (4,), -2, 2), rng.integers(-5, 5, (3, 1)).astype(np.int32), odd(rng, (3, 4), -2, 2)
    np.testing.assert_array_equal(call(dy, a, b), (dy * 2.0**b).sum(0))


def where(rng, call):
    for dtype, condition in itertools.product(
        (np.float32, np.int16, np.float64, bool), (bool, np.uint8, np.uint32, np.int64)
    ):
        c, a, b = (
            rng.integers(0, 2, (3, 1)).astype(condition),
            *(rng.integers(0, 2, s).astype(dtype) for s in ((4,), ())),
        )
        np.testing.assert_array_equal(call(c, a, b), np.where(c, a, b))
    assert call(np.array([True, False]), 1.5, 2.0).tolist() == [1.5, 2]


def where_backward(rng, call):
    c, dy = rng.integers(0, 2, (3, 1)).astype(bool), odd(rng, (3, 4), -2, 2)
    da, db = call(dy, c, np.zeros(4), np.zeros(()))
    close(da, np.where(c, dy, 0).sum(0))
    close(db, np.where(c, 0, dy).sum())


def cast(rng, call):
    x = odd(rng, (3, 4), -2, 2).astype(np.float32)
    for dtype in (np.float64, np.float16, np.int32, np.uint8, bool, bk.bf16, "e4m3fn", np.dtype("i2")):
        got = call(LAYOUTS["columns"](np.abs(x)), dtype)
        assert bk.tensor(got).dtype is bk.ElementKind(bk.dtypes.as_element(dtype))
        if got.dtype.kind in "iub":
            np.testing.assert_array_equal(got, np.abs(x).astype(got.dtype))


def fill(rng, call):
    for dtype, number in ((np.float32, 1.5), (np.int8, -3), (bool, True), (np.float16, 1e9), (ml_dtypes.bfloat16, 2)):
        like = np.zeros((2, 3), dtype)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(call(like, number), np.full((2, 3), number, dtype))


def prelu(rng, call):
    x = odd(rng, (2, 3, 4), -2, 2)
    for weight, axis in (
        (np.array([0.5]), 1),
        (np.array(0.25), 1),
        (np.array([0.5, -1, 2]), 1),
        (np.arange(4.0), -1),
        (np.arange(2.0), 0),
    ):
        spread = weight.reshape([-1 if d == axis % 3 else 1 for d in range(3)])
        for layout in ("dense", "columns", "gaps"):
            close(call(LAYOUTS[layout](x), weight, axis=axis), np.where(x > 0, x, spread * x))
    close(call(x[0], np.float64([0.5])), np.where(x[0] > 0, x[0], 0.5 * x[0]))


def prelu_backward(rng, call):
    x, dy, w = odd(rng, (2, 3, 4), -2, 2), odd(rng, (2, 3, 4), -2, 2), np.array([0.5, -1, 2])
    dx, dw = call(dy, x, w)
    close(dx, np.where(x > 0, dy, w[:, None] * dy))
    close(dw, np.where(x > 0, 0, x * dy).sum((0, 2)), 10)
    close(call(dy, x, w[:1], needs=(False, True))[1], np.where(x > 0, 0, x * dy).sum()[None], 10)


DISTANCE = np.arange(5)[None, :] - np.arange(4)[:, None]


def alibi(rng, call):
    scores, slopes = odd(rng, (2, 3, 4, 5), -2, 2), np.array([1, 0.5, 0.25])
    for layout in ("dense", "columns"):  # C requires contiguous scores; others are copied
        close(call(LAYOUTS[layout](scores), slopes), scores + slopes[:, None, None] * DISTANCE)


def alibi_backward(rng, call):
    dy = odd(rng, (2, 3, 4, 5), -2, 2)
    dscores, dslopes = call(dy)
    close(dscores, dy)
    close(dslopes, (dy * DISTANCE).sum((0, 2, 3)), 10)
    assert call(dy, needs=(True, False))[1] is None


BAGS = {"sum": lambda rows: rows.sum(0), "mean": lambda rows: rows.sum(0) / max(len(rows), 1)}
OFFSETS, ENDS = np.array([0, 2, 6], np.int32), (2, 6, 7)


def embedding_bag(rng, call):
    weight = odd(rng, (10, 4), -2, 2)
    for index, mode, padding in itertools.product((np.int32, np.int64), BAGS, (None, 5, -5)):
        indices = np.array([1, 9, 2, 2, 5, 1, 0], index)
        kept = [[k for k in indices[a:b] if padding is None or k != 5] for a, b in zip(OFFSETS, ENDS)]
        expected = np.stack([BAGS[mode](weight[each]) for each in kept])
        close(call(indices, weight, OFFSETS, mode=mode, padding_idx=padding), expected, 10)
    close(
        call(indices, LAYOUTS["columns"](weight), OFFSETS),
        np.stack([weight[indices[a:b]].mean(0) for a, b in zip(OFFSETS, ENDS)]),
        10,
    )


def embedding_bag_backward(rng, call):
    """A new result is the gradient alone; out is accumulated into."""
    dout, indices = odd(rng, (3, 4), -2, 2), np.array([1, 9, 2, 2, 5, 1, 0])
    expected = np.zeros((10, 4))
    for bag, (a, b) in enumerate(zip(OFFSETS, ENDS)):
        np.add.at(expected, indices[a:b], dout[bag])
    out = np.ones((10, 4))
    for _ in range(2):
        close(call(dout, indices, OFFSETS, 10, mode="sum"), expected, 10)
    call(dout, indices, OFFSETS, 10, mode="sum", out=out)
    close(out, expected + 1, 10)


def embedding(rng, call):
    weight = odd(rng, (10, 4), -2, 2)
    for index, padding in itertools.product((np.int32, np.int64), (None, 5, -5)):
        indices = np.array([1, 9, 2, 2, 5, 1, 0], index)
        expected = np.where((indices == 5)[:, None] & (padding is not None), 0, weight[indices])
        close(call(indices, LAYOUTS["columns"](weight), padding_idx=padding), expected)
    for shape in ((), (2, 3), (0, 2)):
        indices = rng.integers(0, 10, shape)
        close(call(indices, weight), weight[indices])
        close(call(indices.T, weight, out=np.empty((*shape[::-1], 8))[..., ::2]), weight[indices.T])


def embedding_renorm(rng, call):
    weight, indices = odd(rng, (10, 4), -2, 2), np.array([1, 9, 2, 2, 5, 1, 0])
    for index, (order, power) in itertools.product((np.int32, np.int64), ((2, 2.0), (1, 1.0), (np.inf, np.inf))):
        norms = np.linalg.norm(weight, order, axis=1)
        cut = np.isin(np.arange(10), indices) & (norms > 1.5)
        expected = np.where(cut[:, None], weight * (1.5 / (norms + 1e-7))[:, None], weight)
        close(call(indices.astype(index), weight, 1.5, norm_type=power), expected, 10)


def embedding_backward(rng, call):
    """A new result is the gradient alone; out is accumulated into."""
    dout, indices, expected = odd(rng, (7, 4), -2, 2), np.array([1, 9, 2, 2, 5, 1, 0]), np.zeros((10, 4))
    np.add.at(expected, indices, dout)
    out = np.ones((10, 4))
    close(call(dout, indices, 10), expected, 10)
    close(call(dout, indices, 10, padding_idx=5), np.where(np.arange(10)[:, None] == 5, 0, expected), 10)
    call(dout, indices, 10, out=out)
    close(out, expected + 1, 10)
    table = np.array([[3, 1], [9, 3]])
    close(call(dout[:4].reshape(2, 2, 4), table, 10), call(dout[:4], table.reshape(4), 10))


def embedding_dense_backward(rng, call):
    """Scaled by frequency, each row is the mean of its gradients."""
    dout, indices, expected = odd(rng, (7, 4), -2, 2), np.array([1, 9, 2, 2, 5, 1, 0]), np.zeros((10, 4))
    np.add.at(expected, indices, dout)
    means = expected / np.maximum(np.bincount(indices, minlength=10), 1)[:, None]
    for index in (np.int32, np.int64):
        close(call(dout, indices.astype(index), 10), expected, 10)
        close(call(dout, indices.astype(index), 10, scale_grad_by_freq=True), means, 10)
    padded = call(dout, indices, 10, padding_idx=2, scale_grad_by_freq=True)
    close(padded, np.where(np.arange(10)[:, None] == 2, 0, means), 10)


def embedding_sparse_backward(rng, call):
    """Rows of the dense gradient; rows behind the last one have index -1, which index_add ignores."""
    dout, indices, expected = odd(rng, (7, 4), -2, 2), np.array([1, 9, 2, 2, 5, 1, 0]), np.zeros((10, 4))
    np.add.at(expected, indices, dout)
    for index in (np.int32, np.int64):
        rows, values, count = call(dout, indices.astype(index), 10)
        assert rows.dtype == count.dtype == index
        np.testing.assert_array_equal(rows, [0, 1, 2, 5, 9, -1, -1])
        assert int(count[0]) == 5
        close(values[:5], expected[rows[:5]], 10)
        assert not values[5:].any()
        close(bk.index_add(rows, values, 10, axis=0), expected, 10)


def embedding_bag_max(rng, call):
    weight, indices = odd(rng, (10, 4), -2, 2), np.array([1, 9, 2, 2, 5, 1, 0])
    bags = [indices[a:b] for a, b in zip(OFFSETS, ENDS)]
    for offset in (np.int32, np.int64):
        found, rows = call(indices, weight, np.asarray(OFFSETS).astype(offset))
        close(found, np.stack([weight[bag].max(0) for bag in bags]))
        assert rows.dtype == offset
        np.testing.assert_array_equal(rows, np.stack([bag[weight[bag].argmax(0)] for bag in bags]))


def embedding_bag_max_backward(rng, call):
    dout, rows, expected = odd(rng, (3, 4), -2, 2), rng.integers(-1, 10, (3, 4)).astype(np.int32), np.zeros((10, 4))
    bags, columns = np.nonzero(rows >= 0)
    np.add.at(expected, (rows[bags, columns], columns), dout[bags, columns])
    close(call(dout, rows, 10), expected, 10)


SEGMENTS = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod}
SEGMENTS_OR_ZERO = {"max_or_zero": np.max, "min_or_zero": np.min}
EMPTY = {"max_or_zero": 0, "min_or_zero": 0, "sum": 0, "mean": 0, "max": -np.inf, "min": np.inf, "prod": 1}


def segments(reduction, order):
    def check(rng, call):
        x = odd(rng, (6, 5), -2, 2)
        for index in (np.int32, np.int64):
            ids = np.array([0, 0, 2, 2, 2, 7], index)[::order].copy()
            expected = np.full((4, 5), EMPTY[reduction], np.float64)
            for segment in (0, 2):
                expected[segment] = (SEGMENTS | SEGMENTS_OR_ZERO)[reduction](x[ids == segment], 0)
            for layout in ("dense", "columns", "gaps"):
                close(call(LAYOUTS[layout](x), ids, 4), expected, 10)

    return check


def segments_backward(reduction):
    def check(rng, call):
        dy, ids = odd(rng, (4, 5), -2, 2), np.array([0, 2, 2, 7], np.int32)
        x = odd(rng, (4, 5), 1, 2)
        expected = np.where((ids < 4)[:, None], dy[ids % 4], 0).astype(np.float64)
        if reduction == "mean":
            expected[1:3] /= 2
        elif reduction == "prod":
            expected[1:3] *= x[2:0:-1]
        elif reduction in ("max", "min"):
            best = (x[1:3].argmax if reduction == "max" else x[1:3].argmin)(0)
            expected[1:3] *= np.arange(2)[:, None] == best
        saved = {"max": (x,), "min": (x,), "prod": (x,)}.get(reduction, ())
        y = (np.stack([x[0], x[0], x[1] * x[2], x[0]]).astype(x.dtype),) if reduction == "prod" else ()
        close(call(dy, *saved, ids, *y), expected, 10)

    return check


def tile(rng, call):
    x = odd(rng, (2, 3), -2, 2)
    for repeats in (2, (2,), (2, 3), (4, 1, 2), [1, 1]):
        for layout in ("dense", "columns", "backwards"):
            np.testing.assert_array_equal(call(LAYOUTS[layout](x), repeats), np.tile(x, repeats))


def tile_backward(rng, call):
    dy = odd(rng, (4, 9), -2, 2)
    close(call(LAYOUTS["columns"](dy), (2, 3)), dy.reshape(2, 2, 3, 3).sum((0, 2)), 10)


def affine_grid(rng, call):
    theta = odd(rng, (2, 2, 3), -2, 2)
    x, y = (2 * np.arange(4) + 1) / 4 - 1, (2 * np.arange(3) + 1) / 3 - 1
    base = np.stack(np.broadcast_arrays(x[None, :], y[:, None], 1.0), -1)
    close(call(theta, 3, 4), np.einsum("hwk,nck->nhwc", base, theta), 10)


SCANS = {
    "cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum, "logcumsumexp": np.logaddexp,
}  # fmt: skip


def scan(accumulate):
    def check(rng, call):
        for shape, axis in (((3, 4), -1), ((4, 3, 2), 0), ((7,), 0), ((2, 5, 3), 1), ((2, 0), -1)):
            x = odd(rng, shape, -2, 2)
            for layout in ("dense", "columns"):
                close(call(LAYOUTS[layout](x), axis=axis), accumulate(x, axis), 10)
                backwards = np.flip(accumulate(np.flip(x, axis), axis), axis)
                close(call(LAYOUTS[layout](x), axis=axis, reverse=True), backwards, 10)

    return check


def exclusive_scan(accumulate, start):
    def check(rng, call):
        x = odd(rng, (4, 5), -2, 2)
        before = np.concatenate([np.full((4, 1), start), accumulate(x, 1)[:, :-1]], 1)
        close(call(LAYOUTS["columns"](x)), before, 10)

    return check


def scan_indices(order):
    def check(rng, call):
        x = rng.integers(-3, 4, (6, 9)).astype(np.float32)
        values, indices = call(LAYOUTS["columns"](x))
        best = order * np.maximum.accumulate(order * x, 1)
        np.testing.assert_array_equal(values, best)
        np.testing.assert_array_equal(indices, [[list(row).index(b) for b in line] for row, line in zip(x, best)])

    return check


def cumsum_backward(rng, call):
    dy = odd(rng, (3, 5), -2, 2)
    close(call(LAYOUTS["columns"](dy)), np.flip(np.cumsum(np.flip(dy, 1), 1), 1), 10)
    close(call(dy, axis=0, reverse=True), np.cumsum(dy, 0), 10)


def exclusive_scan_backward(name):
    """The gradient of a row of three elements, whose total is no result."""

    def check(rng, call):
        x, dy = np.array([[2.0, 3.0, 1.0], [0.0, -1.0, 5.0]]), odd(rng, (2, 3), -2, 2)
        last = {"cumprod": 1, "logcumsumexp": -np.inf, "cummax": -np.inf, "cummin": np.inf, "cumsum": 0}[name]
        y = np.concatenate([np.full((2, 1), last), SCANS[name].accumulate(x, 1)[:, :-1]], 1)
        later = {"cummax": x[:, 1] > x[:, 0], "cummin": x[:, 1] < x[:, 0]}
        shares = {
            "cumsum": (dy[:, 1] + dy[:, 2], dy[:, 2]),
            "cumprod": (dy[:, 1] + dy[:, 2] * x[:, 1], dy[:, 2] * x[:, 0]),
            "logcumsumexp": (
                dy[:, 1] * np.exp(x[:, 0] - y[:, 1]) + dy[:, 2] * np.exp(x[:, 0] - y[:, 2]),
                dy[:, 2] * np.exp(x[:, 1] - y[:, 2]),
            ),
            **{extreme: (dy[:, 1] + dy[:, 2] * ~wins, dy[:, 2] * wins) for extreme, wins in later.items()},
        }
        saved = {"cumsum": (), "cumprod": (x, y), "logcumsumexp": (x, y)}.get(name, (x,))
        close(call(LAYOUTS["columns"](dy), *saved), np.stack([*shares[name], np.zeros(2)], 1), 10)

    return check


def scan_backward(name):
    """The gradient of a row of two elements, which has a simple formula."""

    def check(rng, call):
        x, dy = np.array([[2.0, 3.0], [0.0, -1.0]]), odd(rng, (2, 2), -2, 2)
        y = SCANS[name].accumulate(x, 1)
        shares = {
            "cumprod": (dy[:, 0] + dy[:, 1] * x[:, 1], dy[:, 1] * x[:, 0]),
            "cummax": (dy[:, 0] + dy[:, 1] * (x[:, 1] <= x[:, 0]), dy[:, 1] * (x[:, 1] > x[:, 0])),
            "cummin": (dy[:, 0] + dy[:, 1] * (x[:, 1] >= x[:, 0]), dy[:, 1] * (x[:, 1] < x[:, 0])),
            "logcumsumexp": (dy[:, 0] + dy[:, 1] * np.exp(x[:, 0] - y[:, 1]), dy[:, 1] * np.exp(x[:, 1] - y[:, 1])),
        }
        saved = (x, y) if name in ("cumprod", "logcumsumexp") else (x,)
        close(call(LAYOUTS["columns"](dy), *saved), np.stack(shares[name], 1), 10)

    return check


OTHERS = {
    **{name: compared(name) for name in ("eq", "ne", "gt", "ge", "lt", "le")},
    **{name: logical(TRUTH[name].holds) for name in ("logical_and", "logical_or", "logical_xor")},
    "logical_not": logical(np.logical_not, 1), "nextafter": nextafter, "ldexp": ldexp, "ldexp_backward": ldexp_backward,
    "where": where, "where_backward": where_backward, "cast": cast, "fill": fill, "prelu": prelu,
    "prelu_backward": prelu_backward, "alibi": alibi, "alibi_backward": alibi_backward, "embedding_bag": embedding_bag,
    "embedding_bag_backward": embedding_bag_backward, "embedding": embedding,
    "embedding_backward": embedding_backward, "embedding_renorm": embedding_renorm,
    "embedding_dense_backward": embedding_dense_backward, "embedding_sparse_backward": embedding_sparse_backward,
    "embedding_bag_max": embedding_bag_max,
    "embedding_bag_max_backward": embedding_bag_max_backward, "tile": tile, "tile_backward": tile_backward,
    "affine_grid": affine_grid,
    **{f"segment_{reduction}": segments(reduction, 1) for reduction in SEGMENTS | SEGMENTS_OR_ZERO},
    **{f"unsorted_segment_{reduction}": segments(reduction, -1) for reduction in SEGMENTS},
    **{f"{order}segment_{op}_backward": segments_backward(op) for op in SEGMENTS for order in ("", "unsorted_")},
    **{name: scan(function.accumulate) for name, function in SCANS.items()},
    **{
        f"exclusive_{name}": exclusive_scan(function.accumulate, start)
        for (name, function), start in zip(SCANS.items(), (0, 1, -np.inf, np.inf, -np.inf))
    },
    "cummax_indices": scan_indices(1), "cummin_indices": scan_indices(-1), "cumsum_backward": cumsum_backward,
    **{f"{name}_backward": scan_backward(name) for name in SCANS if name != "cumsum"},
    **{f"exclusive_{name}_backward": exclusive_scan_backward(name) for name in SCANS},
    **{name: gated_forward(name) for name in GATED},
    **{f"{name}_backward": gated_backward(name) for name in GATED},
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_others(rng, name):
    OTHERS[name](rng, getattr(bk, name))


def test_the_gradient_of_a_function_of_one_array_is_of_the_shape_of_all():
    dy, x = np.ones((3, 4)), np.full(4, 2.0)
    for name in ("elu", "gelu", "square"):
        assert getattr(bk, f"{name}_backward")(dy, x).shape == (3, 4)

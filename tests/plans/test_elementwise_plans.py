# SPDX-License-Identifier: Apache-2.0
"""Elementwise plans on the library against the oracle: every plan, function and dtype, dense, strided, broadcast."""

import numpy as np
import pytest

import baracuda as bk
from baracuda._library.op_table import rows
from expected import WITHOUT_ENTRY, choices, gradients, intervals, of_integers, value
from fakes import SHAPE
from plan_tools import (
    FLOATS,
    INTEGERS,
    LAYOUTS,
    close,
    integers,
    odd,
    ones,
    reduced,
    run,
    select,
    tensor,
    values_of,
)
from tools.oracle import BINARY, TERNARY, TRUTH, UNARY

Unary, Binary, Cmp, Ternary = bk.UnaryKind, bk.BinaryKind, bk.BinaryCmpKind, bk.TernaryKind


def functions(*names):
    """The functions that the rows of the given names apply."""
    return sorted({function for row in rows() if row.name in names for function in row.functions})


def of_floats():
    """The float functions that UnaryPlan takes; one without an entry fails when it is tested."""
    names = [kind.name.lower() for kind in Unary if kind not in bk.UnaryPlan.elsewhere]
    return [name for name in names if name not in UNARY or UNARY[name].forward]


def parameterized():
    """The functions that UnaryParamPlan takes."""
    return sorted({*functions("unary_{F}_param_{T}", "unary_{F}_param_{T} two"), "powi"})


# --- unary ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", of_floats())
def test_unary(rng, name, dtype):
    f, kind = UNARY[name], Unary[name.upper()]
    x = odd(rng, SHAPE, *intervals(f)[0])
    expected = value(f, x, numbers=f.constants)
    plan = select("Unary", kind, SHAPE, element=dtype)
    for source, target in (("dense", "dense"), ("columns", "gaps"), ("backwards", "dense")):
        y = ones(dtype, target)
        run(plan, tensor(x, dtype, source), y)
        close(y, expected)
    y = ones(dtype)
    run(plan, tensor(x[:1], dtype), y)
    close(y, expected[:1])
    in_place = tensor(x, dtype, "backwards")
    run(plan, in_place, in_place)
    close(in_place, expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", functions("unary_{F}_backward_{T}"))
def test_unary_backward(rng, name, dtype):
    f, kind = UNARY[name], Unary[name.upper()]
    x, dy = odd(rng, SHAPE, *intervals(f)[0]), odd(rng, SHAPE, -2, 2)
    plan = select("UnaryBackward", kind, SHAPE, element=dtype)
    saved = values_of(tensor(value(f, x) if f.saves == "y" else x, dtype))
    (expected,) = gradients(f, dy, saved, numbers=f.constants)
    for layouts in (("dense",) * 3, ("columns", "gaps", "backwards")):
        dx = ones(dtype, layouts[2])
        run(plan, tensor(dy, dtype, layouts[0]), dx=dx, **{f.saves: tensor(saved, dtype, layouts[1])})
        close(dx, expected)
    one, dx = tensor(dy[:1, :1], dtype), ones(dtype)
    run(plan, one, dx=dx, **{f.saves: tensor(saved, dtype)})
    close(dx, gradients(f, np.full(SHAPE, dy[0, 0]), saved, numbers=f.constants)[0])
    kept = tensor(saved, dtype)
    run(plan, tensor(dy, dtype), dx=kept, **{f.saves: kept})
    close(kept, expected)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", functions("unary_{F}_{T} integers"))
def test_unary_integers(rng, name, dtype):
    x = integers(rng, dtype).astype(dtype.numpy_dtype)
    plan = select("Unary", Unary[name.upper()], SHAPE, element=dtype)
    for layout in ("dense", "columns"):
        y = ones(dtype)
        run(plan, tensor(x, dtype, layout), y)
        np.testing.assert_array_equal(values_of(y), of_integers(UNARY[name], x))


def test_logical_not():
    x = np.array([[0, 1, 2, 255]], np.uint8)
    y, base = ones(bk.bool_, shape=(1, 4)), bk.upload(x)
    run(
        select("Unary", Unary.LOGICAL_NOT, (1, 4), element=bk.bool_),
        bk.TensorRef(base.ptr, (1, 4), bk.bool_, owner=base),
        y,
    )
    assert bk.download(y).view(np.uint8).tolist() == [[1, 0, 0, 0]]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", parameterized())
def test_unary_param(rng, name, dtype):
    """f64 parameters are exact: 0.1 is not rounded to f32."""
    f, kind = UNARY[name], Unary[name.upper()]
    for numbers in choices(f):
        x, dy = odd(rng, SHAPE, *intervals(f)[0]), odd(rng, SHAPE, -2, 2)
        forward = select("UnaryParam", kind, SHAPE, numbers, element=dtype)
        backward = select("UnaryParamBackward", kind, SHAPE, numbers, element=dtype)
        for layouts in (("dense",) * 3, ("columns", "gaps", "backwards")):
            y, dx = ones(dtype, layouts[1]), ones(dtype, layouts[2])
            run(forward, tensor(x, dtype, layouts[0]), y)
            close(y, value(f, x, numbers=numbers))
            run(backward, tensor(dy, dtype, layouts[1]), tensor(x, dtype, layouts[0]), dx)
            close(dx, *gradients(f, dy, x, numbers=numbers))


# --- binary -----------------------------------------------------------------------------------------------------------

BROADCASTS = (((3, 4), (3, 4)), ((1, 4), (3, 1)), ((3, 4), (1, 4)), ((1, 1), (3, 4)), ((3, 1), (3, 4)))


def pair(rng, name, first, second):
    """Operands whose quotients are not integers."""
    low = 0.5 if BINARY[name].base else -2
    b = odd(rng, second, -2, 2)
    return odd(rng, first, low, 2, 64), np.where(np.abs(b) < 0.2, b + 0.5, b)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", [n for n in functions("binary_{F}_{T}") if n != "nextafter"])
def test_binary(rng, name, dtype):
    plan = select("Binary", Binary[name.upper()], SHAPE, element=dtype)
    for layout in LAYOUTS:
        for first, second in BROADCASTS:
            a, b = pair(rng, name, first, second)
            y = ones(dtype, layout)
            run(plan, tensor(a, dtype, layout), tensor(b, dtype), y)
            close(y, value(BINARY[name], values_of(tensor(a, dtype)), b))
    a, b = pair(rng, name, SHAPE, SHAPE)
    for k in (0, 1):
        views = [tensor(a, dtype, "columns"), tensor(b, dtype, "columns")]
        run(plan, *views, views[k])
        close(views[k], value(BINARY[name], values_of(tensor(a, dtype)), b))


def test_nextafter_and_ldexp(rng):
    a, b = rng.standard_normal(SHAPE).astype(np.float32), rng.standard_normal(SHAPE).astype(np.float32)
    y = ones(bk.f32)
    run(select("Binary", Binary.NEXTAFTER, SHAPE, element=bk.f32), tensor(a, bk.f32), tensor(b, bk.f32), y)
    np.testing.assert_array_equal(bk.download(y), np.nextafter(a, b))
    exponents = rng.integers(-9, 9, SHAPE)
    for dtype in FLOATS:
        x, e = odd(rng, SHAPE, -2, 2), tensor(exponents[:1], bk.i32)
        run(select("Binary", Binary.LDEXP, SHAPE, element=dtype), tensor(x, dtype), e, y := ones(dtype))
        np.testing.assert_array_equal(values_of(y), np.ldexp(x, exponents[:1]))
        run(select("BinaryBackward", Binary.LDEXP, SHAPE, element=dtype), tensor(x, dtype), b=e, da=y)
        np.testing.assert_array_equal(values_of(y), np.ldexp(x, exponents[:1]))


def check_gradients(plan, inputs, names, shapes, whole, dtype):
    """All gradients at once, then each alone; a gradient is summed where its operand was broadcast."""
    wanted = [None, *names] if len(names) > 1 else names
    for layout in ("dense", "gaps"):
        for chosen in wanted:
            outputs = {n: ones(dtype, layout, s) for n, s in zip(names, shapes) if chosen in (None, n)}
            run(plan, **inputs, **outputs)
            for name, view in outputs.items():
                close(view, reduced(whole[name], view.shape), 4)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", functions("binary_{F}_backward_{T}", "binary_{F}_backward_{T} linear"))
def test_binary_backward(rng, name, dtype):
    plan = select("BinaryBackward", Binary[name.upper()], SHAPE, element=dtype)
    for first, second in BROADCASTS:
        (a, b), dy = pair(rng, name, first, second), odd(rng, SHAPE, -2, 2)
        a = values_of(tensor(a, dtype))
        whole = dict(zip(("da", "db"), gradients(BINARY[name], dy, a, b)))
        inputs = {"dy": tensor(dy, dtype), "a": tensor(a, dtype, "columns"), "b": tensor(b, dtype)}
        check_gradients(plan, inputs, ("da", "db"), (first, second), whole, dtype)
    a, b = (tensor(pair(rng, name, SHAPE, SHAPE)[k], dtype) for k in (0, 1))
    expected = [ones(dtype), ones(dtype)]
    run(plan, tensor(dy, dtype), a, b, *expected)
    run(plan, tensor(dy, dtype), a, b, b, a)
    np.testing.assert_array_equal(values_of(b), values_of(expected[0]))
    np.testing.assert_array_equal(values_of(a), values_of(expected[1]))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", functions("binary_{F}_{T} integers"))
def test_binary_integers(rng, name, dtype):
    shape = (6, 5)
    low, _ = dtype.integer_range
    a, b = integers(rng, dtype, shape), integers(rng, dtype, shape)[::-1, ::-1]
    small = np.array([int(v) for v in rng.integers(max(low, -3), dtype.bits + 2, 10)], object).reshape(2, 5)
    b = np.concatenate([b[:4], small])
    plan = select("Binary", Binary[name.upper()], shape, element=dtype)
    a, b = a.astype(dtype.numpy_dtype), b.astype(dtype.numpy_dtype)
    expected = of_integers(BINARY[name], a, b)
    for layout in ("dense", "gaps"):
        y = ones(dtype, "dense", shape)
        run(plan, tensor(a, dtype, layout), tensor(b, dtype), y)
        np.testing.assert_array_equal(values_of(y), expected)


def test_logical():
    a, b = np.array([[0, 1, 0, 7]], np.uint8), np.array([[0], [200]], np.uint8)
    bases = bk.upload(a), bk.upload(b)
    views = [bk.TensorRef(base.ptr, base.shape, bk.bool_, owner=base) for base in bases]
    for name in functions("binary_{F}_{T} bool"):
        y = ones(bk.bool_, shape=(2, 4))
        run(select("Binary", Binary[name.upper()], (2, 4), element=bk.bool_), *views, y)
        np.testing.assert_array_equal(bk.download(y).view(np.uint8), TRUTH[name].holds(a, b))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, bk.bool_], ids=str)
def test_comparisons(rng, dtype):
    a, b = (rng.integers(0, 2 if dtype is bk.bool_ else 4, shape) for shape in (SHAPE, (3, 1)))
    for kind in Cmp:
        for flag in (bk.u8, bk.bool_):
            y = ones(flag, "columns")
            run(select("BinaryCmp", kind, SHAPE, element=dtype), tensor(a, dtype, "gaps"), tensor(b, dtype), y)
            np.testing.assert_array_equal(bk.download(y).astype(bool), TRUTH[kind.name.lower()].holds(a, b))
    if dtype.is_float:
        nan, one = (tensor(np.full(SHAPE, v), dtype) for v in (np.nan, 1.0))
        for kind in Cmp:
            run(select("BinaryCmp", kind, SHAPE, element=dtype), nan, one, y := ones(bk.u8))
            assert (bk.download(y) == (kind is Cmp.NE)).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("p", [0.1, 0.75])
def test_lerp(rng, p, dtype):
    f = WITHOUT_ENTRY["lerp"]
    forward = select("BinaryParam", Binary.LERP, SHAPE, p, element=dtype)
    backward = select("BinaryParamBackward", Binary.LERP, SHAPE, p, element=dtype)
    for first, second in BROADCASTS:
        a, b, dy = odd(rng, first, -2, 2), odd(rng, second, -2, 2), odd(rng, SHAPE, -2, 2)
        y = ones(dtype, "gaps")
        run(forward, tensor(a, dtype), tensor(b, dtype), y)
        close(y, value(f, a, b, numbers=(p,)))
        inputs, whole = {"dy": tensor(dy, dtype)}, dict(zip(("da", "db"), gradients(f, dy, a, b, numbers=(p,))))
        check_gradients(backward, inputs, ("da", "db"), (first, second), whole, dtype)


# --- ternary, where ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", TERNARY)
def test_ternary(rng, name, dtype):
    kind, scale, f = Ternary[name.upper()], 0.1, TERNARY[name]
    numbers = (scale,) if name in functions("ternary_{F}_param_{T} scaled") else ()
    forward = select("Ternary", kind, SHAPE, scale, element=dtype)
    backward = select("TernaryBackward", kind, SHAPE, scale, element=dtype)
    for shapes in ((SHAPE,) * 3, ((3, 4), (1, 4), (3, 1)), ((1, 1), (3, 4), (1, 4))):
        a, b, c = (odd(rng, shape, 0.5, 2, step) for shape, step in zip(shapes, (32, 16, 8)))
        dy, views = odd(rng, SHAPE, -2, 2), [tensor(v, dtype, "gaps") for v in (a, b, c)]
        y = ones(dtype, "columns")
        run(forward, *views, y)
        close(y, value(f, a, b, c, numbers=numbers))
        whole = dict(zip(("da", "db", "dc"), gradients(f, dy, a, b, c, numbers=numbers)))
        inputs = {"dy": tensor(dy, dtype), **dict(zip("abc", views))}
        check_gradients(backward, inputs, ("da", "db", "dc"), shapes, whole, dtype)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_clamp_integers(rng, dtype):
    a, b, c = (integers(rng, dtype).astype(dtype.numpy_dtype) for _ in range(3))
    y = ones(dtype)
    run(
        select("Ternary", Ternary.CLAMP, SHAPE, element=dtype),
        tensor(a, dtype),
        tensor(b[:1], dtype),
        tensor(c, dtype),
        y,
    )
    np.testing.assert_array_equal(values_of(y), np.minimum(np.maximum(a, b[:1]), c))


@pytest.mark.parametrize("condition", [bk.bool_, bk.u8, bk.u32, bk.i64], ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, bk.bool_, bk.e4m3fn, bk.e5m2], ids=str)
def test_where(rng, dtype, condition):
    cond = rng.integers(0, 2, (3, 1)) * (1 if condition is bk.bool_ else 100)
    a, b = (rng.integers(0, 2, SHAPE).astype(np.float32) for _ in range(2))
    views = [tensor(cond, condition), tensor(a, dtype, "gaps"), tensor(b, dtype)]
    plan = select("Where", SHAPE, element=dtype)
    for y in (ones(dtype), views[1]):
        run(plan, *views, y)
        np.testing.assert_array_equal(bk.download(y).astype(np.float32), np.where(cond, a, b))
    dense = [tensor(np.broadcast_to(cond, SHAPE).copy(), condition), tensor(a, dtype), tensor(b, dtype)]
    run(plan, *dense, y := ones(dtype))
    np.testing.assert_array_equal(bk.download(y).astype(np.float32), np.where(cond, a, b))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_where_backward(rng, dtype):
    plan = select("WhereBackward", SHAPE, element=dtype)
    cond, dy = rng.integers(0, 2, (1, 4)), odd(rng, SHAPE, -2, 2)
    whole = {"da": np.where(cond, dy, 0), "db": np.where(cond, 0, dy)}
    for flag in (bk.bool_, bk.u8):
        for first, second in BROADCASTS:
            inputs = {"cond": tensor(cond, flag), "dy": tensor(dy, dtype)}
            check_gradients(plan, inputs, ("da", "db"), (first, second), whole, dtype)

# SPDX-License-Identifier: Apache-2.0
"""Casts, affine, fill, gated activations and PReLU on the library, and guarantees of all elementwise plans."""

import math

import ml_dtypes
import numpy as np
import pytest

import baracuda as bk
from expected import gated, gated_gradient
from fakes import SHAPE
from plan_tools import FLOATS, INTEGERS, close, integers, odd, ones, run, select, tensor, values_of, wrapped
from tools.oracle import GATED, casts

Unary, Binary, Ternary, Gated = bk.UnaryKind, bk.BinaryKind, bk.TernaryKind, bk.GatedActivationKind
FP8 = {bk.e4m3fn: ml_dtypes.float8_e4m3fn, bk.e5m2: ml_dtypes.float8_e5m2}
PLAIN = (*FLOATS, *INTEGERS, bk.bool_, *FP8)
PACKED = {bk.s4: (-8, 7), bk.u4: (0, 15)}


# --- cast -------------------------------------------------------------------------------------------------------------


def samples(dtype):
    """Values of a dtype, as Python numbers: the ends of the range, ties, and values that overflow elsewhere."""
    if dtype is bk.bool_:
        return [0, 1] * 6
    if dtype in PACKED:
        low, high = PACKED[dtype]
        return [low, high, 0, 1, 5, low + 1, 7, 3]
    if dtype.integer_range:
        low, high = dtype.integer_range
        return [low, high, 0, 1, 100, high - 1, low + 1, high // 2, 3, 17, 127, 9]
    values = [0.0, -0.0, 1.5, -1.5, 2.5, -129.25, 300.75, 40000.0, 3e9, 0.0078125, math.inf, -math.inf, math.nan, -1e20]
    with np.errstate(over="ignore"):
        kept = np.array(values, np.float32).astype(dtype.numpy_dtype).astype(np.float64).tolist()
    return kept


# The keys: whether the source and the target have two elements a byte
CASTS = {
    (False, False): casts.cast, (True, False): casts.unpack, (False, True): casts.pack, (True, True): casts.repack,
}  # fmt: skip


def bits_of(view):
    """The memory of a dense tensor as unsigned integers, of a packed one as bytes."""
    if view.dtype in PACKED:
        return bk.download(bk.TensorRef(view.ptr, (view.numel // 2,), bk.u8, owner=view))
    return bk.download(view).view(f"u{view.dtype.itemsize}")


def upload_any(values, dtype):
    if dtype in PACKED:
        base = bk.upload(casts.packed_pairs(np.array(values, np.int64) & 15))
        return bk.TensorRef(base.ptr, (len(values),), dtype, length=len(values), owner=base)
    return bk.upload(np.array(values, dtype.numpy_dtype))


@pytest.mark.parametrize("target", [*PLAIN, *PACKED], ids=str)
@pytest.mark.parametrize("source", [*PLAIN, *PACKED], ids=str)
def test_cast(source, target):
    values, packed = samples(source), (source in PACKED, target in PACKED)
    values = values[: len(values) // 2 * 2] if any(packed) else values
    x = upload_any(values, source)
    expected = CASTS[packed](bits_of(x), source.symbol, target.symbol)
    for name in ("CastSubByte",) if any(packed) else ("Cast", "CastSubByte"):
        y = bk.empty((len(values),), target) if target not in PACKED else upload_any([0] * len(values), target)
        run(select(name, len(values), target, element=source), x, y)
        wrong = casts.differ(bits_of(y), expected, target.symbol, moved=source is target)
        assert not wrong.any(), f"{bits_of(y)}, expected {expected}"


@pytest.mark.parametrize("target", PLAIN, ids=str)
@pytest.mark.parametrize("source", PLAIN, ids=str)
def test_cast_strided(source, target):
    x = np.arange(12).reshape(SHAPE) % (2 if bk.bool_ in (source, target) else 8)
    plan, x = select("Cast", SHAPE, target, element=source), x.astype(np.float32)
    for layouts in (("columns", "gaps"), ("backwards", "dense")):
        y = tensor(np.ones(SHAPE, np.float32), target, layouts[1])
        run(plan, tensor(x, source, layouts[0]), y)
        np.testing.assert_array_equal(bk.download(y).astype(np.float64), x)
    y = tensor(np.ones(SHAPE, np.float32), target)
    run(plan, tensor(x[:, :1], source), y)
    np.testing.assert_array_equal(bk.download(y).astype(np.float64), np.broadcast_to(x[:, :1], SHAPE))


def test_cast_in_place():
    x = bk.upload(np.array([1.5, -2.5, 300.0], np.float32))
    y = bk.TensorRef(x.ptr, x.shape, bk.i32, owner=x)
    run(select("Cast", 3, bk.i32, element=bk.f32), x, y)
    assert bk.download(y).tolist() == [1, -2, 300]


# --- affine, fill -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_affine(rng, dtype):
    plan, x = select("Affine", SHAPE, 0.1, -3, element=dtype), odd(rng, SHAPE, -2, 2)
    for layout in ("dense", "columns"):
        source, target = tensor(x, dtype, layout), ones(dtype, "dense")
        run(plan, source, target)
        close(target, 0.1 * x - 3)
        run(plan, source, source)
        close(source, 0.1 * x - 3)
        source = tensor(x, dtype, layout)
        run(plan, None, source)
        close(source, 0.1 * x - 3)
    run(plan, tensor(x[:, :1], dtype), target)
    close(target, 0.1 * x[:, :1] - 3)
    flat = bk.upload(x.ravel(), dtype)
    run(select("Affine", 12, 2, element=dtype), None, flat)
    close(flat, 2 * x.ravel())


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_affine_of_integers(rng, dtype):
    x, (low, high) = integers(rng, dtype), dtype.integer_range
    for scale, offset in ((3, 1), (high, low), (low, high)):
        expected = wrapped(x * scale + offset, dtype)
        plan, source = select("Affine", SHAPE, scale, offset, element=dtype), x.astype(dtype.numpy_dtype)
        for layout in ("dense", "gaps"):
            view, y = tensor(source, dtype, layout), ones(dtype)
            run(plan, view, y)
            np.testing.assert_array_equal(values_of(y), expected)
            run(plan, view, view)
            np.testing.assert_array_equal(values_of(view), expected)


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_fill(dtype):
    value = {bk.bool_: 1}.get(dtype, 3 if dtype.integer_range else 1.5)
    y = bk.empty((7,), dtype)
    run(select("Fill", 7, value, element=dtype), y)
    assert (bk.download(y).astype(np.float64) == value).all()
    base = bk.upload(np.zeros((3, 8)), dtype)
    run(select("Fill", SHAPE, value, element=dtype), bk.TensorRef(base.ptr, SHAPE, dtype, (8, 2), owner=base))
    got = bk.download(base).astype(np.float64)
    assert (got[:, ::2] == value).all()
    assert not got[:, 1::2].any(), "cells between those of the view"


def test_fill_with_invalid_values():
    for dtype in FLOATS:
        y = bk.empty((5,), dtype)
        for value in (math.nan, math.inf, -math.inf, -0.0):
            run(select("Fill", 5, value, element=dtype), y)
            np.testing.assert_array_equal(values_of(y), value)
            assert math.isnan(value) or (np.signbit(values_of(y)) == np.signbit(value)).all()


# --- gated activations ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", GATED)
def test_gated(rng, name, dtype, axis):
    shape, x = (4, 6), odd(rng, (4, 6), -2, 2)
    a, b = np.split(x, 2, axis)
    dy = odd(rng, a.shape, -2, 2)
    expected, dx = gated(GATED[name], x, axis), gated_gradient(GATED[name], dy, x, axis)
    forward = select("GatedActivation", Gated[name.upper()], shape, axis, element=dtype)
    backward = select("GatedActivationBackward", Gated[name.upper()], shape, axis, element=dtype)
    for layouts in (("dense",) * 3, ("columns", "gaps", "backwards"), ("backwards", "columns", "gaps")):
        view, y = tensor(x, dtype, layouts[0]), ones(dtype, layouts[1], a.shape)
        run(forward, view, y)
        close(y, expected)
        grad = ones(dtype, layouts[2], shape)
        run(backward, view, tensor(dy, dtype, layouts[1]), grad)
        close(grad, dx)
        run(backward, view, tensor(dy, dtype, layouts[1]), view)
        close(view, dx)
    view = tensor(x, dtype)
    half = bk.TensorRef(view.ptr, a.shape, dtype, view.strides, view.length, owner=view)
    run(forward, view, half)
    close(view, np.concatenate([expected, b], axis))


# --- PReLU ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [-1, 0, 1, 2])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_prelu(rng, dtype, axis):
    shape = (2, 3, 4)
    extent = 1 if axis < 0 else shape[axis]
    x, dy, weight = odd(rng, shape, -2, 2), odd(rng, shape, -2, 2), odd(rng, (extent,), -1, 1)
    spread = weight.reshape([extent if d == axis else 1 for d in range(3)])
    forward = select("PRelu", shape, axis, element=dtype)
    backward = select("PReluBackward", shape, axis, element=dtype)
    dx, summands = np.where(x > 0, dy, spread * dy), np.where(x > 0, 0, dy * x)
    dweight = summands.sum(tuple(d for d in range(3) if d != axis)).reshape(extent)
    for layouts in (("dense", "dense"), ("gaps", "columns"), ("backwards", "gaps")):
        views = tensor(dy, dtype, layouts[1]), tensor(x, dtype, layouts[0]), tensor(weight, dtype, layouts[0])
        y = ones(dtype, layouts[1], shape)
        run(forward, *views[1:], y)
        close(y, np.where(x > 0, x, spread * x))
        for wanted in (("dx", "dweight"), ("dx",), ("dweight",)):
            outputs = {"dx": ones(dtype, layouts[0], shape), "dweight": ones(dtype, layouts[1], (extent,))}
            run(backward, *views, **{name: outputs[name] for name in wanted})
            if "dx" in wanted:
                close(outputs["dx"], dx)
            if "dweight" in wanted:
                close(outputs["dweight"], dweight, 4)
        grad = ones(dtype, shape=(extent,))
        run(backward, *views, dx=views[1], dweight=grad)
        close(views[1], dx)
        close(grad, dweight, 4)


# --- all --------------------------------------------------------------------------------------------------------------


def test_rank_0_and_rank_8(rng):
    for shape in ((), (1, 2, 1, 2, 3, 1, 2, 2)):
        a, b = odd(rng, shape, -2, 2), odd(rng, shape, -2, 2)
        plan, y = select("Binary", Binary.MUL, shape, element=bk.f64), ones(bk.f64, shape=shape)
        run(plan, tensor(a, bk.f64), tensor(b, bk.f64), y)
        close(y, a * b)
        where, cond = select("Where", shape, element=bk.f64), tensor(np.ones(shape), bk.i64)
        run(where, cond, tensor(a, bk.f64), tensor(b, bk.f64), y)
        close(y, a)


EMPTY = (0, 4)


@pytest.mark.parametrize(
    ("name", "fields", "views"),
    [
        ("Unary", (Unary.GELU, EMPTY), (EMPTY, EMPTY)), ("Binary", (Binary.ADD, EMPTY), (EMPTY, (1, 4), EMPTY)),
        ("Ternary", (Ternary.FMA, EMPTY), (EMPTY,) * 4), ("Affine", (EMPTY, 2), (EMPTY,) * 2),
        ("Fill", (EMPTY, 1), (EMPTY,)),
        ("Cast", (EMPTY, bk.f32), (EMPTY,) * 2), ("GatedActivation", (0, EMPTY, 1), (EMPTY, (0, 2))),
        ("PRelu", (EMPTY, 0), (EMPTY, (0,), EMPTY)), ("PRelu", (EMPTY, 1), (EMPTY, (4,), EMPTY)),
    ],
)  # fmt: skip
def test_empty_problems(name, fields, views):
    plan = select(name, *fields, element=bk.f32)
    run(plan, *[bk.zeros(shape) if np.prod(shape) else bk.TensorRef(0, shape, bk.f32) for shape in views])


@pytest.mark.parametrize("name", ["Binary", "PRelu"])
def test_empty_sums_are_0(name):
    """A gradient with elements is written even where the operands have none."""
    empty, grad = bk.TensorRef(0, EMPTY, bk.f32), ones(bk.f32, shape=(1, 4) if name == "Binary" else (4,))
    if name == "Binary":
        plan = select("BinaryBackward", Binary.ADD, EMPTY, element=bk.f32)
        run(plan, empty, da=empty, db=grad)
    else:
        plan = select("PReluBackward", EMPTY, 1, element=bk.f32)
        run(plan, empty, empty, bk.zeros((4,)), empty, grad)
    assert not bk.download(grad).any()


def test_long_sums_with_and_without_workspace(rng):
    """Sums are deterministic with and without a workspace, which only makes them faster; a backend may need none."""
    shape = (4096, 8)
    a, dy = (tensor(rng.standard_normal(shape), bk.f32) for _ in range(2))
    b = tensor(rng.standard_normal((1, 8)), bk.f32)
    plan = bk.BinaryBackwardPlan.select(None, bk.BinaryBackwardDescriptor(Binary.MUL, shape, element=bk.f32))
    da, db = bk.empty(shape), bk.empty((1, 8))
    args = bk.BinaryBackwardArgs(dy, a, b, da, db)
    expected = (values_of(dy) * values_of(a)).sum(0, keepdims=True)
    assert plan.workspace_size == 0
    space = bk.workspace(plan, args)
    assert (space is None) == (plan.workspace_size_for(args) == 0)
    for workspace in (None, bk.empty((1 << 16,), bk.u8) if space is None else space):
        results = []
        for _ in range(3):
            bk.clear(db)
            plan.run(None, workspace, args)
            bk.synchronize()
            results.append(bk.download(db).tobytes())
        assert len(set(results)) == 1
        np.testing.assert_allclose(values_of(db), expected, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(values_of(da), values_of(dy) * values_of(b), rtol=1e-6)


def test_bound_launches(rng):
    x, y = tensor(odd(rng, SHAPE, -2, 2), bk.f32), ones(bk.f32)
    launch = select("Unary", Unary.NEG, SHAPE, element=bk.f32).bind(None, None, bk.UnaryArgs(x, y))
    launch()
    bk.synchronize()
    np.testing.assert_array_equal(values_of(y), -values_of(x))


def test_numpy_arrays_are_views(library, rng):
    x = rng.standard_normal((5, 7)).astype(np.float32)
    y = np.zeros((7, 5), np.float32)
    if library.backend == "cuda":
        with pytest.raises(bk.InvalidProblemError, match="in cpu memory"):
            run(select("Unary", Unary.RELU, (5, 7), element=bk.f32), x[::-1], y.T)
        return
    run(select("Unary", Unary.RELU, (5, 7), element=bk.f32), x[::-1], y.T)
    np.testing.assert_array_equal(y.T, np.maximum(x[::-1], 0))

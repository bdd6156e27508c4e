# SPDX-License-Identifier: Apache-2.0
"""Tensors in various memory layouts, and helpers of plan tests."""

import numpy as np

import baracuda as bk
from expected import stored
from fakes import SHAPE

FLOATS = (bk.f32, bk.f16, bk.bf16, bk.f64)
INTEGERS = (bk.i8, bk.u8, bk.i16, bk.u16, bk.i32, bk.u32, bk.i64, bk.u64)
TOLERANCE = {bk.f32: 3e-6, bk.f16: 4e-3, bk.bf16: 3e-2, bk.f64: 1e-12}

LAYOUTS = {
    "dense": lambda array: array,
    "columns": lambda array: array.T.copy().T,
    "backwards": lambda array: np.flip(np.flip(array).copy()),
    "gaps": lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
}


def tensor(array, dtype, layout="dense"):
    """A tensor of these values in the given layout."""
    cells = LAYOUTS[layout](np.array(array, order="C"))
    base = cells
    while base.base is not None:
        base = base.base
    memory = bk.upload(base.ravel(), dtype)
    offset = (cells.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // base.itemsize
    strides = [step // base.itemsize for step in cells.strides]
    address, options = memory.ptr + offset * memory.dtype.itemsize, {"device": memory.device, "owner": memory}
    return bk.TensorRef(address, cells.shape, memory.dtype, strides, memory.length, offset=offset, **options)


def ones(dtype, layout="dense", shape=SHAPE):
    """An output filled with ones."""
    return tensor(np.ones(shape), dtype, layout)


def values_of(view):
    """Floats as f64, other dtypes unchanged."""
    array = bk.download(view)
    return array.astype(np.float64) if view.dtype.is_float else array


def select(name, *fields, **options):
    return getattr(bk, f"{name}Plan").select(None, getattr(bk, f"{name}Descriptor")(*fields, **options))


def run(plan, *views, **named):
    args = plan.args_type(*views, **named)
    plan.can_implement(args)
    plan.run(None, bk.workspace(plan, args), args)
    bk.synchronize()


def close(view, expected, factor=1):
    got, bound = values_of(view), TOLERANCE[view.dtype] * factor
    wanted = stored(np.broadcast_to(expected, got.shape), view.dtype.numpy_dtype)
    np.testing.assert_allclose(got, wanted, rtol=bound, atol=bound)


def odd(rng, shape, low, high, step=32):
    """Odd multiples of 1 / step: exact in every float dtype, and never on a kink of a function."""
    return (2 * rng.integers(int(low * step / 2), int(high * step / 2), shape) + 1) / step


def reduced(gradient, shape):
    """The gradient summed over the axes where `shape` has extent 1."""
    axes = tuple(d for d, extent in enumerate(shape) if extent == 1 and gradient.shape[d] != 1)
    return gradient.sum(axes, keepdims=True)


def wrapped(values, dtype):
    """Python integers modulo 2^width, as the dtype stores them."""
    low = dtype.integer_range[0]
    flat = [(int(v) - low) % (1 << dtype.bits) + low for v in np.asarray(values, object).ravel()]
    return np.array(flat, dtype.numpy_dtype).reshape(np.shape(values))


def integers(rng, dtype, shape=SHAPE):
    """Random integers that include both ends of the range, 0 and 1."""
    low, high = dtype.integer_range
    drawn = [int(v) for v in rng.integers(low, high, int(np.prod(shape)), dtype.numpy_dtype, endpoint=True)]
    drawn[:5] = [low, high, 0, 1, low // 2]
    return np.array(drawn, object).reshape(shape)

# SPDX-License-Identifier: Apache-2.0
"""Copies of more than 2^31 elements, and of fewer out of as many: each element is where the op's definition says.

Arrays repeat a short random pattern, so the expected values are known without a second array of that size.
"""

import math

import numpy as np
import pytest
from gpu_tools import Large, call

ROWS, COLUMNS = 32801, 65537
PERIOD, SLICE = 100_003, 50_000


def pattern(seed, length=PERIOD):
    return np.random.default_rng(seed).standard_normal(length)


def dense(shape):
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def moved(library, op, values, x, x_shape, y_shape, source, names=("x", "y"), strided=True):
    """Runs the op from x into a new array; source(coordinates) -> coordinates in x, and a mask of zero results."""
    y = Large(x.dtype, math.prod(y_shape))
    assert max(x.numel, y.numel) > 2**31
    strides = {f"stride_{names[0]}": dense(x_shape), f"stride_{names[1]}": dense(y_shape)} if strided else {}
    call(library, op, {**values, **strides, names[0]: x, names[1]: y})
    for first, count in y.slices(min(SLICE, y.numel)):
        at, inside = source(np.unravel_index(np.arange(first, first + count), y_shape))
        indices = np.ravel_multi_index([np.where(inside, c, 0) for c in at], x_shape)
        expected = np.where(inside, x.values_at(indices), 0)
        np.testing.assert_array_equal(y.read(first, count), expected, f"{op} from {first}")


def whole(seed):
    return Large("bf16", ROWS * COLUMNS, pattern(seed)), (ROWS, COLUMNS), {"rank": 2}


@pytest.mark.parametrize("axes", [(1, 0), (0, 1)])
def test_flip(library, axes):
    x, shape, values = whole(31)
    values |= {"numel": x.numel, "shape": shape, "flip_axes": axes}
    back = [(lambda c, e=e: e - 1 - c) if flips else (lambda c: c) for e, flips in zip(shape, axes)]
    moved(library, "flip_bf16", values, x, shape, shape, lambda c: ([f(k) for f, k in zip(back, c)], True))


def test_roll(library):
    x, shape, values = whole(32)
    shifts = (7, -COLUMNS // 3)
    values |= {"numel": x.numel, "shape": shape, "shifts": shifts}
    moved(
        library, "roll_bf16", values, x, shape, shape,
        lambda c: ([(k - by) % e for k, by, e in zip(c, shifts, shape)], True),
    )  # fmt: skip


def test_permute(library):
    x, shape, values = whole(33)
    values |= {"input_numel": x.numel, "input_shape": shape, "dims": (1, 0)}
    moved(library, "permute_bf16", values, x, shape, shape[::-1], lambda c: (c[::-1], True))


@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_pad(library, mode):
    x, shape, values = whole(34)
    low, wide = (2, 3), (ROWS + 5, COLUMNS + 5)
    values |= {"output_numel": math.prod(wide), "input_shape": shape, "output_shape": wide, "pad_low": low}
    values |= {"value": 0} if mode == "constant" else {}

    def source(c):
        at = [k - lo for k, lo in zip(c, low)]
        if mode == "reflect":
            return [np.where(a < 0, -a, np.where(a >= e, 2 * (e - 1) - a, a)) for a, e in zip(at, shape)], True
        return at, np.all([(a >= 0) & (a < e) for a, e in zip(at, shape)], 0)

    moved(library, f"pad_{mode}_bf16", values, x, shape, wide, source)


def test_triu(library):
    x, shape, values = whole(35)
    values |= {"shape": shape, "diagonal": 1000}
    moved(
        library, "triu_bf16", values, x, shape, shape, lambda c: (c, c[1] - c[0] >= 1000), ("input", "output"), False
    )  # fmt: skip


def test_unfold(library):
    shape, size, step = (ROWS // 8, COLUMNS), 64, 8
    x = Large("bf16", math.prod(shape), pattern(36))
    windowed = (shape[0], (shape[1] - size) // step + 1, size)
    values = {
        "output_numel": math.prod(windowed), "rank": 2, "input_shape": shape, "unfold_dim": 1, "window_size": size,
        "window_step": step,
    }  # fmt: skip
    moved(library, "unfold_bf16", values, x, shape, windowed, lambda c: ((c[0], c[1] * step + c[2]), True))


@pytest.mark.parametrize("padding", [0, 1])
def test_im2col(library, padding):
    image, kernel = (6, 64, max(ROWS // 40, 9), max(COLUMNS // 80, 11)), 3
    x = Large("bf16", math.prod(image), pattern(37))
    counts = [e + 2 * padding - kernel + 1 for e in image[2:]]
    columns = (image[0], image[1] * kernel**2, math.prod(counts))
    values = {
        "output_numel": math.prod(columns), "rank": 4, "input_shape": image, "kernel_size": (kernel,) * 2,
        "dilation": (1, 1), "padding": (padding,) * 2, "steps": (1, 1),
    }  # fmt: skip

    def source(c):
        offset, window = np.unravel_index(c[1] % kernel**2, (kernel,) * 2), np.unravel_index(c[2], counts)
        at = [w + p - padding for w, p in zip(window, offset)]
        return (c[0], c[1] // kernel**2, *at), np.all([(a >= 0) & (a < e) for a, e in zip(at, image[2:])], 0)

    moved(library, "im2col_bf16", values, x, image, columns, source)


@pytest.mark.parametrize("op", ["gather", "index_select"])
def test_gather_and_scatter(library, op):
    """The last rows are chosen half of the time, at offsets beyond 2^31 elements. gather's index is broadcast along a
    row."""
    x, shape, _ = whole(38)
    out = (1003, COLUMNS)
    rng = np.random.default_rng(39)
    chosen = np.where(rng.random(out[0]) < 0.5, rng.integers(ROWS - 9, ROWS, out[0]), rng.integers(0, ROWS, out[0]))
    index, y = Large("i64", out[0], chosen), Large("bf16", math.prod(out))
    axis, name = ("gather_dim", "index") if op == "gather" else ("select_dim", "idx")
    values = {
        "out_numel": y.numel, "rank": 2, axis: 0, "src_dim_size": ROWS, "out_shape": out, "stride_src": dense(shape),
        "stride_index": (1, 0), "stride_out": dense(out), "src": x, name: index, "out": y,
    }  # fmt: skip
    call(library, f"{op}_i64idx_bf16", values)
    for first, count in y.slices(min(SLICE, y.numel)):
        row, column = np.divmod(np.arange(first, first + count), COLUMNS)
        np.testing.assert_array_equal(y.read(first, count), x.values_at(chosen[row] * COLUMNS + column))


def test_scatter(library):
    """Rows are scattered by a permutation, most of them to the front, the last ones behind 2^31 elements."""
    updates = (1003, COLUMNS)
    x, y = Large("bf16", math.prod(updates), pattern(40)), Large("bf16", ROWS * COLUMNS, byte=0)
    indices = np.random.default_rng(41).permutation(ROWS)[: updates[0]]
    indices[-9:] = np.setdiff1d(np.arange(ROWS - 2000, ROWS), indices)[:9]
    values = {
        "upd_numel": x.numel, "rank": 2, "scatter_dim": 0, "out_dim_size": ROWS, "upd_shape": updates,
        "stride_updates": dense(updates), "stride_index": (1, 0), "stride_out": (COLUMNS, 1), "updates": x,
        "index": Large("i64", updates[0], indices), "out": y,
    }  # fmt: skip
    call(library, "scatter_i64idx_bf16", values)
    for row in (*range(0, updates[0], 97), *range(updates[0] - 9, updates[0])):
        got = y.read(int(indices[row]) * COLUMNS, COLUMNS)
        np.testing.assert_array_equal(got, x.values_at(row * COLUMNS + np.arange(COLUMNS)))
    for row in np.setdiff1d(np.arange(ROWS), indices)[::5000]:
        assert not y.read(int(row) * COLUMNS, COLUMNS).any()


def test_concat_and_split(library):
    """Entries of unequal width are concatenated along the last axis, then split again."""
    widths = (COLUMNS // 3, 5, COLUMNS - COLUMNS // 3 - 5)
    parts = [Large("bf16", ROWS * width, pattern(42 + k)) for k, width in enumerate(widths)]
    y = Large("bf16", ROWS * COLUMNS)
    assert y.numel > 2**31
    strides = [step for width in widths for step in (width, 1)]
    ffi = library.ffi

    def entries(arrays):
        return ffi.new("void*[]", [ffi.cast("void*", array.pointer) for array in arrays])

    common = {
        "output_numel": y.numel, "rank": 2, "output_shape": (ROWS, COLUMNS), "concat_dim": 1, "n": 3,
        "extents": widths,
    }  # fmt: skip
    given = {"stride_inputs": strides, "stride_y": (COLUMNS, 1), "inputs": entries(parts), "y": y}
    call(library, "concat_bf16", common | given)
    ends = np.cumsum((0, *widths))
    for first, count in y.slices(min(SLICE, y.numel)):
        row, column = np.divmod(np.arange(first, first + count), COLUMNS)
        which = np.searchsorted(ends, column, "right") - 1
        wanted = [p.values_at(row * w + column - e) for p, w, e in zip(parts, widths, ends)]
        np.testing.assert_array_equal(y.read(first, count), np.choose(which, wanted))
    back = [Large("bf16", part.numel) for part in parts]
    given = {"stride_outputs": strides, "stride_dy": (COLUMNS, 1), "outputs": entries(back), "dy": y}
    call(library, "concat_backward_bf16", common | given)
    for part, again in zip(parts, back):
        for first, count in again.slices(min(SLICE, again.numel)):
            np.testing.assert_array_equal(again.read(first, count), part.values_at(np.arange(first, first + count)))

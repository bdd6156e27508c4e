# SPDX-License-Identifier: Apache-2.0
"""concatenate, stack, split and meshgrid against NumPy's, on arrays of several kinds and layouts."""

import itertools

import numpy as np
import pytest

import baracuda as bk

LAYOUTS = {
    "dense": lambda a: a,
    "columns": lambda a: a.T.copy().T,
    "backwards": lambda a: np.flip(np.flip(a).copy()),
    "gaps": lambda a: np.repeat(a, 2, -1)[..., ::2] if a.ndim else a,
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape) if a.ndim and a.shape[0] else a,
}
DTYPES = (np.float32, np.float64, np.int32, np.bool_)
SHAPES = {0: [(3, 4), (1, 4), (0, 4), (5, 4)], 1: [(3, 4), (3, 1), (3, 0), (3, 2)], -1: [(2, 3, 5), (2, 3, 1)]}


def drawn(rng, shape, dtype):
    return (rng.integers(-9, 9, shape) % 2 if dtype is np.bool_ else rng.integers(-9, 9, shape)).astype(dtype)


def same(got, want):
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_concatenate(rng, layout):
    for (axis, shapes), dtype in itertools.product(SHAPES.items(), DTYPES):
        arrays = [LAYOUTS[layout](drawn(rng, shape, dtype)) for shape in shapes]
        for count in range(1, len(arrays) + 1):
            want = np.concatenate(arrays[:count], axis)
            same(bk.concatenate(arrays[:count], axis=axis), want)
        out = np.zeros(want.shape[::-1], dtype).T
        assert bk.concatenate(tuple(arrays), axis=axis, out=out) is out
        same(out, want)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_stack(rng, layout):
    for shape, dtype in itertools.product([(3, 4), (5,), (), (0, 3), (2, 3, 4)], DTYPES):
        arrays = [LAYOUTS[layout](drawn(rng, shape, dtype)) for _ in range(3)]
        for axis in range(-len(shape) - 1, len(shape) + 1):
            same(bk.stack(arrays, axis=axis), np.stack(arrays, axis))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_split(rng, layout):
    for dtype, axis, sections in itertools.product(DTYPES, (0, 1, -1), (1, 2, 3, 6, [], [2], [0, 2, 2, 5], [6])):
        x = LAYOUTS[layout](drawn(rng, (6, 12, 6), dtype))
        sections = sections if isinstance(sections, list) or x.shape[axis] % sections == 0 else 1
        got, want = bk.split(x, sections, axis=axis), np.split(x, sections, axis)
        assert len(got) == len(want)
        for mine, theirs in zip(got, want):
            same(mine, theirs)
            assert not np.shares_memory(mine, x)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(rng, indexing):
    for dtype, extents in itertools.product(DTYPES, [(3,), (3, 4), (1, 5, 2), (2, 0, 3), (2, 3, 1, 4)]):
        arrays = [LAYOUTS["gaps"](drawn(rng, (extent,), dtype)) for extent in extents]
        arrays[-1] = drawn(rng, (), dtype) if extents[-1] == 1 else arrays[-1]
        for got, want in zip(bk.meshgrid(*arrays, indexing=indexing), np.meshgrid(*arrays, indexing=indexing)):
            same(got, want)


def test_as_strided(rng):
    for dtype in DTYPES:
        x = drawn(rng, (5, 7), dtype)
        for shape, strides, offset in [
            ((5, 7), (7, 1), 0), ((7, 5), (1, 7), 0), ((5, 3, 3), (7, 2, 1), 0), ((4, 5), (0, -7), 30), ((), (), 34),
            ((0, 3), (99, 99), 99),
        ]:  # fmt: skip
            indices = offset + sum(np.indices(shape)[d] * stride for d, stride in enumerate(strides))
            want = x.ravel()[indices] if 0 not in shape else np.empty(shape, dtype)
            same(bk.as_strided(x, shape, strides, offset=offset), np.asarray(want))


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_repeats_of_each_element(rng, index):
    """Repeats follow jax.numpy.repeat with a total length: the last element fills what is left."""
    for shape, axis in itertools.product([(5, 3), (1, 4), (4, 6)], (0, 1, -1)):
        x = drawn(rng, shape, np.float32)
        for low in (0, 1):
            counts = rng.integers(low, 4, shape[axis]).astype(index)
            want = np.repeat(x, counts, axis)
            total = want.shape[axis]
            same(bk.repeat_interleave_counts(x, counts, total, axis=axis), want)
            last = np.take(x, [-1, -1], axis)
            same(bk.repeat_interleave_counts(x, counts, total + 2, axis=axis), np.concatenate([want, last], axis))
            if total > 1:
                first = np.take(want, range(total - 1), axis)
                same(bk.repeat_interleave_counts(x, counts, total - 1, axis=axis), first)
            dx = np.zeros(shape, np.float32)
            dy = drawn(rng, want.shape, np.float32)
            indices = np.repeat(np.arange(shape[axis]), counts)
            np.add.at(dx, (slice(None),) * (axis % 2) + (indices,), dy)
            same(bk.repeat_interleave_counts_backward(dy, counts, axis=axis), dx)


def test_views(rng):
    """The results of TensorRefs are TensorRefs."""
    x, y = (drawn(rng, (3, 4), np.float32) for _ in range(2))
    up = [bk.upload(a, bk.f32) for a in (x, y)]
    rows = [bk.upload(a[0], bk.f32) for a in (x, y)]
    for got, want in [
        (bk.concatenate(up, axis=1), np.concatenate([x, y], 1)), (bk.stack(up), np.stack([x, y])),
        (bk.split(up[0], 2, axis=1)[1], x[:, 2:]), (bk.meshgrid(*rows)[1], np.meshgrid(x[0], y[0])[1]),
    ]:  # fmt: skip
        assert isinstance(got, bk.TensorRef)
        bk.synchronize()
        np.testing.assert_array_equal(bk.download(got), want)


def test_calls_alike(rng):
    """A cached call uses its own arrays, not those of the earlier call, and is checked like that one."""
    for function, numpys in ((bk.concatenate, np.concatenate), (bk.stack, np.stack)):
        for axis in (0, 1, 0, 1):
            arrays = [drawn(rng, (3, 4), np.float32) for _ in range(3)]
            want = numpys(arrays, axis)
            same(function(arrays, axis=axis), want)
            same(function(tuple(arrays), axis=axis), want)
            same(function([a.astype(np.int32) for a in arrays], axis=axis), want.astype(np.int32))
        for wrong in (1.0, True, "1", [1]):
            with pytest.raises((bk.InvalidProblemError, TypeError), match="axis"):
                function(arrays, axis=wrong)
        with bk.checked():
            same(function(arrays, axis=1), want)
    empty = [np.zeros((0, 4), np.float32)] * 2
    for _ in range(2):
        assert bk.concatenate(empty).shape == (0, 4)


def test_mismatched_shapes():
    a, b = np.ones((3, 4), np.float32), np.ones((3, 5), np.float32)
    for call, text in {
        lambda: bk.concatenate([]): r"arrays is \[\], must be a list or tuple of one array or more",
        lambda: bk.concatenate(a): "arrays is array",
        lambda: bk.concatenate([a, b]): r"arrays\[1\] has shape \(3, 5\), must be that of arrays\[0\], \(3, 4\), but",
        lambda: bk.concatenate([a, b], axis=2): "axis is 2",
        lambda: bk.concatenate([a, a.astype(np.float64)]): r"arrays\[1\] has dtype f64 in cpu memory, arrays\[0\] f32",
        lambda: bk.concatenate([a, a], out=np.ones((3, 4), np.float32)): r"out has shape \(3, 4\) and dtype f32, exp",
        lambda: bk.stack([a, b]): r"arrays\[1\] has shape \(3, 5\), must be that of arrays\[0\]",
        lambda: bk.stack([a, a], axis=3): "axis is 3",
        lambda: bk.split(a, 2): "sections is 2, must divide 3",
        lambda: bk.split(a, [2, 1]): r"sections is \[2, 1\], must not fall",
        lambda: bk.split(a, [4]): r"sections\[0\] is 4",
        lambda: bk.meshgrid(a): r"arrays\[0\] has shape \(3, 4\), must have at most one axis",
        lambda: bk.meshgrid(a[0], indexing="yx"): "indexing is 'yx', must be 'xy' or 'ij'",
        lambda: bk.repeat_interleave_counts(a, np.ones(4, np.int32), 9): r"counts has shape \(4,\), expected",
        lambda: bk.repeat_interleave_counts(a, np.ones(3, np.int16), 9): "counts has dtype i16",
        lambda: bk.as_strided(a, (3, 5), (4, 1)): "elements 0 to 12 are wanted, x has 12",
        lambda: bk.as_strided(a, (3,), (-1,), offset=1): "elements -1 to 1 are wanted, x has 12",
        lambda: bk.as_strided(a, (3,), (4, 1)): "source_strides is",
        lambda: bk.meshgrid(): r"arrays is \(\), must be",
    }.items():
        with pytest.raises(bk.InvalidProblemError, match=text):
            call()


def test_plans_of_many_operands():
    """Entries may have no elements; a split may skip outputs."""
    entries = [np.full((3, extent), k, np.float32) for k, extent in enumerate((2, 0, 1, 4))]
    of = {"output_shape": (3, 7), "concat_dim": 1, "extents": (2, 0, 1, 4), "element": bk.f32}
    y = bk.empty((3, 7))
    inputs = [bk.upload(part) for part in entries]
    plan = bk.ConcatManyPlan.select(None, bk.ConcatManyDescriptor(**of))
    plan.run(None, None, bk.ConcatManyArgs(inputs=inputs, y=y))
    np.testing.assert_array_equal(bk.download(y), np.concatenate(entries, 1))
    outputs = [bk.empty(entries[0].shape), None, None, bk.empty(entries[3].shape)]
    back = bk.ConcatManyBackwardPlan.select(None, bk.ConcatManyBackwardDescriptor(**of))
    back.run(None, None, bk.ConcatManyBackwardArgs(dy=y, outputs=outputs))
    for k in (0, 3):
        np.testing.assert_array_equal(bk.download(outputs[k]), entries[k])
    for wrong in (inputs[:3], inputs[0]):
        with pytest.raises(bk.InvalidProblemError, match=r"inputs has .* entries, must have 4"):
            plan.run(None, None, bk.ConcatManyArgs(inputs=wrong, y=y))
    with pytest.raises(bk.InvalidProblemError, match=r"inputs\[2\] is None, but concat needs it"):
        plan.run(None, None, bk.ConcatManyArgs(inputs=[*inputs[:2], None, inputs[3]], y=y))
    with pytest.raises(bk.InvalidProblemError, match=r"extents is \(2, 4\), must have a sum of 7"):
        bk.ConcatManyPlan.select(None, bk.ConcatManyDescriptor((3, 7), 1, (2, 4), element=bk.f32))

# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding: plans and functions against each other, and tables by published scalings."""

import itertools

import numpy as np
import pytest

import baracuda as bk

SHAPE = (2, 3, 5, 8)
FIELDS = dict(zip(("batch_size", "num_heads", "seq_len", "head_dim"), SHAPE))


@pytest.fixture
def x(rng):
    return rng.standard_normal(SHAPE, dtype=np.float32)


def run(plan_type, descriptor, args_type, **arrays):
    plan = plan_type.select(None, descriptor)
    plan.run(None, bk.workspace(plan), args_type(**arrays))
    bk.synchronize()


def rope(x, *, positions=None, view=lambda view: view, **fields):
    y = bk.zeros(SHAPE)
    given = None if positions is None else bk.upload(np.asarray(positions, np.int64))
    of = bk.RopeDescriptor(**FIELDS, **fields, element=bk.f32)
    run(bk.RopePlan, of, bk.RopeArgs, x=view(bk.upload(x)), y=y, positions=given)
    return bk.download(y)


def test_plans_and_functions_agree(x):
    table = np.arange(SHAPE[2])[:, None] * 10000.0 ** -(np.arange(4) / 4)
    cos, sin = np.cos(table).astype(np.float32), np.sin(table).astype(np.float32)
    for pairing, half in ((bk.RotaryPairing.ADJACENT, ""), (bk.RotaryPairing.HALVES, "_half")):
        y = rope(x, pairing=pairing)
        forward, backward = getattr(bk, f"rope{half}"), getattr(bk, f"rope{half}_backward")
        np.testing.assert_allclose(forward(x), y, rtol=1e-5, atol=1e-6)  # the default library may be the GPU's
        np.testing.assert_array_equal(rope(x, pairing=pairing, positions=np.arange(5)), y)
        np.testing.assert_allclose(backward(y), x, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(getattr(bk, f"rope_apply{half}")(x, cos, sin), y, rtol=1e-5, atol=1e-6)
        tokens = np.ascontiguousarray(x[0].transpose(1, 0, 2))
        rotated = getattr(bk, f"rope_apply_thd{half}")(tokens, cos, sin)
        np.testing.assert_allclose(rotated.transpose(1, 0, 2), y[0], rtol=1e-5, atol=1e-6)
        many = np.stack([np.arange(5), np.arange(5) + 2**40])
        of_batches = forward(x, many)
        np.testing.assert_array_equal(of_batches[0], forward(x)[0])
        np.testing.assert_array_equal(of_batches[1], forward(x[1], many[1]))
        part = forward(x, many, rotary_dim=4)
        np.testing.assert_array_equal(part[..., 4:], x[..., 4:])
        np.testing.assert_array_equal(part[..., :4], forward(np.ascontiguousarray(x[..., :4]), many))


def test_any_layout_with_features_that_are_neighbours(x):
    y = bk.rope(x)
    for order in itertools.permutations(range(3)):
        rotated = np.ascontiguousarray(x.transpose(*order, 3)).transpose(*np.argsort(order), 3)
        np.testing.assert_array_equal(bk.rope(rotated), y)
    np.testing.assert_array_equal(bk.rope(np.asfortranarray(x)), y)  # columns are copied
    np.testing.assert_array_equal(bk.rope(x[:, ::-1])[:, ::-1], y)
    np.testing.assert_array_equal(bk.rope(x[0, 0]), y[0, 0])
    out = np.zeros((2, 5, 3, 8), np.float32).transpose(0, 2, 1, 3)
    assert bk.rope(x, out=out) is out
    np.testing.assert_array_equal(out, y)
    inplace = x.copy()
    np.testing.assert_array_equal(bk.rope(inplace, out=inplace), y)


def test_plans_refuse_what_does_not_fit(x):
    def gaps(view):
        return bk.TensorRef(view.ptr, SHAPE, bk.f32, (0, 0, 0, 2), owner=view)

    with pytest.raises(bk.InvalidProblemError, match="rope: x has stride 2 along head_dim, must be 1"):
        rope(x, view=gaps)
    for fields, text in (
        ({"head_dim": 7}, "head_dim is 7, must be even"), ({"base": 0.0}, r"base is 0.0, must be finite and > 0"),
        ({"base": float("inf")}, "base is inf"), ({"pairing": 3}, "pairing is 3, must be a RotaryPairing"),
    ):  # fmt: skip
        with pytest.raises(bk.InvalidProblemError, match=text):
            bk.RopePlan.select(None, bk.RopeDescriptor(**FIELDS | fields, element=bk.f32))
    with pytest.raises(bk.InvalidProblemError, match="rotary_dim is 10, must be <= head_dim, 8"):
        of = bk.RopePositionsDescriptor(**FIELDS, rotary_dim=10, element=bk.f32)
        bk.RopePositionsPlan.select(None, of)
    with pytest.raises(bk.UnsupportedError, match="element is i32"):
        bk.RopePlan.select(None, bk.RopeDescriptor(**FIELDS, element=bk.i32))
    with pytest.raises(bk.InvalidProblemError, match=r"rope: positions has shape \(4,\)"):
        bk.rope(x, np.arange(4))
    with pytest.raises(bk.InvalidProblemError, match=r"rope: x has shape \(2, 3, 5, 7\)"):
        bk.rope(x[..., :7])
    with pytest.raises(bk.InvalidProblemError, match=r"rope_apply: cos has shape \(5, 3\)"):
        bk.rope_apply(x, np.zeros((5, 3), np.float32), np.zeros((5, 4), np.float32))


def test_append_to_caches():
    of = bk.KvCacheAppendDescriptor(2, 1, 2, 4, 3, 0, element=bk.e4m3fn)
    plan = bk.KvCacheAppendPlan.select(None, of, bk.PlanPreference(check_indices=True))
    new = np.arange(1, 13, dtype=np.uint8).reshape(2, 1, 2, 3)
    cache = bk.zeros((2, 1, 4, 3), bk.e4m3fn)
    empty = [bk.zeros((2, 1, rows, 0), bk.e4m3fn) for rows in (2, 4)]
    source = bk.upload(new)
    k_new = bk.TensorRef(source.ptr, (2, 1, 2, 3), bk.e4m3fn, owner=source)
    args = bk.KvCacheAppendArgs(k_new, empty[0], bk.upload(np.array([1, 3])), cache, empty[1])
    plan.run(None, bk.workspace(plan), args)
    bk.synchronize()
    with pytest.raises(bk.IndexOutOfRangeError, match=r"cache_offsets\[1\] is 3, must be in \[0, 3\)"):
        plan.check()  # the second of its rows is past the end of the cache, the first is written
    got = bk.download(bk.TensorRef(cache.ptr, (2, 1, 4, 3), bk.u8, owner=cache))
    want = np.zeros((2, 1, 4, 3), np.uint8)
    want[0, 0, 1:3], want[1, 0, 3] = new[0, 0], new[1, 0, 0]
    np.testing.assert_array_equal(got, want)


def test_scaled_tables():
    plain = bk.RopeScaledTableBuilder(8, 16)
    cos, sin = plain.build()
    assert cos.shape == sin.shape == (16, 4)
    assert cos.dtype == np.float32
    np.testing.assert_allclose(plain.inverse_frequencies, 10000.0 ** -(np.arange(4) / 4), rtol=1e-15)
    linear = bk.RopeScaledTableBuilder(8, 16, scaling=bk.LinearScaling(4.0))
    np.testing.assert_allclose(linear.build(np.float64)[1][12], np.sin(3 * plain.inverse_frequencies))

    yarn = bk.RopeScaledTableBuilder(64, 16, scaling=bk.YaRNScaling(8.0, 1.0, 32.0, 4096))
    before = bk.RopeScaledTableBuilder(64, 16).inverse_frequencies
    rotations = 4096 * before / (2 * np.pi)
    ratio = yarn.inverse_frequencies / before
    np.testing.assert_allclose(ratio[rotations >= 32], 1)
    np.testing.assert_allclose(ratio[rotations <= 1], 1 / 8)
    between = (rotations > 1) & (rotations < 32)
    assert between.any()
    assert ((ratio[between] > 1 / 8) & (ratio[between] < 1)).all()
    np.testing.assert_allclose(yarn.amplitude, 0.1 * np.log(8) + 1)
    np.testing.assert_allclose(yarn.build(np.float64)[0][0], yarn.amplitude)
    assert bk.RopeScaledTableBuilder(64, 16, scaling=bk.YaRNScaling(0.5, 1.0, 32.0, 4096)).amplitude == 1

    long = bk.RopeScaledTableBuilder(8, 64, scaling=bk.LongRoPEScaling((1, 2, 4, 8), 16))
    np.testing.assert_allclose(long.inverse_frequencies * [1, 2, 4, 8], plain.inverse_frequencies)
    np.testing.assert_allclose(long.amplitude, np.sqrt(1 + np.log(4) / np.log(16)))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((7, 16), "head_dim is 7, must be even"), ((0, 16), "head_dim is 0, must be >= 2"),
        ((8, 0), "max_seq_len is 0"), ((8, 16, -1.0), "base is -1.0"), ((8, 16, 1e4, 3), "scaling is 3"),
        ((8, 16, 1e4, bk.YaRNScaling(0.0, 1, 32, 9)), "scale is 0.0"),
        ((8, 16, 1e4, bk.YaRNScaling(2.0, 32, 1, 9)), "alpha is 32.0, must be < beta"),
        ((8, 16, 1e4, bk.LongRoPEScaling((1, 2))), "per_dim_factors has 2 numbers, must have head_dim / 2 = 4"),
        ((8, 16, 1e4, bk.LongRoPEScaling((1, 2, 0, 1))), r"per_dim_factors\[2\] is 0"),
    ],
)  # fmt: skip
def test_tables_that_cannot_be(arguments, text):
    with pytest.raises(bk.InvalidProblemError, match=text):
        bk.RopeScaledTableBuilder(*arguments)


def test_gradients_of_tables(x, rng):
    """The gradients of a table for all heads, and of one for the heads of each token, for both pairings."""
    dy = rng.standard_normal(SHAPE, dtype=np.float32)
    for is_half, pairs in ((False, (*SHAPE[:3], 4, 2)), (True, (*SHAPE[:3], 2, 4))):
        (da, db), (a, b) = (np.moveaxis(v.reshape(pairs), 3 if is_half else 4, 0).astype(np.float64) for v in (dy, x))
        wanted = da * a + db * b, db * a - da * b
        for got, want in zip(bk.rope_tables_backward(dy, x, is_half=is_half), wanted):
            np.testing.assert_allclose(got, want.sum((0, 1)), rtol=1e-5, atol=1e-5)
        tokens = (np.ascontiguousarray(v[0].transpose(1, 0, 2)) for v in (dy, x))
        for got, want in zip(bk.rope_tables_backward(*tokens, places_axis=0, is_half=is_half), wanted):
            np.testing.assert_allclose(got, want[0].sum(0), rtol=1e-5, atol=1e-5)
    with pytest.raises(bk.InvalidProblemError, match="places_axis is 3, that of the features"):
        bk.rope_tables_backward(dy, x, places_axis=3)


@pytest.mark.parametrize("half", ["", "_half"])
def test_positions_from_a_start(half):
    """A start gives the same as positions that are written out, also far from 0."""
    x, starts = np.random.default_rng(3).standard_normal((2, 3, 4, 8)), np.array([2**62 + 5, 7])
    y = getattr(bk, f"rope_starts{half}")(x, starts, rotary_dim=4)
    wanted = getattr(bk, f"rope{half}")(x, starts[:, None] + np.arange(4), rotary_dim=4)
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_allclose(getattr(bk, f"rope_starts{half}_backward")(y, starts, rotary_dim=4), x, atol=1e-14)

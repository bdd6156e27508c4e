# SPDX-License-Identifier: Apache-2.0
"""conv1d to conv3d, their transposes and gradients: arguments, layouts in memory, errors."""

import itertools
import math

import numpy as np
import pytest

import baracuda as bk
from cases.conv.references import convolve, data_gradient, filter_gradient, spread_of, to_last

ROWS = tuple([f"convolution{form}_f32" for form in ("", "_backward_data", "_backward_filter", "_transpose")])
pytestmark = [pytest.mark.host_arrays, pytest.mark.needs_ops(*ROWS)]
SPATIAL = {1: (11,), 2: (6, 7), 3: (4, 5, 3)}
LAYOUTS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def near(got, want):
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5 * max(np.abs(want).max(initial=0), 1))


def of(rank, name):
    return getattr(bk, name.format(rank))


@pytest.fixture(params=[1, 2, 3], ids=["1d", "2d", "3d"])
def layer(request, rng):
    rank = request.param
    x = rng.standard_normal((2, 4, *SPATIAL[rank])).astype(np.float32)
    w = rng.standard_normal((6, 2, *(3, 2, 3)[:rank])).astype(np.float32)
    return rank, x, w, rng.standard_normal(6).astype(np.float32)


def wide(*arrays):
    return [each.astype(np.float64) for each in arrays]


def test_numbers(layer):
    rank, x, w, bias = layer
    pairs = tuple([(k, k + 1) for k in range(rank)])
    got = of(rank, "conv{}d")(x, w, bias, 2, pairs, (1, 2, 1)[:rank], 2)
    before, after = zip(*pairs)
    want = convolve(*wide(x, w), (2,) * rank, before, after, (1, 2, 1)[:rank], 2)
    near(got, want + bias.reshape(-1, *[1] * rank))


def test_same_and_valid(layer):
    rank, x, w, _ = layer
    dilation = (2, 1, 1)[:rank]
    same = of(rank, "conv{}d")(x, w, padding="same", dilation=dilation, groups=2)
    assert same.shape == (2, 6, *x.shape[2:])
    whole = [d * (k - 1) for d, k in zip(dilation, w.shape[2:])]
    before = [each // 2 for each in whole]
    near(same, convolve(*wide(x, w), (1,) * rank, before, [a - b for a, b in zip(whole, before)], dilation, 2))
    valid = of(rank, "conv{}d")(x, w, padding="valid", groups=2)
    assert np.array_equal(valid, of(rank, "conv{}d")(x, w, groups=2))


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "gelu_tanh", None])
def test_activation(layer, activation):
    rank, x, w, bias = layer
    z = of(rank, "conv{}d")(x, w, bias, padding=1, groups=2).astype(np.float64)
    got = of(rank, "conv{}d")(x, w, bias, padding=1, groups=2, activation=activation)
    erf = np.vectorize(math.erf)
    want = {
        "relu": lambda: np.maximum(z, 0), "gelu": lambda: 0.5 * z * (1 + erf(z / np.sqrt(2))),
        "silu": lambda: z / (1 + np.exp(-z)),
        "gelu_tanh": lambda: 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))), None: lambda: z,
    }[activation]()  # fmt: skip
    near(got, want)


def test_layouts_agree(layer):
    """Channels last by name, and in memory alone, which the result then has, too."""
    rank, x, w, bias = layer
    options = {"stride": 2, "padding": 1, "groups": 2}
    want = of(rank, "conv{}d")(x, w, bias, **options)
    last = of(rank, "conv{}d")(to_last(x).copy(), to_last(w).copy(), bias, layout=LAYOUTS[rank][1], **options)
    near(last, to_last(want))
    in_memory = np.moveaxis(to_last(x).copy(), -1, 1)
    got = of(rank, "conv{}d")(in_memory, w, bias, **options)
    near(got, want)
    assert to_last(got).flags.c_contiguous


def test_single_image_and_out(layer):
    rank, x, w, bias = layer
    want = of(rank, "conv{}d")(x, w, bias, groups=2)
    near(of(rank, "conv{}d")(x[1], w, bias, groups=2), want[1])
    out = np.full_like(want, np.nan)
    assert of(rank, "conv{}d")(x, w, bias, groups=2, out=out) is out
    assert np.array_equal(out, want)


@pytest.mark.parametrize(
    "needs", [(True, True, True), (True, False, False), (False, True, False), (False, False, True)]
)
def test_gradients(layer, needs):
    rank, x, w, _ = layer
    entries = ((2,) * rank, (1,) * rank, (1,) * rank, (1,) * rank)
    y = of(rank, "conv{}d")(x, w, stride=2, padding=1, groups=2)
    dy = np.random.default_rng(1).standard_normal(y.shape).astype(np.float32)
    got = of(rank, "conv{}d_backward")(dy, x, w, stride=2, padding=1, groups=2, needs=needs)
    x6, w6, dy6 = wide(x, w, dy)
    want = (
        data_gradient(dy6, w6, x.shape[2:], *entries, 2), filter_gradient(x6, dy6, w.shape[2:], *entries, 2),
        dy6.sum((0, *range(2, rank + 2))),
    )  # fmt: skip
    for ours, theirs, needed in zip(got, want, needs):
        assert (ours is not None) == needed
        if needed:
            near(ours, theirs)


@pytest.mark.parametrize(("stride", "dilation", "more"), [(1, 1, 0), (2, 1, 1), (3, 1, 2), (1, 2, 1), (2, 3, 2)])
@pytest.mark.parametrize("is_last", [False, True], ids=["first", "last"])
@pytest.mark.needs_ops("reduce_sum_f32")
def test_transpose(rng, layer, stride, dilation, more, is_last):
    """An output_padding may be a stride or more: a convolution of the result then has more windows than x has."""
    rank, x, _, _ = layer
    w = rng.standard_normal((4, 3, *(3, 2, 3)[:rank])).astype(np.float32)
    bias = rng.standard_normal(6).astype(np.float32)
    options = {"stride": stride, "padding": 1, "output_padding": more, "groups": 2, "dilation": dilation}
    entries = ((stride,) * rank, (1,) * rank, (1,) * rank, (dilation,) * rank)
    result = spread_of(x.shape[2:], w.shape[2:], *entries, (more,) * rank)
    if min(result) < 1:
        pytest.skip("the result would be empty")
    want = data_gradient(*wide(x, w), result, *entries, 2) + bias.reshape(-1, *[1] * rank)
    arranged = (lambda a: np.moveaxis(to_last(a).copy(), -1, 1)) if is_last else (lambda a: a)
    got = of(rank, "conv_transpose{}d")(arranged(x), w, bias, **options)
    near(got, want)
    dy = rng.standard_normal(want.shape).astype(np.float32)
    dx, dw, db = of(rank, "conv_transpose{}d_backward")(arranged(dy), arranged(x), w, **options)
    whole = convolve(*wide(dy, w), *entries, 2)[(..., *[slice(0, e) for e in x.shape[2:]])]
    near(dx, whole)
    near(db, dy.astype(np.float64).sum((0, *range(2, rank + 2))))
    counts = convolve(*wide(dy, w), *entries, 2).shape[2:]
    padded = np.pad(x, [(0, 0), (0, 0), *[(0, c - e) for c, e in zip(counts, x.shape[2:])]])
    near(dw, filter_gradient(*wide(dy, padded), w.shape[2:], *entries, 2))


def test_empty(layer):
    rank, x, w, bias = layer
    none = of(rank, "conv{}d")(x[:0], w, bias, groups=2)
    assert none.shape[0] == 0
    dx, dw, db = of(rank, "conv{}d_backward")(none, x[:0], w, groups=2)
    assert dx.shape == x[:0].shape
    assert not dw.any()
    assert not db.any()
    of_bias = of(rank, "conv{}d")(x[:, :0], w[:, :0], bias)
    near(of_bias, np.broadcast_to(bias.reshape(-1, *[1] * rank), of_bias.shape))


def test_repeated_calls_have_the_same_bits(layer):
    rank, x, w, bias = layer
    results = [of(rank, "conv{}d")(x, w, bias, padding=1, groups=2) for _ in range(3)]
    for one, other in itertools.pairwise(results):
        assert one.tobytes() == other.tobytes()


BAD = {
    "padding_text": ({"padding": "full"}, r"padding is 'full', must be numbers"),
    "same_stride": ({"padding": "same", "stride": 2}, r"padding is 'same', which has no meaning for stride"),
    "layout": ({"layout": "NWHC"}, r"layout is 'NWHC', must be 'NCHW' or 'NHWC'"),
    "activation": ({"activation": "tanh"}, r"activation is 'tanh', must be one of"),
    "numbers": ({"stride": (1, 1, 1)}, r"stride is \(1, 1, 1\), must be one number or one for each of 2 axes"),
    "stride": ({"stride": 0}, r"stride"),
    "groups": ({"groups": 3}, r"with groups 3 x must have"),
    "wide": ({"dilation": 9}, r"do not fit into x"),
    "triple": ({"padding": ((1, 2, 3), (1, 2))}, r"padding is"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(rng, name):
    options, text = BAD[name]
    x, w = rng.standard_normal((1, 4, 6, 7)).astype(np.float32), rng.standard_normal((6, 4, 3, 3)).astype(np.float32)
    with pytest.raises(bk.InvalidProblemError, match=text):
        bk.conv2d(x, w, **options)


def test_bad_shapes(rng):
    x, w = np.zeros((1, 4, 6, 7), np.float32), np.zeros((6, 4, 3, 3), np.float32)
    with pytest.raises(bk.InvalidProblemError, match=r"weight has shape \(6, 4, 3\), must have 4 axes"):
        bk.conv2d(x, w[..., 0])
    with pytest.raises(bk.InvalidProblemError, match=r"x has shape \(6, 7\), must have 4 axes"):
        bk.conv2d(x[0, 0], w)
    with pytest.raises(bk.InvalidProblemError, match="bias has shape"):
        bk.conv2d(x, w, np.zeros(5, np.float32))
    with pytest.raises(bk.InvalidProblemError, match="padding is 'same', must be numbers"):
        bk.conv_transpose2d(x, np.zeros((4, 6, 3, 3), np.float32), padding="same")
    with pytest.raises(bk.InvalidProblemError, match="output_padding is 2, must be less"):
        bk.conv_transpose2d(x, np.zeros((4, 6, 3, 3), np.float32), stride=2, output_padding=2)
    with pytest.raises(bk.InvalidProblemError, match="needs is"):
        bk.conv2d_backward(x, x, w, needs=(True,))

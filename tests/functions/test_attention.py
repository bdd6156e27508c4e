# SPDX-License-Identifier: Apache-2.0
"""scaled_dot_product_attention and flash_attn_varlen on arrays, against float64."""

import numpy as np
import pytest

import baracuda as bk
from cases.attention.oracle import Rules, backward, forward, window_bounds

RNG = np.random.default_rng(20)
RULES = {
    "plain": {}, "causal": {"is_causal": True}, "ends": {"is_causal": True, "aligns_ends": True},
    "window": {"window": (3, 1)}, "one_window": {"window": 2}, "left": {"window": (4, -1), "aligns_ends": True},
    "cap": {"softcap": 1.5}, "scale": {"scale": 0.3},
}  # fmt: skip


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def rules_of(d, *, is_causal=False, window=None, aligns_ends=False, softcap=0.0, scale=None, **more):
    left, right = window if isinstance(window, tuple) else (window, window) if window is not None else (-1, -1)
    left, right = window_bounds(is_causal, left, right)
    return Rules(scale or d**-0.5, left, right, aligns_ends, softcap, **more)


@pytest.fixture(scope="module")
def operands():
    """q of 4 heads, k and v of 2."""
    return normal(2, 4, 9, 16), normal(2, 2, 13, 16), normal(2, 2, 13, 8)


@pytest.mark.parametrize("name", RULES)
def test_rules(operands, name):
    y, lse = bk.scaled_dot_product_attention(*operands, enable_gqa=True, return_lse=True, **RULES[name])
    expected = forward(*operands, rules_of(16, **RULES[name]))
    np.testing.assert_allclose(y, expected["y"].value, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(lse, expected["lse"].value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(9, 13), (1, 13), (4, 1, 13), (2, 1, 9, 13), (2, 4, 9, 13)])
def test_masks(operands, shape):
    keep, bias = RNG.random(shape) < 0.6, normal(*shape)
    kept = bk.scaled_dot_product_attention(*operands, keep, enable_gqa=True)
    np.testing.assert_allclose(kept, forward(*operands, rules_of(16, keep=keep))["y"].value, rtol=1e-5, atol=1e-5)
    biased = bk.scaled_dot_product_attention(*operands, bias, enable_gqa=True, is_causal=True)
    expected = forward(*operands, rules_of(16, bias=bias, is_causal=True))["y"].value
    np.testing.assert_allclose(biased, expected, rtol=1e-5, atol=1e-5)


def test_gradients(operands):
    bias, sinks, dy = normal(4, 1, 13), normal(4), normal(2, 4, 9, 8)
    options = {"enable_gqa": True, "softcap": 2.0, "window": (5, 6), "sinks": sinks}
    y, lse = bk.scaled_dot_product_attention(*operands, bias, return_lse=True, **options)
    got = bk.scaled_dot_product_attention_backward(dy, *operands, y, lse, bias, needs=(True,) * 5, **options)
    found = backward(*operands, y, lse, dy, rules_of(16, bias=bias, softcap=2.0, window=(5, 6), sinks=sinks))
    for value, name in zip(got, ("dq", "dk", "dv", "dbias", "dsinks")):
        expected = found[name].value
        expected = expected.sum((0, 2))[:, None] if name == "dbias" else expected
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4, err_msg=name)


def test_layouts(operands):
    """Rows before heads, and operands that are views."""
    expected = bk.scaled_dot_product_attention(*operands, enable_gqa=True)
    transposed = [x.swapaxes(1, 2) for x in operands]
    for given in (transposed, [x.copy() for x in transposed]):
        y = bk.scaled_dot_product_attention(*given, enable_gqa=True, layout="bshd")
        np.testing.assert_array_equal(y.swapaxes(1, 2), expected)
    alone = bk.scaled_dot_product_attention(*[x[1] for x in operands], enable_gqa=True)
    np.testing.assert_array_equal(alone, expected[1])


def test_dropout(operands):
    """A seed gives the same probabilities in every call; in the mean they are those without dropout."""
    first, again, other = (
        bk.scaled_dot_product_attention(*operands, enable_gqa=True, dropout_p=0.25, seed=seed) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    ones = np.ones((4, 8, 64, 16), np.float32)
    mean = bk.scaled_dot_product_attention(ones, ones, ones, dropout_p=0.25, seed=9).mean()
    assert abs(mean - 1) < 0.02


def test_varlen():
    """Each sequence is as alone, with the last query at the last key."""
    q_lens, k_lens = (5, 0, 9, 1), (7, 3, 4, 0)
    q, k, v = normal(15, 4, 16), normal(14, 2, 16), normal(14, 2, 16)
    cu = [np.concatenate([[0], np.cumsum(lens)]).astype(np.int32) for lens in (q_lens, k_lens)]
    y, lse = bk.flash_attn_varlen(q, k, v, *cu, 9, 7, causal=True, window_size=(4, -1), return_softmax_lse=True)
    dout = normal(15, 4, 16)
    gradients = bk.flash_attn_varlen_backward(dout, q, k, v, y, lse, *cu, 9, 7, causal=True, window_size=(4, -1))
    for b in range(4):
        rows, keys = (slice(c[b], c[b + 1]) for c in cu)
        one = [x[at].swapaxes(0, 1)[None] for x, at in ((q, rows), (k, keys), (v, keys), (y, rows), (dout, rows))]
        rules = rules_of(16, is_causal=True, window=(4, -1), aligns_ends=True)
        expected = forward(*one[:3], rules)
        np.testing.assert_allclose(one[3], expected["y"].value, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(lse[None, :, rows], expected["lse"].value, rtol=1e-5, atol=1e-5)
        found = backward(*one[:4], lse[None, :, rows], one[4], rules)
        for name, gradient, at in zip(("dq", "dk", "dv"), gradients, (rows, keys, keys)):
            value = gradient[at].swapaxes(0, 1)[None]
            np.testing.assert_allclose(value, found[name].value, rtol=1e-4, atol=1e-4, err_msg=name)


def test_empty_rows_and_lengths():
    q = normal(1, 2, 3, 4)
    nothing = bk.scaled_dot_product_attention(q, q[:, :, :0], q[:, :, :0])
    np.testing.assert_array_equal(nothing, np.zeros_like(q))
    assert bk.scaled_dot_product_attention(q[:, :, :0], q, q).shape == (1, 2, 0, 4)
    keep = np.ones((3, 3), bool)
    keep[1] = False
    y, lse = bk.scaled_dot_product_attention(q, q, q, keep, return_lse=True)
    assert (y[:, :, 1] == 0).all() and (lse[:, :, 1] == -np.inf).all() and (y[:, :, 0] != 0).all()


def test_values_without_features():
    """lse, which C does not compute then, is NaN, and every gradient is 0."""
    q, k, v = normal(1, 2, 3, 4), normal(1, 2, 5, 4), normal(1, 2, 5, 0)
    y, lse = bk.fused_attention_forward(q, k, v)
    assert y.shape == (1, 2, 3, 0) and lse.shape == (1, 2, 3) and np.isnan(lse).all()
    for found in bk.fused_attention_backward(y, q, k, v, y, lse):
        np.testing.assert_array_equal(found, np.zeros_like(found))
    rows, cu = [x[0].swapaxes(0, 1).copy() for x in (q, k, v)], [np.array([0, n], np.int32) for n in (3, 5)]
    y, lse = bk.fused_attention_varlen_forward(*rows, *cu, 3, 5)
    assert y.shape == (3, 2, 0) and lse.shape == (2, 3) and np.isnan(lse).all()
    for found in bk.fused_attention_varlen_backward(y, *rows, *cu, y, lse, 3, 5):
        np.testing.assert_array_equal(found, np.zeros_like(found))


@pytest.mark.parametrize("longest", [-1, 2**31, 1.5, True, None])
def test_refuses_lengths(longest):
    q, cu = normal(3, 2, 4), np.array([0, 3], np.int32)
    with pytest.raises(bk.InvalidProblemError, match="max_seqlen_k is "):
        bk.fused_attention_varlen(q, q, q, cu, cu, 3, longest)


@pytest.mark.parametrize(("options", "text"), [
    ({}, "q has 4 heads and k 2: enable_gqa"),
    ({"enable_gqa": True, "layout": "sbhd"}, "layout is 'sbhd', must be one of bhsd, bshd"),
    ({"enable_gqa": True, "window": (1, 2, 3)}, r"window is \(1, 2, 3\), must be"),
    ({"enable_gqa": True, "window": -2}, "window"),
    ({"enable_gqa": True, "dropout_p": 0.5}, "seed is None"),
    ({"enable_gqa": True, "dropout_p": 1.0, "seed": 1}, "dropout"),
    ({"enable_gqa": True, "softcap": -1.0}, "softcap"),
])  # fmt: skip
def test_refuses(operands, options, text):
    with pytest.raises(bk.InvalidProblemError, match=text):
        bk.scaled_dot_product_attention(*operands, **options)


def test_refuses_shapes(operands):
    q, k, v = operands
    for wrong in ((q, k[:, :, :5], v), (q[..., :8], k, v), (q[0], k, v), (q[:1], k, v), (q[:, :3], k, v)):
        with pytest.raises(bk.InvalidProblemError):
            bk.scaled_dot_product_attention(*wrong, enable_gqa=True)


def documents(batch=2, length=13):
    """Ids of documents of any length; one goes on, by its id, in the next row, where it is another document."""
    ids = np.repeat([4, 9, 4, 7, 0, 0, 5], [5, 1, 3, 4, 2, 6, 5])[: batch * length].reshape(batch, length)
    assert ids[0, -1] == 7
    ids[1, :2] = 7
    return ids


def begins_of(ids):
    """The first rows of documents, counted over the batch."""
    flat = [(row, each) for row, of_row in enumerate(ids.tolist()) for each in of_row]
    return [k for k, each in enumerate(flat) if k == 0 or each != flat[k - 1]]


def same_document(ids):
    number = np.searchsorted(begins_of(ids), np.arange(ids.size), side="right").reshape(ids.shape)
    return (number[:, :, None] == number[:, None, :])[:, None]


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("most", [None, 1, 3, 8, 26, 40])
def test_document_offsets(dtype, most):
    ids = documents().astype(dtype)
    begins = begins_of(ids)
    found = bk.download(bk.document_offsets(bk.upload(ids), most))
    assert found.dtype == np.int32
    expected = [*begins, *[ids.size] * 50][: (ids.size if most is None else most) + 1]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(bk.document_offsets(ids[0], 2), [*begins_of(ids[:1]), 13][:3])


def test_document_offsets_of_few_rows():
    np.testing.assert_array_equal(bk.document_offsets(np.zeros((3, 1), int)), [0, 1, 2, 3])
    for shape in ((0,), (2, 0), (0, 4)):
        np.testing.assert_array_equal(bk.document_offsets(np.zeros(shape, int), 3), [0, 0, 0, 0])
    with pytest.raises(bk.InvalidProblemError, match="document_offsets: ids has shape"):
        bk.document_offsets(np.int64(3).reshape(()))
    with pytest.raises(bk.InvalidProblemError, match="document_offsets: max_documents is 0"):
        bk.document_offsets(np.zeros(3, int), 0)


@pytest.mark.parametrize("most", [None, 9, 26])
@pytest.mark.parametrize("name", RULES)
def test_documents(name, most):
    """Documents by a mask and by offsets, each with its own causal corner; and the gradients."""
    ids, options = documents(), {"enable_gqa": True, **RULES[name]}
    q, k, v, sinks, dy = normal(2, 4, 13, 16), normal(2, 2, 13, 16), normal(2, 2, 13, 8), normal(4), normal(2, 4, 13, 8)
    rules = rules_of(16, keep=same_document(ids), sinks=sinks, **RULES[name])
    options |= {"sinks": sinks, "document_ids": ids, "max_documents": most}
    y, lse = bk.scaled_dot_product_attention(q, k, v, return_lse=True, **options)
    expected = forward(q, k, v, rules)
    np.testing.assert_allclose(y, expected["y"].value, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(lse, expected["lse"].value, rtol=1e-5, atol=1e-5)
    needs = (True, True, True, False, True)
    found = bk.scaled_dot_product_attention_backward(dy, q, k, v, y, lse, needs=needs, **options)
    want = backward(q, k, v, y, lse, dy, rules)
    assert found[3] is None
    for part, value in zip(("dq", "dk", "dv", "dbias", "dsinks"), found):
        if value is not None:
            np.testing.assert_allclose(value, want[part].value, rtol=1e-4, atol=1e-4, err_msg=part)


@pytest.mark.parametrize("most", [None, 9])
def test_documents_in_any_layout_and_beside_masks(most):
    ids = documents()
    q, k, v = (normal(2, 4, 13, 16) for _ in "qkv")
    options = {"document_ids": ids, "max_documents": most, "is_causal": True}
    y, lse = bk.scaled_dot_product_attention(q, k, v, return_lse=True, **options)
    swapped = [x.swapaxes(1, 2) for x in (q, k, v)]
    other, sums = bk.scaled_dot_product_attention(*swapped, layout="bshd", return_lse=True, **options)
    np.testing.assert_array_equal(other.swapaxes(1, 2), y)
    np.testing.assert_array_equal(sums, lse)
    views = [bk.upload(x) for x in (q, k, v)]
    on_device = bk.scaled_dot_product_attention(*views, **options | {"document_ids": bk.upload(ids)})
    tolerance = 0 if views[0].device == "cpu" else 1e-5  # y is the CPU's
    np.testing.assert_allclose(bk.download(on_device), y, rtol=0, atol=tolerance)
    alone = bk.scaled_dot_product_attention(q[1], k[1], v[1], **options | {"document_ids": ids[1]})
    np.testing.assert_allclose(alone, y[1], rtol=1e-6, atol=1e-6)
    keep, bias = RNG.random((13, 13)) < 0.6, normal(4, 1, 13)
    for mask, rule in ((keep, {"keep": same_document(ids) & keep}), (bias, {"keep": same_document(ids), "bias": bias})):
        found = bk.scaled_dot_product_attention(q, k, v, mask, **options)
        expected = forward(q, k, v, rules_of(16, is_causal=True, **rule))["y"].value
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_more_documents_than_are_said():
    """Rows of the first ones have their results, others 0."""
    ids, q = documents(), normal(2, 4, 13, 16)
    end = begins_of(ids)[3]
    y, lse = bk.scaled_dot_product_attention(q, q, q, document_ids=ids, max_documents=3, return_lse=True)
    whole = bk.scaled_dot_product_attention(q, q, q, document_ids=ids)
    rows, all_rows = (x.swapaxes(1, 2).reshape(26, 4, 16) for x in (y, whole))
    np.testing.assert_allclose(rows[:end], all_rows[:end], rtol=1e-6, atol=1e-6)
    assert not rows[end:].any() and (lse.swapaxes(1, 2).reshape(26, 4)[end:] == -np.inf).all()


def test_documents_may_change_in_a_graph():
    q, ids = bk.upload(normal(2, 4, 13, 16)), bk.upload(documents())
    call = bk.graph(lambda: bk.scaled_dot_product_attention(q, q, q, document_ids=ids, max_documents=9, is_causal=True))
    for changed in (documents(), documents()[::-1].copy(), np.zeros((2, 13), int)):
        bk.upload(changed, out=ids)
        rules = rules_of(16, keep=same_document(changed), is_causal=True)
        expected = forward(*[bk.download(q)] * 3, rules)["y"].value
        np.testing.assert_allclose(bk.download(call()), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("options", "text"), [
    ({"max_documents": 3}, "max_documents is 3, but there are no document_ids"),
    ({"document_ids": np.zeros((2, 9), int)}, r"document_ids has shape \(2, 9\), expected \(2, 13\)"),
    ({"document_ids": np.zeros((2, 13), int), "max_documents": 0}, "max_documents is 0"),
])  # fmt: skip
def test_refuses_documents(options, text):
    q = normal(2, 4, 13, 16)
    with pytest.raises(bk.InvalidProblemError, match=f"scaled_dot_product_attention: {text}"):
        bk.scaled_dot_product_attention(q, q, q, **options)
    with pytest.raises(bk.InvalidProblemError, match="with as many keys, not 12"):
        bk.scaled_dot_product_attention(q, q[:, :, 1:], q[:, :, 1:], document_ids=np.zeros((2, 13), int))

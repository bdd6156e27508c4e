# SPDX-License-Identifier: Apache-2.0
"""An error says what is wrong with a call in the caller's words, and suggests names that were probably meant."""

import subprocess
import sys

import numpy as np
import pytest

import baracuda as bk
from baracuda._cli.describe import alike

X = np.ones((3, 4), np.float32)


@pytest.mark.parametrize(("call", "wanted"), [
    (lambda: bk.softmax(X, dim=1), "softmax.. got an unexpected keyword argument 'dim'; did you mean 'axis'"),
    (lambda: bk.sum(X, keepdim=True), "'keepdim'; did you mean 'keepdims'"),
    (lambda: bk.gelu(X, approximate="tanh"), "'approximate': gelu_tanh is a function of its own"),
    (lambda: bk.layer_norm(X, epsilon=1e-3), "'epsilon'; did you mean 'eps'"),
    (lambda: bk.gelu(X, nonsense=1), "'nonsense'; there are x, out"),
])  # fmt: skip
def test_keywords_of_other_libraries(call, wanted):
    with pytest.raises(TypeError, match=wanted):
        call()


@pytest.mark.parametrize(("given", "wanted"), [
    ("awq", "int4_awq_gemm"), ("crossentropy", "cross_entropy"), ("entropy", "cross_entropy"), ("gellu", "gelu"),
])  # fmt: skip
def test_names_of_ops_that_may_have_been_meant(given, wanted):
    assert wanted in alike(given)


def test_the_command_line_takes_words():
    def said(*words):
        return subprocess.run([sys.executable, "-m", "baracuda", "ops", *words], capture_output=True, text=True)

    assert "cross_entropy(" in said("cross", "entropy").stdout
    assert "perhaps int4_awq_gemm or int4_awq_dequantize" in said("awq").stderr


def test_numbers_of_numpy_are_numbers_beside_arrays():
    """NumPy scalars take the dtype of the arrays, and results are of the arrays' kind."""
    np.testing.assert_array_equal(bk.mul(X, np.sqrt(2)), X * np.float32(np.sqrt(2)))
    np.testing.assert_array_equal(bk.mul(np.float64(0.5), X), X / 2)
    assert bk.add(X.astype(np.int32), np.int64(3)).dtype == np.int32
    assert isinstance(bk.add(np.float32(1), bk.tensor(X)), bk.TensorRef)
    assert bk.add(np.float32(1), np.float32(2)).dtype == np.float32
    with pytest.raises(bk.InvalidProblemError, match="must be an integer"):
        bk.add(X.astype(np.int32), np.float64(2.5))


@pytest.mark.parametrize(("call", "wanted"), [
    (lambda: bk.layer_norm(X, eps=-1e-5), "layer_norm: eps is -1e-05, must be >= 0"),
    (lambda: bk.rms_norm(X, eps=float("nan")), "rms_norm: eps is nan, must be >= 0"),
    (lambda: bk.l2_normalize(X, eps=-1.0), "eps is -1.0, must be >= 0"),
    (lambda: bk.huber_loss(X, X, delta=0), "huber_loss: delta is 0.0, must be > 0"),
    (lambda: bk.huber_loss_backward(X[0, 0], X, X, delta=-1), "delta is -1.0, must be > 0"),
    (lambda: bk.smooth_l1_loss(X, X, beta=-1), "beta is -1.0, must be >= 0"),
    (lambda: bk.rope(X, base=0), "rope: base is 0.0, must be finite and > 0"),
    (lambda: bk.hardtanh(X, min_val=2, max_val=1), "min_val is 2.0 and max_val 1.0, must be in order"),
    (lambda: bk.cross_entropy(X, np.zeros(3, np.int64), label_smoothing=1.5), r"must be in \[0, 1\]"),
    (lambda: bk.LayerNormPlan.select(None, bk.LayerNormDescriptor((3, 4), 2, -1.0, False, False, element=bk.f32)),
     "eps is -1.0"),
])  # fmt: skip
def test_numbers_outside_their_domain(call, wanted):
    with pytest.raises(bk.InvalidProblemError, match=wanted):
        call()


def test_descriptors_of_one_element_are_equal():
    """Descriptors are equal however the element is spelled; an unknown element is refused at once."""

    def made(element):
        return bk.FillDescriptor((3,), 1.0, element=element)

    assert made("f32") == made(np.float32) == made(np.dtype("f4")) == made(bk.f32)
    assert hash(made("f32")) == hash(made(bk.f32))
    with pytest.raises(bk.UnsupportedError, match="element is 'quux'"):
        made("quux")
    with pytest.raises(bk.InvalidProblemError, match=r"element is 3\.5, which is no dtype"):
        made(3.5)


def test_select_refuses_what_run_would():
    with pytest.raises(bk.InvalidProblemError, match="split_k_iters is 8, but ic, 128, is no multiple of 32 times"):
        bk.Int4AwqGemmPlan.select(None, bk.Int4AwqGemmDescriptor(8, 128, 64, element=bk.f16))


def test_codes_of_more_than_four_bits_are_refused():
    codes, scales = np.zeros((128, 64), np.int32), np.ones((1, 64), np.float16)
    for bad, signed, text in ((16, False, "16, must be in [0, 15]"), (-1, False, "-1, must be in [0, 15]"),
                              (8, True, "8, must be in [-8, 7]")):  # fmt: skip
        wrong = codes.copy()
        wrong[5, 5] = bad
        for pack, given in ((bk.marlin_pack, (wrong, scales)), (bk.awq_pack, (wrong.T, scales.T)),
                            (bk.awq_pack, (codes.T, scales.T, wrong.T[:, 5:6]))):  # fmt: skip
            with pytest.raises(bk.InvalidProblemError) as error:
                pack(*given, signed=signed)
            assert text in str(error.value)


def test_an_append_past_the_end_of_the_cache_is_found():
    descriptor = bk.KvCacheAppendDescriptor(2, 1, 3, 8, 4, 4, element=bk.f32)
    plan = bk.KvCacheAppendPlan.select(None, descriptor, bk.PlanPreference(check_indices=True))
    new, cache = bk.upload(np.ones((2, 1, 3, 4), np.float32)), bk.upload(np.zeros((2, 1, 8, 4), np.float32))
    other = bk.upload(np.zeros((2, 1, 8, 4), np.float32))
    for offsets, is_fine in (([0, 5], True), ([0, 6], False), ([-1, 0], False)):
        args = bk.KvCacheAppendArgs(k_new=new, v_new=bk.upload(np.ones((2, 1, 3, 4), np.float32)), k_cache=cache,
                                    v_cache=other, cache_offsets=bk.upload(np.array(offsets)))  # fmt: skip
        plan.run(None, bk.workspace(plan, args), args)
        bk.synchronize()
        if is_fine:
            plan.check()
            continue
        with pytest.raises(bk.IndexOutOfRangeError, match=r"must be in \[0, 6\)"):
            plan.check()


def test_negative_pads_crop():
    x = np.arange(20, dtype=np.float64).reshape(4, 5)
    np.testing.assert_array_equal(bk.pad_constant(x, pad_low=-1, pad_high=[0, -2]), x[1:, 1:-2])
    got = bk.pad_constant(x, pad_low=[-1, 2], pad_high=[1, -3], value=7)
    np.testing.assert_array_equal(got, np.pad(x[1:, :-3], ((0, 1), (2, 0)), constant_values=7))
    for name, mode in (("pad_reflect", "reflect"), ("pad_replicate", "edge"), ("pad_circular", "wrap")):
        whole = np.pad(x, ((0, 0), (0, 2)), mode)
        np.testing.assert_array_equal(getattr(bk, name)(x, pad_low=[-1, -2], pad_high=[0, 2]), whole[1:, 2:])
    dy = np.arange(1.0, 21).reshape(4, 5)
    dx = bk.pad_constant_backward(dy, pad_low=[-1, 2], pad_high=[1, -3])
    expected = np.zeros((4, 6))
    expected[1:, :3] = dy[:3, 2:]
    np.testing.assert_array_equal(dx, expected)
    with pytest.raises(bk.InvalidProblemError, match="crop more than all"):
        bk.pad_constant(x, pad_low=-3, pad_high=-2)


def test_scatters_go_into_longer_arrays():
    index, updates = np.array([[2, 0], [1, 1]]), np.array([[5.0, 6], [7, 8]], np.float32)
    out = np.ones((4, 5), np.float32)
    assert bk.scatter(index, updates, 4, axis=0, out=out) is out
    expected = np.ones((4, 5), np.float32)
    for (row, column), at in np.ndenumerate(index):
        expected[at, column] = updates[row, column]
    np.testing.assert_array_equal(out, expected)
    total = np.ones((4, 5), np.float32)
    bk.scatter_add(index, updates, 4, axis=0, out=total)
    expected = np.ones((4, 5), np.float32)
    np.add.at(expected, (index, [[0, 1], [0, 1]]), updates)
    np.testing.assert_array_equal(total, expected)
    with pytest.raises(bk.InvalidProblemError, match="out has shape"):
        bk.scatter(index, updates, 3, axis=0, out=out)
    with pytest.raises(bk.InvalidProblemError, match="out has shape"):
        bk.scatter(index, updates, 4, axis=0, out=out[:, :1])

# SPDX-License-Identifier: Apache-2.0
"""The last layer of a language model fused with its cross entropy, against float64."""

import numpy as np
import pytest

import baracuda as bk
from tools.oracle.losses import cross_entropy, cross_entropy_slope

TOLERANCE = {bk.f64: 1e-12, bk.f32: 1e-5, bk.f16: 2e-2, bk.bf16: 6e-2}
REDUCTIONS = list(bk.LossReduction)


def plan_of(library, *fields, element=bk.f32, backward=False, **options):
    name = f"FusedLinearCrossEntropy{'Backward' * backward}"
    descriptor = getattr(bk, f"{name}Descriptor")(*fields, element=element, **options)
    return getattr(bk, f"{name}Plan").select(None, descriptor, library=library)


def expected(x, w, target, reduction, ignored):
    counts = target != ignored
    logits = x @ w.T
    with np.errstate(all="ignore"):
        losses, ((slope, _),) = cross_entropy(logits, target)[0], cross_entropy_slope(logits, target)
    share = 1 / max(counts.sum(), 1) if reduction is bk.LossReduction.MEAN else 1.0
    losses, slope = losses * counts, slope * counts[:, None] * share
    loss = losses if reduction is bk.LossReduction.NONE else np.array([losses.sum() * share])
    return loss, slope @ w, slope.T @ x


@pytest.mark.parametrize("element", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda r: r.name)
@pytest.mark.parametrize(("bt", "h", "v"), [(1, 8, 16), (37, 16, 40), (100, 8, 72), (16, 24, 1)])
def test_loss_and_gradients(library, rng, bt, h, v, reduction, element):
    """Chunks of a power of two rows, and a tail; ignored rows."""
    x, w = (
        bk.upload((rng.standard_normal(s) / 2).astype(np.float32), element, library=library) for s in ((bt, h), (v, h))
    )
    labels = np.where(rng.random(bt) < 0.2, -100, rng.integers(0, v, bt))
    target = bk.upload(labels, library=library)
    plan = plan_of(library, bt, h, v, reduction, element=element)
    shape = (bt,) if reduction is bk.LossReduction.NONE else (1,)
    out, dx, dw = (bk.empty(s, element, library=library) for s in (shape, (bt, h), (v, h)))
    args = bk.FusedLinearCrossEntropyArgs(x, w, target, out, dx, dw)
    plan.can_implement(args)
    scratch = bk.workspace(plan, args)
    plan.run(None, scratch, args)
    values = [np.asarray(bk.download(each), np.float64) for each in (x, w)]
    wanted = expected(*values, labels, reduction, -100)
    for got, want in zip((out, dx, dw), wanted):
        worst = max(np.abs(want).max(initial=0), 1e-3)
        got = np.asarray(bk.download(got), np.float64)
        np.testing.assert_allclose(got, want, rtol=TOLERANCE[element], atol=TOLERANCE[element] * worst)
    before = bk.download(dw)
    plan.run(None, scratch, bk.FusedLinearCrossEntropyArgs(x, w, target, out, None, dw), int((labels != -100).sum()))
    np.testing.assert_array_equal(bk.download(dw), before)
    back = plan_of(library, bt, h, v, element=element, backward=True)
    back.run(None, None, bk.FusedLinearCrossEntropyBackwardArgs(grad_input=dx), 0.5)
    got = np.asarray(bk.download(dx), np.float64)
    worst = max(np.abs(wanted[1]).max(initial=0), 1e-3)
    np.testing.assert_allclose(got, wanted[1] / 2, rtol=TOLERANCE[element], atol=TOLERANCE[element] * worst)


def test_nothing_counts(library):
    """Without counted rows the loss and the gradients are 0."""
    x, w = (bk.upload(np.ones(s, np.float32), library=library) for s in ((4, 8), (16, 8)))
    target = bk.upload(np.full(4, 7), library=library)
    plan = plan_of(library, 4, 8, 16, ignore_index=7)
    results = [bk.upload(np.ones(s, np.float32), library=library) for s in ((1,), (4, 8), (16, 8))]
    args = bk.FusedLinearCrossEntropyArgs(x, w, target, *results)
    plan.run(None, bk.workspace(plan), args)
    assert all(not bk.download(each).any() for each in results)


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda r: r.name)
@pytest.mark.parametrize("element", [bk.f16, bk.bf16], ids=str)
def test_losses_of_16_bit_inputs_in_f32(library, rng, reduction, element):
    """Losses are not rounded to the dtype of the inputs; f32 inputs of the same values have the same losses."""
    values = [(rng.standard_normal(s) / 2).astype(np.float32) for s in ((37, 16), (40, 16))]
    narrow = [bk.upload(value, element, library=library) for value in values]
    values = [np.asarray(bk.download(each), np.float64) for each in narrow]
    labels = rng.integers(0, 40, 37)
    plan = plan_of(library, 37, 16, 40, reduction, element=element)
    out = bk.empty(37 if reduction is bk.LossReduction.NONE else 1, bk.f32, library=library)
    args = bk.FusedLinearCrossEntropyArgs(*narrow, bk.upload(labels, library=library), out)
    plan.run(None, bk.workspace(plan, args), args)
    want = expected(*values, labels, reduction, -100)[0]
    tolerance = 37 * 8e-3 if reduction is bk.LossReduction.SUM else 8e-3  # logits are rounded to 16 bits
    np.testing.assert_allclose(bk.download(out, library=library), want, atol=tolerance)
    assert np.any(bk.download(out, library=library) != np.asarray(bk.download(out, library=library)).astype(np.float16))


def test_chunks(library):
    """A chunk of logits is about as large as the input, and has at most 2048 rows."""
    for shape, rows in (((4096, 512, 32_000), 128), ((100_000, 512, 512), 2048), ((5, 8, 8), 8), ((1, 8, 800), 1)):
        assert plan_of(library, *shape).descriptor.chunk_rows == rows


def test_refused(library):
    x, w = (bk.upload(np.ones(s, np.float32), library=library) for s in ((4, 8), (16, 8)))
    target, out = bk.upload(np.zeros(4, np.int64), library=library), bk.empty((1,), bk.f32, library=library)
    plan = plan_of(library, 4, 8, 16)
    with pytest.raises(bk.InvalidProblemError, match=r"fused_linear_cross_entropy: weight has shape \(4, 8\)"):
        plan.can_implement(bk.FusedLinearCrossEntropyArgs(x, x, target, out))
    with pytest.raises(bk.InvalidProblemError, match="grad_input overlaps input"):
        plan.can_implement(bk.FusedLinearCrossEntropyArgs(x, w, target, out, x))
    with pytest.raises(bk.WorkspaceTooSmallError, match="workspace has 0 bytes, needs"):
        plan.run(None, None, bk.FusedLinearCrossEntropyArgs(x, w, target, out))
    with pytest.raises(bk.InvalidProblemError, match="v is 0"):
        plan_of(library, 4, 8, 0)
    with pytest.raises(bk.InvalidProblemError, match="reduction is 1, must be a LossReduction"):
        plan_of(library, 4, 8, 16, 1)

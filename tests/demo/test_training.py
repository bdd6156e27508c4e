# SPDX-License-Identifier: Apache-2.0
"""Training steps of the language model: what they learn, and that they repeat bit by bit."""

import tracemalloc

import numpy as np
import pytest

import baracuda as bk
from baracuda.demo.checkpoint import load, save
from baracuda.demo.experts import BALANCE_RATE
from baracuda.demo.parameters import Parameters
from baracuda.demo.texts import Texts
from baracuda.demo.tokenizer import Tokenizer
from baracuda.demo.training import Evaluator, Schedule
from demo import small

RUNS = pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dropout": 0.2},
        {"accumulate": 2},
        {"config": small.EXPERTS},
        {"optimizer": "muon"},
        {"optimizer": "muon", "config": small.EXPERTS},
    ],
    ids=["plain", "dropout", "accumulate", "experts", "muon", "muon of experts"],
)


def test_learns(library):
    trainer = small.trainer(library, 150)
    losses = small.run(trainer, 150)
    assert losses[0] == pytest.approx(np.log(small.CONFIG.vocabulary), abs=0.3)
    assert np.mean(losses[-10:]) < 1.4  # the text has log(3) = 1.1 nats a token


def test_learns_with_muon(library):
    """Muon has the matrices of the layers, AdamW the embedding and the gains; neither leaves a gradient behind."""
    trainer = small.trainer(library, 150, optimizer="muon")
    (muon, matrices), (_, others) = trainer.optimizers
    assert isinstance(muon, bk.optim.Muon) and len(matrices) == 2 * 6
    assert {part.name.rpartition(".")[2] for part in others} == {"embedding", "attention_norm", "mlp_norm", "norm"}
    assert np.mean(small.run(trainer, 150)[-10:]) < 1.4
    for gradient in trainer.p.gradients.values():
        assert not bk.download(gradient, library=library).any()


def test_muon_of_several_ranks_is_refused(library):
    class Mesh:
        mesh = object()

    trainer = small.trainer(library, 1, optimizer="muon")
    trainer.p.ranks = Mesh()
    with pytest.raises(bk.UnsupportedError, match="training with Muon by several ranks"):
        trainer._optimizers()


def test_experts_learn_and_share_the_load(library):
    trainer = small.trainer(library, 150, config=small.EXPERTS)
    losses = small.run(trainer, 150)
    assert np.mean(losses[-10:]) < 1.4
    for layer in trainer.buffers.layers:
        counts = bk.download(layer.experts.counts, library=library)
        assert counts.sum() == 3 * 16 * 2
        assert counts.max() < 2 * counts.mean()


def test_the_bias_of_a_loaded_expert_falls(library):
    """The bias falls by the rate in each step, while those of the others rise."""
    trainer = small.trainer(library, 5, config=small.EXPERTS)
    names = [name for name in trainer.p.values if name.endswith("balance")]
    for name in names:  # all tokens have expert 0 and, of their two, one of the others
        bk.upload(np.array([2.0, 0.0, 0.0, 0.0]), out=trainer.p.values[name], library=library)
    small.run(trainer, 5)
    for name in names:
        bias = bk.download(trainer.p.values[name], library=library)
        assert bias[0] == pytest.approx(2 - 5 * BALANCE_RATE, abs=1e-6)
        assert bias[1:].max() > 0


def test_experts_of_several_ranks_are_refused(library):
    with pytest.raises(bk.UnsupportedError, match="training of experts by several ranks"):
        Parameters(small.EXPERTS, bk.f32, library, mesh=object())


@pytest.mark.parametrize("recipe", ["delayed", "current", "blocks"])
@pytest.mark.needs_ops("gemm_scaled_fp8e4m3_f32", "quantize_fp8_f32_fp8e5m2", "cast_f32_fp8e5m2", "unary_abs_f32")
def test_learns_with_8_bit_products(library, recipe):
    """Nearly as fast as with products of floats, and with other losses."""
    trainer, whole = small.trainer(library, 100, fp8=recipe), small.trainer(library, 100)
    losses, others = small.run(trainer, 100), small.run(whole, 100)
    assert losses != others
    assert np.mean(losses[-10:]) < np.mean(others[-10:]) + 0.15


@RUNS
def test_two_runs_are_equal(library, changes):
    first, second = (small.trainer(library, 6, **changes) for _ in range(2))
    assert small.run(first, 6) == small.run(second, 6)
    assert small.values(first) == small.values(second)


def test_the_seed_changes_the_texts(library):
    first, second = (small.trainer(library, 6, seed=seed) for seed in (1, 2))
    assert small.run(first, 3) != small.run(second, 3)


def test_dropout_differs_from_step_to_step(library):
    trainer = small.trainer(library, 6, dropout=0.5)
    states = []
    for _ in range(3):
        trainer.run_step()
        states.append(bk.download(trainer.dropout.state, library=library).tolist())
    assert len({tuple(state) for state in states}) == 3


@RUNS
@pytest.mark.parametrize("dtype", [bk.f32, bk.bf16], ids=str)
def test_a_resumed_run_is_equal(library, tmp_path, changes, dtype):
    path = tmp_path / "model.safetensors"
    whole = small.trainer(library, 6, dtype, **changes)
    losses = small.run(whole, 6)
    half = small.trainer(library, 6, dtype, **changes)
    first = small.run(half, 3)
    save(path, half, Tokenizer([(65, 66)]), first)
    found = load(path)
    assert (found.step, found.config, found.schedule, found.dtype) == (3, half.p.config, half.schedule, dtype)
    assert found.tokenizer.merges == [(65, 66)]
    resumed = small.trainer(library, 6, dtype, **changes)
    found.restore(resumed)
    assert found.losses + small.run(resumed, 3) == losses
    assert small.values(resumed) == small.values(whole)


def test_accumulated_batches_are_one_batch(library):
    """The mean over two batches of three texts is that over one of six."""
    halves, whole = small.trainer(library, 4, accumulate=2), small.trainer(library, 4, batch=6)
    assert small.run(halves, 4) == pytest.approx(small.run(whole, 4), rel=1e-5)


def test_steps_allocate_nothing_large(library):
    """Steps after the first allocate only what uploads and downloads need, not buffers of the model."""
    trainer = small.trainer(library, 20)
    small.run(trainer, 3)
    tracemalloc.start()
    small.run(trainer, 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30_000, peak


def test_the_rate_rises_and_falls():
    schedule = Schedule(100, batch=1, length=1, rate=1.0, warmup=10, final_rate=0.1)
    rates = [schedule.rate_of(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[10] == 1.0
    assert rates[-1] == pytest.approx(0.1, abs=0.001)
    assert np.all(np.diff(rates[10:]) < 0)


def test_the_rates_of_steps_are_those_of_the_schedule(library):
    trainer = small.trainer(library, 8)
    found = []
    for _ in range(8):
        trainer.run_step()
        found.append(bk.download(trainer.rate).item())
    np.testing.assert_allclose(found, [trainer.schedule.rate_of(step) for step in range(8)], rtol=1e-6)
    with pytest.raises(bk.InvalidProblemError, match="step 8 is behind the schedule's 8 steps"):
        trainer.run_step()
    trainer.restart(5)
    trainer.run_step()
    assert bk.download(trainer.rate).item() == np.float32(found[5])


@pytest.mark.parametrize("accumulate", [1, 3])
def test_losses_are_read_later(library, accumulate):
    trainer = small.trainer(library, 8, accumulate=accumulate)
    expected = []
    for step in range(8):
        trainer.run_step()
        expected.append(trainer.loss())
        if step == 4:
            np.testing.assert_allclose(trainer.losses_from(2), expected[2:], rtol=1e-6)
    np.testing.assert_allclose(trainer.losses_from(0), expected, rtol=1e-6)
    assert trainer.losses_from(8) == []
    trainer.restart(6)
    trainer.run_step()
    assert len(trainer.losses_from(6)) == 1


def test_every_token_is_evaluated_once(library):
    """The loss of a text does not depend on the windows, as far as contexts are the same."""
    trainer = small.trainer(library, 40)
    small.run(trainer, 40)
    text = small.text(100)
    found = Evaluator(trainer.p, 3, 16).losses_of(text)
    assert found.shape == (99,)
    assert np.all(found > 0)
    for start in (0, 8, 16):  # a window alone
        alone = Evaluator(trainer.p, 1, 16).losses_of(text[start : start + 17])
        begin = 8 if start else 0
        np.testing.assert_allclose(found[start + begin : start + 16], alone[begin:], rtol=1e-5)


def test_texts_of_a_step(library):
    """A step sees the texts that the host names, of each share of a batch, and in another order of steps, too."""
    text = small.text(300)
    whole = Texts(text, 6, 16, seed=5, batches=2, rows=slice(0, 3), positions=slice(0, 16), library=library)
    part = Texts(text, 6, 16, seed=5, batches=2, rows=slice(1, 3), positions=[2, 3, 12, 13], library=library)
    for step in (0, 1, 7, 2):
        tokens, targets = (x.reshape(2, 3, 16) for x in drawn(whole, step, 48))
        np.testing.assert_array_equal(tokens[:, :, 1:], targets[:, :, :-1])
        for own, of_all in zip(drawn(part, step, 8), (tokens, targets)):
            np.testing.assert_array_equal(own.reshape(2, 2, 4), of_all[:, 1:, [2, 3, 12, 13]])


def drawn(texts, step, size):
    """Tokens and targets of a step, which are equal on the host."""
    found = [bk.zeros((2, size), bk.i64, library=texts.library) for _ in range(2)]
    texts.restart(step)
    texts.draw(*found)
    found = [bk.download(view, library=texts.library) for view in found]
    for device, host in zip(found, texts.host(step)):
        np.testing.assert_array_equal(device, host)
    return found


def test_texts_begin_anywhere(library):
    """Also with the last token that has a text behind it; a text that is too short is refused."""
    texts = Texts(np.arange(6), 2000, 4, seed=1, batches=1, rows=slice(0, 2000), positions=slice(0, 4), library=library)
    tokens, targets = texts.host(0)
    assert set(tokens.reshape(-1, 4)[:, 0]) == {0, 1}
    assert targets.max() == 5
    with pytest.raises(bk.InvalidProblemError, match="the text has 4 tokens, must have more than 4"):
        Texts(np.arange(4), 1, 4, seed=1, batches=1, rows=slice(0, 1), positions=slice(0, 4), library=library)

# SPDX-License-Identifier: Apache-2.0
"""Adafactor and Muon, composed of functions on arrays, against float64."""

import math

import numpy as np
import pytest

import baracuda as bk
import baracuda.optim as optim
from baracuda._arrays import frameworks
from baracuda.optim.muon import orthogonalised


class Adafactor:
    """One parameter, from torch.optim's documentation."""

    def __init__(self, p, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, unit=2.0**-23):
        self.p, self.t, self.o = np.array(p, np.float64), 0, (lr, beta2_decay, d, weight_decay)
        self.eps = (unit if eps[0] is None else eps[0], eps[1])
        self.row = self.column = self.variance = 0.0

    def step(self, g):
        (lr, decay, d, wd), p = self.o, self.p
        self.t += 1
        w, square = self.t**decay, np.square(np.asarray(g, np.float64))
        if p.ndim > 1:
            self.row = self.row + w * (square.mean(-1, keepdims=True) - self.row)
            self.column = self.column + w * (square.mean(-2, keepdims=True) - self.column)
            estimate = self.row * self.column / np.maximum(self.row.mean(-2, keepdims=True), self.eps[0])
        else:
            self.variance = estimate = self.variance + w * (square - self.variance)
        u = g / np.sqrt(np.maximum(estimate, self.eps[0] ** 2))
        size = max(self.eps[1], math.sqrt(np.square(p).mean())) * min(lr, 1 / math.sqrt(self.t))
        self.p = p * (1 - lr * wd) - size * u / max(1.0, math.sqrt(np.square(u).mean()) / d)


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1, "lr": 0.5, "d": 0.3}, {"eps": (1e-3, 0.5)}])
@pytest.mark.parametrize(("dtype", "bound"), [("f32", 1e-5), ("bf16", 0.02)])
@pytest.mark.parametrize("shape", [(40, 30), (300,), (3, 5, 70), (1, 1), (0, 4)])
def test_adafactor(shape, dtype, bound, options):
    rng = np.random.default_rng(1)
    kind = getattr(bk, dtype).numpy_dtype
    p = rng.standard_normal(shape).astype(kind)
    unit = {"f32": 2.0**-23, "bf16": 2.0**-7}[dtype]
    each, opt = Adafactor(p, **options, unit=unit), optim.Adafactor([p], **options, rounding="master")
    for _ in range(10):
        g = rng.standard_normal(shape).astype(kind)
        opt.step([g])
        if p.size:
            each.step(g.astype(np.float64))
    np.testing.assert_allclose(p.astype(np.float64), each.p, rtol=bound, atol=bound)


@pytest.mark.parametrize("shape", [(2, 24, 40), (3, 40, 24), (1, 1, 8), (1, 16, 16)])
def test_orthogonalised(shape):
    """The iterations are those of float64, and leave the singular values between 0.6 and 1.3."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal(shape).astype(np.float32)
    a, b, c = 3.4445, -4.7750, 2.0315
    found = orthogonalised(x)
    for got, each in zip(found, x.astype(np.float64)):
        u, s, v = np.linalg.svd(each, full_matrices=False)
        s = s / np.sqrt(np.sum(s * s))
        for _ in range(5):
            s = a * s + b * s**3 + c * s**5
        np.testing.assert_allclose(got, (u * s) @ v, rtol=1e-3, atol=1e-3)
        assert s.max() < 1.3


def test_muon():
    """Momentum, Nesterov's step, the rate of a shape and decay; in the rounding of bf16."""
    rng = np.random.default_rng(3)
    shapes = [(24, 40), (40, 24), (24, 40)]
    params = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    expected, buffers = [p.astype(np.float64) for p in params], [np.zeros(s) for s in shapes]
    opt = optim.Muon(params, lr=0.1, weight_decay=0.2)
    for _ in range(4):
        grads = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        opt.step(grads)
        for k, g in enumerate(grads):
            buffers[k] = 0.95 * buffers[k] + 0.05 * g
            direction = (0.05 * g + 0.95 * buffers[k])[None].astype(np.float32)
            rate = 0.1 * math.sqrt(max(1, shapes[k][0] / shapes[k][1]))
            expected[k] = expected[k] * (1 - 0.1 * 0.2) - rate * orthogonalised(direction)[0]
    for p, each in zip(params, expected):
        assert np.linalg.norm(p - each) < 0.01 * np.linalg.norm(each)


def test_muon_of_batches_of_matrices():
    """Each matrix by itself, whatever it lies in."""
    rng = np.random.default_rng(4)
    whole = rng.standard_normal((3, 24, 40)).astype(np.float32)
    parts, (together,) = [x.copy() for x in whole], [whole.copy()]
    one, each = optim.Muon([together], lr=0.1), optim.Muon(parts, lr=0.1)
    for _ in range(3):
        g = rng.standard_normal(whole.shape).astype(np.float32)
        one.step([g])
        each.step(list(g))
    np.testing.assert_array_equal(together, np.stack(parts))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("adjust", ["original", "match_rms_adamw"])
def test_muon_with_scalars_on_the_device(dtype, adjust):
    """Steps equal those by value, but for the rounding of the rate; gradients are cleared as they are used."""
    rng = np.random.default_rng(5)
    kind, shapes = getattr(bk, dtype).numpy_dtype, [(24, 40), (40, 24)]
    first = [rng.standard_normal(shape).astype(kind) for shape in shapes]
    second, options = [p.copy() for p in first], {"weight_decay": 0.1, "adjust_lr_fn": adjust, "rounding": "master"}
    rate = np.full(1, 2.0**-5, np.float32)
    by_value = optim.Muon(first, lr=2.0**-5, **options)
    on_device = optim.Muon(second, lr=rate, capturable=True, zero_grads=True, **options)
    for lr in (2.0**-5, 2.0**-6, 0.0):
        grads = [rng.standard_normal(shape).astype(kind) for shape in shapes]
        by_value.param_groups[0]["lr"], rate[0] = lr, lr
        by_value.step([g.copy() for g in grads])
        on_device.step(grads)
        assert not any(g.any() for g in grads)
    for p, q in zip(first, second):
        np.testing.assert_allclose(q.astype(np.float64), p.astype(np.float64), rtol=1e-6 if dtype == "f32" else 0)


def test_a_step_of_muon_copies_nothing_from_the_host(monkeypatch):
    """Numbers are parameters of C or on the device, so that a graph of a step has no copies from Python's memory."""
    params, grads = ([bk.upload(np.ones((4, 6), np.float32)) for _ in range(2)] for _ in "pg")
    opt = optim.Muon(params, lr=bk.upload(np.full(1, 0.1, np.float32)), capturable=True, zero_grads=True)
    opt.step(grads)

    def refuse(*given, **options):
        raise AssertionError("a number became an array")

    monkeypatch.setattr(frameworks.Framework, "scalar", refuse)
    monkeypatch.setattr(bk.memory, "upload", refuse)
    with pytest.raises(AssertionError, match="a number became an array"):
        bk.clamp(params[0], 1e-7, math.inf)
    opt.step(grads)
    opt.step(grads)


def test_refusals():
    p = np.ones((3, 4), np.float32)
    for name, option in (("max_norm", 1.0), ("zero_grads", True), ("capturable", True)):
        with pytest.raises(bk.UnsupportedError, match=f"{name} is {option}"):
            optim.Adafactor([p], **{name: option})
    with pytest.raises(bk.UnsupportedError, match="max_norm is 1"):
        optim.Muon([p], max_norm=1.0)
    with pytest.raises(bk.UnsupportedError, match="unscale first"):
        optim.Muon([p]).step([p], grad_scale=2.0)
    with pytest.raises(bk.UnsupportedError, match="norm is not served by Muon"):
        optim.Muon([p]).step([p], norm=1.0)
    with pytest.raises(bk.InvalidProblemError, match="must be a matrix"):
        optim.Muon([np.ones(4, np.float32)])
    with pytest.raises(bk.InvalidProblemError, match="beta2_decay is 1"):
        optim.Adafactor([p], beta2_decay=1)
    with pytest.raises(bk.InvalidProblemError, match="d is 0"):
        optim.Adafactor([p], d=0.0)
    with pytest.raises(bk.InvalidProblemError, match="adjust_lr_fn is 'none'"):
        optim.Muon([p], adjust_lr_fn="none")

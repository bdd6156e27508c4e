# SPDX-License-Identifier: Apache-2.0
"""Loss and gradients of the whole model, dense and with experts, against central differences in NumPy, float64."""

import dataclasses
import functools

import numpy as np
import pytest

import baracuda as bk
from baracuda.demo.backward import Backward
from baracuda.demo.forward import Buffers, Dropout, forward
from baracuda.demo.parameters import Config, Parameters
from demo import reference

DENSE = Config(vocabulary=13, context=9, layers=2, width=8, heads=4, kv_heads=2, hidden=5)
EXPERTS = dataclasses.replace(DENSE, hidden=3, experts=3, top_k=2)
BATCH, LENGTH, STEP = 2, 7, 1e-4


@functools.cache
def problem(config):
    """Parameters, tokens and targets; the loss and its gradients."""
    rng = np.random.default_rng(227)  # scores of experts differ by at least 0.05, and not all tokens have the same ones
    values = {name: rng.standard_normal(shape) / 2 for name, shape in config.shapes().items()}
    for name, shape in config.biases().items():
        values[name] = rng.standard_normal(shape) / 2
    tokens, targets = rng.integers(0, config.vocabulary, (2, BATCH, LENGTH))
    gradients = {}
    for name in config.shapes():
        value = values[name]
        gradients[name] = np.zeros(value.shape)
        for index in np.ndindex(value.shape):
            changed = value.copy()
            losses = []
            for step in (STEP, -STEP):
                changed[index] = value[index] + step
                losses.append(reference.loss(config, values | {name: changed}, tokens, targets))
            gradients[name][index] = (losses[0] - losses[1]) / (2 * STEP)
    return values, tokens, targets, reference.loss(config, values, tokens, targets), gradients


@pytest.mark.parametrize(
    "config, dtype, tolerance",
    [
        pytest.param(DENSE, bk.f64, 1e-6, id="dense-f64"),
        pytest.param(DENSE, bk.f32, 1e-5, id="dense-f32"),
        pytest.param(DENSE, bk.bf16, 0.05, id="dense-bf16"),
        pytest.param(EXPERTS, bk.f32, 1e-5, id="experts-f32"),
        pytest.param(EXPERTS, bk.bf16, 0.05, id="experts-bf16"),
    ],
)
def test_gradients_are_those_of_the_reference(library, config, dtype, tolerance):
    values, tokens, targets, loss, gradients = problem(config)
    p = Parameters(config, dtype, library, has_gradients=True)
    for name, value in values.items():
        bk.upload(value, out=p.values[name], library=library)
    buffers = Buffers(p, BATCH, LENGTH)
    backward = Backward(p, buffers)
    dropout = Dropout(p, 0.0, 1, BATCH * LENGTH * config.width)
    inputs, wanted = (bk.upload(x.reshape(-1), bk.i64, library=library) for x in (tokens, targets))
    found = bk.zeros((1,), p.statistics, library=library)
    for _ in range(2):  # the second call adds
        forward(p, buffers, inputs, dropout)
        backward.run(inputs, wanted, found, dropout)
    assert bk.download(found, library=library)[0] == pytest.approx(loss, rel=tolerance)
    for name, gradient in gradients.items():
        got = bk.download(p.gradients[name], library=library).astype(np.float64)
        error = np.abs(got - 2 * gradient).max() / np.abs(gradient).max()
        assert error < 4 * tolerance, (name, error)

# SPDX-License-Identifier: Apache-2.0
"""A small model for tests."""

import dataclasses

import numpy as np

import baracuda as bk
from baracuda.demo.parameters import Config, Parameters
from baracuda.demo.training import Schedule, Trainer

CONFIG = Config(vocabulary=37, context=16, layers=2, width=16, heads=4, kv_heads=2, hidden=12)

EXPERTS = dataclasses.replace(CONFIG, hidden=6, experts=4, top_k=2)


def text(count=2000):
    """Tokens that follow a pattern, so that there is something to learn."""
    rng = np.random.default_rng(8)
    tokens = np.cumsum(rng.integers(1, 4, count)) % CONFIG.vocabulary
    return tokens.astype(np.int64)


def trainer(library, steps, dtype=bk.f32, *, config=CONFIG, fp8=None, **changes):
    p = Parameters(config, dtype, library, has_gradients=True, fp8=fp8)
    p.initialise(4)
    return Trainer(p, Schedule(steps, **{"batch": 3, "length": 16, "warmup": 5, "rate": 0.02} | changes), text())


def run(trainer, steps):
    """Losses of some steps."""
    losses = []
    for _ in range(steps):
        trainer.run_step()
        losses.append(trainer.loss())
    return losses


def values(trainer):
    """The bytes of all parameters."""
    return {name: bk.download(view).tobytes() for name, view in trainer.p.values.items()}

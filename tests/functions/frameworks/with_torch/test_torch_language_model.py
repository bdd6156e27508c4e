# SPDX-License-Identifier: Apache-2.0
"""The demo's language model learns what the same model in PyTorch learns: same weights, same texts, same optimiser."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import baracuda as bk
from baracuda.demo.forward import EPS
from demo import small
from demo.conftest import OPS

STEPS = 50
pytestmark = pytest.mark.needs_ops(*[op.format("f32") for op in OPS])


class Model:
    """baracuda.demo.forward, with PyTorch's functions and gradients."""

    def __init__(self, p):
        self.config = p.config
        self.values = {
            name: torch.tensor(np.asarray(bk.download(x)), requires_grad=True) for name, x in p.values.items()
        }
        self.cos, self.sin = (torch.tensor(table, dtype=torch.float32) for table in (p.cos, p.sin))

    def loss(self, tokens, targets):
        w, c = self.values, self.config
        x = w["embedding"][tokens]
        for number in range(c.layers):
            of = {name.split(".")[2]: value for name, value in w.items() if name.startswith(f"layers.{number}.")}
            h = F.rms_norm(x, (c.width,), of["attention_norm"], EPS)
            q, k, v = ((h @ of[n].T).unflatten(-1, (-1, c.head_dim)).transpose(1, 2) for n in ("q", "k", "v"))
            y = F.scaled_dot_product_attention(self.rope(q), self.rope(k), v, is_causal=True, enable_gqa=True)
            x = x + y.transpose(1, 2).flatten(-2) @ of["o"].T
            linear, gate = (F.rms_norm(x, (c.width,), of["mlp_norm"], EPS) @ of["up"].T).chunk(2, -1)
            x = x + (linear * F.silu(gate)) @ of["down"].T
        logits = F.rms_norm(x, (c.width,), w["norm"], EPS) @ w["embedding"].T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def rope(self, x):
        length = x.shape[-2]
        cos, sin = self.cos[:length], self.sin[:length]
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_losses_of_50_steps(library, accumulate):
    trainer = small.trainer(library, STEPS, accumulate=accumulate)
    schedule, model = trainer.schedule, Model(trainer.p)
    matrices = [value for value in model.values.values() if value.dim() == 2]
    gains = [value for value in model.values.values() if value.dim() == 1]
    groups = [{"params": matrices, "weight_decay": schedule.weight_decay}, {"params": gains, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=schedule.betas)
    expected = []
    for step in range(STEPS):
        tokens, targets = (torch.tensor(x).view(accumulate * schedule.batch, -1) for x in trainer.texts.host(step))
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate_of(step)
        optimizer.zero_grad()
        loss = model.loss(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(matrices + gains, schedule.max_norm)
        optimizer.step()
        expected.append(loss.item())
    found = small.run(trainer, STEPS)
    assert expected[-1] < 0.7 * expected[0]
    np.testing.assert_allclose(found, expected, atol=1e-4)

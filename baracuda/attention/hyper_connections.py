# SPDX-License-Identifier: Apache-2.0
"""Manifold-constrained hyper connections with static weights (Xie et al. 2025).

With g = sum of sigmoid(h_pre[i]) x[i] and r = g rmsnorm_weight / sqrt(mean of g^2 + eps), out[i] = sum of M[i, j] x[j]
+ 2 sigmoid(h_post[i]) r, where M is exp(h_res) after sinkhorn_iters divisions of rows, then columns, by their sums.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.kinds import AttentionKind, OpCategory
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class HyperConnectionDescriptor(Descriptor):
    """Hyper-connections of at most 31 streams; eps is in (0, 1)."""

    batch: int = descriptor.extent()
    hidden_dim: int = descriptor.extent()
    n_streams: int = descriptor.extent()
    sinkhorn_iters: int = descriptor.extent(default=20)
    eps: float = descriptor.real(default=1e-5)


class HyperConnectionPlan(Plan):
    """x, out: (batch, n_streams, hidden_dim); rmsnorm_weight: (hidden_dim,), bf16 or f32; h_pre, h_post, h_res: f32."""

    __slots__ = ()
    op = "hyper_connection_{T}_bf16"
    others: ClassVar = ("hyper_connection_{T}_f32",)
    category = OpCategory.ATTENTION
    kind = AttentionKind.HYPER_CONNECTION
    names: ClassVar = {"gamma": "rmsnorm_weight"}

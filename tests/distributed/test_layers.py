# SPDX-License-Identifier: Apache-2.0
"""Layers divided among ranks of the CPU, on NumPy arrays and on TensorRefs."""

import numpy as np
import pytest

import baracuda as bk
from distributed import layers, ranks

UPLOADS = {"numpy": np.ascontiguousarray, "views": bk.upload}
pytestmark = pytest.mark.needs_ops(
    "attention_f32", "gemm_dense_f32", "moe_sort_i32", "reduce_logsumexp_f32", "binary_add_f32", "embedding_i64idx_f32",
    "merge_attention_states_f32", "moe_route_f32",
)  # fmt: skip


def on(comm, name, kind, *arguments):
    getattr(layers, name)(comm, UPLOADS[kind], *arguments)


@pytest.mark.parametrize(("size", "kind"), [(2, "numpy"), (2, "views"), (3, "views"), (5, "numpy")])
@pytest.mark.parametrize(
    "name", ["linear_layers", "sequence_parallel_layers", "vocabulary_layers", "head_parallel_attention"]
)
def test_layers(size, name, kind):
    ranks.run(size, on, name, kind)


@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("size", "kind"), [(2, "views"), (3, "numpy"), (4, "numpy")])
def test_ring_attention(size, is_causal, layout, kind):
    ranks.run(size, on, "ring_attention", kind, is_causal, layout)


@pytest.mark.parametrize("activation", ["swiglu", "glu", "relu"])
@pytest.mark.parametrize(("size", "kind", "skew"), [(2, "numpy", 0), (3, "views", 5), (5, "numpy", 5)])
def test_experts(size, activation, kind, skew):
    ranks.run(size, on, "expert_parallel_layer", kind, activation, skew)


def reference_ring(comm):
    """RingAttentionPlan of the reference on our communicator."""
    size, rank = comm.size, comm.rank
    shape = (2, 3, 4 * size, 8)
    q, k, v = (layers.normal(*shape, seed=seed) for seed in range(3))
    want, _ = bk.fused_attention_forward(q, k, v, is_causal=True)
    at = slice(4 * rank, 4 * rank + 4)
    described = bk.RingAttentionDescriptor(2, 3, 4, 4, 8, 8**-0.5, True, element=bk.f32)
    plan = bk.RingAttentionPlan.select(None, described)
    kv = bk.upload(np.stack([k[:, :, at], v[:, :, at]]))
    y, other = bk.empty((2, 3, 4, 8)), bk.empty(kv.shape)
    args = bk.RingAttentionArgs(bk.upload(np.ascontiguousarray(q[:, :, at])), kv, y, other)
    plan.run(None, bk.empty(plan.workspace_size, bk.u8), comm, args)
    layers.near(y, want[:, :, at])


def test_the_plan_of_ring_attention():
    ranks.run(3, reference_ring)

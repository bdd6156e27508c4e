# SPDX-License-Identifier: Apache-2.0
"""The reference's plans, buckets of gradients, and scales of 8-bit floats over several ranks."""

import numpy as np
import pytest

import baracuda as bk
from baracuda.distributed import plans
from baracuda.distributed.buckets import GradientBuckets
from distributed import layers, ranks

pytestmark = pytest.mark.needs_ops("gemm_dense_f32", "cast_f32_f16", "optim_adam_f32", "fill_f32")


def linear(comm):
    size, batch = comm.size, 3
    x, w, dy = layers.normal(batch, 2 * size), layers.normal(4 * size, 2 * size), layers.normal(batch, 4 * size)
    context = plans.TensorParallelContext(comm, 2 * size, 4 * size)
    column, row = plans.ColumnParallelLinearPlan(context, batch), plans.RowParallelLinearPlan(context, batch)
    own = layers.share(w, comm)
    y, full = np.empty((batch, 4), np.float32), np.empty((batch, 4 * size), np.float32)
    column.forward(None, x, own, None, y, full)
    layers.near(full, x @ w.T)
    layers.near(y, layers.share(x @ w.T, comm, 1))
    partial, dx, dw = np.empty_like(x), np.empty_like(x), np.empty_like(own)
    column.backward(None, x, own, layers.share(dy, comm, 1), partial, dx, dw)
    layers.near(dx, dy @ w)
    layers.near(dw, layers.share(dy.T @ x, comm))
    part, mine = layers.share(w, comm, 1), layers.share(x, comm, 1)
    y_partial, whole = np.empty((batch, 4 * size), np.float32), np.empty((batch, 4 * size), np.float32)
    row.forward(None, mine, part, None, y_partial, whole)
    layers.near(whole, x @ w.T)
    dx_local, dw_local = np.empty_like(mine), np.empty_like(part)
    row.backward(None, mine, part, dy, dx_local, dw_local)
    layers.near(dx_local, layers.share(dy @ w, comm, 1))
    layers.near(dw_local, layers.share(dy.T @ x, comm, 1))


def adam(comm, count):
    """Three steps; the same as one rank's on the summed gradients."""
    config = bk.optim.AdamConfig(lr=0.1)
    together, alone = plans.DistributedAdamStepPlan(config, comm), bk.optim.AdamStepPlan(config)
    params = bk.upload(layers.normal(count))
    own = bk.upload(layers.normal(count))
    _, length = plans.shard_range(count, comm.rank, comm.size)
    states, whole = [bk.zeros(length) for _ in "mv"], [bk.zeros(count) for _ in "mv"]
    for step in range(1, 4):
        each = [layers.normal(count, seed=10 * step + rank) for rank in range(comm.size)]
        together.step(None, params, bk.upload(each[comm.rank]), *states, step)
        total = each[0].copy()
        for other in each[1:]:
            total += other
        lists = [bk.optim.TensorList(bk.f32, [x]) for x in (own, bk.upload(total), *whole)]
        alone.step_with_f32_state(None, *lists, step)
    np.testing.assert_array_equal(bk.download(params), bk.download(own))


def buckets(comm):
    shapes = [(3, 5), (200,), (), (7, 1)]
    kinds = [np.float32, np.float16, np.float32, np.float16]
    each = [
        [layers.normal(*shape, seed=9 * k + rank).astype(kind) for k, (shape, kind) in enumerate(zip(shapes, kinds))]
        for rank in range(comm.size)
    ]
    for bucket_bytes in (1, 300, 1 << 20):
        mine = [x.copy() for x in each[comm.rank]]
        made = GradientBuckets(comm, mine, bucket_bytes=bucket_bytes)
        made.reduce(mine)
        for k, found in enumerate(mine):
            layers.near(found, np.mean([x[k].astype(np.float64) for x in each], axis=0), rtol=2e-3, atol=1e-3)
    assert len(made.members) == 2  # one a dtype
    with pytest.raises(bk.InvalidProblemError, match="differ in number"):
        made.reduce(mine[:-1])


def scales(comm):
    """All ranks have the scale of the largest magnitude of any."""
    recipe = bk.fp8.Fp8Recipe("e4m3", 2, comm=comm)
    recipe.cast(bk.upload(np.full(10, 2.0**comm.rank, np.float32)))
    recipe.update_after_pass()
    return float(bk.download(recipe.scale)[0])


def test_linear_plans():
    ranks.run(2, linear)
    ranks.run(3, linear)


@pytest.mark.parametrize("count", [1, 2, 1003])
def test_adam(count):
    ranks.run(3, adam, count)


def test_buckets():
    ranks.run(2, buckets)


def test_scales_of_8_bit_floats():
    assert ranks.run(3, scales) == [448 / 4] * 3


def test_shards():
    assert [plans.shard_range(10, rank, 4) for rank in range(4)] == [(0, 3), (3, 3), (6, 2), (8, 2)]
    with bk.distributed.init(rank=0, size=1) as comm:
        with pytest.raises(bk.InvalidProblemError, match="in_features is 0"):
            plans.TensorParallelContext(comm, 0, 4)
        context = plans.TensorParallelContext(comm, 4, 4)
        plan = plans.ColumnParallelLinearPlan(context, 2)
        with pytest.raises(bk.BufferTooSmallError, match="y_full has 7 elements, must have 8"):
            plan.forward(
                None, *[np.zeros(n, np.float32) for n in (8, 16)], None, *[np.zeros(n, np.float32) for n in (8, 7)]
            )

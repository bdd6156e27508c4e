# SPDX-License-Identifier: Apache-2.0
"""Layers of several ranks against one rank's functions, on arrays that `up` makes; tools/check_distributed.py runs them
on GPUs as well.
"""

import numpy as np

import baracuda as bk
from baracuda.distributed import experts as moe
from baracuda.distributed import heads, linear, ring, vocabulary

RTOL, ATOL = 1e-3, 1e-4


def near(found, want, **options):
    found = bk.download(found) if isinstance(found, bk.TensorRef) else np.asarray(found)
    np.testing.assert_allclose(found, want, **{"rtol": RTOL, "atol": ATOL, **options})


def share(x, comm, axis=0):
    """This rank's part of an axis, contiguous."""
    return np.ascontiguousarray(np.split(x, comm.size, axis)[comm.rank])


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def linear_layers(comm, up, chunks=1):
    """Column-parallel, then row-parallel, with and without sequence parallelism; gradients of all."""
    n = comm.size
    x, w, b, dy = normal(2, 3 * n, 8), normal(4 * n, 8), normal(4 * n), normal(2, 3 * n, 4 * n)
    y = x @ w.T + b
    own = [up(share(each, comm)) for each in (w, b)]
    near(linear.column_parallel_linear(comm, up(x), *own), np.split(y, n, -1)[comm.rank])
    near(linear.column_parallel_linear(comm, up(x), *own, gather=True), y)
    dx, dw, db = linear.column_parallel_linear_backward(
        comm, up(dy), up(x), own[0], has_bias=True, gathered=True, chunks=chunks
    )
    near(dx, dy @ w)
    near(dw, share(np.einsum("bto,bti->oi", dy, x), comm))
    near(db, share(dy.sum((0, 1)), comm))
    v, bias, dz = normal(5, 4 * n, seed=1), normal(5), normal(2, 3 * n, 5)
    h, part = up(share(y, comm, 2)), up(share(v, comm, 1))
    near(linear.row_parallel_linear(comm, h, part, up(bias), chunks=chunks), y @ v.T + bias)
    dh, dv, dbias = linear.row_parallel_linear_backward(comm, up(dz), h, part, has_bias=True)
    near(dh, share(dz @ v, comm, 2))
    near(dv, share(np.einsum("bto,bti->oi", dz, y), comm, 1))
    near(dbias, dz.sum((0, 1)))


def sequence_parallel_layers(comm, up):
    """The rows are divided among the ranks outside of the pair; a norm works on a rank's rows."""
    n = comm.size
    x, w, v, dz = normal(4 * n, 8), normal(2 * n, 8), normal(5, 2 * n), normal(4 * n, 5)
    rows, own, part = up(share(x, comm)), up(share(w, comm)), up(share(v, comm, 1))
    y = linear.column_parallel_linear(comm, rows, own, sequence=True)
    near(y, (x @ w.T)[:, 2 * comm.rank : 2 * comm.rank + 2])
    z = linear.row_parallel_linear(comm, y, part, sequence=True)
    near(z, share(x @ w.T @ v.T, comm))
    dy, dv = linear.row_parallel_linear_backward(comm, up(share(dz, comm)), y, part, sequence=True)
    near(dv, share(dz.T @ (x @ w.T), comm, 1))
    dx, dw = linear.column_parallel_linear_backward(comm, dy, rows, own, sequence=True)
    near(dx, share(dz @ v @ w, comm))
    near(dw, share((dz @ v).T @ x, comm))


def vocabulary_layers(comm, up):
    n = comm.size
    weight, tokens, dy = normal(6 * n, 8), np.arange(17) * 5 % (6 * n), normal(17, 8)
    own = up(share(weight, comm))
    near(vocabulary.vocabulary_parallel_embedding(comm, up(tokens), own), weight[tokens])
    want = np.zeros_like(weight)
    np.add.at(want, tokens, dy)
    near(vocabulary.vocabulary_parallel_embedding_backward(comm, up(dy), up(tokens), 6), share(want, comm))
    x, targets = normal(17, 8, seed=3), tokens.copy()
    targets[[3, 9]] = -100
    logits = (x @ weight.T).astype(np.float64)
    lse = np.log(np.exp(logits).sum(1))
    is_counted = targets >= 0
    losses = np.where(is_counted, lse - logits[np.arange(17), np.maximum(targets, 0)], 0)
    for reduction, divisor in (("mean", is_counted.sum()), ("sum", 1)):
        found, dx, dw = vocabulary.vocabulary_parallel_cross_entropy(
            comm, up(x), own, up(targets), reduction=reduction, chunk=5, needs_gradient=True, scale=0.5
        )
        near(found, losses.sum() / divisor)
        p = np.exp(logits - lse[:, None])
        p[np.arange(17)[is_counted], targets[is_counted]] -= 1
        p *= 0.5 * is_counted[:, None] / divisor
        near(dx, p @ weight)
        near(dw, share(p.T @ x, comm))
    each = vocabulary.vocabulary_parallel_cross_entropy(comm, up(x), own, up(targets), reduction="none")
    near(each, losses)


def ring_attention(comm, up, is_causal, layout):
    """Dense texts, and the same as packed ones; groups of two query heads share keys."""
    size, batch = comm.size, 2
    length = 4 * size
    shapes = [(batch, length, heads_, 8) for heads_ in (4, 2, 2, 4)]
    q, k, v, dy = (normal(*shape, seed=seed) for seed, shape in enumerate(shapes))
    y, lse = bk.fused_attention_forward(q, k, v, tokens_first=True, is_causal=is_causal)
    want = bk.fused_attention_backward(
        dy, q, k, v, y, lse, tokens_first=True, is_causal=is_causal, needs=(True, True, True, False, False)
    )
    at = ring.positions_of(layout, length, comm.rank, size)
    own = length // size
    for cu in (None, [0, own, 2 * own]):
        shape = (lambda x: x) if cu is None else (lambda x: x.reshape(-1, *x.shape[2:]))
        mine = [up(np.ascontiguousarray(shape(x[:, at]))) for x in (q, k, v, dy)]
        options = {"is_causal": is_causal, "layout": layout, "cu_seqlens": cu}
        found, sums = ring.ring_attention(comm, *mine[:3], **options)
        near(found, shape(y[:, at]))
        near(sums, lse[:, :, at] if cu is None else np.moveaxis(lse[:, :, at], 1, 0).reshape(4, -1))
        gradients = ring.ring_attention_backward(comm, mine[3], *mine[:3], found, sums, **options)
        for one, other in zip(gradients, want):
            near(one, shape(other[:, at]))


def head_parallel_attention(comm, up):
    size = comm.size
    q, k, v, dy = (normal(2, 3 * size, heads_ * size, 8, seed=seed) for seed, heads_ in enumerate((2, 1, 1, 2)))
    y, lse = bk.fused_attention_forward(q, k, v, tokens_first=True, is_causal=True)
    want = bk.fused_attention_backward(
        dy, q, k, v, y, lse, tokens_first=True, is_causal=True, needs=(True, True, True, False, False)
    )
    mine = [up(share(x, comm, 1)) for x in (q, k, v, dy)]
    found, saved = heads.head_parallel_attention(comm, *mine[:3], is_causal=True)
    near(found, share(y, comm, 1))
    for one, other in zip(heads.head_parallel_attention_backward(comm, mine[3], saved, is_causal=True), want):
        near(one, share(other, comm, 1))


def expert_parallel_layer(comm, up, activation, skew):
    """The layer agrees with that of one rank; `skew` sends most tokens to the first expert, and none to the last."""
    size, tokens, hidden, inner = comm.size, 7, 6, 5
    experts, halves = 2 * size, 1 if activation == "relu" else 2
    x, logits, dout = (
        normal(size, tokens, hidden),
        normal(size, tokens, experts, seed=1),
        normal(size, tokens, 4, seed=2),
    )
    logits[:, :, 0] += skew
    logits[:, :, -1] -= 20 * (skew > 0)
    gate_up, down = normal(experts, halves * inner, hidden, seed=3), normal(experts, 4, inner, seed=4)
    own = [up(share(w, comm)) for w in (gate_up, down)]
    mine = [up(np.ascontiguousarray(a[comm.rank])) for a in (x, logits, dout)]
    out, saved = moe.expert_parallel_moe(comm, *mine[:2], *own, 2, activation=activation)
    found = moe.expert_parallel_moe_backward(mine[2], mine[1], *own, saved, activation=activation)
    flat = [a.reshape(-1, a.shape[-1]) for a in (x, logits, dout)]
    near(out, bk.moe(*flat[:2], gate_up, down, 2, activation=activation).reshape(size, tokens, 4)[comm.rank])
    with bk.distributed.init(rank=0, size=1, library=bk.load(backend="cpu")) as alone:
        _, kept = moe.expert_parallel_moe(alone, *flat[:2], gate_up, down, 2, activation=activation)
        want = moe.expert_parallel_moe_backward(flat[2], flat[1], gate_up, down, kept, activation=activation)
    near(found[0], want[0].reshape(size, tokens, hidden)[comm.rank])
    near(found[1], want[1].reshape(size, tokens, experts)[comm.rank])
    near(found[2], share(want[2], comm))
    near(found[3], share(want[3], comm))

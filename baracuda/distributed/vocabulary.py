# SPDX-License-Identifier: Apache-2.0
"""Embedding and cross entropy whose vocabulary is divided among the ranks: rank r has the tokens
[r V / P, (r + 1) V / P).

    embedding      y = sum over ranks of (weight[token - start], or 0 for a token of another rank)
    cross entropy  lse = log of the sum over ranks of exp(lse of the rank);  loss = lse - logit of the target

The logits of a chunk of rows exist at a time, as in fused_linear_cross_entropy, and only numbers for each row are
exchanged.
"""

from __future__ import annotations

from typing import Any

from baracuda import functions
from baracuda._arrays.shaping import empty_like, reshaped
from baracuda.distributed.communicator import Communicator
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError
from baracuda.tensor import tensor


def vocabulary_parallel_embedding(comm: Communicator, tokens: Any, weight: Any, *, out: Any = None) -> Any:
    """Rows of the whole embedding, on all ranks; weight is this rank's (V / P, width)."""
    y = functions.embedding(_own_tokens(comm, tokens, weight), weight, out=out)
    return comm.all_reduce(y, out=y)


def vocabulary_parallel_embedding_backward(
    comm: Communicator, dy: Any, tokens: Any, rows: int, *, out: Any = None
) -> Any:
    """The gradient of this rank's `rows` rows of the weight; with out it is added there, as embedding_backward does."""
    own = functions.sub(tokens, comm.rank * rows)
    return functions.embedding_backward(dy, own, rows, out=out)


def vocabulary_parallel_cross_entropy(
    comm: Communicator, features: Any, weight: Any, targets: Any, *, reduction: str = "mean", ignore_index: int = -100,
    chunk: int = 4096, needs_gradient: bool = False, scale: float = 1.0,
) -> Any:  # fmt: skip
    """The cross entropy of the next token: logits are features weight', with features (n, width) the same on all ranks,
    weight this rank's (V / P, width), and targets (n,) of the whole vocabulary.

    reduction is "mean" over the targets that are not ignore_index, "sum" or "none". With needs_gradient the result is
    (loss, dfeatures, dweight) for an incoming gradient `scale` of a mean or sum: dfeatures is the sum over all ranks,
    dweight that of this rank's rows. Sums are of f32 (f64 for f64).
    """
    if reduction not in ("mean", "sum", "none") or (needs_gradient and reduction == "none"):
        raise InvalidProblemError(f"reduction is {reduction!r}, must be mean or sum, or none without gradients")
    n, dtype = features.shape[0], tensor(features, "features").dtype
    wide = ElementKind.F64 if dtype is ElementKind.F64 else ElementKind.F32
    losses = empty_like(features, (n,), wide)
    is_counted = functions.cast(functions.ne(targets, ignore_index), wide)
    count = functions.maximum(functions.sum(is_counted), 1.0) if reduction == "mean" else None
    dfeatures = empty_like(features, tuple(features.shape), dtype) if needs_gradient else None
    dweight = None
    for start in range(0, n, chunk):
        rows = slice(start, min(start + chunk, n))
        logits = functions.cast(functions.linear(features[rows], weight), wide)
        own = _own_tokens(comm, targets[rows], weight)
        lse, target_logit = _statistics(comm, logits, own)
        loss = functions.sub(lse, target_logit)
        functions.mul(loss, is_counted[rows], out=losses[rows])
        if not needs_gradient:
            continue
        dlogits = functions.exp(functions.sub(logits, _column(lse), out=logits), out=logits)
        minus_ones = functions.neg(is_counted[rows])
        functions.add(
            dlogits, functions.scatter_add(_column(own), _column(minus_ones), logits.shape[1], axis=-1), out=dlogits
        )
        factor = functions.mul(is_counted[rows], scale)
        if count is not None:
            factor = functions.div(factor, count)
        narrow = functions.cast(functions.mul(dlogits, _column(factor), out=dlogits), dtype)
        functions.matmul(narrow, weight, out=dfeatures[rows])  # type: ignore[index]
        made = functions.matmul(narrow.T, features[rows])
        dweight = made if dweight is None else functions.add(dweight, made, out=dweight)
    loss = losses
    if reduction != "none":
        loss = functions.sum(losses)
        loss = functions.div(loss, count) if count is not None else loss
    if not needs_gradient:
        return loss
    comm.all_reduce(dfeatures, out=dfeatures)
    return loss, dfeatures, dweight


def _statistics(comm: Communicator, logits: Any, own: Any) -> tuple[Any, Any]:
    """The logarithm of the sum of exponentials over the whole vocabulary, and the logit of the target, of each row."""
    rows = logits.shape[0]
    both = empty_like(logits, (2, rows), tensor(logits, "logits").dtype)
    functions.logsumexp(logits, axis=-1, out=both[0])
    found = functions.gather(logits, _column(own), axis=-1)  # 0 for a target of another rank
    functions.cast(reshaped(found, (rows,)), tensor(both, "both").dtype, out=both[1])
    parts = reshaped(comm.all_gather(both, counts=[2] * comm.size), (comm.size, 2, rows))
    if comm.size == 1:
        return both[0], both[1]
    return functions.logsumexp(parts[:, 0], axis=0), functions.sum(parts[:, 1], axis=0)


def _own_tokens(comm: Communicator, tokens: Any, weight: Any) -> Any:
    """Tokens as rows of this rank's weight; those of others are outside of it."""
    return functions.sub(tokens, comm.rank * weight.shape[0])


def _column(x: Any) -> Any:
    return reshaped(x, (x.shape[0], 1))

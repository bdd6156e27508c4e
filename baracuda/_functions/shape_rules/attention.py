# SPDX-License-Identifier: Apache-2.0
"""Shape rules of attention: q, k and v of one sequence length each, or rows of sequences in one tensor."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_flag, as_integer, as_real, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, as_strided, check_shape, dense_as, if_contiguous
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.tensor import TensorRef


def _scale(numbers: Mapping[str, Any], features: Any) -> float:
    """1 / sqrt(d) by default."""
    given = numbers["scale"]
    if given is not None:
        return as_real("scale", given)
    return 1 / math.sqrt(int(features)) if features else 1.0


def _check_groups(heads: Any, kv_heads: Any, q: Shape, k: Shape) -> None:
    if kv_heads == heads:
        return
    if not kv_heads or heads % kv_heads:
        raise InvalidProblemError(
            f"q has shape {q} and k {k}: {heads} query heads are no multiple of {kv_heads} key-value heads"
        )


def _fills_if_empty(spec: Spec, results: Mapping[str, Shape], y: Shape) -> dict[str, float | str]:
    """Values that C leaves out for a y without elements: lse of values without features is NaN, gradients are 0."""
    if 0 not in y:
        return {}
    return {o.pointer: math.nan if o.pointer == "lse" else 0.0 for o in spec.outputs if 0 not in results[o.pointer]}


def _as_heads(view: TensorRef, *, rank: int, tokens_first: bool) -> TensorRef | None:
    """The view as (batch, heads, rows, d); None if the elements of a row are not adjacent."""
    shape, strides = view.shape, view.strides
    if strides[-1] != 1 and shape[-1] > 1:
        return None
    shape, strides = (1,) * (4 - rank) + shape, (0,) * (4 - rank) + strides[:-1] + (1,)
    if tokens_first:
        shape, strides = (shape[0], shape[2], shape[1], shape[3]), (strides[0], strides[2], strides[1], strides[3])
    return as_strided(view, shape, strides)


def dense(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """q is (batch, heads, rows, d), or without the batch; tokens_first: (batch, rows, heads, d)."""
    q, k, v = (shapes[name] for name in "qkv")
    rank, tokens_first = len(q), bool(as_flag("tokens_first", numbers["tokens_first"]))
    if rank not in (3, 4) or len(k) != rank or len(v) != rank:
        raise InvalidProblemError(f"q has shape {q}, k {k} and v {v}: all must have three axes, or all four")
    whole = [(1,) * (4 - rank) + shape for shape in (q, k, v)]
    rows, heads_at = (1, 2) if tokens_first else (2, 1)
    (batch, heads, q_len, d_k) = (whole[0][axis] for axis in (0, heads_at, rows, 3))
    (kv_heads, k_len, d_v) = whole[1][heads_at], whole[1][rows], whole[2][3]
    if whole[1][0] != batch or whole[1][3] != d_k or whole[2][:3] != whole[1][:3]:
        raise InvalidProblemError(
            f"q has shape {q}, k {k} and v {v}: batches, rows of k and v or features of q and k differ"
        )
    _check_groups(heads, kv_heads, q, k)
    if exceeds(INT32_MAX, batch, heads, q_len, k_len, d_k, d_v):
        raise UnsupportedError(f"q has shape {q}: extents of more than {INT32_MAX} are not supported")
    values: dict[str, Any] = {
        "batch": batch, "heads": heads, "kv_heads": kv_heads, "q_len": q_len, "k_len": k_len, "d_k": d_k, "d_v": d_v,
        "scale": _scale(numbers, d_k),
    }  # fmt: skip
    extents: dict[str, Shape] = {
        "q": (batch, heads, q_len, d_k), "k": (batch, kv_heads, k_len, d_k), "v": (batch, kv_heads, k_len, d_v),
        "y": (batch, heads, q_len, d_v), "lse": (batch, heads, q_len), "slopes": (heads,), "sinks": (heads,),
        "seed": (1,),
    }  # fmt: skip
    extents |= dict.fromkeys(("bias", "mask", "dbias"), (batch, heads, q_len, k_len))
    extents |= {"dy": extents["y"], "dq": extents["q"], "dk": extents["k"], "dv": extents["v"], "dsinks": (heads,)}
    own_y, own_lse = (*q[:-1], d_v), (*q[: rank - 3], heads, q_len)
    results: dict[str, Shape] = {
        "y": own_y, "lse": own_lse, "dq": q, "dk": k, "dv": v, "dbias": extents["dbias"], "dsinks": (heads,)
    }  # fmt: skip
    for name, expected in {"y": own_y, "dy": own_y, "lse": own_lse}.items():
        if name in shapes:
            check_shape(name, shapes[name], expected)
    as_heads = functools.partial(_as_heads, rank=rank, tokens_first=tokens_first)
    op_views: dict[str, Any] = dict.fromkeys(("q", "k", "v", "y", "dy", "dq", "dk", "dv"), as_heads)
    op_views["lse"] = functools.partial(dense_as, extents["lse"])
    return CallMeta(values, extents, results, op_views=op_views, fills=_fills_if_empty(spec, results, own_y))


def packed(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """q is (rows of all sequences, heads, d), k and v likewise; offsets have the begin of each sequence and the end."""
    q, k, v, offsets = (shapes[name] for name in ("q", "k", "v", "cu_seqlens_q"))
    if len(q) != 3 or len(k) != 3 or len(v) != 3 or k[2] != q[2] or v[:2] != k[:2]:
        raise InvalidProblemError(f"q has shape {q}, k {k} and v {v}, expected (rows, heads, d) of each")
    if len(offsets) != 1 or not offsets[0]:
        raise InvalidProblemError(f"cu_seqlens_q has shape {offsets}, expected (sequences + 1,)")
    check_shape("cu_seqlens_k", shapes["cu_seqlens_k"], offsets)
    heads, kv_heads, d_v = q[1], k[1], v[2]
    _check_groups(heads, kv_heads, q, k)
    if exceeds(INT32_MAX, *q, *k, d_v, *offsets):
        raise UnsupportedError(f"q has shape {q}: extents of more than {INT32_MAX} are not supported")
    longest = {name: as_integer(name, numbers[name], 0, INT32_MAX) for name in ("max_seqlen_q", "max_seqlen_k")}
    values: dict[str, Any] = {
        "batch": offsets[0] - 1, "heads": heads, "kv_heads": kv_heads, "total_q": q[0], "total_k": k[0], "d_k": q[2],
        "d_v": d_v, "scale": _scale(numbers, q[2]), "max_q_len": longest["max_seqlen_q"],
        "max_k_len": longest["max_seqlen_k"],
    }  # fmt: skip
    y: Shape = (q[0], heads, d_v)
    lse: Shape = (heads, q[0])
    extents: dict[str, Shape] = {
        "q": q, "k": k, "v": v, "cu_seqlens_q": offsets, "cu_seqlens_k": offsets, "slopes": (heads,),
        "sinks": (heads,), "seed": (1,), "y": y, "lse": lse, "dy": y, "dq": q, "dk": k, "dv": v, "dsinks": (heads,),
    }  # fmt: skip
    for name in ("y", "dy", "lse"):
        if name in shapes:
            check_shape(name, shapes[name], extents[name])
    results = {output.pointer: extents[output.pointer] for output in spec.outputs}
    return CallMeta(
        values, extents, results, op_views=dict.fromkeys(extents, if_contiguous),
        fills=_fills_if_empty(spec, results, y),
    )  # fmt: skip

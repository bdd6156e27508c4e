# SPDX-License-Identifier: Apache-2.0
"""Attention as PyTorch and FlashAttention name it: scaled_dot_product_attention, flash_attn_varlen, their gradients,
and the offsets of packed documents.

They take the arrays that `baracuda.functions` takes. Results belong to the framework of the first array and are on its
device and stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baracuda import functions
from baracuda._arrays.frameworks import as_array, framework_of, result_framework
from baracuda._functions.attention_calls import NAMES, AttentionCalls, Window
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, naming
from baracuda.tensor import tensor

__all__ = list(NAMES)


class _Arrays:
    """Arrays of any framework, through `baracuda.functions`."""

    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        return getattr(functions, name)(*arrays, **numbers)

    def is_keep_mask(self, mask: Any) -> bool:
        return tensor(mask, "mask").dtype in (ElementKind.BOOL, ElementKind.U8)

    def cast_like(self, mask: Any, like: Any) -> Any:
        dtype = tensor(like, "q").dtype
        return mask if tensor(mask, "mask").dtype is dtype else functions.cast(mask, dtype)

    def as_i32(self, x: Any) -> Any:
        return functions.cast(x, ElementKind.I32)

    def reshaped(self, x: Any, shape: Sequence[Any]) -> Any:
        return result_framework(x).reshaped(x, tuple(shape))

    def permuted(self, x: Any, order: Sequence[int]) -> Any:
        return result_framework(x).permuted(x, tuple(order))

    def broadcast(self, bias: Any, shape: Sequence[Any]) -> Any:
        return bias

    def seed(self, seed: Any, like: Any) -> Any:
        if seed is None:
            raise InvalidProblemError("seed is None, but is needed for dropout_p")
        return seed


_CALLS = AttentionCalls(_Arrays())


def _array(array: Any, name: str) -> Any:
    return array if array is None or framework_of(array) is not None else as_array(array, name)


@naming("scaled_dot_product_attention")
def scaled_dot_product_attention(
    q: Any, k: Any, v: Any, mask: Any = None, *, is_causal: bool = False, scale: float | None = None,
    window: Window = None, softcap: float = 0.0, enable_gqa: bool = False, dropout_p: float = 0.0, seed: Any = None,
    alibi_slopes: Any = None, sinks: Any = None, aligns_ends: bool = False, layout: str = "bhsd",
    batch_invariant: bool = False, return_lse: bool = False, document_ids: Any = None, max_documents: int | None = None,
) -> Any:  # fmt: skip
    """softmax(scale q k^T + mask) v along the keys, as torch.nn.functional.scaled_dot_product_attention has it.

    q is (batch, heads, queries, d), k and v have the keys' rows; without the batch they have three axes. layout "bshd"
    has the rows before the heads. scale is 1 / sqrt(d) by default. With enable_gqa a head of k serves as many of q as
    divide its number.

    mask broadcasts to (batch, heads, queries, keys): of bool or u8 it says which keys to keep, else it is added. With
    is_causal query i sees keys j <= i, also beside a mask; aligns_ends counts from the ends, so that the last query
    sees the last key. window is (left, right), or a number for both: keys that far from the query are seen, -1 for all.
    Scores are softcap tanh(score / softcap) where softcap is not 0, and alibi_slopes[head] (j - i) is added. sinks are
    scores of one more key each head, of value 0. A query that sees no key gives 0.

    dropout_p drops probabilities by the stream of seed, a number or an array of one i64: each has its own bits,
    whatever the batch and the kernel. With batch_invariant the bits of a query's result depend on that query and the
    keys that it sees alone: not on the batch, on other queries or on padding. It may be slower. return_lse gives
    (y, lse), lse the logarithm of the sum of each row's exponentials, in f32, or f64 for f64.

    document_ids (batch, length), of integers, are those of as many queries as keys: a query sees the keys of its
    document alone, a run of equal ids. With max_documents, a bound on the documents of the whole batch, pairs of
    different documents cost nothing, and rows of further documents are 0; without it, and beside a mask, the ids become
    a mask, a byte a pair.

    InvalidProblemError for shapes that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.scaled_dot_product_attention(
        _array(q, "q"), _array(k, "k"), _array(v, "v"), _array(mask, "mask"), is_causal=is_causal, scale=scale,
        window=window, softcap=softcap, enable_gqa=enable_gqa, dropout_p=dropout_p, seed=seed,
        alibi_slopes=alibi_slopes, sinks=sinks, aligns_ends=aligns_ends, layout=layout, batch_invariant=batch_invariant,
        return_lse=return_lse, document_ids=_array(document_ids, "document_ids"), max_documents=max_documents,
    )  # fmt: skip


@naming("scaled_dot_product_attention_backward")
def scaled_dot_product_attention_backward(
    dy: Any, q: Any, k: Any, v: Any, y: Any, lse: Any, mask: Any = None, *, is_causal: bool = False,
    scale: float | None = None, window: Window = None, softcap: float = 0.0, enable_gqa: bool = False,
    dropout_p: float = 0.0, seed: Any = None, alibi_slopes: Any = None, sinks: Any = None, aligns_ends: bool = False,
    layout: str = "bhsd", needs: Sequence[bool] = (True, True, True, False, False), document_ids: Any = None,
    max_documents: int | None = None,
) -> Any:  # fmt: skip
    """Gradients of scaled_dot_product_attention from its y and lse (return_lse) and the same arguments: of q, k, v, an
    additive mask and sinks. needs says which are wanted; the others are None.

    InvalidProblemError for shapes that do not fit.
    """
    return _CALLS.scaled_dot_product_attention_backward(
        _array(dy, "dy"), _array(q, "q"), _array(k, "k"), _array(v, "v"), _array(y, "y"), _array(lse, "lse"),
        _array(mask, "mask"), is_causal=is_causal, scale=scale, window=window, softcap=softcap, enable_gqa=enable_gqa,
        dropout_p=dropout_p, seed=seed, alibi_slopes=alibi_slopes, sinks=sinks, aligns_ends=aligns_ends, layout=layout,
        needs=needs, document_ids=_array(document_ids, "document_ids"), max_documents=max_documents,
    )  # fmt: skip


@naming("flash_attn_varlen")
def flash_attn_varlen(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int, max_seqlen_k: int, *,
    dropout_p: float = 0.0, seed: Any = None, softmax_scale: float | None = None, causal: bool = False,
    window_size: Window = None, softcap: float = 0.0, alibi_slopes: Any = None, sinks: Any = None,
    batch_invariant: bool = False, return_softmax_lse: bool = False,
) -> Any:  # fmt: skip
    """Attention of sequences in one tensor, as flash_attn_varlen_func of FlashAttention has it.

    q is (rows of all sequences, heads, d), k and v likewise, with a number of heads that divides that of q. Sequence b
    has rows cu_seqlens_q[b] to cu_seqlens_q[b + 1] of q and cu_seqlens_k[b] to cu_seqlens_k[b + 1] of k and v, any
    number from 0 on; offsets are of i32. The causal mask and windows align the last query with the last key. Other
    arguments are those of scaled_dot_product_attention; alibi_slopes[head] (j - i) is added on both sides of a query.
    return_softmax_lse gives (y, lse), lse (heads, rows) in f32.

    InvalidProblemError for shapes that do not fit.
    """
    return _CALLS.flash_attn_varlen(
        _array(q, "q"), _array(k, "k"), _array(v, "v"), _array(cu_seqlens_q, "cu_seqlens_q"),
        _array(cu_seqlens_k, "cu_seqlens_k"), max_seqlen_q, max_seqlen_k, dropout_p=dropout_p, seed=seed,
        softmax_scale=softmax_scale, causal=causal, window_size=window_size, softcap=softcap, alibi_slopes=alibi_slopes,
        sinks=sinks, batch_invariant=batch_invariant, return_softmax_lse=return_softmax_lse,
    )  # fmt: skip


@naming("flash_attn_varlen_backward")
def flash_attn_varlen_backward(
    dout: Any, q: Any, k: Any, v: Any, out: Any, softmax_lse: Any, cu_seqlens_q: Any, cu_seqlens_k: Any,
    max_seqlen_q: int, max_seqlen_k: int, *, dropout_p: float = 0.0, seed: Any = None,
    softmax_scale: float | None = None, causal: bool = False, window_size: Window = None, softcap: float = 0.0,
    alibi_slopes: Any = None,
) -> Any:  # fmt: skip
    """Gradients of flash_attn_varlen with respect to q, k and v, from its result, lse and the same arguments.

    InvalidProblemError for shapes that do not fit.
    """
    return _CALLS.flash_attn_varlen_backward(
        _array(dout, "dout"), _array(q, "q"), _array(k, "k"), _array(v, "v"), _array(out, "out"),
        _array(softmax_lse, "softmax_lse"), _array(cu_seqlens_q, "cu_seqlens_q"), _array(cu_seqlens_k, "cu_seqlens_k"),
        max_seqlen_q, max_seqlen_k, dropout_p=dropout_p, seed=seed, softmax_scale=softmax_scale, causal=causal,
        window_size=window_size, softcap=softcap, alibi_slopes=alibi_slopes,
    )  # fmt: skip


@naming("document_offsets")
def document_offsets(ids: Any, max_documents: int | None = None) -> Any:
    """Offsets at which packed documents begin, and the last one ends, as flash_attn_varlen takes it: i32
    (max_documents + 1,), of rows of all batches. ids is (..., length), of integers; a document is a run of equal ids
    along its last axis.

    Offsets behind the last document are the number of rows, so that sequences there are empty; of more than
    max_documents the first ones have offsets. By default there may be as many documents as rows. Nothing is read on the
    host: under a graph, ids may change.

    InvalidProblemError for ids without an axis.
    """
    return _CALLS.document_offsets(_array(ids, "ids"), max_documents)

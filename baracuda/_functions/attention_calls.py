# SPDX-License-Identifier: Apache-2.0
"""scaled_dot_product_attention and flash_attn_varlen by calls of fused_attention, for arrays of any framework.

`Arrays` has what frameworks do differently: calls of functions, conversions, and seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from baracuda._call.scalars import as_integer
from baracuda._functions import document_calls
from baracuda._functions.document_calls import PackedRows
from baracuda.errors import InvalidProblemError

NAMES = (
    "scaled_dot_product_attention", "scaled_dot_product_attention_backward", "flash_attn_varlen",
    "flash_attn_varlen_backward", "document_offsets",
)  # fmt: skip
# Functions that they call.
CALLED = (
    *(f"fused_attention{of}{form}" for of in ("", "_varlen") for form in ("", "_forward", "_backward")), "sum_to_size",
    *document_calls.CALLED,
)  # fmt: skip
LAYOUTS = ("bhsd", "bshd")
Window = int | Sequence[int] | None


class Arrays(Protocol):
    """Operations that each framework does in its own way."""

    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        """Call a function by its name."""

    def is_keep_mask(self, mask: Any) -> bool:
        """Whether a mask says which keys to keep, of bool or u8, and is not added."""

    def cast_like(self, mask: Any, like: Any) -> Any:
        """The mask in the dtype of another array."""

    def as_i32(self, x: Any) -> Any:
        """Integers or truth values as i32."""

    def reshaped(self, x: Any, shape: Sequence[Any]) -> Any:
        """x in another shape, row-major."""

    def permuted(self, x: Any, order: Sequence[int]) -> Any:
        """x with its axes in another order."""

    def broadcast(self, bias: Any, shape: Sequence[Any]) -> Any:
        """The bias in a shape, where its gradient must be summed to its own."""

    def seed(self, seed: Any, like: Any) -> Any:
        """The seed as an array of one i64, beside another array; None for a new one where there is a generator."""


def window_of(window: Window) -> dict[str, int]:
    """Keys to the left and to the right: a pair, one number for both, or None; -1 is unbounded."""
    if window is None:
        return {"window_left": -1, "window_right": -1}
    both = tuple(window) if isinstance(window, (tuple, list)) else (window, window)
    if len(both) != 2:
        raise InvalidProblemError(f"window is {window!r}, must be (left, right), a number, or None")
    left, right = (-1 if each is None else as_integer("window", each, -1, 2**31 - 1) for each in both)
    return {"window_left": left, "window_right": right}


class AttentionCalls:
    """The functions, for one framework."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def _rules(self, q: Any, k: Any, mask: Any, layout: str, enable_gqa: bool) -> tuple[dict[str, Any], bool]:
        """Optional operands of the mask, and whether tokens precede heads."""
        if layout not in LAYOUTS:
            raise InvalidProblemError(f"layout is {layout!r}, must be one of {', '.join(LAYOUTS)}")
        tokens_first = layout == "bshd"
        heads_at, rows_at = (-2, -3) if tokens_first else (-3, -2)
        if len(q.shape) > 2 and len(k.shape) > 2 and not enable_gqa and q.shape[heads_at] != k.shape[heads_at]:
            raise InvalidProblemError(
                f"q has {q.shape[heads_at]} heads and k {k.shape[heads_at]}: enable_gqa lets heads of q share one of k"
            )
        if mask is None:
            return {}, tokens_first
        if self.arrays.is_keep_mask(mask):
            return {"mask": mask}, tokens_first
        bias = self.arrays.cast_like(mask, q)
        batch = tuple(q.shape[:1]) if len(q.shape) > 3 else ()
        scores = (*batch, q.shape[heads_at], q.shape[rows_at], k.shape[rows_at])
        return {"bias": self.arrays.broadcast(bias, scores)}, tokens_first

    def _seed(self, seed: Any, dropout_p: float, like: Any) -> dict[str, Any]:
        return {"seed": self.arrays.seed(seed, like)} if dropout_p else {}

    def document_offsets(self, ids: Any, max_documents: int | None = None) -> Any:
        return document_calls.offsets_of(self.arrays, ids, max_documents)

    def _of_documents(
        self, given: dict[str, Any], q: Any, k: Any, ids: Any, max_documents: int | None, tokens_first: bool
    ) -> PackedRows | None:
        """The layout of packed rows; None without ids, or if a mask has them: that of `given` hides others
        then.
        """
        if ids is None:
            if max_documents is not None:
                raise InvalidProblemError(f"max_documents is {max_documents}, but there are no document_ids")
            return None
        rows = PackedRows(self.arrays, q, tokens_first)
        keys = k.shape[-3 if tokens_first else -2]
        expected = (*rows.batch, rows.length)
        if tuple(ids.shape) != expected or keys != rows.length:
            raise InvalidProblemError(
                f"document_ids has shape {tuple(ids.shape)}, expected {expected}, with as many keys, not {keys}"
            )
        if max_documents is not None and not given:
            return rows
        same = document_calls.is_same(self.arrays, ids)
        given["mask"] = self.arrays.call("logical_and", same, given["mask"]) if "mask" in given else same
        return None

    def scaled_dot_product_attention(
        self, q: Any, k: Any, v: Any, mask: Any = None, *, is_causal: bool = False, scale: float | None = None,
        window: Window = None, softcap: float = 0.0, enable_gqa: bool = False, dropout_p: float = 0.0, seed: Any = None,
        alibi_slopes: Any = None, sinks: Any = None, aligns_ends: bool = False, layout: str = "bhsd",
        batch_invariant: bool = False, return_lse: bool = False, document_ids: Any = None,
        max_documents: int | None = None,
    ) -> Any:  # fmt: skip
        given, tokens_first = self._rules(q, k, mask, layout, enable_gqa)
        rows = self._of_documents(given, q, k, document_ids, max_documents, tokens_first)
        given |= {"slopes": alibi_slopes, "sinks": sinks} | self._seed(seed, dropout_p, q)
        given |= {
            "scale": scale, "is_causal": is_causal, "aligns_ends": aligns_ends, "batch_invariant": batch_invariant,
            "softcap": softcap, "dropout": dropout_p, **window_of(window),
        }  # fmt: skip
        form = "_forward" if return_lse else ""
        if rows is None:
            return self.arrays.call(f"fused_attention{form}", q, k, v, **given, tokens_first=tokens_first)
        offsets, longest = self.document_offsets(document_ids, max_documents), rows.length
        found = self.arrays.call(
            f"fused_attention_varlen{form}", *map(rows.packed, (q, k, v)), offsets, offsets, longest, longest, **given
        )
        return (rows.unpacked(found[0]), rows.unpacked_sums(found[1])) if return_lse else rows.unpacked(found)

    def scaled_dot_product_attention_backward(
        self, dy: Any, q: Any, k: Any, v: Any, y: Any, lse: Any, mask: Any = None, *, is_causal: bool = False,
        scale: float | None = None, window: Window = None, softcap: float = 0.0, enable_gqa: bool = False,
        dropout_p: float = 0.0, seed: Any = None, alibi_slopes: Any = None, sinks: Any = None,
        aligns_ends: bool = False, layout: str = "bhsd", needs: Sequence[bool] = (True, True, True, False, False),
        document_ids: Any = None, max_documents: int | None = None,
    ) -> Any:  # fmt: skip
        given, tokens_first = self._rules(q, k, mask, layout, enable_gqa)
        rows = self._of_documents(given, q, k, document_ids, max_documents, tokens_first)
        given |= {"slopes": alibi_slopes, "sinks": sinks} | self._seed(seed, dropout_p, q)
        if len(needs) != 5 or (needs[3] and "bias" not in given) or (needs[4] and sinks is None):
            raise InvalidProblemError(
                f"needs is {tuple(needs)!r}, must be five bools, of q, k, v, an additive mask and sinks that are given"
            )
        given |= {
            "scale": scale, "is_causal": is_causal, "aligns_ends": aligns_ends, "softcap": softcap,
            "dropout": dropout_p, **window_of(window),
        }  # fmt: skip
        if rows is not None:
            offsets, longest = self.document_offsets(document_ids, max_documents), rows.length
            *found, dsinks = self.arrays.call(
                "fused_attention_varlen_backward", *map(rows.packed, (dy, q, k, v)), offsets, offsets, rows.packed(y),
                rows.packed_sums(lse), longest, longest, **given, needs=(*needs[:3], needs[4]),
            )  # fmt: skip
            return (*[rows.unpacked(x) if need else None for x, need in zip(found, needs)], None, dsinks)
        results = self.arrays.call(
            "fused_attention_backward", dy, q, k, v, y, lse, **given, tokens_first=tokens_first, needs=tuple(needs)
        )
        if needs[3] and tuple(results[3].shape) != tuple(mask.shape):
            of_mask = self.arrays.call("sum_to_size", results[3], list(mask.shape))
            results = (*results[:3], of_mask, results[4])
        return tuple(results)

    def flash_attn_varlen(
        self, q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int, max_seqlen_k: int, *,
        dropout_p: float = 0.0, seed: Any = None, softmax_scale: float | None = None, causal: bool = False,
        window_size: Window = None, softcap: float = 0.0, alibi_slopes: Any = None, sinks: Any = None,
        batch_invariant: bool = False, return_softmax_lse: bool = False,
    ) -> Any:  # fmt: skip
        given = {"slopes": alibi_slopes, "sinks": sinks} | self._seed(seed, dropout_p, q)
        name = "fused_attention_varlen_forward" if return_softmax_lse else "fused_attention_varlen"
        return self.arrays.call(
            name, q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, **given, scale=softmax_scale,
            is_causal=causal, aligns_ends=True, softcap=softcap, dropout=dropout_p, batch_invariant=batch_invariant,
            **window_of(window_size),
        )  # fmt: skip

    def flash_attn_varlen_backward(
        self, dout: Any, q: Any, k: Any, v: Any, out: Any, softmax_lse: Any, cu_seqlens_q: Any, cu_seqlens_k: Any,
        max_seqlen_q: int, max_seqlen_k: int, *, dropout_p: float = 0.0, seed: Any = None,
        softmax_scale: float | None = None, causal: bool = False, window_size: Window = None, softcap: float = 0.0,
        alibi_slopes: Any = None,
    ) -> Any:  # fmt: skip
        given = {"slopes": alibi_slopes} | self._seed(seed, dropout_p, q)
        results = self.arrays.call(
            "fused_attention_varlen_backward", dout, q, k, v, cu_seqlens_q, cu_seqlens_k, out, softmax_lse,
            max_seqlen_q, max_seqlen_k, **given, scale=softmax_scale, is_causal=causal, aligns_ends=True,
            softcap=softcap, dropout=dropout_p, needs=(True, True, True, False), **window_of(window_size),
        )  # fmt: skip
        return tuple(results[:3])

# SPDX-License-Identifier: Apache-2.0
"""Attention whose heads are divided among the ranks while everything else has the tokens divided (Jacobs et al. 2023):
an all-to-all exchanges tokens for heads before the attention, and another one heads for tokens after it.
"""

from __future__ import annotations

from typing import Any

from baracuda import functions
from baracuda._arrays.shaping import reshaped
from baracuda.distributed.communicator import Communicator
from baracuda.distributed.linear import share_of


def tokens_to_heads(comm: Communicator, x: Any) -> Any:
    """(batch, tokens / P, heads, d) of this rank's tokens as (batch, tokens, heads / P, d) of this rank's heads."""
    batch, tokens, heads, d = (int(n) for n in x.shape)
    share = share_of("the number of heads", heads, comm.size)
    parts = functions.permute(reshaped(x, (batch, tokens, comm.size, share, d)), (2, 0, 1, 3, 4))
    received = comm.all_to_all(parts)  # by source: its tokens of our heads
    return reshaped(functions.permute(received, (1, 0, 2, 3, 4)), (batch, comm.size * tokens, share, d))


def heads_to_tokens(comm: Communicator, x: Any) -> Any:
    """The inverse, and the gradient, of tokens_to_heads."""
    batch, tokens, heads, d = (int(n) for n in x.shape)
    share = share_of("the number of tokens", tokens, comm.size)
    parts = functions.permute(reshaped(x, (batch, comm.size, share, heads, d)), (1, 0, 2, 3, 4))
    received = comm.all_to_all(parts)  # by source: its heads of our tokens
    return reshaped(functions.permute(received, (1, 2, 0, 3, 4)), (batch, share, comm.size * heads, d))


def head_parallel_attention(
    comm: Communicator, q: Any, k: Any, v: Any, *, is_causal: bool = False, scale: float | None = None
) -> tuple[Any, tuple[Any, ...]]:
    """Attention over all ranks' tokens: q, k, v are (batch, tokens / P, heads, d) with rank r's tokens
    [r L / P, (r + 1) L / P); P divides the heads of both. The second result is for the backward.
    """
    own = [tokens_to_heads(comm, x) for x in (q, k, v)]
    y, lse = functions.fused_attention_forward(*own, tokens_first=True, is_causal=is_causal, scale=scale)
    return heads_to_tokens(comm, y), (*own, y, lse)


def head_parallel_attention_backward(
    comm: Communicator, dy: Any, saved: tuple[Any, ...], *, is_causal: bool = False, scale: float | None = None
) -> tuple[Any, Any, Any]:
    """Gradients of q, k and v."""
    found = functions.fused_attention_backward(
        tokens_to_heads(comm, dy), *saved, tokens_first=True, is_causal=is_causal, scale=scale,
        needs=(True, True, True, False, False),
    )  # fmt: skip
    dq, dk, dv = (heads_to_tokens(comm, x) for x in found[:3])
    return dq, dk, dv

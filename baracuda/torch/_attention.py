# SPDX-License-Identifier: Apache-2.0
"""scaled_dot_product_attention, flash_attn_varlen and document_offsets for PyTorch, of operators that torch.compile
traces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from baracuda._functions.attention_calls import CALLED, NAMES, AttentionCalls


class _Tensors:
    """Tensors; seeds are drawn from PyTorch's generator where none is given."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        self._functions = {name: function(name) for name in CALLED}

    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        return self._functions[name](*arrays, **numbers)

    def is_keep_mask(self, mask: Any) -> bool:
        return mask.dtype in (torch.bool, torch.uint8)

    def cast_like(self, mask: Any, like: Any) -> Any:
        return mask.to(like.dtype)

    def as_i32(self, x: Any) -> Any:
        return x.to(torch.int32)

    def reshaped(self, x: Any, shape: Sequence[Any]) -> Any:
        return x.reshape(tuple(shape))

    def permuted(self, x: Any, order: Sequence[int]) -> Any:
        return x.permute(tuple(order))

    def broadcast(self, bias: Any, shape: Sequence[Any]) -> Any:
        return bias.expand(shape) if bias.requires_grad else bias

    def seed(self, seed: Any, like: Any) -> Any:
        if isinstance(seed, torch.Tensor):
            return seed.reshape(1)
        if seed is None:
            return torch.randint(0, 2**62, (1,), dtype=torch.int64, device=like.device)
        return torch.full((1,), seed, dtype=torch.int64, device=like.device)


def made(name: str, function: Callable[[str], Any]) -> Any:
    """A function of NAMES; `function` makes those of the op table."""
    return getattr(AttentionCalls(_Tensors(function)), name)


__all__ = ["NAMES", "made"]

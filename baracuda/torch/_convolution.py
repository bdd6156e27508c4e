# SPDX-License-Identifier: Apache-2.0
"""Convolutions for PyTorch, of operators that torch.compile traces, with gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from baracuda._functions.conv_calls import CALLED, NAMES, ConvCalls, bound


class _Tensors:
    def __init__(self, function: Callable[[str], Any]) -> None:
        self._functions = {name: function(name) for name in CALLED}

    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        return self._functions[name](*arrays, **numbers)

    def permuted(self, x: Any, order: Sequence[int]) -> Any:
        return x.permute(tuple(order))

    def has_channels_last(self, x: Any) -> bool:
        if x.dim() == 3:
            is_last = x.transpose(1, 2).is_contiguous()
        else:
            last = torch.channels_last if x.dim() == 4 else torch.channels_last_3d
            is_last = x.is_contiguous(memory_format=last)
        return bool(is_last and not x.is_contiguous())


def made(name: str, function: Callable[[str], Any]) -> Any:
    """A function of NAMES; `function` makes those of the op table."""
    return bound(ConvCalls(_Tensors(function)), name)


__all__ = ["NAMES", "made"]

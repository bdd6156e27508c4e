# SPDX-License-Identifier: Apache-2.0
"""The functions of baracuda.fft for PyTorch: with autograd, torch.compile and torch.export, as baracuda.torch has them.

Tensors that are no floats take PyTorch's default dtype; f16 and bf16 become f32.
"""

from __future__ import annotations

from typing import Any

import torch

import baracuda.torch as operators
from baracuda._functions.fft_calls import FREQUENCIES, NAMES, FftCalls, bound

_NARROW = (torch.float16, torch.bfloat16)


class _Tensors:
    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        return getattr(operators, name)(*arrays, **numbers)

    def floating(self, x: Any) -> Any:
        if x.is_complex():
            return x
        if not x.is_floating_point():
            return x.to(torch.get_default_dtype())
        return x.float() if x.dtype in _NARROW else x

    def is_complex(self, x: Any) -> bool:
        return bool(x.is_complex())

    def as_complex(self, x: Any) -> Any:
        return x.to(x.dtype.to_complex())

    def alike(self, a: Any, b: Any) -> Any:
        dtype = torch.promote_types(a.dtype, b.dtype)
        return a.to(dtype), b.to(dtype)


_CALLS = FftCalls(_Tensors())
__all__ = [*NAMES, *FREQUENCIES]


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = bound(_CALLS, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """The frequencies of fft's n elements, of samples d apart, as baracuda.fft.fftfreq has them."""
    counted = torch.arange(n, device=device)
    return _divided((counted + n // 2) % n - n // 2, n * d, dtype)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """The frequencies of rfft's n // 2 + 1 elements, of samples d apart, as baracuda.fft.rfftfreq has them."""
    return _divided(torch.arange(n // 2 + 1, device=device), n * d, dtype)


def _divided(numbers: torch.Tensor, by: float, dtype: Any) -> torch.Tensor:
    return (numbers.double() / by).to(torch.get_default_dtype() if dtype is None else dtype)

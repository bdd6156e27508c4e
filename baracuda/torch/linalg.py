# SPDX-License-Identifier: Apache-2.0
"""The functions of baracuda.linalg for PyTorch: with autograd, torch.compile and torch.export, as baracuda.torch has
them. Gradients are those of torch.linalg.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

import baracuda.torch as operators
from baracuda.errors import InvalidProblemError
from baracuda.linalg.arrays import described, function_of
from baracuda.linalg.names import NAMES


class _Tensors:
    functions = operators

    def given(self, x: Any, name: str) -> torch.Tensor:
        if not isinstance(x, torch.Tensor):
            raise InvalidProblemError(f"{name} is of type {type(x).__name__}, must be a tensor")
        return x

    def is_complex(self, x: torch.Tensor) -> bool:
        return bool(x.is_complex())

    def conjugate(self, x: torch.Tensor) -> torch.Tensor:
        return x.conj()

    def modulus(self, x: torch.Tensor) -> torch.Tensor:
        return x.abs()

    def total(self, x: torch.Tensor, axis: int) -> torch.Tensor:
        return x.sum(axis)

    def converted(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return x.to(like.dtype)

    def reshaped(self, x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        return x.reshape(shape)

    def permuted(self, x: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
        return x.permute(order)

    def broadcast(self, x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        return x.expand(shape).clone(memory_format=torch.contiguous_format)

    def empty(self, like: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        return like.new_zeros(shape)

    def added(self, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
        return beta * x + alpha * operators.matmul(a, b)


__all__ = list(NAMES)


if TYPE_CHECKING:
    from baracuda._linalg import *  # noqa: F403  (written by tools/gen_stub.py)
else:

    def __getattr__(name: str) -> Any:
        if name not in NAMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = described(function_of(_Tensors(), name), name, __name__)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)

# SPDX-License-Identifier: Apache-2.0
"""Optimisers whose update of a parameter is composed of functions on arrays: the step then subtracts it, for all
parameters in one launch of optim_sgd, which knows how weights are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from baracuda._arrays.frameworks import framework_of
from baracuda.dtypes import ElementKind
from baracuda.errors import UnsupportedError
from baracuda.optim._arrays import Parameter, compute_dtype, is_torch, plain
from baracuda.optim.optimizer import Optimizer
from baracuda.tensor import tensor


class Composed(Optimizer):
    """`updates` has what to subtract, times the rate, from each parameter that has a gradient."""

    op: ClassVar[str] = "sgd"
    refused: ClassVar[tuple[str, ...]] = ("max_norm", "zero_grads", "capturable")

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        for option in self.refused:
            if group[option]:
                raise UnsupportedError(f"{option} is {group[option]!r}, which {type(self).__name__} has not")
        if group["state_bits"] != 32:
            raise UnsupportedError(f"state_bits is {group['state_bits']}, must be 32 for {type(self).__name__}")

    def clears(self, group: Mapping[str, Any]) -> bool:
        return False  # it has the updates; step clears the gradients

    def decay(self, group: Mapping[str, Any], p: Parameter) -> float:
        """The decay beside the update, over the rate."""
        raise NotImplementedError

    def hyper(self, group: Mapping[str, Any], p: Parameter) -> tuple[Any, ...]:
        return 0.0, 0.0, self.decay(group, p), 0

    def updates(self, given: Sequence[tuple[int, int, Any]]) -> list[Any]:
        """The updates for (group, index, gradient in the compute type)."""
        raise NotImplementedError

    def step(
        self, grads: Any = None, *, closure: Callable[[], Any] | None = None, grad_scale: Any = None,
        found_inf: Any = None, norm: Any = None,
    ) -> Any:  # fmt: skip
        """Updates as `Optimizer.step` does; gradients must not be scaled."""
        if norm is not None:
            raise UnsupportedError(f"norm is not served by {type(self).__name__}: clip first")
        if grad_scale is not None or found_inf is not None or getattr(self, "grad_scale", None) is not None:
            raise UnsupportedError(f"grad_scale and found_inf are not served by {type(self).__name__}: unscale first")
        if callable(grads):
            grads, closure = None, grads
        loss = self._evaluate(closure) if closure is not None else None
        found = self._gradients(grads)
        slots = [(g, i) for g, params in enumerate(self._params) for i in range(len(params))]
        given = [(g, i, grad) for (g, i), grad in zip(slots, found) if grad is not None]
        for g, i, _ in given:
            self._make_states(g, i)
        wide = [(g, i, self._wide(self._params[g][i], grad)) for g, i, grad in given]
        made = iter(self.updates(wide))
        super().step([None if grad is None else next(made) for grad in found])
        for g, i, grad in given:
            if self.param_groups[g]["zero_grads"]:
                framework = self._params[g][i].framework
                framework.zero(plain(framework, grad))
        return loss

    _step_supports_amp_scaling = False

    @staticmethod
    def _wide(p: Parameter, grad: Any) -> Any:
        own = p.gradient(grad)
        return as_dtype(plain(p.framework, own), compute_dtype(p.dtype))


def as_dtype(array: Any, dtype: ElementKind) -> Any:
    from baracuda import functions

    return array if tensor(array, "array").dtype is dtype else functions.cast(array, dtype)


def assign(target: Any, source: Any) -> None:
    """target = source, of one dtype."""
    framework = framework_of(target)
    assert framework is not None
    if is_torch(framework):
        target.copy_(source)
    else:
        framework.copy(target, source)

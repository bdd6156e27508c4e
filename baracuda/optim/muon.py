# SPDX-License-Identifier: Apache-2.0
"""Muon (Jordan et al. 2024): momentum whose direction is orthogonalised, for the matrices of a network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError
from baracuda.optim._arrays import Parameter
from baracuda.optim._composed import Composed, as_dtype

_ADJUST = ("original", "match_rms_adamw", None)


def orthogonalised(
    x: Any, coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315), steps: int = 5, eps: float = 1e-7
) -> Any:
    """The matrices x (batch, m, n) after Newton-Schulz iterations: the text is that of `bk.linalg.orthogonalize`."""
    from baracuda.linalg.arrays import AnyArrays
    from baracuda.linalg.spectral import Spectra

    return Spectra(AnyArrays()).newton_schulz(x, coefficients, steps, eps)


class Muon(Composed):
    """Muon of matrices, as torch.optim.Muon, and of batches of matrices (..., m, n). Those of one shape are
    orthogonalised together, in bf16 (f32 for f64 parameters).

    The direction does not depend on the scale of the gradients: they are neither divided nor clipped. With capturable
    and lr on the device a step may be captured in a graph, which holds the memory of its intermediate results.

    adjust_lr_fn: "original" or None scales the rate by sqrt(max(1, rows / columns)), "match_rms_adamw" by 0.2
    sqrt(max(rows, columns)).
    """

    defaults: ClassVar = {
        "lr": 1e-3, "weight_decay": 0.1, "momentum": 0.95, "nesterov": True,
        "ns_coefficients": (3.4445, -4.7750, 2.0315), "eps": 1e-7, "ns_steps": 5, "adjust_lr_fn": None,
    }  # fmt: skip
    counts = False
    refused = ("max_norm",)

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
        nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov,
            ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps, adjust_lr_fn=adjust_lr_fn, **options,
        )  # fmt: skip

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        if group["adjust_lr_fn"] not in _ADJUST:
            raise InvalidProblemError(f"adjust_lr_fn is {group['adjust_lr_fn']!r}, must be one of {_ADJUST}")

    def _check_storage(self, group: Mapping[str, Any], p: Parameter) -> None:
        super()._check_storage(group, p)
        if len(p.shape) < 2:
            raise InvalidProblemError(f"{p.name} has shape {p.shape}, must be a matrix: Muon is for these alone")

    def state_names(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",)

    def kind(self, p: Parameter) -> Any:
        return p.shape

    def rate(self, group: Mapping[str, Any], p: Parameter) -> Any:
        lr, factor = group["lr"], self._factor(group, p)
        if isinstance(lr, (int, float)):
            return lr * factor
        from baracuda import functions

        return functions.affine(lr, scale=factor, offset=0.0)

    @staticmethod
    def _factor(group: Mapping[str, Any], p: Parameter) -> float:
        rows, columns = p.shape[-2:]
        if group["adjust_lr_fn"] == "match_rms_adamw":
            return 0.2 * math.sqrt(max(rows, columns, 1))
        return math.sqrt(max(1, rows / max(columns, 1)))

    def decay(self, group: Mapping[str, Any], p: Parameter) -> float:
        return float(group["weight_decay"]) / self._factor(group, p)

    def updates(self, given: Sequence[tuple[int, int, Any]]) -> list[Any]:
        import baracuda as bk

        buckets: dict[Any, list[int]] = {}
        directions: list[Any] = []
        for k, (g, i, grad) in enumerate(given):
            group, p, state = self.param_groups[g], self._params[g][i], self._states[g][i]
            buffer = state["momentum_buffer"]
            bk.lerp(buffer, grad, 1 - group["momentum"], out=buffer)
            directions.append(bk.lerp(grad, buffer, group["momentum"]) if group["nesterov"] else buffer)
            buckets.setdefault((g, p.shape, p.dtype, p.device), []).append(k)
        made: list[Any] = [None] * len(given)
        for (g, shape, dtype, _), members in buckets.items():
            if 0 in shape:
                for k in members:
                    made[k] = as_dtype(directions[k], dtype)
                continue
            group, framework = self.param_groups[g], self._params[g][0].framework
            narrow = ElementKind.F32 if dtype is ElementKind.F64 else ElementKind.BF16
            stacked = bk.stack([as_dtype(directions[k], narrow) for k in members])
            matrices = framework.reshaped(stacked, (math.prod(stacked.shape[:-2]), *shape[-2:]))
            done = orthogonalised(matrices, group["ns_coefficients"], group["ns_steps"], group["eps"])
            for k, each in zip(members, bk.split(as_dtype(done, dtype), len(members))):
                made[k] = framework.reshaped(each, shape)
        return made

# SPDX-License-Identifier: Apache-2.0
"""Adafactor (Shazeer and Stern 2018): second moments of matrices as the product of a column and a row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from baracuda._call.scalars import as_real
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError
from baracuda.optim._arrays import Parameter, compute_dtype, plain
from baracuda.optim._composed import Composed, as_dtype, assign

_EPS = {ElementKind.F32: 2.0**-23, ElementKind.F64: 2.0**-52, ElementKind.F16: 2.0**-10, ElementKind.BF16: 2.0**-7}


class Adafactor(Composed):
    """Adafactor, as torch.optim.Adafactor: the rate is relative to the size of a parameter, and updates are clipped to
    an RMS of d. eps is (smallest root of a second moment, smallest RMS of a parameter); None is the epsilon of the
    dtype. Means of rows and columns are added in a fixed order.
    """

    defaults: ClassVar = {
        "lr": 1e-2, "beta2_decay": -0.8, "eps": (None, 1e-3), "d": 1.0, "weight_decay": 0.0,
    }  # fmt: skip

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(params, lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay, **options)

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        if not as_real("d", group["d"]) > 0:
            raise InvalidProblemError(f"d is {group['d']}, must be > 0")
        if not as_real("beta2_decay", group["beta2_decay"]) <= 0:
            raise InvalidProblemError(f"beta2_decay is {group['beta2_decay']}, must be <= 0")

    def _make_states(self, g: int, i: int) -> None:
        super()._make_states(g, i)
        p, state = self._params[g][i], self._states[g][i]
        if "row_var" in state or "variance" in state:
            return
        shapes = {"variance": p.shape}
        if len(p.shape) > 1:
            shapes = {"row_var": (*p.shape[:-1], 1), "col_var": (*p.shape[:-2], 1, p.shape[-1])}
        dtype = compute_dtype(p.dtype)
        for name, shape in shapes.items():
            state[name] = p.framework.empty(shape, p.framework.native(dtype, p.array), p.array)
            p.framework.zero(state[name])

    def state_names(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ()

    def rate(self, group: Mapping[str, Any], p: Parameter) -> Any:
        return 1.0 if group["lr"] else 0.0

    def decay(self, group: Mapping[str, Any], p: Parameter) -> float:
        return float(group["lr"] * group["weight_decay"])

    def updates(self, given: Sequence[tuple[int, int, Any]]) -> list[Any]:
        return [self._update(g, i, grad) for g, i, grad in given]

    def _update(self, g: int, i: int, grad: Any) -> Any:
        import baracuda as bk

        group, p, state = self.param_groups[g], self._params[g][i], self._states[g][i]
        if p.size == 0:
            return as_dtype(grad, p.dtype)
        step = self._counters[g][i].read() + 1
        first_eps = _EPS[p.dtype] if group["eps"][0] is None else group["eps"][0]
        weight = float(step) ** group["beta2_decay"]
        square = bk.square(grad)
        if "variance" in state:
            assign(state["variance"], bk.lerp(state["variance"], square, weight))
            estimate = state["variance"]
        else:
            for name, axis in (("row_var", -1), ("col_var", -2)):
                assign(state[name], bk.lerp(state[name], bk.mean(square, axis=axis, keepdims=True), weight))
            row = state["row_var"]
            mean = bk.clamp(bk.mean(row, axis=-2, keepdims=True), first_eps, math.inf)
            estimate = bk.div(bk.mul(row, state["col_var"]), mean)
        update = bk.mul(grad, bk.rsqrt(bk.clamp(estimate, first_eps**2, math.inf)))
        rms = bk.clamp(bk.mul(bk.norm2(update), 1 / (math.sqrt(p.size) * group["d"])), 1.0, math.inf)
        own = as_dtype(plain(p.framework, p.array), compute_dtype(p.dtype))
        size = bk.clamp(bk.mul(bk.norm2(own), 1 / math.sqrt(p.size)), group["eps"][1], math.inf)
        rate = min(group["lr"], 1 / math.sqrt(step))
        return as_dtype(bk.mul(update, bk.mul(bk.div(size, rms), rate)), p.dtype)

# SPDX-License-Identifier: Apache-2.0
"""Optimisers whose update is elementwise, or nearly: each is a C function (native/optim/rules.h has the formulas)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from baracuda._call.scalars import as_real
from baracuda.errors import InvalidProblemError
from baracuda.optim._arrays import Parameter
from baracuda.optim.optimizer import Optimizer


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015), as torch.optim.Adam. amsgrad divides by the largest second moment so far."""

    defaults: ClassVar = {
        "lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "amsgrad": False,
        "decoupled_weight_decay": False,
    }  # fmt: skip
    names: ClassVar = {"exp_avg": "state0", "exp_avg_sq": "state1", "max_exp_avg_sq": "state2"}
    signed: ClassVar = ("exp_avg",)
    op = "adam"

    def __init__(
        self, params: Iterable[Any], lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.0, amsgrad: bool = False, *, decoupled_weight_decay: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
            decoupled_weight_decay=decoupled_weight_decay, **options,
        )  # fmt: skip

    def state_names(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ()))

    def hyper(self, group: Mapping[str, Any], p: Parameter) -> tuple[Any, ...]:
        return *group["betas"], group["eps"], group["weight_decay"], group["decoupled_weight_decay"], 1


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019), as torch.optim.AdamW."""

    def __init__(
        self, params: Iterable[Any], lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, decoupled_weight_decay=True, **options)


class SGD(Optimizer):
    """Stochastic gradient descent with momentum, as torch.optim.SGD."""

    defaults: ClassVar = {"lr": 1e-3, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False}
    names: ClassVar = {"momentum_buffer": "state0"}
    signed: ClassVar = ("momentum_buffer",)
    op = "sgd"
    counts = False

    def __init__(
        self, params: Iterable[Any], lr: Any = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
        weight_decay: float = 0.0, nesterov: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
            **options,
        )  # fmt: skip

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise InvalidProblemError("nesterov needs a momentum > 0 and no dampening")

    def state_names(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def hyper(self, group: Mapping[str, Any], p: Parameter) -> tuple[Any, ...]:
        return group["momentum"], group["dampening"], group["weight_decay"], group["nesterov"]


class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011), as torch.optim.Adagrad."""

    defaults: ClassVar = {
        "lr": 1e-2, "lr_decay": 0.0, "weight_decay": 0.0, "initial_accumulator_value": 0.0, "eps": 1e-10,
    }  # fmt: skip
    names: ClassVar = {"sum": "state0"}
    op = "adagrad"

    def __init__(
        self, params: Iterable[Any], lr: Any = 1e-2, lr_decay: float = 0.0, weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0, eps: float = 1e-10, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr=lr, lr_decay=lr_decay, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, eps=eps, **options,
        )  # fmt: skip

    def initial(self, name: str, group: Mapping[str, Any]) -> float:
        return float(group["initial_accumulator_value"]) if name == "sum" else 0.0

    def hyper(self, group: Mapping[str, Any], p: Parameter) -> tuple[Any, ...]:
        return group["lr_decay"], group["eps"], group["weight_decay"]


class RMSprop(Optimizer):
    """RMSprop (Tieleman and Hinton 2012; centred, Graves 2013), as torch.optim.RMSprop."""

    defaults: ClassVar = {
        "lr": 1e-2, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0.0, "momentum": 0.0, "centered": False,
    }  # fmt: skip
    names: ClassVar = {"square_avg": "state0", "momentum_buffer": "state1", "grad_avg": "state2"}
    op = "rmsprop"

    def __init__(
        self, params: Iterable[Any], lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0.0,
        momentum: float = 0.0, centered: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum, centered=centered,
            **options,
        )  # fmt: skip

    def state_names(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        momentum = ("momentum_buffer",) if group["momentum"] else ()
        return ("square_avg", *momentum, *(("grad_avg",) if group["centered"] else ()))

    def hyper(self, group: Mapping[str, Any], p: Parameter) -> tuple[Any, ...]:
        return group["alpha"], group["eps"], group["weight_decay"], group["momentum"], group["centered"]


class Adadelta(Optimizer):
    """Adadelta (Zeiler 2012), as torch.optim.Adadelta."""

    defaults: ClassVar = {"lr": 1.0, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.0}
    names: ClassVar = {"square_avg": "state0", "acc_delta": "state1"}
    op = "adadelta"

    def __init__(
        self, params: Iterable[Any], lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0.0,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(params, lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, **options)

    def hyper(self, group: Mapping[str, Any], p: Parameter) -> tuple[Any, ...]:
        return group["rho"], group["eps"], group["weight_decay"]


class Lion(Optimizer):
    """Lion (Chen et al. 2023): steps of the sign of the mean gradient, with decoupled weight decay."""

    defaults: ClassVar = {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.0}
    names: ClassVar = {"exp_avg": "state0"}
    signed: ClassVar = ("exp_avg",)
    op = "lion"

    def __init__(
        self, params: Iterable[Any], lr: Any = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(params, lr=lr, betas=betas, weight_decay=weight_decay, **options)

    def hyper(self, group: Mapping[str, Any], p: Parameter) -> tuple[Any, ...]:
        return *group["betas"], group["weight_decay"]


class Lamb(Optimizer):
    """LAMB (You et al. 2020): AdamW's update of each parameter times |p| / |update|, limited to trust_ratio's range."""

    defaults: ClassVar = {
        "lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-6, "weight_decay": 1e-2, "decoupled_weight_decay": True,
        "trust_ratio": (0.0, 10.0), "bias_correction": True,
    }  # fmt: skip
    names: ClassVar = {"exp_avg": "state0", "exp_avg_sq": "state1"}
    op = "lamb"

    def __init__(
        self, params: Iterable[Any], lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6,
        weight_decay: float = 1e-2, *, trust_ratio: tuple[float, float] = (0.0, 10.0), bias_correction: bool = True,
        decoupled_weight_decay: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, trust_ratio=trust_ratio,
            bias_correction=bias_correction, decoupled_weight_decay=decoupled_weight_decay, **options,
        )  # fmt: skip

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        lower, upper = (as_real("trust_ratio", value) for value in group["trust_ratio"])
        if not 0 <= lower <= upper:
            raise InvalidProblemError(f"trust_ratio is {group['trust_ratio']}, must be (lower, upper) with lower >= 0")

    def hyper(self, group: Mapping[str, Any], p: Parameter) -> tuple[Any, ...]:
        return (
            *group["betas"], group["eps"], group["weight_decay"], group["decoupled_weight_decay"],
            group["bias_correction"], *group["trust_ratio"],
        )  # fmt: skip

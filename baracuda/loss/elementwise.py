# SPDX-License-Identifier: Apache-2.0
"""Elementwise losses.

reduction NONE gives a loss for each element, in the shape of the inputs; MEAN and SUM give one number of shape (1,).
The header has the formulas. A gradient takes dy, of the shape of the forward's output.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import LossKind, LossReduction, OpCategory
from baracuda.plan import ParamPlan


@dataclasses.dataclass(frozen=True)
class LossDescriptor(Descriptor):
    """The shape of the inputs, and the reduction."""

    input_shape: tuple[int, ...] = descriptor.shape()
    reduction: LossReduction = descriptor.choice(LossReduction)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.input_shape

    @property
    def numel(self) -> int:
        return descriptor.product("input_shape", self.input_shape)

    @property
    def result_shape(self) -> tuple[int, ...]:
        return self.input_shape if self.reduction is LossReduction.NONE else (1,)

    @property
    def scale_scalar(self) -> float:
        return 1 / max(self.numel, 1) if self.reduction is LossReduction.MEAN else 1.0


def _flag(name: str, value: object) -> int:
    if not isinstance(value, (bool, np.bool_)) and not (type(value) is int and value in (0, 1)):
        raise InvalidProblemError(f"{name} is {value!r}, must be a bool")
    return int(bool(value))


class LossPlan(ParamPlan):
    """Base of the plans of this module."""

    __slots__ = ()
    descriptor_base = LossDescriptor
    category = OpCategory.LOSS
    shapes: ClassVar = {"out": "result_shape", "dy": "result_shape"}
    names: ClassVar = {"reduction_mode": "reduction"}


class MsePlan(LossPlan):
    __slots__ = ()
    op = "loss_mse_{T}"
    kind = LossKind.MSE


class MseBackwardPlan(MsePlan):
    __slots__ = ()
    op = "loss_mse_backward_{T}"


class L1Plan(LossPlan):
    __slots__ = ()
    op = "loss_l1_{T}"
    kind = LossKind.L1


class L1BackwardPlan(L1Plan):
    __slots__ = ()
    op = "loss_l1_backward_{T}"


@dataclasses.dataclass(frozen=True)
class SmoothL1Descriptor(LossDescriptor):
    beta: float = descriptor.real()


class SmoothL1Plan(LossPlan):
    __slots__ = ()
    op = "loss_smooth_l1_{T}"
    others = ("loss_smooth_l1_param_{T}",)
    kind = LossKind.SMOOTH_L1
    names: ClassVar = {**LossPlan.names, "param": "beta"}


class SmoothL1BackwardPlan(SmoothL1Plan):
    __slots__ = ()
    op = "loss_smooth_l1_backward_{T}"
    others = ("loss_smooth_l1_param_backward_{T}",)


@dataclasses.dataclass(frozen=True)
class HuberDescriptor(LossDescriptor):
    delta: float = descriptor.real()


class HuberPlan(LossPlan):
    __slots__ = ()
    op = "loss_huber_{T}"
    others = ("loss_huber_param_{T}",)
    kind = LossKind.HUBER
    names: ClassVar = {**LossPlan.names, "param": "delta"}


class HuberBackwardPlan(HuberPlan):
    __slots__ = ()
    op = "loss_huber_backward_{T}"
    others = ("loss_huber_param_backward_{T}",)


class BcePlan(LossPlan):
    __slots__ = ()
    op = "loss_bce_{T}"
    kind = LossKind.BCE


class BceBackwardPlan(BcePlan):
    __slots__ = ()
    op = "loss_bce_backward_{T}"


class BceWithLogitsPlan(LossPlan):
    __slots__ = ()
    op = "loss_bce_with_logits_{T}"
    kind = LossKind.BCE_WITH_LOGITS
    names: ClassVar = {**LossPlan.names, "dpred": "dlogits"}


class BceWithLogitsBackwardPlan(BceWithLogitsPlan):
    __slots__ = ()
    op = "loss_bce_with_logits_backward_{T}"


class KlDivPlan(LossPlan):
    __slots__ = ()
    op = "loss_kl_div_{T}"
    kind = LossKind.KL_DIV
    names: ClassVar = {**LossPlan.names, "pred": "input"}


class KlDivBackwardPlan(KlDivPlan):
    __slots__ = ()
    op = "loss_kl_div_backward_{T}"


@dataclasses.dataclass(frozen=True)
class PoissonNllDescriptor(LossDescriptor):
    log_input: bool = descriptor.checked(_flag)


class PoissonNllPlan(LossPlan):
    __slots__ = ()
    op = "loss_poisson_nll_{T}"
    kind = LossKind.POISSON_NLL
    names: ClassVar = {**LossPlan.names, "log_input_flag": "log_input"}


class PoissonNllBackwardPlan(PoissonNllPlan):
    __slots__ = ()
    op = "loss_poisson_nll_backward_{T}"


@dataclasses.dataclass(frozen=True)
class GaussianNllDescriptor(LossDescriptor):
    eps: float = descriptor.real()


class GaussianNllPlan(LossPlan):
    __slots__ = ()
    op = "loss_gaussian_nll_{T}"
    others = ("loss_gaussian_nll_param_{T}",)
    kind = LossKind.GAUSSIAN_NLL


class GaussianNllBackwardPlan(GaussianNllPlan):
    __slots__ = ()
    op = "loss_gaussian_nll_backward_{T}"
    others = ("loss_gaussian_nll_param_backward_{T}",)


@dataclasses.dataclass(frozen=True)
class MarginRankingDescriptor(LossDescriptor):
    margin: float = descriptor.real()


class MarginRankingPlan(LossPlan):
    __slots__ = ()
    op = "loss_margin_ranking_{T}"
    others = ("loss_margin_ranking_param_{T}",)
    kind = LossKind.MARGIN_RANKING


class MarginRankingBackwardPlan(MarginRankingPlan):
    __slots__ = ()
    op = "loss_margin_ranking_backward_{T}"
    others = ("loss_margin_ranking_param_backward_{T}",)


@dataclasses.dataclass(frozen=True)
class HingeEmbeddingDescriptor(LossDescriptor):
    margin: float = descriptor.real()


class HingeEmbeddingPlan(LossPlan):
    __slots__ = ()
    op = "loss_hinge_embedding_{T}"
    others = ("loss_hinge_embedding_param_{T}", "loss_hinge_embedding_i32_{T}")
    kind = LossKind.HINGE_EMBEDDING


class HingeEmbeddingBackwardPlan(HingeEmbeddingPlan):
    __slots__ = ()
    op = "loss_hinge_embedding_backward_{T}"
    others = ("loss_hinge_embedding_param_backward_{T}", "loss_hinge_embedding_i32_backward_{T}")

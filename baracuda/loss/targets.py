"""Gradients of losses for their targets and variances.

reduction and shapes are those of baracuda.loss.elementwise. That of the targets of mse, l1, smooth_l1, huber and of
gaussian_nll is the gradient's of the prediction with the two in each other's place.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda.kinds import LossKind
from baracuda.loss.elementwise import (
    GaussianNllDescriptor,
    LossDescriptor,
    LossPlan,
    MarginRankingDescriptor,
    PoissonNllDescriptor,
)
from baracuda.loss.logits import KlDivBatchDescriptor, WeightedBceWithLogitsDescriptor
from baracuda.loss.options import (
    FullPoissonNllDescriptor,
    WeightedBceDescriptor,
    WeightedMultilabelSoftMarginDescriptor,
)
from baracuda.loss.rows import MultilabelSoftMarginDescriptor, RowLossPlan


@dataclasses.dataclass(frozen=True)
class BceTargetBackwardDescriptor(LossDescriptor):
    pass


class BceTargetBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_bce_target_backward_{T}"
    kind = LossKind.BCE


@dataclasses.dataclass(frozen=True)
class WeightedBceWithLogitsTargetBackwardDescriptor(WeightedBceWithLogitsDescriptor):
    pass


class WeightedBceWithLogitsTargetBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_bce_with_logits_weighted_target_backward_{T}"
    kind = LossKind.BCE_WITH_LOGITS


@dataclasses.dataclass(frozen=True)
class KlDivBatchTargetBackwardDescriptor(KlDivBatchDescriptor):
    pass


class KlDivBatchTargetBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_kl_div_batch_target_backward_{T}"
    kind = LossKind.KL_DIV
    names: ClassVar = {**LossPlan.names, "pred": "input", "log_target_flag": "log_target"}


@dataclasses.dataclass(frozen=True)
class PoissonNllTargetBackwardDescriptor(PoissonNllDescriptor):
    pass


class PoissonNllTargetBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_poisson_nll_target_backward_{T}"
    kind = LossKind.POISSON_NLL
    names: ClassVar = {**LossPlan.names, "log_input_flag": "log_input"}


@dataclasses.dataclass(frozen=True)
class GaussianNllVarBackwardDescriptor(GaussianNllDescriptor):
    pass


class GaussianNllVarBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_gaussian_nll_var_backward_{T}"
    kind = LossKind.GAUSSIAN_NLL


@dataclasses.dataclass(frozen=True)
class MarginRankingTargetBackwardDescriptor(MarginRankingDescriptor):
    pass


class MarginRankingTargetBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_margin_ranking_target_backward_{T}"
    kind = LossKind.MARGIN_RANKING


@dataclasses.dataclass(frozen=True)
class MultilabelSoftMarginTargetBackwardDescriptor(MultilabelSoftMarginDescriptor):
    pass


class MultilabelSoftMarginTargetBackwardPlan(RowLossPlan):
    __slots__ = ()
    op = "loss_multilabel_soft_margin_target_backward_{T}"
    kind = LossKind.MULTILABEL_SOFT_MARGIN
    names: ClassVar = {**RowLossPlan.names, "row_stride": "class_extent"}


@dataclasses.dataclass(frozen=True)
class WeightedBceTargetBackwardDescriptor(WeightedBceDescriptor):
    pass


class WeightedBceTargetBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_bce_weighted_target_backward_{T}"
    kind = LossKind.BCE


@dataclasses.dataclass(frozen=True)
class FullPoissonNllTargetBackwardDescriptor(FullPoissonNllDescriptor):
    pass


class FullPoissonNllTargetBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_poisson_nll_full_target_backward_{T}"
    kind = LossKind.POISSON_NLL
    names: ClassVar = {**LossPlan.names, "log_input_flag": "log_input", "full_flag": "full"}


@dataclasses.dataclass(frozen=True)
class WeightedMultilabelSoftMarginTargetBackwardDescriptor(WeightedMultilabelSoftMarginDescriptor):
    pass


class WeightedMultilabelSoftMarginTargetBackwardPlan(RowLossPlan):
    __slots__ = ()
    op = "loss_multilabel_soft_margin_weighted_target_backward_{T}"
    kind = LossKind.MULTILABEL_SOFT_MARGIN
    names: ClassVar = {**RowLossPlan.names, "row_stride": "class_extent"}

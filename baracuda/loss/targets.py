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
from baracuda.operands import Args, Viewable


@dataclasses.dataclass(frozen=True)
class BceTargetBackwardDescriptor(LossDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BceTargetBackwardArgs(Args):
    pred: Viewable
    dy: Viewable
    dtarget: Viewable


class BceTargetBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_bce_target_backward_{T}"
    kind = LossKind.BCE


@dataclasses.dataclass(frozen=True)
class WeightedBceWithLogitsTargetBackwardDescriptor(WeightedBceWithLogitsDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class WeightedBceWithLogitsTargetBackwardArgs(Args):
    logits: Viewable
    dy: Viewable
    dtarget: Viewable
    weight: Viewable | None = None
    pos_weight: Viewable | None = None


class WeightedBceWithLogitsTargetBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_bce_with_logits_weighted_target_backward_{T}"
    kind = LossKind.BCE_WITH_LOGITS


@dataclasses.dataclass(frozen=True)
class KlDivBatchTargetBackwardDescriptor(KlDivBatchDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class KlDivBatchTargetBackwardArgs(Args):
    input: Viewable
    target: Viewable
    dy: Viewable
    dtarget: Viewable


class KlDivBatchTargetBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_kl_div_batch_target_backward_{T}"
    kind = LossKind.KL_DIV
    names: ClassVar = {**LossPlan.names, "pred": "input", "log_target_flag": "log_target"}


@dataclasses.dataclass(frozen=True)
class PoissonNllTargetBackwardDescriptor(PoissonNllDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PoissonNllTargetBackwardArgs(Args):
    input: Viewable
    dy: Viewable
    dtarget: Viewable


class PoissonNllTargetBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_poisson_nll_target_backward_{T}"
    kind = LossKind.POISSON_NLL
    names: ClassVar = {**LossPlan.names, "log_input_flag": "log_input"}


@dataclasses.dataclass(frozen=True)
class GaussianNllVarBackwardDescriptor(GaussianNllDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GaussianNllVarBackwardArgs(Args):
    input: Viewable
    target: Viewable
    var: Viewable
    dy: Viewable
    dvar: Viewable


class GaussianNllVarBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_gaussian_nll_var_backward_{T}"
    kind = LossKind.GAUSSIAN_NLL


@dataclasses.dataclass(frozen=True)
class MarginRankingTargetBackwardDescriptor(MarginRankingDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class MarginRankingTargetBackwardArgs(Args):
    x1: Viewable
    x2: Viewable
    t: Viewable
    dy: Viewable
    dt: Viewable


class MarginRankingTargetBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_margin_ranking_target_backward_{T}"
    kind = LossKind.MARGIN_RANKING


@dataclasses.dataclass(frozen=True)
class MultilabelSoftMarginTargetBackwardDescriptor(MultilabelSoftMarginDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class MultilabelSoftMarginTargetBackwardArgs(Args):
    input: Viewable
    dy: Viewable
    dtarget: Viewable


class MultilabelSoftMarginTargetBackwardPlan(RowLossPlan):
    __slots__ = ()
    op = "loss_multilabel_soft_margin_target_backward_{T}"
    kind = LossKind.MULTILABEL_SOFT_MARGIN
    names: ClassVar = {**RowLossPlan.names, "row_stride": "class_extent"}


@dataclasses.dataclass(frozen=True)
class WeightedBceTargetBackwardDescriptor(WeightedBceDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class WeightedBceTargetBackwardArgs(Args):
    pred: Viewable
    dy: Viewable
    dtarget: Viewable
    weight: Viewable | None = None


class WeightedBceTargetBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_bce_weighted_target_backward_{T}"
    kind = LossKind.BCE


@dataclasses.dataclass(frozen=True)
class FullPoissonNllTargetBackwardDescriptor(FullPoissonNllDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class FullPoissonNllTargetBackwardArgs(Args):
    input: Viewable
    target: Viewable
    dy: Viewable
    dtarget: Viewable


class FullPoissonNllTargetBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_poisson_nll_full_target_backward_{T}"
    kind = LossKind.POISSON_NLL
    names: ClassVar = {**LossPlan.names, "log_input_flag": "log_input", "full_flag": "full"}


@dataclasses.dataclass(frozen=True)
class WeightedMultilabelSoftMarginTargetBackwardDescriptor(WeightedMultilabelSoftMarginDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class WeightedMultilabelSoftMarginTargetBackwardArgs(Args):
    input: Viewable
    dy: Viewable
    dtarget: Viewable
    weight: Viewable | None = None


class WeightedMultilabelSoftMarginTargetBackwardPlan(RowLossPlan):
    __slots__ = ()
    op = "loss_multilabel_soft_margin_weighted_target_backward_{T}"
    kind = LossKind.MULTILABEL_SOFT_MARGIN
    names: ClassVar = {**RowLossPlan.names, "row_stride": "class_extent"}

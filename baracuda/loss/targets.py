# SPDX-License-Identifier: Apache-2.0
"""Gradients of losses for their targets and variances.

reduction and shapes are those of baracuda.loss.elementwise. For mse, l1, smooth_l1, huber and gaussian_nll, use the
gradient of the prediction with input and target exchanged.
"""

from __future__ import annotations

from typing import ClassVar

from baracuda.kinds import LossKind
from baracuda.loss.elementwise import (
    GaussianNllDescriptor,
    LossPlan,
    MarginRankingDescriptor,
    PoissonNllDescriptor,
)
from baracuda.loss.logits import KlDivBatchDescriptor, WeightedBceWithLogitsDescriptor
from baracuda.loss.options import (
    FullPoissonNllDescriptor,
    WeightedBceDescriptor,
    WeightedMultilabelSoftMarginPlan,
)
from baracuda.loss.rows import MultilabelSoftMarginPlan, RowLossPlan


class BceTargetBackwardPlan(LossPlan):
    __slots__ = ()
    op = "loss_bce_target_backward_{T}"
    kind = LossKind.BCE


class WeightedBceWithLogitsTargetBackwardPlan(LossPlan):
    __slots__ = ()
    descriptor_base = WeightedBceWithLogitsDescriptor
    op = "loss_bce_with_logits_weighted_target_backward_{T}"
    kind = LossKind.BCE_WITH_LOGITS


class KlDivBatchTargetBackwardPlan(LossPlan):
    __slots__ = ()
    descriptor_base = KlDivBatchDescriptor
    op = "loss_kl_div_batch_target_backward_{T}"
    kind = LossKind.KL_DIV
    names: ClassVar = {**LossPlan.names, "pred": "input", "log_target_flag": "log_target"}


class PoissonNllTargetBackwardPlan(LossPlan):
    __slots__ = ()
    descriptor_base = PoissonNllDescriptor
    op = "loss_poisson_nll_target_backward_{T}"
    kind = LossKind.POISSON_NLL
    names: ClassVar = {**LossPlan.names, "log_input_flag": "log_input"}


class GaussianNllVarBackwardPlan(LossPlan):
    __slots__ = ()
    descriptor_base = GaussianNllDescriptor
    op = "loss_gaussian_nll_var_backward_{T}"
    kind = LossKind.GAUSSIAN_NLL


class MarginRankingTargetBackwardPlan(LossPlan):
    __slots__ = ()
    descriptor_base = MarginRankingDescriptor
    op = "loss_margin_ranking_target_backward_{T}"
    kind = LossKind.MARGIN_RANKING


class MultilabelSoftMarginTargetBackwardPlan(RowLossPlan):
    __slots__ = ()
    descriptor_base = MultilabelSoftMarginPlan.descriptor_type
    op = "loss_multilabel_soft_margin_target_backward_{T}"
    kind = LossKind.MULTILABEL_SOFT_MARGIN
    names: ClassVar = {**RowLossPlan.names, "row_stride": "class_extent"}


class WeightedBceTargetBackwardPlan(LossPlan):
    __slots__ = ()
    descriptor_base = WeightedBceDescriptor
    op = "loss_bce_weighted_target_backward_{T}"
    kind = LossKind.BCE


class FullPoissonNllTargetBackwardPlan(LossPlan):
    __slots__ = ()
    descriptor_base = FullPoissonNllDescriptor
    op = "loss_poisson_nll_full_target_backward_{T}"
    kind = LossKind.POISSON_NLL
    names: ClassVar = {**LossPlan.names, "log_input_flag": "log_input", "full_flag": "full"}


class WeightedMultilabelSoftMarginTargetBackwardPlan(RowLossPlan):
    __slots__ = ()
    descriptor_base = WeightedMultilabelSoftMarginPlan.descriptor_type
    op = "loss_multilabel_soft_margin_weighted_target_backward_{T}"
    kind = LossKind.MULTILABEL_SOFT_MARGIN
    names: ClassVar = {**RowLossPlan.names, "row_stride": "class_extent"}

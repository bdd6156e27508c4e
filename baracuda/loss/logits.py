# SPDX-License-Identifier: Apache-2.0
"""Weighted binary cross entropy with logits, sigmoid focal loss, and batchmean Kullback-Leibler divergence.

reduction, shapes and gradients are those of baracuda.loss.elementwise.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import as_integer
from baracuda.kinds import LossKind
from baracuda.loss.elementwise import LossDescriptor, LossPlan, _flag


@dataclasses.dataclass(frozen=True)
class WeightedBceWithLogitsDescriptor(LossDescriptor):
    """Weights repeat along the elements in row-major order: those of the last axes, or one each."""

    weight_extent: int = descriptor.extent()
    pos_weight_extent: int = descriptor.extent()


class WeightedBceWithLogitsPlan(LossPlan):
    """Weights that are None are 1. They are f32, f64 for f64."""

    __slots__ = ()
    op = "loss_bce_with_logits_weighted_{T}"
    kind = LossKind.BCE_WITH_LOGITS


class WeightedBceWithLogitsBackwardPlan(WeightedBceWithLogitsPlan):
    __slots__ = ()
    op = "loss_bce_with_logits_weighted_backward_{T}"


@dataclasses.dataclass(frozen=True)
class SigmoidFocalDescriptor(LossDescriptor):
    """alpha is the weight of positive targets, 1 - alpha that of negative ones; a negative alpha means no weights."""

    alpha: float = descriptor.real(default=0.25)
    gamma: float = descriptor.real(default=2.0)


class SigmoidFocalPlan(LossPlan):
    __slots__ = ()
    op = "loss_sigmoid_focal_{T}"
    kind = LossKind.SIGMOID_FOCAL


class SigmoidFocalBackwardPlan(SigmoidFocalPlan):
    __slots__ = ()
    op = "loss_sigmoid_focal_backward_{T}"


@dataclasses.dataclass(frozen=True)
class KlDivBatchDescriptor(LossDescriptor):
    """MEAN divides the sum by batch. log_target: targets are logarithms."""

    batch: int = descriptor.checked(lambda name, value: as_integer(name, value, 0))
    log_target: bool = descriptor.checked(_flag, default=False)


class KlDivBatchPlan(LossPlan):
    __slots__ = ()
    op = "loss_kl_div_batch_{T}"
    kind = LossKind.KL_DIV
    names: ClassVar = {**LossPlan.names, "pred": "input", "log_target_flag": "log_target"}


class KlDivBatchBackwardPlan(KlDivBatchPlan):
    __slots__ = ()
    op = "loss_kl_div_batch_backward_{T}"

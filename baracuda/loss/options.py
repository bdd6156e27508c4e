# SPDX-License-Identifier: Apache-2.0
"""Losses with options that the plain forms lack: class and element weights, constants of likelihoods, distance swap.

reduction and shapes are those of baracuda.loss.elementwise and baracuda.loss.rows. The gradient of FullGaussianNll is
that of GaussianNll.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.kinds import LossKind
from baracuda.loss.elementwise import LossDescriptor, LossPlan, PoissonNllDescriptor, _flag
from baracuda.loss.rows import (
    MultilabelSoftMarginPlan,
    MultiMarginDescriptor,
    RowLossPlan,
    TripletMarginDescriptor,
    TripletMarginPlan,
)


@dataclasses.dataclass(frozen=True)
class WeightedBceDescriptor(LossDescriptor):
    """Weights repeat along the elements in row-major order: those of the last axes, or one each."""

    weight_extent: int = descriptor.extent()


class WeightedBcePlan(LossPlan):
    """Weights that are None are 1. They are f32, f64 for f64."""

    __slots__ = ()
    op = "loss_bce_weighted_{T}"
    kind = LossKind.BCE


class WeightedBceBackwardPlan(WeightedBcePlan):
    __slots__ = ()
    op = "loss_bce_weighted_backward_{T}"


@dataclasses.dataclass(frozen=True)
class FullPoissonNllDescriptor(PoissonNllDescriptor):
    """full adds log(target!) by Stirling's formula, eps is added to a rate before its logarithm."""

    full: bool = descriptor.checked(_flag, default=True)
    eps: float = descriptor.real(default=0.0)


@dataclasses.dataclass(frozen=True)
class FullPoissonNllBackwardDescriptor(PoissonNllDescriptor):
    """The gradient of FullPoissonNll, with or without full."""

    eps: float = descriptor.real(default=0.0)


class FullPoissonNllPlan(LossPlan):
    __slots__ = ()
    op = "loss_poisson_nll_full_{T}"
    kind = LossKind.POISSON_NLL
    names: ClassVar = {**LossPlan.names, "log_input_flag": "log_input", "full_flag": "full"}


class FullPoissonNllBackwardPlan(FullPoissonNllPlan):
    __slots__ = ()
    op = "loss_poisson_nll_full_backward_{T}"


@dataclasses.dataclass(frozen=True)
class FullGaussianNllDescriptor(LossDescriptor):
    """full adds log(2 pi) / 2."""

    eps: float = descriptor.real(default=1e-6)
    full: bool = descriptor.checked(_flag, default=True)


class FullGaussianNllPlan(LossPlan):
    __slots__ = ()
    op = "loss_gaussian_nll_full_{T}"
    kind = LossKind.GAUSSIAN_NLL
    names: ClassVar = {**LossPlan.names, "full_flag": "full"}


@dataclasses.dataclass(frozen=True)
class TripletMarginSwapDescriptor(TripletMarginDescriptor):
    """swap takes the smaller of the negative's distances from anchor and positive; eps is added to each difference."""

    eps: float = descriptor.real(default=0.0)
    swap: bool = descriptor.checked(_flag, default=True)


class TripletMarginSwapPlan(RowLossPlan):
    __slots__ = ()
    op = "loss_triplet_margin_swap_{T}"
    kind = LossKind.TRIPLET_MARGIN
    names: ClassVar = {**TripletMarginPlan.names, "swap_flag": "swap"}


class TripletMarginSwapBackwardPlan(TripletMarginSwapPlan):
    __slots__ = ()
    op = "loss_triplet_margin_swap_backward_{T}"


class WeightedMultiMarginPlan(RowLossPlan):
    """Weights of the classes, f32, f64 for f64; None: 1."""

    __slots__ = ()
    descriptor_base = MultiMarginDescriptor
    op = "loss_multi_margin_weighted{I}_{T}"
    kind = LossKind.MULTI_MARGIN
    names: ClassVar = {**RowLossPlan.names, "row_stride": "class_extent"}


class WeightedMultiMarginBackwardPlan(WeightedMultiMarginPlan):
    __slots__ = ()
    descriptor_base = MultiMarginDescriptor
    op = "loss_multi_margin_weighted_backward{I}_{T}"


class WeightedMultilabelSoftMarginPlan(RowLossPlan):
    """Weights of the classes, f32, f64 for f64; None: 1."""

    __slots__ = ()
    descriptor_base = MultilabelSoftMarginPlan.descriptor_type
    op = "loss_multilabel_soft_margin_weighted_{T}"
    kind = LossKind.MULTILABEL_SOFT_MARGIN


class WeightedMultilabelSoftMarginBackwardPlan(WeightedMultilabelSoftMarginPlan):
    __slots__ = ()
    descriptor_base = MultilabelSoftMarginPlan.descriptor_type
    op = "loss_multilabel_soft_margin_weighted_backward_{T}"

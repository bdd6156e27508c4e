# SPDX-License-Identifier: Apache-2.0
"""Losses over classes of [N, C, d...] with class weights: cross entropy of indices or probabilities, and NLL.

reduction NONE gives a loss for each (item, d...); MEAN and SUM give one number of shape (1,). The header has the
formulas. A gradient takes dy, of the shape of the forward's output.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import as_integer, as_real
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import LossKind, LossReduction, OpCategory
from baracuda.plan import Plan


def _smoothing(name: str, value: object) -> float:
    number = as_real(name, value)
    if not 0 <= number <= 1:
        raise InvalidProblemError(f"{name} is {number}, must be in [0, 1]")
    return number


@dataclasses.dataclass(frozen=True)
class ClassItemsDescriptor(Descriptor):
    """Base: n_rows items of class_extent logits at each coordinate of inner_shape: [N, C, d...]."""

    n_rows: int = descriptor.extent()
    class_extent: int = descriptor.extent()
    reduction: LossReduction = descriptor.choice(LossReduction)
    inner_shape: tuple[int, ...] = descriptor.shape(default=())

    @property
    def inner_extent(self) -> int:
        return descriptor.product("inner_shape", self.inner_shape)

    @property
    def row_stride_input(self) -> int:
        return self.class_extent * self.inner_extent

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.n_rows, self.class_extent, *self.inner_shape

    @property
    def target_shape(self) -> tuple[int, ...]:
        return self.n_rows, *self.inner_shape

    @property
    def result_shape(self) -> tuple[int, ...]:
        return self.target_shape if self.reduction is LossReduction.NONE else (1,)


class ClassItemsPlan(Plan):
    """Base of the plans of ClassItemsDescriptor."""

    __slots__ = ()
    category = OpCategory.LOSS
    shapes: ClassVar = {
        "input": "input_shape", "dinput": "input_shape", "target": "target_shape", "out": "result_shape",
        "dy": "result_shape",
    }  # fmt: skip
    names: ClassVar = {"reduction_mode": "reduction"}


@dataclasses.dataclass(frozen=True)
class WeightedCrossEntropyDescriptor(ClassItemsDescriptor):
    """z_loss is the coefficient of the squared logsumexp of each row that is not ignored."""

    ignore_index: int = descriptor.checked(as_integer, default=-100)
    label_smoothing: float = descriptor.checked(_smoothing, default=0.0)
    z_loss: float = descriptor.real(default=0.0)


class WeightedCrossEntropyPlan(ClassItemsPlan):
    """Cross entropy with class weights, ignore_index, label smoothing and a z-loss. divisor, one f64, is the sum of the
    weights of the rows that are not ignored, by which MEAN divides.
    """

    __slots__ = ()
    op = "loss_cross_entropy_weighted{I}_{T}"
    kind = LossKind.CROSS_ENTROPY


class WeightedCrossEntropyBackwardPlan(WeightedCrossEntropyPlan):
    """divisor is that of the forward op."""

    __slots__ = ()
    op = "loss_cross_entropy_weighted_backward{I}_{T}"


class CrossEntropyWithGradientPlan(WeightedCrossEntropyPlan):
    """The loss and the gradient of the logits in one pass. dinput may be the input. The gradient is multiplied by dy;
    None means 1.
    """

    __slots__ = ()
    op = "loss_cross_entropy_with_gradient{I}_{T}"


@dataclasses.dataclass(frozen=True)
class WeightedNllDescriptor(ClassItemsDescriptor):
    ignore_index: int = descriptor.checked(as_integer, default=-100)


class WeightedNllPlan(ClassItemsPlan):
    """Negative log-likelihood with class weights and ignore_index. divisor, one f64, is the sum of the weights of the
    rows that are not ignored, by which MEAN divides.
    """

    __slots__ = ()
    op = "loss_nll_weighted{I}_{T}"
    kind = LossKind.NLL


class WeightedNllBackwardPlan(WeightedNllPlan):
    """divisor is that of the forward op."""

    __slots__ = ()
    op = "loss_nll_weighted_backward{I}_{T}"


@dataclasses.dataclass(frozen=True)
class WeightedSoftCrossEntropyDescriptor(ClassItemsDescriptor):
    """Targets are probabilities, of the shape of the input."""

    label_smoothing: float = descriptor.checked(_smoothing, default=0.0)


class WeightedSoftCrossEntropyPlan(ClassItemsPlan):
    """Cross entropy of probabilities with class weights and label smoothing."""

    __slots__ = ()
    op = "loss_cross_entropy_soft_weighted_{T}"
    kind = LossKind.CROSS_ENTROPY
    shapes: ClassVar = {**ClassItemsPlan.shapes, "target": "input_shape", "dtarget": "input_shape"}


class WeightedSoftCrossEntropyBackwardPlan(WeightedSoftCrossEntropyPlan):
    __slots__ = ()
    op = "loss_cross_entropy_soft_weighted_backward_{T}"
    fields: ClassVar = {"weight": "last"}

# SPDX-License-Identifier: Apache-2.0
"""Losses of n_rows rows of class_extent or d_extent elements, one loss for each row.

reduction NONE gives a loss for each row, MEAN and SUM give one number of shape (1,). The header has the formulas. A
gradient takes dy, of the shape of the forward's output. Rows are dense here; C takes any pitch.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Protocol

from baracuda import descriptor
from baracuda._call.scalars import as_integer
from baracuda.descriptor import Descriptor
from baracuda.kinds import CrossEntropyTargetKind, LossKind, LossReduction, OpCategory
from baracuda.plan import ParamPlan


class _Reduced(Protocol):
    """The members that a subclass of RowLossDescriptor has."""

    @property
    def n_rows(self) -> int: ...

    @property
    def reduction(self) -> LossReduction: ...


@dataclasses.dataclass(frozen=True)
class RowLossDescriptor(Descriptor):
    """Base: the reduction."""

    n_rows: int = descriptor.extent()

    @property
    def results(self: _Reduced) -> int:
        return self.n_rows if self.reduction is LossReduction.NONE else 1

    @property
    def scale_scalar(self: _Reduced) -> float:
        return 1 / max(self.n_rows, 1) if self.reduction is LossReduction.MEAN else 1.0


@dataclasses.dataclass(frozen=True)
class ClassRowsDescriptor(RowLossDescriptor):
    """A row has a number for each class."""

    class_extent: int = descriptor.extent()
    reduction: LossReduction = descriptor.choice(LossReduction)

    @property
    def input_shape(self) -> tuple[int, int]:
        return self.n_rows, self.class_extent

    @property
    def dinput_numel(self) -> int:
        return self.n_rows * self.class_extent


@dataclasses.dataclass(frozen=True)
class VectorRowsDescriptor(RowLossDescriptor):
    """Base: a row is a vector."""

    d_extent: int = descriptor.extent()
    reduction: LossReduction = descriptor.choice(LossReduction)


class RowLossPlan(ParamPlan):
    """Base of the plans of this module."""

    __slots__ = ()
    descriptor_base: ClassVar[type[Descriptor]] = ClassRowsDescriptor
    category = OpCategory.LOSS
    names: ClassVar = {
        "reduction_mode": "reduction",
        **dict.fromkeys(("row_stride_input", "row_stride_target", "row_stride_in", "row_stride_tgt"), "class_extent"),
    }


class NllPlan(RowLossPlan):
    __slots__ = ()
    op = "loss_nll_{T}"
    kind = LossKind.NLL


class NllBackwardPlan(NllPlan):
    __slots__ = ()
    op = "loss_nll_backward_{T}"
    shapes: ClassVar = {"dinput": "input_shape"}


@dataclasses.dataclass(frozen=True)
class CosineEmbeddingDescriptor(VectorRowsDescriptor):
    margin: float = descriptor.real()


class CosineEmbeddingPlan(RowLossPlan):
    __slots__ = ()
    op = "loss_cosine_embedding_{T}"
    others = ("loss_cosine_embedding_param_{T}",)
    kind = LossKind.COSINE_EMBEDDING
    names: ClassVar = {
        **RowLossPlan.names,
        "row_stride_x": "d_extent",
    }


class CosineEmbeddingBackwardPlan(CosineEmbeddingPlan):
    __slots__ = ()
    op = "loss_cosine_embedding_backward_{T}"
    others = ("loss_cosine_embedding_param_backward_{T}",)


@dataclasses.dataclass(frozen=True)
class TripletMarginDescriptor(VectorRowsDescriptor):
    margin: float = descriptor.real()
    p_norm: float = descriptor.real()


class TripletMarginPlan(RowLossPlan):
    __slots__ = ()
    op = "loss_triplet_margin_{T}"
    others = ("loss_triplet_margin_param_{T}",)
    kind = LossKind.TRIPLET_MARGIN
    names: ClassVar = {
        **RowLossPlan.names,
        "a": "anchor",
        "p_tensor": "positive",
        "n_tensor": "negative",
        "da": "d_anchor",
        "dp": "d_positive",
        "dn": "d_negative",
        "row_stride": "d_extent",
    }


class TripletMarginBackwardPlan(TripletMarginPlan):
    __slots__ = ()
    op = "loss_triplet_margin_backward_{T}"
    others = ("loss_triplet_margin_param_backward_{T}",)


@dataclasses.dataclass(frozen=True)
class MultiMarginDescriptor(ClassRowsDescriptor):
    margin: float = descriptor.real()
    p_norm: float = descriptor.real()


class MultiMarginPlan(RowLossPlan):
    __slots__ = ()
    op = "loss_multi_margin_{T}"
    others = ("loss_multi_margin_param_{T}",)
    kind = LossKind.MULTI_MARGIN
    names: ClassVar = {
        **RowLossPlan.names,
        "row_stride": "class_extent",
    }


class MultiMarginBackwardPlan(MultiMarginPlan):
    __slots__ = ()
    op = "loss_multi_margin_backward_{T}"
    others = ("loss_multi_margin_param_backward_{T}",)


class MultilabelMarginPlan(RowLossPlan):
    __slots__ = ()
    op = "loss_multilabel_margin_{T}"
    others = ("loss_multilabel_margin_i32_{T}",)
    kind = LossKind.MULTILABEL_MARGIN


class MultilabelMarginBackwardPlan(MultilabelMarginPlan):
    __slots__ = ()
    op = "loss_multilabel_margin_backward_{T}"
    others = ("loss_multilabel_margin_i32_backward_{T}",)


class MultilabelSoftMarginPlan(RowLossPlan):
    __slots__ = ()
    op = "loss_multilabel_soft_margin_{T}"
    kind = LossKind.MULTILABEL_SOFT_MARGIN


class MultilabelSoftMarginBackwardPlan(MultilabelSoftMarginPlan):
    __slots__ = ()
    op = "loss_multilabel_soft_margin_backward_{T}"


@dataclasses.dataclass(frozen=True)
class CrossEntropyDescriptor(ClassRowsDescriptor):
    target_kind: CrossEntropyTargetKind = descriptor.choice(CrossEntropyTargetKind)


class CrossEntropyPlan(RowLossPlan):
    """target for CLASS_INDEX, soft_target for SOFT_PROB."""

    __slots__ = ()
    op = "loss_cross_entropy_{T}"
    fields: ClassVar = {"out": "optional"}
    others = ("loss_cross_entropy_soft_{T}",)
    kind = LossKind.CROSS_ENTROPY
    names: ClassVar = {
        **RowLossPlan.names,
        "loss_cross_entropy_soft_{T}: target": "soft_target",
        "loss_cross_entropy_soft_backward_{T}: target": "soft_target",
    }

    def _served(self) -> tuple[str, ...]:
        is_soft = self.descriptor.target_kind is CrossEntropyTargetKind.SOFT_PROB
        return tuple(name for name in super()._served() if ("_soft_" in name) == is_soft)


class CrossEntropyBackwardPlan(CrossEntropyPlan):
    __slots__ = ()
    op = "loss_cross_entropy_backward_{T}"
    fields: ClassVar = {"dy": "optional", "dinput": "optional"}
    others = ("loss_cross_entropy_soft_backward_{T}",)


@dataclasses.dataclass(frozen=True)
class CrossEntropyInPlaceDescriptor(Descriptor):
    """scale multiplies the gradient: 1 / n_rows for the gradient of a mean."""

    n_rows: int = descriptor.extent()
    class_extent: int = descriptor.extent()
    scale: float = descriptor.real(default=1.0)
    ignore_index: int = descriptor.checked(as_integer, default=-100)


class CrossEntropyInPlacePlan(ParamPlan):
    """Cross entropy and its gradient in one pass. The gradient overwrites logits; losses are f32 or, for f64, f64."""

    __slots__ = ()
    op = "loss_flce_per_row_{T}"
    others = ("loss_flce_per_row_param_{T}",)
    category = OpCategory.LOSS
    kind = LossKind.FUSED_LINEAR_CROSS_ENTROPY
    names: ClassVar = {
        "v": "class_extent",
        "row_stride": "class_extent",
        "target_ignore": "ignore_index",
        "scale_per_row": "scale",
        "loss_1d": "losses",
    }

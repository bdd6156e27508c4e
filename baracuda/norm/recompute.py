# SPDX-License-Identifier: Apache-2.0
"""Gradients of norms from x only: they recompute and store the statistics, which the forward op need not save.

Statistics are f32 for 16-bit data. dsum, of the row norms, is a further gradient of x, such as that of the sum that
AddRMSNorm and AddLayerNorm store.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import NormalizationKind, OpCategory
from baracuda.norm.channels import BatchStatistics, ChannelNormDescriptor
from baracuda.norm.norm_operands import GIVEN, RowsDescriptor, eps_field, shape_field
from baracuda.operands import Args
from baracuda.plan import Plan
from baracuda.tensor import TensorRef


@dataclasses.dataclass(frozen=True)
class RMSNormRecomputeBackwardDescriptor(RowsDescriptor):
    """Bit d of norm_axes_mask is set where axis d is normalized."""

    eps: float = eps_field()
    gamma_offset: float = descriptor.real(default=0.0)


@dataclasses.dataclass(frozen=True)
class GroupNormRecomputeBackwardDescriptor(ChannelNormDescriptor):
    """It is the gradient of instance norm with as many groups as channels."""

    input_shape: tuple[int, ...] = shape_field()
    num_groups: int = descriptor.extent()
    eps: float = eps_field()


@dataclasses.dataclass(frozen=True)
class BatchNormRecomputeBackwardDescriptor(BatchStatistics):
    input_shape: tuple[int, ...] = shape_field()
    eps: float = eps_field()


class _RowsPlan(Plan):
    __slots__ = ()
    category = OpCategory.NORMALIZATION
    fields = GIVEN
    names: ClassVar = {"shape": "input_shape", "rms_out": "rms", "mean_out": "mean", "inv_std_out": "inv_std"}
    shapes: ClassVar = dict.fromkeys(("x", "dy", "dsum", "dx"), "input_shape") | dict.fromkeys(
        ("rms", "mean", "inv_std"), "save_shape"
    )

    def views(self, args: Args) -> dict[str, TensorRef | None]:
        views = super().views(args)
        if views["gamma"] is None and views.get("dgamma") is not None:
            raise InvalidProblemError("dgamma is given, but gamma is None")
        return views


class RMSNormRecomputeBackwardPlan(_RowsPlan):
    __slots__ = ()
    op = "rms_norm_recompute_backward_{T}"
    kind = NormalizationKind.RMS_NORM


class LayerNormRecomputeBackwardPlan(_RowsPlan):
    __slots__ = ()
    descriptor_base = RMSNormRecomputeBackwardDescriptor
    op = "layer_norm_recompute_backward_{T}"
    kind = NormalizationKind.LAYER_NORM


class GroupNormRecomputeBackwardPlan(Plan):
    __slots__ = ()
    op = "group_norm_recompute_backward_{T}"
    fields = GIVEN
    category = OpCategory.NORMALIZATION
    kind = NormalizationKind.GROUP_NORM
    names: ClassVar = {"c_extent": "num_channels"}
    shapes: ClassVar = dict.fromkeys(("dy", "x", "dx"), "input_shape")


class BatchNormRecomputeBackwardPlan(GroupNormRecomputeBackwardPlan):
    __slots__ = ()
    kind = NormalizationKind.BATCH_NORM

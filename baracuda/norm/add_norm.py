# SPDX-License-Identifier: Apache-2.0
"""RMS and layer norm of x + residual, which they also store, and their gradients.

The axes whose bits are set in norm_axes_mask are normalized: y = (sum - mean) / deviation * (gamma + gamma_offset) +
beta, with a gamma and a beta for each element of a row; AddRMSNorm has neither mean nor beta. Without a residual they
are norms with gamma_offset (1 for gammas stored as differences from 1) and with unrounded statistics.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import NormalizationKind, OpCategory
from baracuda.norm.norm_operands import GIVEN, RowsDescriptor, eps_field
from baracuda.operands import Args
from baracuda.plan import ParamPlan
from baracuda.tensor import TensorRef


@dataclasses.dataclass(frozen=True)
class AddRMSNormDescriptor(RowsDescriptor):
    """Bit d of norm_axes_mask is set where axis d is normalized."""

    eps: float = eps_field()
    gamma_offset: float = descriptor.real(default=0.0)


@dataclasses.dataclass(frozen=True)
class AddRMSNormBackwardDescriptor(RowsDescriptor):
    """gamma_offset is that of the forward op."""

    gamma_offset: float = descriptor.real(default=0.0)


class _AddNormPlan(ParamPlan):
    __slots__ = ()
    category = OpCategory.NORMALIZATION
    fields = GIVEN
    shapes: ClassVar = dict.fromkeys(("x", "residual", "y", "sum", "dy", "dsum", "dx"), "input_shape") | dict.fromkeys(
        ("rms", "mean", "inv_std"), "save_shape"
    )

    def views(self, args: Args) -> dict[str, TensorRef | None]:
        views = super().views(args)
        if views["gamma"] is None and views.get("dgamma") is not None:
            raise InvalidProblemError("dgamma is given, but gamma is None")
        return views


class AddRMSNormPlan(_AddNormPlan):
    """residual of None means 0, gamma of None means gamma + gamma_offset = 1. rms is f32 for 16-bit data."""

    __slots__ = ()
    op = "add_rms_norm_{T}"
    others = ("add_rms_norm_param_{T}",)
    kind = NormalizationKind.RMS_NORM
    names: ClassVar = {"shape": "input_shape", "rms_out": "rms"}


class AddRMSNormBackwardPlan(_AddNormPlan):
    """sum is what the forward op stored, dsum its incoming gradient; dx is the gradient of x and of the residual."""

    __slots__ = ()
    op = "add_rms_norm_backward_{T}"
    others = ("add_rms_norm_param_backward_{T}",)
    kind = NormalizationKind.RMS_NORM
    names: ClassVar = {"shape": "input_shape"}


class AddLayerNormPlan(_AddNormPlan):
    """residual and beta of None mean 0, gamma of None means gamma + gamma_offset = 1. Statistics are f32 or f64."""

    __slots__ = ()
    descriptor_base = AddRMSNormDescriptor
    op = "add_layer_norm_{T}"
    others = ("add_layer_norm_param_{T}",)
    kind = NormalizationKind.LAYER_NORM
    names: ClassVar = {"shape": "input_shape", "mean_out": "mean", "inv_std_out": "inv_std"}


class AddLayerNormBackwardPlan(_AddNormPlan):
    """sum is what the forward op stored, dsum its incoming gradient; dx is the gradient of x and of the residual."""

    __slots__ = ()
    descriptor_base = AddRMSNormBackwardDescriptor
    op = "add_layer_norm_backward_{T}"
    others = ("add_layer_norm_param_backward_{T}",)
    kind = NormalizationKind.LAYER_NORM
    names: ClassVar = {"shape": "input_shape", "mean_in": "mean", "inv_std_in": "inv_std"}

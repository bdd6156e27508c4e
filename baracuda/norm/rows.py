# SPDX-License-Identifier: Apache-2.0
"""RMS and layer norm, and their gradients.

RMSNorm and LayerNorm normalize the axes whose bits are set in norm_axes_mask: y = (x - mean) / deviation * gamma +
beta, with a gamma and a beta for each element of a row; RMSNorm has neither mean nor beta. The forward op outputs the
statistics that the gradient reads, in the data's dtype; rms and deviations include eps.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda.errors import InvalidProblemError
from baracuda.kinds import NormalizationKind, OpCategory
from baracuda.norm.norm_operands import GIVEN, RowsDescriptor, eps_field, flag_field, require_together
from baracuda.operands import Args
from baracuda.plan import ParamPlan
from baracuda.tensor import TensorRef


@dataclasses.dataclass(frozen=True)
class RMSNormDescriptor(RowsDescriptor):
    """Bit d of norm_axes_mask is set where axis d is normalized."""

    eps: float = eps_field()
    has_gamma: bool = flag_field()

    @property
    def rms_shape(self) -> tuple[int, ...]:
        return self.save_shape


@dataclasses.dataclass(frozen=True)
class RMSNormBackwardDescriptor(RowsDescriptor):
    has_gamma: bool = flag_field()

    @property
    def rms_shape(self) -> tuple[int, ...]:
        return self.save_shape


@dataclasses.dataclass(frozen=True)
class LayerNormDescriptor(RowsDescriptor):
    """Bit d of norm_axes_mask is set where axis d is normalized."""

    eps: float = eps_field()
    has_gamma: bool = flag_field()
    has_beta: bool = flag_field()


@dataclasses.dataclass(frozen=True)
class LayerNormBackwardDescriptor(RowsDescriptor):
    has_gamma: bool = flag_field()
    has_beta: bool = flag_field()


class _RowNormPlan(ParamPlan):
    __slots__ = ()
    category = OpCategory.NORMALIZATION
    fields = GIVEN

    def views(self, args: Args) -> dict[str, TensorRef | None]:
        views, valid = super().views(args), self.descriptor
        require_together(views, valid.has_gamma, "has_gamma", "gamma")
        if "beta" in views:
            require_together(views, valid.has_beta, "has_beta", "beta")
        for name, field in (("dgamma", "has_gamma"), ("dbeta", "has_beta")):
            if views.get(name) is not None and not getattr(valid, field):
                raise InvalidProblemError(f"{name} is given, but {field} is False")
        mean, inv_std = views.get("mean"), views.get("inv_std")
        if (mean is None) != (inv_std is None):
            raise InvalidProblemError("mean and inv_std must both be given, or neither")
        if mean is not None and inv_std is not None and mean.strides != inv_std.strides:
            raise InvalidProblemError(f"inv_std has strides {inv_std.strides}, mean has {mean.strides}: must be equal")
        return views


class RMSNormPlan(_RowNormPlan):
    __slots__ = ()
    op = "rms_norm_{T}"
    others = ("rms_norm_param_{T}",)
    kind = NormalizationKind.RMS_NORM
    names: ClassVar = {"shape": "input_shape", "rms_out": "rms", "stride_rms": "rms"}
    shapes: ClassVar = {"x": "input_shape", "y": "input_shape", "rms": "save_shape"}


class RMSNormBackwardPlan(_RowNormPlan):
    __slots__ = ()
    op = "rms_norm_backward_{T}"
    kind = NormalizationKind.RMS_NORM
    names: ClassVar = {"shape": "input_shape", "stride_rms": "rms"}
    shapes: ClassVar = {"dy": "input_shape", "x": "input_shape", "dx": "input_shape", "rms": "save_shape"}


class LayerNormPlan(_RowNormPlan):
    """mean and inv_std have equal strides; give both or neither."""

    __slots__ = ()
    op = "layer_norm_{T}"
    others = ("layer_norm_param_{T}",)
    kind = NormalizationKind.LAYER_NORM
    names: ClassVar = {"shape": "input_shape", "mean_out": "mean", "inv_std_out": "inv_std", "stride_save": "mean"}
    shapes: ClassVar = {"x": "input_shape", "y": "input_shape", "mean": "save_shape", "inv_std": "save_shape"}


class LayerNormBackwardPlan(_RowNormPlan):
    __slots__ = ()
    op = "layer_norm_backward_{T}"
    kind = NormalizationKind.LAYER_NORM
    names: ClassVar = {"shape": "input_shape", "mean_in": "mean", "inv_std_in": "inv_std", "stride_save": "mean"}
    shapes: ClassVar = dict.fromkeys(("dy", "x", "dx"), "input_shape") | dict.fromkeys(
        ("mean", "inv_std"), "save_shape"
    )

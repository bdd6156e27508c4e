# SPDX-License-Identifier: Apache-2.0
"""L2 normalization, weight norm, and their gradients.

L2Normalize: x / max(|x|, eps); WeightNorm: g * v / |v|, with an element of g for each row. A row has the axes whose
bits are set in norm_axes_mask. Gradients recompute the norms.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda.kinds import NormalizationKind, OpCategory
from baracuda.norm.norm_operands import RowsDescriptor, eps_field
from baracuda.plan import ParamPlan


@dataclasses.dataclass(frozen=True)
class L2NormalizeDescriptor(RowsDescriptor):
    """Bit d of norm_axes_mask is set where axis d is normalized."""

    eps: float = eps_field()


@dataclasses.dataclass(frozen=True)
class WeightNormDescriptor(RowsDescriptor):
    """Bit d of norm_axes_mask is set where axis d is normalized."""


class _L2NormPlan(ParamPlan):
    __slots__ = ()
    category = OpCategory.NORMALIZATION
    names: ClassVar = {"shape": "input_shape", "norm_out": "norm"}
    shapes: ClassVar = dict.fromkeys(("x", "y", "dy", "dx", "v", "w", "dw", "dv"), "input_shape") | dict.fromkeys(
        ("norm", "g", "dg"), "save_shape"
    )


class L2NormalizePlan(_L2NormPlan):
    """norm, of save_shape, is f32 for 16-bit data."""

    __slots__ = ()
    op = "l2_normalize_{T}"
    others = ("l2_normalize_param_{T}",)
    kind = NormalizationKind.L2_NORMALIZE


class L2NormalizeBackwardPlan(_L2NormPlan):
    __slots__ = ()
    descriptor_base = L2NormalizeDescriptor
    op = "l2_normalize_backward_{T}"
    others = ("l2_normalize_param_backward_{T}",)
    kind = NormalizationKind.L2_NORMALIZE


class WeightNormPlan(_L2NormPlan):
    """g is of save_shape, as is norm, which is f32 for 16-bit data."""

    __slots__ = ()
    op = "weight_norm_{T}"
    kind = NormalizationKind.WEIGHT_NORM


class WeightNormBackwardPlan(_L2NormPlan):
    __slots__ = ()
    descriptor_base = WeightNormDescriptor
    op = "weight_norm_backward_{T}"
    kind = NormalizationKind.WEIGHT_NORM

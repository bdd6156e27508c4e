# SPDX-License-Identifier: Apache-2.0
"""Batch norm for training and inference, with running statistics, channels first or last.

BatchNormTraining normalizes each channel by its mean and variance over the batch and updates the running statistics, in
place if new_running_mean is running_mean; BatchNormInference normalizes by the running statistics. Parameters,
statistics and their gradients are f32 for 16-bit activations.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import NormalizationKind, OpCategory
from baracuda.norm.norm_operands import GIVEN, axis_field, eps_field, shape_field
from baracuda.plan import ParamPlan


@dataclasses.dataclass(frozen=True)
class _BatchDescriptor(Descriptor):
    input_shape: tuple[int, ...] = shape_field()
    channel_axis: int = axis_field()

    def validated(self) -> Any:
        valid = super().validated()
        rank = len(valid.input_shape)
        if rank < 2:
            raise InvalidProblemError(f"input_shape is {valid.input_shape}, must have two axes or more")
        if valid.channel_axis not in (1, rank - 1):
            raise UnsupportedError(f"channel_axis is {valid.channel_axis}, must be 1 or the last, {rank - 1}")
        if valid.spatial_extent > INT32_MAX:
            raise UnsupportedError(
                f"input_shape is {valid.input_shape}: {valid.spatial_extent} elements a channel of an item"
            )
        return valid

    @property
    def num_channels(self) -> int:
        return int(self.input_shape[self.channel_axis])

    @property
    def n_extent(self) -> int:
        return int(self.input_shape[0])

    @property
    def spatial_extent(self) -> int:
        return math.prod(extent for d, extent in enumerate(self.input_shape) if d not in (0, self.channel_axis))

    @property
    def channels_last(self) -> int:
        return int(self.channel_axis != 1)

    @property
    def statistic_count(self) -> int:
        """Channels with statistics: 0 for an empty input."""
        return 0 if 0 in self.input_shape else self.num_channels


@dataclasses.dataclass(frozen=True)
class BatchNormTrainingDescriptor(_BatchDescriptor):
    """channel_axis is 1, or the last. momentum is the weight of the batch in the new running statistics."""

    eps: float = eps_field()
    momentum: float = descriptor.real(default=0.1)


@dataclasses.dataclass(frozen=True)
class BatchNormInferenceDescriptor(_BatchDescriptor):
    """channel_axis is 1, or the last."""

    eps: float = eps_field()


@dataclasses.dataclass(frozen=True)
class BatchNormTrainingBackwardDescriptor(_BatchDescriptor):
    """channel_axis is 1, or the last."""


class _BatchPlan(ParamPlan):
    __slots__ = ()
    category = OpCategory.NORMALIZATION
    fields = GIVEN
    kind = NormalizationKind.BATCH_NORM
    names: ClassVar = {"c_extent": "num_channels"}
    shapes: ClassVar = dict.fromkeys(("dy", "x", "y", "dx"), "input_shape")


class BatchNormTrainingPlan(_BatchPlan):
    """gamma and running_var of None mean 1, beta and running_mean of None mean 0."""

    __slots__ = ()
    op = "batch_norm_training_{T}"
    others = ("batch_norm_training_param_{T}",)


class BatchNormInferencePlan(_BatchPlan):
    """gamma of None means 1, beta of None means 0."""

    __slots__ = ()
    op = "batch_norm_inference_{T}"
    others = ("batch_norm_inference_param_{T}",)


class BatchNormTrainingBackwardPlan(_BatchPlan):
    """dgamma and dbeta are required, since dx is computed from them."""

    __slots__ = ()
    op = "batch_norm_training_backward_{T}"

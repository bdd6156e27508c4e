"""RMS, layer, batch, group and instance norm, and their gradients.

RMSNorm and LayerNorm normalize the axes whose bits are set in norm_axes_mask: y = (x - mean) / deviation * gamma +
beta, with a gamma and a beta for each element of a row; RMSNorm has neither mean nor beta. BatchNorm, GroupNorm and
InstanceNorm normalize groups of channels, axis 1, over the axes behind it: of BatchNorm a channel of the whole batch
is a group, of InstanceNorm one of an item, of GroupNorm num_groups equal parts of an item's channels; gamma and beta
have an element a channel. The statistics that a gradient reads are outputs of the forward op, of the data's dtype:
rms and deviations with eps.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._scalars import INT32_MAX, as_integer, as_real
from baracuda.descriptor import Descriptor, product
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import NormalizationKind, OpCategory
from baracuda.operands import Args, Viewable
from baracuda.plan import Plan
from baracuda.tensor import TensorRef

_OF_BATCH, _OF_ITEM = 0, 1  # as C numbers group_kind


def _eps(name: str, value: object) -> float:
    eps = as_real(name, value)
    if not (math.isfinite(eps) and eps >= 0):
        raise InvalidProblemError(f"{name} is {value!r}, must be finite and >= 0")
    return eps


def eps_field() -> Any:
    return descriptor.checked(_eps)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidProblemError(f"{name} is {value!r}, must be True or False")
    return value


def _together(views: dict[str, TensorRef | None], wanted: bool, field: str, *names: str) -> None:
    """Operands that are there if the descriptor's field says so, and only then."""
    for name in names:
        if (views[name] is not None) != wanted:
            raise InvalidProblemError(f"{name} is {'None' if wanted else 'given'}, but {field} is {wanted}")


# --- rows ------------------------------------------------------------------------------------------------------------


class RowsDescriptor(Descriptor):
    """Of ops on rows of the axes whose bits are set in norm_axes_mask."""

    input_shape: Any
    norm_axes_mask: Any

    def validated(self) -> Any:
        valid = super().validated()
        rank, mask = len(valid.input_shape), valid.norm_axes_mask
        if rank == 0 or mask >> rank:
            raise InvalidProblemError(f"norm_axes_mask is {mask}, must have bits of the {rank} axes alone")
        if valid.norm_total_extent > INT32_MAX:
            raise UnsupportedError(f"rows of {valid.norm_total_extent} elements; at most {INT32_MAX} are supported")
        return valid

    @property
    def rank(self) -> int:
        return len(self.input_shape)

    @property
    def numel(self) -> int:
        return product("input_shape", self.input_shape)

    @property
    def norm_total_extent(self) -> int:
        """Elements of a row."""
        return math.prod(extent for d, extent in enumerate(self.input_shape) if self.norm_axes_mask >> d & 1)

    @property
    def save_shape(self) -> tuple[int, ...]:
        """Of the saved statistics: input_shape with 1 for each normalized axis."""
        return tuple([1 if self.norm_axes_mask >> d & 1 else extent for d, extent in enumerate(self.input_shape)])


def mask_field() -> Any:
    return descriptor.checked(lambda name, value: as_integer(name, value, 1, 255))


def shape_field() -> Any:
    return descriptor.shape(high=INT32_MAX)


@dataclasses.dataclass(frozen=True)
class RMSNormDescriptor(RowsDescriptor):
    """Bit d of norm_axes_mask is set where axis d is normalized."""

    input_shape: tuple[int, ...] = shape_field()
    norm_axes_mask: int = mask_field()
    eps: float = eps_field()
    has_gamma: bool = descriptor.checked(_flag)

    @property
    def rms_shape(self) -> tuple[int, ...]:
        return self.save_shape


@dataclasses.dataclass(frozen=True)
class RMSNormBackwardDescriptor(RowsDescriptor):
    input_shape: tuple[int, ...] = shape_field()
    norm_axes_mask: int = mask_field()
    has_gamma: bool = descriptor.checked(_flag)

    @property
    def rms_shape(self) -> tuple[int, ...]:
        return self.save_shape


@dataclasses.dataclass(frozen=True)
class LayerNormDescriptor(RowsDescriptor):
    """Bit d of norm_axes_mask is set where axis d is normalized."""

    input_shape: tuple[int, ...] = shape_field()
    norm_axes_mask: int = mask_field()
    eps: float = eps_field()
    has_gamma: bool = descriptor.checked(_flag)
    has_beta: bool = descriptor.checked(_flag)


@dataclasses.dataclass(frozen=True)
class LayerNormBackwardDescriptor(RowsDescriptor):
    input_shape: tuple[int, ...] = shape_field()
    norm_axes_mask: int = mask_field()
    has_gamma: bool = descriptor.checked(_flag)
    has_beta: bool = descriptor.checked(_flag)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RMSNormArgs(Args):
    x: Viewable
    gamma: Viewable
    y: Viewable
    rms: Viewable = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RMSNormBackwardArgs(Args):
    dy: Viewable
    x: Viewable
    gamma: Viewable
    rms: Viewable
    dx: Viewable
    dgamma: Viewable = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LayerNormArgs(Args):
    """mean and inv_std, of equal strides, are both there or neither is."""

    x: Viewable
    gamma: Viewable
    beta: Viewable
    y: Viewable
    mean: Viewable = None
    inv_std: Viewable = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LayerNormBackwardArgs(Args):
    dy: Viewable
    x: Viewable
    gamma: Viewable
    mean: Viewable
    inv_std: Viewable
    dx: Viewable
    dgamma: Viewable = None
    dbeta: Viewable = None


class _RowNormPlan(Plan):
    __slots__ = ()
    category = OpCategory.NORMALIZATION

    def views(self, args: Args) -> dict[str, TensorRef | None]:
        views, valid = super().views(args), self.descriptor
        _together(views, valid.has_gamma, "has_gamma", "gamma")
        if "beta" in views:
            _together(views, valid.has_beta, "has_beta", "beta")
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
    kind = NormalizationKind.RMS_NORM
    descriptor_type: ClassVar[type[Descriptor]] = RMSNormDescriptor
    args_type: ClassVar[type[Args]] = RMSNormArgs
    names: ClassVar = {"shape": "input_shape", "rms_out": "rms", "stride_rms": "rms"}
    shapes: ClassVar = {"x": "input_shape", "y": "input_shape", "rms": "save_shape"}


class RMSNormBackwardPlan(_RowNormPlan):
    __slots__ = ()
    op = "rms_norm_backward_{T}"
    kind = NormalizationKind.RMS_NORM
    descriptor_type: ClassVar[type[Descriptor]] = RMSNormBackwardDescriptor
    args_type: ClassVar[type[Args]] = RMSNormBackwardArgs
    names: ClassVar = {"shape": "input_shape", "stride_rms": "rms"}
    shapes: ClassVar = {"dy": "input_shape", "x": "input_shape", "dx": "input_shape", "rms": "save_shape"}


class LayerNormPlan(_RowNormPlan):
    __slots__ = ()
    op = "layer_norm_{T}"
    kind = NormalizationKind.LAYER_NORM
    descriptor_type: ClassVar[type[Descriptor]] = LayerNormDescriptor
    args_type: ClassVar[type[Args]] = LayerNormArgs
    names: ClassVar = {"shape": "input_shape", "mean_out": "mean", "inv_std_out": "inv_std", "stride_save": "mean"}
    shapes: ClassVar = {"x": "input_shape", "y": "input_shape", "mean": "save_shape", "inv_std": "save_shape"}


class LayerNormBackwardPlan(_RowNormPlan):
    __slots__ = ()
    op = "layer_norm_backward_{T}"
    kind = NormalizationKind.LAYER_NORM
    descriptor_type: ClassVar[type[Descriptor]] = LayerNormBackwardDescriptor
    args_type: ClassVar[type[Args]] = LayerNormBackwardArgs
    names: ClassVar = {"shape": "input_shape", "mean_in": "mean", "inv_std_in": "inv_std", "stride_save": "mean"}
    shapes: ClassVar = dict.fromkeys(("dy", "x", "dx"), "input_shape") | dict.fromkeys(
        ("mean", "inv_std"), "save_shape"
    )


# --- channels --------------------------------------------------------------------------------------------------------


class _ChannelNormDescriptor(Descriptor):
    input_shape: Any
    channel_axis: Any

    def validated(self) -> Any:
        valid = super().validated()
        if len(valid.input_shape) < 2:
            raise InvalidProblemError(f"input_shape is {valid.input_shape}, must have two axes or more")
        if valid.channel_axis != 1:
            raise UnsupportedError(f"channel_axis is {valid.channel_axis}, must be 1")
        if valid.spatial_extent > INT32_MAX:
            raise UnsupportedError(
                f"input_shape is {valid.input_shape}: {valid.spatial_extent} elements a channel of an item"
            )
        groups, channels = valid.num_groups, valid.num_channels
        if valid.group_kind == _OF_ITEM and (groups < 1 or channels % groups):
            raise InvalidProblemError(f"num_groups is {groups}, must divide the {channels} channels")
        return valid

    @property
    def num_channels(self) -> int:
        return int(self.input_shape[1])

    @property
    def n_extent(self) -> int:
        return int(self.input_shape[0])

    @property
    def spatial_extent(self) -> int:
        return math.prod(self.input_shape[2:])

    @property
    def group_kind(self) -> int:
        return _OF_ITEM

    @property
    def group_count(self) -> int:
        """Groups that have statistics of their own."""
        return self.num_channels if self.group_kind == _OF_BATCH else self.n_extent * int(self.num_groups)

    num_groups: Any


def _axis() -> Any:
    return descriptor.checked(lambda name, value: as_integer(name, value, 0, 255))


class _OneGroupAChannel(_ChannelNormDescriptor):
    @property
    def num_groups(self) -> int:
        return max(self.num_channels, 1)


@dataclasses.dataclass(frozen=True)
class InstanceNormDescriptor(_OneGroupAChannel):
    """channel_axis is 1. gamma and beta are there if has_affine says so."""

    input_shape: tuple[int, ...] = shape_field()
    channel_axis: int = _axis()
    eps: float = eps_field()
    has_affine: bool = descriptor.checked(_flag)


@dataclasses.dataclass(frozen=True)
class InstanceNormBackwardDescriptor(_OneGroupAChannel):
    input_shape: tuple[int, ...] = shape_field()
    channel_axis: int = _axis()
    has_affine: bool = descriptor.checked(_flag)


class _OfBatch(_OneGroupAChannel):
    @property
    def group_kind(self) -> int:
        return _OF_BATCH


@dataclasses.dataclass(frozen=True)
class BatchNormDescriptor(_OfBatch):
    """channel_axis is 1. gamma and beta are there if has_affine says so."""

    input_shape: tuple[int, ...] = shape_field()
    channel_axis: int = _axis()
    eps: float = eps_field()
    has_affine: bool = descriptor.checked(_flag)


@dataclasses.dataclass(frozen=True)
class BatchNormBackwardDescriptor(_OfBatch):
    input_shape: tuple[int, ...] = shape_field()
    channel_axis: int = _axis()
    has_affine: bool = descriptor.checked(_flag)


@dataclasses.dataclass(frozen=True)
class GroupNormDescriptor(_ChannelNormDescriptor):
    """channel_axis is 1. gamma and beta are there if has_affine says so."""

    input_shape: tuple[int, ...] = shape_field()
    channel_axis: int = _axis()
    num_groups: int = descriptor.extent()
    eps: float = eps_field()
    has_affine: bool = descriptor.checked(_flag)


@dataclasses.dataclass(frozen=True)
class GroupNormBackwardDescriptor(_ChannelNormDescriptor):
    input_shape: tuple[int, ...] = shape_field()
    channel_axis: int = _axis()
    num_groups: int = descriptor.extent()
    has_affine: bool = descriptor.checked(_flag)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BatchNormArgs(Args):
    x: Viewable
    gamma: Viewable
    beta: Viewable
    y: Viewable
    saved_mean: Viewable
    saved_rstd: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GroupNormArgs(BatchNormArgs):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class InstanceNormArgs(BatchNormArgs):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BatchNormBackwardArgs(Args):
    """dgamma and dbeta are there if the descriptor's has_affine says so."""

    dy: Viewable
    x: Viewable
    gamma: Viewable
    saved_mean: Viewable
    saved_rstd: Viewable
    dx: Viewable
    dgamma: Viewable = None
    dbeta: Viewable = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GroupNormBackwardArgs(BatchNormBackwardArgs):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class InstanceNormBackwardArgs(BatchNormBackwardArgs):
    pass


class _ChannelNormPlan(Plan):
    __slots__ = ()
    category = OpCategory.NORMALIZATION
    names: ClassVar = {"c_extent": "num_channels"}
    shapes: ClassVar = dict.fromkeys(("dy", "x", "y", "dx"), "input_shape")

    def views(self, args: Args) -> dict[str, TensorRef | None]:
        views = super().views(args)
        affine = [name for name in ("gamma", "beta", "dgamma", "dbeta") if name in views]
        _together(views, self.descriptor.has_affine, "has_affine", *affine)
        return views


class BatchNormPlan(_ChannelNormPlan):
    __slots__ = ()
    op = "batch_norm_{T}"
    kind = NormalizationKind.BATCH_NORM
    descriptor_type: ClassVar[type[Descriptor]] = BatchNormDescriptor
    args_type: ClassVar[type[Args]] = BatchNormArgs


class BatchNormBackwardPlan(_ChannelNormPlan):
    __slots__ = ()
    op = "batch_norm_backward_{T}"
    kind = NormalizationKind.BATCH_NORM
    descriptor_type: ClassVar[type[Descriptor]] = BatchNormBackwardDescriptor
    args_type: ClassVar[type[Args]] = BatchNormBackwardArgs


class GroupNormPlan(_ChannelNormPlan):
    __slots__ = ()
    op = "group_norm_{T}"
    kind = NormalizationKind.GROUP_NORM
    descriptor_type: ClassVar[type[Descriptor]] = GroupNormDescriptor
    args_type: ClassVar[type[Args]] = GroupNormArgs


class GroupNormBackwardPlan(_ChannelNormPlan):
    __slots__ = ()
    op = "group_norm_backward_{T}"
    kind = NormalizationKind.GROUP_NORM
    descriptor_type: ClassVar[type[Descriptor]] = GroupNormBackwardDescriptor
    args_type: ClassVar[type[Args]] = GroupNormBackwardArgs


class InstanceNormPlan(GroupNormPlan):
    __slots__ = ()
    kind = NormalizationKind.INSTANCE_NORM
    descriptor_type: ClassVar[type[Descriptor]] = InstanceNormDescriptor
    args_type: ClassVar[type[Args]] = InstanceNormArgs


class InstanceNormBackwardPlan(GroupNormBackwardPlan):
    __slots__ = ()
    kind = NormalizationKind.INSTANCE_NORM
    descriptor_type: ClassVar[type[Descriptor]] = InstanceNormBackwardDescriptor
    args_type: ClassVar[type[Args]] = InstanceNormBackwardArgs

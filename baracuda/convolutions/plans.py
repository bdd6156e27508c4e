# SPDX-License-Identifier: Apache-2.0
"""Conv1dPlan to Conv3dPlan and ConvTranspose1dPlan to ConvTranspose3dPlan: contiguous arrays, channels first.

A plan has three directions, each with operands and a workspace of its own: run_fw computes the output, run_bw_data the
gradient of the input and run_dw that of the filter. They overwrite their results.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from baracuda import descriptor
from baracuda._library.loader import Library
from baracuda.composed_plan import ComposedPlan
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError
from baracuda.guarantee import KernelSku, PlanPreference, PrecisionGuarantee
from baracuda.kinds import ConvKind, OpCategory
from baracuda.operands import Args
from baracuda.plan import Plan

D = TypeVar("D", bound="_ConvDescriptor")


@dataclasses.dataclass(frozen=True)
class _ConvDescriptor(Descriptor):
    """Fields common to descriptors of all ranks. They have C's names; extents of the output follow from the others."""

    batch: int = descriptor.extent()
    c_in: int = descriptor.extent()
    c_out: int = descriptor.extent()

    axes: ClassVar[str]  # their letters
    is_transposed: ClassVar[bool] = False

    def _each(self, name: str) -> tuple[int, ...]:
        return tuple([getattr(self, f"{name}_{axis}") for axis in self.axes])

    @property
    def spatial(self) -> tuple[int, ...]:
        return tuple([getattr(self, f"{axis}_in") for axis in self.axes])

    @property
    def taps(self) -> tuple[int, ...]:
        return tuple([getattr(self, "l_filt" if axis == "l" else f"k{axis}") for axis in self.axes])

    @property
    def output_spatial(self) -> tuple[int, ...]:
        """Spatial extents of the output."""
        each = zip(self.spatial, self.taps, self._each("stride"), self._each("pad"), self._each("dilation"))
        if self.is_transposed:
            more = self._each("output_pad")
            return tuple([(e - 1) * s - 2 * p + d * (k - 1) + o + 1 for (e, k, s, p, d), o in zip(each, more)])
        return tuple([(e + 2 * p - d * (k - 1) - 1) // s + 1 for e, k, s, p, d in each])

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.batch, self.c_in, *self.spatial)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.batch, self.c_out, *self.output_spatial)

    @property
    def filter_shape(self) -> tuple[int, ...]:
        groups: int = getattr(self, "groups")  # noqa: B009  (a field of the subclasses)
        if self.is_transposed:
            return (self.c_in, self.c_out // groups, *self.taps)
        return (self.c_out, self.c_in // groups, *self.taps)

    def _with(self: D, name: str, values: Sequence[int]) -> D:
        if len(values) != len(self.axes):
            raise InvalidProblemError(f"{name} is {tuple(values)}, must have {len(self.axes)} numbers")
        changes: dict[str, Any] = {f"{name}_{axis}": value for axis, value in zip(self.axes, values)}
        return dataclasses.replace(self, **changes)

    def with_padding(self: D, *padding: int) -> D:
        """A copy with this padding, a number for each spatial axis."""
        return self._with("pad", padding)

    def with_stride(self: D, *stride: int) -> D:
        return self._with("stride", stride)

    def with_dilation(self: D, *dilation: int) -> D:
        return self._with("dilation", dilation)

    def with_groups(self: D, groups: int) -> D:
        changes: dict[str, Any] = {"groups": groups}
        return dataclasses.replace(self, **changes)

    def validated(self: D) -> D:
        valid = super().validated()
        groups = getattr(valid, "groups")  # noqa: B009
        for name in ("c_in", "c_out"):
            if getattr(valid, name) % groups:
                raise InvalidProblemError(f"groups is {groups}, must divide {name}, {getattr(valid, name)}")
        if valid.is_transposed:
            each = zip(valid.axes, valid._each("output_pad"), valid._each("stride"), valid._each("dilation"))
            for axis, more, stride, dilation in each:
                if more >= max(stride, dilation):
                    raise InvalidProblemError(
                        f"output_pad_{axis} is {more}, must be less than the larger of stride {stride} and dilation "
                        f"{dilation}"
                    )
        for axis, extent in zip(valid.axes, valid.output_spatial):
            if extent < 1:
                raise InvalidProblemError(f"the output would have an extent of {extent} along {axis}, must be >= 1")
        return valid


@dataclasses.dataclass(frozen=True)
class _Conv1d(_ConvDescriptor):
    l_in: int = descriptor.extent()
    l_filt: int = descriptor.extent(1)
    stride_l: int = descriptor.extent(1, default=1)
    pad_l: int = descriptor.extent(default=0)
    dilation_l: int = descriptor.extent(1, default=1)
    axes = "l"

    @property
    def l_out(self) -> int:
        return self.output_spatial[0]


@dataclasses.dataclass(frozen=True)
class _Conv2d(_ConvDescriptor):
    h_in: int = descriptor.extent()
    w_in: int = descriptor.extent()
    kh: int = descriptor.extent(1)
    kw: int = descriptor.extent(1)
    stride_h: int = descriptor.extent(1, default=1)
    stride_w: int = descriptor.extent(1, default=1)
    pad_h: int = descriptor.extent(default=0)
    pad_w: int = descriptor.extent(default=0)
    dilation_h: int = descriptor.extent(1, default=1)
    dilation_w: int = descriptor.extent(1, default=1)
    axes = "hw"

    @property
    def h_out(self) -> int:
        return self.output_spatial[0]

    @property
    def w_out(self) -> int:
        return self.output_spatial[1]


@dataclasses.dataclass(frozen=True)
class _Conv3d(_ConvDescriptor):
    d_in: int = descriptor.extent()
    h_in: int = descriptor.extent()
    w_in: int = descriptor.extent()
    kd: int = descriptor.extent(1)
    kh: int = descriptor.extent(1)
    kw: int = descriptor.extent(1)
    stride_d: int = descriptor.extent(1, default=1)
    stride_h: int = descriptor.extent(1, default=1)
    stride_w: int = descriptor.extent(1, default=1)
    pad_d: int = descriptor.extent(default=0)
    pad_h: int = descriptor.extent(default=0)
    pad_w: int = descriptor.extent(default=0)
    dilation_d: int = descriptor.extent(1, default=1)
    dilation_h: int = descriptor.extent(1, default=1)
    dilation_w: int = descriptor.extent(1, default=1)
    axes = "dhw"

    @property
    def d_out(self) -> int:
        return self.output_spatial[0]

    @property
    def h_out(self) -> int:
        return self.output_spatial[1]

    @property
    def w_out(self) -> int:
        return self.output_spatial[2]


class _WithOutputPadding(_ConvDescriptor):
    is_transposed = True

    def with_output_padding(self: D, *output_padding: int) -> D:
        return self._with("output_pad", output_padding)


@dataclasses.dataclass(frozen=True)
class Conv1dDescriptor(_Conv1d):
    """Input (batch, c_in, l_in), filter (c_out, c_in / groups, l_filt), output (batch, c_out, l_out)."""

    groups: int = descriptor.extent(1, default=1)


@dataclasses.dataclass(frozen=True)
class Conv2dDescriptor(_Conv2d):
    """Input (batch, c_in, h_in, w_in), filter (c_out, c_in / groups, kh, kw), output (batch, c_out, h_out, w_out)."""

    groups: int = descriptor.extent(1, default=1)


@dataclasses.dataclass(frozen=True)
class Conv3dDescriptor(_Conv3d):
    """Input (batch, c_in, d_in, h_in, w_in), filter (c_out, c_in / groups, kd, kh, kw), output (batch, c_out, d_out,
    h_out, w_out).
    """

    groups: int = descriptor.extent(1, default=1)


@dataclasses.dataclass(frozen=True)
class ConvTranspose1dDescriptor(_WithOutputPadding, _Conv1d):
    """Input (batch, c_in, l_in), filter (c_in, c_out / groups, l_filt), output (batch, c_out, l_out)."""

    output_pad_l: int = descriptor.extent(default=0)
    groups: int = descriptor.extent(1, default=1)


@dataclasses.dataclass(frozen=True)
class ConvTranspose2dDescriptor(_WithOutputPadding, _Conv2d):
    """Input (batch, c_in, h_in, w_in), filter (c_in, c_out / groups, kh, kw), output (batch, c_out, h_out, w_out)."""

    output_pad_h: int = descriptor.extent(default=0)
    output_pad_w: int = descriptor.extent(default=0)
    groups: int = descriptor.extent(1, default=1)


@dataclasses.dataclass(frozen=True)
class ConvTranspose3dDescriptor(_WithOutputPadding, _Conv3d):
    """Input (batch, c_in, d_in, h_in, w_in), filter (c_in, c_out / groups, kd, kh, kw), output (batch, c_out, d_out,
    h_out, w_out).
    """

    output_pad_d: int = descriptor.extent(default=0)
    output_pad_h: int = descriptor.extent(default=0)
    output_pad_w: int = descriptor.extent(default=0)
    groups: int = descriptor.extent(1, default=1)


# --- plans of one direction ------------------------------------------------------------------------------------------

_SHAPES = {
    "input": "input_shape", "grad_input": "input_shape", "filter": "filter_shape", "grad_filter": "filter_shape",
    "output": "output_shape", "grad_output": "output_shape",
}  # fmt: skip
# Method of a plan of three directions -> word of the plan of one, C's word, and the end of the kind's name.
_DIRECTIONS = {
    "run_fw": ("Fw", "fw", ""),
    "run_bw_data": ("BwData", "bw_data", "_BACKWARD_DATA"),
    "run_dw": ("Dw", "bw_filter", "_BACKWARD_FILTER"),
}


def _directions(of: type[_ConvDescriptor], op: str) -> dict[str, type[Plan]]:
    """A plan for each direction of an op. Their Args become attributes of this module."""
    made = {}
    for run, (word, direction, end) in _DIRECTIONS.items():
        name = of.__name__.removesuffix("Descriptor") + word
        members = {
            "__slots__": (), "__module__": __name__, "__doc__": f"{direction} of {op}.",
            "op": f"{op}_{direction}_{{T}}",
            "category": OpCategory.CONVOLUTION, "kind": ConvKind[op.upper() + end], "descriptor_base": of,
            "shapes": _SHAPES,
        }  # fmt: skip
        made[run] = type(f"{name}Plan", (Plan,), members)
        setattr(sys.modules[__name__], f"{name}Plan", made[run])
    return made


class _ConvPlan(ComposedPlan):
    """The plans of three directions: `fw`, `bw_data` and `dw`, with their workspace sizes."""

    __slots__ = ("bw_data", "dw", "fw")

    directions: ClassVar[dict[str, type[Plan]]]
    fw: Plan
    bw_data: Plan
    dw: Plan

    def __init__(self, given: Any, preference: PlanPreference, library: Library) -> None:
        super().__init__(given, preference, library)
        fields = {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
        self.fw, self.bw_data, self.dw = [
            plan.select(None, plan.descriptor_type(**fields), preference, library=library)
            for plan in self.directions.values()
        ]

    @property
    def workspace_size(self) -> int:
        """Bytes that serve all directions; each asks for its own, `plan.dw.workspace_size`."""
        return max(self.fw.workspace_size, self.bw_data.workspace_size, self.dw.workspace_size)

    @property
    def precision_guarantee(self) -> PrecisionGuarantee:
        return self.fw.precision_guarantee

    @property
    def sku(self) -> KernelSku:
        return self.fw.sku

    def run_fw(self, stream: object, workspace: object, args: Args) -> None:
        """Enqueue the output, from input and filter."""
        self.fw.run(stream, workspace, args)

    def run_bw_data(self, stream: object, workspace: object, args: Args) -> None:
        """Enqueue the gradient of the input, from filter and grad_output."""
        self.bw_data.run(stream, workspace, args)

    def run_dw(self, stream: object, workspace: object, args: Args) -> None:
        """Enqueue the gradient of the filter, from input and grad_output."""
        self.dw.run(stream, workspace, args)


class Conv1dPlan(_ConvPlan):
    __slots__ = ()
    descriptor_type = Conv1dDescriptor
    directions = _directions(Conv1dDescriptor, "conv_1d")
    name = "conv_1d"


class Conv2dPlan(_ConvPlan):
    __slots__ = ()
    descriptor_type = Conv2dDescriptor
    directions = _directions(Conv2dDescriptor, "conv_2d")
    name = "conv_2d"


class Conv3dPlan(_ConvPlan):
    __slots__ = ()
    descriptor_type = Conv3dDescriptor
    directions = _directions(Conv3dDescriptor, "conv_3d")
    name = "conv_3d"


class ConvTranspose1dPlan(_ConvPlan):
    __slots__ = ()
    descriptor_type = ConvTranspose1dDescriptor
    directions = _directions(ConvTranspose1dDescriptor, "conv_transpose_1d")
    name = "conv_transpose_1d"


class ConvTranspose2dPlan(_ConvPlan):
    __slots__ = ()
    descriptor_type = ConvTranspose2dDescriptor
    directions = _directions(ConvTranspose2dDescriptor, "conv_transpose_2d")
    name = "conv_transpose_2d"


class ConvTranspose3dPlan(_ConvPlan):
    __slots__ = ()
    descriptor_type = ConvTranspose3dDescriptor
    directions = _directions(ConvTranspose3dDescriptor, "conv_transpose_3d")
    name = "conv_transpose_3d"

# SPDX-License-Identifier: Apache-2.0
"""Plans of affine quantisation: code = clamp(round(x / scale) + zero_point, q_min, q_max).

element is the dtype of x, output_element or input_element that of the codes: s8, u8, s4 or u4. Views of 4-bit codes are
of u8 with two codes a byte, and flat. Operands are contiguous. Per tensor, scale and zero_point are numbers; zero
points of arrays are i32, their scales have the dtype of x.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.c_call import op_names
from baracuda._call.scalars import INT32_MAX, INT32_MIN, INT64_MAX, as_integer
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import DynamicRangeMode, DynamicRangeScope, OpCategory, QuantizeKind
from baracuda.plan import Plan

_CODES = {ElementKind.S8: "s8", ElementKind.U8: "u8", ElementKind.S4: "s4", ElementKind.U4: "u4"}


def _code(default: ElementKind = ElementKind.S8) -> Any:
    """A field with the dtype of codes."""
    return descriptor.checked(lambda name, value: as_element(value, name), default=default)


def _i32(**options: Any) -> Any:
    return descriptor.checked(lambda name, value: as_integer(name, value, INT32_MIN, INT32_MAX), **options)


def _numel() -> Any:
    return descriptor.checked(lambda name, value: as_integer(name, value, 0, INT64_MAX))


def _group() -> Any:
    return descriptor.checked(lambda name, value: as_integer(name, value, 1, INT32_MAX))


class _AffinePlan(Plan):
    __slots__ = ()
    category = OpCategory.QUANTIZATION
    names: ClassVar = {"x": "input", "q": "output", "shape4": "shape"}

    @classmethod
    def served(
        cls, kind: enum.IntEnum | None, element: ElementKind, output: ElementKind | None = None
    ) -> tuple[str, ...]:
        return op_names((cls.op,), "", element.symbol, "" if output is None else _CODES.get(output, "none"))

    def _served(self) -> tuple[str, ...]:
        d = self.descriptor
        code = getattr(d, "output_element", getattr(d, "input_element", None))
        if code is not None and code not in _CODES:
            raise UnsupportedError(f"codes are of {code}, must be of s8, u8, s4 or u4")
        if found := self.served(None, d.element, code):
            return found
        tokens = [e.symbol for e in ElementKind if e is not ElementKind.F32_STRICT and self.served(None, e, code)]
        raise UnsupportedError(f"element is {d.element}, must be one of {', '.join(tokens)}")


def _rows(name: str) -> tuple[str, ...]:
    return tuple([f"{name}_{code}" for code in _CODES.values()])


_DEQUANTIZED: dict[str, str] = {"q": "input", "x": "output", "shape4": "shape"}
_GRADIENT: dict[str, str] = {"x": "input", "dy": "d_output", "dx": "d_input", "dq": "d_input", "shape4": "shape"}


# --- per tensor -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class FakeQuantizeDescriptor(Descriptor):
    """One scale and zero point for all elements."""

    numel: int = _numel()
    scale: float = descriptor.real()
    zero_point: int = _i32(default=0)
    q_min: int = _i32(default=-128)
    q_max: int = _i32(default=127)


class FakeQuantizeBackwardDescriptor(FakeQuantizeDescriptor):
    """The gradient of FakeQuantizePlan."""


class QuantizePerTensorBackwardDescriptor(FakeQuantizeDescriptor):
    """The gradient of QuantizePerTensorPlan."""


@dataclasses.dataclass(frozen=True)
class QuantizePerTensorDescriptor(FakeQuantizeDescriptor):
    """One scale and zero point for all elements."""

    output_element: ElementKind = _code()

    @property
    def bytes(self) -> int:
        return self.numel // 2


@dataclasses.dataclass(frozen=True)
class DequantizePerTensorDescriptor(Descriptor):
    """One scale and zero point for all elements."""

    numel: int = _numel()
    scale: float = descriptor.real()
    zero_point: int = _i32(default=0)
    input_element: ElementKind = _code()

    @property
    def bytes(self) -> int:
        return self.numel // 2


@dataclasses.dataclass(frozen=True)
class DequantizePerTensorBackwardDescriptor(Descriptor):
    """The gradient of DequantizePerTensorPlan."""

    numel: int = _numel()
    scale: float = descriptor.real()


class QuantizePerTensorPlan(_AffinePlan):
    __slots__ = ()
    op = "quantize_per_tensor_{T}_{U}"
    rows = _rows("quantize_per_tensor_{T}")
    kind = QuantizeKind.PER_TENSOR


class QuantizePerTensorBackwardPlan(_AffinePlan):
    """The straight-through estimator: d_output / scale where the code is in range, else 0."""

    __slots__ = ()
    op = "quantize_per_tensor_backward_{T}"
    kind = QuantizeKind.PER_TENSOR_BACKWARD
    names: ClassVar = _GRADIENT


class DequantizePerTensorPlan(_AffinePlan):
    __slots__ = ()
    op = "dequantize_per_tensor_{T}_{U}"
    rows = _rows("dequantize_per_tensor_{T}")
    kind = QuantizeKind.DEQUANTIZE_PER_TENSOR
    names: ClassVar = _DEQUANTIZED


class DequantizePerTensorBackwardPlan(_AffinePlan):
    """d_output * scale."""

    __slots__ = ()
    op = "dequantize_per_tensor_backward_{T}"
    kind = QuantizeKind.DEQUANTIZE_PER_TENSOR_BACKWARD
    names: ClassVar = _GRADIENT


class FakeQuantizePlan(_AffinePlan):
    """input quantised and dequantised."""

    __slots__ = ()
    op = "fake_quantize_{T}"
    kind = QuantizeKind.FAKE_QUANTIZE
    names: ClassVar = {"x": "input", "y": "output"}


class FakeQuantizeBackwardPlan(_AffinePlan):
    """The straight-through estimator: d_output where the code is in range, else 0."""

    __slots__ = ()
    op = "fake_quantize_backward_{T}"
    kind = QuantizeKind.FAKE_QUANTIZE_BACKWARD
    names: ClassVar = _GRADIENT


# --- per channel ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Channels(Descriptor):
    """A scale and a zero point for each index along axis of shape, which has four extents; rank of them count."""

    shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    axis: int = descriptor.checked(as_integer)
    rank: int = descriptor.checked(lambda name, value: as_integer(name, value, 1, 4), default=4, kw_only=True)

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def scales(self) -> int:
        return self.shape[self.axis]

    @property
    def bytes(self) -> int:
        return self.numel // 2

    def validated(self) -> Any:
        valid = super().validated()
        if len(valid.shape) != 4:
            raise InvalidProblemError(f"shape is {valid.shape}, must have 4 extents")
        as_integer("axis", valid.axis, 0, 3)
        return valid


@dataclasses.dataclass(frozen=True)
class FakeQuantizePerChannelDescriptor(_Channels):
    """A scale and a zero point for each index along axis of the four extents shape."""

    q_min: int = _i32(default=-128)
    q_max: int = _i32(default=127)


class FakeQuantizePerChannelBackwardDescriptor(FakeQuantizePerChannelDescriptor):
    """The gradient of FakeQuantizePerChannelPlan."""


class QuantizePerChannelBackwardDescriptor(FakeQuantizePerChannelDescriptor):
    """The gradient of QuantizePerChannelPlan."""


@dataclasses.dataclass(frozen=True)
class QuantizePerChannelDescriptor(FakeQuantizePerChannelDescriptor):
    """A scale and a zero point for each index along axis of the four extents shape."""

    output_element: ElementKind = _code()


@dataclasses.dataclass(frozen=True)
class DequantizePerChannelDescriptor(_Channels):
    """A scale and a zero point for each index along axis of the four extents shape."""

    input_element: ElementKind = _code()


class DequantizePerChannelBackwardDescriptor(_Channels):
    """The gradient of DequantizePerChannelPlan."""


@dataclasses.dataclass(frozen=True)
class FakeQuantizeLearnableDescriptor(FakeQuantizePerChannelDescriptor):
    """Scales and zero points, of the dtype of input, are learned; an axis of extent 1 has those of the whole input."""

    grad_factor: float = descriptor.real(default=1.0)


class FakeQuantizeLearnableBackwardDescriptor(FakeQuantizeLearnableDescriptor):
    """The gradients of FakeQuantizeLearnablePlan."""


_WHOLE: dict[str, str] = dict.fromkeys(("input", "d_output", "d_input"), "shape")


class QuantizePerChannelPlan(_AffinePlan):
    __slots__ = ()
    op = "quantize_per_channel_{T}_{U}"
    rows = _rows("quantize_per_channel_{T}")
    kind = QuantizeKind.PER_CHANNEL


class QuantizePerChannelBackwardPlan(_AffinePlan):
    """The straight-through estimator: d_output / scale where the code is in range, else 0."""

    __slots__ = ()
    op = "quantize_per_channel_backward_{T}"
    kind = QuantizeKind.PER_CHANNEL_BACKWARD
    names: ClassVar = _GRADIENT


class DequantizePerChannelPlan(_AffinePlan):
    __slots__ = ()
    op = "dequantize_per_channel_{T}_{U}"
    rows = _rows("dequantize_per_channel_{T}")
    kind = QuantizeKind.DEQUANTIZE_PER_CHANNEL
    names: ClassVar = _DEQUANTIZED


class DequantizePerChannelBackwardPlan(_AffinePlan):
    """d_output * scale."""

    __slots__ = ()
    op = "dequantize_per_channel_backward_{T}"
    kind = QuantizeKind.DEQUANTIZE_PER_CHANNEL_BACKWARD
    names: ClassVar = _GRADIENT


class FakeQuantizePerChannelPlan(_AffinePlan):
    """input quantised and dequantised."""

    __slots__ = ()
    op = "fake_quantize_per_channel_{T}"
    kind = QuantizeKind.FAKE_QUANTIZE
    names: ClassVar = {"x": "input", "y": "output", "shape4": "shape"}


class FakeQuantizePerChannelBackwardPlan(_AffinePlan):
    """The straight-through estimator: d_output where the code is in range, else 0."""

    __slots__ = ()
    op = "fake_quantize_per_channel_backward_{T}"
    kind = QuantizeKind.FAKE_QUANTIZE_BACKWARD
    names: ClassVar = _GRADIENT


class FakeQuantizeLearnablePlan(_AffinePlan):
    """input quantised and dequantised; zero points are rounded and clamped to the range."""

    __slots__ = ()
    op = "fake_quantize_learnable_{T}"
    kind = QuantizeKind.FAKE_QUANTIZE
    names: ClassVar = {"x": "input", "y": "output", "shape4": "shape"}


class FakeQuantizeLearnableBackwardPlan(_AffinePlan):
    """Gradients of input, scale and zero_point; those of the latter times grad_factor."""

    __slots__ = ()
    op = "fake_quantize_learnable_backward_{T}"
    kind = QuantizeKind.FAKE_QUANTIZE_BACKWARD
    names: ClassVar = _GRADIENT | {"dscale": "d_scale", "dzero_point": "d_zero_point"}


# --- per token --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Tokens(Descriptor):
    """n rows of d elements, each with a scale and a zero point."""

    n: int = descriptor.extent()
    d: int = descriptor.extent()

    @property
    def bytes(self) -> int:
        return self.n * self.d // 2


@dataclasses.dataclass(frozen=True)
class QuantizePerTokenBackwardDescriptor(_Tokens):
    """The gradient of QuantizePerTokenPlan."""

    q_min: int = _i32(default=-128)
    q_max: int = _i32(default=127)


@dataclasses.dataclass(frozen=True)
class QuantizePerTokenDescriptor(QuantizePerTokenBackwardDescriptor):
    """n rows of d elements, each with a scale and a zero point."""

    output_element: ElementKind = _code()


@dataclasses.dataclass(frozen=True)
class DequantizePerTokenDescriptor(_Tokens):
    """n rows of d elements, each with a scale and a zero point."""

    input_element: ElementKind = _code()


class DequantizePerTokenBackwardDescriptor(_Tokens):
    """The gradient of DequantizePerTokenPlan."""


class QuantizePerTokenPlan(_AffinePlan):
    """The zero point is added before rounding; a scale of 0 gives quotients of 0."""

    __slots__ = ()
    op = "quantize_per_token_{T}_{U}"
    rows = _rows("quantize_per_token_{T}")
    kind = QuantizeKind.PER_TOKEN


class QuantizePerTokenBackwardPlan(_AffinePlan):
    """The straight-through estimator: d_output / scale strictly within the range, else 0."""

    __slots__ = ()
    op = "quantize_per_token_backward_{T}"
    kind = QuantizeKind.PER_TOKEN_BACKWARD
    names: ClassVar = _GRADIENT


class DequantizePerTokenPlan(_AffinePlan):
    __slots__ = ()
    op = "dequantize_per_token_{T}_{U}"
    rows = _rows("dequantize_per_token_{T}")
    kind = QuantizeKind.DEQUANTIZE_PER_TOKEN
    names: ClassVar = _DEQUANTIZED


class DequantizePerTokenBackwardPlan(_AffinePlan):
    """d_output * scale."""

    __slots__ = ()
    op = "dequantize_per_token_backward_{T}"
    kind = QuantizeKind.DEQUANTIZE_PER_TOKEN_BACKWARD
    names: ClassVar = _GRADIENT


# --- per group --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Groups(Descriptor):
    """outer_size rows of axis_size elements, of which each group_size adjacent ones share a scale and a zero point."""

    outer_size: int = descriptor.extent()
    axis_size: int = descriptor.extent()
    group_size: int = _group()

    @property
    def groups(self) -> int:
        return self.axis_size // self.group_size

    @property
    def bytes(self) -> int:
        return self.outer_size * self.axis_size // 2


@dataclasses.dataclass(frozen=True)
class QuantizePerGroupBackwardDescriptor(_Groups):
    """The gradient of QuantizePerGroupPlan."""

    q_min: int = _i32(default=-128)
    q_max: int = _i32(default=127)


@dataclasses.dataclass(frozen=True)
class QuantizePerGroupDescriptor(QuantizePerGroupBackwardDescriptor):
    """outer_size rows of axis_size elements, of which each group_size adjacent ones share a scale and a zero point."""

    output_element: ElementKind = _code()


@dataclasses.dataclass(frozen=True)
class DequantizePerGroupDescriptor(_Groups):
    """outer_size rows of axis_size elements, of which each group_size adjacent ones share a scale and a zero point."""

    input_element: ElementKind = _code()


class DequantizePerGroupBackwardDescriptor(_Groups):
    """The gradient of DequantizePerGroupPlan."""


_OUTER = {"outer": "outer_size"}


class QuantizePerGroupPlan(_AffinePlan):
    """The zero point is added before rounding; a scale of 0 gives quotients of 0."""

    __slots__ = ()
    op = "quantize_per_group_{T}_{U}"
    rows = _rows("quantize_per_group_{T}")
    kind = QuantizeKind.PER_GROUP
    names: ClassVar = {"x": "input", "q": "output", **_OUTER}


class QuantizePerGroupBackwardPlan(_AffinePlan):
    """The straight-through estimator: d_output / scale strictly within the range, else 0."""

    __slots__ = ()
    op = "quantize_per_group_backward_{T}"
    kind = QuantizeKind.PER_GROUP_BACKWARD
    names: ClassVar = _GRADIENT | _OUTER


class DequantizePerGroupPlan(_AffinePlan):
    __slots__ = ()
    op = "dequantize_per_group_{T}_{U}"
    rows = _rows("dequantize_per_group_{T}")
    kind = QuantizeKind.DEQUANTIZE_PER_GROUP
    names: ClassVar = _DEQUANTIZED | _OUTER


class DequantizePerGroupBackwardPlan(_AffinePlan):
    """d_output * scale."""

    __slots__ = ()
    op = "dequantize_per_group_backward_{T}"
    kind = QuantizeKind.DEQUANTIZE_PER_GROUP_BACKWARD
    names: ClassVar = _GRADIENT | _OUTER


# --- dynamic ranges ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class DynamicRangeQuantizeDescriptor(Descriptor):
    """input is (n, d). A scale, and in ASYMMETRIC mode a zero point, for TENSOR, for each TOKEN (row), or for each
    GROUP of group_size adjacent elements of a row.
    """

    n: int = descriptor.extent()
    d: int = descriptor.extent()
    q_min: int = _i32(default=-128)
    q_max: int = _i32(default=127)
    mode: DynamicRangeMode = dataclasses.field(
        default=DynamicRangeMode.SYMMETRIC, metadata=descriptor.choice(DynamicRangeMode).metadata
    )
    scope: DynamicRangeScope = dataclasses.field(
        default=DynamicRangeScope.TOKEN, metadata=descriptor.choice(DynamicRangeScope).metadata
    )
    group_size: int = descriptor.extent(default=0)
    output_element: ElementKind = _code()

    @property
    def shape(self) -> tuple[int, int]:
        return (self.n, self.d)

    @property
    def columns(self) -> int:
        """Elements that share a scale."""
        if self.scope is DynamicRangeScope.TENSOR:
            return self.n * self.d
        return self.group_size if self.scope is DynamicRangeScope.GROUP else self.d

    @property
    def rows(self) -> int:
        if self.scope is DynamicRangeScope.TOKEN:
            return self.n
        return self.n * self.d // self.columns if self.columns else 0

    def validated(self) -> DynamicRangeQuantizeDescriptor:
        valid = super().validated()
        if valid.scope is DynamicRangeScope.CHANNEL:
            raise UnsupportedError("scope is CHANNEL, must be TENSOR, TOKEN or GROUP")
        if valid.scope is DynamicRangeScope.GROUP and (valid.group_size == 0 or valid.d % valid.group_size):
            raise InvalidProblemError(f"group_size is {valid.group_size}, must divide d, which is {valid.d}")
        if max(valid.columns, valid.rows) > INT32_MAX:
            raise UnsupportedError(f"{valid.columns} elements share a scale; at most {INT32_MAX} are supported")
        return valid


class DynamicRangeQuantizePlan(_AffinePlan):
    """Codes with scales, and zero points, that follow from the extrema of input."""

    __slots__ = ()
    op = "dynamic_range_quantize_per_token_{kind}_{T}_{U}"
    rows = tuple([f"dynamic_range_quantize_per_token_{each}_s8" for each in ("sym_{T}", "asym_{T}")])
    kind = QuantizeKind.DYNAMIC_RANGE
    spelling: ClassVar = {DynamicRangeMode.SYMMETRIC: "sym", DynamicRangeMode.ASYMMETRIC: "asym"}
    names: ClassVar = {
        "x": "input", "q": "output", "scale": "scale_out", "zero_point": "zero_point_out", "n": "rows", "d": "columns",
    }  # fmt: skip
    shapes: ClassVar = {"input": "shape", "output": "shape"}

    @classmethod
    def served(
        cls, kind: enum.IntEnum | None, element: ElementKind, output: ElementKind | None = None
    ) -> tuple[str, ...]:
        code = _CODES.get(output, "none") if output is not None else "s8"
        return op_names((cls.op,), cls._spelled(kind), element.symbol, code)

    def _served(self) -> tuple[str, ...]:
        d = self.descriptor
        if found := self.served(d.mode, d.element, d.output_element):
            return found
        if self.served(d.mode, ElementKind.F32, d.output_element):
            raise UnsupportedError(f"element is {d.element}, must be one of f16, bf16, f32, f64")
        raise UnsupportedError(f"output_element is {d.output_element}: no such op in {d.mode.name} mode")

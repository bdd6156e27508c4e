# SPDX-License-Identifier: Apache-2.0
"""Softmax along one axis, its variants, and their gradients.

SOFTMAX: exp(x - m) / sum exp(x - m), m the row maximum; LOG_SOFTMAX: its logarithm. Gumbel softmax: softmax of (logits
+ Gumbel noise) / temperature, or with `hard` one-hot at its maximum; its gradient reads the soft result of the same
noise. Sparsemax: the Euclidean projection of the logits onto the probability simplex; entmax15 is between that and
softmax. Masked softmax: of scaled logits plus a bias, over the elements that a mask keeps and, if causal, that are not
in the future. Softmax to f32: of 16-bit logits, with unrounded results. NaN and +inf make a row NaN. Operands have any
strides; results may overwrite their input.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer, as_real
from baracuda.descriptor import Descriptor, ShapedDescriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, SoftmaxKind
from baracuda.plan import ParamPlan, Plan


def _temperature(name: str, value: object) -> float:
    temperature = as_real(name, value)
    if not (math.isfinite(temperature) and temperature > 0):
        raise InvalidProblemError(f"{name} is {value!r}, must be finite and > 0")
    return temperature


def _shape() -> Any:
    return descriptor.shape(high=INT32_MAX)


def _axis() -> Any:
    return descriptor.checked(as_integer)


class _AlongAxis(ShapedDescriptor):
    input_shape: tuple[int, ...]
    softmax_axis: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.input_shape

    @property
    def softmax_extent(self) -> int:
        return self.input_shape[self.softmax_axis]

    def validated(self) -> Any:
        valid = super().validated()
        if not valid.input_shape:
            raise InvalidProblemError("input_shape is (), must have an axis")
        as_integer("softmax_axis", valid.softmax_axis, 0, len(valid.input_shape) - 1)
        return valid


@dataclasses.dataclass(frozen=True)
class SoftmaxDescriptor(_AlongAxis):
    """input_shape is of rank 1 to 8."""

    kind: SoftmaxKind = descriptor.choice(SoftmaxKind)
    input_shape: tuple[int, ...] = _shape()
    softmax_axis: int = _axis()


@dataclasses.dataclass(frozen=True)
class GumbelSoftmaxBackwardDescriptor(_AlongAxis):
    """input_shape is of rank 1 to 8."""

    input_shape: tuple[int, ...] = _shape()
    softmax_axis: int = _axis()
    temperature: float = descriptor.checked(_temperature)

    @property
    def inv_tau(self) -> float:
        return 1 / self.temperature


@dataclasses.dataclass(frozen=True)
class GumbelSoftmaxDescriptor(GumbelSoftmaxBackwardDescriptor):
    """input_shape is of rank 1 to 8; with hard each row is one-hot at its maximum."""

    hard: bool = descriptor.flag()


def _word(name: str, value: object) -> int:
    return as_integer(name, value, 0, 2**64 - 1)


@dataclasses.dataclass(frozen=True)
class _SeededDescriptor(Descriptor):
    seed: int = descriptor.checked(_word, default=0)
    offset: int = descriptor.checked(_word, default=0)


@dataclasses.dataclass(frozen=True)
class GumbelSoftmaxSeededDescriptor(_SeededDescriptor, GumbelSoftmaxDescriptor):
    """Element e of the input, in row-major order, takes number offset + e of the seed's random stream."""


@dataclasses.dataclass(frozen=True)
class GumbelSoftmaxSeededBackwardDescriptor(_SeededDescriptor, GumbelSoftmaxBackwardDescriptor):
    """seed and offset are those of the forward op."""


@dataclasses.dataclass(frozen=True)
class SparsemaxDescriptor(_AlongAxis):
    """input_shape is of rank 1 to 8."""

    input_shape: tuple[int, ...] = _shape()
    softmax_axis: int = _axis()


@dataclasses.dataclass(frozen=True)
class MaskedSoftmaxBackwardDescriptor(SoftmaxDescriptor):
    """scale is that of the forward op, or 1 for the gradient of the bias."""

    scale: float = descriptor.real(default=1.0)


@dataclasses.dataclass(frozen=True)
class MaskedSoftmaxDescriptor(MaskedSoftmaxBackwardDescriptor):
    """A softmax, or its logarithm, of scale * x + bias. is_causal: softmax_axis is the last one, of keys, and the one
    before it is of queries; query 0 is at key position query_offset.
    """

    is_causal: bool = descriptor.flag()
    query_offset: int = descriptor.checked(as_integer, default=0)


class _AlongAxisPlan(Plan):
    __slots__ = ()
    category = OpCategory.SOFTMAX
    descriptor: _AlongAxis

    def offset(self, strides: tuple[int, ...]) -> int:
        """The stride of the axis, which C takes separately too."""
        return strides[self.descriptor.softmax_axis]


class SoftmaxPlan(_AlongAxisPlan):
    __slots__ = ()
    op = "{kind}_{T}"
    elsewhere: ClassVar = {
        SoftmaxKind.GUMBEL_SOFTMAX: "GumbelSoftmaxPlan", SoftmaxKind.SPARSEMAX: "SparsemaxPlan",
        SoftmaxKind.ENTMAX15: "Entmax15Plan",
    }  # fmt: skip


class SoftmaxBackwardPlan(_AlongAxisPlan):
    """y is what the forward op gave."""

    __slots__ = ()
    descriptor_base = SoftmaxDescriptor
    op = "{kind}_backward_{T}"
    elsewhere: ClassVar = {
        SoftmaxKind.GUMBEL_SOFTMAX: "GumbelSoftmaxBackwardPlan", SoftmaxKind.SPARSEMAX: "SparsemaxBackwardPlan",
        SoftmaxKind.ENTMAX15: "Entmax15BackwardPlan",
    }  # fmt: skip


class GumbelSoftmaxPlan(_AlongAxisPlan, ParamPlan):
    """u_rand is f32, of the shape of x and contiguous, uniform in (0, 1)."""

    __slots__ = ()
    op = "gumbel_softmax_{T}"
    others = ("gumbel_softmax_param_{T}",)
    kind = SoftmaxKind.GUMBEL_SOFTMAX


class GumbelSoftmaxBackwardPlan(_AlongAxisPlan, ParamPlan):
    """The gradient includes the factor 1 / temperature. y is the soft result of the forward op's noise."""

    __slots__ = ()
    op = "gumbel_softmax_backward_{T}"
    others = ("gumbel_softmax_param_backward_{T}",)
    kind = SoftmaxKind.GUMBEL_SOFTMAX


class GumbelSoftmaxSeededPlan(_AlongAxisPlan):
    """Gumbel softmax with noise generated on the device from a seed and an offset."""

    __slots__ = ()
    op = "gumbel_softmax_seeded_{T}"
    kind = SoftmaxKind.GUMBEL_SOFTMAX


class GumbelSoftmaxSeededBackwardPlan(_AlongAxisPlan):
    """x is that of the forward op."""

    __slots__ = ()
    op = "gumbel_softmax_seeded_backward_{T}"
    kind = SoftmaxKind.GUMBEL_SOFTMAX


class SparsemaxPlan(_AlongAxisPlan):
    __slots__ = ()
    op = "sparsemax_{T}"
    kind = SoftmaxKind.SPARSEMAX


class SparsemaxBackwardPlan(_AlongAxisPlan):
    __slots__ = ()
    descriptor_base = SparsemaxDescriptor
    op = "sparsemax_backward_{T}"
    kind = SoftmaxKind.SPARSEMAX


class MaskedSoftmaxPlan(_AlongAxisPlan):
    """mask is bool or u8, nonzero for elements to keep. bias and mask broadcast."""

    __slots__ = ()
    op = "masked_{kind}_{T}"
    fields: ClassVar = {"bias": "given", "mask": "given"}


class MaskedSoftmaxBackwardPlan(_AlongAxisPlan):
    __slots__ = ()
    op = "masked_{kind}_backward_{T}"


class SoftmaxToF32Plan(_AlongAxisPlan):
    """y is f32."""

    __slots__ = ()
    descriptor_base = SoftmaxDescriptor
    op = "{kind}_to_f32_{T}"


class SoftmaxToF32BackwardPlan(_AlongAxisPlan):
    """dy and y are f32."""

    __slots__ = ()
    descriptor_base = SoftmaxDescriptor
    op = "{kind}_to_f32_backward_{T}"


class Entmax15Plan(_AlongAxisPlan):
    __slots__ = ()
    descriptor_base = SparsemaxDescriptor
    op = "entmax15_{T}"
    kind = SoftmaxKind.ENTMAX15


class Entmax15BackwardPlan(_AlongAxisPlan):
    __slots__ = ()
    descriptor_base = SparsemaxDescriptor
    op = "entmax15_backward_{T}"
    kind = SoftmaxKind.ENTMAX15

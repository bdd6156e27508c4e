# SPDX-License-Identifier: Apache-2.0
"""Affine quantisation under the names of ONNX, and a linear layer of four-bit weights, by calls of the op table's
functions, for arrays of any framework.

`Arrays` has what frameworks do differently: calls of functions, dtypes, conversions and new arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from baracuda._call.scalars import INT32_MAX, INT32_MIN, as_integer
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import ActivationKind

NAMES = (
    "quantize_linear", "dequantize_linear", "fake_quantize", "dynamic_quantize_linear", "quantized_linear",
    "matmul_integer", "qlinear_matmul", "linear_4bit",
)  # fmt: skip
_CODES = {ElementKind.S8: "s8", ElementKind.U8: "u8", ElementKind.S4: "s4", ElementKind.U4: "u4"}
_RANGES = {"s8": (-128, 127), "u8": (0, 255), "s4": (-8, 7), "u4": (0, 15)}
_FEW_ROWS = 32  # that gemv_4bit multiplies by one pass over the weights; half as many of f32, by two passes
_SCOPES = ("channel", "token", "group")
# Functions that they call.
CALLED = (
    *(f"quantize_per_{scope}_{code}" for scope in ("tensor", *_SCOPES) for code in _RANGES),
    *(f"dequantize_per_{scope}_{code}" for scope in _SCOPES for code in _RANGES),
    "fake_quantize_per_tensor", "fake_quantize_per_channel", "fake_quantize_learnable",
    "dynamic_range_quantize_per_token_sym_s8", "dynamic_range_quantize_per_token_asym_s8",
    "dynamic_range_quantize_per_token_asym_u8", "quantized_linear_codes", "matmul_integer_by_s8",
    "matmul_integer_by_u8", "qlinear_matmul_by_s8", "qlinear_matmul_by_u8",
    "gemv_4bit", "dequantize_4bit", "linear",
)  # fmt: skip


class Arrays(Protocol):
    """Operations that each framework does in its own way."""

    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        """Call a function by its name."""

    def element(self, x: Any, name: str) -> ElementKind:
        """The dtype of an array."""

    def cast(self, x: Any, element: ElementKind) -> Any:
        """The array in another dtype."""

    def full(self, value: float, shape: Sequence[int], element: ElementKind, like: Any) -> Any:
        """An array of one value beside another array."""

    def reshaped(self, x: Any, shape: Sequence[int]) -> Any:
        """The array in another shape."""

    def linear_of(self, x: Any, weight: Callable[..., Any], arrays: Sequence[Any], bias: Any) -> Any:
        """linear with weight(*arrays), which is computed again where gradients need it."""


def code_of(dtype: Any, name: str = "dtype") -> str:
    """The name of codes: s8, u8, s4 or u4."""
    element = as_element(dtype, name)
    if element not in _CODES:
        raise UnsupportedError(f"{name} is {element}, must be one of s8, u8, s4, u4")
    return _CODES[element]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class QuantizeCalls:
    """The functions, for one framework."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def _as(self, x: Any, name: str, element: ElementKind) -> Any:
        return x if self.arrays.element(x, name) is element else self.arrays.cast(x, element)

    def _zeros(self, zero_point: Any, scale: Any) -> Any:
        """Zero points as an array of i32 like the scales."""
        shape = tuple(scale.shape)
        if zero_point is None or _is_number(zero_point):
            value = 0 if zero_point is None else as_integer("zero_point", zero_point, INT32_MIN, INT32_MAX)
            return self.arrays.full(value, shape, ElementKind.I32, scale)
        return self._as(zero_point, "zero_point", ElementKind.I32)

    def _scope(self, x: Sequence[int], scale: Sequence[int], axis: Any, group_size: Any) -> tuple[str, dict[str, Any]]:
        """The scope of a scale, and the arguments that select it."""
        if axis is not None:
            return "channel", {"axis": axis}
        if len(scale) < 2 and math.prod(scale) == 1:
            return "channel", {}
        if len(scale) == len(x) and scale[:-1] == x[:-1]:
            if group_size is not None and scale[-1] * group_size != x[-1]:
                raise InvalidProblemError(
                    f"group_size is {group_size}, but scale has {scale[-1]} groups for {x[-1]} elements"
                )
            return "group", {}
        if scale == x[:-1]:
            return "token", {}
        raise InvalidProblemError(
            f"scale has shape {tuple(scale)}, expected one element, or with axis as many as x, {tuple(x)}, has there, "
            f"or that of x without its last axis, or with a divisor of it"
        )

    def quantize_linear(
        self, x: Any, scale: Any, zero_point: Any = None, *, axis: int | None = None, group_size: int | None = None,
        q_min: int | None = None, q_max: int | None = None, dtype: Any = "s8",
    ) -> Any:  # fmt: skip
        code = code_of(dtype)
        low, high = _RANGES[code]
        numbers: dict[str, Any] = {"q_min": low if q_min is None else q_min, "q_max": high if q_max is None else q_max}
        if _is_number(scale) and (zero_point is None or _is_number(zero_point)):
            zero = 0 if zero_point is None else zero_point
            return self.arrays.call(f"quantize_per_tensor_{code}", x, scale, zero_point=zero, **numbers)
        element = self.arrays.element(x, "x")
        scales = self.arrays.full(scale, (), element, x) if _is_number(scale) else self._as(scale, "scale", element)
        scope, more = self._scope(tuple(x.shape), tuple(scales.shape), axis, group_size)
        zeros = self._zeros(zero_point, scales)
        return self.arrays.call(f"quantize_per_{scope}_{code}", x, scales, zeros, **more, **numbers)

    def dequantize_linear(
        self, q: Any, scale: Any, zero_point: Any = None, *, axis: int | None = None, group_size: int | None = None,
        dtype: Any = None, q_dtype: Any = None,
    ) -> Any:  # fmt: skip
        code = code_of(self.arrays.element(q, "q") if q_dtype is None else q_dtype, "q_dtype")
        whole = tuple(q.shape)
        if code in ("s4", "u4"):
            whole = (*whole[:-1], 2 * whole[-1]) if whole else whole
        if _is_number(scale):
            element = ElementKind.F32 if dtype is None else as_element(dtype, "dtype")
            scales = self.arrays.full(scale, (), element, q)
        else:
            scales = scale if dtype is None else self._as(scale, "scale", as_element(dtype, "dtype"))
        scope, more = self._scope(whole, tuple(scales.shape), axis, group_size)
        return self.arrays.call(f"dequantize_per_{scope}_{code}", q, scales, self._zeros(zero_point, scales), **more)

    def fake_quantize(
        self, x: Any, scale: Any, zero_point: Any = None, *, axis: int = 0, q_min: int = -128, q_max: int = 127,
        grad_factor: float = 1.0,
    ) -> Any:  # fmt: skip
        numbers = {"q_min": q_min, "q_max": q_max}
        if _is_number(scale) and (zero_point is None or _is_number(zero_point)):
            zero = 0 if zero_point is None else zero_point
            return self.arrays.call("fake_quantize_per_tensor", x, scale, zero_point=zero, **numbers)
        element = self.arrays.element(x, "x")
        scales = self.arrays.full(scale, (), element, x) if _is_number(scale) else self._as(scale, "scale", element)
        learns = zero_point is not None and not _is_number(zero_point)
        if learns and self.arrays.element(zero_point, "zero_point").is_float:
            zeros = self._as(zero_point, "zero_point", element)
            return self.arrays.call(
                "fake_quantize_learnable", x, scales, zeros, axis=axis, grad_factor=grad_factor, **numbers
            )
        return self.arrays.call(
            "fake_quantize_per_channel", x, scales, self._zeros(zero_point, scales), axis=axis, **numbers
        )

    def dynamic_quantize_linear(
        self, x: Any, *, axis: int | None = None, symmetric: bool | None = None, q_min: int | None = None,
        q_max: int | None = None, dtype: Any = "u8",
    ) -> Any:  # fmt: skip
        code = code_of(dtype)
        if code not in ("s8", "u8"):
            raise UnsupportedError(f"dtype is {code}, must be s8 or u8")
        is_symmetric = code == "s8" if symmetric is None else bool(symmetric)
        if is_symmetric and code == "u8":
            raise UnsupportedError("symmetric is True, but codes of u8 have no signs: use dtype s8")
        low, high = _RANGES[code]
        numbers = {"q_min": low if q_min is None else q_min, "q_max": high if q_max is None else q_max}
        shape = tuple(x.shape)
        if axis is not None and axis not in (-1, len(shape) - 1):
            raise UnsupportedError(f"axis is {axis}, must be None for the whole array or the last axis")
        rows = self.arrays.reshaped(x, (math.prod(shape),)) if axis is None else x
        kind = "sym" if is_symmetric else "asym"
        q, *others = self.arrays.call(f"dynamic_range_quantize_per_token_{kind}_{code}", rows, **numbers)
        return (self.arrays.reshaped(q, shape) if axis is None else q, *others)

    def quantized_linear(
        self, x: Any, weight: Any, weight_scale: Any, bias: Any = None, *, x_scale: Any = None,
        x_zero_point: Any = None, weight_zero_point: Any = None, activation: Any = None, dtype: Any = None,
    ) -> Any:  # fmt: skip
        element = self.arrays.element(x, "x")
        if element.is_float:
            if x_scale is not None or x_zero_point is not None:
                raise InvalidProblemError(
                    f"x has dtype {element}, whose scale follows from its rows: x_scale must be None"
                )
            target = element if dtype is None else as_element(dtype, "dtype")
            x, x_scale = self.arrays.call("dynamic_range_quantize_per_token_sym_s8", x)
            x_scale = self.arrays.reshaped(x_scale, (math.prod(tuple(x_scale.shape)),))
        else:
            if x_scale is None:
                raise InvalidProblemError("x_scale is None, but is needed for codes")
            target = ElementKind.F32 if dtype is None else as_element(dtype, "dtype")
        scale = ElementKind.F64 if target is ElementKind.F64 else ElementKind.F32
        return self.arrays.call(
            "quantized_linear_codes", x, weight, self._numbers(x_scale, "x_scale", scale, x),
            self._numbers(weight_scale, "weight_scale", scale, x),
            self._numbers(x_zero_point, "x_zero_point", ElementKind.I32, x),
            self._numbers(weight_zero_point, "weight_zero_point", ElementKind.I32, x),
            None if bias is None else self._as(bias, "bias", ElementKind.F32),
            activation=_activation(activation), dtype=target.symbol,
        )  # fmt: skip

    def _numbers(self, given: Any, name: str, element: ElementKind, like: Any) -> Any:
        """Scales or zero points as a vector; None stays."""
        if given is None:
            return None
        if _is_number(given):
            return self.arrays.full(given, (1,), element, like)
        made = self._as(given, name, element)
        return self.arrays.reshaped(made, (math.prod(tuple(made.shape)),))

    def _by(self, b: Any) -> str:
        element = self.arrays.element(b, "b")
        if element not in (ElementKind.S8, ElementKind.U8):
            raise UnsupportedError(f"b has dtype {element}, must be one of s8, u8")
        return _CODES[element]

    def matmul_integer(self, a: Any, b: Any, a_zero_point: Any = None, b_zero_point: Any = None) -> Any:
        zeros = [self._numbers(each, name, ElementKind.I32, a)
                 for each, name in ((a_zero_point, "a_zero_point"), (b_zero_point, "b_zero_point"))]  # fmt: skip
        return self.arrays.call(f"matmul_integer_by_{self._by(b)}", a, b, *zeros)

    def qlinear_matmul(
        self, a: Any, a_scale: Any, a_zero_point: Any, b: Any, b_scale: Any, b_zero_point: Any, y_scale: Any,
        y_zero_point: Any,
    ) -> Any:  # fmt: skip
        def scale(given: Any, name: str) -> Any:
            return self._numbers(given, name, ElementKind.F32, a)

        def zero(given: Any, name: str) -> Any:
            return self._numbers(given, name, ElementKind.I32, a)

        return self.arrays.call(
            f"qlinear_matmul_by_{self._by(b)}", a, scale(a_scale, "a_scale"), b, scale(b_scale, "b_scale"),
            scale(y_scale, "y_scale"), zero(a_zero_point, "a_zero_point"), zero(b_zero_point, "b_zero_point"),
            zero(y_zero_point, "y_zero_point"),
        )  # fmt: skip

    def linear_4bit(
        self, x: Any, codes: Any, absmax: Any = None, absmax_codes: Any = None, absmax_map: Any = None,
        absmax_outer: Any = None, absmax_offset: Any = None, bias: Any = None, *, n: int, block_size: int = 64,
        book: Any = "nf4",
    ) -> Any:  # fmt: skip
        if not x.shape:
            raise InvalidProblemError("x has shape (), must have an axis")
        arrays = (codes, absmax, absmax_codes, absmax_map, absmax_outer, absmax_offset)
        numbers: dict[str, Any] = {"block_size": block_size, "book": book}
        k, element = x.shape[-1], self.arrays.element(x, "x")
        if math.prod(x.shape[:-1]) <= _FEW_ROWS // (2 if element is ElementKind.F32 else 1):
            return self.arrays.call("gemv_4bit", x, codes, n, *arrays[1:], bias, **numbers)

        def weight(*coded: Any) -> Any:
            flat = self.arrays.call("dequantize_4bit", *coded, numel=n * k, **numbers, dtype=element)
            return self.arrays.reshaped(flat, (n, k))

        return self.arrays.linear_of(x, weight, arrays, bias)


_ACTIVATIONS = {None: 0, "none": 0, "relu": 1, "gelu": 2, "silu": 3, "gelu_tanh": 4}


def _activation(given: Any) -> int:
    if isinstance(given, ActivationKind):
        given = given.name.lower()
    if given not in _ACTIVATIONS:
        raise InvalidProblemError(f"activation is {given!r}, must be one of {', '.join(map(str, _ACTIVATIONS))}")
    return _ACTIVATIONS[given]

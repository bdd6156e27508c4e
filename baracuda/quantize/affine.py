# SPDX-License-Identifier: Apache-2.0
"""Affine quantisation under the names of ONNX: code = clamp(round(x / scale) + zero_point, q_min, q_max).

Codes are of s8 or u8, or of s4 or u4, two a byte of u8, the even index in the low half. Results belong to the framework
of the first array and are on its device and stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from baracuda import functions
from baracuda._arrays.frameworks import as_array, framework_of, result_framework
from baracuda._arrays.shaping import empty_like, given_array, reshaped
from baracuda._functions.quantize_calls import NAMES, QuantizeCalls
from baracuda.dtypes import ElementKind
from baracuda.errors import naming
from baracuda.tensor import tensor

__all__ = [name for name in NAMES if name != "linear_4bit"]


class _Arrays:
    """Arrays of any framework, through `baracuda.functions`."""

    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        return getattr(functions, name)(*arrays, **numbers)

    def element(self, x: Any, name: str) -> ElementKind:
        return tensor(x, name).dtype

    def cast(self, x: Any, element: ElementKind) -> Any:
        return functions.cast(x, element)

    def full(self, value: float, shape: Sequence[int], element: ElementKind, like: Any) -> Any:
        made = empty_like(like, tuple(shape), element)
        result_framework(made).fill(made, value)
        return made

    def reshaped(self, x: Any, shape: Sequence[int]) -> Any:
        return reshaped(x, tuple(shape))

    def linear_of(self, x: Any, weight: Callable[..., Any], arrays: Sequence[Any], bias: Any) -> Any:
        return functions.linear(x, weight(*arrays), bias)


CALLS = QuantizeCalls(_Arrays())


def _array(array: Any, name: str) -> Any:
    """An array that may be a number or None."""
    if array is None or isinstance(array, (int, float)):
        return array
    return array if framework_of(array) is not None else as_array(array, name)


@naming("quantize_linear")
def quantize_linear(
    x: Any, scale: Any, zero_point: Any = None, *, axis: int | None = None, group_size: int | None = None,
    q_min: int | None = None, q_max: int | None = None, dtype: Any = "s8",
) -> Any:  # fmt: skip
    """Codes of x: clamp(round(x / scale) + zero_point, q_min, q_max), as QuantizeLinear of ONNX and
    torch.quantize_per_tensor have it; the range is that of dtype, one of s8, u8, s4, u4, by default.

    scale is a number, or an array of one element; with axis it has an element for each index along it (per channel).
    Without it scale has the shape of x without the last axis (per token), or of x with fewer elements along the last
    axis, each for a group of group_size adjacent ones. zero_point is like scale, 0 by default.

    Ties go to the even integer. Per token and per group the zero point is added before rounding, else behind it. NaN
    gives zero_point, infinities the ends of the range. Codes of 4 bits halve the last axis, which must be even.

    InvalidProblemError for shapes that do not fit, UnsupportedError for a dtype that is not served.
    """
    return CALLS.quantize_linear(
        given_array(x, "x"), _array(scale, "scale"), _array(zero_point, "zero_point"), axis=axis, group_size=group_size,
        q_min=q_min, q_max=q_max, dtype=dtype,
    )  # fmt: skip


@naming("dequantize_linear")
def dequantize_linear(
    q: Any, scale: Any, zero_point: Any = None, *, axis: int | None = None, group_size: int | None = None,
    dtype: Any = None, q_dtype: Any = None,
) -> Any:  # fmt: skip
    """scale * (q - zero_point) with scales as quantize_linear takes them, as DequantizeLinear of ONNX.

    The result has the dtype of scale, or dtype; f32 if scale is a number. q_dtype is s4 or u4 for bytes of two codes.

    InvalidProblemError for shapes that do not fit, UnsupportedError for a dtype that is not served.
    """
    return CALLS.dequantize_linear(
        given_array(q, "q"), _array(scale, "scale"), _array(zero_point, "zero_point"), axis=axis, group_size=group_size,
        dtype=dtype, q_dtype=q_dtype,
    )  # fmt: skip


@naming("fake_quantize")
def fake_quantize(
    x: Any, scale: Any, zero_point: Any = None, *, axis: int = 0, q_min: int = -128, q_max: int = 127,
    grad_factor: float = 1.0,
) -> Any:  # fmt: skip
    """x quantised and dequantised: scale * (clamp(round(x / scale) + zero_point, q_min, q_max) - zero_point).

    scale and zero_point are numbers, or arrays with one element or one for each index along axis. The gradient passes
    where the code is in range (a straight-through estimator); a zero_point of floats is rounded, and then scale and
    zero_point have gradients too (arXiv 1902.08153, 2004.09576), times grad_factor.

    InvalidProblemError for shapes that do not fit, UnsupportedError for a dtype that is not served.
    """
    return CALLS.fake_quantize(
        given_array(x, "x"), _array(scale, "scale"), _array(zero_point, "zero_point"), axis=axis, q_min=q_min,
        q_max=q_max, grad_factor=grad_factor,
    )  # fmt: skip


@naming("dynamic_quantize_linear")
def dynamic_quantize_linear(
    x: Any, *, axis: int | None = None, symmetric: bool | None = None, q_min: int | None = None,
    q_max: int | None = None, dtype: Any = "u8",
) -> Any:  # fmt: skip
    """Codes of x with scales that span its values and 0: (q, scale, zero_point), or (q, scale) if symmetric.

    The whole array has one scale, as in DynamicQuantizeLinear of ONNX, or with axis -1 each row along the last axis.
    dtype is u8, or s8, which is symmetric unless symmetric is False: scale = max |x| / q_max. NaN does not count;
    zeros have scale 1. Scales are f32, f64 for f64.

    UnsupportedError for a dtype that is not served, or another axis.
    """
    return CALLS.dynamic_quantize_linear(
        given_array(x, "x"), axis=axis, symmetric=symmetric, q_min=q_min, q_max=q_max, dtype=dtype
    )


@naming("quantized_linear")
def quantized_linear(
    x: Any, weight: Any, weight_scale: Any, bias: Any = None, *, x_scale: Any = None, x_zero_point: Any = None,
    weight_zero_point: Any = None, activation: Any = None, dtype: Any = None,
) -> Any:  # fmt: skip
    """A linear layer of 8-bit codes (W8A8): act((x - x_zero_point) (weight - weight_zero_point)^T scales + bias).

    weight is (n, k) of s8 with one scale or n. x, (..., k), is of s8 or u8 codes with x_scale, one or one for each row,
    or of floats, whose rows are quantised symmetrically first. activation is None, relu, gelu, silu or gelu_tanh. The
    result is in dtype: by default that of x, f32 for codes.

    InvalidProblemError for shapes that do not fit, UnsupportedError for a dtype that is not served.
    """
    return CALLS.quantized_linear(
        given_array(x, "x"), given_array(weight, "weight"), _array(weight_scale, "weight_scale"), _array(bias, "bias"),
        x_scale=_array(x_scale, "x_scale"), x_zero_point=_array(x_zero_point, "x_zero_point"),
        weight_zero_point=_array(weight_zero_point, "weight_zero_point"), activation=activation, dtype=dtype,
    )  # fmt: skip


@naming("matmul_integer")
def matmul_integer(a: Any, b: Any, a_zero_point: Any = None, b_zero_point: Any = None) -> Any:
    """(a - a_zero_point) (b - b_zero_point) in i32, of 8-bit codes a, (..., k), and b, (k, n): MatMulInteger of ONNX.

    Zero points are numbers, or arrays with one element or one for each row of a or column of b.

    InvalidProblemError for shapes that do not fit, UnsupportedError for a dtype that is not served.
    """
    return CALLS.matmul_integer(
        given_array(a, "a"), given_array(b, "b"), _array(a_zero_point, "a_zero_point"),
        _array(b_zero_point, "b_zero_point"),
    )  # fmt: skip


@naming("qlinear_matmul")
def qlinear_matmul(
    a: Any, a_scale: Any, a_zero_point: Any, b: Any, b_scale: Any, b_zero_point: Any, y_scale: Any, y_zero_point: Any,
) -> Any:  # fmt: skip
    """matmul_integer with its result quantised to codes like those of a: QLinearMatMul of ONNX.

    y = saturate(round(a_scale b_scale / y_scale * sum) + y_zero_point). Scales and zero points are numbers, or arrays
    with one element or one for each row of a or column of b; those of y have one.

    InvalidProblemError for shapes that do not fit, UnsupportedError for a dtype that is not served.
    """
    return CALLS.qlinear_matmul(
        given_array(a, "a"), _array(a_scale, "a_scale"), _array(a_zero_point, "a_zero_point"), given_array(b, "b"),
        _array(b_scale, "b_scale"), _array(b_zero_point, "b_zero_point"), _array(y_scale, "y_scale"),
        _array(y_zero_point, "y_zero_point"),
    )  # fmt: skip

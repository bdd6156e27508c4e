# SPDX-License-Identifier: Apache-2.0
"""Convolutions as PyTorch names them: conv1d, conv2d, conv3d, their transposes, and the gradients of all.

They take the arrays that `baracuda.functions` takes. Results belong to the framework of the first array and are on its
device and stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baracuda import functions
from baracuda._arrays.frameworks import result_framework
from baracuda._arrays.shaping import given_array
from baracuda._functions.conv_calls import NAMES, ConvCalls, Numbers, Padding
from baracuda.errors import naming
from baracuda.kinds import ActivationKind
from baracuda.tensor import contiguous_stride, tensor

__all__ = list(NAMES)
Activation = str | ActivationKind | None


class _Arrays:
    """Arrays of any framework, through `baracuda.functions`."""

    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        return getattr(functions, name)(*arrays, **numbers)

    def permuted(self, x: Any, order: Sequence[int]) -> Any:
        return result_framework(x).permuted(x, tuple(order))

    def has_channels_last(self, x: Any) -> bool:
        view = tensor(x, "x")
        order = (0, *range(2, len(view.shape)), 1)
        if view.is_dense or 0 in view.shape:
            return False
        return tuple([view.strides[axis] for axis in order]) == contiguous_stride(tuple([view.shape[a] for a in order]))


_CALLS = ConvCalls(_Arrays())


def _arrays(**given: Any) -> list[Any]:
    return [each if each is None else given_array(each, name) for name, each in given.items()]


@naming("conv1d")
def conv1d(
    x: Any, weight: Any, bias: Any = None, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1,
    groups: int = 1, *, layout: str = "NCL", activation: Activation = None, allow_tf32: bool = False,
    out: Any = None,
) -> Any:  # fmt: skip
    """Convolution over one spatial axis: conv2d with x (batch, channels, length) and weight (outputs, channels /
    groups, taps); layout "NLC" has channels last.

    InvalidProblemError for shapes and numbers that do not fit.
    """
    x, weight, bias = _arrays(x=x, weight=weight, bias=bias)
    return _CALLS.forward(
        1, x, weight, bias, stride, padding, dilation, groups, layout=layout, activation=activation,
        allow_tf32=allow_tf32, out=out,
    )  # fmt: skip


@naming("conv1d_backward")
def conv1d_backward(
    dy: Any, x: Any, weight: Any, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1, groups: int = 1, *,
    layout: str = "NCL", allow_tf32: bool = False, needs: Sequence[bool] = (True, True, True),
) -> Any:  # fmt: skip
    """Gradients of conv1d, with the arguments of conv2d_backward.

    InvalidProblemError for shapes and numbers that do not fit.
    """
    dy, x, weight = _arrays(dy=dy, x=x, weight=weight)
    return _CALLS.forward_backward(
        1, dy, x, weight, stride, padding, dilation, groups, layout=layout, allow_tf32=allow_tf32, needs=needs
    )


@naming("conv_transpose1d")
def conv_transpose1d(
    x: Any, weight: Any, bias: Any = None, stride: Numbers = 1, padding: Padding = 0, output_padding: Numbers = 0,
    groups: int = 1, dilation: Numbers = 1, *, layout: str = "NCL", activation: Activation = None,
    allow_tf32: bool = False, out: Any = None,
) -> Any:  # fmt: skip
    """Transposed convolution over one spatial axis: conv_transpose2d with x (batch, channels, length) and weight
    (channels, outputs / groups, taps).

    InvalidProblemError for shapes and numbers that do not fit.
    """
    x, weight, bias = _arrays(x=x, weight=weight, bias=bias)
    return _CALLS.transposed(
        1, x, weight, bias, stride, padding, output_padding, groups, dilation, layout=layout, activation=activation,
        allow_tf32=allow_tf32, out=out,
    )  # fmt: skip


@naming("conv_transpose1d_backward")
def conv_transpose1d_backward(
    dy: Any, x: Any, weight: Any, stride: Numbers = 1, padding: Padding = 0, output_padding: Numbers = 0,
    groups: int = 1, dilation: Numbers = 1, *, layout: str = "NCL", allow_tf32: bool = False,
    needs: Sequence[bool] = (True, True, True),
) -> Any:  # fmt: skip
    """Gradients of conv_transpose1d, with the arguments of conv_transpose2d_backward.

    InvalidProblemError for shapes and numbers that do not fit.
    """
    dy, x, weight = _arrays(dy=dy, x=x, weight=weight)
    return _CALLS.transposed_backward(
        1, dy, x, weight, stride, padding, output_padding, groups, dilation, layout=layout, allow_tf32=allow_tf32,
        needs=needs,
    )  # fmt: skip


@naming("conv2d")
def conv2d(
    x: Any, weight: Any, bias: Any = None, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1,
    groups: int = 1, *, layout: str = "NCHW", activation: Activation = None, allow_tf32: bool = False,
    out: Any = None,
) -> Any:  # fmt: skip
    """Convolution over two spatial axes, act(conv(x, weight) + bias), as torch.nn.functional.conv2d has it.

    x is (batch, channels, height, width), or without the batch, weight (outputs, channels / groups, taps, taps),
    bias (outputs,). layout "NHWC" has the channels of x, weight and the result behind their spatial axes. Arrays
    whose memory has channels last need no copy, whatever the layout, and give such a result.

    stride, padding and dilation are numbers for all spatial axes, or one for each; padding may also be a pair for
    each, (before, after), "valid" for none, or "same" for a result of x's extents, where an odd one is behind.
    groups divides channels and outputs; groups = channels is a depthwise convolution. activation is relu, gelu,
    silu, gelu_tanh or None, in the same pass. f32 is not rounded to TF32 unless allow_tf32 says so.

    InvalidProblemError for shapes and numbers that do not fit.
    """
    x, weight, bias = _arrays(x=x, weight=weight, bias=bias)
    return _CALLS.forward(
        2, x, weight, bias, stride, padding, dilation, groups, layout=layout, activation=activation,
        allow_tf32=allow_tf32, out=out,
    )  # fmt: skip


@naming("conv2d_backward")
def conv2d_backward(
    dy: Any, x: Any, weight: Any, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1, groups: int = 1, *,
    layout: str = "NCHW", allow_tf32: bool = False, needs: Sequence[bool] = (True, True, True),
) -> Any:  # fmt: skip
    """Gradients of conv2d without an activation, of x, weight and bias; needs says which are wanted, others are
    None.

    dy has the shape of the result; the other arguments are those of conv2d. Sums have a fixed order.

    InvalidProblemError for shapes and numbers that do not fit.
    """
    dy, x, weight = _arrays(dy=dy, x=x, weight=weight)
    return _CALLS.forward_backward(
        2, dy, x, weight, stride, padding, dilation, groups, layout=layout, allow_tf32=allow_tf32, needs=needs
    )


@naming("conv_transpose2d")
def conv_transpose2d(
    x: Any, weight: Any, bias: Any = None, stride: Numbers = 1, padding: Padding = 0, output_padding: Numbers = 0,
    groups: int = 1, dilation: Numbers = 1, *, layout: str = "NCHW", activation: Activation = None,
    allow_tf32: bool = False, out: Any = None,
) -> Any:  # fmt: skip
    """Transposed convolution over two spatial axes, as torch.nn.functional.conv_transpose2d has it: the gradient of
    conv2d with respect to its x.

    x is (batch, channels, height, width), or without the batch, weight (channels, outputs / groups, taps, taps).
    The result has (extent - 1) * stride - padding before and after + dilation * (taps - 1) + output_padding + 1
    elements along an axis; output_padding is less than the larger of stride and dilation. padding is a number, or a
    number or a pair for each axis. The other arguments are those of conv2d.

    InvalidProblemError for shapes and numbers that do not fit.
    """
    x, weight, bias = _arrays(x=x, weight=weight, bias=bias)
    return _CALLS.transposed(
        2, x, weight, bias, stride, padding, output_padding, groups, dilation, layout=layout, activation=activation,
        allow_tf32=allow_tf32, out=out,
    )  # fmt: skip


@naming("conv_transpose2d_backward")
def conv_transpose2d_backward(
    dy: Any, x: Any, weight: Any, stride: Numbers = 1, padding: Padding = 0, output_padding: Numbers = 0,
    groups: int = 1, dilation: Numbers = 1, *, layout: str = "NCHW", allow_tf32: bool = False,
    needs: Sequence[bool] = (True, True, True),
) -> Any:  # fmt: skip
    """Gradients of conv_transpose2d without an activation, of x, weight and bias; needs says which are wanted,
    others are None.

    dy has the shape of the result; the other arguments are those of conv_transpose2d.

    InvalidProblemError for shapes and numbers that do not fit.
    """
    dy, x, weight = _arrays(dy=dy, x=x, weight=weight)
    return _CALLS.transposed_backward(
        2, dy, x, weight, stride, padding, output_padding, groups, dilation, layout=layout, allow_tf32=allow_tf32,
        needs=needs,
    )  # fmt: skip


@naming("conv3d")
def conv3d(
    x: Any, weight: Any, bias: Any = None, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1,
    groups: int = 1, *, layout: str = "NCDHW", activation: Activation = None, allow_tf32: bool = False,
    out: Any = None,
) -> Any:  # fmt: skip
    """Convolution over three spatial axes: conv2d with x (batch, channels, depth, height, width) and weight
    (outputs, channels / groups, taps, taps, taps); layout "NDHWC" has channels last.

    InvalidProblemError for shapes and numbers that do not fit.
    """
    x, weight, bias = _arrays(x=x, weight=weight, bias=bias)
    return _CALLS.forward(
        3, x, weight, bias, stride, padding, dilation, groups, layout=layout, activation=activation,
        allow_tf32=allow_tf32, out=out,
    )  # fmt: skip


@naming("conv3d_backward")
def conv3d_backward(
    dy: Any, x: Any, weight: Any, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1, groups: int = 1, *,
    layout: str = "NCDHW", allow_tf32: bool = False, needs: Sequence[bool] = (True, True, True),
) -> Any:  # fmt: skip
    """Gradients of conv3d, with the arguments of conv2d_backward.

    InvalidProblemError for shapes and numbers that do not fit.
    """
    dy, x, weight = _arrays(dy=dy, x=x, weight=weight)
    return _CALLS.forward_backward(
        3, dy, x, weight, stride, padding, dilation, groups, layout=layout, allow_tf32=allow_tf32, needs=needs
    )


@naming("conv_transpose3d")
def conv_transpose3d(
    x: Any, weight: Any, bias: Any = None, stride: Numbers = 1, padding: Padding = 0, output_padding: Numbers = 0,
    groups: int = 1, dilation: Numbers = 1, *, layout: str = "NCDHW", activation: Activation = None,
    allow_tf32: bool = False, out: Any = None,
) -> Any:  # fmt: skip
    """Transposed convolution over three spatial axes: conv_transpose2d with x (batch, channels, depth, height,
    width) and weight (channels, outputs / groups, taps, taps, taps).

    InvalidProblemError for shapes and numbers that do not fit.
    """
    x, weight, bias = _arrays(x=x, weight=weight, bias=bias)
    return _CALLS.transposed(
        3, x, weight, bias, stride, padding, output_padding, groups, dilation, layout=layout, activation=activation,
        allow_tf32=allow_tf32, out=out,
    )  # fmt: skip


@naming("conv_transpose3d_backward")
def conv_transpose3d_backward(
    dy: Any, x: Any, weight: Any, stride: Numbers = 1, padding: Padding = 0, output_padding: Numbers = 0,
    groups: int = 1, dilation: Numbers = 1, *, layout: str = "NCDHW", allow_tf32: bool = False,
    needs: Sequence[bool] = (True, True, True),
) -> Any:  # fmt: skip
    """Gradients of conv_transpose3d, with the arguments of conv_transpose2d_backward.

    InvalidProblemError for shapes and numbers that do not fit.
    """
    dy, x, weight = _arrays(dy=dy, x=x, weight=weight)
    return _CALLS.transposed_backward(
        3, dy, x, weight, stride, padding, output_padding, groups, dilation, layout=layout, allow_tf32=allow_tf32,
        needs=needs,
    )  # fmt: skip

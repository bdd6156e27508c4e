# SPDX-License-Identifier: Apache-2.0
"""Pooling under PyTorch's names and arguments, for arrays of any framework.

x is (N, C, spatial axes), or with layout='channels_last' (N, spatial axes, C), N being optional. kernel_size, stride,
padding, dilation and output_size are a number for each spatial axis, or one for all; stride is kernel_size by
default, and
padding may have a pair, before and behind, for each axis. With ceil_mode the last window may leave the padded image,
if it
begins in the image or the padding before it. Results belong to the framework of the first array and are on its device
and stream. The functions without a number of axes in their names, such as baracuda.max_pool, have the same options.
"""

from __future__ import annotations

from typing import Any

from baracuda import functions
from baracuda._arrays.shaping import given_array
from baracuda._functions.pool_calls import FUNCTIONS, NAMES
from baracuda.errors import naming

__all__ = list(NAMES)


def _call(name: str, *arrays: Any, **numbers: Any) -> Any:
    return getattr(functions, name)(*arrays, **numbers)


@naming("max_pool1d")
def max_pool1d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False, *, layout: str = "channels_first",
) -> Any:  # fmt: skip
    """The maximum of each window. Of images with one spatial axis, as torch.nn.functional.max_pool1d has it.

    With return_indices (y, indices): row-major numbers, in the plane of the spatial axes, of the first greatest
    cells, of i64. NaN is greater than all numbers.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["max_pool1d"](
        _call, given_array(x, "x"), kernel_size, stride, padding, dilation, ceil_mode, return_indices,
        layout=layout,
    )  # fmt: skip


@naming("max_pool2d")
def max_pool2d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False, *, layout: str = "channels_first",
) -> Any:  # fmt: skip
    """The maximum of each window. Of images with two spatial axes, as torch.nn.functional.max_pool2d has it.

    With return_indices (y, indices): row-major numbers, in the plane of the spatial axes, of the first greatest
    cells, of i64. NaN is greater than all numbers.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["max_pool2d"](
        _call, given_array(x, "x"), kernel_size, stride, padding, dilation, ceil_mode, return_indices,
        layout=layout,
    )  # fmt: skip


@naming("max_pool3d")
def max_pool3d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False, *, layout: str = "channels_first",
) -> Any:  # fmt: skip
    """The maximum of each window. Of images with three spatial axes, as torch.nn.functional.max_pool3d has it.

    With return_indices (y, indices): row-major numbers, in the plane of the spatial axes, of the first greatest
    cells, of i64. NaN is greater than all numbers.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["max_pool3d"](
        _call, given_array(x, "x"), kernel_size, stride, padding, dilation, ceil_mode, return_indices,
        layout=layout,
    )  # fmt: skip


@naming("avg_pool1d")
def avg_pool1d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad:
    bool = True, divisor_override: int | None = None, *, layout: str = "channels_first",
) -> Any:  # fmt: skip
    """The mean of each window. Of images with one spatial axis, as torch.nn.functional.avg_pool1d has it.

    Padding counts as zeros with count_include_pad, but not what ceil_mode adds behind it; divisor_override
    replaces the number of cells.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["avg_pool1d"](
        _call, given_array(x, "x"), kernel_size, stride, padding, ceil_mode, count_include_pad,
        divisor_override, layout=layout,
    )  # fmt: skip


@naming("avg_pool2d")
def avg_pool2d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad:
    bool = True, divisor_override: int | None = None, *, layout: str = "channels_first",
) -> Any:  # fmt: skip
    """The mean of each window. Of images with two spatial axes, as torch.nn.functional.avg_pool2d has it.

    Padding counts as zeros with count_include_pad, but not what ceil_mode adds behind it; divisor_override
    replaces the number of cells.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["avg_pool2d"](
        _call, given_array(x, "x"), kernel_size, stride, padding, ceil_mode, count_include_pad,
        divisor_override, layout=layout,
    )  # fmt: skip


@naming("avg_pool3d")
def avg_pool3d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad:
    bool = True, divisor_override: int | None = None, *, layout: str = "channels_first",
) -> Any:  # fmt: skip
    """The mean of each window. Of images with three spatial axes, as torch.nn.functional.avg_pool3d has it.

    Padding counts as zeros with count_include_pad, but not what ceil_mode adds behind it; divisor_override
    replaces the number of cells.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["avg_pool3d"](
        _call, given_array(x, "x"), kernel_size, stride, padding, ceil_mode, count_include_pad,
        divisor_override, layout=layout,
    )  # fmt: skip


@naming("lp_pool1d")
def lp_pool1d(
    x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False, *, layout: str =
    "channels_first",
) -> Any:  # fmt: skip
    """The norm_type-norm of each window, (sum of abs(x)^p)^(1/p); that for infinity is the greatest abs(x). Of
    images with one spatial axis, as torch.nn.functional.lp_pool1d has it.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["lp_pool1d"](
        _call, given_array(x, "x"), norm_type, kernel_size, stride, ceil_mode, layout=layout,
    )  # fmt: skip


@naming("lp_pool2d")
def lp_pool2d(
    x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False, *, layout: str =
    "channels_first",
) -> Any:  # fmt: skip
    """The norm_type-norm of each window, (sum of abs(x)^p)^(1/p); that for infinity is the greatest abs(x). Of
    images with two spatial axes, as torch.nn.functional.lp_pool2d has it.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["lp_pool2d"](
        _call, given_array(x, "x"), norm_type, kernel_size, stride, ceil_mode, layout=layout,
    )  # fmt: skip


@naming("lp_pool3d")
def lp_pool3d(
    x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False, *, layout: str =
    "channels_first",
) -> Any:  # fmt: skip
    """The norm_type-norm of each window, (sum of abs(x)^p)^(1/p); that for infinity is the greatest abs(x). Of
    images with three spatial axes, as torch.nn.functional.lp_pool3d has it.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["lp_pool3d"](
        _call, given_array(x, "x"), norm_type, kernel_size, stride, ceil_mode, layout=layout,
    )  # fmt: skip


@naming("adaptive_avg_pool1d")
def adaptive_avg_pool1d(
    x: Any, output_size: Any, *, layout: str = "channels_first",
) -> Any:  # fmt: skip
    """The mean of each of output_size windows along each spatial axis. Of images with one spatial axis, as
    torch.nn.functional.adaptive_avg_pool1d has it.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["adaptive_avg_pool1d"](
        _call, given_array(x, "x"), output_size, layout=layout,
    )  # fmt: skip


@naming("adaptive_avg_pool2d")
def adaptive_avg_pool2d(
    x: Any, output_size: Any, *, layout: str = "channels_first",
) -> Any:  # fmt: skip
    """The mean of each of output_size windows along each spatial axis. Of images with two spatial axes, as
    torch.nn.functional.adaptive_avg_pool2d has it.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["adaptive_avg_pool2d"](
        _call, given_array(x, "x"), output_size, layout=layout,
    )  # fmt: skip


@naming("adaptive_avg_pool3d")
def adaptive_avg_pool3d(
    x: Any, output_size: Any, *, layout: str = "channels_first",
) -> Any:  # fmt: skip
    """The mean of each of output_size windows along each spatial axis. Of images with three spatial axes, as
    torch.nn.functional.adaptive_avg_pool3d has it.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["adaptive_avg_pool3d"](
        _call, given_array(x, "x"), output_size, layout=layout,
    )  # fmt: skip


@naming("adaptive_max_pool1d")
def adaptive_max_pool1d(
    x: Any, output_size: Any, return_indices: bool = False, *, layout: str = "channels_first",
) -> Any:  # fmt: skip
    """The maximum of each of output_size windows along each spatial axis. Of images with one spatial axis, as
    torch.nn.functional.adaptive_max_pool1d has it.

    With return_indices (y, indices): row-major numbers, in the plane of the spatial axes, of the first greatest
    cells, of i64.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["adaptive_max_pool1d"](
        _call, given_array(x, "x"), output_size, return_indices, layout=layout,
    )  # fmt: skip


@naming("adaptive_max_pool2d")
def adaptive_max_pool2d(
    x: Any, output_size: Any, return_indices: bool = False, *, layout: str = "channels_first",
) -> Any:  # fmt: skip
    """The maximum of each of output_size windows along each spatial axis. Of images with two spatial axes, as
    torch.nn.functional.adaptive_max_pool2d has it.

    With return_indices (y, indices): row-major numbers, in the plane of the spatial axes, of the first greatest
    cells, of i64.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["adaptive_max_pool2d"](
        _call, given_array(x, "x"), output_size, return_indices, layout=layout,
    )  # fmt: skip


@naming("adaptive_max_pool3d")
def adaptive_max_pool3d(
    x: Any, output_size: Any, return_indices: bool = False, *, layout: str = "channels_first",
) -> Any:  # fmt: skip
    """The maximum of each of output_size windows along each spatial axis. Of images with three spatial axes, as
    torch.nn.functional.adaptive_max_pool3d has it.

    With return_indices (y, indices): row-major numbers, in the plane of the spatial axes, of the first greatest
    cells, of i64.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["adaptive_max_pool3d"](
        _call, given_array(x, "x"), output_size, return_indices, layout=layout,
    )  # fmt: skip


@naming("fractional_max_pool2d")
def fractional_max_pool2d(
    x: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    *, random_samples: Any, layout: str = "channels_first",
) -> Any:  # fmt: skip
    """The maximum of windows whose starts random numbers spread over each axis (Graham 2014). Of images with
    two spatial axes, as torch.nn.functional.fractional_max_pool2d has it.

    random_samples, (N, C, 2) of f32 in [0, 1), has a number for each axis, the width's first, as PyTorch has
    them; one of output_size and output_ratio is given. With return_indices (y, indices), as max_pool2d has
    them.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["fractional_max_pool2d"](
        _call, given_array(x, "x"), kernel_size, output_size, output_ratio, return_indices, layout=layout,
        random_samples=given_array(random_samples, "random_samples"),
    )  # fmt: skip


@naming("fractional_max_pool3d")
def fractional_max_pool3d(
    x: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    *, random_samples: Any, layout: str = "channels_first",
) -> Any:  # fmt: skip
    """The maximum of windows whose starts random numbers spread over each axis (Graham 2014). Of images with
    three spatial axes, as torch.nn.functional.fractional_max_pool3d has it.

    random_samples, (N, C, 3) of f32 in [0, 1), has a number for each axis, in the order of the axes; one of
    output_size and output_ratio is given. With return_indices (y, indices), as max_pool3d has them.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["fractional_max_pool3d"](
        _call, given_array(x, "x"), kernel_size, output_size, output_ratio, return_indices, layout=layout,
        random_samples=given_array(random_samples, "random_samples"),
    )  # fmt: skip


@naming("max_unpool1d")
def max_unpool1d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None, *,
    layout: str = "channels_first",
) -> Any:  # fmt: skip
    """x at the cells that indices name, and 0 elsewhere: the inverse of max pooling. Of images with one spatial
    axis, as torch.nn.functional.max_unpool1d has it.

    indices are those of max_pool1d. output_size is (extent - 1) stride - 2 padding + kernel_size by default;
    another one differs by less than the stride. Of several values for a cell the last one counts.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["max_unpool1d"](
        _call, given_array(x, "x"), given_array(indices, "indices"), kernel_size, stride, padding,
        output_size, layout=layout,
    )  # fmt: skip


@naming("max_unpool2d")
def max_unpool2d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None, *,
    layout: str = "channels_first",
) -> Any:  # fmt: skip
    """x at the cells that indices name, and 0 elsewhere: the inverse of max pooling. Of images with two spatial
    axes, as torch.nn.functional.max_unpool2d has it.

    indices are those of max_pool2d. output_size is (extent - 1) stride - 2 padding + kernel_size by default;
    another one differs by less than the stride. Of several values for a cell the last one counts.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["max_unpool2d"](
        _call, given_array(x, "x"), given_array(indices, "indices"), kernel_size, stride, padding,
        output_size, layout=layout,
    )  # fmt: skip


@naming("max_unpool3d")
def max_unpool3d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None, *,
    layout: str = "channels_first",
) -> Any:  # fmt: skip
    """x at the cells that indices name, and 0 elsewhere: the inverse of max pooling. Of images with three
    spatial axes, as torch.nn.functional.max_unpool3d has it.

    indices are those of max_pool3d. output_size is (extent - 1) stride - 2 padding + kernel_size by default;
    another one differs by less than the stride. Of several values for a cell the last one counts.

    InvalidProblemError for arguments that do not fit together.
    """
    return FUNCTIONS["max_unpool3d"](
        _call, given_array(x, "x"), given_array(indices, "indices"), kernel_size, stride, padding,
        output_size, layout=layout,
    )  # fmt: skip

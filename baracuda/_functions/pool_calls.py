# SPDX-License-Identifier: Apache-2.0
"""Pooling under PyTorch's names, by calls of the functions for any number of axes, for arrays of any framework."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_integer, as_real
from baracuda._functions.shape_rules.pooling import each_axis, is_channels_last, paddings, strides_of
from baracuda.errors import InvalidProblemError

Call = Callable[..., Any]  # calls a function by its name
# Functions that those of NAMES call.
CALLED = (
    *("max_pool", "max_pool_indices", "avg_pool", "lp_pool", "adaptive_avg_pool", "adaptive_max_pool"),
    *("adaptive_max_pool_indices", "fractional_max_pool", "max_unpool", "flip"),
)
_CHANNELS_FIRST = "channels_first"


def _images(name: str, x: Any, rank: int) -> bool:
    """Whether x lacks the axis of batches."""
    axes = len(x.shape)
    if axes not in (rank + 1, rank + 2):
        raise InvalidProblemError(
            f"{name} has shape {tuple(x.shape)}, must have {rank} spatial ax{'es' if rank > 1 else 'is'}, channels, "
            f"and perhaps batches"
        )
    return axes == rank + 1


def _on_images(x: Any, rank: int, pool: Callable[[Any], Any]) -> Any:
    """pool(x) with an axis of batches; results lack it where x does."""
    if not _images("x", x, rank):
        return pool(x)
    found = pool(x.reshape(1, *x.shape))
    return (
        tuple([_without_batch(each) for each in found]) if isinstance(found, (tuple, list)) else _without_batch(found)
    )


def _without_batch(x: Any) -> Any:
    return x.reshape(*x.shape[1:])


def _flat_padding(padding: Any, rank: int) -> tuple[int, ...]:
    low, high = paddings("padding", padding, rank)
    return low if low == high else tuple([number for pair in zip(low, high) for number in pair])


def _windows(rank: int, kernel_size: Any, stride: Any, padding: Any) -> tuple[Any, dict[str, Any]]:
    kernel = each_axis("kernel_size", kernel_size, 1, rank)
    return kernel, {"stride": strides_of(stride, kernel), "padding": _flat_padding(padding, rank)}


def max_pool(
    call: Call, rank: int, x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False, *, layout: str = _CHANNELS_FIRST,
) -> Any:  # fmt: skip
    kernel, numbers = _windows(rank, kernel_size, stride, padding)
    numbers |= {
        "dilation": each_axis("dilation", dilation, 1, rank),
        "ceil_mode": ceil_mode,
        "layout": layout,
    }
    name = "max_pool_indices" if return_indices else "max_pool"
    return _on_images(x, rank, lambda images: call(name, images, kernel, **numbers))


def avg_pool(
    call: Call, rank: int, x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None, *, layout: str = _CHANNELS_FIRST,
) -> Any:  # fmt: skip
    kernel, numbers = _windows(rank, kernel_size, stride, padding)
    numbers |= {
        "ceil_mode": ceil_mode, "count_include_pad": count_include_pad, "divisor_override": divisor_override,
        "layout": layout,
    }  # fmt: skip
    return _on_images(x, rank, lambda images: call("avg_pool", images, kernel, **numbers))


def lp_pool(
    call: Call, rank: int, x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False, *,
    layout: str = _CHANNELS_FIRST,
) -> Any:  # fmt: skip
    kernel, numbers = _windows(rank, kernel_size, stride, 0)
    numbers |= {"ceil_mode": ceil_mode, "layout": layout}
    return _on_images(x, rank, lambda images: call("lp_pool", images, float(norm_type), kernel, **numbers))


def _output_size(given: Any, rank: int) -> tuple[Any, ...]:
    """-1 stands for an extent that is kept."""
    each = tuple(given) if isinstance(given, (tuple, list)) else (given,) * rank
    if len(each) != rank:
        raise InvalidProblemError(f"output_size is {given!r}, must be one number or one for each of {rank} axes")
    return tuple([-1 if size is None else as_integer("output_size", size, 0, INT32_MAX) for size in each])


def adaptive_avg_pool(call: Call, rank: int, x: Any, output_size: Any, *, layout: str = _CHANNELS_FIRST) -> Any:
    size = _output_size(output_size, rank)
    return _on_images(x, rank, lambda images: call("adaptive_avg_pool", images, size, layout=layout))


def adaptive_max_pool(
    call: Call, rank: int, x: Any, output_size: Any, return_indices: bool = False, *, layout: str = _CHANNELS_FIRST
) -> Any:
    size = _output_size(output_size, rank)
    name = "adaptive_max_pool_indices" if return_indices else "adaptive_max_pool"
    return _on_images(x, rank, lambda images: call(name, images, size, layout=layout))


def _spatial(x: Any, rank: int, layout: str) -> tuple[Any, ...]:
    shape = tuple(x.shape)
    return shape[-1 - rank : -1] if is_channels_last(layout) else shape[-rank:]


def fractional_max_pool(
    call: Call, rank: int, x: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, *, random_samples: Any, layout: str = _CHANNELS_FIRST,
) -> Any:  # fmt: skip
    kernel = each_axis("kernel_size", kernel_size, 1, rank)
    unbatched = _images("x", x, rank)
    if (output_size is None) == (output_ratio is None):
        raise InvalidProblemError("one of output_size and output_ratio must be given, and not both")
    if output_ratio is not None:
        ratios = tuple(output_ratio) if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * rank
        if len(ratios) != rank or not all([0 < as_real("output_ratio", ratio) < 1 for ratio in ratios]):
            raise InvalidProblemError(f"output_ratio is {output_ratio!r}, must be in (0, 1), for each of {rank} axes")
        output_size = tuple([int(extent * ratio) for extent, ratio in zip(_spatial(x, rank, layout), ratios)])
    size = each_axis("output_size", output_size, 0, rank)
    samples = random_samples
    if unbatched and len(samples.shape) == 2:
        samples = samples.reshape(1, *samples.shape)
    if rank == 2:  # PyTorch has the width first
        samples = call("flip", samples, axis=-1)

    def pool(images: Any) -> Any:
        y, indices = call("fractional_max_pool", images, samples, kernel, size, layout=layout)
        return (y, indices) if return_indices else y

    return _on_images(x, rank, pool)


def max_unpool(
    call: Call, rank: int, x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Sequence[int] | None = None, *, layout: str = _CHANNELS_FIRST,
) -> Any:  # fmt: skip
    kernel = each_axis("kernel_size", kernel_size, 1, rank)
    steps, low = strides_of(stride, kernel), each_axis("padding", padding, 0, rank)
    unbatched = _images("x", x, rank)
    spatial = _spatial(x, rank, layout)
    size = tuple([(extent - 1) * s - 2 * p + k for extent, s, p, k in zip(spatial, steps, low, kernel)])
    if output_size is not None:
        given = tuple(output_size)
        if len(given) == len(x.shape):
            given = given[-1 - rank : -1] if is_channels_last(layout) else given[-rank:]
        wanted = each_axis("output_size", given, 0, rank)
        if any([not by_default - s < extent < by_default + s for extent, by_default, s in zip(wanted, size, steps)]):
            raise InvalidProblemError(
                f"output_size is {wanted}, must differ from {size} by less than the stride, {steps}"
            )
        size = wanted
    if unbatched:
        x, indices = x.reshape(1, *x.shape), indices.reshape(1, *indices.shape)
    y = call("max_unpool", x, indices, size, layout=layout)
    return _without_batch(y) if unbatched else y


_POOLS = {
    "max_pool": max_pool, "avg_pool": avg_pool, "lp_pool": lp_pool, "adaptive_avg_pool": adaptive_avg_pool,
    "adaptive_max_pool": adaptive_max_pool, "max_unpool": max_unpool, "fractional_max_pool": fractional_max_pool,
}  # fmt: skip
# Name -> the function for a number of spatial axes, which takes a caller of functions first.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"{name}{rank}d": functools.partial(lambda pool, axes, call, *given, **numbers: pool(call, axes, *given, **numbers),
                                        pool, rank)
    for name, pool in _POOLS.items()
    for rank in (1, 2, 3)
    if name != "fractional_max_pool" or rank > 1
}  # fmt: skip
NAMES = tuple(FUNCTIONS)

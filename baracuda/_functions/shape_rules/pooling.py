# SPDX-License-Identifier: Apache-2.0
"""Shape rules of pooling: images [N, C, spatial axes], or [N, spatial axes, C] with layout='channels_last'."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from baracuda._call.scalars import INT32_MAX, as_flag, as_integer, as_integers, is_symbol
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, as_strided, check_shape
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError
from baracuda.tensor import TensorRef

LAYOUTS = ("channels_first", "channels_last")
_WINDOWED = ("y", "dy", "indices")  # operands with an element for each window


def is_channels_last(layout: object) -> bool:
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise InvalidProblemError(f"layout is {layout!r}, must be one of {', '.join(LAYOUTS)}")
    return layout == LAYOUTS[1]


def by_windows(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Windows of kernel_size along the spatial axes."""
    image = _Image(shapes["x"], numbers["layout"])
    kernel = each_axis("kernel_size", numbers["kernel_size"], 1, image.spatial)
    steps = strides_of(numbers["stride"], kernel)
    dilation = each_axis("dilation", numbers["dilation"], 1, image.spatial)
    low, high = paddings("padding", numbers["padding"], image.spatial)
    ceil = bool(as_flag("ceil_mode", numbers["ceil_mode"]))
    extents = image.extents
    count = tuple([window_count(*each, ceil=ceil) for each in zip(extents, kernel, steps, dilation, low, high)])
    values: dict[str, Any] = {
        "kernel_size": kernel, "steps": steps, "padding_low": low, "padding_high": high, "dilation": dilation,
        "ceil_mode": int(ceil),
    }  # fmt: skip
    if "divisor_override" in numbers:
        values["divisor_override"] = _divisor(numbers["divisor_override"])
    return image.meta(spec, shapes, values, count)


def by_outputs(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """output_size outputs along the spatial axes; None keeps an extent."""
    image = _Image(shapes["x"], numbers["layout"])
    given = numbers["output_size"]
    each = given if _is_sequence(given) else (given,) * len(image.extents)
    if len(each) != image.spatial:
        raise InvalidProblemError(
            f"output_size is {given!r}, must be one number or one for each of {image.spatial} axes"
        )
    count = tuple([
        extent if size is None or _is_kept(size) else as_integer("output_size", size, 0, INT32_MAX)
        for size, extent in zip(each, image.extents)
    ])  # fmt: skip
    values: dict[str, Any] = {"output_size": count}
    if "kernel_size" in numbers:
        values["kernel_size"] = each_axis("kernel_size", numbers["kernel_size"], 1, image.spatial)
    meta = image.meta(spec, shapes, values, count)
    if "samples" in shapes:
        expected = (*image.whole[:2], image.spatial)
        check_shape("samples", shapes["samples"], expected)
        meta.values |= {"planes": image.whole[0] * image.whole[1], "spatial": image.spatial}
        meta.extents = {**meta.extents, "samples": (meta.values["planes"], image.spatial)}
        meta.op_views = {**meta.op_views, "samples": _as_rows}
    return meta


def unpooled(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """The result of max_unpool has output_size cells along the spatial axes, that of its gradient one for each
    index."""
    image = _Image(shapes["indices"], numbers["layout"], name="indices")
    size = each_axis("output_size", numbers["output_size"], 0, image.spatial)
    given, large = image.given(image.extents), image.given(size)
    own = {"x": given, "dx": given, "indices": given, "y": large, "dy": large}
    for name in ("x", "dy"):
        if name in shapes:
            check_shape(name, shapes[name], own[name])
    small, whole = image.whole, (*image.whole[:2], *size)
    extents = {"x": small, "dx": small, "indices": small, "y": whole, "dy": whole}
    values = {"rank": len(small), "input_shape": small, "output_size": size}
    return image.finished(spec, values, extents, own)


class _Image:
    """whole is [N, C, spatial axes], whatever the layout."""

    def __init__(self, shape: Shape, layout: object, name: str = "x") -> None:
        if not 3 <= len(shape) <= 5:
            raise InvalidProblemError(
                f"{name} has shape {shape}, must have one to three axes beside those of batch and channels"
            )
        self.is_last = is_channels_last(layout)
        self.whole = (shape[0], shape[-1], *shape[1:-1]) if self.is_last else shape
        self.extents = self.whole[2:]
        self.spatial = len(self.extents)

    def given(self, extents: Shape) -> Shape:
        """The caller's shape for these spatial extents."""
        n, c = self.whole[:2]
        return (n, *extents, c) if self.is_last else (n, c, *extents)

    def meta(self, spec: Spec, shapes: Mapping[str, Shape], values: dict[str, Any], count: Shape) -> CallMeta:
        small, large = self.given(self.extents), self.given(count)
        for name in _WINDOWED:
            if name in shapes:
                check_shape(name, shapes[name], large)
        windows = (*self.whole[:2], *count)
        extents = {"x": self.whole, "dx": self.whole} | dict.fromkeys(_WINDOWED, windows)
        own = {"x": small, "dx": small} | dict.fromkeys(_WINDOWED, large)
        return self.finished(spec, values | {"rank": len(self.whole), "input_shape": self.whole}, extents, own)

    def finished(
        self, spec: Spec, values: dict[str, Any], extents: dict[str, Shape], own: dict[str, Shape]
    ) -> CallMeta:
        op_views: dict[str, Callable[[TensorRef], TensorRef | None]] = (
            dict.fromkeys(extents, _channels_second) if self.is_last else {}
        )
        return CallMeta(values, extents, {out.pointer: own[out.pointer] for out in spec.outputs}, op_views=op_views)


def _channels_second(view: TensorRef) -> TensorRef:
    shape, strides = view.shape, view.strides
    return as_strided(view, (shape[0], shape[-1], *shape[1:-1]), (strides[0], strides[-1], *strides[1:-1]))


def _as_rows(view: TensorRef) -> TensorRef | None:
    if not view.is_dense:
        return None
    rows = (view.shape[0] * view.shape[1], view.shape[2])
    return as_strided(view, rows, (rows[1], 1))


# --- numbers of windows -----------------------------------------------------------------------------------------------


def _is_sequence(given: object) -> bool:
    return isinstance(given, (tuple, list)) or (isinstance(given, np.ndarray) and given.ndim == 1)


def _is_kept(size: object) -> bool:
    """-1 stands for None in operators of frameworks, whose lists have integers only."""
    return isinstance(size, (int, np.integer)) and size == -1


def each_axis(name: str, given: Any, low: int, count: int) -> Shape:
    """`count` integers, from a number for each axis or one for all."""
    each = as_integers(name, given if _is_sequence(given) else (given,), low, INT32_MAX)
    if len(each) not in (1, count):
        raise InvalidProblemError(f"{name} is {given!r}, must be one number or one for each of {count} axes")
    return each * count if len(each) == 1 else each


def strides_of(given: Any, kernel: Shape) -> Shape:
    """Steps between windows: those of the kernel for None and 0."""
    numbers = tuple(given) if _is_sequence(given) else (given,)
    if all([number is None or (isinstance(number, (int, np.integer)) and number == 0) for number in numbers]):
        return kernel
    return each_axis("stride", given, 1, len(kernel))


def paddings(name: str, given: Any, count: int) -> tuple[Shape, Shape]:
    """Cells before and behind each axis: from one number, a number for each axis, a pair for each, or their numbers in
    a row."""
    pairs = _is_sequence(given) and len(given) and all([_is_sequence(each) and len(each) == 2 for each in given])
    flat: Sequence[Any] = [number for pair in given for number in pair] if pairs else given
    if pairs or (_is_sequence(flat) and len(flat) == 2 * count):
        each = as_integers(name, tuple(flat), 0, INT32_MAX)
        if len(each) == 2 * count:
            return each[::2], each[1::2]
        raise InvalidProblemError(f"{name} is {given!r}, must have a pair for each of {count} axes")
    both = each_axis(name, given, 0, count)
    return both, both


def window_count(extent: int, kernel: int, step: int, dilation: int, low: int, high: int, *, ceil: bool) -> Any:
    """Windows along an axis. With ceil the last one may leave the padded image, if it begins in the image or before."""
    slack = extent + low + high - dilation * (kernel - 1) - 1 + (step - 1 if ceil else 0)
    count = slack // step + 1
    if ceil and (count - 1) * step >= extent + low:
        count -= 1
    if not is_symbol(count) and count < 1:
        raise InvalidProblemError(
            f"kernel_size is {kernel}: with dilation {dilation} no window fits into {extent} cells and "
            f"padding {low}, {high}"
        )
    return count


def _divisor(given: Any) -> int:
    if given is None:
        return 0
    number = as_integer("divisor_override", given)
    if number == 0:
        raise InvalidProblemError("divisor_override is 0, must be another number or None")
    return number

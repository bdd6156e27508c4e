# SPDX-License-Identifier: Apache-2.0
"""Shape rules of images: interpolation, sampling at positions, grids of affine maps, and pixel shuffle."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_flag, as_integer, as_real
from baracuda._functions.shape_rules.call_meta import (
    CallMeta,
    Shape,
    as_strided,
    check_shape,
    dense_as,
    if_contiguous,
    member,
)
from baracuda._functions.shape_rules.copies import as_tuple
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError
from baracuda.kinds import ResampleMode, SampleMode, SamplePadding
from baracuda.tensor import TensorRef

# Names of modes in PyTorch -> ours, and the number of spatial axes that the name is for.
_RESAMPLE_ALIASES = {"bilinear": ("linear", 2), "trilinear": ("linear", 3), "bicubic": ("cubic", 2)}
_SAMPLE_ALIASES = {"bilinear": "linear", "bicubic": "cubic"}
_NEAREST = (ResampleMode.NEAREST, ResampleMode.NEAREST_EXACT)


def interpolate(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Images [N, C, spatial]; of resize [H, W], [H, W, C] or [N, H, W, C], and of its gradient."""
    if spec.name.startswith("resize"):
        return _resize(spec, shapes, numbers)
    given = shapes["x"]
    if not 3 <= len(given) <= 5:
        raise InvalidProblemError(
            f"x has shape {given}, must have one to three axes behind those of batch and channels"
        )
    spatial = given[2:]
    factors = _factors(numbers["scale_factor"], len(spatial))
    if "dy" in shapes:
        large = shapes["dy"]
        if len(large) != len(given) or large[:2] != given[:2]:
            raise InvalidProblemError(f"dy has shape {large}, must be that of x, {given}, but for its spatial axes")
    else:
        large = (*given[:2], *_output_size(numbers["size"], factors, spatial))
    align_corners = bool(as_flag("align_corners", numbers["align_corners"]))
    mode = _resample_mode(numbers["mode"], len(spatial))
    values = _resample_values(given, large, mode, align_corners, as_flag("antialias", numbers["antialias"]), numbers)
    values |= dict(zip(("scale_x", "scale_y", "scale_z"), reversed(factors))) if factors else {}
    extents = {"x": given, "dx": given, "y": large, "dy": large}
    return CallMeta(values, extents, {out.pointer: extents[out.pointer] for out in spec.outputs})


def _resize(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    given = shapes["x"]
    if not 2 <= len(given) <= 4:
        raise InvalidProblemError(f"x has shape {given}, must be (H, W), (H, W, C) or (N, H, W, C)")
    first = max(len(given) - 3, 0)  # the axis of rows
    if "dy" in shapes:
        large = shapes["dy"]
        if len(large) != len(given) or large[:first] != given[:first] or large[first + 2 :] != given[first + 2 :]:
            raise InvalidProblemError(f"dy has shape {large}, must be that of x, {given}, but for its rows and columns")
    else:
        spatial = _output_size(numbers["size"], (), given[first : first + 2])
        large = (*given[:first], *spatial, *given[first + 2 :])
    mode = _resample_mode(numbers["mode"], 2)
    antialias = as_flag("antialias", numbers["antialias"]) if mode not in _NEAREST else 0
    shaped = {"x": given, "dx": given, "y": large, "dy": large}
    extents = {name: _channels_first(shape) for name, shape in shaped.items()}
    values = _resample_values(extents["x"], extents["y"], mode, False, antialias, numbers)
    return CallMeta(
        values, extents, {out.pointer: shaped[out.pointer] for out in spec.outputs},
        op_views=dict.fromkeys(shaped, _view_channels_first),
    )  # fmt: skip


def _channels_first(shape: Shape) -> Shape:
    batch, channels = shape[0] if len(shape) == 4 else 1, shape[-1] if len(shape) > 2 else 1
    first = max(len(shape) - 3, 0)
    return (batch, channels, *shape[first : first + 2])


def _view_channels_first(view: TensorRef) -> TensorRef:
    rank, first = len(view.shape), max(len(view.shape) - 3, 0)
    strides = (
        view.strides[0] if rank == 4 else 0,
        view.strides[-1] if rank > 2 else 0,
        *view.strides[first : first + 2],
    )
    shape = _channels_first(view.shape)
    return as_strided(view, shape, tuple([s if extent > 1 else 1 for s, extent in zip(strides, shape)]))


def _resample_values(
    small: Shape, large: Shape, mode: ResampleMode, align_corners: bool, antialias: int, numbers: Mapping[str, Any]
) -> dict[str, Any]:
    if align_corners and mode not in (ResampleMode.LINEAR, ResampleMode.CUBIC):
        raise InvalidProblemError(f"align_corners is True, must be False for mode {mode.name.lower()}")
    if antialias and mode in _NEAREST:
        raise InvalidProblemError(f"antialias is True, must be False for mode {mode.name.lower()}")
    default = -0.5 if antialias else -0.75
    return {
        "rank": len(small), "input_shape": small, "output_shape": large, "input_numel": math.prod(small),
        "output_numel": math.prod(large), "resample_mode": int(mode), "align_corners": int(align_corners),
        "antialias": antialias, "scale_z": 0.0, "scale_y": 0.0, "scale_x": 0.0,
        "cubic_a": default if numbers["cubic_a"] is None else as_real("cubic_a", numbers["cubic_a"]),
    }  # fmt: skip


def _resample_mode(given: object, axes: int) -> ResampleMode:
    name = given.replace("-", "_") if isinstance(given, str) else given
    if isinstance(name, str) and name in _RESAMPLE_ALIASES:
        name, needed = _RESAMPLE_ALIASES[name]
        if needed != axes:
            raise InvalidProblemError(f"mode is {given!r}, which is for {needed} spatial axes; x has {axes}")
    return member(ResampleMode, "mode", name)


def _factors(given: object, axes: int) -> tuple[float, ...]:
    """A factor for each axis; none for None."""
    if given is None:
        return ()
    several = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    several = several * axes if len(several) == 1 else several
    if len(several) != axes:
        raise InvalidProblemError(f"scale_factor is {given!r}, must be one number or one for each of {axes} axes")
    factors = tuple([as_real("scale_factor", factor) for factor in several])
    if not all([math.isfinite(factor) and factor > 0 for factor in factors]):
        raise InvalidProblemError(f"scale_factor is {given!r}, must be finite and > 0")
    return factors


def _output_size(size: object, factors: tuple[float, ...], spatial: Shape) -> Shape:
    """The extents given, or floor(extent * factor), as PyTorch rounds them."""
    if (size is None) == (not factors):
        which = "neither size nor scale_factor is given" if size is None else "size and scale_factor are both given"
        raise InvalidProblemError(f"{which}: one of them tells the result's extents")
    if size is None:
        return tuple([math.floor(extent * factor) for extent, factor in zip(spatial, factors)])
    several = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    several = several * len(spatial) if len(several) == 1 else several
    if len(several) != len(spatial):
        raise InvalidProblemError(f"size is {size!r}, must be one number or one for each of {len(spatial)} axes")
    return as_tuple("size", several, 0)


def grid_sample(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Images [N, C, spatial] and positions [N, spatial, 2 or 3]."""
    image, grid = shapes["x"], shapes["grid"]
    axes = len(image) - 2
    if axes not in (2, 3):
        raise InvalidProblemError(f"x has shape {image}, must be (N, C, H, W) or (N, C, D, H, W)")
    if len(grid) != len(image) or grid[0] != image[0] or grid[-1] != axes:
        shown = ", ".join([str(image[0]), *("D", "H", "W")[3 - axes :], str(axes)])
        raise InvalidProblemError(f"grid has shape {grid}, expected ({shown})")
    sampled = (*image[:2], *grid[1:-1])
    check_shape("dy", shapes.get("dy", sampled), sampled)
    points = math.prod(grid[:-1])
    given = numbers["mode"]
    mode = member(SampleMode, "mode", _SAMPLE_ALIASES.get(given, given) if isinstance(given, str) else given)
    values = {
        "rank": len(image), "input_shape": image, "output_shape": sampled, "input_numel": math.prod(image),
        "output_numel": math.prod(sampled), "points": points, "coordinates": axes,
        "sample_mode": int(mode), "align_corners": as_flag("align_corners", numbers["align_corners"]),
        "padding_mode": int(member(SamplePadding, "padding_mode", numbers["padding_mode"])),
    }  # fmt: skip
    flat = (points, axes)
    extents = {"x": image, "dx": image, "y": sampled, "dy": sampled, "grid": flat, "dgrid": flat}
    results = extents | {"dgrid": grid}
    return CallMeta(
        values, extents, {out.pointer: results[out.pointer] for out in spec.outputs},
        op_views=dict.fromkeys(("grid", "dgrid"), functools.partial(dense_as, flat)),
    )  # fmt: skip


def affine_grid(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """theta [N, 2, 3] of grids [N, H, W, 2], or [N, 3, 4] of [N, D, H, W, 3]."""
    spatial = tuple([as_integer(name, numbers[name], 0, INT32_MAX) for name in ("depth", "height", "width")])
    if "theta" in shapes:
        theta = shapes["theta"]
        dims = theta[1] if len(theta) == 3 else 0
        if len(theta) != 3 or dims not in (2, 3) or theta[2] != dims + 1:
            raise InvalidProblemError(f"theta has shape {theta}, must be (N, 2, 3) or (N, 3, 4)")
        batch = theta[0]
    else:
        grid = shapes["dy"]
        dims = grid[-1] if grid else 0
        if dims not in (2, 3) or len(grid) != dims + 2:
            raise InvalidProblemError(f"dy has shape {grid}, must be (N, H, W, 2) or (N, D, H, W, 3)")
        batch = grid[0]
    if dims == 2 and spatial[0] > 1:
        raise InvalidProblemError(f"depth is {spatial[0]}, must be 0 for maps of two dimensions")
    values = {
        "batch": batch, "dims": dims, "depth": spatial[0], "height": spatial[1], "width": spatial[2],
        "align_corners": as_flag("align_corners", numbers["align_corners"]),
        "rows": dims, "columns": dims + 1, "layers": spatial[0] if dims == 3 else 1,
    }  # fmt: skip
    cells = (batch, *spatial[3 - dims :], dims)
    check_shape("dy", shapes.get("dy", cells), cells)
    layered = (batch, values["layers"], *spatial[1:], dims)
    maps = (batch, dims, dims + 1)
    extents = {"theta": maps, "dtheta": maps, "grid": layered, "dgrid": layered}
    results = {"grid": cells, "dtheta": maps}
    dense = dict.fromkeys(("grid", "dgrid"), functools.partial(dense_as, layered))
    return CallMeta(
        values, extents, {out.pointer: results[out.pointer] for out in spec.outputs},
        op_views=dense | dict.fromkeys(("theta", "dtheta"), if_contiguous),
    )  # fmt: skip


def pixel_shuffle(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """[..., C r^2, H, W] and [..., C, H r, W r]."""
    given = shapes["x"]
    is_shuffle = spec.name == "pixel_shuffle"
    name = "upscale_factor" if is_shuffle else "downscale_factor"
    r = as_integer(name, numbers[name], 1, INT32_MAX)
    if len(given) < 3:
        raise InvalidProblemError(f"x has shape {given}, must have at least three axes")
    channels, height, width = given[-3:]
    if is_shuffle and channels % (r * r):
        raise InvalidProblemError(f"x has shape {given}, its channels must be a multiple of {r}^2")
    if not is_shuffle and (height % r or width % r):
        raise InvalidProblemError(f"x has shape {given}, its height and width must be multiples of {r}")
    c = channels // (r * r) if is_shuffle else channels
    h, w = (height, width) if is_shuffle else (height // r, width // r)
    n = math.prod(given[:-3])
    small, big = (n, c * r * r, h, w), (n, c, h * r, w * r)
    source, result = (small, big) if is_shuffle else (big, small)
    values = {
        "n": n, "c": c, "h": h, "w": w, "r": r, "small_channels": small[1], "big_height": big[2], "big_width": big[3],
    }  # fmt: skip
    return CallMeta(
        values, {"input": source, "output": result}, {"output": (*given[:-3], *result[1:])},
        op_views={"input": functools.partial(dense_as, source), "output": functools.partial(dense_as, result)},
    )  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""grid_sample with every mode and padding, its gradients, and the dense forms of the reference.

The reference takes positions as the op's arithmetic gives them, f32 or f64: nearest elements and weights follow from
them.
"""

import itertools
import math

import numpy as np

from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .matrices import keys

LINEAR, NEAREST, CUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
A = -0.75
LAST = {"order": (0, 2, 3, 1)}


def keys_slope(d):
    e = abs(d)
    rise = (3 * (A + 2) * e - 2 * (A + 3)) * e if e <= 1 else A * ((3 * e - 10) * e + 8)
    return rise if d >= 0 else -rise


def padded(p, scale, n, padding, align, real):
    """Positions and slopes after padding, for linear and nearest sampling."""
    if padding == ZEROS:
        return p, scale
    last = real(n - 1)
    if padding == REFLECTION:
        low, span = (real(0), last) if align else (real(-0.5), last + real(1))
        if span == 0:
            return np.zeros_like(p), np.zeros_like(scale)
        below = p < low
        distance = np.where(below, low - p, p - low)
        rest, mirrored = np.fmod(distance, span), np.fmod(np.floor(distance / span), real(2)) != 0
        scale = np.where(below != mirrored, -scale, scale)
        p = np.where(mirrored, span - rest + low, rest + low).astype(real)
    inside = (p > 0) & (p < last)
    return np.clip(p, 0, last).astype(real), np.where(inside, scale, 0).astype(real)


def fold(i, n, padding, align):
    """Index of an element outside of the input, for cubic sampling."""
    if padding == BORDER:
        return np.clip(i, 0, n - 1)
    span = n - 1 if align else n
    if span == 0:
        return np.zeros_like(i)
    rest = np.mod(i, 2 * span)
    far = 2 * span - rest - (0 if align else 1)
    return np.where((rest < span) | ((rest == span) & align), rest, far)


def along_axis(g, n, mode, padding, align, real):
    """(indices, weights, slopes) of the taps of coordinates, each with the taps on a first axis; -1 is outside."""
    with np.errstate(over="ignore", invalid="ignore"):
        g, one, two, size = g.astype(real), real(1), real(2), real(n)
        p = (g + one) / two * (size - one) if align else ((g + one) * size - one) / two
    is_finite = np.isfinite(p)
    p = np.where(is_finite, p, 0).astype(real)
    scale = np.full(p.shape, (size - one if align else size) / two, real)
    if mode != CUBIC:
        p, scale = padded(p, scale, n, padding, align, real)
    if mode != CUBIC or padding != REFLECTION:
        p = np.clip(p, real(-8), size + real(8)).astype(real)
    else:
        p = np.clip(p, -real(4e18), real(4e18))
    base = np.rint(p) if mode == NEAREST else np.floor(p)
    t = (p - base).astype(np.float64)
    first = base.astype(np.float64).astype(np.int64) - (mode == CUBIC)
    taps = {LINEAR: 2, NEAREST: 1, CUBIC: 4}[mode]
    index = np.stack([first + k for k in range(taps)])
    if mode == CUBIC and padding != ZEROS:
        index = fold(index, n, padding, align)
    index = np.where((index >= 0) & (index < n), index, -1)
    if mode == NEAREST:
        weights, slopes = np.ones((1, *p.shape)), np.zeros((1, *p.shape))
    elif mode == LINEAR:
        weights, slopes = np.stack([1 - t, t]), np.stack([-scale, scale]).astype(np.float64)
    else:
        distance = np.stack([t + 1 - k for k in range(4)])
        weights = np.vectorize(lambda d: keys(d, A), otypes=[float])(distance)
        slopes = np.vectorize(keys_slope, otypes=[float])(distance) * scale
    if padding == ZEROS:
        index = np.where(is_finite, index, -1)
    return index, weights, slopes


class Sampled:
    """Taps of all positions: `each` is a list of (image, cells, weight, slopes of weight along x, y and z)."""

    def __init__(self, grid, spatial, mode, padding, align, dtype):
        real = np.float64 if dtype == "f64" else np.float32
        points = grid.reshape(grid.shape[0], math.prod(grid.shape[1:-1]), len(spatial))
        axes = [along_axis(points[..., k], n, mode, padding, align, real) for k, n in enumerate(reversed(spatial))]
        self.axes = axes[::-1]  # in the order of `spatial`
        self.spatial = spatial
        self.size = max(spatial)

    def taps(self):
        for chosen in itertools.product(*[range(len(index)) for index, _, _ in self.axes]):
            index = [axis[0][k] for axis, k in zip(self.axes, chosen)]
            weights = [axis[1][k] for axis, k in zip(self.axes, chosen)]
            slopes = [axis[2][k] for axis, k in zip(self.axes, chosen)]
            inside = np.logical_and.reduce([i >= 0 for i in index])
            cell = np.zeros_like(index[0])
            for i, n in zip(index, self.spatial):
                cell = cell * n + np.maximum(i, 0)
            yield inside, cell, weights, slopes


def weight_of(weights):
    return math.prod(weights[1:], start=weights[0])


def blur_of(weights):
    return math.prod(
        [np.abs(w) + 0.5 * (w != 0) for w in weights[1:]], start=np.abs(weights[0]) + 0.5 * (weights[0] != 0)
    )


def sample(of, x):
    """(y, magnitude), [N, C, points]."""
    flat = x.reshape(*x.shape[:2], math.prod(x.shape[2:]))
    y, size = 0.0, 0.0
    for inside, cell, weights, _ in of.taps():
        w = np.where(inside, weight_of(weights), 0)[:, None]
        value = np.take_along_axis(flat, cell[:, None].repeat(x.shape[1], 1), 2)
        with np.errstate(invalid="ignore", over="ignore"):
            y = y + np.where(w != 0, w * value, 0)
            size = size + np.where(w != 0, blur_of(weights)[:, None] * np.abs(value), 0)
    return y, size


def sample_backward(of, dy, x):
    """((dx, its magnitude), (dgrid, its magnitude), most records of an element)."""
    n, c = x.shape[:2]
    flat, g = (a.reshape(n, c, math.prod(a.shape[2:])) for a in (x, dy))
    dx, size = np.zeros_like(flat), np.zeros_like(flat)
    records = np.zeros((n, flat.shape[2]))
    axes = len(of.spatial)
    dgrid, grid_size = np.zeros((n, g.shape[2], axes)), np.zeros((n, g.shape[2], axes))
    for inside, cell, weights, slopes in of.taps():
        w = np.where(inside, weight_of(weights), 0)
        value = np.take_along_axis(flat, cell[:, None].repeat(c, 1), 2)
        for image in range(n):
            np.add.at(dx[image].T, cell[image], (w[image] * g[image]).T)
            np.add.at(size[image].T, cell[image], (np.where(w, blur_of(weights), 0)[image] * np.abs(g[image])).T)
            np.add.at(records[image], cell[image], w[image] != 0)
        dot, dot_size = (g * value).sum(1), (np.abs(g) * np.abs(value)).sum(1)
        for k in range(axes):
            own = axes - 1 - k  # x is the last spatial axis
            others = [weights[d] for d in range(axes) if d != own]
            rest = weight_of(others) if others else 1.0
            near = blur_of(others) if others else 1.0
            steep = np.abs(slopes[own]) + 0.5 * of.size * (slopes[own] != 0)
            dgrid[..., k] += np.where(inside, slopes[own] * rest * dot, 0)
            grid_size[..., k] += np.where(inside, steep * near * dot_size, 0)
    return (dx, size), (dgrid, grid_size), int(records.max(initial=0))


PROBLEMS = {  # input shape, positions, mode, padding, options and layouts
    "one": ((1, 1, 1, 1), (1, 1), LINEAR, ZEROS, {}),
    "plain": ((2, 3, 5, 7), (4, 6), LINEAR, ZEROS, {}),
    **{
        f"{('linear', 'nearest', 'cubic')[mode]}_{('zeros', 'border', 'reflection')[padding]}{'_aligned' * align}": (
            (2, 3, 5, 6), (7, 4), mode, padding, {"align": align}
        )
        for mode in range(3) for padding in range(3) for align in (False, True)
    },
    "single": ((1, 2, 1, 4), (3, 5), LINEAR, REFLECTION, {"align": True}),
    "single_cubic": ((1, 2, 1, 4), (3, 5), CUBIC, REFLECTION, {"align": True}),
    "volume": ((2, 3, 3, 4, 5), (2, 3, 6), LINEAR, ZEROS, {}),
    "volume_border": ((1, 2, 3, 4, 5), (3, 3, 3), LINEAR, BORDER, {"align": True}),
    "volume_reflection": ((1, 2, 3, 4, 5), (3, 3, 3), LINEAR, REFLECTION, {}),
    "volume_nearest": ((1, 2, 3, 4, 5), (3, 3, 3), NEAREST, REFLECTION, {}),
    "volume_cubic": ((1, 2, 4, 4, 5), (2, 3, 3), CUBIC, ZEROS, {}),
    "channels_last": ((2, 37, 5, 6), (4, 7), LINEAR, ZEROS, {"x": LAST, "y": LAST}),
    "flipped": ((2, 5, 5, 6), (4, 7), LINEAR, ZEROS, {"x": {"flip": (2, 3)}, "y": {"flip": (1,), "gap": 2}}),
    "gather": ((1, 3, 2, 2), (31, 33), LINEAR, BORDER, {}),
    "large": ((3, 12, 20, 21), (33, 31), LINEAR, ZEROS, {}),
}  # fmt: skip


def positions(draw, batch, spatial, kind="normal"):
    """Coordinates inside and outside of the image; "special" has NaN, infinities and huge ones."""
    g = draw.rng.uniform(-1.6, 1.6, (batch * math.prod(spatial), len(spatial)))
    if kind == "special":
        large = 6e4 if draw.dtype == "f16" else 1e30
        choice = draw.rng.choice([math.nan, math.inf, -math.inf, large, -large, 3e4, 1.0, -1.0, 0.0], g.shape)
        g = np.where(draw.rng.random(g.shape) < 0.4, choice, g)
    return draw.array(round_to(g, draw.dtype))


def host_and_scalars(shape, out, mode, padding, options, count):
    large = (*shape[:2], *out)
    numel = math.prod(shape if count == "input_numel" else large)
    scalars = {count: numel, "rank": len(shape), "sample_mode": mode, "padding_mode": padding,
               "align_corners": int(options.get("align", False))}  # fmt: skip
    return large, {"input_shape": shape, "output_shape": large}, scalars


def forward(draw, shape, out, mode, padding, options, kind="normal", of_grid="normal"):
    large, host, scalars = host_and_scalars(shape, out, mode, padding, options, "output_numel")
    host["stride_x"] = strides_for(shape, **options.get("x", {}))
    host["stride_y"] = strides_for(large, **options.get("y", {}))
    arrays = {"x": draw.floats(shape, kind, host["stride_x"]), "grid": positions(draw, shape[0], out, of_grid),
              "y": draw.output(large, host["stride_y"])}  # fmt: skip
    return Problem(scalars, arrays, host)


def backward(draw, shape, out, mode, padding, options, of_grid="normal", null=()):
    large, host, scalars = host_and_scalars(shape, out, mode, padding, options, "input_numel")
    host["stride_dy"], host["stride_x"] = (
        strides_for(s, **options.get(k, {})) for s, k in ((large, "y"), (shape, "x"))
    )
    host["stride_dx"] = host["stride_x"]
    grid = positions(draw, shape[0], out, of_grid)
    arrays = {"dy": draw.floats(large, "normal", host["stride_dy"]),
              "x": draw.floats(shape, "normal", host["stride_x"]),
              "grid": grid, "dx": draw.output(shape, host["stride_dx"]), "dgrid": draw.output(grid.shape)}  # fmt: skip
    return Problem(scalars, arrays, host, null)


def sampled(problem):
    s, a = problem.scalars, problem.arrays
    small, large = problem.host["input_shape"], problem.host["output_shape"]
    grid = a["grid"].values.reshape(small[0], *large[2:], len(small) - 2)
    return Sampled(grid, small[2:], s["sample_mode"], s["padding_mode"], bool(s["align_corners"]), a["grid"].dtype)


def taps_of(problem):
    return {LINEAR: 2, NEAREST: 1, CUBIC: 4}[problem.scalars["sample_mode"]] ** (len(problem.host["input_shape"]) - 2)


def reference(problem):
    y, size = sample(sampled(problem), problem.arrays["x"].values)
    shape = problem.host["output_shape"]
    return {"y": Expected(y.reshape(shape), 24 + 2 * taps_of(problem), size.reshape(shape))}


def reference_backward(problem):
    a = problem.arrays
    images, grids, most = sample_backward(sampled(problem), a["dy"].values, a["x"].values)
    shape, channels = problem.host["input_shape"], problem.host["input_shape"][1]
    wanted = {"dx": Expected(images[0].reshape(shape), 24 + most, images[1].reshape(shape)),
              "dgrid": Expected(grids[0].reshape(-1, len(shape) - 2), 48 + 2 * taps_of(problem) + channels,
                                grids[1].reshape(-1, len(shape) - 2))}  # fmt: skip
    return {name: each for name, each in wanted.items() if name not in problem.null}


def bad(count, arrays, strides):
    plain, large = (2, 3, 5, 7), (2, 3, 4, 6)
    yield Bad("negative", 2, rf"{count} is -2", {count: -2}, can=2)
    yield Bad("count_wrong", 2, rf"{count} is 17\b", {count: 17}, can=2)
    yield from (Bad(f"rank_{r}", 2, rf"rank is {r}", {"rank": r}, can=2) for r in (-1, 3, 6))
    yield from (Bad(f"null_{h}", 2, rf"{h} is NULL", host={h: None}, can=2)
                for h in ("input_shape", "output_shape", *strides))  # fmt: skip
    yield Bad("extent_negative", 2, r"input_shape\[2\] is -3", host={"input_shape": (2, 3, -3, 7)}, can=2)
    yield Bad("other_channels", 2, r"output_shape\[1\] is 4", host={"output_shape": (2, 4, *large[2:])}, can=2)
    yield Bad("from_nothing", 2, r"input_shape\[3\] is 0", host={"input_shape": (*plain[:3], 0)}, can=2)
    yield from (
        Bad(f"{m}_{v}", 2, rf"{m} is {v}", {m: v}, can=2)
        for m, v in (("sample_mode", 3), ("padding_mode", -1), ("padding_mode", 3), ("align_corners", 2))
    )
    yield from (Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in arrays)
    yield from (Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays)
    yield from (Bad(f"far_{s}", 2, rf"{s}\[0\] is {2**61}", host={s: (2**61, 9, 1, 1)}, can=2) for s in strides)
    yield Bad("still", 2, rf"{strides[-1]}\[0\] is 0", host={strides[-1]: (0, 49, 7, 1)}, can=2)


DENSE = ("n", "c", "ih", "iw", "oh", "ow")
DENSE_PROBLEMS = {
    "one": (1, 1, 1, 1, 1, 1),
    "plain": (2, 3, 5, 7, 4, 6),
    "many": (1, 17, 9, 8, 12, 13),
    "gather": (1, 2, 2, 3, 21, 20),
    "large": (3, 12, 20, 21, 33, 31),
}


def dense(draw, *given, of_grid="normal"):
    n, c, ih, iw, oh, ow = given
    grid = positions(draw, n, (oh, ow), of_grid)
    grid = draw.array(grid.values.reshape(n, oh, ow, 2))
    arrays = {"input": draw.floats((n, c, ih, iw)), "grid": grid, "output": draw.output((n, c, oh, ow))}
    return Problem(dict(zip(DENSE, given)), arrays)


def dense_backward(draw, *given, of_grid="normal"):
    problem = dense(draw, *given, of_grid=of_grid)
    n, c, ih, iw, oh, ow = given
    del problem.arrays["output"]
    problem.arrays |= {"dout": draw.floats((n, c, oh, ow)), "dinput": draw.floats((n, c, ih, iw)),
                       "dgrid": draw.floats((n, oh, ow, 2))}  # fmt: skip
    return problem


def dense_sampled(problem):
    grid = problem.arrays["grid"]
    return Sampled(grid.values, problem.arrays["input"].shape[2:], LINEAR, ZEROS, False, grid.dtype)


def reference_dense(problem):
    y, size = sample(dense_sampled(problem), problem.arrays["input"].values)
    shape = problem.arrays["output"].shape
    return {"output": Expected(y.reshape(shape), 32, size.reshape(shape))}


def reference_dense_backward(problem):
    a = problem.arrays
    images, grids, most = sample_backward(dense_sampled(problem), a["dout"].values, a["input"].values)
    dinput, dgrid = a["dinput"].values, a["dgrid"].values
    return {
        "dinput": Expected(dinput + images[0].reshape(dinput.shape), 24 + most,
                           np.abs(dinput) * max(most, 1) + images[1].reshape(dinput.shape)),
        "dgrid": Expected(dgrid + grids[0].reshape(dgrid.shape), 64 + problem.scalars["c"],
                          np.abs(dgrid) + grids[1].reshape(dgrid.shape)),
    }  # fmt: skip


def bad_dense(arrays):
    yield from (Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2) for e in DENSE)
    yield from (Bad(f"no_{e}", 2, rf"{e} is 0", {e: 0}, can=2) for e in ("ih", "iw"))
    yield from (Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in arrays)
    yield from (Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays)


def made(make, given):
    return {name: lambda d, s=s: make(d, *s) for name, s in given.items()}


SPECIAL = {
    f"positions_{padding}_{mode}": ((2, 3, 5, 6), (9, 8), mode, padding, {"align": padding == BORDER})
    for mode in range(3) for padding in range(3)
}  # fmt: skip

CASES = (
    Case(
        row="grid_sample_{T}",
        problems=made(forward, PROBLEMS)
        | {name: lambda d, s=s: forward(d, *s, of_grid="special") for name, s in SPECIAL.items()}
        | {"special": lambda d: forward(d, (2, 3, 5, 6), (7, 4), LINEAR, ZEROS, {}, kind="special")},
        reference=reference, tolerance={"y": "pointwise"}, plain="plain", large="large",
        bad=tuple(bad("output_numel", ("x", "grid", "y"), ("stride_x", "stride_y"))),
        idle=(
            Idle("no_images", {"output_numel": 0}, {"input_shape": (0, 3, 5, 7), "output_shape": (0, 3, 4, 6)}),
            Idle("no_rows", {"output_numel": 0}, {"output_shape": (2, 3, 0, 6)}),
        ),
    ),
    Case(
        row="grid_sample_backward_{T}",
        problems=made(backward, PROBLEMS)
        | {name: lambda d, s=s: backward(d, *s, of_grid="special") for name, s in SPECIAL.items()}
        | {
            "no_dx": lambda d: backward(d, *PROBLEMS["plain"], null=("dx",)),
            "no_dgrid": lambda d: backward(d, *PROBLEMS["plain"], null=("dgrid",)),
            "no_positions": lambda d: backward(d, (2, 3, 5, 6), (0, 4), LINEAR, ZEROS, {}),
            "no_channels": lambda d: backward(d, (2, 0, 5, 6), (3, 4), LINEAR, ZEROS, {}),
        },
        reference=reference_backward, plain="plain", large="large",
        tolerance=dict.fromkeys(("dx", "dgrid"), "pointwise"),
        bad=(
            *bad("input_numel", ("dy", "x", "grid"), ("stride_dy", "stride_x", "stride_dx")),
            *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in ("dx", "dgrid")),
            Bad("no_workspace", 4, r"workspace", short=True),
        ),
        idle=(Idle("no_images", {"input_numel": 0}, {"input_shape": (0, 3, 5, 7), "output_shape": (0, 3, 4, 6)}),),
    ),
    Case(
        row="grid_sample_2d_{T}",
        problems=made(dense, DENSE_PROBLEMS) | {"positions": lambda d: dense(d, 2, 3, 5, 6, 9, 8, of_grid="special")},
        reference=reference_dense, tolerance={"output": "pointwise"}, plain="plain", large="large",
        bad=tuple(bad_dense(("input", "grid", "output"))),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in ("n", "c", "oh", "ow")),
    ),
    Case(
        row="grid_sample_2d_backward_{T}",
        problems=made(dense_backward, DENSE_PROBLEMS)
        | {"positions": lambda d: dense_backward(d, 2, 3, 5, 6, 9, 8, of_grid="special")},
        reference=reference_dense_backward, tolerance=dict.fromkeys(("dinput", "dgrid"), "pointwise"), plain="plain",
        large="large", bad=tuple(bad_dense(("dout", "input", "grid", "dinput", "dgrid"))),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in ("n", "c", "oh", "ow")),
    ),
)  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""im2col_1d, im2col_2d and col2im_1d: windows of contiguous arrays as columns, their number given by the caller."""

import itertools

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem

# batch, channels, then spatial extents, windows, taps, strides, padding, dilation by axis. The windows may be fewer or
# more than fit.
SHAPES = {
    1: {
        "one": (1, 1, (1,), (1,), (1,), (1,), (0,), (1,)),
        "plain": (2, 3, (11,), (9,), (3,), (1,), (0,), (1,)),
        "padded": (2, 4, (13,), (7,), (3,), (2,), (2,), (2,)),
        "fewer": (2, 2, (13,), (4,), (3,), (2,), (1,), (1,)),
        "more": (1, 2, (5,), (11,), (2,), (1,), (1,), (3,)),
        "apart": (1, 2, (20,), (4,), (2,), (5,), (0,), (1,)),
        "large": (3, 16, (700,), (700,), (5,), (1,), (2,), (1,)),
    },
    2: {
        "one": (1, 1, (1, 1), (1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
        "plain": (2, 3, (5, 7), (3, 6), (3, 2), (1, 1), (0, 0), (1, 1)),
        "padded": (2, 2, (9, 8), (5, 8), (3, 3), (2, 1), (1, 2), (1, 2)),
        "fewer": (2, 2, (9, 8), (3, 2), (2, 3), (2, 2), (0, 1), (1, 1)),
        "more": (1, 2, (4, 3), (6, 7), (2, 2), (1, 1), (0, 1), (1, 1)),
        "large": (2, 8, (30, 33), (30, 33), (3, 3), (1, 1), (1, 1), (1, 1)),
    },
}  # fmt: skip
NAMES = {
    1: (["l_in"], ["l_out"], ["kl"], ["stride_l"], ["pad_l"], ["dilation_l"]),
    2: (
        ["h_in", "w_in"], ["h_out", "w_out"], ["kh", "kw"], ["stride_h", "stride_w"], ["pad_h", "pad_w"],
        ["dilation_h", "dilation_w"],
    ),
}  # fmt: skip


def scalars_of(rank, shape):
    given = {"batch": shape[0], "channels": shape[1]}
    for names, values in zip(NAMES[rank], shape[2:]):
        given |= dict(zip(names, values))
    return given


def sources(rank, scalars):
    """Coordinates that each (tap, window) reads along each axis."""
    spatial, windows, taps, steps, pad, dilation = [[scalars[n] for n in names] for names in NAMES[rank]]
    each = [np.arange(k)[:, None] * d + np.arange(w)[None] * s - p
            for w, k, s, p, d in zip(windows, taps, steps, pad, dilation)]  # fmt: skip
    return each, spatial, windows, taps


def im2col(draw, rank, shape, kind="normal"):
    batch, channels, spatial, windows, taps = shape[:5]
    y = (batch, channels * int(np.prod(taps)), int(np.prod(windows)))
    arrays = {"input": draw.floats((batch, channels, *spatial), kind), "output": draw.output(y)}
    return Problem(scalars_of(rank, shape), arrays)


def im2col_reference(rank):
    def reference(problem):
        each, spatial, windows, taps = sources(rank, problem.scalars)
        x = problem.arrays["input"].values
        y = np.zeros((*x.shape[:2], *taps, *windows))
        for tap in itertools.product(*map(range, taps)):
            inside = [(at[t] >= 0) & (at[t] < e) for at, t, e in zip(each, tap, spatial)]
            rows = [np.where(ok, at[t], 0) for at, t, ok in zip(each, tap, inside)]
            found = x[(..., *np.ix_(*rows))] if min(spatial) else np.zeros((*x.shape[:2], *windows))
            mask = inside[0] if rank == 1 else inside[0][:, None] & inside[1][None]
            y[(slice(None), slice(None), *tap)] = np.where(mask, found, 0)
        return {"output": Expected(y.reshape(x.shape[0], -1, int(np.prod(windows))))}

    return reference


def col2im(draw, shape, kind="normal"):
    batch, channels, spatial, windows, taps = shape[:5]
    arrays = {
        "input": draw.floats((batch, channels * taps[0], windows[0]), kind),
        "output": draw.floats((batch, channels, *spatial), kind),
    }
    return Problem(scalars_of(1, shape), arrays)


def col2im_reference(problem):
    (at,), (extent,), _, (taps,) = sources(1, problem.scalars)
    before = problem.arrays["output"].values
    columns = problem.arrays["input"].values.reshape(*before.shape[:2], taps, -1)
    value, magnitude, count = before.copy(), np.abs(before), np.ones(extent, int)
    for tap in range(taps):
        inside = (at[tap] >= 0) & (at[tap] < extent)
        with np.errstate(invalid="ignore", over="ignore"):
            value[..., at[tap][inside]] += columns[:, :, tap, inside]
            magnitude[..., at[tap][inside]] += np.abs(columns[:, :, tap, inside])
        count[at[tap][inside]] += 1
    magnitude = np.where(np.isfinite(magnitude), magnitude, 0)
    return {"output": Expected(value, np.broadcast_to(count, value.shape), magnitude)}


def bad_calls(rank):
    extents = ("batch", "channels", *NAMES[rank][0], *NAMES[rank][1])
    positive = [name for names in (NAMES[rank][2], NAMES[rank][3], NAMES[rank][5]) for name in names]
    return (
        *(Bad(f"negative_{n}", 2, rf"{n} is -3, must be >= 0", {n: -3}, can=2) for n in extents),
        *(Bad(f"zero_{n}", 2, rf"{n} is 0, must be >= 1", {n: 0}, can=2) for n in positive),
        *(Bad(f"negative_{n}", 2, rf"{n} is -1, must be >= 0", {n: -1}, can=2) for n in NAMES[rank][4]),
    )


def idle(*names):
    return tuple([Idle(f"no_{name}", {name: 0}) for name in names])


def windows_case(rank):
    problems = {name: lambda draw, shape=shape: im2col(draw, rank, shape) for name, shape in SHAPES[rank].items()}
    problems["special"] = lambda draw: im2col(draw, rank, SHAPES[rank]["padded"], "special")
    return Case(
        row=f"im2col_{rank}d_{{T}}", problems=problems, reference=im2col_reference(rank),
        tolerance={"output": "exact"}, plain="plain", large="large", bad=bad_calls(rank),
        idle=idle("batch", "channels", *NAMES[rank][1]),
    )  # fmt: skip


SEQUENCES = {name: lambda draw, shape=shape: col2im(draw, shape) for name, shape in SHAPES[1].items()}
CASES = (
    windows_case(1),
    windows_case(2),
    Case(
        row="col2im_1d_{T}",
        problems=SEQUENCES | {"special": lambda draw: col2im(draw, SHAPES[1]["padded"], "special")},
        reference=col2im_reference, tolerance={"output": "total"}, plain="plain", large="large", bad=bad_calls(1),
        idle=idle("batch", "channels", "l_in", "l_out"),
    ),
)  # fmt: skip

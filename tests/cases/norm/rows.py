# SPDX-License-Identifier: Apache-2.0
"""RMS and layer norm over any axes, and their gradients."""

import dataclasses
import functools

import numpy as np

from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem, strides_for

EPS = float(np.float32(1e-5))  # rows whose eps is a float32 take exactly this


def with_scalars(case, row, names, **scalars):
    """The case of a row whose scalars are f64, with given values that are not exact in f32."""

    def replaced(make, draw):
        problem = make(draw)
        return dataclasses.replace(problem, scalars=problem.scalars | scalars)

    wanted = {*names, case.plain, case.large, *(bad.of for bad in case.bad if bad.of)}
    problems = {n: functools.partial(replaced, case.problems[n]) for n in case.problems if n in wanted}
    return dataclasses.replace(case, row=row, problems=problems)


def axes_of(problem):
    """The normalized axes, and the number of elements of a row."""
    mask = problem.scalars["norm_axes_mask"]
    return tuple(d for d in range(len(problem.host["shape"] or ())) if mask >> d & 1)


def kept(shape, mask):
    return tuple(1 if mask >> d & 1 else extent for d, extent in enumerate(shape))


def row_extent(shape, mask):
    return int(np.prod([extent for d, extent in enumerate(shape) if mask >> d & 1], dtype=np.int64))


def spread(problem, name, default):
    """A parameter with one value per element of a row, broadcast along the other axes."""
    shape = problem.host["shape"]
    if name in problem.null:
        return np.float64(default)
    axes = axes_of(problem)
    return problem.arrays[name].values.reshape([extent if d in axes else 1 for d, extent in enumerate(shape)])


def floats(draw, shape, kind, strides=None):
    """`kind` is one of Draw.floats; or "offset": far from 0 in units of the deviation; "edges": with NaN and
    infinities; "alternating": large values of alternating sign."""
    if kind not in ("offset", "edges", "alternating"):
        return draw.floats(shape, kind, strides)
    values = draw.rng.standard_normal(shape)
    if kind == "offset":
        values = 100 + values
    elif kind == "alternating":
        signs = 1 - 2 * (np.indices(shape).sum(0) % 2)
        values = (1 + np.abs(values)) * (1e3 if draw.dtype == "f16" else 1e12) * signs
    else:
        values = np.where(draw.rng.random(shape) < 0.03, draw.rng.choice([np.nan, np.inf, -np.inf], shape), values)
    return draw.array(round_to(values, draw.dtype).reshape(shape), "", strides)


# Strides of the saved statistics where they are not strided: NULL, or row-major.
NULL, DENSE = "null", "dense"


def strides_of_rows(shape, mask, given):
    """Returns (the host array, the strides of the array)."""
    rows = kept(shape, mask)
    if given == NULL:
        return None, None
    dense = strides_for(rows)
    if given == DENSE:
        return dense, None
    return given, given


def scalars_of(shape, mask, eps=None):
    given = {"numel": int(np.prod(shape, dtype=np.int64)), "rank": len(shape), "norm_axes_mask": mask}
    return given | {"norm_total_extent": row_extent(shape, mask)} | ({} if eps is None else {"eps": eps})


def forward(
    draw, shape, mask, *, centered, kind="normal", x=None, y=None, rows=DENSE, null=(), eps=EPS
):  # fmt: skip
    n = row_extent(shape, mask)
    host, of_rows = strides_of_rows(shape, mask, rows)
    save = "stride_save" if centered else "stride_rms"
    arrays = {"x": floats(draw, shape, kind, x), "gamma": draw.floats((n,))}
    arrays |= {"beta": draw.floats((n,))} if centered else {}
    arrays["y"] = draw.output(shape, y)
    for name in ("mean_out", "inv_std_out") if centered else ("rms_out",):
        arrays[name] = draw.output(kept(shape, mask), of_rows)
    hosts = {"shape": shape, "stride_x": x or strides_for(shape), "stride_y": y or strides_for(shape), save: host}
    return Problem(scalars_of(shape, mask, eps), arrays, hosts, null)


def statistics(x, axes, eps, centered):
    """Returns (mean, variance or mean square plus eps, size, its error in roundings)."""
    with np.errstate(all="ignore"):
        mean = x.mean(axes, keepdims=True) if centered else np.zeros_like(x.mean(axes, keepdims=True))
        square = np.square(x - mean).mean(axes, keepdims=True) + np.float64(eps)
        size = np.abs(x).mean(axes, keepdims=True)
        lost = (np.abs(x - mean) * (np.abs(x) + size)).mean(axes, keepdims=True) if centered else square
        return mean, square, size, 1 + lost / square


def forward_reference(problem):
    expected = normalized(problem, problem.arrays["x"].values, spread(problem, "gamma", 1))
    return {name: e for name, e in expected.items() if name not in problem.null}


def normalized(problem, x, gamma):
    axes, centered = axes_of(problem), "beta" in problem.arrays
    mean, square, size, lost = statistics(x, axes, problem.scalars["eps"], centered)
    beta = spread(problem, "beta", 0) if centered else np.float64(0)
    n = problem.scalars["norm_total_extent"]
    with np.errstate(all="ignore"):
        rstd = 1 / np.sqrt(square)
        scaled = (x - mean) * rstd
        magnitude = np.abs(gamma) * (np.abs(scaled) * lost + rstd * (np.abs(x) + size) * centered) + np.abs(beta)
        expected = {"y": Expected(scaled * gamma + beta, n, np.nan_to_num(magnitude, posinf=0, nan=0))}
        if centered:
            largest = np.abs(x).max(axes, keepdims=True, initial=0)  # sums are over differences from one element
            expected["mean_out"] = Expected(mean, n, np.nan_to_num(largest, posinf=0, nan=0))
            expected["inv_std_out"] = Expected(rstd, n, np.nan_to_num(rstd * lost, posinf=0, nan=0))
        else:
            expected["rms_out"] = Expected(np.sqrt(square), n, np.nan_to_num(np.sqrt(square), posinf=0, nan=0))
    return expected


def backward(
    draw, shape, mask, *, centered, kind="normal", dy=None, x=None, dx=None, rows=DENSE, null=()
):  # fmt: skip
    """The given statistics are not those of x, so that a kernel which recomputes them fails."""
    n, of = row_extent(shape, mask), kept(shape, mask)
    host, of_rows = strides_of_rows(shape, mask, rows)
    arrays = {"dy": floats(draw, shape, kind, dy), "x": floats(draw, shape, kind, x), "gamma": draw.floats((n,))}
    if centered:
        arrays["mean_in"] = draw.floats(of, strides=of_rows)
    arrays["inv_std_in" if centered else "rms"] = draw.floats(of, "positive", of_rows)
    arrays |= {"dx": draw.output(shape, dx), "dgamma": draw.output((n,))}
    arrays |= {"dbeta": draw.output((n,))} if centered else {}
    hosts = {"shape": shape} | {
        f"stride_{name}": given or strides_for(shape) for name, given in (("dy", dy), ("x", x), ("dx", dx))
    }
    hosts["stride_save" if centered else "stride_rms"] = host
    return Problem(scalars_of(shape, mask), arrays, hosts, null)


def gradient(dy, x, mean, rstd, gamma, axes, centered):
    """Returns (dx, its magnitude, xh, its magnitude) of normalized x for the given statistics."""
    h, xh, size = dy * gamma, (x - mean) * rstd, (np.abs(x) + np.abs(mean)) * rstd
    product, of_product = (h * xh).mean(axes, keepdims=True), (np.abs(h) * size).mean(axes, keepdims=True)
    level, of_level = (np.float64(0),) * 2
    if centered:
        level, of_level = h.mean(axes, keepdims=True), np.abs(h).mean(axes, keepdims=True)
    dx = rstd * (h - level - xh * product)
    return dx, rstd * (np.abs(h) + of_level + size * of_product), xh, size


def backward_reference(problem):
    given, axes = problem.arrays, axes_of(problem)
    dy, x, centered = given["dy"].values, given["x"].values, "mean_in" in given
    n, rows = problem.scalars["norm_total_extent"], tuple(d for d in range(dy.ndim) if d not in axes)
    with np.errstate(all="ignore"):
        mean = given["mean_in"].values if centered else np.float64(0)
        rstd = given["inv_std_in"].values if centered else 1 / given["rms"].values
        dx, magnitude, xh, size = gradient(dy, x, mean, rstd, spread(problem, "gamma", 1), axes, centered)
        expected = {
            "dx": Expected(dx, n, np.nan_to_num(magnitude, posinf=0, nan=0)),
            **of_columns(dy, xh, size, rows),
        }
    if not centered:
        del expected["dbeta"]
    return {name: e for name, e in expected.items() if name not in problem.null}


def gradient_of_x(dy, x, gamma, size_of_gamma, axes, eps, centered):
    """gradient() for the statistics of x itself, with their errors included in the magnitudes: (mean, its magnitude),
    (1 / deviation, its magnitude), dx, its magnitude, xh, its magnitude. `size_of_gamma` is gamma's magnitude."""
    mean, square, size, lost = statistics(x, axes, eps, centered)
    rstd = 1 / np.sqrt(square)
    dx, _, xh, _ = gradient(dy, x, mean, rstd, gamma, axes, centered)
    of_xh = rstd * (np.abs(x) + size) * lost
    h = np.abs(dy) * size_of_gamma
    of_product = (h * of_xh).mean(axes, keepdims=True)
    magnitude = rstd * lost * (h + centered * h.mean(axes, keepdims=True) + of_xh * of_product)
    return (mean, size), (rstd, rstd * lost), dx, magnitude, xh, of_xh


def of_columns(dy, xh, size, axes):
    """The gradients of gamma and beta: sums over `axes`."""
    count = int(np.prod([dy.shape[d] for d in axes], dtype=np.int64))
    magnitude = np.nan_to_num((np.abs(dy) * size).sum(axes).ravel(), posinf=0, nan=0)
    of_beta = np.nan_to_num(np.abs(dy).sum(axes).ravel(), posinf=0, nan=0)
    return {
        "dgamma": Expected((dy * xh).sum(axes).ravel(), count, magnitude),
        "dbeta": Expected(dy.sum(axes).ravel(), count, of_beta),
    }


# lengths around those at which a group of threads, a block or another algorithm begins
LENGTHS = (
    1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 64, 100, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1000, 1023, 1024, 1025,
    2048, 2050, 4096, 4099, 8192, 12001,
)  # fmt: skip


def shapes():
    """name -> (shape, mask)"""
    yield from ((f"n{n}", ((5, n), 2)) for n in LENGTHS)
    yield from {
        "plain": ((3, 4, 6), 4), "vector": ((9,), 1), "two_axes": ((5, 3, 7), 6), "all_axes": ((3, 5, 7), 7),
        "first_axis": ((37, 6), 1), "first_axis_wide": ((50, 300), 1), "middle": ((4, 19, 5), 2),
        "outer_and_inner": ((6, 4, 10), 5), "ranks": ((2, 1, 3, 2, 1, 2, 3, 2), 0b10101010), "ones": ((1, 1, 1), 2),
        "one_row": ((1, 77), 2), "no_columns_but_one": ((700, 1), 2), "tall": ((3001, 7), 2),
        "wide_rows": ((301, 64), 2),
        "long": ((2, 70001), 2), "huge": ((1, 300007), 2), "blocks": ((64, 1024), 2),
        "rows_in_turns": ((2200, 512), 2),
    }.items()  # fmt: skip


def views():
    """name -> strides of an operand of shape (4, 6, 10)"""
    shape = (4, 6, 10)
    return {
        "padded": strides_for(shape, pad=2), "gaps": strides_for(shape, gap=2),
        "flipped": strides_for(shape, flip=(0, 2)),
        "permuted": strides_for(shape, order=(2, 0, 1)), "outer_permuted": strides_for(shape, order=(1, 0, 2)),
    }  # fmt: skip


def problems(make, operands, statistics, optional):
    """`operands` have the shape of x, the output last."""
    inputs = operands[:-1]
    table = {}

    def add(name, shape, mask, **options):
        table[name] = lambda d: make(d, shape, mask, **options)

    for name, (shape, mask) in shapes():
        add(name, shape, mask)
    shape, every = (4, 6, 10), views()
    for name, strides in every.items():
        for mask in (4, 6, 2):
            add(f"{name}_{mask}", shape, mask, **dict.fromkeys(operands, strides))
    add("mixed_strides", shape, 4, **dict(zip(operands, every.values())))
    add("mixed_strides_outer", shape, 3, **dict(zip(operands, reversed(every.values()))))
    for axis in range(3):
        for mask in (4, 3):
            add(f"broadcast_{axis}_{mask}", shape, mask, **{inputs[-1]: strides_for(shape, broadcast=(axis,))})
    add("broadcast_all", shape, 6, **{inputs[0]: (0, 0, 0)})
    add("batch_permuted", (3, 5, 7, 8), 8, **dict.fromkeys(operands, strides_for((3, 5, 7, 8), order=(1, 0, 2, 3))))
    for mask in (4, 2):
        rows = kept(shape, mask)
        add(f"rows_padded_{mask}", shape, mask, rows=strides_for(rows, pad=3))
        add(f"rows_permuted_{mask}", shape, mask, rows=strides_for(rows, order=(2, 1, 0), gap=2))
        add(f"rows_flipped_{mask}", shape, mask, rows=strides_for(rows, flip=(0,)))
    for name in optional:
        add(f"without_{name}", shape, 4, null=(name,))
        add(f"without_{name}_wide", (20, 300), 2, null=(name,))
    add("without_any", shape, 6, null=optional)
    add("offset", (7, 515), 2, kind="offset")
    add("edges", (40, 37), 2, kind="edges")
    add("alternating", (3, 1025), 2, kind="alternating")
    return table


def bad_calls(operands, statistics, optional, save, save_may_be_null):
    """`operands` have the shape of x, the output last. `save`: strides of the saved statistics, if they have any."""
    extents = ("numel", "rank", "norm_total_extent")
    bad = [Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in extents]
    bad += [
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("numel_other", 2, r"numel is 73, but shape has 72", {"numel": 73}, can=2),
        Bad("no_mask", 2, r"norm_axes_mask is 0", {"norm_axes_mask": 0}, can=2),
        Bad("mask_beyond", 2, r"norm_axes_mask is 8", {"norm_axes_mask": 8}, can=2),
        Bad("mask_negative", 2, r"norm_axes_mask is -1", {"norm_axes_mask": -1}, can=2),
        Bad("extent_other", 2, r"norm_total_extent is 5, but the axes of norm_axes_mask have 6",
            {"norm_total_extent": 5}, can=2),
        Bad("negative_shape", 2, r"shape\[1\] is -4", host={"shape": (3, -4, 6)}, can=2),
        Bad("null_shape", 2, r"shape is NULL", host={"shape": None}, can=2),
        *(Bad(f"null_stride_{o}", 2, rf"stride_{o} is NULL", host={f"stride_{o}": None}, can=2) for o in operands),
        Bad("output_stands", 2, rf"stride_{operands[-1]}\[2\] is 0", host={f"stride_{operands[-1]}": (24, 6, 0)},
            can=2),
        *(Bad(f"far_{o}", 2, rf"stride_{o}\[0\] is {2**50}", host={f"stride_{o}": (2**50, 6, 1)}, can=2)
          for o in operands),
        *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in operands),
        *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in (*operands, *statistics, *optional)),
    ]  # fmt: skip
    if save:
        bad.append(Bad(f"far_{save}", 2, rf"{save}\[0\] is {2**50}", host={save: (2**50, 1, 1)}, can=2))
    if save and not save_may_be_null:
        bad.append(Bad(f"null_{save}", 2, rf"{save} is NULL", host={save: None}, can=2))
        bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in statistics]
    return tuple(bad)


def idle_calls(stands):
    """`stands`: outputs that are written where there are no rows."""
    return (
        Idle("no_rows", {"numel": 0}, {"shape": (0, 4, 6)}, stands),
        Idle("no_rows_inside", {"numel": 0}, {"shape": (3, 0, 6)}, stands),
        Idle("empty_rows", {"numel": 0, "norm_total_extent": 0}, {"shape": (3, 4, 0)}),
        Idle("nothing", {"numel": 0, "norm_total_extent": 0}, {"shape": (0, 4, 0)}),
    )


def forward_case(name, *, centered):
    statistics = ("mean_out", "inv_std_out") if centered else ("rms_out",)
    optional = ("gamma", "beta") if centered else ("gamma",)
    save = "stride_save" if centered else "stride_rms"

    def make(draw, shape, mask, **options):
        return forward(draw, shape, mask, centered=centered, **options)

    table = problems(make, ("x", "y"), statistics, (*optional, *statistics))
    table |= {
        "rows_without_strides": lambda d: make(d, (4, 6, 10), 2, rows=NULL),
        "without_rows": lambda d: make(d, (4, 6, 10), 4, rows=NULL, null=statistics),
        "no_eps": lambda d: make(d, (5, 33), 2, eps=0.0),
        "large_eps": lambda d: make(d, (5, 33), 2, eps=3.0),
    }
    bad = bad_calls(("x", "y"), statistics, optional, save, True)
    bad += (Bad(f"null_{save}_and_y", 2, r"y is NULL", host={save: None}, null=("y",)),)
    if centered:
        bad += (Bad("same_statistics", 2, r"mean_out and inv_std_out are both 0x", alias={"inv_std_out": "mean_out"}),)
    return case(name, table, forward_reference, ("y", *statistics), bad, idle_calls(()))


def backward_case(name, *, centered):
    statistics = ("mean_in", "inv_std_in") if centered else ("rms",)
    gradients = ("dgamma", "dbeta") if centered else ("dgamma",)
    save = "stride_save" if centered else "stride_rms"

    def make(draw, shape, mask, **options):
        return backward(draw, shape, mask, centered=centered, **options)

    table = problems(make, ("dy", "x", "dx"), statistics, ("gamma", *gradients))
    unread = ("dy", "x", "gamma", *statistics, "dx")
    table |= {
        "no_rows": lambda d: make(d, (0, 4, 6), 4, null=unread),
        "no_rows_inside": lambda d: make(d, (3, 0, 6), 4, null=unread),
        "no_rows_one_gradient": lambda d: make(d, (0, 4, 6), 6, null=(*unread, *gradients[1:])),
        "large_rows": lambda d: make(d, (5, 20001), 2),
        "many_rows": lambda d: make(d, (20011, 3), 2),
    }
    bad = bad_calls(("dy", "x", "dx"), statistics, ("gamma", *gradients), save, False)
    return case(name, table, backward_reference, ("dx", *gradients), bad, idle_calls(gradients))


def case(name, table, reference, outputs, bad, idle):
    """The `_strided` rows share the code of the plain ones, so a few problems suffice."""
    for row, brief in ((f"{name}_{{T}}", False), (f"{name}_{{T}}_strided", True)):
        chosen = {n: table[n] for n in BRIEF} if brief else table
        yield Case(
            row=row, problems=chosen, reference=reference, tolerance=dict.fromkeys(outputs, "norm"), plain="plain",
            large="blocks" if not brief else "tall", bad=bad, idle=idle,
        )  # fmt: skip


BRIEF = ("plain", "two_axes", "tall", "mixed_strides", "without_gamma")
ROWS = (
    *forward_case("rms_norm", centered=False),
    *backward_case("rms_norm_backward", centered=False),
    *forward_case("layer_norm", centered=True),
    *backward_case("layer_norm_backward", centered=True),
)
CASES = (
    *ROWS,
    *(with_scalars(case, case.row.replace("{T}", "param_{T}"), BRIEF, eps=0.1)
      for case in ROWS if case.row in ("rms_norm_{T}", "layer_norm_{T}")),
)  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Norms of a sum (fused residual addition), and their gradients."""

import numpy as np

from tools.oracle.numerics import COMPUTE, round_to

from ..model import Bad, Case, Expected, Problem, strides_for
from .rows import (
    BRIEF,
    EPS,
    axes_of,
    bad_calls,
    floats,
    gradient,
    gradient_of_x,
    idle_calls,
    kept,
    normalized,
    of_columns,
    problems,
    row_extent,
    scalars_of,
    spread,
    with_scalars,
)  # fmt: skip


def wide(problem_or_draw):
    """The dtype of statistics."""
    return COMPUTE[problem_or_draw.dtype]


def hosts_of(shape, strides):
    return {"shape": shape} | {f"stride_{name}": given or strides_for(shape) for name, given in strides.items()}


def rows_of(shape, mask):
    return (int(np.prod(kept(shape, mask), dtype=np.int64)),) if row_extent(shape, mask) else (0,)


def offset_gamma(problem):
    """gamma + gamma_offset, and the sum of the magnitudes of both."""
    if "gamma" in problem.null:
        return np.float64(1), np.float64(1)
    gamma, offset = spread(problem, "gamma", 1), np.float64(problem.scalars["gamma_offset"])
    return gamma + offset, np.abs(gamma) + np.abs(offset)


def forward(draw, shape, mask, *, centered, kind="normal", rows="", null=(), eps=EPS, offset=0.0, **strides):
    strides = {name: strides.get(name) for name in ("x", "residual", "y", "sum")}
    n, of = row_extent(shape, mask), rows_of(shape, mask)
    arrays = {name: floats(draw, shape, kind, strides[name]) for name in ("x", "residual")}
    arrays |= {name: draw.floats((n,)) for name in (("gamma", "beta") if centered else ("gamma",))}
    arrays |= {name: draw.output(shape, strides[name]) for name in ("y", "sum")}
    saved = ("mean_out", "inv_std_out") if centered else ("rms_out",)
    arrays |= {name: draw.output(of, dtype=wide(draw)) for name in saved}
    scalars = scalars_of(shape, mask, eps) | {"gamma_offset": offset}
    return Problem(scalars, arrays, hosts_of(shape, strides), null)


def forward_reference(problem):
    x = problem.arrays["x"]
    total = x.values
    if "residual" not in problem.null:
        with np.errstate(all="ignore"):
            total = round_to(round_to(total + problem.arrays["residual"].values, COMPUTE[x.dtype]), x.dtype)
    gamma, size = offset_gamma(problem)
    expected = normalized(problem, total, gamma)
    with np.errstate(all="ignore"):
        lost = np.abs(expected["y"].value) * np.nan_to_num(size / np.abs(gamma), posinf=0, nan=0)
    expected["y"].magnitude = expected["y"].magnitude + np.nan_to_num(lost, posinf=0, nan=0)
    expected["sum"] = Expected(total)
    expected = {name: e for name, e in expected.items() if name not in problem.null}
    for name in ("mean_out", "inv_std_out", "rms_out"):  # row-major
        if name in expected:
            e = expected[name]
            expected[name] = Expected(np.ravel(e.value), e.count, np.ravel(e.magnitude))
    return expected


def backward(draw, shape, mask, *, centered, kind="normal", rows="", null=(), offset=0.0, **strides):
    """The given statistics are not those of the sum, so that a kernel which recomputes them fails."""
    strides = {name: strides.get(name) for name in ("dy", "dsum", "sum", "dx")}
    n, of = row_extent(shape, mask), rows_of(shape, mask)
    arrays = {name: floats(draw, shape, kind, strides[name]) for name in ("dy", "dsum", "sum")}
    arrays["gamma"] = draw.floats((n,))
    if centered:
        arrays["mean_in"] = draw.floats(of, dtype=wide(draw))
    arrays["inv_std_in" if centered else "rms"] = draw.floats(of, "positive", dtype=wide(draw))
    arrays |= {"dx": draw.output(shape, strides["dx"]), "dgamma": draw.output((n,))}
    arrays |= {"dbeta": draw.output((n,))} if centered else {}
    return Problem(scalars_of(shape, mask) | {"gamma_offset": offset}, arrays, hosts_of(shape, strides), null)


def backward_reference(problem):
    given, axes, mask = problem.arrays, axes_of(problem), problem.scalars["norm_axes_mask"]
    dy, x, centered = given["dy"].values, given["sum"].values, "mean_in" in given
    n, rows = problem.scalars["norm_total_extent"], tuple(d for d in range(dy.ndim) if d not in axes)
    of = kept(dy.shape, mask)
    extra = 0.0 if "dsum" in problem.null else given["dsum"].values
    with np.errstate(all="ignore"):
        mean = given["mean_in"].values.reshape(of) if centered else np.float64(0)
        rstd = given["inv_std_in"].values.reshape(of) if centered else 1 / given["rms"].values.reshape(of)
        gamma, size = offset_gamma(problem)
        dx, magnitude, xh, size_xh = gradient(dy, x, mean, rstd, gamma, axes, centered)
        _, larger, _, _ = gradient(np.abs(dy), x, mean, rstd, size, axes, centered)
        magnitude = np.nan_to_num(magnitude + larger + np.abs(extra), posinf=0, nan=0)
        expected = {"dx": Expected(dx + extra, n, magnitude), **of_columns(dy, xh, size_xh, rows)}
    if not centered:
        del expected["dbeta"]
    return {name: e for name, e in expected.items() if name not in problem.null}


def without_strided_rows(table):
    """Drops problems with strided statistics, which are row-major here."""
    return {name: problem for name, problem in table.items() if not name.startswith("rows_")}


def cases(name, *, centered):
    saved = ("mean_out", "inv_std_out") if centered else ("rms_out",)
    affine = ("gamma", "beta") if centered else ("gamma",)

    def make(draw, shape, mask, **options):
        return forward(draw, shape, mask, centered=centered, **options)

    table = without_strided_rows(problems(make, ("x", "residual", "y"), saved, (*affine, "residual", "sum", *saved)))
    table |= {
        "permuted_sum": lambda d: make(d, (4, 6, 10), 4, sum=strides_for((4, 6, 10), order=(2, 0, 1))),
        "offset_gamma": lambda d: make(d, (5, 130), 2, offset=1.0),
        "offset_gamma_wide": lambda d: make(d, (9, 2048), 2, offset=-0.5),
        "alone": lambda d: make(d, (7, 64), 2, offset=1.0, null=("residual", "sum")),
        "no_eps": lambda d: make(d, (5, 33), 2, eps=0.0),
    }
    bad = [*bad_calls(("x", "residual", "y"), saved, (*affine, "sum"), "", True)]
    bad = [call for call in bad if call.name != "null_residual"]
    bad += [
        Bad("null_stride_sum", 2, r"stride_sum is NULL", host={"stride_sum": None}, can=2),
        Bad("far_sum", 2, rf"stride_sum\[0\] is {2**50}", host={"stride_sum": (2**50, 6, 1)}, can=2),
        Bad("sum_is_y", 2, r"y and sum are both 0x", alias={"sum": "y"}),
    ]
    yield Case(
        row=f"{name}_{{T}}", problems=table, reference=forward_reference,
        tolerance=dict.fromkeys(("y", *saved), "norm") | {"sum": "exact"}, plain="plain", large="blocks",
        bad=tuple(bad), idle=idle_calls(()),
    )  # fmt: skip

    statistics = ("mean_in", "inv_std_in") if centered else ("rms",)
    gradients = ("dgamma", "dbeta") if centered else ("dgamma",)

    def make_backward(draw, shape, mask, **options):
        return backward(draw, shape, mask, centered=centered, **options)

    operands = ("dy", "dsum", "sum", "dx")
    table = without_strided_rows(problems(make_backward, operands, statistics, ("gamma", "dsum", *gradients)))
    unread = ("dy", "dsum", "sum", "gamma", *statistics, "dx")
    table |= {
        "no_rows": lambda d: make_backward(d, (0, 4, 6), 4, null=unread),
        "offset_gamma": lambda d: make_backward(d, (5, 130), 2, offset=1.0),
        "large_rows": lambda d: make_backward(d, (5, 20001), 2),
        "many_rows": lambda d: make_backward(d, (20011, 3), 2),
    }
    bad = [*bad_calls(operands, statistics, ("gamma", *gradients), "", False)]
    bad = [call for call in bad if call.name != "null_dsum"]
    bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in statistics]
    yield Case(
        row=f"{name}_backward_{{T}}", problems=table, reference=backward_reference,
        tolerance=dict.fromkeys(("dx", *gradients), "norm"), plain="plain", large="blocks",
        bad=tuple(bad), idle=idle_calls(gradients),
    )  # fmt: skip


def recompute(draw, shape, mask, *, centered, kind="normal", rows="", null=(), offset=0.0, eps=0.1, **strides):
    """The statistics are outputs."""
    strides = {name: strides.get(name) for name in ("dy", "dsum", "x", "dx")}
    n, of = row_extent(shape, mask), rows_of(shape, mask)
    arrays = {name: floats(draw, shape, kind, strides[name]) for name in ("dy", "dsum", "x")}
    arrays["gamma"] = draw.floats((n,))
    arrays |= {name: draw.output(of, dtype=wide(draw)) for name in SAVED[centered]}
    arrays |= {"dx": draw.output(shape, strides["dx"])}
    arrays |= {name: draw.output((n,)) for name in GRADIENTS[centered]}
    return Problem(scalars_of(shape, mask, eps) | {"gamma_offset": offset}, arrays, hosts_of(shape, strides), null)


def recompute_reference(problem):
    given, axes = problem.arrays, axes_of(problem)
    dy, x, centered = given["dy"].values, given["x"].values, "mean_out" in given
    rows = tuple(d for d in range(dy.ndim) if d not in axes)
    extra = 0.0 if "dsum" in problem.null else given["dsum"].values
    n = problem.scalars["norm_total_extent"]
    if dy.size == 0:
        expected = {name: Expected(np.zeros(n)) for name in GRADIENTS[centered]}
        return {name: e for name, e in expected.items() if name not in problem.null}
    with np.errstate(all="ignore"):
        gamma, size = offset_gamma(problem)
        mean, rstd, dx, magnitude, xh, of_xh = gradient_of_x(
            dy, x, gamma, size, axes, problem.scalars["eps"], centered
        )  # fmt: skip
        saved = (mean, rstd) if centered else ((1 / rstd[0], 1 / rstd[0]),)
        columns, dx = of_columns(dy, xh, of_xh, rows), dx + extra
    expected = {
        name: Expected(np.ravel(value), n, np.nan_to_num(np.ravel(of), posinf=0, nan=0))
        for name, (value, of) in zip(SAVED[centered], saved)
    }
    expected["dx"] = Expected(dx, n, np.nan_to_num(magnitude + np.abs(extra), posinf=0, nan=0))
    # Each summand of a sum over rows has the error of its row's statistics, which are sums over n.
    for name, e in columns.items():
        if name in GRADIENTS[centered]:
            expected[name] = Expected(e.value, e.count + n, e.magnitude)
    return {name: e for name, e in expected.items() if name not in problem.null}


SAVED = {True: ("mean_out", "inv_std_out"), False: ("rms_out",)}
GRADIENTS = {True: ("dgamma", "dbeta"), False: ("dgamma",)}


def recompute_case(name, *, centered):
    def make(draw, shape, mask, **options):
        return recompute(draw, shape, mask, centered=centered, **options)

    saved, gradients, operands = SAVED[centered], GRADIENTS[centered], ("dy", "dsum", "x", "dx")
    table = without_strided_rows(problems(make, operands, saved, ("gamma", "dsum", *gradients)))
    unread = ("dy", "dsum", "x", "gamma", *saved, "dx")
    table |= {
        "no_rows": lambda d: make(d, (0, 4, 6), 4, null=unread),
        "offset_gamma": lambda d: make(d, (5, 130), 2, offset=0.7),
        "large_rows": lambda d: make(d, (5, 20001), 2),
        "many_rows": lambda d: make(d, (20011, 3), 2),
        "no_eps": lambda d: make(d, (5, 33), 2, eps=0.0),
    }
    bad = [call for call in bad_calls(operands, saved, ("gamma", *gradients), "", False) if call.name != "null_dsum"]
    bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in saved]
    return Case(
        row=f"{name}_recompute_backward_{{T}}", problems=table, reference=recompute_reference,
        tolerance=dict.fromkeys((*saved, "dx", *gradients), "norm"), plain="plain", large="blocks", bad=tuple(bad),
        idle=idle_calls(gradients),
    )  # fmt: skip


def param_cases(of):
    for case in of:
        scalars = {"gamma_offset": 0.7} | ({} if "backward" in case.row else {"eps": 0.1})
        row = case.row.replace("norm_", "norm_param_")
        yield with_scalars(case, row, (*BRIEF, "alone", "without_dsum"), **scalars)


OF_SUMS = (*cases("add_rms_norm", centered=False), *cases("add_layer_norm", centered=True))
CASES = (
    *OF_SUMS, *param_cases(OF_SUMS), recompute_case("rms_norm", centered=False),
    recompute_case("layer_norm", centered=True),
)  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""L2 normalisation of rows, weight norm, and their gradients."""

import numpy as np

from tools.oracle.numerics import COMPUTE, LARGEST, round_to

from ..model import Bad, Case, Expected, Problem
from .add import hosts_of, rows_of
from .rows import axes_of, bad_calls, floats, idle_calls, problems, scalars_of, with_scalars

EPS = float(np.float32(1e-12))  # rows whose eps is a float32 take exactly this


def values(draw, shape, kind, strides):
    """ "large" and "small": squares are beyond the range, or vanish."""
    if kind in ("large", "small"):
        power = np.frexp(LARGEST[COMPUTE[draw.dtype]])[1] * (0.6 if kind == "large" else -0.6)
        power = min(power, 12) if draw.dtype == "f16" and kind == "large" else power
        power = max(power, -10) if draw.dtype == "f16" else power
        scaled = np.ldexp(draw.rng.standard_normal(shape), int(power))
        return draw.array(round_to(scaled, draw.dtype).reshape(shape), "", strides)
    return floats(draw, shape, kind, strides)


def forward(names, eps):
    """`names`: x and y, and the gain where there is one."""
    x, y, *gain = names

    def make(draw, shape, mask, kind="normal", rows="", null=(), eps=eps, **strides):
        strides = {name: strides.get(name) for name in (x, y)}
        arrays = {x: values(draw, shape, kind, strides[x])}
        arrays |= {name: draw.floats(rows_of(shape, mask)) for name in gain}
        arrays |= {y: draw.output(shape, strides[y])}
        arrays |= {"norm_out": draw.output(rows_of(shape, mask), dtype=COMPUTE[draw.dtype])}
        scalars = scalars_of(shape, mask) | ({} if gain else {"eps": eps})
        return Problem(scalars, arrays, hosts_of(shape, strides), null)

    return make


def lengths(problem, x):
    axes = axes_of(problem)
    with np.errstate(all="ignore"):
        exact = x.astype(np.longdouble)
        return np.sqrt(np.square(exact).sum(axes, keepdims=True)).astype(np.float64)


def forward_reference(names):
    x_name, y_name, *gain = names

    def reference(problem):
        x, n = problem.arrays[x_name].values, problem.scalars["norm_total_extent"]
        norm = lengths(problem, x)
        eps = problem.scalars.get("eps", 0.0)
        with np.errstate(all="ignore"):
            g = problem.arrays[gain[0]].values.reshape(norm.shape) if gain else 1.0
            y = x * (g / np.where(norm < eps, eps, norm))
        found = {
            y_name: Expected(y, n, np.nan_to_num(np.abs(y), posinf=0, nan=0)),
            "norm_out": Expected(norm.ravel(), n, np.nan_to_num(norm.ravel(), posinf=0, nan=0)),
        }
        return {name: e for name, e in found.items() if name not in problem.null}

    return reference


def backward(names, eps):
    """`names`: dy, x and dx, and the gain and its gradient."""
    dy, x, dx, *gain = names

    def make(draw, shape, mask, kind="normal", rows="", null=(), eps=eps, **strides):
        strides = {name: strides.get(name) for name in (dy, x, dx)}
        of = rows_of(shape, mask)
        arrays = {dy: floats(draw, shape, "edges" if kind == "edges" else "normal", strides[dy])}
        arrays |= {x: values(draw, shape, kind, strides[x])}
        arrays |= {name: draw.floats(of) for name in gain[:1]} | {dx: draw.output(shape, strides[dx])}
        arrays |= {name: draw.output(of) for name in gain[1:]}
        scalars = scalars_of(shape, mask) | ({} if gain else {"eps": eps})
        return Problem(scalars, arrays, hosts_of(shape, strides), null)

    return make


def backward_reference(names):
    dy_name, x_name, dx_name, *gain = names

    def reference(problem):
        dy, x = (problem.arrays[name].values for name in (dy_name, x_name))
        axes, n = axes_of(problem), problem.scalars["norm_total_extent"]
        norm, eps = lengths(problem, x), problem.scalars.get("eps", 0.0)
        with np.errstate(all="ignore"):
            g = problem.arrays[gain[0]].values.reshape(norm.shape) if gain else np.float64(1)
            clamped = norm < eps
            u = np.where(clamped, 0 * x, x / norm)
            along, of_along = (u * dy).sum(axes, keepdims=True), np.abs(u * dy).sum(axes, keepdims=True)
            scale = g / np.where(clamped, eps, norm)
            dx = scale * (dy - u * along)
            magnitude = np.abs(scale) * (np.abs(dy) + np.abs(u) * of_along)
        found = {dx_name: Expected(dx, n, np.nan_to_num(magnitude, posinf=0, nan=0))}
        if gain:
            found[gain[1]] = Expected(along.ravel(), n, np.nan_to_num(of_along.ravel(), posinf=0, nan=0))
        return {name: e for name, e in found.items() if name not in problem.null}

    return reference


def add_ranges(table, make):
    """Adds rows whose squares leave the range, and rows whose norm is clamped."""
    table |= {
        "large": lambda d: make(d, (5, 130), 2, kind="large"),
        "small": lambda d: make(
            d, (5, 130), 2, kind="small", **({"eps": 0.0} if "eps" in table["plain"](d).scalars else {})
        ),
    }


def cases(name, fresh, gradient):
    """`fresh`, `gradient`: the operands of the op and of its gradient."""
    for row, names, factory, reference, optional, statistics in (
        (name, fresh, forward, forward_reference, ("norm_out",), fresh[2:]),
        (f"{name}_backward", gradient, backward, backward_reference, gradient[4:], gradient[3:4]),
    ):
        make = factory(names, EPS)
        full = names[:2] if factory is forward else names[:3]
        table = {n: p for n, p in problems(make, full, (), optional).items() if not n.startswith("rows_")}
        if optional == ():
            table.pop("without_any")
        add_ranges(table, make)
        if not statistics:
            table["clamped"] = lambda d, make=make: make(d, (5, 33), 2, eps=100.0)
        bad = [*bad_calls(full, statistics, optional, "", True)]
        bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in statistics]
        outputs = (names[1], "norm_out") if factory is forward else (names[2], *optional)
        yield Case(
            row=f"{row}_{{T}}", problems=table, reference=reference(names), tolerance=dict.fromkeys(outputs, "norm"),
            plain="plain", large="blocks", bad=tuple(bad), idle=idle_calls(()),
        )  # fmt: skip


LENGTHS = tuple(cases("l2_normalize", ("x", "y"), ("dy", "x", "dx")))
CASES = (
    *LENGTHS,  # every norm is below the eps of the rows that take it in f64
    *(with_scalars(case, case.row.replace("normalize_", "normalize_param_"), ("two_axes", "n129"), eps=1e3 + 0.1)
      for case in LENGTHS),
    *cases("weight_norm", ("v", "w", "g"), ("dw", "v", "dv", "g", "dg")),
)  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""check_indices."""

import math

import numpy as np

from tools.oracle.numerics import LIMITS

from ..model import Bad, Case, Expected, Problem, strides_for

SHAPES = {"plain": (3, 5, 7), "one": (1,), "row": (1000,), "rank0": (), "none": (0,), "large": (30011,)}


def check(draw, shape, faults=(), bound=100, *, other=None, is_sorted=False, strides=None):
    """Sorted indices in range, except for (position, index) of `faults`."""
    values = np.sort(draw.rng.integers(0, bound, math.prod(shape))) if bound else np.zeros(math.prod(shape), np.int64)
    low, high = LIMITS[draw.dtype]
    for position, index in faults:
        values[position] = min(max(index, low), high)
    scalars = {"numel": math.prod(shape), "rank": len(shape), "bound": bound, "other": other or 0,
               "has_other": int(other is not None), "is_sorted": int(is_sorted)}  # fmt: skip
    steps = strides_for(shape) if strides is None else strides
    arrays = {"indices": draw.array(values.reshape(shape), strides=steps), "report": draw.output((4,), dtype="i64")}
    return Problem(scalars, arrays, {"shape": shape, "stride_indices": steps})


def reference(problem):
    scalars, values = problem.scalars, problem.arrays["indices"].values.ravel()
    outside = (values < 0) | (values >= scalars["bound"])
    if scalars["has_other"]:
        outside &= values != scalars["other"]
    falls = np.append(False, values[1:] < values[:-1])[: values.size] & bool(scalars["is_sorted"])
    report = []
    for fault in (outside, falls):
        report += [int(np.argmax(fault)), int(values[np.argmax(fault)])] if fault.any() else [-1, -1]
    return {"report": Expected(np.array(report, np.int64))}


CASES = (
    Case(
        row="check_indices_{T}",
        problems={name: lambda d, s=s: check(d, s) for name, s in SHAPES.items()}
        | {
            "too_large": lambda d: check(d, (400,), [(300, 100), (170, 2**40), (171, -1)]),
            "negative": lambda d: check(d, (400,), [(399, -1)]),
            "lowest": lambda d: check(d, (70,), [(69, -(2**63)), (68, 2**63 - 1)]),
            "falls": lambda d: check(d, (5000,), [(4000, 0), (4999, 0), (77, 99)], is_sorted=True),
            "first_falls": lambda d: check(d, (9,), [(0, 99)], is_sorted=True),
            "both": lambda d: check(d, (3000,), [(2000, -7), (2500, 200)], is_sorted=True),
            "unsorted": lambda d: check(d, (300,), [(200, 0)]),
            "padding": lambda d: check(d, (300,), [(20, 255), (40, 255), (250, 100)], other=255),
            "nothing_fits": lambda d: check(d, (5,), bound=0),
            "permuted": lambda d: check(d, (20, 30), [(17, 99), (400, 101)], is_sorted=True, strides=(1, 20)),
            "backwards": lambda d: check(d, (6, 50), [(170, 101)], strides=(-50, 1)),
            "still": lambda d: check(d, (4, 60), bound=1, strides=(0, 1)),
        },
        reference=reference, tolerance={"report": "exact"}, plain="plain", large="large",
        bad=(
            Bad("negative_numel", 2, r"numel is -4", {"numel": -4}, can=2),
            Bad("negative_rank", 2, r"rank is -1", {"rank": -1}, can=2),
            Bad("high_rank", 2, r"rank is 9", {"rank": 9}, can=2),
            Bad("negative_extent", 2, r"shape\[1\] is -5", host={"shape": (3, -5, 7)}, can=2),
            Bad("another_number", 2, r"numel is 104, but shape has 105 elements", {"numel": 104}, can=2),
            Bad("no_shape", 2, r"shape is NULL", host={"shape": None}, can=2),
            Bad("no_strides", 2, r"stride_indices is NULL", host={"stride_indices": None}, can=2),
            *(Bad(f"null_{p}", 2, rf"{p} is NULL", null=(p,)) for p in ("indices", "report")),
            *(Bad(f"odd_{p}", 1, rf"{p} is 0x[0-9a-f]+", shift={p: 1}) for p in ("indices", "report")),
        ),
        idle=(),
    ),
)  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Helpers of the cases of all losses."""

import numpy as np

from ..model import Bad, Expected

NONE, MEAN, SUM = 0, 1, 2
MODES = {"none": NONE, "mean": MEAN, "sum": SUM}


def reduced(value, magnitude, mode, *, each=1):
    """The losses of the elements, their mean or their sum; each of them is a sum of `each` summands."""
    if mode == NONE:
        return Expected(value, each, magnitude)
    count = len(value)
    factor = 1 / count if mode == MEAN and count else np.nan if mode == MEAN else 1.0
    total = np.sum(magnitude) * (factor if count else 0)
    return Expected(np.atleast_1d(np.sum(value) * factor), count + each, total)


def upstream(problem, count):
    """The factor dy of a gradient, for each element."""
    mode, dy = problem.scalars["reduction_mode"], problem.arrays["dy"].values
    if mode == NONE:
        return dy
    if problem.arrays["dy"].dtype == "f64":
        return np.broadcast_to(dy / (max(count, 1) if mode == MEAN else 1), (count,))
    return np.broadcast_to(dy * np.float64(np.float32(problem.scalars["scale_scalar"])), (count,))


def scale_of(mode, count):
    """scale_scalar, as a caller passes it."""
    return 1 / count if mode == MEAN and count else 1.0


def negative(extents):
    """Each extent negative, also where others are 0, and modes that do not exist."""
    for name in extents:
        yield Bad(f"negative_{name}", 2, rf"{name} is -4, must be >= 0", {name: -4}, can=2)
    for mode in (-1, 3):
        yield Bad(f"mode_{mode}", 2, rf"reduction_mode is {mode}", {"reduction_mode": mode}, can=2)


def pointers(arrays, optional=()):
    """Every array misaligned, and each but an optional one NULL."""
    for name in arrays:
        yield Bad(f"odd_{name}", 1, rf"{name} is 0x[0-9a-f]+", shift={name: 1})
        if name not in optional:
            yield Bad(f"null_{name}", 2, rf"{name} is NULL", null=(name,))

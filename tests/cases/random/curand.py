# SPDX-License-Identifier: Apache-2.0
"""curand_uniform and curand_normal: the stream of a seed from its start."""

import functools
import math

from ..model import Case, Problem
from .common import IDLE, SEED, SIZES, bad_calls
from .real import normal, reference, unbounded, uniform_reference


def made(draw, numel, *, seed=SEED, **scalars):
    return Problem({"numel": numel, **scalars, "seed": seed}, {"y": draw.output((numel,))})


def with_stream(of, problem):
    """The reference of the row with an offset and a state."""
    whole = Problem(problem.scalars | {"offset": 0}, problem.arrays, null=("state",))
    return of(whole)


def problems(scalars, variants):
    table = {f"n{n}": lambda d, n=n: made(d, n, **scalars) for n in SIZES}
    for name, changed in variants.items():
        table[name] = lambda d, changed=changed: made(d, 1003, **(scalars | changed))
    return table | {f"seed {s}": lambda d, s=s: made(d, 133, seed=s, **scalars) for s in (0, 2**64 - 1)}


CASES = (
    Case(
        row="curand_uniform_{T}",
        problems=problems({"low": 0.0, "high": 1.0}, {"wide": {"low": -3.0, "high": 7.0}}),
        reference=functools.partial(with_stream, functools.partial(uniform_reference, includes_high=True)),
        tolerance={"y": "pointwise"}, plain="n33", large="n20011", idle=(*IDLE,),
        bad=(*bad_calls(({"low": 1.0}, "low is 1, must be below high, 1"), ({"high": math.nan}, "low is 0"),
                        ({"low": -math.inf}, "low is -inf"), has_state=False),),
    ),
    Case(
        row="curand_normal_{T}",
        problems=problems({"mean": 0.0, "stddev": 1.0}, {"moved": {"mean": 5.0, "stddev": 2.5}}),
        reference=functools.partial(with_stream, functools.partial(reference, normal)), tolerance={"y": "pointwise"},
        plain="n33", large="n20011", idle=IDLE,
        bad=bad_calls(
            *unbounded("mean"), *[({"stddev": v}, r"stddev is \S+, must be positive") for v in (0.0, -1.0)],
            has_state=False,
        ),
    ),
)  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""triu and tril, on contiguous and on strided operands."""

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .repeat import MOVE_BRIEF, PERMUTED, of_each_width


def triangle(draw, shape, diagonal, x=None, y=None, kind="normal", strided=False):
    host = {"shape": tuple(shape)}
    scalars = {"rank": len(shape), "diagonal": diagonal}
    if not strided:
        return Problem(scalars, {"input": draw.values(shape, kind), "output": draw.output(shape)}, host)
    host["stride_x"], host["stride_y"] = strides_for(shape, **x or {}), strides_for(shape, **y or {})
    arrays = {"input": draw.values(shape, kind, host["stride_x"]), "output": draw.output(shape, host["stride_y"])}
    return Problem(scalars, arrays, host)


def reference(keep):
    def of(problem):
        x, k = problem.arrays["input"].values, problem.scalars["diagonal"]
        i, j = np.indices(x.shape[-2:]) if x.ndim else (0, 0)
        kept = j >= i + k if keep == "triu" else j <= i + k
        return {"output": Expected(np.where(kept, x, x.dtype.type(0)))}

    return of


TRIANGLES = {  # shape, diagonal, layouts
    "one": ((1, 1), 0, {}),
    "plain": ((5, 7), 0, {}),
    "above": ((5, 7), 2, {}),
    "below": ((7, 5), -3, {}),
    "all": ((5, 7), -(2**31), {}),
    "none": ((5, 7), 2**31 - 1, {}),
    "batch": ((2, 3, 17, 20), 1, {}),
    "vectors": ((3, 64, 128), -5, {}),
    "row": ((1, 300), 100, {}),
    "column": ((300, 1), -100, {}),
    "rank8": ((2, 1, 2, 1, 2, 1, 4, 3), 0, {}),
    "large": ((3, 97, 130), 3, {}),
}
VIEWS = {
    "permuted_in": ((4, 10, 14), 1, {"x": PERMUTED}),
    "permuted_out": ((4, 10, 14), 1, {"y": PERMUTED}),
    "transposed": ((40, 34), -1, {"x": {"order": (1, 0)}, "y": {"order": (1, 0)}}),
    "flipped": ((19, 40), 2, {"x": {"flip": (0, 1)}, "y": {"flip": (1,)}}),
    "gaps": ((9, 11), 0, {"x": {"gap": 2}, "y": {"gap": 3, "pad": 2}}),
    "broadcast": ((3, 9, 11), 0, {"x": {"broadcast": (0, 2)}}),
}
BAD = (
    Bad("null_shape", 2, r"shape is NULL", host={"shape": None}, can=2),
    Bad("rank_0", 2, r"rank is 0", {"rank": 0}, can=2),
    Bad("rank_1", 2, r"rank is 1", {"rank": 1}, can=2),
    Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
    Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
    Bad("extent_negative", 2, r"shape\[1\] is -7", host={"shape": (5, -7)}, can=2),
    *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in ("input", "output")),
    *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in ("input", "output")),
)
STRIDED_BAD = (
    *(Bad(f"null_{s}", 2, rf"{s} is NULL", host={s: None}, can=2) for s in ("stride_x", "stride_y")),
    *(Bad(f"far_{s}", 2, rf"{s}\[0\] is {2**61}", host={s: (2**61, 1)}, can=2) for s in ("stride_x", "stride_y")),
    Bad("still", 2, r"stride_y\[0\] is 0", host={"stride_y": (0, 1)}, can=2),
)


def case(name, strided):
    given = TRIANGLES | (VIEWS if strided else {})
    problems = {n: lambda d, s=s, k=k, v=v: triangle(d, s, k, **v, strided=strided) for n, (s, k, v) in given.items()}
    problems["special"] = lambda d: triangle(d, (7, 9), 1, kind="special", strided=strided)
    return Case(
        row=f"{name}_{{T}}" + "_strided" * strided, problems=problems, reference=reference(name),
        tolerance={"output": "exact"}, plain="plain", large="large", brief=MOVE_BRIEF, full=of_each_width,
        bad=(*BAD, *(STRIDED_BAD if strided else ())),
        idle=(Idle("empty", {}, {"shape": (5, 0)}),),
    )  # fmt: skip


CASES = tuple(case(name, strided) for name in ("triu", "tril") for strided in (False, True))

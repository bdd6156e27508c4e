# SPDX-License-Identifier: Apache-2.0
"""upsample_nearest_2d of dense images, and pixel shuffle: copies, and sums of copies that are added."""

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem
from .matrices import NEAREST, applied, matrix

EXTENTS = ("n", "c", "ih", "iw", "oh", "ow")
UPSAMPLES = {
    "one": (1, 1, 1, 1, 1, 1),
    "plain": (2, 3, 4, 5, 7, 11),
    "twice": (1, 9, 8, 6, 16, 12),
    "shrunk": (2, 3, 11, 9, 4, 5),
    "row": (1, 2, 1, 40, 1, 77),
    "large": (3, 20, 31, 33, 64, 62),
}


def upsample(draw, *given, kind="normal"):
    n, c, ih, iw, oh, ow = given
    arrays = {"input": draw.floats((n, c, ih, iw), kind), "output": draw.output((n, c, oh, ow))}
    return Problem(dict(zip(EXTENTS, given)), arrays)


def upsample_backward(draw, *given, kind="normal"):
    n, c, ih, iw, oh, ow = given
    arrays = {"dout": draw.floats((n, c, oh, ow), kind), "dinput": draw.floats((n, c, ih, iw))}
    return Problem(dict(zip(EXTENTS, given)), arrays)


def sources(problem):
    s = problem.scalars
    return [np.arange(m) * n // m for n, m in ((s["ih"], s["oh"]), (s["iw"], s["ow"]))]


def reference(problem):
    rows, columns = sources(problem)
    return {"output": Expected(problem.arrays["input"].values[:, :, rows][:, :, :, columns])}


def reference_backward(problem):
    s, dout, dinput = problem.scalars, problem.arrays["dout"].values, problem.arrays["dinput"].values
    of = [matrix(NEAREST, n, m).T for n, m in ((s["ih"], s["oh"]), (s["iw"], s["ow"]))]
    count = int(np.prod([each.sum(1).max() for each in of]))
    with np.errstate(invalid="ignore"):
        total = dinput + applied(of, dout)
        return {"dinput": Expected(total, count + 2, np.abs(dinput) + applied(of, np.abs(dout)))}


def bad(extents, arrays):
    yield from (Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2) for e in extents)
    yield from (Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in arrays)
    yield from (Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays)


BLOCKS = ("n", "c", "h", "w", "r")
SHUFFLES = {
    "one": (1, 1, 1, 1, 1),
    "plain": (2, 3, 4, 5, 2),
    "thrice": (1, 2, 5, 7, 3),
    "same": (2, 3, 4, 5, 1),
    "row": (2, 1, 1, 33, 4),
    "wide": (1, 1, 2, 65, 7),
    "large": (3, 4, 31, 30, 2),
}


def shapes_of(n, c, h, w, r):
    return (n, c * r * r, h, w), (n, c, h * r, w * r)


def shuffle(draw, *given, kind="normal"):
    small, big = shapes_of(*given)
    return Problem(dict(zip(BLOCKS, given)), {"input": draw.values(small, kind), "output": draw.output(big)})


def unshuffle(draw, *given, kind="normal"):
    small, big = shapes_of(*given)
    return Problem(dict(zip(BLOCKS, given)), {"input": draw.values(big, kind), "output": draw.output(small)})


def reference_shuffle(problem):
    n, c, h, w, r = (problem.scalars[name] for name in BLOCKS)
    blocks = problem.arrays["input"].values.reshape(n, c, r, r, h, w)
    return {"output": Expected(blocks.transpose(0, 1, 4, 2, 5, 3).reshape(n, c, h * r, w * r))}


def reference_unshuffle(problem):
    n, c, h, w, r = (problem.scalars[name] for name in BLOCKS)
    blocks = problem.arrays["input"].values.reshape(n, c, h, r, w, r)
    return {"output": Expected(blocks.transpose(0, 1, 3, 5, 2, 4).reshape(n, c * r * r, h, w))}


def made(make, given, special):
    return {name: lambda d, s=s: make(d, *s) for name, s in given.items()} | {
        "special": lambda d: make(d, *special, kind="special")
    }


CASES = (
    Case(
        row="upsample_nearest_2d_fw_{T}", problems=made(upsample, UPSAMPLES, (2, 3, 4, 5, 9, 8)), reference=reference,
        tolerance={"output": "exact"}, plain="plain", large="large",
        bad=(
            *bad(EXTENTS, ("input", "output")),
            *(Bad(f"no_{e}", 2, rf"{e} is 0", {e: 0}, can=2) for e in ("ih", "iw")),
        ),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in ("n", "c", "oh", "ow")),
    ),
    Case(
        row="upsample_nearest_2d_bw_{T}", problems=made(upsample_backward, UPSAMPLES, (2, 3, 4, 5, 8, 10)),
        reference=reference_backward, tolerance={"dinput": "total"}, plain="plain", large="large",
        bad=(
            *bad(EXTENTS, ("dout", "dinput")),
            *(Bad(f"no_{e}", 2, rf"{e} is 0", {e: 0}, can=2) for e in ("ih", "iw")),
        ),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in ("n", "c", "oh", "ow")),
    ),
    *(
        Case(
            row=f"pixel_{name}_{{T}}", problems=made(make, SHUFFLES, (2, 3, 4, 5, 2)), reference=of,
            tolerance={"output": "exact"}, plain="plain", large="large",
            bad=(
                *bad(BLOCKS, ("input", "output")), Bad("r_0", 2, r"r is 0", {"r": 0}, can=2),
                Bad("huge", 2, r"\w+ is \d+", dict.fromkeys(BLOCKS, 2**31 - 1), can=2),
            ),
            idle=tuple(Idle(f"no_{e}", {e: 0}) for e in ("n", "c", "h", "w")),
        )
        for name, make, of in (("shuffle", shuffle, reference_shuffle), ("unshuffle", unshuffle, reference_unshuffle))
    ),
)  # fmt: skip

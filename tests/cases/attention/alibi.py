# SPDX-License-Identifier: Apache-2.0
"""ALiBi and its gradients."""

import math

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem

SHAPES = {
    "one": (1, 1, 1, 1),
    "row": (1, 1, 1, 37),
    "column": (1, 1, 41, 1),
    "small": (2, 3, 5, 7),
    "wide": (1, 2, 3, 300),
    "tall": (3, 2, 130, 4),
    "vector": (2, 4, 16, 32),
    "odd": (2, 5, 33, 31),
    "heads": (1, 257, 3, 5),
    "batch": (65, 2, 3, 9),
    "large": (2, 3, 121, 130),
}


def scalars_of(shape):
    return dict(zip(("batch", "heads", "q_len", "k_len"), shape))


def distance(shape):
    return np.arange(shape[3])[None, :] - np.arange(shape[2])[:, None]


def alibi(draw, shape, kind="normal"):
    arrays = {"scores": draw.floats(shape, kind), "slopes": draw.floats((shape[1],), kind), "y": draw.output(shape)}
    return Problem(scalars_of(shape), arrays)


def alibi_reference(problem):
    scores, slopes = problem.arrays["scores"], problem.arrays["slopes"]
    with np.errstate(invalid="ignore", over="ignore"):
        bias = slopes.values[:, None, None] * distance(scores.shape)
        return {"y": Expected(scores.values + bias, 1, np.broadcast_to(np.abs(bias), scores.shape))}


def alibi_backward(draw, shape, kind="normal", null=()):
    arrays = {"dy": draw.floats(shape, kind), "da": draw.output(shape), "dslope": draw.output((shape[1],))}
    return Problem(scalars_of(shape), arrays, null=null)


def alibi_backward_reference(problem):
    dy = problem.arrays["dy"]
    with np.errstate(invalid="ignore", over="ignore"):
        summands = dy.values * distance(dy.shape)
        total, size = summands.sum((0, 2, 3)), np.abs(summands).sum((0, 2, 3))
    count = math.prod(dy.shape) // max(dy.shape[1], 1)
    expected = {"da": Expected(dy.values), "dslope": Expected(total, count, size)}
    return {name: e for name, e in expected.items() if name not in problem.null}


def bad_calls(pointers, required):
    bad = [Bad(f"negative_{e}", 2, rf"{e} is -\d", {e: -3}, can=2) for e in ("batch", "heads", "q_len", "k_len")]
    huge = dict.fromkeys(("batch", "heads", "q_len", "k_len"), 2**31 - 1)
    bad.append(Bad("overflow", 2, rf"batch is {2**31 - 1}", huge, can=2))
    bad.append(Bad("negative_beside_0", 2, r"q_len is -1", {"batch": 0, "q_len": -1}, can=2))
    bad += [Bad(f"null_{p}", 2, rf"{p} is NULL", null=(p,)) for p in required]
    return (*bad, *(Bad(f"odd_{p}", 1, rf"{p} is 0x[0-9a-f]+", shift={p: 1}) for p in pointers))


EMPTY = tuple(Idle(f"no_{e}", {e: 0}) for e in ("batch", "heads", "q_len", "k_len"))
SIZE = {"f32": 4, "bf16": 2}


CASES = (
    Case(
        row="alibi_{T}",
        problems={name: lambda d, s=s: alibi(d, s) for name, s in SHAPES.items()}
        | {"special": lambda d: alibi(d, (2, 3, 9, 11), "special")},
        reference=alibi_reference, tolerance={"y": "pointwise"}, plain="small", large="large",
        bad=bad_calls(("scores", "slopes", "y"), ("scores", "slopes", "y")), idle=EMPTY,
    ),
    Case(
        row="alibi_backward_{T}",
        problems={name: lambda d, s=s: alibi_backward(d, s) for name, s in SHAPES.items()}
        | {
            "special": lambda d: alibi_backward(d, (2, 3, 9, 11), "special"),
            "positive": lambda d: alibi_backward(d, (2, 2, 50, 60), "positive"),
            "da_only": lambda d: alibi_backward(d, (2, 3, 17, 19), null=("dslope",)),
            "dslope_only": lambda d: alibi_backward(d, (2, 3, 17, 19), null=("da",)),
            "no_batch": lambda d: alibi_backward(d, (0, 3, 4, 5)),
            "no_queries": lambda d: alibi_backward(d, (2, 3, 0, 5), null=("dy", "da")),
            "no_keys": lambda d: alibi_backward(d, (2, 300, 4, 0), null=("dy",)),
            "no_keys_da_only": lambda d: alibi_backward(d, (2, 3, 4, 0), null=("dy", "dslope")),
        },
        reference=alibi_backward_reference, tolerance={"da": "exact", "dslope": "total_of_products"},
        plain="small", large="large",
        bad=(
            *bad_calls(("dy", "da", "dslope"), ("dy",)),
            Bad("no_gradient", 2, r"da and dslope are both NULL", null=("da", "dslope")),
        ),
        # without scores the slopes still have gradients: only an op without heads has nothing to do
        idle=(Idle("no_heads", {"heads": 0}),),
    ),
)  # fmt: skip

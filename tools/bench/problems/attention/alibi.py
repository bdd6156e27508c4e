# SPDX-License-Identifier: Apache-2.0
"""ALiBi and its gradients."""

import functools
import math

import numpy as np

from tools.bench.check import compare, rows, sample_indices, shape
from tools.bench.record import Bench, Bound, Operand


def distance(extents):
    return np.arange(extents[3])[None, :] - np.arange(extents[2])[:, None]


def torch_distance(torch, like):
    i, j = (torch.arange(extent, device=like.device, dtype=like.dtype) for extent in like.shape[2:])
    return j - i[:, None]


def check(problem):
    extents = shape(problem, "scores")
    chosen = sample_indices(problem, math.prod(extents[:3]))
    slopes = rows(problem, "slopes", chosen // extents[2] % extents[1])
    expected = rows(problem, "scores", chosen) + slopes * distance(extents)[chosen % extents[2]]
    return compare(problem, rows(problem, "y", chosen), expected, np.abs(slopes) * extents[3])


def check_backward(problem):
    batch, heads, queries, _ = extents = shape(problem, "dy")
    chosen = sample_indices(problem, batch * heads * queries)
    wrong = compare(problem, rows(problem, "da", chosen), rows(problem, "dy", chosen), 0.0)
    for head in (0, heads - 1):
        products = sum(rows(problem, "dy", np.arange(queries) + (i * heads + head) * queries) for i in range(batch))
        products = products * distance(extents)
        magnitude = np.sqrt(batch) * np.abs(products).sum()
        got = rows(problem, "dslope", [head])
        wrong = wrong or compare(problem, got, products.sum().reshape(1, 1), magnitude)
    return wrong


def biased(torch, t, scalars):
    return lambda: t["scores"] + t["slopes"][:, None, None] * torch_distance(torch, t["scores"])


def biased_into(torch, t, scalars):
    bias, slopes = torch_distance(torch, t["scores"]), t["slopes"][:, None, None]
    return lambda: torch.add(t["scores"], slopes * bias, out=t["y"])


def numpy_biased(a, scalars):
    bias = a["slopes"][:, None, None] * distance(a["scores"].shape).astype(a["slopes"].dtype)
    return lambda: np.add(a["scores"], bias, out=a["y"])


def summed(torch, t, scalars):
    return lambda: (t["dy"].clone(), (t["dy"] * torch_distance(torch, t["dy"])).sum((0, 2, 3)))


def contracted(torch, t, scalars):
    far = torch_distance(torch, t["dy"])
    return lambda: (t["da"].copy_(t["dy"]), torch.einsum("bhij,ij->h", t["dy"], far))


def numpy_einsum(a, scalars):
    far = distance(a["dy"].shape).astype(a["dy"].dtype)
    return lambda: (np.copyto(a["da"], a["dy"]), np.einsum("bhij,ij->h", a["dy"], far, out=a["dslope"]))


def numpy_tensordot(a, scalars):
    far = distance(a["dy"].shape).astype(a["dy"].dtype)
    return lambda: (np.copyto(a["da"], a["dy"]), np.tensordot(a["dy"], far, 2))


def benches(backend):
    extents = (4, 32, 2048, 2048) if backend == "cuda" else (1, 8, 1024, 1024)
    made = functools.partial(
        Bench, dtypes=("f32", "bf16"), scalars=dict(zip(("batch", "heads", "q_len", "k_len"), extents))
    )
    values, result = Operand(extents, "sixteenths"), Operand(extents)

    def bound(copy):
        return (Bound("copy", copy) if backend == "cuda" else Bound("peer", 1.0),)

    heads = (extents[1],)
    return (
        made(
            name="alibi", row="alibi_{T}", bounds=bound(0.95), check=check, torch=(biased, biased_into),
            numpy=(numpy_biased,), arrays={"scores": values, "slopes": Operand(heads, "sixteenths"), "y": result},
        ),
        made(
            name="alibi_backward", row="alibi_backward_{T}", bounds=bound(0.92), check=check_backward,
            torch=(summed, contracted), numpy=(numpy_einsum, numpy_tensordot), workspace=True,
            arrays={"dy": values, "da": result, "dslope": Operand(heads)},
        ),
    )  # fmt: skip

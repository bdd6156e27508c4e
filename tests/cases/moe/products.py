# SPDX-License-Identifier: Apache-2.0
"""Products of rows with the matrix of their expert, under the names of the reference."""

import numpy as np

from tools.oracle.block_formats import FORMATS, decoded
from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Problem
from .route import ids_of, negative, sorted_pairs

# gguf_dtype -> format, and the bytes of a block that are f16 numbers, or scales of one byte.
GGUF = {
    0: ("q8_0", (0,)), 1: ("q4_K", (0, 2)), 2: ("q2_K", (80, 82)), 3: ("q3_K", (108,)), 4: ("q5_K", (0, 2)),
    5: ("q6_K", (208,)), 6: ("mxfp4", (0,)), 7: ("nvfp4", (0, 1, 2, 3)),
}  # fmt: skip


BYTE_SCALES = {"mxfp4": (118, 124), "nvfp4": (0x18, 0x30)}  # ordinary codes of e8m0 and e4m3


def blocks(draw, code, shape, k):
    """Bytes of [..., k] weights, random but for ordinary scales, and their values."""
    name, numbers = GGUF[code]
    chosen = FORMATS[name]
    data = draw.rng.integers(0, 256, (*shape, k // chosen.values, chosen.bytes)).astype(np.uint8)
    for at in numbers:
        if name in BYTE_SCALES:
            data[..., at] = draw.rng.integers(*BYTE_SCALES[name], data.shape[:-1])
            continue
        scales = (draw.rng.random(data.shape[:-1]) * 0.02 + 0.01).astype(np.float16)
        data[..., at : at + 2] = scales[..., None].view(np.uint8)
    data = data.reshape(*shape, -1)
    return data, decoded(chosen, data).reshape(*shape, k).astype(np.float64)


def product(
    draw, tokens, topk, experts, n, k, *, code=None, scalar=False, weighted=False, kind="normal", strays=False,
    shuffled=False,
):  # fmt: skip
    pairs = tokens * topk
    ids = ids_of(draw, (tokens, topk), experts, kind)
    order, _, expert_of = sorted_pairs(ids.reshape(-1), experts, 0)[:3]
    if strays:
        order = np.where(draw.rng.random(pairs) < 0.2, draw.rng.choice([-1, pairs, 2**31 - 1], pairs), order)
    if shuffled:
        moved = draw.rng.permutation(pairs)
        order, expert_of = order[moved], expert_of[moved]
    dtype = "f32" if scalar else draw.dtype
    x = round_to(draw.rng.standard_normal((pairs if weighted else tokens, k)), dtype)
    scalars = {"num_experts": experts, "topk": topk, "size_m": pairs, "size_n": n, "size_k": k}
    if code is None:
        weights = draw.floats((experts, n, k))
        scalars["is_prefill"] = 1
    else:
        data, _ = blocks(draw, code, (experts, n), k)
        weights = draw.array(data.astype(np.int64), "u8")
        scalars["gguf_dtype"] = code
    one, out = ("inputs", "outputs") if scalar else ("input", "output")
    # Rows that no id names keep their values.
    before = round_to(draw.rng.standard_normal((pairs, n)), dtype if code is None else "f32")
    arrays = {
        one: draw.array(x, dtype), "weights": weights, "sorted_token_ids": draw.array(order, "i32"),
        "expert_ids": draw.array(expert_of, "i32"),
        "topk_weights": draw.array(round_to(draw.rng.random(pairs), "f32"), "f32"),
        out: draw.array(before, dtype if code is None else "f32"),
    }  # fmt: skip
    if not scalar:
        arrays["expert_counts"] = draw.output((experts,), dtype="i32")
        arrays["expert_offsets"] = draw.output((experts + 1,), dtype="i32")
    return Problem(scalars, arrays, null=() if weighted else ("topk_weights",))


def weights_of(problem, dtype):
    values = problem.arrays["weights"].values
    if "gguf_dtype" not in problem.scalars:
        return values
    chosen = FORMATS[GGUF[problem.scalars["gguf_dtype"]][0]]
    found = decoded(chosen, values.astype(np.uint8)).astype(np.float64)
    return round_to(found.reshape(*values.shape[:2], -1), dtype)


def reference(problem):
    s, arrays = problem.scalars, problem.arrays
    out = "output" if "output" in arrays else "outputs"
    x, weighted = arrays[out.replace("out", "in")], "topk_weights" not in problem.null
    matrices, experts = weights_of(problem, x.dtype), s["num_experts"]
    value, size = arrays[out].values.copy(), np.zeros(arrays[out].shape)
    experts_of = arrays["expert_ids"].values
    for id, expert in zip(arrays["sorted_token_ids"].values, experts_of):
        if not 0 <= expert < experts or not 0 <= id < s["size_m"]:
            continue
        row = x.values[id if weighted else id // s["topk"]]
        w = arrays["topk_weights"].values[id] if weighted else 1.0
        value[id], size[id] = w * (matrices[expert] @ row), w * (np.abs(matrices[expert]) @ np.abs(row))
    found = {out: Expected(value, count=s["size_k"], magnitude=size)}
    if out == "output":
        counts = np.array([(experts_of == e).sum() for e in range(experts)])
        found |= {"expert_counts": Expected(counts), "expert_offsets": Expected(np.append(0, np.cumsum(counts)))}
    return found


def problems(codes=(None,), scalar=False):
    make = lambda d, *shape, **options: product(d, *shape, scalar=scalar, **options)  # noqa: E731
    k = 256 if codes != (None,) else 24
    table = {}
    for code in codes:
        block = FORMATS[GGUF[code][0]].values if code is not None else 1
        named = "" if code is None else f"{GGUF[code][0]} "
        widths = (block, 3 * block) if code is not None else (8, 40)
        for width in widths:
            table[f"{named}{width}"] = lambda d, c=code, w=width: make(d, 9, 2, 4, 20, w, code=c)
        table[f"{named}weighted"] = lambda d, c=code: make(d, 11, 3, 5, 9, k, code=c, weighted=True)
    first = codes[0]
    table |= {
        "plain": lambda d: make(d, 7, 3, 4, 10, k, code=first, weighted=True),
        "one": lambda d: make(d, 1, 1, 1, 1, k, code=first),
        "one_expert": lambda d: make(d, 40, 2, 3, 5, k, code=first, kind="one"),
        "dropped": lambda d: make(d, 20, 3, 6, 7, k, code=first, kind="dropped"),
        "strays": lambda d: make(d, 20, 3, 6, 7, k, code=first, strays=True, weighted=True),
        "large": lambda d: make(d, 100, 2, 5, 70, k, code=first, weighted=True, kind="skewed"),
        "many_experts": lambda d: make(d, 12, 2, 1500, 3, k, code=first),
    }  # fmt: skip
    if codes == (None,):
        table["odd"] = lambda d: make(d, 9, 2, 4, 21, 37)
        table["odd_weighted"] = lambda d: make(d, 9, 2, 4, 21, 13, weighted=True)
    if scalar:
        table["shuffled"] = lambda d: make(d, 20, 3, 6, 7, k, code=first, shuffled=True, kind="dropped")
    return table


EXTENTS = ("num_experts", "topk", "size_m", "size_n", "size_k")
EMPTY = tuple(Bad(f"empty_{n}", 2, rf"{n} is 0, must be > 0", {n: 0}, can=2) for n in EXTENTS)
FORMAT = (
    *(Bad(f"format_{v}", 3, rf"gguf_dtype is {v}, must be in \[0, 7\]", {"gguf_dtype": v}, can=3) for v in (-1, 8)),
    Bad("part_of_a_block", 2, r"size_k is 40, must be a multiple of 32", {"size_k": 40}, can=2),
)
MANY = (Bad("topk", 2, r"topk is 5, must be <= num_experts, 4", {"topk": 5}, can=2),)

CASES = (
    Case(
        row="moe_wmma_{T}", problems=problems(), reference=reference,
        tolerance={"output": "gemm", "expert_counts": "exact", "expert_offsets": "exact"}, plain="plain", large="large",
        bad=(*negative(*EXTENTS), *EMPTY, *MANY), idle=(),
    ),
    Case(
        row="moe_wmma_gguf_{T}", problems=problems(tuple(GGUF)), reference=reference,
        tolerance={"output": "gemm", "expert_counts": "exact", "expert_offsets": "exact"}, plain="plain", large="large",
        bad=(*negative(*EXTENTS), *EMPTY, *MANY, *FORMAT), idle=(),
    ),
    Case(
        row="moe_scalar_gguf", problems=problems(tuple(GGUF), scalar=True), reference=reference,
        tolerance={"outputs": "gemm"}, plain="plain", large="large",
        bad=(*negative(*EXTENTS), *EMPTY, *FORMAT), idle=(),
    ),
)  # fmt: skip

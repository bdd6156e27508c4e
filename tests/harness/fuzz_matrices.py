# SPDX-License-Identifier: Apache-2.0
"""Random problems of linear algebra: batches of matrices with three strides, or packed ones, and their extents."""

import math

from .fuzz_rows import row_major, small_strides

EXTENTS = ("batch", "m", "n", "k", "nb", "num_blocks", "block_start", "block_k")


def drawn(rng, row) -> tuple[dict, dict] | None:
    """Scalars and host arrays; None for other families."""
    if row.family != "linalg":
        return None
    scalars = {}
    for p in row.problem:
        if p.name in EXTENTS:
            scalars[p.name] = int(rng.choice([0, 1, 1, 2, 3, 5, 9]))
        elif p.dtype == "i32":
            scalars[p.name] = int(rng.integers(0, 2))
    if rng.random() < 0.7 and "k" in scalars and "m" in scalars:  # reflectors are no more than rows
        scalars["k"] = min(scalars["k"], scalars["m"], scalars.get("n", 9))
    host = {}
    for p in row.pointers:
        words, _, strides = p.shape.partition(" at ")
        if strides:
            host[strides] = small_strides(rng, sizes(scalars, words), not p.is_output)
    return scalars, host


def sizes(scalars, words) -> list[int]:
    """Extents by their names, some of which the op computes."""
    m, n = (scalars.get(name, 0) for name in "mn")
    k, right = scalars.get("k", 0), scalars.get("right", scalars.get("side", 0))
    is_full, least = scalars.get("full_matrices", 0), min(m, n)
    names = scalars | {
        "least": least, "rows": n if right else m, "columns": m if scalars.get("complete", 0) else least,
        "left_vectors": m if is_full else least, "right_vectors": n if is_full else least,
        "packed_rows": n if right else m, "packed_columns": n if right else k,
    }  # fmt: skip
    return [names[word] for word in words.split(", ")]


def layout_of(call, p, family) -> tuple[list[int], list[int]] | bool | None:
    """Extents and strides of an operand; None where the arguments do not determine them, False for other families."""
    if family != "linalg":
        return False
    words, _, strides = p.shape.partition(" at ")
    extents = sizes(call.scalars, words)
    if min(extents) < 0:
        return None
    if not strides:
        return extents, row_major(extents)
    if call.host[strides] is None:
        return (extents, [0, 0, 0]) if math.prod(extents) == 0 else None
    return extents, [s if e != 1 else 0 for s, e in zip(call.host[strides], extents)]

# SPDX-License-Identifier: Apache-2.0
"""kv_cache_append."""

from ..model import Bad, Case, Expected, Idle, Problem

EXTENTS = ("batch", "heads", "new_len", "max_cache_len", "d_k", "d_v")
POINTERS = ("k_new", "v_new", "cache_offsets", "k_cache", "v_cache")
SHAPES = {
    "one": (1, 1, 1, 1, 1, 1),
    "small": (2, 3, 4, 9, 8, 6),
    "equal": (3, 2, 5, 16, 32, 32),
    "odd": (2, 5, 3, 7, 13, 17),
    "decode": (33, 4, 1, 50, 64, 64),
    "keys": (2, 3, 4, 9, 8, 0),
    "values": (2, 3, 4, 9, 0, 8),
    "long": (3, 2, 11, 6, 4, 4),
    "large": (5, 4, 37, 90, 40, 48),
}
OFFSETS = {
    "inside": lambda rng, new, most, n: rng.integers(0, max(most - new, 0) + 1, n),
    "over": lambda rng, new, most, n: rng.integers(-new - 1, most + 2, n),
    "wild": lambda rng, new, most, n: rng.choice([-(2**63), -(2**40), -1, 0, 1, most - 1, most, 2**40, 2**63 - 1], n),
}


def append(draw, shape, offsets="inside"):
    batch, heads, new_len, most, d_k, d_v = shape
    starts = OFFSETS[offsets](draw.rng, new_len, most, batch)
    arrays = {
        "k_new": draw.values((batch, heads, new_len, d_k), "special"),
        "v_new": draw.values((batch, heads, new_len, d_v), "special"),
        "cache_offsets": draw.array(starts, "i64"),
        "k_cache": draw.values((batch, heads, most, d_k)),
        "v_cache": draw.values((batch, heads, most, d_v)),
    }
    null = [name for name in ("k_new", "k_cache") if not d_k] + [name for name in ("v_new", "v_cache") if not d_v]
    return Problem(dict(zip(EXTENTS, shape)), arrays, null=tuple(null))


def reference(problem):
    expected = {}
    for kind in "kv":
        if f"{kind}_cache" in problem.null:
            continue
        new, cache = problem.arrays[f"{kind}_new"].values, problem.arrays[f"{kind}_cache"].values.copy()
        for b, offset in enumerate(problem.arrays["cache_offsets"].values):
            for row in range(new.shape[2]):
                if 0 <= int(offset) + row < cache.shape[2]:
                    cache[b, :, int(offset) + row] = new[b, :, row]
        expected[f"{kind}_cache"] = Expected(cache)
    return expected


CASES = (
    Case(
        row="kv_cache_append_{T}",
        problems={name: lambda d, s=s: append(d, s) for name, s in SHAPES.items()}
        | {
            "over": lambda d: append(d, (40, 2, 5, 7, 8, 8), "over"),
            "wild": lambda d: append(d, (30, 2, 3, 7, 4, 5), "wild"),
        },
        reference=reference, tolerance={"k_cache": "exact", "v_cache": "exact"}, plain="small", large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in EXTENTS),
            Bad("negative_beside_0", 2, r"d_v is -1", {"batch": 0, "d_v": -1}, can=2),
            Bad("overflow", 2, rf"\w+ is {2**31 - 1}", dict.fromkeys(EXTENTS, 2**31 - 1), can=2),
            *(Bad(f"null_{p}", 2, rf"{p} is NULL", null=(p,)) for p in POINTERS),
            *(Bad(f"odd_{p}", 1, rf"{p} is 0x[0-9a-f]+", shift={p: 1}) for p in POINTERS),
        ),
        idle=(*(Idle(f"no_{e}", {e: 0}) for e in EXTENTS[:4]), Idle("no_features", {"d_k": 0, "d_v": 0})),
    ),
)  # fmt: skip

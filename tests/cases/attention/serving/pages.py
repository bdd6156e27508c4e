# SPDX-License-Identifier: Apache-2.0
"""Attention of decoding and of caches in pages, of ragged batches, and appending to pages."""

import dataclasses

import numpy as np

from ...model import Bad, Case, Expected, Idle, Problem
from ..oracle import FAR, SIXTEEN, Rules, forward, gather, of_sequence

TOLERANCE = {"y": "attention", "lse": "log_sum"}
LENGTHS = (33, 0, 7, 1)
MOST = 2**31 - 1


def offsets(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


# --- pages -----------------------------------------------------------------------------------------------------------


class Pages:
    """Pages of sequences in random order, some unused: `ids`, `offsets`, `last`, and where each key is."""

    def __init__(self, rng, lengths, page_size, unused=3):
        counts = [-(-n // page_size) for n in lengths]
        self.total, self.page_size, self.lengths = sum(counts) + unused, page_size, lengths
        self.ids = rng.permutation(self.total)[: sum(counts)]
        self.offsets = offsets(counts)
        self.last = np.array([n - (c - 1) * page_size if c else 0 for n, c in zip(lengths, counts)])

    def slots(self, b):
        """(pages, slots) of the keys of a sequence."""
        j = np.arange(self.lengths[b])
        return self.ids[self.offsets[b] + j // self.page_size], j % self.page_size

    def fill(self, draw, heads, d, dtype, poison):
        """A cache with values in used slots, and NaN in all others, or numbers."""
        shape = (self.total, heads, self.page_size, d)
        values, used = draw.floats(shape, dtype=dtype).values, np.zeros(shape, bool)
        for b in range(len(self.lengths)):
            pages, slots = self.slots(b)
            used[pages, :, slots] = True
        return draw.array(np.where(used, values, np.nan) if poison else values, dtype)


def paged(draw, lengths=LENGTHS, queries=None, heads=(4, 4), d=(40, 40), page_size=5, cache="", poison="kv", null=(),
          **numbers):  # fmt: skip
    pages, rows = Pages(draw.rng, lengths, page_size), sum(queries) if queries else len(lengths)
    cache = cache or draw.dtype
    arrays = {
        "q": draw.floats((rows, heads[0], d[0])),
        "k_cache": pages.fill(draw, heads[1], d[0], cache, "k" in poison),
        "v_cache": pages.fill(draw, heads[1], d[1], cache, "v" in poison),
        "page_ids": draw.array(pages.ids, "i32"),
        "page_offsets": draw.array(pages.offsets, "i32"),
        "last_page_len": draw.array(pages.last, "i32"),
        "q_offsets": draw.array(offsets(queries or [1] * len(lengths)), "i32"),
        "y": draw.output((rows, heads[0], d[1])),
        "lse": draw.output((rows, heads[0]), dtype="f32"),
    }
    scalars = {
        "batch": len(lengths), "total_q": rows, "num_pages": pages.total, "page_size": page_size,
        "num_page_ids": len(pages.ids), "heads": heads[0], "kv_heads": heads[1], "d_k": d[0], "d_v": d[1],
        "scale": 0.125, "is_causal": 0, "window": -1, "softcap": 0.0, "is_base2": 0, "is_batch_invariant": 0,
    }  # fmt: skip
    return Problem(scalars | numbers, arrays, null=(*null, *(() if queries else ("q_offsets",))))


def paged_reference(problem):
    value, s = {name: array.values for name, array in problem.arrays.items()}, problem.scalars
    starts, keys = value["q_offsets"], []
    for b in range(s["batch"]):
        ids = value["page_ids"][value["page_offsets"][b] : value["page_offsets"][b + 1]]
        length = max((len(ids) - 1) * s["page_size"] + value["last_page_len"][b], 0) if len(ids) else 0
        # [page, head, slot, element] as one sequence
        cached = (value[f"{x}_cache"][ids].swapaxes(0, 1).reshape(s["kv_heads"], -1, s[f"d_{x}"]) for x in "kv")
        keys.append([x[None, :, :length] for x in cached])
    return packed_reference(problem, [slice(*starts[b : b + 2]) for b in range(s["batch"])], keys)


def packed_reference(problem, rows, keys):
    """rows of each sequence in q, y and lse; its keys and values as [1, head, key, element]."""
    s, q = problem.scalars, problem.arrays["q"]
    left = FAR if s["window"] < 0 else s["window"]
    rules = Rules(scale=s["scale"], left=left, right=0 if s["is_causal"] else left, aligns_ends=True,
                  softcap=s["softcap"])  # fmt: skip
    each = [(own, None, forward(of_sequence(q.values, own), *kv, rules, q.dtype in SIXTEEN))
            for own, kv in zip(rows, keys)]  # fmt: skip
    found = gather(problem, each, {"y": ("y", False, 0.0), "lse": ("lse", False, -np.inf)}, rows_first=True)
    if s["is_base2"]:
        lse = found["lse"]
        found["lse"] = Expected(*(x / np.log(2) for x in (lse.value, lse.count, lse.magnitude, lse.divided)))
    return without_null(problem, found)


def without_null(problem, expected):
    return {name: e for name, e in expected.items() if name not in problem.null}


def paged_problems(cache=""):
    made = {
        "small": {"queries": (3, 2, 0, 4)},
        "decode": {},
        "one": {"lengths": (1,), "heads": (1, 1), "d": (8, 8), "page_size": 1},
        "pages_of_1": {"page_size": 1, "heads": (5, 1)},
        "pages_of_16": {"page_size": 16, "heads": (14, 2), "d": (64, 64)},
        "group_16": {"heads": (16, 1), "d": (128, 128), "lengths": (17, 250)},
        "wide": {"d": (256, 256), "heads": (2, 2), "page_size": 16},
        "wider": {"d": (576, 512), "heads": (16, 1), "lengths": (40, 3)},
        "odd_features": {"d": (37, 21)},
        "poison_k": {"poison": "k", "lengths": (3, 0, 12), "page_size": 16},
        "poison_v": {"poison": "v", "lengths": (3, 0, 12), "page_size": 16},
        "no_keys": {"lengths": (0, 0)},
        "no_lse": {"null": ("lse",)},
        "groups": {"queries": (3, 2, 0, 4), "heads": (10, 2)},
        "causal": {"queries": (9, 0, 7, 3), "is_causal": 1, "heads": (4, 2), "page_size": 16},
        "window": {"queries": (9, 2, 7, 1), "is_causal": 1, "window": 3},
        "two_sides": {"queries": (9, 2, 7, 1), "window": 1},
        "softcap": {"queries": (9, 2, 7, 1), "softcap": 0.5},
        "base2": {"is_base2": 1},
        "large": {"lengths": (300, 129, 0, 64, 65, 1, 17), "heads": (10, 2), "d": (64, 64), "page_size": 16},
        "large_prefill": {"lengths": (200, 130, 0, 65), "queries": (70, 64, 5, 65), "d": (64, 64), "is_causal": 1,
                          "heads": (6, 2), "page_size": 16},
    }  # fmt: skip
    return {name: lambda d, o=options: paged(d, cache=cache, **o) for name, options in made.items()}


PAGED_EXTENTS = ("batch", "total_q", "num_pages", "page_size", "num_page_ids", "heads", "kv_heads", "d_k", "d_v")
PAGED_POINTERS = ("q", "k_cache", "v_cache", "page_ids", "page_offsets", "last_page_len", "y")
OF_BYTES = ("k_cache", "v_cache")
HEADS = Bad("groups", 2, r"heads is 5, must be a multiple of kv_heads, 4", {"heads": 5}, can=2)
CAP = (
    Bad("negative_softcap", 2, r"softcap is -1, must be >= 0", {"softcap": -1.0}, can=2),
    Bad("nan_softcap", 2, r"softcap is -?nan, must be >= 0", {"softcap": float("nan")}, can=2),
)


def pointer_bad(required, optional=(), unaligned=()):
    bad = [Bad(f"null_{p}", 2, rf"{p} is NULL", null=(p,)) for p in required]
    return bad + [Bad(f"odd_{p}", 1, rf"{p} is 0x", shift={p: 1}) for p in (*required, *optional) if p not in unaligned]


def paged_case(row, cache=""):
    return Case(
        row=row, problems=paged_problems(cache), reference=paged_reference, tolerance=TOLERANCE, plain="small",
        large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2) for e in PAGED_EXTENTS),
            Bad("no_page_size", 2, r"page_size is 0, must be > 0", {"page_size": 0}, can=2),
            HEADS, *CAP, *pointer_bad(PAGED_POINTERS, ("q_offsets", "lse"), OF_BYTES if cache else ()),
            Bad("rows_without_offsets", 2, r"q_offsets is NULL, but total_q, 9, is not batch, 4", null=("q_offsets",)),
            Bad("overflow", 2, rf"\w+ is {MOST}", dict.fromkeys(("num_pages", "page_size", "d_k"), MOST), can=2),
        ),
        idle=(Idle("no_batch", {"batch": 0, "total_q": 0}), Idle("no_heads", {"heads": 0, "kv_heads": 0})),
    )  # fmt: skip


# --- latent vectors --------------------------------------------------------------------------------------------------


def latent(draw, d=(40, 24), **options):
    problem = paged(draw, heads=options.pop("heads", (4, 1)), d=d, **options)
    arrays, scalars = dict(problem.arrays), dict(problem.scalars)
    arrays["cache"] = draw.array(arrays.pop("k_cache").values[:, 0], draw.dtype)
    del arrays["v_cache"], scalars["kv_heads"]
    return Problem(scalars, {"q": arrays.pop("q"), "cache": arrays.pop("cache"), **arrays}, null=problem.null)


def latent_reference(problem):
    cache = problem.arrays["cache"]
    keys = dataclasses.replace(cache, values=cache.values[:, None])
    values = dataclasses.replace(cache, values=cache.values[:, None, :, : problem.scalars["d_v"]])
    arrays = {**problem.arrays, "k_cache": keys, "v_cache": values}
    return paged_reference(Problem(problem.scalars | {"kv_heads": 1}, arrays, null=problem.null))


LATENT = {
    "small": {"queries": (3, 2, 0, 4)},
    "decode": {"lengths": (33, 0, 7, 70), "heads": (16, 1), "d": (576, 512), "page_size": 16},
    "queries": {"lengths": (150, 40), "queries": (9, 5), "heads": (16, 1), "d": (576, 512), "is_causal": 1},
    "one": {"lengths": (1,), "heads": (1, 1), "d": (8, 8), "page_size": 1},
    "narrow": {"d": (128, 64), "heads": (20, 1), "page_size": 16},
    "odd_features": {"d": (299, 257)},
    "no_keys": {"lengths": (0, 0)},
    "no_lse": {"null": ("lse",)},
    "window": {"queries": (9, 2, 7, 1), "is_causal": 1, "window": 3},
    "softcap": {"queries": (9, 2, 7, 1), "softcap": 0.5, "is_base2": 1},
    "large": {"lengths": (300, 129, 0, 64, 65, 1, 17), "heads": (20, 1), "d": (320, 256), "page_size": 64},
}


# --- ragged ----------------------------------------------------------------------------------------------------------


def ragged(draw, keys=LENGTHS, queries=(3, 2, 0, 4), heads=(4, 4), d=(40, 40), null=(), **numbers):
    arrays = {
        "q": draw.floats((sum(queries), heads[0], d[0])),
        "k": draw.floats((sum(keys), heads[1], d[0])),
        "v": draw.floats((sum(keys), heads[1], d[1])),
        "q_offsets": draw.array(offsets(queries), "i32"),
        "k_offsets": draw.array(offsets(keys), "i32"),
        "y": draw.output((sum(queries), heads[0], d[1])),
        "lse": draw.output((sum(queries), heads[0]), dtype="f32"),
    }
    scalars = {
        "batch": len(keys), "total_q": sum(queries), "total_k": sum(keys), "heads": heads[0], "kv_heads": heads[1],
        "d_k": d[0], "d_v": d[1], "scale": 0.125, "is_causal": 0, "window": -1, "softcap": 0.0, "is_base2": 0,
        "is_batch_invariant": 0,
    }  # fmt: skip
    return Problem(scalars | numbers, arrays, null=null)


def ragged_reference(problem):
    value, batch = {name: array.values for name, array in problem.arrays.items()}, range(problem.scalars["batch"])
    rows, owned = ([slice(*value[f"{x}_offsets"][b : b + 2]) for b in batch] for x in "qk")
    keys = [[of_sequence(value[x], own) for x in "kv"] for own in owned]
    return packed_reference(problem, rows, keys)


RAGGED = {
    "small": {},
    "one": {"keys": (1,), "queries": (1,), "heads": (1, 1), "d": (8, 8)},
    "groups": {"heads": (14, 2), "d": (64, 64)},
    "wide": {"heads": (5, 1), "d": (128, 256)},
    "odd_features": {"d": (37, 21)},
    "no_keys": {"keys": (0, 0), "queries": (2, 3)},
    "no_lse": {"null": ("lse",)},
    "causal": {"queries": (9, 0, 7, 3), "is_causal": 1, "heads": (4, 2)},
    "window": {"queries": (9, 2, 7, 1), "is_causal": 1, "window": 3},
    "two_sides": {"queries": (9, 2, 7, 1), "window": 1},
    "softcap": {"queries": (9, 2, 7, 1), "softcap": 0.5},
    "base2": {"is_base2": 1},
    "large": {"keys": (200, 130, 0, 65), "queries": (70, 64, 5, 65), "d": (64, 64), "is_causal": 1, "heads": (6, 2)},
}


# --- one query row ---------------------------------------------------------------------------------------------------


def decode(draw, shape=(2, 4, 4, 9, 40, 40), order=None, shared=False, null=(), scale=0.125):
    """order: heads or keys first in memory; shared: one head of keys for all."""
    batch, heads, kv_heads, keys, d_k, d_v = shape
    arrays = {"q": draw.floats((batch, heads, d_k)), "y": draw.output((batch, heads, d_v))}
    scalars = dict(zip(("batch", "heads", "kv_heads", "k_len", "d_k", "d_v"), shape))
    scalars |= {"scale": scale, "is_batch_invariant": 0}
    for name, d in (("k", d_k), ("v", d_v)):
        steps = (keys * kv_heads * d, d, kv_heads * d) if order == "keys" else (kv_heads * keys * d, keys * d, d)
        steps = (steps[0], 0, d) if shared else steps
        arrays[name] = draw.floats((batch, kv_heads, keys, d), "normal", (*steps, 1))
        scalars |= {f"stride_{name}_{axis}": step for axis, step in zip("bhs", steps)}
    for name, d in (("q", d_k), ("y", d_v)):
        steps = (d, batch * d) if order == "heads" else (heads * d, d)
        arrays[name].strides = (*steps, 1)
        scalars |= {f"stride_{name}_{axis}": step for axis, step in zip("bh", steps)}
    arrays |= {
        "lse": draw.output((batch, heads), dtype="f32"),
        "weights": draw.output((batch, heads, keys), dtype="f32"),
        "mean_weights": draw.output((batch, keys), dtype="f32"),
    }
    return Problem(scalars, arrays, null=null)


def decode_reference(problem):
    q, k, v = (problem.arrays[name].values for name in "qkv")
    is_rough = problem.arrays["q"].dtype in SIXTEEN
    found = forward(q[:, :, None], k, v, Rules(scale=problem.scalars["scale"]), is_rough)
    y, lse, weights = (of_one_query(found[name]) for name in ("y", "lse", "attn"))
    mean = [x.mean(axis=1) for x in (weights.value, weights.magnitude, weights.divided)]
    mean_weights = Expected(mean[0], weights.count + q.shape[1], *mean[1:])
    return without_null(problem, {"y": y, "lse": lse, "weights": weights, "mean_weights": mean_weights})


def of_one_query(e):
    value, magnitude, divided = (x[:, :, 0] for x in (e.value, e.magnitude, e.divided))
    return Expected(value, e.count, magnitude, divided)


WEIGHTS = ("weights", "mean_weights")
DECODE = {
    "small": {},
    "one": {"shape": (1, 1, 1, 1, 8, 8)},
    "group_5": {"shape": (3, 10, 2, 77, 64, 64), "null": WEIGHTS},
    "group_7": {"shape": (7, 7, 1, 65, 128, 128), "null": ("mean_weights",)},
    "group_16": {"shape": (2, 16, 1, 130, 256, 256), "null": WEIGHTS},
    "wider": {"shape": (1, 16, 1, 40, 576, 512), "null": WEIGHTS},
    "odd_features": {"shape": (2, 3, 3, 9, 37, 21), "null": ("lse",)},
    "keys_first": {"order": "keys", "null": WEIGHTS},
    "heads_first": {"order": "heads"},
    "shared_head": {"shared": True, "null": WEIGHTS},
    "no_keys": {"shape": (2, 4, 2, 0, 8, 8)},
    "long": {"shape": (1, 2, 1, 1500, 64, 64)},
    "large": {"shape": (4, 8, 2, 300, 64, 64)},
}


# --- append ----------------------------------------------------------------------------------------------------------


def append(draw, lengths=LENGTHS, heads=3, d=(40, 32), page_size=5, tokens=9, wild=False):
    pages = Pages(draw.rng, lengths, page_size)
    owners = [b for b, n in enumerate(lengths) for _ in range(n)]
    slots = [j for n in lengths for j in range(n)]
    chosen = draw.rng.permutation(len(owners))[:tokens]
    batches, positions = np.array(owners)[chosen], np.array(slots)[chosen]
    if wild:  # negative, behind the pages, of no sequence
        batches = np.where(
            draw.rng.random(len(chosen)) < 0.3, draw.rng.choice([-1, len(lengths), 2**31 - 1], len(chosen)), batches
        )
        positions = np.where(
            draw.rng.random(len(chosen)) < 0.3, draw.rng.choice([-1, 2**31 - 1, -(2**31)], len(chosen)), positions
        )
    ids = np.where(draw.rng.random(len(pages.ids)) < 0.2, pages.total + 5, pages.ids) if wild else pages.ids
    caches = {
        name: draw.values((pages.total, heads, page_size, n)) for name, n in (("k_cache", d[0]), ("v_cache", d[1]))
    }
    arrays = {
        "k_new": draw.values((len(chosen), heads, d[0]), "special"),
        "v_new": draw.values((len(chosen), heads, d[1]), "special"),
        "batch_indices": draw.array(batches, "i32"),
        "positions": draw.array(positions, "i32"),
        "page_ids": draw.array(ids, "i32"),
        "page_offsets": draw.array(pages.offsets, "i32"),
        **caches,
    }
    scalars = {"batch": len(lengths), "num_tokens": len(chosen), "num_pages": pages.total, "page_size": page_size,
               "num_page_ids": len(pages.ids), "heads": heads, "d_k": d[0], "d_v": d[1]}  # fmt: skip
    return Problem(scalars, arrays)


def append_reference(problem):
    value, s = {name: array.values for name, array in problem.arrays.items()}, problem.scalars
    found = {name: value[name].copy() for name in ("k_cache", "v_cache")}
    for t, (b, position) in enumerate(zip(value["batch_indices"], value["positions"])):
        if not 0 <= b < s["batch"] or position < 0:
            continue
        own = value["page_ids"][value["page_offsets"][b] : value["page_offsets"][b + 1]]
        page, slot = divmod(int(position), s["page_size"])
        if page < len(own) and 0 <= own[page] < s["num_pages"]:
            for x in "kv":
                found[f"{x}_cache"][own[page], :, slot] = value[f"{x}_new"][t]
    return {name: Expected(cache) for name, cache in found.items()}


APPEND_EXTENTS = ("batch", "num_tokens", "num_pages", "page_size", "num_page_ids", "heads", "d_k", "d_v")
APPEND_POINTERS = ("k_new", "v_new", "batch_indices", "positions", "page_ids", "page_offsets", "k_cache", "v_cache")

CASES = (
    paged_case("attention_paged_{T}"),
    paged_case("attention_paged_{T}_fp8e4m3", "fp8e4m3"),
    paged_case("attention_paged_{T}_fp8e5m2", "fp8e5m2"),
    Case(
        row="attention_paged_latent_{T}", problems={n: lambda d, o=o: latent(d, **o) for n, o in LATENT.items()},
        reference=latent_reference, tolerance=TOLERANCE, plain="small", large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2) for e in PAGED_EXTENTS if e != "kv_heads"),
            Bad("no_page_size", 2, r"page_size is 0, must be > 0", {"page_size": 0}, can=2),
            Bad("long_values", 2, r"d_v is 41, must be at most d_k, 40", {"d_v": 41}, can=2),
            *CAP, *pointer_bad(("q", "cache", *PAGED_POINTERS[3:]), ("q_offsets", "lse")),
            Bad("rows_without_offsets", 2, r"q_offsets is NULL, but total_q, 9, is not batch, 4", null=("q_offsets",)),
            Bad("overflow", 2, rf"\w+ is {MOST}", dict.fromkeys(("num_pages", "page_size", "d_k"), MOST), can=2),
        ),
        idle=(Idle("no_batch", {"batch": 0, "total_q": 0}), Idle("no_heads", {"heads": 0})),
    ),
    Case(
        row="attention_ragged_{T}",
        problems={name: lambda d, o=options: ragged(d, **o) for name, options in RAGGED.items()},
        reference=ragged_reference, tolerance=TOLERANCE, plain="small", large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2)
              for e in ("batch", "total_q", "total_k", "heads", "kv_heads", "d_k", "d_v")),
            HEADS, *CAP, *pointer_bad(("q", "k", "v", "q_offsets", "k_offsets", "y"), ("lse",)),
        ),
        idle=(Idle("no_batch", {"batch": 0}), Idle("no_rows", {"total_q": 0}),
              Idle("no_heads", {"heads": 0, "kv_heads": 0})),
    ),
    Case(
        row="attention_decode_{T}",
        problems={name: lambda d, o=options: decode(d, **o) for name, options in DECODE.items()},
        reference=decode_reference,
        tolerance={**TOLERANCE, "weights": "attention", "mean_weights": "attention"}, plain="small", large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2)
              for e in ("batch", "heads", "kv_heads", "k_len", "d_k", "d_v")),
            HEADS, *pointer_bad(("q", "k", "v", "y"), ("lse", "weights", "mean_weights")),
            Bad("mean_alone", 2, r"weights is NULL, but mean_weights is not", null=("weights",)),
            Bad("far_stride", 2, rf"stride_k_h\[0\] is {2**60}", {"stride_k_h": 2**60}, can=2),
            Bad("one_place", 2, r"stride_y_h is 0, but an output has 4 elements", {"stride_y_h": 0}, can=2),
        ),
        idle=(Idle("no_batch", {"batch": 0}), Idle("no_heads", {"heads": 0, "kv_heads": 0})),
    ),
    Case(
        row="paged_kv_append_{T}",
        problems={
            "small": append,
            "one": lambda d: append(d, (1,), 1, (1, 1), 1, 1),
            "wide": lambda d: append(d, (40, 3, 0, 17), 2, (64, 128), 16, 30),
            "keys": lambda d: append(d, d=(8, 0)),
            "odd": lambda d: append(d, heads=5, d=(13, 17), page_size=1),
            "wild": lambda d: append(d, (90, 0, 4), 2, (16, 16), 4, 60, wild=True),
            "large": lambda d: append(d, (300, 200), 4, (64, 64), 16, 450),
        },
        reference=append_reference, tolerance={"k_cache": "exact", "v_cache": "exact"}, plain="small", large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2) for e in APPEND_EXTENTS),
            Bad("no_page_size", 2, r"page_size is 0, must be > 0", {"page_size": 0}, can=2),
            *pointer_bad(APPEND_POINTERS),
        ),
        idle=(*(Idle(f"no_{e}", {e: 0}) for e in ("num_tokens", "num_pages", "heads")),
              Idle("no_features", {"d_k": 0, "d_v": 0})),
    ),
)  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Attention with is_batch_invariant: the bits of a sequence's rows depend on neither its batch, nor padding, nor where
its keys are, nor how its queries were cut."""

import dataclasses

import numpy as np
import pytest

import tolerances
from cases import Array, Problem
from harness import OPS, launch, workspace_size
from naming import Tries, each_row
from tools.oracle.numerics import is_float, round_to

ROWS = ("attention_varlen_", "attention_ragged_", "attention_paged_")
SPLIT = 2048  # keys of a part on a GPU
PAGED = ({"page_size": 16, "seed": 1}, {"page_size": 5, "seed": 2}, {"page_size": 256, "seed": 3})
RULES = ({}, {"is_causal": 1}, {"is_causal": 1, "window": 70}, {"softcap": 3.0})
CHOSEN = {op: value for op, value in OPS.items() if op.startswith(ROWS) and "backward" not in op}


@dataclasses.dataclass(frozen=True)
class Sequence:
    """q is (query, head, element), k and v are (key, head, element); scales, if any, (key, head) of both."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    k_scales: np.ndarray
    v_scales: np.ndarray

    def part(self, queries, keys):
        return Sequence(self.q[queries], *(x[:keys] for x in (self.k, self.v, self.k_scales, self.v_scales)))


def lse_of(dtype):
    return "f64" if dtype == "f64" else "f32"


class Form:
    """Calls of a row for sequences."""

    def __init__(self, op, heads=(4, 2), d=(64, 64)):
        self.op, (self.row, self.slots) = op, OPS[op]
        self.is_latent, self.is_quantized = "latent" in op, "quantized" in op
        self.is_paged, self.is_varlen = "paged" in op, "varlen" in op
        self.heads, self.d = (heads[0], 1) if self.is_latent else heads, d
        self.dtype = self.slots["T"]
        self.kind = next(p for p in self.row.pointers if p.name in ("k", "k_cache", "cache")).dtype_of(self.slots)

    def draw(self, rng, queries, keys):
        def values(shape, dtype):
            drawn = rng.standard_normal(shape)
            return round_to(drawn, dtype) if is_float(dtype) else np.rint(np.clip(40 * drawn, -127, 127))

        q, k = (
            values((queries, self.heads[0], self.d[0]), self.dtype),
            values((keys, self.heads[1], self.d[0]), self.kind),
        )
        v = k[..., : self.d[1]] if self.is_latent else values((keys, self.heads[1], self.d[1]), self.kind)
        scales = (round_to(rng.uniform(0.005, 0.05, (keys, self.heads[1])), "f32") for _ in "kv")
        return Sequence(q, k, v, *scales)

    def problem(self, sequences, *, page_size=16, seed=0, padding=0, **rules):
        """padding: rows or pages of NaN behind those of the sequences."""
        lengths, counts = ([len(x) for x in (getattr(s, n) for s in sequences)] for n in ("k", "q"))
        starts = [np.concatenate([[0], np.cumsum(each)]) for each in (counts, lengths)]
        q = np.concatenate([s.q for s in sequences] + [np.full((padding, *sequences[0].q.shape[1:]), np.nan)])
        scalars = {
            "batch": len(sequences), "total_q": len(q), "heads": self.heads[0], "kv_heads": self.heads[1],
            "d_k": self.d[0], "d_v": self.d[1], "scale": 0.125 if self.kind != "i8" else 0.4, "is_causal": 0,
            "window": -1, "softcap": 0.0, "is_base2": 0, "is_batch_invariant": 1,
        }  # fmt: skip
        arrays = {"q": q, "q_offsets": starts[0]}
        if self.is_paged:
            arrays |= self._pages(sequences, lengths, page_size, np.random.default_rng(seed), padding)
            numbers = {"page_size": page_size, "num_page_ids": len(arrays["page_ids"]), "num_pages": self.pages}
        else:
            rows = {x: np.concatenate([getattr(s, x) for s in sequences]) for x in "kv"}
            arrays |= {x: np.concatenate([y, np.full((padding, *y.shape[1:]), np.nan)]) for x, y in rows.items()}
            arrays["k_offsets"] = starts[1]
            numbers = {"total_k": len(arrays["k"])}
        if self.is_varlen:
            arrays |= {f"cu_seqlens_{x}": arrays.pop(f"{x}_offsets") for x in "qk"}
            numbers |= {"max_q_len": max(counts) + padding, "max_k_len": max(lengths) + padding, "aligns_ends": 1,
                        "window_left": rules.get("window", -1), "window_right": -1, "dropout": 0.0}  # fmt: skip
        scalars |= numbers | rules
        names = {p.name for p in self.row.problem}
        shapes = {"y": (len(q), self.heads[0], self.d[1]),
                  "lse": (self.heads[0], len(q)) if self.is_varlen else (len(q), self.heads[0])}  # fmt: skip
        absent = tuple(p.name for p in self.row.pointers if p.name not in arrays and p.name not in shapes)
        made = {}
        for p in self.row.pointers:
            values = arrays.get(p.name)
            shape = shapes.get(p.name, (1,)) if values is None else values.shape
            values = np.zeros(shape) if p.name in absent else values
            made[p.name] = Array(p.dtype_of(self.slots), shape, values)
        return Problem({name: x for name, x in scalars.items() if name in names}, made, null=absent)

    def _pages(self, sequences, lengths, size, rng, padding):
        counts = [-(-n // size) for n in lengths]
        self.pages = sum(counts) + padding + 2
        ids, starts = rng.permutation(self.pages)[: sum(counts)], np.concatenate([[0], np.cumsum(counts)])

        def cache(name, dtype):
            first = getattr(sequences[0], name)
            empty = np.nan if is_float(dtype) else -128
            pages = np.full((self.pages, first.shape[1], size, *first.shape[2:]), empty)
            for b, s in enumerate(sequences):
                j = np.arange(lengths[b])
                pages[ids[starts[b] + j // size], :, j % size] = getattr(s, name)
            return pages

        last = [n - (c - 1) * size if c else 0 for n, c in zip(lengths, counts)]
        tables = {"page_ids": ids, "page_offsets": starts, "last_page_len": np.array(last)}
        if self.is_latent:
            return tables | {"cache": cache("k", self.kind)[:, 0]}
        scales = {x: cache(x, "f32") for x in ("k_scales", "v_scales")} if self.is_quantized else {}
        return tables | {f"{x}_cache": cache(x, self.kind) for x in "kv"} | scales

    def run(self, library, sequences, workspace="full", **options):
        """The bits of y and lse of each sequence."""
        outcome = launch(library, self.op, self.problem(sequences, **options), workspace=workspace)
        assert outcome.status == 0, outcome.text
        y, lse = (outcome.bits[name] for name in ("y", "lse"))
        ends = np.cumsum([len(s.q) for s in sequences])
        lse = lse.T if self.is_varlen else lse
        return [(y[end - len(s.q) : end], lse[end - len(s.q) : end]) for s, end in zip(sequences, ends)]

    def check(self, what, found, expected, rows=slice(None)):
        for name, bits, wanted, dtype in zip(("y", "lse"), found, expected, (self.dtype, lse_of(self.dtype))):
            tolerances.check_bits(f"{self.op}: {name} {what}", bits, wanted[rows], dtype)


def shapes_of(op):
    if "latent" in op:
        return {"heads": (6, 1), "d": (96, 64)}, {"heads": (4, 1), "d": (320, 264)}
    return {}, {"heads": (6, 1), "d": (72, 40)}


@each_row(CHOSEN)
def test_sequences(library, op):
    with Tries() as tries:
        for shape in shapes_of(op):
            form, rng = Form(op, **shape), np.random.default_rng(5)
            sequences = [form.draw(rng, *extents) for extents in ((1, SPLIT + 90), (3, 65), (70, 140), (0, 9), (2, 0))]
            other = form.draw(rng, 5, 300)
            for rules in RULES:
                expected = form.run(library, sequences, **rules)
                order, same = (2, 4, 0, 3, 1), range(len(sequences))
                results = {
                    "again": (sequences, same, {}),
                    "permuted": ([sequences[b] for b in order], order, {}),
                    "sliced": (sequences[1:3], (1, 2), {}),
                    "other neighbours": ([other, sequences[2], other], (None, 2, None), {}),
                    "padded": (sequences, same, {"padding": 3}),
                }
                results |= {f"alone, {b}": ([s], (b,), {}) for b, s in enumerate(sequences) if len(s.q)}
                if form.is_paged:
                    results |= {f"pages of {pages['page_size']}": (sequences, same, pages) for pages in PAGED}
                for label, (batch, which, options) in results.items():
                    with tries(f"{label} {rules} {shape}"):
                        for b, found in zip(which, form.run(library, batch, **rules, **options)):
                            if b is not None:
                                form.check(f"of {b}", found, expected[b])


@each_row({op: value for op, value in CHOSEN.items() if "quantized" not in op})
def test_cuts_of_prefill(library, op):
    """A causal row is the same in a block of queries, in a later part of it, and alone, as it is decoded."""
    with Tries() as tries:
        for shape in shapes_of(op):
            form, rng = Form(op, **shape), np.random.default_rng(6)
            for queries, keys in ((77, 150), (70, SPLIT + 40)):
                whole = form.draw(rng, queries, keys)
                for rules in RULES[1:3]:
                    expected = form.run(library, [whole], **rules)[0]
                    for first, end in ((0, 40), (40, queries), (0, 1), (33, 34), (queries - 1, queries), (5, 70)):
                        with tries(f"[{first}, {end}) of {queries} over {keys} {rules} {shape}"):
                            part = whole.part(slice(first, end), keys - queries + end)
                            found = form.run(library, [part], **rules)[0]
                            form.check("of a part", found, expected, slice(first, end))


@each_row(CHOSEN)
def test_without_a_workspace(library, op):
    """Long sequences are status 4 where their parts need memory; short ones have the same bits."""
    form, rng = Form(op), np.random.default_rng(7)
    short, long = form.draw(rng, 2, 300), form.draw(rng, 1, SPLIT + 1)
    for batch in ([short], [long], [short, long]):
        problem = form.problem(batch)
        outcome = launch(library, op, problem)
        needs = library.backend == "cuda" and workspace_size(library, op, problem) > 4
        is_split = sum(len(s.k) for s in batch) > SPLIT and form.dtype in ("f16", "bf16")
        if library.backend == "cuda" and is_split:
            assert needs and outcome.status == 4, outcome.text
            assert "batch-invariant attention merges parts of keys" in outcome.text
            continue
        for found, expected in zip(form.run(library, batch, workspace=None), form.run(library, batch)):
            form.check("without a workspace", found, expected)


@each_row({op: value for op, value in CHOSEN.items() if op.startswith("attention_paged_") and value[1]["T"] != "f32"})
def test_other_calls_depend_on_the_batch(library, op):
    """A GPU splits keys by the number of blocks where nothing is asked for: the comparison sees it."""
    if library.backend != "cuda":
        return
    form, rng = Form(op), np.random.default_rng(5)
    sequences = [form.draw(rng, 1, 1500) for _ in range(9)]
    whole, alone = (form.run(library, batch, is_batch_invariant=0)[0][0] for batch in (sequences, sequences[:1]))
    assert (whole != alone).any()


def dense(op, q, k, v, **scalars):
    (batch, heads, q_len, d_k), (_, kv_heads, k_len, d_v) = q.shape, v.shape
    dtype = OPS[op][1]["T"]
    arrays = {name: Array(dtype, x.shape, x) for name, x in {"q": q, "k": k, "v": v}.items()}
    arrays |= {"y": Array(dtype, (batch, heads, q_len, d_v)), "lse": Array(lse_of(dtype), (batch, heads, q_len))}
    made = {}
    for p in OPS[op][0].pointers:
        made[p.name] = arrays.get(p.name) or Array(p.dtype_of(OPS[op][1]), (1,), np.zeros(1))
    host = {f"stride_{x}": tuple(int(np.prod(arrays[x].shape[n:])) for n in (1, 2, 3)) for x in "qkvy"}
    numbers = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "q_len": q_len, "k_len": k_len, "d_k": d_k,
               "d_v": d_v, "scale": 0.125, "is_causal": 0, "aligns_ends": 1, "is_batch_invariant": 1, "window_left": -1,
               "window_right": -1, "softcap": 0.0, "dropout": 0.0}  # fmt: skip
    null = tuple(name for name in made if name not in arrays)
    return Problem(numbers | scalars, made, {**host, "stride_bias": None, "stride_mask": None}, null)


@each_row({op: value for op, value in OPS.items() if value[0].pattern == "attention_{T}"})
@pytest.mark.parametrize("keys", [200, SPLIT + 100])
def test_dense(library, op, keys):
    """Batches, heads and queries of one call, and of several."""
    rng, dtype = np.random.default_rng(8), OPS[op][1]["T"]
    q, k, v = (round_to(rng.standard_normal(s), dtype) for s in ((3, 4, 75, 64), (3, 2, keys, 64), (3, 2, keys, 48)))

    def run(*operands, workspace="full", **scalars):
        outcome = launch(library, op, dense(op, *operands, **scalars), workspace=workspace)
        assert outcome.status == 0, outcome.text
        return outcome.bits["y"], outcome.bits["lse"]

    def check(what, found, expected, at):
        for name, bits, wanted in zip(("y", "lse"), found, expected):
            kind = dtype if name == "y" else lse_of(dtype)
            tolerances.check_bits(f"{op}: {name} {what}", bits, wanted[at], kind)

    for rules in ({}, {"is_causal": 1}, {"is_causal": 1, "window_left": 50}, {"softcap": 2.0, "is_causal": 1}):
        expected, order = run(q, k, v, **rules), np.array([2, 0, 1])
        check("permuted", run(q[order], k[order], v[order], **rules), expected, order)
        check("alone", run(q[1:2], k[1:2], v[1:2], **rules), expected, slice(1, 2))
        check("of one group", run(q[:, 2:], k[:, 1:], v[:, 1:], **rules), expected, np.s_[:, 2:])
        for first, end in ((0, 33), (40, 75), (74, 75), (0, 1)):
            seen = keys - 75 + end if rules else keys
            found = run(q[:, :, first:end], k[:, :, :seen], v[:, :, :seen], **rules)
            check(f"of queries [{first}, {end}) {rules}", found, expected, np.s_[:, :, first:end])
    nan = v.copy()
    nan[:, :, -30:] = np.nan
    early = run(q[:, :, :30], k, v, is_causal=1, aligns_ends=0)
    check("under values that it does not see", run(q[:, :, :30], k, nan, is_causal=1, aligns_ends=0), early, np.s_[:])


def decode(op, q, k, v):
    (batch, heads, d_k), (_, kv_heads, k_len, d_v) = q.shape, v.shape
    row, slots = OPS[op]
    shapes = {"y": (batch, heads, d_v), "lse": (batch, heads), "weights": (1,), "mean_weights": (1,)}
    given = {"q": q, "k": k, "v": v}
    arrays = {}
    for p in row.pointers:
        values = given.get(p.name)
        shape = shapes[p.name] if values is None else values.shape
        arrays[p.name] = Array(p.dtype_of(slots), shape, values)
    numbers = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "k_len": k_len, "d_k": d_k, "d_v": d_v,
               "scale": 0.125, "is_batch_invariant": 1}  # fmt: skip
    for x in "qkvy":
        shape = arrays[x].shape
        numbers |= {f"stride_{x}_{a}": int(np.prod(shape[n + 1 :])) for n, a in enumerate("bhs"[: len(shape) - 1])}
    return Problem(numbers, arrays, null=("weights", "mean_weights"))


@each_row({op: value for op, value in OPS.items() if value[0].pattern == "attention_decode_{T}"})
@pytest.mark.parametrize("keys", [200, SPLIT + 100])
def test_decode(library, op, keys):
    """Sequences of a batch, alone, and as the last query of attention, which has the same bits."""
    rng, dtype = np.random.default_rng(9), OPS[op][1]["T"]
    q, k, v = (round_to(rng.standard_normal(s), dtype) for s in ((3, 6, 64), (3, 2, keys, 64), (3, 2, keys, 64)))

    def run(*operands):
        outcome = launch(library, op, decode(op, *operands), workspace="full")
        assert outcome.status == 0, outcome.text
        return outcome.bits["y"], outcome.bits["lse"]

    expected, order = run(q, k, v), np.array([2, 0, 1])
    for what, found, at in (
        ("permuted", run(q[order], k[order], v[order]), order),
        ("alone", run(q[:1], k[:1], v[:1]), slice(0, 1)),
        ("of one group", run(q[:, :3], k[:, :1], v[:, :1]), np.s_[:, :3]),
    ):
        for name, bits, wanted in zip(("y", "lse"), found, expected):
            tolerances.check_bits(f"{op}: {name} {what}", bits, wanted[at], dtype if name == "y" else "f32")
    block = round_to(rng.standard_normal((3, 6, 20, 64)), dtype)
    block[:, :, -1] = q
    outcome = launch(
        library, op.replace("_decode", ""), dense(op.replace("_decode", ""), block, k, v, is_causal=1), workspace="full"
    )
    assert outcome.status == 0, outcome.text
    tolerances.check_bits(f"{op}: y of the last query", outcome.bits["y"][:, :, -1], expected[0], dtype)

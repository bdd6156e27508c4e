# SPDX-License-Identifier: Apache-2.0
"""GEMM with compressed weights: 2:4 sparse, and 4-bit."""

import numpy as np

from harness.launch import ROWS
from tools.oracle.numerics import round_to

from ..model import Array, Bad, Case, Expected, Idle, Problem

# --- 2:4 sparsity ---


def sparse(draw, n, m, k, kind="normal"):
    arrays = {
        "x": draw.floats((n, k), kind), "w_compressed": draw.floats((m, k // 2)),
        "w_metadata": Array("u16", (m, k // 8), draw.rng.integers(0, 1 << 16, (m, k // 8))),
        "y": draw.output((n, m)),
    }  # fmt: skip
    return Problem({"n": n, "m": m, "k": k}, arrays)


def spread(values, words):
    """Dense weights; of two values with one index the second wins."""
    m, half = values.shape
    groups = np.stack([words & 255, words >> 8], -1).reshape(m, -1)
    dense = np.zeros((m, half // 2, 4))
    for i, shift in enumerate((0, 2)):
        np.put_along_axis(dense, ((groups >> shift) & 3)[..., None], values.reshape(m, -1, 2)[..., i : i + 1], -1)
    return dense.reshape(m, 2 * half)


def sparse_reference(p):
    x = p.arrays["x"].values
    w = spread(p.arrays["w_compressed"].values, p.arrays["w_metadata"].values)
    return of_products("y", x, w.T)


def of_products(name, a, b):
    with np.errstate(invalid="ignore"):
        magnitude = np.abs(a) @ np.abs(b)
        return {name: Expected(a @ b, count=a.shape[1], magnitude=np.where(np.isnan(magnitude), 0, magnitude))}


def drawn_sparse(draw, seed):
    n, m, eighths = map(int, np.random.default_rng(seed).integers(1, 40, 3))
    return sparse(draw, n, m, 8 * (eighths // 4 + 1))


SPARSE = {
    "plain": lambda d: sparse(d, 7, 9, 16),
    "few": lambda d: sparse(d, 8, 33, 264),
    "one": lambda d: sparse(d, 1, 1, 8),
    "long": lambda d: sparse(d, 3, 20, 1040),
    "zero_k": lambda d: sparse(d, 5, 6, 0),
    "zero_k_many": lambda d: sparse(d, 20, 6, 0),
    "many": lambda d: sparse(d, 65, 130, 72),
    "column": lambda d: sparse(d, 40, 1, 24),
    "large": lambda d: sparse(d, 150, 201, 520),
    "special": lambda d: sparse(d, 20, 17, 40, "special"),
    **{f"drawn{seed}": lambda d, seed=seed: drawn_sparse(d, seed) for seed in range(6)},
}


def bad_extents(*names):
    return tuple(Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in names)


def bad_pointers(row):
    bad = [Bad(f"null_{p.name}", 2, rf"{p.name} is NULL", null=(p.name,)) for p in row.pointers if p.is_required]
    return (
        *bad,
        *(Bad(f"odd_{p.name}", 1, rf"{p.name} is 0x", shift={p.name: 1}) for p in row.pointers if p.is_required),
    )


def sparse_case():
    row = ROWS["gemm_{T}_sparse24_gemm"]
    return Case(
        row=row.name, problems=SPARSE, reference=sparse_reference, tolerance={"y": "gemm"}, plain="plain",
        large="large",
        bad=(
            *bad_extents("n", "m", "k"), *bad_pointers(row),
            Bad("eighths", 3, "k is 12, must be a multiple of 8", {"k": 12}, can=3),
        ),
        idle=(Idle("no_rows", {"n": 0}), Idle("no_weights", {"m": 0})),
    )  # fmt: skip


def inflate(draw, m, k):
    arrays = {name: sparse(draw, 1, m, k).arrays[name] for name in ("w_compressed", "w_metadata")}
    return Problem({"m": m, "k": k}, arrays | {"w_dense": draw.output((m, k))})


def inflated(p):
    return {"w_dense": Expected(spread(p.arrays["w_compressed"].values, p.arrays["w_metadata"].values))}


def inflate_case():
    row = ROWS["gemm_{T}_sparse24_inflate"]
    problems = {"plain": (7, 16), "one": (1, 8), "rows": (130, 24), "large": (201, 520)}
    return Case(
        row=row.name, problems={name: lambda d, size=size: inflate(d, *size) for name, size in problems.items()},
        reference=inflated, tolerance={"w_dense": "exact"}, plain="plain", large="large",
        bad=(
            *bad_extents("m", "k"), *bad_pointers(row),
            Bad("eighths", 3, "k is 12, must be a multiple of 8", {"k": 12}, can=3),
        ),
        idle=(Idle("no_rows", {"m": 0}), Idle("zero_k", {"k": 0})),
    )  # fmt: skip


# --- 4 bits ---


def words_of(nibbles):
    """Eight to an i32, along the last axis, the first in the lowest bits."""
    eights = nibbles.reshape(*nibbles.shape[:-1], -1, 8).astype(np.int64)
    words = (eights << (4 * np.arange(8))).sum(-1)
    return words - ((words >> 31) << 32)


def nibbles_of(words):
    eights = (words[..., None] >> (4 * np.arange(8))) & 15
    return eights.reshape(*words.shape[:-1], -1)


def marlin_order():
    """Indices in 16 x 64 weights of the 1024 elements of a tile, by the layout's definition."""
    order = []
    for i in range(32):
        for j in range(4):
            rows = [2 * (i % 4) + r for r in (0, 1, 8, 9)]
            eight = [(row, i // 4 + 8 * block + 16 * j) for block in (0, 1) for row in rows]
            order += [eight[e] for e in (0, 2, 4, 6, 1, 3, 5, 7)]
    return np.array(order)


def marlin_pack(q):
    """Words (k / 16, 2 n) of weights q (k, n)."""
    k, n = q.shape
    rows, columns = marlin_order().T
    runs = q.reshape(k // 16, 16, n // 64, 64).transpose(0, 2, 1, 3)[:, :, rows, columns]
    return words_of(runs.reshape(k // 16, -1))


def marlin_scales(stored, groupsize):
    """The scales of each column, in its order, from the stored ones."""
    columns = [i + 8 * j for i in range(8) for j in range(8)]
    if groupsize == -1:
        columns = [2 * i + j for i in range(4) for j in (0, 1, 8, 9, 16, 17, 24, 25)]
    return stored.reshape(-1, len(columns))[:, np.argsort(columns)].reshape(stored.shape)


def marlin(draw, m, n, k, groupsize=128):
    groups = 1 if groupsize == -1 else k // 128
    q = draw.rng.integers(0, 16, (k, n))
    arrays = {
        "a": draw.floats((m, k)), "b": Array("i32", (k // 16, 2 * n), marlin_pack(q)),
        "c": draw.output((m, n)),
        "scales": draw.floats((groups, n), "positive"),
        "workspace": Array("i32", (0,), None),
    }  # fmt: skip
    return Problem({"M": m, "N": n, "K": k, "groupsize": groupsize, "max_par": 16}, arrays)


def marlin_weights(p):
    """Unpacked element by element from the operand of the op."""
    words, stored = p.arrays["b"].values, p.arrays["scales"].values
    k, n = p.scalars["K"], p.scalars["N"]
    rows, columns = marlin_order().T
    q = np.zeros((k // 16, n // 64, 16, 64))
    q[:, :, rows, columns] = nibbles_of(words).reshape(k // 16, n // 64, 1024)
    q = q.transpose(0, 2, 1, 3).reshape(k, n)
    return np.repeat(marlin_scales(stored, p.scalars["groupsize"]), k // len(stored), 0) * (q - 8)


def marlin_reference(p):
    expected = of_products("c", p.arrays["a"].values, marlin_weights(p))
    return expected | {"workspace": Expected(np.zeros((0,), np.int64))}


MARLIN = {
    "plain": lambda d: marlin(d, 3, 64, 128),
    "columns": lambda d: marlin(d, 5, 128, 192, -1),
    "short": lambda d: marlin(d, 2, 64, 16, -1),
    "many": lambda d: marlin(d, 70, 192, 256),
    "many_columns": lambda d: marlin(d, 33, 128, 1040, -1),
    "eight": lambda d: marlin(d, 8, 64, 1280),
    "sixteen": lambda d: marlin(d, 16, 64, 2304),
    "nine_columns": lambda d: marlin(d, 9, 64, 3120, -1),
    "large": lambda d: marlin(d, 100, 256, 512),
}


def awq_layout(k, group):
    multiple = 128 // group
    words = -(-(k // group) // 8)
    return -(-words // multiple) * multiple


def awq(draw, m, oc, ic, group=128, split=1):
    words = awq_layout(ic, group)
    arrays = {
        "in_feats": draw.floats((m, ic)),
        "kernel_weights": Array("i32", (oc, ic // 8), words_of(draw.rng.integers(0, 16, (oc, ic)))),
        "scaling_factors": draw.floats((oc, 8 * words)),
        "zeros": Array("i32", (oc, words), words_of(draw.rng.integers(0, 16, (oc, 8 * words)))),
        "out": draw.output((m, oc)),
    }  # fmt: skip
    return Problem({"M": m, "IC": ic, "OC": oc, "group_size": group, "split_k_iters": split}, arrays)


def awq_weights(p, k):
    g = np.arange(k) // p.scalars["group_size"]
    q, z = nibbles_of(p.arrays["kernel_weights"].values), nibbles_of(p.arrays["zeros"].values)[:, g]
    return round_to(p.arrays["scaling_factors"].values[:, g] * (q - z), "f16")


AWQ = {
    "plain": lambda d: awq(d, 3, 64, 128),
    "halves": lambda d: awq(d, 5, 64, 192, 64, 2),
    "padded": lambda d: awq(d, 9, 128, 1152, 64),
    "many": lambda d: awq(d, 70, 128, 256, 128, 8),
    "eight": lambda d: awq(d, 8, 64, 1280),
    "sixteen": lambda d: awq(d, 16, 64, 5504),
    "nine_halves": lambda d: awq(d, 9, 64, 3264, 64),
    "large": lambda d: awq(d, 100, 256, 512),
}


def dequantize(draw, n, k, group=128):
    problem = awq(draw, 0, n, k, group)
    arrays = {name: problem.arrays[name] for name in ("kernel_weights", "scaling_factors", "zeros")}
    return Problem({"N": n, "K": k, "group_size": group}, arrays | {"out": draw.output((n, k))})


DEQUANTIZE = {
    "plain": lambda d: dequantize(d, 3, 128),
    "halves": lambda d: dequantize(d, 5, 64, 64),
    "padded": lambda d: dequantize(d, 7, 1152, 64),
    "large": lambda d: dequantize(d, 300, 2048),
}
GROUPS = Bad("group_size", 2, "group_size is 32, must be 64 or 128", {"group_size": 32}, can=2)


def weight_cases():
    row = ROWS["int4_marlin_gemm_{T}"]
    yield Case(
        row=row.name, problems=MARLIN, reference=marlin_reference, tolerance={"c": "gemm", "workspace": "exact"},
        plain="plain", large="large",
        bad=(
            *bad_extents("M", "N", "K", "groupsize"), *bad_pointers(row),
            Bad("no_columns", 2, "N is 0, must be > 0", {"N": 0}, can=2),
            Bad("zero_k", 2, "K is 0, must be > 0", {"K": 0}, can=2),
            Bad("columns", 2, "N is 96, must be a multiple of 64", {"N": 96}, can=2),
            Bad("k_not_whole", 2, "K is 192, must be a multiple of 128", {"K": 192}, can=2),
            Bad("k_of_columns", 2, "K is 24, must be a multiple of 16", {"K": 24, "groupsize": -1}, can=2),
            Bad("groupsize", 2, "groupsize is 64, must be 128 or -1", {"groupsize": 64}, can=2),
            *(Bad(f"max_par_{v}", 2, f"max_par is {v}, must be > 0", {"max_par": v}) for v in (0, -4)),
        ),
        idle=(Idle("no_rows", {"M": 0}),),
    )  # fmt: skip
    row = ROWS["int4_awq_gemm_{T}"]
    yield Case(
        row=row.name, problems=AWQ, tolerance={"out": "gemm"}, plain="plain", large="large",
        reference=lambda p: of_products("out", p.arrays["in_feats"].values, awq_weights(p, p.scalars["IC"]).T),
        bad=(
            *bad_extents("M", "IC", "OC", "group_size", "split_k_iters"), *bad_pointers(row), GROUPS,
            Bad("no_columns", 2, "OC is 0, must be > 0", {"OC": 0}, can=2),
            Bad("columns", 2, "OC is 96, must be a multiple of 64", {"OC": 96}, can=2),
            Bad("k_not_whole", 2, "IC is 192, must be a multiple of 128", {"IC": 192}, can=2),
            Bad("no_slices", 2, "split_k_iters is 0, must be > 0", {"split_k_iters": 0}, can=2),
            Bad("slices", 2, "split_k_iters is 3, but IC", {"split_k_iters": 3}, can=2),
        ),
        idle=(Idle("no_rows", {"M": 0}),),
    )  # fmt: skip
    row = ROWS["int4_awq_dequantize_{T}"]
    yield Case(
        row=row.name, problems=DEQUANTIZE, tolerance={"out": "exact"}, plain="plain", large="large",
        reference=lambda p: {"out": Expected(awq_weights(p, p.scalars["K"]))},
        bad=(
            *bad_extents("N", "K", "group_size"), *bad_pointers(row), GROUPS,
            Bad("k_not_whole", 2, "K is 192, must be a multiple of 128", {"K": 192}, can=2),
        ),
        idle=(Idle("no_rows", {"N": 0}), Idle("zero_k", {"K": 0})),
    )  # fmt: skip


CASES = (sparse_case(), inflate_case(), *weight_cases())

__all__ = ["CASES"]

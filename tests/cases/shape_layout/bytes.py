# SPDX-License-Identifier: Apache-2.0
"""contiguize and write_slice by element width; with a start on the device, and for nibbles."""

import math

import numpy as np

from ..model import Array, Bad, Case, Expected, Idle, Problem, strides_for
from .repeat import PERMUTED

WORDS = {1: ("u8", 1), 2: ("u16", 1), 4: ("u32", 1), 8: ("u64", 1), 16: ("u64", 2)}


def random_words(draw, dtype, count):
    return Array(
        dtype,
        (count,),
        draw.rng.integers(0, 256, count * (int(dtype[1:]) // 8), np.uint8)
        .view(dtype_of(dtype))
        .astype(np.uint64 if dtype == "u64" else np.int64),
    )


def dtype_of(dtype):
    return np.dtype(f"u{int(dtype[1:]) // 8}")


# --- contiguize -------------------------------------------------------------------------------------------------------


def offsets(shape, strides, offset):
    """The offsets of the elements of a view, in row-major order."""
    result = np.full(shape, offset, np.int64)
    for axis, (extent, stride) in enumerate(zip(shape, strides)):
        result += (np.arange(extent) * stride).reshape([-1 if d == axis else 1 for d in range(len(shape))])
    return result.reshape(-1)


def contiguize(draw, width, shape, before=0, layout=None, per_byte=1):
    """`before`: elements before the first one of the view."""
    dtype, words = WORDS[width]
    strides = strides_for(shape, **layout or {})
    steps = [(e - 1) * s for e, s in zip(shape, strides)]
    low, high = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
    offset = before - low
    source = random_words(draw, dtype, -(-(offset + high + 1) // per_byte) * words)
    count = math.prod(shape)
    arrays = {"dest": Array(dtype, (-(-count // per_byte) * words,)), "source": source}
    return Problem(
        {"source_offset": offset, "rank": len(shape)}, arrays, {"shape": tuple(shape), "source_strides": strides}
    )


def contiguize_reference(words):
    def of(problem):
        source = problem.arrays["source"].values.reshape(-1, words)
        at = offsets(
            problem.host["shape"] or (), problem.host["source_strides"] or (), problem.scalars["source_offset"]
        )
        return {"dest": Expected(source[at].reshape(-1))}

    return of


def nibble_reference(problem):
    source = problem.arrays["source"].values
    at = offsets(problem.host["shape"], problem.host["source_strides"], problem.scalars["source_offset"])
    nibbles = np.append(source[at >> 1] >> (at & 1) * 4 & 15, 0)
    return {"dest": Expected(nibbles[0 : at.size : 2] | nibbles[1 : at.size + 1 : 2] << 4)}


VIEWS = {  # shape, elements before it, layout
    "one": ((1,), 0, {}),
    "rank0": ((), 3, {}),
    "plain": ((3, 5, 7), 2, {}),
    "rows": ((9, 64), 0, {"pad": 7}),
    "odd_rows": ((9, 61), 1, {"pad": 2}),
    "matrix": ((37, 66), 0, {"order": (1, 0)}),
    "permuted": ((6, 10, 14), 4, PERMUTED),
    "flipped": ((6, 10, 14), 0, {"flip": (0, 2)}),
    "gaps": ((9, 40), 5, {"gap": 3, "pad": 1}),
    "broadcast": ((4, 9, 11), 0, {"broadcast": (0, 2)}),
    "still": ((40, 9), 0, {"broadcast": (0, 1)}),
    "rank8": ((2, 1, 3, 2, 1, 4, 2, 3), 1, {"order": (7, 0, 5, 3, 1, 6, 2, 4)}),
    "long": ((20011,), 3, {}),
    "large": ((37, 19, 130), 0, {"order": (1, 0, 2), "pad": 6}),
}
NIBBLES = {
    "one": ((1,), 0, {}),
    "plain": ((3, 5, 7), 2, {}),
    "offset": ((3, 5, 8), 3, {}),
    "bytes": ((9, 64), 4, {"pad": 6}),
    "odd_rows": ((9, 61), 1, {"pad": 2}),
    "odd_gaps": ((9, 62), 0, {"pad": 3}),
    "gaps": ((9, 40), 5, {"gap": 2}),
    "flipped": ((6, 10, 14), 0, {"flip": (0, 2)}),
    "permuted": ((6, 10, 14), 4, {"order": (1, 0, 2)}),
    "broadcast": ((4, 9, 11), 0, {"broadcast": (0,)}),
    "long": ((20011,), 3, {}),
    "large": ((37, 19, 131), 0, {"order": (1, 0, 2), "pad": 6}),
}
BAD_VIEWS = (
    Bad("null_shape", 2, r"shape is NULL", host={"shape": None}, can=2),
    Bad("null_strides", 2, r"source_strides is NULL", host={"source_strides": None}, can=2),
    Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
    Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
    Bad("extent_negative", 2, r"shape\[1\] is -5", host={"shape": (3, -5, 7)}, can=2),
    Bad("far", 2, rf"source_strides\[0\] is {2**61}", host={"source_strides": (2**61, 7, 1)}, can=2),
    Bad("far_offset", 2, rf"source_offset is {2**62}", {"source_offset": 2**62}, can=2),
    *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in ("dest", "source")),
)
ODD = tuple(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in ("dest", "source"))


def contiguize_case(width):
    problems = {n: lambda d, s=s, b=b, k=k: contiguize(d, width, s, b, k) for n, (s, b, k) in VIEWS.items()}
    return Case(
        row=f"contiguize_b{width}",
        problems=problems,
        reference=contiguize_reference(WORDS[width][1]),
        tolerance={"dest": "exact"},
        plain="plain",
        large="large",
        bad=(*BAD_VIEWS, *ODD),
        idle=(Idle("empty", {}, {"shape": (3, 0, 7)}),),
    )


# --- write_slice ------------------------------------------------------------------------------------------------------


def write_slice(draw, width, dest_shape, source_shape, start, suffix="", count="source_numel", dyn=None):
    dtype, words = WORDS[width]
    dest = random_words(draw, dtype, math.prod(dest_shape) * words)
    source = random_words(draw, dtype, math.prod(source_shape) * words)
    host = {
        f"dest{suffix}_shape": tuple(dest_shape),
        f"source{suffix}_shape": tuple(source_shape),
        "range_start" + ("_bytes" if suffix else ""): tuple(start),
    }
    problem = Problem({count: math.prod(source_shape), "rank": len(dest_shape)}, {"dest": dest, "source": source}, host)
    if dyn is not None:
        axis, value = dyn
        problem.scalars["dyn_axis"] = axis
        problem.host["range_start"] = tuple(-7 if d == axis else s for d, s in enumerate(start))
        problem.arrays["dyn_start_dev"] = Array("i64", (1,), np.array([value]))
    return problem


def write_reference(words, suffix=""):
    def of(problem):
        dest_shape, source_shape = (problem.host[f"{name}{suffix}_shape"] for name in ("dest", "source"))
        start = list(problem.host["range_start" + ("_bytes" if suffix else "")])
        dest = problem.arrays["dest"].values.reshape(*dest_shape, words).copy()
        source = problem.arrays["source"].values.reshape(*source_shape, words)
        if "dyn_axis" in problem.scalars:
            start[problem.scalars["dyn_axis"]] = int(problem.arrays["dyn_start_dev"].values[0])
        to, of_source = [], []
        for extent, length, first in zip(dest_shape, source_shape, start):
            low, high = min(max(first, 0), extent), max(min(first + length, extent), 0)
            to.append(slice(low, max(low, high)))
            of_source.append(slice(low - first, max(low, high) - first) if high > low else slice(0, 0))
        dest[tuple(to)] = source[tuple(of_source)]
        return {"dest": Expected(dest.reshape(-1))}

    return of


WINDOWS = {  # dest, source, start
    "one": ((1,), (1,), (0,)),
    "plain": ((4, 6, 9), (3, 5, 7), (1, 0, 2)),
    "all": ((3, 5, 7), (3, 5, 7), (0, 0, 0)),
    "rows": ((9, 64), (4, 64), (3, 0)),
    "columns": ((9, 64), (9, 32), (0, 16)),
    "odd_columns": ((9, 61), (9, 33), (0, 5)),
    "long": ((40000,), (20011,), (777,)),
    "rank8": ((2, 1, 3, 2, 1, 4, 3, 5), (2, 1, 2, 1, 1, 4, 2, 3), (0, 0, 1, 1, 0, 0, 1, 2)),
    "large": ((37, 21, 131), (30, 19, 128), (5, 1, 3)),
}
STARTS = {  # dest, source, start, axis, the start along it
    "rows": ((9, 64), (4, 64), (0, 0), 0, 3),
    "before": ((9, 64), (4, 64), (0, 0), 0, -2),
    "behind": ((9, 64), (4, 64), (0, 0), 0, 7),
    "far": ((9, 64), (4, 64), (0, 0), 0, 9),
    "farthest": ((9, 64), (4, 64), (0, 0), 0, 2**63 - 1),
    "least": ((9, 64), (4, 64), (0, 0), 0, -(2**63)),
    "columns": ((9, 64), (9, 32), (0, 0), 1, 16),
    "odd_columns": ((9, 61), (7, 33), (2, 0), 1, 5),
    "columns_before": ((9, 64), (9, 32), (0, 0), 1, -5),
    "columns_behind": ((9, 64), (9, 32), (0, 0), 1, 50),
    "cache": ((2, 3, 40, 16), (2, 3, 5, 16), (0, 0, 0, 0), 2, 17),
    "long": ((40000,), (20011,), (0,), 0, 30000),
}


def bad_windows(suffix="", count="source_numel"):
    dest, source, start = f"dest{suffix}_shape", f"source{suffix}_shape", "range_start" + ("_bytes" if suffix else "")
    return (
        *(Bad(f"null_{name}", 2, rf"{name} is NULL", host={name: None}, can=2) for name in (dest, source, start)),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("rank_0", 2, r"rank is 0", {"rank": 0}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("negative", 2, rf"{count} is -1", {count: -1}, can=2),
        Bad("count_wrong", 2, rf"{count} is 17\b", {count: 17}, can=2),
        Bad("extent_negative", 2, rf"{dest}\[0\] is -4", host={dest: (-4, 6, 9)}, can=2),
        Bad("start_negative", 2, rf"{start}\[2\] is -1", host={start: (1, 0, -1)}, can=2),
        Bad("start_far", 2, rf"{start}\[2\] is 3", host={start: (1, 0, 3)}, can=2),
        Bad("start_farthest", 2, rf"{start}\[2\] is {2**31 - 1}", host={start: (1, 0, 2**31 - 1)}, can=2),
        *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in ("dest", "source")),
        *ODD,
    )


def write_case(width):
    problems = {n: lambda d, t=t, s=s, f=f: write_slice(d, width, t, s, f) for n, (t, s, f) in WINDOWS.items()}
    return Case(
        row=f"write_slice_b{width}",
        problems=problems,
        reference=write_reference(WORDS[width][1]),
        tolerance={"dest": "exact"},
        plain="plain",
        large="large",
        bad=bad_windows(),
        idle=(Idle("empty", {"source_numel": 0}, {"source_shape": (3, 0, 7)}),),
    )


def write_from_case(width):
    problems = {
        n: lambda d, t=t, s=s, f=f, axis=axis, v=v: write_slice(d, width, t, s, f, dyn=(axis, v))
        for n, (t, s, f, axis, v) in STARTS.items()
    }
    plain = WINDOWS["plain"]
    problems["plain"] = lambda d: write_slice(d, width, *plain, dyn=(0, 1))
    problems["large"] = lambda d: write_slice(d, width, *WINDOWS["large"], dyn=(1, 2))
    return Case(
        row=f"write_slice_b{width}_doff",
        problems=problems,
        reference=write_reference(WORDS[width][1]),
        tolerance={"dest": "exact"},
        plain="plain",
        large="large",
        bad=(
            *bad_windows(),
            Bad("axis_negative", 2, r"dyn_axis is -1", {"dyn_axis": -1}, {"range_start": (1, 0, 2)}, can=2),
            Bad("axis_3", 2, r"dyn_axis is 3", {"dyn_axis": 3}, {"range_start": (1, 0, 2)}, can=2),
            Bad("null_start", 2, r"dyn_start_dev is NULL", null=("dyn_start_dev",)),
            Bad("odd_start", 1, r"dyn_start_dev is 0x[0-9a-f]+", shift={"dyn_start_dev": 1}),
        ),
        idle=(Idle("empty", {"source_numel": 0}, {"source_shape": (3, 0, 7)}),),
    )


CASES = (
    *map(contiguize_case, WORDS),
    Case(
        row="contiguize_nibble",
        problems={
            n: lambda d, s=s, b=b, k=k: contiguize(d, 1, s, b, k, per_byte=2) for n, (s, b, k) in NIBBLES.items()
        },
        reference=nibble_reference,
        tolerance={"dest": "exact"},
        plain="plain",
        large="large",
        bad=(
            *BAD_VIEWS,
            *ODD,
            Bad("rank_0", 2, r"rank is 0", {"rank": 0}, can=2),
            Bad("inner_3", 3, r"source_strides\[2\] is 3", host={"source_strides": (35, 7, 3)}, can=3),
            Bad("inner_0", 3, r"source_strides\[2\] is 0", host={"source_strides": (35, 7, 0)}, can=3),
        ),
        idle=(Idle("empty", {}, {"shape": (3, 0, 7)}),),
    ),
    *map(write_case, WORDS),
    *map(write_from_case, WORDS),
    Case(
        row="write_slice_nibble",
        problems={
            n: lambda d, t=t, s=s, f=f: write_slice(d, 1, t, s, f, "_byte", "source_byte_numel")
            for n, (t, s, f) in WINDOWS.items()
        },
        reference=write_reference(1, "_byte"),
        tolerance={"dest": "exact"},
        plain="plain",
        large="large",
        bad=bad_windows("_byte", "source_byte_numel"),
        idle=(Idle("empty", {"source_byte_numel": 0}, {"source_byte_shape": (3, 0, 7)}),),
    ),
)

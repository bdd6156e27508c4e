"""fill: a value as it is, or the bits of one."""

import numpy as np

from harness.launch import ROWS
from harness.numerics import decode, encode, is_float

from ..model import Bad, Bench, BenchArray, Bound, Case, Expected, Idle
from .common import SIZES, flat_bad, flat_maker, pointwise_bytes, strided_bad, strided_idle, strided_maker

BYTES_OR_BITS = ("f16", "bf16", "bool", "fp8e4m3", "fp8e5m2")  # passed as bits


def value_of(draw, kind):
    """A random value, or with `kind` "first", "second" ... one of the specials."""
    made = draw.values((1,), "normal" if kind == "normal" else "special").values
    if kind not in ("normal", "special"):
        special = draw.values((4000,), "special").values
        found = np.unique(special[special == special])
        made = {"largest": found[-1:], "least": found[:1], "nan": np.array([np.nan if is_float(draw.dtype) else 0])}[kind]
    if draw.dtype in BYTES_OR_BITS:
        return int(encode(made, draw.dtype)[0])
    return float(made[0]) if is_float(draw.dtype) else int(made[0])


def flat(draw, numel, kind="normal"):
    return flat_maker("fill_{T}")(draw, numel, value=value_of(draw, kind))


def strided(draw, shape, kind="normal", **layouts):
    return strided_maker("fill_{T}_strided")(draw, shape, value=value_of(draw, kind), **layouts)


def reference(problem):
    y = problem.arrays["y"]
    value = np.asarray(problem.scalars["value"])
    if y.dtype in BYTES_OR_BITS:
        value = decode(value.astype(np.uint16 if y.dtype in ("f16", "bf16") else np.uint8), y.dtype)
    elif y.dtype == "u64":
        value = value.astype(np.uint64)
    return {"y": Expected(np.full(y.shape, value))}


VIEWS = {  # shape, layout of y
    "rank0": ((), {}),
    "ones": ((1, 1, 1), {"gap": 5}),
    "plain": ((3, 5, 7), {}),
    "rank8": ((2, 1, 3, 2, 1, 2, 2, 3), {"order": (3, 1, 0, 7, 5, 6, 2, 4)}),
    "turned": ((3, 5, 7), {"order": (2, 0, 1)}),
    "flipped": ((3, 5, 7), {"flip": (0, 1, 2)}),
    "flipped_rows": ((13, 64), {"flip": (0,)}),
    "gaps": ((13, 17), {"gap": 3, "pad": 4}),
    "rows": ((37, 65), {"pad": 3}),
    "long_rows": ((2, 20011), {"pad": 1}),
    "long_gaps": ((20011,), {"gap": 2}),
    "columns": ((9, 3001), {"order": (1, 0), "pad": 1}),
    "many": ((70, 11, 13), {"order": (1, 2, 0)}),
}
LARGEST = ("largest", "least", "nan")


def torch_fill(torch, t, scalars):
    return lambda: t["y"].fill_(scalars["value"])


def numpy_fill(a, scalars):
    return lambda: a["y"].fill(scalars["value"])


def bench(backend, numel, bound):
    arrays = {"y": BenchArray("T", (numel,), "empty")}
    return Bench("fill", backend, ("f32",), "", {"numel": numel, "value": 1.5}, arrays, pointwise_bytes(arrays),
                 torch_fill, (bound,), numpy_peer=numpy_fill)  # fmt: skip


def is_full(slots):
    return slots["T"] in ("f32", "bf16", "u8")


STRIDED = tuple(p.name for p in ROWS["fill_{T}_strided"].problem if p.direction == "host")

CASES = (
    Case(
        row="fill_{T}",
        problems={f"n{n}": lambda d, n=n: flat(d, n) for n in SIZES}
        | {kind: lambda d, kind=kind: flat(d, 41, kind) for kind in LARGEST},
        reference=reference, tolerance={"y": "exact"}, plain="n33", large="n70001", bad=flat_bad(("y",)),
        idle=(Idle("numel_0", {"numel": 0}),), brief=("n255", *LARGEST), full=is_full,
        benches=(bench("cuda", 2**28, Bound("copy", 1.0)), bench("cpu", 2**24, Bound("peer", 1.0))),
    ),
    Case(
        row="fill_{T}_strided",
        problems={name: lambda d, s=s, k=k: strided(d, s, y=k) for name, (s, k) in VIEWS.items()}
        | {kind: lambda d, kind=kind: strided(d, (5, 9), kind, y={"pad": 2}) for kind in LARGEST},
        reference=reference, tolerance={"y": "exact"}, plain="plain", large="many",
        # can_implement sees numel and rank alone
        bad=tuple(
            Bad(**vars(b) | {"can": 2 if set(b.scalars) & {"numel", "rank"} and b.name in SEEN else 0})
            for b in strided_bad(("y",), ("y",))
        ),
        idle=tuple(strided_idle(("y",))), brief=("turned", "gaps", "nan"), full=is_full,
    ),
)  # fmt: skip

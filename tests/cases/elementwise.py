"""binary_lerp and its gradient."""

import math

import numpy as np

from .model import Array, Bad, Bench, BenchArray, Bound, Case, Expected, Idle, Problem, strides_for

SIZES = (1, 2, 3, 7, 8, 9, 31, 33, 255, 1000, 4097, 70001)


def lerp(draw, numel, p, kind="normal"):
    a, b = draw.floats((numel,), kind), draw.floats((numel,), kind)
    return Problem({"numel": numel, "p": p}, {"a": a, "b": b, "y": draw.output((numel,))})


def lerp_reference(problem):
    """For a weight of at least one half the step is taken from b, which matters at the end alone: 1 - w is 0 there."""
    w = float(np.float32(problem.scalars["p"]))
    a, b = problem.arrays["a"].values, problem.arrays["b"].values
    with np.errstate(invalid="ignore", over="ignore"):
        step = (w if w < 0.5 else 1 - w) * (b - a)
        value = a + step if w < 0.5 else b - step
    # the difference, 1 - w and the product are rounded before the sum is
    return {"y": Expected(value, 3, np.abs(step))}


def strided(shape, names, **layouts):
    """(host arrays, strides by operand) for the row's `stride_<name>` parameters."""
    strides = {name: strides_for(shape, **layouts.get(name, {})) for name in names}
    return {"shape": tuple(shape), **{f"stride_{name}": s for name, s in strides.items()}}, strides


def lerp_strided(draw, shape, p=0.3, kind="normal", **layouts):
    host, strides = strided(shape, ("a", "b", "y"), **layouts)
    arrays = {name: draw.floats(shape, kind, strides[name]) for name in ("a", "b")}
    arrays["y"] = draw.output(shape, strides["y"])
    return Problem({"numel": math.prod(shape), "rank": len(shape), "p": p}, arrays, host)


def lerp_backward(draw, numel, p, kind="normal"):
    arrays = {"dy": draw.floats((numel,), kind), "da": draw.output((numel,)), "db": draw.output((numel,))}
    return Problem({"numel": numel, "p": p}, arrays)


def lerp_backward_reference(problem):
    w = float(np.float32(problem.scalars["p"]))
    dy = problem.arrays["dy"].values
    with np.errstate(invalid="ignore", over="ignore"):
        da, db = (1 - w) * dy, w * dy
    # 1 - w is rounded before the product is; w is not
    return {"da": Expected(da, 1, np.abs(da)), "db": Expected(db, 0, np.abs(db))}


def lerp_backward_strided(draw, shape, p=0.3, kind="normal", **layouts):
    host, strides = strided(shape, ("dy", "da", "db"), **layouts)
    arrays = {"dy": draw.floats(shape, kind, strides["dy"])}
    arrays |= {name: draw.output(shape, strides[name]) for name in ("da", "db")}
    return Problem({"numel": math.prod(shape), "rank": len(shape), "p": p}, arrays, host)


def flat_problems(make):
    problems = {f"n{n}": lambda d, n=n, p=p: make(d, n, p) for n, p in zip(SIZES, (0.3, 0.75, -2.0, 1.5) * 3)}
    for p in (0.0, 1.0, 0.5, 0.25, 0.999, float("nan")):
        problems[f"p{p}"] = lambda d, p=p: make(d, 131, p)
    for p in (0.0, 0.3, 0.7, 1.0):
        problems[f"special_p{p}"] = lambda d, p=p: make(d, 500, p, "special")
    return problems


def strided_problems(make, first, second, out):
    """`first` and `out` are operand names with layouts of their own; `second` may broadcast if it is an input."""
    cube = (3, 5, 7)
    turned = {"order": (2, 0, 1)}
    views = {
        "rank0": ((), {}),
        "ones": ((1, 1, 1), {first: {"gap": 5}}),
        "dense": ((4, 3, 33), {}),
        "rank8": ((2, 1, 3, 2, 1, 2, 2, 3), {out: {"order": (3, 1, 0, 7, 5, 6, 2, 4)}}),
        "turned_in": (cube, {first: turned}),
        "turned_out": (cube, {out: turned}),
        "flipped": (cube, {first: {"flip": (0, 1, 2)}}),
        "flipped_out": (cube, {out: {"flip": (1,)}, second: {"flip": (2,)}}),
        "gaps": ((13, 17), {first: {"gap": 3}, out: {"pad": 4}, second: {"pad": 1}}),
        "rows": ((37, 65), {first: {"pad": 3}, second: {"pad": 3}, out: {"pad": 3}}),
        "long_rows": ((2, 20011), {first: {"pad": 1}}),
        "long_gaps": ((20011,), {out: {"gap": 2}}),
        "broadcast_row": ((19, 24), {first: {"broadcast": (0,)}}),
        "broadcast_column": ((19, 24), {first: {"broadcast": (1,)}}),
        "broadcast_all": ((9, 5), {first: {"broadcast": (0, 1)}}),
        "many": ((70, 11, 13), {first: {"order": (1, 2, 0)}, second: {"flip": (0,)}}),
    }
    problems = {name: lambda d, s=s, k=k: make(d, s, **k) for name, (s, k) in views.items()}
    problems["special"] = lambda d: make(d, (21, 23), 0.6, "special", **{first: {"order": (1, 0)}})
    return problems


def flat_bad(arrays):
    bad = [Bad("negative", 2, r"numel is -1", {"numel": -1}, can=2)]
    bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in arrays]
    return (*bad, *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays))


def strided_bad(arrays, outputs):
    """Of a problem of shape (3, 5, 7)."""
    bad = [
        *flat_bad(arrays),
        Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
        Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
        Bad("null_shape", 2, r"shape is NULL", host={"shape": None}, can=2),
        Bad("extent_negative", 2, r"shape\[1\] is -5", host={"shape": (3, -5, 7)}, can=2),
        Bad("extents_negative", 2, r"shape\[\d\] is -\d", host={"shape": (-3, -5, 7)}, can=2),
        Bad("extent_0", 2, r"numel is 105\b.*\b0\b", host={"shape": (3, 0, 7)}, can=2),
        Bad("numel_more", 2, r"numel is 106\b.*\b105\b", {"numel": 106}, can=2),
        Bad("numel_less", 2, r"numel is 104\b.*\b105\b", {"numel": 104}, can=2),
        Bad("overflow", 2, r"shape", {"rank": 8}, {"shape": (2**31 - 1,) * 8}, can=2),
    ]
    for a in arrays:
        bad.append(Bad(f"null_stride_{a}", 2, rf"stride_{a} is NULL", host={f"stride_{a}": None}, can=2))
        far = {f"stride_{a}": (2**62, 7, 1)}
        bad.append(Bad(f"far_{a}", 2, rf"stride_{a}\[0\] is {2**62}", host=far, can=2))
        least = {f"stride_{a}": (-(2**63), 7, 1)}
        bad.append(Bad(f"least_{a}", 2, rf"stride_{a}\[0\] is -{2**63}", host=least, can=2))
    for a in outputs:
        still = {f"stride_{a}": (35, 0, 1)}
        bad.append(Bad(f"still_{a}", 2, rf"stride_{a}\[1\] is 0", host=still, can=2))
    # every entry of an overlong shape array must exist: the strides are padded to rank 8 as well
    padded = {f"stride_{a}": (0,) * 8 for a in arrays}
    return tuple(
        Bad(b.name, b.status, b.text, b.scalars, {**padded, **b.host}, can=b.can) if b.name == "overflow" else b
        for b in bad
    )


def strided_idle(names):
    nothing = {"shape": None, **{f"stride_{n}": None for n in names}}
    return (
        Idle("numel_0", {"numel": 0}, nothing),
        Idle("numel_0_shape", {"numel": 0}, {"shape": (3, 0, 7)}),
        Idle("numel_0_rank", {"numel": 0, "rank": 9}, can=2),
    )


def pointwise_bytes(arrays):
    size = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2}
    return lambda dtype, _: sum(math.prod(a.shape) for a in arrays.values()) * size[dtype]


def torch_lerp(torch, t, scalars):
    return lambda: torch.lerp(t["a"], t["b"], scalars["p"], out=t["y"])


def torch_lerp_backward(torch, t, scalars):
    p = scalars["p"]

    def peer():
        torch.mul(t["dy"], 1 - p, out=t["da"])
        torch.mul(t["dy"], p, out=t["db"])

    return peer


def numpy_lerp(a, scalars):
    p = a["y"].dtype.type(scalars["p"])

    def peer():
        np.subtract(a["b"], a["a"], out=a["y"])
        np.multiply(a["y"], p, out=a["y"])
        np.add(a["y"], a["a"], out=a["y"])

    return peer


def numpy_lerp_backward(a, scalars):
    p = a["da"].dtype.type(scalars["p"])

    def peer():
        np.multiply(a["dy"], 1 - p, out=a["da"])
        np.multiply(a["dy"], p, out=a["db"])

    return peer


def benches(name, inputs, outputs, peer, numpy_peer):
    made = []
    for backend, n, bound in (("cuda", 2**28, Bound("copy", 0.95)), ("cpu", 2**24, Bound("peer", 1.0))):
        arrays = {a: BenchArray("T", (n,), "normal") for a in inputs}
        arrays |= {a: BenchArray("T", (n,), "empty") for a in outputs}
        made.append(
            Bench(name, backend, ("f32", "bf16"), "", {"numel": n, "p": 0.3}, arrays, pointwise_bytes(arrays), peer,
                  (bound,), numpy_peer=numpy_peer)
        )  # fmt: skip
    return tuple(made)


CASES = (
    Case(
        row="binary_lerp_{T}", problems=flat_problems(lerp), reference=lerp_reference, tolerance={"y": "pointwise"},
        plain="n33", large="n70001", bad=flat_bad(("a", "b", "y")), idle=(Idle("numel_0", {"numel": 0}),),
        aliases=(("y", "a"), ("y", "b")),
        benches=benches("lerp", ("a", "b"), ("y",), torch_lerp, numpy_lerp),
    ),
    Case(
        row="binary_lerp_{T}_strided", problems=strided_problems(lerp_strided, "a", "b", "y")
        | {"plain": lambda d: lerp_strided(d, (3, 5, 7))}, reference=lerp_reference, tolerance={"y": "pointwise"},
        plain="plain", large="many", bad=strided_bad(("a", "b", "y"), ("y",)), idle=strided_idle(("a", "b", "y")),
        aliases=(("y", "a"), ("y", "b")),
    ),
    Case(
        row="binary_lerp_backward_{T}", problems=flat_problems(lerp_backward), reference=lerp_backward_reference,
        tolerance={"da": "pointwise", "db": "pointwise"}, plain="n33", large="n70001",
        bad=(*flat_bad(("dy", "da", "db")), Bad("one_output", 2, r"d[ab] ", alias={"db": "da"})),
        idle=(Idle("numel_0", {"numel": 0}),), aliases=(("da", "dy"), ("db", "dy")),
        benches=benches("lerp_backward", ("dy",), ("da", "db"), torch_lerp_backward, numpy_lerp_backward),
    ),
    Case(
        row="binary_lerp_backward_{T}_strided", problems=strided_problems(lerp_backward_strided, "dy", "db", "da")
        | {"plain": lambda d: lerp_backward_strided(d, (3, 5, 7))}, reference=lerp_backward_reference,
        tolerance={"da": "pointwise", "db": "pointwise"}, plain="plain", large="many",
        bad=strided_bad(("dy", "da", "db"), ("da", "db")), idle=strided_idle(("dy", "da", "db")),
        aliases=(("da", "dy"), ("db", "dy")),
    ),
)  # fmt: skip

__all__ = ["CASES", "Array", "lerp", "lerp_backward", "lerp_backward_strided", "lerp_strided"]

# SPDX-License-Identifier: Apache-2.0
"""Products of 8-bit codes with zero points and scales, against exact integers."""

import functools

import numpy as np

from tools.oracle.numerics import LIMITS, round_to

from ..model import Bad, Case, Expected, Idle, Problem

SHAPES = {
    "one": (1, 1, 1), "plain": (5, 7, 33), "row": (1, 130, 64), "column": (70, 1, 100), "odd": (65, 67, 129),
    "tiles": (64, 128, 256), "no_k": (3, 5, 0), "long": (3, 4, 20000),
}  # fmt: skip
LARGE = (130, 200, 320)


def codes(draw, shape, dtype, kind="normal"):
    low, high = LIMITS[dtype]
    if kind == "ends":
        return draw.array(draw.rng.choice([low, high], shape), dtype)
    return draw.array(draw.rng.integers(low, high, shape, np.int64, endpoint=True), dtype)


def scales(draw, count, dtype):
    return draw.array(round_to(0.01 + draw.rng.random(count) * 0.02, dtype), dtype)


def zeros(draw, count):
    return draw.array(draw.rng.integers(-150, 300, count), "i32")


def of(array, count, index):
    """The values for rows (index 0) or columns (index 1), broadcast."""
    values = np.resize(array.values, count)
    return values[:, None] if index == 0 else values[None, :]


def exact_sums(problem, a, b_by_columns, names):
    """Sums of (a - za) (b - zb) as integers; `names` are those of a's and b's zero points."""
    left, right = problem.arrays[a[0]].values.astype(np.int64), problem.arrays[a[1]].values.astype(np.int64)
    right = right.T if b_by_columns else right
    for name, index in zip(names, (0, 1)):
        if name in problem.arrays and name not in problem.null and problem.arrays[name].shape[0]:
            values = of(problem.arrays[name], (left.shape[0], right.shape[1])[index], index).astype(np.int64)
            if index == 0:
                left = left - values
            else:
                right = right - values
    return left @ right


# --- the reference's symbol -------------------------------------------------------------------------------------------


def w8a8(draw, shape, kind="normal"):
    m, n, k = shape
    dtype = draw.other
    arrays = {"weight_q": codes(draw, (n, k), "i8", kind), "act_q": codes(draw, (m, k), "i8", kind)}
    arrays |= {
        "scale_a": scales(draw, m, dtype),
        "scale_w": scales(draw, n, dtype),
        "y": draw.output((m, n), dtype=dtype),
    }
    return Problem({"m": m, "c_out": n, "k": k}, arrays)


def w8a8_reference(problem):
    sums = exact_sums(problem, ("act_q", "weight_q"), True, ()).astype(np.float64)
    factor = problem.arrays["scale_a"].values[:, None] * problem.arrays["scale_w"].values
    return {"y": Expected(factor * sums, 3, np.abs(factor * sums))}


# --- ours -------------------------------------------------------------------------------------------------------------

ACTIVATIONS = {
    0: lambda z: z, 1: lambda z: np.maximum(z, 0), 3: lambda z: z / (1 + np.exp(-z)),
}  # fmt: skip


def linear(draw, shape, kind="normal", per=(True, True, True, True), activation=0, null=()):
    """`per` says which of a_scale, a_zero, weight_scale and weight_zero have an element for each row."""
    m, n, k = shape
    scale = "f64" if draw.other == "f64" else "f32"
    counts = {"a_scales": m if per[0] else 1, "a_zeros": m if per[1] else 1,
              "weight_scales": n if per[2] else 1, "weight_zeros": n if per[3] else 1}  # fmt: skip
    for name in ("a_zero", "weight_zero"):
        counts[f"{name}s"] = 0 if name in null else counts[f"{name}s"]
    arrays = {
        "a": codes(draw, (m, k), draw.dtype, kind), "weight": codes(draw, (n, k), "i8", kind),
        "a_scale": scales(draw, counts["a_scales"], scale),
        "weight_scale": scales(draw, counts["weight_scales"], scale),
        "a_zero": zeros(draw, counts["a_zeros"]), "weight_zero": zeros(draw, counts["weight_zeros"]),
        "bias": draw.floats((n,), dtype="f32"), "y": draw.output((m, n), dtype=draw.other),
    }  # fmt: skip
    return Problem({"m": m, "n": n, "k": k, "activation": activation} | counts, arrays, null=null)


def linear_reference(problem):
    m, n = problem.scalars["m"], problem.scalars["n"]
    sums = exact_sums(problem, ("a", "weight"), True, ("a_zero", "weight_zero")).astype(np.float64)
    value = of(problem.arrays["a_scale"], m, 0) * of(problem.arrays["weight_scale"], n, 1) * sums
    size = np.abs(value)
    if "bias" not in problem.null:
        value, size = value + problem.arrays["bias"].values, size + np.abs(problem.arrays["bias"].values)
    with np.errstate(over="ignore"):
        result = ACTIVATIONS[problem.scalars["activation"]](value)
    return {"y": Expected(result, 4 if problem.scalars["activation"] == 0 else 12, size)}


def integer(draw, shape, b, kind="normal", layout=0, per=(False, False), null=()):
    m, n, k = shape
    counts = {"a_zeros": m if per[0] else 1, "b_zeros": n if per[1] else 1}
    for name in ("a_zero", "b_zero"):
        counts[f"{name}s"] = 0 if name in null else counts[f"{name}s"]
    arrays = {
        "a": codes(draw, (m, k), draw.dtype, kind), "b": codes(draw, (n, k) if layout else (k, n), b, kind),
        "a_zero": zeros(draw, counts["a_zeros"]), "b_zero": zeros(draw, counts["b_zeros"]),
        "y": draw.output((m, n), dtype="i32"),
    }  # fmt: skip
    return Problem({"m": m, "n": n, "k": k, "layout": layout} | counts, arrays, null=null)


def integer_reference(problem):
    sums = exact_sums(problem, ("a", "b"), problem.scalars["layout"] == 1, ("a_zero", "b_zero"))
    return {"y": Expected(np.clip(sums, *LIMITS["i32"]))}


def qlinear(draw, shape, b, kind="normal", layout=0, per=(False, False), null=()):
    plain = integer(draw, shape, b, kind, layout, per, null)
    m, n, k = shape
    counts = {"a_scales": m if per[0] else 1, "b_scales": n if per[1] else 1}
    # The result spans some hundred codes, and no quotient is near a tie.
    spread = np.sqrt(max(k, 1)) * 128 * 128 * 0.02 * 0.02 / 40
    arrays = plain.arrays | {
        "a_scale": scales(draw, counts["a_scales"], "f32"), "b_scale": scales(draw, counts["b_scales"], "f32"),
        "y_scale": draw.array(round_to(np.array([spread]), "f32"), "f32"), "y_zero": draw.array(np.array([3]), "i32"),
        "y": draw.output((m, n), dtype=draw.dtype),
    }  # fmt: skip
    return Problem(plain.scalars | counts, arrays, null=null)


def qlinear_reference(problem):
    """The steps of the definition in f32."""
    f = np.float32
    m, n = problem.scalars["m"], problem.scalars["n"]
    sums = exact_sums(problem, ("a", "b"), problem.scalars["layout"] == 1, ("a_zero", "b_zero"))
    factor = of(problem.arrays["a_scale"], m, 0).astype(f) * of(problem.arrays["b_scale"], n, 1).astype(f)
    steps = np.rint((factor * sums.astype(f)) / f(problem.arrays["y_scale"].values[0]))
    zero = 0 if "y_zero" in problem.null else problem.arrays["y_zero"].values[0]
    return {"y": Expected(np.clip(steps.astype(np.int64) + zero, *LIMITS[problem.arrays["y"].dtype]))}


def bad_calls(extents, pointers, wide):
    calls = [Bad(f"negative_{e}", 2, rf"{e} is -1, must be >= 0", {e: -1}, can=2) for e in extents]
    calls += [Bad(f"null_{p}", 2, rf"{p} is NULL", null=(p,)) for p in pointers]
    return (*calls, *[Bad(f"odd_{p}", 1, rf"{p} is 0x[0-9a-f]+", shift={p: 1}) for p in wide])


def counted(names):
    return tuple(
        Bad(f"count_{name}_{n}", 2, rf"{name} is {n}, must be ", {name: n}, can=2) for name in names for n in (2, -1)
    )


def w8a8_case():
    problems = {name: lambda d, s=s: w8a8(d, s) for name, s in SHAPES.items()}
    problems |= {"ends": lambda d: w8a8(d, (9, 11, 1000), "ends"), "large": lambda d: w8a8(d, LARGE)}
    bad = bad_calls(("m", "c_out", "k"), ("weight_q", "act_q", "scale_a", "scale_w", "y"), ("scale_a", "scale_w", "y"))
    return Case(
        row="quantized_linear_w8a8_{U}", problems=problems, reference=w8a8_reference, tolerance={"y": "pointwise"},
        plain="plain", large="large", bad=bad, idle=(Idle("no_rows", {"m": 0}), Idle("no_columns", {"c_out": 0})),
    )  # fmt: skip


def linear_case():
    problems = {name: lambda d, s=s: linear(d, s) for name, s in SHAPES.items()}
    problems |= {
        "ends": lambda d: linear(d, (9, 11, 1000), "ends"), "large": lambda d: linear(d, LARGE),
        "tensor": lambda d: linear(d, SHAPES["odd"], per=(False,) * 4),
        "relu": lambda d: linear(d, SHAPES["odd"], activation=1),
        "silu": lambda d: linear(d, SHAPES["odd"], activation=3),
        "symmetric": lambda d: linear(d, SHAPES["odd"], null=("a_zero", "weight_zero", "bias")),
        "no_weight_zero": lambda d: linear(d, SHAPES["odd"], null=("weight_zero",)),
        "no_a_zero": lambda d: linear(d, SHAPES["odd"], null=("a_zero", "bias")),
    }  # fmt: skip
    bad = bad_calls(
        ("m", "n", "k"), ("a", "weight", "a_scale", "weight_scale", "y"), ("a_scale", "weight_scale", "a_zero", "bias")
    )
    bad += counted(("a_scales", "a_zeros", "weight_scales", "weight_zeros"))
    bad += tuple(Bad(f"activation_{a}", 2, rf"activation is {a}, must be 0", {"activation": a}, can=2) for a in (9, -1))
    empty = {"m": 0, "a_scales": 1, "a_zeros": 1}
    return Case(
        row="quantized_linear_{T}_{U}", problems=problems, reference=linear_reference, tolerance={"y": "pointwise"},
        plain="plain", large="large", bad=bad, idle=(Idle("no_rows", empty),),
        brief=("plain", "odd", "symmetric"), full=lambda slots: slots["U"] in ("f32", "bf16"),
    )  # fmt: skip


def product_case(op, b, make, reference):
    make = functools.partial(make, b=b)
    problems = {name: lambda d, s=s: make(d, s) for name, s in SHAPES.items()}
    problems |= {
        "ends": lambda d: make(d, (9, 11, 1000), kind="ends"), "large": lambda d: make(d, LARGE),
        "columns": lambda d: make(d, SHAPES["odd"], layout=1),
        "each": lambda d: make(d, SHAPES["odd"], per=(True, True)),
        "each_columns": lambda d: make(d, SHAPES["odd"], layout=1, per=(True, True)),
        "symmetric": lambda d: make(d, SHAPES["odd"], null=("a_zero", "b_zero")),
        "no_a_zero": lambda d: make(d, SHAPES["odd"], null=("a_zero",)),
        "no_b_zero": lambda d: make(d, SHAPES["odd"], null=("b_zero",)),
    }  # fmt: skip
    more = ("a_scale", "b_scale", "y_scale") if op == "qlinear_matmul" else ()
    bad = bad_calls(("m", "n", "k"), ("a", "b", *more, "y"), more) + counted(("a_zeros", "b_zeros"))
    bad += (Bad("layout", 2, r"layout is 2, must be 0", {"layout": 2}, can=2),)
    empty = {"m": 0, "a_zeros": 1} | ({"a_scales": 1} if more else {})
    return Case(
        row=f"{op}_{{T}}_{b}", problems=problems, reference=reference, tolerance={"y": "exact"}, plain="plain",
        large="large", bad=bad, idle=(Idle("no_rows", empty),),
    )  # fmt: skip


CASES = [
    w8a8_case(), linear_case(),
    *[product_case("matmul_integer", b, integer, integer_reference) for b in ("i8", "u8")],
    *[product_case("qlinear_matmul", b, qlinear, qlinear_reference) for b in ("i8", "u8")],
]  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Affine quantisation: codes, what they stand for, and gradients.

The reference repeats the arithmetic of the definition in NumPy's float32, float64 for f64, so that codes are compared
exactly, ties among them.
"""

import functools

import numpy as np

from tools.oracle.numerics import SMALLEST_NORMAL, round_to

from ..model import Array, Bad, Case, Expected, Idle, Problem

SIZES = (1, 2, 15, 64, 257, 4098, 70002)
EVEN_SIZES = (2, 16, 62, 258, 4098, 70002)
RANGES = {"s8": (-128, 127), "u8": (0, 255), "s4": (-8, 7), "u4": (0, 15)}
DTYPES = {"s8": "i8", "u8": "u8", "s4": "u8", "u4": "u8"}


def is_packed(code):
    return code in ("s4", "u4")


def packed_pairs(q):
    """Two codes a byte, the even index in the low half."""
    low, high = q.reshape(-1)[0::2] & 15, q.reshape(-1)[1::2] & 15
    return low | high << 4


def unpacked(bytes_, code):
    nibbles = np.stack([bytes_ & 15, bytes_ >> 4], -1).reshape(-1)
    return np.where(nibbles > 7, nibbles - 16, nibbles) if code == "s4" else nibbles


# --- the definition ---------------------------------------------------------------------------------------------------


def compute(dtype):
    return np.float64 if dtype == "f64" else np.float32


def rounded(v):
    """Integers, ties to even, within the range of i32; NaN gives 0."""
    top = 2147483647 if v.dtype == np.float64 else 2147483520
    with np.errstate(invalid="ignore"):
        return np.rint(np.clip(np.nan_to_num(v, nan=0.0, posinf=np.inf, neginf=-np.inf), -(2**31), top)).astype(
            np.int64
        )


def quotient(x, s, adds_first):
    with np.errstate(all="ignore"):
        return np.where(s != 0, x / s, 0).astype(x.dtype) if adds_first else x * (x.dtype.type(1) / s)


def code_of(x, s, z, low, high, adds_first):
    steps = quotient(x, s, adds_first)
    steps = np.where(np.isnan(steps), 0, steps).astype(x.dtype)
    q = rounded(steps + np.asarray(z).astype(x.dtype)) if adds_first else rounded(steps) + z
    return np.clip(q, low, high)


def value_of(q, s, z):
    c = s.dtype.type
    with np.errstate(all="ignore"):
        return s * np.clip(q - z, -(2**31), 2**31 - 1).astype(c)


def passes(x, s, z, low, high, adds_first):
    r = rounded(quotient(x, s, adds_first)) + z
    return (low < r) & (r < high) if adds_first else (low <= r) & (r <= high)


def slope_of(dy, s, adds_first):
    with np.errstate(all="ignore"):
        return np.where(s != 0, dy / s, 0).astype(dy.dtype) if adds_first else dy * (dy.dtype.type(1) / s)


# --- scopes: how problems hold scales, and how these broadcast --------------------------------------------------------

SHAPES4 = (((2, 3, 5, 7), 1), ((1, 1, 64, 33), 2), ((4, 6, 1, 10), 3), ((3, 1, 1, 130), 0), ((1, 16, 20, 20), 1),
           ((5, 1, 1, 1), 0), ((1, 300, 1, 8), 1), ((7, 1, 9, 256), 3), ((2, 3, 64, 1), 1))  # fmt: skip
ROWS = ((1, 1), (3, 5), (4, 64), (7, 130), (130, 3), (2, 4098), (33, 256))
GROUPS = ((1, 8, 8), (3, 12, 4), (2, 256, 32), (5, 130, 13), (1, 4096, 128), (9, 6, 1))


class Scope:
    """One of the four ways in which elements share scales."""

    def __init__(self, name):
        self.name, self.adds_first = name, name in ("per_token", "per_group")

    def shapes(self, packed):
        if self.name == "per_tensor":
            return EVEN_SIZES if packed else SIZES
        if self.name == "per_channel":
            even = [
                (s, a)
                for s, a in SHAPES4
                if np.prod(s[a + 1 :]) % 2 == 0 or (np.prod(s[a + 1 :]) == 1 and s[a] % 2 == 0)
            ]
            return tuple(even) if packed else SHAPES4
        if self.name == "per_token":
            return tuple(r for r in ROWS if r[1] % 2 == 0) if packed else ROWS
        return tuple(g for g in GROUPS if g[2] % 2 == 0) if packed else GROUPS

    def layout(self, shape):
        """(scalars, host, shape of x, shape of the scales, function that broadcasts scales to x)."""
        if self.name == "per_tensor":
            return {"numel": shape}, {}, (shape,), None, lambda a: a
        if self.name == "per_channel":
            extents, axis = shape
            numel = int(np.prod(extents))
            own = [1] * 4
            own[axis] = extents[axis]
            spread = lambda a: np.broadcast_to(a.reshape(own), extents).reshape(-1)  # noqa: E731
            return {"numel": numel, "axis": axis}, {"shape4": extents}, (numel,), (extents[axis],), spread
        if self.name == "per_token":
            return {"n": shape[0], "d": shape[1]}, {}, shape, (shape[0],), lambda a: a[:, None]
        outer, size, group = shape
        scalars = {"outer": outer, "axis_size": size, "group_size": group}
        return scalars, {}, (outer, size), (outer, size // group), lambda a: np.repeat(a, group, axis=1)


SCOPES = {name: Scope(name) for name in ("per_tensor", "per_channel", "per_token", "per_group")}


def scales_for(draw, shape, kind):
    """Positive scales, powers of two for ties; zeros and negative ones among the special."""
    s = np.exp2(draw.rng.integers(-4, 3, shape)) if kind == "ties" else 0.02 + draw.rng.random(shape)
    if kind == "special":
        s = draw.rng.choice([0.0, -0.5, 0.25, float(SMALLEST_NORMAL["f16"])], shape)
    return round_to(np.asarray(s, np.float64), draw.dtype)


def x_for(draw, shape, kind):
    if kind == "ties":
        x = (draw.rng.integers(-600, 600, shape) + 0.5 * draw.rng.integers(0, 2, shape)) / 8
        return draw.array(round_to(x, draw.dtype))
    if kind in ("special", "wide"):
        return draw.floats(shape, kind)
    return draw.array(round_to(draw.rng.standard_normal(shape) * 20, draw.dtype))


def problem_of(draw, op, scope, code, shape, kind="normal", zero=0, span=None):
    """Arguments of an op: "quantize", "dequantize", "fake" or a gradient of theirs."""
    forward, backward = op.removesuffix("_backward"), op.endswith("_backward")
    scalars, host, whole, own, _ = scope.layout(shape)
    scalars = dict(scalars)
    arrays = {}
    ranged = forward in ("quantize", "fake")
    if ranged:
        low, high = span or RANGES[code or "s8"]
        scalars |= {"q_min": low, "q_max": high}
    zeros_needed = not (forward == "dequantize" and backward)
    if own is None:
        scalars["scale"] = float(scales_for(draw, (), kind))
        if zeros_needed:
            scalars["zero_point"] = zero
    else:
        arrays["scale"] = draw.array(scales_for(draw, own, kind))
        if zeros_needed:
            zeros = draw.rng.integers(-20, 21, own) + zero
            zeros = np.resize(np.array([2**31 - 1, -(2**31), 0, 1]), own) if kind == "far" else zeros
            arrays["zero_point"] = draw.array(zeros, "i32")
    if forward == "dequantize" and not backward:
        count = int(np.prod(whole))
        if is_packed(code):
            arrays["q"] = Array("u8", (count // 2,), np.resize(np.arange(256), count // 2))
        else:
            low, high = RANGES[code]
            arrays["q"] = Array(DTYPES[code], whole, np.resize(np.arange(low, high + 1), whole))
        arrays["x"] = draw.output(whole)
    elif forward == "dequantize":
        arrays |= {"dy": x_for(draw, whole, kind), "dq": draw.output(whole)}
    else:
        arrays["x"] = x_for(draw, whole, kind)
        if backward:
            arrays |= {"dy": x_for(draw, whole, "normal"), "dx": draw.output(whole)}
        elif forward == "fake":
            arrays["y"] = draw.output(whole)
        else:
            count = int(np.prod(whole))
            arrays["q"] = draw.output((count // 2,) if is_packed(code) else whole, dtype=DTYPES[code])
    return Problem(scalars, arrays, host)


def reference_of(op, scope, code, problem):
    forward, backward = op.removesuffix("_backward"), op.endswith("_backward")
    s = problem.scalars
    floats = next(a for a in problem.arrays.values() if a.dtype not in ("i8", "u8", "s4", "u4", "i32"))
    c = compute(floats.dtype)
    shape = (
        s["numel"] if scope.name == "per_tensor"
        else (problem.host["shape4"], s["axis"]) if scope.name == "per_channel"
        else (s["n"], s["d"]) if scope.name == "per_token" else (s["outer"], s["axis_size"], s["group_size"])
    )  # fmt: skip
    _, _, whole, _, spread = scope.layout(shape)
    if scope.name == "per_tensor":
        scale, zero = c(s["scale"]), np.int64(s.get("zero_point", 0))
    else:
        scale = spread(problem.arrays["scale"].values.astype(c))
        zero = spread(problem.arrays["zero_point"].values.astype(np.int64)) if "zero_point" in problem.arrays else 0
    first = scope.adds_first
    of = {
        name: a.values.astype(c) for name, a in problem.arrays.items() if a.values is not None and name in ("x", "dy")
    }
    with np.errstate(all="ignore"):
        if forward == "dequantize":
            if backward:
                return {"dq": Expected((of["dy"] * scale).astype(np.float64))}
            q = problem.arrays["q"].values.astype(np.int64)
            q = (unpacked(q, code) if is_packed(code) else q).reshape(whole)
            return {"x": Expected(np.broadcast_to(value_of(q, np.asarray(scale), zero), whole).astype(np.float64))}
        low, high = s["q_min"], s["q_max"]
        if forward == "fake":
            if backward:
                return {
                    "dx": Expected(
                        np.where(passes(of["x"], scale, zero, low, high, first), of["dy"], 0).astype(np.float64)
                    )
                }
            r = np.clip(rounded(quotient(of["x"], scale, first)), low - zero, high - zero)
            return {"y": Expected((scale * r.astype(c)).astype(np.float64))}
        if backward:
            slope = slope_of(of["dy"], scale, first)
            return {
                "dx": Expected(np.where(passes(of["x"], scale, zero, low, high, first), slope, 0).astype(np.float64))
            }
        span = RANGES[code]
        q = code_of(of["x"], scale, zero, np.clip(low, *span), np.clip(high, *span), first)
        return {"q": Expected(packed_pairs(q) if is_packed(code) else q)}


def cases_of(op, scope, code=""):
    packed = is_packed(code)
    row = f"{op.replace('fake', 'fake_quantize')}_{scope.name}"
    if op.endswith("_backward"):
        row = row.replace(f"_backward_{scope.name}", f"_{scope.name}_backward")
    if op.startswith("fake") and scope.name == "per_tensor":
        row = op.replace("fake", "fake_quantize")
    row += "_{T}" + (f"_{code}" if code else "")
    make = functools.partial(problem_of, op=op, scope=scope, code=code)
    shapes = scope.shapes(packed)
    plain = next(s for s in shapes if int(np.prod(scope.layout(s)[2])) > 60)
    problems = {f"shape_{k}": lambda d, s=s, k=k: make(d, shape=s, zero=k % 3) for k, s in enumerate(shapes)}
    problems["plain"] = lambda d: make(d, shape=plain, zero=3)
    for kind in ("ties", "special", "wide"):
        problems[kind] = lambda d, k=kind: make(d, shape=shapes[-2], kind=k, zero=1)
    if op.startswith(("quantize", "fake")):
        problems["narrow"] = lambda d: make(d, shape=shapes[-2], zero=-1, span=(-3, 5))
        problems["beyond"] = lambda d: make(d, shape=shapes[-2], span=(-1000, 1000))
    if not op.endswith("_backward") and scope.name != "per_tensor" and not op.startswith("fake"):
        problems["far"] = lambda d: make(d, shape=shapes[1], kind="far")
    large = {
        "per_tensor": 100002,
        "per_channel": ((3, 40, 33, 32), 1),
        "per_token": (300, 402),
        "per_group": (40, 4096, 64),
    }
    problems["large"] = lambda d: make(d, shape=large[scope.name])
    extents = {
        "per_tensor": ("numel",),
        "per_channel": ("numel",),
        "per_token": ("n", "d"),
        "per_group": ("outer", "axis_size"),
    }
    bad = [Bad(f"negative_{e}", 2, rf"{e} is -1, must be >= 0", {e: -1}, can=2) for e in extents[scope.name]]
    if op.startswith(("quantize", "fake")):
        bad.append(Bad("range", 2, r"q_min is 5, must be <= q_max, which is 4", {"q_min": 5, "q_max": 4}, can=2))
    if scope.name == "per_channel":
        bad += [Bad(f"axis_{a}", 2, rf"axis is {a}, must be in \[0, 4\)", {"axis": a}, can=2) for a in (-1, 4)]
        bad.append(Bad("shape", 2, r"numel is \d+, but shape4 is \[1, 1, 1, 1\]", host={"shape4": (1, 1, 1, 1)}, can=2))
        bad.append(Bad("no_shape", 2, r"shape4 is NULL", host={"shape4": None}, can=2))
    if scope.name == "per_group":
        bad += [Bad(f"group_{g}", 2, rf"group_size is {g}, must be > 0", {"group_size": g}, can=2) for g in (0, -4)]
        bad.append(
            Bad("groups", 2, r"axis_size is \d+, must be a multiple of group_size", {"group_size": 1000003}, can=2)
        )
    if packed and scope.name == "per_tensor":
        bad.append(Bad("odd", 2, r"numel is 3, must be even", {"numel": 3}, can=2))
    if packed and scope.name == "per_token":
        bad.append(Bad("odd", 2, r"3 elements share a scale, must be an even number", {"d": 3}, can=2))
    empty = {"per_tensor": {"numel": 0}, "per_channel": {"numel": 0}, "per_token": {"d": 0}, "per_group": {"outer": 0}}
    hosts = {"shape4": (0, 3, 5, 7)} if scope.name == "per_channel" else {}
    idle = (Idle("empty", empty[scope.name], hosts),)
    result = {"quantize": "q", "dequantize": "x", "fake": "y"}.get(op, "dq" if op.startswith("de") else "dx")
    return Case(
        row=row, problems=problems, reference=functools.partial(reference_of, op, scope, code),
        tolerance={result: "exact"},
        plain="plain", large="large", bad=tuple(bad), idle=idle, brief=("plain", "ties", "special"),
        full=lambda slots: slots["T"] == "f32",
    )  # fmt: skip


# --- dynamic ranges ---------------------------------------------------------------------------------------------------

WIDE_ROWS = ((1, 1), (3, 0), (3, 5), (4, 64), (70, 3), (2, 4098), (1, 70001), (33, 256))


def dynamic_problem(draw, shape, code, kind="normal", span=None, symmetric=True):
    n, d = shape
    low, high = span or RANGES[code]
    x = x_for(draw, shape, "wide" if kind == "wide" else "special" if kind == "special" else "normal").values
    if kind == "zeros":
        x = np.zeros(shape)
    elif kind == "tiny":
        x = round_to(np.resize([1e-44, -2e-44, 0.0], shape), draw.dtype)
    elif kind == "huge":
        top = {"f16": 65504.0, "f64": float(np.finfo(np.float64).max)}.get(
            draw.dtype, float(round_to(np.float64(3.38e38), draw.dtype))
        )
        x = np.resize([top, -top, 1.0], shape)
    elif kind == "nan":
        x = np.where(draw.rng.random(shape) < 0.3, np.nan, x)
    elif kind == "positive":
        x = np.abs(x)
    scale = "f64" if draw.dtype == "f64" else "f32"
    arrays = {"x": draw.array(x), "scale": draw.output((n,), dtype=scale)}
    arrays |= {} if symmetric else {"zero_point": draw.output((n,), dtype="i32")}
    return Problem(
        {"n": n, "d": d, "q_min": low, "q_max": high}, arrays | {"q": draw.output(shape, dtype=DTYPES[code])}
    )


def dynamic_reference(symmetric, code, problem):
    s, x = problem.scalars, problem.arrays["x"]
    c = compute(x.dtype)
    v = x.values.astype(c)
    low, high = np.clip(s["q_min"], *RANGES[code]), np.clip(s["q_max"], *RANGES[code])
    clean = np.where(np.isnan(v), 0, v).astype(c)
    top, bottom = clean.max(1, initial=0), (-clean).max(1, initial=0)
    least = c(np.finfo(c).tiny)
    with np.errstate(all="ignore"):
        if symmetric:
            scale = np.maximum(top, bottom) / c(s["q_max"])
        else:
            steps, width = c(high) - c(low), top + bottom
            finite = np.isfinite(top) & np.isfinite(bottom)
            scale = np.where(np.isinf(width) & finite, top / steps + bottom / steps, width / steps).astype(c)
        scale = np.where(np.maximum(top, bottom) > 0, np.maximum(scale, least), 1).astype(c)
        if symmetric:
            q = np.clip(rounded(v * (c(1) / scale)[:, None]), low, high)
            return {"scale": Expected(scale.astype(np.float64)), "q": Expected(q)}
        zero = np.clip(rounded(c(low) + bottom / scale), low, high)
        q = np.clip(rounded(v / scale[:, None]) + zero[:, None], low, high)
    return {"scale": Expected(scale.astype(np.float64)), "zero_point": Expected(zero), "q": Expected(q)}


def dynamic_case(kind, code):
    symmetric = kind == "sym"
    make = functools.partial(dynamic_problem, code=code, symmetric=symmetric)
    problems = {f"shape_{k}": lambda d, s=s: make(d, shape=s) for k, s in enumerate(WIDE_ROWS)}
    problems["plain"] = lambda d: make(d, shape=(7, 130))
    for what in ("zeros", "tiny", "huge", "nan", "special", "positive", "wide"):
        problems[what] = lambda d, w=what: make(d, shape=(6, 70), kind=w)
    problems["narrow"] = lambda d: make(d, shape=(6, 70), span=(-7, 7) if code == "s8" else (1, 100))
    problems["beyond"] = lambda d: make(d, shape=(6, 70), span=(-500, 500))
    problems["large"] = lambda d: make(d, shape=(300, 402))
    bad = [Bad(f"negative_{e}", 2, rf"{e} is -1, must be >= 0", {e: -1}, can=2) for e in ("n", "d")]
    if symmetric:
        bad.append(Bad("top", 2, r"q_max is 0, must be > 0", {"q_max": 0, "q_min": -5}, can=2))
    else:
        bad.append(Bad("span", 2, r"q_min is 5, must be < q_max", {"q_min": 5, "q_max": 5}, can=2))
    bad.append(Bad("range", 2, r"q_min is 5, must be <= q_max, which is 4", {"q_min": 5, "q_max": 4}, can=2))
    names = ("scale", "q") if symmetric else ("scale", "zero_point", "q")
    return Case(
        row=f"dynamic_range_quantize_per_token_{kind}_{{T}}_{code}", problems=problems,
        reference=functools.partial(dynamic_reference, symmetric, code), tolerance=dict.fromkeys(names, "exact"),
        plain="plain", large="large", bad=tuple(bad), idle=(Idle("no_rows", {"n": 0}),),
        brief=("plain", "nan", "special"), full=lambda slots: slots["T"] == "f32",
    )  # fmt: skip


# --- learned scales ---------------------------------------------------------------------------------------------------


def learned_problem(draw, shape, kind="normal", backward=False, span=(-8, 7), null=()):
    extents, axis = shape
    numel, scales = int(np.prod(extents)), extents[axis]
    scalars = {"numel": numel, "axis": axis, "q_min": span[0], "q_max": span[1], "grad_factor": 0.5}
    x = (
        draw.array(round_to(draw.rng.standard_normal(numel) * 4, draw.dtype))
        if kind == "normal"
        else x_for(draw, (numel,), kind)
    )
    zero = draw.array(round_to(draw.rng.standard_normal(scales) * 6, draw.dtype))
    arrays = {
        "x": x,
        "scale": draw.array(scales_for(draw, (scales,), "ties" if kind == "ties" else "normal")),
        "zero_point": zero,
    }
    if not backward:
        return Problem(scalars, arrays | {"y": draw.output((numel,))}, {"shape4": extents})
    arrays |= {"dy": draw.floats((numel,)), "dx": draw.output((numel,))}
    arrays |= {"dscale": draw.output((scales,)), "dzero_point": draw.output((scales,))}
    return Problem(scalars, arrays, {"shape4": extents}, null)


def learned_reference(backward, problem):
    s, extents = problem.scalars, problem.host["shape4"]
    c = compute(problem.arrays["x"].dtype)
    _, _, _, _, spread = SCOPES["per_channel"].layout((extents, s["axis"]))
    x, scale = problem.arrays["x"].values.astype(c), spread(problem.arrays["scale"].values.astype(c))
    low, high = s["q_min"], s["q_max"]
    zero = spread(np.clip(rounded(problem.arrays["zero_point"].values.astype(c)), low, high))
    with np.errstate(all="ignore"):
        steps = quotient(x, scale, False)
        r = rounded(steps)
        code = np.clip(r, low - zero, high - zero)
        if not backward:
            return {"y": Expected((scale * code.astype(c)).astype(np.float64))}
        dy, inside = problem.arrays["dy"].values.astype(c), r == code
        slope = (code.astype(c) - np.where(inside, steps, 0).astype(c)).astype(np.float64)
        dscale = dy * slope * s["grad_factor"]
        dzero = np.where(inside, 0, -dy.astype(np.float64) * scale.astype(np.float64)) * s["grad_factor"]
    others = tuple(d for d in range(4) if d != s["axis"])

    def total(each):
        each = each.reshape(extents)
        return Expected(each.sum(others), int(np.prod(extents)) // extents[s["axis"]], np.abs(each).sum(others))

    found = {
        "dx": Expected(np.where(inside, dy, 0).astype(np.float64)),
        "dscale": total(dscale),
        "dzero_point": total(dzero),
    }
    return {name: e for name, e in found.items() if name not in problem.null}


def learned_case(backward):
    make = functools.partial(learned_problem, backward=backward)
    problems = {f"shape_{k}": lambda d, s=s: make(d, shape=s) for k, s in enumerate(SHAPES4)}
    problems |= {"plain": lambda d: make(d, shape=SHAPES4[0]), "large": lambda d: make(d, shape=((3, 40, 33, 32), 1))}
    problems["tensor"] = lambda d: make(d, shape=((1, 1, 70, 130), 0))
    problems["ties"] = lambda d: make(d, shape=SHAPES4[0], kind="ties")
    if backward:
        for name in ("dx", "dscale", "dzero_point"):
            problems[f"no_{name}"] = lambda d, n=name: make(d, shape=SHAPES4[0], null=(n,))
    bad = [Bad("range", 2, r"q_min is 5, must be <= q_max, which is 4", {"q_min": 5, "q_max": 4}, can=2)]
    bad += [Bad(f"axis_{a}", 2, rf"axis is {a}, must be in \[0, 4\)", {"axis": a}, can=2) for a in (-1, 4)]
    bad += [Bad("negative_numel", 2, r"numel is -1, must be >= 0", {"numel": -1}, can=2)]
    tolerance = (
        {"dx": "exact", "dscale": "total_of_products", "dzero_point": "total_of_products"}
        if backward
        else {"y": "exact"}
    )
    null = ("dscale", "dzero_point") if backward else ()
    return Case(
        row=f"fake_quantize_learnable{'_backward' if backward else ''}_{{T}}", problems=problems,
        reference=functools.partial(learned_reference, backward), tolerance=tolerance, plain="plain", large="large",
        bad=tuple(bad), idle=(Idle("empty", {"numel": 0}, {"shape4": (0, 3, 5, 7)}, null),),
        brief=("plain", "ties"), full=lambda slots: slots["T"] == "f32",
    )  # fmt: skip


CASES = [
    *[cases_of(op, scope, code) for op in ("quantize", "dequantize") for scope in SCOPES.values() for code in RANGES],
    *[cases_of(f"{op}_backward", scope) for op in ("quantize", "dequantize") for scope in SCOPES.values()],
    *[cases_of(op, SCOPES[name]) for op in ("fake", "fake_backward") for name in ("per_tensor", "per_channel")],
    dynamic_case("sym", "s8"), dynamic_case("asym", "s8"), dynamic_case("asym", "u8"),
    learned_case(False), learned_case(True),
]  # fmt: skip

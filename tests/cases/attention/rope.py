# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding (RoPE), by positions and by tables, and its gradients."""

import numpy as np

from tools.oracle.angles import cos_sin

from ..model import Bad, Case, Expected, Idle, Problem

EXTENTS = ("batch", "heads", "seq", "head_dim")
SHAPES = {
    "one": (1, 1, 1, 2),
    "small": (2, 3, 5, 8),
    "pair": (3, 2, 7, 2),
    "row": (1, 1, 1, 128),
    "odd_pairs": (2, 2, 9, 22),
    "vector": (2, 4, 16, 32),
    "wide": (1, 2, 3, 1030),
    "long": (1, 1, 300, 6),
    "heads": (3, 37, 2, 16),
    "decode": (33, 5, 1, 64),
    "large": (3, 7, 40, 48),
}
FAR = (0, 1, 2, 2**12 + 1, 2**24 + 1, 2**31, 2**40, 2**40 - 3, -7, -(2**33) - 5, 2**55 + 7, 2**63 - 1, -(2**63))


def rotated(values, cos, sin, is_split, is_inverse):
    """Rotated values, and the magnitude of the summands."""
    pairs = cos.shape[-1]
    first, second = (
        (values[..., :pairs], values[..., pairs : 2 * pairs])
        if is_split
        else (values[..., 0 : 2 * pairs : 2], values[..., 1 : 2 * pairs : 2])
    )
    sin = -sin if is_inverse else sin
    result, magnitude = values.astype(np.longdouble), np.zeros(values.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        rotation = (first * cos - second * sin, second * cos + first * sin)
        sizes = (np.abs(first * cos) + np.abs(second * sin), np.abs(second * cos) + np.abs(first * sin))
    for k in range(2):
        at = slice(k * pairs, (k + 1) * pairs) if is_split else slice(k, 2 * pairs, 2)
        result[..., at], magnitude[..., at] = rotation[k], sizes[k]
    return result, magnitude


def expected(value, magnitude, roundings):
    return Expected(value, roundings, magnitude.astype(np.float64))


# --- by positions ----------------------------------------------------------------------------------------------------


def rope(
    draw, shape, names, kind="normal", far=False, base=10000.0, flip=(), order=(0, 1, 2), same=False, strided=False
):
    x, y = names
    arrays = {x: draw.floats(shape, kind), "positions": draw.array(draw.rng.choice(FAR, shape[2]), "i64"),
              y: draw.output(shape)}  # fmt: skip
    scalars = dict(zip(EXTENTS, shape)) | {"base": base, "pos_default_flag": int(not far)}
    if strided:
        of_y = steps_of(shape, order, flip)
        of_x = of_y if same else steps_of(shape, (1, 2, 0), ())
        for name, steps in ((x, of_x), (y, of_y)):
            arrays[name].strides = (*steps, 1)
            scalars |= {f"stride_{name}_{axis}": step for axis, step in zip("bhs", steps)}
        if not same:
            arrays[x] = draw.floats(shape, kind, (*of_x, 1))
    return Problem(scalars, arrays, null=() if far else ("positions",))


def steps_of(shape, order, flip):
    """Strides of the axes before the last, laid out in an order, with gaps of a vector."""
    steps, step = [0, 0, 0], shape[3] + 8
    for axis in reversed(order):
        steps[axis] = -step if axis in flip else step
        step *= max(shape[axis], 1)
    return tuple(steps)


def rope_reference(is_split, is_inverse):
    def reference(problem):
        names = [name for name in problem.arrays if name != "positions"]
        x, scalars = problem.arrays[names[0]].values, problem.scalars
        positions = np.arange(scalars["seq"]) if scalars["pos_default_flag"] else problem.arrays["positions"].values
        cos, sin = cos_sin(positions, float(np.float32(scalars["base"])), x.shape[-1] // 2)
        return {names[1]: expected(*rotated(x, cos, sin, is_split, is_inverse), 7)}

    return reference


def rope_problems(names, strided):
    def add(name, *args, **options):
        table[name] = lambda d: rope(d, *args, names, strided=strided, **options)

    table = {}
    for name, shape in SHAPES.items():
        add(name, shape, same=name in ("small", "large"), far=name in ("small", "heads"))
    add("far", (2, 2, 23, 16), far=True)
    add("far_base", (1, 3, 9, 10), far=True, base=500000.0)
    add("base_below_one", (2, 1, 11, 12), base=0.25)
    add("special", (2, 3, 11, 8), kind="special")
    if strided:
        add("tokens_first", (2, 3, 16, 32), order=(0, 2, 1))
        add("flipped", (2, 3, 8, 16), flip=(0, 2))
        table["broadcast"] = lambda d: broadcast(d, (3, 4, 5, 16), names)
    return table


def broadcast(draw, shape, names):
    """Strides that broadcast one operand to all heads."""
    problem = rope(draw, shape, names, strided=True)
    steps = (shape[2] * shape[3], 0, shape[3])
    problem.arrays[names[0]] = draw.floats(shape, "normal", (*steps, 1))
    problem.scalars |= {f"stride_{names[0]}_{axis}": step for axis, step in zip("bhs", steps)}
    return problem


def rope_bad(names, strided):
    x, y = names
    huge = dict.fromkeys(EXTENTS, 2**31 - 2)
    bad = [Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in EXTENTS]
    bad += [
        Bad("odd_features", 2, r"head_dim is 7, must be even", {"head_dim": 7}, can=2),
        Bad("odd_features_beside_0", 2, r"head_dim is 7, must be even", {"head_dim": 7, "batch": 0}, can=2),
        Bad("no_positions", 2, r"positions is NULL, but pos_default_flag is 0", null=("positions",)),
        Bad("odd_positions", 1, r"positions is 0x[0-9a-f]+", shift={"positions": 1}),
        *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in names),
        *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in names),
    ]
    if strided:
        bad += [
            Bad("far_stride", 2, rf"stride_{x}_h\[0\] is {2**60}", {f"stride_{x}_h": 2**60}, can=2),
            Bad("one_place", 2, rf"stride_{y}_s is 0, but an output has 5 elements", {f"stride_{y}_s": 0}, can=2),
        ]
        return tuple(bad)
    return (*bad, Bad("overflow", 2, rf"\w+ is {2**31 - 2}", huge, can=2))


IDLE = tuple(Idle(f"no_{e}", {e: 0}) for e in EXTENTS)


def rope_cases():
    for half in (False, True):
        for back, strided in ((b, s) for b in (False, True) for s in (False, True)):
            names = ("dy", "dx") if back else ("x", "y")
            yield Case(
                row=f"rope{'_half' * half}{'_backward' * back}_{{T}}{'_strided' * strided}",
                problems=rope_problems(names, strided), reference=rope_reference(half, back),
                tolerance={names[1]: "pointwise"}, plain="small", large="large",
                bad=rope_bad(names, strided), idle=IDLE,
            )  # fmt: skip


# --- positions of each batch -----------------------------------------------------------------------------------------


def rope_positions(draw, shape, rotary, names, kind="normal", base=10000.0, null=()):
    arrays = {names[0]: draw.floats(shape, kind),
              "positions": draw.array(draw.rng.choice(FAR, (shape[0], shape[2])), "i64"),
              names[1]: draw.output(shape)}  # fmt: skip
    return Problem(dict(zip(EXTENTS, shape)) | {"rotary_dim": rotary, "base": base}, arrays, null=null)


def rope_starts(draw, shape, rotary, names, kind="normal", base=10000.0):
    """Positions that pass the end of their range wrap around to its other end."""
    arrays = {names[0]: draw.floats(shape, kind), "starts": draw.array(draw.rng.choice(FAR, shape[:1]), "i64"),
              names[1]: draw.output(shape)}  # fmt: skip
    return Problem(dict(zip(EXTENTS, shape)) | {"rotary_dim": rotary, "base": base}, arrays)


def rope_positions_reference(is_split, is_inverse):
    def reference(problem):
        names = [name for name in problem.arrays if name not in ("positions", "starts")]
        x, scalars = problem.arrays[names[0]].values, problem.scalars
        offsets = np.arange(scalars["seq"])
        if "starts" in problem.arrays:
            positions = (problem.arrays["starts"].values[:, None] + offsets)[:, None]
        else:
            positions = problem.arrays["positions"].values[:, None]
        positions = offsets if "positions" in problem.null else positions
        cos, sin = cos_sin(positions, float(np.float32(scalars["base"])), scalars["rotary_dim"] // 2)
        return {names[1]: expected(*rotated(x, cos, sin, is_split, is_inverse), 7)}

    return reference


def rope_positions_cases(form, make):
    for half in (False, True):
        for back in (False, True):
            names = ("dy", "dx") if back else ("x", "y")
            shapes = {name: (shape, shape[3]) for name, shape in SHAPES.items()} | {
                "part": ((2, 3, 5, 24), 8), "vector_part": ((2, 4, 9, 64), 32), "odd_part": ((2, 3, 7, 10), 6),
                "none": ((2, 3, 4, 8), 0), "wide_part": ((1, 2, 3, 2052), 2050),
            }  # fmt: skip
            offsets = {"default_positions": lambda d, n=names: make(d, (3, 2, 9, 16), 8, n, null=("positions",))}
            needed = (*names, "starts") if form == "starts" else names
            yield Case(
                row=f"rope_{form}{'_half' * half}{'_backward' * back}_{{T}}",
                problems={
                    name: lambda d, s=shape, r=rotary, n=names: make(d, s, r, n)
                    for name, (shape, rotary) in shapes.items()
                }
                | {"special": lambda d, n=names: make(d, (2, 3, 11, 12), 8, n, "special")}
                | (offsets if form == "positions" else {}),
                reference=rope_positions_reference(half, back), tolerance={names[1]: "pointwise"},
                plain="small", large="large",
                bad=(
                    *(Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in (*EXTENTS, "rotary_dim")),
                    Bad("odd_features", 2, r"head_dim is 7, must be even", {"head_dim": 7, "rotary_dim": 2}, can=2),
                    Bad("odd_part", 2, r"rotary_dim is 3, must be even", {"rotary_dim": 3}, can=2),
                    Bad("much", 2, r"rotary_dim is 10, must be even and in \[0, head_dim\]", {"rotary_dim": 10}, can=2),
                    *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in needed),
                    *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in (*names, form)),
                ),
                idle=(Idle("no_batch", {"batch": 0}), Idle("no_heads", {"heads": 0}), Idle("no_positions", {"seq": 0}),
                      Idle("no_features", {"head_dim": 0, "rotary_dim": 0})),
            )  # fmt: skip


# --- by tables -------------------------------------------------------------------------------------------------------

# bh or t_outer, positions or heads, d, stride_b
TABLED = {
    "one": (1, 1, 2, 0),
    "small": (3, 5, 8, 0),
    "own": (3, 5, 8, 20),
    "pair": (5, 7, 2, 0),
    "apart": (4, 3, 10, 23),
    "vector": (8, 16, 32, 0),
    "vector_own": (6, 8, 32, 128),
    "odd_pairs": (2, 9, 22, 99),
    "wide": (2, 3, 1030, 0),
    "many": (130, 2, 16, 0),
    "large": (21, 40, 48, 0),
}


def tables_of(thd, sizes):
    """Extents of the data, and of the tables with their strides."""
    rows, second, d, step = sizes
    row = d // 2 if thd else second * d // 2
    if thd and step:
        step = row + (step % 3)
    return ((rows, second, d) if thd else (rows, second * d)), (rows, row), step


def rope_apply(draw, sizes, thd, names, kind="normal", tables="f32"):
    data, extents, step = tables_of(thd, sizes)
    words = ("t_outer", "h_heads") if thd else ("bh", "td")
    arrays = {names[0]: draw.floats(data, kind)}
    for name in ("cos_tab", "sin_tab"):
        arrays[name] = draw.floats(extents, "normal", (step, 1), tables)
    arrays[names[1]] = draw.output(data)
    return Problem(dict(zip(words, data)) | {"d": sizes[2], "stride_b": step}, arrays)


def table_values(problem, thd):
    """Tables, and the shape of data, as [row, position, pair] and [row, position, feature]."""
    first, second, d, _ = problem.scalars.values()
    shape = (first, second, d) if thd else (first, second // d, d)
    cos, sin = (problem.arrays[name].values.astype(np.longdouble) for name in ("cos_tab", "sin_tab"))
    tables = (first, 1, d // 2) if thd else (*shape[:2], d // 2)
    return shape, cos.reshape(tables), sin.reshape(tables)


def rope_apply_reference(thd, is_split, is_inverse):
    def reference(problem):
        names = [name for name in problem.arrays if not name.endswith("_tab")]
        shape, cos, sin = table_values(problem, thd)
        x = problem.arrays[names[0]].values.reshape(shape)
        value, magnitude = rotated(x, cos, sin, is_split, is_inverse)
        data = problem.arrays[names[0]].shape
        return {names[1]: expected(value.reshape(data), magnitude.reshape(data), 2)}

    return reference


def apply_bad(thd, names):
    words = ("t_outer", "h_heads") if thd else ("bh", "td")
    pointers = (*names, "cos_tab", "sin_tab")
    bad = [Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in (*words, "d", "stride_b")]
    bad += [
        Bad("no_features", 2, r"d is 0, must be even", {"d": 0}, can=2),
        Bad("odd_features", 2, r"d is 5, must be even", {"d": 5}, can=2),
        Bad("nothing_of_odd", 2, r"d is 5, must be even", {"d": 5, words[0]: 0}, can=2),
        *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in pointers),
        *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in pointers),
    ]
    huge = {words[0]: 2**31 - 1, words[1]: 2**31 - 8, "d": 8}
    bad.append(Bad("overflow", 2, rf"\w+ is {2**31 - 1}", huge, can=2))
    return bad if thd else [*bad, Bad("part_of_a_row", 2, r"td is 41, must be a multiple of d, 8", {"td": 41}, can=2)]


def rope_apply_case(name, thd, is_split, back, tables="f32"):
    names = ("dy", "dx") if back else ("x", "y")
    words = ("t_outer", "h_heads") if thd else ("bh", "td")
    return Case(
        row=f"{name}{'_backward' * back}_{{T}}",
        problems={
            key: lambda d, s=sizes: rope_apply(d, s, thd, names, "normal", tables) for key, sizes in TABLED.items()
        }
        | {"special": lambda d: rope_apply(d, (4, 5, 12, 0), thd, names, "special", tables)},
        reference=rope_apply_reference(thd, is_split, back), tolerance={names[1]: "pointwise"},
        plain="small", large="large", bad=tuple(apply_bad(thd, names)),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in words),
    )  # fmt: skip


APPLIED = (
    ("rope_apply", False, False, "f32"),
    ("rope_apply_interleaved", False, False, "f32"),
    ("rope_apply_thd", True, False, "f32"),
    ("rope_apply_half", False, True, "f32"),
    ("rope_apply_thd_half", True, True, "f32"),
    ("rope_apply_f64tab", False, False, "f64"),
    ("rope_apply_half_f64tab", False, True, "f64"),
    ("rope_apply_thd_f64tab", True, False, "f64"),
    ("rope_apply_thd_half_f64tab", True, True, "f64"),
)

CASES = (
    *rope_cases(),
    *rope_positions_cases("positions", rope_positions),
    *rope_positions_cases("starts", rope_starts),
    *(
        rope_apply_case(name, thd, is_split, back, tables)
        for name, thd, is_split, tables in APPLIED
        for back in (False, True)
    ),
)

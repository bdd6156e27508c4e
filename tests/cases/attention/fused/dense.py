# SPDX-License-Identifier: Apache-2.0
"""sdpa and flash_sdpa in all forms: probabilities, lse of T, strides, masks of f32, block patterns."""

import math

import numpy as np

from ...model import Bad, Case, Idle, Problem
from ..oracle import SIXTEEN, Rules, forward, window_bounds

# batch, heads, q_len, k_len, d_k, d_v
SHAPES = {
    "one": (1, 1, 1, 1, 1, 1),
    "small": (2, 3, 5, 7, 8, 8),
    "pairs": (1, 2, 2, 2, 2, 2),
    "wide_values": (2, 2, 9, 17, 8, 40),
    "wide_keys": (1, 2, 17, 9, 24, 5),
    "more_queries": (1, 2, 129, 33, 16, 16),
    "more_keys": (1, 2, 33, 129, 16, 16),
    "tile": (1, 2, 64, 64, 64, 64),
    "around_tile": (1, 1, 63, 65, 32, 32),
    "two_tiles": (1, 1, 65, 127, 48, 48),
    "one_query": (2, 4, 1, 200, 64, 64),
    "one_key": (2, 2, 20, 1, 16, 16),
    "odd": (2, 2, 20, 21, 13, 13),
    "padded": (1, 2, 17, 40, 72, 72),
    "wide": (1, 1, 9, 40, 128, 128),
    "wider": (1, 1, 5, 20, 256, 256),
    "widest": (1, 1, 3, 18, 520, 300),
    "heads": (1, 33, 3, 4, 8, 8),
    "no_keys": (2, 3, 5, 0, 4, 6),
    "large": (2, 3, 70, 90, 40, 40),
}
EXTENTS = ("batch", "heads", "q_len", "k_len", "d_k", "d_v")


def scalars_of(shape, **more):
    return dict(zip(EXTENTS, shape)) | {"scale": 1 / math.sqrt(max(shape[4], 1)), "is_causal": 0} | more


def extents_of(shape):
    """Shapes of q, k, v and y."""
    b, h, q, k, d, dv = shape
    return {"q": (b, h, q, d), "k": (b, h, k, d), "v": (b, h, k, dv), "y": (b, h, q, dv)}


def operands(draw, shape, outputs=("lse",), kind="normal"):
    e = extents_of(shape)
    arrays = {name: draw.floats(e[name], kind) for name in "qkv"}
    arrays["y"] = draw.output(e["y"])
    scores = (*shape[:4],)
    for name in outputs:
        arrays[name] = draw.output(scores if name == "attn" else scores[:3])
    return arrays


def values_of(problem, *names):
    return [problem.arrays[name].values.astype(np.float64) for name in names]


def rules_of(problem, **more):
    left, right = window_bounds(problem.scalars["is_causal"])
    return Rules(scale=problem.scalars["scale"], left=left, right=right, **more)


def results(problem, rules):
    """The expected outputs among those that the problem has."""
    q, k, v = values_of(problem, "q", "k", "v")
    found = forward(q, k, v, rules, problem.arrays["q"].dtype in SIXTEEN)
    return {name: found[name] for name in found if name in problem.arrays}


def both(make, shapes=SHAPES, **options):
    """Problems with and without the causal mask."""
    table = {}
    for name, shape in shapes.items():
        table[name] = lambda d, s=shape: make(d, s, **options)
        table[f"{name}_causal"] = lambda d, s=shape: make(d, s, is_causal=1, **options)
    return table


# --- probabilities ---------------------------------------------------------------------------------------------------


def sdpa(draw, shape, has_mask=0, kind="normal", lost=0.0, **scalars):
    arrays = operands(draw, shape, ("attn",), kind)
    mask = draw.floats(shape[:4]).values
    mask = np.where(draw.rng.random(shape[:4]) < lost, -np.inf, mask)
    arrays["mask"] = draw.array(np.where(draw.rng.random(shape[:3])[..., None] < lost / 2, -np.inf, mask))
    return Problem(scalars_of(shape, has_mask=has_mask, **scalars), arrays, null=() if has_mask else ("mask",))


def sdpa_reference(problem):
    bias = problem.arrays["mask"].values if problem.scalars["has_mask"] else None
    return results(problem, rules_of(problem, bias=bias))


def sdpa_problems():
    table = both(sdpa)
    table["plain"] = lambda d: sdpa(d, SHAPES["small"], has_mask=1)
    for name in ("small", "around_tile", "more_queries", "odd"):
        table[f"{name}_mask"] = lambda d, s=SHAPES[name]: sdpa(d, s, has_mask=1)
        table[f"{name}_holes"] = lambda d, s=SHAPES[name]: sdpa(d, s, has_mask=1, lost=0.5, is_causal=1)
    table["any_flag"] = lambda d: sdpa(d, (1, 2, 6, 6, 8, 8), has_mask=-3, is_causal=7)
    table["negative_scale"] = lambda d: sdpa(d, (1, 2, 9, 10, 8, 8), scale=-1.5)
    table["no_scale"] = lambda d: sdpa(d, (1, 2, 9, 10, 8, 8), scale=0.0)
    table["no_features"] = lambda d: sdpa(d, (1, 2, 4, 6, 0, 8), has_mask=1)
    return table


def bad_calls(row_arrays, extents=EXTENTS, required=None, huge=True):
    bad = [Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in extents]
    bad.append(Bad("negative_beside_0", 2, r"q_len is -1", {"batch": 0, "q_len": -1}, can=2))
    bad += [Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in (required or row_arrays)]
    bad += [Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in row_arrays]
    if huge:
        far = dict.fromkeys(("batch", "heads", "q_len", "d_v"), 2**31 - 9)
        bad.append(Bad("overflow", 2, rf"\w+ is {2**31 - 9}", far, can=2))
    return tuple(bad)


IDLE = tuple(Idle(f"no_{e}", {e: 0}) for e in ("batch", "heads", "q_len", "d_v"))
MASK_BAD = (
    Bad("null_mask", 2, r"mask is NULL", null=("mask",)),
    Bad("odd_mask", 1, r"mask is 0x[0-9a-f]+", shift={"mask": 1}),
)


# --- strides ---------------------------------------------------------------------------------------------------------


def steps_of(extents, order=(0, 1, 2), flip=(), shared=(), gap=0):
    """Strides of batch, heads and rows, laid out in an order, whose rows are contiguous."""
    steps, step = [0, 0, 0], extents[3] + gap
    for axis in reversed(order):
        if axis in shared:
            continue
        steps[axis] = -step if axis in flip else step
        step *= max(extents[axis], 1)
    return tuple(steps)


VIEWS = {
    "plain": {},
    "tokens_first": {name: {"order": (0, 2, 1)} for name in "qkvy"},
    "batch_inside": {name: {"order": (1, 2, 0), "gap": 3} for name in "qkvy"},
    "flipped": {"q": {"flip": (2,)}, "k": {"flip": (0, 2)}, "v": {"flip": (1,)}, "y": {"flip": (0, 1, 2)}},
    "gaps": {"q": {"gap": 1}, "k": {"gap": 2}, "v": {"gap": 8}, "y": {"gap": 5}},
    "shared_head": {"k": {"shared": (1,)}, "v": {"shared": (1,)}},
    "shared_keys_only": {"k": {"shared": (1,)}},
    "shared_batch": {"k": {"shared": (0, 1)}, "v": {"shared": (0,)}, "q": {"shared": (1,)}},
    "one_row": {"k": {"shared": (2,)}, "q": {"shared": (2,)}},
}


def strided(make, names="qkvy"):
    """A problem whose operands have strides of batch, heads and rows."""

    def problem(draw, shape, view="plain", **options):
        found = make(draw, shape, **options)
        for name in names:
            array = found.arrays[name]
            steps = steps_of(array.shape, **VIEWS[view].get(name, {}))
            found.host[f"stride_{name}"] = steps
            values = array.values
            found.arrays[name] = (
                draw.output(array.shape, (*steps, 1), array.dtype)
                if values is None
                else draw.array(values, array.dtype, (*steps, 1))
            )
        if "mask" in found.arrays:
            found.host["stride_mask"] = None
        return found

    return problem


def strided_problems(make):
    table = both(
        make, {n: SHAPES[n] for n in ("one", "small", "around_tile", "more_queries", "odd", "no_keys", "large")}
    )
    for view in VIEWS:
        table[view] = lambda d, v=view: make(d, (2, 3, 20, 35, 16, 16), view=v)
        table[f"{view}_causal"] = lambda d, v=view: make(d, (3, 2, 35, 20, 24, 24), view=v, is_causal=1)
    return table


STRIDED_BAD = (
    *(Bad(f"no_stride_{n}", 2, rf"stride_{n} is NULL", host={f"stride_{n}": None}, can=2) for n in "qkvy"),
    Bad("far_stride", 2, rf"stride_k\[1\] is {2**60}", host={"stride_k": (8, 2**60, 8)}, can=2),
    Bad("one_place", 2, r"stride_y\[2\] is 0, but an output has 5 elements", host={"stride_y": (120, 40, 0)}, can=2),
)


# --- without probabilities -------------------------------------------------------------------------------------------


def flash(draw, shape, kind="normal", **scalars):
    return Problem(scalars_of(shape, **scalars), operands(draw, shape, kind=kind))


def flash_reference(problem):
    return results(problem, rules_of(problem))


def flash_problems():
    table = both(flash)
    table["peaked"] = lambda d: flash(d, (1, 2, 20, 150, 16, 16), scale=20.0)
    table["negative_scale"] = lambda d: flash(d, (1, 2, 9, 10, 8, 8), scale=-1.5)
    table["no_scale"] = lambda d: flash(d, (1, 2, 9, 10, 8, 8), scale=0.0)
    return table


def arbmask(draw, shape, lost=0.3, **scalars):
    problem = flash(draw, shape, **scalars)
    mask = draw.floats(shape[:4], dtype="f32").values
    mask = np.where(draw.rng.random(shape[:4]) < lost, -np.inf, mask)
    problem.arrays["mask"] = draw.array(
        np.where(draw.rng.random(shape[:3])[..., None] < lost / 2, -np.inf, mask), "f32"
    )
    return problem


def tree(draw):
    """A draft tree of 7 nodes after a verified prefix of 9 tokens: a node sees the prefix, itself and its ancestors."""
    problem = flash(draw, (2, 2, 7, 16, 8, 8))
    parents = (-1, 0, 0, 1, 1, 2, 5)
    mask = np.full((7, 16), -np.inf)
    mask[:, :9] = 0
    for node in range(7):
        at = node
        while at >= 0:
            mask[node, 9 + at] = 0
            at = parents[at]
    problem.arrays["mask"] = draw.array(np.broadcast_to(mask, (2, 2, 7, 16)).copy(), "f32")
    return problem


def arbmask_reference(problem):
    return results(problem, rules_of(problem, bias=problem.arrays["mask"].values))


def block_sparse(draw, shape, size=4, kept=0.5, **scalars):
    problem = flash(draw, shape, **scalars)
    blocks = (*shape[:2], -(-shape[2] // size), -(-shape[3] // size))
    pattern = draw.rng.integers(1, 256, blocks) * (draw.rng.random(blocks) < kept)
    problem.arrays["block_pattern"] = draw.array(pattern, "u8")
    problem.scalars["block_size"] = size
    return problem


def block_reference(problem):
    size, (q_len, k_len) = problem.scalars["block_size"], (problem.scalars[n] for n in ("q_len", "k_len"))
    pattern = problem.arrays["block_pattern"].values
    rows, columns = np.arange(q_len) // size, np.arange(k_len) // size
    return results(problem, rules_of(problem, keep=pattern[:, :, rows][..., columns]))


def block_problems():
    table = both(block_sparse)
    for size in (1, 3, 16, 63, 64, 65, 100):
        table[f"blocks_of_{size}"] = lambda d, n=size: block_sparse(d, (1, 2, 130, 140, 16, 16), n)
        table[f"blocks_of_{size}_causal"] = lambda d, n=size: block_sparse(d, (1, 2, 70, 140, 16, 16), n, is_causal=1)
    table["no_block"] = lambda d: block_sparse(d, (1, 2, 30, 40, 16, 16), 16, 0.0)
    table["each_block"] = lambda d: block_sparse(d, (1, 2, 30, 40, 16, 16), 16, 1.1)
    return table


OF_FLASH = {"y": "attention", "lse": "log_sum"}
FLASH = ("q", "k", "v", "y", "lse")
ONE_BYTE = Bad("odd_pattern", 1, r"block_pattern is 0x", shift={"block_pattern": 1})


def flash_case(row, problems, reference, bad):
    return Case(
        row=row, problems=problems, reference=reference, tolerance=OF_FLASH, plain="small", large="large", bad=bad,
        idle=IDLE,
    )  # fmt: skip


CASES = (
    Case(
        row="sdpa_{T}",
        problems=sdpa_problems(),
        reference=sdpa_reference,
        tolerance={"attn": "attention", "y": "attention"},
        plain="plain",
        large="large",
        bad=(*bad_calls(("q", "k", "v", "attn", "y")), *MASK_BAD),
        idle=IDLE,
    ),
    Case(
        row="sdpa_{T}_strided",
        problems=strided_problems(strided(sdpa)) | {"plain": lambda d: strided(sdpa)(d, SHAPES["small"], has_mask=1)},
        reference=sdpa_reference,
        tolerance={"attn": "attention", "y": "attention"},
        plain="plain",
        large="large",
        bad=(*bad_calls(("q", "k", "v", "attn", "y"), huge=False), *MASK_BAD, *STRIDED_BAD),
        idle=IDLE,
    ),
    flash_case("flash_sdpa_{T}", flash_problems(), flash_reference, bad_calls(FLASH)),
    flash_case("flash_sdpa_sm89_{T}", flash_problems(), flash_reference, bad_calls(FLASH)),
    flash_case(
        "flash_sdpa_sm89_{T}_strided",
        strided_problems(strided(flash)),
        flash_reference,
        (*bad_calls(FLASH, huge=False), *STRIDED_BAD),
    ),
    flash_case("sdpa_{T}_arbmask", both(arbmask) | {"tree": tree}, arbmask_reference, bad_calls((*FLASH, "mask"))),
    flash_case(
        "sdpa_{T}_block_sparse",
        block_problems(),
        block_reference,
        (
            *bad_calls(FLASH, required=(*FLASH, "block_pattern")),
            ONE_BYTE,
            Bad("no_block_size", 3, r"block_size is 0, must be >= 1", {"block_size": 0}, can=3),
            Bad("negative_block_size", 3, r"block_size is -2, must be >= 1", {"block_size": -2, "batch": 0}, can=3),
        ),
    ),
)

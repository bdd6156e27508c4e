# SPDX-License-Identifier: Apache-2.0
"""Attention with masks, biases, windows, caps, ALiBi, sinks and dropout; its gradients; sequences in one tensor."""

import numpy as np

from tools.oracle.numerics import COMPUTE, round_to

from ...model import Bad, Case, Expected, Idle, Problem
from ..oracle import SIXTEEN, Rules, backward, dropout_factor, forward, gather, of_sequence, window_bounds
from .dense import steps_of
from .fa2 import RAGGED, offsets_of, sequences

# batch, heads, kv_heads, q_len, k_len, d_k, d_v
SHAPES = {
    "one": (1, 1, 1, 1, 1, 1, 1),
    "small": (2, 6, 3, 5, 7, 8, 8),
    "wide_values": (1, 4, 2, 9, 17, 8, 40),
    "wide_keys": (1, 2, 1, 17, 9, 24, 5),
    "one_key_head": (2, 5, 1, 9, 17, 24, 16),
    "group_of_7": (1, 14, 2, 17, 33, 40, 40),
    "group_of_16": (1, 16, 1, 3, 20, 16, 16),
    "more_queries": (1, 4, 2, 129, 33, 16, 16),
    "more_keys": (1, 4, 2, 33, 129, 16, 16),
    "tile": (1, 2, 1, 64, 64, 64, 64),
    "around_tile": (1, 2, 2, 63, 65, 32, 32),
    "one_query": (3, 8, 2, 1, 150, 64, 64),
    "odd": (2, 2, 1, 20, 21, 13, 13),
    "padded": (1, 2, 1, 17, 40, 72, 72),
    "latent": (1, 2, 1, 3, 18, 576, 512),
    "wide": (1, 2, 1, 9, 40, 192, 128),
    "no_keys": (2, 4, 2, 5, 0, 4, 6),
    "large": (2, 6, 2, 70, 90, 40, 40),
}
WORDS = ("batch", "heads", "kv_heads", "q_len", "k_len", "d_k", "d_v")
OPTIONAL = ("bias", "mask", "slopes", "sinks", "seed")
STRIDED = {"q": "q", "k": "k", "v": "v", "y": "y", "dy": "y", "dq": "q", "dk": "k", "dv": "v"}
SEED = 0x123456789ABCDEF1


def extents_of(shape):
    b, h, hk, q_len, k_len, d, dv = shape
    return {"q": (b, h, q_len, d), "k": (b, hk, k_len, d), "v": (b, hk, k_len, dv), "y": (b, h, q_len, dv)}


def rules_of(problem, **more):
    s, arrays = problem.scalars, problem.arrays

    def given(name):
        return None if name in problem.null or name not in arrays else arrays[name].values

    left, right = window_bounds(s["is_causal"], s["window_left"], s["window_right"])
    return Rules(
        scale=s["scale"], left=left, right=right, aligns_ends=bool(s["aligns_ends"]), softcap=s["softcap"],
        slopes=given("slopes"), sinks=given("sinks"), bias=given("bias"), keep=given("mask"), **more,
    )  # fmt: skip


def factor_of(problem, shape):
    s = problem.scalars
    return dropout_factor(s["dropout"], SEED, shape) if s["dropout"] else 1.0


def scalars_of(words, shape, *, d, scale=None, is_causal=0, aligns_ends=0, left=-1, right=-1, softcap=0.0, dropout=0.0):
    return dict(zip(words, shape)) | {
        "scale": scale or max(d, 1) ** -0.5, "is_causal": is_causal, "aligns_ends": aligns_ends, "window_left": left,
        "window_right": right, "softcap": softcap, "dropout": dropout, "is_batch_invariant": 0,
    }  # fmt: skip


def small_operands(draw, heads):
    return {
        "slopes": draw.array(round_to(draw.floats((heads,), dtype="f32").values * 0.25, "f32"), "f32"),
        "sinks": draw.floats((heads,), dtype="f32"),
        "seed": draw.array(np.array([SEED], np.int64), "i64"),
    }  # fmt: skip


def dense(is_backward):
    def make(draw, shape, bias=None, mask=None, uses=(), view=None, null=(), **choices):
        """bias, mask: axes along which they are broadcast; uses: other operands."""
        b, h, _, q_len, k_len, *_ = shape
        e = extents_of(shape)
        view = view or {}
        scalars = scalars_of(WORDS, shape, d=shape[5], **choices)
        arrays, host = {}, {}
        names = ("q", "k", "v", "y", "dy", "dq", "dk", "dv") if is_backward else ("q", "k", "v", "y")
        for name in names:
            steps = steps_of(e[STRIDED[name]], **view.get(name, {}))
            host[f"stride_{name}"] = steps
            is_output = name in ("dq", "dk", "dv") or (name == "y" and not is_backward)
            make_array = draw.output if is_output else draw.floats
            arrays[name] = make_array(e[STRIDED[name]], strides=(*steps, 1))
        uses = {*uses, *(("bias",) if bias is not None else ()), *(("mask",) if mask is not None else ())}
        uses |= {"seed"} if scalars["dropout"] else set()
        for name, axes in (("bias", bias), ("mask", mask)):
            steps = [
                0 if axis in (axes or ()) else n for axis, n in enumerate((h * q_len * k_len, q_len * k_len, k_len, 1))
            ]
            host[f"stride_{name}"] = tuple(steps) if name in uses else None
            if name == "bias":
                values = np.where(draw.rng.random(shape_of(shape)) < 0.1, -np.inf, draw.floats(shape_of(shape)).values)
                arrays[name] = draw.array(values, strides=tuple(steps))
            else:
                values = draw.rng.integers(1, 256, shape_of(shape)) * (draw.rng.random(shape_of(shape)) < 0.7)
                arrays[name] = draw.array(values, "u8", tuple(steps))
        arrays |= small_operands(draw, h)
        problem = Problem(scalars, arrays, host, tuple(n for n in OPTIONAL if n not in uses) + tuple(null))
        if not is_backward:
            arrays["lse"] = draw.output((b, h, q_len), dtype=COMPUTE[draw.dtype])
            return problem
        saved = forward(
            *(arrays[n].values for n in "qkv"), rules_of(problem, factor=factor_of(problem, shape_of(shape)))
        )
        arrays["y"] = draw.array(round_to(saved["y"].value, draw.dtype), strides=arrays["y"].strides)
        arrays["lse"] = draw.array(round_to(saved["lse"].value, COMPUTE[draw.dtype]), COMPUTE[draw.dtype])
        arrays["dbias"] = draw.output(shape_of(shape))
        arrays["dsinks"] = draw.output((h,), dtype="f32")
        if bias is None:
            problem.null += ("dbias",)
        return problem

    return make


def shape_of(shape):
    """Extents of the scores."""
    return (*shape[:2], *shape[3:5])


def dense_reference(problem):
    q, k, v = (problem.arrays[n].values for n in "qkv")
    rules = rules_of(problem, factor=factor_of(problem, (*q.shape[:3], k.shape[2])))
    if "dy" in problem.arrays:
        found = backward(q, k, v, *(problem.arrays[n].values for n in ("y", "lse", "dy")), rules)
        names = ("dq", "dk", "dv", "dbias", "dsinks")
    else:
        found, names = forward(q, k, v, rules, problem.arrays["q"].dtype in SIXTEEN), ("y", "lse")
    if "dsinks" in names and "dsinks" not in found:
        found["dsinks"] = Expected(np.zeros(q.shape[1]))
    return {name: found[name] for name in names if name not in problem.null}


VIEWS = {
    "tokens_first": {name: {"order": (0, 2, 1)} for name in STRIDED},
    "batch_inside": {name: {"order": (1, 2, 0), "gap": 3} for name in STRIDED},
    "flipped": {
        "q": {"flip": (2,)},
        "k": {"flip": (0, 2)},
        "v": {"flip": (1,)},
        "y": {"flip": (0, 1, 2)},
        "dq": {"flip": (1,)},
    },
    "gaps": {"q": {"gap": 1}, "k": {"gap": 2}, "v": {"gap": 8}, "y": {"gap": 5}, "dy": {"gap": 7}, "dv": {"gap": 1}},
    "shared": {"k": {"shared": (0, 1)}, "v": {"shared": (1,)}, "q": {"shared": (0,)}, "dy": {"shared": (0, 1, 2)}},
}
FEATURES = {
    "window_left": {"left": 3},
    "window_right": {"right": 2},
    "window_of_one": {"left": 0, "right": 0},
    "window": {"left": 5, "right": 4},
    "softcap": {"softcap": 1.5},
    "slopes": {"uses": ("slopes",)},
    "sinks": {"uses": ("sinks",)},
    "bias": {"bias": ()},
    "bias_of_keys": {"bias": (0, 1, 2)},
    "bias_of_heads": {"bias": (0, 2)},
    "mask": {"mask": ()},
    "mask_of_keys": {"mask": (1, 2)},
    "mask_of_queries": {"mask": (0, 1, 3)},
    "dropout": {"dropout": 0.25},
    "much_dropout": {"dropout": 0.9},
    "all": {"bias": (1,), "mask": (0,), "uses": ("slopes", "sinks"), "left": 20, "softcap": 3.0, "dropout": 0.125},
}
ALIGNED = {"top": {"is_causal": 1}, "bottom": {"is_causal": 1, "aligns_ends": 1}, "windowed_bottom": {"aligns_ends": 1}}


def dense_problems(make):
    table = {}

    def add(name, shape, **options):
        table[name] = lambda d: make(d, shape, **options)

    for name, shape in SHAPES.items():
        add(name, shape)
        add(f"{name}_top", shape, is_causal=1)
        add(f"{name}_bottom", shape, is_causal=1, aligns_ends=1)
    add("plain", SHAPES["small"], **FEATURES["all"])
    for feature, options in FEATURES.items():
        for k, shape in enumerate(((2, 4, 2, 20, 33, 16, 16), (1, 4, 1, 40, 17, 24, 8))):
            add(f"{feature}_{k}", shape, **options)
            for align, choices in ALIGNED.items():
                add(f"{feature}_{k}_{align}", shape, **options, **choices)
    for view, layouts in VIEWS.items():
        add(view, (2, 6, 2, 20, 35, 16, 16), view=layouts)
        add(f"{view}_bottom", (3, 4, 4, 35, 20, 24, 24), view=layouts, is_causal=1, aligns_ends=1)
    return table


def backward_problems():
    make = dense(True)
    table = dense_problems(make) | {"no_queries": lambda d: make(d, (2, 4, 2, 0, 5, 4, 6))}
    for name in ("dq", "dk", "dv"):
        others = tuple(n for n in ("dq", "dk", "dv", "dsinks") if n != name)
        table[f"{name}_only"] = lambda d, n=others: make(d, (1, 4, 2, 20, 33, 16, 16), null=n)
    table["dbias_only"] = lambda d: make(d, (1, 4, 2, 20, 33, 16, 16), bias=(), null=("dq", "dk", "dv", "dsinks"))
    return table


def forward_problems():
    make = dense(False)
    return dense_problems(make) | {"no_lse": lambda d: make(d, (1, 4, 2, 20, 33, 16, 16), null=("lse",))}


def choices_bad(words):
    return (
        *(Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in words),
        Bad("uneven_groups", 2, r"kv_heads is 4, must divide heads, 6", {"kv_heads": 4}, can=2),
        Bad("no_groups", 2, r"kv_heads is 0, must divide heads, 6", {"kv_heads": 0}, can=2),
        Bad("softcap", 2, r"softcap is -0.5, must be >= 0 and finite", {"softcap": -0.5}, can=2),
        Bad("nan_softcap", 2, r"softcap is -?nan", {"softcap": float("nan")}, can=2),
        Bad("negative_dropout", 2, r"dropout is -0.5, must be in \[0, 1\)", {"dropout": -0.5}, can=2),
        Bad("all_dropped", 2, r"dropout is 1, must be in \[0, 1\)", {"dropout": 1.0}, can=2),
        Bad("no_seed", 2, r"seed is NULL, but dropout is 0.5", {"dropout": 0.5}, null=("seed",)),
    )


def pointers_bad(required, optional):
    return (
        *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in required),
        *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in required),
        *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in optional),
    )


def strides_bad(names, outputs):
    return (
        *(Bad(f"no_stride_{n}", 2, rf"stride_{n} is NULL", host={f"stride_{n}": None}, can=2) for n in names),
        Bad("far_stride", 2, rf"stride_k\[1\] is {2**60}", host={"stride_k": (8, 2**60, 8)}, can=2),
        *(
            Bad(
                f"one_place_{n}",
                2,
                rf"stride_{n}\[1\] is 0, but an output has",
                host={f"stride_{n}": (999, 0, 99)},
                can=2,
            )
            for n in outputs
        ),
        Bad("no_bias_strides", 2, r"bias is given without strides: stride_bias is NULL", host={"stride_bias": None}),
        Bad("no_mask_strides", 2, r"mask is given without strides: stride_mask is NULL", host={"stride_mask": None}),
        Bad("far_bias", 2, rf"stride_bias\[0\] is {2**60}", host={"stride_bias": (2**60, 1, 1, 1)}, can=2),
    )


# --- sequences in one tensor -----------------------------------------------------------------------------------------

VARLEN = ("batch", "heads", "kv_heads", "max_q_len", "max_k_len", "total_q", "total_k", "d_k", "d_v")


def varlen(is_backward):
    def make(draw, shape, uses=(), wide=0, unowned=(0, 0), null=(), **choices):
        q_lens, k_lens, h, hk, d = shape
        batch, total_q, total_k = len(q_lens), sum(q_lens) + unowned[0], sum(k_lens) + unowned[1]
        extents = (batch, h, hk, max(q_lens), max(k_lens), total_q, total_k, d, d + wide)
        scalars = scalars_of(VARLEN, extents, d=d, **choices)
        arrays = {"q": draw.floats((total_q, h, d)), "k": draw.floats((total_k, hk, d))}
        arrays["v"] = draw.floats((total_k, hk, d + wide))
        arrays["cu_seqlens_q"] = draw.array(offsets_of(q_lens), "i32")
        arrays["cu_seqlens_k"] = draw.array(offsets_of(k_lens), "i32")
        arrays |= small_operands(draw, h)
        uses = {*uses} | ({"seed"} if scalars["dropout"] else set())
        problem = Problem(scalars, arrays, null=tuple(n for n in OPTIONAL[2:] if n not in uses) + tuple(null))
        arrays["y"], arrays["lse"] = (
            draw.output((total_q, h, d + wide)),
            draw.output((h, total_q), dtype=COMPUTE[draw.dtype]),
        )
        if not is_backward:
            return problem
        saved = varlen_reference(problem)
        arrays["y"] = draw.array(round_to(saved["y"].value, draw.dtype))
        arrays["lse"] = draw.array(round_to(saved["lse"].value, COMPUTE[draw.dtype]), COMPUTE[draw.dtype])
        arrays["dy"] = draw.floats((total_q, h, d + wide))
        arrays |= {n: draw.output(arrays[o].shape) for n, o in (("dq", "q"), ("dk", "k"), ("dv", "v"))}
        arrays["dsinks"] = draw.output((h,), dtype="f32")
        return problem

    return make


def varlen_reference(problem):
    arrays = problem.arrays
    is_backward, each, sinks = "dy" in arrays, [], None
    heads = problem.scalars["heads"]
    longest = (problem.scalars["max_q_len"], problem.scalars["max_k_len"])
    factor = factor_of(problem, (problem.scalars["batch"], heads, *longest))
    for b, rows, keys in sequences(problem):
        q, k, v = of_sequence(arrays["q"].values, rows), *(of_sequence(arrays[n].values, keys) for n in "kv")
        own = factor if np.ndim(factor) == 0 else factor[b : b + 1, :, : q.shape[2], : k.shape[2]]
        rules = rules_of(problem, factor=own)
        if not is_backward:
            each.append((rows, keys, forward(q, k, v, rules, problem.arrays["q"].dtype in SIXTEEN)))
            continue
        y, dy = (of_sequence(arrays[n].values, rows) for n in ("y", "dy"))
        found = backward(q, k, v, y, arrays["lse"].values[None, :, rows], dy, rules)
        each.append((rows, keys, found))
        if "dsinks" in found:
            e = found["dsinks"]
            parts = (e.value, e.count, e.magnitude, e.divided)
            sinks = parts if sinks is None else tuple(x + y for x, y in zip(sinks, parts))
    if not is_backward:
        found = gather(problem, each, {"y": ("y", False, 0.0), "lse": ("lse", False, -np.inf)})
        return {name: e for name, e in found.items() if name not in problem.null}
    found = gather(problem, each, {n: (n, n != "dq", 0.0) for n in ("dq", "dk", "dv")})
    found["dsinks"] = Expected(np.zeros(heads)) if sinks is None else Expected(*sinks)
    return {name: e for name, e in found.items() if name not in problem.null}


def varlen_problems(make):
    table = {}

    def add(name, shape, **options):
        table[name] = lambda d: make(d, shape, **options)

    for name, shape in RAGGED.items():
        add(name, shape)
        add(f"{name}_top", shape, is_causal=1)
        add(f"{name}_bottom", shape, is_causal=1, aligns_ends=1)
    add("plain", RAGGED["small"], uses=("slopes", "sinks"), dropout=0.25)
    for feature, options in FEATURES.items():
        if {"bias", "mask"} & options.keys():
            continue
        for k, shape in enumerate((((20, 0, 9), (20, 5, 30), 4, 2, 16), ((30, 3), (7, 40), 4, 1, 24))):
            for align, choices in ALIGNED.items():
                add(f"{feature}_{k}_{align}", shape, **options, **choices)
    add("wide_values", ((9, 0, 12), (7, 3, 20), 4, 2, 16), wide=9)
    add("unowned", ((7, 9), (5, 8), 2, 1, 16), unowned=(3, 4))
    add("everything", ((20, 9), (20, 30), 4, 2, 16), uses=("slopes", "sinks"), left=9, softcap=2.0, dropout=0.25)
    return table


FORWARD, BACKWARD = ("q", "k", "v", "y"), ("q", "k", "v", "y", "lse", "dy")
GRADIENTS = ("dq", "dk", "dv")
OFFSETS = ("cu_seqlens_q", "cu_seqlens_k")
OF_FORWARD = {"y": "attention", "lse": "log_sum"}
OF_BACKWARD = dict.fromkeys((*GRADIENTS, "dbias", "dsinks"), "attention")
IDLE = (*(Idle(f"no_{e}", {e: 0}) for e in ("batch", "q_len", "d_v")), Idle("no_heads", {"heads": 0, "kv_heads": 0}))
IDLE_BACKWARD = (Idle("no_batch", {"batch": 0}), Idle("no_heads", {"heads": 0, "kv_heads": 0}),
                 Idle("no_rows", {"q_len": 0, "k_len": 0}), Idle("no_elements", {"d_k": 0, "d_v": 0}))  # fmt: skip
VARLEN_IDLE = (Idle("no_heads", {"heads": 0, "kv_heads": 0}),)
NO_BATCH = Bad("no_batch", 2, r"batch is 0, must be >= 1 where there are rows", {"batch": 0}, can=2)

CASES = (
    Case(
        row="attention_{T}",
        problems=forward_problems(),
        reference=dense_reference,
        tolerance=OF_FORWARD,
        plain="plain",
        large="large",
        bad=(
            *choices_bad(WORDS),
            *pointers_bad(FORWARD, ("bias", "mask", "slopes", "sinks", "seed", "lse")),
            *strides_bad(FORWARD, ("y",)),
        ),
        idle=IDLE,
    ),
    Case(
        row="attention_backward_{T}",
        problems=backward_problems(),
        reference=dense_reference,
        tolerance=OF_BACKWARD,
        plain="plain",
        large="large",
        bad=(
            *choices_bad(WORDS),
            *pointers_bad(BACKWARD, ("bias", "mask", "slopes", "sinks", "seed", *GRADIENTS, "dbias", "dsinks")),
            *strides_bad((*FORWARD, "dy", *GRADIENTS), GRADIENTS),
        ),
        idle=IDLE_BACKWARD,
    ),
    Case(
        row="attention_varlen_{T}",
        problems=varlen_problems(varlen(False)),
        reference=varlen_reference,
        tolerance=OF_FORWARD,
        plain="plain",
        large="large",
        bad=(*choices_bad(VARLEN), *pointers_bad((*FORWARD, *OFFSETS), ("slopes", "sinks", "seed", "lse")), NO_BATCH),
        idle=VARLEN_IDLE,
    ),
    Case(
        row="attention_varlen_backward_{T}",
        problems=varlen_problems(varlen(True)),
        reference=varlen_reference,
        tolerance=OF_BACKWARD,
        plain="plain",
        large="large",
        bad=(
            *choices_bad(VARLEN),
            *pointers_bad((*BACKWARD, *OFFSETS), ("slopes", "sinks", "seed", *GRADIENTS, "dsinks")),
            NO_BATCH,
        ),
        idle=VARLEN_IDLE,
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""The interface of FlashAttention-2: grouped heads, windows, caps, ALiBi, sequences in one tensor."""

import numpy as np

from tools.oracle.numerics import round_to

from ...model import Bad, Case, Problem
from ..oracle import Rules, backward, forward, gather, of_sequence, window_bounds

# batch, num_heads, num_heads_k, seq_q, seq_k, head_dim
SHAPES = {
    "one": (1, 1, 1, 1, 1, 1),
    "small": (2, 6, 3, 5, 7, 8),
    "own_heads": (1, 3, 3, 20, 20, 32),
    "one_key_head": (2, 5, 1, 9, 17, 24),
    "group_of_7": (1, 14, 2, 17, 33, 40),
    "group_of_16": (1, 16, 1, 3, 20, 16),
    "more_queries": (1, 4, 2, 129, 33, 16),
    "more_keys": (1, 4, 2, 33, 129, 16),
    "tile": (1, 2, 1, 64, 64, 64),
    "around_tile": (1, 2, 2, 63, 65, 32),
    "two_tiles": (1, 1, 1, 127, 65, 48),
    "one_query": (3, 8, 2, 1, 150, 64),
    "odd": (2, 2, 1, 20, 21, 13),
    "wide": (1, 2, 1, 9, 40, 128),
    "wider": (1, 2, 1, 5, 20, 256),
    "widest": (1, 1, 1, 3, 18, 520),
    "large": (2, 6, 2, 70, 90, 40),
}
WORDS = ("batch", "num_heads", "num_heads_k", "seq_q", "seq_k", "head_dim")
FORWARD, BACKWARD = ("q", "k", "v", "out", "softmax_lse"), ("q", "k", "v", "o", "dout", "lse", "dq", "dk", "dv")
NAMES = {"y": "out", "lse": "softmax_lse"}


def features(draw, batch, heads, slopes="", left=-1, right=-1, softcap=0.0):
    """Scalars and slopes of a call: slopes of all batches, of each, or further apart."""
    step = {"": 0, "all": 0, "each": heads, "apart": heads + 3}[slopes]
    rows = draw.floats((1 if step == 0 else batch, heads), dtype="f32").values * 0.25
    values = np.broadcast_to(round_to(rows, "f32"), (batch, heads)).copy()
    array = draw.array(values, "f32", (step, 1))
    scalars = {
        "alibi_batch_stride": step, "window_size_left": left, "window_size_right": right, "softcap": softcap,
    }  # fmt: skip
    return scalars, array, () if slopes else ("?",)


def rules_of(problem, slopes="", **more):
    s = problem.scalars
    left, right = window_bounds(s["is_causal"], s.get("window_size_left", -1), s.get("window_size_right", -1))
    given = slopes and slopes not in problem.null
    return Rules(
        scale=s["softmax_scale"], left=left, right=right, aligns_ends=True, softcap=s.get("softcap", 0.0),
        slopes=problem.arrays[slopes].values if given else None, empty=np.inf, **more,
    )  # fmt: skip


def slopes_of(problem):
    return next((name for name in problem.arrays if name.startswith("alibi_slopes")), "")


# --- dense -----------------------------------------------------------------------------------------------------------


def dense(version):
    """version: 1, 2, or 3 for the gradients."""

    def make(draw, shape, is_causal=0, scale=None, **options):
        b, h, hk, q_len, k_len, d = shape
        scalars = dict(zip(WORDS, shape)) | {"softmax_scale": scale or d**-0.5, "is_causal": is_causal}
        arrays = {"q": draw.floats((b, h, q_len, d))}
        arrays |= {name: draw.floats((b, hk, k_len, d)) for name in "kv"}
        null = ()
        if version > 1:
            more, slopes, absent = features(draw, b, h, **options)
            scalars |= more
            name = "alibi_slopes" if version == 2 else "alibi_slopes_ptr"
            arrays[name], null = slopes, (name,) if absent else ()
        problem = Problem(scalars, arrays, null=null)
        if version < 3:
            arrays["out"], arrays["softmax_lse"] = (
                draw.output((b, h, q_len, d)),
                draw.output((b, h, q_len), dtype="f32"),
            )
            return problem
        saved = forward(*(arrays[n].values for n in "qkv"), rules_of(problem, slopes_of(problem)))
        arrays["o"] = draw.array(round_to(saved["y"].value, draw.dtype))
        arrays["lse"] = draw.array(round_to(saved["lse"].value, "f32"), "f32")
        arrays["dout"] = draw.floats((b, h, q_len, d))
        arrays["dq"] = draw.output((b, h, q_len, d))
        arrays |= {name: draw.output((b, hk, k_len, d)) for name in ("dk", "dv")}
        return problem

    return make


def dense_reference(problem):
    rules = rules_of(problem, slopes_of(problem))
    q, k, v = (problem.arrays[n].values for n in "qkv")
    if "out" in problem.arrays:
        found = forward(q, k, v, rules, True)
        return {NAMES[name]: found[name] for name in NAMES}
    y, lse, dy = (problem.arrays[n].values for n in ("o", "lse", "dout"))
    found = backward(q, k, v, y, lse, dy, rules)
    return {name: found[name] for name in ("dq", "dk", "dv")}


FEATURES = {
    "window_left": {"left": 3},
    "window_right": {"right": 2},
    "window": {"left": 5, "right": 4},
    "window_of_one": {"left": 0, "right": 0},
    "window_ahead": {"left": 0, "right": 6},
    "window_far": {"left": 1000, "right": 1000},
    "softcap": {"softcap": 1.5},
    "slopes": {"slopes": "all"},
    "slopes_each": {"slopes": "each"},
    "slopes_apart": {"slopes": "apart"},
    "all": {"left": 9, "right": 3, "softcap": 2.0, "slopes": "each"},
}
PAIRS = ((1, 4, 2, 20, 20, 16), (2, 4, 2, 40, 17, 16), (2, 4, 1, 17, 70, 24))


def both(make, shapes=SHAPES, pairs=PAIRS, has_features=True):
    table = {}
    for name, shape in shapes.items():
        table[name] = lambda d, s=shape: make(d, s)
        table[f"{name}_causal"] = lambda d, s=shape: make(d, s, is_causal=1)
    if has_features:
        table["plain"] = lambda d: make(d, shapes["small"], **FEATURES["all"])
    for feature, options in FEATURES.items() if has_features else ():
        for k, shape in enumerate(pairs):
            table[f"{feature}_{k}"] = lambda d, s=shape, o=options: make(d, s, **o)
            table[f"{feature}_{k}_causal"] = lambda d, s=shape, o=options: make(d, s, is_causal=1, **o)
    return table


def bad_calls(arrays, positive, has_features=True, slopes=""):
    bad = [Bad(f"no_{e}", 2, rf"{e} is 0, must be >= 1", {e: 0}, can=2) for e in positive]
    bad += [Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in positive]
    bad += [
        Bad("no_features", 3, r"head_dim is 0, must be >= 1", {"head_dim": 0}, can=3),
        Bad("first_the_features", 3, r"head_dim is -2, must be >= 1", {"head_dim": -2, "batch": 0}, can=3),
        Bad("more_key_heads", 2, r"num_heads_k is 12, must divide num_heads, 6", {"num_heads_k": 12}, can=2),
        Bad("uneven_groups", 2, r"num_heads_k is 4, must divide num_heads, 6", {"num_heads_k": 4}, can=2),
        *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in arrays),
        *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays),
    ]
    if has_features:
        bad += [
            Bad("softcap", 2, r"softcap is -0.5, must be >= 0", {"softcap": -0.5}, can=2),
            Bad("step_back", 2, r"alibi_batch_stride is -1, must be >= 0", {"alibi_batch_stride": -1}),
            Bad("odd_slopes", 1, rf"{slopes} is 0x[0-9a-f]+", shift={slopes: 1}, of="slopes_0"),
        ]
    return tuple(bad)


# --- sequences in one tensor -----------------------------------------------------------------------------------------

# lengths of queries and of keys, heads, key-value heads, d
RAGGED = {
    "one": ((1,), (1,), 1, 1, 1),
    "small": ((3, 0, 5), (4, 2, 7), 6, 3, 8),
    "empty_members": ((0, 9, 0, 4, 0), (0, 3, 8, 0, 0), 4, 2, 16),
    "without_keys": ((5, 6), (0, 0), 2, 2, 8),
    "without_queries": ((0, 0), (5, 6), 2, 2, 8),
    "own_heads": ((17, 33), (20, 40), 3, 3, 32),
    "one_key_head": ((9, 1, 20), (17, 64, 5), 5, 1, 24),
    "around_tile": ((63, 65), (65, 63), 2, 1, 32),
    "tiles": ((64, 128), (129, 127), 2, 1, 16),
    "decode": ((1, 1, 1, 1), (40, 1, 150, 7), 8, 2, 64),
    "odd": ((7, 13), (20, 6), 2, 1, 13),
    "wide": ((9, 3), (20, 30), 2, 1, 128),
    "wider": ((4, 3), (9, 11), 2, 1, 256),
    "large": ((50, 0, 70, 33), (60, 5, 90, 1), 6, 2, 40),
}
VARLEN = ("batch", "num_heads", "num_heads_k", "max_seqlen_q", "max_seqlen_k", "total_q", "total_k", "head_dim")


def offsets_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths)])


def sequences(problem):
    """Slices of rows of queries and keys of each sequence."""
    q, k = (problem.arrays[f"cu_seqlens_{n}"].values for n in "qk")
    longest = problem.scalars.get("max_seqlen_q", problem.scalars.get("max_q_len"))
    longest_k = problem.scalars.get("max_seqlen_k", problem.scalars.get("max_k_len"))
    ends = [np.clip(x, 0, problem.scalars[t]) for x, t in ((q, "total_q"), (k, "total_k"))]
    for b in range(len(q) - 1):
        begin, begin_k = int(ends[0][b]), int(ends[1][b])
        count, count_k = max(int(ends[0][b + 1]) - begin, 0), max(int(ends[1][b + 1]) - begin_k, 0)
        yield b, slice(begin, begin + min(count, longest)), slice(begin_k, begin_k + min(count_k, longest_k))


def varlen(is_backward):
    def make(draw, shape, is_causal=0, short=(0, 0), unowned=(0, 0), **options):
        q_lens, k_lens, h, hk, d = shape
        batch, total_q, total_k = len(q_lens), sum(q_lens) + unowned[0], sum(k_lens) + unowned[1]
        longest = max(1, max(q_lens) - short[0]), max(1, max(k_lens) - short[1])
        total_q, total_k = max(total_q, 1), max(total_k, 1)
        scalars = dict(zip(VARLEN, (batch, h, hk, *longest, total_q, total_k, d)))
        scalars |= {"softmax_scale": d**-0.5, "is_causal": is_causal}
        more, slopes, absent = features(draw, batch, h, **options)
        scalars |= more
        arrays = {"alibi_slopes_ptr": slopes, "q": draw.floats((total_q, h, d))}
        arrays |= {name: draw.floats((total_k, hk, d)) for name in "kv"}
        arrays["cu_seqlens_q"] = draw.array(offsets_of(q_lens), "i32")
        arrays["cu_seqlens_k"] = draw.array(offsets_of(k_lens), "i32")
        problem = Problem(scalars, arrays, null=("alibi_slopes_ptr",) if absent else ())
        arrays["out"], arrays["softmax_lse"] = draw.output((total_q, h, d)), draw.output((h, total_q), dtype="f32")
        if not is_backward:
            return problem
        saved = varlen_reference(problem)
        arrays["o"] = draw.array(round_to(saved["out"].value, draw.dtype))
        arrays["lse"] = draw.array(round_to(saved["softmax_lse"].value, "f32"), "f32")
        del arrays["out"], arrays["softmax_lse"]
        arrays["dout"] = draw.floats((total_q, h, d))
        arrays["dq"] = draw.output((total_q, h, d))
        arrays |= {name: draw.output((total_k, hk, d)) for name in ("dk", "dv")}
        return problem

    return make


def varlen_reference(problem):
    arrays = problem.arrays
    is_backward, each = "dout" in arrays, []
    for b, rows, keys in sequences(problem):
        rules = rules_of(problem, "alibi_slopes_ptr")
        rules.slopes = None if rules.slopes is None else rules.slopes[b : b + 1]
        q, k, v = of_sequence(arrays["q"].values, rows), *(of_sequence(arrays[n].values, keys) for n in "kv")
        if is_backward:
            y, dy = (of_sequence(arrays[n].values, rows) for n in ("o", "dout"))
            each.append((rows, keys, backward(q, k, v, y, arrays["lse"].values[None, :, rows], dy, rules)))
        else:
            each.append((rows, keys, forward(q, k, v, rules, True)))
    if is_backward:
        return gather(problem, each, {n: (n, n != "dq", 0.0) for n in ("dq", "dk", "dv")})
    return gather(problem, each, {"y": ("out", False, 0.0), "lse": ("softmax_lse", False, np.inf)})


def varlen_problems(make):
    table = both(make, RAGGED, (((20, 0, 9), (20, 5, 30), 4, 2, 16), ((30, 3), (7, 40), 4, 1, 24)))
    table["cut"] = lambda d: make(d, ((20, 9), (30, 8), 2, 1, 16), short=(5, 7))
    table["cut_causal"] = lambda d: make(d, ((20, 9), (30, 8), 2, 1, 16), is_causal=1, short=(5, 7))
    table["unowned"] = lambda d: make(d, ((7, 9), (5, 8), 2, 1, 16), unowned=(3, 4))
    return table


POSITIVE = ("batch", "num_heads", "num_heads_k", "seq_q", "seq_k")
VARLEN_POSITIVE = (*POSITIVE[:3], "max_seqlen_q", "max_seqlen_k", "total_q", "total_k")
OFFSETS = ("cu_seqlens_q", "cu_seqlens_k")
SIZED = {"out": "attention", "softmax_lse": "log_sum"}
GRADIENTS = dict.fromkeys(("dq", "dk", "dv"), "attention")


def case(row, problems, reference, tolerance, bad):
    return Case(
        row=row, problems=problems, reference=reference, tolerance=tolerance,
        plain="plain" if "plain" in problems else "small", large="large", bad=bad, idle=(),
    )  # fmt: skip


CASES = (
    case("fa2_sdpa_{T}", both(dense(1), has_features=False), dense_reference, SIZED,
         bad_calls(FORWARD, POSITIVE, False)),
    case("fa2_sdpa_{T}_v2", both(dense(2)), dense_reference, SIZED,
         bad_calls(FORWARD, POSITIVE, slopes="alibi_slopes")),
    case("fa2_sdpa_backward_{T}", both(dense(3)), dense_reference, GRADIENTS,
         bad_calls(BACKWARD, POSITIVE, slopes="alibi_slopes_ptr")),
    case("fa2_sdpa_varlen_{T}", varlen_problems(varlen(False)), varlen_reference, SIZED,
         bad_calls((*FORWARD, *OFFSETS), VARLEN_POSITIVE, slopes="alibi_slopes_ptr")),
    case("fa2_sdpa_varlen_backward_{T}", varlen_problems(varlen(True)), varlen_reference, GRADIENTS,
         bad_calls((*BACKWARD, *OFFSETS), VARLEN_POSITIVE, slopes="alibi_slopes_ptr")),
)  # fmt: skip

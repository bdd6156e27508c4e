# SPDX-License-Identifier: Apache-2.0
"""Penalties, biases and masks of logits."""

import numpy as np

from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem

SHAPES = {"one": (1, 1), "plain": (3, 100), "odd": (5, 333), "large": (2, 20011), "rows": (300, 5)}
NAMES = ("repetition", "frequency", "presence")
NUMBERS = {"repetition": 1.25, "frequency": 0.375, "presence": 0.5}


def f32(x):
    return np.asarray(x, np.float32)


def penalised(x, counts, in_prompt, repetition, frequency, presence):
    """Each operation in f32, as the doc says."""
    x, counts = f32(x), np.asarray(counts)
    with np.errstate(all="ignore"):
        if np.float32(repetition) != 1:
            scaled = np.where(x > 0, x / f32(repetition), x * f32(repetition))
            x = np.where((counts > 0) | in_prompt, scaled, x)
        return np.where(counts > 0, (x - f32(frequency) * f32(counts)) - f32(presence), x)


def counts_of(draw, shape):
    counts = np.maximum(draw.rng.integers(-3, 4, shape), -1)
    return draw.array(np.where(draw.rng.random(shape) < 0.02, 1 << 20, counts), "i32")


def logits_of(draw, shape, kind):
    x = draw.floats(shape, kind)
    return draw.array(np.where(np.isnan(x.values), 2.0, x.values)) if kind == "special" else x


# --- apply_token_penalty ---


def dense(draw, shape, kind="normal", **given):
    numbers = {"rep_penalty": 1.25, "freq_penalty": 0.375, "pres_penalty": 0.5} | given
    scalars = {"batch": shape[0], "vocab": shape[1]} | numbers
    return Problem(scalars, {"logits": logits_of(draw, shape, kind), "counts": counts_of(draw, shape)})


def dense_reference(problem):
    numbers = [problem.scalars[name] for name in ("rep_penalty", "freq_penalty", "pres_penalty")]
    x = problem.arrays["logits"].values
    return {"logits": Expected(penalised(x, problem.arrays["counts"].values, False, *numbers).astype(np.float64))}


# --- process_logits ---


def process(draw, shape, kind="normal", given=(), spare=0, **numbers):
    batch, vocab = shape
    words = -(-vocab // 32) + spare
    scalars = {"batch": batch, "vocab": vocab, "words": words if "allowed" in given else 0} | NUMBERS | numbers
    masks = draw.rng.integers(-(2**31), 2**31, (batch, words))
    arrays = {"logits": logits_of(draw, shape, kind)}
    arrays |= {f"{name}_of": draw.array(round_to(1 + draw.rng.random(batch), "f32"), "f32") for name in NAMES}
    arrays |= {
        "counts": counts_of(draw, shape), "in_prompt": draw.integers(shape, "small", dtype="u8"),
        "bias": draw.floats((vocab,), dtype="f32"), "allowed": draw.array(masks, "i32"), "y": draw.output(shape),
    }  # fmt: skip
    optional = [name for name in arrays if name not in ("logits", "y", *given)]
    return Problem(scalars, arrays, null=tuple(optional))


def given_numbers(problem, row):
    arrays = [None if f"{name}_of" in problem.null else problem.arrays[f"{name}_of"] for name in NAMES]
    return [problem.scalars[name] if array is None else array.values[row] for name, array in zip(NAMES, arrays)]


def process_reference(problem):
    x = problem.arrays["logits"].values
    present = {name: array.values for name, array in problem.arrays.items() if name not in problem.null}
    y = np.empty(x.shape)
    for row, values in enumerate(x):
        counts = present["counts"][row] if "counts" in present else np.zeros(len(values), int)
        in_prompt = present["in_prompt"][row] != 0 if "in_prompt" in present else False
        changed = penalised(values, counts, in_prompt, *given_numbers(problem, row))
        if "bias" in present:
            with np.errstate(all="ignore"):
                changed = changed + f32(present["bias"])
        if "allowed" in present:
            words = present["allowed"][row].astype(np.uint64)
            bits = words[np.arange(len(values)) // 32] >> (np.arange(len(values)) % 32).astype(np.uint64) & np.uint64(1)
            changed = np.where(bits == 1, changed, -np.inf)
        y[row] = changed
    return {"y": Expected(y)}


# --- lists ---


def lists_of(draw, batch, vocab, length):
    tokens = draw.rng.integers(-2, vocab + 2, (batch, length))
    few = draw.rng.integers(0, min(vocab, 3), (batch, length))
    return draw.array(np.where(draw.rng.random((batch, length)) < 0.5, few, tokens), "i32")


def penalty_lists(draw, shape, length=40, kind="normal", given=(), **numbers):
    batch, vocab = shape
    scalars = {"batch": batch, "vocab": vocab, "length": length} | NUMBERS | numbers
    arrays = {"logits": logits_of(draw, shape, kind), "tokens": lists_of(draw, batch, vocab, length)}
    arrays["prompt_length"] = draw.array(draw.rng.integers(-1, length + 2, batch), "i32")
    arrays |= {f"{name}_of": draw.array(round_to(1 + draw.rng.random(batch), "f32"), "f32") for name in NAMES}
    null = tuple(name for name in arrays if name not in ("logits", "tokens", *given))
    return Problem(scalars, arrays | {"y": draw.output(shape)}, null=null)


def penalty_lists_reference(problem):
    x, lists = problem.arrays["logits"].values, problem.arrays["tokens"].values
    prompts = None if "prompt_length" in problem.null else problem.arrays["prompt_length"].values
    y = np.array(x, np.float64)
    for row, (values, listed) in enumerate(zip(x, lists)):
        start = 0 if prompts is None else max(int(prompts[row]), 0)
        inside = (listed >= 0) & (listed < len(values))
        counts = np.bincount(listed[start:][inside[start:]], minlength=len(values))
        in_prompt = np.bincount(listed[:start][inside[:start]], minlength=len(values)) > 0
        y[row] = penalised(values, counts, in_prompt, *given_numbers(problem, row))
    return {"y": Expected(y)}


def bias_lists(draw, shape, length=20, kind="normal", null=()):
    batch, vocab = shape
    arrays = {
        "logits": logits_of(draw, shape, kind), "tokens": lists_of(draw, batch, vocab, length),
        "bias": draw.floats((batch, length), dtype="f32"), "y": draw.output(shape),
    }  # fmt: skip
    return Problem({"batch": batch, "vocab": vocab, "length": length}, arrays, null=null)


def bias_lists_reference(problem):
    y = np.array(problem.arrays["logits"].values, np.float64)
    for row, listed in enumerate(problem.arrays["tokens"].values):
        for token in set(listed[(listed >= 0) & (listed < y.shape[1])].tolist()):
            if "bias" in problem.null:
                y[row, token] = -np.inf
                continue
            total = np.float32(0)
            for number in problem.arrays["bias"].values[row][listed == token]:
                total = np.float32(total + np.float32(number))
            with np.errstate(all="ignore"):
                y[row, token] = np.float32(np.float32(y[row, token]) + total)
    return {"y": Expected(y)}


def bad_of(operands, extents, *, empty=False):
    sign = "> 0" if empty else ">= 0"
    return (
        *(
            Bad(f"{e}_{v}", 2, rf"{e} is {v}, must be {sign}", {e: v}, can=2)
            for e in extents
            for v in (-3, 0)[: 1 + empty]
        ),
        *(Bad(f"null_{p}", 2, rf"{p} is NULL", null=(p,)) for p in operands),
        *(Bad(f"odd_{p}", 1, rf"{p} is 0x[0-9a-f]+", shift={p: 1}) for p in operands),
    )


ALL = ("counts", "in_prompt", "bias", "allowed")


CASES = (
    Case(
        row="apply_token_penalty_{T}",
        problems={name: lambda d, s=s: dense(d, s) for name, s in SHAPES.items()}
        | {
            "special": lambda d: dense(d, (7, 90), "special"),
            "no_repetition": lambda d: dense(d, (7, 90), rep_penalty=1.0),
            "repetition": lambda d: dense(d, (7, 90), freq_penalty=0.0, pres_penalty=0.0),
            "negative": lambda d: dense(d, (7, 90), rep_penalty=0.5, freq_penalty=-0.25, pres_penalty=-1.0),
            "none": lambda d: dense(d, (7, 90), rep_penalty=1.0, freq_penalty=0.0, pres_penalty=0.0),
        },
        reference=dense_reference, tolerance={"logits": "exact"}, plain="plain", large="large",
        bad=bad_of(("logits", "counts"), ("batch", "vocab"), empty=True), idle=(),
    ),
    Case(
        row="process_logits_{T}",
        problems={name: lambda d, s=s: process(d, s, given=ALL) for name, s in SHAPES.items()}
        | {name: lambda d, n=name: process(d, (7, 90), given=(n,)) for name in ALL}
        | {
            "plain": lambda d: process(d, SHAPES["plain"], given=(*ALL, *(f"{n}_of" for n in NAMES))),
            "special": lambda d: process(d, (7, 90), "special", ALL), "nothing": lambda d: process(d, (7, 90)),
            "arrays": lambda d: process(d, (7, 90), given=("counts", *(f"{n}_of" for n in NAMES))),
            "spare_words": lambda d: process(d, (7, 90), given=("allowed", "counts"), spare=3),
            "whole_words": lambda d: process(d, (3, 64), given=("allowed",)),
        },
        reference=process_reference, tolerance={"y": "exact"}, plain="plain", large="large",
        bad=(
            *bad_of(("logits", "y"), ("batch", "vocab", "words")),
            Bad("few_words", 2, r"words is 3, must be 0 or at least 4 for vocab 100", {"words": 3}, can=2),
        ),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in ("batch", "vocab")),
    ),
    Case(
        row="token_penalty_lists_{T}",
        problems={name: lambda d, s=s: penalty_lists(d, s) for name, s in SHAPES.items()}
        | {
            "plain": lambda d: penalty_lists(d, SHAPES["plain"], given=("prompt_length", *(f"{n}_of" for n in NAMES))),
            "special": lambda d: penalty_lists(d, (7, 90), kind="special"),
            "prompt": lambda d: penalty_lists(d, (7, 90), given=("prompt_length",)),
            "arrays": lambda d: penalty_lists(d, (7, 90), given=tuple(f"{n}_of" for n in NAMES)),
            "long": lambda d: penalty_lists(d, (3, 5000), 1200), "no_tokens": lambda d: penalty_lists(d, (3, 90), 0),
        },
        reference=penalty_lists_reference, tolerance={"y": "exact"}, plain="plain", large="large",
        bad=bad_of(("logits", "tokens", "y"), ("batch", "vocab", "length")),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in ("batch", "vocab")),
    ),
    Case(
        row="token_bias_lists_{T}",
        problems={name: lambda d, s=s: bias_lists(d, s) for name, s in SHAPES.items()}
        | {
            "special": lambda d: bias_lists(d, (7, 90), kind="special"),
            "banned": lambda d: bias_lists(d, (7, 90), null=("bias",)),
            "long": lambda d: bias_lists(d, (3, 5000), 700), "no_tokens": lambda d: bias_lists(d, (3, 90), 0),
        },
        reference=bias_lists_reference, tolerance={"y": "exact"}, plain="plain", large="large",
        bad=bad_of(("logits", "tokens", "y"), ("batch", "vocab", "length")),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in ("batch", "vocab")),
    ),
)  # fmt: skip

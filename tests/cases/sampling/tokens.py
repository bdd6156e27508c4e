# SPDX-License-Identifier: Apache-2.0
"""Samplers over rows of logits or probabilities, and filters of such rows."""

import functools

import numpy as np

from tools.oracle import sampling
from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem

SEED = 0x123456789ABCDEF
SHAPES = {
    "one": (1, 1), "plain": (12, 100), "pair": (5, 2), "odd": (4, 333), "segments": (2, 3001), "long": (1, 20011),
    "rows": (130, 17),
}  # fmt: skip


def written(problem, **outputs):
    """The outputs that are not NULL."""
    return {name: Expected(value, *more) for name, (value, *more) in outputs.items() if name not in problem.null}


def rows_of(draw, shape, kind="normal", probabilities=False):
    """Logits of a model's spread, or probabilities that sum to about 1."""
    vocab = shape[1]
    x = draw.rng.standard_normal(shape) * 3
    if kind == "ties":
        x = np.round(x)
    elif kind == "equal":
        x = np.zeros(shape)
    elif kind == "masked":
        x = np.where(draw.rng.random(shape) < 0.7, -np.inf, x)
        x[:, vocab // 2] = 1
    elif kind == "steep":
        x = x * 20
    if probabilities:
        with np.errstate(over="ignore"):
            x = np.exp(x - x.max(1, keepdims=True))
        x = x / x.sum(1, keepdims=True)
        if kind == "masked":
            x[:, 0] = -0.25
    x = round_to(x, draw.dtype)
    if kind == "faults":
        x[0, vocab // 3] = np.nan
        x[1, -1] = np.inf
        x[2] = 0 if probabilities else -np.inf
    return draw.array(x)


def outputs(draw, batch, *names):
    return {name: draw.output((batch,), dtype="u8" if name == "valid" else "i32") for name in names}


# --- FlashInfer's samplers ---

SCALARS = {
    "top_k": ("top_k_val",),
    "top_p": ("top_p_val",),
    "min_p": ("min_p_val",),
    "top_k_top_p": ("top_k_val", "top_p_val"),
}
DEFAULT = {"top_k_val": 5, "top_p_val": 0.7, "min_p_val": 0.05}
FILTER = {"top_k_val": "top_k", "top_p_val": "top_p", "min_p_val": "min_p"}


def flashinfer(draw, names, shape=SHAPES["plain"], kind="normal", arrays=False, seed=SEED, offset=0, **given):
    batch, vocab = shape
    values = {name: given.get(name, DEFAULT[name]) for name in names}
    if "top_k_val" in values and not arrays:
        values["top_k_val"] = min(values["top_k_val"], vocab)
    scalars = {"batch": batch, "vocab": vocab, "deterministic": 1, "seed_val": seed, "offset_val": offset}
    probs = rows_of(draw, shape, kind, True)
    own = {}
    if arrays:
        for name, value in values.items():
            dtype = "i32" if name == "top_k_val" else "f32"
            series = (
                np.resize([value, value * 2, 1, value, -1, vocab], batch)
                if dtype == "i32"
                else np.resize([value, value / 2, 1.0, 0.3, value, 1.0], batch)
            )
            own[name.replace("_val", "_arr")] = draw.array(round_to(series, "f32") if dtype == "f32" else series, dtype)
    else:
        scalars |= values
    return Problem(
        scalars, own | {"probs": probs} | outputs(draw, batch, "output", "valid"), null=given.get("null", ())
    )


def flashinfer_reference(names, problem):
    scalars, probs = problem.scalars, problem.arrays["probs"].values
    tokens, valid = [], []
    for row, p in enumerate(probs):
        numbers = {}
        for name in names:
            array = problem.arrays.get(name.replace("_val", "_arr"))
            numbers[FILTER[name]] = array.values[row] if array else scalars[name]
        weights = sampling.weights_of_probabilities(p)
        if np.isfinite(weights).all():
            weights = weights * sampling.original(p, **numbers)
        high, low = sampling.words(scalars["seed_val"], row, scalars["offset_val"], 2)
        token, ok = sampling.drawn(weights, sampling.fraction(high, low))
        tokens.append(token)
        valid.append(ok)
    return written(problem, output=(np.array(tokens),), valid=(np.array(valid),))


def flashinfer_cases():
    for kind, names in SCALARS.items():
        for arrays in (False, True):
            make = functools.partial(flashinfer, names=names, arrays=arrays)
            problems = {name: lambda d, s=s, m=make: m(d, shape=s) for name, s in SHAPES.items()}
            for label in ("ties", "equal", "masked", "faults", "steep"):
                problems[label] = lambda d, k=label, m=make: m(d, shape=(6, 70), kind=k)
            problems["wide"] = lambda d, m=make: m(d, shape=(6, 4001), top_k_val=900, top_p_val=0.99, min_p_val=1e-4)
            problems["no_valid"] = lambda d, m=make: m(d, null=("valid",))
            problems["offset"] = lambda d, m=make: m(d, seed=2**64 - 1, offset=2**40 + 3)
            problems["whole"] = lambda d, m=make: m(d, shape=(4, 40), top_k_val=40, top_p_val=1.0, min_p_val=1e-30)
            arrays_of = [name.replace("_val", "_arr") for name in names] if arrays else []
            text = {
                "top_k_val": r"top_k_val is {}, must be in \[1, vocab = 100\]",
                "top_p_val": r"top_p_val is {}, must be in \(0, 1\]",
            }
            text["min_p_val"] = text["top_p_val"].replace("top_p", "min_p")
            wrong = {"top_k_val": (0, -1, 101), "top_p_val": (0.0, 1.5, -0.5, np.nan), "min_p_val": (0.0, 1.5, np.nan)}
            bad = [
                Bad(f"{e}_{v}", 2, rf"{e} is {v}, must be > 0", {e: v}, can=2)
                for e in ("batch", "vocab")
                for v in (0, -3)
            ]
            if not arrays:
                bad += [
                    Bad(f"{name}_{k}", 2, text[name].format("-?[0-9na.]+"), {name: value}, can=2)
                    for name in names
                    for k, value in enumerate(wrong[name])
                ]
            bad += [Bad(f"null_{p}", 2, rf"{p} is NULL", null=(p,)) for p in (*arrays_of, "probs", "output")]
            bad += [Bad(f"odd_{p}", 1, rf"{p} is 0x[0-9a-f]+", shift={p: 1}) for p in (*arrays_of, "probs", "output")]
            yield Case(
                row=f"flashinfer_{kind}_sampling_{{T}}{'_arr' if arrays else ''}", problems=problems,
                reference=functools.partial(flashinfer_reference, names),
                tolerance={"output": "exact", "valid": "exact"}, plain="plain", large="long", bad=tuple(bad), idle=(),
            )  # fmt: skip


# --- samplers and filters of ours ---

PARAMETERS = {"temperature": (1.0, "f32"), "top_k": (0, "i32"), "top_p": (1.0, "f32"), "min_p": (0.0, "f32")}
RANDOM = ("seed_of", "offset_of", "rng_state")
SERIES = {
    "temperature": [1.0, 0.5, 2.0, 0.0, 0.8, 1.0, -1.0], "top_k": [0, 3, 10, 1, 2**31 - 1, -1, 5],
    "top_p": [1.0, 0.9, 0.5, 0.99, 0.0, 1.5, np.nan], "min_p": [0.0, 0.1, 0.01, 0.5, 1.0, 0.0, 0.0],
}  # fmt: skip


def parameters(draw, batch, given, names=PARAMETERS):
    """Scalars and arrays of the parameters; an array stands for the names in given["arrays"]."""
    scalars = {name: given.get(name, PARAMETERS[name][0]) for name in names}
    arrays, null = {}, list(given.get("null", ()))
    for name in names:
        series = np.resize(SERIES[name], batch)
        dtype = PARAMETERS[name][1]
        arrays[f"{name}_of"] = draw.array(round_to(series, "f32") if dtype == "f32" else series.astype(np.int64), dtype)
        if name not in given.get("arrays", ()):
            null.append(f"{name}_of")
    return scalars, arrays, null


def random_numbers(draw, batch, given):
    scalars = {"seed": given.get("seed", SEED), "offset": given.get("offset", 0)}
    arrays = {
        "seed_of": draw.array(np.resize([5, -1, 2**62, 5], batch), "i64"),
        "offset_of": draw.array(np.resize([0, 1, 2, 2**40 + 3], batch), "i64"),
        "rng_state": draw.array(np.array([77, 6]), "i64"),
    }
    return scalars, arrays, [name for name in RANDOM if name not in given.get("arrays", ())]


def stream_of(problem, row):
    """(seed, subsequence, offset) of a row."""
    present = {name: problem.arrays[name].values for name in RANDOM if name not in problem.null}
    if "rng_state" in present:
        return int(present["rng_state"][0]), row, int(present["rng_state"][1])
    seed = int(present["seed_of"][row]) if "seed_of" in present else problem.scalars["seed"]
    offset = int(present["offset_of"][row]) if "offset_of" in present else problem.scalars["offset"]
    return seed, 0 if "seed_of" in present else row, offset


def number_of(problem, name, row):
    array = None if f"{name}_of" in problem.null else problem.arrays.get(f"{name}_of")
    return float(array.values[row]) if array else float(np.float32(problem.scalars[name]))


def tokens(draw, shape=SHAPES["plain"], kind="normal", probabilities=0, normalize=None, **given):
    batch, vocab = shape
    scalars, arrays, null = parameters(draw, batch, given)
    scalars |= {"batch": batch, "vocab": vocab, "are_probabilities": probabilities}
    arrays = {"x": rows_of(draw, shape, kind, bool(probabilities))} | arrays
    if normalize is None:
        random = random_numbers(draw, batch, given)
        scalars, arrays, null = scalars | random[0], arrays | random[1], null + random[2]
        arrays |= outputs(draw, batch, "token", "valid")
    else:
        scalars["normalize"] = normalize
        arrays |= {"y": draw.output(shape)} | outputs(draw, batch, "valid")
    return Problem(scalars, arrays, null=tuple(null))


def admitted_weights(problem, row):
    """Weights of a row, 0 for tokens that are not admitted; None if the row is refused."""
    x = problem.arrays["x"].values[row]
    numbers = {name: number_of(problem, name, row) for name in PARAMETERS}
    if problem.scalars["are_probabilities"]:
        weights = sampling.weights_of_probabilities(x)
        if not numbers["temperature"] >= 0:
            return None
        if numbers["temperature"] == 0:
            numbers["top_k"] = 1
    else:
        weights = sampling.weights_of_logits(x, numbers["temperature"])
        if numbers["temperature"] == 0:
            numbers["top_k"] = 1
    if not np.isfinite(weights).all() or not weights.sum() > 0 or np.isnan([numbers["top_p"], numbers["min_p"]]).any():
        return None
    filters = {name: numbers[name] for name in ("top_p", "min_p")}
    return np.where(sampling.sequential(x, weights, int(numbers["top_k"]), **filters), weights, np.nan)


def tokens_reference(problem):
    found, valid = [], []
    for row in range(problem.scalars["batch"]):
        weights = admitted_weights(problem, row)
        high, low = sampling.words(*stream_of(problem, row), 2)
        weights = np.zeros(1) if weights is None else np.nan_to_num(weights)
        token, ok = sampling.drawn(weights, sampling.fraction(high, low))
        found.append(token)
        valid.append(ok)
    return written(problem, token=(np.array(found, int),), valid=(np.array(valid, int),))


def filter_reference(problem):
    x = problem.arrays["x"].values
    y, valid = np.full(x.shape, np.nan), np.zeros(len(x), int)
    others = 0.0 if problem.scalars["are_probabilities"] or problem.scalars["normalize"] else -np.inf
    for row, values in enumerate(x):
        weights = admitted_weights(problem, row)
        if weights is None:
            continue
        valid[row] = 1
        kept = ~np.isnan(weights)
        whole = np.nan_to_num(weights)
        y[row] = np.where(kept, whole / whole.sum() if problem.scalars["normalize"] else values, others)
    if not problem.scalars["normalize"]:
        return written(problem, y=(y,), valid=(valid,))
    # exponents of up to 41 octaves are rounded in f32, and weights truncated to 2^-40 of the largest
    return written(problem, y=(y, 64, y + 2.0**-20), valid=(valid,))


CHOICES = {
    "top_k": {"top_k": 7}, "top_p": {"top_p": 0.8}, "min_p": {"min_p": 0.1}, "greedy": {"temperature": 0.0},
    "top_1": {"top_k": 1}, "cold": {"temperature": 0.25}, "hot": {"temperature": 3.0, "top_p": 0.95},
    "joint": {"top_k": 20, "top_p": 0.9, "min_p": 0.02, "temperature": 0.7}, "first": {"top_p": 0.0},
    "many": {"top_k": 60, "top_p": 0.999},
}  # fmt: skip
KINDS = ("ties", "equal", "masked", "faults", "steep")
EXTENTS = ("batch", "vocab")


def token_problems(make):
    problems = {name: lambda d, s=s: make(d, s, top_k=9, top_p=0.9) for name, s in SHAPES.items()}
    problems |= {name: lambda d, o=o: make(d, (6, 90), **o) for name, o in CHOICES.items()}
    problems |= {
        f"{kind}, {name}": lambda d, k=kind, o=CHOICES[name]: make(d, (6, 90), k, **o)
        for kind in KINDS
        for name in ("joint", "top_k", "top_p", "many")
    }
    problems |= {
        f"probabilities, {kind}": lambda d, k=kind: make(d, (6, 90), k, 1, top_k=20, top_p=0.9, min_p=0.01)
        for kind in ("normal", *KINDS)
    }
    problems |= {
        f"probabilities, {kind}, {name}": lambda d, k=kind, o=CHOICES[name]: make(d, (6, 90), k, 1, **o)
        for kind in ("normal", "ties")
        for name in ("top_k", "top_1", "top_p", "first")
    }
    problems |= {
        "plain": lambda d: make(d, SHAPES["plain"], top_k=9, top_p=0.9, arrays=(*PARAMETERS, *RANDOM)),
        "all": lambda d: make(d, (5, 1025)),
        "arrays": lambda d: make(d, (14, 90), arrays=tuple(PARAMETERS)),
        "some_arrays": lambda d: make(d, (14, 90), arrays=("top_p",), top_k=30),
        "no_valid": lambda d: make(d, (3, 90), null=("valid",)),
        "segment_ties": lambda d: make(d, (2, 5000), "ties", top_k=2500),
        "segment_tie_mass": lambda d: make(d, (2, 5000), "equal", top_k=3100, top_p=0.7),
    }
    return problems


def bad_of(inputs, required, extra=()):
    return (
        *(Bad(f"negative_{e}", 2, rf"{e} is -3, must be >= 0", {e: -3}, can=2) for e in EXTENTS),
        Bad("no_vocab", 2, r"vocab is 0, but batch is 12", {"vocab": 0}, can=2),
        Bad("temperature", 2, r"temperature is -1, must be finite and >", {"temperature": -1.0}, can=2),
        Bad("temperature_nan", 2, r"temperature is -?nan", {"temperature": np.nan}, can=2),
        *(Bad(f"null_{p}", 2, rf"{p} is NULL", null=(p,)) for p in required),
        *(Bad(f"odd_{p}", 1, rf"{p} is 0x[0-9a-f]+", shift={p: 1}) for p in required),
        *extra,
    )


NUMBERS = (
    Bad("flag", 2, r"are_probabilities is 2, must be 0 or 1", {"are_probabilities": 2}, can=2),
    Bad("top_p", 2, r"top_p is NaN", {"top_p": np.nan}, can=2),
    Bad("min_p", 2, r"min_p is NaN", {"min_p": np.nan}, can=2),
)


# --- typical sampling ---


def typical(draw, shape=SHAPES["plain"], kind="normal", **given):
    batch, vocab = shape
    scalars = {"batch": batch, "vocab": vocab, "temperature": given.get("temperature", 1.0)}
    scalars["typical_p"] = given.get("typical_p", 0.6)
    arrays = {
        "logits": rows_of(draw, shape, kind),
        "temperature_of": draw.array(round_to(np.resize([1.0, 0.5, 2.0, 0.0], batch), "f32"), "f32"),
        "typical_p_of": draw.array(round_to(np.resize([0.2, 0.95, 1.0, 0.5], batch), "f32"), "f32"),
    }
    null = [name for name in ("temperature_of", "typical_p_of") if name not in given.get("arrays", ())]
    random = random_numbers(draw, batch, given)
    scalars |= random[0]
    return Problem(scalars, arrays | random[1] | outputs(draw, batch, "token", "valid"), null=tuple(null + random[2]))


def typical_reference(problem):
    found, valid = [], []
    for row, x in enumerate(problem.arrays["logits"].values):
        temperature, mass = (number_of(problem, name, row) for name in ("temperature", "typical_p"))
        weights = sampling.weights_of_logits(x, temperature)
        if np.isfinite(weights).all() and weights.sum() > 0 and temperature > 0:
            weights = weights * sampling.typical(x, weights, mass, temperature)
        high, low = sampling.words(*stream_of(problem, row), 2)
        token, ok = (0, 0) if temperature <= 0 else sampling.drawn(weights, sampling.fraction(high, low))
        found.append(token)
        valid.append(ok)
    return written(problem, token=(np.array(found, int),), valid=(np.array(valid, int),))


def cases():
    yield from flashinfer_cases()
    problems = token_problems(tokens)
    for name in ("seed_of", "offset_of", "rng_state"):
        problems[name] = lambda d, n=name: tokens(d, (9, 90), arrays=(n,), top_k=30)
    problems["wrapped"] = lambda d: tokens(d, (9, 90), seed=2**64 - 1, offset=2**64 - 2)
    yield Case(
        row="sample_tokens_{T}", problems=problems, reference=tokens_reference,
        tolerance={"token": "exact", "valid": "exact"}, plain="plain", large="long",
        bad=bad_of(("x",), ("x", "token"), NUMBERS), idle=(Idle("no_rows", {"batch": 0}),),
    )  # fmt: skip
    problems = token_problems(functools.partial(tokens, normalize=0))
    problems |= {f"normalize, {n}": p for n, p in token_problems(functools.partial(tokens, normalize=1)).items()}
    yield Case(
        row="filter_tokens_{T}", problems=problems, reference=filter_reference,
        tolerance={"y": "pointwise", "valid": "exact"}, plain="plain", large="long",
        bad=bad_of(
            ("x",), ("x", "y"), (*NUMBERS, Bad("normalize", 2, r"normalize is 3, must be", {"normalize": 3}, can=2))
        ),
        idle=(Idle("no_rows", {"batch": 0}),),
    )  # fmt: skip
    problems = {name: lambda d, s=s: typical(d, s) for name, s in SHAPES.items()}
    problems |= {kind: lambda d, k=kind: typical(d, (6, 90), k) for kind in KINDS}
    problems |= {
        "little": lambda d: typical(d, (6, 90), typical_p=0.05), "all": lambda d: typical(d, (6, 90), typical_p=1.0),
        "cold": lambda d: typical(d, (6, 90), temperature=0.5),
        "arrays": lambda d: typical(d, (8, 90), arrays=("temperature_of", "typical_p_of")),
        "plain": lambda d: typical(d, SHAPES["plain"], arrays=("temperature_of", "typical_p_of", *RANDOM)),
        "seed_of": lambda d: typical(d, (8, 90), arrays=("seed_of", "offset_of")),
    }  # fmt: skip
    yield Case(
        row="typical_sampling_{T}", problems=problems, reference=typical_reference,
        tolerance={"token": "exact", "valid": "exact"}, plain="plain", large="long",
        bad=bad_of(
            ("logits",), ("logits", "token"),
            (
                Bad("typical_p", 2, r"typical_p is NaN", {"typical_p": np.nan}, can=2),
                Bad("zero", 2, r"temperature is 0, must be finite and > 0", {"temperature": 0.0}, can=2),
            ),
        ),
        idle=(Idle("no_rows", {"batch": 0}),),
    )  # fmt: skip


CASES = tuple(cases())

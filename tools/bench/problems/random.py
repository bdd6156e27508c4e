# SPDX-License-Identifier: Apache-2.0
"""Random numbers and dropout, beside PyTorch's in-place methods."""

import numpy as np

from tools.bench.check import cells, compare, same
from tools.bench.record import SIZES, Bench, Bound, Operand, Sweep
from tools.oracle import distributions
from tools.oracle.philox import numbers

SEED = 5
UNMEASURED = {
    "random_advance": "it moves two numbers",
    "curand_uniform_{T}": "the kernel of random_uniform", "curand_normal_{T}": "the kernel of random_normal",
    "bernoulli": "the general kernel of two operands", "dropout_{T}": "the general kernel of four operands",
    "dropout_{T} f64": "the general kernel of four operands",
    "dropout_backward_{T}": "the general kernel of three operands",
    "dropout_backward_{T} f64": "the general kernel of three operands",
    **{
        f"random_{name}_{{T}}": "the kernel of random_exponential"
        for name in ("log_normal", "gumbel", "laplace", "logistic")
    },
}  # fmt: skip
PEERS = {
    "uniform": lambda t: t.uniform_, "normal": lambda t: t.normal_, "exponential": lambda t: t.exponential_,
    "cauchy": lambda t: t.cauchy_, "geometric": lambda t: lambda: t.geometric_(0.25),
    "integers": lambda t: lambda: t.random_(3, 10), "bits": lambda t: t.random_,
    "bernoulli": lambda t: lambda: t.bernoulli_(0.3),
}  # fmt: skip
INTEGERS = ("integers", "bits", "bernoulli")


def normal(t, is_upper):
    return distributions.quantile(t, is_upper)


REAL = {
    "normal": normal, "exponential": distributions.exponential, "cauchy": distributions.LOCATED["cauchy"],
    "geometric": lambda t, is_upper: np.maximum(np.ceil(distributions.trials(0.25, t, is_upper)), 1),
    "truncated_normal": lambda t, is_upper: distributions.truncated_normal(-2, 2, 0, 1, t, is_upper),
}  # fmt: skip


def expected(name, dtype, first, count):
    if name == "uniform":
        return distributions.half_open(SEED, first, count, dtype)
    if name in REAL:
        return REAL[name](*distributions.tails(SEED, first, count, dtype))
    if name == "integers":
        return distributions.integers(3, 10, SEED, first, count, dtype)
    if name == "bernoulli":
        return numbers(SEED, first, count, 1).astype(np.float64) < distributions.probability_words(0.3)
    return numbers(SEED, first, count, 1).astype(np.uint32).view(np.int32)


def check(name):
    def ends_are_right(problem):
        count = problem.bench.arrays["y"].shape[0]
        part = min(count, 1000)
        for first in (0, count - part):
            at, value = np.arange(first, first + part), expected(name, problem.dtype, first, part)
            if name in INTEGERS:
                wrong = same(problem, "y", at, value)
            else:
                wrong = compare(problem, cells(problem, "y", at), value, 16 * (np.abs(value) + 1))
            if wrong:
                return f"y[{first}:] {wrong}"
        return ""

    return ends_are_right


def torch_in_place(name):
    return lambda torch, t, scalars: PEERS[name](t["y"])


def made(name, dtypes, count, *bounds, brief=False, **scalars):
    return Bench(
        name=f"random {name}, {count}" if brief else f"random {name}", row=f"random_{name}_{{T}}", dtypes=dtypes,
        arrays={"y": Operand((count,))}, scalars={**scalars, "seed": SEED, "offset": 0}, check=check(name),
        torch=(torch_in_place(name),) if name in PEERS else (), bounds=bounds, brief=brief,
    )  # fmt: skip


def kept(problem):
    """Elements at both ends."""
    count = problem.bench.arrays["x"].shape[0]
    for first in (0, count - 1000):
        index = np.arange(first, first + 1000)
        words = numbers(SEED, first, 1000, 1).astype(np.float64)
        is_kept = words >= distributions.probability_words(0.25)
        value = np.where(is_kept, cells(problem, "x", index) / 0.75, 0)
        if "residual" in problem.bench.arrays:
            value = value + cells(problem, "residual", index)
        if wrong := compare(problem, cells(problem, "y", index), value, np.abs(value) + 2):
            return f"y[{first}:] {wrong}"
    return ""


def kept_of_gradient(problem):
    index = np.arange(1000)
    is_kept = numbers(SEED, 0, 1000, 1).astype(np.float64) >= distributions.probability_words(0.25)
    value = np.where(is_kept, cells(problem, "dy", index) / 0.75, 0)
    return compare(problem, cells(problem, "dx", index), value, np.abs(value))


def dropout(name, count, *bounds, residual=False):
    arrays = {"x": Operand((count,), "normal"), "y": Operand((count,))}
    arrays |= {"residual": Operand((count,), "normal")} if residual else {}

    def peer(torch, t, scalars):
        if residual:
            return lambda: t["residual"] + torch.nn.functional.dropout(t["x"], 0.25)
        return lambda: torch.nn.functional.dropout(t["x"], 0.25)

    scalars = {"shared": 1, "is_alpha": 0, "p": 0.25, "scale": 1.0, "seed": SEED, "offset": 0, "stride_residual": (1,)}
    return Bench(
        name=name, row="dropout_seeded_{T}", dtypes=("f32", "bf16"), arrays=arrays, scalars=scalars, check=kept,
        torch=(peer,), bounds=bounds,
    )  # fmt: skip


def of_arrays(name, count, value, *bounds):
    def peer(torch, t, scalars):
        return lambda: getattr(torch, "bernoulli" if name == "bernoulli_of" else "poisson")(t["p"])

    def mean_is_right(problem):
        found = cells(problem, "y", np.arange(10000)).mean()
        return "" if abs(found - value) < 6 * np.sqrt(value / 10000) else f"has the mean {found}, expected {value}"

    return Bench(
        name=f"random {name}", row=f"random_{name}_{{T}}", dtypes=("f32",),
        arrays={"p": Operand((count,), value), "y": Operand((count,))}, scalars={"seed": SEED, "offset": 0},
        check=mean_is_right, torch=(peer,), bounds=bounds,
    )  # fmt: skip


def multinomial(rows_of, categories, draws, *bounds):
    """Equal weights: their cumulated sums are 1, 2, 3, ..."""

    def peer(torch, t, scalars):
        weights = torch.ones((rows_of, categories), device=t["cdf"].device)
        return lambda: torch.multinomial(weights, draws, True)

    def cumulated(rng):
        return np.broadcast_to(np.arange(1, categories + 1), (rows_of, categories))

    def first_row_is_right(problem):
        u = distributions.half_open(SEED, 0, draws, "f64")
        wanted = np.searchsorted(np.arange(1, categories + 1), u * categories, side="right")
        return same(problem, "y", np.arange(draws), wanted)

    return Bench(
        name=f"random multinomial, {rows_of} x {categories}, {draws} draws", row="random_multinomial_{T}",
        dtypes=("f32",), check=first_row_is_right, torch=(peer,), bounds=bounds,
        arrays={"cdf": Operand((rows_of, categories), cumulated), "y": Operand((rows_of, draws))},
        scalars={"seed": SEED, "offset": 0},
    )  # fmt: skip


def benches(backend):
    on_gpu = backend == "cuda"
    count = 2**26 if on_gpu else 2**22
    peer = Bound("peer", 1.0)
    fast = (Bound("copy", 0.95, dtypes=("f32",)), peer) if on_gpu else (peer,)
    yield made("uniform", ("f32", "bf16", "f64"), count, *fast, low=0.0, high=1.0)
    yield made("normal", ("f32", "bf16", "f64"), count, peer, mean=0.0, stddev=1.0)
    yield made("exponential", ("f32", "bf16"), count, peer, rate=1.0)
    yield made("cauchy", ("f32",), count, peer, location=0.0, scale=1.0)
    yield made("geometric", ("f32",), count, peer, p=0.25)
    yield made("truncated_normal", ("f32",), count, mean=0.0, stddev=1.0, low=-2.0, high=2.0)
    yield made("integers", ("i32", "i64"), count, peer, low=3, high=10)
    yield made("bits", ("i32",), count, peer)
    yield made("bernoulli", ("u8", "f32"), count, peer, p=0.3)
    for small in (1024, 65536):
        yield made("normal", ("f32",), small, peer, brief=True, mean=0.0, stddev=1.0)
    yield (
        dropout("dropout", count, Bound("copy", 0.92, dtypes=("f32",)), peer)
        if on_gpu
        else dropout("dropout", count, peer)
    )
    yield dropout("dropout with residual", count, peer, residual=True)
    gradient = {"dy": Operand((count,), "normal"), "dx": Operand((count,))}
    yield Bench(
        name="dropout backward", row="dropout_seeded_backward_{T}", dtypes=("f32", "bf16"), arrays=gradient,
        scalars={"shared": 1, "is_alpha": 0, "p": 0.25, "scale": 1.0, "seed": SEED, "offset": 0},
        check=kept_of_gradient, bounds=(Bound("copy", 0.9, dtypes=("f32",)),) if on_gpu else (),
    )  # fmt: skip
    yield of_arrays("bernoulli_of", count, 0.25, peer)
    yield multinomial(128, 32768, 1024, peer)
    yield of_arrays("poisson", count // 16, 3.0, peer)


def sweeps(backend):
    for name, scalars in (("uniform", {"low": 0.0, "high": 1.0}), ("normal", {"mean": 0.0, "stddev": 1.0})):
        points = {n: made(name, ("f32",), n, Bound("peer", 1.0), **scalars) for n in SIZES}
        yield Sweep(name=f"random {name}", axis="elements", points=points)

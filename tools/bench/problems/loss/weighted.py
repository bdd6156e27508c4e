# SPDX-License-Identifier: Apache-2.0
"""Losses with weights: cross entropy with smoothing, binary cross entropy, focal loss, Kullback-Leibler divergence."""

import numpy as np

from tools.bench.check import compare, rows, sample_indices
from tools.bench.problems.loss.loss import MEAN, UNITS, cells, whole
from tools.bench.record import Bench, Bound, Operand
from tools.oracle.loss_options import (
    full_poisson_target,
    triplet_swap,
    triplet_swap_slope,
    weighted_probabilities,
    weighted_probabilities_slope,
)
from tools.oracle.losses import (
    LOSSES,
    TARGET_SLOPES,
    focal,
    focal_slope,
    kl_div_of_logs,
    soft_cross_entropy,
    weighted_bce,
    weighted_bce_slope,
    weighted_cross_entropy,
    weighted_cross_entropy_slope,
    weighted_nll,
)

DTYPES = ("f32", "bf16")
SMOOTHING = 0.1


def of_mean(term, count):
    """The mean against float64; term: problem, rows -> Sums."""

    def check(problem):
        with np.errstate(all="ignore"):
            value, magnitude = term(problem, np.arange(count))
        return compare(problem, rows(problem, "out", [0]), np.array([value.mean()]), UNITS * np.mean(magnitude))

    return check


def of_gradient(slope, gradient, count):
    """Chosen gradients against float64; dy is 1."""

    def check(problem):
        chosen = sample_indices(problem, count, 4)
        with np.errstate(all="ignore"):
            value, magnitude = slope(problem, chosen)
        got = cells(problem, gradient, chosen)
        return compare(problem, got, value / count, UNITS * magnitude / count)

    return check


def cross_entropy(count, classes, bounds):
    """Cross entropy with weights and label smoothing, and with neither."""
    index = Operand((count,), lambda rng: rng.integers(0, classes, count))
    x = Operand((count, classes), "normal")
    for label, smoothing, null in (("", SMOOTHING, ()), (", neither", 0.0, ("weight",))):
        scalars = {
            "n_rows": count, "class_extent": classes, "inner_extent": 1, "row_stride_input": classes,
            "reduction_mode": MEAN, "ignore_index": -100, "label_smoothing": smoothing, "z_loss": 0.0,
        }  # fmt: skip
        arrays = {"input": x, "target": index} | ({} if null else {"weight": Operand((classes,), 1.0)})

        def given(problem, chosen, smoothing=smoothing):
            return cells(problem, "input", chosen), problem.indices["target"][chosen], 1.0, -100, smoothing, 0.0

        def peer(torch, t, scalars, smoothing=smoothing):
            options = {"weight": t.get("weight"), "label_smoothing": smoothing}
            return lambda: torch.nn.functional.cross_entropy(t["input"], t["target"], **options)

        yield Bench(
            name=f"loss_cross_entropy_weighted mean{label}", row="loss_cross_entropy_weighted{I}_{T}", index="i64",
            dtypes=DTYPES, scalars=scalars, workspace=True, bounds=bounds, torch=(peer,),
            arrays=arrays | {"out": Operand((1,)), "divisor": Operand((1,))},
            check=of_mean(lambda p, c, given=given: weighted_cross_entropy(*given(p, c)), count),
        )  # fmt: skip
        yield Bench(
            name=f"loss_cross_entropy_weighted_backward mean{label}", row="loss_cross_entropy_weighted_backward{I}_{T}",
            index="i64", dtypes=DTYPES, scalars=scalars, bounds=bounds,
            arrays=arrays
            | {"divisor": Operand((1,), float(count)), "dy": Operand((1,), 1.0), "dinput": Operand((count, classes))},
            check=of_gradient(lambda p, c, given=given: weighted_cross_entropy_slope(*given(p, c)), "dinput", count),
        )  # fmt: skip


def with_gradient(label, count, classes, bounds):
    """The loss and the gradient of the logits, which are read once and written once."""
    scalars = {
        "n_rows": count, "class_extent": classes, "inner_extent": 1, "row_stride_input": classes,
        "reduction_mode": MEAN, "ignore_index": -100, "label_smoothing": 0.0, "z_loss": 0.0,
    }  # fmt: skip

    def given(problem, chosen):
        return cells(problem, "input", chosen), problem.indices["target"][chosen], 1.0, -100, 0.0, 0.0

    def peer(torch, t, scalars):
        def run():
            x = t["input"].detach().requires_grad_()
            return torch.autograd.grad(torch.nn.functional.cross_entropy(x, t["target"]), x)

        return run

    return Bench(
        name=f"loss_cross_entropy_with_gradient{label}", row="loss_cross_entropy_with_gradient{I}_{T}", index="i64",
        dtypes=DTYPES, scalars=scalars, workspace=True, bounds=bounds, torch=(peer,),
        arrays={
            "input": Operand((count, classes), "normal"),
            "target": Operand((count,), lambda rng: rng.integers(0, classes, count)),
            "out": Operand((1,)), "divisor": Operand((1,)), "dinput": Operand((count, classes)),
        },
        check=of_gradient(lambda p, c: weighted_cross_entropy_slope(*given(p, c)), "dinput", count),
    )  # fmt: skip


def spatial(items, classes, inner, bounds):
    """[N, C, d]: the classes of a position are strided."""
    shape, targets = (items, classes, inner), items * inner
    index = Operand((items, inner), lambda rng: rng.integers(0, classes, (items, inner)))
    scalars = {"n_rows": items, "class_extent": classes, "inner_extent": inner, "reduction_mode": MEAN}
    indexed = scalars | {"ignore_index": -100}
    weight = Operand((classes,), 1.0)
    entropy = indexed | {"row_stride_input": classes * inner, "label_smoothing": 0.0, "z_loss": 0.0}
    result, divisor, dy = Operand((1,)), Operand((1,), float(targets)), Operand((1,), 1.0)

    def of_index(function):
        def peer(torch, t, scalars):
            call = getattr(torch.nn.functional, function)
            return lambda: call(t["input"], t["target"], weight=t["weight"].to(t["input"].dtype))

        return peer

    def given(problem):
        x = whole(problem, "input").reshape(shape)
        return np.moveaxis(x, 1, 2).reshape(targets, classes), problem.indices["target"].ravel()

    def mean_of(value_of):
        def check(problem):
            value, magnitude = value_of(*given(problem))[:2]
            return compare(problem, rows(problem, "out", [0]), np.array([value.mean()]), UNITS * np.mean(magnitude))

        return check

    def slopes(problem, names):
        """Gradients of a position's classes add to 0, or to minus its weight in the mean."""
        wanted = 0.0 if problem.row.pattern.startswith("loss_cross") else -1 / targets
        got = whole(problem, names).reshape(shape)[: min(items, 4)].sum(axis=1)
        return compare(problem, got, np.full(got.shape, wanted), 64 / targets, problem.dtype)

    inputs = {"input": Operand(shape, "normal"), "target": index, "weight": weight}
    for name, peer, numbers, check in (
        ("nll", "nll_loss", indexed, mean_of(lambda x, t: weighted_nll(x, t, 1.0, -100))),
        (
            "cross_entropy",
            "cross_entropy",
            entropy,
            mean_of(lambda x, t: weighted_cross_entropy(x, t, 1.0, -100, 0.0, 0.0)),
        ),
    ):
        yield Bench(
            name=f"loss_{name}_weighted places", row=f"loss_{name}_weighted{{I}}_{{T}}", index="i64", dtypes=DTYPES,
            scalars=numbers, workspace=True, bounds=bounds, torch=(of_index(peer),), check=check, brief=True,
            arrays=inputs | {"out": result, "divisor": Operand((1,))},
        )  # fmt: skip
        read = inputs if name == "cross_entropy" else {k: v for k, v in inputs.items() if k != "input"}
        yield Bench(
            name=f"loss_{name}_weighted_backward places", row=f"loss_{name}_weighted_backward{{I}}_{{T}}", index="i64",
            dtypes=DTYPES, scalars=numbers, bounds=bounds, brief=True,
            arrays=read | {"divisor": divisor, "dy": dy, "dinput": Operand(shape)},
            check=lambda problem: slopes(problem, "dinput"),
        )  # fmt: skip
    soft = scalars | {"label_smoothing": SMOOTHING}
    shares = {"input": Operand(shape, "normal"), "target": Operand(shape, "probability"), "weight": weight}

    def check_soft(problem):
        x, q = (np.moveaxis(whole(problem, name).reshape(shape), 1, 2).reshape(targets, classes)
                for name in ("input", "target"))  # fmt: skip
        value, magnitude = soft_cross_entropy(x, q * (1 - SMOOTHING) + SMOOTHING / classes)
        return compare(problem, rows(problem, "out", [0]), np.array([value.mean()]), UNITS * np.mean(magnitude))

    def torch_soft(torch, t, scalars):
        return lambda: torch.nn.functional.cross_entropy(t["input"], t["target"], label_smoothing=SMOOTHING)

    yield Bench(
        name="loss_cross_entropy_soft_weighted places", row="loss_cross_entropy_soft_weighted_{T}", dtypes=DTYPES,
        scalars=soft, workspace=True, bounds=bounds, torch=(torch_soft,), check=check_soft, brief=True,
        arrays=shares | {"out": result},
    )  # fmt: skip
    yield Bench(
        name="loss_cross_entropy_soft_weighted_backward places", dtypes=DTYPES, scalars=soft, bounds=bounds, brief=True,
        row="loss_cross_entropy_soft_weighted_backward_{T}", check=lambda problem: slopes(problem, "dinput"),
        arrays=shares | {"dy": dy, "dinput": Operand(shape), "dtarget": Operand(shape)},
    )  # fmt: skip


def of_targets(numel):
    """Gradients of targets and variances; PyTorch has no separate call for them."""
    for name, (inputs, numbers, output, slope) in TARGET_SLOPES.items():
        weights = ("weight", "pos_weight")
        arrays = {
            x: Operand((1,), 1.0) if x in weights else Operand((numel,), "probability" if x == "pred" else "positive")
            for x in inputs
        }  # fmt: skip
        scalars = {"numel": numel, "reduction_mode": MEAN} | numbers
        scalars |= {"batch": numel} if "batch" in numbers else {}

        def check(problem, inputs=inputs, output=output, slope=slope, numbers=numbers):
            chosen = sample_indices(problem, numel, 16)
            given = [None if x in ("weight", "pos_weight") else cells(problem, x, chosen) for x in inputs]
            with np.errstate(all="ignore"):
                options = [v for k, v in numbers.items() if k != "batch" and "extent" not in k]
                value, magnitude = slope(*given, *options)
            return compare(problem, cells(problem, output, chosen), value / numel, UNITS * magnitude / numel)

        yield Bench(
            name=f"loss_{name}_backward mean", row=f"loss_{name}_backward_{{T}}", dtypes=DTYPES, scalars=scalars,
            arrays=arrays | {"dy": Operand((1,), 1.0), output: Operand((numel,))}, check=check, brief=True,
        )  # fmt: skip


def of_soft_margins(count, classes):
    """Gradients of the targets of independent classes."""
    scalars = {"n_rows": count, "class_extent": classes, "row_stride": classes, "reduction_mode": MEAN}

    def check(problem):
        chosen = sample_indices(problem, count, 4)
        expected = -cells(problem, "input", chosen) / (count * classes)
        return compare(problem, cells(problem, "dtarget", chosen), expected, UNITS * np.abs(expected))

    return Bench(
        name="loss_multilabel_soft_margin_target_backward mean", brief=True, dtypes=DTYPES, scalars=scalars,
        row="loss_multilabel_soft_margin_target_backward_{T}", check=check,
        arrays={
            "input": Operand((count, classes), "normal"), "dy": Operand((1,), 1.0),
            "dtarget": Operand((count, classes)),
        },
    )  # fmt: skip


def elementwise(name, numel, inputs, gradient, term, slope, scalars, peer, weights=()):
    """`inputs`: operands by name; `weights`: those that `term` and `slope` do not take."""
    arrays = inputs | dict(weights)

    def given(problem, chosen):
        return [cells(problem, x, chosen) for x in inputs]

    yield Bench(
        name=f"loss_{name} mean", row=f"loss_{name}_{{T}}", dtypes=DTYPES, scalars=scalars, workspace=True,
        arrays=arrays | {"out": Operand((1,))}, check=of_mean(lambda p, c: term(*given(p, c)), numel), brief=True,
        torch=(peer,),
    )  # fmt: skip
    yield Bench(
        name=f"loss_{name}_backward mean", row=f"loss_{name}_backward_{{T}}", dtypes=DTYPES, scalars=scalars,
        brief=True, arrays={k: v for k, v in arrays.items() if name != "kl_div_batch" or k != "pred"}
        | {"dy": Operand((1,), 1.0), gradient: Operand((numel,))},
        check=of_gradient(lambda p, c: slope(*given(p, c)), gradient, numel) if name != "kl_div_batch" else is_finite,
    )  # fmt: skip


def is_finite(problem):
    return "" if np.all(np.isfinite(whole(problem, "dinput"))) else "dinput is not finite"


def torch_bce(torch, t, scalars):
    return lambda: torch.nn.functional.binary_cross_entropy_with_logits(t["logits"], t["target"])


def torch_probabilities(torch, t, scalars):
    return lambda: torch.nn.functional.binary_cross_entropy(t["pred"], t["target"])


def of_options(numel, count, columns):
    """Separate kernels: the swap of triplets, i32 targets, the constant of Poisson targets."""
    scalars = {
        "n_rows": count, "d_extent": columns, "row_stride": columns, "reduction_mode": MEAN, "margin": 1.0,
        "p_norm": 2.0, "eps": 0.0, "swap_flag": 1,
    }  # fmt: skip
    vectors = {name: Operand((count, columns), "normal") for name in ("a", "p_tensor", "n_tensor")}
    names = ("da", "dp", "dn")

    def given(problem, chosen):
        return [*(cells(problem, name, chosen) for name in vectors), 1.0, 2.0, 0.0, 1]

    def peer(torch, t, scalars):
        call = torch.nn.functional.triplet_margin_loss
        return lambda: call(*(t[name] for name in vectors), eps=0.0, swap=True)

    yield Bench(
        name="loss_triplet_margin_swap mean", row="loss_triplet_margin_swap_{T}", dtypes=DTYPES, scalars=scalars,
        arrays=vectors | {"out": Operand((1,))}, check=of_mean(lambda p, c: triplet_swap(*given(p, c)), count),
        workspace=True, torch=(peer,), brief=True,
    )  # fmt: skip
    yield Bench(
        name="loss_triplet_margin_swap_backward mean", row="loss_triplet_margin_swap_backward_{T}", dtypes=DTYPES,
        arrays=vectors | {"dy": Operand((1,), 1.0)} | {x: Operand((count, columns)) for x in names}, scalars=scalars,
        check=of_gradient(lambda p, c: triplet_swap_slope(*given(p, c))[0], "da", count), brief=True,
    )  # fmt: skip
    hinge = LOSSES["hinge_embedding"]
    signs = Operand((numel,), lambda rng: rng.choice(np.array([1, -1], np.int32), numel))
    pairs = {"input": Operand((numel,), "normal"), "target": signs}
    numbers = {"numel": numel, "reduction_mode": MEAN, "margin": 1.0}

    def of_pairs(problem, chosen):
        return cells(problem, "input", chosen), cells(problem, "target", chosen), 1.0

    yield Bench(
        name="loss_hinge_embedding_i32 mean", row="loss_hinge_embedding_i32_{T}", dtypes=DTYPES, scalars=numbers,
        arrays=pairs | {"out": Operand((1,))}, check=of_mean(lambda p, c: hinge.term(*of_pairs(p, c)), numel),
        workspace=True, brief=True,
    )  # fmt: skip
    yield Bench(
        name="loss_hinge_embedding_i32_backward mean", row="loss_hinge_embedding_i32_backward_{T}", dtypes=DTYPES,
        arrays=pairs | {"dy": Operand((1,), 1.0), "dinput": Operand((numel,))}, brief=True,
        scalars=numbers | {"scale_scalar": 1 / numel},
        check=of_gradient(lambda p, c: hinge.slope(*of_pairs(p, c))[0], "dinput", numel),
    )  # fmt: skip
    counts = {"input": Operand((numel,), "positive"), "target": Operand((numel,), "positive")}
    yield Bench(
        name="loss_poisson_nll_full_target_backward mean", row="loss_poisson_nll_full_target_backward_{T}",
        arrays=counts | {"dy": Operand((1,), 1.0), "dtarget": Operand((numel,))}, dtypes=DTYPES, brief=True,
        scalars={"numel": numel, "reduction_mode": MEAN, "log_input_flag": 1, "full_flag": 1, "eps": 0.0},
        check=of_gradient(
            lambda p, c: full_poisson_target(cells(p, "input", c), cells(p, "target", c), 1, 1, 0.0), "dtarget", numel
        ),
    )  # fmt: skip


def torch_kl(torch, t, scalars):
    return lambda: torch.nn.functional.kl_div(t["pred"], t["target"], reduction="sum", log_target=True)


def benches(backend):
    on_gpu = backend == "cuda"
    bound = Bound("copy", 0.85) if on_gpu else Bound("peer", 1.0)
    yield from cross_entropy(4096 if on_gpu else 128, 32_000, (bound,))
    for classes, count in ((32_000, 4096), (128_256, 1024)):
        yield with_gradient(f" {classes}", count if on_gpu else count // 32, classes, (bound,))
    yield from spatial(64 if on_gpu else 4, 21, 128 * 128, ())
    yield from of_targets(1 << 22)
    yield of_soft_margins(4096, 1000)
    numel, classes = 1 << 22, 1 << 10
    mean = {"numel": numel, "reduction_mode": MEAN}
    logits = {"logits": Operand((numel,), "normal"), "target": Operand((numel,), "probability")}
    yield from elementwise(
        "bce_with_logits_weighted", numel, logits, "dlogits",
        lambda x, t: weighted_bce(x, t, None, None), lambda x, t: weighted_bce_slope(x, t, None, None),
        mean | {"weight_extent": 1, "pos_weight_extent": classes}, torch_bce,
        {"weight": Operand((1,), 1.0), "pos_weight": Operand((classes,), 1.0)},
    )  # fmt: skip
    yield from elementwise(
        "sigmoid_focal", numel, logits, "dlogits", lambda x, t: focal(x, t, 0.25, 2.0),
        lambda x, t: focal_slope(x, t, 0.25, 2.0), mean | {"alpha": 0.25, "gamma": 2.0}, torch_bce,
    )  # fmt: skip
    given = {"pred": Operand((numel,), "probability"), "target": Operand((numel,), "probability")}
    yield from elementwise(
        "bce_weighted", numel, given, "dpred", lambda p, t: weighted_probabilities(p, t, None),
        lambda p, t: weighted_probabilities_slope(p, t, None), mean | {"weight_extent": classes}, torch_probabilities,
        {"weight": Operand((classes,), 1.0)},
    )  # fmt: skip
    yield from of_options(numel, 4096, 1000)
    shares = {"pred": Operand((numel,), "normal"), "target": Operand((numel,), "normal")}
    yield from elementwise(
        "kl_div_batch", numel, shares, "dinput", kl_div_of_logs, None, mean | {"batch": numel, "log_target_flag": 1},
        torch_kl,
    )  # fmt: skip

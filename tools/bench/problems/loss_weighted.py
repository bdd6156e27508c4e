"""Losses with weights: cross entropy with smoothing, binary cross entropy, focal loss, Kullback-Leibler divergence."""

import numpy as np

from tools.bench.check import compare, picks, rows
from tools.bench.problems.loss import MEAN, UNITS, cells, whole
from tools.bench.record import Bench, Bound, Operand
from tools.oracle.losses import (
    focal,
    focal_slope,
    kl_div_of_logs,
    weighted_bce,
    weighted_bce_slope,
    weighted_cross_entropy,
    weighted_cross_entropy_slope,
)

DTYPES = ("f32", "bf16")
SMOOTHING = 0.1


def of_mean(term, count):
    """The mean against float64; term: problem, rows -> Terms."""

    def check(problem):
        with np.errstate(all="ignore"):
            value, magnitude = term(problem, np.arange(count))
        return compare(problem, rows(problem, "out", [0]), np.array([value.mean()]), UNITS * np.mean(magnitude))

    return check


def of_gradient(slope, gradient, count):
    """Chosen gradients against float64; dy is 1."""

    def check(problem):
        chosen = picks(problem, count, 4)
        with np.errstate(all="ignore"):
            value, magnitude = slope(problem, chosen)
        got = cells(problem, gradient, chosen)
        return compare(problem, got, value / count, UNITS * magnitude / count)

    return check


def cross_entropy(count, classes, bounds):
    """With weights and label smoothing, and with neither."""
    index = Operand((count,), lambda rng: rng.integers(0, classes, count))
    x = Operand((count, classes), "normal")
    for label, smoothing, null in (("", SMOOTHING, ()), (", neither", 0.0, ("weight",))):
        scalars = {
            "n_rows": count, "class_extent": classes, "row_stride_input": classes, "reduction_mode": MEAN,
            "ignore_index": -100, "label_smoothing": smoothing, "z_loss": 0.0,
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


def elementwise(name, numel, inputs, gradient, term, slope, scalars, peer, weights=()):
    """`inputs`: operands by name; `weights`: those that only the functions of `term` and `slope` leave out."""
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


def torch_kl(torch, t, scalars):
    return lambda: torch.nn.functional.kl_div(t["pred"], t["target"], reduction="sum", log_target=True)


def benches(backend):
    on_gpu = backend == "cuda"
    bound = Bound("copy", 0.85) if on_gpu else Bound("peer", 1.0)
    yield from cross_entropy(4096 if on_gpu else 128, 32_000, (bound,))
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
    shares = {"pred": Operand((numel,), "normal"), "target": Operand((numel,), "normal")}
    yield from elementwise(
        "kl_div_batch", numel, shares, "dinput", kl_div_of_logs, None, mean | {"batch": numel, "log_target_flag": 1},
        torch_kl,
    )  # fmt: skip

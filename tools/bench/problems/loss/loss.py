# SPDX-License-Identifier: Apache-2.0
"""Losses: the mean over elements or rows, and its gradient."""

import math

import numpy as np

from tools.bench.check import compare, rows, sample_indices
from tools.bench.record import COUNTS, LENGTHS, SIZES, Bench, Bound, Operand, Sweep
from tools.oracle.losses import LOSSES, ROW_LOSSES, at

MEAN, SUM = 1, 2
TIMED = ("mse", "bce_with_logits")  # losses with bounds, on large arrays
# torch's name of a loss, and its arguments.
TORCH = {
    "mse": ("mse_loss", {}), "l1": ("l1_loss", {}), "smooth_l1": ("smooth_l1_loss", {}), "huber": ("huber_loss", {}),
    "bce": ("binary_cross_entropy", {}), "bce_with_logits": ("binary_cross_entropy_with_logits", {}),
    "kl_div": ("kl_div", {"reduction": "mean"}), "poisson_nll": ("poisson_nll_loss", {}),
    "gaussian_nll": ("gaussian_nll_loss", {}), "margin_ranking": ("margin_ranking_loss", {}),
    "hinge_embedding": ("hinge_embedding_loss", {}), "cross_entropy": ("cross_entropy", {}),
    "cross_entropy_soft": ("cross_entropy", {}), "cosine_embedding": ("cosine_embedding_loss", {}),
    "triplet_margin": ("triplet_margin_loss", {"eps": 0.0}), "multi_margin": ("multi_margin_loss", {}),
    "multilabel_margin": ("multilabel_margin_loss", {}), "multilabel_soft_margin": ("multilabel_soft_margin_loss", {}),
    "nll": ("nll_loss", {}),
}  # fmt: skip
WIDE = (
    "smooth_l1", "huber", "gaussian_nll", "margin_ranking", "hinge_embedding", "cosine_embedding", "triplet_margin",
    "multi_margin",
)  # fmt: skip
UNMEASURED = {
    f"loss_{name}_param{backward}_{{T}}": "the kernel of the row whose parameter is f32"
    for name in WIDE for backward in ("", "_backward")
}  # fmt: skip
UNMEASURED |= {
    f"loss_{name}{form}_{{T}}": reason
    for form in ("", "_backward")
    for name, reason in {
        "multilabel_margin_i32": "the kernel of the row whose targets are i64",
        "poisson_nll_full": "the kernel of loss_poisson_nll",
        "multilabel_soft_margin_weighted": "the loss is the kernel of loss_multilabel_soft_margin, its gradient a "
        "product more",
    }.items()
} | {
    "loss_gaussian_nll_full_{T}": "the kernel of loss_gaussian_nll",
    "loss_multi_margin_weighted{I}_{T}": "the kernel of loss_multi_margin",
    "loss_multi_margin_weighted_backward{I}_{T}": "the kernel of loss_multi_margin_backward",
    "loss_multilabel_soft_margin_weighted_target_backward_{T}": "that of targets without weights, and a product more",
    "loss_bce_weighted_target_backward_{T}": "that of targets without weights, and a product more",
}
UNITS = 8  # bound of the error of an element's loss, in units of the compute type


def forward_peer(name, inputs):
    function, options = TORCH[name]

    def peer(torch, t, scalars):
        call = getattr(torch.nn.functional, function)
        return lambda: call(*(t[x] for x in inputs), **options)

    return peer


def backward_peer(name, inputs):
    function, options = TORCH[name]

    def peer(torch, t, scalars):
        given = [t[x] for x in inputs]
        wanted = given[0].detach().clone().requires_grad_()
        loss = getattr(torch.nn.functional, function)(wanted, *given[1:], **options)
        return lambda: torch.autograd.grad(loss, wanted, retain_graph=True)

    return peer


def cells(problem, name, chosen):
    """Rows of an operand; indices as integers."""
    found = problem.indices[name][chosen] if name in problem.indices else rows(problem, name, chosen)
    return found.reshape(len(chosen), *problem.buffers[name].operand.shape[1:])


def whole(problem, name):
    extents = problem.buffers[name].operand.shape
    if name in problem.indices:
        return problem.indices[name].reshape(extents)
    return rows(problem, name, np.arange(math.prod(extents[:-1] or extents))).reshape(extents)


def of_mean(oracle, inputs, numbers):
    """The mean against float64."""

    def check(problem):
        with np.errstate(all="ignore"):
            value, magnitude = oracle.term(*(whole(problem, x) for x in inputs), *numbers)
        return compare(problem, rows(problem, "out", [0]), np.array([value.mean()]), UNITS * magnitude.mean())

    return check


def of_slopes(oracle, inputs, numbers, count):
    """Chosen gradients against float64; dy is 1."""

    def check(problem):
        chosen = sample_indices(problem, count)
        with np.errstate(all="ignore"):
            slopes = oracle.slope(*(cells(problem, x, chosen) for x in inputs), *numbers)
        for output, (value, magnitude) in zip(oracle.gradients, slopes):
            got = cells(problem, output, chosen)
            if wrong := compare(problem, got, value / count, UNITS * magnitude / count):
                return f"{output} {wrong}"
        return ""

    return check


FILLS = {"probability": "probability", "positive": "positive"}


def fill_of(loss, name):
    if name in loss.integers:
        return lambda rng: rng.choice(np.array([1, -1]), 1 << 22)
    return FILLS.get(loss.domain.get(name, ""), "normal")


def elementwise(name, numel, bounds):
    """The mean and its gradient."""
    loss = LOSSES[name]
    numel = numel if name in TIMED else 1 << 22
    numbers = loss.values[:1]
    scalars = {"numel": numel, "reduction_mode": MEAN} | ({loss.parameter: numbers[0]} if loss.parameter else {})
    arrays = {x: Operand((numel,), fill_of(loss, x)) for x in loss.inputs}
    dtypes = ("f32", "bf16")
    yield Bench(
        name=f"loss_{name} mean", row=f"loss_{name}_{{T}}", dtypes=dtypes, arrays=arrays | {"out": Operand((1,))},
        scalars=scalars, check=of_mean(loss, loss.inputs, numbers), workspace=True, bounds=bounds[:1],
        torch=(forward_peer(name, loss.inputs),), brief=name not in TIMED,
    )  # fmt: skip
    read = loss.reads or loss.inputs
    gradients = {x: Operand((numel,)) for x in loss.gradients}
    yield Bench(
        name=f"loss_{name}_backward mean", row=f"loss_{name}_backward_{{T}}", dtypes=dtypes,
        arrays={x: arrays[x] for x in read} | {"dy": Operand((1,), 1.0)} | gradients,
        scalars=scalars | {"scale_scalar": 1 / numel}, check=of_slopes(loss, read, numbers, numel), bounds=bounds[1:],
        torch=(backward_peer(name, loss.inputs),) if not loss.reads else (), brief=name not in TIMED,
    )  # fmt: skip


def target_of(loss, count, columns):
    if loss.targets == "index":
        return Operand((count,), lambda rng: rng.integers(0, columns, count))
    if loss.targets == "sign":
        return Operand((count,), 1.0)
    if loss.targets == "list":

        def labels(rng):
            found = np.full((count, columns), -1)
            found[:, :3] = rng.integers(0, columns, (count, 3))
            return found

        return Operand((count, columns), labels)
    return Operand((count, columns), "probability")


def by_rows(name, label, count, columns, bounds):
    loss = ROW_LOSSES[name]
    numbers = loss.values[0]
    inputs = (*loss.inputs, *([loss.target] if loss.targets else []))
    scalars = {"n_rows": count, loss.columns: columns, "reduction_mode": MEAN} | dict(zip(loss.parameters, numbers))
    scalars |= dict.fromkeys(loss.strides, columns)
    arrays = {x: Operand((count, columns), "normal") for x in loss.inputs}
    if loss.targets:
        arrays[loss.target] = target_of(loss, count, columns)
    yield Bench(
        name=f"loss_{name}{label} mean", row=f"loss_{name}_{{T}}", dtypes=("f32", "bf16"), scalars=scalars,
        arrays=arrays | {"out": Operand((1,))}, check=of_mean(loss, inputs, numbers), workspace=True,
        bounds=bounds[:1], torch=(forward_peer(name, inputs),), brief=not bounds,
    )  # fmt: skip
    yield Bench(
        name=f"loss_{name}_backward{label} mean", row=f"loss_{name}_backward_{{T}}", dtypes=("f32", "bf16"),
        arrays=arrays | {"dy": Operand((1,), 1.0)} | {x: Operand((count, columns)) for x in loss.gradients},
        scalars=scalars | {"scale_scalar": 1 / count}, check=of_slopes(loss, inputs, numbers, count), bounds=bounds[1:],
        torch=(backward_peer(name, inputs),), brief=not bounds,
    )  # fmt: skip


def nll(count, columns):
    index = Operand((count,), lambda rng: rng.integers(0, columns, count))
    scalars = {"n_rows": count, "class_extent": columns, "row_stride_input": columns, "reduction_mode": MEAN}
    x = Operand((count, columns), "normal")

    def check(problem):
        chosen = -at(whole(problem, "input"), problem.indices["target"])
        return compare(problem, rows(problem, "out", [0]), np.array([chosen.mean()]), np.abs(chosen).mean())

    def check_backward(problem):
        chosen = sample_indices(problem, count)
        cells = chosen * columns + problem.indices["target"][chosen]
        expected = np.full(len(chosen), -1 / count)
        return compare(problem, rows(problem, "dinput", cells), expected, 1 / count)

    yield Bench(
        name="loss_nll mean", row="loss_nll_{T}", dtypes=("f32", "bf16"), scalars=scalars, check=check, workspace=True,
        arrays={"input": x, "target": index, "out": Operand((1,))}, torch=(forward_peer("nll", ("input", "target")),),
        bytes=lambda size, _: count * (8 + max(size, 32)), brief=True,
    )  # fmt: skip
    yield Bench(
        name="loss_nll_backward mean", row="loss_nll_backward_{T}", dtypes=("f32", "bf16"), check=check_backward,
        scalars=scalars | {"scale_scalar": 1 / count, "dinput_numel": count * columns}, brief=True,
        arrays={"dy": Operand((1,), 1.0), "target": index, "dinput": Operand((count * columns,))},
    )  # fmt: skip


def fused(label, count, classes, bounds, form="", dtypes=("f32", "bf16")):
    """Cross entropy with its gradient, which overwrites the logits at every launch. So the check takes a property that
    holds for any logits: the gradients of a row add to 0."""

    def peer(torch, t, scalars):
        def run():
            x = t["logits"].detach().requires_grad_()
            return torch.autograd.grad(torch.nn.functional.cross_entropy(x, t["target"]), x)

        return run

    def check(problem):
        chosen = sample_indices(problem, count, 2)
        got = rows(problem, "logits", chosen)
        size = np.abs(got).sum(axis=1) * (64 if problem.dtype == "bf16" else 1)
        return compare(problem, got.sum(axis=1), np.zeros(len(chosen)), 4 * size, problem.dtype)

    return Bench(
        name=f"loss_flce_per_row{form}{label}", row=f"loss_flce_per_row{form}_{{T}}", dtypes=dtypes, bounds=bounds,
        arrays={
            "logits": Operand((count, classes), "normal"),
            "target": Operand((count,), lambda rng: rng.integers(0, classes, count)), "loss_1d": Operand((count,)),
        },
        scalars={
            "n_rows": count, "v": classes, "row_stride": classes, "target_ignore": -100, "scale_per_row": 1.0,
        },
        bytes=lambda size, _: 2 * count * classes * size, check=check, torch=(peer,),
    )  # fmt: skip


def fused_linear(count):
    """The small kernels of fused linear cross entropy."""
    losses = Operand((count,), "sixteenths")

    def check_cast(problem):
        chosen = sample_indices(problem, count)
        return compare(problem, rows(problem, "out", chosen), rows(problem, "loss_1d", chosen), 0.0)

    def check_finalize(problem):
        x = whole(problem, "loss_1d")
        return compare(problem, rows(problem, "out", [0]), np.array([x.sum() / count]), np.abs(x).sum() / count)

    def check_count(problem):
        expected = np.sum(problem.indices["target"] != -100)
        got = rows(problem, "count_out", [0])[0]
        return "" if got == expected else f"count_out is {got:g}, expected {expected}"

    dtypes = ("f32", "bf16")
    yield Bench(
        name="loss_flce_per_row_cast", row="loss_flce_per_row_cast_{T}", dtypes=dtypes, scalars={"n_rows": count},
        arrays={"loss_1d": losses, "out": Operand((count,))}, check=check_cast, brief=True,
    )  # fmt: skip
    for form, of in (("", dtypes), ("_param", ("f64",))):
        yield Bench(
            name=f"loss_flce_inplace_scale{form}", row=f"loss_flce_inplace_scale{form}_{{T}}", dtypes=of, brief=True,
            scalars={"numel": count, "scalar": 1.0}, arrays={"buf": losses}, check=lambda problem: "",
            bytes=lambda size, _: 2 * count * size,
        )  # fmt: skip
        yield Bench(
            name=f"loss_flce_scalar_finalize{form}", row=f"loss_flce_scalar_finalize{form}_{{T}}", dtypes=of,
            scalars={"n_rows": count, "denom_inv": 1 / count}, arrays={"loss_1d": losses, "out": Operand((1,))},
            check=check_finalize, brief=True,
        )  # fmt: skip
    yield fused(" 1000", count // 64, 1000, (), "_param", ("f64",))
    yield Bench(
        name="loss_flce_count_non_ignore", row="loss_flce_count_non_ignore", dtypes=("i64",), brief=True,
        scalars={"bt": count, "ignore_index": -100}, check=check_count,
        arrays={
            "target": Operand((count,), lambda rng: rng.choice(np.array([-100, 3]), count)), "count_out": Operand((1,)),
        },
    )  # fmt: skip


def ctc(time, batch, classes, labels):
    """CTC with equal probabilities in all frames, and samples of full length."""
    states = 2 * labels + 1
    scalars = {
        "max_time": time, "batch_size": batch, "num_classes": classes, "max_target_len": labels, "blank": 0,
        "reduction_mode": SUM, "zero_infinity": 0,
    }  # fmt: skip
    full = {
        "log_probs": Operand((time, batch, classes), float(-np.log(classes))),
        "targets": Operand((batch, labels), lambda rng: rng.integers(1, classes, (batch, labels))),
        "input_lengths": Operand((batch,), lambda rng: np.full(batch, time)),
        "target_lengths": Operand((batch,), lambda rng: np.full(batch, labels)),
    }

    def peer(torch, t, scalars):
        given = [t[x] for x in ("log_probs", "targets", "input_lengths", "target_lengths")]
        return lambda: torch.nn.functional.ctc_loss(*given, reduction="sum")

    def is_finite(name):
        return lambda problem: "" if np.all(np.isfinite(rows(problem, name, [0]))) else f"{name} is not finite"

    yield Bench(
        name="loss_ctc sum", row="loss_ctc_{T}", dtypes=("f32",), scalars=scalars, workspace=True, brief=True,
        arrays=full | {"alpha_ws": Operand((time, batch, states)), "out": Operand((1,))}, check=is_finite("out"),
        torch=(peer,),
    )  # fmt: skip
    yield Bench(
        name="loss_ctc_backward sum", row="loss_ctc_backward_{T}", dtypes=("f32",), workspace=True, brief=True,
        scalars=scalars | {"inv_denom": 1.0}, check=is_finite("dlog_probs"),
        arrays=full
        | {
            "alpha_ws": Operand((time, batch, states), -50.0), "per_sample_loss": Operand((batch,), 100.0),
            "dloss": Operand((1,), 1.0), "dlog_probs": Operand((time, batch, classes)),
        },
    )  # fmt: skip
    ragged = scalars | {"targets_numel": batch * labels, "is_concatenated": 1}
    full["targets"] = Operand((batch * labels,), lambda rng: rng.integers(1, classes, batch * labels))
    yield Bench(
        name="loss_ctc_ragged sum", row="loss_ctc_ragged{I}_{T}", index="i64", dtypes=("f32",), scalars=ragged,
        brief=True, check=is_finite("out"), torch=(peer,),
        arrays=full
        | {
            "alpha": Operand((time, batch, states)), "per_sample_loss": Operand((batch,)), "out": Operand((1,)),
        },
    )  # fmt: skip
    yield Bench(
        name="loss_ctc_ragged_backward sum", row="loss_ctc_ragged_backward{I}_{T}", index="i64", dtypes=("f32",),
        workspace=True, brief=True, scalars=ragged, check=is_finite("dlog_probs"),
        arrays=full
        | {
            "alpha": Operand((time, batch, states), -50.0), "per_sample_loss": Operand((batch,), 100.0),
            "dloss": Operand((1,), 1.0), "dlog_probs": Operand((time, batch, classes)),
        },
    )  # fmt: skip


def benches(backend):
    on_gpu = backend == "cuda"
    numel = 1 << (27 if on_gpu else 24)
    bounds = (Bound("copy", 0.88), Bound("copy", 0.92)) if on_gpu else (Bound("peer", 1.0), Bound("peer", 1.0))
    for name in LOSSES:
        yield from elementwise(name, numel, bounds if name in TIMED else ())
    of_forward = Bound("copy", 0.90) if on_gpu else Bound("peer", 1.0)
    of_gradient = Bound("copy", 0.85) if on_gpu else Bound("peer", 1.0)
    for classes, count in ((1000, 2**17), (32_000, 4096), (128_256, 1024)):
        count = count if on_gpu else count // 8
        yield from by_rows("cross_entropy", f" {classes}", count, classes, (of_forward, of_gradient))
        yield fused(f" {classes}", count, classes, (of_gradient,))
    for name in ROW_LOSSES:
        if name != "cross_entropy":
            yield from by_rows(name, "", 1024, 128 if name == "multilabel_margin" else 1000, ())
    yield from nll(1 << 14, 256)
    yield from fused_linear(1 << 16)
    yield from ctc(256, 32, 64, 40)


def sweeps(backend):
    numel = 2**26 if backend == "cuda" else 2**21

    def both(name, axis, problems, *, level=False):
        """The loss and its gradient: `problems` are pairs."""
        for number, form in enumerate(("", "_backward")):
            points = {extent: pair[number] for extent, pair in problems.items()}
            yield Sweep(name=name.replace("{}", form), axis=axis, points=points, level=level)

    classes = {n: tuple(by_rows("cross_entropy", "", numel // n, n, ())) for n in LENGTHS if n > 8}
    yield from both(f"cross_entropy{{}}, {numel} elements", "classes", classes, level=True)
    many = {count: tuple(by_rows("cross_entropy", "", count, 1000, ())) for count in COUNTS}
    yield from both("cross_entropy{} of 1000 classes", "rows", many)
    for name in TIMED:
        sizes = {n: tuple(elementwise(name, n, ())) for n in SIZES if n <= numel}
        yield from both(f"{name}{{}}", "elements", sizes)

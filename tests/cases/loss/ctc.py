"""Connectionist temporal classification, against the same recursions in float64."""

import numpy as np

from tools.oracle.numerics import COMPUTE, round_to

from ..model import Bad, Case, Expected, Idle, Problem
from .common import MEAN, MODES, NONE, SUM, negative, pointers

DIMENSIONS = ("max_time", "batch_size", "num_classes", "max_target_len")


def log_sum(*values):
    return np.logaddexp.reduce(np.array(values))


def paths(log_probs, labels, blank):
    """(alpha, beta, loss, class of each state) of one sample of (frames, classes). What is no class never comes."""
    frames, classes = log_probs.shape
    states = np.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    known = (states >= 0) & (states < classes)
    emitted = np.where(known, log_probs[:, np.where(known, states, 0)], -np.inf)
    skips = np.array([k > 1 and states[k] != blank and states[k] != states[k - 2] for k in range(len(states))])
    alpha, beta = np.full((2, frames, len(states)), -np.inf)
    if frames:
        alpha[0, :2] = emitted[0, :2]
        beta[-1, -2:] = 0
    for t in range(1, frames):
        for k in range(len(states)):
            steps = alpha[t - 1, max(k - 1 - bool(skips[k]), 0) : k + 1]
            alpha[t, k] = log_sum(*steps) + emitted[t, k]
    for t in range(frames - 2, -1, -1):
        onward = beta[t + 1] + emitted[t + 1]
        for k in range(len(states)):
            steps = [onward[k], *onward[k + 1 : k + 2], *(onward[k + 2 : k + 3] if skips[k + 2 : k + 3].any() else ())]
            beta[t, k] = log_sum(*steps)
    if not frames:
        return alpha, beta, np.inf if len(labels) else 0.0, states
    return alpha, beta, -log_sum(*alpha[-1, -2:]), states


def samples(problem):
    """Of each sample its number, frames, labels, and paths()."""
    s, arrays = problem.scalars, problem.arrays
    for n in range(s["batch_size"]):
        frames = int(np.clip(arrays["input_lengths"].values[n], 0, s["max_time"]))
        length = int(np.clip(arrays["target_lengths"].values[n], 0, s["max_target_len"]))
        labels = arrays["targets"].values[n, :length]
        yield n, frames, length, *paths(arrays["log_probs"].values[:frames, n], labels, s["blank"])


def made(draw, time, batch, classes, labels, mode, *, zero=0, blank=0, infeasible=False, backward=False, null=()):
    x = draw.rng.standard_normal((time, batch, classes))
    x = x - np.log(np.sum(np.exp(x), axis=2, keepdims=True))
    rng = draw.rng
    targets = rng.integers(0, classes, (batch, labels))
    targets = np.where(targets == blank, (blank + 1) % classes, targets)
    targets = np.where(rng.random((batch, labels)) < 0.3, np.roll(targets, 1, axis=1), targets)  # repeated ones
    input_lengths = rng.integers(0 if infeasible else max(time - 2, 0), time, batch, endpoint=True)
    target_lengths = rng.integers(0, labels, batch, endpoint=True)
    if infeasible:
        input_lengths[: batch // 3] = rng.choice([-3, 0, time + 5, 1], batch // 3)
        target_lengths[: batch // 3] = rng.choice([-3, 0, labels + 5, labels], batch // 3)
        targets = np.where(rng.random((batch, labels)) < 0.05, classes + 3, targets)
    scalars = {
        "max_time": time, "batch_size": batch, "num_classes": classes, "max_target_len": labels, "blank": blank,
        "reduction_mode": mode, "zero_infinity": zero,
    }  # fmt: skip
    arrays = {
        "log_probs": draw.array(round_to(x, draw.dtype).reshape(x.shape)), "targets": draw.array(targets, "i64"),
        "input_lengths": draw.array(input_lengths, "i64"), "target_lengths": draw.array(target_lengths, "i64"),
    }  # fmt: skip
    wide, shape = COMPUTE[draw.dtype], (time, batch, 2 * labels + 1)
    results = batch if mode == NONE else 1
    if not backward:
        arrays |= {"alpha_ws": draw.output(shape, dtype=wide), "out": draw.output((results,))}
        return Problem(scalars, arrays, null=null)
    lengths = np.clip(target_lengths, 0, labels).sum()
    problem = Problem(scalars | {"inv_denom": 1 / max(lengths, 1) if mode == MEAN else 1.0}, arrays)
    with np.errstate(all="ignore"):
        saved = forward(problem)
        losses = losses_of(problem)[0]
    arrays |= {
        "alpha_ws": draw.array(round_to(saved["alpha_ws"].value, wide), wide),
        "per_sample_loss": draw.array(round_to(losses, wide), wide),
        "dloss": draw.floats((results,)), "dlog_probs": draw.output(x.shape),
    }  # fmt: skip
    return problem


def losses_of(problem):
    """(losses, whether each was infinite)"""
    found = np.array([loss for *_, loss, _ in samples(problem)]).reshape(-1)
    lost = ~np.isfinite(found)
    return np.where(lost & bool(problem.scalars["zero_infinity"]), 0.0, found), lost


def forward(problem):
    s = problem.scalars
    alphas = np.full((s["max_time"], s["batch_size"], 2 * s["max_target_len"] + 1), -np.inf)
    labels = 0
    with np.errstate(all="ignore"):
        for n, frames, length, alpha, *_ in samples(problem):
            alphas[:frames, n, : alpha.shape[1]] = alpha
            labels += length
        losses, _ = losses_of(problem)
        if s["reduction_mode"] != NONE:
            losses = np.array([np.sum(losses)]) / (max(labels, 1) if s["reduction_mode"] == MEAN else 1)
    size = 1 + np.abs(np.where(np.isfinite(alphas), alphas, 0))
    count = s["max_time"] + s["batch_size"] + 4
    of_loss = np.abs(np.where(np.isfinite(losses), losses, 0)) + np.max(size, initial=1)
    return {"alpha_ws": Expected(alphas, count, size), "out": Expected(losses, count, of_loss)}


def backward(problem):
    s, x = problem.scalars, problem.arrays["log_probs"].values
    value, size = np.zeros((2, *x.shape))
    with np.errstate(all="ignore"):
        _, lost = losses_of(problem)
        for n, frames, _, alpha, beta, loss, states in samples(problem):
            dy = problem.arrays["dloss"].values[n if s["reduction_mode"] == NONE else 0]
            scale = dy * np.float64(np.float32(s["inv_denom"]))
            if lost[n] and s["zero_infinity"]:
                continue
            share = np.exp(alpha + beta + loss) if not lost[n] else np.zeros(alpha.shape)
            gamma = np.zeros((frames, s["num_classes"]))
            for k, c in enumerate(states):
                if 0 <= c < s["num_classes"]:
                    gamma[:, c] += share[:, k]
            p = np.exp(x[:frames, n])
            value[:frames, n] = (p - gamma) * scale
            worth = (
                4
                + np.abs(loss if np.isfinite(loss) else 0)
                + np.max(np.abs(alpha), where=np.isfinite(alpha), initial=0)
            )
            size[:frames, n] = (p + gamma * worth) * np.abs(scale)
    return {"dlog_probs": Expected(value, s["max_time"] + 4, size, divided=1.0)}


def problems(*, gradient):
    table = {}

    def add(label, *args, **options):
        table[label] = lambda draw: made(draw, *args, backward=gradient, **options)

    for label, mode in MODES.items():
        add(label, 9, 4, 6, 3, mode)
        add(f"infeasible_{label}", 7, 9, 5, 4, mode, infeasible=True)
        add(f"zeroed_{label}", 7, 9, 5, 4, mode, infeasible=True, zero=1)
    add("one_frame", 1, 3, 4, 1, SUM)
    add("one_class", 4, 2, 1, 0, SUM)
    add("no_labels", 5, 3, 4, 0, NONE)
    add("last_blank", 12, 3, 7, 5, MEAN, blank=6)
    add("many_classes", 6, 2, 300, 2, MEAN)
    add("many_labels", 70, 2, 20, 40, SUM)
    add("large", 24, 12, 40, 9, MEAN)
    if not gradient:
        inputs = ("log_probs", "targets", "input_lengths", "target_lengths")
        add("no_samples_sum", 5, 0, 4, 2, SUM, null=inputs)
        add("no_samples_mean", 5, 0, 4, 2, MEAN, null=inputs)
        add("no_frames", 0, 3, 4, 2, NONE)
    return table


def bad_calls():
    yield from negative(DIMENSIONS)
    for blank in (-1, 6):
        yield Bad(f"blank_{blank}", 2, rf"blank is {blank}, must be in \[0, num_classes\), 6", {"blank": blank}, can=2)


OPERANDS = ("log_probs", "targets", "input_lengths", "target_lengths", "alpha_ws")
SHORT = Bad("short_workspace", 4, r"workspace_bytes is \d+", short=True)
CASES = (
    Case(
        row="loss_ctc_{T}", problems=problems(gradient=False), reference=forward,
        tolerance={"alpha_ws": "loss", "out": "loss"}, plain="none", large="large",
        bad=(
            *bad_calls(), *pointers((*OPERANDS, "out")), SHORT,
            Bad("no_samples_null_out", 2, r"out is NULL", {"batch_size": 0, "reduction_mode": SUM}, null=("out",)),
        ),
        idle=(Idle("no_samples", {"batch_size": 0, "reduction_mode": NONE}),),
    ),
    Case(
        row="loss_ctc_backward_{T}", problems=problems(gradient=True), reference=backward,
        tolerance={"dlog_probs": "loss"}, plain="none", large="large",
        bad=(*bad_calls(), *pointers((*OPERANDS, "per_sample_loss", "dloss", "dlog_probs"))),
        idle=(Idle("no_samples", {"batch_size": 0}), Idle("no_frames", {"max_time": 0})),
    ),
)  # fmt: skip

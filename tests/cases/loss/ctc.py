# SPDX-License-Identifier: Apache-2.0
"""Connectionist temporal classification (CTC), against the same recursions in float64."""

import numpy as np

from tools.oracle.numerics import COMPUTE, round_to

from ..model import Bad, Case, Expected, Idle, Problem
from .common import MEAN, MODES, NONE, SUM, negative, pointers

DIMENSIONS = ("max_time", "batch_size", "num_classes", "max_target_len")


def log_sum(*values):
    return np.logaddexp.reduce(np.array(values))


def stepped(row, skips, way):
    """The logarithms of sums over the transitions into each state: from itself, its neighbour, and, where it `skips`,
    the state behind that."""
    padded = np.concatenate([row, [-np.inf] * 2])
    near, far = np.roll(padded, way)[: len(row)], np.roll(padded, 2 * way)[: len(row)]
    return log_sum(row, near, np.where(skips, far, -np.inf))


def paths(log_probs, labels, blank):
    """(alpha, beta, loss, class of each state) of a sample of (frames, classes). An invalid class has probability 0."""
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
        alpha[t] = stepped(alpha[t - 1], skips, 1) + emitted[t]
    for t in range(frames - 2, -1, -1):
        beta[t] = stepped(beta[t + 1] + emitted[t + 1], np.append(skips[2:], [False, False])[: len(states)], -1)
    if not frames:
        return alpha, beta, np.inf if len(labels) else 0.0, states
    return alpha, beta, -log_sum(*alpha[-1, -2:]), states


def is_ragged(problem):
    return "is_concatenated" in problem.scalars


def samples(problem):
    """Yields index, frames, labels, and paths() of each sample."""
    s, arrays, first = problem.scalars, problem.arrays, 0
    given, most = arrays["targets"].values.ravel(), s["max_target_len"]
    for n in range(s["batch_size"]):
        frames = int(np.clip(arrays["input_lengths"].values[n], 0, s["max_time"]))
        length = int(np.clip(arrays["target_lengths"].values[n], 0, most))
        first = first if s.get("is_concatenated") else n * most
        labels = given[first : first + length]
        labels = np.append(labels, [-1] * (length - len(labels)))
        first += length
        yield n, frames, length, *paths(arrays["log_probs"].values[:frames, n], labels, s["blank"])


def made(draw, time, batch, classes, labels, mode, *, zero=0, blank=0, infeasible=False, least=0, ragged=False,
         backward=False, missing=0, null=()):  # fmt: skip
    """`ragged` is no, padded, or concatenated; the last `missing` concatenated targets are missing."""
    x = draw.rng.standard_normal((time, batch, classes))
    x = x - np.log(np.sum(np.exp(x), axis=2, keepdims=True))
    rng = draw.rng
    targets = rng.integers(0, classes, (batch, labels))
    targets = np.where(targets == blank, (blank + 1) % classes, targets)
    targets = np.where(rng.random((batch, labels)) < 0.3, np.roll(targets, 1, axis=1), targets)  # some labels repeat
    input_lengths = rng.integers(0 if infeasible else max(time - 2, 0), time, batch, endpoint=True)
    target_lengths = rng.integers(least, labels, batch, endpoint=True)
    if infeasible:
        input_lengths[: batch // 3] = rng.choice([-3, 0, time + 5, 1], batch // 3)
        target_lengths[: batch // 3] = rng.choice([-3, 0, labels + 5, labels], batch // 3)
        targets = np.where(rng.random((batch, labels)) < 0.05, classes + 3, targets)
    scalars = {
        "max_time": time, "batch_size": batch, "num_classes": classes, "max_target_len": labels, "blank": blank,
        "reduction_mode": mode, "zero_infinity": zero,
    }  # fmt: skip
    if ragged == "concatenated":
        known = np.arange(labels) < np.clip(target_lengths, 0, labels)[:, None]
        targets = targets[known][: max(np.sum(known) - missing, 0)]
    if ragged:
        targets = targets.ravel()
        scalars |= {"targets_numel": len(targets), "is_concatenated": int(ragged == "concatenated")}
    arrays = {
        "log_probs": draw.array(round_to(x, draw.dtype).reshape(x.shape)),
        "targets": draw.indices(targets) if ragged else draw.array(targets, "i64"),
        "input_lengths": draw.array(input_lengths, "i64"), "target_lengths": draw.array(target_lengths, "i64"),
    }  # fmt: skip
    wide, shape, alpha = COMPUTE[draw.dtype], (time, batch, 2 * labels + 1), "alpha" if ragged else "alpha_ws"
    results = batch if mode == NONE else 1
    if not backward:
        arrays |= {alpha: draw.output(shape, dtype=wide), "out": draw.output((results,))}
        arrays |= {"per_sample_loss": draw.output((batch,), dtype=wide)} if ragged else {}
        return Problem(scalars, arrays, null=null)
    lengths = np.clip(target_lengths, 0, labels).sum()
    problem = Problem(scalars | ({} if ragged else {"inv_denom": 1 / max(lengths, 1) if mode == MEAN else 1.0}), arrays)
    with np.errstate(all="ignore"):
        saved = forward(problem)
        losses = losses_of(problem)[0]
    arrays |= {
        alpha: draw.array(round_to(saved[alpha].value, wide), wide),
        "per_sample_loss": draw.array(round_to(losses, wide), wide),
        "dloss": draw.floats((results,)), "dlog_probs": draw.output(x.shape),
    }  # fmt: skip
    return problem


def losses_of(problem):
    """Returns (losses, whether each was infinite)."""
    found = np.array([loss for *_, loss, _ in samples(problem)]).reshape(-1)
    lost = ~np.isfinite(found)
    return np.where(lost & bool(problem.scalars["zero_infinity"]), 0.0, found), lost


def forward(problem):
    s, ragged = problem.scalars, is_ragged(problem)
    alphas = np.full((s["max_time"], s["batch_size"], 2 * s["max_target_len"] + 1), -np.inf)
    labels = []
    with np.errstate(all="ignore"):
        for n, frames, length, alpha, *_ in samples(problem):
            alphas[:frames, n, : alpha.shape[1]] = alpha
            labels.append(length)
        each, _ = losses_of(problem)
        losses = each
        if s["reduction_mode"] == SUM:
            losses = np.array([np.sum(each)])
        elif s["reduction_mode"] == MEAN and ragged:
            losses = np.array([np.sum(each / np.maximum(labels, 1)) / (len(each) or np.nan)])
        elif s["reduction_mode"] == MEAN:
            losses = np.array([np.sum(each)]) / max(sum(labels), 1)
    size = 1 + np.abs(np.where(np.isfinite(alphas), alphas, 0))
    count = s["max_time"] + s["batch_size"] + 4
    worst = np.max(size, initial=1)
    found = {"alpha" if ragged else "alpha_ws": Expected(alphas, count, size)}
    for name, value in (("out", losses), *([("per_sample_loss", each)] if ragged else [])):
        found[name] = Expected(value, count, np.abs(np.where(np.isfinite(value), value, 0)) + worst)
    return {name: value for name, value in found.items() if name not in problem.null}


def backward(problem):
    s, x = problem.scalars, problem.arrays["log_probs"].values
    value, size = np.zeros((2, *x.shape))
    with np.errstate(all="ignore"):
        _, lost = losses_of(problem)
        for n, frames, length, alpha, beta, loss, states in samples(problem):
            dy = problem.arrays["dloss"].values[n if s["reduction_mode"] == NONE else 0]
            scale = dy * np.float64(np.float32(s.get("inv_denom", 1)))
            if is_ragged(problem) and s["reduction_mode"] == MEAN:
                scale = dy / (s["batch_size"] * max(length, 1))
            if lost[n] and s["zero_infinity"]:
                continue
            share = np.exp(alpha + beta + loss) if not lost[n] else np.zeros(alpha.shape)
            gamma = np.zeros((frames, s["num_classes"]))
            for c in range(s["num_classes"]):
                gamma[:, c] = share[:, states == c].sum(1)
            p = np.exp(x[:frames, n])
            value[:frames, n] = np.nan if lost[n] else (p - gamma) * scale
            worth = (
                4
                + np.abs(loss if np.isfinite(loss) else 0)
                + np.max(np.abs(alpha), where=np.isfinite(alpha), initial=0)
            )
            size[:frames, n] = (p + gamma * worth) * np.abs(scale)
    return {"dlog_probs": Expected(value, s["max_time"] + 4, size, divided=1.0)}


def problems(*, gradient, ragged=False):
    table = {}

    def add(label, *args, **options):
        form = {"ragged": ("padded", "concatenated")[len(table) % 2]} if ragged else {}
        table[label] = lambda draw: made(draw, *args, backward=gradient, **(form | options))

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
    add("two_classes", 40, 2, 2, 12, MEAN)
    if not ragged:
        add("long", 1480, 1, 30, 1035, SUM, least=1026)
    else:
        add("long_of_two_classes", 2080, 1, 2, 1030, MEAN, least=1025, ragged="concatenated")
        add("padded", 9, 40, 6, 5, MEAN, ragged="padded")
        add("concatenated", 9, 300, 6, 5, MEAN, ragged="concatenated")
        add("short_of_targets", 9, 7, 6, 5, NONE, ragged="concatenated", missing=3)
        add("no_targets", 9, 3, 6, 5, NONE, ragged="concatenated", missing=99)
    if not gradient:
        inputs = ("log_probs", "targets", "input_lengths", "target_lengths")
        unused = (*inputs, "alpha", "per_sample_loss") if ragged else inputs
        add("no_samples_sum", 5, 0, 4, 2, SUM, null=unused)
        add("no_samples_mean", 5, 0, 4, 2, MEAN, null=unused)
        add("no_frames", 0, 3, 4, 2, NONE)
    return table


def bad_calls():
    yield from negative(DIMENSIONS)
    for blank in (-1, 6):
        yield Bad(f"blank_{blank}", 2, rf"blank is {blank}, must be in \[0, num_classes\), 6", {"blank": blank}, can=2)


def bad_targets():
    yield Bad("negative_targets_numel", 2, r"targets_numel is -4, must be >= 0", {"targets_numel": -4}, can=2)
    yield from bad_calls()
    text = r"targets_numel is 11, must be batch_size \* max_target_len, 12"
    yield Bad("padding", 2, text, {"targets_numel": 11}, can=2)


OPERANDS = ("log_probs", "targets", "input_lengths", "target_lengths")
CASES = (
    Case(
        row="loss_ctc_{T}", problems=problems(gradient=False), reference=forward,
        tolerance={"alpha_ws": "loss", "out": "loss"}, plain="none", large="large",
        bad=(
            *bad_calls(), *pointers((*OPERANDS, "alpha_ws", "out")),
            Bad("short_workspace", 4, r"workspace_bytes is \d+, must be 0 or >= \d+", short=True),
            Bad("no_samples_null_out", 2, r"out is NULL", {"batch_size": 0, "reduction_mode": SUM}, null=("out",)),
        ),
        idle=(Idle("no_samples", {"batch_size": 0, "reduction_mode": NONE}),),
    ),
    Case(
        row="loss_ctc_backward_{T}", problems=problems(gradient=True), reference=backward,
        tolerance={"dlog_probs": "loss"}, plain="none", large="large",
        bad=(
            *bad_calls(), *pointers((*OPERANDS, "alpha_ws", "per_sample_loss", "dloss", "dlog_probs")),
        ),
        idle=(Idle("no_samples", {"batch_size": 0}), Idle("no_frames", {"max_time": 0})),
    ),
    Case(
        row="loss_ctc_ragged{I}_{T}", problems=problems(gradient=False, ragged=True), reference=forward,
        tolerance={"alpha": "loss", "per_sample_loss": "loss", "out": "loss"}, plain="none", large="large",
        bad=(
            *bad_targets(), *pointers((*OPERANDS, "alpha", "per_sample_loss", "out")),
            Bad("no_samples_null_out", 2, r"out is NULL", {"batch_size": 0, "targets_numel": 0, "reduction_mode": SUM},
                null=("out",)),
        ),
        idle=(Idle("no_samples", {"batch_size": 0, "targets_numel": 0, "reduction_mode": NONE}),),
    ),
    Case(
        row="loss_ctc_ragged_backward{I}_{T}", problems=problems(gradient=True, ragged=True), reference=backward,
        tolerance={"dlog_probs": "loss"}, plain="none", large="large",
        bad=(*bad_targets(), *pointers((*OPERANDS, "alpha", "per_sample_loss", "dloss", "dlog_probs"))),
        idle=(Idle("no_samples", {"batch_size": 0, "targets_numel": 0}), Idle("no_frames", {"max_time": 0})),
    ),
)  # fmt: skip

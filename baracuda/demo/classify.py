# SPDX-License-Identifier: Apache-2.0
"""Trains a text classifier with the library, on the source of Python's own standard library.

    python -m baracuda.demo classify

A text is 20 lines of a package, and its label is the package. Every word and every bigram is hashed to a row of a
table; the mean of a text's rows (embedding_bag) are the logits of the packages, softmax and its gradient are NumPy. The
backward of embedding_bag accumulates: with the table as output and -rate times the gradient as dy, it is a step of
sparse gradient descent. binary_lerp keeps a running average of the table, which classifies the texts of held-out files.
Exits with 1 if that is hardly better than the most frequent label, or if the gradient of any op is wrong.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import re
import sys
import sysconfig
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import baracuda as bk
from baracuda.demo.machine import describe_device

Array = np.ndarray[Any, Any]

SKIPPED = {"encodings", "pydoc_data", "lib2to3", "test", "tests", "idle_test", "site-packages"}  # tables and tests
LABELS, LINES = 10, 20
HELD_OUT = 0.25
WORD = re.compile(r"[A-Za-z]+")
AVERAGE_EVERY, AVERAGE = 4, 0.03
GRADIENT_TOLERANCE = 1e-5
DETERMINISTIC = bk.PlanPreference(deterministic=True)


# --- The text ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Bags:
    """Texts as embedding_bag takes them: text b has indices[offsets[b]:offsets[b + 1]]."""

    indices: Array
    offsets: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)


@dataclasses.dataclass
class File:
    """A file: `lines` are where its lines begin in the corpus, and the end of the last one."""

    label: int
    held_out: bool
    lines: Array


@dataclasses.dataclass
class Corpus:
    names: list[str]
    files: list[File]
    rows: Array  # the table row of every word and of every pair, in the order of the text

    def texts(self, held_out: bool, rng: np.random.Generator | None = None) -> Bags:
        """All texts of some files, in order; with `rng` they are cut at other lines each time, and shuffled."""
        begins, ends, labels = [], [], []
        for file in self.files:
            slack = len(file.lines) - LINES
            if file.held_out is held_out and slack > 0:
                first = int(rng.integers(min(slack, LINES))) if rng else 0
                starts = np.arange(first, slack, LINES)
                begins.append(file.lines[starts])
                ends.append(file.lines[starts + LINES])
                labels.append(np.full(len(starts), file.label))
        begin, end, label = np.concatenate(begins), np.concatenate(ends), np.concatenate(labels)
        if rng:
            order = rng.permutation(len(label))
            begin, end, label = begin[order], end[order], label[order]
        lengths = end - begin
        offsets = np.cumsum(lengths) - lengths
        where = np.arange(lengths.sum()) + np.repeat(begin - offsets, lengths)
        return Bags(self.rows[where], offsets, label)


def read_corpus(table_rows: int) -> Corpus:
    """The packages with the most lines; a quarter of the lines of each, in whole files, are held out."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    found = {p.name: _sources(p) for p in sorted(root.iterdir()) if p.name not in SKIPPED and _is_package(p)}
    sizes = {name: sum(map(len, files.values())) for name, files in found.items() if len(files) >= 5}
    names = sorted(sorted(sizes, key=lambda name: (-sizes[name], name))[:LABELS])
    if len(names) < 2:
        raise SystemExit(f"{root} carries no source of the standard library")
    files, chunks, position = [], [], 0
    hashes: dict[str, int] = {}
    for label, name in enumerate(names):
        held = 0
        for _, lines in sorted(found[name].items(), key=lambda item: zlib.crc32(item[0].encode())):
            is_held = held < HELD_OUT * sizes[name] and held + len(lines) < 2 * HELD_OUT * sizes[name]
            held += len(lines) * is_held
            rows, begins = _rows(lines, name, hashes, table_rows)
            files.append(File(label, is_held, begins + position))
            chunks.append(rows)
            position += len(rows)
    return Corpus(names, files, np.concatenate(chunks))


def _is_package(path: pathlib.Path) -> bool:
    return (path / "__init__.py").is_file()


def _sources(package: pathlib.Path) -> dict[str, list[str]]:
    """Lines of the package's files, by path within the library."""
    paths = [p for p in sorted(package.rglob("*.py")) if not SKIPPED.intersection(p.parts)]
    return {str(p.relative_to(package.parent)): p.read_text("utf-8", "replace").splitlines() for p in paths}


def _rows(lines: list[str], name: str, hashes: dict[str, int], table_rows: int) -> tuple[Array, Array]:
    """Rows of a file's words and pairs, and where each line begins; the package's own name is left out."""
    words: list[int] = []
    begins = []
    for line in lines:
        begins.append(len(words))
        for word in WORD.findall(line):
            if word.lower() != name:
                value = hashes.get(word)
                if value is None:
                    value = hashes[word] = zlib.crc32(word.encode())
                words.append(value)
    begins.append(len(words))
    single = np.array(words, np.uint64)
    pair = single * np.uint64(1_000_003) + np.append(single[1:], single[:1])
    mixed = np.stack([single, pair], 1).reshape(-1) * np.uint64(0x9E3779B97F4A7C15)  # wraps
    return ((mixed >> np.uint64(32)) % np.uint64(table_rows)).astype(np.int32), 2 * np.array(begins)


# --- The model --------------------------------------------------------------------------------------------------------


class Model:
    """A table [rows, labels] on the device and its running average."""

    def __init__(self, library: bk.Library, rows: int, labels: int) -> None:
        self.library = library
        self.shape = (rows, labels)
        self.table = bk.zeros(self.shape, bk.f32, library=library)
        self.average = bk.zeros(self.shape, bk.f32, library=library)
        self.steps = 0
        self.scratch: bk.TensorRef | None = None
        self.scores = self.gradient = self.table  # placeholders until the first batch gives the sizes
        lerp = bk.BinaryParamPlan.select(
            None,
            bk.BinaryParamDescriptor(kind=bk.BinaryKind.LERP, shape=self.shape, params=(AVERAGE,), element=bk.f32),
            library=library,
        )
        operands = bk.BinaryParamArgs(a=self.average, b=self.table, y=self.average)
        self.update_average = lerp.bind(None, None, operands)

    def forward(self, table: bk.TensorRef, indices: bk.TensorRef, offsets: bk.TensorRef) -> Array:
        """Scores of a batch."""
        bags = offsets.shape[0]
        if self.scores.shape[0] != bags:
            self.scores = bk.empty((bags, self.shape[1]), bk.f32, library=self.library)
            self.gradient = bk.empty((bags, self.shape[1]), bk.f32, library=self.library)
        descriptor = bk.EmbeddingBagDescriptor(**self._problem(indices, offsets))
        plan = bk.EmbeddingBagPlan.select(None, descriptor, library=self.library)
        plan.run(None, bk.workspace(plan), bk.EmbeddingBagArgs(table, indices, offsets, self.scores))
        return bk.download(self.scores, library=self.library)

    def descend(self, indices: bk.TensorRef, offsets: bk.TensorRef, gradient: Array, rate: float) -> None:
        """table -= rate * (gradient of the table)."""
        bk.upload(-rate * gradient, out=self.gradient, library=self.library)
        descriptor = bk.EmbeddingBagBackwardDescriptor(**self._problem(indices, offsets))
        plan = bk.EmbeddingBagBackwardPlan.select(None, descriptor, DETERMINISTIC, library=self.library)
        if plan.workspace_size > (self.scratch.nbytes if self.scratch else 0):
            self.scratch = bk.workspace(plan)
        plan.run(None, self.scratch, bk.EmbeddingBagBackwardArgs(self.gradient, indices, offsets, self.table))
        self.steps += 1
        if self.steps % AVERAGE_EVERY == 0:
            self.update_average()

    def accuracy(self, bags: Bags) -> float:
        """Fraction of the texts that the averaged table classifies correctly."""
        indices = bk.upload(bags.indices, bk.i32, library=self.library)
        offsets = bk.upload(bags.offsets, bk.i32, library=self.library)
        return float(np.mean(self.forward(self.average, indices, offsets).argmax(1) == bags.labels))

    def _problem(self, indices: bk.TensorRef, offsets: bk.TensorRef) -> dict[str, Any]:
        return {
            "num_embeddings": self.shape[0], "embedding_dim": self.shape[1], "num_bags": offsets.shape[0],
            "total_indices": indices.shape[0], "mode": bk.EmbeddingBagMode.MEAN, "element": bk.f32,
        }  # fmt: skip


def train(model: Model, corpus: Corpus, options: argparse.Namespace) -> None:
    rng = np.random.default_rng(options.seed)
    progress = Progress(options.epochs)
    for epoch in range(options.epochs):
        bags = corpus.texts(held_out=False, rng=rng)
        loss = done = 0.0
        for indices, offsets, labels, share in batches(bags, options.batch, model.library):
            scores = model.forward(model.table, indices, offsets)
            loss_of_batch, gradient = cross_entropy(scores, labels)
            model.descend(indices, offsets, gradient, options.rate * (1 - (epoch + done) / options.epochs))
            done += share
            loss += loss_of_batch * share
            progress.update(epoch, done, indices.shape[0], len(labels), loss / done)
    progress.finish()


def batches(bags: Bags, size: int, library: bk.Library) -> Iterator[tuple[bk.TensorRef, bk.TensorRef, Array, float]]:
    """(indices, offsets, labels, share of the epoch), the first two by address within two uploads for all batches."""
    firsts = np.arange(0, len(bags), size)
    ends = np.append(bags.offsets[firsts[1:]], len(bags.indices))
    relative = bags.offsets - np.repeat(bags.offsets[firsts], size)[: len(bags)]
    indices = bk.upload(bags.indices, bk.i32, library=library)
    offsets = bk.upload(relative, bk.i32, library=library)
    for first, end in zip(firsts.tolist(), ends.tolist()):
        labels = bags.labels[first : first + size]
        start = int(bags.offsets[first])
        yield (
            bk.TensorRef(indices.ptr + 4 * start, (end - start,), bk.i32, device=indices.device, owner=indices),
            bk.TensorRef(offsets.ptr + 4 * first, (len(labels),), bk.i32, device=offsets.device, owner=offsets),
            labels,
            len(labels) / len(bags),
        )


def cross_entropy(scores: Array, labels: Array) -> tuple[float, Array]:
    """Mean loss of a batch, and its gradient."""
    rows = np.arange(len(labels))
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    probabilities = exponentials / exponentials.sum(1, keepdims=True)
    loss = -np.log(probabilities[rows, labels]).mean()
    probabilities[rows, labels] -= 1
    return float(loss), probabilities / np.float32(len(labels))


class Progress:
    """A bar on a terminal, some lines elsewhere."""

    WIDTH = 30

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self.start = self.drawn = time.perf_counter()
        self.texts = self.indices = 0
        self.bar = sys.stdout.isatty()

    def update(self, epoch: int, done: float, indices: int, texts: int, loss: float) -> None:
        """`done` of the epoch; indices and texts of the last batch, mean loss of the epoch so far."""
        self.texts += texts
        self.indices += indices
        now = time.perf_counter()
        is_last = done > 1 - 1e-9
        if self.bar and (is_last or now - self.drawn > 0.05):
            self.drawn = now
            filled = round(self.WIDTH * (epoch + done) / self.epochs)
            print(f"\r  [{'#' * filled:{self.WIDTH}}] {self._line(epoch, loss)}", end="", flush=True)
        elif is_last and not self.bar and ((epoch + 1) % max(1, self.epochs // 5) == 0 or epoch + 1 == self.epochs):
            print(f"  {self._line(epoch, loss)}", flush=True)

    def finish(self) -> None:
        seconds = time.perf_counter() - self.start
        print("\n" if self.bar else "", end="")
        print(
            f"trained in {seconds:.1f} s: {self.texts / seconds:,.0f} texts/s, {self.indices / seconds:,.0f} indices/s"
        )

    def _line(self, epoch: int, loss: float) -> str:
        rate = self.texts / (time.perf_counter() - self.start)
        return f"epoch {epoch + 1:2}/{self.epochs}  loss {loss:.3f}  {rate:,.0f} texts/s"


# --- Gradients --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class System:
    """An op and its backward.

    inputs     differentiable arrays by operand name, with the name of their gradient
    constants  index arrays
    output     its name, and that of its gradient
    reference  the op in NumPy, on inputs
    """

    name: str
    forward: type[bk.Plan]
    backward: type[bk.Plan]
    problem: dict[str, Any]
    inputs: dict[str, tuple[str, Array]]
    constants: dict[str, Array]
    output: tuple[str, str]
    reference: Callable[..., Array]


def systems(rng: np.random.Generator) -> Iterator[System]:
    indices, offsets = rng.integers(0, 11, 20), np.array([0, 3, 3, 14])  # the second bag is empty
    bags = np.split(indices, offsets[1:])
    yield System(
        "embedding_bag", bk.EmbeddingBagPlan, bk.EmbeddingBagBackwardPlan,
        {
            "num_embeddings": 11, "embedding_dim": 5, "num_bags": 4, "total_indices": 20,
            "mode": bk.EmbeddingBagMode.MEAN,
        },
        {"weight": ("dweight", rng.standard_normal((11, 5)))}, {"indices": indices, "offsets": offsets},
        ("output", "dout"), lambda weight: np.stack([weight[bag].sum(0) / max(len(bag), 1) for bag in bags]),
    )  # fmt: skip
    yield System(
        "repeat", bk.RepeatPlan, bk.RepeatBackwardPlan, {"input_shape": (3, 5), "repeats": (2, 3)},
        {"x": ("dx", rng.standard_normal((3, 5)))}, {}, ("y", "dy"), lambda x: np.tile(x, (2, 3)),
    )  # fmt: skip
    ids = np.sort(rng.integers(0, 6, 13))
    yield System(
        "segment_sum", bk.SegmentSumPlan, bk.SegmentSumBackwardPlan,
        {"num_inputs": 13, "embedding_dim": 5, "num_segments": 6},
        {"input": ("d_input", rng.standard_normal((13, 5)))}, {"segment_ids": ids}, ("output", "d_output"),
        lambda input: np.stack([input[ids == segment].sum(0) for segment in range(6)]),
    )  # fmt: skip
    distance = np.arange(6) - np.arange(5)[:, None]
    yield System(
        "alibi", bk.AlibiPlan, bk.AlibiBackwardPlan,
        {"batch_size": 2, "num_heads": 3, "query_len": 5, "key_len": 6},
        {"scores": ("dscores", rng.standard_normal((2, 3, 5, 6))), "slopes": ("dslopes", rng.standard_normal(3))}, {},
        ("out", "dy"), lambda scores, slopes: scores + slopes[:, None, None] * distance,
    )  # fmt: skip
    yield System(
        "lerp", bk.BinaryParamPlan, bk.BinaryParamBackwardPlan,
        {"kind": bk.BinaryKind.LERP, "shape": (33,), "params": (0.25,)},
        {"a": ("da", rng.standard_normal(33)), "b": ("db", rng.standard_normal(33))}, {},
        ("y", "dy"), lambda a, b: a + 0.25 * (b - a),
    )  # fmt: skip


def check_gradients(library: bk.Library) -> dict[str, float]:
    """Largest relative error of each system: outputs against NumPy, gradients against finite differences of NumPy."""
    rng = np.random.default_rng(5)
    errors: dict[str, float] = {}
    for system in systems(rng):
        inputs = {name: values for name, (_, values) in system.inputs.items()}
        expected = system.reference(**inputs)
        (output, output_gradient), gradients = system.output, [gradient for gradient, _ in system.inputs.values()]
        got = _run(library, system, system.forward, inputs, {output: expected.shape})
        shape: tuple[int, ...] = expected.shape
        dy = rng.standard_normal(shape)
        shapes = {gradient: values.shape for gradient, values in system.inputs.values()}
        got |= _run(library, system, system.backward, {output_gradient: dy}, shapes)
        want = {output: expected}
        want |= {g: _differences(system.reference, inputs, name, dy) for g, name in zip(gradients, inputs)}
        errors[system.name] = max(float(np.abs(got[k] - want[k]).max() / np.abs(want[k]).max()) for k in want)
    return errors


def _run(
    library: bk.Library, system: System, plan_type: type[bk.Plan], inputs: dict[str, Array],
    outputs: dict[str, tuple[int, ...]],
) -> dict[str, Array]:  # fmt: skip
    """One launch in f32."""
    descriptor = plan_type.descriptor_type(element=bk.f32, **system.problem)
    plan = plan_type.select(None, descriptor, DETERMINISTIC, library=library)
    views = {name: bk.upload(values, bk.f32, library=library) for name, values in inputs.items()}
    views |= {name: bk.upload(values, bk.i32, library=library) for name, values in system.constants.items()}
    views |= {name: bk.zeros(shape, bk.f32, library=library) for name, shape in outputs.items()}
    plan.run(None, bk.workspace(plan), plan_type.args_type(**views))
    return {name: bk.download(views[name], library=library) for name in outputs}


def _differences(reference: Callable[..., Array], inputs: dict[str, Array], name: str, dy: Array) -> Array:
    """Gradient of sum(dy * reference) by one input, in central differences."""
    gradient = np.empty(inputs[name].shape)
    for index in np.ndindex(gradient.shape):
        moved = []
        for step in (0.5, -0.5):
            values = inputs[name].copy()
            values[index] += step
            moved.append(reference(**(inputs | {name: values})))
        gradient[index] = (dy * (moved[0] - moved[1])).sum()
    return gradient


# --- The report -------------------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m baracuda.demo classify", description="Train a text classifier.")
    parser.add_argument("--backend", choices=("cpu", "cuda"), help="default: as the library is found")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32, help="texts a step")
    parser.add_argument("--rows", type=int, default=1 << 17, help="of the table")
    parser.add_argument("--rate", type=float, default=8000.0, help="of the descent, at first; it falls to 0")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    os.environ.setdefault(
        "OMP_WAIT_POLICY", "passive"
    )  # many short launches: idle threads must not keep the cores busy
    library = bk.load(backend=options.backend) if options.backend else bk.default_library()
    print(f"baracuda {bk.__version__} on {describe_device(library)}")

    errors = check_gradients(library)
    off = [name for name, error in errors.items() if not error <= GRADIENT_TOLERANCE]
    print("largest relative errors against float64: " + ", ".join(f"{k} {v:.0e}" for k, v in errors.items()))
    print(f"gradient check: {'FAILED for ' + ', '.join(off) if off else 'passed'}")

    corpus = read_corpus(options.rows)
    test = corpus.texts(held_out=True)
    held = sum(file.held_out for file in corpus.files)
    print(f"text: {len(corpus.files)} files of {', '.join(corpus.names)}")
    print(f"  {len(corpus.rows):,} words and pairs; {len(test)} texts of {held} files are held out")

    model = Model(library, options.rows, len(corpus.names))
    train(model, corpus, options)
    majority = float(np.bincount(test.labels).max() / len(test))
    accuracy = model.accuracy(test)
    good = accuracy > 2 * majority
    print(f"held-out accuracy: {accuracy:.3f} (always the commonest label: {majority:.3f}){'' if good else ': FAILED'}")
    return 0 if good and not off else 1

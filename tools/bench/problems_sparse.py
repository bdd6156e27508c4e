"""The benchmark problems with indices: segment sums and embedding bags. See problems.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import baracuda as bk
from baracuda import memory
from tools.bench.data import Buffer
from tools.bench.problems import ATOMIC, BAG, DETERMINISTIC, DIM, Bench, Bound, Row, compare
from tools.bench.timing import Call

_ROUNDED_TERMS = 64  # 16-bit atomics round every addition: rows of more terms are not compared


def segment_sum_backward(b: Bench) -> Iterator[Row]:
    n, segments = 1 << (21 - b.shift), 1 << (17 - b.shift)
    dout, dx = b.data.normal((segments, DIM), b.element), b.data.empty((n, DIM), b.element)
    ids = np.sort(b.data.rng.integers(0, segments, n))
    picks = b.picks(n)

    def check() -> str:
        return compare(b.data.rows(dx, picks), b.data.rows(dout, ids[picks]), 0.0, b.element, bk.f32)

    for index in (bk.i32, bk.i64):
        where = b.data.index(ids, index)
        run, _ = b.launch(
            bk.SegmentSumBackwardPlan, bk.SegmentSumBackwardArgs(dout.view, where.view, dx.view),
            num_inputs=n, embedding_dim=DIM, num_segments=segments,
        )  # fmt: skip
        yield Row(
            "segment_sum_backward", index.token, run, dout.nbytes + dx.nbytes + where.nbytes, check,
            b.torch_calls(lambda t, w=where: [
                ("index_select", lambda: t.index_select(dout.torch, 0, w.torch, out=dx.torch)),
            ]),
            b.numpy_calls(dout, where, dx, make=lambda d, w, o: [
                ("take", lambda: np.take(d, w, 0, out=o, mode="clip")),
            ]),
            Bound("copy", 0.77),
        )  # fmt: skip


def segment_sum(b: Bench) -> Iterator[Row]:
    n, segments, tiny = 1 << (21 - b.shift), 1 << (17 - b.shift), 1 << (20 - b.shift)
    x = b.data.normal((n, DIM), b.element)
    rng = b.data.rng
    cases = (
        ("even", segments, np.sort(rng.integers(0, segments, n)), None, Bound("copy", 0.85)),
        ("even, no workspace", segments, None, ATOMIC, Bound("copy", 0.85)),
        ("giant", segments, np.full(n, segments // 2), None, Bound("even", 1.5)),
        ("tiny", tiny, np.sort(rng.integers(0, tiny, n)), None, Bound("even", 1.5)),
    )
    ids = cases[0][2]
    for variant, count, chosen, preference, bound in cases:
        ids = ids if chosen is None else chosen
        yield from _segment_rows(b, "segment_sum", variant, x, ids, count, preference, bound)


def unsorted_segment_sum(b: Bench) -> Iterator[Row]:
    n, segments = 1 << (21 - b.shift), 1 << (17 - b.shift)
    x = b.data.normal((n, DIM), b.element)
    ids = b.data.rng.integers(0, segments, n)
    for variant, preference, bound in (("atomic", ATOMIC, 2.7), ("workspace", DETERMINISTIC, 4.0)):
        yield from _segment_rows(
            b, "unsorted_segment_sum", variant, x, ids, segments, preference, Bound("torch", bound)
        )


def _segment_rows(
    b: Bench, op: str, variant: str, x: Buffer, ids: Any, segments: int, preference: Any, bound: Bound
) -> Iterator[Row]:
    n = len(ids)
    is_sorted = op == "segment_sum"
    out = b.data.empty((segments, DIM), b.element)
    where = b.data.index(ids)
    plan, args = (
        (bk.SegmentSumPlan, bk.SegmentSumArgs) if is_sorted else (bk.UnsortedSegmentSumPlan, bk.UnsortedSegmentSumArgs)
    )
    run, size = b.launch(
        plan, args(x.view, where.view, out.view), preference,
        num_inputs=n, embedding_dim=DIM, num_segments=segments,
    )  # fmt: skip
    if not size and preference is not ATOMIC and variant == "workspace":
        return
    counts = np.bincount(ids, minlength=segments)
    steps = b.element if variant == "atomic" else bk.f32
    picks = np.append(b.picks(segments), ids[n // 2])

    def check() -> str:
        return _check_sums(b, picks, out, lambda s: b.data.row_sums(x, np.flatnonzero(ids == s)), counts, steps)

    def torch_peers(t: Any) -> list[tuple[str, Call]]:
        lengths = t.from_numpy(counts).to(x.torch.device)
        added = [("index_add_", lambda: out.torch.zero_().index_add_(0, where.torch, x.torch))]
        reduced = [("segment_reduce", lambda: t.segment_reduce(x.torch, "sum", lengths=lengths, unsafe=True))]
        return reduced + added if is_sorted else added

    def numpy_peers(values: Any) -> list[tuple[str, Call]]:
        starts = np.searchsorted(ids, np.flatnonzero(counts))
        return [("add.reduceat", lambda: np.add.reduceat(values, starts, 0))] if is_sorted else []

    yield Row(
        op, variant, run, x.nbytes + out.nbytes + where.nbytes, check, b.torch_calls(torch_peers),
        b.numpy_calls(x, make=numpy_peers), bound,
    )  # fmt: skip


def _check_sums(b: Bench, picks: Any, out: Buffer, sums: Callable[[int], Any], counts: Any, steps: Any) -> str:
    for pick in np.unique(picks):
        if steps.bits < 32 and counts[pick] > _ROUNDED_TERMS:
            continue
        expected, magnitude = sums(pick)
        wrong = compare(b.data.rows(out, np.array([pick]))[0], expected, magnitude, b.element, steps)
        if wrong:
            return f"row {pick}: {wrong}"
    return ""


class _Bags:
    """Table, indices and offsets of an embedding bag problem."""

    def __init__(self, b: Bench, distribution: str, weight: Buffer, out: Buffer) -> None:
        self.rows, self.bags = 1 << (20 - b.shift), 1 << (16 - b.shift)
        self.total = self.bags * BAG
        self.weight, self.out = weight, out
        if distribution == "uniform":
            self.ids = b.data.rng.integers(0, self.rows, self.total)
        elif distribution == "zipf":
            self.ids = b.data.zipf(self.total, self.rows)
        else:
            self.ids = np.full(self.total, self.rows // 2)
        self.counts = np.bincount(self.ids, minlength=self.rows)
        starts = np.arange(self.bags) * BAG
        self.indices, self.offsets = b.data.index(self.ids), b.data.index(starts, bk.i32)
        self.long_offsets = b.data.index(starts)  # torch wants one index type

    def problem(self, mode: bk.EmbeddingBagMode) -> dict[str, Any]:
        return {
            "num_embeddings": self.rows, "embedding_dim": DIM, "num_bags": self.bags, "total_indices": self.total,
            "mode": mode,
        }  # fmt: skip


_MODES = (("sum", bk.EmbeddingBagMode.SUM, 1.0, 0), ("mean", bk.EmbeddingBagMode.MEAN, 1.0 / BAG, 1))


def embedding_bag(b: Bench) -> Iterator[Row]:
    weight = b.data.normal((1 << (20 - b.shift), DIM), b.element)
    out = b.data.empty((1 << (16 - b.shift), DIM), b.element)
    for distribution in ("uniform", "zipf"):
        bags = _Bags(b, distribution, weight, out)
        nbytes = bags.total * DIM * b.element.itemsize + out.nbytes + bags.indices.nbytes
        picks = b.picks(bags.bags)
        args = bk.EmbeddingBagArgs(weight.view, bags.indices.view, bags.offsets.view, out.view)
        for name, mode, scale, _ in _MODES:
            run, _ = b.launch(bk.EmbeddingBagPlan, args, **bags.problem(mode))

            def sums(bag: int, ids: Any = bags.ids, scale: float = scale) -> Any:
                total, magnitude = b.data.row_sums(weight, ids[bag * BAG : bag * BAG + BAG])
                return total * scale, magnitude * scale

            def check(picks: Any = picks, sums: Any = sums, bags: _Bags = bags) -> str:
                return _check_sums(b, picks, out, sums, np.full(bags.bags, BAG), bk.f32)

            def torch_peers(t: Any, bags: _Bags = bags, name: str = name) -> list[tuple[str, Call]]:
                bag = t.nn.functional.embedding_bag
                operands = (bags.indices.torch, weight.torch, bags.long_offsets.torch)
                return [("embedding_bag", lambda: bag(*operands, mode=name))]

            def numpy_peers(table: Any, o: Any, ids: Any = bags.ids, name: str = name) -> list[tuple[str, Call]]:
                reduce = np.sum if name == "sum" else np.mean
                return [(f"take, {name}", lambda: reduce(table[ids].reshape(-1, BAG, DIM), 1, out=o))]

            yield Row(
                "embedding_bag", f"{distribution} {name}", run, nbytes, check, b.torch_calls(torch_peers),
                b.numpy_calls(weight, out, make=numpy_peers), Bound("torch", 1.4),
            )  # fmt: skip


def embedding_bag_backward(b: Bench) -> Iterator[Row]:
    dweight = b.data.empty((1 << (20 - b.shift), DIM), b.element)
    dout = b.data.normal((1 << (16 - b.shift), DIM), b.element)
    for distribution in ("uniform", "zipf", "hot"):
        bags = _Bags(b, distribution, dweight, dout)
        touched = int(np.count_nonzero(bags.counts))
        # the table zeroed, the touched rows written
        nbytes = dweight.nbytes + touched * DIM * b.element.itemsize + dout.nbytes + bags.indices.nbytes
        for mode in _MODES if distribution != "hot" else _MODES[:1]:
            for variant, preference in (("atomic", ATOMIC), ("workspace", DETERMINISTIC)):
                yield from _bag_backward_row(b, bags, distribution, mode, variant, preference, nbytes)


def _bag_backward_row(
    b: Bench, bags: _Bags, distribution: str, mode: Any, variant: str, preference: Any, nbytes: int
) -> Iterator[Row]:
    name, mode_kind, scale, torch_mode = mode
    dweight, dout = bags.weight, bags.out
    args = bk.EmbeddingBagBackwardArgs(dout.view, bags.indices.view, bags.offsets.view, dweight.view)
    launch, size = b.launch(bk.EmbeddingBagBackwardPlan, args, preference, **bags.problem(mode_kind))
    if variant == "workspace" and not size:
        return

    def run() -> None:
        memory.clear(dweight.view, stream=b.data.stream, library=b.data.library)
        launch()

    steps = b.element if variant == "atomic" else bk.f32
    picks = np.concatenate((b.picks(bags.rows), bags.ids[:16], [np.argmax(bags.counts)]))

    def sums(row: int) -> Any:
        total, magnitude = b.data.row_sums(dout, np.flatnonzero(bags.ids == row) // BAG)
        return total * scale, magnitude * scale

    def torch_peers(t: Any) -> list[tuple[str, Call]]:
        table = dweight.torch
        forward = t.embedding_bag(table, bags.indices.torch, bags.long_offsets.torch, False, torch_mode)
        call = t.ops.aten._embedding_bag_backward
        operands = (dout.torch, bags.indices.torch, bags.long_offsets.torch, *forward[1:], bags.rows)
        return [("embedding_bag_backward", lambda: call(*operands, False, torch_mode, False, None, -1))]

    factor = {"workspace": 5.0, "atomic": 3.0 if distribution == "uniform" else 2.5}[variant]
    yield Row(
        "embedding_bag_backward", f"{distribution} {name} {variant}", run, nbytes,
        lambda: _check_sums(b, picks, dweight, sums, bags.counts, steps), b.torch_calls(torch_peers), [],
        None if distribution == "hot" else Bound("torch", factor),
    )  # fmt: skip

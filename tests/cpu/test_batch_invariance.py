# SPDX-License-Identifier: Apache-2.0
"""On the CPU the bits of a row depend on its inputs alone: not on how many rows there are, on the others, their order,
the gaps between them or the alignment of the base. Every op of norms, softmax, losses and reductions that has rows is
tried; the words of the op table say which do.
"""

import os

import numpy as np
import pytest

import tolerances
from harness import OPS, ROWS, launch
from harness.batches import Batch, has_rows
from naming import each_row

CHOSEN = {op: value for op, value in OPS.items() if has_rows(value[0]) and value[0].batch_invariant == "yes"}
# Elements of the largest operand; more of them reach further thresholds of the number of rows.
MOST = int(os.environ.get("BARACUDA_BATCH_ELEMENTS", 2**17))
LENGTHS = (1, 17, 64, 100, 1024, 4096, 4099, 32000, 200000)
COUNTS = (4096, 1000, 33)
QUADRATIC = ("loss_multilabel_margin",)  # in the length of a row


def sizes(op: str):
    """(rows, length) of the batches that an op is tried with."""
    row, slots = OPS[op]
    first = next(iter(row.functions), "")
    is_brief = slots.get("T") not in ("f32", "f64", "f16", "bf16") or slots.get("F", first) != first
    lengths = (1, 17, 100) if row.pattern.startswith(QUADRATIC) else (17, 4099) if is_brief else LENGTHS
    for n in lengths:
        rows = next((count for count in COUNTS if count * n <= MOST), max(2, min(9, 2**21 // n)))
        yield (min(rows, 64) if is_brief else rows), n


def bits_of(library, op, batch, chosen, workspace, **options):
    problem = batch.problem(chosen, options.pop("pad", 0))
    outcome = launch(library, op, problem, workspace=workspace, **options)
    assert outcome.status == 0, outcome.text
    for p in batch.row.pointers:
        if p.is_output and p.name in outcome.bits and batch.axis(p) >= 0:
            yield p.name, batch.axis(p), outcome.bits[p.name], outcome.dtypes[p.name]


@each_row(CHOSEN)
def test_rows_alone_and_in_batches(library, op):
    row, slots = OPS[op]
    for count, n in sizes(op):
        batch = Batch(row, slots, count, n)
        everything = np.arange(count)
        modes = (None, "full") if row.workspace else (None,)
        whole = {m: {name: bits for name, _, bits, _ in bits_of(library, op, batch, everything, m)} for m in modes}
        some = everything[:: max(1, count // 7)][:7][::-1]
        tries = [
            ("one", some[:1], {}), ("seven in another order", some, {}), ("misaligned rows", some[:2], {"pad": 3}),
            ("a misaligned base", everything[: max(1, count // 2)], {"offset": 1}), ("padded rows", some, {"pad": 16}),
        ]  # fmt: skip
        if any("seed" in p.name for p in row.params):  # noise by position
            tries = [(name, np.arange(len(rows)), options) for name, rows, options in tries]
        for label, rows, options in tries:
            for workspace in modes:
                for name, axis, bits, dtype in bits_of(library, op, batch, rows, workspace, **options):
                    expected = np.take(whole[workspace][name], rows, axis)
                    what = f"{op}: {name} of {count} x {n}, {label}, workspace {workspace}"
                    tolerances.check_bits(what, bits, expected, dtype)


def test_rows_are_found():
    """The words of the table still say which axis is that of rows."""
    found = {row.pattern for row in ROWS.values() if has_rows(row)}
    assert {"softmax_{T}", "layer_norm_{T}", "reduce_{F}_axes_{T}", "loss_cross_entropy_{T}", "group_norm_{T}"} <= found


def test_what_makes_no_promise():
    """The statistics of batch norm are of all rows."""
    others = {row.pattern for row in ROWS.values() if has_rows(row) and row.batch_invariant != "yes"}
    assert others
    assert all(pattern.startswith("batch_norm") for pattern in others)


@pytest.mark.parametrize("rows", [1, 5])
def test_a_batch_changes_when_a_row_does(library, rows):
    """The comparison sees a row that is another one."""
    op = next(op for op in CHOSEN if op.startswith(("softmax_f32", "reduce_sum_axes_f32", "rms_norm_f32")))
    batch = Batch(*OPS[op], rows + 1, 33)
    first, second = ({n: b for n, _, b, _ in bits_of(library, op, batch, [k], None)} for k in (0, rows))
    assert any((first[name] != second[name]).any() for name in first)

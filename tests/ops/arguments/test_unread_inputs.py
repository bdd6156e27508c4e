# SPDX-License-Identifier: Apache-2.0
"""Inputs that no wanted gradient reads may be NULL; the rows' `reads` says which."""

import importlib
import itertools

import numpy as np
import pytest

import baracuda as bk
from baracuda._library import op_table
from cases import CASES, Draw
from harness import OPS, ROOT, ROWS, launch
from naming import Tries, each_row

abi_table = importlib.import_module("abi_table")
SEVERAL = [name for name, row in ROWS.items() if sum(p.is_output for p in row.pointers) > 1]
# Rows of gradients all of which depend on every operand of the forward op.
OF_EVERY_INPUT = {f"loss_{name}_backward_{{T}}" for name in ("margin_ranking", "cosine_embedding", "triplet_margin")}
OF_EVERY_INPUT |= {name.replace("_backward", "_param_backward") for name in OF_EVERY_INPUT}
OF_EVERY_INPUT |= {"loss_triplet_margin_swap_backward_{T}"}
OF_EVERY_INPUT |= {
    "deform_columns_backward_{T}",
    "scatter_reduce_backward{I}_{T}",
    "loss_cross_entropy_soft_weighted_backward_{T}",
}
# Results of attention and their lse.
OF_EVERY_INPUT |= {name for name, row in ROWS.items() if row.family == "attention" and not name.startswith("alibi")}
# Codes and scales, tokens, sorts and searches, and what is said of them.
OF_EVERY_INPUT |= {
    name
    for name, row in ROWS.items()
    if row.family in ("moe", "pool", "quantize", "random", "recurrent", "sampling", "search", "sort", "ssm", "topk")
}
# Instances of the rows that say what is read; where a function is not named, its outputs read every input.
INSTANCES = [op for op, (row, slots) in OPS.items() if row.reads and slots["T"] in ("f32", "bf16")]


def reads_of(op):
    """output -> inputs that it reads, except for the first."""
    row, slots = OPS[op]
    inputs = [p.name for p in row.pointers if not p.is_output][1:]
    outputs = [p.name for p in row.pointers if p.is_output]
    return row.reads.get(slots.get("F", ""), {name: tuple(inputs) for name in outputs}), inputs


def workspace_of(op):
    """A workspace for rows that need one, and none for others."""
    return "full" if OPS[op][0].workspace.startswith("needed: ") else None


def problems_of(op):
    """The plain problem; for a strided row one whose operands have different layouts, and sums."""
    row, slots = OPS[op]
    problems = CASES[row.name].problems
    names = [n for n in (CASES[row.name].plain, "mixed", "sum_each", "channels") if n in problems]
    return [problems[name](Draw(slots, name)) for name in names]


def wanted_sets(reads):
    return [set(c) for n in range(1, len(reads) + 1) for c in itertools.combinations(reads, n)]


def test_rows_with_several_gradients_are_here():
    """Inputs but the first are read by all outputs, or the row says by which. Where no output may be NULL, all inputs
    are read; and the output of a norm, GEMM or convolution that may not be NULL
    depends on every input."""
    for name in SEVERAL:
        if all(p.is_required for p in ROWS[name].pointers if p.is_output):
            continue
        inputs = [p.name for p in ROWS[name].pointers if not p.is_output]
        results = [p.name for p in ROWS[name].pointers if p.is_output and p.name != "workspace"]
        if len(inputs) == 1 or len(results) == 1:  # every result depends on it
            continue
        if ROWS[name].family in ("norm", "gemm", "conv") and any(
            p.is_required for p in ROWS[name].pointers if p.is_output
        ):
            continue
        assert ROWS[name].reads or inputs == ["cond", "dy"] or name in OF_EVERY_INPUT, name


@each_row(INSTANCES)
def test_null_for_what_is_not_read(library, op):
    """Without the unread inputs the bits are those of a call with all inputs."""
    reads, inputs = reads_of(op)
    with Tries() as tries:
        for problem, wanted in itertools.product(problems_of(op), wanted_sets(reads)):
            with tries(f"{sorted(wanted)}"):
                unwanted = set(reads) - wanted
                unread = set(inputs) - {name for output in wanted for name in reads[output]}
                whole = launch(library, op, problem, workspace=workspace_of(op), null=unwanted)
                partial = launch(library, op, problem, workspace=workspace_of(op), null=unwanted | unread)
                assert (whole.status, partial.status) == (0, 0), partial.text
                for name in wanted:
                    assert (whole.bits[name] == partial.bits[name]).all(), name


@each_row(INSTANCES)
def test_null_for_what_is_read(library, op):
    """A NULL for an input that is read gives status 2 and nothing is written; the text names both."""
    reads, _ = reads_of(op)
    first, problem = OPS[op][0].first_input.name, problems_of(op)[0]
    with Tries() as tries:
        for wanted in wanted_sets(reads):
            for name in {name for output in wanted for name in reads[output]}:
                with tries(f"{sorted(wanted)}: {name}"):
                    outcome = launch(
                        library, op, problem, workspace=workspace_of(op), null=(set(reads) - wanted) | {name}
                    )
                    assert outcome.status == 2
                    assert outcome.text.startswith(f"{op}: {name} is NULL")
        with tries(first):
            assert (
                launch(library, op, problem, workspace=workspace_of(op), null={first}).text == f"{op}: {first} is NULL"
            )


@each_row([op for op in INSTANCES if not op.endswith("_strided")])
def test_what_is_said_to_be_read_matters(library, op):
    """Another value of an input changes each result that is said to read it, and no other result."""
    reads, inputs = reads_of(op)
    row, slots = OPS[op]
    case = CASES[row.name]
    names = [name for name in ("n1000", "wide", "special", "plain") if name in case.problems]
    differs = {(output, name): False for output in reads for name in inputs}
    for problem in (case.problems[name](Draw(slots, name)) for name in names):
        before = launch(library, op, problem, workspace=workspace_of(op))
        for name in inputs:
            array = problem.arrays[name]
            values, array.values = array.values, np.roll(array.values, 1, -1) * -1
            after = launch(library, op, problem, workspace=workspace_of(op))
            array.values = values
            for output in reads:
                differs[output, name] |= bool((before.bits[output] != after.bits[output]).any())
    assert differs == {(output, name): name in reads[output] for output in reads for name in inputs}


def test_the_python_table_has_what_the_rows_have():
    table = {row.name: row.reads for row in op_table.rows()}
    assert table == {name: row.reads for name, row in ROWS.items()}


def test_da_of_mul_needs_b_alone(rng):
    shape = (4, 5)
    dy, b = (rng.integers(-8, 9, shape) for _ in range(2))
    plan = bk.BinaryBackwardPlan.select(None, bk.BinaryBackwardDescriptor(bk.BinaryKind.MUL, shape, element=bk.f32))
    up = {"dy": bk.upload(dy, bk.f32), "b": bk.upload(b, bk.f32)}
    for da, expected in ((bk.empty(shape), dy * b), (bk.empty((1, 5)), (dy * b).sum(0, keepdims=True))):
        args = bk.BinaryBackwardArgs(**up, da=da)
        plan.can_implement(args)
        plan.run(None, bk.workspace(plan, args), args)
        bk.synchronize()
        assert (bk.download(da) == expected).all()
    with pytest.raises(bk.InvalidProblemError, match="a is None, but binary_mul_backward needs it"):
        plan.run(None, None, bk.BinaryBackwardArgs(**up, db=da))


def test_dweight_of_prelu_needs_no_weight(rng):
    dy, x = (rng.integers(-8, 9, (3, 7)) for _ in range(2))
    plan = bk.PReluBackwardPlan.select(None, bk.PReluBackwardDescriptor((3, 7), 0, element=bk.f32))
    for arrange in (lambda view: view, lambda view: bk.TensorRef(view.ptr, (3, 7), bk.f32, (1, 3), owner=view)):
        views = [arrange(bk.upload(v if arrange(bk.empty((3, 7))).is_dense else v.T.copy(), bk.f32)) for v in (dy, x)]
        dweight = bk.empty((3,))
        plan.run(None, None, bk.PReluBackwardArgs(*views, None, None, dweight))
        bk.synchronize()
        assert (bk.download(dweight) == np.where(x < 0, dy * x, 0).sum(1)).all()
    with pytest.raises(bk.InvalidProblemError, match="weight is None, but prelu_backward needs it"):
        plan.run(None, None, bk.PReluBackwardArgs(*views, None, bk.empty((3, 7))))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("mul da: b", "must name every output once: da db"), ("mul da: b, da: a", "must name every output once"),
        ("mul da: b, db: c", "'c' is no input"), ("mul da: b, db: da", "'da' is no input"),
        ("mull da: b, db: a", "'mull' is no function of the row"), ("mul", "must name every output once"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_right(text, complaint):
    row = ROWS["binary_{F}_backward_{T}"]
    with pytest.raises(abi_table.TableError, match=complaint):
        abi_table.parse_reads(text, row.functions, row.params)
    reads = abi_table.parse_reads("mul  da: b, db:", row.functions, row.params)
    assert reads == {"mul": {"da": ("b",), "db": ()}}


def test_the_header_says_what_is_read():
    flat = " ".join((ROOT / "include" / "baracuda_kernels.h").read_text().replace("\n *", " ").split())
    assert "An input but dy may be NULL where no wanted output reads it. These read: mul da: b, db: a; div" in flat

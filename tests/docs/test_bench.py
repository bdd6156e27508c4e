# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.bench`: a problem that fails is a row, and measured rows are kept. Times are not tested."""

import dataclasses
import json
import signal

import numpy as np
import pytest

from tools.accuracy import ops
from tools.bench import __main__ as program
from tools.bench import functions, markdown, problems, run
from tools.bench.check import cells, rows
from tools.bench.data import Data
from tools.bench.problem import COMPILED, Problem
from tools.bench.problems.segment import check_fold, in_order, made
from tools.bench.record import Bound, row_named

pytestmark = pytest.mark.unsanitized("the ops run in test_ops")


def problem(name, check=lambda problem: "", **given):
    bench = made("cpu", "segment_sum", in_order, Bound("copy", 0.1))
    small = {k: dataclasses.replace(v, shape=(64, *v.shape[1:])) for k, v in bench.arrays.items()}
    small["segment_ids"] = dataclasses.replace(small["segment_ids"], fill=lambda rng: np.arange(64) // 8)
    scalars = {"n": 64, "d": 128, "num_segments": 64}
    return dataclasses.replace(
        bench,
        name=name,
        arrays=small,
        scalars=scalars | given.pop("scalars", {}),
        check=check,
        dtypes=("f32",),
        **given,
    )


def raises(problem):
    raise ValueError("cannot say")


GOOD, LAST = problem("good"), problem("last", bounds=(Bound("times", 9.0, "wrong"),))
WRONG = problem("wrong", lambda problem: "output[3] is 7, expected 8")
RAISES = problem("raises", raises)
REFUSED = problem("refused", scalars={"d": -1})


def copy(own):
    own.copies.append({"how": "none", "bytes_per_second": 1e9})


@pytest.fixture
def measured(monkeypatch, tmp_path, library, capsys):
    def bench(found, *arguments):
        monkeypatch.setattr(problems, "_all", lambda backend, numel: iter(found))
        monkeypatch.setattr(run.Run, "measure_copy", copy)
        monkeypatch.setattr(run, "host_costs", lambda data: [])
        monkeypatch.setattr(run, "costs", lambda library, torch: [])
        path = tmp_path / "bench.json"
        status = program.main(["--quick", "--no-torch", "--json", str(path), *arguments])
        return status, json.loads(path.read_text()), capsys.readouterr().out

    return bench


def test_what_fails_is_a_row(measured):
    status, document, out = measured([GOOD, WRONG, RAISES, REFUSED, LAST])
    rows = {row["name"]: row for row in document["rows"]}
    assert status == 1 and document["finished"] and list(rows) == ["good", "wrong", "raises", "refused", "last"]
    assert [name for name, row in rows.items() if row["ours_us"]] == ["good", "last"]
    assert rows["good"]["error"] == "" and rows["last"]["met"] is None, "what it is compared with failed"
    for name, reason in (
        ("wrong", "output[3] is 7, expected 8"),
        ("raises", "ValueError: cannot say"),
        ("refused", "InvalidProblemError: "),
    ):
        assert rows[name]["error"].startswith(reason) and rows[name]["of_copy"] is None
        assert f"FAILED: {name} f32: {reason}" in out
        assert any(line.split()[:3] == [name, "f32", "FAILED"] for line in out.splitlines()), out
    assert "5 rows, 3 failed" in out


def test_all_well(measured):
    status, document, out = measured([GOOD])
    assert status == 0 and document["unreached"] == [] and "1 rows, 0 failed" in out


def test_no_problem_is_begun_when_the_time_is_over(measured):
    status, document, out = measured([GOOD, LAST], "--seconds", "0")
    assert status == 0 and document["rows"] == [] and not document["finished"]
    assert document["unreached"] == ["good f32", "last f32"]
    assert "0 s are over: 2 problems were not reached, the first good f32" in out


@pytest.fixture
def _interrupts():
    """A process that began in the background ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interrupts")
def test_an_interrupt_keeps_what_there_is(measured):
    """`timeout` sends SIGTERM, a user SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        stopped = problem("stopped", lambda problem, number=number: signal.raise_signal(number))
        _, document, out = measured([GOOD, stopped, LAST])
        assert [row["name"] for row in document["rows"]] == ["good"] and document["unreached"] == ["last f32"]
        assert document["interrupted"] == "interrupted" in out


def test_json_as_it_goes(monkeypatch, measured):
    """Each problem finds the rows before it in the file."""
    monkeypatch.setattr(run, "_SAVE", 0.0)
    saved = []
    monkeypatch.setattr(
        run.report, "write_json", lambda path, document, write=run.report.write_json: (
            saved.append((len(document["rows"]), document["finished"])), write(path, document))
    )  # fmt: skip
    measured([GOOD, WRONG, LAST])
    assert saved == [(1, False), (2, False), (3, False), (3, True)]


def test_a_lost_device_ends_it(monkeypatch, measured):
    def synchronize(*_, **__):
        raise RuntimeError("an illegal memory access was encountered")

    monkeypatch.setattr(run.bk, "synchronize", synchronize)
    status, document, _ = measured([GOOD, LAST])
    assert status == 1 and document["unreached"] == ["last f32"]
    assert document["interrupted"].startswith("the device is lost: RuntimeError: an illegal")
    assert document["rows"][0]["error"].startswith("RuntimeError")


def test_families():
    assert {"segment", "norm", "elementwise"} <= set(problems.families())
    chosen = list(problems.benches("cuda", of=("segment",)))
    assert chosen and all(bench.row.startswith(("segment", "unsorted_segment")) for bench in chosen)
    assert set(problems.families()) == {row_named(bench.row).family for bench in problems.benches("cuda")}


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_every_scalar_has_a_value(backend):
    for bench in problems.benches(backend):
        scalars = [p for p in row_named(bench.row).params if not p.direction and p.default is None]
        missing = {p.name for p in scalars} - bench.follows.keys() - bench.scalars.keys()
        assert not missing, f"{bench.name}: {missing}"


def test_elements_of_one_dimension(library):
    """Elements are compared as a row of numbers, rows of an array as a column."""
    (bench,) = (b for b in problems.benches("cpu", ("random bernoulli",)) if b.name == "random bernoulli")
    found = Problem(Data(library, None, 0), bench, "f32")
    at = np.arange(5)
    assert cells(found, "y", at).shape == (5,) and rows(found, "y", at).shape == (5, 1)
    assert bench.check(found), "all elements are 0"


@pytest.mark.parametrize("summands", [[1.0, -1.0 + 2.0**-12], [3.0, 4.0]])
def test_the_bound_of_a_mean(summands):
    """The bound scales with the magnitude of the summands, not with the mean, which may be much smaller."""

    class Fake:
        dtype, indices = "f32", {"segment_ids": np.zeros(2, np.int64)}
        bench = problem("mean", scalars={"num_segments": 1})
        buffers = data = None

        def __init__(self):
            self.errors = []

    mean = np.float64(sum(summands)) / 2
    for error, found in ((2.0**-23, ""), (1e-4, "output[0] is")):
        values = {"input": np.float64(summands)[:, None], "output": np.float64([[mean + error]])}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tools.bench.problems.segment.rows", lambda _, name, index, v=values: v[name][index])
            patch.setattr("tools.bench.problems.segment.sample_indices", lambda *_: np.array([0]))
            assert check_fold("mean")(Fake()).startswith(found) and bool(found) == bool(check_fold("mean")(Fake()))


def test_errors_of_ops(library):
    """A check reports the error against float64 in units in the last place; exact results have none."""
    rows = ops.measure(library, None, "softmax of 1 x 131072", ("f32",), ("softmax",))
    assert len(rows) in (1, 2)  # also with a workspace, where the library takes one
    for row in rows:
        assert row["op"] == "softmax_f32" and not row["wrong"] and row["torch"] is None
        assert 0 < row["error"] < 8
    assert not ops.measure(library, None, "flip, outer", ("f32",), ("shape_layout",))


class FakeTorch:
    """PyTorch as far as the problems use it: a tensor is its array."""

    def __init__(self):
        self.compiled = []

    def compile(self, call, *, dynamic):
        assert not dynamic
        self.compiled.append(call)
        return call


@pytest.mark.parametrize("family", ["softmax", "segment"])
def test_compiled_peers(library, family):
    """torch.compile has a row of its own in the families that request it; the speed bound uses eager calls."""
    bench = dataclasses.replace(GOOD, torch=(lambda torch, t, scalars: lambda: None,))
    data, torch = Data(library, None, 0, compiles=True), FakeTorch()
    found = Problem(data, bench, "f32")
    data.torch, found.tensors = torch, {}
    found.row = dataclasses.replace(found.row, family=family)
    names = [name for name, _ in found.peers(on_gpu=False)]
    assert names == (["torch", COMPILED] if family == "softmax" else ["torch"])
    assert len(torch.compiled) == len(names) - 1
    row = {"ours_us": {"median": 2.0}, "peer_us": {"median": 6.0}, "peers_us": {"torch": 6.0, COMPILED: 3.0}}
    row |= {"bytes": 1, "bounds": [{"kind": "peer", "value": 2.0, "other": ""}]}
    run.judge(row, [row], None, "median")
    assert row["times_compiled"] == 1.5
    assert row["times_peer"] == 3.0
    assert row["met"] is True


def test_host_times_of_functions_become_a_table(library):
    rows = functions.costs(library, None, rounds=1)
    assert {row["arrays"] for row in rows} <= {"numpy", "cupy"} and (rows or library.backend == "cuda")
    assert all(row["us"] > 0 and (row["own_us"] is None or row["own_us"] > 0) for row in rows)
    add = {"call": "add(a, b)", "arrays": "numpy", "us": 1.5, "own_us": 0.25}
    lines = markdown.functions(
        [add, {**add, "call": "sum of 4 x 4"}, {**add, "arrays": "torch", "own_us": None}]
    ).split("\n")
    assert lines[2:] == [
        "|  | NumPy arrays | its own | PyTorch arrays | its own |",
        "| --- | --- | --- | --- | --- |",
        "| `add(a, b)` | 1.50 | 0.25 | 1.50 |  |",
        "| sum of 4 x 4 | 1.50 | 0.25 |  |  |",
    ]

# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.bench --sweep`: which points are measured, in which order, and which are marked. Times are not
tested."""

import dataclasses
import json

import pytest

from tools.bench import __main__ as program
from tools.bench import problems, sweep, timing
from tools.bench.problems.softmax.softmax import forward
from tools.bench.record import Bound, Sweep

pytestmark = pytest.mark.unsanitized("the ops run in test_ops")

LENGTHS = (16, 17, 64)
SMALL = Sweep(
    name="softmax, small", axis="row length", level=True,
    points={n: forward("softmax", "softmax", (512 // n, n), Bound("peer", 1.0)) for n in LENGTHS},
)  # fmt: skip


def series(family, name, extents, level=False):
    return [sweep.Point(family, name, "rows", "f32", extent, level, None) for extent in extents]


@pytest.mark.parametrize("backend", ["cuda", "cpu"])
def test_every_point_is_a_problem(backend):
    """Each point resolves to an op of the tables; points ascend, cross powers of two, and have unique names in a
    series."""
    found = list(sweep.points_of(problems.sweeps(backend), ("f32", "bf16")))
    assert len({points[0].series for points in found}) == len(found)
    for points in found:
        extents = [point.extent for point in points]
        assert extents == sorted(set(extents)) and len(extents) > 3, points[0].series
        for point in points:
            assert point.made.op(point.dtype).row.family == point.family
    assert {points[0].family for points in found} >= {
        "elementwise",
        "gemm",
        "loss",
        "norm",
        "reduce",
        "scan",
        "softmax",
    }


CLIFFS = {  # points that once were slow
    "cuda": (
        ("linear M x 14336 x 4096", "bf16", (8, 9, 48, 64)), ("linear M x 4096 x 14336", "f32", (8, 9, 48)),
        ("bmm of squares", "bf16", (32, 64, 128, 512, 1024, 2048)), ("bmm of squares", "f32", (32,)),
        ("grouped_gemm 8 experts, M x 4096 x 2048", "bf16", (4096,)),
        ("linear_gelu_tanh M x 14336 x 4096", "bf16", (4096,)), ("linear_swiglu M x 14336 x 4096", "f32", (4096,)),
        ("argmax of rows, 67108864 elements", "f32", (2048, 4096, 65536)),
        ("logsumexp of rows, 67108864 elements", "bf16", (8192, 16384)),
        ("var of rows, 67108864 elements", "bf16", (8192,)), ("softmax, 67108864 elements", "f32", (16,)),
        ("sum of rows, 67108864 elements", "f32", (4096,)), ("max of rows, 67108864 elements", "f32", (4096,)),
    ),
    "cpu": (
        ("x + row, 2097152 elements", "f32", (4, 16, 64)), ("max of rows, 2097152 elements", "f32", (64, 1024)),
        ("sum of rows, 2097152 elements", "f32", (1024,)), ("softmax, 2097152 elements", "f32", (4, 16, 64)),
        ("layer_norm, 2097152 elements", "f32", (4, 64)), ("logsumexp of rows, 2097152 elements", "f32", (4, 64)),
        ("cumsum, 2097152 elements", "f32", (4, 64)), ("gelu", "f32", (2**20,)), ("gelu", "bf16", (2**20,)),
        ("softmax along axis 0, 2097152 elements", "bf16", (1024,)), ("bmm of squares", "f32", (4, 8, 16)),
        ("bmm of squares", "bf16", (128,)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["cuda", "cpu"])
def test_known_cliffs_are_points(backend):
    found = {
        (points[0].sweep, points[0].dtype): {point.extent for point in points}
        for points in sweep.points_of(problems.sweeps(backend), ("f32", "bf16"))
    }
    for name, dtype, extents in CLIFFS[backend]:
        assert found[name, dtype] >= set(extents), name


def rows(times, *, level=False, peer=None):
    return [
        {"sweep": "s", "axis": "M", "dtype": "f32", "extent": extent, "level": level, "us": us, "peer_us": peer}
        for extent, us in times.items()
    ]


def test_inversions():
    """A time above that of a larger problem; where all points copy the same bytes, a peak between two points."""
    growing = rows({1: 10.0, 8: 10.5, 16: 20.0, 64: 12.0})
    sweep.judge(growing)
    assert [row["inversion"] and round(row["inversion"], 2) for row in growing] == [0.95, 0.88, 1.67, None]
    assert [row["marked"] for row in growing] == [False, False, True, False] and growing[2]["faster"] == 64
    level = rows({4: 90.0, 16: 30.0, 64: 20.0, 4096: 44.0, 65536: 22.0}, level=True)
    sweep.judge(level)
    assert [row["marked"] for row in level] == [False, False, False, True, False]
    assert level[3]["inversion"] == 2.0 and level[3]["faster"] == 65536


def test_below_torch():
    found = rows({1: 10.0, 2: 10.0}, peer=7.9)
    found[1]["peer_us"] = 8.1
    sweep.judge(found)
    assert [row["marked"] for row in found] == [True, False] and found[0]["times_peer"] == 0.79
    found[0]["us"] = found[1]["peer_us"] = None  # failed; unknown to PyTorch
    sweep.judge(found)
    assert [row["marked"] for row in found] == [False, False]


def test_order_of_points():
    for count in (1, 2, 3, 7, 22):
        order = sweep.coarse_first(count)
        assert sorted(order) == list(range(count)) and order[:2] == [0, count - 1][: len(order)]
    ordered = sweep.in_turn([series("a", "one", range(5)), series("a", "two", range(2))])
    assert [(point.sweep, point.extent) for point in ordered[:4]] == [("one", 0), ("two", 0), ("one", 4), ("two", 1)]


class FakeRun(sweep.SweepRun):
    """A point of the family "slow" takes 3 s of a clock that is otherwise stopped."""

    def __init__(self, monkeypatch):
        self.rows, self.facts, self.path, self.interrupted, self.time = [], {}, "", "", 0.0
        self._points = []
        monkeypatch.setattr(sweep.time, "perf_counter", lambda: self.time)

    def add(self, point):
        self.time += 3.0 if point.family == "slow" else 1.0
        self.rows += rows({point.extent: 1.0})
        self._points.append(point)


def test_families_share_the_time(monkeypatch):
    run = FakeRun(monkeypatch)
    run.all([series("slow", "s", range(50)), series("quick", "q", range(50)), series("quick", "r", range(50))], 60.0)
    count = [sum(point.family == family for point in run._points) for family in ("slow", "quick")]
    assert 7 <= count[0] <= 10 and 24 <= count[1] <= 28
    assert run.interrupted == "60 s are over" and len(run.unreached) == 150 - sum(count)


def test_marked_points_are_measured_again(monkeypatch):
    run = FakeRun(monkeypatch)
    run.rows = [{**row, "error": ""} for row in rows({1: 9.0, 2: 3.0}, peer=4.0)]
    run._points = series("a", "s", (1, 2))
    run.measured = lambda point: {"us": 3.5, "peer_us": 5.0, "error": ""}
    run.again(1.0)
    assert [(row["us"], row["peer_us"]) for row in run.rows] == [(3.5, 4.0), (3.0, 4.0)]


@pytest.fixture
def swept(monkeypatch, tmp_path, capsys):
    def bench(found, *arguments):
        monkeypatch.setattr(problems, "sweeps", lambda *_: iter(found))
        path = tmp_path / "sweep.json"
        status = program.main(["--sweep", "--quick", "--no-torch", "--threads", "1", "--json", str(path), *arguments])
        return status, json.loads(path.read_text()), capsys.readouterr().out

    return bench


def test_program(library, swept):
    status, document, out = swept([SMALL])
    points = {(row["dtype"], row["extent"]) for row in document["rows"]}
    assert status == 0 and document["finished"] and points == {(t, n) for t in ("f32", "bf16") for n in LENGTHS}
    assert all(row["us"] > 0 and row["peer_us"] is None for row in document["rows"])
    assert "6 points of 2 sweeps" in out and "6 points, 0 failed" in out
    line = next(line for line in out.splitlines() if line.startswith("softmax, small  f32"))
    assert line.split()[3:7] == ["row", "length", "3", line.split()[6]]
    assert swept([SMALL], "--seconds", "0")[1]["unreached"]


def test_a_point_that_fails(library, swept):
    refused = dataclasses.replace(SMALL.points[16], scalars={**SMALL.points[16].scalars, "softmax_axis": 7})
    status, document, out = swept([dataclasses.replace(SMALL, points={**SMALL.points, 16: refused})], "--dtypes", "f32")
    assert status == 1 and [bool(row["error"]) for row in document["rows"]] == [True, False, False]
    assert "FAILED: softmax, small, row length 16, f32: InvalidProblemError" in out


def test_bursts():
    """Candidates alternate; a sample is of many short calls."""
    calls = {"a": 0, "b": 0}

    def call(name):
        calls[name] += 1

    for threads in (1, 2):
        found = timing.Bursts(0.002, threads).measure([lambda: call("a"), lambda: call("b")])
        assert [times.least > 0 for times in found] == [True, True] and min(calls.values()) > 100

# SPDX-License-Identifier: Apache-2.0
"""The checking mode: faults are reported by name, position and value, and calls outside of the mode are unaffected."""

import concurrent.futures
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import baracuda as bk
from baracuda import memory
from baracuda._call import checking
from baracuda._functions.spec import specs
from baracuda._library.op_table import rows
from baracuda.dtypes import as_element
from harness import ROOT, ROWS, samples
from harness.child import child_environment

X = np.arange(8, dtype=np.float32).reshape(4, 2)
WEIGHT, LOSS, FRAMES = np.ones(2, np.float32), np.ones((), np.float32), np.zeros((5, 1, 3), np.float32)


@pytest.fixture(autouse=True)
def _on_the_cpu(library):
    if library.backend == "cuda":
        bk.load(backend="cpu")


def ids(*values, dtype=np.int32):
    return np.array(values, dtype)


def classes(*values):
    return ids(*values, dtype=np.int64)


def weighted(indices, offsets, **options):
    return bk.embedding_bag(ids(*indices), np.ones((3, 2), np.float32), ids(*offsets), **options)


WRONG = [
    (lambda: bk.segment_sum(X, ids(0, 1, 1, 3), 3), "segment_ids", (3,), 3, r"must be in \[0, 3\)"),
    (lambda: bk.segment_sum(X, ids(-1, 1, 1, 2), 3), "segment_ids", (0,), -1, r"must be in \[0, 3\)"),
    (lambda: bk.segment_sum(X, ids(0, 2, 1, 2), 3), "segment_ids", (2,), 1, "must not be below 2, which stands before"),
    (lambda: bk.unsorted_segment_sum(X, ids(2, 9, 1, 0, dtype=np.int64), 3), "segment_ids", (1,), 9, "must be in"),
    (lambda: bk.segment_sum_backward(X, ids(0, 4)), "segment_ids", (1,), 4, r"must be in \[0, 4\)"),
    (lambda: weighted([0, 3, 1], [0, 1]), "indices", (1,), 3, r"must be in \[0, 3\)"),
    (lambda: weighted([0, -1, 1], [0, 1], padding_idx=0), "indices", (1,), -1, r"must be in \[0, 3\)"),
    (lambda: weighted([0, 2, 1], [0, 4]), "offsets", (1,), 4, r"must be in \[0, 4\)"),
    (lambda: weighted([0, 2, 1], [1, 0]), "offsets", (1,), 0, "must not be below 1, which stands before it"),
    (lambda: bk.embedding_bag_backward(X, ids(0, 5), ids(0, 0, 1, 1), 3), "indices", (1,), 5, "must be in"),
    (lambda: bk.cross_entropy(X, classes(0, 1, 2, 1)), "target", (2,), 2, r"must be in \[0, 2\)"),
    (lambda: bk.cross_entropy(X, ids(0, 1, -1, 1), WEIGHT), "target", (2,), -1, r"must be in \[0, 2\)"),
    (lambda: bk.multi_margin_loss_backward(LOSS, X, classes(0, -2, 1, 1)), "target", (1,), -2, "must be in"),
    (lambda: bk.nll_loss(X, classes(9, 1, 1, 1)), "target", (0,), 9, r"must be in \[0, 2\)"),
    (lambda: bk.nll_loss(X, ids(0, 1, 5, 1), WEIGHT, ignore_index=4), "target", (2,), 5, "must be in"),
    (lambda: bk.multi_margin_loss(X, classes(0, 1, -100, 1)), "target", (2,), -100, "must be in"),
    (lambda: bk.multilabel_margin_loss(X, classes(0, 3, 1, 0, 1, 0, -1, 0).reshape(4, 2)), "target", (0, 1), 3, "in"),
    (lambda: bk.ctc_loss(FRAMES, classes(1, 2)[None], classes(7), classes(2)), "input_lengths", (0,), 7, r"\[0, 6\)"),
    (lambda: bk.ctc_loss(FRAMES, classes(1, 2)[None], classes(5), classes(3)), "target_lengths", (0,), 3, r"\[0, 3\)"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "operand", "position", "value", "text"), WRONG)
def test_indices_of_functions(call, operand, position, value, text):
    call()  # outside of the mode the kernels tolerate the fault; this prepares the call
    with bk.checked():
        for _ in range(2):
            with pytest.raises(bk.CheckError, match=text) as caught:
                call()
            error = caught.value
            assert (error.operand, error.position, error.value) == (operand, position, value)
            assert error.status == bk.Status.INVALID_PROBLEM and error.symbol
            assert pickle.loads(pickle.dumps(error)).position == position
    call()


def test_what_is_right_is_computed():
    expected = bk.segment_sum(X, ids(0, 0, 2, 2), 3)
    with bk.checked(nan="raise"):
        np.testing.assert_array_equal(bk.segment_sum(X, ids(0, 0, 2, 2), 3), expected)
        assert bk.unsorted_segment_sum(X, ids(2, 0, 1, 0), 3)[2].tolist() == [0, 1]
        assert weighted([0, 2, 1], [0, 3], mode="sum").tolist() == [[3, 3], [0, 0]]  # an offset may be the end
        assert weighted([0, 1], [0], padding_idx=1, mode="sum").tolist() == [[1, 1]]
        assert bk.add(X, 1).tolist() == (X + 1).tolist()
        da, db = bk.mul_backward(X, X, X, needs=(False, True))
        assert da is None and db.tolist() == (X * X).tolist()
        out = np.empty_like(X)
        assert bk.neg(X, out=out) is out
        assert bk.cross_entropy(X, classes(0, -100, 1, 1), reduction="none")[1] == 0  # the default ignore_index
        assert bk.nll_loss(X, ids(0, 7, 1, 1), WEIGHT, ignore_index=7) < 0
        assert bk.multilabel_margin_loss(X, classes(0, -1, -1, -1, 1, -1, 0, 1).reshape(4, 2)) > 0
        assert bk.ctc_loss(FRAMES, classes(1, 2, -1)[None], classes(5), classes(2)) < np.inf


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_nan(dtype):
    x = np.array([[1, 4], [-1, 9]], dtype)
    assert np.isnan(bk.sqrt(x)[1, 0])
    with bk.checked():
        assert np.isnan(bk.sqrt(x)[1, 0])
    with bk.checked(nan="raise"):
        with pytest.raises(bk.CheckError, match=r"sqrt: y\[1, 0\] is nan$"):
            bk.sqrt(x)
        x[0, 1] = np.nan
        with pytest.raises(bk.CheckError, match=r"neg: y\[0, 1\] is nan, and so is an element of x$"):
            bk.neg(x)
        with pytest.raises(bk.CheckError, match=r"clamp: y is nan, and so is an element of x$"):
            bk.clamp(x[0, 1], x[0, 0], x[0, 0])
        out = np.ones_like(x.T)
        with pytest.raises(bk.CheckError, match=r"y\[1, 0\] is nan"):
            bk.neg(x.T, out=out)


def plan_and_args(segment_ids):
    of = bk.SegmentSumDescriptor(4, 2, 3, element=bk.f32)
    plan = bk.SegmentSumPlan.select(None, of, backend="cpu")
    return plan, bk.SegmentSumArgs(input=X, segment_ids=segment_ids, output=np.zeros((3, 2), np.float32))


def test_plans():
    """Arguments that were checked once are checked again; the mode's caches are not used outside of it."""
    of_ids = ids(0, 0, 1, 2)
    plan, args = plan_and_args(of_ids)
    plan.run(None, None, args)
    before = plan.bind(None, None, args)
    with bk.checked():
        plan.run(None, None, args)
        inside = plan.bind(None, None, args)
        of_ids[3] = 7
        for call in (lambda: plan.run(None, None, args), inside):
            with pytest.raises(bk.CheckError, match=r"segment_sum: segment_ids\[3\] is 7") as caught:
                call()
            assert caught.value.operand == "segment_ids"
        before()
    for call in (lambda: plan.run(None, None, args), inside, before):
        call()


def test_a_mode_ends_with_its_context():
    with bk.checked(nan="raise"):
        with bk.checked():
            bk.log(np.float32([-1]))
        with pytest.raises(bk.CheckError):
            bk.log(np.float32([-1]))
    assert checking.active is None
    bk.log(np.float32([-1]))
    with pytest.raises(bk.InvalidProblemError, match="nan is 'no', must be one of ignore, raise"), bk.checked(nan="no"):
        pass


def test_all_threads_check():
    with bk.checked(), concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(WRONG[0][0]) for _ in range(8)]:
            assert isinstance(done.exception(), bk.CheckError)


ASKED = """
import numpy as np, baracuda as bk
ids = np.array([0, 9], np.int32)
for call in (lambda: bk.segment_sum(np.ones((2, 2)), ids, 2), lambda: bk.sqrt(np.array([-1.0]))):
    try:
        call()
        print("computed")
    except bk.CheckError as error:
        print(error)
"""


@pytest.mark.parametrize(("value", "found"), [("", 0), ("0", 0), ("1", 1), ("nan", 2)])
def test_the_environment_asks_for_it(value, found):
    environment = child_environment(BARACUDA_CHECK=value, BARACUDA_BACKEND="cpu")
    result = subprocess.run([sys.executable, "-c", ASKED], cwd=ROOT, env=environment, capture_output=True, text=True)
    texts = ["segment_sum: segment_ids[1] is 9, must be in [0, 2)", "sqrt: y[0] is nan"]
    assert result.stdout.splitlines() == texts[:found] + ["computed"] * (2 - found), result.stderr


def test_what_a_graph_captures_is_left_alone(monkeypatch):
    """A copy would end the capture."""
    states = {7: (0, 1), 8: (0, 0)}
    runtime = type("Runtime", (), {"cudaStreamIsCapturing": staticmethod(lambda stream: states[stream])})
    monkeypatch.setattr(checking, "cuda_runtime", lambda: runtime)
    monkeypatch.setattr(checking, "download", lambda view, stream: memory.download(host, stream=None))
    host = bk.tensor(ids(0, 9))
    view = bk.TensorRef(host.ptr, (2,), bk.i32, device="cuda")
    row = ROWS_BY_NAME["segment_sum{I}_{T}"]
    checks = checking.Checks(False)
    checks.before(row, {"num_segments": 3}, {"segment_ids": view}, {}, 7)
    with pytest.raises(bk.CheckError, match=r"segment_ids\[1\] is 9"):
        checks.before(row, {"num_segments": 3}, {"segment_ids": view}, {}, 8)


ROWS_BY_NAME = {row.name: row for row in rows()}


FAMILIES = ("embedding", "segment", "loss", "indexing")
# Integer operands that are not checked as indices: targets whose count follows from the sample lengths, counted
# targets, signs, and the operand of the check itself.
NO_INDEX = {"targets", "target of loss_flce_count_non_ignore", "indices of check_indices_{T}"}
NO_INDEX |= {
    f"target of loss_hinge_embedding{form}{back}_{{T}}" for form in ("", "_param", "_i32") for back in ("", "_backward")
}


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.family in FAMILIES])
def test_integer_operands_of_a_row_are_indices(name):
    """A row says what each of its integer operands indexes."""
    row = ROWS[name]
    integers = {p.name for p in row.params if p.direction == "in" and p.dtype in ("I", "O", "i32", "i64", "u32")}
    integers -= {each for each in integers if NO_INDEX & {each, f"{each} of {name}"}}
    assert integers == set(row.indexes), f"[{name}] says nothing of {integers - set(row.indexes)}"


def checked_indices():
    """Yields (function, index of its row, dtype that it may have)."""
    for name, spec in sorted(specs().items()):
        for param in spec.row.params:
            is_given = any(array.pointer == param.name for array in spec.arrays)
            if param.name in spec.row.indexes and is_given and spec.layout != "loss":
                for dtype in spec.row.slots.get(param.dtype, (param.dtype,)):
                    yield name, param.name, dtype


@pytest.mark.parametrize(("name", "index", "dtype"), list(checked_indices()))
def test_each_index_of_each_function(name, index, dtype):
    """An index out of range, at the first position and at the last one, is refused by name, position and value."""
    spec, given = specs()[name], samples.sample(name)
    argument = next(a.name for a in spec.arrays if a.pointer == index)
    right = given.arrays[argument].astype(as_element(dtype).numpy_dtype)
    for position in (0, right.size - 1):
        wrong = right.copy()
        value = wrong.flat[position] = np.iinfo(right.dtype).max
        given.arrays[argument] = wrong
        arguments, options = given.arguments(name)
        with bk.checked(), pytest.raises(bk.CheckError) as caught:
            getattr(bk, name)(*arguments, **options)
        found = caught.value
        assert (found.operand, found.value) == (argument, value)
        assert found.position == np.unravel_index(position, right.shape)

# SPDX-License-Identifier: Apache-2.0
"""Graphs: captured sequences of calls that are replayed on the memory's current values."""

import gc
import importlib.util
import pickle
import types
import weakref

import numpy as np
import pytest

import baracuda as bk
from baracuda import memory
from baracuda._call import checking, graphs


@pytest.fixture(autouse=True)
def _on_the_cpu(library):
    if library.backend == "cuda":
        bk.load(backend="cpu")


KINDS = {"numpy": lambda values: values, "views": bk.tensor}
if importlib.util.find_spec("torch"):
    import torch

    KINDS["torch"] = torch.as_tensor


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_functions_again(rng, make):
    x, b = rng.standard_normal((3, 4)), rng.standard_normal(4)
    again = bk.graph(lambda: bk.mul(bk.add(make(x), make(b)), 2.5))
    for _ in range(3):
        x[...], b[...] = rng.standard_normal((3, 4)), rng.standard_normal(4)
        result = again()
        assert result is again.result
        np.testing.assert_array_equal(np.asarray(result), (x + b) * 2.5)


def test_numbers_as_operands(library):
    """A capture on a GPU admits no copies from the host. Zeros of both signs are different numbers."""
    x, y, z = (bk.upload(np.array([1.0, -0.0, 3.0]), bk.f32, library=library) for _ in range(3))

    def work():
        bk.add(x, 2.5, out=y)
        bk.div(x, -0.0, out=z)
        bk.div(z, 0.0, out=z)

    again = bk.graph(work)
    bk.upload(np.array([7.0, 8.0, -9.0]), out=x, library=library)
    again()
    np.testing.assert_array_equal(bk.download(y), [9.5, 10.5, -6.5])
    np.testing.assert_array_equal(bk.download(z), [-np.inf, -np.inf, np.inf])


def test_shared_workspace(rng):
    """Functions share one block; results are their own, and a graph keeps the block."""
    library = bk.load(backend="cpu")
    x, y = (bk.upload(rng.standard_normal(size), library=library) for size in (50_000, 4_000))
    want = [np.asarray(bk.sort(each)).copy() for each in (x, y)]
    shared = bk.SharedWorkspace()
    with shared:
        assert memory.shared_workspace() is shared
        blocks = [shared.take(nbytes, library) for nbytes in (1000, 100, 3000, 1)]
        got = [bk.sort(each) for each in (x, y)]
        again = bk.graph(lambda: bk.sort(x))
        with bk.SharedWorkspace() as inner:
            assert memory.shared_workspace() is inner
    assert memory.shared_workspace() is None
    assert blocks[0].ptr == blocks[1].ptr and blocks[2].ptr == blocks[3].ptr and blocks[2].nbytes >= 3000
    for found, wanted in zip([*got, again()], [*want, want[0]]):
        np.testing.assert_array_equal(np.asarray(found), wanted)
    alive = weakref.ref(shared)
    del shared
    gc.collect()
    assert alive() is not None
    del again
    gc.collect()
    assert alive() is None


def test_random_numbers_from_a_state():
    """A replay draws the numbers that a call after the first one would draw."""
    library = bk.load(backend="cpu")
    state, other = (bk.random.Generator(5).state(bk.zeros(1, library=library)) for _ in range(2))
    drawn = bk.zeros(7, library=library)
    again = bk.graph(lambda: bk.random.normal(out=drawn, generator=state))
    for _ in range(3):
        np.testing.assert_array_equal(drawn, np.asarray(bk.random.normal(out=np.zeros(7, np.float32), generator=other)))
        again()


def test_fused_linear_cross_entropy(rng):
    """A plan of several launches, some of them C functions without a plan."""
    x, w, target = rng.standard_normal((5, 4)), rng.standard_normal((3, 4)), rng.integers(0, 3, 5)
    library, descriptor = bk.load(backend="cpu"), bk.FusedLinearCrossEntropyDescriptor(5, 4, 3, element=bk.f64)
    plan = bk.FusedLinearCrossEntropyPlan.select(None, descriptor, library=library)
    scratch, out = bk.empty(plan.workspace_size, bk.u8, library=library), bk.zeros(1, bk.f64, library=library)
    args = bk.FusedLinearCrossEntropyArgs(x, w, target, out)
    again = bk.graph(lambda: plan.run(None, scratch, args, count=5))
    for _ in range(2):
        x[...] = rng.standard_normal((5, 4))
        again()
        logits = x @ w.T
        losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(5), target]
        np.testing.assert_allclose(out, [losses.mean()], 1e-13)


def test_copies_clears_and_workspaces(rng):
    """A graph includes copies to contiguous memory, the clearing of results, and workspaces."""
    indices, offsets = np.array([[0, 9], [1, 9], [1, 9]], np.int32)[:, 0], np.array([0, 2], np.int32)
    dout, dy, a = rng.standard_normal((2, 3)), rng.standard_normal((500, 8)), rng.standard_normal((500, 8))
    row = np.ones((1, 8))

    def call():
        of_weight = bk.embedding_bag_backward(dout, indices, offsets, 3, mode="sum")
        return of_weight, bk.mul_backward(dy, a, row, needs=(False, True))[1]

    again = bk.graph(call)
    for step in range(3):
        indices[0] = step
        dout[...], dy[...] = rng.standard_normal((2, 3)), rng.standard_normal((500, 8))
        expected = np.zeros((3, 3))
        np.add.at(expected, indices, dout[[0, 0, 1]])
        weight, summed = again()
        np.testing.assert_allclose(weight, expected, 1e-14)
        np.testing.assert_allclose(summed[0], (dy * a).sum(0), 1e-12, 1e-12)


def test_plans_and_out():
    x, y, z = (np.full((2, 3), value, np.float32) for value in (4, 0, 0))
    of = bk.UnaryDescriptor(kind=bk.UnaryKind.SQRT, shape=(2, 3), element=bk.f32)
    plan = bk.UnaryPlan.select(None, of, backend="cpu")
    args = bk.UnaryArgs(x=x, y=y)
    plan.run(None, None, args)

    def call():
        plan.run(None, None, args)
        bk.neg(y, out=z)

    again = bk.graph(call)
    x[...] = 9
    assert again() is None
    assert (y == 3).all() and (z == -3).all()


def test_memory_lives_as_long_as_the_graph():
    seen = []

    def call():
        middle = bk.tensor(np.full(1000, 2.0))
        seen.append(weakref.ref(middle.owner))
        return bk.neg(bk.square(middle))

    again = bk.graph(call)
    gc.collect()
    assert seen[0]() is not None
    assert bk.download(again()).tolist() == [-4.0] * 1000
    del again
    gc.collect()
    assert seen[0]() is None


def test_refusals():
    with pytest.raises(bk.InvalidProblemError, match="nothing was called"):
        bk.graph(lambda: None)
    with pytest.raises(bk.InvalidProblemError, match="which is no stream"):
        bk.graph(lambda: None, stream="x")
    again = bk.graph(lambda: bk.neg(np.ones(3)))
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(again)
    with pytest.raises(KeyError):
        bk.graph(lambda: {}["missing"])
    assert checking.active is None


class Runtime:
    """cuda.bindings.runtime as far as a capture uses it."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        if name == "cudaStreamCaptureMode":
            return types.SimpleNamespace(cudaStreamCaptureModeRelaxed="relaxed")

        def call(*arguments):
            self.calls.append((name, *arguments))
            made = {"cudaStreamEndCapture": "graph", "cudaGraphInstantiate": "executable"}
            return (0, made[name]) if name in made else (0,)

        return call


def test_a_capture_on_cuda(monkeypatch):
    """Calls come in this order; memory allocated meanwhile is kept alive; a stream never stays in capture mode."""
    runtime = Runtime()
    monkeypatch.setattr(memory, "cuda_runtime", lambda: runtime)
    watched = []

    def call():
        watched.append(bk.empty((3,), library=bk.load(backend="cpu")))
        return len(watched)

    again = graphs._captured(call, 7)
    assert again() == 1
    assert [name for name, *_ in runtime.calls] == [
        "cudaStreamSynchronize", "cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate",
        "cudaGraphDestroy", "cudaGraphLaunch",
    ]  # fmt: skip
    assert runtime.calls[1] == ("cudaStreamBeginCapture", 7, "relaxed")
    assert runtime.calls[-1] == ("cudaGraphLaunch", "executable", 7)
    owner = watched.pop().owner
    assert any(each is owner for each in gc.get_referents(again._alive[0]))
    assert memory.held is None
    del again
    assert runtime.calls[-1] == ("cudaGraphExecDestroy", "executable")
    with pytest.raises(ZeroDivisionError):
        graphs._captured(lambda: 1 / 0, 7)
    assert runtime.calls[-1][0] == "cudaStreamEndCapture" and memory.held is None


def test_calls_of_another_stream():
    recorder = graphs._Recorder()
    view = bk.TensorRef(0x1000, (3,), bk.f32, device="cuda")
    assert recorder.call(lambda *_: 0, types.SimpleNamespace(pattern="neg"), {"x": view}, {}, 5, ()) == 0
    assert (recorder.devices, recorder.streams) == ({"cuda"}, {5})


def test_who_captures_a_call(monkeypatch):
    """The framework whose arrays a function is called with captures it; plans and views have none."""
    view = bk.TensorRef(0x1000, (3,), bk.f32, device="cuda")
    row = types.SimpleNamespace(pattern="neg")
    tensor = type("Tensor", (), {"__module__": "torch"})()
    recorder = graphs._Recorder()
    recorder.keep([tensor, None], None)
    recorder.call(lambda *_: 0, row, {"x": view}, {}, 0, ())
    assert recorder.owners == {"torch"}
    recorder.call(lambda *_: 0, row, {"x": view}, {}, 0, ())  # a plan
    assert recorder.owners == {"torch", ""}

    def calls(*owners):
        def call():
            for owner in owners:
                if owner:
                    checking.active.keep([tensor], None)
                checking.active.call(lambda *_: 0, row, {"x": view}, {}, 7, ())

        return call

    taken = []
    monkeypatch.setitem(graphs._CAPTURES, "torch", lambda call, stream: taken.append(stream))
    bk.graph(calls("torch"))
    bk.graph(calls("torch"), stream=7)
    assert taken == [None, 7]
    with pytest.raises(bk.UnsupportedError, match="calls on plans or TensorRefs and torch do not fit into one graph"):
        bk.graph(calls("torch", ""))
    with pytest.raises(bk.UnsupportedError, match="calls run on the stream 0x7, not on 0x0"):
        bk.graph(calls(""))

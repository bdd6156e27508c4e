# SPDX-License-Identifier: Apache-2.0
"""Functions on arrays that a framework has on the device: results are arrays of that framework, in the order of its
stream."""

import subprocess
import sys

import numpy as np
import pytest
from frameworks import FRAMEWORKS
from gpu_tools import gate, is_waiting

import baracuda as bk
from harness import ROOT
from harness.child import child_environment

ALL = pytest.mark.parametrize("framework", FRAMEWORKS.values(), ids=FRAMEWORKS)
WRITABLE = pytest.mark.parametrize(
    "framework", [f for n, f in FRAMEWORKS.items() if n != "jax"], ids=[n for n in FRAMEWORKS if n != "jax"]
)


@ALL
def test_values(framework, rng):
    """One dtype and two, Python numbers, a broadcast operand, and sums: each call twice, prepared and cached."""
    a, b = rng.standard_normal((300, 64)).astype(np.float32), rng.standard_normal(64).astype(np.float32)
    x, y = framework.array(a), framework.array(b)
    for _ in range(2):
        for got, expected in (
            (bk.add(x, y), a + b), (bk.add(x, 2), a + 2), (bk.add(2.5, x), np.float32(2.5) + a),
            (bk.gt(x, y), a > b), (bk.cast(x, bk.f64), a.astype(np.float64)),
        ):  # fmt: skip
            assert isinstance(got, framework.kind)
            np.testing.assert_array_equal(framework.numpy(got), expected)
        np.testing.assert_allclose(framework.numpy(bk.sum(x, axis=0)), a.sum(0), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(framework.numpy(bk.matmul(x, framework.array(a.T.copy()))), a @ a.T, atol=1e-3)
        da, db = bk.mul_backward(x, x, y)
        np.testing.assert_allclose(framework.numpy(da), a * b, rtol=1e-6)
        np.testing.assert_allclose(framework.numpy(db), (a * a).sum(0), rtol=1e-4)


@ALL
def test_indices_and_cleared_results(framework, rng):
    dout, indices, offsets = rng.standard_normal((2, 3)), np.array([1, 0, 1]), np.array([0, 2], np.int32)
    for _ in range(2):
        got = bk.embedding_bag_backward(*map(framework.array, (dout, indices, offsets)), 4, mode="sum")
        np.testing.assert_allclose(
            framework.numpy(got), np.stack([dout[0], dout[0] + dout[1], 0 * dout[0], 0 * dout[0]])
        )


@WRITABLE
def test_strides_and_out(framework, rng):
    a = rng.standard_normal((6, 8)).astype(np.float32)
    x, out = framework.array(a), framework.array(np.zeros((8, 3), np.float32))
    for _ in range(2):
        assert bk.neg(x.T[:, ::2], out=out) is out
        np.testing.assert_array_equal(framework.numpy(out), -a.T[:, ::2])


@WRITABLE
def test_graphs(framework, rng):
    """A graph is captured and replayed on new values of the arrays; nobody else writes the memory that it uses."""
    a = rng.standard_normal((512, 64)).astype(np.float32)
    x, y = framework.array(a), framework.array(a)
    again = bk.graph(lambda: bk.mul(bk.add(bk.neg(x), y), 2.5))
    others = [framework.array(np.full((512, 64), 7, np.float32)) for _ in range(16)]
    for step in range(3):
        x[...] = framework.array(a + step)
        result = again()
        assert result is again.result
        np.testing.assert_allclose(framework.numpy(result), (a - (a + step)) * 2.5, rtol=1e-5, atol=1e-6)
    for other in others:
        assert (framework.numpy(other) == 7).all()
    with pytest.raises(bk.UnsupportedError, match="do not fit into one graph"):
        bk.graph(lambda: (bk.neg(x), bk.neg(bk.upload(a))))


@ALL
def test_memory_is_shared_both_ways(framework, rng):
    """DLPack and, where it is supported, the CUDA array interface share memory in both directions."""
    a = rng.standard_normal((5, 7)).astype(np.float32)
    theirs = framework.array(a)
    framework.synchronize()
    view = bk.tensor(theirs)
    assert (view.device, view.shape, view.dtype) == ("cuda", (5, 7), bk.f32)
    np.testing.assert_array_equal(bk.download(view), a)
    ours = bk.upload(a)
    there = framework.from_dlpack(ours)
    np.testing.assert_array_equal(framework.numpy(there), a)
    assert bk.tensor(there).ptr == ours.ptr
    if hasattr(theirs, "__cuda_array_interface__"):
        interface = theirs.__cuda_array_interface__
        assert (interface["data"][0], interface["shape"]) == (view.ptr, (5, 7))
    assert ours.__cuda_array_interface__["data"][0] == ours.ptr


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_mixed_libraries(name, rng):
    """Operands may come from several frameworks and this package; the first decides the result's."""
    a = rng.standard_normal((3, 4)).astype(np.float32)
    first = FRAMEWORKS[name]
    for other in FRAMEWORKS.values():
        x, y = first.array(a), other.array(a)
        first.synchronize()
        other.synchronize()
        got = bk.add(x, y)
        assert isinstance(got, first.kind)
        np.testing.assert_array_equal(first.numpy(got), a + a)
    np.testing.assert_array_equal(first.numpy(bk.add(first.array(a), bk.upload(a))), a + a)


CHECKS = """
import numpy as np
import baracuda as bk
x, ids = bk.upload(np.ones((4, 2), np.float32)), bk.upload(np.array([0, 1, 1, 7], np.int32))
for _ in range(3):
    try:
        bk.segment_sum(x, ids, 3)
    except bk.CheckError as error:
        print(error.operand, error.position, error.value)
print(bk.download(bk.segment_sum(x, bk.upload(np.array([0, 1, 1, 2], np.int32)), 3)).tolist())
"""


def test_a_check_leaves_the_context_alive():
    environment = child_environment(BARACUDA_CHECK="1", BARACUDA_BACKEND="cuda")
    command = [sys.executable, "-c", CHECKS]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["segment_ids (3,) 7"] * 3 + ["[[1.0, 1.0], [2.0, 2.0], [1.0, 1.0]]"]


if "cupy" in FRAMEWORKS:
    import cupy

    def test_the_current_stream_of_cupy(rng):
        a = rng.standard_normal(1000).astype(np.float32)
        x, stream = cupy.asarray(a), cupy.cuda.Stream(non_blocking=True)
        bk.neg(x)
        cupy.cuda.Device().synchronize()
        with gate() as held:
            with stream:
                held.hold(stream.ptr)
                got = bk.neg(x)
            assert is_waiting(stream.ptr)
        stream.synchronize()
        np.testing.assert_array_equal(cupy.asnumpy(got), -a)

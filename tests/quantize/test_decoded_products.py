# SPDX-License-Identifier: Apache-2.0
"""Products of many rows with quantised weights, which are decoded into the workspace: when, and with which results."""

import numpy as np
import pytest

import baracuda as bk
from cases.quantize.products import weights_of
from tools.oracle.block_formats import FORMATS, decoded
from tools.oracle.numerics import round_to

DECODED, INVARIANT, TILES = 9, 5, 6  # backends
TINY = 2.0**-24  # of f16
EPS = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}


class Bytes:
    """Source from which weights_of draws."""

    def __init__(self, rng):
        self.rng = rng


def workspace_size(op, *numbers):
    return int(bk.default_library().function(op, "workspace_size")(*numbers))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_few_rows_need_no_workspace(dtype):
    """The size is that of the decoded weights from some number of rows on, whose results without it are exact."""
    q4_k = FORMATS["q4_K"].id
    sizes = [workspace_size(f"quantized_matmul_{dtype}", m, 4096, 14336, q4_k, 0) for m in (1, 8, 16, 64, 1 << 20)]
    assert sizes[:2] == [0, 0]
    assert sizes == sorted(sizes)
    weights = 4096 * 14336 * np.dtype(np.float32 if dtype == "f32" else np.float16).itemsize
    may_be_exact = dtype == "f32" and bk.default_library().backend == "cuda"  # f32 needs cuBLASLt there
    assert sizes[-1] >= weights or (may_be_exact and sizes[-1] == 0)


def test_backends_that_take_no_workspace():
    for m in (1, 33, 4096):
        for backend in (INVARIANT, 6, 7, 8):
            assert workspace_size("quantized_matmul_bf16", m, 4096, 4096, 12, backend) == 0
            assert workspace_size("mx_matmul_bf16", m, 4096, 4096, 0, 0, backend) == 0
    for m, n, k in ((0, 64, 256), (64, 0, 256), (64, 64, 0), (1 << 31, 64, 256)):
        assert workspace_size("quantized_matmul_bf16", m, n, k, 12, DECODED) == 0


def product(x, w, chosen, size, backend=DECODED, shift=0):
    """The product in C with a workspace of `size` bytes that begins `shift` bytes after an aligned address."""
    library = bk.default_library()
    (m, k), n, null = x.shape, w.shape[0], library.ffi.NULL
    given, weights, y = bk.upload(x), bk.upload(w), bk.zeros((m, n), x.dtype.name.replace("float", "f"))
    scratch = bk.empty((size + shift,), bk.u8) if size else None
    at = null if scratch is None else library.ffi.cast("void *", scratch.ptr + shift)
    of = [library.ffi.cast("void *", each.ptr) for each in (given, weights)]
    status = library.function(f"quantized_matmul_{y.dtype.symbol}", "run")(
        m, n, k, chosen.id, backend, *of, null, library.ffi.cast("void *", y.ptr), at, size, null
    )
    assert status == 0
    bk.synchronize()
    return bk.download(y)


def test_a_short_workspace_counts_as_none(rng):
    chosen = FORMATS["q8_0"]
    w = weights_of(Bytes(rng), chosen, 70, 4).astype(np.uint8)
    x = rng.standard_normal((37, 128)).astype(np.float16)
    size = workspace_size("quantized_matmul_f16", 37, 70, 128, chosen.id, DECODED)
    assert size > 70 * 128 * 2
    without, full = product(x, w, chosen, 0), product(x, w, chosen, size)
    np.testing.assert_array_equal(without, product(x, w, chosen, size - 1))
    np.testing.assert_array_equal(product(x, w, chosen, 0, TILES), product(x, w, chosen, size, TILES))
    np.testing.assert_array_equal(full, product(x, w, chosen, size, shift=1))
    assert (without != full).any()  # weights are rounded in one of them


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_functions_of_many_rows(rng, dtype):
    """The function takes the workspace by itself; leading axes, a bias, and rows of a batch-invariant call."""
    chosen = FORMATS["q4_K"]
    data = weights_of(Bytes(rng), chosen, 21, 2).astype(np.uint8)
    values = decoded(chosen, data).astype(np.float64)
    x, bias = round_to(rng.standard_normal((5, 9, 512)) / 256, dtype), round_to(rng.standard_normal(21), dtype)
    element = bk.dtypes.as_element(dtype)
    given, w, added = bk.upload(x, element), bk.upload(data), bk.upload(bias, element)
    got = bk.download(bk.quantized_matmul(given, w, "q4_K", bias=added)).astype(np.float64)
    magnitude = np.abs(x) @ np.abs(values.T) + np.abs(bias)
    assert np.all(np.abs(got - (x @ values.T + bias)) <= (2 * EPS[dtype] + 1024 * 2.0**-24) * magnitude + TINY)
    all_rows = bk.download(bk.quantized_matmul(given, w, "q4_K", batch_invariant=True))
    one = bk.download(bk.quantized_matmul(given[2, 3:4], w, "q4_K", batch_invariant=True))
    np.testing.assert_array_equal(all_rows[2, 3], one[0])


def test_capture(rng):
    chosen = FORMATS["q4_0"]
    data = weights_of(Bytes(rng), chosen, 34, 3).astype(np.uint8)
    x, w = bk.zeros((80, 96), bk.bf16), bk.upload(data)
    call = bk.graph(lambda: bk.quantized_matmul(x, w, "q4_0"))
    for _ in range(2):
        values = round_to(rng.standard_normal((80, 96)), "bf16")
        bk.upload(values, out=x)
        want = bk.download(bk.quantized_matmul(x, w, "q4_0"))
        np.testing.assert_array_equal(bk.download(call()).astype(np.float32), want.astype(np.float32))


def test_a_plan_of_many_rows(rng):
    chosen = FORMATS["q4_K"]
    data = weights_of(Bytes(rng), chosen, 24, 1).astype(np.uint8)
    given = bk.QuantizedMatmulDescriptor(bk.GgufBlockFormat.Q4_K, 40, 24, 256, element=bk.bf16)
    plan = bk.QuantizedMatmulPlan.select(None, given)
    fixed = bk.QuantizedMatmulPlan.select(None, given, bk.PlanPreference(batch_invariant=True))
    bounded = bk.QuantizedMatmulPlan.select(None, given, bk.PlanPreference(max_workspace_bytes=0))
    assert fixed.workspace_size == bounded.workspace_size == 0
    x = round_to(rng.standard_normal((40, 256)), "bf16")
    w, results = decoded(chosen, data).astype(np.float64), []
    for each in (plan, fixed, bounded):
        y = bk.zeros((40, 24), bk.bf16)
        args = bk.QuantizedMatmulArgs(x=bk.upload(x, bk.bf16), w=bk.upload(data), y=y)
        each.run(None, bk.workspace(each), args)
        bk.synchronize()
        results.append(bk.download(y).astype(np.float64))
        assert np.all(np.abs(results[-1] - x @ w.T) <= 2.0**-6 * (np.abs(x) @ np.abs(w.T)))

# SPDX-License-Identifier: Apache-2.0
"""Functions for JAX: results equal those of NumPy arrays, eagerly and under jit; gradients are compared with finite
differences, and vmap with one call after another."""

import functools
import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import baracuda as bk
import baracuda.jax as bj
from baracuda._functions.gradients.composite import COMPOSITE_GRADIENTS
from baracuda._functions.gradients.formulas import FORMULAS
from baracuda._functions.gradients.gemm import GEMM_GRADIENTS
from baracuda._functions.gradients.registry import gradient_of
from baracuda._functions.spec import specs
from baracuda.jax._calls import VJP_RULES
from harness import ROOT
from harness.child import child_environment
from harness.samples import grouped_products, sample

OPERANDS = {name: [a.name for a in specs()[name].arrays] for name in GEMM_GRADIENTS} | {"matmul": ["a", "b"]}


@pytest.fixture(autouse=True)
def _on_the_cpu(library):
    if library.backend == "cuda":
        bk.load(backend="cpu")
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        yield


def listed(results):
    return list(results) if isinstance(results, tuple) else [results]


def called(module, name, convert=lambda array: array):
    arguments, numbers = sample(name).arguments(name, convert)
    return listed(getattr(module, name)(*arguments, **numbers))


def same(results, expected):
    for got, wanted in zip(results, expected, strict=True):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_array_equal(np.asarray(got), wanted)


@pytest.mark.parametrize("name", specs())
def test_a_function_is_that_of_numpy_arrays(name):
    """Results are bitwise equal to those of NumPy arrays, also under jit as part of a program."""
    arguments, numbers = sample(name).arguments(name)
    expected = called(bk, name)
    same(called(bj, name, jnp.asarray), expected)
    function = jax.jit(lambda *arrays: getattr(bj, name)(*with_arrays(arguments, arrays), **numbers))
    same(listed(function(*[a for a in arguments if isinstance(a, np.ndarray)])), expected)


def with_arrays(arguments, arrays):
    """The arguments with other arrays in place of theirs."""
    remaining = iter(arrays)
    return [next(remaining) if isinstance(a, np.ndarray) else a for a in arguments]


OF_FLOAT32 = ("moe_", "gated_delta_rule", "gated_linear_attention", "recurrent_cells", "rwkv7")  # of float32


def has_gradient(name):
    # ctc_loss has gradients of logits only; float32, as of grouped_gemm, is too coarse for finite differences
    if name in ("ctc_loss", "ctc_loss_forward", "grouped_gemm", "grouped_linear") or name.startswith(OF_FLOAT32):
        return False
    return (gradient_of(name) is not None or name in VJP_RULES) and "_backward" not in name and "_to_f32" not in name


# Straight-through gradients are not those of finite differences, and blocks of codes have no float64.
UNCHECKED = {
    "quantized_matmul", "mx_matmul", "gemv_4bit",
    *[f"fake_quantize_{scope}" for scope in ("per_tensor", "per_channel", "learnable")],
}  # fmt: skip
UNCHECKED |= {"linalg_cholesky", "linalg_eigh", "linalg_eigvalsh", "linalg_svd"}  # of Hermitian matrices, reduced ones
UNCHECKED |= {"selective_scan", "selective_scan_forward", "ssd_scan", "ssd_scan_forward"}  # without float64


@pytest.mark.parametrize("name", [name for name in specs() if has_gradient(name) and name not in UNCHECKED])
def test_gradients(name):
    arguments, numbers = sample(name).arguments(name)
    numbers |= {"axis": -1} if name == "concat" else {}
    gradient, spec = gradient_of(name), specs()[name]
    own = OPERANDS.get(name) or COMPOSITE_GRADIENTS.get(name, ["x"])
    known = own if gradient is None else [*gradient.given, *gradient.separate]
    if name == "cast":
        arguments[1] = np.float64
    if name.startswith("rope_apply"):  # its tables may be float64 as well
        arguments = [argument.astype(np.float64) for argument in arguments]
    known = [each for each in known if each != "sinks"]  # float32: tests/cases have its gradient
    at = [k for k, a in enumerate(spec.positional) if a.name in known and isinstance(arguments[k], np.ndarray)]
    if name == "concat":
        arguments = [arguments[0], arguments[1].T.copy().reshape(2, 4)[:, :3].T.copy()]

    def function(*arrays):
        mixed = list(arguments)
        for k, array in zip(at, arrays):
            mixed[k] = array
        results = listed(getattr(bj, name)(*mixed, **numbers))
        if name.startswith("exclusive_"):  # it begins with infinities
            return [result[..., 1:] for result in results]
        # The gradient may be that of a form with more results.
        return [results[k] for k in sorted(gradient.incoming.values()) if k < len(results)] if gradient else results

    check_grads(function, [arguments[k] for k in at], order=1, modes=["rev"], atol=1e-5, rtol=1e-5, eps=1e-6)


@pytest.mark.parametrize("shape", [(2, 3, 4), (4,), (2, 1, 4), ()])
def test_gradient_of_a_bias(rng, shape):
    x, bias = rng.random((2, 3, 4)), rng.random(shape)
    mask = np.arange(12).reshape(3, 4) % 3 != 1
    check_grads(lambda b: bj.masked_softmax(x, mask, b), [bias], order=1, modes=["rev"], rtol=1e-5)
    check_grads(lambda a, b: bj.masked_softmax(a, mask, b, scale=2.0), [x, bias], order=1, modes=["rev"], rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_gradient_of_gather_from_a_longer_operand(rng, axis):
    x, index = rng.random((5, 6)), np.array([[2, 0, 4], [1, 1, 3]])
    check_grads(lambda x: bj.gather(x, index, axis=axis), [x], order=1, modes=["rev"])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenate_and_stack(rng, axis):
    """Lists of arrays are tried eagerly, under jit, as a batch, and for gradients."""
    x, y, z = (rng.random((3, 4)) for _ in range(3))
    for dtype in (np.float64, np.float32, jnp.bfloat16, np.int64, np.int8, np.bool_):
        arrays = [array.astype(dtype) for array in (x, y, z)]
        for function in (bj.concatenate, bj.stack):
            expected = getattr(np, function.__name__)(arrays, axis=axis)
            on_axis = functools.partial(function, axis=axis)
            same([on_axis(arrays), jax.jit(on_axis)(arrays)], [expected] * 2)
        parts = np.split(arrays[0], [1, 1, 3], axis)
        same(bj.split(jnp.asarray(arrays[0]), [1, 1, 3], axis=axis), parts)
    same([bj.concatenate([x, y.astype(np.float32)[:0]])], [x])
    two = np.stack([x, y])
    batched = jax.vmap(lambda a, b: bj.concatenate([a, b], axis=axis), (0, None))(two, z)
    same([batched], [np.stack([np.concatenate([each, z], axis) for each in two])])
    check_grads(lambda *a: bj.concatenate([*a, a[0]], axis=axis), [x, y], order=2, modes=["rev"])
    check_grads(lambda *a: bj.stack(a, axis=axis), [x, y], order=2, modes=["rev"])
    check_grads(lambda a: bj.split(a, [1, 1, 3], axis=axis)[2:], [x], order=2, modes=["rev"])


def test_concatenate_refuses(rng):
    x, y = rng.random((3, 4)), rng.random((3, 5))
    for call, text in {
        lambda: bj.concatenate([]): r"arrays is \[\], must be a list or tuple of one array or more",
        lambda: bj.concatenate([x, y]): r"arrays\[1\] has shape \(3, 5\), must be that of arrays\[0\], \(3, 4\), but",
        lambda: bj.stack([x, y]): r"arrays\[1\] has shape \(3, 5\), must be that of arrays\[0\], \(3, 4\)",
        lambda: bj.split(x, 5, axis=1): "sections is 5, must divide 4",
    }.items():
        with pytest.raises(bk.InvalidProblemError, match=text):
            call()


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ctc_loss(rng, reduction):
    logits, weights = rng.random((9, 2, 5)), np.array([1.0, 2.0])
    targets, lengths, labels = np.array([[1, 2, 0], [3, 3, 4]]), np.array([9, 7]), np.array([2, 3])

    def loss(logits):
        found = bj.ctc_loss(jax.nn.log_softmax(logits), targets, lengths, labels, reduction=reduction)
        return (found * weights).sum() if reduction == "none" else found

    check_grads(loss, [logits], order=1, modes=["rev"], atol=1e-5, rtol=1e-5, eps=1e-6)


def test_gradients_of_grouped_products(rng):
    (a, b, offsets), expected = grouped_products(rng)
    found = jax.grad(lambda a, b: (bj.grouped_gemm(a, b, offsets) ** 2).sum(), (0, 1))(a, b)
    for got, wanted in zip(found, expected):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


# Functions that save statistics, and losses of several arrays, have first gradients only. Finite differences of 16-bit
# results are too coarse for a second one.
TWICE = [name for name in (each.removesuffix("_backward") for each in FORMULAS) if name in specs()]
TWICE = [name for name in TWICE if "f32" in specs()[name].dtypes]
TWICE = [
    name
    for name in TWICE
    if f"{name}_forward" not in specs() and not re.search("loss|cross_entropy|gumbel|batch_norm", name)
]
TWICE += ["matmul", "linear", "linear_gelu", "linear_swiglu"]


@pytest.mark.parametrize("name", TWICE)
def test_second_gradients(name):
    arguments, numbers = sample(name).arguments(name)
    arrays = [a for a in arguments if isinstance(a, np.ndarray) and a.dtype.kind == "f"]

    def function(*given):
        remaining = iter(given)
        mixed = [next(remaining) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in arguments]
        return getattr(bj, name)(*mixed, **numbers)

    check_grads(function, arrays, order=2, modes=["rev"], rtol=1e-4)


BATCHES = ["gelu", "add", "clamp", "where", "softmax", "cumsum", "swiglu", "mul_backward", "softmax_backward", "sum",
           "layer_norm", "matmul", "embedding"]  # fmt: skip


@pytest.mark.parametrize("name", BATCHES)
def test_vmap(rng, name):
    """vmap of every argument, of each one alone, and along an axis that is not the first."""
    arguments, numbers = sample(name).arguments(name)
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    function = functools.partial(lambda *given: listed(getattr(bj, name)(*with_arrays(arguments, given), **numbers)))
    for batched in (range(len(arrays)), *[[k] for k in range(len(arrays))]):
        given = [np.stack([a, a[::-1].copy() if a.ndim else a]) if k in batched else a for k, a in enumerate(arrays)]
        axes = [0 if k in batched else None for k in range(len(arrays))]
        singles = [function(*[a[i] if k in batched else a for k, a in enumerate(given)]) for i in range(2)]
        for got, *each in zip(jax.vmap(function, in_axes=axes)(*given), *singles, strict=True):
            np.testing.assert_allclose(got, np.stack(each), rtol=1e-12)
    moved = [np.moveaxis(np.stack([a, a]), 0, -1) for a in arrays]
    for got, one in zip(jax.vmap(function, in_axes=-1)(*moved), function(*arrays), strict=True):
        np.testing.assert_allclose(got, np.stack([one, one]), rtol=1e-12)


def test_vmap_of_a_gradient():
    x = jnp.arange(6.0).reshape(2, 3)
    rows = jax.vmap(jax.grad(lambda row: bj.softmax(row)[0]))(x)
    expected = jax.vmap(jax.grad(lambda row: jax.nn.softmax(row)[0]))(x)
    np.testing.assert_allclose(rows, expected, rtol=1e-12)


def test_elementwise_batches_are_one_call():
    text = jax.jit(jax.vmap(bj.add, in_axes=(0, None))).lower(jnp.ones((5, 3)), jnp.ones(3)).as_text()
    assert text.count("custom_call") == 1 and "tensor<5x3xf64>" in text and "while" not in text


def test_gradients_in_float32():
    x = jnp.linspace(-1, 1, 12, dtype=jnp.float16).reshape(3, 4)
    ours = jax.grad(lambda x: (bj.softmax_to_f32(x) ** 2).sum())(x)
    theirs = jax.grad(lambda x: (jax.nn.softmax(x.astype(jnp.float32)) ** 2).sum())(x)
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16, jnp.float8_e4m3fn, jnp.int8, jnp.bool_])
def test_dtypes(dtype):
    x = jnp.ones((2, 3), dtype)
    got = bj.where(x.astype(bool), x, x)
    assert got.dtype == dtype and np.asarray(got).tobytes() == np.asarray(x).tobytes()


def test_without_64_bits():
    with jax.enable_x64(False):
        x = jnp.array([[3.0, 1.0, 2.0]])
        assert bj.argmax(x, axis=1).dtype == jnp.int32 and bj.argmax(x, axis=1).tolist() == [0]
        values, indices = bj.cummin_indices(x)
        assert (values.tolist(), indices.tolist()) == ([[3, 1, 1]], [[0, 1, 1]])
        y = bj.rope(jnp.ones((1, 3, 4)), jnp.array([0, -1, 2**30]))
        np.testing.assert_array_equal(y, bk.rope(np.ones((1, 3, 4), np.float32), np.array([0, -1, 2**30])))
        logits, target = jnp.array([[1.0, 2.0], [0.5, 0.25]]), jnp.array([1, 0])
        slope = jax.grad(lambda x: bj.cross_entropy(x, target))(logits)
        wanted = jax.grad(lambda x: -jax.nn.log_softmax(x)[jnp.arange(2), target].mean())(logits)
        np.testing.assert_allclose(slope, wanted, rtol=1e-5, atol=1e-7)
        index, dy = jnp.array([2, 0, 2, 7]), jnp.array([1.0, 2.0, 4.0])
        slope = jax.grad(lambda x: (bj.scatter(index, x, 3, axis=0) * dy).sum())(jnp.ones(4))
        assert slope.tolist() == [0, 1, 4, 0]  # the last of two updates of an element stays


def test_numbers_and_dtypes_are_promoted():
    x = jnp.array([1.0, 2.0], jnp.float32)
    assert bj.add(x, 2).tolist() == bj.add(2.0, x).tolist() == [3, 4]
    assert bj.add(x, 2.0).dtype == jnp.float32
    assert bj.add(x.astype(jnp.bfloat16), x).dtype == jnp.float32
    assert bj.tile(x, 2).tolist() == bj.tile(x, [2]).tolist() == [1, 2, 1, 2]
    with pytest.raises(bk.InvalidProblemError, match="none of the arguments is an array"):
        bj.add(1, 2)
    with pytest.raises(bk.InvalidProblemError, match=r"b is 1\.5"):
        bj.add(jnp.array([1]), 1.5)


def test_what_is_not_needed_is_not_computed():
    dy, a, b = jnp.ones((3, 4)), jnp.full((3, 4), 2.0), jnp.full(4, 3.0)
    da, db = bj.mul_backward(dy, a, b, needs=(False, True))
    assert da is None and db.tolist() == [6.0] * 4
    text = str(jax.make_jaxpr(jax.grad(lambda a: bj.mul(a, b).sum()))(a))
    assert "f64[4]" not in text.rpartition("ffi_call")[0].rpartition("=")[0].rpartition("\n")[2]


def test_functions_without_a_gradient():
    x = jnp.array([1.0, 2.0])
    assert jax.grad(lambda x: jnp.where(bj.gt(x, 1.5), x, 0.0).sum())(x).tolist() == [0, 1]
    with pytest.raises(bk.UnsupportedError, match=r"baracuda\.floor_divide has no gradient"):
        jax.grad(lambda x: bj.floor_divide(x, x).sum())(x)
    with pytest.raises(bk.UnsupportedError, match=r"baracuda\.rms_norm_forward has no gradient of its result rms"):
        jax.grad(lambda x: bj.rms_norm_forward(x)[1].sum())(x)
    with pytest.raises(bk.UnsupportedError, match=r"baracuda\.layer_norm_forward has no gradient of its result mean"):
        jax.grad(lambda x: (jax.grad(lambda x: (bj.layer_norm(x) ** 3).sum())(x) ** 2).sum())(x)


def test_errors_and_names():
    with pytest.raises(bk.InvalidProblemError, match="add: shapes do not broadcast"):
        bj.add(jnp.ones(3), jnp.ones(2))
    with pytest.raises(bk.UnsupportedError, match="gelu: x has dtype i32"):
        bj.gelu(jnp.ones(3, jnp.int32))
    with pytest.raises(bk.InvalidProblemError, match="numbers decide about shapes or kernels"):
        jax.jit(lambda x, axis: bj.softmax(x, axis=axis))(jnp.ones(3), 0)
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        _ = bj.frobnicate
    assert (
        set(dir(bj))
        == {
            *specs(),
            "concatenate",
            "fft",
            "linalg",
            "paged_kv_append",
            "split",
            "stack",
            *bj._attention.NAMES,
            *bj._moe.NAMES,
            *bj._pool.NAMES,
            *bj._quantize.NAMES,
            *bj._recurrent.NAMES,
            *bj._sorting.NAMES,
            *bj._convolution.NAMES,
            *bj.deform_calls.NAMES,
        }
        and "gelu" in bj.gelu.__doc__
    )


def test_export():
    """An exported program refers to C functions by name, not by address, so it can be stored."""
    exported = jax.export.export(
        jax.jit(lambda x: bj.gelu(bj.add(x, 1.0))),
        platforms=["cpu"],
        disabled_checks=[jax.export.DisabledSafetyCheck.custom_call("baracuda")],
    )(jnp.ones(3))
    assert "baracuda_kernels_unary_gelu_f64_run" in exported.mlir_module()
    np.testing.assert_array_equal(exported.call(jnp.ones(3)), bk.gelu(np.full(3, 2.0)))


def test_unknown_symbols_are_refused():
    """A stored program may name symbols that do not exist."""
    call = jax.ffi.ffi_call("baracuda", jax.ShapeDtypeStruct((3,), np.float64))
    bj.neg(jnp.ones(3))
    for symbol, signature, sources, message in (
        ("baracuda_kernels_nothing_run", "lpppl" + "p", [0] * 12, "the library has no baracuda_kernels_nothing_run"),
        ("baracuda_kernels_unary_neg_f64_run", "zz", [0] * 4, "unknown signature"),
        ("baracuda_kernels_unary_neg_f64_run", "lppplp", [2, 9] * 6, "buffers that it has not"),
    ):
        with pytest.raises(Exception, match=message):
            attributes = {"symbol": symbol, "signature": signature, "host": np.zeros(1, np.int64)}
            call(jnp.ones(3), sources=np.array(sources, np.int64), **attributes).block_until_ready()


def test_the_handler_compiles_without_warnings(tmp_path):
    command = [sys.executable, "-m", "baracuda.jax", str(tmp_path)]
    environment = child_environment(JAX_PLATFORMS="cpu", CXX=f"{os.environ.get('CXX', 'g++')} -Werror")
    subprocess.run(command, env=environment, cwd=ROOT, check=True)
    assert len(list(tmp_path.glob("libbaracuda_jax-*.so"))) == 1

# SPDX-License-Identifier: Apache-2.0
"""PyTorch operators made of the functions: what autograd, torch.compile and torch.export are told of them is true.

PyTorch's own checks decide: gradcheck compares gradients with finite differences, opcheck the schema, the fake shapes
and the traced graph with the operator.
"""

import subprocess
import sys

import numpy as np
import pytest
import torch

import baracuda as bk
import baracuda.torch as bt
from baracuda._functions.gradients.composite import COMPOSITE_GRADIENTS
from baracuda._functions.gradients.formulas import FORMULAS
from baracuda._functions.gradients.gemm import GEMM_GRADIENTS
from baracuda._functions.gradients.registry import gradient_of, linear_partner
from baracuda._functions.spec import specs
from baracuda.torch._gradients import VJP_RULES
from harness import ROOT
from harness.child import child_environment
from harness.samples import grouped_products
from harness.torch_samples import arguments_of


@pytest.fixture(autouse=True)
def _on_the_cpu(library):
    if library.backend == "cuda":
        bk.load(backend="cpu")


@pytest.mark.parametrize(
    "shapes", [((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5))]
)
def test_gradients_of_batches_and_vectors(shapes):
    given = [torch.rand(shape, dtype=torch.float64).requires_grad_() for shape in shapes]
    assert torch.autograd.gradcheck(bt.matmul, given)


def without_memory(argument):
    return argument.to("meta") if isinstance(argument, torch.Tensor) else argument


def listed(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", specs())
def test_an_operator_is_its_function(name):
    """An operator computes its function, also on tensors without memory, and passes opcheck."""
    arguments, numbers = arguments_of(name)
    expected, got = listed(getattr(bk, name)(*arguments, **numbers)), listed(getattr(bt, name)(*arguments, **numbers))
    fake = listed(getattr(bt, name)(*[without_memory(a) for a in arguments], **numbers))
    for wanted, result, empty in zip(expected, got, fake, strict=True):
        assert torch.equal(wanted, result)
        assert (result.shape, result.dtype) == (empty.shape, empty.dtype)
    operator = getattr(torch.ops.baracuda, name)
    is_narrow = any(a.element_size() == 1 and a.is_floating_point() for a in arguments if isinstance(a, torch.Tensor))
    checks = ("test_faketensor", *(("test_schema",) * (not is_narrow)))  # PyTorch multiplies no 8-bit floats
    torch.library.opcheck(operator, arguments, numbers, test_utils=checks)


OPERANDS = {name: [a.name for a in specs()[name].arrays] for name in GEMM_GRADIENTS} | {"matmul": ["a", "b"]}
# Gradients of logits have a test of their own (test_ctc_loss); functions without float64, or with float32 results,
# cannot be compared with finite differences, nor can straight-through gradients.
UNCHECKED = (
    *("ctc_loss", "ctc_loss_forward", "grouped_gemm", "grouped_linear", "moe_route", "moe_permute", "moe_combine"),
    *("quantized_matmul", "mx_matmul", "gemv_4bit"),
    *("fake_quantize_per_tensor", "fake_quantize_per_channel", "fake_quantize_learnable"),
    *("gated_delta_rule", "gated_linear_attention", "recurrent_cells", "recurrent_cells_forward", "rwkv7"),
    *("selective_scan", "selective_scan_forward", "ssd_scan", "ssd_scan_forward"),
    *("linalg_cholesky", "linalg_eigh", "linalg_eigvalsh", "linalg_svd"),  # of Hermitian matrices, of reduced vectors
)
OF_F32 = ("sinks",)  # operands of float32 beside those of any dtype: tests/cases have their gradients
GRADIENTS = [n for n in specs() if (gradient_of(n) or n in VJP_RULES) and "_backward" not in n and "_to_f32" not in n
             and n not in UNCHECKED]  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    """Every differentiable input has a gradient, summed over the axes along which it was broadcast."""
    arguments, numbers = arguments_of(name)
    if name == "cast":
        arguments = (arguments[0], torch.float64)
    if name.startswith("rope_apply"):  # its tables may be float64 as well
        arguments = [argument.double() for argument in arguments]
    differentiated(name, arguments, known_to(name))

    def function(*given):
        result = getattr(bt, name)(*given, **numbers)
        if name == "linalg_lu":
            return result[1:]  # the permutation has no gradient
        return result[..., 1:] if name.startswith("exclusive_") else result  # it begins with infinities

    assert torch.autograd.gradcheck(function, arguments, fast_mode=True)


def test_gradients_of_grouped_products(rng):
    (a, b, offsets), expected = grouped_products(rng)
    a, b = torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)
    (bt.grouped_gemm(a, b, torch.tensor(offsets)) ** 2).sum().backward()
    for got, wanted in zip((a.grad, b.grad), expected):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def known_to(name):
    """Arguments by which the function has gradients."""
    gradient = gradient_of(name)
    known = OPERANDS.get(name) or (
        COMPOSITE_GRADIENTS.get(name, ["x"]) if gradient is None else [*gradient.given, *gradient.separate]
    )
    return [each for each in known if each not in OF_F32]


def differentiated(name, arguments, known):
    for argument, value in zip(specs()[name].positional, arguments):
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
            value.requires_grad_(argument.name in known)


TWICE = {name.removesuffix("_backward") for name in FORMULAS} | {"linear", "matmul", "linear_gelu", "linear_swiglu"}
TWICE = {name for name in TWICE & {*specs()} if gradient_of(name) or name in VJP_RULES}
TWICE -= {"softmax_to_f32", "log_softmax_to_f32"}
LINEAR = [name for name in GRADIENTS if linear_partner(f"{name}_backward")]


@pytest.mark.parametrize("name", sorted({*TWICE, *LINEAR}))
def test_second_gradients(name):
    arguments, numbers = arguments_of(name)
    if name.startswith("rope_apply"):
        arguments = [argument.double() for argument in arguments]
    # A gradient that is linear in dy is differentiated by dy; that of a separate operand has no second gradient.
    differentiated(name, arguments, known_to(name) if name in TWICE else gradient_of(name).given)
    assert torch.autograd.gradgradcheck(lambda *given: getattr(bt, name)(*given, **numbers), arguments, fast_mode=True)


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 4), (4,), (2, 1, 4), (1, 1), ()])
@pytest.mark.parametrize("name", ["masked_softmax", "masked_log_softmax"])
def test_gradient_of_a_bias(name, shape):
    """The gradient is summed over the axes along which the bias was broadcast, whether or not x has one."""
    x, bias = torch.rand(2, 3, 4, dtype=torch.float64), torch.rand(shape, dtype=torch.float64, requires_grad=True)
    mask = torch.arange(12).reshape(3, 4) % 3 != 1 if name == "masked_softmax" else None

    def function(*given):
        return getattr(bt, name)(*(given if len(given) == 3 else (x, mask, *given)), scale=2.0)

    assert torch.autograd.gradcheck(function, [bias])
    assert torch.autograd.gradcheck(function, [x.clone().requires_grad_(), mask, bias])


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (1,), (2, 0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["argmax_with_value", "argmin_with_value", "var_mean", "std_mean"])
def test_gradients_over_axes(name, keepdims, axis):
    """The first of equal extremes has the gradient alone."""
    x = torch.rand(2, 3, 4, dtype=torch.float64)
    x[1], x[:, 2] = (x[0], x[:, 0]) if "arg" in name else (x[1], x[:, 2])
    results = getattr(bt, name)(x.requires_grad_(), axis=axis, keepdims=keepdims)
    if "arg" not in name:
        assert torch.autograd.gradcheck(lambda given: getattr(bt, name)(given, axis=axis, keepdims=keepdims), [x])
        return
    weights = torch.rand(results[0].shape, dtype=torch.float64) + 1
    (results[0] * weights).sum().backward()
    axes = tuple(range(3)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    whole = results[0].detach().reshape([1 if a in {b % 3 for b in axes} else n for a, n in enumerate(x.shape)])
    shares = x.grad.sum(axes, keepdim=True)
    torch.testing.assert_close(shares.reshape(weights.shape), weights)
    assert bool(((x.detach() == whole) | (x.grad == 0)).all()) and int((x.grad != 0).sum()) == weights.numel()


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_gradients_beside_running_statistics(dtype, channels_last):
    """Gradients equal PyTorch's in evaluation, for the activation and for the parameters, which are float32 beside 16
    bits."""
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    x = torch.rand(3, 5, 4).to(dtype).requires_grad_()
    parameters = [torch.rand(4 if channels_last else 5, dtype=wide) + 0.5 for _ in range(4)]
    mean, var, gamma, beta = [p.requires_grad_(k > 1) for k, p in enumerate(parameters)]
    dy = torch.rand(3, 5, 4).to(dtype)
    bt.batch_norm_inference(x, mean, var, gamma, beta, channels_last=channels_last).backward(dy)
    found = [x.grad.double(), gamma.grad.double(), beta.grad.double()]
    given = [t.detach().double().requires_grad_() for t in (x, gamma, beta)]
    channels_first = given[0].mT if channels_last else given[0]
    y = torch.nn.functional.batch_norm(channels_first, mean.double(), var.double(), *given[1:])
    (y.mT if channels_last else y).backward(dy.double())
    for got, wanted in zip(found, given):
        torch.testing.assert_close(got, wanted.grad, rtol=1e-6 if dtype is torch.float64 else 1e-2, atol=1e-2)


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_ctc_loss(dtype, reduction, zero_infinity):
    """Values and gradients equal PyTorch's, whose mean is that of losses over their own lengths."""
    logits = torch.rand(9, 3, 5, dtype=torch.float64).to(dtype)
    lengths, labels = torch.tensor([9, 7, 1]), torch.tensor([2, 3, 2])  # the last cannot be spelt
    targets = torch.tensor([[1, 2, 0], [3, 3, 4], [1, 2, 0]])
    ours, theirs = logits.clone().requires_grad_(), logits.double().requires_grad_()
    weights = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    if not zero_infinity:
        lengths[2] = 4
    loss = bt.ctc_loss(torch.log_softmax(ours, -1), targets, lengths, labels, reduction=reduction,
                       zero_infinity=zero_infinity)  # fmt: skip
    each = torch.nn.functional.ctc_loss(torch.log_softmax(theirs, -1), targets, lengths, labels, reduction="none",
                                        zero_infinity=zero_infinity)  # fmt: skip
    if reduction == "none":
        (loss * weights.to(dtype)).sum().backward()
        (each * weights).sum().backward()
    else:
        loss.backward()
        whole = (each / labels).mean() if reduction == "mean" else each.sum()
        torch.testing.assert_close(loss.double(), whole, rtol=1e-9 if dtype is torch.float64 else 1e-2, atol=0)
        whole.backward()
    exact = dtype is torch.float64
    torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-9 if exact else 1e-2,
                               atol=1e-12 if exact else 2e-3)  # fmt: skip


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_gradients_in_float32(name):
    x, dy = torch.rand(3, 4, dtype=torch.float16), torch.rand(3, 4)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    getattr(bt, f"{name}_to_f32")(ours).backward(dy)
    getattr(torch, name)(theirs, -1, dtype=torch.float32).backward(dy)
    torch.testing.assert_close(ours.grad, theirs.grad)


TRACED = (
    "gelu", "sqrt", "mul", "add", "clamp", "where", "swiglu", "prelu", "tile", "elu", "alibi", "embedding_bag",
    "segment_sum", "cast", "powi", "matmul", "linear", "softmax", "sum", "cumsum", "take", "scatter",
    "put_add", "gather_rows", "rope_apply", "affine_grid", "mse_loss", "masked_scatter", "flip", "pad_constant",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
@pytest.mark.parametrize("name", TRACED)
def test_traces(name):
    """Graphs of the operator and its gradient trace with symbolic shapes."""
    arguments, numbers = arguments_of(name)
    for argument in arguments:
        if isinstance(argument, torch.Tensor) and argument.is_floating_point():
            argument.requires_grad_()
    torch.library.opcheck(getattr(torch.ops.baracuda, name), arguments, numbers)


def block(x, weight, bias):
    return bt.swiglu(bt.gelu(bt.add(x @ weight, bias)) * 2, axis=1).sum()


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(dynamic):
    """The graph has no breaks, also for a second shape, and has gradients."""
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for rows in (3, 5):
        given = [torch.randn(shape, dtype=torch.float64) for shape in ((rows, 4), (4, 6), (6,))]
        eager, traced = ([v.clone().requires_grad_() for v in given] for _ in range(2))
        block(*eager).backward()
        compiled(*traced).backward()
        for first, second in zip(eager, traced):
            torch.testing.assert_close(first.grad, second.grad, rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated")
def test_shapes_stay_symbols():
    """One graph serves all extents."""
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("aot_eager")
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, b: bt.mul(bt.glu(x), b), fullgraph=True, backend=counter, dynamic=True)
    for rows, columns in ((3, 4), (5, 8), (7, 6)):
        x, b = torch.randn(rows, columns), torch.randn(columns // 2)
        torch.testing.assert_close(compiled(x, b), torch.nn.functional.glu(x) * b)
    assert counter.frame_count == 1


def test_export():
    class Model(torch.nn.Module):
        def forward(self, x):
            return bt.gelu(x) + bt.leaky_relu(x, negative_slope=0.5)

    x = torch.randn(3, 4)
    program = torch.export.export(Model(), (x,))
    assert "baracuda.gelu" in str(program.graph)
    torch.testing.assert_close(program.module()(x), Model()(x))


def test_values_and_gradients_are_those_of_pytorch(rng):
    x = torch.from_numpy(rng.standard_normal((5, 7)))
    for name, theirs in {
        "gelu": torch.nn.functional.gelu,
        "silu": torch.nn.functional.silu,
        "tanh": torch.tanh,
    }.items():
        ours, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        (getattr(bt, name)(ours) ** 2).sum().backward()
        (theirs(other) ** 2).sum().backward()
        torch.testing.assert_close(ours.grad, other.grad, rtol=1e-12, atol=1e-12)


def test_numbers_and_dtypes_are_promoted():
    x = torch.tensor([1.0, 2.0])
    assert bt.add(x, 2).tolist() == bt.add(2.0, x).tolist() == [3, 4]
    assert bt.add(x.to(torch.bfloat16), x).dtype == torch.float32
    assert bt.mul(torch.tensor([2], dtype=torch.int8), 3).dtype == torch.int8
    with pytest.raises(bk.InvalidProblemError, match=r"1\.5 is no number of torch\.int32"):
        bt.add(torch.tensor([1], dtype=torch.int32), 1.5)
    with pytest.raises(bk.InvalidProblemError, match="none of the arguments is a tensor"):
        bt.add(1, 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert bt.add(torch.ones(2, 2) @ torch.ones(2, 2), torch.ones(2)).dtype == torch.float32
    assert bt.tile(x, 2).tolist() == [1, 2, 1, 2]


def test_what_is_not_needed_is_not_computed():
    dy, a, b = torch.ones(3, 4), torch.full((3, 4), 2.0), torch.full((4,), 3.0)
    da, db = bt.mul_backward(dy, a, b, needs=(False, True))
    assert (da.numel(), db.tolist()) == (0, [6.0] * 4)
    a.requires_grad_()
    bt.mul(a, b).sum().backward()
    assert a.grad.eq(3).all() and b.grad is None


def test_shapes_alone_hold_no_memory():
    """The gradient of add reads neither operand: autograd saves only their shapes."""
    a = torch.ones(3, 4, requires_grad=True)
    assert not bt.add(a, 1.0).grad_fn.saved_tensors
    assert len(bt.mul(a, 2.0).grad_fn.saved_tensors) == 2


def test_functions_without_a_gradient():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert not bt.gt(x, 1.5).requires_grad
    with pytest.raises(bk.UnsupportedError, match=r"baracuda\.floor_divide has no gradient"):
        bt.floor_divide(x, x).sum().backward()
    with pytest.raises(bk.UnsupportedError, match=r"baracuda\.floor_divide has no gradient"):
        bt.floor_divide(x, 2.0).sum().backward()
    with pytest.raises(bk.UnsupportedError, match=r"baracuda\.entmax15_backward has no gradient"):
        (g,) = torch.autograd.grad(bt.entmax15(x)[0], x, create_graph=True)
        g.sum().backward()


def test_errors_and_names():
    with pytest.raises(bk.InvalidProblemError, match="shapes do not broadcast"):
        bt.add(torch.ones(3), torch.ones(2))
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        _ = bt.frobnicate
    with pytest.raises(AttributeError, match="frobnicate"):
        _ = torch.ops.baracuda.frobnicate
    assert set(dir(bt)) == {
        *specs(),
        *bt._concat.FUNCTIONS,
        *bt._pages.FUNCTIONS,
        *bt._attention.NAMES,
        *bt._moe.NAMES,
        *bt._pool.NAMES,
        *bt._recurrent.NAMES,
        *bt._sorting.NAMES,
        *bt._quantize.NAMES,
        *bt._convolution.NAMES,
        *bt.deform_calls.NAMES,
        "fft",
        "linalg",
        "register",
    }
    assert bt.gelu.__doc__.startswith("x Phi(x)") or "gelu" in bt.gelu.__doc__
    np.testing.assert_array_equal(torch.ops.baracuda.neg(torch.ones(2)).numpy(), [-1, -1])


LAZY = """
import torch
import baracuda.torch as bt
assert not bt._registered
torch.ops.baracuda.gelu(torch.ones(3))
assert sorted(bt._registered) == ["gelu", "gelu_backward"], bt._registered
bt.register()
composed = {"fft", "linalg", "register", "stack", *bt._attention.NAMES, *bt._convolution.NAMES, *bt._moe.NAMES}
composed |= {*bt._pool.NAMES, *bt._quantize.NAMES, *bt._recurrent.NAMES, *bt._sorting.NAMES}
composed |= {*bt.deform_calls.NAMES}  # of other operators
assert len(bt._registered) == len(dir(bt)) - len(composed)
"""


def test_nothing_is_registered_before_it_is_asked_for():
    """Registration takes milliseconds per operator, so it waits for the first use."""
    subprocess.run([sys.executable, "-c", LAZY], env=child_environment(), cwd=ROOT, check=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gradients_of_concatenate(axis):
    """Lists of tensors have gradients, also second ones, with entries that need none, and under torch.compile."""
    rng = torch.Generator().manual_seed(3)
    x, y = [torch.rand(3, 4, generator=rng, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    calls = {
        "concatenate": lambda m: lambda *parts: m([*parts, parts[0]], axis=axis),
        "stack": lambda m: lambda *parts: m(list(parts), axis=axis),
    }
    for name, call in calls.items():
        function = call(getattr(bt, name))
        assert torch.autograd.gradcheck(function, (x, y)) and torch.autograd.gradgradcheck(function, (x, y)), name
        assert torch.equal(torch.compile(function, backend="eager", fullgraph=True)(x, y), function(x, y)), name
    extent = x.shape[axis]
    assert torch.autograd.gradcheck(lambda x: bt.split(x, [1, 1, extent - 1], axis=axis), (x,))
    first, *_ = bt.split(x, extent, axis=axis)
    (dx,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(dx, torch.zeros_like(x).index_fill(axis, torch.tensor([0]), 1))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_concatenate_is_an_operator():
    x, y = torch.rand(3, 4, requires_grad=True), torch.rand(2, 4)
    torch.library.opcheck(torch.ops.baracuda.concatenate.default, ([x, y],), {"axis": 0})
    torch.library.opcheck(torch.ops.baracuda.split.default, (x, [1, 3]), {"axis": 1})
    assert bt.concatenate([x, y.double()]).dtype == torch.float64
    assert [part.shape for part in bt.split(x, 2, axis=1)] == [(3, 2), (3, 2)]
    with pytest.raises(bk.InvalidProblemError, match=r"arrays is \[\], must be a list or tuple of one tensor or more"):
        bt.stack([])
    with pytest.raises(bk.InvalidProblemError, match="sections is 3, must divide 4"):
        bt.split(x, 3, axis=1)


def test_concatenate_of_tensors():
    x, y = torch.arange(12.0).reshape(3, 4), torch.arange(8.0).reshape(2, 4).T.contiguous().T
    assert torch.equal(bk.concatenate([x, y]), torch.cat([x, y]))
    assert torch.equal(bk.stack([x, x], axis=-1), torch.stack([x, x], -1))
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(bk.split(x, 2, axis=1), x.split(2, 1)))
    grids = torch.meshgrid(x[0], y[:, 0], indexing="ij")
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(bk.meshgrid(x[0], y[:, 0], indexing="ij"), grids))

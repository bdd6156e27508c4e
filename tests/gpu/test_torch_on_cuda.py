# SPDX-License-Identifier: Apache-2.0
"""PyTorch's tensors on the device: its streams, its graphs, its autograd and its compiler."""

import numpy as np
import pytest
import torch
from gpu_tools import gate, is_waiting

import baracuda as bk
import baracuda.torch as bt
from baracuda._functions.gradients.registry import gradient_of
from baracuda._functions.spec import specs
from baracuda.torch._gradients import VJP_RULES
from harness.samples import sample


def tensor(array):
    if array.dtype.name.startswith("float8"):  # from_numpy takes NumPy's own dtypes alone
        return torch.from_numpy(array.view(np.uint8)).cuda().view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array).cuda()


def arguments_of(name):
    return sample(name).arguments(name, tensor, lambda dtype: getattr(torch, dtype.name))


def listed(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", specs())
def test_every_operator(name):
    """An operator computes on the device what it computes on the host."""
    arguments, numbers = arguments_of(name)
    got = listed(getattr(bt, name)(*arguments, **numbers))
    host = [argument.cpu() if isinstance(argument, torch.Tensor) else argument for argument in arguments]
    for result, expected in zip(got, listed(getattr(bt, name)(*host, **numbers)), strict=True):
        assert result.is_cuda and result.dtype == expected.dtype
        if expected.dtype.is_floating_point and expected.dtype.itemsize == 1:
            assert torch.equal(result.cpu().view(torch.uint8), expected.view(torch.uint8))
            continue
        torch.testing.assert_close(result.cpu(), expected, rtol=1e-3 if expected.dtype != torch.float64 else 1e-9,
                                   atol=1e-6, equal_nan=True)  # fmt: skip


def has_gradient(name):
    known = gradient_of(name) is not None or name in VJP_RULES
    return known and "_backward" not in name and "_to_f32" not in name and name not in ("ctc_loss", "grouped_gemm")


@pytest.mark.parametrize("name", [name for name in specs() if has_gradient(name)])
def test_gradients(name):
    """Gradients equal those of the same call on the host."""
    found = []
    for device in ("cuda", "cpu"):
        arguments, numbers = arguments_of(name)
        arguments = [a.to(device) if isinstance(a, torch.Tensor) else a for a in arguments]
        gradient = gradient_of(name)
        known = None if gradient is None else {*gradient.given, *gradient.separate}
        leaves = []
        for argument, value in zip(specs()[name].positional, arguments):
            floats = isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
            is_only = known is None and name not in ("matmul", "linear")
            if floats and (known is None or argument.name in known) and not (is_only and leaves):
                leaves.append(value.requires_grad_())
        results = listed(getattr(bt, name)(*arguments, **numbers))
        first = next(result for result in results if result.requires_grad)
        parts = torch.view_as_real(first) if first.is_complex() else first
        found.append(torch.autograd.grad(parts.double().square().sum(), leaves, allow_unused=True))
    for ours, expected in zip(*found, strict=True):
        assert (ours is None) == (expected is None)
        if ours is not None:
            real = expected.real.dtype if expected.is_complex() else expected.dtype
            rtol = {torch.float64: 1e-8, torch.float32: 1e-3}.get(real, 4e-3)
            torch.testing.assert_close(ours.cpu(), expected, rtol=rtol, atol=min(rtol, 1e-5), equal_nan=True)


def test_the_current_stream(rng):
    a = torch.from_numpy(rng.standard_normal(1000).astype(np.float32)).cuda()
    stream = torch.cuda.Stream()
    bk.neg(a), bt.neg(a)
    torch.cuda.synchronize()
    for function in (bk.neg, bt.neg):
        with gate() as held:
            with torch.cuda.stream(stream):
                held.hold(stream.cuda_stream)
                got = function(a)
            assert is_waiting(stream.cuda_stream)
            assert not is_waiting(torch.cuda.default_stream().cuda_stream)
        stream.synchronize()
        assert torch.equal(got, -a)


@pytest.mark.parametrize("module", [bk, bt])
def test_pytorch_captures_them_among_its_own(module, rng):
    x, w = (torch.from_numpy(rng.standard_normal((64, 64)).astype(np.float32)).cuda() for _ in range(2))

    def work():
        return torch.relu(module.gelu(module.matmul(x, w)) + 1)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    for _ in range(2):
        x.copy_(torch.randn(64, 64))
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(result, work(), rtol=1e-5, atol=1e-5)


def test_compiled():
    def block(x, weight, bias):
        return bt.swiglu(bt.gelu(bt.add(x @ weight, bias)) * 2, axis=1).sum()

    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    given = [torch.randn(shape, device="cuda") for shape in ((5, 4), (4, 6), (6,))]
    eager, traced = ([v.clone().requires_grad_() for v in given] for _ in range(2))
    block(*eager).backward()
    compiled(*traced).backward()
    for first, second in zip(eager, traced):
        torch.testing.assert_close(first.grad, second.grad, rtol=1e-5, atol=1e-5)


def test_autocast():
    a, b = torch.rand(32, 64, device="cuda", requires_grad=True), torch.rand(64, 16, device="cuda")
    with torch.autocast("cuda", torch.float16):
        product = bt.matmul(a, b)
        assert (product.dtype, bt.softmax(product).dtype) == (torch.float16, torch.float32)
        assert torch.matmul(a, b).dtype == product.dtype
    product.float().sum().backward()
    assert a.grad.dtype == torch.float32


@pytest.mark.parametrize("name", ["gelu", "add", "matmul", "softmax", "scatter", "layer_norm"])
def test_opcheck(name):
    arguments, numbers = arguments_of(name)
    torch.library.opcheck(getattr(torch.ops.baracuda, name), arguments, numbers,
                          test_utils=("test_schema", "test_faketensor"))  # fmt: skip


def test_host_and_device_do_not_mix():
    with pytest.raises(bk.InvalidProblemError, match="is in cpu memory"):
        bk.add(torch.ones(3), torch.ones(3, device="cuda"))

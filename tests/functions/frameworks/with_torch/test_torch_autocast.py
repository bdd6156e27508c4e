# SPDX-License-Identifier: Apache-2.0
"""torch.autocast treats the operators as it treats PyTorch's functions of these names on CUDA."""

import pytest
import torch

import baracuda as bk
import baracuda.torch as bt
from baracuda._functions.spec import specs
from baracuda.torch._autocast import policy
from harness.samples import sample


@pytest.fixture(autouse=True)
def _on_the_cpu(library):
    if library.backend == "cuda":
        bk.load(backend="cpu")


F = torch.nn.functional


def wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


PAIRS = {
    "matmul": (bt.matmul, torch.matmul, [(3, 4), (4, 5)]),
    "linear": (bt.linear, F.linear, [(3, 4), (5, 4), (5,)]),
    "softmax": (bt.softmax, lambda x: F.softmax(wide(x), -1), [(3, 4)]),
    "mse_loss": (bt.mse_loss, F.mse_loss, [(3, 4), (3, 4)]),
    "layer_norm": (
        bt.layer_norm,
        lambda x: F.layer_norm(wide(x), (4,)),
        [(3, 4)],
    ),
    "gelu": (bt.gelu, F.gelu, [(3, 4)]),
    "add": (bt.add, torch.add, [(3, 4), (4,)]),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", PAIRS)
def test_dtypes_are_those_of_pytorch(name, given, dtype):
    ours, theirs, shapes = PAIRS[name]
    arguments = [torch.rand(shape, dtype=given) for shape in shapes]
    with torch.autocast("cpu", dtype):
        got, expected = ours(*arguments), theirs(*arguments)
        assert ours(*[argument.to("meta") for argument in arguments]).shape == got.shape
    torch.testing.assert_close(got, expected)


def test_gradients_have_the_dtype_of_their_operands():
    a, b = torch.rand(3, 4, requires_grad=True), torch.rand(4, 5, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        loss = bt.softmax(bt.matmul(a, b)).square().sum()
    loss.backward()
    assert a.grad.dtype == b.grad.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        compiled = torch.compile(lambda a, b: bt.matmul(a, b), fullgraph=True, backend="aot_eager")
        assert compiled(a, b).dtype == torch.bfloat16


@pytest.mark.parametrize("name", [name for name, spec in specs().items() if policy(spec)])
def test_every_operator_that_converts(name):
    arguments, numbers = sample(name).arguments(name, torch.from_numpy)
    given = [a.half() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in arguments]
    with torch.autocast("cpu", torch.bfloat16):
        results = getattr(bt, name)(*given, **numbers)
    first = results[0] if isinstance(results, tuple) else results
    assert first.dtype == (torch.bfloat16 if policy(specs()[name]) == "narrow" else torch.float32)

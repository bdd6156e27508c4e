"""Operators of PyTorch made of the functions: what autograd, torch.compile and torch.export are told of them is true.

PyTorch's own checks are the judges: gradcheck compares gradients with differences of the function, opcheck the schema,
the shapes of fake results and the traced graph with what the operator does.
"""

import subprocess
import sys

import numpy as np
import pytest
import torch

import baracuda as bk
import baracuda.torch as bt
from baracuda._functions.spec import REQUIRED, specs
from harness import ROOT
from harness.child import child_environment

# Where the functions of the sample values, between 0.2 and 0.8, are not what is to be tried.
DOMAINS = {"acosh": (1.2, 2.0), "logit": (0.3, 0.7)}
SHAPES = {
    "pointwise": [(3, 4), (4,), (3, 1), (3, 4)],
    "gated": {"x": (3, 4), "dy": (3, 2)},
    "prelu": {"x": (2, 3, 4), "weight": (3,), "dy": (2, 3, 4)},
    "repeat": {"x": (3, 2), "dy": (6, 6)},
    "softmax": dict.fromkeys(("x", "y", "u", "dy"), (3, 4)),
    "scan": dict.fromkeys(("x", "y", "dy"), (3, 4)),
    "reduce": {"x": (3, 4, 2)},
    "reduce_backward": {"x": (3, 4, 2), "y": (), "dy": ()},
    "reduce_to": {"x": (3, 4)},
    "trace": {"x": (3, 4)},
    **{layout: {"x": (3, 4)} for layout in ("flip", "roll", "permute", "triangle")},
    "pad": {"x": (3, 4), "dy": (6, 7)},
    "concat": {"a": (3, 4), "b": (2, 4), "dy": (5, 4)},
    "unfold": {"x": (3, 4), "dy": (3, 2, 3)},
    "repeat_interleave": {"x": (3, 4), "dy": (24,)},
    "matmul": {"a": (3, 4), "b": (4, 2)},
    "linear": {"x": (3, 4), "weight": (2, 4), "bias": (2,)},
    "norm": {**dict.fromkeys(("x", "dy"), (3, 4)), **dict.fromkeys(("gamma", "beta"), (4,))},
    "channels": {**dict.fromkeys(("x", "dy"), (2, 4, 3)), **dict.fromkeys(("gamma", "beta"), (4,))},
}
STATISTICS = {
    "norm": (3, 1),
    "batch_norm_backward": (4,),
    "group_norm_backward": (2, 2),
    "instance_norm_backward": (2, 4),
}
EXTENTS = {  # of losses
    "n_rows": 3, "class_extent": 4, "inner_extent": 2, "d_extent": 4, "max_time": 5, "batch_size": 2, "num_classes": 4,
    "max_target_len": 2, "states": 5,
}  # fmt: skip
NUMBERS = {
    "size": [4],
    "num_groups": 2,
    "dtype": torch.float32,
    "repeats": [2, 3],
    "shifts": [2],
    "dims": [1, 0],
    "pad_low": [1, 1],
    "pad_high": [2, 2],
    "split_offset": 3,
    "n": 3,
    "exponent": 2.5,
    "value": 2,
    "scale": 3,
    "offset": 1,
}
NUMBERS |= {"p0": 0.5, "p1": 0.75, "alpha": 0.5, "threshold": 0.5, "lambd": 0.25, "min_val": 0.3, "max_val": 0.6}
NAMED = {  # shapes, and the numbers that follow from none
    "affine_grid": ({"theta": (2, 2, 3)}, {"height": 3, "width": 2}),
    "alibi": ({"scores": (2, 3, 2, 4), "slopes": (3,)}, {}),
    "alibi_backward": ({"dy": (2, 3, 2, 4)}, {}),
    **dict.fromkeys(("unfold", "unfold_backward"), ({}, {"axis": 1, "size": 3})),
    **dict.fromkeys(("repeat_interleave", "repeat_interleave_backward"), ({}, {"repeats": 2})),
    "embedding_bag": ({"weight": (5, 3)}, {"mode": "sum"}),
    "embedding_bag_backward": ({"dout": (3, 3)}, {"num_embeddings": 5, "mode": "mean"}),
    **{
        f"{order}segment_{fold}": ({"x": (4, 3)}, {"num_segments": 3})
        for order in ("", "unsorted_")
        for fold in ("sum", "mean", "max", "min", "prod")
    },
    **{
        f"{order}segment_{fold}_backward": ({"dy": (3, 3), "x": (4, 3), "y": (3, 3)}, {})
        for order in ("", "unsorted_")
        for fold in ("sum", "mean", "max", "min", "prod")
    },
}
INDICES = {
    "indices": torch.tensor([4, 0, 2, 2], dtype=torch.int32), "offsets": torch.tensor([0, 1, 4], dtype=torch.int32),
    "segment_ids": torch.tensor([0, 0, 2, 2], dtype=torch.int32),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _on_the_cpu(library):
    if library.backend == "cuda":
        bk.load(backend="cpu")


def sample(name):
    """Arguments of an operator, positional and by keyword."""
    spec, generator = specs()[name], torch.Generator().manual_seed(7)
    dtypes = [d for row in spec.rows for d in row.slots.get("T", ())]
    natives = {"f64": torch.float64, "i32": torch.int32, "bool": torch.bool}
    native = next(native for dtype, native in natives.items() if dtype in dtypes)
    arrays = []
    for k, argument in enumerate(spec.arrays):
        slot = next((p.dtype for p in spec.row.params if p.name == argument.pointer), "T")
        native_of = {
            "T": native, "T.compute": native, "f32": torch.float32, "u8": torch.bool, "i64": torch.int64,
        }.get(slot, torch.int32)  # fmt: skip
        arrays.append(INDICES.get(argument.name, drawn(name, shape_of(spec, k), native_of, generator)))
    numbers = NAMED.get(name, ({}, {}))[1]
    values = dict(zip([a.name for a in spec.arrays], arrays))
    needed = [
        values[a.name] if a.name in values else numbers.get(a.name, NUMBERS.get(a.name, 2)) for a in spec.positional
    ]
    options = {n.name: numbers[n.name] for n in spec.numbers if n.name in numbers and n.default is not REQUIRED}
    return tuple(needed), options


def shape_of(spec, position):
    name, shapes = spec.arrays[position].name, SHAPES.get(spec.layout, {})
    if spec.layout == "pointwise":
        return shapes[position]
    if spec.layout == "loss":
        apart = spec.extents.get(name, "n_rows, class_extent")
        words = next((p.shape for p in spec.row.params if p.name == spec.arrays[position].pointer), apart)
        found = {"numel": (3, 4), "results": ()}
        return found[words] if words in found else tuple(EXTENTS[word.split(" by ")[0]] for word in words.split(", "))
    if name in ("mean", "inv_std", "rms"):
        return STATISTICS.get(spec.name, STATISTICS["norm"])
    return NAMED[spec.name][0].get(name) if spec.layout == "named" else shapes[name]


def drawn(name, shape, native, generator):
    """Random values; nothing for indices, which have no shape here."""
    if shape is None:
        return None
    low, high = DOMAINS.get(name.removesuffix("_backward"), (0.2, 0.8))
    if native.is_floating_point:
        return (torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(native)
    high = {torch.bool: 2, torch.int64: 3}.get(native, 5)
    return torch.randint(0, high, shape, generator=generator).to(native)


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
    """Its results, also without memory, and what PyTorch finds out about it."""
    arguments, numbers = sample(name)
    expected, got = listed(getattr(bk, name)(*arguments, **numbers)), listed(getattr(bt, name)(*arguments, **numbers))
    fake = listed(getattr(bt, name)(*[without_memory(a) for a in arguments], **numbers))
    for wanted, result, empty in zip(expected, got, fake, strict=True):
        assert torch.equal(wanted, result)
        assert (result.shape, result.dtype) == (empty.shape, empty.dtype)
    operator = getattr(torch.ops.baracuda, name)
    torch.library.opcheck(operator, arguments, numbers, test_utils=("test_schema", "test_faketensor"))


OWN = {"affine": ["x"], "cast": ["x"], "matmul": ["a", "b"], "linear": ["x", "weight", "bias"]}
OWN |= {name: [spec.arrays[0].name] for name, spec in specs().items() if spec.row.gradient}
# The gradient of ctc_loss reads the loss of each sample, which no result of it is.
GRADIENTS = [n for n in specs() if (f"{n}_backward" in specs() and n != "ctc_loss") or n in OWN]


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    """Of every input that has one, over the axes along which it was broadcast."""
    arguments, numbers = sample(name)
    if name == "cast":
        arguments = (arguments[0], torch.float64)
    gradient = specs().get(f"{name}_backward")
    known = [output.name.removeprefix("d") for output in gradient.outputs] if gradient else OWN[name]
    for argument, value in zip(specs()[name].positional, arguments):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            value.requires_grad_(argument.name in known)
    assert torch.autograd.gradcheck(lambda *given: getattr(bt, name)(*given, **numbers), arguments, fast_mode=True)


@pytest.mark.parametrize("name", ["gelu", "sqrt", "mul", "add", "clamp", "where", "swiglu", "prelu", "tile", "elu",
                                  "alibi", "embedding_bag", "segment_sum", "cast", "powi"])  # fmt: skip
def test_traces(name):
    """Graphs of the operator and its gradient, with shapes that are not known beforehand."""
    arguments, numbers = sample(name)
    for argument in arguments:
        if isinstance(argument, torch.Tensor) and argument.is_floating_point():
            argument.requires_grad_()
    torch.library.opcheck(getattr(torch.ops.baracuda, name), arguments, numbers)


def block(x, weight, bias):
    return bt.swiglu(bt.gelu(bt.add(x @ weight, bias)) * 2, axis=1).sum()


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(dynamic):
    """A graph without breaks, for a second shape as well, and its gradients."""
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for rows in (3, 5):
        given = [torch.randn(shape, dtype=torch.float64) for shape in ((rows, 4), (4, 6), (6,))]
        eager, traced = ([v.clone().requires_grad_() for v in given] for _ in range(2))
        block(*eager).backward()
        compiled(*traced).backward()
        for first, second in zip(eager, traced):
            torch.testing.assert_close(first.grad, second.grad, rtol=1e-12, atol=1e-12)


def test_shapes_stay_symbols():
    """One graph serves all extents."""
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
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
    """The gradient of add reads neither operand: autograd keeps only their shapes."""
    a = torch.ones(3, 4, requires_grad=True)
    assert not bt.add(a, 1.0).grad_fn.saved_tensors
    assert len(bt.mul(a, 2.0).grad_fn.saved_tensors) == 2


def test_functions_without_a_gradient():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert not bt.gt(x, 1.5).requires_grad
    with pytest.raises(bk.UnsupportedError, match=r"baracuda\.floor_divide has no gradient"):
        bt.floor_divide(x, x).sum().backward()
    with pytest.raises(bk.UnsupportedError, match=r"baracuda\.gelu_backward has no gradient"):
        (g,) = torch.autograd.grad(bt.gelu(x).sum(), x, create_graph=True)
        g.sum().backward()


def test_errors_and_names():
    with pytest.raises(bk.InvalidProblemError, match="shapes do not broadcast"):
        bt.add(torch.ones(3), torch.ones(2))
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        _ = bt.frobnicate
    with pytest.raises(AttributeError, match="frobnicate"):
        _ = torch.ops.baracuda.frobnicate
    assert set(dir(bt)) == {*specs(), "register"}
    assert bt.gelu.__doc__.startswith("x Phi(x)") or "gelu" in bt.gelu.__doc__
    np.testing.assert_array_equal(torch.ops.baracuda.neg(torch.ones(2)).numpy(), [-1, -1])


LAZY = """
import torch
import baracuda.torch as bt
assert not bt._registered
torch.ops.baracuda.gelu(torch.ones(3))
assert sorted(bt._registered) == ["gelu", "gelu_backward"], bt._registered
bt.register()
assert len(bt._registered) == len(dir(bt)) - 1
"""


def test_nothing_is_registered_before_it_is_asked_for():
    """Registration costs milliseconds for each operator."""
    subprocess.run([sys.executable, "-c", LAZY], env=child_environment(), cwd=ROOT, check=True)

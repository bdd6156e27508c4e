# SPDX-License-Identifier: Apache-2.0
"""Forward mode, torch.func's transforms, optional arguments and symbolic extents, for all operators.

The operators and their arguments follow from the specs: only refusals are listed here.
"""

import warnings

import pytest
import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import baracuda as bk
import baracuda.torch as bt
from baracuda._functions.gradients.registry import differentiated, gradient_of
from baracuda._functions.spec import REQUIRED, specs
from baracuda.torch._gradients import VJP_RULES
from harness.torch_samples import arguments_of

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
NEEDED = {f"attention_paged{form}" for form in ("", "_latent", "_quantized")}  # rows of q apart
NEEDED |= {"cross_entropy_backward", "nll_loss_backward"}  # the divisor
NEEDED |= {"dequantize_4bit", "gemv_4bit"}  # scales, or their codes
# Numbers with defaults that the shapes of the samples need.
SHAPING = {"interpolate": ("size",)}
SHAPING |= {f"{name}_pool{end}_backward": ("stride", "padding")
            for name, end in (("avg", ""), ("lp", ""), ("max", ""), ("max", "_indices"))}  # fmt: skip


@pytest.fixture(autouse=True)
def _on_the_cpu(library):
    if library.backend == "cuda":
        bk.load(backend="cpu")


def listed(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def known_to(name):
    """Arguments by which the function, or the one that computes it where it is differentiated, has gradients."""
    if name in ("gemv_4bit", "mx_matmul"):
        return {"x", "bias"}  # weights are constant
    whole = differentiated(name).name
    gradient = gradient_of(whole)
    if gradient is not None:
        return {*gradient.given, *gradient.separate}
    return {argument.name for argument in specs()[name].arrays} if whole in VJP_RULES else set()


DIFFERENTIABLE = [name for name in specs() if known_to(name) and "_backward" not in name]


@pytest.mark.parametrize("name", specs())
def test_optional_arguments_left_out(name):
    """Results are those of the defaults, by namespace and by function, and the given arguments have gradients."""
    arguments, numbers = arguments_of(name)
    spec, found = specs()[name], {}
    needed = [a for a in spec.positional if a.default is REQUIRED or name in NEEDED]
    for module in (torch.ops.baracuda, bt):
        values = [value.clone() if isinstance(value, torch.Tensor) else value for value in arguments[: len(needed)]]
        for argument, value in zip(needed, values):
            if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
                value.requires_grad_(argument.name in known_to(name))
        given = {number: numbers[number] for number in ("dtype", *SHAPING.get(name, ())) if number in numbers}
        results = listed(getattr(module, name)(*values, **given))
        recorded = [each for each in results if each.requires_grad]
        assert bool(recorded) == any(isinstance(v, torch.Tensor) and v.requires_grad for v in values)
        if recorded:
            torch.real(recorded[0]).sum().backward()
        found[module] = [*results, *[v.grad for v in values if isinstance(v, torch.Tensor) and v.requires_grad]]
    if name == "masked_select":  # elements behind the last chosen one are not compared
        found = {
            module: [each[: int(results[1])] if each.dim() else each for each in found[module]] for module in found
        }
    for first, second in zip(*found.values(), strict=True):
        assert first is not None and torch.equal(without_nan(first), without_nan(second))


def without_nan(x):
    """7 in place of NaN; 8-bit floats as f32, since PyTorch has no nan_to_num of them."""
    x = x.detach()
    return (x.float() if x.is_floating_point() and x.element_size() == 1 else x).nan_to_num(7)


# Functions with reverse mode only: their Jacobian is neither diagonal, symmetric nor constant.
REVERSE_ONLY = {
    *[f"linalg_{of}" for of in (
        "cholesky cholesky_solve det eig eigh eigvals eigvalsh householder_product inv lstsq lu lu_factor lu_solve "
        "matrix_exp ormqr pinv polar polar_unitary qr slogdet solve solve_triangular svd svdvals").split()],
    "cumprod", "exclusive_cumprod", "logcumsumexp", "exclusive_logcumsumexp", "scatter_reduce",
    "gumbel_softmax_seeded", "weight_norm", "weight_norm_forward", "l2_normalize_forward", "batch_norm_inference",
    *[f"{form}{name}{end}" for form in ("", "exclusive_") for name in ("cummax", "cummin") for end in ("", "_indices")],
    "var_mean", "std_mean", "embedding_bag_max", "grid_sample",
    *[f"fused_attention{form}{end}" for form in ("", "_varlen") for end in ("", "_forward")],
    "grouped_linear", "moe_combine", "moe_permute", "moe_route", "quantized_matmul",
    "gated_delta_rule", "gated_linear_attention", "gemv_4bit", "mx_matmul",
    "recurrent_cells", "recurrent_cells_forward", "rwkv7",
    *[f"fake_quantize_{scope}" for scope in ("learnable", "per_channel", "per_tensor")],
    "deform_columns", "roi_align", "roi_pool", "fractional_max_pool", "lp_pool",
    *[f"{form}max_pool{end}" for form in ("", "adaptive_") for end in ("", "_indices")],
    *[f"{name}{end}" for name in ("causal_conv1d", "selective_scan", "ssd_scan") for end in ("", "_forward")],
    "sort", "sort_with_indices", "topk", "kthvalue", "median", "nanmedian", "mode",
    *[f"{name}{end}" for name in ("quantile", "nanquantile") for end in ("", "_forward")],
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if "_to_f32" not in n])
def test_forward_mode(name):
    """A tangent is the adjoint of reverse mode, or an error says that there is none."""
    arguments, numbers = arguments_of(name)
    known = known_to(name)
    if name == "cast":
        arguments = (arguments[0], torch.float64)
    if name.startswith("rope_apply"):
        arguments = [argument.double() for argument in arguments]
    at = [k for k, (a, v) in enumerate(zip(specs()[name].positional, arguments))
          if a.name in known and isinstance(v, torch.Tensor) and (v.is_floating_point() or v.is_complex())]  # fmt: skip

    def function(*values):
        mixed = list(arguments)
        for k, value in zip(at, values):
            mixed[k] = value
        result = listed(getattr(bt, name)(*mixed, **numbers))[0]
        return result[..., 1:] if name.startswith("exclusive_") else result

    primals = tuple([arguments[k] for k in at])
    rng = torch.Generator().manual_seed(5)
    tangents = tuple([torch.rand(p.shape, dtype=p.dtype, generator=rng) for p in primals])
    if name in REVERSE_ONLY:
        with pytest.raises(bk.UnsupportedError, match=rf"baracuda\.{differentiated(name).name} has no forward mode"):
            jvp(function, primals, tangents)
        return
    result, tangent = jvp(function, primals, tangents)
    again, pull = vjp(function, *primals)
    assert torch.equal(result, again)
    dy = torch.rand(result.shape, dtype=result.dtype, generator=rng)
    wanted = sum(torch.real(g.conj() * t).sum() for g, t in zip(pull(dy), tangents))
    tolerance = 1e-9 if result.dtype in (torch.float64, torch.complex128) else 1e-4
    limits = {"rtol": tolerance, "atol": tolerance, "check_dtype": False}
    torch.testing.assert_close(
        torch.real(dy.conj() * tangent).sum(), wanted, equal_nan=True, **limits
    )  # NaN: unalignable CTC


X = torch.rand(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 0.25
W = torch.rand(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
TARGET = torch.tensor([1, 0, 3])
F = torch.nn.functional
PAIRS = {
    "gelu": (bt.gelu, F.gelu),
    "exp": (bt.exp, torch.exp),
    "mul": (lambda x: bt.mul(x, x[0]), lambda x: x * x[0]),
    "softmax": (bt.softmax, lambda x: x.softmax(-1)),
    "log_softmax": (bt.log_softmax, lambda x: x.log_softmax(-1)),
    "linear": (lambda x: bt.linear(x, W) ** 2, lambda x: F.linear(x, W) ** 2),
    "weight": (lambda w: bt.linear(X, w) ** 3, lambda w: F.linear(X, w) ** 3),
    "matmul": (lambda x: bt.matmul(x, x.mT), lambda x: x @ x.mT),
    "linear_gelu": (lambda x: bt.linear_gelu(x, W), lambda x: F.gelu(F.linear(x, W))),
    "layer_norm": (bt.layer_norm, lambda x: F.layer_norm(x, (4,))),
    "rms_norm": (lambda x: bt.rms_norm(x, eps=1e-5), lambda x: F.rms_norm(x, (4,), eps=1e-5)),
    "group_norm": (lambda x: bt.group_norm(x, num_groups=2), lambda x: F.group_norm(x, 2)),
    "batch_norm": (bt.batch_norm, lambda x: F.batch_norm(x, None, None, training=True)),
    "cross_entropy": (lambda x: bt.cross_entropy(x, TARGET), lambda x: F.cross_entropy(x, TARGET)),
    "mse_loss": (lambda x: bt.mse_loss(x, W[:3]), lambda x: F.mse_loss(x, W[:3])),
    "sum": (lambda x: bt.sum(x, 0) ** 2, lambda x: x.sum(0) ** 2),
    "logsumexp": (lambda x: bt.logsumexp(x, 1), lambda x: x.logsumexp(1)),
    "gather": (lambda x: bt.gather(x, TARGET[:, None]) ** 2, lambda x: x.gather(-1, TARGET[:, None]) ** 2),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_transforms(name):
    """The transforms give the results of PyTorch's own functions."""
    ours, theirs = PAIRS[name]
    scalars = [lambda x, f=f: (f(x) ** 2).sum() for f in PAIRS[name]]
    transforms = {
        "grad": grad, "hessian": hessian, "jacrev of jacrev": lambda f: jacrev(jacrev(f)),
        "jacfwd of jacfwd": (lambda f: jacfwd(jacfwd(f))) if name not in ("logsumexp",) else grad,
    }  # fmt: skip
    for label, transform in transforms.items():  # the reference is never forward mode twice, which PyTorch's norms lack
        reference = hessian if label.startswith("jac") and transform is not grad else transform
        torch.testing.assert_close(transform(scalars[0])(X), reference(scalars[1])(X), rtol=1e-8, atol=1e-8, msg=label)
    torch.testing.assert_close(jacrev(ours)(X), jacrev(theirs)(X), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(jacfwd(ours)(X), jacfwd(theirs)(X), rtol=1e-9, atol=1e-9)
    batch = torch.stack([X, X * 0.5, X[:, [1, 0, 3, 2]]])
    torch.testing.assert_close(vmap(grad(scalars[0]))(batch), vmap(grad(scalars[1]))(batch), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["gelu", "mul", "clamp", "where", "softmax", "cumsum", "swiglu", "mul_backward", "sum",
                                  "softmax_backward", "matmul", "layer_norm_forward"])  # fmt: skip
def test_batches(name):
    """vmap of all tensors, of each one alone, and along an axis that is not the first equals one call after another."""
    arguments, numbers = arguments_of(name)
    at = [k for k, a in enumerate(arguments) if isinstance(a, torch.Tensor)]
    for batched in (at, *[[k] for k in at]):
        for dim in (0, -1):
            given = [torch.stack([a, a.flip(0)], dim) if k in batched else a for k, a in enumerate(arguments)]
            dims = tuple([dim if k in batched else None for k in range(len(given))])
            function = lambda *values: getattr(bt, name)(*values, **numbers)  # noqa: E731
            results = listed(vmap(function, dims)(*given))
            for i in range(2):
                single = [a.select(dim, i) if k in batched else a for k, a in enumerate(given)]
                for got, wanted in zip(results, listed(function(*single)), strict=True):
                    torch.testing.assert_close(got[i], wanted)


# --- symbolic extents -------------------------------------------------------------------------------------------------

# divisors and bounds of the batch are guards: repeats, widths of a pad, the first part of a split
BOUNDED = {
    "quantize_fp8_both",
    "quantize_fp8_transposed",
    "dequantize_4bit",
    "nf4_dequantize",
    "quantize_4bit",
    "quantize_8bit_blocks",
}  # blocks of many rows
BOUNDED |= {  # the sample's batch is 1, as sequences in one array need it
    f"{name}{end}" for name in ("gated_delta_rule", "gated_linear_attention", "rwkv7") for end in ("", "_backward")
}
# One row of several sequences.
BOUNDED |= {f"{name}{end}" for name in ("causal_conv1d", "selective_scan", "ssd_scan")
            for end in ("", "_forward", "_backward")}  # fmt: skip
BOUNDED |= {"concat_backward", "tile_backward", *[n for n in specs() if n.startswith("pad_") and "_backward" in n]}


def batch_of(name, arguments, numbers):
    """Indices of tensors that share a batch axis: those with the first one's extent, if the function accepts them."""
    tensors = [k for k, a in enumerate(arguments) if isinstance(a, torch.Tensor) and a.dim()]
    extent = arguments[tensors[0]].shape[0]
    alike = [k for k in tensors if arguments[k].shape[0] == extent]
    for chosen in (alike, [k for k in alike if arguments[k].dim() > 1], *[[k] for k in tensors]):
        try:
            for times in (2, 3):
                given = [
                    a.to("meta").repeat(times if k in chosen else 1, *[1] * (a.dim() - 1)) if k in tensors
                    else a.to("meta") if isinstance(a, torch.Tensor) else a for k, a in enumerate(arguments)
                ]  # fmt: skip
                getattr(bt, name)(*given, **numbers)
        except (bk.InvalidProblemError, bk.UnsupportedError):
            continue
        return chosen
    raise AssertionError(f"{name}: no batch")


@pytest.mark.parametrize("name", [name for name in specs() if name not in BOUNDED])
def test_exports_for_any_batch(name):
    """The export has no bounds of the batch, and the program of one batch computes another."""
    arguments, numbers = arguments_of(name)
    chosen = batch_of(name, arguments, numbers)
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]

    class Model(torch.nn.Module):
        def forward(self, *given):
            remaining = iter(given)
            mixed = [next(remaining) if isinstance(a, torch.Tensor) else a for a in arguments]
            return getattr(bt, name)(*mixed, **numbers)

    batch = torch.export.Dim("b")
    shapes = tuple([{0: batch} if k in chosen else None
                    for k, a in enumerate(arguments) if isinstance(a, torch.Tensor)])  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Model(), tuple(tensors), dynamic_shapes=(shapes,))
    bounds = [str(bound.upper) for bound in program.range_constraints.values()]
    assert all(bound in ("int_oo", "oo") or int(bound) >= 2**31 - 1 for bound in bounds), bounds


def parts(x):
    return bt.concat(x[:, :2], bt.index_select(x, torch.tensor([0, 3]), axis=1), axis=1)


GRAPHS = {
    "gelu": lambda x: bt.gelu(x), "concat": parts, "linear": lambda x: bt.linear(x, W),
    "gather": lambda x: bt.gather(x, torch.ones(x.shape[0], 1, dtype=torch.int64)),
    "rows": lambda x: bt.index_select(x, torch.tensor([0, 2])), "layer_norm": lambda x: bt.layer_norm(x),
    "sum": lambda x: bt.sum(x), "softmax": lambda x: bt.softmax(x),
    "concatenate": lambda x: bt.concatenate([x, x], axis=0),
    "cross_entropy": lambda x: bt.cross_entropy(x, torch.zeros(x.shape[0], dtype=torch.int64)),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_one_graph_serves_all_batches(name):
    """One graph serves batches of 3 to 200, with gradients.

    Dynamo may analyse the first call twice, where a float argument becomes a constant: calls after it compile nothing.
    """
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("aot_eager")
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (GRAPHS[name](x) ** 2).sum(), fullgraph=True, backend=counter, dynamic=True)
    counts = []
    for rows in (3, 4, 5, 17, 200):
        x = torch.rand(rows, 4, dtype=torch.float64)
        ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        compiled(ours).backward()
        (GRAPHS[name](theirs) ** 2).sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad)
        counts.append(counter.frame_count)
    assert counts == counts[:1] * 5

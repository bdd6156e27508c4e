"""The functions on arrays as operators of PyTorch: `baracuda.torch.gelu(x)`, `torch.ops.baracuda.gelu(x)`.

Autograd, torch.compile, torch.export, fake tensors and CUDA graphs know them: each has a schema, a rule for the shapes
of its results and, where the op table has its gradient, a formula for autograd. Operators are registered when they are
first asked for; `register()` does so for all. In a call tensors of several dtypes are promoted as PyTorch does it, and
Python numbers take the dtype of the tensors. A gradient that is not wanted (`needs`) is an empty tensor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

import baracuda as bk
from baracuda import functions
from baracuda._functions.arrays import kind_of
from baracuda._functions.layouts import solve
from baracuda._functions.spec import REQUIRED, Argument, Spec, specs
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError

_NAMESPACE = "baracuda"
_library = torch.library.Library(_NAMESPACE, "FRAGMENT")
_lock = threading.RLock()
_begun: set[str] = set()  # PyTorch asks its namespace for an operator while it is being registered
_registered: dict[str, Any] = {}
_TYPES = {
    "dtype": "ScalarType", "mode": "str", "repeats": "SymInt[]", "padding_idx": "int?", "reduction_mode": "str",
    "output_shape": "SymInt[]", "num_groups": "int", "flip_axes": "int[]?", "concat_dim": "int",
    "repeat_dim": "int?",
    "split_offset": "SymInt",
    **dict.fromkeys(("shifts", "dims", "pad_low", "pad_high"), "int[]"),
    **dict.fromkeys(("reduce_axis", "reduce_axes_mask", "axes"), "int[]?"), "norm_axes_mask": "int[]",
    **dict.fromkeys(("keepdims", "reverse", "hard", "zero_infinity", "log_input_flag"), "bool"),
    **dict.fromkeys(("log_target_flag", "is_causal", "channels_last"), "bool"),
}  # fmt: skip
_SEVERAL = ("repeats", "size", "axis", "shifts", "dims", "pad_low", "pad_high")  # numbers that may be one or several


def _of_matmul(dy: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Summed over the products of a batch in which one matrix took part."""
    a, b = given["a"], given["b"]
    first, second = (a if a.dim() > 1 else a[None]), (b if b.dim() > 1 else b[:, None])
    of_all = dy.unsqueeze(-1) if b.dim() == 1 else dy
    of_all = of_all.unsqueeze(-2) if a.dim() == 1 else of_all
    multiply = _operator("matmul")
    da, db = multiply(of_all, second.mT), multiply(first.mT, of_all)
    return {"a": da.sum_to_size(first.shape).reshape(a.shape), "b": db.sum_to_size(second.shape).reshape(b.shape)}


def _of_linear(dy: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    x, weight, rows = given["x"], given["weight"], dy.reshape(-1, dy.shape[-1])
    multiply = _operator("matmul")
    of_weight = multiply(rows.mT, x.reshape(-1, x.shape[-1]))
    return {"x": multiply(rows, weight).reshape(x.shape), "weight": of_weight, "bias": rows.sum(0)}


def _negated(given: Any) -> Any:
    return -given if isinstance(given, int) else [-number for number in given]


def _inverted(dims: Sequence[int]) -> list[int]:
    axes = [d % len(dims) for d in dims]
    return [axes.index(d) for d in range(len(axes))]


# How the numbers of a gradient follow from those of its function: what the rows' `gradient` says.
_FOLLOWS: dict[str, Callable[[Any], Any]] = {"": lambda given: given, "-": _negated, "inverse": _inverted}

# Steps whose gradients are themselves functions, though the table has none.
_OWN_GRADIENTS: dict[str, Callable[[Any, Mapping[str, Any]], dict[str, Any]]] = {
    "cast": lambda dy, given: {"x": _operator("cast")(dy, given["x"].dtype)},
    "affine": lambda dy, given: {"x": _operator("affine")(dy, given["scale"])},
    "matmul": _of_matmul,
    "linear": _of_linear,
}
_WHOLE = ("matmul", "linear")  # of these gradients, those that read the operands


def __getattr__(name: str) -> Any:
    spec = specs().get(name) if not name.startswith("_") else None
    if spec is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _made(spec)
    return value


def __dir__() -> list[str]:
    return sorted({*specs(), "register"})


def register() -> None:
    """Register all operators, for those who look them up by name in C++."""
    for name in specs():
        _operator(name)


class _Namespace(torch._ops._OpNamespace):  # type: ignore[misc, unused-ignore]
    """torch.ops.baracuda, which registers what is asked for."""

    __module__ = torch._ops._OpNamespace.__module__  # the operators are pickled by it

    def __getattr__(self, name: str) -> Any:
        with _lock:
            if not name.startswith("_") and name in specs() and name not in _begun:
                _operator(name)
        return super().__getattr__(name)


torch.ops.baracuda = _Namespace(_NAMESPACE)  # type: ignore[assignment, unused-ignore]


def _operator(name: str) -> Any:
    found = _registered.get(name)
    if found is None:
        with _lock:
            if name not in _begun:
                _begun.add(name)
                _define(specs()[name])
            found = _registered[name]
    return found


def _define(spec: Spec) -> None:
    _library.define(_schema(spec), tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl(spec.name, _kernel(spec), "CompositeExplicitAutograd")
    qualified = f"{_NAMESPACE}::{spec.name}"
    torch.library.register_fake(qualified, _fake(spec), lib=_library)
    _registered[spec.name] = torch._ops._OpNamespace.__getattr__(torch.ops.baracuda, spec.name).default
    gradient = _Gradient(spec)
    torch.library.register_autograd(qualified, gradient.backward, setup_context=gradient.save, lib=_library)


# --- what a call looks like -------------------------------------------------------------------------------------------


def _schema(spec: Spec) -> str:
    """gelu(Tensor x) -> Tensor"""
    parts = [
        f"{_type(spec, a)} {a.name}" if a.number
        else f"Tensor {a.name}" if a.default is REQUIRED else f"Tensor? {a.name}=None" for a in spec.positional
    ]  # fmt: skip
    optional = [f"{_type(spec, n)} {n.name}={_default(spec, n)}" for n in spec.numbers if n.default is not REQUIRED]
    optional += ["bool[]? needs=None"] * spec.is_partial
    results = ", ".join(["Tensor"] * len(spec.outputs))
    arguments = ", ".join([*parts, *(["*"] if optional else []), *optional])
    return f"{spec.name}({arguments}) -> {results if len(spec.outputs) == 1 else f'({results})'}"


def _type(spec: Spec, number: Argument) -> str:
    if number.number in _TYPES:
        return _TYPES[number.number]
    param = next((p for p in spec.row.params if p.name == number.number), None)
    if param is None:
        return "int"
    if param.role == "extent":
        return "SymInt"
    return "int" if param.dtype in ("i32", "i64") else "Scalar" if param.dtype.startswith("T") else "float"


def _default(spec: Spec, number: Argument) -> str:
    value = number.default
    if _type(spec, number) == "int[]":
        return f"[{value}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _made(spec: Spec) -> Any:
    """A function of the signature of the spec, which torch.compile looks through."""
    typed = [a.name for a in spec.arrays if _dtype_of(spec, a.pointer) == "T"]
    options = [n.name for n in spec.numbers if n.default is not REQUIRED]
    given = ", ".join([*[a.name for a in spec.positional], *[f"{name}={name}" for name in options],
                       *["needs=needs"] * spec.is_partial])  # fmt: skip
    whole = specs().get(f"{spec.name}_forward", spec)  # which has what the gradient reads among its results
    picked = "[0]" if whole is not spec else ""
    signature = functions.signature(spec).removesuffix(", out=None").removesuffix(", *").replace("*, out=None", "")
    lines = [f"def {spec.name}({signature}):"]
    if len(typed) > 1:
        lines.append(f"    {', '.join(typed)} = promoted({', '.join(typed)})")
    for number in spec.numbers:
        if number.name in _SEVERAL and "[]" in _type(spec, number):
            lines.append(f"    {number.name} = [{number.name}] if isinstance({number.name}, int) else {number.name}")
    lines.append(f"    return operator({given}){picked}")
    scope: dict[str, Any] = {"operator": _operator(whole.name), "promoted": _promoted}
    exec(compile("\n".join(lines), f"<baracuda.torch.{spec.name}>", "exec"), scope)
    made = scope[spec.name]
    made.__doc__, made.__module__ = f"{functions.summary(spec)}\n\nSee baracuda.{spec.name}.\n", __name__
    return made


def _promoted(*arrays: Any) -> list[Any]:
    """Tensors of one dtype, in the place of Python numbers as well; None stays what it is."""
    tensors = [array for array in arrays if isinstance(array, torch.Tensor)]
    if not tensors:
        raise InvalidProblemError("none of the arguments is a tensor")
    dtype, device = tensors[0].dtype, tensors[0].device
    for other in tensors[1:]:
        dtype = torch.promote_types(dtype, other.dtype)
    return [None if array is None else _as_tensor(array, dtype, device) for array in arrays]


def _as_tensor(array: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if isinstance(array, torch.Tensor):
        return array if array.dtype is dtype else array.to(dtype)
    if isinstance(array, float) and not dtype.is_floating_point:
        raise InvalidProblemError(f"{array!r} is no number of {dtype}")
    return torch.scalar_tensor(array, dtype=dtype, device=device)


# --- what it does -----------------------------------------------------------------------------------------------------


def _kernel(spec: Spec) -> Callable[..., Any]:
    """The call with memory behind the tensors. What autograd should know of it, it has learnt before."""
    function, partial = getattr(bk, spec.name), spec.is_partial

    def kernel(*arguments: Any, **numbers: Any) -> Any:
        with torch.no_grad():
            results = function(*arguments, **numbers)
            if partial and None in results:
                like = arguments[0]
                results = tuple([like.new_empty(0) if result is None else result for result in results])
            return results

    return kernel


def _fake(spec: Spec) -> Callable[..., Any]:
    """Results without memory, of the right shape and dtype."""

    def fake(*arguments: Any, needs: Sequence[bool] | None = None, **numbers: Any) -> Any:
        given = {number.name: number.default for number in spec.numbers} | numbers
        given |= {a.name: value for a, value in zip(spec.positional, arguments)}
        arrays = {a.name: given[a.name] for a in spec.arrays if given.get(a.name) is not None}
        numbers = {number.name: given[number.name] for number in spec.numbers}
        layout = solve(spec, {name: tuple(array.shape) for name, array in arrays.items()}, numbers)
        like = arguments[0]
        results = []
        for k, output in enumerate(spec.outputs):
            shape = layout.shapes[output.pointer] if needs is None or needs[k] else (0,)
            results.append(like.new_empty(shape, dtype=_result_dtype(spec, output, arrays, numbers)))
        return results[0] if len(results) == 1 else tuple(results)

    return fake


def _result_dtype(spec: Spec, output: Argument, arrays: Mapping[str, Any], numbers: Mapping[str, Any]) -> torch.dtype:
    slot, _, form = _dtype_of(spec, output.pointer).partition(".")
    if slot == "T":
        typed = [a for a in spec.arrays if _dtype_of(spec, a.pointer) == "T"]
        found = next(iter([arrays[a.name] for a in typed if a.pointer] or [arrays[typed[0].name]])).dtype
        return torch.promote_types(found, torch.float32) if form else found  # type: ignore[no-any-return]
    if slot == "U":
        return numbers["dtype"]  # type: ignore[no-any-return]
    kind = ElementKind.BOOL if slot == "u8" else as_element(spec.row.slots.get(slot, (slot,))[0])
    native = kind_of(next(iter(arrays.values())))
    assert native is not None
    return native.native(kind, None)  # type: ignore[no-any-return]


def _dtype_of(spec: Spec, pointer: str) -> str:
    """What the row says of an operand's dtype; operands that C does not read are like the result."""
    return next((p.dtype for p in spec.row.params if p.name == pointer), "T")


# --- its gradient -----------------------------------------------------------------------------------------------------


class _Gradient:
    """What autograd calls: `save` after the operator, `backward` with the gradient of its result."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.gradient = specs().get(f"{spec.name.removesuffix('_forward')}_backward")
        self.inputs = [argument.name for argument in spec.positional]
        known = {*self.inputs, *[n.name for n in spec.numbers]}
        if self.gradient is not None:
            self.read = [a.name for a in self.gradient.arrays if a.pointer and a.name not in ("dy", "dout")]
            if not {*self.inputs, *[output.name for output in spec.outputs]}.issuperset(self.read):
                self.gradient = None  # it reads what this operator has not
        self.operator = None if self.gradient is None else _operator(self.gradient.name)
        self.apart: dict[str, Spec] = {}  # gradients that are functions of their own, those of targets
        if self.gradient is not None:
            of = {output.name.removeprefix("d") for output in self.gradient.outputs}
            found = {n: specs().get(f"{spec.name}_{n}_backward") for n in self.inputs if n not in of}
            self.apart = {name: each for name, each in found.items() if each is not None}
            reads = [a.name for each in self.apart.values() for a in each.arrays if a.name != "dy"]
            self.read = list(dict.fromkeys([*self.read, *reads]))
            self.shaped = [a.name for a in self.gradient.arrays if not a.pointer]
            self.extents = {n.name: self._extent(n.number) for n in self.gradient.numbers if n.name not in known}

    def _extent(self, word: str) -> tuple[str, int]:
        """(array, axis) whose extent a number of the gradient is."""
        row, names = self.spec.row, self.spec.names
        for param in row.params:
            if param.direction == "in" and word in (words := param.shape.split(", ")):
                return names[param.name], words.index(word)
        raise AssertionError(f"{self.spec.name}: no operand tells {word}")

    def save(self, ctx: Any, inputs: tuple[Any, ...], output: Any, keyword_only_inputs: Any = None) -> None:
        given = dict(zip(self.inputs, inputs)) | (keyword_only_inputs or {})
        ctx.numbers = {n.name: given[n.name] for n in self.spec.numbers}
        if self.gradient is None:
            self._save_for_own(ctx, given)
            return
        if isinstance(output, tuple):  # statistics that the gradient reads
            ctx.mark_non_differentiable(*output[1:])
        outputs = dict(zip([o.name for o in self.spec.outputs], output if isinstance(output, tuple) else (output,)))
        ctx.save_for_backward(*[given[n] if n in given else outputs.get(n, output) for n in self.read])
        ctx.shapes = [given[name].shape for name in self.shaped]
        ctx.numbers |= {name: given[array].shape[axis] for name, (array, axis) in self.extents.items()}

    def _save_for_own(self, ctx: Any, given: Mapping[str, Any]) -> None:
        if self.spec.name in _WHOLE:
            ctx.given, ctx.names = dict(ctx.numbers), [a.name for a in self.spec.arrays if a.default is REQUIRED]
            ctx.save_for_backward(*[given[name] for name in ctx.names])
        elif self.spec.name in _OWN_GRADIENTS:
            ctx.given, ctx.names = ctx.numbers | {"x": given["x"].new_empty(0)}, []

    def backward(self, ctx: Any, *grads: Any) -> Any:
        found: dict[str, Any] = {}
        if self.gradient is not None:
            found = self._results(ctx, grads[0])
        elif self.spec.row.gradient:
            found = {self.inputs[0]: self._by_function(ctx, grads[0])}
        elif self.spec.name in _OWN_GRADIENTS:
            given = ctx.given | dict(zip(ctx.names, ctx.saved_tensors))
            found = _OWN_GRADIENTS[self.spec.name](grads[0], given)
        else:
            raise UnsupportedError(f"baracuda.{self.spec.name} has no gradient")
        made = [found.get(name) if need else None for name, need in zip(self.inputs, ctx.needs_input_grad)]
        return made[0] if len(made) == 1 else tuple(made)

    def _by_function(self, ctx: Any, dy: Any) -> Any:
        """The function that the row says is the gradient."""
        name, numbers = self.spec.row.gradient
        values = {number: _FOLLOWS[how](ctx.numbers[of]) for number, how, of in numbers}
        spec = specs()[name]
        positional = [values.pop(argument.name) for argument in spec.positional[1:]]
        return _operator(name)(dy, *positional, **values)

    def _results(self, ctx: Any, dy: Any) -> dict[str, Any]:
        spec = self.gradient
        assert spec is not None
        values = dict(zip(self.read, ctx.saved_tensors)) | ctx.numbers
        values |= {name: dy.new_empty(()).expand(shape) for name, shape in zip(self.shaped, ctx.shapes)}
        wanted = dict(zip(self.inputs, ctx.needs_input_grad))
        found = {n: self._called(each, values, dy, {}) for n, each in self.apart.items() if wanted[n]}
        of = [output.name.removeprefix("d") for output in spec.outputs]
        if found and not any([wanted[name] for name in of]):
            return found
        options = {"needs": [bool(wanted[name]) for name in of]} if spec.is_partial else {}
        results = self._called(spec, values, dy, options)
        return found | dict(zip(of, results if len(of) > 1 else (results,)))

    def _called(self, spec: Spec, values: Mapping[str, Any], dy: Any, options: Mapping[str, Any]) -> Any:
        positional = [values.get(a.name, dy) for a in spec.positional]
        numbers = {n.name: values[n.name] for n in spec.numbers if n.default is not REQUIRED}
        return _operator(spec.name)(*positional, **numbers, **options)

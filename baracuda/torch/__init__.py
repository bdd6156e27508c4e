# SPDX-License-Identifier: Apache-2.0
"""The functions on arrays as operators of PyTorch: `baracuda.torch.gelu(x)`, `torch.ops.baracuda.gelu(x)`.

They work with autograd, _autocast, torch.compile, torch.export, fake tensors and CUDA graphs: each has a schema, a fake
(meta) kernel and, if it has a gradient, an autograd kernel. Operators are registered at first use; `register()`
registers all. Tensors of mixed dtypes are promoted as in PyTorch, and Python numbers take the dtype of the tensors. A
gradient that is not wanted (`needs`) is an empty tensor.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

import baracuda as bk
from baracuda import functions
from baracuda._arrays.frameworks import framework_of
from baracuda._call.c_call import OF_BYTES
from baracuda._functions import deform_calls
from baracuda._functions.flags import FLAGS
from baracuda._functions.shape_rules.infer import infer_served
from baracuda._functions.spec import REQUIRED, Argument, Spec, output_of, specs
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError
from baracuda.torch import (
    _attention,
    _autocast,
    _concat,
    _convolution,
    _moe,
    _pages,
    _pool,
    _quantize,
    _recurrent,
    _sorting,
)
from baracuda.torch._autograd import DEFAULT_DTYPES, Differentiable
from baracuda.torch._batches import batched

_NAMESPACE = "baracuda"
_library = torch.library.Library(_NAMESPACE, "FRAGMENT")
_lock = threading.RLock()
_registering: set[str] = set()  # operators in registration, during which PyTorch looks them up
_registered: dict[str, Any] = {}
_TYPES = {
    "dtype": "ScalarType", "mode": "str", "repeats": "SymInt[]", "padding_idx": "int?", "reduction_mode": "str",
    "output_shape": "SymInt[]", "num_groups": "int", "flip_axes": "int[]?", "concat_dim": "int",
    "repeat_dim": "int?", "reduce": "str", "split_offset": "SymInt",
    **dict.fromkeys((*FLAGS, "backend"), "bool"), "rotary_dim": "int?", "shared": "int?", "fill_bits": "Scalar",
    **dict.fromkeys(("max_selected", "max_nz", "max_target_len", "max_unique"), "SymInt?"),
    **dict.fromkeys(("shifts", "dims", "pad_low", "pad_high"), "int[]"),
    **dict.fromkeys(("kernel_size", "dilation", "padding", "steps"), "int[]"), "output_size": "SymInt[]",
    "pooled_h": "SymInt[]", "crop": "SymInt[]?", "color_code": "str",
    **dict.fromkeys(("kernel_h", "stride_h", "pad_h", "dilation_h"), "int[]"),
    "layout": "str", "divisor_override": "int?",
    **dict.fromkeys(("padding_after", "output_padding"), "int[]"),
    **dict.fromkeys(("reduce_axis", "reduce_axes_mask", "axes", "order_axis"), "int[]?"), "norm_axes_mask": "int[]",
    **dict.fromkeys(("interpolation", "scoring", "group_score", "format", "book", "float_format", "mx_format"), "str"),
    **dict.fromkeys(("resample_mode", "sample_mode", "padding_mode"), "str"), "size": "SymInt[]?",
    "scale_factor": "float[]?", "cubic_a": "float?", "depth": "SymInt",
    "lengths": "SymInt[]?", "fourier_axes": "int[]?", "starts": "SymInt[]?", "length": "SymInt?",
    "numel": "SymInt?", **dict.fromkeys(("scale_rule", "scale_layout", "fp8_scaling", "cell"), "str"),
}  # fmt: skip
# Numbers that may be a single one or a sequence.
_SEQUENCES = ("repeats", "size", "axis", "shifts", "dims", "pad_low", "pad_high", "kernel_size", "dilation", "padding",
            "output_padding", "output_size", "padding_after", "scale_factor", "stride")  # fmt: skip


_MODULES = ("fft", "linalg")
# Modules of operators that do not follow from the op tables, and of functions that call other ones.
_BY_HAND: tuple[Any, ...] = (_concat, _pages)
_module_of: dict[str, Any] = {name: module for module in _BY_HAND for name in module.SCHEMAS}
_COMPOSED: tuple[Any, ...] = (_attention, _convolution, _moe, _pool, _quantize, _recurrent, _sorting, deform_calls)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    spec = specs().get(name) if not name.startswith("_") else None
    if spec is not None:
        value = _made(spec)
    elif module := next((each for each in _BY_HAND if name in each.FUNCTIONS), None):
        value = module.made(name, _operator, _promoted)
    elif module := next((each for each in _COMPOSED if name in each.NAMES), None):
        value = module.made(name, lambda each: globals().get(each) or __getattr__(each))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    by_hand = [name for module in _BY_HAND for name in module.FUNCTIONS]
    composed = [name for module in _COMPOSED for name in module.NAMES]
    return sorted({*specs(), *by_hand, *composed, *_MODULES, "register"})


def register() -> None:
    """Register all operators, for lookups by name in C++."""
    for name in (*specs(), *_module_of):
        _operator(name)


class _Namespace(torch._ops._OpNamespace):  # type: ignore[misc, unused-ignore]
    """torch.ops.baracuda; it registers an operator at first use."""

    __module__ = torch._ops._OpNamespace.__module__  # pickled operators refer to it

    def __getattr__(self, name: str) -> Any:
        with _lock:
            is_ours = not name.startswith("_") and (name in specs() or name in _module_of)
            if is_ours and name not in _registering:
                _operator(name)
        return super().__getattr__(name)


torch.ops.baracuda = _Namespace(_NAMESPACE)  # type: ignore[assignment, unused-ignore]


def _operator(name: str) -> Any:
    found = _registered.get(name)
    if found is None:
        with _lock:
            if name not in _registering:
                _registering.add(name)
                if name in _module_of:
                    _module_of[name].define(name, _library, _operator)
                    _registered[name] = _found(name)
                else:
                    _define(specs()[name])
            found = _registered[name]
    return found


def _found(name: str) -> Any:
    """A registered operator."""
    return torch._ops._OpNamespace.__getattr__(torch.ops.baracuda, name).default


def _define(spec: Spec) -> None:
    _library.define(_schema(spec), tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl(spec.name, _kernel(spec), "CompositeExplicitAutograd")
    qualified = f"{_NAMESPACE}::{spec.name}"
    torch.library.register_fake(qualified, _fake(spec), lib=_library)
    _registered[spec.name] = _found(spec.name)
    rule = Differentiable(spec, [each.name for each in _by_position(spec)], _operator)
    _library.impl(spec.name, rule.kernel, "Autograd", with_keyset=True)
    torch.library.register_vmap(qualified, batched(spec, _found(spec.name)), lib=_library)
    _autocast.register(_library, spec, _registered[spec.name])


# --- signatures -------------------------------------------------------------------------------------------------------


def _schema(spec: Spec) -> str:
    """gelu(Tensor x) -> Tensor"""
    parts = [
        f"Tensor {a.name}" if not a.number and a.default is REQUIRED else f"Tensor? {a.name}=None" if not a.number
        else _parameter(spec, a) for a in _by_position(spec)
    ]  # fmt: skip
    named = [n for n in spec.numbers if n.default is not REQUIRED and n not in spec.by_position]
    optional = [_parameter(spec, number) for number in named]
    optional += ["bool[]? needs=None"] * spec.is_partial
    results = ", ".join(["Tensor"] * len(spec.outputs))
    arguments = ", ".join([*parts, *(["*"] if optional else []), *optional])
    return f"{spec.name}({arguments}) -> {results if len(spec.outputs) == 1 else f'({results})'}"


def _by_position(spec: Spec) -> tuple[Argument, ...]:
    """Arguments that need no keyword, a number such as axis among them."""
    return (*spec.positional, *spec.by_position)


def _parameter(spec: Spec, number: Argument) -> str:
    kind = _type(spec, number)
    if number.name in _SEQUENCES:  # one number as well
        kind = kind.replace("[]", "[1]")
    return f"{kind} {number.name}" + ("" if number.default is REQUIRED else f"={_default(spec, number)}")


def _type(spec: Spec, number: Argument) -> str:
    if number.number in _TYPES:
        return _TYPES[number.number]
    param = next((p for p in spec.row.params if p.name == number.number), None)
    if param is None:
        return "int"
    if param.role == "extent":
        return "SymInt"
    if number.default is None and param.dtype in ("f32", "f64"):
        return "float?"
    return "int" if param.dtype in ("i32", "i64", "u64") else "Scalar" if param.dtype.startswith("T") else "float"


def _default(spec: Spec, number: Argument) -> str:
    value = number.default
    if number.name == "dtype":
        return str(DEFAULT_DTYPES[value]).removeprefix("torch.").replace("float32", "float")
    if _type(spec, number) == "int[]":
        return f"[{value}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _made(spec: Spec) -> Any:
    """A function with the signature of the spec, which torch.compile traces."""
    typed = [a.name for a in spec.arrays if spec.slot_of(a) == "T"]
    options = [n.name for n in spec.numbers if n.default is not REQUIRED]
    given = ", ".join([*[a.name for a in spec.positional], *[f"{name}={name}" for name in options],
                       *["needs=needs"] * spec.is_partial])  # fmt: skip
    signature = functions.signature(spec).removesuffix(", out=None").removesuffix(", *").replace("*, out=None", "")
    lines = [f"def {spec.name}({signature}):"]
    if len(typed) > 1:
        lines.append(f"    {', '.join(typed)} = promoted({', '.join(typed)})")
    for number in spec.numbers:
        if number.name == "dtype" and number.default is not REQUIRED:
            lines.append(f"    dtype = default_dtype if dtype == {number.default!r} else dtype")
        if number.name in _SEQUENCES and "[]" in _type(spec, number):
            lines.append(
                f"    {number.name} = [{number.name}] if isinstance({number.name}, (int, float)) else {number.name}"
            )
    lines.append(f"    return operator({given})")
    chosen = next((number.default for number in spec.numbers if number.name == "dtype"), None)
    scope: dict[str, Any] = {"operator": _operator(spec.name), "promoted": _promoted}
    scope["default_dtype"] = DEFAULT_DTYPES.get(str(chosen))
    exec(compile("\n".join(lines), f"<baracuda.torch.{spec.name}>", "exec"), scope)
    made = scope[spec.name]
    made.__doc__, made.__module__ = f"{functions.summary(spec)}\n\nSee baracuda.{spec.name}.\n", __name__
    return made


def _promoted(*arrays: Any) -> list[Any]:
    """Tensors promoted to one dtype, also from Python numbers; None stays None."""
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


# --- kernels ----------------------------------------------------------------------------------------------------------


def _kernel(spec: Spec) -> Callable[..., Any]:
    """The kernel for tensors with memory; it runs below autograd."""
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
    """The fake kernel: results of the right shape and dtype, without memory."""

    def fake(*arguments: Any, needs: Sequence[bool] | None = None, **numbers: Any) -> Any:
        given = {number.name: number.default for number in spec.numbers} | numbers
        given |= {a.name: value for a, value in zip(_by_position(spec), arguments)}
        arrays = {a.name: given[a.name] for a in spec.arrays if given.get(a.name) is not None}
        numbers = {number.name: given[number.name] for number in spec.numbers}
        shapes = {name: tuple(array.shape) for name, array in arrays.items()}
        served, meta = infer_served(spec, shapes, numbers)
        like = arguments[0]
        results = []
        for k, output in enumerate(served.outputs):
            shape = meta.shapes[output.pointer] if needs is None or needs[k] else (0,)
            results.append(like.new_empty(shape, dtype=_result_dtype(served, output, arrays, numbers)))
        return results[0] if len(results) == 1 else tuple(results)

    return fake


def _result_dtype(spec: Spec, output: Argument, arrays: Mapping[str, Any], numbers: Mapping[str, Any]) -> torch.dtype:
    slot, _, form = spec.slot_of(output).partition(".")
    if "dtype" in numbers and slot in ("T", "U"):
        given = numbers["dtype"]
        return given if isinstance(given, torch.dtype) else DEFAULT_DTYPES[given]
    if slot == "T":
        typed = [a for a in spec.arrays if spec.slot_of(a) == "T"]
        found = next(
            iter([arrays[a.name] for a in typed if a.pointer and a.name in arrays] or [arrays[typed[0].name]])
        ).dtype
        if form in ("complex", "real"):
            return found.to_complex() if form == "complex" else found.to_real()
        return torch.promote_types(found, torch.float32) if form else found
    if slot == "U":
        codes = spec.row.slots["U"]
        slot = codes[0] if len(codes) == 1 else output_of(spec.row).symbol
    for argument in spec.arrays:  # an array of indices decides their dtype
        if slot in spec.row.slots and argument.name in arrays and spec.slot_of(argument) == slot:
            found_dtype: torch.dtype = arrays[argument.name].dtype
            return found_dtype
    is_flag = slot == "u8" and spec.row.family not in OF_BYTES
    kind = ElementKind.BOOL if is_flag else as_element(spec.row.slots.get(slot, (slot,))[0])
    native = framework_of(next(iter(arrays.values())))
    assert native is not None
    return native.native(kind, None)

# SPDX-License-Identifier: Apache-2.0
"""Calls of the functions for JAX: dtype promotion, gradients, vmap rules, and XLA FFI calls (baracuda.jax)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from baracuda import functions
from baracuda._arrays.frameworks import SCALARS, VIEWS, checked_scalar, library_for
from baracuda._functions.dispatch import Function
from baracuda._functions.gradients.composite import COMPOSITE_GRADIENTS, CompositeGradient
from baracuda._functions.gradients.formulas import FORMULAS
from baracuda._functions.gradients.gemm import GEMM_GRADIENTS, matmul_same_batch
from baracuda._functions.gradients.registry import (
    READS_LEADING_PART,
    Gradient,
    differentiated,
    gradient_of,
    linear_partner,
    missing_gradients,
    zero_padding,
)
from baracuda._functions.prepared import Prepared
from baracuda._functions.shape_rules.matrices import own_axes
from baracuda._functions.spec import REQUIRED, Spec, specs
from baracuda._library.loader import Library
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError, naming
from baracuda.jax import _handler
from baracuda.jax._formulas import evaluated, sum_to_shape
from baracuda.jax._shardings import is_partitionable, partitionable
from baracuda.tensor import EMPTY_ADDRESS, TensorRef

Shape = tuple[int, ...]
# Sources of C arguments (_handler.cpp).
INTEGER, REAL, OPERAND, HOST, WORKSPACE, STREAM, LIST = range(7)
_WIDE = (ElementKind.I64, ElementKind.U64, ElementKind.F64)  # JAX lacks these without jax_enable_x64
_ALONG = ("softmax", "scan", "sort", "gated")  # shape rules along one axis, with any other axes


def made(spec: Spec, module: str) -> Any:
    """A function with the signature of the spec."""
    signature = functions.signature(spec).removesuffix(", out=None").removesuffix(", *").replace("*, out=None", "")
    arrays = ", ".join([f"{a.name!r}: {a.name}" for a in spec.arrays])
    numbers = ", ".join([f"{n.name!r}: {n.name}" for n in spec.numbers])
    needs = ", needs" if spec.is_partial else ""
    text = f"def {spec.name}({signature}):\n    return call({{{arrays}}}, {{{numbers}}}{needs})\n"
    scope: dict[str, Any] = {"call": functools.partial(_call, spec)}
    exec(compile(text, f"<baracuda.jax.{spec.name}>", "exec"), scope)
    function = scope[spec.name]
    function.__doc__, function.__module__ = f"{functions.summary(spec)}\n\nSee baracuda.{spec.name}.\n", module
    return function


def _call(
    spec: Spec, arrays: Mapping[str, Any], numbers: Mapping[str, Any], needs: Sequence[bool] | None = None
) -> Any:
    with naming(spec.name):
        given = _promoted(spec, arrays)
        names = tuple([name for name, array in given.items() if array is not None])
        static = tuple([(name, _hashable(value)) for name, value in numbers.items()])
        wanted = None if needs is None else tuple([bool(need) for need in needs])
        function = _differentiable(spec.name, names, static, wanted)
        results = list(function(*[given[name] for name in names]))
    if wanted is not None:
        results = [result if need else None for result, need in zip(results, wanted)]
    return results[0] if len(spec.outputs) == 1 else tuple(results)


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple([_hashable(each) for each in value])
    if isinstance(value, jax.core.Tracer):
        raise InvalidProblemError("numbers decide about shapes or kernels: they are static (jax.jit's static_argnames)")
    try:
        hash(value)
    except TypeError:  # an array of one element
        return value.item()
    return value


def _promoted(spec: Spec, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """JAX arrays; operands of dtype T are promoted to a common dtype. None stays None."""
    typed = [a.name for a in spec.arrays if spec.slot_of(a) == "T"]
    there = {name: array for name, array in arrays.items() if array is not None}
    dtypes = {array.dtype if isinstance(array, jax.Array) else None for array in there.values()}
    if len(dtypes) == 1 and None not in dtypes and len(typed) == len(spec.arrays):
        return dict(arrays)
    own = [jnp.asarray(there[name]) for name in typed if name in there and type(there[name]) not in SCALARS]
    if not any(type(array) not in SCALARS for array in there.values()):
        raise InvalidProblemError("none of the arguments is an array")
    dtype = jnp.result_type(*own) if own else None
    found: dict[str, Any] = dict.fromkeys(arrays)
    for argument in spec.arrays:
        name = argument.name
        if name not in there:
            continue
        if name in typed and type(there[name]) in SCALARS:
            assert dtype is not None
            found[name] = jnp.asarray(checked_scalar(name, as_element(dtype), there[name]), dtype)
        elif name in typed:
            found[name] = jnp.asarray(there[name]).astype(dtype)
        else:
            found[name] = _as_fixed_dtype(spec.slot_of(argument), jnp.asarray(there[name]))
    return found


def _as_fixed_dtype(slot: str, array: Any) -> Any:
    """An operand of a fixed dtype, such as an index, converted to it if JAX has that dtype."""
    if slot in ("i32", "u32") and jnp.issubdtype(array.dtype, jnp.integer):
        return array.astype(slot.replace("i", "int").replace("u", "uint"))
    if slot == "i64" and jax.config.jax_enable_x64 and jnp.issubdtype(array.dtype, jnp.integer):
        return array.astype(np.int64)
    return array


# --- gradients --------------------------------------------------------------------------------------------------------


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _Saved:
    """Static residuals: the wanted gradients, and the shapes of all operands."""

    needs: tuple[tuple[str, bool], ...]
    like: tuple[tuple[str, Any], ...]


Results = tuple[Any, ...]
Static = tuple[tuple[str, Any], ...]


@functools.lru_cache(maxsize=4096)
def _differentiable(name: str, names: tuple[str, ...], static: Static, wanted: tuple[bool, ...] | None) -> Any:
    """A differentiable, jitted function of these arrays; it returns a tuple."""
    spec, numbers = specs()[name], dict(static)
    found, whole = gradient_of(name), differentiated(name)
    own = VJP_RULES.get(whole.name)
    count, optional = len(spec.outputs), {argument.name for argument in whole.arrays}

    def function(*arrays: Any) -> Results:
        return _vmappable(name, names, static, wanted)(*arrays)  # type: ignore[no-any-return]

    def forward(*arrays: Any) -> tuple[Results, Any]:
        given = dict(zip(names, [array.value for array in arrays]))
        needs = tuple([(n, array.perturbed and jnp.issubdtype(array.value.dtype, jnp.inexact))
                       for n, array in zip(names, arrays)])  # fmt: skip
        results = _differentiable(whole.name, names, static, wanted)(*given.values())  # differentiable again
        outputs = dict(zip([output.name for output in whole.outputs], results))
        read = found.read(dict(needs)) if found is not None else own.reads if own is not None else ()
        there = [n for n in read if n in given or n not in optional]
        residuals = {n: given[n] if n in given else outputs.get(n, results[0]) for n in there}
        like = tuple([(n, jax.ShapeDtypeStruct(array.shape, array.dtype)) for n, array in given.items()])
        return results[:count], (residuals, _Saved(needs, like))

    def backward(saved: tuple[dict[str, Any], _Saved], grads: Results) -> tuple[Any, ...]:
        (residuals, about), made = saved, {}
        needs, like = dict(about.needs), dict(about.like)
        zero = jax.custom_derivatives.SymbolicZero
        if all(isinstance(grad, zero) for grad in grads):
            return tuple([None] * len(names))
        dense = [jnp.zeros(g.shape, g.dtype) if isinstance(g, zero) else g for g in grads]
        if found is not None:
            incoming = found.incoming.values()
            for k, (output, grad) in enumerate(zip(spec.outputs, grads)):
                if k not in incoming and not isinstance(grad, zero):
                    raise UnsupportedError(f"baracuda.{name} has no gradient of its result {output.name}")
        if found is not None:
            made = _gradients(found, residuals, numbers, dense, like, needs)
        elif own is not None:
            given = {**numbers, **residuals, "like": like, "needs": needs}
            if whole.name in GEMM_GRADIENTS and whole.name.endswith(
                "_forward"
            ):  # gradients of z and up_z too, if there are any
                some = [None if isinstance(grad, zero) else grad for grad in grads]
                made = own.of([*some, *[None] * (len(whole.outputs) - count)], given)
            else:
                made = own.of(dense if count > 1 else dense[0], given)
        have = made if found is None else {*found.given, *found.separate}
        if wrong := missing_gradients(name, needs, have):
            raise UnsupportedError(wrong)
        longer = READS_LEADING_PART.get(name)
        if longer is not None and needs[longer]:
            made[longer] = jnp.pad(made[longer], zero_padding(made[longer].shape, like[longer].shape))
        return tuple([made[n].reshape(like[n].shape) if needs[n] and made[n] is not None else None for n in names])

    differentiable = jax.custom_vjp(function)
    differentiable.defvjp(forward, backward, symbolic_zeros=True)
    return jax.jit(differentiable)


def _gradients(
    found: Gradient, residuals: Mapping[str, Any], numbers: Mapping[str, Any], grads: Sequence[Any],
    like: Mapping[str, Any], needs: Mapping[str, bool],
) -> dict[str, Any]:  # fmt: skip
    spec = found.spec
    values = {**numbers, **residuals, "dy": grads[0]}
    values |= {name: grads[at] if at < len(grads) else None for name, at in found.incoming.items()}
    values |= {name: jnp.zeros((), like[name].dtype) + jnp.zeros(like[name].shape, like[name].dtype)
               for name in found.shaped if name in like}  # fmt: skip
    values |= found.extents_of({**numbers, **like}) | {"dtype": grads[0].dtype}
    if "dtype" in {n.name for n in spec.numbers}:
        values["dtype"] = next(iter(like.values())).dtype

    def called(each: Spec | CompositeGradient, wanted: Sequence[bool] | None) -> Any:
        if isinstance(each, CompositeGradient) and each.is_complex:
            conjugates = {name: jnp.conj(values[name]) for name in each.incoming}
            return jax.tree.map(jnp.conj, each.of(_call_by_name, {**values, **conjugates}))
        if isinstance(each, CompositeGradient):
            return each.of(_call_by_name, values)
        arrays = {a.name: values.get(a.name) for a in each.arrays}
        return _call(each, arrays, {n.name: values[n.name] for n in each.numbers}, wanted)

    separate = {name: called(each, None) for name, each in found.separate.items() if needs.get(name)}
    wanted = found.wanted(needs)
    if not any(wanted):
        return separate
    results = called(spec, wanted if spec.is_partial else None)
    results = results if isinstance(results, tuple) else (results,)
    return separate | {name: results[at] for name, at in found.given.items() if results[at] is not None}


@dataclasses.dataclass(frozen=True)
class _GradientRule:
    """A gradient outside the op table: a function of dy and saved values to gradients by argument."""

    of: Callable[[Any, Mapping[str, Any]], dict[str, Any]]
    reads: tuple[str, ...] = ()


def _of_matmul(dy: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    a, b = given["a"], given["b"]
    if same_batch := matmul_same_batch(_call_by_name, dy, given):
        return same_batch
    first, second = (a if a.ndim > 1 else a[None]), (b if b.ndim > 1 else b[:, None])
    dy_matrices = dy[..., None] if b.ndim == 1 else dy
    dy_matrices = dy_matrices[..., None, :] if a.ndim == 1 else dy_matrices
    da, db = _call_by_name("matmul", dy_matrices, second.mT), _call_by_name("matmul", first.mT, dy_matrices)
    return {"a": sum_to_shape(da, first.shape), "b": sum_to_shape(db, second.shape)}


def _of_gemm(name: str) -> _GradientRule:
    own, reads = GEMM_GRADIENTS[name]
    return _GradientRule(lambda dy, given: own(_call_by_name, dy, given), reads)


def _call_by_name(name: str, *arguments: Any, needs: Sequence[bool] | None = None, **numbers: Any) -> Any:
    if name == "concatenate":
        return jnp.concatenate(*arguments, **numbers)
    spec = specs()[name]
    values = {n.name: n.default for n in spec.numbers if n.default is not REQUIRED} | numbers
    values |= {a.name: value for a, value in zip(spec.positional, arguments)}
    arrays = {a.name: values.get(a.name) for a in spec.arrays}
    return _call(spec, arrays, {n.name: values[n.name] for n in spec.numbers}, needs)


def _composite(name: str) -> _GradientRule:
    """A composite gradient, which uses the gradient of the first result only."""

    def own(grads: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        shaped = {n: given["like"][n] for each in COMPOSITE_GRADIENTS[name].values() for n in each.shaped}
        values = {**shaped, **given, "dy": grads[0] if isinstance(grads, list) else grads}
        return {n: each.of(_call_by_name, values) for n, each in COMPOSITE_GRADIENTS[name].items()}

    return _GradientRule(own, tuple([read for each in COMPOSITE_GRADIENTS[name].values() for read in each.reads]))


def _of_formula(name: str) -> _GradientRule:
    spec = specs()[name]

    def own(grads: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        arrays = {a.name: given.get(a.name) for a in spec.arrays}
        numbers = {n.name: given[n.name] for n in spec.numbers}
        read = [n for n, array in arrays.items() if array is not None and jnp.issubdtype(array.dtype, jnp.floating)]

        def formula(*values: Any) -> Any:
            return evaluated(spec, {**arrays, **dict(zip(read, values))}, numbers)

        results, pull = jax.vjp(formula, *[arrays[n] for n in read])
        whole = list(grads) if isinstance(grads, (list, tuple)) else [grads]
        pairs = zip(whole, results)  # unneeded results are empty
        return dict(zip(read, pull(tuple([g.astype(r.dtype) if g.shape == r.shape else jnp.zeros_like(r)
                                          for g, r in pairs]))))  # fmt: skip

    return _GradientRule(own, tuple([argument.name for argument in spec.arrays]))


def _of_partner(name: str) -> _GradientRule:
    partner, spec = linear_partner(name), specs()[name]
    assert partner is not None

    def own(grads: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        first = spec.arrays[0].name
        whole = grads if isinstance(grads, list) else [grads]
        return {first: partner(_call_by_name, whole, {**given, "shape of dy": given["like"][first].shape})}

    return _GradientRule(own, tuple([argument.name for argument in spec.arrays[1:] if argument.pointer]))


VJP_RULES = {
    "cast": _GradientRule(lambda dy, given: {"x": _call_by_name("cast", dy, given["like"]["x"].dtype)}),
    "matmul": _GradientRule(_of_matmul, ("a", "b")),
    **{name: _of_gemm(name) for name in GEMM_GRADIENTS},
    **{name: _composite(name) for name in COMPOSITE_GRADIENTS},
    **{name: _of_partner(name) for name in specs() if linear_partner(name) and name not in FORMULAS},
    **{name: _of_formula(name) for name in FORMULAS},
}


# --- vmap -------------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _vmappable(name: str, names: tuple[str, ...], static: Static, wanted: tuple[bool, ...] | None) -> Any:
    """The library call with its vmap rule: one call if the op takes a leading batch axis, else one an element."""
    spec, numbers = specs()[name], dict(static)

    def plain(*arrays: Any) -> Results:
        return _library_call(spec, dict(zip(names, arrays)), numbers, wanted)

    takes_batch_axes = spec.layout == "matrices"
    if not is_partitionable(spec) and not takes_batch_axes:
        return plain
    whole = partitionable(spec, names, numbers, plain) if is_partitionable(spec) else plain
    function = jax.custom_batching.custom_vmap(whole)
    own = own_axes(spec) if takes_batch_axes else {}
    if spec.layout not in (*_ALONG, "matrices", "pointwise"):

        @function.def_vmap  # type: ignore[untyped-decorator, unused-ignore]
        def one_by_one(size: int, is_batched: Sequence[bool], *arrays: Any) -> tuple[Results, tuple[bool, ...]]:
            batched_arrays = tuple([array for array, b in zip(arrays, is_batched) if b])

            def single(each: tuple[Any, ...]) -> Results:
                remaining = iter(each)
                return plain(*[next(remaining) if b else array for array, b in zip(arrays, is_batched)])

            results = jax.lax.map(single, batched_arrays)
            return results, (True,) * len(results)

        return function

    @function.def_vmap  # type: ignore[untyped-decorator, unused-ignore]
    def rule(size: int, is_batched: Sequence[bool], *arrays: Any) -> tuple[Results, tuple[bool, ...]]:
        shapes = [array.shape[1:] if b else array.shape for array, b in zip(arrays, is_batched)]
        behind = [own.get(argument, 0) for argument in names]
        rank = max([len(shape) - axes for shape, axes in zip(shapes, behind)])
        inserted = [(1,) * (rank + axes - len(shape)) for shape, axes in zip(shapes, behind)]
        expanded = [
            jnp.broadcast_to((array if b else array[None]).reshape(-1, *ones, *shape), (size, *ones, *shape))
            for array, b, shape, ones in zip(arrays, is_batched, shapes, inserted)
        ]
        inner = static
        if spec.layout in _ALONG and numbers["axis"] >= 0:
            inner = tuple([(n, value - rank if n == "axis" else value) for n, value in static])
        single = jax.eval_shape(plain, *[jax.ShapeDtypeStruct(s, a.dtype) for s, a in zip(shapes, arrays)])
        results = _vmappable(name, names, inner, wanted)(*expanded)
        results = tuple([result.reshape(size, *one.shape) for result, one in zip(results, single)])
        return results, (True,) * len(results)

    return function


# --- the FFI call -----------------------------------------------------------------------------------------------------


def _library_call(
    spec: Spec, arrays: Mapping[str, Any], numbers: Mapping[str, Any], wanted: Sequence[bool] | None
) -> Results:
    """The call of the library for XLA's target platform. Unwanted results are empty."""
    views = {name: _view(spec, name, array) for name, array in arrays.items()}
    given = [views.get(a.name) for a in spec.arrays]
    values = tuple([numbers[n.name] for n in spec.numbers])
    by_backend = {}
    for library in libraries():
        here = [view and TensorRef(view.ptr, view.shape, view.dtype, device=library.backend) for view in given]
        call = Function(spec)._prepare(here, values, False, wanted, VIEWS)
        by_backend[library.backend] = functools.partial(_ffi_call, spec, call, tuple(views.items()))
    passed = tuple(arrays.values())
    if len(by_backend) == 1:
        return next(iter(by_backend.values()))(*passed)
    return jax.lax.platform_dependent(*passed, **by_backend)  # type: ignore[no-any-return]


@functools.cache
def libraries() -> tuple[Library, ...]:
    """The libraries of the platforms that JAX has here."""
    has_gpu = any(device.platform == "gpu" for device in jax.devices())
    found = tuple([library_for(backend) for backend in ("cpu", *["cuda"] * has_gpu)])
    for library in found:
        _handler.register(library)
    return found


def _view(spec: Spec, name: str, array: Any) -> TensorRef:
    """C's view of an operand; if C takes 64 bits only and JAX has 32, it is converted."""
    shape, dtype = tuple(array.shape), as_element(np.dtype(array.dtype))
    if not all([isinstance(extent, int) for extent in shape]):
        raise InvalidProblemError(f"{name} has shape {shape}: C is told numbers, so that extents cannot be symbols")
    slot = next((p.dtype for p in spec.row.params if spec.names.get(p.name) == name), "T")
    if slot == "i64" and not jax.config.jax_enable_x64 and jnp.issubdtype(array.dtype, jnp.integer):
        dtype = ElementKind.I64
    elif slot == "f64" and array.dtype == np.uint32:  # a result of _ffi_call
        shape, dtype = shape[:-1], ElementKind.F64
    return TensorRef(EMPTY_ADDRESS, shape, dtype)


def _ffi_call(spec: Spec, call: Prepared, views: Sequence[tuple[str, TensorRef]], *arrays: Any) -> Results:
    given = {name: _as_words(array, view.dtype) for (name, view), array in zip(views, arrays)}
    orders = {spec.arrays[position].name: order for position, order, _ in call.copies}
    full_shapes = {spec.arrays[position].name: shape for position, _, shape in call.copies}
    given = {n: jnp.broadcast_to(a, full_shapes[n]) if n in full_shapes and a.ndim <= len(full_shapes[n]) else a
             for n, a in given.items()}  # fmt: skip
    given = {n: jnp.transpose(a, orders[n]) if n in orders and a.ndim == len(orders[n]) else a
             for n, a in given.items()}  # fmt: skip
    inputs: list[Any] = []
    position_of: dict[int, int] = {}  # slot -> position among the buffers
    count, made = len(spec.arrays), [result for result in call.results if result is not None]
    results = [k for k, result in enumerate(call.results) if result is not None]
    for slot in dict.fromkeys(call.slots):
        if slot < count and spec.arrays[slot].name in given:
            position_of[slot] = len(inputs)
            inputs.append(given[spec.arrays[slot].name])
    result_types = [_result(shape, dtype) for shape, dtype in made]
    aliases = {}
    if call.clears:  # C adds to these
        aliases = {len(inputs) + k: k for k in range(len(result_types))}
        inputs += [jnp.zeros(struct.shape, struct.dtype) for struct in result_types]
    position_of |= {count + k: len(inputs) + index for index, k in enumerate(results)}
    buffers = [*result_types, *([jax.ShapeDtypeStruct((call.workspace,), np.uint8)] if call.workspace else [])]
    sources, host = _sources(call, position_of, len(result_types))
    compute = jax.ffi.ffi_call(_handler.TARGET, buffers, input_output_aliases=aliases, vmap_method="sequential")
    found = compute(
        *inputs, symbol=call.symbol, signature=_signature(call), sources=np.array(sources, np.int64),
        host=np.array(host, np.int64),
    )  # fmt: skip
    there = dict(zip(results, found))
    returned, fills = [], dict(call.fills)
    for k, output in enumerate(spec.outputs):
        known = call.results[k]
        if known is None or not call.wanted[k]:
            returned.append(jnp.zeros(0, np.float32))
        elif k in fills:
            what = fills[k] if isinstance(fills[k], float) else given[spec.arrays[int(fills[k])].name]
            returned.append(jnp.full(known[0], what, known[1].numpy_dtype))
        else:
            returned.append(_from_words(there[k], known[1], output.name))
    return tuple(returned)


def _signature(call: Prepared) -> str:
    from baracuda._library.op_table import ops

    return _handler.signature(ops()[call.symbol.removeprefix("baracuda_kernels_").removesuffix("_run")])


def _sources(call: Prepared, position_of: Mapping[int, int], workspace: int) -> tuple[list[int], list[int]]:
    """Two words for each C argument, and the words of host arrays."""
    words: list[int] = []
    host: list[int] = []
    constants = iter(call.constants)
    for param, index in zip(call.row.params, call.order):
        if index >= 0:
            words += [OPERAND, position_of.get(call.slots[index], -1)]
            continue
        value = next(constants)
        if param.direction == "host":
            words += [HOST, len(host)]
            data = np.array(list(value) or [0], np.int32 if param.dtype == "i32" else np.int64)
            host += np.frombuffer(data.tobytes() + bytes(-data.nbytes % 8), np.int64).tolist()
        elif param.dtype_of(_slots(call)) in ("f32", "f64"):
            words += [REAL, int(np.float64(value).view(np.int64))]
        else:
            words += [INTEGER, int(np.uint64(value).view(np.int64)) if value > 2**63 - 1 else int(value)]
    if not call.row.is_bare:
        words += [*((WORKSPACE, workspace) if call.workspace else (OPERAND, -1)), INTEGER, call.workspace]
    return [*words, STREAM, 0], host or [0]


def _slots(call: Prepared) -> dict[str, str]:
    from baracuda._library.op_table import ops

    return ops()[call.symbol.removeprefix("baracuda_kernels_").removesuffix("_run")].slots


def _result(shape: Shape, dtype: ElementKind) -> Any:
    """XLA's buffer of a result; without 64-bit types in JAX, two u32 words for each element."""
    if dtype in _WIDE and not jax.config.jax_enable_x64:
        return jax.ShapeDtypeStruct((*shape, 2), np.uint32)
    return jax.ShapeDtypeStruct(shape, dtype.numpy_dtype)


def _as_words(array: Any, dtype: ElementKind) -> Any:
    """An i64 operand as two i32 words for each element, if JAX has no 64-bit types."""
    if dtype is ElementKind.I64 and array.dtype.itemsize < 8:
        wide = array.astype(np.int32)
        return jnp.stack([wide, wide >> 31], -1)
    return array


def _from_words(array: Any, dtype: ElementKind, name: str) -> Any:
    """A 64-bit result for JAX: the low word of an integer; f64 stays two words, which only the gradient reads."""
    if dtype not in _WIDE or jax.config.jax_enable_x64:
        return array
    if dtype is ElementKind.F64:
        return array
    return array[..., 0] if dtype is ElementKind.U64 else jax.lax.bitcast_convert_type(array[..., 0], np.int32)

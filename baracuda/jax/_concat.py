# SPDX-License-Identifier: Apache-2.0
"""concatenate, stack and split for JAX. concatenate and split are each other's gradients."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from baracuda import concatenation
from baracuda._call.scalars import INT32_MAX, shown
from baracuda._functions.shape_rules.call_meta import axis_of
from baracuda._library.loader import symbol_name
from baracuda._library.op_table import ops
from baracuda.dtypes import as_element
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.jax import _handler
from baracuda.jax._calls import HOST, INTEGER, LIST, OPERAND, STREAM, libraries
from baracuda.tensor import contiguous_stride

Shape = tuple[int, ...]
FUNCTIONS = ("concatenate", "split", "stack")


def made(name: str, module: str) -> Any:
    function = {"concatenate": concatenate, "split": split, "stack": stack}[name]
    function.__doc__, function.__module__ = getattr(concatenation, name).__doc__, module
    return function


def concatenate(arrays: Sequence[Any], *, axis: int = 0) -> Any:
    given = _promoted(arrays)
    first = given[0].shape
    along = axis_of("axis", axis, first)
    for k, array in enumerate(given):
        if _with(array.shape, along, 0) != _with(first, along, 0):
            raise InvalidProblemError(
                f"arrays[{k}] has shape {array.shape}, must be that of arrays[0], {first}, but along axis {along}"
            )
    return _concatenate(along, *given)


def stack(arrays: Sequence[Any], *, axis: int = 0) -> Any:
    given = _promoted(arrays)
    along = axis_of("axis", axis, (*given[0].shape, 1))
    for k, array in enumerate(given):
        if array.shape != given[0].shape:
            raise InvalidProblemError(
                f"arrays[{k}] has shape {array.shape}, must be that of arrays[0], {given[0].shape}"
            )
    return _concatenate(along, *[jnp.expand_dims(array, along) for array in given])


def split(x: Any, sections: int | Sequence[int], *, axis: int = 0) -> tuple[Any, ...]:
    array = jnp.asarray(x)
    along = axis_of("axis", axis, array.shape)
    extents = tuple(concatenation.extents_of(array.shape, sections, along))
    return _split(along, extents, array)  # type: ignore[no-any-return]


def _promoted(arrays: Sequence[Any]) -> list[Any]:
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise InvalidProblemError(f"arrays is {shown(arrays)}, must be a list or tuple of one array or more")
    dtype = jnp.result_type(*arrays)
    return [jnp.asarray(array).astype(dtype) for array in arrays]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _concatenate(axis: int, *arrays: Any) -> Any:
    extents = tuple([array.shape[axis] for array in arrays])
    whole = _with(arrays[0].shape, axis, sum(extents))
    return _ffi_call("concat", axis, extents, whole, arrays, [jax.ShapeDtypeStruct(whole, arrays[0].dtype)])[0]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _split(axis: int, extents: Shape, x: Any) -> tuple[Any, ...]:
    parts = [jax.ShapeDtypeStruct(_with(x.shape, axis, extent), x.dtype) for extent in extents]
    return tuple(_ffi_call("concat_backward", axis, extents, x.shape, [x], parts))


_concatenate.defvjp(
    lambda axis, *arrays: (_concatenate(axis, *arrays), tuple([array.shape[axis] for array in arrays])),
    lambda axis, extents, dy: _split(axis, tuple(extents), dy),
)
_split.defvjp(
    lambda axis, extents, x: (_split(axis, extents, x), None),
    lambda axis, extents, _, parts: (_concatenate(axis, *parts),),
)


def _ffi_call(
    name: str, axis: int, extents: Shape, whole: Shape, inputs: Sequence[Any], results: Sequence[Any]
) -> Sequence[Any]:
    """concat, or concat_backward (split); `whole` is the shape of the concatenated array."""
    dtype = as_element(np.dtype(inputs[0].dtype))
    op = ops().get(f"{name}_{dtype.symbol}")
    if op is None or max(whole) > INT32_MAX:
        raise UnsupportedError(f"{name} takes no {dtype} of shape {whole}")
    libraries()  # registered with XLA
    parts = range(len(inputs)) if name == "concat" else range(1, 1 + len(extents))
    whole_at = len(inputs) if name == "concat" else 0
    strides = [stride for extent in extents for stride in contiguous_stride(_with(whole, axis, extent))]
    arrays = {
        "output_shape": np.array(whole, np.int32), "extents": np.array(extents, np.int32),
        "stride_inputs": np.array(strides), "stride_outputs": np.array(strides),
        **dict.fromkeys(("stride_y", "stride_dy"), np.array(contiguous_stride(whole))),
    }  # fmt: skip
    numbers = {"output_numel": math.prod(whole), "rank": len(whole), "concat_dim": axis, "n": len(extents)}
    sources: list[int] = []
    host: list[int] = []
    for param in op.row.params:
        if param.is_list:
            sources += [LIST, len(host)]
            host += [len(parts), *parts]
        elif param.direction == "host":
            sources += [HOST, len(host)]
            data = arrays[param.name].tobytes()
            host += np.frombuffer(data + bytes(-len(data) % 8), np.int64).tolist()
        else:
            sources += [OPERAND, whole_at] if param.is_pointer else [INTEGER, numbers[param.name]]
    sources += [OPERAND, -1, INTEGER, 0, STREAM, 0]  # no workspace
    compute = jax.ffi.ffi_call(_handler.TARGET, list(results), vmap_method="sequential")
    return compute(  # type: ignore[no-any-return]
        *inputs, symbol=symbol_name(op.name), signature=_handler.signature(op),
        sources=np.array(sources, np.int64), host=np.array(host, np.int64),
    )  # fmt: skip


def _with(shape: Sequence[int], axis: int, extent: int) -> Shape:
    return (*shape[:axis], extent, *shape[axis + 1 :])

# SPDX-License-Identifier: Apache-2.0
"""concatenate, stack and split of any number of arrays, meshgrid, as_strided, and repeat_interleave with counts.

They take the arrays that `baracuda.functions` takes. Results belong to the framework of the first array and are on its
device and stream. Elements are copied bit by bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from baracuda import functions
from baracuda._arrays.frameworks import KEYS, POINTERS, Framework, as_array, library_for, result_framework
from baracuda._call import checking
from baracuda._call.scalars import INT32_MAX, as_integer, as_integers, shown
from baracuda._functions.dispatch import keep
from baracuda._functions.prepared import canonical
from baracuda._functions.shape_rules.call_meta import Shape, axis_of
from baracuda._library.loader import symbol_name
from baracuda._library.op_table import ops
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError, naming
from baracuda.shape.slices import ContiguizeDescriptor, ContiguizePlan
from baracuda.tensor import TensorRef, tensor


@naming("concatenate")
def concatenate(arrays: Sequence[Any], *, axis: int = 0, out: Any = None) -> Any:
    """Concatenate arrays along an axis, in one call; the other axes have equal extents.

    InvalidProblemError for shapes or dtypes that do not fit, and if there is no array.
    """
    return _cached_concat(arrays, axis, out, _concatenated)


@naming("stack")
def stack(arrays: Sequence[Any], *, axis: int = 0, out: Any = None) -> Any:
    """Stack arrays of one shape along a new axis, which is `axis` of the result, in one call.

    InvalidProblemError for shapes or dtypes that differ, and if there is no array.
    """
    return _cached_concat(arrays, axis, out, _stacked)


@naming("split")
def split(x: Any, sections: int | Sequence[int], *, axis: int = 0) -> tuple[Any, ...]:
    """Split x along an axis into copies, in one call: into `sections` equal parts, or at the indices in it, as in
    numpy.split.

    InvalidProblemError if the parts would not be equal, or an index is out of range.
    """
    array = as_array(x, "x")
    view = tensor(array, "x")
    along = axis_of("axis", axis, view.shape)
    extents = extents_of(view.shape, sections, along)
    results = [_Result(x, view, _with(view.shape, along, own), None) for own in extents]
    parts = [result.view for result in results]
    _ConcatCall("concat_backward", "dy", view, along, extents, parts).run_on_views(
        view, parts, results[0].framework, array
    )
    return tuple([result.finished() for result in results])


def extents_of(shape: Shape, sections: int | Sequence[int], axis: int) -> list[int]:
    """Extents along axis of the parts that `split` makes of an array of this shape."""
    along = axis_of("axis", axis, shape)
    extent = shape[along]
    if isinstance(sections, (list, tuple)):
        inner = as_integers("sections", sections, 0, extent)
        ends = (*inner, extent)
    else:
        count = as_integer("sections", sections, 1, INT32_MAX)
        if extent % count:
            raise InvalidProblemError(f"sections is {count}, must divide {extent}, the extent of x along axis {along}")
        ends = tuple([extent // count * (k + 1) for k in range(count)])
    extents = [end - first for first, end in zip((0, *ends), ends)]
    if min(extents) < 0:
        raise InvalidProblemError(f"sections is {sections!r}, must not fall")
    return extents


@naming("meshgrid")
def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Any, ...]:
    """Coordinate arrays of a grid, from arrays of rank 1 or 0. Result k has arrays[k] along axis k, repeated along all
    others; with indexing "xy" the first two axes are exchanged, with "ij" they are not.

    InvalidProblemError for arrays of more axes, and another indexing.
    """
    if indexing not in ("xy", "ij"):
        raise InvalidProblemError(f"indexing is {indexing!r}, must be 'xy' or 'ij'")
    given, views = _checked_arrays(arrays)
    for k, view in enumerate(views):
        if len(view.shape) > 1:
            raise InvalidProblemError(f"arrays[{k}] has shape {view.shape}, must have at most one axis")
    rank = len(views)
    axes = [1 - k if k < 2 <= rank and indexing == "xy" else k for k in range(rank)]
    extents = [0] * rank
    for axis, view in zip(axes, views):
        extents[axis] = view.numel
    results = []
    for array, view, axis in zip(given, views, axes):
        shape = tuple([view.numel if d == axis else 1 for d in range(rank)])
        if isinstance(array, TensorRef):
            step = view.strides[0] if view.shape else 1
            source: Any = _strided_view(view, view.ptr, shape, tuple([step if d == axis else 1 for d in range(rank)]))
        else:
            source = array.reshape(shape)
        results.append(_tile(source, shape, extents))
    return tuple(results)


@naming("as_strided")
def as_strided(x: Any, shape: Sequence[int], strides: Sequence[int], *, offset: int = 0, out: Any = None) -> Any:
    """A copy of a strided view of x, which is row-major: result[c] is element offset + sum of c[d] * strides[d] of x.
    Strides have any sign and may be 0.

    InvalidProblemError if an element is outside of x, UnsupportedError if x is not row-major.
    """
    array = as_array(x, "x")
    view = tensor(array, "x")
    if not view.is_dense:
        raise UnsupportedError(f"x has strides {view.strides}, must be in row-major order")
    of = ContiguizeDescriptor(tuple(shape), tuple(strides), offset, element=view.dtype).validated()
    reaches = [(extent - 1) * stride for extent, stride in zip(of.shape, of.source_strides or ())]
    low, high = (of.source_offset + sum(pick(reach, 0) for reach in reaches) for pick in (min, max))
    if 0 not in of.shape and (low < 0 or high >= view.numel):
        raise InvalidProblemError(f"elements {low} to {high} are wanted, x has {view.numel}")
    result = _Result(x, view, of.shape, out)
    source = _strided_view(view, view.ptr + of.source_offset * view.dtype.itemsize, of.shape, of.source_strides or ())
    plan = ContiguizePlan.select(
        None, ContiguizeDescriptor(of.shape, element=view.dtype), library=library_for(view.device)
    )
    with result.framework.guard(array):
        plan.run(result.framework.stream(array), None, plan.args_type(dest=result.view, source=source))
    return result.finished()


@naming("repeat_interleave_counts")
def repeat_interleave_counts(x: Any, counts: Any, output_length: int, *, axis: int = 0) -> Any:
    """Repeat element k along an axis counts[k] times. The result has output_length elements there: it is padded with
    the last element or cut off, since counts (i32 or i64, not negative) may be on a device. It is two scans of the
    counts and an index_select.

    InvalidProblemError unless counts has one element for each of the axis, and if x has no element to repeat.
    """
    view, indices = _checked_source_indices(x, "x", counts, output_length, axis)
    if not view.shape[axis] and output_length:
        raise InvalidProblemError(f"x has shape {view.shape}, no element along axis {axis} to fill output_length with")
    return functions.index_select(x, indices, axis=axis)


@naming("repeat_interleave_counts_backward")
def repeat_interleave_counts_backward(dy: Any, counts: Any, *, axis: int = 0) -> Any:
    """Gradient of repeat_interleave_counts: dx[k] is the sum of the elements of dy that repeat x[k], an index_add by
    the same indices.
    """
    view = tensor(as_array(dy, "dy"), "dy")
    axis = axis_of("axis", axis, view.shape)
    size = tensor(as_array(counts, "counts"), "counts").numel
    return functions.index_add(_source_indices(counts, view.shape[axis]), dy, size, axis=axis)


def _checked_source_indices(x: Any, name: str, counts: Any, length: int, axis: int) -> tuple[TensorRef, Any]:
    view = tensor(as_array(x, name), name)
    axis = axis_of("axis", axis, view.shape)
    have = tensor(as_array(counts, "counts"), "counts").shape
    if have != (view.shape[axis],):
        raise InvalidProblemError(f"counts has shape {have}, expected {(view.shape[axis],)}, an element of {name} each")
    return view, _source_indices(counts, as_integer("output_length", length, 0, INT32_MAX))


def _source_indices(counts: Any, length: int) -> Any:
    """The source index of each element of the result: how many repeats of earlier elements have ended there."""
    view = tensor(as_array(counts, "counts"), "counts")
    if view.dtype not in (ElementKind.I32, ElementKind.I64) or len(view.shape) != 1:
        raise InvalidProblemError(
            f"counts has dtype {view.dtype} and shape {view.shape}, expected i32 or i64 and one axis"
        )
    ends = functions.cumsum(counts)
    inner = max(view.numel - 1, 0)
    whole = tensor(as_array(ends, "ends"), "ends")
    before = _slice(whole, 0, 0, inner) if isinstance(ends, TensorRef) else ends[:inner]
    ones = functions.affine(before, 0, offset=1)
    return functions.cumsum(functions.scatter_add(before, ones, length))


def _tile(source: Any, shape: Shape, extents: Sequence[int]) -> Any:
    if 0 in extents:  # tile needs repeats of at least 1
        view = tensor(as_array(source, "x"), "x")
        return _Result(source, view, tuple(extents), None).finished()
    return functions.tile(source, tuple([1 if extent == own else extent for own, extent in zip(shape, extents)]))


def _cached_concat(arrays: Sequence[Any], axis: int, out: Any, layout: Callable[..., Any]) -> Any:
    """concatenate and stack, with a cache of calls by dtypes, shapes, strides and devices of the arrays."""
    key = None
    if out is None and checking.active is None and isinstance(arrays, (list, tuple)):
        try:
            key = (layout, canonical(axis), *[KEYS[type(array)](array) for array in arrays])
            if (found := _CACHED_CALLS.get(key)) is not None:
                return found(arrays)
        except (KeyError, TypeError):  # a new type, or an axis that cannot be hashed
            key = None
    given, views = _checked_arrays(arrays)
    shape, along, extents, parts = layout(views, axis)
    result = _Result(arrays[0], views[0], shape, out)
    prepared = _ConcatCall("concat", "y", result.view, along, extents, parts)
    prepared.run_on_views(result.view, parts, result.framework, given[0])
    if key is not None:
        keep(_CACHED_CALLS, key, functools.partial(prepared.run_on_arrays, shape, views[0].dtype, result.framework))
    return result.finished()


_CACHED_CALLS: dict[Any, Callable[[Sequence[Any]], Any]] = {}


def _concatenated(views: Sequence[TensorRef], axis: int) -> tuple[Shape, int, list[int], Sequence[TensorRef]]:
    """(shape of the result, axis, extents of the arrays along it, views of the arrays)"""
    first = views[0].shape
    along = axis_of("axis", axis, first)
    for k, view in enumerate(views):
        if len(view.shape) != len(first) or _with(view.shape, along, 0) != _with(first, along, 0):
            raise InvalidProblemError(
                f"arrays[{k}] has shape {view.shape}, must be that of arrays[0], {first}, but along axis {along}"
            )
    extents = [view.shape[along] for view in views]
    return _with(first, along, sum(extents)), along, extents, views


def _stacked(views: Sequence[TensorRef], axis: int) -> tuple[Shape, int, list[int], Sequence[TensorRef]]:
    shape = views[0].shape
    for k, view in enumerate(views):
        if view.shape != shape:
            raise InvalidProblemError(f"arrays[{k}] has shape {view.shape}, must be that of arrays[0], {shape}")
    along = axis_of("axis", axis, (*shape, 1))
    unit_slices = [
        _strided_view(v, v.ptr, (*shape[:along], 1, *shape[along:]), (*v.strides[:along], 0, *v.strides[along:]))
        for v in views
    ]
    return (*shape[:along], len(views), *shape[along:]), along, [1] * len(views), unit_slices


class _Result:
    """The result of a call, allocated or the caller's `out`, and a view of it."""

    def __init__(self, like: Any, view: TensorRef, shape: Shape, out: Any) -> None:
        self.framework: Framework = result_framework(like).on(library_for(view.device).backend)
        self.is_given = out is not None
        self.array = (
            out
            if self.is_given
            else self.framework.empty(shape, self.framework.native(view.dtype, like), as_array(like, "x"))
        )
        self.view = tensor(self.array, "out")
        if self.view.shape != shape or self.view.dtype != view.dtype:
            raise InvalidProblemError(
                f"out has shape {self.view.shape} and dtype {self.view.dtype}, expected {shape} and {view.dtype}"
            )

    def finished(self) -> Any:
        return self.array if self.is_given else self.framework.finish(self.array)


def _checked_arrays(arrays: Sequence[Any]) -> tuple[list[Any], list[TensorRef]]:
    """The arrays as functions take them, and views of them, checked for one dtype and device."""
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise InvalidProblemError(f"arrays is {shown(arrays)}, must be a list or tuple of one array or more")
    given = [as_array(array, f"arrays[{k}]") for k, array in enumerate(arrays)]
    views = [tensor(array, f"arrays[{k}]") for k, array in enumerate(given)]
    for k, view in enumerate(views):
        if view.dtype != views[0].dtype or view.device != views[0].device:
            raise InvalidProblemError(
                f"arrays[{k}] has dtype {view.dtype} in {view.device} memory, arrays[0] {views[0].dtype} in "
                f"{views[0].device} memory"
            )
    return given, views


class _ConcatCall:
    """A call of concat or concat_backward without the addresses: `view` is the concatenated array, with extents[k]
    elements of parts[k] along the axis."""

    def __init__(
        self, name: str, whole: str, view: TensorRef, axis: int, extents: Sequence[int], parts: Sequence[TensorRef]
    ) -> None:
        self.library, op = library_for(view.device), ops().get(f"{name}_{view.dtype.symbol}")
        if op is None or max(view.shape) > INT32_MAX:
            raise UnsupportedError(f"{name} takes no {view.dtype} of shape {view.shape}")
        self.row, self.symbol, self.function = op.row, symbol_name(op.name), self.library.function(op.name)
        self.is_empty, self.whole = not view.numel, whole
        ffi = self.library.ffi
        pointers = [p.name for p in op.row.lists]
        steps = ffi.new("int64_t[]", [stride for part in parts for stride in part.strides])
        values: dict[str, Any] = {
            "output_numel": view.numel, "rank": len(view.shape), "concat_dim": axis, "n": len(parts),
            "output_shape": ffi.new("int32_t[]", view.shape), "extents": ffi.new("int32_t[]", extents),
            f"stride_{whole}": ffi.new("int64_t[]", view.strides), **{f"stride_{name}": steps for name in pointers},
        }  # fmt: skip
        names = [p.name for p in op.row.params]
        self.arguments = [values.get(name) for name in names]
        self.whole_at, self.parts_at = names.index(whole), [names.index(name) for name in pointers]

    def arguments_of(self, whole: Any, parts: Sequence[Any], stream: int) -> list[Any]:
        """C arguments for pointers to the concatenated array and to the parts."""
        ffi = self.library.ffi
        arguments = [*self.arguments, ffi.NULL, 0, ffi.cast("void *", stream)]
        arguments[self.whole_at] = whole
        for position in self.parts_at:
            arguments[position] = ffi.new("void *[]", parts)
        return arguments

    def run_on_views(self, whole: TensorRef, parts: Sequence[TensorRef], framework: Framework, like: Any) -> None:
        if self.is_empty:
            return
        with framework.guard(like):
            stream = framework.stream(like)
            call = self.arguments_of(whole.pointer, [part.pointer for part in parts], stream)
            if checking.active is None:
                status = self.function(*call)
            else:
                checking.active.keep(whole, *parts)
                status = checking.watched_call(self.function, self.row, {self.whole: whole}, {}, stream, call)
        self.library.check(self.symbol, status)

    def run_on_arrays(self, shape: Shape, dtype: ElementKind, framework: Framework, arrays: Sequence[Any]) -> Any:
        """concat of arrays with the signature that this call was made for."""
        like = arrays[0]
        result = framework.empty(shape, framework.native(dtype, like), like)
        if not self.is_empty:
            pointers = [POINTERS[type(array)](array) for array in arrays]
            with framework.guard(like):
                stream = framework.stream(like) if self.library.backend == "cuda" else 0
                call = self.arguments_of(POINTERS[type(result)](result), pointers, stream)
                if status := self.function(*call):
                    self.library.check(self.symbol, status)
        return framework.finish(result)


def _with(shape: Shape, axis: int, extent: int) -> Shape:
    return (*shape[:axis], extent, *shape[axis + 1 :])


def _slice(view: TensorRef, axis: int, first: int, extent: int) -> TensorRef:
    address = view.ptr + (first * view.strides[axis] * view.dtype.itemsize if view.numel else 0)
    return _strided_view(view, address, _with(view.shape, axis, extent), view.strides)


def _strided_view(view: TensorRef, address: int, shape: Shape, strides: Shape) -> TensorRef:
    return TensorRef(
        address, shape, view.dtype, strides, device=view.device, readonly=view.readonly, owner=view
    )  # fmt: skip


__all__ = [
    "as_strided", "concatenate", "meshgrid", "repeat_interleave_counts", "repeat_interleave_counts_backward", "split",
    "stack",
]  # fmt: skip

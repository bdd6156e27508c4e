# SPDX-License-Identifier: Apache-2.0
"""Norms and clipping of gradients, as torch.nn.utils has them: sums in f64 and in a fixed order, without a launch for
each tensor, and nothing read back from the device.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from baracuda._arrays.frameworks import framework_of
from baracuda._call.scalars import as_real
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError
from baracuda.optim._arrays import Parameter, address_of, compute_dtype, framework_for, number_of
from baracuda.optim._table import Table, stream_of
from baracuda.optim._tensors import TensorReader, reader_of

if TYPE_CHECKING:
    from baracuda.optim._launch import Launch, Scalars

_Parts = Sequence[tuple[Table, ElementKind]]
_GRAD = operator.attrgetter("grad")
_MOST_RECENT = 4


def _norm(parts: _Parts, norm_type: float, scale: Any) -> Any:
    """An array of one number: the norm of the gradients of all tables, divided by the f32 in `scale`."""
    wide = any(dtype is ElementKind.F64 for _, dtype in parts)
    like = parts[0][0].like
    if len(parts) == 1:
        return _norm_of(parts[0][0], parts[0][1], norm_type, scale)
    each = [_norm_of(table, dtype, norm_type, scale) for table, dtype in parts]
    result = ElementKind.F64 if wide else ElementKind.F32
    # The norm of the norms: tensors of one element each.
    table = Table(like, [1] * len(each))
    pointers = [address_of(like.framework, _as_dtype(one, result, like)) for one in each]
    table.fill({"params": pointers, "grads": pointers}, stream_of(like.framework, like.library, like.array))
    return _norm_of(table, result, norm_type, None)


def _as_dtype(one: Any, dtype: ElementKind, like: Parameter) -> Any:
    from baracuda import functions

    return one if Parameter(one, "norm").dtype is dtype else functions.cast(one, dtype)


def _norm_of(table: Table, dtype: ElementKind, norm_type: float, scale: Any) -> Any:
    like, library, framework = table.like, table.library, table.framework
    ffi = library.ffi
    compute = compute_dtype(dtype)
    made = framework.empty((), framework.native(compute, like.array), like.array)
    nbytes = int(library.lib.baracuda_kernels_optim_norm_workspace_size(table.chunks))
    workspace = framework.bytes(max(nbytes, 1), like.array)
    run, stream = library.function(f"optim_norm_{dtype.symbol}"), stream_of(framework, library, like.array)
    at = ffi.NULL if scale is None else ffi.cast("void *", address_of(framework_for(scale, "grad_scale"), scale))
    status = run(
        table.pointer, table.n, table.chunks, norm_type, 1.0, at, ffi.cast("void *", address_of(framework, made)),
        ffi.NULL, ffi.cast("void *", address_of(framework, workspace)), nbytes, stream,
    )  # fmt: skip
    library.check("optim_norm", status)
    return made


def norm_of_launches(launches: Sequence[Launch], scalars: Scalars) -> Any:
    """The norm of the gradients of a step, after the division by its scale."""
    from baracuda.optim._launch import on_device

    if not launches:
        return None
    like = launches[0].like
    scale = on_device(scalars.grad_scale, like, ElementKind.F32, "grad_scale")
    with like.framework.guard(like.array):
        return _norm([(launch.table, launch.like.dtype) for launch in launches], 2.0, scale)


def _gradients(parameters: Any) -> list[Any]:
    """The gradients of parameters; arrays that can have none are gradients themselves."""
    is_list = isinstance(parameters, (list, tuple)) or hasattr(parameters, "__next__")
    given = list(parameters) if is_list else [parameters]
    try:
        grads = list(map(_GRAD, given))
    except AttributeError:
        grads = [p.grad if hasattr(p, "grad") else p for p in given]
    return [grad for grad in grads if grad is not None]


class _Gradients:
    """A table for each dtype of a list of gradients, which are its parameters as well."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        params = [Parameter(array, f"gradient {k}") for k, array in enumerate(arrays)]
        if len({p.device for p in params}) > 1:
            raise InvalidProblemError("the gradients are on several devices")
        members: dict[ElementKind, list[int]] = {}
        for k, p in enumerate(params):
            members.setdefault(p.dtype, []).append(k)
        self.members = list(members.values())
        self.parts = [(Table(params[of[0]], [params[k].size for k in of]), dtype) for dtype, of in members.items()]
        self.addresses: list[int] = []
        self._fill([p.address for p in params], is_refill=False)

    def _fill(self, addresses: list[int], is_refill: bool) -> None:
        self.addresses = []
        for (table, _), members in zip(self.parts, self.members):
            like, own = table.like, [addresses[k] for k in members]
            with like.framework.guard(like.array):
                stream = stream_of(like.framework, like.library, like.array)
                table.fill({"params": own, "grads": own}, stream, is_refill)
        self.addresses = addresses

    def release(self) -> None:
        """Hold no gradient, only something on its device."""
        for table, _ in self.parts:
            like = table.like
            like.array = like.framework.bytes(16, like.array)

    def move(self, arrays: list[Any], reader: TensorReader) -> bool:
        """Point the tables at tensors of the layout; False if it is not certain that each has memory."""
        if reader.are_at(arrays, self.addresses):
            return True
        try:
            addresses = reader.addresses(arrays)
        except RuntimeError:
            return False
        if not all(addresses):
            return False
        self._fill(addresses, is_refill=True)
        return True


class _Recent(threading.local):
    """Tables of each thread, so that none refills the table that another one reads; and of each stream."""

    def __init__(self) -> None:
        self.found: dict[Hashable, _Gradients] = {}


_recent = _Recent()


def _tables(arrays: list[Any]) -> _Parts:
    """The tables of gradients. Those of PyTorch tensors are kept for the next call with a list of this layout; not
    while a graph is captured, whose replays need tables of its own.
    """
    reader = reader_of(arrays[0])
    layout = None if reader is None or reader.is_capturing(arrays[0]) else reader.layout(arrays)
    if layout is None:
        return _Gradients(arrays).parts
    assert reader is not None
    framework, recent = framework_of(arrays[0]), _recent.found
    assert framework is not None
    key = layout, framework.stream(arrays[0])
    found = recent.get(key)
    if found is None:
        found = _Gradients(arrays)
        found.release()
        if len(recent) >= _MOST_RECENT:
            del recent[next(iter(recent))]
        recent[key] = found
    elif not found.move(arrays, reader):
        return _Gradients(arrays).parts
    return found.parts


def get_total_norm(
    tensors: Iterable[Any], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Any:
    """(sum |x|^norm_type)^(1 / norm_type) over all elements of all tensors, or the largest |x| for inf: an array of
    rank 0, f32, or f64 if a tensor is. error_if_nonfinite waits for the device; foreach is ignored.
    """
    order = as_real("norm_type", norm_type)
    arrays = list(tensors)
    if not arrays:
        return 0.0
    return _total(_tables(arrays), order, error_if_nonfinite)


def _total(tables: _Parts, order: float, error_if_nonfinite: bool) -> Any:
    if not order > 0:
        raise InvalidProblemError(f"norm_type is {order}, must be > 0")
    like = tables[0][0].like
    with like.framework.guard(like.array):
        norm = _norm(tables, order, None)
    if error_if_nonfinite and not math.isfinite(value := number_of(norm)):
        raise RuntimeError(f"the norm of order {order:g} of the gradients is {value}")
    return norm


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:  # fmt: skip
    """Scale gradients in place by min(1, max_norm / (norm + 1e-6)), and return their norm before. `parameters` have
    gradients (PyTorch) or are the gradients themselves. Nothing is read back, unless error_if_nonfinite.

    The option max_norm of an optimiser clips in the pass of its step instead, and leaves the gradients as they are.
    """
    most, order = as_real("max_norm", max_norm), as_real("norm_type", norm_type)
    grads = _gradients(parameters)
    if not grads:
        return 0.0
    tables = _tables(grads)
    norm = _total(tables, order, error_if_nonfinite)
    _clip(tables, most, math.inf, norm)
    return norm


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Limit gradients to [-clip_value, clip_value] in place."""
    limit = as_real("clip_value", clip_value)
    if grads := _gradients(parameters):
        _clip(_tables(grads), 0.0, limit, None)


def _clip(tables: _Parts, max_norm: float, clip_value: float, norm: Any) -> None:
    for table, dtype in tables:
        like, library = table.like, table.library
        ffi, compute = library.ffi, compute_dtype(dtype)
        own = None if norm is None else _as_dtype(norm, compute, like)
        at = ffi.NULL if own is None else ffi.cast("void *", address_of(like.framework, own))
        with like.framework.guard(like.array):
            status = library.function(f"optim_clip_{dtype.symbol}")(
                table.pointer, table.n, table.chunks, 1.0, max_norm, clip_value, ffi.NULL, ffi.NULL, at,
                stream_of(like.framework, library, like.array),
            )  # fmt: skip
        library.check("optim_clip", status)

# SPDX-License-Identifier: Apache-2.0
"""Calls of functions, with a cache: the first call of a signature is checked and prepared, later ones pass addresses.

A signature is the dtypes, shapes, strides and devices of the arrays, and the numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from baracuda._arrays.frameworks import (
    NUMPY,
    POINTERS,
    SCALARS,
    Framework,
    allocated,
    as_array,
    checked_scalar,
    framework_of,
    result_framework,
    uses_allocator,
)
from baracuda._call import checking
from baracuda._call.checking import watched_call
from baracuda._call.scalars import shown
from baracuda._functions.launch import launcher
from baracuda._functions.preparation import Preparation
from baracuda._functions.prepared import Prepared, canonical, ordered, outer_key
from baracuda._functions.shape_rules.call_meta import StridesError
from baracuda._functions.spec import Spec
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError, naming
from baracuda.tensor import tensor

_MAX_CACHED = 4096  # prepared calls in the cache of a function


class Function:
    """All calls of one spec."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.launchers: dict[Any, Callable[..., Any]] = {}  # by signature
        self._prepared: dict[Any, Prepared] = {}
        self._single = len(spec.outputs) == 1
        checking.on_change.append(self.launchers.clear)

    def call(self, key: Any, arrays: tuple[Any, ...], numbers: tuple[Any, ...], out: Any, needs: Any = None) -> Any:
        """The results of a call without a cached launcher; `key` is its signature, None if it cannot be hashed."""
        given = arrays if out is None else (*arrays, *self._outs(out))
        full: tuple[Any, ...] | None
        try:
            full = (*map(outer_key, given), out is None, needs, *map(canonical, numbers))
            call = self._prepared.get(full)
        except (KeyError, TypeError):  # a new type, or a number that cannot be hashed
            full = call = None
        if full is None:
            return self._uncached(arrays, numbers, out, needs)
        if call is None:
            try:
                call = self._prepare(given, numbers, out is not None, needs, None)
            except StridesError:
                if out is None:
                    raise
                return self._copied_into(out, self.call(None, arrays, numbers, None, needs))
            keep(self._prepared, full, call)
        own = call.workspace and uses_allocator()  # the caller's allocator makes the workspace
        if call.is_plain and (out is None or self._single) and checking.active is None and not own:
            launch = launcher(
                self.spec, call, arrays, out,
                lambda *given: self._launch(call, given, None if out is None else given[-1]),
            )  # fmt: skip
            keep(self.launchers, key, launch)
            return launch(*given)
        return self._launch(call, given, out)

    def _launch(self, call: Prepared, given: Sequence[Any], out: Any) -> Any:
        """Launch in the general case: converts numbers, copies inputs, allocates results and workspace."""
        given, framework, like = list(given), call.framework, given[call.like]
        names = [argument.name for argument in self.spec.arrays]
        with naming(self.spec.name), framework.guard(like):
            for position, dtype in call.scalars:
                number = checked_scalar(names[position], dtype, given[position])
                given[position] = framework.constant(number, dtype, like)
            for position, order, shape in call.copies:
                given[position] = self._copied(given[position], order, shape)
            skipped = len(self.spec.outputs) if out is not None else 0  # results that the caller gave
            made: list[Any] = [result and framework.empty(*result, like) for result in call.results[skipped:]]
            trims = call.trims if checking.active is None else []  # a recorded call writes to the same memory again
            if call.clears and not trims:
                for result in filter(lambda each: each is not None, made):
                    zero = functools.partial((framework_of(result) or framework).zero, result)
                    zero()
                    if checking.active is not None:
                        checking.active.also(zero)
            everything = [*given, *made, None]
            pointers = [POINTERS[type(each)](each) for each in [everything[slot] for slot in call.slots]]
            scratch = self._scratch(call, like)
            ffi = call.library.ffi
            handle = framework.stream(like) if call.library.backend == "cuda" else 0
            scratch_pointer = POINTERS[type(scratch)](scratch)
            tail = () if call.row.is_bare else (scratch_pointer, call.workspace)
            arguments = (*ordered(call, pointers), *tail, ffi.cast("void *", handle))
            if checking.active is None:
                status = call.function(*arguments)
            else:
                status = self._watched(call, everything, scratch, handle, arguments)
            if status:
                call.library.check(call.symbol, status)
        self._fill(call, everything)
        if out is not None:
            return out
        for position, counter in trims:
            rows = min(int(made[counter]), made[position].shape[0])
            made[position].resize((rows, *made[position].shape[1:]), refcheck=False)
        made = [framework.finish(result) if wanted else None for result, wanted in zip(made, call.wanted)]
        return made[0] if self._single else tuple(made)

    def _fill(self, call: Prepared, everything: Sequence[Any]) -> None:
        """Write the results of a call without elements, which C does not write."""
        for position, what in call.fills:
            target = everything[len(self.spec.arrays) + position]
            if target is None:
                continue
            framework = framework_of(target) or call.framework
            if isinstance(what, float):
                fill = functools.partial(framework.fill, target, what)
            else:
                fill = functools.partial(framework.copy, target, everything[what])
            fill()
            if checking.active is not None:
                checking.active.also(fill)

    def _watched(
        self, call: Prepared, everything: Sequence[Any], scratch: Any, stream: int, arguments: Sequence[Any]
    ) -> int:
        """The C call through the active watcher."""
        pointers = [param.name for param in call.row.pointers]
        arrays = [everything[slot] for slot in call.slots]
        views = {
            name: None if array is None else (framework_of(array) or call.framework).view(array, name)
            for name, array in zip(pointers, arrays)
        }
        if checking.active is not None:
            checking.active.keep(everything, scratch)
        return watched_call(call.function, call.row, views, call.names, stream, arguments)

    def _copied(self, array: Any, order: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        """A row-major copy of an array, broadcast to `shape` and permuted to `order`."""
        framework = result_framework(array)
        full = array if tuple(array.shape) == shape else framework.broadcast_to(array, shape)
        permuted = full if order == tuple(range(len(order))) else framework.permuted(full, order)
        copy = framework.contiguous(permuted)
        if checking.active is not None and copy is not array:
            checking.active.also(functools.partial(framework.copy, copy, permuted))
        return copy

    def _copied_into(self, out: Any, made: Any) -> Any:
        """`out`, after dense results have been copied into it."""
        from baracuda import functions

        for target, source in zip(self._outs(out), (made,) if self._single else made):
            if source is None:
                continue
            element = tensor(source).dtype
            if element in (ElementKind.COMPLEX32, ElementKind.COMPLEX64):  # bytes are moved
                functions.permute(source, list(range(len(source.shape))), out=target)
            else:
                functions.cast(source, element, out=target)
        return out

    def _scratch(self, call: Prepared, like: Any) -> Any:
        if not call.workspace:
            return None
        if uses_allocator():
            return allocated((call.workspace,), ElementKind.U8, call.library.backend)
        return call.framework.scratch(call.workspace, like)

    def _outs(self, out: Any) -> tuple[Any, ...]:
        """The caller's `out` as a tuple with an entry for each result."""
        if self._single:
            return (out,)
        if not isinstance(out, (tuple, list)) or len(out) != len(self.spec.outputs):
            names = ", ".join(output.name for output in self.spec.outputs)
            with naming(self.spec.name):
                raise InvalidProblemError(f"out is {shown(out)}, must be a tuple of ({names})")
        return tuple(out)

    def _uncached(self, arrays: tuple[Any, ...], numbers: tuple[Any, ...], out: Any, needs: Any) -> Any:
        """A call with arrays that no framework reads directly; it is prepared each time."""
        if (plain := self._without_scalars(arrays)) is not None:
            return self.call(None, plain, numbers, out, needs)
        with naming(self.spec.name):
            views = [as_array(array, argument.name) for array, argument in zip(arrays, self.spec.arrays)]
            outs = () if out is None else self._outs(out)
            targets = [as_array(a, "out" if self._single else o.name) for a, o in zip(outs, self.spec.outputs)]
            first = next((array for array in arrays if array is not None and type(array) not in SCALARS), None)
            framework = NUMPY if first is None else result_framework(first)
        given = (*views, *targets)
        try:
            call = self._prepare(given, numbers, out is not None, needs, framework)
        except StridesError:
            if out is None:
                raise
            return self._copied_into(out, self._uncached(arrays, numbers, None, needs))
        return self._launch(call, given, out)

    def _without_scalars(self, arrays: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The arguments with NumPy scalars as Python numbers, which take the arrays' dtype; None if there are none."""
        scalars = [k for k, a in enumerate(self.spec.arrays) if isinstance(arrays[k], np.generic)
                   and self.spec.slot_of(a) == "T"]  # fmt: skip
        others = [a for a in arrays if a is not None and type(a) not in SCALARS and not isinstance(a, np.generic)]
        if not scalars or not others:
            return None
        plain = [each.item() if k in scalars else each for k, each in enumerate(arrays)]
        return tuple(plain) if all([type(plain[k]) in SCALARS for k in scalars]) else None

    # --- preparation of a call --------------------------------------------------------------------------------------

    def _prepare(
        self, given: Sequence[Any], numbers: tuple[Any, ...], has_out: bool, needs: Any, framework: Framework | None
    ) -> Prepared:
        """Prepare by the first row that serves the call without copies, else by the first that serves it at all."""
        with naming(self.spec.name):
            if not self.spec.others:
                return Preparation(self.spec, given, numbers, has_out, needs, framework).prepared()
            values = {a.name: value for a, value in zip(self.spec.arrays, given)}
            values |= {n.name: value for n, value in zip(self.spec.numbers, numbers)}
            served: Prepared | None = None
            wrong: list[InvalidProblemError | UnsupportedError] = []
            for spec in self.spec.serving(values):
                try:
                    call = Preparation(spec, given, numbers, has_out, needs, framework).prepared()
                except (InvalidProblemError, UnsupportedError) as error:
                    wrong.insert(0 if spec is self.spec else len(wrong), error)
                    continue
                if not call.copies:
                    return call
                served = served or call
            if served is None:  # a row with these dtypes gives the better error
                telling = [e for cls in (StridesError, InvalidProblemError) for e in wrong if isinstance(e, cls)]
                raise (telling or wrong)[0]
            return served


def keep(store: dict[Any, Any], key: Any, value: Any) -> None:
    if len(store) >= _MAX_CACHED:
        store.clear()
    store[key] = value

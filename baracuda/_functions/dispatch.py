# SPDX-License-Identifier: Apache-2.0
"""Calls of functions, with a cache: the first call of a signature is checked and prepared, later ones pass addresses.

A signature is the dtypes, shapes, strides and devices of the arrays, and the numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
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
    library_for,
    result_framework,
    uses_allocator,
)
from baracuda._call import checking
from baracuda._call.c_call import Call, Form, forms_of, op_names
from baracuda._call.checking import watched_call
from baracuda._call.scalars import shown
from baracuda._functions.launch import launcher
from baracuda._functions.prepared import Prepared, canonical, ordered, outer_key
from baracuda._functions.problem import Problem
from baracuda._functions.shape_rules.call_meta import (
    CallMeta,
    StridesError,
    as_strided,
    prepend_axes,
    with_nonzero_strides,
)
from baracuda._functions.shape_rules.infer import infer_shapes, parameters
from baracuda._functions.spec import Argument, Spec, output_of
from baracuda._library.loader import symbol_name
from baracuda._library.op_table import Op, Row, ops
from baracuda._library.param import Param
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError, naming
from baracuda.operands import Operand, check_overlaps, check_view, effective_strides, identical
from baracuda.tensor import EMPTY_ADDRESS, TensorRef, contiguous_stride, tensor

Values = tuple[Any, ...]  # of spec.numbers
_MAX_CACHED = 4096  # prepared calls in the cache of a function
_PACKED = (ElementKind.S4, ElementKind.U4, ElementKind.BIN)
_NEW = object()


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
                given[position] = framework.scalar(checked_scalar(names[position], dtype, given[position]), dtype, like)
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
            if source is not None:
                functions.cast(source, tensor(source).dtype, out=target)
        return out

    def _scratch(self, call: Prepared, like: Any) -> Any:
        if not call.workspace:
            return None
        if uses_allocator():
            return allocated((call.workspace,), ElementKind.U8, call.library.backend)
        return call.framework.bytes(call.workspace, like)

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
                return _Preparation(self.spec, given, numbers, has_out, needs, framework).prepared()
            values = {a.name: value for a, value in zip(self.spec.arrays, given)}
            values |= {n.name: value for n, value in zip(self.spec.numbers, numbers)}
            served: Prepared | None = None
            wrong: list[InvalidProblemError | UnsupportedError] = []
            for spec in self.spec.serving(values):
                try:
                    call = _Preparation(spec, given, numbers, has_out, needs, framework).prepared()
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


class _Preparation:
    """Checks a call, chooses the op, and computes its C arguments."""

    def __init__(
        self, spec: Spec, given: Sequence[Any], numbers: Values, has_out: bool, needs: Any, framework: Framework | None
    ) -> None:
        self.spec, count = spec, len(spec.arrays)
        self.numbers = {number.name: value for number, value in zip(spec.numbers, numbers)}
        arrays, self.outs = list(given[:count]), list(given[count:]) if has_out else [_NEW] * len(spec.outputs)
        self.has_out = has_out
        self.like_at = [k for k, array in enumerate(arrays) if array is not None and type(array) not in SCALARS]
        self.framework = framework or (_framework(arrays[self.like_at[0]]) if self.like_at else NUMPY)
        self.wanted = self._wanted(needs)
        self.views: dict[str, TensorRef | None] = {}
        self.literals: dict[str, Any] = {}  # Python numbers given for arrays
        for argument, array in zip(spec.arrays, arrays):
            if type(array) in SCALARS:
                self.literals[argument.name] = array
            else:
                self.views[argument.name] = None if array is None else _framework(array).view(array, argument.name)
        self.library = library_for(self._backend())
        self.framework = self.framework.on(self.library.backend)
        self.element = self._element()
        self.forms = forms_of(Problem, self._ops())
        self.scalars = [
            (k, self._kinds(argument)[0]) for k, argument in enumerate(spec.arrays) if argument.name in self.literals
        ]
        for k, dtype in self.scalars:
            name = spec.arrays[k].name
            checked_scalar(name, dtype, self.literals[name])
            self.views[name] = TensorRef(EMPTY_ADDRESS, (), dtype, device=self.library.backend)

    def prepared(self) -> Prepared:
        spec = self.spec
        form = self._form()
        shapes = {a.name: view.shape for a in spec.arrays if (view := self.views[a.name]) is not None}
        meta = infer_shapes(spec, shapes, self.numbers)
        targets = self._targets(form, meta)
        views = self._operands(form, meta, targets)
        strides = {name: effective_strides(view.shape, view.strides, meta.extents[pointer.name])
                   for name, pointer in form.pointers.items() if (view := views[name]) is not None}  # fmt: skip
        for name, pointer in form.pointers.items():
            extents = meta.extents[pointer.name]  # C checks strides of NULL results too
            strides.setdefault(name, contiguous_stride(extents) if pointer.is_output else (0,) * len(extents))
        for param in form.row.params:
            if param.role == "stride" and not param.of:  # the shared strides of operands with one axis less
                strides[param.name] = self._row_strides(form, meta)
        if meta.view_scalars is not None:
            meta.values |= meta.view_scalars({pointer.name: views[name] for name, pointer in form.pointers.items()})
        flat = all([
            (view := views[name]) is None or (view.is_dense and view.shape == meta.extents[pointer.name])
            for name, pointer in form.pointers.items()
        ])  # fmt: skip
        op = form.op if flat or form.strided is None else form.strided
        problem = Problem(self.library, meta, parameters(spec, form.row, self.numbers, self.element, meta.values))
        arguments = Call(problem, op).arguments(views, strides)  # type: ignore[arg-type]
        return self._assembled(form, op, meta, arguments)

    def _row_strides(self, form: Form, meta: CallMeta) -> tuple[int, ...]:
        return contiguous_stride(next(meta.extents[p.name] for p in form.row.pointers if " 1 along " in p.shape))

    # --- op and dtypes ----------------------------------------------------------------------------------------------

    def _wanted(self, needs: Any) -> list[bool]:
        outputs = self.spec.outputs
        wanted = [out is not None for out in self.outs]
        if needs is not None:
            if not isinstance(needs, (tuple, list)) or len(needs) != len(outputs):
                raise InvalidProblemError(f"needs is {shown(needs)}, must be {len(outputs)} bools")
            wanted = [bool(need) and there for need, there in zip(needs, wanted)]
        if not any(wanted):
            raise InvalidProblemError("no result is wanted")
        return wanted

    def _backend(self) -> str | None:
        """The backend whose memory the arrays use, None if unknown. Numbers alone become NumPy arrays."""
        if not self.like_at:
            return "cpu"
        devices = {name: view.device for name, view in self.views.items() if view is not None and view.device}
        if len(set(devices.values())) > 1:
            raise InvalidProblemError(", ".join(f"{name} is in {device} memory" for name, device in devices.items()))
        return next(iter(devices.values()), None)

    def _element(self) -> ElementKind:
        typed = [a.name for a in self.spec.arrays if self.spec.slot_of(a) == "T"]
        if not typed:  # no argument has dtype T
            return as_element(self.numbers["dtype"], "dtype")
        if (view := self.views.get(self._typed())) is not None:
            return view.dtype
        literals = [self.literals[name] for name in typed if name in self.literals]
        if not literals:
            raise InvalidProblemError(f"{' and '.join(typed)} {'are' if len(typed) > 1 else 'is'} None")
        if self.framework is NUMPY:
            return as_element(np.result_type(*literals))
        return ElementKind.F32 if any(type(n) is float for n in literals) else as_element(np.result_type(*literals))

    def _typed(self) -> str:
        """The array whose dtype is T: the first that C reads, else the first that is given, else ""."""
        typed = [a.name for a in self.spec.arrays if self.spec.slot_of(a) == "T" and self.views.get(a.name) is not None]
        return min(typed, key=lambda name: not self._is_read(name), default="")

    def _is_read(self, name: str) -> bool:
        return any(a.name == name and a.pointer for a in self.spec.arrays)

    def _ops(self) -> tuple[str, ...]:
        spec, output = self.spec, output_of(self.spec.row)
        is_chosen = "U" in spec.row.slots and "dtype" in self.numbers
        if is_chosen:
            output = as_element(self.numbers["dtype"], "dtype")
        if self.element in _PACKED or output in _PACKED:
            raise UnsupportedError("4-bit types have no arrays: use CastSubBytePlan")
        symbol = str(self.element)
        if symbol in spec.own_dtypes and (found := op_names(spec.patterns, "", symbol, output.symbol)):
            return tuple(sorted(found, key=_order_in_table))
        if is_chosen and symbol in spec.own_dtypes:
            targets = [d for d in spec.row.slots["U"] if op_names(spec.patterns, "", symbol, d)]
            raise UnsupportedError(f"dtype is {output}, must be one of {', '.join(targets)}")
        name = next((f"{a.name} has dtype" for a in spec.arrays if self.spec.slot_of(a) == "T"), "dtype is")
        raise UnsupportedError(f"{name} {symbol}, must be one of {', '.join(spec.dtypes)}")

    def _written(self) -> list[Argument]:
        """The outputs that C writes: those that are wanted, and those that it requires."""
        required = {param.name for param in self.spec.row.params if param.is_output and param.is_required}
        named = [out for out, wanted in zip(self.spec.outputs, self.wanted) if wanted or out.pointer in required]
        return [*named, *self.spec.unreturned_outputs]

    def _field(self, argument: Argument) -> str:
        """Name of an operand in the forms."""
        return self.forms[0].names.get(argument.pointer, "") if argument.pointer else ""

    def _kinds(self, argument: Argument) -> tuple[ElementKind, ...]:
        field = self._field(argument)
        found = dict.fromkeys(element for form in self.forms for element in form.kinds(field))
        return tuple(found) or (self.element,)

    def _form(self) -> Form:
        """The first op that takes the dtypes of the arrays; InvalidProblemError if an array that it reads is None."""
        for argument in self.spec.arrays:
            view = self.views[argument.name]
            if argument.pointer and view is not None and view.dtype not in self._kinds(argument):
                wanted = " or ".join(map(str, self._kinds(argument)))
                first = self._typed() if self.spec.slot_of(argument) == "T" else ""
                of = f", that of {first}: bk.cast converts" if first not in ("", argument.name) else ""
                raise InvalidProblemError(f"{argument.name} has dtype {view.dtype}, expected {wanted}{of}")
        fields = {self._field(a): self.views[a.name] for a in self.spec.arrays if a.pointer}
        written = [self._field(out) for out in self._written()]
        outs = zip(self.spec.outputs, self.outs) if self.has_out else ()
        given = {
            name: _framework(out).view(out, "out")
            for name, out in [(self._field(output), out) for output, out in outs]
            if name in written and out is not None and type(out) not in SCALARS
        }

        def views_of(form: Form) -> dict[str, TensorRef | None]:
            made = {name: TensorRef(EMPTY_ADDRESS, (), form.kinds(name)[0]) for name in written}
            if any([each.fits(given) for each in self.forms]):  # else `out` is refused later
                made |= given
            return {name: {**fields, **made}.get(name) for each in self.forms for name in each.pointers}

        form = next((form for form in self.forms if form.fits(views_of(form))), self.forms[0])
        for name in form.absent(views_of(form)):
            missing = next((a for a in self.spec.arrays if self._field(a) == name), None)
            if missing is not None:
                raise InvalidProblemError(f"{missing.name} is None, but is needed")
        return form

    # --- operands ---------------------------------------------------------------------------------------------------

    def _targets(self, form: Form, meta: CallMeta) -> list[TensorRef | None]:
        """Views of the results: of the caller's `out`, checked, or of results to be allocated."""
        found: list[TensorRef | None] = []
        written, scattered = self._written(), ""
        for output, wanted, out in zip(self.spec.outputs, self.wanted, self.outs):
            field, shape = self._field(output), meta.shapes[output.pointer]
            if output not in written:
                found.append(None)
            elif out is _NEW or not wanted:
                found.append(TensorRef(EMPTY_ADDRESS, shape, form.kinds(field)[0]))
            elif type(out) in SCALARS:
                raise InvalidProblemError(f"out is {out!r}, must be an array")
            else:
                view, name = _framework(out).view(out, "out"), "out" if len(self.spec.outputs) == 1 else output.name
                if output.pointer in meta.exact_axis:
                    view = _leading_part(view, shape, meta.exact_axis[output.pointer])
                strided = form.is_strided(form.pointers[field])
                operand = Operand(name, shape, "the result's", form.kinds(field), True, True, False, None, ())
                check_view(operand, view, self.library.backend)
                if not strided and not view.is_dense:
                    scattered = f"{name} has strides {view.strides} for shape {view.shape}, must be contiguous"
                found.append(view)
        if self.has_out:
            self._check_overlaps(form, meta, found)
        if scattered:
            self._refuse_strides(form, scattered)
        return found

    def _refuse_strides(self, form: Form, text: str) -> None:
        """Raise for strides of a result. Ops that read or keep elements of a result cannot write to a copy instead."""
        is_inout = self.spec.fixed.get("beta") != "0" and any(p.direction == "inout" for p in form.pointers.values())
        raise (UnsupportedError if is_inout else StridesError)(text)

    def _check_overlaps(self, form: Form, meta: CallMeta, targets: Sequence[TensorRef | None]) -> None:
        """Results must not overlap inputs, unless the op can work in place."""
        operands, views = [], {}
        inputs = [a for a in self.spec.arrays if a.pointer and a.name not in self.literals]
        read = [(argument, self.views[argument.name], False) for argument in inputs]
        written = [(output, target, True) for output, target in zip(self.spec.outputs, targets)]
        for argument, view, output in [*read, *written]:
            label = argument.name if not output or len(targets) > 1 else "out"
            may_be = tuple([self.spec.names[p] for p in form.row.in_place.get(argument.pointer, ())
                            if p in self.spec.names]) if output else ()  # fmt: skip
            operands.append(Operand(label, (), "", (), output, True, True, None, may_be))
            views[label] = view

        def may_coincide(output: str, other: str, views: Mapping[str, TensorRef | None]) -> bool:
            first, second = views[output], views[other]
            argument = next(a for a in inputs if a.name == other)
            full = meta.extents[argument.pointer]
            return first is not None and second is not None and identical(first, second) and first.shape == full

        check_overlaps(operands, views, may_coincide)

    def _operands(self, form: Form, meta: CallMeta, targets: Sequence[TensorRef | None]) -> dict[str, TensorRef | None]:
        """Views of all operands by their names in the form, in the shapes that the op takes."""
        given = {self._field(a): (a, self.views[a.name]) for a in self.spec.arrays if a.pointer}
        given |= {self._field(o): (o, target) for o, target in zip(self.spec.outputs, targets)}
        for extra in self.spec.unreturned_outputs:
            fresh = TensorRef(EMPTY_ADDRESS, meta.shapes[extra.pointer], form.kinds(self._field(extra))[0])
            given[self._field(extra)] = (extra, fresh)
        self.copies: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        views: dict[str, TensorRef | None] = {}
        for name, pointer in form.pointers.items():
            argument, view = given.get(name, (None, None))
            if view is None or argument is None:
                views[name] = None
                continue
            view = with_nonzero_strides(view)
            extents, view_as = meta.extents[pointer.name], meta.op_views.get(pointer.name)
            strided = form.is_strided(pointer)
            if view_as is None:
                padded = prepend_axes(view, len(extents))
                op_view = padded if strided or padded.is_dense else None
            else:
                padded, op_view = view, view_as(view)
            if op_view is None and pointer.is_output:
                text = f"{argument.name} of shape {view.shape} cannot be written in row-major order"
                self._refuse_strides(form, text)
            if op_view is None:
                op_view = self._view_of_copy(argument, pointer, view, padded, meta)
            padded = op_view
            if not self._matches(padded, extents, strided):
                raise InvalidProblemError(f"{argument.name} has shape {view.shape}, expected {extents}")
            views[name] = padded
        return views

    def _view_of_copy(
        self, argument: Argument, pointer: Param, view: TensorRef, padded: TensorRef, meta: CallMeta
    ) -> TensorRef:
        """The op's view of a row-major copy of an input, broadcast first if the op cannot read it otherwise."""
        view_as, extents = meta.op_views.get(pointer.name), meta.extents[pointer.name]

        def op_view_of(shape: tuple[int, ...]) -> TensorRef | None:
            order = meta.copy_orders.get(pointer.name, tuple(range(len(shape))))
            self.copies[argument.name] = order, shape
            if view_as is None:
                return TensorRef(view.ptr, padded.shape, view.dtype, device=view.device)
            ordered = extents if pointer.name in meta.copy_orders else tuple([shape[a] for a in order])
            dense = with_nonzero_strides(TensorRef(view.ptr, ordered, view.dtype, device=view.device))
            return dense if pointer.name in meta.copy_orders else view_as(dense)

        op_view = op_view_of(view.shape)
        if op_view is None and pointer.name in meta.copy_shapes:
            op_view = op_view_of(meta.copy_shapes[pointer.name])
        if op_view is None:
            raise UnsupportedError(f"{argument.name} of shape {view.shape} cannot be read in row-major order")
        return op_view

    def _matches(self, view: TensorRef, extents: tuple[int, ...], may_broadcast: bool) -> bool:
        pairs = zip(view.shape, extents)
        return len(view.shape) == len(extents) and all(
            [have == want or (have == 1 and may_broadcast) for have, want in pairs]
        )

    def _assembled(self, form: Form, op: Op, meta: CallMeta, arguments: tuple[Any, ...]) -> Prepared:
        spec, call, params = self.spec, Prepared(), op.row.params
        pointers_at = [k for k, param in enumerate(params) if param.is_pointer]
        written = self._written()
        names = [a.pointer for a in (*spec.arrays, *spec.outputs, *spec.unreturned_outputs)]
        call.library, call.framework, call.like = self.library, self.framework, self.like_at[0] if self.like_at else 0
        like = None
        call.results = [
            (meta.shapes[o.pointer], self.framework.native(form.kinds(self._field(o))[0], like))
            if o in written else None
            for o in (*spec.outputs, *spec.unreturned_outputs)
        ]  # fmt: skip
        call.wanted = self.wanted
        call.scalars = self.scalars
        positions = {a.name: k for k, a in enumerate(spec.arrays)}
        call.copies = [(positions[name], *copy) for name, copy in self.copies.items()]
        call.trims = self._trims(op.row)
        pointers = [each.pointer for each in (*spec.outputs, *spec.unreturned_outputs)]
        call.fills = [
            (pointers.index(name), positions[what] if isinstance(what, str) else what)
            for name, what in meta.fills.items()
            if name in pointers
        ]
        writes_in_part = bool(op.row.leaves) or any([param.direction == "inout" for param in op.row.params])
        call.clears = not self.has_out and writes_in_part
        call.slots = [names.index(params[k].name) if params[k].name in names else len(names) for k in pointers_at]
        call.row, call.names = op.row, spec.names
        call.function, call.symbol = self.library.function(op.name), symbol_name(op.name)
        call.order = tuple([pointers_at.index(k) if k in pointers_at else -1 for k in range(len(params))])
        call.constants = [argument for k, argument in enumerate(arguments) if k not in pointers_at]
        call.workspace = 0
        if op.row.workspace:
            problem = op.row.problem_arguments(arguments)
            call.workspace = int(self.library.function(op.name, "workspace_size")(*problem))
        on_cpu = self.library.backend == "cpu"
        call.is_plain = (
            not (call.copies or call.trims or call.fills)
            and bool(self.like_at)
            and (on_cpu or bool(self.framework.stream_now))
        )
        return call

    def _trims(self, row: Row) -> list[tuple[int, int]]:
        """NumPy results to cut to the number of rows that C counted, unless the caller gave a capacity."""
        capacities = [number.name for number in self.spec.numbers if number.default is None]
        has_capacity = any([self.numbers[name] is not None for name in capacities])
        if self.has_out or has_capacity or self.framework is not NUMPY or not all(self.wanted):
            return []
        positions = {output.pointer: k for k, output in enumerate(self.spec.outputs)}
        return [(positions[name], positions[counter]) for name, counter in row.leaves.items() if counter]


def _order_in_table(name: str) -> tuple[int, ...]:
    """Positions of the index dtypes of an op in its row: the first one is the default of results."""
    op = ops()[name]
    return tuple([op.row.slots[slot].index(dtype) for slot, dtype in zip(op.row.slots, op.dtypes) if slot in "IO"])


def _leading_part(view: TensorRef, shape: tuple[int, ...], axis: int) -> TensorRef:
    """The leading part of a longer `out` that the op writes."""
    fits = len(view.shape) == len(shape) and all([have >= want for have, want in zip(view.shape, shape)])
    return as_strided(view, shape, view.strides) if fits and view.shape[axis] == shape[axis] else view


def _framework(array: Any) -> Framework:
    found = framework_of(array)
    assert found is not None
    return found

"""Calls of a function: the first one of its kind is checked and prepared, all others fill in addresses.

Of its kind means: dtypes, shapes, strides and devices of the arrays, and the numbers, are those of an earlier call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from baracuda import _checks
from baracuda._calls import Call, Form, forms_of, op_names
from baracuda._checks import watched_call
from baracuda._functions.arrays import (
    NUMPY,
    POINTERS,
    SCALARS,
    Kind,
    allocated,
    fitting,
    kind_of,
    known,
    library_for,
    result_kind,
    uses_allocator,
)
from baracuda._functions.launch import launcher
from baracuda._functions.layout import Layout, Scattered, of_rank, settled, viewed
from baracuda._functions.layouts import parameters, solve
from baracuda._functions.prepared import Prepared, canonical, ordered, outer_key
from baracuda._functions.problem import Problem
from baracuda._functions.spec import Argument, Spec
from baracuda._lib import symbol_name
from baracuda._optable import Op, Param, Row
from baracuda._scalars import shown
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError, naming
from baracuda.operands import Operand, check_overlaps, check_view, effective_strides, identical
from baracuda.tensor import EMPTY_ADDRESS, TensorRef, contiguous_stride, tensor

_MOST = 4096  # prepared calls that a function keeps
_PACKED = (ElementKind.S4, ElementKind.U4, ElementKind.BIN)
_SOME = object()


class Function:
    """All calls of one spec."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.launchers: dict[Any, Callable[..., Any]] = {}  # by all that calls without `out` depend on
        self._prepared: dict[Any, Prepared] = {}
        self._single = len(spec.outputs) == 1
        _checks.on_change.append(self.launchers.clear)

    def call(self, key: Any, arrays: tuple[Any, ...], numbers: tuple[Any, ...], out: Any, needs: Any = None) -> Any:
        """The results where no launcher is known for `key`, or none can be: None has a number that is new each time.

        `numbers` are the values of spec.numbers, `out` and `needs` what the caller gave for them.
        """
        given = arrays if out is None else (*arrays, *self._outs(out))
        try:
            whole = (*map(outer_key, given), out is None, needs, *map(canonical, numbers))
            call = self._prepared.get(whole)
        except (KeyError, TypeError):  # a type that is new; a number that cannot be hashed
            whole = call = None
        if whole is None:
            return self._unusual(arrays, numbers, out, needs)
        if call is None:
            try:
                call = self._prepare(given, numbers, out is not None, needs, None)
            except Scattered:
                if out is None:
                    raise
                return self._copied_into(out, self.call(None, arrays, numbers, None, needs))
            keep(self._prepared, whole, call)
        own = call.workspace and uses_allocator()  # a workspace of the caller's allocator
        if call.is_plain and (out is None or self._single) and _checks.active is None and not own:
            launch = launcher(
                self.spec, call, arrays, out,
                lambda *given: self._launch(call, given, None if out is None else given[-1]),
            )  # fmt: skip
            keep(self.launchers, key, launch)
            return launch(*given)
        return self._launch(call, given, out)

    def _launch(self, call: Prepared, given: Sequence[Any], out: Any) -> Any:
        """With numbers for arrays, copies, a workspace, or on a stream."""
        given, kind, like = list(given), call.kind, given[call.like]
        names = [argument.name for argument in self.spec.arrays]
        with naming(self.spec.name), kind.guard(like):
            for position, dtype in call.scalars:
                given[position] = kind.scalar(fitting(names[position], dtype, given[position]), dtype, like)
            for position, order, shape in call.copies:
                given[position] = self._copied(given[position], order, shape)
            skipped = len(self.spec.outputs) if out is not None else 0  # which the caller gave
            made = [result and kind.empty(*result, like) for result in call.results[skipped:]]
            trims = call.trims if _checks.active is None else []  # what is recorded writes to the same memory again
            if call.clears and not trims:
                for result in filter(lambda each: each is not None, made):
                    zero = functools.partial((kind_of(result) or kind).zero, result)
                    zero()
                    if _checks.active is not None:
                        _checks.active.also(zero)
            everything = [*given, *made, None]
            pointers = [POINTERS[type(each)](each) for each in [everything[slot] for slot in call.slots]]
            scratch = self._scratch(call, like)
            ffi = call.library.ffi
            handle = kind.stream(like) if call.library.backend == "cuda" else 0
            scratch_pointer = POINTERS[type(scratch)](scratch)
            tail = () if call.row.is_bare else (scratch_pointer, call.workspace)
            arguments = (*ordered(call, pointers), *tail, ffi.cast("void *", handle))
            if _checks.active is None:
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
        made = [kind.finish(result) if wanted else None for result, wanted in zip(made, call.wanted)]
        return made[0] if self._single else tuple(made)

    def _fill(self, call: Prepared, everything: Sequence[Any]) -> None:
        """Results of a call without elements, of which C writes none."""
        for position, what in call.fills:
            target = everything[len(self.spec.arrays) + position]
            if target is None:
                continue
            kind = kind_of(target) or call.kind
            if isinstance(what, float):
                fill = functools.partial(kind.fill, target, what)
            else:
                fill = functools.partial(kind.copy, target, everything[what])
            fill()
            if _checks.active is not None:
                _checks.active.also(fill)

    def _watched(
        self, call: Prepared, everything: Sequence[Any], scratch: Any, stream: int, arguments: Sequence[Any]
    ) -> int:
        """The C call under a watcher."""
        pointers = [param.name for param in call.row.pointers]
        arrays = [everything[slot] for slot in call.slots]
        views = {
            name: None if array is None else (kind_of(array) or call.kind).view(array, name)
            for name, array in zip(pointers, arrays)
        }
        if _checks.active is not None:
            _checks.active.keep(everything, scratch)
        return watched_call(call.function, call.row, views, call.names, stream, arguments)

    def _copied(self, array: Any, order: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        """An array in row-major order of its axes, for C."""
        kind = result_kind(array)
        whole = array if tuple(array.shape) == shape else kind.spread(array, shape)
        turned = whole if order == tuple(range(len(order))) else kind.turned(whole, order)
        copy = kind.contiguous(turned)
        if _checks.active is not None and copy is not array:
            _checks.active.also(functools.partial(kind.copy, copy, turned))
        return copy

    def _copied_into(self, out: Any, made: Any) -> Any:
        """`out`, after results that were made dense have been copied to its strides."""
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
        return call.kind.bytes(call.workspace, like)

    def _outs(self, out: Any) -> tuple[Any, ...]:
        """What the caller gave for `out`, one for each result."""
        if self._single:
            return (out,)
        if not isinstance(out, (tuple, list)) or len(out) != len(self.spec.outputs):
            names = ", ".join(output.name for output in self.spec.outputs)
            with naming(self.spec.name):
                raise InvalidProblemError(f"out is {shown(out)}, must be a tuple of ({names})")
        return tuple(out)

    def _unusual(self, arrays: tuple[Any, ...], numbers: tuple[Any, ...], out: Any, needs: Any) -> Any:
        """Of arrays that no kind reads directly: each call looks at them anew."""
        if (plain := self._without_scalars(arrays)) is not None:
            return self.call(None, plain, numbers, out, needs)
        with naming(self.spec.name):
            views = [known(array, argument.name) for array, argument in zip(arrays, self.spec.arrays)]
            outs = () if out is None else self._outs(out)
            targets = [known(a, "out" if self._single else o.name) for a, o in zip(outs, self.spec.outputs)]
            first = next((array for array in arrays if array is not None and type(array) not in SCALARS), None)
            kind = NUMPY if first is None else result_kind(first)
        given = (*views, *targets)
        try:
            call = self._prepare(given, numbers, out is not None, needs, kind)
        except Scattered:
            if out is None:
                raise
            return self._copied_into(out, self._unusual(arrays, numbers, None, needs))
        return self._launch(call, given, out)

    def _without_scalars(self, arrays: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """NumPy's scalars beside arrays as the numbers that they are, which take the dtype of the arrays; None where
        there is nothing to change."""
        scalars = [k for k, a in enumerate(self.spec.arrays) if isinstance(arrays[k], np.generic)
                   and self.spec.slot_of(a) == "T"]  # fmt: skip
        others = [a for a in arrays if a is not None and type(a) not in SCALARS and not isinstance(a, np.generic)]
        if not scalars or not others:
            return None
        plain = [each.item() if k in scalars else each for k, each in enumerate(arrays)]
        return tuple(plain) if all([type(plain[k]) in SCALARS for k in scalars]) else None

    # --- the first call of its kind ---------------------------------------------------------------------------------

    def _prepare(
        self, given: Sequence[Any], numbers: tuple[Any, ...], has_out: bool, needs: Any, kind: Kind | None
    ) -> Prepared:
        """By the first row that serves the call without copies of what it reads, else by the first that serves it."""
        with naming(self.spec.name):
            if not self.spec.others:
                return _Preparation(self.spec, given, numbers, has_out, needs, kind).prepared()
            values = {a.name: value for a, value in zip(self.spec.arrays, given)}
            values |= {n.name: value for n, value in zip(self.spec.numbers, numbers)}
            served, wrong = None, []
            for spec in self.spec.serving(values):
                try:
                    call = _Preparation(spec, given, numbers, has_out, needs, kind).prepared()
                except (InvalidProblemError, UnsupportedError) as error:
                    wrong.insert(0 if spec is self.spec else len(wrong), error)
                    continue
                if not call.copies:
                    return call
                served = served or call
            if served is None:  # a row that has the dtypes knows more of what is wrong than one that has not
                telling = [e for kind in (Scattered, InvalidProblemError) for e in wrong if isinstance(e, kind)]
                raise (telling or wrong)[0]
            return served


def keep(store: dict[Any, Any], key: Any, value: Any) -> None:
    if len(store) >= _MOST:
        store.clear()
    store[key] = value


class _Preparation:
    """Everything that is worked out for a call, with its checks."""

    def __init__(
        self, spec: Spec, given: Sequence[Any], numbers: tuple[Any, ...], has_out: bool, needs: Any, kind: Kind | None
    ) -> None:
        self.spec, count = spec, len(spec.arrays)
        self.numbers = {number.name: value for number, value in zip(spec.numbers, numbers)}
        arrays, self.outs = list(given[:count]), list(given[count:]) if has_out else [_SOME] * len(spec.outputs)
        self.has_out = has_out
        self.likes = [k for k, array in enumerate(arrays) if array is not None and type(array) not in SCALARS]
        self.kind = kind or (_kind(arrays[self.likes[0]]) if self.likes else NUMPY)
        self.wanted = self._wanted(needs)
        self.views: dict[str, TensorRef | None] = {}
        self.numerals: dict[str, Any] = {}  # Python numbers among the arrays
        for argument, array in zip(spec.arrays, arrays):
            if type(array) in SCALARS:
                self.numerals[argument.name] = array
            else:
                self.views[argument.name] = None if array is None else _kind(array).view(array, argument.name)
        self.library = library_for(self._backend())
        self.kind = self.kind.on(self.library.backend)
        self.element = self._element()
        self.forms = forms_of(Problem, self._ops())  # type: ignore[arg-type]
        self.scalars = [
            (k, self._kinds(argument)[0]) for k, argument in enumerate(spec.arrays) if argument.name in self.numerals
        ]
        for k, dtype in self.scalars:
            name = spec.arrays[k].name
            fitting(name, dtype, self.numerals[name])
            self.views[name] = TensorRef(EMPTY_ADDRESS, (), dtype, device=self.library.backend)

    def prepared(self) -> Prepared:
        spec = self.spec
        form = self._form()
        shapes = {a.name: view.shape for a in spec.arrays if (view := self.views[a.name]) is not None}
        layout = solve(spec, shapes, self.numbers)
        targets = self._targets(form, layout)
        views = self._operands(form, layout, targets)
        strides = {name: effective_strides(view.shape, view.strides, layout.extents[pointer.name])
                   for name, pointer in form.pointers.items() if (view := views[name]) is not None}  # fmt: skip
        for name, pointer in form.pointers.items():
            extents = layout.extents[pointer.name]  # of results that are NULL strides are checked as well
            strides.setdefault(name, contiguous_stride(extents) if pointer.is_output else (0,) * len(extents))
        for param in form.row.params:
            if param.role == "stride" and not param.of:  # of the operands that have an axis less
                strides[param.name] = self._of_rows(form, layout)
        if layout.place is not None:
            layout.values |= layout.place({pointer.name: views[name] for name, pointer in form.pointers.items()})
        flat = all([
            (view := views[name]) is None or (view.is_dense and view.shape == layout.extents[pointer.name])
            for name, pointer in form.pointers.items()
        ])  # fmt: skip
        op = form.op if flat or form.strided is None else form.strided
        problem = Problem(self.library, layout, parameters(spec, form.row, self.numbers, self.element, layout.values))
        arguments = Call(problem, op).arguments(views, strides)  # type: ignore[arg-type]
        return self._assembled(form, op, layout, arguments)

    def _of_rows(self, form: Form, layout: Layout) -> tuple[int, ...]:
        return contiguous_stride(next(layout.extents[p.name] for p in form.row.pointers if " 1 along " in p.shape))

    # --- what it is about -------------------------------------------------------------------------------------------

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
        """Whose memory the arrays are in; None where none of them says. Numbers alone become NumPy arrays."""
        if not self.likes:
            return "cpu"
        places = {name: view.device for name, view in self.views.items() if view is not None and view.device}
        if len(set(places.values())) > 1:
            raise InvalidProblemError(", ".join(f"{name} is in {place} memory" for name, place in places.items()))
        return next(iter(places.values()), None)

    def _element(self) -> ElementKind:
        typed = [a.name for a in self.spec.arrays if self.spec.slot_of(a) == "T"]
        if not typed:  # of the results alone
            return as_element(self.numbers["dtype"], "dtype")
        if (view := self.views.get(self._typed())) is not None:
            return view.dtype
        numerals = [self.numerals[name] for name in typed if name in self.numerals]
        if not numerals:
            raise InvalidProblemError(f"{' and '.join(typed)} {'are' if len(typed) > 1 else 'is'} None")
        if self.kind is NUMPY:
            return as_element(np.result_type(*numerals))
        return ElementKind.F32 if any(type(n) is float for n in numerals) else as_element(np.result_type(*numerals))

    def _typed(self) -> str:
        """The array that decides about the dtype: the first one, of those that are read if there is one. Or none."""
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
            return found
        if is_chosen and symbol in spec.own_dtypes:
            targets = [d for d in spec.row.slots["U"] if op_names(spec.patterns, "", symbol, d)]
            raise UnsupportedError(f"dtype is {output}, must be one of {', '.join(targets)}")
        name = next((f"{a.name} has dtype" for a in spec.arrays if self.spec.slot_of(a) == "T"), "dtype is")
        raise UnsupportedError(f"{name} {symbol}, must be one of {', '.join(spec.dtypes)}")

    def _written(self) -> list[Argument]:
        """What C writes: the results that are wanted, and what it must write besides."""
        required = {param.name for param in self.spec.row.params if param.is_output and param.is_required}
        named = [out for out, wanted in zip(self.spec.outputs, self.wanted) if wanted or out.pointer in required]
        return [*named, *self.spec.unnamed]

    def _field(self, argument: Argument) -> str:
        """Name of an operand among those of a form."""
        return self.forms[0].names.get(argument.pointer, "") if argument.pointer else ""

    def _kinds(self, argument: Argument) -> tuple[ElementKind, ...]:
        field = self._field(argument)
        found = dict.fromkeys(kind for form in self.forms for kind in form.kinds(field))
        return tuple(found) or (self.element,)

    def _form(self) -> Form:
        """The op that takes the dtypes of the arrays, all that it reads being there."""
        for argument in self.spec.arrays:
            view = self.views[argument.name]
            if argument.pointer and view is not None and view.dtype not in self._kinds(argument):
                wanted = " or ".join(map(str, self._kinds(argument)))
                first = self._typed() if self.spec.slot_of(argument) == "T" else ""
                of = f", that of {first}: bk.cast converts" if first not in ("", argument.name) else ""
                raise InvalidProblemError(f"{argument.name} has dtype {view.dtype}, expected {wanted}{of}")
        fields = {self._field(a): self.views[a.name] for a in self.spec.arrays if a.pointer}
        written = [self._field(out) for out in self._written()]

        def views_of(form: Form) -> dict[str, TensorRef | None]:
            made = {name: TensorRef(EMPTY_ADDRESS, (), form.kinds(name)[0]) for name in written}
            return {name: {**fields, **made}.get(name) for each in self.forms for name in each.pointers}

        form = next((form for form in self.forms if form.fits(views_of(form))), self.forms[0])
        for name in form.absent(views_of(form)):
            argument = next((a for a in self.spec.arrays if self._field(a) == name), None)
            if argument is not None:
                raise InvalidProblemError(f"{argument.name} is None, but is needed")
        return form

    # --- operands ---------------------------------------------------------------------------------------------------

    def _targets(self, form: Form, layout: Layout) -> list[TensorRef | None]:
        """Views of the results: of what the caller gave, checked, or of what will be allocated."""
        found: list[TensorRef | None] = []
        written, scattered = self._written(), ""
        for output, wanted, out in zip(self.spec.outputs, self.wanted, self.outs):
            field, shape = self._field(output), layout.shapes[output.pointer]
            if output not in written:
                found.append(None)
            elif out is _SOME or not wanted:
                found.append(TensorRef(EMPTY_ADDRESS, shape, form.kinds(field)[0]))
            elif type(out) in SCALARS:
                raise InvalidProblemError(f"out is {out!r}, must be an array")
            else:
                view, name = _kind(out).view(out, "out"), "out" if len(self.spec.outputs) == 1 else output.name
                if output.pointer in layout.larger:
                    view = _beginning(view, shape, layout.larger[output.pointer])
                strided = form.is_strided(form.pointers[field])
                operand = Operand(name, shape, "the result's", form.kinds(field), True, True, False, None, ())
                check_view(operand, view, self.library.backend)
                if not strided and not view.is_dense:
                    scattered = f"{name} has strides {view.strides} for shape {view.shape}, must be contiguous"
                found.append(view)
        if self.has_out:
            self._check_overlaps(form, layout, found)
        if scattered:
            self._refuse_strides(form, scattered)
        return found

    def _refuse_strides(self, form: Form, text: str) -> None:
        """Of a result; that of an op which adds to what is there, or leaves some of it, cannot be a copy."""
        keeps = self.spec.fixed.get("beta") != "0" and any(p.direction == "inout" for p in form.pointers.values())
        raise (UnsupportedError if keeps else Scattered)(text)

    def _check_overlaps(self, form: Form, layout: Layout, targets: Sequence[TensorRef | None]) -> None:
        """Results share no memory with what is read, unless the op allows them to be it."""
        operands, views = [], {}
        inputs = [a for a in self.spec.arrays if a.pointer and a.name not in self.numerals]
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
            whole = layout.extents[argument.pointer]
            return first is not None and second is not None and identical(first, second) and first.shape == whole

        check_overlaps(operands, views, may_coincide)

    def _operands(self, form: Form, layout: Layout, targets: Sequence[TensorRef | None]) -> dict[str, TensorRef | None]:
        """Views of all operands by their names in the form, of the rank that the op sees."""
        given = {self._field(a): (a, self.views[a.name]) for a in self.spec.arrays if a.pointer}
        given |= {self._field(o): (o, target) for o, target in zip(self.spec.outputs, targets)}
        for extra in self.spec.unnamed:
            fresh = TensorRef(EMPTY_ADDRESS, layout.shapes[extra.pointer], form.kinds(self._field(extra))[0])
            given[self._field(extra)] = (extra, fresh)
        self.copies: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        views: dict[str, TensorRef | None] = {}
        for name, pointer in form.pointers.items():
            argument, view = given.get(name, (None, None))
            if view is None or argument is None:
                views[name] = None
                continue
            view = settled(view)
            extents, see = layout.extents[pointer.name], layout.seen.get(pointer.name)
            strided = form.is_strided(pointer)
            if see is None:
                padded = of_rank(view, len(extents))
                seen = padded if strided or padded.is_dense else None
            else:
                padded, seen = view, see(view)
            if seen is None and pointer.is_output:
                text = f"{argument.name} of shape {view.shape} cannot be written in row-major order"
                self._refuse_strides(form, text)
            if seen is None:
                seen = self._seen_of_copy(argument, pointer, view, padded, layout)
            padded = seen
            if not self._matches(padded, extents, strided):
                raise InvalidProblemError(f"{argument.name} has shape {view.shape}, expected {extents}")
            views[name] = padded
        return views

    def _seen_of_copy(
        self, argument: Argument, pointer: Param, view: TensorRef, padded: TensorRef, layout: Layout
    ) -> TensorRef:
        """What the op sees of a copy in row-major order, broadcast to more axes where it does not do without."""
        see, extents = layout.seen.get(pointer.name), layout.extents[pointer.name]

        def seen_of(shape: tuple[int, ...]) -> TensorRef | None:
            order = layout.orders.get(pointer.name, tuple(range(len(shape))))
            self.copies[argument.name] = order, shape
            if see is None:
                return TensorRef(view.ptr, padded.shape, view.dtype, device=view.device)
            ordered = extents if pointer.name in layout.orders else tuple([shape[a] for a in order])
            dense = settled(TensorRef(view.ptr, ordered, view.dtype, device=view.device))
            return dense if pointer.name in layout.orders else see(dense)

        seen = seen_of(view.shape)
        if seen is None and pointer.name in layout.spreads:
            seen = seen_of(layout.spreads[pointer.name])
        if seen is None:
            raise UnsupportedError(f"{argument.name} of shape {view.shape} cannot be read in row-major order")
        return seen

    def _matches(self, view: TensorRef, extents: tuple[int, ...], may_broadcast: bool) -> bool:
        pairs = zip(view.shape, extents)
        return len(view.shape) == len(extents) and all(
            [have == want or (have == 1 and may_broadcast) for have, want in pairs]
        )

    def _assembled(self, form: Form, op: Op, layout: Layout, arguments: tuple[Any, ...]) -> Prepared:
        spec, call, params = self.spec, Prepared(), op.row.params
        places = [k for k, param in enumerate(params) if param.is_pointer]
        written = self._written()
        names = [a.pointer for a in (*spec.arrays, *spec.outputs, *spec.unnamed)]
        call.library, call.kind, call.like = self.library, self.kind, self.likes[0] if self.likes else 0
        like = None
        call.results = [
            (layout.shapes[o.pointer], self.kind.native(form.kinds(self._field(o))[0], like)) if o in written else None
            for o in (*spec.outputs, *spec.unnamed)
        ]  # fmt: skip
        call.wanted = self.wanted
        call.scalars = self.scalars
        positions = {a.name: k for k, a in enumerate(spec.arrays)}
        call.copies = [(positions[name], *copy) for name, copy in self.copies.items()]
        call.trims = self._trims(op.row)
        pointers = [each.pointer for each in (*spec.outputs, *spec.unnamed)]
        call.fills = [(pointers.index(name), positions.get(what, what)) for name, what in layout.fills.items()
                      if name in pointers]  # fmt: skip
        has_rest = bool(op.row.leaves) or any([param.direction == "inout" for param in op.row.params])
        call.clears = not self.has_out and has_rest
        call.slots = [names.index(params[k].name) if params[k].name in names else len(names) for k in places]
        call.row, call.names = op.row, spec.names
        call.function, call.symbol = self.library.function(op.name), symbol_name(op.name)
        call.order = tuple([places.index(k) if k in places else -1 for k in range(len(params))])
        call.constants = [argument for k, argument in enumerate(arguments) if k not in places]
        call.workspace = 0
        if op.row.workspace:
            problem = op.row.problem_arguments(arguments)
            call.workspace = int(self.library.function(op.name, "workspace_size")(*problem))
        on_cpu = self.library.backend == "cpu"
        call.is_plain = (
            not (call.copies or call.trims or call.fills)
            and bool(self.likes)
            and (on_cpu or bool(self.kind.stream_now))
        )
        return call

    def _trims(self, row: Row) -> list[tuple[int, int]]:
        """NumPy's results are cut to the rows that there are, unless the caller said for how many there is room."""
        has_room = any([value is not None for value in self.numbers.values()])
        if self.has_out or has_room or self.kind is not NUMPY or not all(self.wanted):
            return []
        places = {output.pointer: k for k, output in enumerate(self.spec.outputs)}
        return [(places[name], places[counter]) for name, counter in row.leaves.items() if counter]


def output_of(row: Row) -> ElementKind:
    """What U is where the caller has no choice: i64 of places, f64 of the mean of integers."""
    return ElementKind.F64 if "f64" in row.slots.get("U", ()) else ElementKind.I64


def _beginning(view: TensorRef, shape: tuple[int, ...], axis: int) -> TensorRef:
    """As much of a longer result as the op sees."""
    fits = len(view.shape) == len(shape) and all([have >= want for have, want in zip(view.shape, shape)])
    return viewed(view, shape, view.strides) if fits and view.shape[axis] == shape[axis] else view


def _kind(array: Any) -> Kind:
    found = kind_of(array)
    assert found is not None
    return found

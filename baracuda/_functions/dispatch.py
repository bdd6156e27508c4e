"""Calls of a function: the first one of its kind is checked and prepared, all others fill in addresses.

Of its kind means: dtypes, shapes, strides and devices of the arrays, and the numbers, are those of an earlier call.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from baracuda import _checks
from baracuda._calls import Call, Form, forms_of, op_names
from baracuda._checks import watched_call
from baracuda._functions.arrays import (
    KEYS,
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
from baracuda._functions.layouts import Layout, parameters, solve
from baracuda._functions.spec import Argument, Spec
from baracuda._lib import Library, symbol_name
from baracuda._optable import Op, Row
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError, naming
from baracuda.operands import Operand, check_overlaps, check_view, effective_strides, identical
from baracuda.tensor import EMPTY_ADDRESS, TensorRef

_MOST = 4096  # prepared calls that a function keeps
_PACKED = (ElementKind.S4, ElementKind.U4, ElementKind.BIN)
_SOME = object()


class Prepared:
    """A checked call: its C function and arguments but for the addresses, and how results are made."""

    __slots__ = (
        "clears", "copies", "function", "head", "is_plain", "kind", "library", "like", "results", "row", "scalars",
        "slots", "symbol", "tail", "workspace",
    )  # fmt: skip

    library: Library
    row: Row
    kind: Kind  # of the results
    like: int  # the array beside which they are made
    results: list[tuple[tuple[int, ...], Any] | None]  # shape and native dtype; None for one that is not wanted
    scalars: list[tuple[int, ElementKind]]  # positions of Python numbers among the arrays, and what they become
    copies: list[int]  # positions of arrays that C wants in row-major order
    clears: bool  # whether results are cleared first, to be added to
    slots: list[int]  # of each C pointer, its position among arrays, results, and None
    is_plain: bool  # nothing but addresses is left for a launch
    workspace: int


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
            call = self._prepare(given, numbers, out is not None, needs, None)
            _keep(self._prepared, whole, call)
        if call.is_plain and (out is None or self._single) and _checks.active is None:
            launch = launcher(
                self.spec, call, arrays, out,
                lambda *given: self._launch(call, given, None if out is None else given[-1]),
            )  # fmt: skip
            _keep(self.launchers, key, launch)
            return launch(*given)
        return self._launch(call, given, out)

    def _launch(self, call: Prepared, given: Sequence[Any], out: Any) -> Any:
        """With numbers for arrays, copies, a workspace, or on a stream."""
        given, kind, like = list(given), call.kind, given[call.like]
        names = [argument.name for argument in self.spec.arrays]
        with naming(self.spec.name), kind.guard(like):
            for position, dtype in call.scalars:
                given[position] = kind.scalar(fitting(names[position], dtype, given[position]), dtype, like)
            for position in call.copies:
                given[position] = self._copied(given[position])
            made = [] if out is not None else [result and kind.empty(*result, like) for result in call.results]
            if call.clears:
                for result in made:
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
            arguments = (
                *call.head, *pointers, *call.tail, scratch_pointer, call.workspace, ffi.cast("void *", handle)
            )  # fmt: skip
            if _checks.active is None:
                status = call.function(*arguments)
            else:
                status = self._watched(call, everything, scratch, handle, arguments)
            if status:
                call.library.check(call.symbol, status)
        if out is not None:
            return out
        made = [None if result is None else kind.finish(result) for result in made]
        return made[0] if self._single else tuple(made)

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
        return watched_call(call.function, call.row, views, self.spec.names, stream, arguments)

    def _copied(self, array: Any) -> Any:
        """An array in row-major order, for C."""
        kind = result_kind(array)
        copy = kind.contiguous(array)
        if _checks.active is not None and copy is not array:
            _checks.active.also(functools.partial(kind.copy, copy, array))
        return copy

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
                raise InvalidProblemError(f"out is {out!r:.80}, must be a tuple of ({names})")
        return tuple(out)

    def _unusual(self, arrays: tuple[Any, ...], numbers: tuple[Any, ...], out: Any, needs: Any) -> Any:
        """Of arrays that no kind reads directly: each call looks at them anew."""
        with naming(self.spec.name):
            views = [known(array, argument.name) for array, argument in zip(arrays, self.spec.arrays)]
            outs = () if out is None else self._outs(out)
            targets = [known(array, output.name) for array, output in zip(outs, self.spec.outputs)]
            first = next((array for array in arrays if array is not None and type(array) not in SCALARS), None)
            kind = NUMPY if first is None else result_kind(first)
        given = (*views, *targets)
        call = self._prepare(given, numbers, out is not None, needs, kind)
        return self._launch(call, given, out)

    # --- the first call of its kind ---------------------------------------------------------------------------------

    def _prepare(
        self, given: Sequence[Any], numbers: tuple[Any, ...], has_out: bool, needs: Any, kind: Kind | None
    ) -> Prepared:
        with naming(self.spec.name):
            return _Preparation(self.spec, given, numbers, has_out, needs, kind).prepared()


def outer_key(array: Any) -> Any:
    """What of an array a call depends on, also where it is written."""
    key = KEYS[type(array)](array)
    return (key, array.flags.writeable) if type(array) is np.ndarray else key


def _keep(store: dict[Any, Any], key: Any, value: Any) -> None:
    if len(store) >= _MOST:
        store.clear()
    store[key] = value


class _Problem:
    """What `Call` asks a plan for."""

    names: Mapping[str, str] = {}

    def __init__(self, library: Library, layout: Layout, numbers: Mapping[str, Any]) -> None:
        self.library, self.parameters, self._layout = library, numbers, layout
        self.descriptor = types.SimpleNamespace(**layout.values)

    def layout(self, name: str, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Weights, of which C wants the strides as broadcast to the shape."""
        axis = self._layout.channel_axis
        if axis is None or name not in ("weight", "dweight"):
            return strides
        return tuple([strides[0] if d == axis else 0 for d in range(self.descriptor.rank)])

    def offset(self, strides: tuple[int, ...]) -> int:
        axis = self._layout.offset_axis
        if axis is None:
            return 0
        halves = getattr(self.descriptor, "output_shape", None)  # of gated operands
        return strides[axis] if halves is None else int(halves[axis] * strides[axis])


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
        self.element = self._element()
        self.forms = forms_of(_Problem, self._ops())  # type: ignore[arg-type]
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
            strides.setdefault(name, (0,) * len(layout.extents[pointer.name]))
        flat = all([
            (view := views[name]) is None or (view.is_dense and view.shape == layout.extents[pointer.name])
            for name, pointer in form.pointers.items()
        ])  # fmt: skip
        op = form.op if flat or form.strided is None else form.strided
        problem = _Problem(self.library, layout, parameters(spec, self.numbers, self.element, layout.values))
        arguments = Call(problem, op).arguments(views, strides)  # type: ignore[arg-type]
        return self._assembled(form, op, layout, arguments)

    # --- what it is about -------------------------------------------------------------------------------------------

    def _wanted(self, needs: Any) -> list[bool]:
        outputs = self.spec.outputs
        wanted = [out is not None for out in self.outs]
        if needs is not None:
            if not isinstance(needs, (tuple, list)) or len(needs) != len(outputs):
                raise InvalidProblemError(f"needs is {needs!r}, must be {len(outputs)} bools")
            wanted = [bool(need) and there for need, there in zip(needs, wanted)]
        if not any(wanted):
            raise InvalidProblemError("no result is wanted")
        return wanted

    def _backend(self) -> str | None:
        places = {name: view.device for name, view in self.views.items() if view is not None and view.device}
        if len(set(places.values())) > 1:
            raise InvalidProblemError(", ".join(f"{name} is in {place} memory" for name, place in places.items()))
        return next(iter(places.values()), None)

    def _slot(self, argument: Argument) -> str:
        """What the row says of an operand's dtype: "T", "i32"."""
        found = [p.dtype for p in self.spec.row.params if argument.pointer and p.name == argument.pointer]
        return found[0] if found else "T"

    def _element(self) -> ElementKind:
        typed = [a.name for a in self.spec.arrays if self._slot(a) == "T"]
        for name in sorted(typed, key=lambda name: not self._is_read(name)):
            if (view := self.views.get(name)) is not None:
                return view.dtype
        numerals = [self.numerals[name] for name in typed if name in self.numerals]
        if not numerals:
            raise InvalidProblemError(f"{' and '.join(typed)} {'are' if len(typed) > 1 else 'is'} None")
        if self.kind is NUMPY:
            return as_element(np.result_type(*numerals))
        return ElementKind.F32 if any(type(n) is float for n in numerals) else as_element(np.result_type(*numerals))

    def _is_read(self, name: str) -> bool:
        return any(a.name == name and a.pointer for a in self.spec.arrays)

    def _ops(self) -> tuple[str, ...]:
        spec, output = self.spec, ElementKind.F32
        if "U" in spec.row.slots:
            output = as_element(self.numbers["dtype"], "dtype")
        if self.element in _PACKED or output in _PACKED:
            raise UnsupportedError("4-bit types have no arrays: use CastSubBytePlan")
        for element in (self.element,) if self.element is not ElementKind.F32_STRICT else ():
            if found := op_names(spec.patterns, "", element.symbol, output.symbol):
                return found
        known_kinds = [k for k in ElementKind if k not in _PACKED and op_names(spec.patterns, "", k.symbol, "f32")]
        tokens = ", ".join(dict.fromkeys(k.token for k in known_kinds))
        if "U" in spec.row.slots and self.element in known_kinds:
            raise UnsupportedError(f"dtype is {output}, must be one of {tokens}")
        name = next(a.name for a in spec.arrays if self._slot(a) == "T")
        raise UnsupportedError(f"{name} has dtype {self.element}, must be one of {tokens}")

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
                wanted = " or ".join(kind.token for kind in self._kinds(argument))
                raise InvalidProblemError(f"{argument.name} has dtype {view.dtype}, expected {wanted}")
        fields = {self._field(a): self.views[a.name] for a in self.spec.arrays if a.pointer}
        for out, wanted in zip(self.spec.outputs, self.wanted):
            kinds = self.forms[0].kinds(self._field(out))
            fields[self._field(out)] = TensorRef(EMPTY_ADDRESS, (), kinds[0]) if wanted else None
        views = {name: fields.get(name) for form in self.forms for name in form.pointers}
        form = next((form for form in self.forms if form.fits(views)), self.forms[0])
        for name in form.absent(views):
            argument = next((a for a in self.spec.arrays if self._field(a) == name), None)
            if argument is not None:
                raise InvalidProblemError(f"{argument.name} is None, but is needed")
        return form

    # --- operands ---------------------------------------------------------------------------------------------------

    def _targets(self, form: Form, layout: Layout) -> list[TensorRef | None]:
        """Views of the results: of what the caller gave, checked, or of what will be allocated."""
        found: list[TensorRef | None] = []
        for output, wanted, out in zip(self.spec.outputs, self.wanted, self.outs):
            field, shape = self._field(output), layout.shapes[output.pointer]
            if not wanted:
                found.append(None)
            elif out is _SOME:
                found.append(TensorRef(EMPTY_ADDRESS, shape, form.kinds(field)[0]))
            else:
                view, name = _kind(out).view(out, "out"), "out" if len(self.spec.outputs) == 1 else output.name
                strided = form.strided is not None
                operand = Operand(name, shape, "the result's", form.kinds(field), True, strided, False, None, ())
                check_view(operand, view, self.library.backend)
                found.append(view)
        if self.has_out:
            self._check_overlaps(form, layout, found)
        return found

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
        self.copies: list[str] = []
        views: dict[str, TensorRef | None] = {}
        for name, pointer in form.pointers.items():
            argument, view = given.get(name, (None, None))
            if view is None or argument is None:
                views[name] = None
                continue
            extents = layout.extents[pointer.name]
            padded = _padded(view, len(extents))
            if form.strided is None and not padded.is_dense:
                self.copies.append(argument.name)
                padded = TensorRef(view.ptr, padded.shape, view.dtype, device=view.device)
            if not self._matches(padded, extents, form.strided is not None):
                raise InvalidProblemError(f"{argument.name} has shape {view.shape}, expected {extents}")
            views[name] = padded
        return views

    def _matches(self, view: TensorRef, extents: tuple[int, ...], may_broadcast: bool) -> bool:
        pairs = zip(view.shape, extents)
        return len(view.shape) == len(extents) and all(
            [have == want or (have == 1 and may_broadcast) for have, want in pairs]
        )

    def _assembled(self, form: Form, op: Op, layout: Layout, arguments: tuple[Any, ...]) -> Prepared:
        spec, call, params = self.spec, Prepared(), op.row.params
        places = [k for k, param in enumerate(params) if param.is_pointer]
        assert places == list(range(places[0], places[-1] + 1)), f"{op.name}: pointers are not side by side"
        names = [*[a.pointer for a in spec.arrays], *[o.pointer for o in spec.outputs]]
        call.library, call.kind, call.like = self.library, self.kind, self.likes[0] if self.likes else 0
        like = None
        call.results = [
            (layout.shapes[o.pointer], self.kind.native(form.kinds(self._field(o))[0], like)) if wanted else None
            for o, wanted in zip(spec.outputs, self.wanted)
        ]  # fmt: skip
        call.scalars = self.scalars
        positions = {a.name: k for k, a in enumerate(spec.arrays)}
        call.copies = [positions[name] for name in self.copies]
        call.clears = bool(op.row.accumulates) and not self.has_out
        call.slots = [names.index(params[k].name) if params[k].name in names else len(names) for k in places]
        call.row = op.row
        call.function, call.symbol = self.library.function(op.name), symbol_name(op.name)
        call.head, call.tail = arguments[: places[0]], arguments[places[-1] + 1 :]
        call.workspace = 0
        if op.row.workspace:
            problem = op.row.problem_arguments(arguments)
            call.workspace = int(self.library.function(op.name, "workspace_size")(*problem))
        needs_more = call.workspace or call.copies or call.clears
        on_cpu = self.library.backend == "cpu"
        call.is_plain = (
            not needs_more and bool(self.likes) and (on_cpu or (bool(self.kind.stream_now) and not self.scalars))
        )
        return call


def _kind(array: Any) -> Kind:
    found = kind_of(array)
    assert found is not None
    return found


def _padded(view: TensorRef, rank: int) -> TensorRef:
    """With axes of extent 1 in front."""
    more = rank - len(view.shape)
    if more <= 0:
        return view
    return TensorRef(
        view.ptr, (1,) * more + view.shape, view.dtype, (0,) * more + view.strides, device=view.device,
        readonly=view.readonly,
    )  # fmt: skip


def canonical(number: Any) -> Any:
    """A number as a part of a key: -0.0 is not 0.0, 1.0 and True are not 1, and NaN is itself."""
    if type(number) is int:
        return number
    if type(number) is float and (not number or number != number):
        return repr(number)
    return type(number), number

# SPDX-License-Identifier: Apache-2.0
"""The first call of a signature: checks, the choice of the op, the shapes of results, and C's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baracuda._arrays.frameworks import (
    NUMPY,
    SCALARS,
    Framework,
    checked_scalar,
    framework_of,
    library_for,
)
from baracuda._call.c_call import Call, Form, forms_of, op_names
from baracuda._call.scalars import shown
from baracuda._functions.prepared import Prepared
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
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.operands import Operand, check_overlaps, check_view, effective_strides, identical
from baracuda.tensor import EMPTY_ADDRESS, TensorRef, contiguous_stride

Values = tuple[Any, ...]  # of spec.numbers
_PACKED = (ElementKind.S4, ElementKind.U4, ElementKind.BIN)
_NEW = object()


class Preparation:
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

# SPDX-License-Identifier: Apache-2.0
"""Plans: Descriptor -> select -> run. A family defines Descriptors and the names of its ops; the Args are made from the
rows of the op table.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from baracuda._call import checking, index_checks
from baracuda._call.args_class import args_of, descriptor_of
from baracuda._call.c_call import Call, Form, check_numbers, forms_of, op_names, operands_of, parameters_of
from baracuda._call.checking import watched_call
from baracuda._call.workspace import workspace_view
from baracuda._library.loader import Library, default_library, load, symbol_name
from baracuda._library.machine_code import arch_of
from baracuda._library.op_table import Op
from baracuda.descriptor import Descriptor, product
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError, WorkspaceTooSmallError, naming
from baracuda.guarantee import KernelSku, PlanPreference, PrecisionGuarantee, arithmetic_of, batch_invariance
from baracuda.kinds import BackendKind, MathPrecision, OpCategory
from baracuda.operands import Args, Operand, Views, check_overlaps, check_view, effective_strides, identical, list_of
from baracuda.stream import stream_handle
from baracuda.tensor import TensorRef, contiguous_stride

if TYPE_CHECKING:
    from baracuda._call.cached import CachedCall

P = TypeVar("P", bound="Plan")
_MAX_CACHED = 256  # cached calls of a plan
_HALVES = (ElementKind.F16, ElementKind.BF16)


class Plan:
    """Base of all plans; a subclass sets the class variables. Plans own neither memory nor streams and may be shared
    between threads. A copy is the plan itself; unpickling selects the plan again, on the same library file or else on
    the library of the same backend.
    """

    __slots__ = (
        "_calls", "_checked", "_forms", "_guarantee", "_known", "_needs_workspace", "_reports", "_touched",
        "descriptor", "library", "name", "operands", "parameters", "preference", "workspace_size",
    )  # fmt: skip

    # Name of the ops in the table: {T} is the element, {U} descriptor.output_element, {I} and {O} are the dtypes of
    # indices and offsets, and {kind} is descriptor.kind in lower case, or its `spelling`.
    op: ClassVar[str]
    others: ClassVar[tuple[str, ...]] = ()  # ops for other operands, in order of preference
    spelling: ClassVar[Mapping[int, str]] = {}
    elsewhere: ClassVar[Mapping[int, str]] = {}  # kind -> name of the plan that serves it instead
    rows: ClassVar[tuple[str, ...]] = ()  # rows with the operands, if no row has the name `op`
    category: ClassVar[OpCategory]
    descriptor_type: ClassVar[type[Descriptor]]  # for GemmPlan, the GemmDescriptor of its module
    descriptor_base: ClassVar[type[Descriptor]]  # its base class, if the module defines none
    args_type: ClassVar[type[Args]]  # for GemmPlan, GemmArgs, made from the rows and put into its module
    # Exceptions for fields of Args: "given" has no default, though C takes NULL; "optional" defaults to None, though C
    # needs it; "last" comes after the others.
    fields: ClassVar[Mapping[str, str]] = {}
    # C's names -> those of the descriptor and of Args, if they differ; "row: name" is for one of several ops.
    names: ClassVar[Mapping[str, str]] = {}
    by_width: ClassVar[bool] = False  # the ops copy bytes: operands may have any dtype of the width
    shapes: ClassVar[Mapping[str, str]] = {}  # operand -> attribute of the descriptor with its extents

    descriptor: Any
    preference: PlanPreference
    library: Library
    name: str
    workspace_size: int
    operands: tuple[Operand, ...]  # one for each field of Args, or entry of a list
    parameters: Mapping[str, float | int]  # parameters of the function, by their C names

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "op") and not cls.__name__.startswith("_"):  # an abstract base has no op, or a name like _Base
            cls.descriptor_type = cls.descriptor_base = descriptor_of(cls)
            cls.args_type = args_of(cls)
            setattr(sys.modules[cls.__module__], cls.args_type.__name__, cls.args_type)

    def __init__(self, descriptor: Any, preference: PlanPreference, library: Library) -> None:
        """Use `select`, which checks its arguments."""
        self.descriptor = descriptor
        self.preference = preference
        self.library = library
        self.name = self._readable_name(descriptor)
        plan_type: Any = type(self)  # mypy does not know that classes can be hashed
        self._forms = forms_of(plan_type, self._served())
        self._calls: dict[str, Call] = {}
        self._known: dict[Any, CachedCall] = {}
        self.parameters = parameters_of(self, self._forms[0].op)
        check_numbers(self, self._forms[0].op)
        self.operands = operands_of(self, self._forms)
        self._touched = [o for o in self.operands if o.output or any(form.parameter(o.name) for form in self._forms)]
        for operand in self.operands:
            product(operand.name, (*operand.extents, descriptor.element.itemsize))
        needed, self._needs_workspace = self._choose_workspace()
        self._checked: tuple[index_checks.Checked, ...] = ()  # the checked operands of the last launch
        self._reports = max([index_checks.report_bytes(f.op) for f in self._forms]) if preference.check_indices else 0
        self.workspace_size = needed + self._reports
        if self._reports and self.workspace_size > preference.max_workspace_bytes:
            raise UnsupportedError(
                f"checked indices need {self.workspace_size} workspace bytes, max_workspace_bytes is "
                f"{preference.max_workspace_bytes}"
            )
        self._guarantee = self._precision()

    def __setattr__(self, name: str, value: Any) -> None:
        """Plans are immutable, since calls are cached for them."""
        if not name.startswith("_") and hasattr(self, name):
            raise AttributeError(f"{type(self).__name__}.{name} is read-only: select another plan")
        object.__setattr__(self, name, value)

    @classmethod
    def select(
        cls: type[P],
        stream: object,
        descriptor: Any,
        preference: PlanPreference | None = None,
        *,
        library: Library | None = None,
        backend: str | None = None,
    ) -> P:
        """A plan for `descriptor` on `library`, on the library of `backend`, or on the default one. Host work only.

        InvalidProblemError for a malformed descriptor, UnsupportedError for one that no kernel serves.
        """
        with naming(cls.__name__):
            stream_handle(stream)
            if type(descriptor) is not cls.descriptor_type:  # a gradient's and its op's derive from one another
                raise InvalidProblemError(
                    f"descriptor is of type {type(descriptor).__name__}, must be {cls.descriptor_type.__name__}"
                )
            preference = PlanPreference() if preference is None else preference
            if not isinstance(preference, PlanPreference):
                raise InvalidProblemError(f"preference is {preference!r}, must be a PlanPreference")
            preference.validate()
        with naming(cls._readable_name(descriptor)):
            valid = descriptor.validated()
            if library is None:
                library = default_library() if backend is None else load(backend=backend)
            elif not isinstance(library, Library):
                raise InvalidProblemError(f"library is {library!r}, must be a Library")
            elif backend is not None and not (isinstance(backend, str) and backend == library.backend):
                raise InvalidProblemError(f"backend is {backend!r}, but the library is a {library.backend} library")
            return cls(valid, preference, library)

    @property
    def precision_guarantee(self) -> PrecisionGuarantee:
        return self._guarantee

    @property
    def sku(self) -> KernelSku:
        has_indices = "I" in self._forms[0].row.slots
        return KernelSku(
            category=self.category, op=int(self.kind), element=self.descriptor.element,
            aux_element=ElementKind.I32 if has_indices else getattr(self.descriptor, "output_element", None),
            layout=None, epilogue=None, arch=arch_of(self.library), backend=BackendKind.BESPOKE,
            precision_guarantee=self._guarantee,
        )  # fmt: skip

    @property
    def kind(self) -> int:
        """The op within its category; a class constant if the descriptor has no kind."""
        return int(self.descriptor.kind)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.descriptor} on {self.library.backend}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.descriptor, self.preference, self.library)

    def __copy__(self: P) -> P:
        return self

    def __deepcopy__(self: P, _memo: object) -> P:
        return self

    def can_implement(self, args: Args) -> None:
        """Raise what `run` would raise for these operands; no device work."""
        with naming(self.name):
            op, call = self._operand_call(args)
            function = self.library.function(op.name, "can_implement")
            status = function(*op.row.check_arguments(call))
            self.library.check(symbol_name(op.name, "can_implement"), status)

    def workspace_size_for(self, args: Args) -> int:
        """Workspace bytes of a launch on these operands. They depend on strides, and on axes over which gradients are
        summed; `workspace_size` is for contiguous operands of the descriptor's shapes.
        """
        with naming(self.name):
            return self._workspace_needed(*self._operand_call(args)) + self._reports

    def run(self, stream: object, workspace: object, args: Args) -> None:
        """Enqueue the op. Arguments that are the same objects as in the last run of `args` are not checked again."""
        try:
            plan, seen_stream, seen_workspace, call, symbol, _ = args._bound
        except AttributeError:  # first run; handled outside, so that errors do not chain to this one
            plan = None
        if plan is self and seen_stream is stream and seen_workspace is workspace and checking.active is None:
            if status := call():
                self.library.check(symbol, status)
        else:
            self._first_run(stream, workspace, args)

    def bind(self, stream: object, workspace: object, args: Args) -> Callable[[], None]:
        """Check everything now; the result enqueues the op with one C call, also during graph capture.

        It keeps the operands, the workspace and the stream alive, and cannot be pickled.
        """
        call, symbol, _ = self._prepare(stream, workspace, args)
        check = self.library.check

        def launch() -> None:
            if status := call():
                check(symbol, status)

        launch.operands = (stream, workspace, args)  # type: ignore[attr-defined]
        return launch

    def check(self) -> None:
        """Raise IndexOutOfRangeError for the first invalid index of the last run, after its stream was synchronised.
        Needs PlanPreference(check_indices=True); the report is in the run's workspace.
        """
        if not self.preference.check_indices:
            raise InvalidProblemError(f"{self.name}: preference.check_indices is False, so nothing was checked")
        with naming(self.name):
            index_checks.raise_first(self, self._checked)

    # --- what a family may override ---------------------------------------------------------------------------------

    @property
    def numbers(self) -> Mapping[str, Any]:
        """C's numbers that override those of the descriptor."""
        return {}

    def served_elsewhere(self) -> str:
        """The error text if another plan serves the descriptor; else empty."""
        kind = getattr(self.descriptor, "kind", None)
        if kind is None or kind not in self.elsewhere:
            return ""
        return f"{kind.name} is served by {self.elsewhere[kind]}, not by {type(self).__name__}"

    def views(self, args: Args) -> dict[str, TensorRef | None]:
        """The operands, by name."""
        if not args.lists:
            return {operand.name: getattr(args, operand.name) for operand in self.operands}
        found = {}
        for name in args.__dataclass_fields__:
            value = getattr(args, name)
            if name not in args.lists:
                found[name] = value
                continue
            names = [operand.name for operand in self.operands if list_of(operand.name) == name]
            if not isinstance(value, tuple) or len(value) != len(names):
                have = f"{len(value)} entries" if isinstance(value, tuple) else "no entries"
                raise InvalidProblemError(f"{name} has {have}, must have {len(names)}")
            found |= dict(zip(names, value))
        return found

    def entry_extents(self, name: str) -> tuple[tuple[int, ...], str]:
        """Extents of an entry of a list, and their name in messages."""
        raise NotImplementedError

    def form_for(self, views: Views) -> Form:
        """The first op that takes the views, else the first with their dtypes."""
        fitting = [form for form in self._forms if form.fits(views)]
        return next((form for form in fitting if form.takes(views)), fitting[0])

    def layout(self, name: str, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Strides of an operand as C takes them."""
        return strides

    def offset(self, strides: tuple[int, ...]) -> int:
        """The scalar offset for an operand with these strides, such as that of the second half of a gated input."""
        raise NotImplementedError

    def step(self, name: str, strides: tuple[int, ...]) -> int:
        """The stride of an operand that C takes as the scalar `name`."""
        raise NotImplementedError

    def may_coincide(self, output: str, other: str, views: Views) -> bool:
        """Whether an output may alias an operand in its `may_be`."""
        first, second = views[output], views[other]
        if first is None or second is None or not identical(first, second):
            return False
        if first.shape != next(operand.extents for operand in self.operands if operand.name == output):
            raise InvalidProblemError(f"{output} overlaps {other}, but is a sum over broadcast axes")
        return True

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        """(arithmetic of the kernel, accumulator dtype)"""
        return arithmetic_of(self.descriptor.element)

    # --- selection --------------------------------------------------------------------------------------------------

    @classmethod
    def _readable_name(cls, descriptor: Any) -> str:
        """Name for messages, also for an unchecked descriptor; "op" stands for an invalid kind."""
        fields = dataclasses.fields(descriptor)
        enumerations: dict[str, Any] = {field.name: field.metadata.get("enumeration") for field in fields}
        kind = getattr(descriptor, "kind", None)
        known = kind is not None and isinstance(kind, enumerations.get("kind", enum.IntEnum))
        return (
            cls.op.format(I="", O="", T="", U="", kind=cls._spelled(kind) if known else "op")
            .rstrip("_")
            .replace("__", "_")
        )

    @classmethod
    def _spelled(cls, kind: enum.IntEnum | None) -> str:
        return "" if kind is None else cls.spelling.get(kind, kind.name.lower())

    @classmethod
    def served(
        cls, kind: enum.IntEnum | None, element: ElementKind, output: ElementKind | None = None
    ) -> tuple[str, ...]:
        """The ops in the table for these parameters."""
        symbol = "" if element is ElementKind.F32_STRICT else element.symbol
        return op_names((cls.op, *cls.others), cls._spelled(kind), symbol, "" if output is None else output.symbol)

    def _served(self) -> tuple[str, ...]:
        if reason := self.served_elsewhere():
            raise UnsupportedError(reason)
        kind, output = (getattr(self.descriptor, name, None) for name in ("kind", "output_element"))
        if found := self.served(kind, self.descriptor.element, output):
            return found
        tokens = [element.symbol for element in ElementKind if self.served(kind, element, output)]
        what = f"element is {self.descriptor.element}, must be one of {', '.join(dict.fromkeys(tokens))}"
        no_op = f"{self.name} is no op of this library" if kind is None else f"kind is {kind.name}: no such op"
        raise UnsupportedError(what if tokens else no_op)

    def _choose_workspace(self) -> tuple[int, bool]:
        """(bytes to ask for, whether a run needs them)"""
        row, preference = self._forms[0].row, self.preference
        if row.deterministic == "no" and preference.is_ordered:
            raise UnsupportedError("no deterministic kernel exists")
        if preference.batch_invariant and self._invariance() == "no":
            raise UnsupportedError("no batch-invariant kernel exists")
        changes_result = row.deterministic == "workspace"
        # f32 and f64 default to atomics, which need no workspace; 16-bit atomics would round every addition
        if changes_result and not preference.is_ordered and self.descriptor.element not in _HALVES:
            return 0, False
        needed = max([self._workspace_of(form) for form in self._forms])
        if needed <= preference.max_workspace_bytes:
            return needed, changes_result
        if preference.is_ordered and changes_result:
            raise UnsupportedError(
                f"the deterministic kernel needs {needed} workspace bytes, max_workspace_bytes is "
                f"{preference.max_workspace_bytes}"
            )
        return 0, False

    def _workspace_of(self, form: Form) -> int:
        """Workspace bytes for contiguous operands of the descriptor's shapes."""
        broadcast = any([operand.exact not in (None, operand.extents) for operand in self.operands])
        op = form.strided if broadcast and form.strided is not None else form.op
        if not op.row.workspace:
            return 0
        strides = {}
        for operand in self.operands:
            shape = operand.exact or operand.extents
            strides[operand.name] = effective_strides(shape, contiguous_stride(shape), operand.extents)
        call = self._call(form, strided=broadcast).arguments(dict.fromkeys(strides), strides)
        return int(self.library.function(op.name, "workspace_size")(*op.row.problem_arguments(call)))

    def _precision(self) -> PrecisionGuarantee:
        sums_in_place = self._forms[0].row.deterministic != "yes" and not self._needs_workspace
        stable = not sums_in_place or self.library.backend == "cpu"
        precision, accumulator = self.arithmetic()
        return PrecisionGuarantee(
            math_precision=precision,
            accumulator=self.descriptor.element if sums_in_place else accumulator,
            bit_stable_on_same_hardware=stable,
            deterministic=stable,
            batch_invariant=stable and self._is_batch_invariant(),
        )

    def _invariance(self) -> str:
        row = self._forms[0].row
        return batch_invariance(row.family, row.batch_invariant, self.library.backend)

    def _is_batch_invariant(self) -> bool:
        """Whether the bits of a result row depend on that row's inputs alone, if the launch is deterministic."""
        claim = self._invariance()
        return claim == "yes" or (claim == "preference" and self.preference.batch_invariant)

    # --- launch -----------------------------------------------------------------------------------------------------

    def _first_run(self, stream: object, workspace: object, args: Args) -> None:
        handle = self._handle(stream)
        if checking.active is not None:
            call, symbol, _ = self._prepare(stream, workspace, args)
            self.library.check(symbol, call())
            return
        bound = getattr(args, "_bound", None)
        if bound is not None and bound[0] is self and bound[2] is workspace and bound[5] == handle:
            call, symbol = bound[3], bound[4]  # another object for the same stream
        else:
            call, symbol, handle = self._prepare(stream, workspace, args)
            if workspace is None or isinstance(workspace, (TensorRef, tuple)):  # other objects could change later
                object.__setattr__(args, "_bound", (self, stream, workspace, call, symbol, handle))
        self.library.check(symbol, call())

    def _handle(self, stream: object) -> int:
        if stream is None:
            return 0
        with naming(self.name):
            return stream_handle(stream)

    def _prepare(self, stream: object, workspace: object, args: Args) -> tuple[Callable[[], int], str, int]:
        """(checked C call with its arguments, symbol, stream handle); holds no reference to `args`."""
        handle = self._handle(stream)
        key = self._key(args) if workspace is None and checking.active is None else None
        cached = self._known.get(key)
        if cached is not None and (arguments := cached.arguments(args)) is not None:
            raw_stream = self.library.ffi.cast("void *", handle)
            return functools.partial(cached.function, *arguments, raw_stream), cached.symbol, handle
        with naming(self.name):
            op, call = self._operand_call(args)
            scratch = workspace_view(workspace, self.views(args), self.library.backend)
            raw_stream = self.library.ffi.cast("void *", handle)
            checks: list[Callable[[], int]] = []
            if self._reports:
                address, remaining = index_checks.split(op, scratch)
                checks, checked = index_checks.launches(
                    self, op, call, self.views(args), self._names(op), address, raw_stream, scratch
                )
                scratch = remaining
            pointer, size = self._workspace_arguments(scratch, op, call)
            function = self.library.function(op.name)
        tail = (raw_stream,) if op.row.is_bare else (pointer, size, raw_stream)
        if key is not None:
            from baracuda._call.cached import CachedCall  # imports the generated bindings

            self._known[key] = CachedCall(
                function, symbol_name(op.name), op.row, self._names(op), args, (*call, *tail[:-1])
            )
        if checking.active is not None:
            function = functools.partial(self._watched, function, op, args, workspace, handle)
        launch = functools.partial(function, *call, *tail)
        if checks:
            return index_checks.in_order(self, checks, checked, launch), symbol_name(op.name), handle
        return launch, symbol_name(op.name), handle

    def _key(self, args: Args) -> Any:
        """Cache key: what a call depends on except addresses; None for other types than this plan's Args."""
        if type(args) is not self.args_type or args.lists:
            return None
        if len(self._known) >= _MAX_CACHED:
            self._known.clear()
        views = [getattr(args, operand.name) for operand in self.operands]
        return tuple([None if view is None else (view.sort, view.readonly) for view in views])

    def _names(self, op: Op) -> Mapping[str, str]:
        """Operands of an op: C's names -> those of Args."""
        return next(form.names for form in self._forms if op in (form.op, form.strided))

    def _watched(self, function: Any, op: Op, args: Args, workspace: object, stream: int, *call: Any) -> int:
        """The C call through the active watcher."""
        views = self.views(args)
        names = self._names(op)
        if checking.active is not None:
            checking.active.keep(args, workspace)
        with naming(self.name):
            return watched_call(function, op.row, {c: views[name] for c, name in names.items()}, names, stream, call)

    def _operand_call(self, args: Args) -> tuple[Op, tuple[Any, ...]]:
        """(op, its C arguments up to the workspace), with checked operands."""
        if not isinstance(args, self.args_type):
            raise InvalidProblemError(f"args is of type {type(args).__name__}, must be {self.args_type.__name__}")
        views, strides = self.views(args), {}
        for operand in self.operands:
            view = views[operand.name]
            if view is None:
                strides[operand.name] = contiguous_stride(operand.extents)
            else:
                check_view(operand, view, self.library.backend)
                strides[operand.name] = effective_strides(view.shape, view.strides, operand.extents)
        check_overlaps(self._touched, views, self.may_coincide)
        call = self._call_for(views)
        return call.op, call.arguments(views, strides)

    def _call_for(self, views: Views) -> Call:
        """The call for these views: strided unless all are dense and of full shape."""
        chosen = self.form_for(views)
        chosen.check(views, self)
        dense = [
            (view := views[operand.name]) is None or (view.shape == operand.extents and view.is_dense)
            for operand in self.operands if operand.name in chosen.pointers
        ]  # fmt: skip
        return self._call(chosen, strided=not all(dense))

    def _call(self, form: Form, *, strided: bool) -> Call:
        op = form.strided if strided and form.strided is not None else form.op
        found = self._calls.get(op.name)
        if found is None:
            found = self._calls[op.name] = Call(self, op)
        return found

    def _workspace_arguments(self, view: TensorRef | None, op: Op, call: tuple[Any, ...]) -> tuple[Any, int]:
        """(pointer, bytes) for the C call: NULL and 0 if the launch uses none.

        As in C, 0 bytes mean no workspace, and too few are an error, so that determinism is not lost silently.
        """
        got = 0 if view is None else view.nbytes
        needed = self._workspace_needed(op, call) if got or self._needs_workspace else 0
        if needed > got:
            raise WorkspaceTooSmallError(f"workspace has {got} bytes, needs {needed}", needed=needed, got=got)
        return (self.library.ffi.NULL, 0) if view is None or not needed else (view.pointer, got)

    def _workspace_needed(self, op: Op, call: tuple[Any, ...]) -> int:
        """Workspace bytes of the launch, which may depend on strides; 0 if none, if a workspace would change the chosen
        algorithm, or if the preference allows fewer and the op works without.
        """
        if not op.row.workspace or (op.row.deterministic == "workspace" and not self._needs_workspace):
            return 0
        needed = int(self.library.function(op.name, "workspace_size")(*op.row.problem_arguments(call)))
        return needed if needed <= self.preference.max_workspace_bytes or self._needs_workspace else 0


class ParamPlan(Plan):
    """Base of plans that prefer the op with f64 parameters, if there is one."""

    __slots__ = ()

    @classmethod
    def served(
        cls, kind: enum.IntEnum | None, element: ElementKind, output: ElementKind | None = None
    ) -> tuple[str, ...]:
        found = super().served(kind, element, output)
        narrow = {name.replace("_param_", "_") for name in found if "_param_" in name}
        return tuple([name for name in found if name not in narrow])

"""Plans: Descriptor -> select -> run. A family adds a Descriptor, for all its plans or for each that has more fields,
and the names of its ops; their rows make the Args.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from baracuda import _checks, _index_checks
from baracuda._arch import arch_of
from baracuda._args import args_of, descriptor_of
from baracuda._calls import Call, Form, check_numbers, forms_of, op_names, operands_of, parameters_of
from baracuda._checks import watched_call
from baracuda._lib import Library, default_library, load, symbol_name
from baracuda._optable import Op
from baracuda._scratch import workspace_view
from baracuda.descriptor import Descriptor, product
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError, WorkspaceTooSmallError, naming
from baracuda.guarantee import KernelSku, PlanPreference, PrecisionGuarantee, arithmetic_of
from baracuda.kinds import BackendKind, MathPrecision, OpCategory
from baracuda.operands import Args, Operand, Views, check_overlaps, check_view, effective_strides, identical, list_of
from baracuda.stream import stream_handle
from baracuda.tensor import TensorRef, contiguous_stride

if TYPE_CHECKING:
    from baracuda._known import Known

P = TypeVar("P", bound="Plan")
_MOST_KNOWN = 256  # sorts of operands that a plan keeps the calls of
_HALVES = (ElementKind.F16, ElementKind.BF16)


class Plan:
    """Base. A subclass gives the class variables. Plans hold neither memory nor streams: they may be shared between
    threads, a copy is the plan itself, and a pickled one is selected anew where it arrives, on the same file or else on
    the library of the same backend.
    """

    __slots__ = (
        "_calls", "_checked", "_forms", "_guarantee", "_known", "_needs_workspace", "_reports", "_touched",
        "descriptor", "library", "name", "operands", "parameters", "preference", "workspace_size",
    )  # fmt: skip

    # Name of the ops in the table: "{T}" stands for the element, "{U}" for descriptor.output_element, "{I}" and "{O}"
    # for those of indices and offsets, and "{kind}" for descriptor.kind in lower case, or for its `spelling`.
    op: ClassVar[str]
    others: ClassVar[tuple[str, ...]] = ()  # ops for other operands, in the order of preference
    spelling: ClassVar[Mapping[int, str]] = {}
    elsewhere: ClassVar[Mapping[int, str]] = {}  # kinds that another plan serves, and its name
    rows: ClassVar[tuple[str, ...]] = ()  # rows of the table that have the operands, where `op` is the name of none
    category: ClassVar[OpCategory]
    descriptor_type: ClassVar[type[Descriptor]]  # of GemmPlan the GemmDescriptor of its module
    descriptor_base: ClassVar[type[Descriptor]]  # of which it is made if the module has none; that of the base plan
    args_type: ClassVar[type[Args]]  # of GemmPlan GemmArgs, made of the rows and put into its module
    # Of operands whose place in Args the rows do not tell: "given" has no default, though C takes NULL, "optional" has
    # one, though C does not, "last" stands behind the others.
    fields: ClassVar[Mapping[str, str]] = {}
    # C's -> those of the descriptor and of Args, where they differ; "row: name" is of one of several ops alone.
    names: ClassVar[Mapping[str, str]] = {}
    by_width: ClassVar[bool] = False  # the ops move elements as bytes: operands may be of any dtype of the width
    shapes: ClassVar[Mapping[str, str]] = {}  # attribute of the descriptor, for operands whose extents C computes

    descriptor: Any
    preference: PlanPreference
    library: Library
    name: str
    workspace_size: int
    operands: tuple[Operand, ...]  # one for each field of Args
    parameters: Mapping[str, float | int]  # of the function, by their C names

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "op") and not cls.__name__.startswith("_"):  # a base of several has no op, or a name like _Base
            cls.descriptor_type = cls.descriptor_base = descriptor_of(cls)
            cls.args_type = args_of(cls)
            setattr(sys.modules[cls.__module__], cls.args_type.__name__, cls.args_type)

    def __init__(self, descriptor: Any, preference: PlanPreference, library: Library) -> None:
        """Use `select`, which checks its arguments."""
        self.descriptor = descriptor
        self.preference = preference
        self.library = library
        self.name = self._readable_name(descriptor)
        self._forms = forms_of(type(self), self._served())
        self._calls: dict[str, Call] = {}
        self._known: dict[Any, Known] = {}
        self.parameters = parameters_of(self, self._forms[0].op)
        check_numbers(self, self._forms[0].op)
        self.operands = operands_of(self, self._forms)
        self._touched = [o for o in self.operands if o.output or any(form.parameter(o.name) for form in self._forms)]
        for operand in self.operands:
            product(operand.name, (*operand.extents, descriptor.element.itemsize))
        needed, self._needs_workspace = self._choose_workspace()
        self._checked: tuple[_index_checks.Checked, ...] = ()  # of the last launch
        self._reports = max([_index_checks.report_bytes(f.op) for f in self._forms]) if preference.check_indices else 0
        self.workspace_size = needed + self._reports
        if self._reports and self.workspace_size > preference.max_workspace_bytes:
            raise UnsupportedError(
                f"checked indices need {self.workspace_size} workspace bytes, max_workspace_bytes is "
                f"{preference.max_workspace_bytes}"
            )
        self._guarantee = self._precision()

    def __setattr__(self, name: str, value: Any) -> None:
        """What was selected stays as it is: calls were prepared for it."""
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
        """The op within its category; a constant of the class where the descriptor has none."""
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
        """Bytes of workspace that a launch on these operands takes. `workspace_size` is that of contiguous operands of
        the shapes that the descriptor has: strides change it, and so do axes over which gradients are summed.
        """
        with naming(self.name):
            return self._workspace_needed(*self._operand_call(args)) + self._reports

    def run(self, stream: object, workspace: object, args: Args) -> None:
        """Enqueue the op. Arguments identical (`is`) with those of the last run of `args` are not checked again."""
        try:
            plan, seen_stream, seen_workspace, call, symbol, _ = args._bound
        except AttributeError:  # the first run; over before anything can fail, so that no error has this for a context
            plan = None
        if plan is self and seen_stream is stream and seen_workspace is workspace and _checks.active is None:
            if status := call():
                self.library.check(symbol, status)
        else:
            self._first_run(stream, workspace, args)

    def bind(self, stream: object, workspace: object, args: Args) -> Callable[[], None]:
        """Check everything now; the result enqueues the op with one C call, also inside a graph capture.

        It keeps the operands, the workspace and the stream alive, and cannot be pickled: they are of this process.
        """
        call, symbol, _ = self._prepare(stream, workspace, args)
        check = self.library.check

        def launch() -> None:
            if status := call():
                check(symbol, status)

        launch.operands = (stream, workspace, args)  # type: ignore[attr-defined]
        return launch

    def check(self) -> None:
        """After the stream of the last run has been synchronised: IndexOutOfRangeError for the first index that it
        should not have had. Only of plans whose preference is check_indices; the report lies in the run's workspace.
        """
        if not self.preference.check_indices:
            raise InvalidProblemError(f"{self.name}: preference.check_indices is False, so nothing was checked")
        with naming(self.name):
            _index_checks.raise_first(self, self._checked)

    # --- what a family may override ---------------------------------------------------------------------------------

    @property
    def numbers(self) -> Mapping[str, Any]:
        """C's numbers that are not those of the descriptor of their names."""
        return {}

    def served_elsewhere(self) -> str:
        """Why another plan is the one to take; empty if none is."""
        kind = getattr(self.descriptor, "kind", None)
        if kind not in self.elsewhere:
            return ""
        return f"{kind.name} is served by {self.elsewhere[kind]}, not by {type(self).__name__}"

    def views(self, args: Args) -> dict[str, TensorRef | None]:
        """The operands, by name."""
        if not args.lists:
            return {operand.name: getattr(args, operand.name) for operand in self.operands}
        found = {}
        for name in args.__dataclass_fields__:  # type: ignore[attr-defined]
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
        """Extents of an entry of a list, and what they are called."""
        raise NotImplementedError

    def form_for(self, views: Views) -> Form:
        """The first op that takes the views, or else that has their dtypes."""
        fitting = [form for form in self._forms if form.fits(views)]
        return next((form for form in fitting if form.takes(views)), fitting[0])

    def layout(self, name: str, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Strides of an operand as C has them."""
        return strides

    def offset(self, strides: tuple[int, ...]) -> int:
        """Elements from the first part of an operand with these strides to its second."""
        raise NotImplementedError

    def step(self, name: str, strides: tuple[int, ...]) -> int:
        """The one of an operand's strides that C takes by the name."""
        raise NotImplementedError

    def may_coincide(self, output: str, other: str, views: Views) -> bool:
        """Whether an output may lie on an operand named in its `may_be`, both being present."""
        first, second = views[output], views[other]
        if first is None or second is None or not identical(first, second):
            return False
        if first.shape != next(operand.extents for operand in self.operands if operand.name == output):
            raise InvalidProblemError(f"{output} overlaps {other}, but is a sum over broadcast axes")
        return True

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        """How the kernel computes, and the dtype that results accumulate in."""
        return arithmetic_of(self.descriptor.element)

    # --- selection --------------------------------------------------------------------------------------------------

    @classmethod
    def _readable_name(cls, descriptor: Any) -> str:
        """Name for messages, also before the descriptor is known to be sound: "op" stands for what is no kind."""
        enumerations = {field.name: field.metadata.get("enumeration") for field in dataclasses.fields(descriptor)}
        kind = getattr(descriptor, "kind", None)
        known = kind is not None and isinstance(kind, enumerations.get("kind", enum.IntEnum))
        return cls.op.format(I="", O="", T="", U="", kind=cls._spelled(kind) if known else "op").rstrip("_")

    @classmethod
    def _spelled(cls, kind: enum.IntEnum | None) -> str:
        return "" if kind is None else cls.spelling.get(kind, kind.name.lower())

    @classmethod
    def served(
        cls, kind: enum.IntEnum | None, element: ElementKind, output: ElementKind | None = None
    ) -> tuple[str, ...]:
        """The ops of the table that plans for these stand for."""
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
        """(bytes to ask for, whether a run needs them)."""
        row, preference = self._forms[0].row, self.preference
        if row.deterministic == "no" and preference.deterministic:
            raise UnsupportedError("no deterministic kernel exists")
        changes_result = row.deterministic == "workspace"
        # f32 and f64 default to the atomic path, which needs none; 16-bit atomics would round every addition
        if changes_result and not preference.deterministic and self.descriptor.element not in _HALVES:
            return 0, False
        needed = max([self._workspace_of(form) for form in self._forms])
        if needed <= preference.max_workspace_bytes:
            return needed, changes_result
        if preference.deterministic and changes_result:
            raise UnsupportedError(
                f"the deterministic kernel needs {needed} workspace bytes, max_workspace_bytes is "
                f"{preference.max_workspace_bytes}"
            )
        return 0, False

    def _workspace_of(self, form: Form) -> int:
        """Bytes for contiguous operands of the shapes that the descriptor has."""
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
        )

    # --- launch -----------------------------------------------------------------------------------------------------

    def _first_run(self, stream: object, workspace: object, args: Args) -> None:
        handle = self._handle(stream)
        if _checks.active is not None:
            call, symbol, _ = self._prepare(stream, workspace, args)
            self.library.check(symbol, call())
            return
        bound = getattr(args, "_bound", None)
        if bound is not None and bound[0] is self and bound[2] is workspace and bound[5] == handle:
            call, symbol = bound[3], bound[4]  # another object for the same stream
        else:
            call, symbol, handle = self._prepare(stream, workspace, args)
            if workspace is None or isinstance(workspace, (TensorRef, tuple)):  # others could change under us
                object.__setattr__(args, "_bound", (self, stream, workspace, call, symbol, handle))
        self.library.check(symbol, call())

    def _handle(self, stream: object) -> int:
        if stream is None:
            return 0
        with naming(self.name):
            return stream_handle(stream)

    def _prepare(self, stream: object, workspace: object, args: Args) -> tuple[Callable[[], int], str, int]:
        """(C call with its arguments, symbol, stream handle), everything checked. Holds no reference to `args`."""
        handle = self._handle(stream)
        key = self._key(args) if workspace is None and _checks.active is None else None
        known = self._known.get(key)
        if known is not None and (arguments := known.arguments(args)) is not None:
            raw_stream = self.library.ffi.cast("void *", handle)
            return functools.partial(known.function, *arguments, raw_stream), known.symbol, handle
        with naming(self.name):
            op, call = self._operand_call(args)
            scratch = workspace_view(workspace, self.views(args), self.library.backend)
            raw_stream = self.library.ffi.cast("void *", handle)
            checks: list[Callable[[], int]] = []
            if self._reports:
                address, rest = _index_checks.split(op, scratch)
                checks, checked = _index_checks.launches(
                    self, op, call, self.views(args), self._names(op), address, raw_stream, scratch
                )
                scratch = rest
            pointer, size = self._workspace_arguments(scratch, op, call)
            function = self.library.function(op.name)
        tail = (raw_stream,) if op.row.is_bare else (pointer, size, raw_stream)
        if key is not None:
            from baracuda._known import Known  # which needs the generated bindings

            self._known[key] = Known(function, symbol_name(op.name), op.row, self._names(op), args, (*call, *tail[:-1]))
        if _checks.active is not None:
            function = functools.partial(self._watched, function, op, args, workspace, handle)
        launch = functools.partial(function, *call, *tail)
        if checks:
            return _index_checks.in_order(self, checks, checked, launch), symbol_name(op.name), handle
        return launch, symbol_name(op.name), handle

    def _key(self, args: Args) -> Any:
        """All that a call depends on but the addresses of its operands; None for what is no Args of this plan."""
        if type(args) is not self.args_type or args.lists:
            return None
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        views = [getattr(args, operand.name) for operand in self.operands]
        return tuple([None if view is None else (view.sort, view.readonly) for view in views])

    def _names(self, op: Op) -> Mapping[str, str]:
        """Operands of an op: C's names -> those of Args."""
        return next(form.names for form in self._forms if op in (form.op, form.strided))

    def _watched(self, function: Any, op: Op, args: Args, workspace: object, stream: int, *call: Any) -> int:
        """The C call under a watcher."""
        views = self.views(args)
        names = self._names(op)
        if _checks.active is not None:
            _checks.active.keep(args, workspace)
        with naming(self.name):
            return watched_call(function, op.row, {c: views[name] for c, name in names.items()}, names, stream, call)

    def _operand_call(self, args: Args) -> tuple[Op, tuple[Any, ...]]:
        """(the op, its C arguments up to the workspace), the operands checked."""
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
        """Strided where a view is not the whole of its operand in row-major order."""
        chosen = self.form_for(views)
        chosen.check(views, self)
        whole = [
            (view := views[operand.name]) is None or (view.shape == operand.extents and view.is_dense)
            for operand in self.operands if operand.name in chosen.pointers
        ]  # fmt: skip
        return self._call(chosen, strided=not all(whole))

    def _call(self, form: Form, *, strided: bool) -> Call:
        op = form.strided if strided and form.strided is not None else form.op
        found = self._calls.get(op.name)
        if found is None:
            found = self._calls[op.name] = Call(self, op)
        return found

    def _workspace_arguments(self, view: TensorRef | None, op: Op, call: tuple[Any, ...]) -> tuple[Any, int]:
        """(pointer, bytes) for the C call: NULL and 0 where this launch uses none.

        As in C, no bytes are no workspace, and some that are too few an error: a guarantee is never lost silently.
        """
        got = 0 if view is None else view.nbytes
        needed = self._workspace_needed(op, call) if got or self._needs_workspace else 0
        if needed > got:
            raise WorkspaceTooSmallError(f"workspace has {got} bytes, needs {needed}", needed=needed, got=got)
        return (self.library.ffi.NULL, 0) if view is None or not needed else (view.pointer, got)

    def _workspace_needed(self, op: Op, call: tuple[Any, ...]) -> int:
        """Bytes that the launch takes, which may depend on strides; 0 where none, or where they would change the
        algorithm chosen, or where the preference allows fewer and the op can do without.
        """
        if not op.row.workspace or (op.row.deterministic == "workspace" and not self._needs_workspace):
            return 0
        needed = int(self.library.function(op.name, "workspace_size")(*op.row.problem_arguments(call)))
        return needed if needed <= self.preference.max_workspace_bytes or self._needs_workspace else 0


class ParamPlan(Plan):
    """Base: where an op also takes its parameters as f64, that is the one."""

    __slots__ = ()

    @classmethod
    def served(
        cls, kind: enum.IntEnum | None, element: ElementKind, output: ElementKind | None = None
    ) -> tuple[str, ...]:
        found = super().served(kind, element, output)
        narrow = {name.replace("_param_", "_") for name in found if "_param_" in name}
        return tuple([name for name in found if name not in narrow])

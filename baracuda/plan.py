"""Plans: Descriptor -> select -> run. A family adds a Descriptor, an Args, and a Plan that knows C's argument order."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import enum
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from baracuda._lib import Library, default_library, load, symbol_name
from baracuda._optable import Row, ops
from baracuda._scalars import INT64_MAX, as_integer
from baracuda.descriptor import Descriptor, product
from baracuda.dtypes import ElementKind
from baracuda.errors import BaracudaError, InvalidProblemError, UnsupportedError, WorkspaceTooSmallError
from baracuda.kinds import ArchSku, BackendKind, EpilogueKind, LayoutSku, MathPrecision, OpCategory
from baracuda.operands import (
    Args,
    Operand,
    Views,
    check_overlaps,
    check_reach,
    check_view,
    effective_strides,
    identical,
    overlaps,
)
from baracuda.stream import stream_handle
from baracuda.tensor import TensorRef, contiguous_stride, tensor

P = TypeVar("P", bound="Plan")
_INDEX_SUFFIX = {ElementKind.I32: "", ElementKind.I64: "_i64idx"}
_HALVES = (ElementKind.F16, ElementKind.BF16)
_FORMS = {  # of arithmetic, and the dtype in which results accumulate, where it is not f32
    ElementKind.F64: (MathPrecision.F64, ElementKind.F64),
    ElementKind.S8: (MathPrecision.INT8, ElementKind.S8),
    ElementKind.U8: (MathPrecision.INT8, ElementKind.U8),
    ElementKind.S4: (MathPrecision.INT4, ElementKind.S4),
    ElementKind.U4: (MathPrecision.INT4, ElementKind.U4),
    ElementKind.BOOL: (MathPrecision.BINARY, ElementKind.BOOL),
    ElementKind.FP8_E4M3: (MathPrecision.FP8_E4M3, ElementKind.FP8_E4M3),
    ElementKind.FP8_E5M2: (MathPrecision.FP8_E5M2, ElementKind.FP8_E5M2),
}
_SIZE_MAX = 2**64 - 1


@dataclasses.dataclass(frozen=True)
class PlanPreference:
    """What to favour when several kernels do the same.

    max_workspace_bytes  a plan never asks for more
    allow_sm90a          read by GEMM plans only
    prefer_backend       read by GEMM and attention plans only
    deterministic        bit-identical results on every run, or UnsupportedError from `select`
    """

    max_workspace_bytes: int = sys.maxsize
    allow_sm90a: bool = True
    prefer_backend: BackendKind | None = None
    deterministic: bool = False

    def validate(self) -> None:
        as_integer("preference.max_workspace_bytes", self.max_workspace_bytes, 0, _SIZE_MAX)
        for name in ("allow_sm90a", "deterministic"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidProblemError(f"preference.{name} is {getattr(self, name)!r}, must be a bool")
        if self.prefer_backend is not None and not isinstance(self.prefer_backend, BackendKind):
            raise InvalidProblemError(f"preference.prefer_backend is {self.prefer_backend!r}, must be a BackendKind")


@dataclasses.dataclass(frozen=True)
class PrecisionGuarantee:
    """What the chosen kernel does, on the library that it was chosen from."""

    math_precision: MathPrecision
    accumulator: ElementKind
    bit_stable_on_same_hardware: bool
    deterministic: bool


@dataclasses.dataclass(frozen=True)
class KernelSku:
    """Identity of the chosen kernel; `op` is the kind within the category, `arch` None on the CPU."""

    category: OpCategory
    op: int
    element: ElementKind
    aux_element: ElementKind | None
    layout: LayoutSku | None
    epilogue: EpilogueKind | None
    arch: ArchSku | None
    backend: BackendKind
    precision_guarantee: PrecisionGuarantee


class Plan(abc.ABC):
    """Base. A subclass gives the class variables and overrides what its C functions do otherwise. Plans hold neither
    memory nor streams: they may be shared between threads, a copy is the plan itself, and a pickled one is selected
    anew where it arrives, on the same file or else on the library of the same backend.
    """

    __slots__ = (
        "_guarantee", "_needs_workspace", "_problem", "_symbols", "descriptor", "library", "name", "preference",
        "workspace_size",
    )  # fmt: skip

    # Row of the op table: "{T}" stands for the element, "{U}" for descriptor.output_element, "{I}" for what `selector`
    # says and "{kind}" for descriptor.kind in lower case, or for its `spelling`.
    op: ClassVar[str]
    spelling: ClassVar[Mapping[int, str]] = {}
    category: ClassVar[OpCategory]
    descriptor_type: ClassVar[type[Descriptor]]
    args_type: ClassVar[type[Args]]
    scalars: ClassVar[tuple[str, ...]] = ()  # descriptor attributes, in C's order
    operands: ClassVar[tuple[Operand, ...]] = ()
    aux_element: ClassVar[ElementKind | None] = None

    descriptor: Any
    preference: PlanPreference
    library: Library
    name: str
    workspace_size: int

    def __init__(self, descriptor: Any, preference: PlanPreference, library: Library) -> None:
        """Use `select`, which checks its arguments."""
        self.descriptor = descriptor
        self.preference = preference
        self.library = library
        self.name = self._format("", "").rstrip("_")
        self._problem: tuple[Any, ...] | None = None
        self._symbols: dict[tuple[str, str], tuple[str, Row]] = {}
        for operand in self.operands:
            product(operand.name, (*operand.extents(descriptor), descriptor.element.itemsize))
        row = self._row()
        self.prepare(row)
        needed, self._needs_workspace = self._choose_workspace(row, preference)
        self.workspace_size = needed
        self._guarantee = self._precision(row)

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
        with _naming(cls.__name__):
            stream_handle(stream)
            if type(descriptor) is not cls.descriptor_type:  # a gradient's derives from the forward op's
                raise InvalidProblemError(
                    f"descriptor is of type {type(descriptor).__name__}, must be {cls.descriptor_type.__name__}"
                )
            preference = PlanPreference() if preference is None else preference
            if not isinstance(preference, PlanPreference):
                raise InvalidProblemError(f"preference is {preference!r}, must be a PlanPreference")
            preference.validate()
        with _naming(cls._readable_name(descriptor)):
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
        return KernelSku(
            category=self.category, op=int(self.kind), element=self.descriptor.element, aux_element=self.aux_element,
            layout=None, epilogue=None, arch=None if self.library.backend == "cpu" else ArchSku.SM80,
            backend=BackendKind.BESPOKE, precision_guarantee=self._guarantee,
        )  # fmt: skip

    @property
    @abc.abstractmethod
    def kind(self) -> int:
        """The op within its category."""

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
        with _naming(self.name):
            op, call = self._operand_call(args)
            function = self.library.function(op, "can_implement")
            status = function(*ops()[op].row.check_arguments(call))
            self.library.check(symbol_name(op, "can_implement"), status)

    def workspace_size_for(self, args: Args) -> int:
        """Bytes of workspace that a launch on these operands takes. `workspace_size` is that of contiguous operands of
        which none is broadcast: strides change it, and a gradient that is summed over broadcast axes.
        """
        with _naming(self.name):
            op, call = self._operand_call(args)
            return self._workspace_needed(op, call)

    def run(self, stream: object, workspace: object, args: Args) -> None:
        """Enqueue the op. Arguments identical (`is`) with those of the last run of `args` are not checked again."""
        try:
            plan, seen_stream, seen_workspace, call, symbol, _ = args._bound
        except AttributeError:  # the first run; over before anything can fail, so that no error has this for a context
            plan = None
        if plan is self and seen_stream is stream and seen_workspace is workspace:
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

    # --- what a family may override ---------------------------------------------------------------------------------

    def prepare(self, row: Row) -> None:  # noqa: B027
        """What is decided once, for the row of contiguous operands."""

    def problem(self, strides: Mapping[str, tuple[int, ...]]) -> tuple[Any, ...]:
        """C arguments before the pointers: scalars and host arrays."""
        if self._problem is None:
            self._problem = tuple(int(getattr(self.descriptor, name)) for name in self.scalars)
        return self._problem

    def arguments(self, row: Row, views: Views, strides: Mapping[str, tuple[int, ...]]) -> tuple[Any, ...]:
        """C arguments up to the workspace. `strides` has every operand, as broadcast to its extents."""
        null = self.library.ffi.NULL
        pointers = [null if view is None else view.pointer for view in views.values()]
        return (*self.problem(strides), *pointers)

    def selector(self, views: Views) -> str:
        """What stands for {I} in the symbol for these views: the dtype of the index operand."""
        for operand in self.operands:
            view = views[operand.name]
            if operand.index and view is not None:
                return _INDEX_SUFFIX[view.dtype]
        return ""

    def variant(self, views: Views) -> str:
        """Suffix of the symbol for these views."""
        return ""

    def may_coincide(self, output: str, other: str, views: Views) -> bool:
        """Whether an output may lie on an operand named in its `may_be`, both being present."""
        first, second = views[output], views[other]
        return first is not None and second is not None and identical(first, second)

    def arithmetic(self) -> tuple[MathPrecision, ElementKind]:
        """How the kernel computes, and the dtype that results accumulate in."""
        return arithmetic_of(self.descriptor.element)

    def check(self, views: Views) -> None:  # noqa: B027 (most ops have none)
        """Rules over several operands."""

    def int32_array(self, values: tuple[int, ...]) -> Any:
        """Host array; never NULL, whatever the rank."""
        return self.library.ffi.new("int32_t[]", values or (0,))

    def int64_array(self, values: tuple[int, ...]) -> Any:
        return self.library.ffi.new("int64_t[]", values or (0,))

    # --- selection --------------------------------------------------------------------------------------------------

    @classmethod
    def _readable_name(cls, descriptor: Any) -> str:
        """Name for messages before the descriptor is known to be sound: "op" stands for what is no kind."""
        enumerations = {field.name: field.metadata.get("enumeration") for field in dataclasses.fields(descriptor)}
        kind = getattr(descriptor, "kind", None)
        known = kind is not None and isinstance(kind, enumerations["kind"])
        return cls.op.format(I="", T="", U="", kind=cls._spelled(kind) if known else "op").rstrip("_")

    @classmethod
    def _spelled(cls, kind: enum.IntEnum) -> str:
        return cls.spelling.get(kind, kind.name.lower())

    def _format(self, dtype: str, index: str) -> str:
        output = getattr(self.descriptor, "output_element", None)
        kind = getattr(self.descriptor, "kind", None)
        spelled = "" if kind is None else self._spelled(kind)
        return self.op.format(T=dtype, I=index, U="" if output is None or not dtype else output.symbol, kind=spelled)

    def _row(self) -> Row:
        """The row of contiguous operands."""
        known = ops()
        found = known.get(self._format(self.descriptor.element.symbol, ""))
        if found is None or self.descriptor.element is ElementKind.F32_STRICT:
            tokens = [kind.token for kind in ElementKind if self._format(kind.symbol, "") in known]
            what = f"element is {self.descriptor.element}, must be one of {', '.join(dict.fromkeys(tokens))}"
            kind = getattr(self.descriptor, "kind", None)
            no_op = f"{self.name} is no op of this library" if kind is None else f"kind is {kind.name}: no such op"
            raise UnsupportedError(what if tokens else no_op)
        return found.row

    def _choose_workspace(self, row: Row, preference: PlanPreference) -> tuple[int, bool]:
        """(bytes to ask for, whether a run needs them)."""
        if row.deterministic == "no" and preference.deterministic:
            raise UnsupportedError("no deterministic kernel exists")
        if not row.workspace:
            return 0, False
        changes_result = row.deterministic == "workspace"
        # f32 and f64 default to the atomic path, which needs none; 16-bit atomics would round every addition
        if changes_result and not preference.deterministic and self.descriptor.element not in _HALVES:
            return 0, False
        strides = {operand.name: contiguous_stride(operand.extents(self.descriptor)) for operand in self.operands}
        call = self.arguments(row, dict.fromkeys(operand.name for operand in self.operands), strides)
        suffixes = _INDEX_SUFFIX.values() if any(operand.index for operand in self.operands) else ("",)
        names = [self._format(self.descriptor.element.symbol, suffix) for suffix in suffixes]
        problem = row.problem_arguments(call)
        needed = max(int(self.library.function(op, "workspace_size")(*problem)) for op in names)
        if needed <= preference.max_workspace_bytes:
            return needed, changes_result
        if preference.deterministic and changes_result:
            raise UnsupportedError(
                f"the deterministic kernel needs {needed} workspace bytes, max_workspace_bytes is "
                f"{preference.max_workspace_bytes}"
            )
        return 0, False

    def _precision(self, row: Row) -> PrecisionGuarantee:
        sums_in_place = row.deterministic != "yes" and not self._needs_workspace
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
        bound = getattr(args, "_bound", None)
        if bound is not None and bound[0] is self and bound[2] is workspace and bound[5] == handle:
            call, symbol = bound[3], bound[4]  # another object for the same stream
        else:
            call, symbol, handle = self._prepare(stream, workspace, args)
            if workspace is None or isinstance(workspace, (TensorRef, tuple)):  # others could change under us
                object.__setattr__(args, "_bound", (self, stream, workspace, call, symbol, handle))
        self.library.check(symbol, call())

    def _handle(self, stream: object) -> int:
        with _naming(self.name):
            return stream_handle(stream)

    def _prepare(self, stream: object, workspace: object, args: Args) -> tuple[Callable[[], int], str, int]:
        """(C call with its arguments, symbol, stream handle), everything checked. Holds no reference to `args`."""
        handle = self._handle(stream)
        with _naming(self.name):
            op, call = self._operand_call(args)
            scratch = self._workspace_view(workspace, args)
            pointer, size = self._workspace_arguments(scratch, op, call)
            raw_stream = self.library.ffi.cast("void *", handle)
            function = self.library.function(op)
        return functools.partial(function, *call, pointer, size, raw_stream), symbol_name(op), handle

    def _operand_call(self, args: Args) -> tuple[str, tuple[Any, ...]]:
        """(op with its dtypes, C arguments up to the workspace), the operands checked."""
        if not isinstance(args, self.args_type):
            raise InvalidProblemError(f"args is of type {type(args).__name__}, must be {self.args_type.__name__}")
        views: dict[str, TensorRef | None] = {}
        strides: dict[str, tuple[int, ...]] = {}
        for operand in self.operands:
            view = views[operand.name] = getattr(args, operand.name)
            extents = operand.extents(self.descriptor)
            if view is None:
                if not operand.optional:
                    raise InvalidProblemError(f"{operand.name} is None")
                strides[operand.name] = contiguous_stride(extents)
                continue
            check_view(operand, view, self.descriptor, extents, self.library.backend)
            strides[operand.name] = effective_strides(view, extents)
        check_overlaps(self.operands, views, self.may_coincide)
        self.check(views)
        op, row = self._symbol(self.selector(views), self.variant(views))
        return op, self.arguments(row, views, strides)

    def _symbol(self, choice: str, variant: str) -> tuple[str, Row]:
        found = self._symbols.get((choice, variant))
        if found is None:
            op = self._format(self.descriptor.element.symbol, choice) + variant
            found = self._symbols[choice, variant] = op, ops()[op].row
        return found

    def _workspace_view(self, workspace: object, args: Args) -> TensorRef | None:
        """The workspace as bytes on the right device, apart from the operands."""
        if workspace is None:
            return None
        if isinstance(workspace, tuple):
            if len(workspace) != 2:
                raise InvalidProblemError(f"workspace is {workspace!r}, must be (address, bytes)")
            address = as_integer("workspace address", workspace[0], 0, _SIZE_MAX)
            size = as_integer("workspace bytes", workspace[1], 0, INT64_MAX)
            view = TensorRef(address, (size,), ElementKind.U8)
        else:
            view = tensor(workspace, "workspace")
        if view.readonly:
            raise InvalidProblemError("workspace is read-only")
        if view.numel and not view.ptr:
            raise InvalidProblemError("workspace is NULL")
        if not view.is_dense:
            raise UnsupportedError(f"workspace has strides {view.strides} for shape {view.shape}, must be contiguous")
        if view.device not in (None, self.library.backend):
            raise InvalidProblemError(
                f"workspace is in {view.device} memory, the library is a {self.library.backend} library"
            )
        check_reach("workspace", view)
        for operand in self.operands:
            other = getattr(args, operand.name)
            if other is not None and overlaps(view, other):
                raise InvalidProblemError(f"workspace overlaps {operand.name}")
        return view

    def _workspace_arguments(self, view: TensorRef | None, op: str, call: tuple[Any, ...]) -> tuple[Any, int]:
        """(pointer, bytes) for the C call: NULL and 0 where this launch uses none.

        As in C, no bytes are no workspace, and some that are too few an error: a guarantee is never lost silently.
        """
        got = 0 if view is None else view.nbytes
        needed = self._workspace_needed(op, call) if got or self._needs_workspace else 0
        if needed > got:
            raise WorkspaceTooSmallError(f"workspace has {got} bytes, needs {needed}", needed=needed, got=got)
        return (self.library.ffi.NULL, 0) if view is None or not needed else (view.pointer, got)

    def _workspace_needed(self, op: str, call: tuple[Any, ...]) -> int:
        """Bytes that the launch takes, which may depend on strides; 0 where none, or where they would change the
        algorithm chosen, or where the preference allows fewer and the op can do without.
        """
        row = ops()[op].row
        if not row.workspace or (row.deterministic == "workspace" and not self._needs_workspace):
            return 0
        needed = int(self.library.function(op, "workspace_size")(*row.problem_arguments(call)))
        return needed if needed <= self.preference.max_workspace_bytes or self._needs_workspace else 0


def arithmetic_of(element: ElementKind) -> tuple[MathPrecision, ElementKind]:
    """How pointwise kernels compute with an element, and what they accumulate in: 16-bit floats in f32."""
    if element in _FORMS:
        return _FORMS[element]
    if element.integer_range:
        return MathPrecision.INTEGER, element
    return MathPrecision.F32, ElementKind.F32


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Errors of Python's own checks begin with the op; the C library's already do."""
    try:
        yield
    except BaracudaError as error:
        if not error.symbol and not isinstance(error, ImportError):
            error.symbol = name
            error.text = f"{name}: {error.text}"
            error.args = (error.text,)
        raise

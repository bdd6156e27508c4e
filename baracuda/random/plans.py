# SPDX-License-Identifier: Apache-2.0
"""Plans of random arrays and of dropout with a mask tensor, under the reference's names.

Each plan has a generator of its own, of the descriptor's seed: successive runs continue its sequence, and a fresh plan
of one seed repeats it. `dropout` and the functions of `baracuda.random` need neither masks nor a workspace.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import UINT64_MAX, as_integer
from baracuda._call.workspace import workspace_view
from baracuda._library.loader import Library, symbol_name
from baracuda._library.machine_code import arch_of
from baracuda._library.op_table import ops
from baracuda.composed_plan import ComposedPlan
from baracuda.descriptor import ShapedDescriptor
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError, WorkspaceTooSmallError, naming
from baracuda.guarantee import KernelSku, PlanPreference, PrecisionGuarantee, arithmetic_of
from baracuda.kinds import BackendKind, OpCategory, RandomKind
from baracuda.operands import Args, Operand, Viewable, check_overlaps, check_view
from baracuda.random.generator import Generator
from baracuda.stream import stream_handle
from baracuda.tensor import TensorRef

_F32, _F64, _BOOL = ElementKind.F32, ElementKind.F64, ElementKind.BOOL


def _seed() -> Any:
    return descriptor.checked(lambda name, value: as_integer(name, value, 0, UINT64_MAX), default=0)


def _probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise InvalidProblemError(f"p is {p}, must be in [0, 1]")


@dataclasses.dataclass(frozen=True)
class RandomDescriptor(ShapedDescriptor):
    """UNIFORM in [param1, param2), NORMAL with mean param1 and standard deviation param2, or BERNOULLI with p = param1.

    shape is a number for rank 1.
    """

    kind: RandomKind = descriptor.choice(RandomKind)
    shape: tuple[int, ...] = descriptor.shape_or_numel()
    param1: float = descriptor.real(default=0.0)
    param2: float = descriptor.real(default=1.0)
    seed: int = _seed()

    def validated(self) -> RandomDescriptor:
        valid = super().validated()
        low, high = valid.param1, valid.param2
        if valid.kind is RandomKind.MULTINOMIAL:
            raise UnsupportedError("kind is MULTINOMIAL, which bk.random.multinomial has, not this plan")
        if valid.kind is RandomKind.UNIFORM and not low < high:
            raise InvalidProblemError(f"param1 is {low}, must be below param2, {high}")
        if valid.kind is RandomKind.NORMAL and not high > 0:
            raise InvalidProblemError(f"param2 is {high}, must be positive")
        if valid.kind is RandomKind.BERNOULLI:
            _probability(low)
        return valid


@dataclasses.dataclass(frozen=True)
class DropoutDescriptor(ShapedDescriptor):
    """p is the probability to drop; shape is a number for rank 1."""

    shape: tuple[int, ...] = descriptor.shape_or_numel()
    p: float = descriptor.real(default=0.5)
    seed: int = _seed()

    def validated(self) -> DropoutDescriptor:
        valid = super().validated()
        _probability(valid.p)
        return valid


@dataclasses.dataclass(frozen=True)
class DropoutBackwardDescriptor(ShapedDescriptor):
    """p is that of the forward plan."""

    shape: tuple[int, ...] = descriptor.shape_or_numel()
    p: float = descriptor.real(default=0.5)

    def validated(self) -> DropoutBackwardDescriptor:
        valid = super().validated()
        _probability(valid.p)
        return valid


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RandomArgs(Args):
    """y has the descriptor's shape, in row-major order."""

    y: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class DropoutArgs(Args):
    """x, y and the mask, of bool, which is True where x is kept. y may be x."""

    x: Viewable
    y: Viewable
    mask: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class DropoutBackwardArgs(Args):
    """dy, the mask of the forward plan, and dx, which may be dy."""

    dy: Viewable
    mask: Viewable
    dx: Viewable


class _Plan(ComposedPlan):
    """Base: selection, and the checks of operands, which are row-major and of the descriptor's shape."""

    __slots__ = ("_generator",)

    args_type: ClassVar[type[Args]]
    kind: ClassVar[int]
    outputs: ClassVar[tuple[str, ...]]
    op: ClassVar[str]
    category: ClassVar[OpCategory] = OpCategory.RANDOM

    def __init__(self, descriptor: Any, preference: PlanPreference, library: Library) -> None:
        super().__init__(descriptor, preference, library)
        self._generator = Generator(getattr(descriptor, "seed", 0))
        if self._op not in ops():
            raise UnsupportedError(f"element is {descriptor.element}, which {self.name} does not have")

    @property
    def _op(self) -> str:
        return self.op.replace("{T}", self.descriptor.element.symbol)

    @property
    def precision_guarantee(self) -> PrecisionGuarantee:
        math_precision, accumulator = arithmetic_of(self.descriptor.element)
        return PrecisionGuarantee(
            math_precision=math_precision, accumulator=accumulator, bit_stable_on_same_hardware=True,
            deterministic=True, batch_invariant=True,
        )  # fmt: skip

    @property
    def sku(self) -> KernelSku:
        return KernelSku(
            category=self.category, op=self.kind, element=self.descriptor.element, aux_element=None, layout=None,
            epilogue=None, arch=arch_of(self.library), backend=BackendKind.BESPOKE,
            precision_guarantee=self.precision_guarantee,
        )  # fmt: skip

    @property
    def workspace_size(self) -> int:
        """Workspace bytes of a run."""
        return 0

    def workspace_size_for(self, args: Args) -> int:
        return self.workspace_size

    def can_implement(self, args: Args) -> None:
        """Raise what `run` would raise for these operands; no device work."""
        with naming(self.name):
            self._views(args)

    def bind(self, stream: object, workspace: object, args: Args) -> Callable[[], None]:
        """A function that runs the plan on these arguments; each call continues the sequence."""
        self.can_implement(args)
        return functools.partial(self.run, stream, workspace, args)

    def run(self, stream: object, workspace: object, args: Args) -> None:
        """Enqueue the op on the next numbers of the plan's generator."""
        with naming(self.name):
            views = self._views(args)
            scratch = workspace_view(workspace, views, self.library.backend)
            given = 0 if scratch is None else scratch.nbytes
            if given < self.workspace_size:
                raise WorkspaceTooSmallError(
                    f"workspace has {given} bytes, needs {self.workspace_size}", needed=self.workspace_size, got=given
                )
            self._run(stream, scratch, views)

    def _run(self, stream: object, scratch: TensorRef | None, views: dict[str, TensorRef]) -> None:
        raise NotImplementedError

    def _views(self, args: Args) -> dict[str, Any]:
        if type(args) is not self.args_type:
            raise InvalidProblemError(f"args is of type {type(args).__name__}, must be {self.args_type.__name__}")
        operands, views = [], {}
        for name in args.__dataclass_fields__:
            view: TensorRef | None = getattr(args, name)
            if view is None:
                raise InvalidProblemError(f"{name} is None, but is needed")
            dtype = _BOOL if name == "mask" else self.descriptor.element
            operand = Operand(
                name, self.descriptor.shape, "shape", (dtype,), name in self.outputs, False, False, None, ()
            )
            check_view(operand, view, self.library.backend)
            if not view.is_dense:
                raise UnsupportedError(f"{name} has strides {view.strides}, must be in row-major order")
            operands.append(operand)
            views[name] = view
        check_overlaps(operands, views, self._may_coincide)
        return views

    def _may_coincide(self, output: str, other: str, views: Any) -> bool:
        return bool({output, other} in ({"x", "y"}, {"dy", "dx"}) and views[output].ptr == views[other].ptr)

    def _call(self, op: str, stream: object, *arguments: Any) -> None:
        ffi = self.library.ffi
        given = [ffi.cast("void *", a.ptr) if isinstance(a, TensorRef) else a for a in arguments]
        status = self.library.function(op)(*given, ffi.NULL, 0, ffi.cast("void *", stream_handle(stream)))
        self.library.check(symbol_name(op), status)


class RandomPlan(_Plan):
    """Random numbers of a kind. element is a float, or bool, u8 or an integer for BERNOULLI."""

    __slots__ = ()
    descriptor_type = RandomDescriptor
    args_type = RandomArgs
    name = "random"
    op = "random_{kind}_{T}"
    outputs = ("y",)

    @property
    def kind(self) -> int:  # type: ignore[override]
        return int(self.descriptor.kind)

    @property
    def _op(self) -> str:
        return super()._op.replace("{kind}", self.descriptor.kind.name.lower())

    def _run(self, stream: object, scratch: TensorRef | None, views: dict[str, TensorRef]) -> None:
        d = self.descriptor
        numbers = (d.param1,) if d.kind is RandomKind.BERNOULLI else (d.param1, d.param2)
        width = _F32 if d.kind is RandomKind.BERNOULLI else d.element
        offset = self._generator.take(d.numel, width)
        self._call(self._op, stream, d.numel, *numbers, d.seed, offset, self.library.ffi.NULL, views["y"])


class DropoutPlan(_Plan):
    """y = x / (1 - p) where the mask is True, else 0; of f32 and f64. The workspace holds uniform numbers."""

    __slots__ = ()
    descriptor_type = DropoutDescriptor
    args_type = DropoutArgs
    name = "dropout"
    op = "dropout_{T}"
    kind = 100
    outputs = ("y", "mask")

    @property
    def workspace_size(self) -> int:
        """Workspace bytes of a run, of any alignment to 4 bytes."""
        return 4 * int(self.descriptor.numel)

    def _run(self, stream: object, scratch: TensorRef | None, views: dict[str, TensorRef]) -> None:
        d = self.descriptor
        scale = 1 / (1 - d.p) if d.p < 1 else 0.0
        offset = self._generator.take(d.numel)
        rand = self.library.ffi.NULL if scratch is None else scratch
        self._call("random_uniform_f32", stream, d.numel, 0.0, 1.0, d.seed, offset, self.library.ffi.NULL, rand)
        self._call(self._op, stream, d.numel, d.p, scale, views["x"], rand, views["y"], views["mask"])


class DropoutBackwardPlan(_Plan):
    """dx = dy / (1 - p) where the mask is True, else 0."""

    __slots__ = ()
    descriptor_type = DropoutBackwardDescriptor
    args_type = DropoutBackwardArgs
    name = "dropout_backward"
    op = "dropout_backward_{T}"
    kind = 101
    outputs = ("dx",)

    def _run(self, stream: object, scratch: TensorRef | None, views: dict[str, TensorRef]) -> None:
        d = self.descriptor
        scale = 1 / (1 - d.p) if d.p < 1 else 0.0
        self._call(self._op, stream, d.numel, scale, views["dy"], views["mask"], views["dx"])

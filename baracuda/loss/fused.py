# SPDX-License-Identifier: Apache-2.0
"""Fused linear cross entropy of a language model: logits = input weight^T are computed in chunks of rows.

For each chunk a GEMM computes the logits, one pass replaces them by their gradient, and two GEMMs compute the gradients
of input and weight (accumulated). These plans launch the plans of those steps; their workspace holds the chunk of
logits and the losses.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

from baracuda import descriptor, memory
from baracuda._call.checking import watched_call
from baracuda._call.scalars import as_integer
from baracuda._call.workspace import workspace_view
from baracuda._library.loader import Library, symbol_name
from baracuda._library.op_table import ops
from baracuda.composed_plan import ComposedPlan
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, WorkspaceTooSmallError, naming
from baracuda.gemm.dense import DenseGemmDescriptor, DenseGemmPlan
from baracuda.guarantee import PlanPreference, PrecisionGuarantee
from baracuda.kinds import DenseLayout, LossReduction
from baracuda.loss.rows import CrossEntropyInPlaceDescriptor, CrossEntropyInPlacePlan
from baracuda.operands import Args, Operand, Viewable, check_overlaps, check_view
from baracuda.stream import stream_handle
from baracuda.tensor import TensorRef

MOST_ROWS = 2048  # most rows of a chunk
_ALIGNMENT = 256


def _reduction(name: str, value: object) -> LossReduction:
    if not isinstance(value, LossReduction):
        raise InvalidProblemError(f"{name} is {value!r}, must be a LossReduction")
    return value


@dataclasses.dataclass(frozen=True)
class FusedLinearCrossEntropyDescriptor(Descriptor):
    """bt rows of h features, v classes. The mean is over rows whose target is not ignore_index."""

    bt: int = descriptor.extent()
    h: int = descriptor.extent()
    v: int = descriptor.checked(lambda name, value: as_integer(name, value, 1, 2**31 - 1))
    reduction: LossReduction = descriptor.checked(_reduction, default=LossReduction.MEAN)
    ignore_index: int = descriptor.checked(as_integer, default=-100)

    @property
    def chunk_rows(self) -> int:
        """Rows of a chunk, a power of two: its logits are about as large as the input."""
        shares = max(-(-self.v // max(self.h, 1)), 1)
        return min(1 << max(-(-self.bt // shares) - 1, 0).bit_length(), MOST_ROWS)


@dataclasses.dataclass(frozen=True)
class FusedLinearCrossEntropyBackwardDescriptor(FusedLinearCrossEntropyDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class FusedLinearCrossEntropyArgs(Args):
    """input (bt, h), weight (v, h), target i64 (bt,), out (bt,) for NONE, else (1,): losses in f32, or rounded to the
    dtype of input. Gradients have the shapes of input and weight and are overwritten; for NONE they are those of the
    sum. Either may be None.
    """

    input: Viewable
    weight: Viewable
    target: Viewable
    out: Viewable
    grad_input: Viewable | None = None
    grad_weight: Viewable | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class FusedLinearCrossEntropyBackwardArgs(Args):
    """The gradients of the forward plan, to be multiplied by dy_scalar. Either may be None."""

    grad_input: Viewable | None = None
    grad_weight: Viewable | None = None


class _Plan(ComposedPlan):
    """Base of both: selection, and the checks of operands."""

    __slots__ = ()

    args_type: type[Args]

    @property
    def shapes(self) -> dict[str, tuple[tuple[int, ...], tuple[ElementKind, ...]]]:
        """(shape, dtypes) of each operand."""
        d = self.descriptor
        whole = {"grad_input": (d.bt, d.h), "grad_weight": (d.v, d.h)}
        return {name: (shape, (d.element,)) for name, shape in whole.items()}

    def can_implement(self, args: Args) -> None:
        """Raise what `run` would raise for these operands; no device work."""
        with naming(self.name):
            self._checked(args)

    def _checked(self, args: Args) -> dict[str, TensorRef | None]:
        if type(args) is not self.args_type:
            raise InvalidProblemError(f"args is of type {type(args).__name__}, must be {self.args_type.__name__}")
        operands: list[Operand] = []
        views: dict[str, TensorRef | None] = {}
        for name, (shape, dtypes) in self.shapes.items():
            output, view = name.startswith(("grad_", "out")), getattr(args, name)
            operand = Operand(name, shape, "shape", dtypes, output, False, False, None, ())
            if view is not None:
                check_view(operand, view, self.library.backend)
            elif not name.startswith("grad_"):
                raise InvalidProblemError(f"{name} is None, but is needed")
            operands.append(operand)
            views[name] = view
        check_overlaps(operands, views, lambda *_: False)
        return views

    def _call(self, op: str, stream: object, *arguments: Any) -> None:
        ffi, row, handle = self.library.ffi, ops()[op].row, stream_handle(stream)
        pointers = [ffi.cast("void *", a.ptr) if isinstance(a, TensorRef) else a for a in arguments]
        views = dict(zip([p.name for p in row.pointers], [a for a in arguments if isinstance(a, TensorRef)]))
        call = (*pointers, ffi.cast("void *", handle))
        self.library.check(symbol_name(op), watched_call(self.library.function(op), row, views, {}, handle, call))


class FusedLinearCrossEntropyPlan(_Plan):
    """The loss, and the gradients of input and weight. A run with MEAN synchronises to read the number of rows that are
    not ignored, unless `count` is given; graph capture needs `count`.
    """

    __slots__ = ("__dict__",)
    descriptor_type = FusedLinearCrossEntropyDescriptor
    args_type = FusedLinearCrossEntropyArgs
    name = "fused_linear_cross_entropy"

    @property
    def shapes(self) -> dict[str, tuple[tuple[int, ...], tuple[ElementKind, ...]]]:
        d = self.descriptor
        results = (d.bt,) if d.reduction is LossReduction.NONE else (1,)
        own, losses = (d.element,), tuple(dict.fromkeys((d.element, self._loss_element)))
        given = {"input": ((d.bt, d.h), own), "weight": ((d.v, d.h), own)}
        return {**given, "target": ((d.bt,), (ElementKind.I64,)), "out": (results, losses), **super().shapes}

    @property
    def precision_guarantee(self) -> PrecisionGuarantee:
        return self._gemm(DenseLayout.RCR, 1, self.descriptor.v, self.descriptor.h).precision_guarantee

    @property
    def _loss_element(self) -> ElementKind:
        """The dtype of the losses."""
        return ElementKind.F64 if self.descriptor.element is ElementKind.F64 else ElementKind.F32

    @functools.cached_property
    def _offsets(self) -> dict[str, int]:
        """Offsets of the buffers in the workspace, and its end."""
        d, wide = self.descriptor, self._loss_element.itemsize
        products = [plan.workspace_size for rows in self._sizes() for plan in self._gemms(rows)]
        sizes = {
            "logits": min(d.chunk_rows, d.bt) * d.v * d.element.itemsize, "losses": d.bt * wide, "count": 8,
            "gemm": max(products, default=0), "end": 0,
        }  # fmt: skip
        offsets: dict[str, int] = {}
        at = 0
        for name, size in sizes.items():
            offsets[name] = at
            at += -(-size // _ALIGNMENT) * _ALIGNMENT
        return offsets

    @property
    def workspace_size(self) -> int:
        """Workspace bytes of a run, including alignment."""
        return self._offsets["end"] + _ALIGNMENT

    def workspace_size_for(self, args: Args) -> int:
        return self.workspace_size

    def run(
        self, stream: object, workspace: object, args: FusedLinearCrossEntropyArgs, count: int | None = None
    ) -> None:
        """Enqueue the steps. `count` is the number of targets that are not ignore_index."""
        with naming(self.name):
            views = self._checked(args)
            scratch = workspace_view(workspace, views, self.library.backend)
            given = 0 if scratch is None else scratch.nbytes
            if scratch is None or given < self.workspace_size:
                raise WorkspaceTooSmallError(
                    f"workspace has {given} bytes, needs {self.workspace_size}", needed=self.workspace_size, got=given
                )
            start = -(-scratch.ptr // _ALIGNMENT) * _ALIGNMENT
            addresses = {name: start + offset for name, offset in self._offsets.items()}
            self._run(stream, addresses, views, as_integer("count", count, 0) if count is not None else None)

    def _run(self, stream: object, addresses: dict[str, int], views: dict[str, Any], count: int | None) -> None:
        d, device = self.descriptor, self.library.backend
        mean, none = d.reduction is LossReduction.MEAN, d.reduction is LossReduction.NONE
        if mean and count is None:
            counter = TensorRef(addresses["count"], (1,), ElementKind.I64, device=device)
            count = self._count(stream, counter, views["target"])
        share = 1 / max(count or 0, 1) if mean else 1.0
        losses = TensorRef(addresses["losses"], (d.bt,), self._loss_element, device=device)
        out = views["out"]
        if none and losses.dtype is out.dtype:
            losses = out
        scratch = (addresses["gemm"], addresses["end"] - addresses["gemm"])
        for first, rows in self._chunks():
            end = first + rows
            x = views["input"][first:end]
            logits = TensorRef(addresses["logits"], (rows, d.v), d.element, device=device)
            gemm = self._gemm(DenseLayout.RCR, rows, d.v, d.h)
            gemm.run(stream, scratch, gemm.args_type(a=x[None], b=views["weight"][None], d=logits[None]))
            given = CrossEntropyInPlacePlan.args_type(logits, views["target"][first:end], losses[first:end])
            self._gradient(rows, share).run(stream, None, given)
            if views["grad_input"] is not None:
                dx = views["grad_input"][None, first:end]
                gemm = self._gemm(DenseLayout.RRR, rows, d.h, d.v)
                gemm.run(stream, scratch, gemm.args_type(a=logits[None], b=views["weight"][None], d=dx))
            if views["grad_weight"] is not None:
                dw = views["grad_weight"][None]
                gemm = self._gemm(DenseLayout.CRR, d.v, d.h, rows, beta=float(first > 0))
                gemm.run(stream, scratch, gemm.args_type(a=logits[None], b=x[None], d=dw))
        if not none:
            form = "_param" if self._loss_element is ElementKind.F64 else ""
            self._call(f"loss_flce_scalar_finalize{form}_{out.dtype.symbol}", stream, d.bt, share, losses, out)
        elif losses is not out:
            self._call(f"loss_flce_per_row_cast_{out.dtype.symbol}", stream, d.bt, losses, out)

    def _count(self, stream: object, counter: TensorRef, target: TensorRef) -> int:
        d = self.descriptor
        self._call("loss_flce_count_non_ignore", stream, d.bt, d.ignore_index, target, counter)
        return int(memory.download(counter, stream=stream, library=self.library)[0])

    def _sizes(self) -> list[int]:
        """Distinct numbers of rows of the chunks."""
        return sorted({rows for _, rows in self._chunks()})

    def _chunks(self) -> Iterator[tuple[int, int]]:
        """(first row, rows) of each chunk; one empty chunk if there are no rows, so that gradients become 0."""
        d = self.descriptor
        yield from ((first, min(d.chunk_rows, d.bt - first)) for first in range(0, max(d.bt, 1), d.chunk_rows))

    def _gemms(self, rows: int) -> list[DenseGemmPlan]:
        d = self.descriptor
        of_input = self._gemm(DenseLayout.RRR, rows, d.h, d.v)
        return [
            self._gemm(DenseLayout.RCR, rows, d.v, d.h),
            of_input,
            self._gemm(DenseLayout.CRR, d.v, d.h, rows),
        ]

    def _gemm(self, layout: DenseLayout, m: int, n: int, k: int, beta: float = 0.0) -> DenseGemmPlan:
        return _gemm(self.library, self.preference, self.descriptor.element, layout, m, n, k, beta)

    def _gradient(self, rows: int, scale: float) -> CrossEntropyInPlacePlan:
        d = self.descriptor
        of = CrossEntropyInPlaceDescriptor(rows, d.v, scale, d.ignore_index, element=d.element)
        return CrossEntropyInPlacePlan.select(None, of, self.preference, library=self.library)


class FusedLinearCrossEntropyBackwardPlan(_Plan):
    """Multiplies the gradients by dy if that is not 1."""

    __slots__ = ()
    descriptor_type = FusedLinearCrossEntropyBackwardDescriptor
    args_type = FusedLinearCrossEntropyBackwardArgs
    name = "fused_linear_cross_entropy_backward"
    workspace_size = 0

    def workspace_size_for(self, args: Args) -> int:
        return 0

    def run(
        self, stream: object, workspace: object, args: FusedLinearCrossEntropyBackwardArgs, dy_scalar: float
    ) -> None:
        """Multiply both in place."""
        with naming(self.name):
            element = self.descriptor.element
            form = "_param" if element is ElementKind.F64 else ""
            for view in self._checked(args).values():
                if view is not None:
                    op = f"loss_flce_inplace_scale{form}_{element.symbol}"
                    self._call(op, stream, view.numel, float(dy_scalar), view)


@functools.lru_cache(maxsize=64)
def _gemm(
    library: Library, preference: PlanPreference, element: ElementKind, layout: DenseLayout, m: int, n: int, k: int,
    beta: float,
) -> DenseGemmPlan:  # fmt: skip
    of = DenseGemmDescriptor(m, n, k, 1, layout, beta=beta, element=element)
    return DenseGemmPlan.select(None, of, preference, library=library)

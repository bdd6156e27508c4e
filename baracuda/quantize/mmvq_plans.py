# SPDX-License-Identifier: Apache-2.0
"""Products with GGUF weights as the reference has them: GgufMmvq by one vector, GgufMmvqMultiM by rows quantised
to q8_1, GgufMmvqBatched by expert.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda._call.workspace import workspace_view
from baracuda._library.loader import Library
from baracuda._library.machine_code import arch_of
from baracuda._library.param import symbol_of
from baracuda.composed_plan import ComposedPlan
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError, WorkspaceTooSmallError, naming
from baracuda.guarantee import KernelSku, PlanPreference, PrecisionGuarantee
from baracuda.kinds import BackendKind, MathPrecision, OpCategory, QuantizeKind
from baracuda.operands import Args, Viewable, overlaps
from baracuda.quantize.formats import GgufBlockFormat, bytes_of
from baracuda.stream import stream_handle
from baracuda.tensor import TensorRef, tensor

_SUFFIXES = {ElementKind.F32: "", ElementKind.F16: "_f16", ElementKind.BF16: "_bf16"}
_CHUNKS = (8, 4, 2, 1)
_Q8_1_BYTES = 36


def _count(least: int = 0, **options: Any) -> Any:
    return descriptor.checked(lambda name, value: as_integer(name, value, least, INT32_MAX), **options)


@dataclasses.dataclass(frozen=True)
class GgufMmvqDescriptor(Descriptor):
    """nrows rows of ncols weights, which begin w_start_byte_offset bytes behind the start of `weight`."""

    block_format: GgufBlockFormat = descriptor.choice(GgufBlockFormat)
    nrows: int = _count()
    ncols: int = _count()
    w_start_byte_offset: int = descriptor.checked(lambda name, value: as_integer(name, value, 0, 2**47), default=0)

    @property
    def row_bytes(self) -> int:
        return bytes_of(self.ncols, self.block_format, "ncols")


@dataclasses.dataclass(frozen=True)
class GgufMmvqMultiMDescriptor(GgufMmvqDescriptor):
    """m rows of activations."""

    m: int = _count(default=1)


@dataclasses.dataclass(frozen=True)
class GgufMmvqBatchedDescriptor(Descriptor):
    """m_total dispatches of tokens to n_experts matrices, n_rows_per_expert x n_cols; top_k > 1 adds to output."""

    block_format: GgufBlockFormat = descriptor.choice(GgufBlockFormat)
    n_experts: int = _count(1)
    n_rows_per_expert: int = _count(1)
    n_cols: int = _count(1)
    m_total: int = _count()
    top_k: int = _count(1, default=1)

    @property
    def row_bytes(self) -> int:
        return bytes_of(self.n_cols, self.block_format, "n_cols")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GgufMmvqArgs(Args):
    """weight: bytes, from w_start_byte_offset on nrows rows; activation (ncols,), of any stride; output (nrows,)."""

    weight: Viewable
    activation: Viewable
    output: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GgufMmvqMultiMArgs(Args):
    """weight: bytes, from w_start_byte_offset on nrows rows; activations (m, ncols), output f32 (m, nrows)."""

    weight: Viewable
    activations: Viewable
    output: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GgufMmvqBatchedArgs(Args):
    """weights: bytes of all experts; activations (tokens, n_cols), sorted_token_ids i32 (m_total,), expert_offsets i32
    (n_experts + 1,), topk_weights f32 (m_total,) or None, output (tokens, n_rows_per_expert).
    """

    weights: Viewable
    activations: Viewable
    sorted_token_ids: Viewable
    expert_offsets: Viewable
    output: Viewable
    topk_weights: Viewable | None = None


class _Plan(ComposedPlan):
    """Base: selection, checks of views, and calls of C."""

    __slots__ = ()

    args_type: type[Args]
    workspace_size = 0

    def __init__(self, given: Any, preference: PlanPreference, library: Library) -> None:
        super().__init__(given, preference, library)
        if given.element not in _SUFFIXES:
            raise UnsupportedError(f"element is {given.element}, must be one of f32, f16, bf16")
        chosen: GgufBlockFormat = given.block_format
        if not chosen.has_mmvq:
            text = f"block_format is {chosen.spelling}, which QuantizedMatmulPlan or nothing multiplies by"
            raise UnsupportedError(text)
        if given.row_bytes < 0:
            raise InvalidProblemError("rows have no bytes")

    @property
    def precision_guarantee(self) -> PrecisionGuarantee:
        return PrecisionGuarantee(
            math_precision=MathPrecision.F32, accumulator=ElementKind.F32, bit_stable_on_same_hardware=True,
            deterministic=True, batch_invariant=True,
        )  # fmt: skip

    @property
    def sku(self) -> KernelSku:
        return KernelSku(
            category=OpCategory.QUANTIZATION, op=int(QuantizeKind.GGUF_MMVQ), element=self.descriptor.element,
            aux_element=None, layout=None, epilogue=None, arch=arch_of(self.library), backend=BackendKind.BESPOKE,
            precision_guarantee=self.precision_guarantee,
        )  # fmt: skip

    def _views(self, args: Any) -> dict[str, TensorRef]:
        """The views of the operands, checked."""
        raise NotImplementedError

    def _launch(self, views: Mapping[str, TensorRef], workspace: TensorRef | None, stream: int) -> None:
        raise NotImplementedError

    def _checked(self, args: Any) -> dict[str, TensorRef]:
        if type(args) is not self.args_type:
            raise InvalidProblemError(f"args is of type {type(args).__name__}, must be {self.args_type.__name__}")
        views = self._views(args)
        for name, view in views.items():
            if view.device not in (None, self.library.backend):
                text = f"{name} is in {view.device} memory, the library is a {self.library.backend} library"
                raise InvalidProblemError(text)
            if name != "output" and overlaps(view, views["output"]):
                raise InvalidProblemError(f"output overlaps {name}")
        if views["output"].readonly:
            raise InvalidProblemError("output is read-only")
        return views

    def can_implement(self, args: Args) -> None:
        """Raise what `run` would raise for these operands; no device work."""
        with naming(self.name):
            self._checked(args)

    def run(self, stream: object, workspace: object, args: Args) -> None:
        """Enqueue the op."""
        with naming(self.name):
            views = self._checked(args)
            scratch = workspace_view(workspace, views, self.library.backend) if self.workspace_size else None
            given = 0 if scratch is None else scratch.nbytes
            if given < self.workspace_size:
                text = f"workspace has {given} bytes, needs {self.workspace_size}"
                raise WorkspaceTooSmallError(text, needed=self.workspace_size, got=given)
            self._launch(views, scratch, stream_handle(stream))

    def _view(
        self, name: str, array: Any, shape: tuple[int | None, ...], dtype: ElementKind, *, strided: bool = False
    ) -> TensorRef:
        """A view of this shape, whose extents of None are free, and dtype; contiguous unless `strided`."""
        view = tensor(array, name)
        if len(view.shape) != len(shape) or any([e is not None and e != have for e, have in zip(shape, view.shape)]):
            wanted = ", ".join("?" if extent is None else str(extent) for extent in shape)
            raise InvalidProblemError(f"{name} has shape {view.shape}, expected ({wanted})")
        if view.dtype is not dtype:
            raise UnsupportedError(f"{name} is of {view.dtype}, must be of {dtype}")
        if not strided and not view.is_contiguous:
            raise UnsupportedError(f"{name} has strides {view.strides} for shape {view.shape}, must be contiguous")
        return view

    def _bytes(self, name: str, array: Any, needed: int, *, exact: bool = False) -> TensorRef:
        """Contiguous bytes, `needed` or more."""
        view = tensor(array, name)
        if view.dtype is not ElementKind.U8 or not view.is_contiguous:
            raise UnsupportedError(f"{name} must be contiguous and of u8, is {view!r}")
        if view.numel < needed or (exact and view.numel != needed):
            raise InvalidProblemError(f"{name} has {view.numel} bytes, needs {needed}")
        return view

    def _call(self, op: str, *arguments: Any) -> None:
        """Calls C; views stand for their addresses."""
        symbol, ffi = symbol_of(op, "run"), self.library.ffi
        values = [ffi.cast("void *", each.ptr) if isinstance(each, TensorRef) else each for each in arguments]
        if status := getattr(self.library.lib, symbol)(*values):
            self.library.check(symbol, status)

    def _pointer(self, address: int, kind: str = "void *") -> Any:
        return self.library.ffi.cast(kind, address)


class GgufMmvqPlan(_Plan):
    """output[r] = sum over c of weight[r, c] activation[c], in f32; element is that of activation and output."""

    __slots__ = ()
    descriptor_type = GgufMmvqDescriptor
    args_type = GgufMmvqArgs
    name = "gguf_mmvq"

    def _views(self, args: Any) -> dict[str, TensorRef]:
        of = self.descriptor
        return {
            "weight": self._bytes("weight", args.weight, of.w_start_byte_offset + of.nrows * of.row_bytes),
            "activation": self._view("activation", args.activation, (of.ncols,), of.element, strided=True),
            "output": self._view("output", args.output, (of.nrows,), of.element),
        }

    def _launch(self, views: Mapping[str, TensorRef], workspace: TensorRef | None, stream: int) -> None:
        of, x, weight = self.descriptor, views["activation"], views["weight"]
        suffix, null = _SUFFIXES[of.element], self._pointer(0)
        stride = x.strides[0] if of.ncols > 1 else 1
        tail = (x, views["output"], null, 0, self._pointer(stream))
        if stride == 1 and of.w_start_byte_offset == 0:
            self._call(f"mmvq_{of.block_format.spelling}{suffix}", of.ncols, of.nrows, weight, *tail)
        else:
            op = f"mmvq_{of.block_format.spelling}_actstrided{suffix}"
            self._call(op, of.ncols, of.nrows, weight, of.w_start_byte_offset, stride, *tail)


class GgufMmvqMultiMPlan(_Plan):
    """output (m, nrows) = activations (m, ncols), quantised to q8_1 in the workspace, times the weights: products of
    integers, in f32 for any element.
    """

    __slots__ = ()
    descriptor_type = GgufMmvqMultiMDescriptor
    args_type = GgufMmvqMultiMArgs
    name = "gguf_mmvq_multi_m"

    def __init__(self, given: Any, preference: PlanPreference, library: Library) -> None:
        super().__init__(given, preference, library)
        if given.block_format is GgufBlockFormat.Q8_K:
            raise UnsupportedError("block_format is q8_K, which has no integer products")

    @property
    def workspace_size(self) -> int:  # type: ignore[override]
        return int(self.descriptor.m * (self.descriptor.ncols // 32) * _Q8_1_BYTES)

    def _views(self, args: Any) -> dict[str, TensorRef]:
        of = self.descriptor
        return {
            "weight": self._bytes("weight", args.weight, of.w_start_byte_offset + of.nrows * of.row_bytes),
            "activations": self._view("activations", args.activations, (of.m, of.ncols), of.element),
            "output": self._view("output", args.output, (of.m, of.nrows), ElementKind.F32),
        }

    def _launch(self, views: Mapping[str, TensorRef], workspace: TensorRef | None, stream: int) -> None:
        of, null = self.descriptor, self._pointer(0)
        blocks = 0 if workspace is None else workspace.ptr
        if of.m == 0:
            return
        handle = self._pointer(stream)
        self._call(f"quantize_q8_1_{of.element}", of.ncols, of.m, views["activations"], self._pointer(blocks), handle)
        row_bytes, first = of.ncols // 32 * _Q8_1_BYTES, 0
        while first < of.m:
            rows = next(chunk for chunk in _CHUNKS if chunk <= of.m - first)
            self._call(
                f"mmvq_multim_{of.block_format.spelling}_m{rows}", of.ncols, of.nrows, views["weight"],
                of.w_start_byte_offset, self._pointer(blocks + first * row_bytes),
                self._pointer(views["output"].ptr + first * of.nrows * 4), null, 0, handle,
            )  # fmt: skip
            first += rows


class GgufMmvqBatchedPlan(_Plan):
    """Products by expert. Dispatch i multiplies row sorted_token_ids[i] of activations by the weights of the expert e
    with expert_offsets[e] <= i < expert_offsets[e + 1], times topk_weights[i]; with top_k > 1 results are added to
    output, which the caller has cleared, in the order of the dispatches.
    """

    __slots__ = ()
    descriptor_type = GgufMmvqBatchedDescriptor
    args_type = GgufMmvqBatchedArgs
    name = "gguf_mmvq_batched"

    @property
    def workspace_size(self) -> int:  # type: ignore[override]
        return int(4 * self.descriptor.m_total)

    def _views(self, args: Any) -> dict[str, TensorRef]:
        of = self.descriptor
        needed = math.prod((of.n_experts, of.n_rows_per_expert, of.row_bytes))
        views = {
            "weights": self._bytes("weights", args.weights, needed, exact=True),
            "activations": self._view("activations", args.activations, (None, of.n_cols), of.element),
            "sorted_token_ids": self._view("sorted_token_ids", args.sorted_token_ids, (of.m_total,), ElementKind.I32),
            "expert_offsets": self._view("expert_offsets", args.expert_offsets, (of.n_experts + 1,), ElementKind.I32),
        }
        if args.topk_weights is not None:
            views["topk_weights"] = self._view("topk_weights", args.topk_weights, (of.m_total,), ElementKind.F32)
        tokens = views["activations"].shape[0]
        return {**views, "output": self._view("output", args.output, (tokens, of.n_rows_per_expert), of.element)}

    def _launch(self, views: Mapping[str, TensorRef], workspace: TensorRef | None, stream: int) -> None:
        of = self.descriptor
        factors = views["topk_weights"].ptr if "topk_weights" in views else 0
        words = 0 if workspace is None else workspace.ptr
        # C derives the number of dispatches from the workspace's size: exactly that of the descriptor.
        self._call(
            f"mmvq_{of.block_format.spelling}_batched{_SUFFIXES[of.element]}", of.n_experts, of.n_rows_per_expert,
            of.n_cols, views["weights"], views["activations"],
            self._pointer(views["sorted_token_ids"].ptr, "int32_t *"),
            self._pointer(views["expert_offsets"].ptr, "int32_t *"), self._pointer(factors, "float *"), views["output"],
            of.top_k, self._pointer(words), self.workspace_size, self._pointer(stream),
        )  # fmt: skip

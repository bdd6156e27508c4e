# SPDX-License-Identifier: Apache-2.0
"""Machine-learning kernels on arrays and raw pointers, over the baracuda C library, on CUDA or the CPU.

    y = bk.gelu(bk.add(x, bias))  # arrays of NumPy, PyTorch, CuPy, JAX ...: y belongs to the framework of x

There is a function for each op (baracuda.functions). For runtimes and bindings there are plans:

    plan = bk.SegmentSumPlan.select(stream, bk.SegmentSumDescriptor(n, d, segments, element=bk.f32))
    plan.run(stream, bk.workspace(plan), bk.SegmentSumArgs(input=x, segment_ids=ids, output=y))

Every op has a Descriptor, an Args and a Plan; their modules are imported at first use. So is the library found and
opened; see `baracuda.default_library`.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from baracuda._library.exports import LAZY as _LAZY
from baracuda._library.loader import Library, default_library, load
from baracuda.descriptor import Descriptor
from baracuda.dtypes import (
    ElementKind,
    b1,
    bf16,
    bool_,
    c32,
    c64,
    e4m3fn,
    e5m2,
    f16,
    f32,
    f32_strict,
    f64,
    fp8e4m3,
    fp8e5m2,
    i8,
    i16,
    i32,
    i64,
    s4,
    s8,
    u4,
    u8,
    u16,
    u32,
    u64,
)
from baracuda.errors import (
    BaracudaError,
    BufferTooSmallError,
    CheckError,
    ExportError,
    IndexOutOfRangeError,
    InternalError,
    InvalidProblemError,
    LibraryNotFoundError,
    MisalignedOperandError,
    Status,
    UnknownStatusError,
    UnsupportedError,
    ViewIndexError,
    WorkspaceTooSmallError,
)
from baracuda.guarantee import KernelSku, PlanPreference, PrecisionGuarantee
from baracuda.kinds import (
    ActivationKind,
    ArchSku,
    ArgReduceKind,
    AttentionKind,
    BackendKind,
    BinaryCmpKind,
    BinaryKind,
    CellKind,
    CodeBook,
    ColorConversion,
    ConvKind,
    CrossEntropyTargetKind,
    DenseLayout,
    DynamicRangeMode,
    DynamicRangeScope,
    EmbeddingBagMode,
    EmbeddingKind,
    EpilogueKind,
    ExpertGroupScore,
    ExpertScoring,
    FftKind,
    FloatFormat,
    Fp8Scaling,
    GatedActivationKind,
    ImageKind,
    IndexingKind,
    LayoutSku,
    LinalgKind,
    LossKind,
    LossReduction,
    MathPrecision,
    MoeKind,
    MxFormat,
    NormalizationKind,
    OpCategory,
    PadMode,
    PerRowSampler,
    PoolKind,
    PoolMode,
    QuantileInterpolation,
    QuantizeKind,
    RandomKind,
    RecurrentKind,
    ReduceKind,
    ReduceToOp,
    ResampleMode,
    RotaryPairing,
    RoutingKind,
    SampleMode,
    SamplePadding,
    SamplerKind,
    SamplingKind,
    ScaleLayout,
    ScaleRule,
    ScalingKind,
    ScanKind,
    ScatterReduction,
    SegmentKind,
    ShapeLayoutKind,
    SoftmaxKind,
    SortKind,
    TernaryKind,
    UnaryKind,
)
from baracuda.memory import SharedWorkspace, asarray, clear, download, empty, synchronize, upload, workspace, zeros
from baracuda.plan import Plan
from baracuda.quantize.formats import GgufBlockFormat
from baracuda.stream import stream_handle
from baracuda.tensor import TensorMut, TensorRef, contiguous_stride, tensor

if TYPE_CHECKING:
    from baracuda import distributed as distributed
    from baracuda import fp8 as fp8
    from baracuda import linalg as linalg
    from baracuda import optim as optim
    from baracuda import random as random
    from baracuda._arrays.frameworks import set_allocator as set_allocator
    from baracuda._call.checking import checked as checked
    from baracuda._call.graphs import Graph as Graph
    from baracuda._call.graphs import graph as graph
    from baracuda._plans import *  # noqa: F403  (written by tools/gen_stub.py)
    from baracuda.attention.functions import *  # noqa: F403
    from baracuda.attention.pages import *  # noqa: F403
    from baracuda.attention.ring import RingAttentionArgs as RingAttentionArgs
    from baracuda.attention.ring import RingAttentionDescriptor as RingAttentionDescriptor
    from baracuda.attention.ring import RingAttentionPlan as RingAttentionPlan
    from baracuda.composites import *  # noqa: F403
    from baracuda.concatenation import *  # noqa: F403
    from baracuda.convolutions.functions import *  # noqa: F403
    from baracuda.convolutions.plans import *  # noqa: F403
    from baracuda.experts.functions import *  # noqa: F403
    from baracuda.functions import *  # noqa: F403
    from baracuda.gemm.packing import *  # noqa: F403
    from baracuda.loss.fused import (
        FusedLinearCrossEntropyArgs as FusedLinearCrossEntropyArgs,
    )
    from baracuda.loss.fused import (
        FusedLinearCrossEntropyBackwardArgs as FusedLinearCrossEntropyBackwardArgs,
    )
    from baracuda.loss.fused import (
        FusedLinearCrossEntropyBackwardDescriptor as FusedLinearCrossEntropyBackwardDescriptor,
    )
    from baracuda.loss.fused import (
        FusedLinearCrossEntropyBackwardPlan as FusedLinearCrossEntropyBackwardPlan,
    )
    from baracuda.loss.fused import (
        FusedLinearCrossEntropyDescriptor as FusedLinearCrossEntropyDescriptor,
    )
    from baracuda.loss.fused import (
        FusedLinearCrossEntropyPlan as FusedLinearCrossEntropyPlan,
    )
    from baracuda.quantize.affine import *  # noqa: F403
    from baracuda.quantize.linear_plans import QuantizedLinearArgs as QuantizedLinearArgs
    from baracuda.quantize.linear_plans import QuantizedLinearDescriptor as QuantizedLinearDescriptor
    from baracuda.quantize.linear_plans import QuantizedLinearPlan as QuantizedLinearPlan
    from baracuda.quantize.linear_plans import SmoothQuantLinearArgs as SmoothQuantLinearArgs
    from baracuda.quantize.linear_plans import SmoothQuantLinearDescriptor as SmoothQuantLinearDescriptor
    from baracuda.quantize.linear_plans import SmoothQuantLinearPlan as SmoothQuantLinearPlan
    from baracuda.quantize.mmvq_plans import GgufMmvqArgs as GgufMmvqArgs
    from baracuda.quantize.mmvq_plans import GgufMmvqBatchedArgs as GgufMmvqBatchedArgs
    from baracuda.quantize.mmvq_plans import GgufMmvqBatchedDescriptor as GgufMmvqBatchedDescriptor
    from baracuda.quantize.mmvq_plans import GgufMmvqBatchedPlan as GgufMmvqBatchedPlan
    from baracuda.quantize.mmvq_plans import GgufMmvqDescriptor as GgufMmvqDescriptor
    from baracuda.quantize.mmvq_plans import GgufMmvqMultiMArgs as GgufMmvqMultiMArgs
    from baracuda.quantize.mmvq_plans import GgufMmvqMultiMDescriptor as GgufMmvqMultiMDescriptor
    from baracuda.quantize.mmvq_plans import GgufMmvqMultiMPlan as GgufMmvqMultiMPlan
    from baracuda.quantize.mmvq_plans import GgufMmvqPlan as GgufMmvqPlan
    from baracuda.quantize.transcode import *  # noqa: F403
    from baracuda.quantize.weights import *  # noqa: F403
    from baracuda.random.generator import Generator as Generator
    from baracuda.random.plans import DropoutArgs as DropoutArgs
    from baracuda.random.plans import DropoutBackwardArgs as DropoutBackwardArgs
    from baracuda.random.plans import DropoutBackwardDescriptor as DropoutBackwardDescriptor
    from baracuda.random.plans import DropoutBackwardPlan as DropoutBackwardPlan
    from baracuda.random.plans import DropoutDescriptor as DropoutDescriptor
    from baracuda.random.plans import DropoutPlan as DropoutPlan
    from baracuda.random.plans import RandomArgs as RandomArgs
    from baracuda.random.plans import RandomDescriptor as RandomDescriptor
    from baracuda.random.plans import RandomPlan as RandomPlan
    from baracuda.rotary.pairs import ROPE_DEFAULT_BASE as ROPE_DEFAULT_BASE
    from baracuda.rotary.tables import LinearScaling as LinearScaling
    from baracuda.rotary.tables import LongRoPEScaling as LongRoPEScaling
    from baracuda.rotary.tables import RopeScaledTableBuilder as RopeScaledTableBuilder
    from baracuda.rotary.tables import YaRNScaling as YaRNScaling
    from baracuda.search.functions import *  # noqa: F403
    from baracuda.sorting.functions import *  # noqa: F403
    from baracuda.sorting.percentiles import *  # noqa: F403

__version__ = "0.1.0"

_MODULES = ("distributed", "fft", "fp8", "linalg", "optim", "random")  # that are attributes, as in NumPy

_NOT_OURS = {"Any", "TYPE_CHECKING", "annotations", "importlib", "sys"}

if not TYPE_CHECKING:  # type checkers must report misspelt names

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        module = _LAZY.get(name)
        if module is None:
            if name.startswith("_") or name not in _functions_of_arrays():
                raise AttributeError(
                    f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__]
                )
            module = "functions"
        value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES, *_functions_of_arrays()} - _NOT_OURS)


def _functions_of_arrays() -> Any:
    from baracuda._functions.spec import specs

    return specs()


__all__ = [
    *_LAZY,
    *_MODULES,
    "ActivationKind",
    "ArchSku",
    "ArgReduceKind",
    "AttentionKind",
    "BackendKind",
    "BaracudaError",
    "BinaryCmpKind",
    "BinaryKind",
    "CodeBook",
    "ColorConversion",
    "BufferTooSmallError",
    "ConvKind",
    "CrossEntropyTargetKind",
    "CheckError",
    "DenseLayout",
    "DynamicRangeMode",
    "DynamicRangeScope",
    "Descriptor",
    "ElementKind",
    "CellKind",
    "EmbeddingBagMode",
    "EmbeddingKind",
    "EpilogueKind",
    "FftKind",
    "ExportError",
    "FloatFormat",
    "Fp8Scaling",
    "GatedActivationKind",
    "GgufBlockFormat",
    "ImageKind",
    "ExpertGroupScore",
    "ExpertScoring",
    "IndexingKind",
    "IndexOutOfRangeError",
    "InternalError",
    "InvalidProblemError",
    "KernelSku",
    "LayoutSku",
    "LinalgKind",
    "Library",
    "LibraryNotFoundError",
    "LossKind",
    "LossReduction",
    "MathPrecision",
    "MisalignedOperandError",
    "MxFormat",
    "MoeKind",
    "NormalizationKind",
    "OpCategory",
    "PadMode",
    "PerRowSampler",
    "PoolKind",
    "PoolMode",
    "Plan",
    "PlanPreference",
    "PrecisionGuarantee",
    "QuantileInterpolation",
    "QuantizeKind",
    "RecurrentKind",
    "RotaryPairing",
    "SamplerKind",
    "RoutingKind",
    "SamplingKind",
    "ScaleLayout",
    "ScaleRule",
    "ScalingKind",
    "ScanKind",
    "ScatterReduction",
    "RandomKind",
    "ReduceKind",
    "ReduceToOp",
    "ResampleMode",
    "SampleMode",
    "SamplePadding",
    "SegmentKind",
    "ShapeLayoutKind",
    "SoftmaxKind",
    "SortKind",
    "SharedWorkspace",
    "Status",
    "TensorMut",
    "TensorRef",
    "TernaryKind",
    "UnaryKind",
    "UnknownStatusError",
    "UnsupportedError",
    "ViewIndexError",
    "WorkspaceTooSmallError",
    "asarray",
    "b1",
    "bf16",
    "bool_",
    "c32",
    "c64",
    "clear",
    "contiguous_stride",
    "default_library",
    "download",
    "e4m3fn",
    "e5m2",
    "empty",
    "f16",
    "f32",
    "f32_strict",
    "f64",
    "fp8e4m3",
    "fp8e5m2",
    "i8",
    "i16",
    "i32",
    "i64",
    "load",
    "s4",
    "s8",
    "stream_handle",
    "synchronize",
    "tensor",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
    "upload",
    "workspace",
    "zeros",
]

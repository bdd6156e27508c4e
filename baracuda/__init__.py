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
    FloatFormat,
    Fp8Scaling,
    GatedActivationKind,
    ImageKind,
    IndexingKind,
    LayoutSku,
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
from baracuda.memory import asarray, clear, download, empty, synchronize, upload, workspace, zeros
from baracuda.plan import Plan
from baracuda.quantize.formats import GgufBlockFormat
from baracuda.stream import stream_handle
from baracuda.tensor import TensorMut, TensorRef, contiguous_stride, tensor

if TYPE_CHECKING:
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

# Module -> words; each word is a <word>Args, <word>Descriptor and <word>Plan.
_OPS = {
    "attention.alibi": "Alibi AlibiBackward",
    "attention.kv_cache": "KvCacheAppend",
    "attention.serving": (
        "FlashDecoding BatchPagedDecode BatchPagedDecodeFp8 BatchPagedDecodeQuantized BatchPagedPrefill "
        "BatchRaggedPrefill PagedKvAppend PagedKvAppendQuantized CascadeAttention "
        "CascadeMergeStates MergeAttentionStates"
    ),
    "attention.sdpa": (
        "Sdpa SdpaBackward FlashSdpa FlashSdpaBackward FlashSdpaSm89 FlashSdpaVarlen FlashSdpaVarlenBackward "
        "SdpaBlockSparse Fa2Sdpa Fa2SdpaBackward"
    ),
    "elementwise.affine": "Affine",
    "elementwise.binary": "Binary BinaryBackward BinaryCmp BinaryParam BinaryParamBackward",
    "elementwise.cast": "Cast CastSubByte",
    "elementwise.fill": "Fill",
    "elementwise.gated": "GatedActivation GatedActivationBackward",
    "elementwise.prelu": "PRelu PReluBackward",
    "elementwise.ternary": "Ternary TernaryBackward",
    "elementwise.unary": "Unary UnaryBackward UnaryParam UnaryParamBackward",
    "elementwise.where": "Where WhereBackward",
    "embeddings.bags": (
        "EmbeddingBag EmbeddingBagBackward EmbeddingBagMax EmbeddingBagMaxBackward EmbeddingBagWeighted "
        "EmbeddingBagWeightedBackward EmbeddingBagWeightsBackward EmbeddingBagLastOffset "
        "EmbeddingBagLastOffsetBackward EmbeddingBagDenseBackward EmbeddingBagSparseBackward EmbeddingBagMaxLastOffset"
    ),
    "embeddings.rows": ("Embedding EmbeddingBackward EmbeddingRenorm EmbeddingDenseBackward EmbeddingSparseBackward"),
    "gemm.dense": "BatchedGemm DenseGemm DenseGemmBackward DenseGemm3xTf32 DenseGemv GatedGemm Gemm IntGemm",
    "gemm.grouped": "GroupedGemm GroupedGemmBackward",
    "gemm.pointers": "GemmPointers GroupedGemmPointers",
    "gemm.scaled": "ScaledGemm",
    "gemm.sums": "DenseSumsGemm",
    "gemm.narrow": (
        "Fp8Gemm Int4Gemm BinGemm GemmSparse24 GemmSparse24Inflate Int4MarlinGemm Int4AwqGemm Int4AwqDequantize"
    ),
    "attention.hyper_connections": "HyperConnection",
    "experts.plans": ("MoeRoute MoeRouteBackward MoeSort MoePermute MoePermuteBackward MoeCombine MoeCombineBackward"),
    "experts.products": "Moe",
    "convolutions.windows": "Im2Col1d Im2Col2d Col2Im1d",
    "state_space": (
        "CausalConv1d CausalConv1dBackward SelectiveScan SelectiveScanBackward SsdChunkScan SsdChunkScanBackward"
    ),
    "image": "AffineGrid2d",
    "boxes": "RoiAlign RoiAlignBackward RoiPool RoiPoolBackward Nms BatchedNms BoxIou",
    "deform": "DeformColumns DeformColumnsBackward",
    "pixels": "PixelsToPlanes PlanesToPixels ConvertColor Nv12ToRgb",
    "indexing.accumulate": (
        "GatherBackward IndexAdd IndexSelectBackward PutAdd ScatterAdd ScatterReduce ScatterReduceBackward"
    ),
    "indexing.gather": "Gather GatherRows IndexSelect Take",
    "indexing.masked": ("MaskedFill MaskedFillBackward MaskedScatter MaskedSelect MaskedSelectBackward Nonzero OneHot"),
    "indexing.scatter": "Put Scatter",
    "search.plans": (
        "Searchsorted SearchsortedRows IsinSorted Bincount Histogram HistogramBins HistogramEdges HistogramEdgesBins "
        "UniqueConsecutive Unique UniqueRuns UniqueElements"
    ),
    "loss.classes": (
        "WeightedCrossEntropy WeightedCrossEntropyBackward WeightedNll WeightedNllBackward WeightedSoftCrossEntropy "
        "WeightedSoftCrossEntropyBackward CrossEntropyWithGradient"
    ),
    "loss.ctc": "CtcLoss CtcLossBackward RaggedCtcLoss RaggedCtcLossBackward",
    "loss.elementwise": (
        "Mse MseBackward L1 L1Backward SmoothL1 SmoothL1Backward Huber HuberBackward Bce BceBackward "
        "BceWithLogits BceWithLogitsBackward KlDiv KlDivBackward PoissonNll PoissonNllBackward GaussianNll "
        "GaussianNllBackward MarginRanking MarginRankingBackward HingeEmbedding HingeEmbeddingBackward"
    ),
    "loss.logits": (
        "WeightedBceWithLogits WeightedBceWithLogitsBackward SigmoidFocal SigmoidFocalBackward KlDivBatch "
        "KlDivBatchBackward"
    ),
    "loss.options": (
        "WeightedBce WeightedBceBackward FullPoissonNll FullPoissonNllBackward FullGaussianNll TripletMarginSwap "
        "TripletMarginSwapBackward WeightedMultiMargin WeightedMultiMarginBackward WeightedMultilabelSoftMargin "
        "WeightedMultilabelSoftMarginBackward"
    ),
    "loss.rows": (
        "CrossEntropy CrossEntropyBackward Nll NllBackward CosineEmbedding CosineEmbeddingBackward "
        "TripletMargin TripletMarginBackward MultiMargin MultiMarginBackward MultilabelMargin "
        "MultilabelMarginBackward MultilabelSoftMargin MultilabelSoftMarginBackward CrossEntropyInPlace"
    ),
    "loss.targets": (
        "BceTargetBackward WeightedBceWithLogitsTargetBackward KlDivBatchTargetBackward PoissonNllTargetBackward "
        "GaussianNllVarBackward MarginRankingTargetBackward MultilabelSoftMarginTargetBackward "
        "WeightedBceTargetBackward FullPoissonNllTargetBackward WeightedMultilabelSoftMarginTargetBackward"
    ),
    "norm.batch": "BatchNormTraining BatchNormTrainingBackward BatchNormInference",
    "norm.channels": ("BatchNorm BatchNormBackward GroupNorm GroupNormBackward InstanceNorm InstanceNormBackward"),
    "norm.groups": "GroupNormChannelsLast GroupNormChannelsLastBackward",
    "norm.l2_norm": "L2Normalize L2NormalizeBackward WeightNorm WeightNormBackward",
    "norm.recompute": (
        "RMSNormRecomputeBackward LayerNormRecomputeBackward GroupNormRecomputeBackward BatchNormRecomputeBackward"
    ),
    "norm.rows": "RMSNorm RMSNormBackward LayerNorm LayerNormBackward",
    "norm.add_norm": "AddRMSNorm AddRMSNormBackward AddLayerNorm AddLayerNormBackward",
    "norm.wide": "GroupNormWide GroupNormWideBackward",
    "attention.ring": "RingAttentionInit RingAttentionStep RingAttentionFinalize",
    "quantize.blocks": (
        "GgufDequantize DequantizeBlocks TakeBlocks QuantizeBlocks QuantizeActivations QuantizeActivationsWide"
    ),
    "quantize.product_plans": "QuantizedMatmul MxMatmul",
    "quantize.affine_plans": (
        "QuantizePerTensor QuantizePerTensorBackward DequantizePerTensor DequantizePerTensorBackward FakeQuantize "
        "FakeQuantizeBackward QuantizePerChannel QuantizePerChannelBackward DequantizePerChannel "
        "DequantizePerChannelBackward FakeQuantizePerChannel FakeQuantizePerChannelBackward FakeQuantizeLearnable "
        "FakeQuantizeLearnableBackward QuantizePerToken QuantizePerTokenBackward DequantizePerToken "
        "DequantizePerTokenBackward QuantizePerGroup QuantizePerGroupBackward DequantizePerGroup "
        "DequantizePerGroupBackward DynamicRangeQuantize"
    ),
    "pool.dense": (
        "MaxPool1d MaxPool1dBackward MaxPool2d MaxPool2dBackward MaxPool3d MaxPool3dBackward AvgPool1d "
        "AvgPool1dBackward AvgPool2d AvgPool2dBackward AvgPool3d AvgPool3dBackward LpPool1d LpPool1dBackward LpPool2d "
        "LpPool2dBackward AdaptiveAvgPool AdaptiveAvgPoolBackward AdaptiveMaxPool AdaptiveMaxPoolBackward "
        "FractionalMaxPool2d FractionalMaxPool2dBackward FractionalMaxPool3d FractionalMaxPool3dBackward"
    ),
    "pool.images": (
        "MaxPoolNd MaxPoolNdBackward MaxPoolNdIndicesBackward AvgPoolNd AvgPoolNdBackward LpPoolNd LpPoolNdBackward "
        "AdaptiveMaxPoolNd AdaptiveMaxPoolNdBackward AdaptiveMaxPoolNdIndicesBackward AdaptiveAvgPoolNd "
        "AdaptiveAvgPoolNdBackward FractionalMaxPoolNd FractionalMaxPoolNdBackward MaxUnpoolNd MaxUnpoolNdBackward"
    ),
    "quantize.integer_plans": "W8A8Linear QuantizedLinearCodes MatmulInteger QLinearMatmul",
    "quantize.floats": (
        "EncodeFloats DecodeFloats QuantizeMx DequantizeMx SwizzleScales Quantize4Bit Dequantize4Bit Gemv4Bit "
        "Quantize8BitBlocks Dequantize8BitBlocks QuantizeFp8 DequantizeFp8"
    ),
    "quantize.nf4": "Nf4Dequantize Nf4Mmvq Nf4MmvqMultiM",
    "reduce.axes": "ReduceAxes MomentsAxes ArgReduceAxes MeanAxes",
    "reduce.one_axis": "Reduce ReduceBackward ArgReduce BoolReduce CountReduce",
    "reduce.to_shape": "ReduceTo ReduceToBackward",
    "reduce.trace": "Trace TraceBackward",
    "recurrent.cell_plans": "RecurrentCells RecurrentCellsBackward",
    "recurrent.state_plans": (
        "GatedDeltaRule GatedDeltaRuleBackward GatedDeltaRuleUpdate GatedLinearAttention GatedLinearAttentionBackward "
        "GatedLinearAttentionUpdate Rwkv7 Rwkv7Backward Rwkv7Update"
    ),
    "rotary.apply": (
        "RopeApply RopeApplyBackward RopeApplyThd RopeApplyThdBackward RopeApplyInterleaved "
        "RopeApplyInterleavedBackward RopeTablesBackward"
    ),
    "rotary.positions": "Rope RopeBackward RopePositions RopePositionsBackward RopeStarts RopeStartsBackward",
    "resampling": (
        "Interpolate InterpolateBackward UpsampleNearest2d UpsampleNearest2dBackward PixelShuffle PixelUnshuffle"
    ),
    "grid_sampling": ("GridSample GridSampleBackward GridSample2d GridSample2dBackward AffineGrid AffineGridBackward"),
    "sampling": (
        "TopKTopPSampling PerRowSampling SpeculativeSampling TokenPenalty SampleTokens FilterTokens TypicalSampling "
        "ProcessLogits TokenPenaltyLists TokenBiasLists SpeculativeSample TreeSample"
    ),
    "scan": "ExclusiveScan ExclusiveScanBackward Scan ScanBackward ScanIndices",
    "segment": (
        "SegmentSum SegmentMean SegmentMax SegmentMin SegmentMaxOrZero SegmentMinOrZero SegmentProd "
        "UnsortedSegmentSum UnsortedSegmentMean "
        "UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd SegmentSumBackward SegmentMeanBackward "
        "SegmentMaxBackward SegmentMinBackward SegmentProdBackward UnsortedSegmentSumBackward "
        "UnsortedSegmentMeanBackward UnsortedSegmentMaxBackward UnsortedSegmentMinBackward UnsortedSegmentProdBackward"
    ),
    "shape.concat": "Concat ConcatBackward ConcatMany ConcatManyBackward",
    "shape.image_windows": "Im2Col Col2Im",
    "shape.permute": "Flip FlipBackward Permute PermuteBackward Roll RollBackward",
    "shape.pad": "Pad PadBackward",
    "shape.repeat": "Repeat RepeatBackward RepeatInterleave RepeatInterleaveBackward",
    "shape.slices": "Contiguize WriteSlice WriteSliceFrom",
    "shape.triangle": "Tril TrilBackward Triu TriuBackward",
    "shape.windows": "Unfold UnfoldBackward",
    "sorting.plans": (
        "Sort Msort Argsort SortWide SortByKey SortBackward MsortBackward SortAxis SortValuesAxis ArgsortAxis"
    ),
    "order_statistics": (
        "Topk TopkBackward TopkAxis TopkAxisBackward TopkSegments Kthvalue KthvalueBackward Median Nanmedian Mode "
        "Quantile QuantileBackward Nanquantile NanquantileBackward"
    ),
    "softmaxes": (
        "Softmax SoftmaxBackward GumbelSoftmax GumbelSoftmaxBackward GumbelSoftmaxSeeded GumbelSoftmaxSeededBackward "
        "Sparsemax SparsemaxBackward MaskedSoftmax "
        "MaskedSoftmaxBackward SoftmaxToF32 SoftmaxToF32Backward Entmax15 Entmax15Backward"
    ),
}
_PARTS = ("Args", "Descriptor", "Plan")
_LAZY = {word + part: module for module, words in _OPS.items() for word in words.split() for part in _PARTS}
_COMPOSITE_PLANS = ("FusedLinearCrossEntropy", "FusedLinearCrossEntropyBackward")  # plans that launch other plans
_LAZY |= {word + part: "loss.fused" for word in _COMPOSITE_PLANS for part in _PARTS}
_LAZY |= {word + part: "quantize.linear_plans" for word in ("QuantizedLinear", "SmoothQuantLinear") for part in _PARTS}
_LAZY |= {f"GgufMmvq{word}{part}": "quantize.mmvq_plans" for word in ("", "MultiM", "Batched") for part in _PARTS}
_LAZY |= {word + part: "random.plans" for word in ("Random", "Dropout", "DropoutBackward") for part in _PARTS}
_LAZY |= {f"RingAttention{part}": "attention.ring" for part in _PARTS}
_LAZY["set_allocator"] = "_arrays.frameworks"
_LAZY["checked"] = "_call.checking"
_LAZY["ROPE_DEFAULT_BASE"] = "rotary.pairs"
_LAZY |= dict.fromkeys(("LinearScaling", "LongRoPEScaling", "RopeScaledTableBuilder", "YaRNScaling"), "rotary.tables")
_LAZY |= dict.fromkeys(("Graph", "graph"), "_call.graphs")
_LAZY |= dict.fromkeys(("awq_pack", "awq_unpack", "marlin_pack", "marlin_unpack"), "gemm.packing")
_LAZY |= dict.fromkeys(
    (
        "as_strided",
        "concatenate",
        "meshgrid",
        "repeat_interleave_counts",
        "repeat_interleave_counts_backward",
        "split",
        "stack",
    ),
    "concatenation",
)
_LAZY |= dict.fromkeys(
    (
        "flash_attn_varlen",
        "flash_attn_varlen_backward",
        "scaled_dot_product_attention",
        "scaled_dot_product_attention_backward",
    ),
    "attention.functions",
)
_LAZY["paged_kv_append"] = "attention.pages"
_LAZY["moe"] = "experts.functions"
_LAZY["deform_conv2d"] = "deform"
_LAZY |= dict.fromkeys(
    (
        *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d"),
        *("adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
        *("fractional_max_pool2d", "fractional_max_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d"),
        *("max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d"),
    ),
    "pool.functions",
)
_LAZY |= dict.fromkeys(("gru", "lstm", "rnn"), "recurrent.functions")
_LAZY |= dict.fromkeys(
    (
        *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
        *("conv1d_backward", "conv2d_backward", "conv3d_backward"),
        *("conv_transpose1d_backward", "conv_transpose2d_backward", "conv_transpose3d_backward"),
    ),
    "convolutions.functions",
)
_LAZY |= dict.fromkeys(
    [
        f"{op}{rank}d{word}"
        for op in ("Conv", "ConvTranspose")
        for rank in (1, 2, 3)
        for word in ("BwDataArgs", "Descriptor", "DwArgs", "FwArgs", "Plan")
    ],
    "convolutions.plans",
)
_LAZY |= dict.fromkeys(
    (
        "dequantize_linear",
        "dynamic_quantize_linear",
        "fake_quantize",
        "matmul_integer",
        "qlinear_matmul",
        "quantize_linear",
        "quantized_linear",
    ),
    "quantize.affine",
)
_LAZY |= dict.fromkeys(("compress_absmax", "dynamic_map", "linear_4bit"), "quantize.weights")
_LAZY |= dict.fromkeys(
    (
        "ZeroPointRule",
        "awq_checkpoint",
        "gptq_checkpoint",
        "gptq_zero_points",
        "mxfp4_to_fp8_blocks",
        "mxfp4_to_nvfp4",
    ),
    "quantize.transcode",
)
_LAZY |= dict.fromkeys(
    (
        "addmm",
        "baddbmm",
        "einsum",
        "index_copy",
        "index_fill",
        "isfinite",
        "isinf",
        "isnan",
        "write_slice",
    ),
    "composites",
)
_LAZY |= dict.fromkeys(("lexsort", "msort", "segmented_argsort", "segmented_sort", "sort_by_key"), "sorting.functions")
_LAZY |= dict.fromkeys(
    (
        "bincount",
        "bucketize",
        "digitize",
        "histc",
        "histogram",
        "histogram2d",
        "histogramdd",
        "isin",
        "unique",
        "unique_consecutive",
    ),
    "search.functions",
)
_LAZY |= dict.fromkeys(("nanpercentile", "percentile"), "sorting.percentiles")


_LAZY |= dict.fromkeys(("Generator",), "random.generator")
_MODULES = ("optim", "random")  # that are attributes, as in NumPy

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

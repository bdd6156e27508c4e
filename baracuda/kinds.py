# SPDX-License-Identifier: Apache-2.0
"""Enumerations of the plan layer. Values are stable; OpCategory and ArchSku have tokens for persisted files."""

from __future__ import annotations

from baracuda._enumeration import IntEnum as IntEnum
from baracuda.convolutions.kinds import ConvKind as ConvKind
from baracuda.elementwise.kinds import BinaryCmpKind as BinaryCmpKind
from baracuda.elementwise.kinds import BinaryKind as BinaryKind
from baracuda.elementwise.kinds import GatedActivationKind as GatedActivationKind
from baracuda.elementwise.kinds import TernaryKind as TernaryKind
from baracuda.elementwise.kinds import UnaryKind as UnaryKind
from baracuda.experts.kinds import ExpertGroupScore as ExpertGroupScore
from baracuda.experts.kinds import ExpertScoring as ExpertScoring
from baracuda.experts.kinds import MoeKind as MoeKind
from baracuda.experts.kinds import RoutingKind as RoutingKind
from baracuda.fft.kinds import FftKind as FftKind
from baracuda.images.kinds import ColorConversion as ColorConversion
from baracuda.images.kinds import ImageKind as ImageKind
from baracuda.images.kinds import ResampleMode as ResampleMode
from baracuda.images.kinds import SampleMode as SampleMode
from baracuda.images.kinds import SamplePadding as SamplePadding
from baracuda.linalg.kinds import LinalgKind as LinalgKind
from baracuda.pool.kinds import PoolKind as PoolKind
from baracuda.pool.kinds import PoolMode as PoolMode
from baracuda.quantize.kinds import CodeBook as CodeBook
from baracuda.quantize.kinds import DynamicRangeMode as DynamicRangeMode
from baracuda.quantize.kinds import DynamicRangeScope as DynamicRangeScope
from baracuda.quantize.kinds import FloatFormat as FloatFormat
from baracuda.quantize.kinds import Fp8Scaling as Fp8Scaling
from baracuda.quantize.kinds import MxFormat as MxFormat
from baracuda.quantize.kinds import QuantizeKind as QuantizeKind
from baracuda.quantize.kinds import ScaleLayout as ScaleLayout
from baracuda.quantize.kinds import ScaleRule as ScaleRule
from baracuda.recurrent.kinds import CellKind as CellKind
from baracuda.recurrent.kinds import RecurrentKind as RecurrentKind


class OpCategory(IntEnum):
    GEMM = 0
    UNARY_ELEMENTWISE = 1
    BINARY_ELEMENTWISE = 2
    TERNARY_ELEMENTWISE = 3
    GATED_ACTIVATION = 4
    REDUCTION = 5
    SCAN = 6
    NORMALIZATION = 7
    SOFTMAX = 8
    CONVOLUTION = 9
    POOLING = 10
    ATTENTION = 11
    INDEXING = 12
    EMBEDDING = 13
    SHAPE_LAYOUT = 14
    SORTING = 15
    QUANTIZATION = 16
    RANDOM = 17
    LOSS = 18
    SEGMENT_OPS = 19
    IMAGE = 20
    FFT = 21
    LINALG = 22
    MOE = 23
    RECURRENT = 24

    @property
    def token(self) -> str:
        """Spelling in persisted files."""
        return _CATEGORY_TOKENS[self]


_CATEGORY_TOKENS = (
    *("gem", "une", "bin", "ter", "gat", "red", "scn", "nrm", "sft", "cnv", "pol", "att"),
    *("idx", "emb", "shp", "srt", "qnt", "rnd", "los", "seg", "img", "fft", "lin", "moe", "rec"),
)


class ArchSku(IntEnum):
    """Machine code: of NVIDIA's chips, and of processors, CPU standing for what every one of them has. Numbers from 200
    up are ours.
    """

    SM80 = 0
    SM89 = 1
    SM90A = 2
    SM86 = 200
    SM87 = 201
    SM90 = 202
    SM100 = 203
    SM103 = 204
    SM110 = 205
    SM120 = 206
    SM121 = 207
    CPU = 300
    AVX2 = 301
    AVX512 = 302

    @property
    def token(self) -> str:
        """Spelling in persisted files."""
        return f"{'cpu' if self >= ArchSku.CPU else 'cuda'}:{self.name.lower()}"


class BackendKind(IntEnum):
    BESPOKE = 0
    CUTLASS = 1
    CUBLAS = 2
    CUDNN = 3
    CUFFT = 4
    CUSPARSE = 5
    CUSOLVER = 6
    CURAND = 7
    CUTENSOR = 8
    NPP = 9
    CVCUDA = 10
    FLASH_ATTENTION_V2 = 11
    FLASH_INFER = 12
    OZAKI = 13


class MathPrecision(IntEnum):
    F16 = 0
    BF16 = 1
    TF32 = 2
    F32 = 3
    F64 = 4
    INT8 = 5
    FP8_E4M3 = 6
    FP8_E5M2 = 7
    INT4 = 8
    BINARY = 9
    INTEGER = 200  # exact, in the integer type of the operands; ours


class LayoutSku(IntEnum):
    """GEMM operand layouts: A, B, then C and D; R row-major, C column-major."""

    RCR = 0
    RRR = 1


class DenseLayout(IntEnum):
    """Layouts of A and B of a dense GEMM: R row-major, C column-major; D is row-major."""

    RRR = 0
    RCR = 1
    CRR = 2
    CCR = 3

    @property
    def a_by_rows(self) -> bool:
        return self in (DenseLayout.RRR, DenseLayout.RCR)

    @property
    def b_by_rows(self) -> bool:
        return self in (DenseLayout.RRR, DenseLayout.CRR)


class ScalingKind(IntEnum):
    """Granularity of the scales of 8-bit operands."""

    TENSOR = 0
    ROWS = 1
    BLOCKS = 2


class RotaryPairing(IntEnum):
    """Pairs among D features: 2i with 2i + 1 (GPT-J), or i with i + D / 2 (GPT-NeoX, Llama)."""

    ADJACENT = 0
    HALVES = 1


class ActivationKind(IntEnum):
    RELU = 0
    GELU = 1
    SILU = 2
    GELU_TANH = 3


class EpilogueKind(IntEnum):
    """D = act(alpha * A B + beta * C + bias[n]); GELU is the exact erf form, GELU_TANH that by tanh."""

    IDENTITY = 0
    BIAS = 1
    BIAS_RELU = 2
    BIAS_GELU = 3
    BIAS_SILU = 4
    BIAS_GELU_TANH = 5

    @property
    def requires_bias(self) -> bool:
        return self is not EpilogueKind.IDENTITY

    @property
    def activation(self) -> ActivationKind | None:
        return ActivationKind(self - 2) if self >= EpilogueKind.BIAS_RELU else None


class ShapeLayoutKind(IntEnum):
    """Backward plans carry the forward value."""

    PAD = 0
    CONCAT = 1
    PERMUTE = 2
    REPEAT = 3
    FLIP = 4
    ROLL = 5
    MESHGRID = 6
    FILL = 7
    WRITE_SLICE = 8
    CONTIGUIZE = 9
    TRIU = 10
    TRIL = 11
    UNFOLD = 12
    REPEAT_INTERLEAVE = 13
    IM2COL = 14


class PadMode(IntEnum):
    CONSTANT = 0
    REFLECT = 1
    REPLICATE = 2
    CIRCULAR = 3


class EmbeddingKind(IntEnum):
    """Numbers from 200 up are ours."""

    EMBEDDING = 0
    EMBEDDING_BACKWARD = 1
    EMBEDDING_BAG_SUM = 2
    EMBEDDING_BAG_MEAN = 3
    EMBEDDING_BAG_SUM_BACKWARD = 4
    EMBEDDING_BAG_MEAN_BACKWARD = 5
    EMBEDDING_BAG_MAX = 6
    EMBEDDING_BAG_MAX_BACKWARD = 7
    EMBEDDING_BAG_WEIGHTED = 200
    EMBEDDING_BAG_WEIGHTED_BACKWARD = 201
    EMBEDDING_BAG_WEIGHTS_BACKWARD = 202
    EMBEDDING_RENORM = 203
    EMBEDDING_DENSE_BACKWARD = 204
    EMBEDDING_BAG_DENSE_BACKWARD = 205
    EMBEDDING_SPARSE_BACKWARD = 206
    EMBEDDING_BAG_SPARSE_BACKWARD = 207
    EMBEDDING_BAG_MAX_LAST_OFFSET = 208


class EmbeddingBagMode(IntEnum):
    SUM = 0
    MEAN = 1


class ScanKind(IntEnum):
    CUMSUM = 0
    CUMPROD = 1
    CUMMAX = 2
    CUMMIN = 3
    LOG_CUMSUM_EXP = 4


class SoftmaxKind(IntEnum):
    SOFTMAX = 0
    LOG_SOFTMAX = 1
    GUMBEL_SOFTMAX = 2
    SPARSEMAX = 3
    ENTMAX15 = 200  # ours


class ReduceKind(IntEnum):
    SUM = 0
    MEAN = 1
    MAX = 2
    MIN = 3
    PROD = 4
    VAR = 5
    STD = 6
    NORM2 = 7
    ARGMAX = 8
    ARGMIN = 9
    ANY = 10
    ALL = 11
    LOG_SUM_EXP = 12
    TRACE = 13
    COUNT_NONZERO = 14
    FMAX = 15
    FMIN = 16
    NORM_P = 17


class ArgReduceKind(IntEnum):
    ARGMAX = 0
    ARGMIN = 1


class ReduceToOp(IntEnum):
    SUM = 0
    MEAN = 1
    MAX = 2
    MIN = 3
    PROD = 4
    VAR = 5
    STD = 6
    NORM2 = 7
    ANY = 10
    ALL = 11
    LOG_SUM_EXP = 12
    COUNT_NONZERO = 14
    FMAX = 15
    FMIN = 16
    NORM_P = 17


class SegmentKind(IntEnum):
    """Numbers from 200 up are ours."""

    SEGMENT_SUM = 0
    SEGMENT_SUM_BACKWARD = 1
    SEGMENT_MEAN = 2
    SEGMENT_MEAN_BACKWARD = 3
    SEGMENT_MAX = 4
    SEGMENT_MIN = 5
    SEGMENT_PROD = 6
    UNSORTED_SEGMENT_SUM = 7
    UNSORTED_SEGMENT_SUM_BACKWARD = 8
    UNSORTED_SEGMENT_MEAN = 9
    UNSORTED_SEGMENT_MEAN_BACKWARD = 10
    UNSORTED_SEGMENT_MAX = 11
    UNSORTED_SEGMENT_MIN = 12
    SEGMENT_MAX_BACKWARD = 13
    SEGMENT_MIN_BACKWARD = 14
    SEGMENT_PROD_BACKWARD = 15
    UNSORTED_SEGMENT_MAX_BACKWARD = 16
    UNSORTED_SEGMENT_MIN_BACKWARD = 17
    UNSORTED_SEGMENT_PROD = 18
    UNSORTED_SEGMENT_PROD_BACKWARD = 19
    SEGMENT_MAX_OR_ZERO = 200
    SEGMENT_MIN_OR_ZERO = 201


class SortKind(IntEnum):
    """Numbers from 200 up are ours."""

    SORT = 0
    SORT_BACKWARD = 1
    ARGSORT = 2
    MSORT = 3
    MSORT_BACKWARD = 4
    TOPK = 5
    TOPK_BACKWARD = 6
    KTHVALUE = 7
    KTHVALUE_BACKWARD = 8
    UNIQUE = 9
    UNIQUE_CONSECUTIVE = 10
    HISTOGRAM = 11
    HISTOGRAMDD = 12
    BINCOUNT = 13
    SEARCHSORTED = 14
    SORT_WIDE = 200
    SORT_BY_KEY = 201
    SORT_AXIS = 202
    SORT_VALUES_AXIS = 203
    ARGSORT_AXIS = 204
    TOPK_AXIS = 220
    TOPK_AXIS_BACKWARD = 221
    TOPK_SEGMENTS = 222
    MEDIAN = 223
    NANMEDIAN = 224
    MODE = 225
    QUANTILE = 226
    QUANTILE_BACKWARD = 227
    NANQUANTILE = 228
    NANQUANTILE_BACKWARD = 229
    SEARCHSORTED_ROWS = 240
    ISIN_SORTED = 241
    HISTOGRAM_EDGES = 242
    HISTOGRAM_BINS = 243
    HISTOGRAM_EDGES_BINS = 244
    UNIQUE_RUNS = 245
    UNIQUE_ELEMENTS = 246


class QuantileInterpolation(IntEnum):
    """The value between the elements of two ranks."""

    LINEAR = 0
    LOWER = 1
    HIGHER = 2
    MIDPOINT = 3
    NEAREST = 4


class IndexingKind(IntEnum):
    """Numbers from 200 up are ours."""

    GATHER = 0
    GATHER_BACKWARD = 1
    SCATTER_ADD = 2
    INDEX_SELECT = 3
    INDEX_SELECT_BACKWARD = 4
    MASKED_FILL = 5
    MASKED_FILL_BACKWARD = 6
    ONE_HOT = 7
    NONZERO = 8
    SCATTER = 9
    INDEX_ADD = 10
    TAKE = 200
    PUT = 201
    GATHER_ROWS = 202
    MASKED_SELECT = 203
    MASKED_SELECT_BACKWARD = 204
    MASKED_SCATTER = 205
    SCATTER_REDUCE = 206
    SCATTER_REDUCE_BACKWARD = 207
    PUT_ADD = 208


class ScatterReduction(IntEnum):
    SUM = 0
    PROD = 1
    MEAN = 2
    AMAX = 3
    AMIN = 4


class NormalizationKind(IntEnum):
    """Backward plans carry the forward value."""

    RMS_NORM = 0
    LAYER_NORM = 1
    GROUP_NORM = 2
    BATCH_NORM = 3
    INSTANCE_NORM = 4
    L2_NORMALIZE = 200  # from here on ours
    WEIGHT_NORM = 201


class AttentionKind(IntEnum):
    """Backward plans carry the forward value."""

    ROPE = 0
    ALIBI = 1
    SDPA = 2
    FLASH_ATTENTION = 3
    KV_CACHE = 4
    PAGED_ATTENTION = 5
    HYPER_CONNECTION = 6
    SSD_CHUNK_SCAN = 7
    SELECTIVE_SCAN = 8
    BLOCK_SPARSE_ATTENTION = 9
    RING_ATTENTION = 10
    CAUSAL_CONV1D = 200  # from 200 on: ours


class RandomKind(IntEnum):
    """Random arrays of RandomPlan."""

    UNIFORM = 0
    NORMAL = 1
    BERNOULLI = 2
    MULTINOMIAL = 3


class LossKind(IntEnum):
    MSE = 0
    NLL = 1
    CROSS_ENTROPY = 2
    BCE = 3
    KL_DIV = 4
    L1 = 5
    SMOOTH_L1 = 6
    HINGE_EMBEDDING = 7
    MARGIN_RANKING = 8
    TRIPLET_MARGIN = 9
    CTC = 10
    POISSON_NLL = 11
    HUBER = 12
    BCE_WITH_LOGITS = 13
    GAUSSIAN_NLL = 14
    COSINE_EMBEDDING = 15
    MULTI_MARGIN = 16
    MULTILABEL_MARGIN = 17
    MULTILABEL_SOFT_MARGIN = 18
    FUSED_LINEAR_CROSS_ENTROPY = 19
    SIGMOID_FOCAL = 20


class LossReduction(IntEnum):
    """The reduction of a loss: none, mean or sum."""

    NONE = 0
    MEAN = 1
    SUM = 2


class CrossEntropyTargetKind(IntEnum):
    CLASS_INDEX = 0
    SOFT_PROB = 1


class SamplerKind(IntEnum):
    TOP_K = 0
    TOP_P = 1
    MIN_P = 2
    TOP_K_TOP_P = 3


class PerRowSampler(IntEnum):
    TOP_K = 0
    TOP_P = 1
    MIN_P = 2
    TOP_K_TOP_P = 3


class SamplingKind(IntEnum):
    """Ops on distributions of tokens. Numbers from 200 up are ours."""

    TOKENS = 200
    FILTER = 201
    PENALTY = 202
    SPECULATIVE = 203

# SPDX-License-Identifier: Apache-2.0
"""One-line descriptions of enumeration members, from the op table or from the texts here."""

from __future__ import annotations

import functools
from enum import IntEnum

DESCRIPTIONS: dict[str, dict[str, str]] = {
    "OpCategory": {
        "GEMM": "matrix products", "UNARY_ELEMENTWISE": "elementwise functions of one array",
        "BINARY_ELEMENTWISE": "elementwise functions of two arrays",
        "TERNARY_ELEMENTWISE": "elementwise functions of three arrays",
        "GATED_ACTIVATION": "gated units: one half of an array by a function of the other",
        "REDUCTION": "sums, means, extrema and the like along axes", "SCAN": "running sums, products and extrema",
        "NORMALIZATION": "normalization of rows, channels and groups", "SOFTMAX": "softmax and its relatives",
        "CONVOLUTION": "convolutions", "POOLING": "pooling over windows",
        "ATTENTION": "attention, rotary embedding, key-value caches", "INDEXING": "gather, scatter, masks",
        "EMBEDDING": "rows of a table, and bags of them", "SHAPE_LAYOUT": "moves of elements",
        "SORTING": "sorting and selection", "QUANTIZATION": "conversion to few bits and back",
        "RANDOM": "random numbers", "LOSS": "losses", "SEGMENT_OPS": "reductions of rows by segment ids",
        "IMAGE": "sampling and interpolation of images", "FFT": "Fourier transforms",
        "LINALG": "decompositions and solvers", "MOE": "routing between experts",
        "RECURRENT": "recurrent layers: states through time",
    },
    "ArchSku": {
        "SM80": "NVIDIA A100, A30", "SM86": "NVIDIA A10, A40, RTX 30", "SM87": "NVIDIA Jetson Orin",
        "SM89": "NVIDIA L4, L40, RTX 40", "SM90": "NVIDIA H100, H200", "SM90A": "NVIDIA H100, H200, and no newer chip",
        "SM100": "NVIDIA B200", "SM103": "NVIDIA B300", "SM110": "NVIDIA Jetson Thor", "SM120": "NVIDIA RTX 50",
        "SM121": "NVIDIA GB10", "CPU": "what every processor of the kind has", "AVX2": "x86-64 with AVX2 and FMA",
        "AVX512": "x86-64 with AVX-512",
    },
    "BackendKind": {
        "BESPOKE": "kernels of this library", "CUTLASS": "kernels by templates of CUTLASS", "CUBLAS": "NVIDIA cuBLAS",
        "CUDNN": "NVIDIA cuDNN", "CUFFT": "NVIDIA cuFFT", "CUSPARSE": "NVIDIA cuSPARSE", "CUSOLVER": "NVIDIA cuSOLVER",
        "CURAND": "NVIDIA cuRAND", "CUTENSOR": "NVIDIA cuTENSOR", "NPP": "NVIDIA NPP", "CVCUDA": "CV-CUDA",
        "FLASH_ATTENTION_V2": "FlashAttention 2", "FLASH_INFER": "FlashInfer", "OZAKI": "f64 products of integer parts",
    },
    "MathPrecision": {
        "F16": "half precision, 11 bits", "BF16": "bfloat16, 8 bits", "TF32": "f32 of 11 bits, on tensor cores",
        "F32": "single precision, 24 bits", "F64": "double precision, 53 bits", "INT8": "8-bit integers",
        "FP8_E4M3": "8-bit floats of 4 bits", "FP8_E5M2": "8-bit floats of 3 bits", "INT4": "4-bit integers",
        "BINARY": "single bits", "INTEGER": "exact, in the integer type of the operands",
    },
    "RandomKind": {
        "UNIFORM": "uniform numbers in [low, high)", "NORMAL": "normal numbers", "BERNOULLI": "1 with a probability",
        "MULTINOMIAL": "categories by their weights",
    },
    "LayoutSku": {"RCR": "A by rows, B by columns", "RRR": "A and B by rows"},
    "DenseLayout": {
        "RRR": "A and B by rows", "RCR": "A by rows, B by columns", "CRR": "A by columns, B by rows",
        "CCR": "A and B by columns",
    },
    "ScalingKind": {
        "TENSOR": "a matrix", "ROWS": "a row of A, a column of B",
        "BLOCKS": "128 K elements: of a row of A, of 128 columns of B",
    },
    "RotaryPairing": {
        "ADJACENT": "feature 2i with 2i + 1, as GPT-J has it",
        "HALVES": "feature i with i + D / 2, as GPT-NeoX and Llama have it",
    },
    "CodeBook": {
        "NF4": "quantiles of the normal distribution", "FP4": "a sign and eight magnitudes of 0 to 1",
    },
    "FloatFormat": {
        "E2M1": "4 bits, magnitudes 0 to 6", "E2M3": "6 bits, magnitudes 0 to 7.5",
        "E3M2": "6 bits, magnitudes 0 to 28", "E4M3": "8 bits, up to 448, with NaN, without infinities",
        "E5M2": "8 bits, up to 57344, with NaN and infinities",
        "E4M3_FNUZ": "8 bits, up to 240, one NaN, no negative zero",
        "E5M2_FNUZ": "8 bits, up to 57344, one NaN, no negative zero",
        "E8M0": "powers of two from 2^-127 to 2^127, NaN",
    },
    "MxFormat": {
        "MXFP4": "32 of e2m1 and a power of two", "MXFP6_E2M3": "32 of e2m3 and a power of two",
        "MXFP6_E3M2": "32 of e3m2 and a power of two", "MXFP8_E4M3": "32 of e4m3 and a power of two",
        "MXFP8_E5M2": "32 of e5m2 and a power of two", "MXINT8": "32 integers over 64 and a power of two",
        "NVFP4": "16 of e2m1 and a scale of e4m3, with one f32 scale of all",
    },
    "ScaleRule": {
        "FLOOR": "floor(log2(largest)) less the format's largest exponent, as OCP has it: the largest may saturate",
        "CEIL": "the least exponent with which nothing saturates",
        "ROUND": "as FLOOR, of the largest after rounding to the format's mantissa",
    },
    "ScaleLayout": {
        "LINEAR": "by rows", "SWIZZLED_128X4": "tiles of 128 rows and 4 columns, in the order of cuBLASLt and cuDNN",
    },
    "Fp8Scaling": {
        "TENSOR": "all", "ROWS": "a row", "GROUPS": "128 adjacent elements of a row",
        "BLOCKS": "a square of 128 by 128",
    },
    "SamplerKind": {
        "TOP_K": "tokens that fewer than k exceed", "TOP_P": "tokens whose likelier ones have a mass below p",
        "MIN_P": "tokens of at least p times the largest probability", "TOP_K_TOP_P": "tokens that both filters admit",
    },
    "PerRowSampler": {
        "TOP_K": "tokens that fewer than k exceed", "TOP_P": "tokens whose likelier ones have a mass below p",
        "MIN_P": "tokens of at least p times the largest probability", "TOP_K_TOP_P": "tokens that both filters admit",
    },
    "QuantizeKind": {
        "PER_TENSOR": "codes with one scale", "DEQUANTIZE_PER_TENSOR": "numbers of codes with one scale",
        "PER_CHANNEL": "codes with a scale for each channel",
        "DEQUANTIZE_PER_CHANNEL": "numbers of codes with a scale for each channel",
        "PER_TOKEN": "codes with a scale for each row",
        "DEQUANTIZE_PER_TOKEN": "numbers of codes with a scale for each row",
        "PER_GROUP": "codes with a scale for each group of a row",
        "DEQUANTIZE_PER_GROUP": "numbers of codes with a scale for each group of a row",
        "FAKE_QUANTIZE": "the numbers nearest to x that have codes",
        "DYNAMIC_RANGE": "codes with scales that follow from the values", "QUANTIZED_LINEAR": "a linear layer of codes",
        "INTEGER_PRODUCT": "products of codes less their zero points",
        "DEQUANTIZE_PER_TENSOR_BACKWARD": "the gradient of numbers of codes with one scale",
        "DEQUANTIZE_PER_CHANNEL_BACKWARD": "the gradient of numbers of codes with a scale for each channel",
        "DEQUANTIZE_PER_TOKEN_BACKWARD": "the gradient of numbers of codes with a scale for each row",
        "DEQUANTIZE_PER_GROUP_BACKWARD": "the gradient of numbers of codes with a scale for each group of a row",
        "GGUF_DEQUANTIZE": "GGUF blocks as f32", "GGUF_MMVQ": "few vectors times weights in GGUF blocks",
        "QUANTIZED_MATMUL": "any number of rows times weights in GGUF blocks",
        "NF4_DEQUANTIZE": "NF4 weights as floats", "NF4_PRODUCT": "few vectors times NF4 weights",
        "FOUR_BIT_QUANTIZE": "floats as codes of a code book", "FOUR_BIT_DEQUANTIZE": "codes of a code book as floats",
        "FOUR_BIT_PRODUCT": "a matrix times weights of a code book",
        "EIGHT_BIT_QUANTIZE": "blocks of floats as codes of a map of 256 values",
        "EIGHT_BIT_DEQUANTIZE": "codes of a map of 256 values as floats",
        "ENCODE_FLOATS": "floats as bytes of a narrow format", "DECODE_FLOATS": "bytes of a narrow format as floats",
        "MX_QUANTIZE": "blocks of floats with a narrow scale", "MX_DEQUANTIZE": "blocks with a narrow scale as floats",
        "MX_PRODUCT": "any number of rows times weights with a narrow scale for each block",
        "SWIZZLE_SCALES": "scales in the order of tensor cores, or back",
        "FP8_QUANTIZE": "8-bit floats with f32 scales", "FP8_DEQUANTIZE": "8-bit floats with f32 scales as floats",
    },
    "DynamicRangeMode": {"SYMMETRIC": "zero points are 0", "ASYMMETRIC": "ranges have zero points"},
    "DynamicRangeScope": {
        "TENSOR": "one scale", "CHANNEL": "a scale for each channel: not served", "TOKEN": "a scale for each row",
        "GROUP": "a scale for each group of a row",
    },
    "ExpertScoring": {
        "SOFTMAX": "probabilities of all experts", "SIGMOID": "each expert by itself",
        "TOPK_SOFTMAX": "logits, and probabilities of the chosen experts",
    },
    "ExpertGroupScore": {"MAX": "the largest score of a group", "SUM_OF_TOP_2": "the sum of its two largest scores"},
    "MoeKind": {
        "SCALAR_GGUF": "f32 rows, GGUF matrices", "WMMA": "16-bit rows and matrices",
        "WMMA_GGUF": "16-bit rows, GGUF matrices",
    },
    "RoutingKind": {
        "ROUTE": "experts of tokens and their weights", "ROUTE_BACKWARD": "gradient of the logits",
        "SORT": "pairs of tokens and slots by expert", "PERMUTE": "rows of tokens in this order",
        "PERMUTE_BACKWARD": "sums of each token's rows", "COMBINE": "weighted sums of each token's rows",
        "COMBINE_BACKWARD": "gradients of rows and weights",
    },
    "SamplingKind": {
        "TOKENS": "a token of each row", "FILTER": "rows of the tokens that a sampler admits",
        "PENALTY": "logits after penalties, biases and masks",
        "SPECULATIVE": "drafted tokens that a target model accepts",
    },
    "ActivationKind": {
        "RELU": "max(x, 0)", "GELU": "x Phi(x)", "SILU": "x sigmoid(x)", "GELU_TANH": "x Phi(x), approximated by tanh",
    },
    "EpilogueKind": {
        "IDENTITY": "alpha A B + beta C", "BIAS": "alpha A B + beta C + bias",
        "BIAS_RELU": "relu(alpha A B + beta C + bias)", "BIAS_GELU": "gelu(alpha A B + beta C + bias)",
        "BIAS_SILU": "silu(alpha A B + beta C + bias)",
        "BIAS_GELU_TANH": "gelu_tanh(alpha A B + beta C + bias)",
    },
    "PadMode": {
        "CONSTANT": "a value", "REFLECT": "the array mirrored at its border, which is not repeated",
        "REPLICATE": "the element at the border", "CIRCULAR": "the array again from its other end",
    },
    "EmbeddingBagMode": {"SUM": "the sum of a bag's rows", "MEAN": "the mean of a bag's rows"},
    "LossReduction": {"NONE": "all losses", "MEAN": "the mean of the losses", "SUM": "the sum of the losses"},
    "CrossEntropyTargetKind": {
        "CLASS_INDEX": "the number of the class", "SOFT_PROB": "a probability for each class",
    },
    "ReduceToOp": {
        "SUM": "sums over axes that were broadcast", "MAX": "maxima over axes that were broadcast",
        "MIN": "minima over axes that were broadcast", "PROD": "products over axes that were broadcast",
        "MEAN": "means over axes that were broadcast", "VAR": "variances over axes that were broadcast",
        "STD": "deviations over axes that were broadcast", "NORM2": "lengths over axes that were broadcast",
        "LOG_SUM_EXP": "ln of the sums of e^x over axes that were broadcast",
    },
    "ArgReduceKind": {"ARGMAX": "the place of the first maximum", "ARGMIN": "the place of the first minimum"},
    "ReduceKind": {
        "ARGMAX": "the place of the first maximum", "ARGMIN": "the place of the first minimum",
        "LOG_SUM_EXP": "ln of the sum of e^x", "TRACE": "the sum of a diagonal",
        "COUNT_NONZERO": "the number of elements that are not 0", "FMAX": "the greatest x that is no NaN",
        "FMIN": "the least x that is no NaN", "NORM_P": "(sum of |x|^p)^(1/p)",
    },
    "NormalizationKind": {
        "RMS_NORM": "x over the root of its mean square, of each row",
        "LAYER_NORM": "(x - mean) / sqrt(variance + eps) of each row",
        "GROUP_NORM": "(x - mean) / sqrt(variance + eps) of each group of an item's channels",
        "BATCH_NORM": "(x - mean) / sqrt(variance + eps) of each channel over the batch",
        "INSTANCE_NORM": "(x - mean) / sqrt(variance + eps) of each channel of each item",
        "L2_NORMALIZE": "x over its Euclidean norm, of each row",
        "WEIGHT_NORM": "a direction of length g, of each row",
    },
    "AttentionKind": {
        "ROPE": "rotary position embedding", "SDPA": "scaled dot-product attention",
        "FLASH_ATTENTION": "attention that keeps no scores", "KV_CACHE": "keys and values appended to a cache",
        "PAGED_ATTENTION": "attention to a cache in pages", "HYPER_CONNECTION": "several residual streams, mixed",
        "SSD_CHUNK_SCAN": "the state space scan of Mamba 2, by chunks", "SELECTIVE_SCAN": "the scan of Mamba",
        "CAUSAL_CONV1D": "a convolution of each channel with its past",
        "BLOCK_SPARSE_ATTENTION": "attention to chosen blocks", "RING_ATTENTION": "attention spread over devices",
    },
    "EmbeddingKind": {
        "EMBEDDING_BAG_SUM": "the sum of a bag's rows", "EMBEDDING_BAG_MEAN": "the mean of a bag's rows",
        "EMBEDDING_BAG_MAX": "the greatest of a bag's rows, each feature by itself",
    },
    "ShapeLayoutKind": {
        "PAD": "elements before and behind each axis", "CONCAT": "two arrays behind one another",
        "MESHGRID": "coordinates of a grid", "WRITE_SLICE": "a part of an array overwritten",
        "CONTIGUIZE": "a copy in row-major order",
    },
    "LossKind": {
        "CROSS_ENTROPY": "minus the logarithm of the softmax at the target", "KL_DIV": "target (ln(target) - x)",
        "BCE_WITH_LOGITS": "binary cross entropy of sigmoid(x)",
        "FUSED_LINEAR_CROSS_ENTROPY": "cross entropy of a product that is not kept",
    },
    "ImageKind": {
        "NMS": "boxes without those that overlap a better one", "ROI_ALIGN": "means of sampled regions",
        "ROI_POOL": "maxima of regions", "PIXEL_SHUFFLE": "channels become pixels",
        "PIXEL_UNSHUFFLE": "pixels become channels", "GRID_SAMPLE_2D": "values at positions of a grid",
        "GRID_SAMPLE_3D": "values of volumes at positions of a grid", "INTERPOLATE": "images of another size",
        "AFFINE_GRID_3D": "positions of an affine map of volumes", "AFFINE_GRID_BACKWARD": "gradient of an affine map",
        "BOX_IOU": "intersection over union of each pair of boxes",
    },
    "ResampleMode": {
        "NEAREST": "the element at the lower end of an output's cell",
        "NEAREST_EXACT": "the element at the centre of an output's cell", "LINEAR": "two neighbours along each axis",
        "CUBIC": "four neighbours along each axis", "AREA": "the mean of an output's cell",
        "LANCZOS": "a windowed sinc of three lobes", "BOX": "a box as wide as an output's cell",
        "HAMMING": "a sinc in Hamming's window",
    },
    "SampleMode": {
        "LINEAR": "two neighbours along each axis", "NEAREST": "the nearest element",
        "CUBIC": "four neighbours along each axis",
    },
    "SamplePadding": {
        "ZEROS": "zeros", "BORDER": "the nearest edge", "REFLECTION": "the image, mirrored at its edges",
    },
    "FftKind": {
        "FFT": "transforms of complex rows", "RFFT": "transforms of real rows, to their first half",
        "IRFFT": "inverses of RFFT", "FFT_ND": "transforms of complex arrays behind a batch",
        "RFFT_ND": "transforms of real arrays behind a batch, to a half of the last axis",
        "IRFFT_ND": "inverses of RFFT_ND", "FFT_SHIFT_ND": "the zero frequency in the middle of axes",
    },
    "LinalgKind": {
        "CHOLESKY": "factors of Hermitian positive definite matrices", "LU": "LU with partial pivoting, packed",
        "QR": "QR as matrices", "BATCHED_QR": "QR, packed as reflectors", "SOLVE": "solutions by LU",
        "INVERSE": "inverses by LU", "LST_SQ": "least squares of any rank", "BATCHED_ORMQR": "products with reflectors",
        "BATCHED_ORMQR_WY_BUILD_T": "triangles of blocks of reflectors",
        "BATCHED_ORMQR_WY_EXTRACT_V": "vectors of reflectors",
        "BATCHED_QR_MATERIALIZE_R": "upper triangles of packed factors",
        "BATCHED_QR_MATERIALIZE_IDENTITY": "identities",
        "EIGH": "eigenvalues of Hermitian matrices", "EIG": "eigenvalues of square matrices", "SVD": "singular values",
        "PINV": "pseudoinverses and ranks", "POLAR": "polar decompositions",
    },
    "ConvKind": {
        "DEPTHWISE_CONV_2D": "groups of one channel", "UNFOLD": "windows as columns",
        "FOLD": "the sum of columns over the windows of an image",
    },
}  # fmt: skip
# Prefixes of the names of an enumeration's ops.
_PREFIXES = {
    "UnaryKind": ("unary_",), "BinaryKind": ("binary_", "binary_cmp_"), "BinaryCmpKind": ("binary_cmp_",),
    "TernaryKind": ("ternary_", ""), "GatedActivationKind": ("gated_",), "LossKind": ("loss_",), "ScanKind": ("scan_",),
    "ReduceKind": ("reduce_",),
}  # fmt: skip


def description(member: IntEnum) -> str:
    """A one-line description of a member."""
    return _described(type(member).__name__, member.name)


@functools.cache  # keyed by names, since members of two enumerations may be equal
def _described(kind: str, name: str) -> str:
    return DESCRIPTIONS.get(kind, {}).get(name) or _of_op(kind, name.lower()) or _words(name)


def _of_op(kind: str, name: str) -> str:
    """The summary of an op's function on arrays; empty if there is none."""
    from baracuda._functions.spec import specs
    from baracuda.functions import summary

    for prefix in _PREFIXES.get(kind, ("",)):
        for spec in specs().values():
            for pattern in spec.patterns:
                op = pattern.partition("{")[0].rstrip("_")
                if op == f"{prefix}{name}" or op == f"{prefix}{name}_param":
                    return summary(spec).rstrip(".")
    return ""


def _words(name: str) -> str:
    """The member's name in words, for ops without a function on arrays."""
    words = name.lower().split("_")
    return f"the gradient of {' '.join(words[:-1])}" if words[-1] == "backward" else " ".join(words)

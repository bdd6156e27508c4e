# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for plan tests: a library that records calls, and operands at made-up addresses."""

import baracuda as bk
from baracuda import _ffi
from baracuda._library.exports import OPS
from baracuda._library.op_table import ops

SUM = bk.EmbeddingBagMode.SUM
LERP = bk.BinaryKind.LERP
MEAN = bk.LossReduction.MEAN
SHAPE = (3, 4)


class FakeLibrary(bk.Library):
    """Records calls instead of making them; every workspace has `size` bytes, every launch returns `status`.

    An op that does not exist, or another number of arguments than the op table has, fails.
    """

    def __init__(self, backend="cuda", size=1000):
        super().__init__(_ffi.ffi, None, "fake", {"backend": backend})
        self.size, self.calls, self.status = size, [], 0

    def function(self, op, kind="run"):
        row = ops()[op].row
        call_length = len(row.params)
        expected = {
            "run": call_length + (1 if row.is_bare else 3),
            "can_implement": len(row.check) or call_length,
            "workspace_size": len(row.problem_arguments(range(call_length))) if row.workspace else None,
        }[kind]

        def call(*args):
            assert len(args) == expected, (op, kind, args)
            self.calls.append((op, kind, args))
            return self.size if kind == "workspace_size" else self.status

        return call

    def launched(self):
        """(op, its arguments by name) of the last launch; pointers as addresses, host arrays as lists."""
        op, kind, args = self.calls[-1]
        assert kind == "run"
        named = {}
        for param, value in zip(ops()[op].row.params, args):
            if param.is_pointer:
                value = int(self.ffi.cast("uintptr_t", value))
            elif param.direction == "host":
                value = list(value)
            named[param.name] = value
        return op, named

    def last_error(self):
        return "the text"


def raw(shape, dtype=bk.f32, address=1 << 20, **options):
    return bk.TensorRef(address, shape, dtype, **options)


def bag_descriptor(**changes):
    fields = {
        "num_embeddings": 10,
        "embedding_dim": 4,
        "num_bags": 3,
        "total_indices": 7,
        "mode": SUM,
        "element": bk.f32,
    }
    return bk.EmbeddingBagDescriptor(**fields | changes)


def bag_args(**changes):
    fields = {
        "weight": raw((10, 4), address=1 << 20), "indices": raw((7,), bk.i32, 2 << 20),
        "offsets": raw((3,), bk.i32, 3 << 20), "output": raw((3, 4), address=4 << 20),
    }  # fmt: skip
    return bk.EmbeddingBagArgs(**fields | changes)


def backward_plan(library, element=bk.f32, **preference):
    descriptor = bk.EmbeddingBagBackwardDescriptor(10, 4, 3, 7, SUM, element=element)
    return bk.EmbeddingBagBackwardPlan.select(None, descriptor, bk.PlanPreference(**preference), library=library)


def backward_args(element=bk.f32, index=bk.i32):
    return bk.EmbeddingBagBackwardArgs(
        dout=raw((3, 4), element, 1 << 20), indices=raw((7,), index, 2 << 20), offsets=raw((3,), bk.i32, 3 << 20),
        dweight=raw((10, 4), element, 4 << 20),
    )  # fmt: skip


def lerp_plan(shape, element=bk.f32, weight=0.25, **options):
    descriptor = bk.BinaryParamDescriptor(LERP, shape, weight, element=element)
    return bk.BinaryParamPlan.select(None, descriptor, **options)


_POOLS = (("Max", bk.PoolMode.MAX), ("Avg", bk.PoolMode.AVG_INCLUDE_PAD))
# Fields of a descriptor of every forward op; a gradient takes those of its op, or its own.
EXAMPLES = {
    "Affine": (SHAPE, 2),
    "AffineGrid2d": (2, 3, 4),
    "AffineGrid": (2, 2, 3, 4),
    "Interpolate": ((2, 3, 5, 7), (2, 3, 9, 4), bk.ResampleMode.LINEAR),
    "UpsampleNearest2d": (2, 3, 4, 5, 7, 6),
    **dict.fromkeys(("PixelShuffle", "PixelUnshuffle"), (2, 3, 4, 5, 2)),
    "GridSample2d": (2, 3, 5, 7, 4, 6),
    "GridSample": ((2, 3, 5, 7), (2, 3, 4, 6)),
    "Alibi": (2, 3, 4, 5),
    "Binary": (bk.BinaryKind.ADD, SHAPE),
    "RoiAlign": (2, 3, 8, 9, 4, 2, 5),
    "RoiPool": (2, 3, 8, 9, 4, 2, 5),
    "Nms": (7, 0.5),
    "BatchedNms": (7, 0.5),
    "BoxIou": (3, 4),
    "DeformColumns": (2, 4, 6, 7, 3, 2, 4, 6),
    "PixelsToPlanes": (2, 5, 6, 3, 4, 4),
    "PlanesToPixels": (2, 3, 4, 5),
    "Nv12ToRgb": (2, 4, 6),
    "ConvertColor": (bk.ColorConversion.RGB_TO_HSV, 2, 6),
    "BinaryBackward": (bk.BinaryKind.MUL, SHAPE), "BinaryCmp": (bk.BinaryCmpKind.EQ, SHAPE),
    "BinaryParam": (LERP, SHAPE, 0.5), "Cast": (SHAPE, bk.f16), "CastSubByte": (SHAPE, bk.s4),
    "Embedding": (10, 4, 7), "EmbeddingRenorm": (10, 4, 7, 1.0), "EmbeddingBagLastOffset": (10, 4, 3, 7, SUM),
    "EmbeddingBag": (10, 4, 3, 7, SUM),
    **dict.fromkeys(("EmbeddingBagMax", "EmbeddingBagMaxLastOffset"), (10, 4, 3, 7)),
    "EmbeddingBagMaxBackward": (10, 4, 3), "EmbeddingDenseBackward": (10, 4, 7, True),
    "EmbeddingSparseBackward": (10, 4, 7, True),
    **dict.fromkeys(("EmbeddingBagDenseBackward", "EmbeddingBagSparseBackward"), (10, 4, 3, 7, SUM)),
    **dict.fromkeys(("EmbeddingBagWeighted", "EmbeddingBagWeightsBackward"), (10, 4, 3, 7, True)),
    **dict.fromkeys(("ScatterAdd", "GatherBackward", "IndexAdd", "IndexSelectBackward"), (SHAPE, 1, 5)),
    "ScatterReduce": (SHAPE, 1, 5, bk.ScatterReduction.MEAN, True), "PutAdd": (SHAPE, (6,)), "Fill": (SHAPE, 1),
    "KvCacheAppend": (2, 3, 4, 9, 8, 6),
    **dict.fromkeys(("Sdpa", "FlashSdpa", "FlashSdpaSm89"), (2, 3, 4, 5, 8, 8, 0.5)),
    "SdpaBlockSparse": (2, 3, 4, 5, 8, 8, 0.5, 2), "FlashSdpaVarlen": (2, 4, 2, 5, 6, 7, 9, 8, 8, 0.5),
    "Fa2Sdpa": (2, 4, 2, 5, 6, 8, 0.5), "Rope": (2, 3, 4, 8),
    "FlashDecoding": (2, 6, 3, 5, 8, 0.5),
    **dict.fromkeys(
        ("BatchPagedDecode", "BatchPagedDecodeFp8", "BatchPagedDecodeQuantized"), (2, 6, 3, 8, 4, 5, 3, 0.5)
    ),
    "BatchPagedPrefill": (2, 5, 6, 3, 8, 4, 5, 3, 0.5), "BatchRaggedPrefill": (2, 5, 7, 6, 3, 8, 0.5),
    **dict.fromkeys(("PagedKvAppend", "PagedKvAppendQuantized"), (2, 4, 3, 8, 4, 5, 3)),
    "CascadeAttention": (3, 2, 8), "CascadeMergeStates": (2, 3, 2, 8),
    "MergeAttentionStates": (2, 3, 8), "HyperConnection": (2, 16, 3), "RingAttentionInit": (40, 5),
    "RingAttentionStep": (2, 3, 4, 5, 8, 0.5), "RingAttentionFinalize": (2, 3, 4, 8),
    **dict.fromkeys(("RopePositions", "RopeStarts"), (2, 3, 4, 8, 500.0, 4)),
    "RopeApply": (6, 4, 8), "RopeApplyInterleaved": (6, 4, 8), "RopeApplyThd": (5, 3, 8), "RopeTables": (3, 5, 2, 8),
    "Reduce": (bk.ReduceKind.SUM, SHAPE, 1), "ArgReduce": (bk.ArgReduceKind.ARGMAX, SHAPE, 1),
    "BoolReduce": (bk.ReduceKind.ANY, SHAPE, 1), "CountReduce": (bk.ReduceKind.COUNT_NONZERO, SHAPE, 1),
    "ReduceAxes": (bk.ReduceKind.SUM, SHAPE, (0, 1)), "MomentsAxes": (bk.ReduceKind.VAR, SHAPE, (1,)),
    "ArgReduceAxes": (bk.ArgReduceKind.ARGMAX, SHAPE, (0, 1)), "MeanAxes": (SHAPE, (0,)),
    "ReduceTo": (bk.ReduceToOp.SUM, SHAPE, (3, 1)), "Trace": (3,), "TraceBackward": (3, 4),
    "Gemm": (3, 4, 5, bk.LayoutSku.RCR, bk.EpilogueKind.BIAS), "BatchedGemm": (3, 4, 5, 2), "DenseGemv": (4, 5, 2),
    "IntGemm": (3, 4, 5, bk.LayoutSku.RCR, bk.EpilogueKind.BIAS), "DenseGemm": (3, 4, 5, 2, bk.DenseLayout.RRR),
    **dict.fromkeys(("DenseSumsGemm", "DenseGemm3xTf32"), (3, 4, 5, 2, bk.DenseLayout.RRR)),
    "GatedGemm": (3, 4, 5, bk.LayoutSku.RCR, bk.ActivationKind.SILU),
    "ScaledGemm": (3, 4, 5, bk.DenseLayout.RRR, bk.ScalingKind.ROWS), "GroupedGemm": (6, 4, 5, 3, bk.DenseLayout.RCR),
    "GemmPointers": (3, 4, 5, 2, bk.DenseLayout.RCR, 5, 5, 4),
    "GroupedGemmPointers": (6, 4, 5, 3, bk.DenseLayout.RCR, 5),
    "Fp8Gemm": (3, 4, 5, bk.LayoutSku.RCR, bk.EpilogueKind.BIAS),
    "Int4Gemm": (3, 4, 6, bk.LayoutSku.RCR, bk.EpilogueKind.BIAS), "BinGemm": (3, 8, 16, bk.LayoutSku.RCR),
    "GemmSparse24": (3, 4, 8), "GemmSparse24Inflate": (4, 8), "Int4MarlinGemm": (3, 64, 128),
    "Int4AwqGemm": (3, 256, 64), "Int4AwqDequantize": (3, 128),
    "GatedActivation": (bk.GatedActivationKind.GLU, SHAPE, 1), "PRelu": (SHAPE, 1), "Repeat": (SHAPE, (2, 2)),
    "RepeatInterleave": (SHAPE, 1, 3), "Unfold": (SHAPE, 1, 3, 2),
    **dict.fromkeys(("Im2Col", "Col2Im"), ((2, 3, 5, 6), (2, 3), (1, 2), (1, 0), (2, 1))),
    **{f"{kind}Pool1d": (mode, 2, 3, 9, 3, 2, 1) for kind, mode in _POOLS},
    **{f"{kind}Pool2d": (mode, 2, 3, 9, 7, 3, 2, 2, 1, 1, 0) for kind, mode in _POOLS},
    **{f"{kind}Pool3d": (mode, 2, 3, 9, 7, 5, 3, 2, 2, 2, 1, 1, 1, 0, 1) for kind, mode in _POOLS},
    "LpPool1d": (2, 3, 9, 3, 2, 2.0), "LpPool2d": (2, 3, 9, 7, 3, 2, 2, 1, 2.0),
    **dict.fromkeys(("AdaptiveAvgPool", "AdaptiveMaxPool"), ((2, 3, 9, 7), (4, 3))),
    "FractionalMaxPool2d": (2, 3, 9, 7, 4, 3, 2, 2), "FractionalMaxPool2dBackward": (2, 3, 9, 7, 4, 3),
    "FractionalMaxPool3d": (2, 3, 9, 7, 5, 4, 3, 2, 2, 2, 3), "FractionalMaxPool3dBackward": (2, 3, 9, 7, 5, 4, 3, 2),
    **dict.fromkeys(
        ("MaxPoolNd", "MaxPoolNdIndicesBackward", "AvgPoolNd", "LpPoolNd"),
        ((2, 3, 9, 7), (3, 2), (2, 1), (1, 0), (0, 1), (1, 2), True),
    ),
    **dict.fromkeys(
        ("AdaptiveAvgPoolNd", "AdaptiveMaxPoolNd", "AdaptiveMaxPoolNdIndicesBackward", "MaxUnpoolNd"),
        ((2, 3, 9, 7), (4, 3)),
    ),
    "FractionalMaxPoolNd": ((2, 3, 9, 7), (4, 3), (2, 2)), "FractionalMaxPoolNdBackward": ((2, 3, 9, 7), (4, 3)),
    **dict.fromkeys(("Im2Col1d", "Col2Im1d"), (2, 3, 7, 3, 2, 1)), "Im2Col2d": (2, 3, 5, 6, 2, 3),
    "Concat": (SHAPE, (3, 5), 1), "ConcatBackward": ((3, 9), 1, 4), "ConcatMany": ((3, 9), 1, (4, 0, 5)),
    "Flip": (SHAPE, (True, False)),
    "Roll": (SHAPE, (1, -1)),
    "Permute": (SHAPE, (1, 0)), "Pad": (bk.PadMode.CONSTANT, SHAPE, (1, 2), (0, 1)), "Triu": (SHAPE, 0),
    "Tril": (SHAPE, 0),
    "Contiguize": (SHAPE,), "WriteSlice": (SHAPE, (2, 2), ((0, 2), (2, 4))),
    "WriteSliceFrom": (SHAPE, (2, 2), ((0, 2), (2, 4)), 0),
    "RMSNorm": (SHAPE, 2, 1e-5, True), "RMSNormBackward": (SHAPE, 2, True), "LayerNorm": (SHAPE, 2, 1e-5, True, True),
    "LayerNormBackward": (SHAPE, 2, True, True), "BatchNorm": (SHAPE, 1, 1e-5, True),
    "BatchNormBackward": (SHAPE, 1, True),
    "GroupNorm": (SHAPE, 1, 2, 1e-5, True), "GroupNormBackward": (SHAPE, 1, 2, True),
    "GroupNormWide": (SHAPE, 2, 1e-5), "GroupNormWideBackward": (SHAPE, 2),
    **dict.fromkeys(("RMSNormRecomputeBackward", "LayerNormRecomputeBackward"), (SHAPE, 2, 1e-5)),
    "GroupNormRecomputeBackward": (SHAPE, 2, 1e-5), "BatchNormRecomputeBackward": (SHAPE, 1e-5),
    "GroupNormChannelsLast": (SHAPE, 2, 1e-5), "GroupNormChannelsLastBackward": (SHAPE, 2),
    "InstanceNorm": (SHAPE, 1, 1e-5, True), "InstanceNormBackward": (SHAPE, 1, True),
    "AddRMSNorm": (SHAPE, 2, 1e-5, 1.0), "AddRMSNormBackward": (SHAPE, 2, 1.0),
    "AddLayerNorm": (SHAPE, 2, 1e-5, 1.0), "AddLayerNormBackward": (SHAPE, 2, 1.0),
    "BatchNormTraining": (SHAPE, 1, 1e-5, 0.1), "BatchNormTrainingBackward": (SHAPE, 1),
    "BatchNormInference": (SHAPE, 1, 1e-5), "L2Normalize": (SHAPE, 2, 1e-12), "WeightNorm": (SHAPE, 2),
    "MaskedSoftmax": (bk.SoftmaxKind.SOFTMAX, SHAPE, 1, 0.5, False, 0),
    "MaskedSoftmaxBackward": (bk.SoftmaxKind.SOFTMAX, SHAPE, 1, 0.5),
    "SoftmaxToF32": (bk.SoftmaxKind.SOFTMAX, SHAPE, 1), "Entmax15": (SHAPE, 1),
    "ExclusiveScan": (bk.ScanKind.CUMSUM, SHAPE, 1), "ScanIndices": (bk.ScanKind.CUMMAX, SHAPE, 1),
    "Scan": (bk.ScanKind.CUMSUM, SHAPE, 1), "ScanBackward": (bk.ScanKind.CUMPROD, SHAPE, 1),
    "ExclusiveScanBackward": (bk.ScanKind.CUMPROD, SHAPE, 1),
    "GumbelSoftmax": (SHAPE, 1, 0.5),
    "GumbelSoftmaxSeeded": (SHAPE, 1, 0.5), "Softmax": (bk.SoftmaxKind.SOFTMAX, SHAPE, 1), "Sparsemax": (SHAPE, 1),
    **dict.fromkeys(("Sort", "Msort", "Argsort", "SortWide"), (3, 4, True)), "SortByKey": (3, 4, bk.i32, True),
    **dict.fromkeys(("SortBackward", "MsortBackward"), (3, 4)),
    **dict.fromkeys(("SortAxis", "SortValuesAxis", "ArgsortAxis"), (SHAPE, 1, True)),
    "Searchsorted": (6, 5, True), "SearchsortedRows": (3, 4, 3, 5, True), "IsinSorted": (6, 5, False),
    "Bincount": (6, 5), **dict.fromkeys(("Histogram", "HistogramBins"), (6, 5, 0.0, 1.0)),
    **dict.fromkeys(("HistogramEdges", "HistogramEdgesBins"), (6, 5)),
    **dict.fromkeys(("Unique", "UniqueConsecutive"), (3, 6, 4)), "UniqueRuns": (6, 3, 4, True),
    "UniqueElements": (6, 4, True),
    "Gather": (SHAPE, 1, 5), "GatherRows": (6, 5, 4), "IndexSelect": (SHAPE, 1, 5), "Take": (SHAPE, (6,)),
    "Put": (SHAPE, (6,)), "Scatter": (SHAPE, 1, 5), "MaskedFill": (SHAPE, 7), "MaskedFillBackward": (SHAPE,),
    "MaskedSelect": (SHAPE, 5), "MaskedScatter": (SHAPE, 5), "Nonzero": (SHAPE, 5), "OneHot": (SHAPE, 4),
    "Topk": (3, 9, 4, True), "TopkBackward": (3, 9, 4), "TopkAxis": (SHAPE, 1, 2, True, True),
    "TopkAxisBackward": (SHAPE, 1, 2), "TopkSegments": (9, 3, 2, True, True),
    **dict.fromkeys(("Kthvalue", "KthvalueBackward"), (3, 9, 4)),
    **dict.fromkeys(("Median", "Nanmedian", "Mode"), (SHAPE, 1)),
    **dict.fromkeys(("Quantile", "Nanquantile"), (SHAPE, 1, 2, bk.QuantileInterpolation.LINEAR)),
    **dict.fromkeys(("QuantileBackward", "NanquantileBackward"), (SHAPE, 1, 2)),
    "Ternary": (bk.TernaryKind.CLAMP, SHAPE), "Unary": (bk.UnaryKind.GELU, SHAPE),
    **dict.fromkeys(("Bce", "BceWithLogits", "KlDiv", "L1", "Mse"), (SHAPE, MEAN)),
    **dict.fromkeys(("GaussianNll", "HingeEmbedding", "Huber", "MarginRanking", "SmoothL1"), (SHAPE, MEAN, 0.5)),
    **dict.fromkeys(("MultilabelMargin", "MultilabelSoftMargin", "Nll"), (5, 7, MEAN)),
    "CosineEmbedding": (5, 7, MEAN, 0.5), "CrossEntropy": (5, 7, MEAN, bk.CrossEntropyTargetKind.CLASS_INDEX),
    "CrossEntropyInPlace": (5, 7), "WeightedCrossEntropy": (5, 7, MEAN, (2, 3)),
    "CrossEntropyWithGradient": (5, 7, MEAN, (2, 3)),
    "WeightedNll": (5, 7, MEAN, (2, 3)), "WeightedSoftCrossEntropy": (5, 7, MEAN, (2, 3)),
    "WeightedBceWithLogits": (SHAPE, MEAN, 1, 4), "SigmoidFocal": (SHAPE, MEAN), "KlDivBatch": (SHAPE, MEAN, 3),
    "CtcLoss": (6, 3, 5, 4, 0, MEAN, 0),
    "RaggedCtcLoss": (6, 3, 5, 4, 0, MEAN, 0, 9), "MultiMargin": (5, 7, MEAN, 1.0, 1.0),
    "BceTarget": (SHAPE, MEAN),
    "MarginRankingTarget": (SHAPE, MEAN, 0.5), "MultilabelSoftMarginTarget": (5, 7, MEAN),
    "WeightedBceWithLogitsTarget": (SHAPE, MEAN, 1, 4),
    "KlDivBatchTarget": (SHAPE, MEAN, 3), "PoissonNllTarget": (SHAPE, MEAN, True), "GaussianNllVar": (SHAPE, MEAN, 0.5),
    "PoissonNll": (SHAPE, MEAN, True), "TripletMargin": (5, 7, MEAN, 1.0, 2.0),
    **dict.fromkeys(("WeightedBce", "WeightedBceTarget"), (SHAPE, MEAN, 4)),
    **dict.fromkeys(("FullPoissonNll", "FullPoissonNllTarget"), (SHAPE, MEAN, True)),
    "FullGaussianNll": (SHAPE, MEAN, 0.5), "TripletMarginSwap": (5, 7, MEAN, 1.0, 2.0),
    "WeightedMultiMargin": (5, 7, MEAN, 1.0, 1.0),
    **dict.fromkeys(("WeightedMultilabelSoftMargin", "WeightedMultilabelSoftMarginTarget"), (5, 7, MEAN)),
    "TopKTopPSampling": (bk.SamplerKind.TOP_K, 2, 9, 5, 0.5, 0.25), "SpeculativeSampling": (2, 3, 9),
    "PerRowSampling": (bk.PerRowSampler.TOP_K, 2, 9), "TokenPenalty": (2, 9, 1.5, 0.5, 0.25),
    **dict.fromkeys(("SampleTokens", "FilterTokens"), (2, 9, False, 0.5, 5, 0.5, 0.25)),
    "TypicalSampling": (2, 9, 0.5, 0.5), "ProcessLogits": (2, 9, 1, 1.5, 0.5, 0.25), "TokenBiasLists": (2, 9, 4),
    "TokenPenaltyLists": (2, 9, 4, 1.5, 0.5, 0.25), "SpeculativeSample": (2, 3, 9), "TreeSample": (2, 4, 9),
    "QuantizedMatmul": (bk.GgufBlockFormat.Q4_K, 3, 5, 512),
    "GgufDequantize": (bk.GgufBlockFormat.Q4_K, 512), "DequantizeBlocks": (bk.GgufBlockFormat.Q4_K, 3, 512),
    "TakeBlocks": (bk.GgufBlockFormat.Q4_K, 4, 3, 512),
    "QuantizeBlocks": (bk.GgufBlockFormat.Q4_K, 3, 512),
    **dict.fromkeys(("QuantizeActivations", "QuantizeActivationsWide"), (3, 40)),
    **dict.fromkeys(("QuantizePerTensor", "DequantizePerTensor", "FakeQuantize"), (12, 0.5, 3)),
    "DequantizePerTensorBackward": (12, 0.5),
    **dict.fromkeys(("QuantizePerChannel", "DequantizePerChannel", "FakeQuantizePerChannel"), ((2, 3, 4, 5), 1)),
    "FakeQuantizeLearnable": ((2, 3, 4, 5), 1, -8, 7, 0.5),
    **dict.fromkeys(("QuantizePerToken", "DequantizePerToken"), (3, 4)),
    **dict.fromkeys(("QuantizePerGroup", "DequantizePerGroup"), (3, 8, 4)), "DynamicRangeQuantize": (3, 4),
    "W8A8Linear": (3, 4, 5), "QuantizedLinearCodes": (3, 4, 5, 3, 1, 4, 1),
    "MatmulInteger": (3, 4, 5, bk.DenseLayout.RRR, 3, 4), "QLinearMatmul": (3, 4, 5, bk.DenseLayout.RRR, 1, 1),
    **dict.fromkeys(("EncodeFloats", "DecodeFloats"), (12, bk.FloatFormat.E4M3)),
    **dict.fromkeys(("QuantizeMx", "DequantizeMx"), (3, 64, bk.MxFormat.MXFP4)), "SwizzleScales": (3, 5),
    **dict.fromkeys(("Quantize4Bit", "Dequantize4Bit", "Quantize8BitBlocks", "Dequantize8BitBlocks"), (100, 32)),
    "MxMatmul": (3, 5, 64), "Gemv4Bit": (3, 6, 8, 4), "QuantizeFp8": (3, 200, bk.Fp8Scaling.GROUPS),
    "DequantizeFp8": (3, 200, bk.Fp8Scaling.GROUPS),
    "Nf4Dequantize": (6, 8, 4), "Nf4Mmvq": (6, 8, 4), "Nf4MmvqMultiM": (6, 8, 4, 4),
    "Moe": (bk.MoeKind.SCALAR_GGUF, 6, 4, 2, 32, 5, bk.GgufBlockFormat.Q8_0),
    **dict.fromkeys(("GatedDeltaRule", "GatedDeltaRuleBackward"), (2, 5, 2, 1, 2, 8, 6)),
    **dict.fromkeys(("GatedLinearAttention", "GatedLinearAttentionBackward"), (2, 5, 2, 1, 2, 8, 6, 8)),
    "GatedDeltaRuleUpdate": (2, 1, 2, 8, 6), "GatedLinearAttentionUpdate": (2, 1, 2, 8, 6),
    **dict.fromkeys(("Rwkv7", "Rwkv7Backward"), (2, 5, 2, 2, 8, 6)), "Rwkv7Update": (2, 2, 8, 6),
    **dict.fromkeys(("RecurrentCells", "RecurrentCellsBackward"), (5, 3, 1, 4, 4, bk.CellKind.LSTM)),
    "CausalConv1d": (2, 6, 9, 4), "SelectiveScan": (2, 9, 6, 4, True), "SsdChunkScan": (2, 9, 3, 4, 5, 8),
    "MoeSort": (6, 2, 4), "MoePermute": (6, 12, 8, 2),
    "MoeRoute": (6, 8, 2, bk.ExpertScoring.SIGMOID, bk.ExpertGroupScore.MAX),
    "MoeRouteBackward": (6, 8, 2, bk.ExpertScoring.SIGMOID),
    **dict.fromkeys(("MoePermuteBackward", "MoeCombine"), (6, 2, 12, 8)),
    **dict.fromkeys(("Fft", "Rfft", "Irfft"), (12, 3)), **dict.fromkeys(("FftNd", "RfftNd", "IrfftNd"), ((4, 6), 3)),
    "FftShiftNd": (SHAPE, (1,)),
    "Eigh": (5, 2), "Eig": (5, 2), **dict.fromkeys(("Svd", "Pinv", "Polar"), (6, 4, 2)),
    "Cholesky": (5, 2), "Inverse": (5, 2), "Solve": (5, 3, 2), "LstSq": (6, 4, 3, 2), "BatchedOrmqr": (2, 6, 4, 3),
    **dict.fromkeys(("Lu", "Qr", "BatchedQr"), (6, 4, 2)), "BatchedOrmqrWyBuildT": (2, 9, 7, 3, 3),
    "BatchedOrmqrWyExtractV": (2, 9, 7, 4, 3, 4), "BatchedQrMaterializeR": (2, 5, 4, 3),
    "BatchedQrMaterializeIdentity": (2, 5),
    "UnaryParam": (bk.UnaryKind.ELU, SHAPE, 1.0), "Where": (SHAPE,),
    **{
        f"{of}{reduction}": (6, 5, 4)
        for of in ("Segment", "UnsortedSegment")
        for reduction in ("Sum", "Mean", "Max", "Min", "Prod", *(("MaxOrZero", "MinOrZero") if of == "Segment" else ()))
    },
}  # fmt: skip
ELEMENTS = {
    **dict.fromkeys(("Bincount", "MoeSort"), bk.i32),
    **dict.fromkeys(("W8A8Linear", "QuantizedLinearCodes", "MatmulInteger", "QLinearMatmul"), bk.s8),
    "BatchedGemm": bk.f16, "IntGemm": bk.s8, "DenseSumsGemm": bk.s8, "SoftmaxToF32": bk.bf16,
    "SoftmaxToF32Backward": bk.bf16, "BatchPagedDecodeFp8": bk.bf16, "BatchPagedDecodeQuantized": bk.bf16,
    **dict.fromkeys(("FlashSdpaSm89", "FlashSdpaVarlen", "FlashSdpaVarlenBackward"), bk.f16),
    **dict.fromkeys(("Fa2Sdpa", "Fa2SdpaBackward"), bk.f16),
    **dict.fromkeys(("Fft", "FftNd"), bk.c32),
    "Fp8Gemm": bk.e4m3fn, "ScaledGemm": bk.e4m3fn, "Int4Gemm": bk.s4, "BinGemm": bk.ElementKind.BIN,
    "SwizzleScales": bk.u8, "DequantizeFp8": bk.e4m3fn,
    **dict.fromkeys(("Nf4Mmvq", "Nf4MmvqMultiM"), bk.bf16),
    **dict.fromkeys(("Int4MarlinGemm", "Int4AwqGemm", "Int4AwqDequantize"), bk.f16),
}  # fmt: skip
PLANS = sorted(word for words in OPS.values() for word in words.split())  # plans that launch an op


def example_descriptor(name):
    fields = EXAMPLES.get(name) or EXAMPLES[name.removesuffix("Backward")]
    return getattr(bk, f"{name}Descriptor")(*fields, element=ELEMENTS.get(name, bk.f32))


def example_args(name, **changes):
    """Contiguous views of separate memory for every operand."""
    plan = example_plan(name)
    views = {
        operand.name: raw(operand.extents, operand.dtypes[0], (k + 1) << 20) for k, operand in enumerate(plan.operands)
    }
    return args_of(plan, **views | changes)


def args_of(plan, **views):
    """The Args of a plan from views named by operand."""
    fields = {}
    for name, view in views.items():
        if "[" in name:
            fields.setdefault(name.partition("[")[0], []).append(view)
        else:
            fields[name] = view
    return plan.args_type(**fields)


def view_of(args, name):
    """The view of an operand in Args."""
    field, _, entry = name.partition("[")
    return getattr(args, field)[int(entry[:-1])] if entry else getattr(args, field)


def example_plan(name, library=None, preference=None):
    return getattr(bk, f"{name}Plan").select(
        None, example_descriptor(name), preference, library=library or FakeLibrary()
    )


def addresses(library, values):
    return [int(library.ffi.cast("uintptr_t", value)) for value in values]


def plan_of(name, *fields, element=bk.f32, library=None, **options):
    """<name>Plan for the descriptor with these fields."""
    descriptor = getattr(bk, f"{name}Descriptor")(*fields, element=element, **options)
    return getattr(bk, f"{name}Plan").select(None, descriptor, library=library or FakeLibrary())


def launch(plan, *views, **named):
    """(op, C arguments by name) of a run on a fake library."""
    args = plan.args_type(*views, **named)
    plan.can_implement(args)
    plan.run(None, None, args)
    return plan.library.launched()


def apart(count, shape=SHAPE, dtype=bk.f32, **options):
    """Views of separate memory."""
    return [raw(shape, dtype, (k + 1) << 20, **options) for k in range(count)]

# SPDX-License-Identifier: Apache-2.0
"""Public names that are imported when they are first asked for, and their modules."""

from __future__ import annotations

# Module -> words; each word is a <word>Args, <word>Descriptor and <word>Plan.
OPS = {
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
    "fft.plans": "Fft FftNd FftShiftNd Irfft IrfftNd Rfft RfftNd",
    "linalg.spectral_plans": "Eig Eigh Pinv Polar Svd",
    "linalg.plans": (
        "BatchedOrmqr BatchedOrmqrWyBuildT BatchedOrmqrWyExtractV BatchedQr BatchedQrMaterializeIdentity "
        "BatchedQrMaterializeR Cholesky Inverse LstSq Lu Qr Solve"
    ),
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
    "recurrent.state_space": (
        "CausalConv1d CausalConv1dBackward SelectiveScan SelectiveScanBackward SsdChunkScan SsdChunkScanBackward"
    ),
    "image": "AffineGrid2d",
    "images.boxes": "RoiAlign RoiAlignBackward RoiPool RoiPoolBackward Nms BatchedNms BoxIou",
    "images.deform": "DeformColumns DeformColumnsBackward",
    "images.pixels": "PixelsToPlanes PlanesToPixels ConvertColor Nv12ToRgb",
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
    "images.resampling": (
        "Interpolate InterpolateBackward UpsampleNearest2d UpsampleNearest2dBackward PixelShuffle PixelUnshuffle"
    ),
    "images.grid_sampling": (
        "GridSample GridSampleBackward GridSample2d GridSample2dBackward AffineGrid AffineGridBackward"
    ),
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
LAZY = {word + part: module for module, words in OPS.items() for word in words.split() for part in _PARTS}
_COMPOSITE_PLANS = ("FusedLinearCrossEntropy", "FusedLinearCrossEntropyBackward")  # plans that launch other plans
LAZY |= {word + part: "loss.fused" for word in _COMPOSITE_PLANS for part in _PARTS}
LAZY |= {word + part: "quantize.linear_plans" for word in ("QuantizedLinear", "SmoothQuantLinear") for part in _PARTS}
LAZY |= {f"GgufMmvq{word}{part}": "quantize.mmvq_plans" for word in ("", "MultiM", "Batched") for part in _PARTS}
LAZY |= {word + part: "random.plans" for word in ("Random", "Dropout", "DropoutBackward") for part in _PARTS}
LAZY |= {f"RingAttention{part}": "attention.ring" for part in _PARTS}
LAZY["set_allocator"] = "_arrays.frameworks"
LAZY["checked"] = "_call.checking"
LAZY["ROPE_DEFAULT_BASE"] = "rotary.pairs"
LAZY |= dict.fromkeys(("LinearScaling", "LongRoPEScaling", "RopeScaledTableBuilder", "YaRNScaling"), "rotary.tables")
LAZY |= dict.fromkeys(("Graph", "graph"), "_call.graphs")
LAZY |= dict.fromkeys(("awq_pack", "awq_unpack", "marlin_pack", "marlin_unpack"), "gemm.packing")
LAZY |= dict.fromkeys(
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
LAZY |= dict.fromkeys(
    (
        "document_offsets",
        "flash_attn_varlen",
        "flash_attn_varlen_backward",
        "scaled_dot_product_attention",
        "scaled_dot_product_attention_backward",
    ),
    "attention.functions",
)
LAZY["paged_kv_append"] = "attention.pages"
LAZY["moe"] = "experts.functions"
LAZY["deform_conv2d"] = "images.deform"
LAZY |= dict.fromkeys(
    (
        *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d"),
        *("adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
        *("fractional_max_pool2d", "fractional_max_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d"),
        *("max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d"),
    ),
    "pool.functions",
)
LAZY |= dict.fromkeys(("gru", "lstm", "rnn"), "recurrent.functions")
LAZY |= dict.fromkeys(
    (
        *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
        *("conv1d_backward", "conv2d_backward", "conv3d_backward"),
        *("conv_transpose1d_backward", "conv_transpose2d_backward", "conv_transpose3d_backward"),
    ),
    "convolutions.functions",
)
LAZY |= dict.fromkeys(
    [
        f"{op}{rank}d{direction}{part}"
        for op in ("Conv", "ConvTranspose")
        for rank in (1, 2, 3)
        for direction in ("", "Fw", "BwData", "Dw")
        for part in _PARTS
        if direction or part != "Args"
    ],
    "convolutions.plans",
)
LAZY |= dict.fromkeys(
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
LAZY |= dict.fromkeys(("compress_absmax", "dynamic_map", "linear_4bit"), "quantize.weights")
LAZY |= dict.fromkeys(
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
LAZY |= dict.fromkeys(
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
LAZY |= dict.fromkeys(("lexsort", "msort", "segmented_argsort", "segmented_sort", "sort_by_key"), "sorting.functions")
LAZY |= dict.fromkeys(
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
LAZY |= dict.fromkeys(("nanpercentile", "percentile"), "sorting.percentiles")


LAZY |= dict.fromkeys(("Generator",), "random.generator")

// SPDX-License-Identifier: Apache-2.0
// The subset of cuBLASLt's C interface that GEMM needs (cublasLt.h of CUDA 12.4 to 13; row scales since 12.9).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/vendor/vendor.h"

namespace bk {

// cudaDataType_t
enum class LtType : int32_t { kF32 = 0, kF64 = 1, kF16 = 2, kBf16 = 14, kE4m3 = 28, kE5m2 = 29 };

// cublasComputeType_t; 32F multiplies and adds f32 as it is, without TF32.
enum class LtCompute : int32_t { k32F = 68, k64F = 70, kTf32 = 77 };

// cublasLtMatrixLayoutAttribute_t, cublasLtMatmulDescAttributes_t and cublasLtMatmulPreferenceAttributes_t, with their types
enum LtLayoutAttribute : int32_t { kLtBatchCount = 5 /* i32 */, kLtBatchOffset = 6 /* i64 */ };
enum LtMatmulAttribute : int32_t {
    kLtTransA = 3 /* i32, 0 or 1 */,
    kLtTransB = 4 /* i32 */,
    kLtEpilogue = 7 /* u32, LtEpilogue */,
    kLtBiasPointer = 8 /* const void* */,
    kLtAScalePointer = 17 /* const float* */,
    kLtBScalePointer = 18,
    kLtAScaleMode = 31 /* i32, LtScaleMode */,
    kLtBScaleMode = 32
};
enum LtPreferenceAttribute : int32_t {
    kLtWorkspaceBytes = 1 /* u64 */,
    kLtReductionSchemes = 3 /* u32, LtReduction */,
    kLtAlignmentA = 5 /* u32, bytes */,
    kLtAlignmentB = 6,
    kLtAlignmentC = 7,
    kLtAlignmentD = 8
};

// cublasLtEpilogue_t
enum LtEpilogue : uint32_t { kLtPlain = 1, kLtBias = 4 };

// cublasLtMatmulMatrixScale_t: one scale for each row or column of the result; the default is one for the matrix.
enum LtScaleMode : int32_t { kLtRowScales = 3 };

// cublasLtReductionScheme_t: split-K partials in the compute type, reduced in a fixed order. The other schemes
// accumulate in D as slices finish, or round partials to D's type.
enum LtReduction : uint32_t { kLtNoReduction = 0, kLtReduceComputeType = 2 };

// Descriptors are initialised in place; the library checks their size. These have twice what CUDA 13 needs.
struct LtLayout {
    uint64_t data[28];
};
struct LtMatmulDesc {
    uint64_t data[64];
};
struct LtPreference {
    uint64_t data[24];
};

struct LtAlgo {
    uint64_t data[8];
};
struct LtHeuristic {
    LtAlgo algo;
    size_t workspace_bytes;
    int32_t state;  // 0: the algorithm can be used
    float waves;
    int32_t reserved[4];
};

// Every result is a cublasStatus_t, 0 for success. Matrices are column-major.
struct CublasLt {
    int32_t (*init_layout)(LtLayout*, size_t size, LtType, uint64_t rows, uint64_t columns, int64_t pitch);
    int32_t (*set_layout)(LtLayout*, LtLayoutAttribute, const void* value, size_t size);
    int32_t (*init_matmul)(LtMatmulDesc*, size_t size, LtCompute, LtType scale);
    int32_t (*set_matmul)(LtMatmulDesc*, LtMatmulAttribute, const void* value, size_t size);
    int32_t (*init_preference)(LtPreference*, size_t size);
    int32_t (*set_preference)(LtPreference*, LtPreferenceAttribute, const void* value, size_t size);
    int32_t (*find_algo)(void* handle, LtMatmulDesc*, LtLayout* a, LtLayout* b, LtLayout* c, LtLayout* d, LtPreference*,
                         int32_t most, LtHeuristic* found, int32_t* count);
    int32_t (*matmul)(void* handle, LtMatmulDesc*, const void* alpha, const void* a, LtLayout* a_layout, const void* b,
                      LtLayout* b_layout, const void* beta, const void* c, LtLayout* c_layout, void* d, LtLayout* d_layout,
                      const LtAlgo*, void* workspace, size_t workspace_bytes, cudaStream_t stream);

    static constexpr Vendor kLibrary = Vendor::kCublasLt;
    static constexpr const char* kSymbols[] = {"cublasLtMatrixLayoutInit_internal",     "cublasLtMatrixLayoutSetAttribute",
                                               "cublasLtMatmulDescInit_internal",       "cublasLtMatmulDescSetAttribute",
                                               "cublasLtMatmulPreferenceInit_internal", "cublasLtMatmulPreferenceSetAttribute",
                                               "cublasLtMatmulAlgoGetHeuristic",        "cublasLtMatmul"};
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// GEMM by cuBLASLt. CUDA only.
//
// A row-major matrix is the transpose of a column-major one, so D = A B is computed as D^T = B^T A^T, and a bias along
// the rows of D becomes cuBLASLt's column bias. The chosen algorithms are the same from run to run and reduce in a
// fixed order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/launch.h"

namespace bk {

// A row-major matrix; `is_transposed` tells that its rows are the columns of the operand.
struct LibraryMatrix {
    const void* data;
    int64_t pitch, step;
    bool is_transposed;
};

// kTf32: f32 in memory, multiplied as TF32. kE5m2ByE4m3: A is e5m2, B e4m3.
enum class LibraryType : int32_t { kF32, kF64, kF16, kBf16, kE4m3, kTf32, kE5m2ByE4m3 };

// Scales of A and B: one each, or one for each row of A and column of B.
enum class LibraryScales : int32_t { kNone, kPerMatrix, kPerRow };

// D = alpha (a_scale A) (b_scale B) + beta C + bias for each of a batch; C and bias may be null. The fast kernels need
// pointers, pitches and steps at multiples of kLibraryAlignment bytes. Scales, which may be null, apply to 8-bit A and
// B.
struct LibraryMatmul {
    LibraryType type, d_type;  // of A and B, and of C, D and bias
    int64_t m, n, k, batch;
    LibraryMatrix a, b, c, d;
    const void* bias;
    const void *alpha, *beta;  // f64 for a type of kF64, else f32
    LibraryScales scales = LibraryScales::kNone;
    const float *a_scale = nullptr, *b_scale = nullptr;
};

constexpr int64_t kLibraryAlignment = 16;

// Bytes of workspace for such a GEMM, or each of a batch, on the current device.
size_t library_workspace(int64_t m, int64_t n, int64_t k);

// Whether cuBLASLt can be loaded; the failure names the package.
Status require_library();
bool has_library();

// Enqueues the GEMM. Returns false, with no effect and no error, if cuBLASLt is missing or does not support it.
// `workspace` is null or has library_workspace() bytes.
bool matmul_by_library(const Launch& launch, const LibraryMatmul& problem, void* workspace);

}  // namespace bk

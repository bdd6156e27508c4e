// Products of matrices by cuBLASLt. CUDA only.
//
// A row-major matrix is the column-major transpose of itself, so D = A B is asked for as D^T = B^T A^T, and a bias along the
// rows of D is cuBLASLt's, along columns. What it chooses is the same from run to run, and adds up in a fixed order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/launch.h"

namespace bk {

// A matrix in row-major memory. `is_turned` says that its rows are the columns of the operand.
struct LibraryMatrix {
    const void* data;
    int64_t pitch, step;
    bool is_turned;
};

// kTf32: f32, of whose factors TF32 alone is multiplied.
enum class LibraryType : int32_t { kF32, kF64, kF16, kBf16, kE4m3, kTf32 };

// What A and B are multiplied by: one number each, or one for each row of A and column of B.
enum class LibraryScales : int32_t { kNone, kOfMatrices, kOfRows };

// D = alpha (a_scale A) (b_scale B) + beta C + bias for each of a batch; C and bias may be null. Its fast kernels want
// pointers, pitches and steps at multiples of kLibraryAlignment bytes. Scales are for A and B of 8 bits, either of which may be
// null.
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

// Bytes that cuBLASLt is given on the current device for such a product, or for each of a batch.
size_t library_workspace(int64_t m, int64_t n, int64_t k);

// Whether cuBLASLt is there; the text names the package where it is not.
Status require_library();
bool has_library();

// Enqueues the product, unless cuBLASLt is missing or does not take it: then nothing has happened, nor is it an error.
// `workspace` is null or has library_workspace() bytes.
bool matmul_by_library(const Launch& launch, const LibraryMatmul& problem, void* workspace);

}  // namespace bk

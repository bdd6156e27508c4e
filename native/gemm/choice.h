// SPDX-License-Identifier: Apache-2.0
// The choice of a GEMM's kernel. choose_matmul() alone makes it (gemm/choice_cuda.cuh, gemm/choice_cpu.h): workspace sizes,
// checks and launches read its result, and plans through the checks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bk {

// Kernels that may compute a GEMM. kByRule: cuBLASLt if the rule of gemm/cublaslt/matmul_cublaslt.cuh selects it, else
// failure. kWgmma: this library's wgmma kernels alone. kInvariant: batch-invariant kernels of this library, for which the
// bits of a row of D depend on B and on what that row reads alone.
enum class Backend : int32_t { kAny, kOwn, kLibrary, kByRule, kWgmma, kInvariant };
constexpr bool may_be_library(Backend backend) {
    return backend == Backend::kAny || backend == Backend::kLibrary || backend == Backend::kByRule;
}
constexpr bool must_be_library(Backend backend) { return backend == Backend::kLibrary || backend == Backend::kByRule; }

// Grouped GEMM over rows of A and D, or over k: group g is [offsets[g], offsets[g + 1]), and `batch` counts the groups.
// Groups of rows have a matrix of B each, groups along k a matrix of D.
enum class Grouped : int32_t { kNot, kRows, kK };

// Operands that are contiguous along k.
struct KMajor {
    bool a = true, b = true;
};

// Loads that the memory of an operand allows; B and the gate share one.
struct OperandTraits {
    bool is_aligned = true;  // loads of 16 bytes along the contiguous axis
    bool fits_tma = true;    // a tensor map that wgmma can read
};

// Properties of a GEMM by which a kernel is chosen. Sizes and checks do not know the operands: the members behind `grouped`
// assume those that suit every kernel.
struct MatmulShape {
    int64_t m, n, k, batch;
    KMajor k_major{};
    bool has_steps = false;  // Epilogue::has_steps()
    bool is_gated = false;
    Backend backend = Backend::kAny;
    Grouped grouped = Grouped::kNot;
    bool has_lists = false;  // pointer arrays
    bool has_sizes = false;  // extents of each matrix are on the device
    bool has_block_scales = false;
    bool suits_skinny = true;   // the skinny kernel that depends on layouts or alignment
    bool suits_library = true;  // cuBLASLt takes such operands and such an epilogue
    OperandTraits a{}, b{};
    size_t workspace_bytes = SIZE_MAX;  // that the caller gives

    // Matrices in one grid, and rows of each: of a grouped GEMM the average.
    int64_t matrices() const { return grouped == Grouped::kRows || batch < 1 ? 1 : batch; }
    int64_t average_rows() const { return grouped == Grouped::kRows ? m / (batch + 1) : m; }
};

enum class MatmulKernel : int32_t {
    kNone,       // cuBLASLt alone may compute the GEMM
    kSkinny,     // one read of B, M <= 8; on the CPU N <= 8 as well
    kSkinnyFp8,  // M <= 16
    kFma,        // block tiles, f32
    kMma,        // block tiles, mma.sync
    kWgmma,      // block tiles, wgmma
    kBlocked,    // CPU: packed panels and FMA microkernel
    kBlockedDot  // CPU: the same on dot-product instructions
};

struct MatmulChoice {
    MatmulKernel kernel = MatmulKernel::kNone;  // of this library
    bool tries_library = false;                 // cuBLASLt is asked first; `kernel` computes what it declines
    bool transposes = false;                    // 8-bit operands become K-major in the workspace first
    int tile_m = 0, tile_n = 0;                 // of a block, or microtile; a gated GEMM has half of the columns of each B
    int64_t slice_k = 0, slices = 1;            // split-K
    size_t workspace = 0;                       // bytes that the GEMM can use, whatever the caller gives
};

}  // namespace bk

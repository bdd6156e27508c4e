// SPDX-License-Identifier: Apache-2.0
// The choice between cuBLASLt and this library's kernels, and the translation to cuBLASLt's problem.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/types/vec.h"
#include "gemm/cublaslt/cublaslt.h"
#include "gemm/matmul.h"
#include "gemm/skinny/matmul_skinny.cuh"
#include "gemm/sm90/matmul_wgmma.h"
#include "gemm/tiled/matmul_finish.cuh"
#include "gemm/tiled/matmul_mma.cuh"
#include "gemm/tiled/matmul_round_tf32.cuh"

namespace bk {

// THE RULE. cuBLASLt computes every GEMM that it can, if it is installed. On an H100 (bf16, f32, f64; CUDA 13.0, in a
// graph, 2^7 to 2^36 multiplications, single ones and batches) our kernels take 1.0 to 5 times its time. Ours are
// skinny GEMMs, M <= 8, whose B matmul_skinny.cuh reads once: these take 0.4 to 1.1 of its time, but 1.2 if B is 16-bit
// and contiguous along n, 1.4 if it has less than kMinSkinny elements, and up to 5 in a batch of small ones.
//
// Epilogue steps beyond bias and C are ours (cuBLASLt's gelu is the tanh form, and its relu keeps NaN). The sums of
// 16-bit and of gated GEMMs pass through the workspace in f32, at most kSumBytes at a time, so that results are rounded
// once. From kMinFusedWork multiplications on the wgmma kernels fuse these steps for free. TF32 operands are rounded
// into the workspace first, as the ops document. With alpha 0 cuBLASLt does not read A and B, whose NaN and infinities
// count; GEMMs with 8-bit results stay ours (gemm/scaled_cuda.cuh has 8-bit operands with scales).
constexpr int64_t kMinSkinny = int64_t(1) << 16, kMinSkinnyBatch = int64_t(1) << 22;  // elements of B
constexpr int64_t kMinFusedWork = int64_t(1) << 32;
constexpr int64_t kSumBytes = int64_t(64) << 20, kRowBlock = 128;  // row blocks are multiples of this

template <class T>
constexpr bool kLibraryHasType =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, f16> || std::is_same_v<T, bf16> || kIsRounded<T>;

// Whether sums pass through the workspace.
template <class T>
constexpr bool stages_sums(bool has_steps, bool is_gated) {
    return is_gated || (sizeof(matmul_element_t<T>) == 2 && has_steps);
}

// Bytes of workspace for the sums of a row block: all rows of a small GEMM.
template <class T>
int64_t sum_bytes_of(int64_t m, int64_t n, bool is_gated) {
    const int64_t rows = ceil_div(m, kRowBlock) * kRowBlock, columns = is_gated ? 2 * n : n;
    const int64_t most = kSumBytes / static_cast<int64_t>(sizeof(matmul_scalar_t<T>));
    return (columns > most / rows ? most : rows * columns) * static_cast<int64_t>(sizeof(matmul_scalar_t<T>));
}

template <class T>
bool is_skinny(const MatmulShape& s) {
    if (!kHasSkinnyKernels<T> || s.m > kSkinnyRows || (sizeof(matmul_element_t<T>) == 2 && !s.k_major.b)) return false;
    return s.n * s.k >= (s.batch == 1 ? kMinSkinny : kMinSkinnyBatch);  // extents are 31-bit
}

template <class T>
bool is_for_library(const MatmulShape& s, int arch) {
    if (is_skinny<T>(s)) return false;
    if (!stages_sums<T>(s.has_steps, s.is_gated) || !suits_wgmma<T>(s, arch)) return true;
    int64_t work = 0;
    return !__builtin_mul_overflow(s.m * s.n, s.k, &work) && work < (s.is_gated ? kMinFusedWork / 2 : kMinFusedWork);
}

// Whether cuBLASLt can compute it, as far as extents tell.
template <class T>
bool fits_library(const MatmulShape& s) {
    if (!kLibraryHasType<T> || std::min({s.m, s.n, s.k, s.batch}) <= 0) return false;
    if ((s.has_steps || kIsRounded<T>) && s.batch != 1) return false;
    if (kIsRounded<T> && s.is_gated) return false;
    return !stages_sums<T>(s.has_steps, s.is_gated) ||
           s.n <= kSumBytes / static_cast<int64_t>(sizeof(matmul_scalar_t<T>)) / (s.is_gated ? 2 : 1) / kRowBlock;
}

template <class T>
constexpr LibraryType library_type() {
    if (std::is_same_v<T, float>) return LibraryType::kF32;
    if (kIsRounded<T>) return LibraryType::kTf32;
    if (std::is_same_v<T, double>) return LibraryType::kF64;
    return std::is_same_v<T, f16> ? LibraryType::kF16 : LibraryType::kBf16;
}

template <class E>
LibraryMatrix library_matrix(const E* data, const MatrixStrides& at) {
    if (at.column == 1) return {data, at.row, at.step, false};
    return {data, at.column, at.step, true};
}

// Fills cuBLASLt's problem; returns false if it does not support this one.
template <class T>
bool library_matmul(const Matmul<T>& p, LibraryMatmul* out) {
    using E = matmul_element_t<T>;
    const Epilogue<T>& e = p.epilogue;
    if (e.bias != nullptr && (e.bias_type != BiasType::kElement || (e.is_wide && !e.has_steps()))) return false;
    const bool has_c = e.c != nullptr;
    const LibraryMatrix d = library_matrix(e.d, e.d_at);
    *out = {library_type<T>(),
            e.is_wide || kIsRounded<T> ? LibraryType::kF32 : library_type<T>(),
            p.m,
            p.n,
            p.k,
            p.batch,
            library_matrix(p.a, p.a_at),
            library_matrix(p.b, p.b_at),
            has_c ? library_matrix(e.c, e.c_at) : d,
            d,
            e.bias,
            &e.alpha,
            &e.beta};
    // The alignment of cuBLASLt's fast kernels is required if it was asked for by name, and if it adds to the product:
    // its other kernels round a 16-bit product before adding.
    const bool needs_alignment =
        p.backend != Backend::kAny || kIsRounded<T> || e.bias != nullptr || (e.beta != 0 && !e.has_steps());
    const int64_t alignment = needs_alignment ? kLibraryAlignment : static_cast<int64_t>(sizeof(E));
    const int64_t lanes = alignment / static_cast<int64_t>(sizeof(E));
    for (const LibraryMatrix* matrix : {&out->a, &out->b, &out->c, &out->d})
        if (!is_aligned(matrix->data, alignment) || matrix->pitch % lanes != 0 || matrix->step % lanes != 0 || matrix->step < 0)
            return false;
    if (p.gate != nullptr && !is_aligned(p.gate, alignment)) return false;
    return e.alpha != 0 && is_aligned(e.bias, alignment);
}

// Whether cuBLASLt takes the operands and this file finishes the epilogue, given a workspace where it needs one: with sums
// in D nothing else may be read there, and rows of staged sums are aligned.
template <class T>
bool suits_library(const Matmul<T>& p) {
    const Epilogue<T>& e = p.epilogue;
    if (stages_sums<T>(e.has_steps(), p.gate != nullptr)) {
        if (p.n % (kLibraryAlignment / static_cast<int64_t>(sizeof(matmul_scalar_t<T>))) != 0) return false;
    } else if (e.has_steps()) {
        const bool has_scales = e.row_scale != nullptr || e.column_scale != nullptr;
        if (e.residual == e.d || (has_scales && e.c == e.d)) return false;
    }
    LibraryMatmul problem;
    return library_matmul(p, &problem);
}

// Rows [first, first + count) of a GEMM.
template <class T>
Matmul<T> rows_of(const Matmul<T>& p, int64_t first, int64_t count) {
    Matmul<T> row_block = p;
    row_block.m = count;
    row_block.a += first * p.a_at.row;
    row_block.epilogue = p.epilogue.from_row(first);
    return row_block;
}

// cuBLASLt writes to D, and our epilogue finishes there.
template <class T>
Status finish_in_place(const Launch& launch, const Matmul<T>& p, LibraryMatmul problem, void* workspace, int64_t* done) {
    using S = matmul_scalar_t<T>;
    const Epilogue<T>& e = p.epilogue;
    const bool has_scales = e.row_scale != nullptr || e.column_scale != nullptr;
    const S one = 1, zero = 0;
    Epilogue<T> remaining = e;
    if (has_scales) {
        problem.alpha = &one;
        problem.beta = &zero;
        problem.c = problem.d;
        problem.bias = nullptr;
    } else {
        remaining.alpha = 1;
        remaining.c = nullptr;
        remaining.bias = nullptr;
    }
    if (!matmul_by_library(launch, problem, workspace)) return Status::kOk;
    *done = p.m;
    return finish(launch, remaining, SplitKOf<T>{reinterpret_cast<S*>(e.d)}, e.d_at.row, p.m, p.n);
}

// cuBLASLt writes row blocks to `sums`, and our epilogue finishes each. *done counts the rows.
template <class T>
Status finish_row_blocks(const Launch& launch, const Matmul<T>& p, LibraryMatmul problem, void* workspace, void* sums,
                         int64_t* done) {
    using S = matmul_scalar_t<T>;
    const S one = 1, zero = 0;
    const int64_t row_bytes = p.n * static_cast<int64_t>(sizeof(S)) * (p.gate == nullptr ? 1 : 2);
    const int64_t most = sum_bytes_of<T>(p.m, p.n, p.gate != nullptr) / row_bytes / kRowBlock * kRowBlock,
                  row_blocks = ceil_div(p.m, most);
    const int64_t block_rows = ceil_div(ceil_div(p.m, row_blocks), kRowBlock) * kRowBlock;
    S* const gates = p.gate == nullptr ? nullptr : static_cast<S*>(sums) + block_rows * p.n;
    problem.d_type = std::is_same_v<S, double> ? LibraryType::kF64 : LibraryType::kF32;
    problem.bias = nullptr;
    problem.alpha = &one;
    problem.beta = &zero;
    for (; *done < p.m; *done += problem.m) {
        const Matmul<T> row_block = rows_of(p, *done, std::min(block_rows, p.m - *done));
        problem.m = row_block.m;
        problem.a.data = row_block.a;
        problem.b.data = p.b;
        problem.c = problem.d = {sums, p.n, 0, false};
        if (!matmul_by_library(launch, problem, workspace)) return Status::kOk;
        if (gates != nullptr) {
            problem.b.data = p.gate;
            problem.c = problem.d = {gates, p.n, 0, false};
            if (!matmul_by_library(launch, problem, workspace)) return Status::kOk;
        }
        BK_TRY(finish(launch, row_block.epilogue, SplitKOf<T>{static_cast<S*>(sums)}, p.n, row_block.m, p.n, 1, gates));
    }
    return Status::kOk;
}

}  // namespace bk

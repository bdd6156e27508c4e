// SPDX-License-Identifier: Apache-2.0
// Chooses the GPU kernel of a GEMM.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/abi/workspace.h"
#include "gemm/cublaslt/matmul_cublaslt.cuh"
#include "gemm/skinny/matmul_skinny.cuh"
#include "gemm/skinny/matmul_skinny_fp8.cuh"
#include "gemm/sm90/matmul_wgmma.h"
#include "gemm/tiled/matmul_mma.cuh"
#include "gemm/tiled/matmul_simt.cuh"
#include "gemm/tiled/matmul_split_k.cuh"
#include "gemm/tiled/matmul_transpose.cuh"

namespace bk {

// Members in the order in which they are carved.
struct LibraryWorkspace {
    char *own = nullptr, *sums = nullptr;
    float *a = nullptr, *b = nullptr;  // operands rounded to TF32
    size_t bytes = 0;

    // For a GEMM that cuBLASLt computes.
    template <class T>
    static LibraryWorkspace of(int64_t m, int64_t n, int64_t k, bool has_sums, bool is_gated, void* base) {
        Carver carver(base);
        LibraryWorkspace result;
        result.own = carver.take<char>(static_cast<int64_t>(library_workspace(m, n, k)));
        if (has_sums) result.sums = carver.take<char>(sum_bytes_of<T>(m, n, is_gated));
        if (kIsRounded<T>) {
            result.a = carver.take<float>(rounded_numel(m, k));
            result.b = carver.take<float>(rounded_numel(n, k));
        }
        result.bytes = carver.bytes();
        return result;
    }
};

template <class T>
size_t matmul_workspace(int64_t m, int64_t n, int64_t k, int64_t batch, bool has_steps, bool is_gated, Backend backend,
                        const KMajor& k_major) {
    if (backend == Backend::kWgmma) return 0;
    // Callers need not know B's layout yet: assume it is by rows.
    const bool for_library =
        may_be_library(backend) && fits_library<T>(m, n, k, batch, has_steps, is_gated) &&
        (backend == Backend::kLibrary || is_for_library<T>(m, n, k, batch, has_steps, is_gated, KMajor{k_major.a, false}));
    const bool is_staged = stages_sums<T>(has_steps, is_gated);
    return std::max(for_library ? LibraryWorkspace::of<T>(m, n, k, is_staged, is_gated, nullptr).bytes : 0,
                    is_gated ? 0
                             : std::max(split_k_workspace<T>(m, n, k, batch),
                                        TransposedOperands<T>(m, n, k, batch, k_major, nullptr).bytes));
}

// Tries cuBLASLt; *done is the number of rows computed.
template <class T>
Status matmul_if_library(const Launch& launch, const Matmul<T>& p, bool has_workspace, int64_t* done) {
    const bool is_gated = p.gate != nullptr, has_steps = p.epilogue.has_steps();
    if (!fits_library<T>(p.m, p.n, p.k, p.batch, has_steps, is_gated)) return Status::kOk;
    LibraryMatmul problem;
    if (!library_matmul(p, &problem)) return Status::kOk;
    const bool is_staged = stages_sums<T>(has_steps, is_gated);
    const LibraryWorkspace workspace =
        LibraryWorkspace::of<T>(p.m, p.n, p.k, is_staged, is_gated, has_workspace ? launch.workspace : nullptr);
    if constexpr (kIsRounded<T>) {
        if (!has_workspace || !has_library()) return Status::kOk;
        BK_TRY(round_operands(launch, &problem, workspace.a, workspace.b));
    }
    if (is_staged) return finish_row_blocks(launch, p, problem, workspace.own, workspace.sums, done);
    if (has_steps) return finish_in_place(launch, p, problem, workspace.own, done);
    if (matmul_by_library(launch, problem, workspace.own)) *done = p.m;
    return Status::kOk;
}

template <class T>
Status require_backend(Backend backend, int64_t m, int64_t n, int64_t k, int64_t batch, bool has_steps, bool is_gated,
                       const KMajor& k_major) {
    if (backend == Backend::kAny || backend == Backend::kOwn) return Status::kOk;
    if (backend == Backend::kWgmma) {
        if (suits_wgmma<T>(m, n, k, batch, is_gated)) return Status::kOk;
        return fail(Status::kUnsupported, "backend is %d, but warp groups have no such product on this chip",
                    static_cast<int>(backend));
    }
    if (!fits_library<T>(m, n, k, batch, has_steps, is_gated))
        return fail(Status::kUnsupported, "backend is %d, but cuBLASLt has no such product", static_cast<int>(backend));
    if (backend == Backend::kByRule && !is_for_library<T>(m, n, k, batch, has_steps, is_gated, k_major))
        return fail(Status::kUnsupported, "backend is %d, but the product is better computed by this library's kernels",
                    static_cast<int>(backend));
    return require_library();
}

template <class T>
Status matmul_by_tiles(const Launch& launch, const Matmul<T>& p) {
    if constexpr (std::is_same_v<T, float>) {
        return matmul_by_fma(launch, p);
    } else {
        bool is_taken = false;
        BK_TRY(matmul_by_wgmma(launch, p, &is_taken));
        if (is_taken) return Status::kOk;
        if (p.backend == Backend::kWgmma)
            return fail(Status::kUnsupported,
                        "backend is %d, but warp groups do not take these operands: they want both aligned to 16 bytes and, of "
                        "other than 16-bit elements, neighbours along k",
                        static_cast<int>(p.backend));
        return matmul_by_tensor_cores(launch, p);
    }
}

// cuBLASLt takes what gemm/cublaslt/matmul_cublaslt.cuh's rule gives it. Otherwise skinny GEMMs have kernels that read B once,
// and small results are split along K; else f32 runs on FMA, other types on tensor cores, by wgmma if possible.
template <class T>
Status matmul(const Launch& launch, const Matmul<T>& p) {
    if (p.grouped != Grouped::kNot || p.sizes != nullptr || p.backend == Backend::kWgmma) return matmul_by_tiles(launch, p);
    const bool is_gated = p.gate != nullptr, has_steps = p.epilogue.has_steps();
    const bool is_chosen = p.backend == Backend::kLibrary || p.backend == Backend::kByRule;
    const KMajor k_major{p.a_at.column == 1, p.b_at.row == 1};
    const size_t workspace = matmul_workspace<T>(p.m, p.n, p.k, p.batch, has_steps, is_gated, p.backend, k_major);
    const bool has_workspace = workspace_holds(launch, workspace);
    if constexpr (kLibraryHasType<T>) {
        int64_t done = 0;
        if (may_be_library(p.backend) && (is_chosen || is_for_library<T>(p.m, p.n, p.k, p.batch, has_steps, is_gated, k_major)))
            BK_TRY(matmul_if_library(launch, p, has_workspace, &done));
        if (done == p.m) return Status::kOk;
        if (done > 0) return matmul_by_tiles(launch, rows_of(p, done, p.m - done));
        if (is_chosen)
            return fail(Status::kUnsupported,
                        "backend is %d, but cuBLASLt does not take these operands: it wants all aligned to "
                        "16 bytes, and a workspace with steps of the epilogue and for TF32",
                        static_cast<int>(p.backend));
    }
    if constexpr (kHasSkinnyKernels<T>) {
        if (p.m <= kSkinnyRows) return matmul_skinny(launch, p);
    }
    if constexpr (kHasSkinnyFp8<T>) {
        bool is_taken = false;
        BK_TRY(matmul_skinny_fp8(launch, p, &is_taken));
        if (is_taken) return Status::kOk;
    }
    if (is_gated) return matmul_by_tiles(launch, p);
    if constexpr (kHasSplitK<T>)
        if (has_workspace && split_k_workspace<T>(p.m, p.n, p.k, p.batch) > 0) return matmul_split_k(launch, p);
    if constexpr (kMayTranspose<T>)
        if (has_workspace && p.a_at.list == nullptr && p.b_at.list == nullptr &&
            needs_transpose<T>(p.m, p.n, p.k, p.batch, k_major)) {
            Matmul<T> transposed = p;
            BK_TRY(TransposedOperands<T>(p.m, p.n, p.k, p.batch, k_major, launch.workspace).run(launch, &transposed));
            return matmul_by_tiles(launch, transposed);
        }
    return matmul_by_tiles(launch, p);
}

}  // namespace bk

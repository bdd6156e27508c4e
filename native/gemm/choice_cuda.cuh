// SPDX-License-Identifier: Apache-2.0
// The choice of a GEMM's kernel on the GPU.
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

    // Workspace of a GEMM that cuBLASLt computes.
    template <class T>
    static LibraryWorkspace of(const MatmulShape& s, void* base) {
        Carver carver(base);
        LibraryWorkspace result;
        result.own = carver.take<char>(static_cast<int64_t>(library_workspace(s.m, s.n, s.k)));
        if (stages_sums<T>(s.has_steps, s.is_gated)) result.sums = carver.take<char>(sum_bytes_of<T>(s.m, s.n, s.is_gated));
        if (kIsRounded<T>) {
            result.a = carver.take<float>(rounded_numel(s.m, s.k));
            result.b = carver.take<float>(rounded_numel(s.n, s.k));
        }
        result.bytes = carver.bytes();
        return result;
    }
};

// The shape of a GEMM with its operands and the caller's workspace.
template <class T>
MatmulShape shape_of(const Launch& launch, const Matmul<T>& p) {
    MatmulShape s{p.m, p.n, p.k, p.batch, k_major_of(p), p.epilogue.has_steps(), p.gate != nullptr, p.backend, p.grouped};
    s.workspace_bytes = launch.workspace == nullptr ? 0 : launch.workspace_bytes;
    s.has_sizes = p.sizes != nullptr;
    s.has_lists = p.a_at.list != nullptr || p.b_at.list != nullptr || p.epilogue.d_at.list != nullptr;
    if constexpr (kIsScaled<T>) s.has_block_scales = p.epilogue.is_by_blocks();
    if constexpr (kHasSkinnyFp8<T>) s.suits_skinny = suits_skinny_fp8(p);
    if constexpr (kLibraryHasType<T>) s.suits_library = may_be_library(p.backend) && suits_library(p);
    s.a.is_aligned = a_is_aligned(p);
    s.b.is_aligned = b_is_aligned(p);
    const bool has_batch = p.grouped != Grouped::kK && p.batch > 1;
    const int64_t a_step = has_batch && p.grouped != Grouped::kRows ? p.a_at.step : 0, b_step = has_batch ? p.b_at.step : 0;
    s.a.fits_tma = s.a.is_aligned && fits_tma<T>(p.a_at, p.a_at.row, p.a_at.column, p.m, p.k, a_step, p.grouped);
    s.b.fits_tma = s.b.is_aligned && fits_tma<T>(p.b_at, p.b_at.column, p.b_at.row, p.n, p.k, b_step, p.grouped);
    return s;
}

// Tiles in `slices` slices of K: f32 runs on FMA, other types on tensor cores, by wgmma if possible. A batch-invariant GEMM
// runs on FMA or mma.sync, whatever its extents and operands: the order of their sums depends on k alone.
template <class T>
void choose_tiles(const MatmulShape& s, int arch, int64_t slices, MatmulChoice* choice) {
    choice->slices = slices;
    if constexpr (std::is_same_v<T, float>) {
        choice->kernel = MatmulKernel::kFma;
        choice->tile_m = choice->tile_n = fma_side(s, slices);
        return;
    }
    if (slices == 1 && s.backend != Backend::kInvariant && !s.has_lists && s.a.fits_tma && s.b.fits_tma &&
        suits_wgmma<T>(s, arch)) {
        choice->kernel = MatmulKernel::kWgmma;
        choice->tile_m = kWgmmaRows;
        choice->tile_n = wgmma_columns<T>(s);
    } else if (s.backend != Backend::kWgmma) {
        choice->kernel = MatmulKernel::kMma;
        choice->tile_m = choice->tile_n = mma_side<T>(s, slices);
    }
}

// cuBLASLt is asked first where gemm/cublaslt/matmul_cublaslt.cuh's rule says so. Otherwise skinny GEMMs have kernels that
// read B once, small results are split along K, 8-bit operands are transposed for wgmma, and tiles compute the others.
template <class T>
MatmulChoice choose_matmul(const MatmulShape& s, int arch) {
    MatmulChoice choice;
    const bool is_plain = s.grouped == Grouped::kNot && !s.has_sizes;
    if (!is_plain || s.backend == Backend::kWgmma || s.backend == Backend::kInvariant) {
        choose_tiles<T>(s, arch, 1, &choice);
        return choice;
    }
    const auto is_for_library_by = [&](const MatmulShape& shape) {
        return may_be_library(s.backend) && fits_library<T>(shape) &&
               (s.backend == Backend::kLibrary || is_for_library<T>(shape, arch));
    };
    MatmulShape b_by_rows = s;  // sizes need not know B's layout
    b_by_rows.k_major.b = false;
    const SplitKOf<T> split = split_k_of<T>(s);
    const bool may_transpose = needs_transpose<T>(s, arch);
    if (is_for_library_by(b_by_rows)) choice.workspace = LibraryWorkspace::of<T>(s, nullptr).bytes;
    if (split.count > 1) choice.workspace = std::max(choice.workspace, split_k_workspace<T>(s));
    if (may_transpose)
        choice.workspace = std::max(choice.workspace, TransposedOperands<T>(s.m, s.n, s.k, s.batch, s.k_major, nullptr).bytes);

    const bool has_workspace = choice.workspace > 0 && s.workspace_bytes >= choice.workspace;
    const bool needs_workspace = stages_sums<T>(s.has_steps, s.is_gated) || kIsRounded<T>;
    choice.tries_library = is_for_library_by(s) && s.suits_library && (has_workspace || !needs_workspace);
    if (must_be_library(s.backend)) return choice;
    if (kHasSkinnyKernels<T> && s.m <= kSkinnyRows) {
        choice.kernel = MatmulKernel::kSkinny;
    } else if (kHasSkinnyFp8<T> && s.m <= kFp8Rows && s.suits_skinny) {
        choice.kernel = MatmulKernel::kSkinnyFp8;
    } else if (split.count > 1 && has_workspace) {
        choice.slice_k = split.slice_k;
        choose_tiles<T>(s, arch, split.count, &choice);
    } else {
        MatmulShape shape = s;
        choice.transposes = may_transpose && has_workspace && !s.has_lists;
        if (choice.transposes) {
            if (!s.k_major.a) shape.a = {};
            if (!s.k_major.b) shape.b = {};
            shape.k_major = {};
        }
        choose_tiles<T>(shape, arch, 1, &choice);
    }
    return choice;
}

template <class T>
size_t matmul_workspace(const MatmulShape& shape) {
    return choose_matmul<T>(shape, device_arch()).workspace;
}

template <class T>
Status require_backend(const MatmulShape& s) {
    if (s.backend != Backend::kWgmma && !must_be_library(s.backend)) return Status::kOk;
    const MatmulChoice choice = choose_matmul<T>(s, device_arch());
    if (choice.kernel == MatmulKernel::kWgmma) return Status::kOk;
    if (choice.tries_library) return require_library();
    const char* const reason = s.backend == Backend::kWgmma ? "warp groups have no such product on this chip"
                               : !fits_library<T>(s)        ? "cuBLASLt has no such product"
                                                            : "the product is better computed by this library's kernels";
    return fail(Status::kUnsupported, "backend is %d, but %s", static_cast<int>(s.backend), reason);
}

}  // namespace bk

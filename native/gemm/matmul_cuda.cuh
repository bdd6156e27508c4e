// SPDX-License-Identifier: Apache-2.0
// Launches the GPU kernel that gemm/choice_cuda.cuh chooses for a GEMM.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/workspace.h"
#include "gemm/choice_cuda.cuh"

namespace bk {

// Asks cuBLASLt; *done is the number of rows computed.
template <class T>
Status ask_library(const Launch& launch, const Matmul<T>& p, const MatmulShape& s, const MatmulChoice& choice, int64_t* done) {
    LibraryMatmul problem;
    if (!library_matmul(p, &problem)) return Status::kOk;
    const LibraryWorkspace workspace =
        LibraryWorkspace::of<T>(s, workspace_holds(launch, choice.workspace) ? launch.workspace : nullptr);
    if constexpr (kIsRounded<T>) {
        if (!has_library()) return Status::kOk;
        BK_TRY(round_operands(launch, &problem, workspace.a, workspace.b));
    }
    if (stages_sums<T>(s.has_steps, s.is_gated))
        return finish_row_blocks(launch, p, problem, workspace.own, workspace.sums, done);
    if (s.has_steps) return finish_in_place(launch, p, problem, workspace.own, done);
    if (matmul_by_library(launch, problem, workspace.own)) *done = p.m;
    return Status::kOk;
}

template <class T>
Status launch_tiles_of(const Launch& launch, const Matmul<T>& p, const MatmulChoice& choice, const SplitKOf<T>& split = {}) {
    if constexpr (std::is_same_v<T, float>) {
        return launch_fma_tiles(launch, p, split, choice.tile_n);
    } else {
        if constexpr (kHasWgmma<T>)
            if (choice.kernel == MatmulKernel::kWgmma) return wgmma_on<T>(device_arch())(launch, p, choice.tile_n);
        return launch_mma_tiles(launch, p, split, choice.tile_n);
    }
}

// Partial sums over slices of K, then their sums.
template <class T>
Status matmul_split_k(const Launch& launch, const Matmul<T>& p, const MatmulChoice& choice) {
    Carver carver(launch.workspace);
    const SplitKOf<T> split{carve_partials<T>(&carver, p.m, p.n, p.batch, choice.slices), choice.slice_k, choice.slices};
    BK_TRY(launch_tiles_of(launch, p, choice, split));
    return finish(launch, p.epilogue, split, p.n, p.m, p.n, p.batch);
}

template <class T>
Status refuse_operands(Backend backend) {
    const char* const reason =
        backend == Backend::kWgmma
            ? "warp groups do not take these operands: they want both aligned to 16 bytes and, of other than 16-bit elements, "
              "neighbours along k"
            : "cuBLASLt does not take these operands: it wants all aligned to 16 bytes, and a workspace with steps of the "
              "epilogue and for TF32";
    return fail(Status::kUnsupported, "backend is %d, but %s", static_cast<int>(backend), reason);
}

// Computes a GEMM by the chosen kernel of this library.
template <class T>
Status matmul_by_own(const Launch& launch, const Matmul<T>& p, const MatmulChoice& choice) {
    if (choice.kernel == MatmulKernel::kNone) return refuse_operands<T>(p.backend);
    if constexpr (kHasSkinnyKernels<T>)
        if (choice.kernel == MatmulKernel::kSkinny) return matmul_skinny(launch, p);
    if constexpr (kHasSkinnyFp8<T>)
        if (choice.kernel == MatmulKernel::kSkinnyFp8) return matmul_skinny_fp8(launch, p);
    if constexpr (kHasSplitK<T>)
        if (choice.slices > 1) return matmul_split_k(launch, p, choice);
    if constexpr (kMayTranspose<T>)
        if (choice.transposes) {
            Matmul<T> transposed = p;
            const TransposedOperands<T> operands(p.m, p.n, p.k, p.batch, k_major_of(p), launch.workspace);
            BK_TRY(operands.run(launch, &transposed));
            return launch_tiles_of(launch, transposed, choice);
        }
    return launch_tiles_of(launch, p, choice);
}

template <class T>
Status matmul(const Launch& launch, const Matmul<T>& p) {
    const int arch = device_arch();
    const MatmulShape shape = shape_of(launch, p);
    const MatmulChoice choice = choose_matmul<T>(shape, arch);
    if constexpr (kLibraryHasType<T>)
        if (choice.tries_library) {
            int64_t done = 0;
            BK_TRY(ask_library(launch, p, shape, choice, &done));
            if (done == p.m) return Status::kOk;
            if (done > 0) {  // cuBLASLt declined a later block of rows
                Matmul<T> remaining = rows_of(p, done, p.m - done);
                remaining.backend = Backend::kOwn;
                MatmulChoice tiles;
                choose_tiles<T>(shape_of(launch, remaining), arch, 1, &tiles);
                return launch_tiles_of(launch, remaining, tiles);
            }
        }
    return matmul_by_own(launch, p, choice);
}

}  // namespace bk

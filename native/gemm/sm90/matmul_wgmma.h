// SPDX-License-Identifier: Apache-2.0
// Hopper wgmma GEMM: interface of gemm/sm90/matmul_sm90a.cu to the kernel choice.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/arch.h"
#include "gemm/tiled/matmul_mma.cuh"

namespace bk {

template <class T>
constexpr bool kHasWgmma =
    std::is_same_v<T, f16> || std::is_same_v<T, bf16> || std::is_same_v<T, int8_t> || std::is_same_v<T, uint8_t> ||
    std::is_same_v<T, i32_results<int8_t>> || std::is_same_v<T, i32_results<uint8_t>> || std::is_same_v<T, tf32> ||
    std::is_same_v<T, tf32x3> || std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2> || std::is_same_v<T, scaled<e4m3>> ||
    std::is_same_v<T, scaled<e5m2>>;

// *is_taken tells whether TMA can load the operands, and so the GEMM was computed.
template <class T>
Status matmul_sm90a(const Launch& launch, const Matmul<T>& p, bool* is_taken);

constexpr int64_t kWgmmaRows = 128, kMinWgmmaTiles = 64;  // 128 x 128 tiles from which wgmma pays

// Whether such a GEMM is large enough, on a chip that has these kernels.
template <class T>
bool suits_wgmma(int64_t m, int64_t n, int64_t k, int64_t batch, bool is_gated) {
    if constexpr (kHasWgmma<T>) {
        if (choose({BK_SM(90a, matmul_sm90a<T>)}, device_arch()).run == nullptr || k > MmaTraits<T>::kMaxK) return false;
        const int64_t tiles = ceil_div(m, kWgmmaRows) * ceil_div(is_gated ? 2 * n : n, kWgmmaRows);
        return std::min({m, n, k}) >= 64 && tiles >= ceil_div(kMinWgmmaTiles, batch);
    }
    return false;
}

// Takes large GEMMs aligned to 16 bytes with K-major operands, or MN-major ones of 16 bits; grouped along k if both are
// MN-major. Pointer arrays are not supported, since tensor maps need addresses on the host.
template <class T>
Status matmul_by_wgmma(const Launch& launch, const Matmul<T>& p, bool* is_taken) {
    if constexpr (kHasWgmma<T>) {
        const int64_t batch = p.grouped == Grouped::kRows ? 1 : p.batch;
        const bool has_lists = p.a_at.list != nullptr || p.b_at.list != nullptr || p.epilogue.d_at.list != nullptr;
        if (has_lists || !suits_wgmma<T>(p.m, p.n, p.k, batch, p.gate != nullptr)) return Status::kOk;
        return choose({BK_SM(90a, matmul_sm90a<T>)}, device_arch()).run(launch, p, is_taken);
    }
    return Status::kOk;
}

}  // namespace bk

// Products by warp groups (sm_90a): what the file for that chip offers to the choice among kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/arch.h"
#include "gemm/matmul_tensor.cuh"

namespace bk {

template <class T>
constexpr bool kHasGroupKernels =
    std::is_same_v<T, f16> || std::is_same_v<T, bf16> || std::is_same_v<T, int8_t> || std::is_same_v<T, uint8_t> ||
    std::is_same_v<T, whole_sums<int8_t>> || std::is_same_v<T, whole_sums<uint8_t>> || std::is_same_v<T, tf32> ||
    std::is_same_v<T, tf32x3> || std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2> || std::is_same_v<T, scaled<e4m3>> ||
    std::is_same_v<T, scaled<e5m2>>;

// Whether the operands can be copied by boxes; *is_taken says whether the product was computed.
template <class T>
Status matmul_sm90a(const Launch& launch, const Matmul<T>& p, bool* is_taken);

constexpr int64_t kGroupRows = 128, kLeastGroupTiles = 64;  // tiles of 128 x 128 from which on the chip is filled well enough

// Whether such a product is large enough, on a chip that has these kernels.
template <class T>
bool is_for_groups(int64_t m, int64_t n, int64_t k, int64_t batch, bool is_gated) {
    if constexpr (kHasGroupKernels<T>) {
        if (choose({BK_SM(90a, matmul_sm90a<T>)}, device_arch()).run == nullptr || k > TensorKind<T>::kTerms) return false;
        const int64_t tiles = ceil_div(m, kGroupRows) * ceil_div(is_gated ? 2 * n : n, kGroupRows);
        return std::min({m, n, k}) >= 64 && tiles >= ceil_div(kLeastGroupTiles, batch);
    }
    return false;
}

// Large products whose operands lie deep, or wide in 16 bits, and are aligned to 16 bytes, groups of terms where both lie wide;
// no parts, and no lists: what copies boxes is told on the host where matrices lie.
template <class T>
Status matmul_by_groups(const Launch& launch, const Matmul<T>& p, bool* is_taken) {
    if constexpr (kHasGroupKernels<T>) {
        const int64_t batch = p.grouped == Grouped::kRows ? 1 : p.batch;
        const bool has_lists = p.a_at.list != nullptr || p.b_at.list != nullptr || p.epilogue.d_at.list != nullptr;
        if (has_lists || !is_for_groups<T>(p.m, p.n, p.k, batch, p.gate != nullptr)) return Status::kOk;
        return choose({BK_SM(90a, matmul_sm90a<T>)}, device_arch()).run(launch, p, is_taken);
    }
    return Status::kOk;
}

}  // namespace bk

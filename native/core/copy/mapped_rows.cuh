// SPDX-License-Identifier: Apache-2.0
// Mapped copy whose rows are whole vectors and as long as x's: rolls, flips, and triangles into a y with gaps. A thread
// writes one 16-byte vector of y; it maps the first and last element, and the others only if these two do not determine
// them.
#pragma once

#include <cstdint>

#include "core/copy/mapped_plan.cuh"
#include "core/types/vec.h"

namespace bk {

// Loads N adjacent elements. Unaligned 1- and 2-byte elements are extracted from the 32-bit words around them if
// `inside`, i.e. if those words lie within x.
template <int N, class Bits>
BK_DEVICE Vec<Bits, N> load_unaligned(const Bits* first, bool inside) {
    constexpr int kBytes = static_cast<int>(sizeof(Bits));
    if (reinterpret_cast<uintptr_t>(first) % kVectorBytes == 0) return load<N>(first);
    Vec<Bits, N> x;
    if (kBytes < 4 && inside) {
        const unsigned skipped = static_cast<unsigned>(reinterpret_cast<uintptr_t>(first) % 4);
        const uint32_t* const words = reinterpret_cast<const uint32_t*>(first - static_cast<int>(skipped) / kBytes);
        uint32_t word[5];
#pragma unroll
        for (int w = 0; w < 4; ++w) word[w] = words[w];
        word[4] = skipped == 0 ? 0 : words[4];
        uint4 shifted;
        shifted.x = __funnelshift_r(word[0], word[1], 8 * skipped);
        shifted.y = __funnelshift_r(word[1], word[2], 8 * skipped);
        shifted.z = __funnelshift_r(word[2], word[3], 8 * skipped);
        shifted.w = __funnelshift_r(word[3], word[4], 8 * skipped);
        return bit_cast<Vec<Bits, N>>(shifted);
    }
#pragma unroll
    for (int lane = 0; lane < N; ++lane) x.lane[lane] = first[lane];
    return x;
}

template <class Bits, class Index>
__global__ void __launch_bounds__(kMappedThreads)
    mapped_rows_kernel(const __grid_constant__ MappedKernelPlan<Index> plan, const Bits* x, Bits* y) {
    constexpr int N = kVectorLanes<Bits>;
    const Index i = static_cast<Index>(blockIdx.x) * (kMappedThreads * N) + threadIdx.x * N;
    if (i >= plan.numel) return;
    const auto& inner = plan.axis[0];
    Index along;
    const MappedRow row = mapped_row(plan, i, 0, &along);
    const int64_t from = mapped_source(plan, row, along), until = mapped_source(plan, row, static_cast<Index>(along + (N - 1)));
    const int64_t length = until - from, step = length < 0 ? -inner.stride_x : inner.stride_x;
    const bool is_contiguous = length == N - 1 || (length == 1 - N && inner.map.pad_mode == PadMode::kReflect);
    Vec<Bits, N> result;
    if (from >= 0 && until >= 0 && is_contiguous && (step == 1 || step == -1)) {
        constexpr int kMargin = 4 / static_cast<int>(sizeof(Bits)) + 1;
        const bool inside = min(from, until) >= kMargin && max(from, until) + kMargin < static_cast<int64_t>(inner.map.source);
        result = load_unaligned<N>(x + row.x + min(from * inner.stride_x, until * inner.stride_x), inside);
        if (step < 0) result = reversed(result);
    } else if (from < 0 && until < 0 &&
               source_overlap(plan, row, static_cast<int64_t>(along), static_cast<int64_t>(along) + (N - 1)) ==
                   Overlap::kNone) {
#pragma unroll
        for (int lane = 0; lane < N; ++lane) result.lane[lane] = static_cast<Bits>(plan.value);
    } else {
#pragma unroll
        for (int lane = 0; lane < N; ++lane) {
            const int64_t at = mapped_source(plan, row, static_cast<Index>(along + lane));
            result.lane[lane] = at < 0 ? static_cast<Bits>(plan.value) : x[row.x + at * inner.stride_x];
        }
    }
    store<N>(y + row.y + static_cast<int64_t>(along) * inner.stride_y, result);
}

}  // namespace bk

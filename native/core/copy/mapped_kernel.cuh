// SPDX-License-Identifier: Apache-2.0
// General mapped copy. If y is vectorisable, a thread writes 16-byte vectors whose sources are contiguous in x or all
// the pad value; the elements of other vectors are deferred and shared by the block's threads. Otherwise a thread
// copies single elements, kMappedThreads apart.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/copy/mapped_plan.cuh"
#include "core/copy/mapped_rows.cuh"
#include "core/copy/mapped_shifted.cuh"
#include "core/copy/unaligned_vectors.cuh"
#include "core/types/vec.h"

namespace bk {

constexpr int kMappedUnroll = 2;  // vectors of a thread in flight together

// Source of a vector of y: x in order, x reversed, or the pad value. Deferred vectors are copied element by element.
enum class VectorKind { kUnwritten, kConstant, kForward, kReversed, kDeferred };

template <int N, class Bits>
struct MappedVector {
    VectorKind kind;
    const Bits* from;
    Bits* to;
};

// Classifies the vector of elements i, ..., i + N - 1.
template <int N, class Bits, class Index>
BK_DEVICE MappedVector<N, Bits> mapped_vector(const MappedKernelPlan<Index>& plan, const Bits* x, Bits* y, Index i,
                                              int64_t start) {
    const auto& inner = plan.axis[0];
    Index along;
    const MappedRow row = mapped_row(plan, i, start, &along);
    const Index end = along + (N - 1);
    MappedVector<N, Bits> vector{VectorKind::kDeferred, nullptr, y + row.y + static_cast<int64_t>(along) * inner.stride_y};
    if (end >= inner.extent.divisor() || plan.numel - i < N) return vector;
    if (plan.start != nullptr) {
        const bool first = is_written(plan, row, along, start), last = is_written(plan, row, end, start);
        if (!first && !last && plan.limit > N) vector.kind = VectorKind::kUnwritten;
        if (!first || !last) return vector;
    }
    const Overlap overlap = source_overlap(plan, row, static_cast<int64_t>(along), static_cast<int64_t>(end));
    if (overlap == Overlap::kNone) vector.kind = VectorKind::kConstant;
    if (overlap != Overlap::kAll) return vector;
    const int64_t from = inner.map(along), until = inner.map(end), length = until - from;
    const bool is_contiguous = length == N - 1 || (length == 1 - N && inner.map.pad_mode == PadMode::kReflect);
    const int64_t step = length < 0 ? -inner.stride_x : inner.stride_x;
    vector.from = x + row.x + min(from * inner.stride_x, until * inner.stride_x);
    if (is_contiguous && (step == 1 || step == -1) && plan.reach.covers_aligned(vector.from))
        vector.kind = step == 1 ? VectorKind::kForward : VectorKind::kReversed;
    return vector;
}

template <int N, class Bits>
BK_DEVICE void store_mapped(const MappedVector<N, Bits>& vector, const UnalignedVector& around, Bits value) {
    if (vector.kind == VectorKind::kUnwritten || vector.kind == VectorKind::kDeferred) return;
    Vec<Bits, N> result;
    if (vector.kind == VectorKind::kConstant) {
#pragma unroll
        for (int lane = 0; lane < N; ++lane) result.lane[lane] = value;
    } else {
        result = around.elements<Bits>();
        if (vector.kind == VectorKind::kReversed) result = reversed(result);
    }
    store<N>(vector.to, result);
}

template <class Bits, class Index>
__global__ void __launch_bounds__(kMappedThreads)
    mapped_kernel(const __grid_constant__ MappedKernelPlan<Index> plan, const Bits* x, Bits* y) {
    constexpr int N = kVectorLanes<Bits>;
    bool vectors = plan.vectors;
    int64_t start = 0;
    if (plan.start != nullptr) {
        start = *plan.start;
        const int64_t axis_limit = plan.limit / plan.unit;
        if (start >= axis_limit || start <= -(int64_t{1} << 32)) return;
        start *= plan.unit;
        vectors = vectors && start * plan.axis[plan.start_axis].stride_y % N == 0;
    }
    constexpr Index kMost = kMappedThreads * kMappedUnroll * N;
    const Index first = static_cast<Index>(blockIdx.x) * kMost;
    const Index elements = plan.numel - first < kMost ? plan.numel - first : kMost;
    if (!vectors) {
#pragma unroll 2
        for (Index i = threadIdx.x; i < elements; i += kMappedThreads) copy_element(plan, x, y, first + i, start);
        return;
    }
    __shared__ DeferredVectors<kMappedThreads * kMappedUnroll> deferred;
    deferred.clear();
    MappedVector<N, Bits> vector[kMappedUnroll];
    UnalignedVector around[kMappedUnroll];
#pragma unroll
    for (int u = 0; u < kMappedUnroll; ++u) {
        const unsigned vector_index = threadIdx.x + u * kMappedThreads;
        vector[u].kind = VectorKind::kUnwritten;
        if (vector_index * N < elements)
            vector[u] = mapped_vector<N>(plan, x, y, static_cast<Index>(first + vector_index * N), start);
        if (vector[u].kind == VectorKind::kDeferred) deferred.add(vector_index);
    }
#pragma unroll
    for (int u = 0; u < kMappedUnroll; ++u) {
        around[u] = {};
        if (vector[u].kind == VectorKind::kForward || vector[u].kind == VectorKind::kReversed)
            around[u].load_from(vector[u].from);
    }
#pragma unroll
    for (int u = 0; u < kMappedUnroll; ++u) store_mapped(vector[u], around[u], static_cast<Bits>(plan.value));
    deferred.each_element<N>(elements, [&](Index i) { copy_element(plan, x, y, static_cast<Index>(first + i), start); });
}

template <class Bits, class Index>
Status launch_mapped_by(const Launch& launch, const MappedPlan& plan, const Bits* x, Bits* y) {
    constexpr int N = kVectorLanes<Bits>;
    const MappedKernelPlan<Index> kernel = kernel_plan<Bits, Index>(plan, N, x, y);
    if constexpr (sizeof(Index) == 4) {
        const MappedShiftedPlan shifted = shifted_plan<Bits>(kernel);
        if (shifted.rows.any) {
            const int64_t blocks = ceil_div<int64_t>(plan.numel, kShiftedVectors * N);
            return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kShiftedThreads)},
                                 mapped_shifted_kernel<Bits>, shifted, x, y);
        }
    }
    const bool by_rows = kernel.by_rows && kernel.start == nullptr;
    const int64_t blocks = ceil_div<int64_t>(plan.numel, kMappedThreads * (by_rows ? 1 : kMappedUnroll) * N);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld elements are too many for one launch", static_cast<long long>(plan.numel));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kMappedThreads)},
                         by_rows ? mapped_rows_kernel<Bits, Index> : mapped_kernel<Bits, Index>, kernel, x, y);
}

template <class Bits>
Status launch_mapped(const Launch& launch, const MappedPlan& plan, const void* x, void* y) {
    constexpr int64_t kShort = (int64_t{1} << 31) - kMappedThreads * kMappedUnroll * kVectorBytes;
    bool is_short = plan.numel < kShort;
    for (int d = 0; d < plan.copy.rank; ++d) {
        const MappedAxis& axis = plan.copy.axis[d];
        is_short = is_short && axis.extent + 4 * axis.source < kShort;
    }
    const Bits* const from = static_cast<const Bits*>(x);
    return is_short ? launch_mapped_by<Bits, uint32_t>(launch, plan, from, static_cast<Bits*>(y))
                    : launch_mapped_by<Bits, uint64_t>(launch, plan, from, static_cast<Bits*>(y));
}

}  // namespace bk

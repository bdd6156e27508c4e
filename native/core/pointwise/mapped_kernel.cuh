// The kernel of mapped copies. A thread takes 16 bytes of y: neighbours where y has them at aligned addresses, else elements
// that lie a block's threads apart.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/pointwise/copies.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kMappedThreads = 256;

template <class Index>
struct MappedKernelAxis {
    FastDiv<Index> extent;
    AxisMap<Index> map;
    int64_t stride_y = 0, stride_x = 0;
    int64_t slope = 0;
    int band = 0;
};

// Axes in the order of y's memory, the last one first.
template <class Index>
struct MappedKernelPlan {
    MappedKernelAxis<Index> axis[kMaxRank];
    int rank = 0;
    Index numel = 0;
    uint64_t value = 0;
    bool vectors = false;  // y's neighbours can be stored at once
    int bands = 0;
    Band band[kMostBands];
    const int64_t* start = nullptr;
    int moved = 0;
    int64_t unit = 1, limit = 0;  // of `start`
};

// A row of y, and of x where `exists`.
struct MappedRow {
    int64_t y = 0, x = 0;
    int64_t band[kMostBands] = {};
    bool exists = true, written = true;
};

// Of the element number i, whose index along the row is given too. `start` is along the axis that is moved.
template <class Index>
BK_DEVICE MappedRow mapped_row(const MappedKernelPlan<Index>& plan, Index i, int64_t start, Index* along) {
    MappedRow row;
    *along = i;
#pragma unroll
    for (int d = 0; d < kMaxRank; ++d) {
        if (d >= plan.rank) break;
        const auto& axis = plan.axis[d];
        Index index = i;
        if (d + 1 < plan.rank) {
            const DivMod<Index> split = axis.extent(i);
            index = split.remainder;
            i = split.quotient;
        }
        const bool is_moved = plan.start != nullptr && d == plan.moved;
        if (d == 0) {
            *along = index;
            if (is_moved) row.y += start * axis.stride_y;
            continue;
        }
        const int64_t at = axis.map(index), place = static_cast<int64_t>(index) + (is_moved ? start : 0);
        row.exists = row.exists && at >= 0;
        row.written = row.written && !(is_moved && (place < 0 || place >= plan.limit));
        row.x += at * axis.stride_x;
        row.y += place * axis.stride_y;
        if (axis.slope != 0) {
            const int64_t slope = static_cast<int64_t>(index) * axis.slope;
#pragma unroll
            for (int b = 0; b < kMostBands; ++b) row.band[b] += b == axis.band ? slope : 0;
        }
    }
    return row;
}

template <class Index>
BK_DEVICE_COLD MappedRow next_mapped_row(const MappedKernelPlan<Index>& plan, Index i, int64_t start, Index* along) {
    return mapped_row(plan, i, start, along);
}

// Where along the row x has what y has at `index`; -1 where that is the value.
template <class Index>
BK_DEVICE int64_t mapped_source(const MappedKernelPlan<Index>& plan, const MappedRow& row, Index index) {
    if (!row.exists) return -1;
    if (plan.bands > 0) {
        const int64_t slope = static_cast<int64_t>(index) * plan.axis[0].slope;
#pragma unroll
        for (int b = 0; b < kMostBands; ++b)
            if (b < plan.bands && !plan.band[b].has(row.band[b] + (b == plan.axis[0].band ? slope : 0))) return -1;
    }
    return plan.axis[0].map(index);
}

template <class Index>
BK_DEVICE bool is_written(const MappedKernelPlan<Index>& plan, const MappedRow& row, Index index, int64_t start) {
    if (plan.start == nullptr || plan.moved != 0) return row.written;
    const int64_t place = static_cast<int64_t>(index) + start;
    return place >= 0 && place < plan.limit;
}

// N neighbours from `first` on. Elements of one or two bytes that do not begin at a word are taken out of the words around
// them where `inside`: these hold nothing but elements of x.
template <int N, class Bits>
BK_DEVICE Vec<Bits, N> load_neighbours(const Bits* first, bool inside) {
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
        uint4 joined;
        joined.x = __funnelshift_r(word[0], word[1], 8 * skipped);
        joined.y = __funnelshift_r(word[1], word[2], 8 * skipped);
        joined.z = __funnelshift_r(word[2], word[3], 8 * skipped);
        joined.w = __funnelshift_r(word[3], word[4], 8 * skipped);
        return bit_cast<Vec<Bits, N>>(joined);
    }
#pragma unroll
    for (int lane = 0; lane < N; ++lane) x.lane[lane] = first[lane];
    return x;
}

template <int N, class Bits>
BK_DEVICE Vec<Bits, N> reversed(const Vec<Bits, N>& x) {
    Vec<Bits, N> y;
#pragma unroll
    for (int lane = 0; lane < N; ++lane) y.lane[lane] = x.lane[N - 1 - lane];
    return y;
}

// Elements i, ..., i + count - 1, neighbours in y.
template <int N, class Bits, class Index>
BK_DEVICE void copy_neighbours(const MappedKernelPlan<Index>& plan, const Bits* x, Bits* y, Index i, int count, int64_t start) {
    Index along;
    MappedRow row = mapped_row(plan, i, start, &along);
    const Bits value = static_cast<Bits>(plan.value);
    Bits* const to = y + row.y + static_cast<int64_t>(along) * plan.axis[0].stride_y;
    const Index extent = plan.axis[0].extent.divisor();
    Vec<Bits, N> result{};
    const bool one_row = count == N && along + N <= extent;
    bool whole = count == N;
    if (one_row) {
        const Index end = along + (N - 1);
        const bool first_written = is_written(plan, row, along, start), last_written = is_written(plan, row, end, start);
        if (!first_written && !last_written && plan.limit > N) return;
        whole = first_written && last_written;
        const int64_t from = mapped_source(plan, row, along), until = mapped_source(plan, row, end);
        const int64_t length = until - from, step = length < 0 ? -plan.axis[0].stride_x : plan.axis[0].stride_x;
        const bool is_run = length == N - 1 || (length == 1 - N && plan.axis[0].map.beyond == Beyond::kReflect);
        if (from >= 0 && until >= 0 && is_run && (step == 1 || step == -1)) {
            const int64_t low = min(from * plan.axis[0].stride_x, until * plan.axis[0].stride_x);
            constexpr int kAround = 4 / static_cast<int>(sizeof(Bits)) + 1;
            const bool inside =
                min(from, until) >= kAround && max(from, until) + kAround < static_cast<int64_t>(plan.axis[0].map.source);
            result = load_neighbours<N>(x + row.x + low, inside);
            if (step < 0) result = reversed(result);
        } else {
#pragma unroll
            for (int lane = 0; lane < N; ++lane) {
                const int64_t at = mapped_source(plan, row, static_cast<Index>(along + lane));
                result.lane[lane] = at < 0 ? value : x[row.x + at * plan.axis[0].stride_x];
            }
        }
        if (whole) {
            store<N>(to, result);
            return;
        }
#pragma unroll
        for (int lane = 0; lane < N; ++lane)
            if (is_written(plan, row, static_cast<Index>(along + lane), start)) to[lane] = result.lane[lane];
        return;
    }
    unsigned wanted = 0;
#pragma unroll
    for (int lane = 0; lane < N; ++lane) {
        if (lane >= count) break;
        if (along == extent) row = next_mapped_row(plan, static_cast<Index>(i + lane), start, &along);
        const int64_t at = mapped_source(plan, row, along);
        result.lane[lane] = at < 0 ? value : x[row.x + at * plan.axis[0].stride_x];
        wanted |= is_written(plan, row, along, start) ? 1u << lane : 0u;
        ++along;
    }
    if (wanted == (1u << N) - 1) {
        store<N>(to, result);
        return;
    }
#pragma unroll
    for (int lane = 0; lane < N; ++lane)
        if (wanted >> lane & 1) to[lane] = result.lane[lane];
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
        vectors = vectors && start * plan.axis[plan.moved].stride_y % N == 0;
    }
    const Index first = static_cast<Index>(blockIdx.x) * (kMappedThreads * N);
    if (vectors) {
        const Index i = first + threadIdx.x * N;
        if (i >= plan.numel) return;
        const Index left = plan.numel - i;
        copy_neighbours<N>(plan, x, y, i, left < N ? static_cast<int>(left) : N, start);
        return;
    }
#pragma unroll 2
    for (int k = 0; k < N; ++k) {
        const Index i = first + k * kMappedThreads + threadIdx.x;
        if (i >= plan.numel) return;
        Index along;
        const MappedRow row = mapped_row(plan, i, start, &along);
        const int64_t at = mapped_source(plan, row, along);
        if (is_written(plan, row, along, start))
            y[row.y + static_cast<int64_t>(along) * plan.axis[0].stride_y] =
                at < 0 ? static_cast<Bits>(plan.value) : x[row.x + at * plan.axis[0].stride_x];
    }
}

template <class Index>
MappedKernelPlan<Index> kernel_plan(const MappedPlan& given, int lanes, const void* y) {
    const MappedCopy& copy = given.copy;
    MappedKernelPlan<Index> plan;
    plan.rank = copy.rank;
    plan.numel = static_cast<Index>(given.numel);
    plan.value = copy.value;
    for (int d = 0; d < copy.rank; ++d) {
        const MappedAxis& axis = copy.axis[copy.rank - 1 - d];
        plan.axis[d] = {FastDiv<Index>(axis.extent),
                        AxisMap<Index>(axis, copy.beyond),
                        axis.stride_y,
                        axis.stride_x,
                        axis.slope,
                        axis.band};
    }
    plan.bands = given.bands;
    for (int b = 0; b < kMostBands; ++b) plan.band[b] = copy.band[b];
    plan.start = copy.start;
    plan.moved = copy.rank - 1 - copy.moved;
    plan.unit = given.start_unit, plan.limit = copy.limit;
    const bool aligned = is_aligned(y, kVectorBytes) && plan.axis[0].stride_y == 1;
    bool dense = true;
    bool by_rows = static_cast<int64_t>(plan.axis[0].extent.divisor()) % lanes == 0;
    int64_t step = 1;
    for (int d = 0; d < plan.rank; ++d) {
        dense = dense && plan.axis[d].stride_y == step;
        by_rows = by_rows && (d == 0 || plan.axis[d].stride_y % lanes == 0);
        step *= static_cast<int64_t>(plan.axis[d].extent.divisor());
    }
    plan.vectors = aligned && (dense || by_rows);
    return plan;
}

template <class Bits, class Index>
Status launch_mapped_by(const Launch& launch, const MappedPlan& plan, const Bits* x, Bits* y) {
    constexpr int N = kVectorLanes<Bits>;
    const int64_t blocks = ceil_div<int64_t>(plan.numel, kMappedThreads * N);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld elements are too many for one launch", static_cast<long long>(plan.numel));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kMappedThreads)}, mapped_kernel<Bits, Index>,
                         kernel_plan<Index>(plan, N, y), x, y);
}

template <class Bits>
Status launch_mapped(const Launch& launch, const MappedPlan& plan, const void* x, void* y) {
    constexpr int64_t kShort = (int64_t{1} << 31) - kMappedThreads * kVectorBytes;
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

// The kernel of mapped copies. Where y has neighbours at aligned addresses a thread takes vectors of 16 bytes whose sources are
// neighbours too, or none, and the elements of other vectors are shared out among the lanes of the warp; else a thread takes
// elements that lie a block's threads apart.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/pointwise/copies.h"
#include "core/pointwise/neighbours.cuh"
#include "core/types/vec.h"

namespace bk {

constexpr int kMappedThreads = 256;
constexpr int kMappedUnroll = 2;  // vectors of a thread that are in flight together

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
    Reach reach;           // of x
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

template <class Bits, class Index>
BK_DEVICE void copy_element(const MappedKernelPlan<Index>& plan, const Bits* x, Bits* y, Index i, int64_t start) {
    Index along;
    const MappedRow row = mapped_row(plan, i, start, &along);
    const int64_t at = mapped_source(plan, row, along);
    if (is_written(plan, row, along, start))
        y[row.y + static_cast<int64_t>(along) * plan.axis[0].stride_y] =
            at < 0 ? static_cast<Bits>(plan.value) : x[row.x + at * plan.axis[0].stride_x];
}

// How many of the numbers from `first` to `last`, one of them the least and the other the largest, are in [least, most].
enum class Share { kNone, kSome, kAll };

BK_DEVICE Share share_of(int64_t first, int64_t last, int64_t least, int64_t most) {
    const int64_t low = min(first, last), high = max(first, last);
    return high < least || low > most ? Share::kNone : low >= least && high <= most ? Share::kAll : Share::kSome;
}

// Of the elements of a row from index `first` to `last`: which may have a source.
template <class Index>
BK_DEVICE Share share_with_source(const MappedKernelPlan<Index>& plan, const MappedRow& row, int64_t first, int64_t last) {
    if (!row.exists) return Share::kNone;
    const AxisMap<Index>& map = plan.axis[0].map;
    Share all = Share::kAll;
    if (map.beyond == Beyond::kValue) all = share_of(first - map.low, last - map.low, 0, static_cast<int64_t>(map.source) - 1);
#pragma unroll
    for (int b = 0; b < kMostBands; ++b) {
        if (b >= plan.bands) break;
        const int64_t slope = b == plan.axis[0].band ? plan.axis[0].slope : 0, sum = row.band[b];
        const Share own = share_of(sum + slope * first, sum + slope * last, plan.band[b].least, plan.band[b].most);
        if (own < all) all = own;
    }
    return all;
}

// What a thread does with a vector of neighbours in y: elements of x that are neighbours too, in y's order or turned, or the
// value. Others are left.
enum class VectorKind { kUnwritten, kValue, kRun, kTurned, kLeft };

template <int N, class Bits>
struct MappedVector {
    VectorKind kind;
    const Bits* from;
    Bits* to;
};

// Elements i, ..., i + N - 1.
template <int N, class Bits, class Index>
BK_DEVICE MappedVector<N, Bits> mapped_vector(const MappedKernelPlan<Index>& plan, const Bits* x, Bits* y, Index i,
                                              int64_t start) {
    const auto& inner = plan.axis[0];
    Index along;
    const MappedRow row = mapped_row(plan, i, start, &along);
    const Index end = along + (N - 1);
    MappedVector<N, Bits> vector{VectorKind::kLeft, nullptr, y + row.y + static_cast<int64_t>(along) * inner.stride_y};
    if (end >= inner.extent.divisor() || plan.numel - i < N) return vector;
    if (plan.start != nullptr) {
        const bool first = is_written(plan, row, along, start), last = is_written(plan, row, end, start);
        if (!first && !last && plan.limit > N) vector.kind = VectorKind::kUnwritten;
        if (!first || !last) return vector;
    }
    const Share share = share_with_source(plan, row, static_cast<int64_t>(along), static_cast<int64_t>(end));
    if (share == Share::kNone) vector.kind = VectorKind::kValue;
    if (share != Share::kAll) return vector;
    const int64_t from = inner.map(along), until = inner.map(end), length = until - from;
    const bool is_run = length == N - 1 || (length == 1 - N && inner.map.beyond == Beyond::kReflect);
    const int64_t step = length < 0 ? -inner.stride_x : inner.stride_x;
    vector.from = x + row.x + min(from * inner.stride_x, until * inner.stride_x);
    if (is_run && (step == 1 || step == -1) && plan.reach.has_around(vector.from))
        vector.kind = step == 1 ? VectorKind::kRun : VectorKind::kTurned;
    return vector;
}

template <int N, class Bits>
BK_DEVICE void store_mapped(const MappedVector<N, Bits>& vector, const AroundVector& around, Bits value) {
    if (vector.kind == VectorKind::kUnwritten || vector.kind == VectorKind::kLeft) return;
    Vec<Bits, N> result;
    if (vector.kind == VectorKind::kValue) {
#pragma unroll
        for (int lane = 0; lane < N; ++lane) result.lane[lane] = value;
    } else {
        result = around.elements<Bits>();
        if (vector.kind == VectorKind::kTurned) result = reversed(result);
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
        vectors = vectors && start * plan.axis[plan.moved].stride_y % N == 0;
    }
    constexpr Index kMost = kMappedThreads * kMappedUnroll * N;
    const Index first = static_cast<Index>(blockIdx.x) * kMost;
    const Index elements = plan.numel - first < kMost ? plan.numel - first : kMost;
    if (!vectors) {
#pragma unroll 2
        for (Index i = threadIdx.x; i < elements; i += kMappedThreads) copy_element(plan, x, y, first + i, start);
        return;
    }
    MappedVector<N, Bits> vector[kMappedUnroll];
    AroundVector around[kMappedUnroll];
    unsigned left = 0;  // bits of those that are
    const auto element_of = [&](int u) { return static_cast<Index>((threadIdx.x + u * kMappedThreads) * N); };
#pragma unroll
    for (int u = 0; u < kMappedUnroll; ++u) {
        vector[u].kind = VectorKind::kUnwritten;
        if (element_of(u) < elements)
            vector[u] = mapped_vector<N>(plan, x, y, static_cast<Index>(first + element_of(u)), start);
        left |= static_cast<unsigned>(vector[u].kind == VectorKind::kLeft) << u;
    }
#pragma unroll
    for (int u = 0; u < kMappedUnroll; ++u) {
        around[u] = {};
        if (vector[u].kind == VectorKind::kRun || vector[u].kind == VectorKind::kTurned) around[u].load_from(vector[u].from);
    }
#pragma unroll
    for (int u = 0; u < kMappedUnroll; ++u) store_mapped(vector[u], around[u], static_cast<Bits>(plan.value));
#pragma unroll 1
    for (int u = 0; u < kMappedUnroll; ++u)
        each_left_element<N>((left >> u & 1) != 0, element_of(u), elements,
                             [&](Index i) { copy_element(plan, x, y, static_cast<Index>(first + i), start); });
}

// Where the elements of x lie, of which there may be none.
template <class Bits>
Reach reach_of(const MappedCopy& copy, const Bits* x) {
    int64_t low = 0, high = 1;
    for (int d = 0; d < copy.rank; ++d) {
        const int64_t last = (copy.axis[d].source - 1) * copy.axis[d].stride_x;
        (last < 0 ? low : high) += last;
    }
    return {reinterpret_cast<const char*>(x + low), reinterpret_cast<const char*>(x + high)};
}

template <class Bits, class Index>
MappedKernelPlan<Index> kernel_plan(const MappedPlan& given, int lanes, const Bits* x, const Bits* y) {
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
    plan.reach = reach_of(copy, x);
    return plan;
}

template <class Bits, class Index>
Status launch_mapped_by(const Launch& launch, const MappedPlan& plan, const Bits* x, Bits* y) {
    constexpr int N = kVectorLanes<Bits>;
    const int64_t blocks = ceil_div<int64_t>(plan.numel, kMappedThreads * kMappedUnroll * N);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld elements are too many for one launch", static_cast<long long>(plan.numel));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kMappedThreads)}, mapped_kernel<Bits, Index>,
                         kernel_plan<Bits, Index>(plan, N, x, y), x, y);
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

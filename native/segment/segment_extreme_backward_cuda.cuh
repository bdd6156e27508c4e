// SPDX-License-Identifier: Apache-2.0
// With a workspace a reduce-by-key finds the first row of each extreme, then every row gets its gradient. Without, a
// block keeps a tile of segments and columns in shared memory and reads all ids.
#pragma once

#include <algorithm>

#include "core/segmented/store_segments.cuh"
#include "segment/gradient_rows.cuh"
#include "segment/segment_extreme_backward.h"
#include "segment/sorted_segments.cuh"

namespace bk {

template <class T>
struct ExtremeGradient {
    using Element = T;
    static constexpr int kUnroll = 4;
    template <int N>
    struct Loaded {
        Vec<T, N> dy;
        Vec<uint32_t, N> row;
    };
    const T* d_output;
    const uint32_t* first_rows;
    int64_t columns;

    template <int N>
    BK_DEVICE Loaded<N> load(const RowElement& at) const {
        const int64_t cell = at.id * columns + at.column;
        return {bk::load<N>(d_output + cell), bk::load<N>(first_rows + cell)};
    }
    template <int N>
    BK_DEVICE Vec<T, N> compute(const Loaded<N>& x, const RowElement& at) const {
        Vec<T, N> y = {};
#pragma unroll
        for (int i = 0; i < N; ++i)
            if (x.row.lane[i] == static_cast<uint32_t>(at.row)) y.lane[i] = x.dy.lane[i];
        return y;
    }
};

template <class T>
struct ExtremeBuffers {
    SortBuffers sort;
    SegmentPartials<typename ArgExtremumOp<T>::Acc> partials;
    uint32_t* first_rows;  // [num_segments, d]
};

template <bool kSorted, class T>
ExtremeBuffers<T> carve_extremes(Carver* carver, const SegmentShape& shape, const SegmentedShape& runs) {
    ExtremeBuffers<T> buffers{};
    if (!kSorted) buffers.sort = carve_sorted_segments(carver, shape);
    buffers.partials = carve_segment_partials<typename ArgExtremumOp<T>::Acc>(carver, runs);
    buffers.first_rows = carver->take<uint32_t>(int64_t{shape.num_segments} * shape.d);
    return buffers;
}

template <bool kSorted, class T>
size_t segment_extreme_backward_workspace(const SegmentShape& shape) {
    Carver carver;
    carve_extremes<kSorted, T>(&carver, shape, make_segmented_shape<T>(shape.n, shape.d, shape.num_segments, true));
    return carver.bytes();
}

constexpr int kExtremeThreads = 256, kExtremeColumns = 32, kExtremeBytes = 32 * 1024;

// A warp takes the segments of its residue class; each lane a column.
template <class T>
__global__ void __launch_bounds__(kExtremeThreads)
    extreme_tiles_kernel(SegmentShape shape, ArgExtremumOp<T> reduction, ExtremeOperands<T> operands, int64_t column_tiles) {
    using Acc = typename ArgExtremumOp<T>::Acc;
    constexpr int kSegments = kExtremeBytes / (kExtremeColumns * static_cast<int>(sizeof(Acc))), kWarps = kExtremeThreads / 32;
    __shared__ Acc cells[kSegments][kExtremeColumns];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t first = int64_t{blockIdx.x} * kSegments, last = min(first + kSegments, int64_t{shape.num_segments});
    // body(row, segment) for the rows of the warp's segments, in order; segment is -1 for a row of none.
    const auto for_each_row = [&](const auto& body) {
        for (int64_t base = 0; base < shape.n; base += 32) {
            const int64_t id = base + lane < shape.n ? operands.ids[base + lane] : int64_t{shape.num_segments};
            const bool is_unassigned = base + lane < shape.n && !shape.has(id);
            const bool is_own = id >= first && id < last && (id - first) % kWarps == warp;
            const bool is_zero = is_unassigned && blockIdx.x == 0 && (base / 32) % kWarps == warp;
            unsigned hits = __ballot_sync(0xffffffffu, is_own || is_zero);
            for (; hits != 0; hits &= hits - 1) {
                const int from = __ffs(hits) - 1;
                body(base + from, __shfl_sync(0xffffffffu, is_own ? static_cast<int>(id - first) : -1, from));
            }
        }
    };
    for (int64_t tile = blockIdx.y; tile < column_tiles; tile += gridDim.y) {
        const int64_t column = tile * kExtremeColumns + lane;
        const bool in_bounds = column < shape.d;
        for (int s = warp; s < kSegments; s += kWarps) cells[s][lane] = reduction.identity();
        for_each_row([&](int64_t row, int segment) {
            if (in_bounds && segment >= 0)
                reduction.add(cells[segment][lane], widen(operands.input[row * shape.d + column]), static_cast<uint32_t>(row));
        });
        for_each_row([&](int64_t row, int segment) {
            if (!in_bounds) return;
            const bool is_first = segment >= 0 && cells[max(segment, 0)][lane].row == static_cast<uint32_t>(row);
            operands.d_input[row * shape.d + column] =
                is_first ? operands.d_output[(first + segment) * shape.d + column] : narrow<T>(compute_t<T>(0));
        });
    }
}

template <class T>
Status extreme_by_tiles(const Launch& launch, const SegmentShape& shape, const ArgExtremumOp<T>& reduction,
                        const ExtremeOperands<T>& operands) {
    constexpr int64_t kSegments =
        kExtremeBytes / (kExtremeColumns * static_cast<int64_t>(sizeof(typename ArgExtremumOp<T>::Acc)));
    const int64_t column_tiles = ceil_div<int64_t>(shape.d, kExtremeColumns);
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(shape.num_segments, kSegments)),
                         static_cast<unsigned>(std::min(column_tiles, kMaxGridY))),
                    dim3(kExtremeThreads)};
    return launch_kernel(launch, grid, extreme_tiles_kernel<T>, shape, reduction, operands, column_tiles);
}

template <bool kSorted, class T>
Status segment_extreme_backward(const Launch& launch, const SegmentShape& shape, const Order<T>& order,
                                const ExtremeOperands<T>& operands) {
    const SegmentedShape s = make_segmented_shape<T>(shape.n, shape.d, shape.num_segments, true);
    const bool has_workspace = workspace_holds(launch, segment_extreme_backward_workspace<kSorted, T>(shape));
    ArgExtremumOp<T> reduction{order};
    if (!has_workspace) return extreme_by_tiles(launch, shape, reduction, operands);
    Carver carver(launch.workspace);
    auto buffers = carve_extremes<kSorted, T>(&carver, shape, s);
    if constexpr (kSorted) {
        BK_TRY(reduce_segments<true>(launch, s, RowsInOrder<T>{operands.input}, operands.ids, reduction, buffers.first_rows,
                                     &buffers.partials));
    } else {
        BK_TRY(sort_segments(launch, shape, operands.ids, &buffers.sort));
        reduction.rows = buffers.sort.values[0];
        BK_TRY(reduce_segments<true>(launch, s, RowsByIndex<T, false>{operands.input, reduction.rows}, sorted_ids(buffers.sort),
                                     reduction, buffers.first_rows, &buffers.partials));
    }
    return gradient_rows(launch, shape, ExtremeGradient<T>{operands.d_output, buffers.first_rows, shape.d}, operands.ids,
                         kSorted, nullptr, operands.d_input, is_aligned(operands.d_output, kVectorBytes));
}

}  // namespace bk

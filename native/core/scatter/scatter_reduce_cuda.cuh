// SPDX-License-Identifier: Apache-2.0
// GPU scatter-reduce: in shared memory (core/scatter/scatter_fibers.cuh, core/scatter/scatter_columns.cuh,
// core/scatter/scatter_column_sums.cuh), by atomics (core/scatter/scatter_atomic.cuh), or by a sort of (target, update) pairs
// and a reduce-by-key: rows by add_segments.cuh, elements by core/row/reduce_by_key.cuh. At most kScatterSlab updates
// are sorted at once, and targets are taken in windows that fit 31-bit keys; all but giant problems have one of each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/row/reduce_by_key.cuh"
#include "core/scatter/scatter_atomic.cuh"
#include "core/scatter/scatter_column_sums.cuh"
#include "core/scatter/scatter_columns.cuh"
#include "core/scatter/scatter_fibers.cuh"
#include "core/scatter/scatter_reduce.h"
#include "core/segmented/add_segments.cuh"
#include "core/segmented/sort_pairs.h"

namespace bk {

constexpr int64_t kScatterSlab = int64_t{1} << 26;
constexpr int64_t kScatterWindow = (int64_t{1} << 31) - 2;
constexpr int64_t kMinRowBytes = 16;  // narrower rows are sorted by element

struct ScatterSort {
    ScatterRows rows;
    int64_t count, targets;  // pairs that are sorted at once, and the range of their keys

    template <class Op, class T>
    static ScatterSort of(const ScatterLayout& s) {
        ScatterSort sort{ScatterRows::of(s), 0, 0};
        if (!kIsScatterSum<Op> || sort.rows.columns * static_cast<int64_t>(sizeof(T)) < kMinRowBytes) sort.rows.columns = 0;
        if (sort.by_rows()) {
            sort.count = sort.rows.blocks * s.n;
            sort.targets = sort.rows.blocks * s.targets;
        } else {
            sort.count = std::min(kScatterSlab, s.fibers() * s.n);
            sort.targets = std::min(kScatterWindow, s.reach().span);
        }
        return sort;
    }
    bool by_rows() const { return rows.columns > 0; }
    uint32_t sentinel() const { return static_cast<uint32_t>(targets); }
    template <class T>
    SegmentedShape runs() const {
        return make_segmented_shape<T>(count, rows.columns, targets, false);
    }
};

template <class Op, class T>
struct ScatterBuffers {
    SortBuffers sort;
    SegmentPartials<compute_t<T>> runs;
    ElementPartials<typename Op::Acc> elements;
};

template <class Op, class T>
ScatterBuffers<Op, T> carve_scatter(Carver* carver, const ScatterSort& sort) {
    ScatterBuffers<Op, T> buffers{};
    buffers.sort = carve_sort(carver, sort.count, sort.sentinel());
    if (sort.by_rows())
        buffers.runs = carve_segment_partials<compute_t<T>>(carver, sort.template runs<T>());
    else
        buffers.elements = carve_element_partials<typename Op::Acc>(carver, sort.count);
    return buffers;
}

template <class Op, class T>
size_t scatter_reduce_workspace(const ScatterLayout& layout) {
    Carver carver;
    carve_scatter<Op, T>(&carver, ScatterSort::of<Op, T>(layout));
    return carver.bytes();
}

// --- Keys ------------------------------------------------------------------------------------------------------------

// Keys are the rows of out, values those of the updates. Dropped indices get the sentinel, which sorts last.
template <class Ids>
__global__ void __launch_bounds__(256)
    scatter_row_keys_kernel(Ids index, int64_t rows, FastDiv<uint32_t> n, int64_t targets, int64_t dropped, uint32_t sentinel,
                            uint32_t* keys, uint32_t* values) {
    const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const auto at = n(static_cast<uint32_t>(row));
    const int64_t i = index[at.remainder];
    const bool keep = i >= 0 && i < targets && i != dropped;
    keys[row] = keep ? static_cast<uint32_t>(at.quotient * targets + i) : sentinel;
    values[row] = static_cast<uint32_t>(row);
}

struct SortKeyRange {
    int64_t low, window;  // key = offset - low if that is in [0, window), else the sentinel
    int64_t step, targets, dropped;
};

// Keys of elements [first, first + count) of the walk.
template <class Ids, class Index>
__global__ void __launch_bounds__(256)
    scatter_element_keys_kernel(Ids index, Walk<3, Index> walk, SortKeyRange key_range, int64_t first, int64_t count,
                                uint32_t* keys, uint32_t* values) {
    constexpr int kItems = 4;
    int64_t found[kItems], out[kItems];
    const int64_t base = int64_t{blockIdx.x} * (256 * kItems) + threadIdx.x;
#pragma unroll
    for (int u = 0; u < kItems; ++u) {
        found[u] = -1;
        if (base + u * 256 >= count) continue;
        const auto at = walk(static_cast<Index>(first + base + u * 256));
        found[u] = index[signed_offset(at.of[ScatterLayout::kIndex])];
        out[u] = signed_offset(at.of[ScatterLayout::kOut]);
    }
#pragma unroll
    for (int u = 0; u < kItems; ++u) {
        if (base + u * 256 >= count) continue;
        const bool keep = found[u] >= 0 && found[u] < key_range.targets && found[u] != key_range.dropped;
        const int64_t key = keep ? out[u] + found[u] * key_range.step - key_range.low : -1;
        keys[base + u * 256] = static_cast<uint32_t>(key >= 0 && key < key_range.window ? key : key_range.window);
        values[base + u * 256] = static_cast<uint32_t>(base + u * 256);
    }
}

// --- By sorting ------------------------------------------------------------------------------------------------------

template <class Op, class T, class Ids>
Status scatter_rows_sorted(const Launch& launch, const ScatterLayout& s, const ScatterSort& sort, const T* updates, Ids index,
                           T* out, ScatterBuffers<Op, T> buffers) {
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(sort.count, 256))), dim3(256)};
    BK_TRY(launch_kernel(launch, grid, scatter_row_keys_kernel<Ids>, index, sort.count, FastDiv<uint32_t>(s.n), s.targets,
                         s.dropped, sort.sentinel(), buffers.sort.keys[0], buffers.sort.values[0]));
    BK_TRY(sort_pairs(launch, &buffers.sort, sort.count, sort.sentinel()));
    return add_segments(launch, sort.template runs<T>(), RowsByIndex<T, false>{updates, buffers.sort.values[0]},
                        static_cast<const uint32_t*>(buffers.sort.keys[0]), out, buffers.runs);
}

template <class Index, class Op, class T, class Ids>
Status scatter_elements_sorted(const Launch& launch, const Op& op, const ScatterLayout& s, const ScatterSort& sort,
                               const T* updates, Ids index, T* out, const ScatterBuffers<Op, T>& buffers) {
    const Layout<3> all = s.all();
    Layout<1> source;
    for (int d = 0; d < all.rank; ++d) source.append(all.extent[d], {all.stride[ScatterLayout::kUpdates][d]});
    const Walk<3, Index> walk(all);
    const Walk<1, Index> update_walk(collapse(source));
    const ScatterLayout::Extent reach = s.reach();
    const int64_t total = s.fibers() * s.n;
    for (int64_t window = 0; window < reach.span; window += sort.targets)
        for (int64_t first = 0; first < total; first += sort.count) {
            const int64_t count = std::min(sort.count, total - first);
            SortBuffers pairs = buffers.sort;
            const SortKeyRange key_range{reach.low + window, sort.targets, s.step[ScatterLayout::kOut], s.targets, s.dropped};
            const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(count, 1024))), dim3(256)};
            BK_TRY(launch_kernel(launch, grid, scatter_element_keys_kernel<Ids, Index>, index, walk, key_range, first, count,
                                 pairs.keys[0], pairs.values[0]));
            BK_TRY(sort_pairs(launch, &pairs, count, sort.sentinel()));
            BK_TRY(reduce_by_key(launch, op, SortedElements{pairs.keys[0], pairs.values[0], count, sort.sentinel()},
                                 update_walk, first, updates, out + key_range.low, buffers.elements));
        }
    return Status::kOk;
}

template <class Op, class T, class Ids>
Status scatter_reduce(const Launch& launch, const ScatterLayout& layout, const T* updates, Ids index, T* out, const Op& op) {
    const bool has_workspace = workspace_holds(launch, scatter_reduce_workspace<Op, T>(layout));
    if constexpr (std::is_constructible_v<IdArray, Ids>) {
        if (const ScatterFibers fibers = ScatterFibers::of<Op>(layout); fibers.applies())
            return scatter_fibers(launch, op, fibers, updates, IdArray(index), out);
        const bool in_any_order = kIsScatterSum<Op> && !has_workspace;
        if constexpr (kIsScatterSum<Op>)
            if (const ScatterColumns sums = column_sums_of<T>(layout); in_any_order && sums.applies())
                return scatter_column_sums(launch, sums, updates, IdArray(index), out);
        if (const ScatterColumns columns = ScatterColumns::of<Op, T>(layout); !in_any_order && columns.applies())
            return scatter_columns(launch, op, columns, updates, IdArray(index), out);
    }
    if (!has_workspace) return scatter_atomic(launch, op, layout, updates, index, out);
    const ScatterSort sort = ScatterSort::of<Op, T>(layout);
    Carver carver(launch.workspace);
    const auto buffers = carve_scatter<Op, T>(&carver, sort);
    if constexpr (kIsScatterSum<Op>)
        if (sort.by_rows()) return scatter_rows_sorted(launch, layout, sort, updates, index, out, buffers);
    return layout.all().fits_32bit()
               ? scatter_elements_sorted<uint32_t>(launch, op, layout, sort, updates, index, out, buffers)
               : scatter_elements_sorted<uint64_t>(launch, op, layout, sort, updates, index, out, buffers);
}

}  // namespace bk

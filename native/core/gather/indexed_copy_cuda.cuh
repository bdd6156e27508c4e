// SPDX-License-Identifier: Apache-2.0
// GPU indexed copies. A thread takes a few vectors along the last axis: contiguous plain and index vectors are loaded
// and stored as such, and rows that share an index are copied as words of up to 16 bytes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/gather/indexed_copy.h"
#include "core/scatter/scatter_last.cuh"

namespace bk {

constexpr int kIndexedCopyThreads = 256;
constexpr int64_t kMaxLaunchElements = int64_t{1} << 30;  // per launch

// A walk by vectors of N elements; `indexed_step` is the stride within a vector.
struct IndexedWalk {
    LongWalk<3> offsets;
    uint32_t num_vectors;
    int64_t indexed_step, extent, step;
};

template <class I>
BK_DEVICE bool is_inside(I index, int64_t extent) {
    const int64_t at = static_cast<int64_t>(index);
    return at >= 0 && at < extent;
}

template <bool kIsGather, int N, int U, class W, class I>
__global__ void __launch_bounds__(kIndexedCopyThreads)
    indexed_copy_kernel(std::conditional_t<kIsGather, W, const W>* plain, const I* index,
                        std::conditional_t<kIsGather, const W, W>* indexed, const __grid_constant__ IndexedWalk walk) {
    const uint32_t first = blockIdx.x * (kIndexedCopyThreads * U) + threadIdx.x;
    int64_t offset[U][3];
    Vec<I, N> at[U];
    Vec<W, N> value[U];
#pragma unroll
    for (int u = 0; u < U; ++u) {
        const uint32_t vector = first + u * kIndexedCopyThreads;
        offset[u][0] = offset[u][1] = offset[u][2] = 0;
        if (vector >= walk.num_vectors) break;
        walk.offsets(vector, offset[u]);
        at[u] = load<N>(index + offset[u][1]);
        if constexpr (!kIsGather) value[u] = load<N>(plain + offset[u][0]);
    }
    if constexpr (kIsGather) {
#pragma unroll
        for (int u = 0; u < U; ++u) {
            if (first + u * kIndexedCopyThreads >= walk.num_vectors) break;
#pragma unroll
            for (int k = 0; k < N; ++k)
                if (is_inside(at[u].lane[k], walk.extent))
                    value[u].lane[k] =
                        indexed[offset[u][2] + k * walk.indexed_step + static_cast<int64_t>(at[u].lane[k]) * walk.step];
        }
    }
#pragma unroll
    for (int u = 0; u < U; ++u) {
        if (first + u * kIndexedCopyThreads >= walk.num_vectors) break;
        bool inside[N], all = true;
#pragma unroll
        for (int k = 0; k < N; ++k) all = (inside[k] = is_inside(at[u].lane[k], walk.extent)) && all;
        if constexpr (kIsGather) {
            if (all) {
                store_once<N>(plain + offset[u][0], value[u]);
                continue;
            }
        }
#pragma unroll
        for (int k = 0; k < N; ++k) {
            if (!inside[k]) continue;
            if constexpr (kIsGather)
                plain[offset[u][0] + k] = value[u].lane[k];
            else
                indexed[offset[u][2] + k * walk.indexed_step + static_cast<int64_t>(at[u].lane[k]) * walk.step] =
                    value[u].lane[k];
        }
    }
}

// Whether plain and index allow aligned vectors of N.
template <int N, class W, class I>
bool has_copy_vectors(const IndexedAxes& axes, const W* plain, const I* index) {
    const Layout<3>& dims = axes.layout;
    const int last = dims.rank - 1;
    if (last < 0 || dims.stride[0][last] != 1 || dims.stride[1][last] != 1 || dims.extent[last] % N != 0) return false;
    for (int d = 0; d < last; ++d)
        if (dims.stride[0][d] % N != 0 || dims.stride[1][d] % N != 0) return false;
    return is_aligned(plain, sizeof(W) * N) && is_aligned(index, sizeof(I) * N);
}

template <bool kIsGather, int N, class W, class I>
Status launch_copy(const Launch& launch, const IndexedAxes& axes, std::conditional_t<kIsGather, W, const W>* plain,
                   const I* index, std::conditional_t<kIsGather, const W, W>* indexed) {
    constexpr int unroll = N == 1 ? 4 : 2;
    Layout<3> vectors = axes.layout;
    const int last = vectors.rank - 1;
    const int64_t indexed_step = last < 0 ? 0 : vectors.stride[2][last];
    if (N > 1) {
        vectors.extent[last] /= N;
        for (auto& stride : vectors.stride) stride[last] *= N;
    }
    const int64_t num_vectors = vectors.numel(), blocks = ceil_div<int64_t>(num_vectors, kIndexedCopyThreads * unroll);
    const IndexedWalk walk{LongWalk<3>(vectors), static_cast<uint32_t>(num_vectors), indexed_step, axes.extent, axes.step};
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kIndexedCopyThreads)},
                         indexed_copy_kernel<kIsGather, N, unroll, W, I>, plain, index, indexed, walk);
}

// run(axes, plain, index, indexed) on slices small enough for a launch.
template <class P, class I, class Q, class Run>
Status copy_in_slices(IndexedAxes axes, P* plain, const I* index, Q* indexed, const Run& run) {
    if (axes.layout.numel() <= kMaxLaunchElements) return run(axes, plain, index, indexed);
    int widest = 0;
    for (int d = 1; d < axes.layout.rank; ++d)
        if (axes.layout.extent[d] > axes.layout.extent[widest]) widest = d;
    // Slices of outer axes stay as aligned as the whole; the last axis is split at a vector boundary.
    const int64_t extent = axes.layout.extent[widest], half = extent > 512 ? extent / 2 / 256 * 256 : extent / 2;
    axes.layout.extent[widest] = half;
    BK_TRY(copy_in_slices(axes, plain, index, indexed, run));
    axes.layout.extent[widest] = extent - half;
    return copy_in_slices(axes, plain + half * axes.layout.stride[0][widest], index + half * axes.layout.stride[1][widest],
                          indexed + half * axes.layout.stride[2][widest], run);
}

template <bool kIsGather, class P, class I, class Q>
Status copy_along(const Launch& launch, const IndexedAxes& given, P* plain, const I* index, Q* indexed) {
    IndexedAxes axes = given;
    axes.layout = collapse(given.layout);
    return copy_in_slices(axes, plain, index, indexed, [&](const IndexedAxes& slice, P* to, const I* by, Q* from) {
        return with_widest_words(slice, to, from, [&](const IndexedAxes& words, auto* word_plain, auto* word_indexed) {
            using W = std::remove_const_t<std::remove_pointer_t<decltype(word_plain)>>;
            constexpr int widest = sizeof(W) > sizeof(I) ? sizeof(W) : sizeof(I), N = kVectorBytes / widest;
            if constexpr (N > 1)
                if (has_copy_vectors<N>(words, word_plain, by))
                    return launch_copy<kIsGather, N, W>(launch, words, word_plain, by, word_indexed);
            return launch_copy<kIsGather, 1, W>(launch, words, word_plain, by, word_indexed);
        });
    });
}

template <class Bits, class I>
Status gather_along(const Launch& launch, const IndexedAxes& axes, Bits* plain, const I* index, const Bits* indexed) {
    return copy_along<true>(launch, axes, plain, index, indexed);
}

// --- Duplicate targets: last update wins ----------------------------------------------------------------------------

// Operands: plain, index, indexed, the index along the axis, and the cells' last updates.
struct LastUpdateWalk {
    LongWalk<5> offsets;
    uint32_t elements;
    int64_t extent, step, last_update_step, first;  // first: the slice's first index along the axis
};

template <class Owner, class I>
__global__ void __launch_bounds__(kIndexedCopyThreads)
    mark_last_update_kernel(const I* index, Owner* last_update, const __grid_constant__ LastUpdateWalk walk) {
    const uint32_t element = blockIdx.x * kIndexedCopyThreads + threadIdx.x;
    if (element >= walk.elements) return;
    int64_t offset[5] = {};
    walk.offsets(element, offset);
    const I at = index[offset[1]];
    using Word = std::conditional_t<sizeof(Owner) == sizeof(int), int, long long>;  // what atomicMax takes
    if (is_inside(at, walk.extent))
        atomicMax(reinterpret_cast<Word*>(last_update + offset[4] + static_cast<int64_t>(at) * walk.last_update_step),
                  static_cast<Word>(walk.first + offset[3]));
}

template <class Owner, class Bits, class I>
__global__ void __launch_bounds__(kIndexedCopyThreads)
    copy_last_update_kernel(const Bits* plain, const I* index, Bits* indexed, const Owner* last_update,
                            const __grid_constant__ LastUpdateWalk walk) {
    const uint32_t element = blockIdx.x * kIndexedCopyThreads + threadIdx.x;
    if (element >= walk.elements) return;
    int64_t offset[5] = {};
    walk.offsets(element, offset);
    const I at = index[offset[1]];
    if (is_inside(at, walk.extent) &&
        last_update[offset[4] + static_cast<int64_t>(at) * walk.last_update_step] == static_cast<Owner>(walk.first + offset[3]))
        indexed[offset[2] + static_cast<int64_t>(at) * walk.step] = plain[offset[0]];
}

template <class Owner>
size_t scatter_workspace(int64_t cells) {
    Carver carver;
    carver.take<Owner>(cells);
    return carver.bytes();
}

// run(layout, offsets) on slices small enough for a launch.
template <class Run>
Status run_in_slices(Layout<5> layout, const int64_t (&from)[5], const Run& run) {
    if (layout.numel() <= kMaxLaunchElements) return run(layout, from);
    int widest = 0;
    for (int d = 1; d < layout.rank; ++d)
        if (layout.extent[d] > layout.extent[widest]) widest = d;
    const int64_t extent = layout.extent[widest], half = extent / 2;
    int64_t next[5];
    for (int k = 0; k < 5; ++k) next[k] = from[k] + half * layout.stride[k][widest];
    layout.extent[widest] = half;
    BK_TRY(run_in_slices(layout, from, run));
    layout.extent[widest] = extent - half;
    return run_in_slices(layout, next, run);
}

template <class Owner, class Bits, class I>
Status scatter_last(const Launch& launch, const IndexedAxes& axes, int axis, const Bits* plain, const I* index, Bits* indexed,
                    Owner* last_update, int64_t cells) {
    Layout<5> layout;
    int64_t last_update_stride[8], cell = 1;
    for (int d = axes.layout.rank - 1; d >= 0; --d) {
        last_update_stride[d] = cell;
        cell *= d == axis ? axes.extent : axes.layout.extent[d];
    }
    for (int d = 0; d < axes.layout.rank; ++d)
        layout.append(axes.layout.extent[d], {axes.layout.stride[0][d], axes.layout.stride[1][d], axes.layout.stride[2][d],
                                              d == axis, d == axis ? 0 : last_update_stride[d]});
    layout = collapse(layout);
    BK_TRY(fill_bytes(launch, last_update, 0xff, sizeof(Owner) * static_cast<size_t>(cells)));
    for (const bool marks : {true, false}) {
        const auto run = [&](const Layout<5>& slice, const int64_t (&from)[5]) {
            const int64_t count = slice.numel();
            const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(count, kIndexedCopyThreads))),
                            dim3(kIndexedCopyThreads)};
            const LastUpdateWalk walk{LongWalk<5>(slice), static_cast<uint32_t>(count), axes.extent,
                                      axes.step,          last_update_stride[axis],     from[3]};
            if (marks)
                return launch_kernel(launch, grid, mark_last_update_kernel<Owner, I>, index + from[1], last_update + from[4],
                                     walk);
            return launch_kernel(launch, grid, copy_last_update_kernel<Owner, Bits, I>, plain + from[0], index + from[1],
                                 indexed + from[2], last_update + from[4], walk);
        };
        BK_TRY(run_in_slices(layout, {0, 0, 0, 0, 0}, run));
    }
    return Status::kOk;
}

template <class Owner, class Bits, class I>
Status scatter_along(const Launch& launch, const IndexedAxes& axes, int axis, const Bits* plain, const I* index,
                     Bits* indexed) {
    int64_t cells = axes.extent;
    for (int d = 0; d < axes.layout.rank; ++d) cells *= d == axis ? 1 : axes.layout.extent[d];
    const bool has_workspace = workspace_holds(launch, scatter_workspace<Owner>(cells));
    const FiberScatter fibers = FiberScatter::of<Bits>(axes);
    if (fibers.fibers > 0) return scatter_fiber_last(launch, fibers, plain, index, indexed);
    if (!has_workspace) return copy_along<false>(launch, axes, plain, index, indexed);
    Carver carver(launch.workspace);
    Owner* const last_update = carver.take<Owner>(cells);
    return scatter_last(launch, axes, axis, plain, index, indexed, last_update, cells);
}

}  // namespace bk

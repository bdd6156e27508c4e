// With a workspace: (row, bag) pairs are sorted by row and the runs of bags' gradients summed (core/run_sums.cuh).
// Without: a group of threads a bag keeps the bag's gradient in registers and adds it to the rows by atomics; equal
// indices of one bag contribute equally, so they become one addition.
#pragma once

#include <algorithm>

#include "core/atomics.cuh"
#include "core/run_sums.cuh"
#include "core/sort_pairs.h"
#include "embedding/embedding_bag_backward.h"

namespace bk {

constexpr int kBagGradThreads = 256;
constexpr int64_t kBagGradGroups = int64_t{1} << 14;

// --- By atomics ------------------------------------------------------------------------------------------------------

// Few bags are split over blockIdx.z, so that the chip is filled.
template <int N, class T, class I>
__global__ void __launch_bounds__(kBagGradThreads)
    bag_grad_atomic_kernel(BagShape shape, const T* dout, const I* indices, const int32_t* offsets, T* dweight, int group) {
    using C = compute_t<T>;
    const RowLane place = RowLane::here<N>(group);
    if (place.worker >= shape.num_bags) return;
    const BagShape::Range range = shape.bag(offsets, place.worker);
    const int64_t step = int64_t{group} * gridDim.z, start = range.first + int64_t{group} * blockIdx.z;
    if (start >= range.last) return;
    const unsigned mask = group_mask(group);
    const int base = threadIdx.x & 31 & ~(group - 1);
    const bool inside = place.column < shape.embedding_dim;

    C divisor = C(1);
    if (shape.is_mean()) {
        int32_t kept = 0;
        for (int64_t k = range.first + place.lane; k < range.last; k += group) kept += shape.keeps(indices[k]);
        for (int distance = group / 2; distance > 0; distance /= 2) kept += __shfl_xor_sync(mask, kept, distance);
        divisor = static_cast<C>(kept);
    }
    C grad[N];
    clear_row(grad);
    if (inside) add_row(grad, load<N>(dout + place.worker * shape.embedding_dim + place.column));
    if (shape.is_mean())
#pragma unroll
        for (int i = 0; i < N; ++i) grad[i] = widen(narrow<T>(grad[i] / divisor));

    for (int64_t k = start; k < range.last; k += step) {
        const int64_t mine = k + place.lane < range.last ? static_cast<int64_t>(indices[k + place.lane]) : -1;
        const int32_t index = shape.keeps(mine) ? static_cast<int32_t>(mine) : -1;
        const unsigned equal = __match_any_sync(mask, index);
        const bool leads = index >= 0 && __ffs(equal) - 1 == base + place.lane;
        unsigned leaders = __ballot_sync(mask, leads);
        for (; leaders != 0; leaders &= leaders - 1) {
            const int from = __ffs(leaders) - 1;
            const int64_t row = __shfl_sync(mask, index, from);
            const int times = __popc(__shfl_sync(mask, equal, from));
            if (!inside) continue;
            C sum[N];
#pragma unroll
            for (int i = 0; i < N; ++i) sum[i] = grad[i] * static_cast<C>(times);
            atomic_add<N>(dweight + row * shape.embedding_dim + place.column, sum);
        }
    }
}

template <class T, class I>
Status add_bags_atomic(const Launch& launch, const BagShape& shape, const T* dout, const I* indices, const int32_t* offsets,
                       T* dweight) {
    constexpr int N = kVectorLanes<T>;
    const RowGroups groups = RowGroups::choose<T>(
        shape.embedding_dim, is_aligned(dout, kVectorBytes) && is_aligned(dweight, kVectorBytes), kBagGradThreads);
    BK_TRY(check_tiles(groups, shape.embedding_dim));
    const int64_t wanted = kBagGradGroups / shape.num_bags, longest = ceil_div<int64_t>(shape.total_indices, 4 * groups.group);
    const int64_t splits = std::max<int64_t>(1, std::min({wanted, longest, int64_t{1024}}));
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(shape.num_bags, groups.per_block)),
                         static_cast<unsigned>(groups.tiles), static_cast<unsigned>(splits)),
                    dim3(kBagGradThreads)};
    return launch_kernel(launch, grid, groups.lanes > 1 ? bag_grad_atomic_kernel<N, T, I> : bag_grad_atomic_kernel<1, T, I>, shape,
                         dout, indices, offsets, dweight, groups.group);
}

// --- By sorting ------------------------------------------------------------------------------------------------------

template <class C>
struct SortedBags {
    SortBuffers sort;
    RunParts<C> parts;
    int32_t* kept;  // [num_bags], mean only
};

template <class C>
SortedBags<C> carve_sorted_bags(Carver* carver, const BagShape& shape, const RunShape& runs) {
    SortedBags<C> buffers;
    buffers.sort = carve_sort(carver, shape.total_indices, static_cast<uint32_t>(shape.num_embeddings));
    buffers.parts = carve_run_parts<C>(carver, runs);
    buffers.kept = carver->take<int32_t>(shape.is_mean() ? shape.num_bags : 0);
    return buffers;
}

template <class T>
RunShape bag_runs(const BagShape& shape) {
    return make_run_shape<T>(shape.total_indices, shape.embedding_dim, shape.num_embeddings, false);
}

template <class T, class I>
size_t embedding_bag_backward_workspace(const BagShape& shape) {
    Carver carver;
    carve_sorted_bags<compute_t<T>>(&carver, shape, bag_runs<T>(shape));
    return carver.bytes();
}

constexpr int kKeysPerThread = 8;

// Keys are the rows, num_embeddings for an index that is dropped or in no bag; values are the bags. Counts the kept
// indices of each bag where `kept` is given.
template <class I>
__global__ void bag_keys_kernel(BagShape shape, const I* indices, const int32_t* offsets, uint32_t* keys, uint32_t* bags,
                                int32_t* kept) {
    const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kKeysPerThread;
    const int64_t last = min(first + kKeysPerThread, int64_t{shape.total_indices});
    if (first >= last) return;
    // The last bag that starts at or before `first`; -1 before the first bag.
    int64_t low = 0, high = shape.num_bags;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (offsets[middle] <= first)
            low = middle + 1;
        else
            high = middle;
    }
    int64_t bag = low - 1;
    int32_t count = 0;
    for (int64_t k = first; k < last; ++k) {
        while (bag + 1 < shape.num_bags && offsets[bag + 1] <= k) {
            if (kept != nullptr && count > 0) atomicAdd(kept + bag, count);
            count = 0;
            ++bag;
        }
        const int64_t index = indices[k];
        const bool keep = bag >= 0 && shape.keeps(index);
        keys[k] = keep ? static_cast<uint32_t>(index) : static_cast<uint32_t>(shape.num_embeddings);
        bags[k] = static_cast<uint32_t>(bag < 0 ? 0 : bag);
        count += keep;
    }
    if (kept != nullptr && count > 0) atomicAdd(kept + bag, count);
}

// Gradient of the bag at a sorted position; the quotient is rounded to T, as the reference ABI defines it.
template <class T>
struct BagGradients {
    using Element = T;
    const T* rows;
    const uint32_t* bags;
    const int32_t* kept;

    template <int N>
    BK_DEVICE Vec<T, N> load_row(int64_t i, int64_t columns, int64_t column) const {
        const int64_t bag = bags[i];
        Vec<T, N> row = load<N>(rows + bag * columns + column);
        if (kept != nullptr) {
            const compute_t<T> divisor = static_cast<compute_t<T>>(kept[bag]);
#pragma unroll
            for (int lane = 0; lane < N; ++lane) row.lane[lane] = narrow<T>(widen(row.lane[lane]) / divisor);
        }
        return row;
    }
};

template <class T, class I>
Status embedding_bag_backward(const Launch& launch, const BagShape& shape, const T* dout, const I* indices,
                              const int32_t* offsets, T* dweight) {
    bool found = false;
    BK_TRY(find_workspace(launch, embedding_bag_backward_workspace<T, I>(shape), &found));
    if (!found) return add_bags_atomic(launch, shape, dout, indices, offsets, dweight);
    const RunShape s = bag_runs<T>(shape);
    Carver carver(launch.workspace);
    auto buffers = carve_sorted_bags<compute_t<T>>(&carver, shape, s);
    int32_t* const kept = shape.is_mean() ? buffers.kept : nullptr;
    if (kept != nullptr) BK_TRY(fill_bytes(launch, kept, 0, sizeof(int32_t) * static_cast<size_t>(shape.num_bags)));
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(shape.total_indices, 256 * kKeysPerThread))), dim3(256)};
    BK_TRY(launch_kernel(launch, grid, bag_keys_kernel<I>, shape, indices, offsets, buffers.sort.keys[0], buffers.sort.values[0],
                         kept));
    BK_TRY(sort_pairs(launch, &buffers.sort, shape.total_indices, static_cast<uint32_t>(shape.num_embeddings)));
    return add_runs(launch, s, BagGradients<T>{dout, buffers.sort.values[0], kept},
                    static_cast<const uint32_t*>(buffers.sort.keys[0]), dweight, buffers.parts);
}

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// GPU. With a workspace: (row, bag) pairs are sorted by row and reduced by key (core/segmented/add_segments.cuh). Without: a
// thread group per bag keeps the bag's gradient in registers and adds it to the rows by atomics; equal indices of a bag
// become one addition. For scaling by frequency a workspace counts each row; without one a thread reads all indices for
// each that it adds.
#pragma once

#include <algorithm>

#include "core/pointwise/pointwise.h"
#include "core/reference_chip.h"
#include "core/scatter/atomics.cuh"
#include "core/segmented/add_segments.cuh"
#include "core/segmented/sort_pairs.h"
#include "embedding/embedding_bag_backward.h"

namespace bk {

constexpr int kBagGradThreads = 256;
constexpr int64_t kMaxBagGradGroups = int64_t{1} << 14;

// --- By atomics ------------------------------------------------------------------------------------------------------

// blockIdx.z splits bags if they are few.
template <int N, class T, class I>
__global__ void __launch_bounds__(kBagGradThreads)
    bag_grad_atomic_kernel(BagShape shape, const T* dout, const I* indices, IdArray offsets, const T* scales, T* dweight,
                           int group) {
    using C = compute_t<T>;
    const RowLane slot = RowLane::here<N>(group);
    if (slot.worker >= shape.num_bags) return;
    const BagShape::Range range = shape.bag(offsets, slot.worker);
    const int64_t step = int64_t{group} * gridDim.z, start = range.first + int64_t{group} * blockIdx.z;
    if (start >= range.last) return;
    const unsigned mask = group_mask(group);
    const int base = threadIdx.x & 31 & ~(group - 1);
    const bool inside = slot.column < shape.embedding_dim;

    C divisor = C(1);
    if (shape.is_mean()) {
        int32_t kept = 0;
        for (int64_t k = range.first + slot.lane; k < range.last; k += group) kept += shape.keeps(indices[k]);
        for (int distance = group / 2; distance > 0; distance /= 2) kept += __shfl_xor_sync(mask, kept, distance);
        divisor = static_cast<C>(kept);
    }
    C grad[N];
    clear_row(grad);
    if (inside) add_row(grad, load<N>(dout + slot.worker * shape.embedding_dim + slot.column));
    if (shape.is_mean())
#pragma unroll
        for (int i = 0; i < N; ++i) grad[i] = widen(narrow<T>(grad[i] / divisor));

    for (int64_t k = start; k < range.last; k += step) {
        const int64_t thread_items = k + slot.lane < range.last ? static_cast<int64_t>(indices[k + slot.lane]) : -1;
        const int32_t index = shape.keeps(thread_items) ? static_cast<int32_t>(thread_items) : -1;
        // Indices with scales are added one by one.
        C scale = scales != nullptr && index >= 0 ? widen(scales[k + slot.lane]) : C(1);
        const unsigned equal = scales != nullptr ? 1u << (base + slot.lane) : __match_any_sync(mask, index);
        const bool leads = index >= 0 && __ffs(equal) - 1 == base + slot.lane;
        if (shape.is_by_frequency && leads) scale /= static_cast<C>(frequency_of(shape, indices, index));
        unsigned leaders = __ballot_sync(mask, leads);
        for (; leaders != 0; leaders &= leaders - 1) {
            const int from = __ffs(leaders) - 1;
            const int64_t row = __shfl_sync(mask, index, from);
            const C row_scale = static_cast<C>(__popc(__shfl_sync(mask, equal, from))) * __shfl_sync(mask, scale, from);
            if (!inside) continue;
            C sum[N];
#pragma unroll
            for (int i = 0; i < N; ++i) sum[i] = grad[i] * row_scale;
            atomic_add<N>(dweight + row * shape.embedding_dim + slot.column, sum);
        }
    }
}

template <class T, class I>
Status add_bags_atomic(const Launch& launch, const BagShape& shape, const T* dout, const I* indices, IdArray offsets,
                       const T* scales, T* dweight) {
    constexpr int N = kVectorLanes<T>;
    const RowGroups groups = RowGroups::choose<T>(
        shape.embedding_dim, is_aligned(dout, kVectorBytes) && is_aligned(dweight, kVectorBytes), kBagGradThreads);
    if (groups.tiles > kMaxGridY)
        return fail(Status::kUnsupported, "embedding_dim is %d, too long for one launch", shape.embedding_dim);
    const int64_t wanted = kMaxBagGradGroups / shape.num_bags,
                  longest = ceil_div<int64_t>(shape.total_indices, 4 * groups.group);
    const int64_t splits = std::max<int64_t>(1, std::min({wanted, longest, int64_t{1024}}));
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(shape.num_bags, groups.per_block)),
                         static_cast<unsigned>(groups.tiles), static_cast<unsigned>(splits)),
                    dim3(kBagGradThreads)};
    return launch_kernel(launch, grid, groups.lanes > 1 ? bag_grad_atomic_kernel<N, T, I> : bag_grad_atomic_kernel<1, T, I>,
                         shape, dout, indices, offsets, scales, dweight, groups.group);
}

// --- By sorting ------------------------------------------------------------------------------------------------------

template <class T>
struct SortedBags {
    SortBuffers sort;
    SegmentPartials<compute_t<T>> partials;
    int32_t* kept;    // [num_bags]; mean only, as are the gradients
    T* gradients;     // [num_bags, embedding_dim]
    uint32_t* bags;   // [total_indices], by position; scaled only
    int32_t* counts;  // [num_embeddings]; by frequency only
};

// Whether summands have weights: scales, or row frequencies.
inline bool has_weights(const BagShape& shape, bool is_scaled) { return is_scaled || shape.is_by_frequency; }

// Bag gradients by position, each times its scale and over the count of its target row.
template <class T>
struct ScaledBags {
    using Element = T;
    static constexpr bool kReused = true;
    const T* rows;
    const uint32_t* positions;
    const uint32_t* bags;
    const T* scales;          // null: none
    const uint32_t* targets;  // in the order of the positions
    const int32_t* counts;    // null: none
    BK_DEVICE uint32_t index(uint32_t i) const { return bags[positions[i]]; }
    BK_DEVICE compute_t<T> scale(uint32_t i) const {
        using C = compute_t<T>;
        const C own = scales == nullptr ? C(1) : widen(scales[positions[i]]);
        return counts == nullptr ? own : own / static_cast<C>(counts[targets[i]]);
    }
};

template <class T>
SortedBags<T> carve_sorted_bags(Carver* carver, const BagShape& shape, const SegmentedShape& runs, bool is_scaled) {
    SortedBags<T> buffers;
    buffers.sort = carve_sort(carver, shape.total_indices, static_cast<uint32_t>(shape.num_embeddings));
    buffers.partials = carve_segment_partials<compute_t<T>>(carver, runs);
    const int64_t mean_bags = shape.is_mean() ? shape.num_bags : 0;
    buffers.kept = carver->take<int32_t>(mean_bags);
    buffers.gradients = carver->take<T>(mean_bags * shape.embedding_dim);
    buffers.bags = carver->take<uint32_t>(has_weights(shape, is_scaled) ? shape.total_indices : 0);
    buffers.counts = carver->take<int32_t>(shape.is_by_frequency ? shape.num_embeddings : 0);
    return buffers;
}

template <class T>
SegmentedShape bag_runs(const BagShape& shape) {
    return make_segmented_shape<T>(shape.total_indices, shape.embedding_dim, shape.num_embeddings, false);
}

template <class T, class I>
size_t embedding_bag_backward_workspace(const BagShape& shape, bool is_scaled) {
    Carver carver;
    carve_sorted_bags<T>(&carver, shape, bag_runs<T>(shape), is_scaled);
    return carver.bytes();
}

constexpr int kKeyThreads = 256;
constexpr int kKeyItems = 8;
constexpr int kKeyTile = kKeyThreads * kKeyItems;

// In-place inclusive max-scan of the block's tile in shared memory.
BK_DEVICE void block_inclusive_max(int32_t* tile) {
    __shared__ int32_t warp_max[kKeyThreads / 32];
    int32_t* const thread_items = tile + threadIdx.x * kKeyItems;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int32_t largest = thread_items[0];
    for (int i = 1; i < kKeyItems; ++i) thread_items[i] = largest = max(largest, thread_items[i]);
    for (int distance = 1; distance < 32; distance *= 2) {
        const int32_t other = __shfl_up_sync(0xffffffffu, largest, distance);
        if (lane >= distance) largest = max(largest, other);
    }
    if (lane == 31) warp_max[warp] = largest;
    int32_t before = __shfl_up_sync(0xffffffffu, largest, 1);
    if (lane == 0) before = -1;
    __syncthreads();
    for (int w = 0; w < warp; ++w) before = max(before, warp_max[w]);
    for (int i = 0; i < kKeyItems; ++i) thread_items[i] = max(thread_items[i], before);
    __syncthreads();
}

// Keys are the rows, num_embeddings if dropped or in no bag. Values are the bags; or, if `positions` is given,
// positions, with the bags beside them. Counts each bag's kept indices in `kept` and each row's indices in `counts`, if
// given. A block finds the bags of its tile by a max-scan over marks at their starts.
template <class I>
__global__ void __launch_bounds__(kKeyThreads)
    bag_keys_kernel(BagShape shape, const I* indices, IdArray offsets, uint32_t* keys, uint32_t* bags, uint32_t* positions,
                    int32_t* kept, int32_t* counts) {
    __shared__ int32_t tile[kKeyTile];
    __shared__ int32_t edge[2];
    const int64_t first = int64_t{blockIdx.x} * kKeyTile;
    const int64_t last = min(first + kKeyTile, int64_t{shape.total_indices});
    const bool has_offsets = offsets.ids != nullptr;
    if (has_offsets && threadIdx.x < 32) {
        // The last bags that start at or before the tile's first and last position; -1 for none.
        int64_t low[2] = {0, 0}, high[2] = {shape.num_bags, shape.num_bags};
        group_search(low, high, 32, static_cast<int>(threadIdx.x),
                     [&](int e, int64_t bag) { return offsets[bag] > (e == 0 ? first : last - 1); });
        if (threadIdx.x < 2) edge[threadIdx.x] = static_cast<int32_t>(low[threadIdx.x]) - 1;
    }
    for (int i = threadIdx.x; i < kKeyTile; i += kKeyThreads) tile[i] = has_offsets ? -1 : static_cast<int32_t>(first + i);
    __syncthreads();
    if (has_offsets) {
        for (int32_t bag = edge[0] + 1 + static_cast<int32_t>(threadIdx.x); bag <= edge[1]; bag += kKeyThreads) {
            const int64_t start = offsets[bag];
            if (start >= first && start < last) atomicMax(tile + (start - first), bag);
        }
        if (threadIdx.x == 0) atomicMax(tile, edge[0]);
        __syncthreads();
        block_inclusive_max(tile);
    }
    const int64_t end = shape.end(offsets);
    for (int i = threadIdx.x; i < kKeyTile; i += kKeyThreads) {
        const int64_t k = first + i;
        const int64_t index = k < last ? static_cast<int64_t>(indices[k]) : -1;
        const int32_t bag = tile[i];
        const bool keep = bag >= 0 && k < end && shape.keeps(index);
        if (k < last) {
            keys[k] = static_cast<uint32_t>(keep ? index : shape.num_embeddings);
            bags[k] = static_cast<uint32_t>(max(bag, 0));
            if (positions != nullptr) positions[k] = static_cast<uint32_t>(k);
        }
        if (kept != nullptr) {
            const unsigned equal = __match_any_sync(0xffffffffu, keep ? bag : -1);
            if (keep && __ffs(equal) - 1 == static_cast<int>(threadIdx.x % 32)) atomicAdd(kept + bag, __popc(equal));
        }
        if (counts != nullptr) {
            const int32_t row = shape.keeps(index) ? static_cast<int32_t>(index) : -1;
            const unsigned equal = __match_any_sync(0xffffffffu, row);
            if (row >= 0 && __ffs(equal) - 1 == static_cast<int>(threadIdx.x % 32)) atomicAdd(counts + row, __popc(equal));
        }
    }
}

// A mean's bag gradient: dout / kept, rounded to T as the reference ABI defines it.
template <class T>
struct DivideByKept {
    using C = compute_t<T>;
    const int32_t* kept;
    int64_t columns;

    struct Segment {
        int64_t count;
        C divisor;
        BK_HD C operator()(int64_t, C gradient) const { return gradient / divisor; }
    };
    BK_HD Segment at(int64_t element) const {
        const int64_t bag = element / columns;
        return {(bag + 1) * columns - element, static_cast<C>(kept[bag])};
    }
};

// Sorts (row, bag) pairs by row. *gradients, initially dout, becomes each bag's gradient for one row.
template <class T, class I>
Status sort_bags(const Launch& launch, const BagShape& shape, const I* indices, IdArray offsets, const T* scales,
                 SortedBags<T>* buffers, const T** gradients) {
    SortBuffers& sort = buffers->sort;
    int32_t* const kept = shape.is_mean() ? buffers->kept : nullptr;
    int32_t* const counts = shape.is_by_frequency ? buffers->counts : nullptr;
    const bool is_scaled = has_weights(shape, scales != nullptr);
    if (kept != nullptr) BK_TRY(fill_bytes(launch, kept, 0, sizeof(int32_t) * static_cast<size_t>(shape.num_bags)));
    if (counts != nullptr) BK_TRY(fill_bytes(launch, counts, 0, sizeof(int32_t) * static_cast<size_t>(shape.num_embeddings)));
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(shape.total_indices, kKeyTile))), dim3(kKeyThreads)};
    BK_TRY(launch_kernel(launch, grid, bag_keys_kernel<I>, shape, indices, offsets, sort.keys[0],
                         is_scaled ? buffers->bags : sort.values[0], is_scaled ? sort.values[0] : nullptr, kept, counts));
    if (shape.is_mean()) {
        BK_TRY(pointwise(launch, int64_t{shape.num_bags} * shape.embedding_dim, DivideByKept<T>{kept, shape.embedding_dim},
                         outputs(buffers->gradients), inputs(*gradients)));
        *gradients = buffers->gradients;
    }
    return sort_pairs(launch, &sort, shape.total_indices, static_cast<uint32_t>(shape.num_embeddings));
}

// Adds the gradients of sorted pairs to rows `ids` of out.
template <class T>
Status add_sorted_bags(const Launch& launch, const BagShape& shape, const SegmentedShape& runs, const SortedBags<T>& buffers,
                       const T* gradients, const T* scales, const uint32_t* ids, T* out) {
    const SortBuffers& sort = buffers.sort;
    if (!has_weights(shape, scales != nullptr))
        return add_segments(launch, runs, RowsByIndex<T, true>{gradients, sort.values[0]}, ids, out, buffers.partials);
    const int32_t* const counts = shape.is_by_frequency ? buffers.counts : nullptr;
    return add_segments(launch, runs, ScaledBags<T>{gradients, sort.values[0], buffers.bags, scales, sort.keys[0], counts}, ids,
                        out, buffers.partials);
}

template <class T, class I>
Status embedding_bag_backward(const Launch& launch, const BagShape& shape, const T* dout, const I* indices, IdArray offsets,
                              const T* scales, T* dweight) {
    const bool has_workspace = workspace_holds(launch, embedding_bag_backward_workspace<T, I>(shape, scales != nullptr));
    if (!has_workspace) return add_bags_atomic(launch, shape, dout, indices, offsets, scales, dweight);
    const SegmentedShape runs = bag_runs<T>(shape);
    Carver carver(launch.workspace);
    SortedBags<T> buffers = carve_sorted_bags<T>(&carver, shape, runs, scales != nullptr);
    const T* gradients = dout;
    BK_TRY(sort_bags(launch, shape, indices, offsets, scales, &buffers, &gradients));
    return add_sorted_bags(launch, shape, runs, buffers, gradients, scales, buffers.sort.keys[0], dweight);
}

// --- Gradient of the scales ------------------------------------------------------------------------------------------

// The number of bags that begin at or before k, given the `bags` that begin before it; a search only if many are empty.
BK_DEVICE int64_t advance_bags(const BagShape& shape, IdArray offsets, int64_t bags, int64_t k) {
    constexpr int kSteps = 4;
    for (int step = 0; bags < shape.num_bags && offsets[bags] <= k; ++step, ++bags)
        if (step == kSteps) return shape.bags_until(offsets, k);
    return bags;
}

// A thread group takes `items` consecutive indices, searches the bag of the first, and dots each row with its bag's
// gradient.
template <int N, class T, class I>
__global__ void __launch_bounds__(kBagGradThreads)
    bag_scales_kernel(BagShape shape, const T* dout, const T* weight, const I* indices, IdArray offsets, T* dscales, int group,
                      int items) {
    using C = compute_t<T>;
    constexpr int kBatch = 4;  // rows in flight
    const int per_block = kBagGradThreads / group, lane = threadIdx.x % group;
    const int64_t first = (int64_t{blockIdx.x} * per_block + threadIdx.x / group) * items;
    const int64_t last = min(first + items, int64_t{shape.total_indices}), end = min(last, shape.end(offsets));
    const unsigned mask = group_mask(group);
    int64_t bags = first < end ? shape.bags_until(offsets, first) : 0;
    for (int64_t k = first; k < last; k += kBatch) {
        int32_t bag[kBatch], row[kBatch];  // -1: none
        C sum[kBatch];
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
            sum[u] = 0;
            row[u] = -1;
            if (k + u >= end) continue;
            const int64_t index = indices[k + u];
            bags = advance_bags(shape, offsets, bags, k + u);
            if (bags == 0 || !shape.keeps(index)) continue;
            bag[u] = static_cast<int32_t>(bags - 1);
            row[u] = static_cast<int32_t>(index);
        }
        for (int64_t c = int64_t{lane} * N; c < shape.embedding_dim; c += int64_t{group} * N) {
            Vec<T, N> y[kBatch];
#pragma unroll
            for (int u = 0; u < kBatch; ++u)
                if (row[u] >= 0) y[u] = load<N>(weight + int64_t{row[u]} * shape.embedding_dim + c);
#pragma unroll
            for (int u = 0; u < kBatch; ++u) {
                if (row[u] < 0) continue;
                const Vec<T, N> x = load<N>(dout + int64_t{bag[u]} * shape.embedding_dim + c);
#pragma unroll
                for (int i = 0; i < N; ++i) sum[u] = fma(widen_lane(x, i), widen_lane(y[u], i), sum[u]);
            }
        }
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
            if (k + u >= last) continue;
            for (int distance = group / 2; distance > 0; distance /= 2) sum[u] += __shfl_xor_sync(mask, sum[u], distance);
            if (lane == 0) dscales[k + u] = narrow<T>(sum[u]);
        }
    }
}

template <class T, class I>
Status embedding_bag_scales_backward(const Launch& launch, const BagShape& shape, const T* dout, const T* weight,
                                     const I* indices, IdArray offsets, T* dscales) {
    constexpr int N = kVectorLanes<T>;
    const RowGroups groups = RowGroups::choose<T>(
        shape.embedding_dim, is_aligned(dout, kVectorBytes) && is_aligned(weight, kVectorBytes), kBagGradThreads);
    constexpr int64_t kFull = kReferenceSms * 2048;  // threads that fill the chip
    const int items = int64_t{shape.total_indices} * groups.group >= 8 * kFull ? 8 : 1;
    const int64_t block_items = int64_t{kBagGradThreads / groups.group} * items;
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(shape.total_indices, block_items))), dim3(kBagGradThreads)};
    return launch_kernel(launch, grid, groups.lanes > 1 ? bag_scales_kernel<N, T, I> : bag_scales_kernel<1, T, I>, shape, dout,
                         weight, indices, offsets, dscales, groups.group, items);
}

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// One thread per count or gradient; lanes of a warp with one target are counted together first. With many fibers each
// gets a block, which counts in shared memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "indexing/scatter/scatter_reduce_backward.h"

namespace bk {

constexpr int kScatterGradientThreads = 256;

// --- A block a fiber -------------------------------------------------------------------------------------------------

struct ScatterGradientFibers {
    Walk<8, uint64_t> updates, cells;  // over fibers
    Offsets<8, uint64_t> update_step, cell_step;
    bool counts;

    explicit ScatterGradientFibers(const ScatterGradientLayout& layout)
        : updates(layout.update_fibers), cells(layout.cell_fibers), counts(false) {
        std::copy(layout.update_step, layout.update_step + 8, update_step.of);
        std::copy(layout.cell_step, layout.cell_step + 8, cell_step.of);
    }
    static BK_DEVICE Offsets<8, uint64_t> offsets_at(const Offsets<8, uint64_t>& fiber, const Offsets<8, uint64_t>& step,
                                                     unsigned j) {
        Offsets<8, uint64_t> at;
#pragma unroll
        for (int k = 0; k < 8; ++k) at.of[k] = fiber.of[k] + j * step.of[k];
        return at;
    }
};

constexpr int64_t kMaxSharedTargets = 49152 / sizeof(uint32_t);

template <class T>
bool fits_shared_counts(const ScatterGradientLayout& layout, const ScatterGradient<T>& gradient) {
    constexpr int64_t kMinFibers = 128, kMinUpdates = 256;  // fewer do not fill the chip or the block
    const int64_t num_fibers = layout.update_fibers.numel();
    return gradient.n >= kMinUpdates && gradient.n < 1 << 16 && gradient.targets > 0 && gradient.targets <= kMaxSharedTargets &&
           num_fibers >= kMinFibers && num_fibers <= kMaxGridX && gradient.step[ScatterGradient<T>::kIndex] == 1;
}

template <class T>
__global__ void __launch_bounds__(kScatterGradientThreads)
    scatter_fiber_gradients_kernel(ScatterGradient<T> gradient, const __grid_constant__ ScatterGradientFibers fibers, T* dx,
                                   T* dupdates) {
    using G = ScatterGradient<T>;
    BK_LAUNCH_SHARED(uint32_t, shared_counts);
    const unsigned n = static_cast<unsigned>(gradient.n), targets = static_cast<unsigned>(gradient.targets);
    const auto updates = fibers.updates(blockIdx.x), cells = fibers.cells(blockIdx.x);
    if (fibers.counts) {
        for (unsigned i = threadIdx.x; i < targets; i += kScatterGradientThreads) shared_counts[i] = 0;
        __syncthreads();
        for (unsigned j = threadIdx.x; j < n; j += kScatterGradientThreads) {
            int64_t cell;
            const uint64_t update_count = gradient.count_update(fibers.offsets_at(updates, fibers.update_step, j), &cell);
            if (cell >= 0)
                atomicAdd(shared_counts + (cell - signed_offset(updates.of[G::kFiber]) * gradient.targets),
                          G::pack16(update_count));
        }
        __syncthreads();
        gradient.shared_counts = shared_counts;
    }
    if (dupdates != nullptr)
        for (unsigned j = threadIdx.x; j < n; j += kScatterGradientThreads) {
            const auto at = fibers.offsets_at(updates, fibers.update_step, j);
            dupdates[signed_offset(at.of[G::kGradient])] = narrow<T>(gradient.of_update(at));
        }
    if (dx != nullptr)
        for (unsigned i = threadIdx.x; i < targets; i += kScatterGradientThreads) {
            const auto at = fibers.offsets_at(cells, fibers.cell_step, i);
            dx[signed_offset(at.of[G::kGradient])] = narrow<T>(gradient.of_cell(at));
        }
}

template <class T>
Status launch_fiber_gradients(const Launch& launch, const ScatterGradientLayout& layout, const ScatterGradient<T>& gradient,
                              T* dx, T* dupdates) {
    ScatterGradientFibers fibers(layout);
    fibers.counts = needs_counts(layout, gradient);
    const unsigned shared = fibers.counts ? static_cast<unsigned>(gradient.targets * sizeof(uint32_t)) : 0;
    const Grid grid{dim3(static_cast<unsigned>(layout.update_fibers.numel())), dim3(kScatterGradientThreads), 1, shared};
    return launch_kernel(launch, grid, scatter_fiber_gradients_kernel<T>, gradient, fibers, dx, dupdates);
}

// --- A thread an element ---------------------------------------------------------------------------------------------

template <class T, class Index>
__global__ void __launch_bounds__(kScatterGradientThreads)
    scatter_counts_kernel(ScatterGradient<T> gradient, Walk<8, Index> walk, int64_t updates, uint64_t* counts) {
    const int64_t k = int64_t{blockIdx.x} * kScatterGradientThreads + threadIdx.x;
    int64_t cell = -1;
    uint64_t update_count = 0;
    if (k < updates) update_count = gradient.count_update(walk(static_cast<Index>(k)), &cell);
    // Lanes without a target have unique keys.
    const auto key = static_cast<unsigned long long>(cell >= 0 ? 32 + cell : threadIdx.x % 32);
    if (combine_equal(ScatterSum<uint64_t>{}, key, cell >= 0, &update_count)) atomic_add_one(counts + cell, update_count);
}

template <bool kCells, class T, class Index>
__global__ void __launch_bounds__(kScatterGradientThreads)
    scatter_gradient_kernel(ScatterGradient<T> gradient, Walk<8, Index> walk, int64_t count, T* result) {
    const int64_t k = int64_t{blockIdx.x} * kScatterGradientThreads + threadIdx.x;
    if (k >= count) return;
    const auto at = walk(static_cast<Index>(k));
    result[signed_offset(at.of[ScatterGradient<T>::kGradient])] =
        narrow<T>(kCells ? gradient.of_cell(at) : gradient.of_update(at));
}

template <class Index, class T>
Status launch_scatter_gradients(const Launch& launch, const ScatterGradientLayout& layout, ScatterGradient<T> gradient, T* dx,
                                T* dupdates, uint64_t* counts) {
    const int64_t updates = layout.updates.numel();
    const auto grid = [](int64_t count) {
        return Grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(count, kScatterGradientThreads))),
                    dim3(kScatterGradientThreads)};
    };
    if (std::max(updates, layout.count) > kMaxGridX * kScatterGradientThreads)
        return fail(Status::kUnsupported, "%lld elements are too many for one launch",
                    static_cast<long long>(std::max(updates, layout.count)));
    const Walk<8, Index> walk(layout.updates);
    if (counts != nullptr) {
        BK_TRY(fill_bytes(launch, counts, 0, sizeof(uint64_t) * static_cast<size_t>(layout.count)));
        BK_TRY(launch_kernel(launch, grid(updates), scatter_counts_kernel<T, Index>, gradient, walk, updates, counts));
        gradient.counts = counts;
    }
    if (dupdates != nullptr && updates > 0)
        BK_TRY(
            launch_kernel(launch, grid(updates), scatter_gradient_kernel<false, T, Index>, gradient, walk, updates, dupdates));
    if (dx == nullptr || layout.count == 0) return Status::kOk;
    return launch_kernel(launch, grid(layout.count), scatter_gradient_kernel<true, T, Index>, gradient,
                         Walk<8, Index>(layout.cells), layout.count, dx);
}

template <class T>
Status scatter_gradients(const Launch& launch, const ScatterGradientLayout& layout, ScatterGradient<T> gradient, T* dx,
                         T* dupdates) {
    uint64_t* const counts = find_scatter_counts(launch, layout, gradient);
    if (fits_shared_counts(layout, gradient)) return launch_fiber_gradients(launch, layout, gradient, dx, dupdates);
    const bool is_32bit = layout.updates.fits_32bit() && layout.cells.fits_32bit() &&
                          layout.updates.numel() < INT32_MAX - 1024 && layout.count < INT32_MAX - 1024;
    return is_32bit ? launch_scatter_gradients<uint32_t>(launch, layout, gradient, dx, dupdates, counts)
                    : launch_scatter_gradients<uint64_t>(launch, layout, gradient, dx, dupdates, counts);
}

}  // namespace bk

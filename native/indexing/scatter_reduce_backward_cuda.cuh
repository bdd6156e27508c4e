// A thread a count, or a gradient. Lanes of a warp with one target are counted together before memory is. Of many lines
// each is a block's, which counts in shared memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "indexing/scatter_reduce_backward.h"

namespace bk {

constexpr int kScatterGradientThreads = 256;

// --- A block a line --------------------------------------------------------------------------------------------------------

struct ScatterGradientLines {
    Walk<8, uint64_t> updates, cells;  // of lines
    Offsets<8, uint64_t> next_update, next_cell;
    bool counts;

    explicit ScatterGradientLines(const ScatterGradientLayout& layout)
        : updates(layout.update_lines), cells(layout.cell_lines), counts(false) {
        std::copy(layout.next_update, layout.next_update + 8, next_update.of);
        std::copy(layout.next_cell, layout.next_cell + 8, next_cell.of);
    }
    static BK_DEVICE Offsets<8, uint64_t> along(const Offsets<8, uint64_t>& line, const Offsets<8, uint64_t>& next,
                                                unsigned j) {
        Offsets<8, uint64_t> at;
#pragma unroll
        for (int k = 0; k < 8; ++k) at.of[k] = line.of[k] + j * next.of[k];
        return at;
    }
};

constexpr int64_t kNearTargets = 49152 / sizeof(uint32_t);

template <class T>
bool has_near_counts(const ScatterGradientLayout& layout, const ScatterGradient<T>& gradient) {
    constexpr int64_t kLeastLines = 128, kLeastUpdates = 256;  // for fewer the chip or the block is not full
    const int64_t lines = layout.update_lines.numel();
    return gradient.n >= kLeastUpdates && gradient.n < 1 << 16 && gradient.targets > 0 && gradient.targets <= kNearTargets &&
           lines >= kLeastLines && lines <= kMaxGridX && gradient.step[ScatterGradient<T>::kIndex] == 1;
}

template <class T>
__global__ void __launch_bounds__(kScatterGradientThreads)
    scatter_line_gradients_kernel(ScatterGradient<T> gradient, const __grid_constant__ ScatterGradientLines lines, T* dx,
                                  T* dupdates) {
    using G = ScatterGradient<T>;
    BK_LAUNCH_SHARED(uint32_t, near);
    const unsigned n = static_cast<unsigned>(gradient.n), targets = static_cast<unsigned>(gradient.targets);
    const auto updates = lines.updates(blockIdx.x), cells = lines.cells(blockIdx.x);
    if (lines.counts) {
        for (unsigned i = threadIdx.x; i < targets; i += kScatterGradientThreads) near[i] = 0;
        __syncthreads();
        for (unsigned j = threadIdx.x; j < n; j += kScatterGradientThreads) {
            int64_t place;
            const uint64_t amount = gradient.counted(lines.along(updates, lines.next_update, j), &place);
            if (place >= 0)
                atomicAdd(near + (place - signed_offset(updates.of[G::kLine]) * gradient.targets), G::in_halves(amount));
        }
        __syncthreads();
        gradient.near = near;
    }
    if (dupdates != nullptr)
        for (unsigned j = threadIdx.x; j < n; j += kScatterGradientThreads) {
            const auto at = lines.along(updates, lines.next_update, j);
            dupdates[signed_offset(at.of[G::kGradient])] = narrow<T>(gradient.of_update(at));
        }
    if (dx != nullptr)
        for (unsigned i = threadIdx.x; i < targets; i += kScatterGradientThreads) {
            const auto at = lines.along(cells, lines.next_cell, i);
            dx[signed_offset(at.of[G::kGradient])] = narrow<T>(gradient.of_cell(at));
        }
}

template <class T>
Status launch_line_gradients(const Launch& launch, const ScatterGradientLayout& layout, const ScatterGradient<T>& gradient,
                             T* dx, T* dupdates) {
    ScatterGradientLines lines(layout);
    lines.counts = counts_updates(layout, gradient);
    const unsigned shared = lines.counts ? static_cast<unsigned>(gradient.targets * sizeof(uint32_t)) : 0;
    const Grid grid{dim3(static_cast<unsigned>(layout.update_lines.numel())), dim3(kScatterGradientThreads), 1, shared};
    return launch_kernel(launch, grid, scatter_line_gradients_kernel<T>, gradient, lines, dx, dupdates);
}

// --- A thread an element ---------------------------------------------------------------------------------------------------

template <class T, class Index>
__global__ void __launch_bounds__(kScatterGradientThreads)
    scatter_counts_kernel(ScatterGradient<T> gradient, Walk<8, Index> walk, int64_t updates, uint64_t* counts) {
    const int64_t k = int64_t{blockIdx.x} * kScatterGradientThreads + threadIdx.x;
    int64_t place = -1;
    uint64_t amount = 0;
    if (k < updates) amount = gradient.counted(walk(static_cast<Index>(k)), &place);
    // Lanes without a target have keys of their own.
    const auto key = static_cast<unsigned long long>(place >= 0 ? 32 + place : threadIdx.x % 32);
    if (combine_equal(ScatterSum<uint64_t>{}, key, place >= 0, &amount)) atomic_add_one(counts + place, amount);
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
    if (has_near_counts(layout, gradient)) return launch_line_gradients(launch, layout, gradient, dx, dupdates);
    const bool small = layout.updates.fits_32bit() && layout.cells.fits_32bit() && layout.updates.numel() < INT32_MAX - 1024 &&
                       layout.count < INT32_MAX - 1024;
    return small ? launch_scatter_gradients<uint32_t>(launch, layout, gradient, dx, dupdates, counts)
                 : launch_scatter_gradients<uint64_t>(launch, layout, gradient, dx, dupdates, counts);
}

}  // namespace bk

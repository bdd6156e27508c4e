// A thread a count, or a gradient. Lanes of a warp with one target are counted together before memory is.
#pragma once

#include <cstdint>

#include "indexing/scatter_reduce_backward.h"

namespace bk {

constexpr int kScatterGradientThreads = 256;

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
    uint64_t* counts = nullptr;
    BK_TRY(find_scatter_counts(launch, layout, gradient, &counts));
    const bool small = layout.updates.fits_32bit() && layout.cells.fits_32bit() && layout.updates.numel() < INT32_MAX - 1024 &&
                       layout.count < INT32_MAX - 1024;
    return small ? launch_scatter_gradients<uint32_t>(launch, layout, gradient, dx, dupdates, counts)
                 : launch_scatter_gradients<uint64_t>(launch, layout, gradient, dx, dupdates, counts);
}

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Updates are counted per tile of cells; with fewer fibers than threads in a workspace, by atomic integer additions,
// whose order does not matter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "indexing/scatter/scatter_gradient_tiles_cpu.h"
#include "indexing/scatter/scatter_reduce_backward.h"

namespace bk {

template <class Index, class T>
void walk_scatter_gradients(const ScatterGradientLayout& layout, ScatterGradient<T> gradient, T* dx, T* dupdates,
                            uint64_t* counts) {
    const int64_t updates = layout.updates.numel();
    constexpr int64_t kGrain = 4096;
    const Walk<8, Index> walk(layout.updates), cells(layout.cells);
    if (counts != nullptr) {
        memset(counts, 0, sizeof(uint64_t) * static_cast<size_t>(layout.count));
        parallel_ranges(updates, kGrain, [&](int64_t begin, int64_t end) {
            for (int64_t k = begin; k < end; ++k) {
                int64_t cell;
                const uint64_t count = gradient.count_update(walk(static_cast<Index>(k)), &cell);
                if (cell >= 0) __atomic_fetch_add(counts + cell, count, __ATOMIC_RELAXED);
            }
        });
        gradient.counts = counts;
    }
    if (dupdates != nullptr)
        parallel_ranges(updates, kGrain, [&](int64_t begin, int64_t end) {
            for (int64_t k = begin; k < end; ++k) {
                const auto at = walk(static_cast<Index>(k));
                dupdates[signed_offset(at.of[ScatterGradient<T>::kGradient])] = narrow<T>(gradient.of_update(at));
            }
        });
    if (dx != nullptr)
        parallel_ranges(layout.count, kGrain, [&](int64_t begin, int64_t end) {
            for (int64_t k = begin; k < end; ++k) {
                const auto at = cells(static_cast<Index>(k));
                dx[signed_offset(at.of[ScatterGradient<T>::kGradient])] = narrow<T>(gradient.of_cell(at));
            }
        });
}

template <class T>
Status scatter_gradients(const Launch& launch, const ScatterGradientLayout& layout, ScatterGradient<T> gradient, T* dx,
                         T* dupdates) {
    uint64_t* const counts = find_scatter_counts(launch, layout, gradient);
    if (needs_counts(layout, gradient) && (counts == nullptr || layout.update_fibers.numel() >= thread_count())) {
        scatter_gradients_by_tiles(layout, gradient, dx, dupdates, counts);
        return Status::kOk;
    }
    const bool is_32bit = layout.updates.fits_32bit() && layout.cells.fits_32bit() &&
                          layout.updates.numel() < INT32_MAX - 1024 && layout.count < INT32_MAX - 1024;
    if (is_32bit)
        walk_scatter_gradients<uint32_t>(layout, gradient, dx, dupdates, counts);
    else
        walk_scatter_gradients<uint64_t>(layout, gradient, dx, dupdates, counts);
    return Status::kOk;
}

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// CPU gradients of scatter_reduce by tiles of cells: a thread counts the updates of a tile, then computes the gradients
// of its cells and their updates. A tile is some whole fibers, counted in the workspace; without one, as many cells of
// a fiber as fit the stack, and every tile reads all indices of its fiber.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch_cpu.h"
#include "indexing/scatter/scatter_reduce_backward.h"

namespace bk {

// Cells [first, last) of `fibers` adjacent fibers from `fiber` on.
struct ScatterGradientTile {
    int64_t fiber, fibers, first, last;

    bool has(int64_t i) const { return i >= first && i < last; }
};

struct ScatterGradientTiling {
    static constexpr int64_t kStackCells = 1536, kMaxFibers = 16;
    int64_t targets, inner;             // cells of a fiber, fibers of the innermost axis
    int64_t fibers = 1, cells;          // per tile
    int64_t fiber_blocks, fiber_tiles;  // tiles across an inner row of fibers, and along a fiber

    // Adjacent fibers share cache lines, so that a tile takes several. Without a workspace the cells of few fibers are
    // spread over the threads.
    ScatterGradientTiling(const ScatterGradientLayout& layout, int64_t fiber_cells, bool has_workspace) : targets(fiber_cells) {
        constexpr int kIndex = ScatterGradient<float>::kIndex;
        const Layout<8>& all = layout.update_fibers;
        inner = all.rank == 0 ? 1 : all.extent[all.rank - 1];
        if (has_workspace && inner > 1 && magnitude(all.stride[kIndex][all.rank - 1]) < magnitude(layout.update_step[kIndex]))
            fibers = std::min(kMaxFibers, inner);
        const int64_t share = ceil_div(targets, ceil_div(thread_count(), all.numel()));
        cells = std::max<int64_t>(1, has_workspace ? targets : std::min(kStackCells, share));
        fiber_blocks = ceil_div(inner, fibers);
        fiber_tiles = std::max<int64_t>(1, ceil_div(targets, cells));
    }
    ScatterGradientTile operator()(int64_t k) const {
        const int64_t block = k / fiber_tiles, first_fiber = block % fiber_blocks * fibers, first = k % fiber_tiles * cells;
        return {block / fiber_blocks * inner + first_fiber, std::min(fibers, inner - first_fiber), first,
                std::min(first + cells, targets)};
    }
};

// The start of a fiber, and the operands' strides along it and between adjacent fibers.
struct FiberWalk {
    using At = Offsets<8, uint64_t>;
    Walk<8, uint64_t> start_of;
    const int64_t* axis_step;
    int64_t fiber_step[8] = {};

    FiberWalk(const Layout<8>& layout, const int64_t (&along)[8]) : start_of(layout), axis_step(along) {
        for (int k = 0; k < 8 && layout.rank > 0; ++k) fiber_step[k] = layout.stride[k][layout.rank - 1];
    }
    // body(offsets) for the elements [begin, end) of each fiber of a tile; its first fiber counts as fiber 0.
    template <class Body>
    BK_HD void walk(const ScatterGradientTile& tile, int64_t begin, int64_t end, const Body& body) const {
        const bool is_single = tile.fibers == 1;
        const int64_t rows = is_single ? 1 : end - begin, columns = is_single ? end - begin : tile.fibers;
        At start = start_of(static_cast<uint64_t>(tile.fiber)), step;
        start.of[ScatterGradient<float>::kFiber] = 0;
        for (int k = 0; k < 8; ++k) {
            start.of[k] += static_cast<uint64_t>(begin * axis_step[k]);
            step.of[k] = static_cast<uint64_t>(is_single ? axis_step[k] : fiber_step[k]);
        }
        for (int64_t r = 0; r < rows; ++r) {
            At at = start;
            for (int64_t c = 0; c < columns; ++c) {
                body(at);
                for (int k = 0; k < 8; ++k) at.of[k] += step.of[k];
            }
            for (int k = 0; k < 8; ++k) start.of[k] += static_cast<uint64_t>(axis_step[k]);
        }
    }
};

// The address that cell 0's count would have if counts begin with cell `first`.
inline uint64_t* counts_from_zero(uint64_t* counts, int64_t first) {
    return reinterpret_cast<uint64_t*>(reinterpret_cast<uintptr_t>(counts) - static_cast<uintptr_t>(first) * sizeof(uint64_t));
}

// kReduction is the gradient's, with kAmax for both extremes, which are alike here: a compile-time constant keeps the
// loop's state in registers.
template <Reduction kReduction, class T>
BK_HD void tile_gradients(const FiberWalk& updates, const FiberWalk& cells, const ScatterGradient<T>& given,
                          const ScatterGradientTile& tile, T* dx, T* dupdates, uint64_t* counts) {
    using G = ScatterGradient<T>;
    using At = FiberWalk::At;
    G gradient = given;
    gradient.reduction = kReduction;
    gradient.shared_counts = nullptr;
    uint64_t* const from_zero = counts_from_zero(counts, tile.first);
    gradient.counts = from_zero;
    std::fill(counts, counts + tile.fibers * (tile.last - tile.first), uint64_t{0});
    updates.walk(tile, 0, gradient.n, [=](const At& at) {
        if (!tile.has((gradient.index + signed_offset(at.of[G::kIndex]))[0])) return;
        int64_t cell;
        const uint64_t update_count = gradient.count_update(at, &cell);
        from_zero[cell] += update_count;
    });
    if (dupdates != nullptr)
        updates.walk(tile, 0, gradient.n, [=](const At& at) {
            const int64_t i = (gradient.index + signed_offset(at.of[G::kIndex]))[0];
            // The first tile of a fiber writes the zeros of updates out of range.
            if (tile.has(i) || (tile.first == 0 && !gradient.keeps(i)))
                dupdates[signed_offset(at.of[G::kGradient])] = narrow<T>(gradient.of_update(at));
        });
    if (dx != nullptr)
        cells.walk(tile, tile.first, tile.last,
                   [=](const At& at) { dx[signed_offset(at.of[G::kGradient])] = narrow<T>(gradient.of_cell(at)); });
}

template <class T>
void scatter_gradients_by_tiles(const ScatterGradientLayout& layout, const ScatterGradient<T>& gradient, T* dx, T* dupdates,
                                uint64_t* counts) {
    const ScatterGradientTiling tiling(layout, gradient.targets, counts != nullptr);
    const FiberWalk updates(layout.update_fibers, layout.update_step), cells(layout.cell_fibers, layout.cell_step);
    const int64_t bytes = tiling.fibers * (gradient.n + tiling.cells) * static_cast<int64_t>(2 * sizeof(T) + sizeof(int32_t));
    const int64_t tiles = layout.update_fibers.numel() / tiling.inner * tiling.fiber_blocks * tiling.fiber_tiles;
    parallel_ranges(tiles, grain_for(bytes), [&](int64_t begin, int64_t end) {
        uint64_t stack_counts[ScatterGradientTiling::kStackCells];
        uint64_t* const tile_counts = counts == nullptr ? stack_counts : counts + tiling(begin).fiber * tiling.targets;
        for (int64_t k = begin; k < end; ++k) {
            const ScatterGradientTile tile = tiling(k);
            switch (gradient.reduction) {
                case Reduction::kSum:
                    tile_gradients<Reduction::kSum>(updates, cells, gradient, tile, dx, dupdates, tile_counts);
                    break;
                case Reduction::kProd:
                    tile_gradients<Reduction::kProd>(updates, cells, gradient, tile, dx, dupdates, tile_counts);
                    break;
                case Reduction::kMean:
                    tile_gradients<Reduction::kMean>(updates, cells, gradient, tile, dx, dupdates, tile_counts);
                    break;
                default: tile_gradients<Reduction::kAmax>(updates, cells, gradient, tile, dx, dupdates, tile_counts);
            }
        }
    });
}

}  // namespace bk

// Gradients of scatter_reduce on the CPU, a tile of cells at a time: a thread counts the updates of the tile, then
// gives its cells and their updates what they get. A tile is some whole lines, counted in the caller's workspace, or
// without one as many cells of a line as have room on the stack; then every tile reads the indices of the line.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch_cpu.h"
#include "indexing/scatter_reduce_backward.h"

namespace bk {

// Cells [first, last) of `lines` lines from `line` on, which lie along the innermost axis of the lines.
struct ScatterGradientTile {
    int64_t line, lines, first, last;

    bool has(int64_t i) const { return i >= first && i < last; }
};

struct ScatterGradientTiling {
    static constexpr int64_t kStackCells = 1536, kMostLines = 16;
    int64_t targets, row;      // cells of a line, lines of the innermost axis
    int64_t lines = 1, cells;  // of a tile
    int64_t blocks, segments;  // tiles of a row of lines, and of a line

    // Lines that lie beside one another are taken together, for they share cache lines. Without a workspace the cells
    // of few lines are shared out among the threads.
    ScatterGradientTiling(const ScatterGradientLayout& layout, int64_t cells_of_line, bool has_workspace)
        : targets(cells_of_line) {
        constexpr int kIndex = ScatterGradient<float>::kIndex;
        const Layout<8>& all = layout.update_lines;
        row = all.rank == 0 ? 1 : all.extent[all.rank - 1];
        if (has_workspace && row > 1 && magnitude(all.stride[kIndex][all.rank - 1]) < magnitude(layout.next_update[kIndex]))
            lines = std::min(kMostLines, row);
        const int64_t share = ceil_div(targets, ceil_div(thread_count(), all.numel()));
        cells = std::max<int64_t>(1, has_workspace ? targets : std::min(kStackCells, share));
        blocks = ceil_div(row, lines);
        segments = std::max<int64_t>(1, ceil_div(targets, cells));
    }
    ScatterGradientTile operator()(int64_t k) const {
        const int64_t block = k / segments, from = block % blocks * lines, first = k % segments * cells;
        return {block / blocks * row + from, std::min(lines, row - from), first, std::min(first + cells, targets)};
    }
};

// The places of lines: where a line begins, the steps of the operands along it, and from line to line.
struct ScatterGradientPlaces {
    using At = Offsets<8, uint64_t>;
    Walk<8, uint64_t> lines;
    const int64_t* next;
    int64_t beside[8] = {};

    ScatterGradientPlaces(const Layout<8>& layout, const int64_t (&along)[8]) : lines(layout), next(along) {
        for (int k = 0; k < 8 && layout.rank > 0; ++k) beside[k] = layout.stride[k][layout.rank - 1];
    }
    // body(offsets) for the places [begin, end) of each line of a tile, whose first line is line 0.
    template <class Body>
    BK_HD void walk(const ScatterGradientTile& tile, int64_t begin, int64_t end, const Body& body) const {
        const bool one = tile.lines == 1;
        const int64_t rows = one ? 1 : end - begin, columns = one ? end - begin : tile.lines;
        At start = lines(static_cast<uint64_t>(tile.line)), step;
        start.of[ScatterGradient<float>::kLine] = 0;
        for (int k = 0; k < 8; ++k) {
            start.of[k] += static_cast<uint64_t>(begin * next[k]);
            step.of[k] = static_cast<uint64_t>(one ? next[k] : beside[k]);
        }
        for (int64_t r = 0; r < rows; ++r) {
            At at = start;
            for (int64_t c = 0; c < columns; ++c) {
                body(at);
                for (int k = 0; k < 8; ++k) at.of[k] += step.of[k];
            }
            for (int k = 0; k < 8; ++k) start.of[k] += static_cast<uint64_t>(next[k]);
        }
    }
};

// Where the count of cell 0 would be, of counts that begin with cell `first`.
inline uint64_t* count_of_zero(uint64_t* counts, int64_t first) {
    return reinterpret_cast<uint64_t*>(reinterpret_cast<uintptr_t>(counts) - static_cast<uintptr_t>(first) * sizeof(uint64_t));
}

// kReduction is that of the gradient, kAmax of either extreme, which are alike here: a loop that knows it keeps what it
// needs in registers.
template <Reduction kReduction, class T>
BK_HD void gradients_of_tile(const ScatterGradientPlaces& updates, const ScatterGradientPlaces& cells,
                             const ScatterGradient<T>& given, const ScatterGradientTile& tile, T* dx, T* dupdates,
                             uint64_t* counts) {
    using G = ScatterGradient<T>;
    using At = ScatterGradientPlaces::At;
    G gradient = given;
    gradient.reduction = kReduction;
    gradient.near = nullptr;
    uint64_t* const from_zero = count_of_zero(counts, tile.first);
    gradient.counts = from_zero;
    std::fill(counts, counts + tile.lines * (tile.last - tile.first), uint64_t{0});
    updates.walk(tile, 0, gradient.n, [=](const At& at) {
        if (!tile.has((gradient.index + signed_offset(at.of[G::kIndex]))[0])) return;
        int64_t place;
        const uint64_t amount = gradient.counted(at, &place);
        from_zero[place] += amount;
    });
    if (dupdates != nullptr)
        updates.walk(tile, 0, gradient.n, [=](const At& at) {
            const int64_t i = (gradient.index + signed_offset(at.of[G::kIndex]))[0];
            // One tile of a line writes the zeros of updates that go nowhere.
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
    const ScatterGradientPlaces updates(layout.update_lines, layout.next_update), cells(layout.cell_lines, layout.next_cell);
    const int64_t bytes = tiling.lines * (gradient.n + tiling.cells) * static_cast<int64_t>(2 * sizeof(T) + sizeof(int32_t));
    const int64_t tiles = layout.update_lines.numel() / tiling.row * tiling.blocks * tiling.segments;
    parallel_ranges(tiles, grain_for(bytes), [&](int64_t begin, int64_t end) {
        uint64_t few[ScatterGradientTiling::kStackCells];
        uint64_t* const own = counts == nullptr ? few : counts + tiling(begin).line * tiling.targets;
        for (int64_t k = begin; k < end; ++k) {
            const ScatterGradientTile tile = tiling(k);
            switch (gradient.reduction) {
                case Reduction::kSum:
                    gradients_of_tile<Reduction::kSum>(updates, cells, gradient, tile, dx, dupdates, own);
                    break;
                case Reduction::kProd:
                    gradients_of_tile<Reduction::kProd>(updates, cells, gradient, tile, dx, dupdates, own);
                    break;
                case Reduction::kMean:
                    gradients_of_tile<Reduction::kMean>(updates, cells, gradient, tile, dx, dupdates, own);
                    break;
                default: gradients_of_tile<Reduction::kAmax>(updates, cells, gradient, tile, dx, dupdates, own);
            }
        }
    });
}

}  // namespace bk

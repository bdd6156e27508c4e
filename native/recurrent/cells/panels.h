// SPDX-License-Identifier: Apache-2.0
// Matrices in f32 and in whole tiles, packed once for all tokens: panels of columns one after the other, each [K, width]. The
// CPU's microtiles so read adjacent memory; a GPU has a single panel.
#pragma once

#include <cstdint>

#include "recurrent/cells/problem.h"
#include "recurrent/tile_product.h"

namespace bk::recurrent {

constexpr int kPanel = BK_CUDA ? 1 << 30 : 64;

BK_HD int panel_width(int columns, int first) { return columns - first < kPanel ? columns - first : kPanel; }

// to[d, k, n] = from[d, n, k] if transposed, else from[d, k, n]; 0 beyond.
struct PackMatrix {
    static constexpr int kRows = BK_CUDA ? 1 : 16;  // of an item: a cache line of the transposed matrix

    RowType type;
    const void* from;
    float* to;
    int64_t directions, depth, columns;  // of `to`
    bool is_transposed;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int deep = CellProblem::padded(depth), wide = CellProblem::padded(columns);
        const int64_t direction = item / (deep / kRows), first_k = item % (deep / kRows) * kRows;
        float* const packed = to + direction * deep * wide;
        with_type(type, from, [&](const auto* elements) {
            const auto* const matrix = elements + direction * depth * columns;
            for (int n = team.rank; n < wide; n += team.size) {
                const int panel = n / kPanel * kPanel, width = panel_width(wide, panel);
                float* const column = packed + int64_t{panel} * deep + (n - panel);
                for (int64_t k = first_k; k < first_k + kRows; ++k)
                    column[k * width] =
                        k < depth && n < columns ? widen(matrix[is_transposed ? n * depth + k : k * columns + n]) : 0.0f;
            }
        });
    }
    static int64_t floats(int64_t directions, int64_t depth, int64_t columns) {
        return directions * CellProblem::padded(depth) * CellProblem::padded(columns);
    }
    int64_t items() const { return directions * (CellProblem::padded(depth) / kRows); }
};

// out[:, first:columns] (+)= x b of a packed [depth, columns]; `first` is a multiple of 16.
BK_TEAM void packed_product(const Team& team, int rows, int first, int columns, int depth, const float* x, const float* b,
                            float* out, int out_pitch, bool adds) {
    for (int panel = first / kPanel * kPanel; panel<columns; panel += kPanel> columns ? columns : kPanel) {
        const int width = panel_width(columns, panel), begin = first > panel ? first : panel;
        tile_product(team, rows, panel + width - begin, depth, plain(x, depth), b + int64_t{panel} * depth + (begin - panel),
                     width, out + begin, out_pitch, 1.0f, adds);
    }
}

}  // namespace bk::recurrent

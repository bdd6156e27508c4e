// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recurrent/cells/matrix_gradient.h"
#include "recurrent/tile_product.h"

namespace bk::recurrent {

// A tile of 64 x 64 from scratch that has 32 tokens at a time.
struct GradientTile {
    MatrixGradient g;

    static constexpr int kSide = 64, kTokens = 32, kPitch = kSide + 4;

    static int64_t floats() { return int64_t{2} * kTokens * kPitch + int64_t{kSide} * kPitch + kSide; }
    int64_t row_tiles() const { return (g.rows() + kSide - 1) / kSide; }
    int64_t column_tiles() const { return (g.columns() + kSide - 1) / kSide; }
    int64_t items() const { return g.p.directions * g.blocks() * row_tiles() * column_tiles(); }

    void operator()(const Team& team, int64_t item) const {
        const int64_t j = item / column_tiles() % row_tiles() * kSide, i = item % column_tiles() * kSide;
        const int64_t block = item / (column_tiles() * row_tiles()), gate = block % g.blocks(), direction = block / g.blocks();
        float* const x = static_cast<float*>(team.scratch);
        float *const y = x + kTokens * kPitch, *const sum = y + kTokens * kPitch, *const bias = sum + kSide * kPitch;
        for (int k = 0; k < kSide; ++k) bias[k] = 0.0f;
        const int64_t tokens = g.p.seqlen * g.p.batch;
        for (int64_t first = 0; first == 0 || first < tokens; first += kTokens) {
            for_units(team, kTokens * kSide, [&](int at, int) {
                const int row = at / kSide, column = at % kSide;
                const int64_t token = first + row, t = token < tokens ? token / g.p.batch : 0;
                const int64_t n = token - t * g.p.batch;
                Units of_x = Units::zeros(), of_y = Units::zeros();
                if (token < tokens && j + column < g.rows()) of_x = g.left(t, n, direction, gate, j + column);
                if (token < tokens && i + column < g.columns()) of_y = g.right(t, n, direction, gate, i + column);
                of_x.put(x + row * kPitch + column, kUnits);
                of_y.put(y + row * kPitch + column, kUnits);
            });
            tile_product(team, kSide, kSide, kTokens, transposed(x, kPitch), y, kPitch, sum, kPitch, 1.0f, first > 0);
            for_units(team, kSide, [&](int k, int) {
                Units sums = Units::of(bias + k, kUnits);
                for (int row = 0; row < kTokens; ++row) {
                    BK_UNIT_LOOP
                    for (int l = 0; l < kUnits; ++l) sums.at[l] += x[row * kPitch + k + l];
                }
                sums.put(bias + k, kUnits);
            });
        }
        for (int at = 0; at < kSide * kSide; ++at)
            g.store(block, j + at / kSide, i + at % kSide, sum[at / kSide * kPitch + at % kSide]);
        for (int k = 0; k < kSide && i == 0; ++k) g.store_bias(block, j + k, bias[k]);
    }
};

inline int64_t matrix_gradient_floats(const MatrixGradient& gradient) {
    return scratch_floats(GradientTile{gradient}.items(), GradientTile::floats());
}
inline Status run_matrix_gradient(const Launch& launch, const MatrixGradient& gradient, float* workspace) {
    const GradientTile tile{gradient};
    return run_with_scratch(launch, tile.items(), GradientTile::floats(), workspace, tile);
}

}  // namespace bk::recurrent

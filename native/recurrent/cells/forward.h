// SPDX-License-Identifier: Apache-2.0
// A layer through time: one launch, in which a team has kBatchTile sequences of a direction, and no team waits for another.
// The recurrent matrix comes from the second-level cache at each token.
#pragma once

#include "recurrent/cells/problem.h"
#include "recurrent/tile_product.h"

namespace bk::recurrent {

// Rows of a team in the workspace, [kBatchTile, pitch] each: h, c, the sums of gates, and what a product reads besides h.
struct CellRows {
    float *h, *c, *sums, *operand;
    int h_pitch, c_pitch, sum_pitch;

    BK_HD static CellRows of(const CellProblem& p, int64_t item) {
        CellRows r{};
        r.h_pitch = CellProblem::padded(p.outputs);
        r.c_pitch = CellProblem::padded(p.hidden);
        r.sum_pitch = CellProblem::padded(p.gate_rows());
        r.h = p.teams + item * floats(p);
        r.c = r.h + kBatchTile * r.h_pitch;
        r.sums = r.c + kBatchTile * r.c_pitch;
        r.operand = r.sums + kBatchTile * r.sum_pitch;
        return r;
    }
    BK_HD static int64_t floats(const CellProblem& p) {
        const int operand = p.hidden > p.outputs ? p.hidden : p.outputs;
        return int64_t{kBatchTile} * (CellProblem::padded(p.outputs) + CellProblem::padded(p.hidden) +
                                      CellProblem::padded(p.gate_rows()) + CellProblem::padded(operand));
    }
};

struct CellForward {
    CellProblem p;

    BK_TEAM void operator()(const Team& team, int64_t item) const {
        const CellTile tile = CellTile::of(p, item);
        const CellRows rows = CellRows::of(p, item);
        load_states(team, tile, rows);
        team.sync();
        for (int64_t step = 0; step < p.seqlen; ++step)
            advance(team, tile, rows, p.is_backwards(tile.direction) ? p.seqlen - 1 - step : step);
        store_states(team, tile, rows);
    }

private:
    BK_TEAM void load_states(const Team& team, const CellTile& tile, const CellRows& rows) const {
        for (int i = team.rank; i < kBatchTile * rows.h_pitch; i += team.size) {
            const int row = i / rows.h_pitch, unit = i % rows.h_pitch;
            const bool is_in = p.h0 != nullptr && row < tile.rows && unit < p.outputs;
            rows.h[i] =
                is_in ? load_float(p.type, p.h0, p.at_state(tile.first + row, tile.direction) * p.outputs + unit) : 0.0f;
        }
        for (int i = team.rank; i < kBatchTile * rows.c_pitch; i += team.size) {
            const int row = i / rows.c_pitch, unit = i % rows.c_pitch;
            const bool is_in = p.c0 != nullptr && row < tile.rows && unit < p.hidden;
            rows.c[i] = is_in ? load_float(p.type, p.c0, p.at_state(tile.first + row, tile.direction) * p.hidden + unit) : 0.0f;
        }
        const int width = rows.c_pitch > rows.h_pitch ? rows.c_pitch : rows.h_pitch;
        for (int i = team.rank; i < kBatchTile * width; i += team.size) rows.operand[i] = 0.0f;
    }

    BK_TEAM void store_states(const Team& team, const CellTile& tile, const CellRows& rows) const {
        for (int row = 0; row < tile.rows; ++row) {
            const int64_t at = p.at_state(tile.first + row, tile.direction);
            for (int unit = team.rank; unit < p.outputs; unit += team.size)
                store_float(p.type, p.h_n, at * p.outputs + unit, rows.h[row * rows.h_pitch + unit]);
            if (p.c_n == nullptr || p.cell != Cell::kLstm) continue;
            for (int unit = team.rank; unit < p.hidden; unit += team.size)
                store_float(p.type, p.c_n, at * p.hidden + unit, rows.c[row * rows.c_pitch + unit]);
        }
    }

    // sums[:, first:first + columns] = x R^T, of a multiple of 16 columns that may reach into the next gate.
    BK_TEAM void multiply(const Team& team, const CellTile& tile, const CellRows& rows, const float* x, int first,
                          int columns) const {
        const int depth = rows.h_pitch;
        tile_product(team, kBatchTile, columns, depth, plain(x, depth),
                     p.recurrent + tile.direction * depth * rows.sum_pitch + first, rows.sum_pitch, rows.sums + first,
                     rows.sum_pitch, 1.0f, false);
        team.sync();
    }

    BK_TEAM void advance(const Team& team, const CellTile& tile, const CellRows& rows, int64_t t) const {
        multiply(team, tile, rows, rows.h, 0, rows.sum_pitch);
        if (p.cell == Cell::kGruResetFirst) {
            reset(team, tile, rows, t);
            team.sync();
            // Columns in front of n are made again where n does not begin with a tile: they are not read any more.
            const int first = 2 * p.hidden / 16 * 16;
            multiply(team, tile, rows, rows.operand, first, rows.sum_pitch - first);
        }
        for (int row = 0; row < tile.rows; ++row) {
            const bool is_in = t < p.length(tile.first + row);
            for (int unit = team.rank; unit < p.hidden; unit += team.size)
                if (is_in)
                    unit_step(tile, rows, t, row, unit);
                else
                    clear_saved(tile, t, row, unit);
        }
        team.sync();
        if (p.projects()) {
            tile_product(team, kBatchTile, rows.h_pitch, rows.c_pitch, plain(rows.operand, rows.c_pitch),
                         p.projection + tile.direction * rows.c_pitch * rows.h_pitch, rows.h_pitch, rows.sums, rows.h_pitch,
                         1.0f, false);
            team.sync();
        }
        for (int row = 0; row < tile.rows; ++row) {
            const bool is_in = t < p.length(tile.first + row);
            const int64_t to = p.at_token(t, tile.first + row, tile.direction) * p.outputs;
            const float* const from = p.projects() ? rows.sums + row * rows.h_pitch : rows.operand + row * rows.h_pitch;
            for (int unit = team.rank; unit < p.outputs; unit += team.size) {
                if (is_in) rows.h[row * rows.h_pitch + unit] = from[unit];
                store_float(p.type, p.y, to + unit, is_in ? from[unit] : 0.0f);
            }
        }
        team.sync();
    }

    // Preactivation of a gate: x + s + the bias.
    BK_TEAM float input(const CellTile& tile, int64_t t, int row, int gate, int unit) const {
        const int64_t at = p.at_token(t, tile.first + row, tile.direction) * p.gate_rows();
        return load_float(p.type, p.gates, at + gate * p.hidden + unit);
    }
    BK_TEAM float added(const CellTile& tile, const CellRows& rows, int row, int gate, int unit) const {
        return rows.sums[row * rows.sum_pitch + gate * p.hidden + unit] + p.bias(tile.direction, gate * p.hidden + unit);
    }

    // The reset gate times h, in front of the product for n; r and z stay in the first rows of c, which a GRU does not have.
    BK_TEAM void reset(const Team& team, const CellTile& tile, const CellRows& rows, int64_t t) const {
        for (int row = 0; row < tile.rows; ++row)
            for (int unit = team.rank; unit < p.hidden; unit += team.size) {
                const float r = cell_sigmoid(input(tile, t, row, 0, unit) + added(tile, rows, row, 0, unit));
                const float z = cell_sigmoid(input(tile, t, row, 1, unit) + added(tile, rows, row, 1, unit));
                rows.operand[row * rows.h_pitch + unit] = r * rows.h[row * rows.h_pitch + unit];
                rows.c[row * rows.c_pitch + unit] = z;
                if (p.saved == nullptr || t >= p.length(tile.first + row)) continue;
                p.saved[p.at_token(t, tile.first + row, tile.direction) * saved_of(p.cell) * p.hidden + unit] = r;
            }
    }

    BK_TEAM void clear_saved(const CellTile& tile, int64_t t, int row, int unit) const {
        if (p.saved == nullptr) return;
        const int count = saved_of(p.cell);
        float* const to = p.saved + p.at_token(t, tile.first + row, tile.direction) * count * p.hidden + unit;
        for (int k = 0; k < count; ++k) to[int64_t{k} * p.hidden] = 0.0f;
    }

    // One hidden unit; its output goes to `operand`.
    BK_TEAM void unit_step(const CellTile& tile, const CellRows& rows, int64_t t, int row, int unit) const {
        float* const to = rows.operand + row * (p.projects() ? rows.c_pitch : rows.h_pitch) + unit;
        float* const saved =
            p.saved == nullptr ? nullptr
                               : p.saved + p.at_token(t, tile.first + row, tile.direction) * saved_of(p.cell) * p.hidden + unit;
        const auto sum = [&](int gate) { return input(tile, t, row, gate, unit) + added(tile, rows, row, gate, unit); };
        const auto keep = [&](int which, float x) {
            if (saved != nullptr) saved[int64_t{which} * p.hidden] = x;
        };
        switch (p.cell) {
            case Cell::kRnnTanh:
            case Cell::kRnnRelu: {
                const float x = sum(0);
                *to = p.cell == Cell::kRnnTanh ? cell_tanh(x) : x < 0.0f ? 0.0f : x;
                keep(0, *to);
                return;
            }
            case Cell::kGru:
            case Cell::kGruResetFirst: {
                const bool is_first = p.cell == Cell::kGruResetFirst;
                const float r = is_first ? 1.0f : cell_sigmoid(sum(0));
                const float z = is_first ? rows.c[row * rows.c_pitch + unit] : cell_sigmoid(sum(1));
                const float s = added(tile, rows, row, 2, unit);
                const float n = cell_tanh(input(tile, t, row, 2, unit) + r * s);
                const float h = rows.h[row * rows.h_pitch + unit];
                *to = n + z * (h - n);
                if (!is_first) keep(0, r);
                keep(1, z);
                keep(2, n);
                keep(3, s);
                return;
            }
            case Cell::kLstm: {
                const float i = cell_sigmoid(sum(0)), f = cell_sigmoid(sum(1)), g = cell_tanh(sum(2)), o = cell_sigmoid(sum(3));
                float* const c = rows.c + row * rows.c_pitch + unit;
                *c = f * *c + i * g;
                *to = o * cell_tanh(*c);
                keep(0, i);
                keep(1, f);
                keep(2, g);
                keep(3, o);
                keep(4, *c);
                return;
            }
        }
    }
};

}  // namespace bk::recurrent

// SPDX-License-Identifier: Apache-2.0
// The gradient through time, and then those of the matrices, which are products over all tokens in a fixed order.
//
// dgates are the gradients of x, which are those of s, but for n of a GRU: with s_n under the reset gate it has dn r, and with
// the reset gate in front of R the gradient of r h is dn R.
#pragma once

#include "recurrent/cells/forward.h"

namespace bk::recurrent {

struct CellGradients {
    const void *dy, *dh_n, *dc_n;  // the last two may be null: 0
    void *dgates, *dw_hh, *db_hh, *dw_hr, *dh0, *dc0;

    float* outputs;  // [seqlen, batch, directions, outputs]: the gradient of h, for dw_hr
};

// Rows of a team: gradients of h and c in front of the token, of s, and of o tanh(c) or of r h.
struct CellBackward {
    CellProblem p;
    CellGradients d;

    BK_TEAM void operator()(const Team& team, int64_t item) const {
        const CellTile tile = CellTile::of(p, item);
        const CellRows rows = CellRows::of(p, item);
        load(team, tile, rows);
        team.sync();
        for (int64_t step = p.seqlen - 1; step >= 0; --step)
            retreat(team, tile, rows, p.is_backwards(tile.direction) ? p.seqlen - 1 - step : step);
        store(team, tile, rows);
    }

private:
    BK_TEAM void load(const Team& team, const CellTile& tile, const CellRows& rows) const {
        const auto fill = [&](float* to, int pitch, const void* from, int width) {
            for (int i = team.rank; i < kBatchTile * pitch; i += team.size) {
                const int row = i / pitch, unit = i % pitch;
                const bool is_in = from != nullptr && row < tile.rows && unit < width;
                to[i] = is_in ? load_float(p.type, from, p.at_state(tile.first + row, tile.direction) * width + unit) : 0.0f;
            }
        };
        fill(rows.h, rows.h_pitch, d.dh_n, p.outputs);
        fill(rows.c, rows.c_pitch, d.dc_n, p.hidden);
        fill(rows.sums, rows.sum_pitch, nullptr, 0);
        fill(rows.operand, rows.c_pitch > rows.h_pitch ? rows.c_pitch : rows.h_pitch, nullptr, 0);
    }

    BK_TEAM void store(const Team& team, const CellTile& tile, const CellRows& rows) const {
        for (int row = 0; row < tile.rows; ++row) {
            const int64_t at = p.at_state(tile.first + row, tile.direction);
            for (int unit = team.rank; unit < p.outputs && d.dh0 != nullptr; unit += team.size)
                store_float(p.type, d.dh0, at * p.outputs + unit, rows.h[row * rows.h_pitch + unit]);
            for (int unit = team.rank; unit < p.hidden && d.dc0 != nullptr && p.cell == Cell::kLstm; unit += team.size)
                store_float(p.type, d.dc0, at * p.hidden + unit, rows.c[row * rows.c_pitch + unit]);
        }
    }

    BK_TEAM bool is_in(const CellTile& tile, int64_t t, int row) const { return t < p.length(tile.first + row); }
    BK_TEAM int64_t at(const CellTile& tile, int64_t t, int row) const {
        return p.at_token(t, tile.first + row, tile.direction);
    }

    // to = s' R, of h's width.
    BK_TEAM void multiply(const Team& team, const CellTile& tile, const CellRows& rows, float* to, bool adds) const {
        tile_product(team, kBatchTile, rows.h_pitch, rows.sum_pitch, plain(rows.sums, rows.sum_pitch),
                     p.recurrent + tile.direction * rows.sum_pitch * rows.h_pitch, rows.h_pitch, to, rows.h_pitch, 1.0f, adds);
        team.sync();
    }

    BK_TEAM void retreat(const Team& team, const CellTile& tile, const CellRows& rows, int64_t t) const {
        for (int row = 0; row < tile.rows; ++row) {
            const bool has_token = is_in(tile, t, row);
            for (int unit = team.rank; unit < p.outputs; unit += team.size) {
                const int64_t from = at(tile, t, row) * p.outputs + unit;
                float* const h = rows.h + row * rows.h_pitch + unit;
                if (has_token) *h += load_float(p.type, d.dy, from);
                if (d.outputs != nullptr) d.outputs[from] = has_token ? *h : 0.0f;
            }
        }
        team.sync();
        const float* of_output = rows.h;
        int output_pitch = rows.h_pitch;
        if (p.projects()) {
            tile_product(team, kBatchTile, rows.c_pitch, rows.h_pitch, plain(rows.h, rows.h_pitch),
                         p.projection + tile.direction * rows.h_pitch * rows.c_pitch, rows.c_pitch, rows.operand, rows.c_pitch,
                         1.0f, false);
            team.sync();
            of_output = rows.operand;
            output_pitch = rows.c_pitch;
        }
        for (int row = 0; row < tile.rows; ++row)
            for (int unit = team.rank; unit < p.hidden; unit += team.size)
                unit_step(tile, rows, t, row, unit, of_output[row * output_pitch + unit]);
        team.sync();
        if (p.cell == Cell::kGruResetFirst) through_reset(team, tile, rows, t);
        if (p.projects() || p.cell == Cell::kLstm || gates_of(p.cell) == 1) {
            // Rows without the token keep the gradient of h.
            for (int row = 0; row < tile.rows; ++row)
                for (int unit = team.rank; unit < rows.h_pitch; unit += team.size)
                    if (is_in(tile, t, row)) rows.h[row * rows.h_pitch + unit] = 0.0f;
            team.sync();
        }
        multiply(team, tile, rows, rows.h, true);
    }

    // Stores a gate's gradient, and the one of s.
    BK_TEAM void give(const CellTile& tile, const CellRows& rows, int64_t t, int row, int gate, int unit, float x,
                      float of_sum) const {
        rows.sums[row * rows.sum_pitch + gate * p.hidden + unit] = of_sum;
        store_float(p.type, d.dgates, at(tile, t, row) * p.gate_rows() + gate * p.hidden + unit, x);
    }

    BK_TEAM void unit_step(const CellTile& tile, const CellRows& rows, int64_t t, int row, int unit, float dh) const {
        const int gates = p.gates_count();
        if (!is_in(tile, t, row)) {
            for (int gate = 0; gate < gates; ++gate) give(tile, rows, t, row, gate, unit, 0.0f, 0.0f);
            return;
        }
        const int64_t n = tile.first + row;
        const float* const saved = p.saved + at(tile, t, row) * saved_of(p.cell) * p.hidden + unit;
        const auto value = [&](int which) { return saved[int64_t{which} * p.hidden]; };
        switch (p.cell) {
            case Cell::kRnnTanh:
            case Cell::kRnnRelu: {
                const float h = value(0), slope = p.cell == Cell::kRnnTanh ? 1.0f - h * h : h > 0.0f ? 1.0f : 0.0f;
                give(tile, rows, t, row, 0, unit, dh * slope, dh * slope);
                return;
            }
            case Cell::kGru:
            case Cell::kGruResetFirst: {
                const float r = value(0), z = value(1), x = value(2), h = p.previous(t, n, tile.direction, unit);
                const float of_n = dh * (1.0f - z) * (1.0f - x * x), of_z = dh * (h - x) * z * (1.0f - z);
                give(tile, rows, t, row, 2, unit, of_n, p.cell == Cell::kGru ? of_n * r : of_n);
                rows.h[row * rows.h_pitch + unit] = dh * z;
                if (p.cell == Cell::kGru) {
                    const float of_r = of_n * value(3) * r * (1.0f - r);
                    give(tile, rows, t, row, 0, unit, of_r, of_r);
                    give(tile, rows, t, row, 1, unit, of_z, of_z);
                } else {  // r and z follow after the product of n alone
                    give(tile, rows, t, row, 0, unit, 0.0f, 0.0f);
                    give(tile, rows, t, row, 1, unit, of_z, 0.0f);
                    rows.c[row * rows.c_pitch + unit] = of_z;
                }
                return;
            }
            case Cell::kLstm: {
                const float i = value(0), f = value(1), g = value(2), o = value(3), c = cell_tanh(value(4));
                float* const of_c = rows.c + row * rows.c_pitch + unit;
                const float dc = *of_c + dh * o * (1.0f - c * c);
                const float of_i = dc * g * i * (1.0f - i), of_f = dc * previous_c(tile, t, row, unit) * f * (1.0f - f);
                const float of_g = dc * i * (1.0f - g * g), of_o = dh * c * o * (1.0f - o);
                *of_c = dc * f;
                give(tile, rows, t, row, 0, unit, of_i, of_i);
                give(tile, rows, t, row, 1, unit, of_f, of_f);
                give(tile, rows, t, row, 2, unit, of_g, of_g);
                give(tile, rows, t, row, 3, unit, of_o, of_o);
                return;
            }
        }
    }

    BK_TEAM float previous_c(const CellTile& tile, int64_t t, int row, int unit) const {
        const int64_t n = tile.first + row;
        const bool is_back = p.is_backwards(tile.direction);
        if (!(is_back ? t + 1 >= p.length(n) : t == 0)) {
            const int64_t from = p.at_token(is_back ? t + 1 : t - 1, n, tile.direction) * saved_of(p.cell);
            return p.saved[(from + 4) * p.hidden + unit];
        }
        return p.c0 == nullptr ? 0.0f : load_float(p.type, p.c0, p.at_state(n, tile.direction) * p.hidden + unit);
    }

    // The product of n's gradient with R is that of r h: r and h get theirs. Then s' has r and z alone.
    BK_TEAM void through_reset(const Team& team, const CellTile& tile, const CellRows& rows, int64_t t) const {
        multiply(team, tile, rows, rows.operand, false);
        for (int row = 0; row < tile.rows; ++row) {
            if (!is_in(tile, t, row)) continue;
            const int64_t n = tile.first + row;
            const float* const saved = p.saved + at(tile, t, row) * saved_of(p.cell) * p.hidden;
            for (int unit = team.rank; unit < p.hidden; unit += team.size) {
                const float r = saved[unit], of_product = rows.operand[row * rows.h_pitch + unit];
                const float of_r = of_product * p.previous(t, n, tile.direction, unit) * r * (1.0f - r);
                rows.h[row * rows.h_pitch + unit] += of_product * r;
                give(tile, rows, t, row, 0, unit, of_r, of_r);
                rows.sums[row * rows.sum_pitch + p.hidden + unit] = rows.c[row * rows.c_pitch + unit];
                rows.sums[row * rows.sum_pitch + 2 * p.hidden + unit] = 0.0f;
            }
        }
        team.sync();
    }
};

// dw[j, i] = sum over tokens of x[token, j] y[token, i], and db[j] that of x: of R, or of the projection.
struct MatrixGradient {
    CellProblem p;
    CellGradients d;
    bool is_projection;

    static constexpr int kSide = 64, kTokens = 32, kPitch = kSide + 4;

    static int64_t floats() { return int64_t{2} * kTokens * kPitch + int64_t{kSide} * kPitch + kSide; }
    // Rows of one gate, so that a tile's rows have one right operand.
    BK_HD int64_t rows() const { return is_projection ? p.outputs : p.hidden; }
    BK_HD int64_t columns() const { return is_projection ? p.hidden : p.outputs; }
    BK_HD int64_t row_tiles() const { return (rows() + kSide - 1) / kSide; }
    BK_HD int64_t column_tiles() const { return (columns() + kSide - 1) / kSide; }
    BK_HD int64_t blocks() const { return is_projection ? 1 : p.gates_count(); }
    int64_t items() const { return p.directions * blocks() * row_tiles() * column_tiles(); }

    BK_TEAM void operator()(const Team& team, int64_t item) const {
        const int64_t j = item / column_tiles() % row_tiles() * kSide, i = item % column_tiles() * kSide;
        const int64_t gate = item / (column_tiles() * row_tiles()) % blocks();
        const int64_t direction = item / (column_tiles() * row_tiles() * blocks());
        float* const x = static_cast<float*>(team.scratch);
        float *const y = x + kTokens * kPitch, *const sum = y + kTokens * kPitch, *const bias = sum + kSide * kPitch;
        for (int k = team.rank; k < kSide; k += team.size) bias[k] = 0.0f;
        const int64_t tokens = p.seqlen * p.batch;
        for (int64_t first = 0; first == 0 || first < tokens; first += kTokens) {
            for (int at = team.rank; at < kTokens * kSide; at += team.size) {
                const int row = at / kSide, column = at % kSide;
                const int64_t token = first + row;
                x[row * kPitch + column] =
                    token < tokens && j + column < rows() ? left(token, direction, gate, j + column) : 0.0f;
                y[row * kPitch + column] =
                    token < tokens && i + column < columns() ? right(token, direction, gate, i + column) : 0.0f;
            }
            team.sync();
            tile_product(team, kSide, kSide, kTokens, transposed(x, kPitch), y, kPitch, sum, kPitch, 1.0f, first > 0);
            for (int k = team.rank; k < kSide; k += team.size)
                for (int row = 0; row < kTokens; ++row) bias[k] += x[row * kPitch + k];
            team.sync();
        }
        store(team, direction * blocks() + gate, j, i, sum, bias);
    }

private:
    BK_TEAM float left(int64_t token, int64_t direction, int64_t gate, int64_t j) const {
        const int64_t at = token * p.directions + direction;
        if (is_projection) return d.outputs[at * p.outputs + j];
        const float x = load_float(p.type, d.dgates, at * p.gate_rows() + gate * p.hidden + j);
        return p.cell == Cell::kGru && gate == 2 ? x * p.saved[at * saved_of(p.cell) * p.hidden + j] : x;
    }
    BK_TEAM float right(int64_t token, int64_t direction, int64_t gate, int64_t i) const {
        const int64_t t = token / p.batch, n = token % p.batch;
        const float* const saved = p.saved + (token * p.directions + direction) * saved_of(p.cell) * p.hidden + i;
        if (t >= p.length(n)) return 0.0f;
        if (is_projection) return saved[int64_t{3} * p.hidden] * cell_tanh(saved[int64_t{4} * p.hidden]);
        const float h = p.previous(t, n, direction, i);
        return p.cell == Cell::kGruResetFirst && gate == 2 ? h * saved[0] : h;
    }

    BK_TEAM void store(const Team& team, int64_t block, int64_t j, int64_t i, const float* sum, const float* bias) const {
        void* const to = is_projection ? d.dw_hr : d.dw_hh;
        for (int at = team.rank; at < kSide * kSide && to != nullptr; at += team.size) {
            const int row = at / kSide, column = at % kSide;
            if (j + row < rows() && i + column < columns())
                store_float(p.type, to, (block * rows() + j + row) * columns() + i + column, sum[row * kPitch + column]);
        }
        if (is_projection || d.db_hh == nullptr || i > 0) return;
        for (int k = team.rank; k < kSide; k += team.size)
            if (j + k < rows()) store_float(p.type, d.db_hh, block * rows() + j + k, bias[k]);
    }
};

}  // namespace bk::recurrent

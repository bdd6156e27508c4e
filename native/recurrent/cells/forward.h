// SPDX-License-Identifier: Apache-2.0
// A layer through time: one launch, in which a team has kBatchTile sequences of a direction, and no team waits for another.
// The recurrent matrix comes from the second-level cache at each token. Large layers have a launch for each token (steps.h).
#pragma once

#include "recurrent/cells/panels.h"

namespace bk::recurrent {

// Rows of a team, [sequences, pitch] each: h, c, the sums of gates, and what a product reads besides h. Sums and the operand
// begin with `first_unit`.
struct CellRows {
    float *h, *c, *sums, *operand;
    int h_pitch, c_pitch, sum_pitch, operand_pitch, first_unit;
    int64_t gate_pitch;

    BK_HD static CellRows of(const CellProblem& p, int64_t item) {
        CellRows r{};
        r.h_pitch = CellProblem::padded(p.outputs);
        r.c_pitch = CellProblem::padded(p.hidden);
        r.sum_pitch = CellProblem::padded(p.gate_rows());
        r.operand_pitch = p.projects() ? r.c_pitch : r.h_pitch;
        r.gate_pitch = p.hidden;
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
    BK_HD float* h_at(int row, int unit) const { return h + row * h_pitch + unit; }
    BK_HD float* c_at(int row, int unit) const { return c + row * c_pitch + unit; }
    BK_HD float* sum_at(int row, int gate, int unit) const {
        return sums + row * sum_pitch + gate * gate_pitch + (unit - first_unit);
    }
    BK_HD float* operand_at(int row, int unit) const { return operand + row * operand_pitch + (unit - first_unit); }
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

    // Outputs of a token, which are the state if the sequence has it.
    BK_TEAM void give(const CellTile& tile, const CellRows& rows, int64_t t, int row, int unit, int count, const Units& h,
                      bool is_in) const {
        if (is_in) h.put(rows.h_at(row, unit), count);
        h.store(p.type, p.y, p.at_token(t, tile.first + row, tile.direction) * p.outputs + unit, count);
    }
    // Zeros are saved of a token that a sequence does not have.
    BK_TEAM void skip(const CellTile& tile, int64_t t, int row, int unit, int count) const {
        for (int k = 0; k < saved_of(p.cell); ++k) keep(tile, t, row, unit, count, k, Units::zeros());
    }

    // The reset gate times h, in front of the product for n; r and z stay in the first rows of c, which a GRU does not have.
    BK_TEAM void reset(const CellTile& tile, const CellRows& rows, int64_t t, int row, int unit, int count) const {
        Units r = preactivation(tile, rows, t, row, 0, unit, count), z = preactivation(tile, rows, t, row, 1, unit, count);
        Units h = Units::of(rows.h_at(row, unit), count);
        BK_UNIT_LOOP
        for (int l = 0; l < kUnits; ++l) {
            r.at[l] = cell_sigmoid(r.at[l]);
            z.at[l] = cell_sigmoid(z.at[l]);
            h.at[l] *= r.at[l];
        }
        h.put(rows.operand_at(row, unit), count);
        z.put(rows.c_at(row, unit), count);
        if (t < p.length(tile.first + row)) keep(tile, t, row, unit, count, 0, r);
    }

    // States behind the last token.
    BK_TEAM void store_h(const CellTile& tile, const CellRows& rows, int row, int unit, int count) const {
        const int64_t to = p.at_state(tile.first + row, tile.direction) * p.outputs + unit;
        Units::of(rows.h_at(row, unit), count).store(p.type, p.h_n, to, count);
    }
    BK_TEAM void store_c(const CellTile& tile, const CellRows& rows, int row, int unit, int count) const {
        if (p.c_n == nullptr || p.cell != Cell::kLstm) return;
        const int64_t to = p.at_state(tile.first + row, tile.direction) * p.hidden + unit;
        Units::of(rows.c_at(row, unit), count).store(p.type, p.c_n, to, count);
    }

    // A block of hidden units; their outputs go to `operand`.
    BK_TEAM void unit_step(const CellTile& tile, const CellRows& rows, int64_t t, int row, int unit, int count) const {
        float* const to = rows.operand_at(row, unit);
        const auto sum = [&](int gate) { return preactivation(tile, rows, t, row, gate, unit, count); };
        const auto save = [&](int which, const Units& x) { keep(tile, t, row, unit, count, which, x); };
        switch (p.cell) {
            case Cell::kRnnTanh:
            case Cell::kRnnRelu: {
                Units x = sum(0);
                if (p.cell == Cell::kRnnTanh) {
                    BK_UNIT_LOOP
                    for (int l = 0; l < kUnits; ++l) x.at[l] = cell_tanh(x.at[l]);
                } else {
                    BK_UNIT_LOOP
                    for (int l = 0; l < kUnits; ++l) x.at[l] = x.at[l] < 0.0f ? 0.0f : x.at[l];
                }
                x.put(to, count);
                save(0, x);
                return;
            }
            case Cell::kGru:
            case Cell::kGruResetFirst: {
                const bool is_first = p.cell == Cell::kGruResetFirst;
                Units r, z, n = input(tile, t, row, 2, unit, count), h = Units::of(rows.h_at(row, unit), count);
                const Units s = added(tile, rows, row, 2, unit, count);
                if (is_first) {
                    z = Units::of(rows.c_at(row, unit), count);
                    BK_UNIT_LOOP
                    for (int l = 0; l < kUnits; ++l) n.at[l] = cell_tanh(n.at[l] + s.at[l]);
                } else {
                    r = sum(0);
                    z = sum(1);
                    BK_UNIT_LOOP
                    for (int l = 0; l < kUnits; ++l) {
                        r.at[l] = cell_sigmoid(r.at[l]);
                        z.at[l] = cell_sigmoid(z.at[l]);
                        n.at[l] = cell_tanh(n.at[l] + r.at[l] * s.at[l]);
                    }
                    save(0, r);
                }
                BK_UNIT_LOOP
                for (int l = 0; l < kUnits; ++l) h.at[l] = n.at[l] + z.at[l] * (h.at[l] - n.at[l]);
                h.put(to, count);
                save(1, z);
                save(2, n);
                save(3, s);
                return;
            }
            case Cell::kLstm: {
                Units i = sum(0), f = sum(1), g = sum(2), o = sum(3), h;
                float* const of_c = rows.c_at(row, unit);
                Units c = Units::of(of_c, count);
                BK_UNIT_LOOP
                for (int l = 0; l < kUnits; ++l) {
                    i.at[l] = cell_sigmoid(i.at[l]);
                    f.at[l] = cell_sigmoid(f.at[l]);
                    g.at[l] = cell_tanh(g.at[l]);
                    o.at[l] = cell_sigmoid(o.at[l]);
                    c.at[l] = f.at[l] * c.at[l] + i.at[l] * g.at[l];
                    h.at[l] = o.at[l] * cell_tanh(c.at[l]);
                }
                c.put(of_c, count);
                h.put(to, count);
                save(0, i);
                save(1, f);
                save(2, g);
                save(3, o);
                save(4, c);
                return;
            }
        }
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
            for_units(team, p.outputs, [&](int unit, int count) { store_h(tile, rows, row, unit, count); });
            for_units(team, p.hidden, [&](int unit, int count) { store_c(tile, rows, row, unit, count); });
        }
    }

    // sums[:, first:] = x R^T, from a multiple of 16 columns that may lie in the gate before.
    BK_TEAM void multiply(const Team& team, const CellTile& tile, const CellRows& rows, const float* x, int first) const {
        packed_product(team, tile.product_rows(), first, rows.sum_pitch, rows.h_pitch, x,
                       p.recurrent + tile.direction * rows.h_pitch * rows.sum_pitch, rows.sums, rows.sum_pitch, false);
        team.sync();
    }

    BK_TEAM void advance(const Team& team, const CellTile& tile, const CellRows& rows, int64_t t) const {
        multiply(team, tile, rows, rows.h, 0);
        if (p.cell == Cell::kGruResetFirst) {
            for (int row = 0; row < tile.rows; ++row)
                for_units(team, p.hidden, [&](int unit, int count) { reset(tile, rows, t, row, unit, count); });
            team.sync();
            // Columns in front of n are made again where n does not begin with a tile: they are not read any more.
            multiply(team, tile, rows, rows.operand, 2 * p.hidden / 16 * 16);
        }
        for (int row = 0; row < tile.rows; ++row) {
            const bool is_in = t < p.length(tile.first + row);
            for_units(team, p.hidden, [&](int unit, int count) {
                if (is_in)
                    unit_step(tile, rows, t, row, unit, count);
                else
                    skip(tile, t, row, unit, count);
            });
        }
        team.sync();
        if (p.projects()) {
            packed_product(team, tile.product_rows(), 0, rows.h_pitch, rows.c_pitch, rows.operand,
                           p.projection + tile.direction * rows.c_pitch * rows.h_pitch, rows.sums, rows.h_pitch, false);
            team.sync();
        }
        for (int row = 0; row < tile.rows; ++row) {
            const bool is_in = t < p.length(tile.first + row);
            const float* const from = (p.projects() ? rows.sums : rows.operand) + row * rows.h_pitch;
            for_units(team, p.outputs, [&](int unit, int count) {
                give(tile, rows, t, row, unit, count, is_in ? Units::of(from + unit, count) : Units::zeros(), is_in);
            });
        }
        team.sync();
    }

    // Preactivation of a gate: x + s + the bias.
    BK_TEAM Units input(const CellTile& tile, int64_t t, int row, int gate, int unit, int count) const {
        const int64_t at = p.at_token(t, tile.first + row, tile.direction) * p.gate_rows();
        return Units::load(p.type, p.gates, at + gate * p.hidden + unit, count);
    }
    BK_TEAM Units added(const CellTile& tile, const CellRows& rows, int row, int gate, int unit, int count) const {
        const int64_t column = int64_t{gate} * p.hidden + unit;
        Units sum = Units::of(rows.sum_at(row, gate, unit), count);
        const Units bias = Units::load(p.type, p.b_hh, tile.direction * p.gate_rows() + column, count);
        BK_UNIT_LOOP
        for (int l = 0; l < kUnits; ++l) sum.at[l] += bias.at[l];
        return sum;
    }
    BK_TEAM Units preactivation(const CellTile& tile, const CellRows& rows, int64_t t, int row, int gate, int unit,
                                int count) const {
        Units x = input(tile, t, row, gate, unit, count);
        const Units s = added(tile, rows, row, gate, unit, count);
        BK_UNIT_LOOP
        for (int l = 0; l < kUnits; ++l) x.at[l] += s.at[l];
        return x;
    }

    BK_TEAM void keep(const CellTile& tile, int64_t t, int row, int unit, int count, int which, const Units& x) const {
        if (p.saved == nullptr) return;
        const int64_t at = p.at_token(t, tile.first + row, tile.direction) * saved_of(p.cell) + which;
        x.put(p.saved + at * p.hidden + unit, count);
    }
};

}  // namespace bk::recurrent

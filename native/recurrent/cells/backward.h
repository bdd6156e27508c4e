// SPDX-License-Identifier: Apache-2.0
// The gradient through time.
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

    // Gradients of the states in front of the first token.
    BK_TEAM void store_h(const CellTile& tile, int row, int unit, float dh) const {
        if (d.dh0 == nullptr) return;
        store_float(p.type, d.dh0, p.at_state(tile.first + row, tile.direction) * p.outputs + unit, dh);
    }
    BK_TEAM void store_c(const CellTile& tile, int row, int unit, float dc) const {
        if (d.dc0 == nullptr || p.cell != Cell::kLstm) return;
        store_float(p.type, d.dc0, p.at_state(tile.first + row, tile.direction) * p.hidden + unit, dc);
    }

    BK_TEAM bool is_in(const CellTile& tile, int64_t t, int row) const { return t < p.length(tile.first + row); }

    // Whether the gradient of h in front of a token is that of the sums alone: h has no other way to the token's.
    BK_HD bool goes_through_sums() const { return p.cell != Cell::kGru && p.cell != Cell::kGruResetFirst; }

    // Adds the gradient of y.
    BK_TEAM void add_dy(const CellTile& tile, int64_t t, int row, int unit, int count, Units* h) const {
        const Units dy = Units::load(p.type, d.dy, at(tile, t, row) * p.outputs + unit, count);
        BK_UNIT_LOOP
        for (int l = 0; l < kUnits; ++l) h->at[l] += dy.at[l];
    }

    // The gradient of h, for that of the projection.
    BK_TEAM void store_output(const CellTile& tile, int64_t t, int row, int unit, int count, const Units& h) const {
        if (d.outputs != nullptr) h.put(d.outputs + at(tile, t, row) * p.outputs + unit, count);
    }

    // A block of hidden units, from the gradient of their outputs; those of the sums go to `sums`.
    BK_TEAM void unit_step(const CellTile& tile, const CellRows& rows, int64_t t, int row, int unit, int count,
                           const Units& dh) const {
        const int gates = p.gates_count();
        const auto give_gate = [&](int gate, const Units& x, const Units& of_sum) {
            give(tile, rows, t, row, gate, unit, count, x, of_sum);
        };
        const Units zeros = Units::zeros();
        if (!is_in(tile, t, row)) {
            for (int gate = 0; gate < gates; ++gate) give_gate(gate, zeros, zeros);
            return;
        }
        const int64_t n = tile.first + row;
        const float* const saved = p.saved + at(tile, t, row) * saved_of(p.cell) * p.hidden + unit;
        const auto value = [&](int which) { return Units::of(saved + int64_t{which} * p.hidden, count); };
        switch (p.cell) {
            case Cell::kRnnTanh:
            case Cell::kRnnRelu: {
                Units h = value(0);
                if (p.cell == Cell::kRnnTanh) {
                    BK_UNIT_LOOP
                    for (int l = 0; l < kUnits; ++l) h.at[l] = dh.at[l] * (1.0f - h.at[l] * h.at[l]);
                } else {
                    BK_UNIT_LOOP
                    for (int l = 0; l < kUnits; ++l) h.at[l] = dh.at[l] * (h.at[l] > 0.0f ? 1.0f : 0.0f);
                }
                give_gate(0, h, h);
                return;
            }
            case Cell::kGru:
            case Cell::kGruResetFirst: {
                Units r = value(0), z = value(1), x = value(2), s = value(3), h = p.previous(t, n, tile.direction, unit, count);
                Units of_n, of_z, of_h;
                BK_UNIT_LOOP
                for (int l = 0; l < kUnits; ++l) {
                    of_n.at[l] = dh.at[l] * (1.0f - z.at[l]) * (1.0f - x.at[l] * x.at[l]);
                    of_z.at[l] = dh.at[l] * (h.at[l] - x.at[l]) * z.at[l] * (1.0f - z.at[l]);
                    of_h.at[l] = dh.at[l] * z.at[l];
                    s.at[l] = of_n.at[l] * s.at[l] * r.at[l] * (1.0f - r.at[l]);
                    r.at[l] *= of_n.at[l];
                }
                of_h.put(rows.h_at(row, unit), count);
                if (p.cell == Cell::kGru) {
                    give_gate(2, of_n, r);
                    give_gate(0, s, s);
                    give_gate(1, of_z, of_z);
                } else {  // r and z follow after the product of n alone
                    give_gate(2, of_n, of_n);
                    give_gate(0, zeros, zeros);
                    give_gate(1, of_z, zeros);
                    of_z.put(rows.c_at(row, unit), count);
                }
                return;
            }
            case Cell::kLstm: {
                Units i = value(0), f = value(1), g = value(2), o = value(3), c = value(4);
                const Units previous = previous_c(tile, t, row, unit, count);
                float* const of_c = rows.c_at(row, unit);
                Units dc = Units::of(of_c, count);
                BK_UNIT_LOOP
                for (int l = 0; l < kUnits; ++l) {
                    const float squashed = cell_tanh(c.at[l]);
                    const float of_i = i.at[l], of_f = f.at[l], of_g = g.at[l], of_o = o.at[l];
                    const float sum = dc.at[l] + dh.at[l] * of_o * (1.0f - squashed * squashed);
                    i.at[l] = sum * of_g * of_i * (1.0f - of_i);
                    f.at[l] = sum * previous.at[l] * of_f * (1.0f - of_f);
                    g.at[l] = sum * of_i * (1.0f - of_g * of_g);
                    o.at[l] = dh.at[l] * squashed * of_o * (1.0f - of_o);
                    dc.at[l] = sum * of_f;
                }
                dc.put(of_c, count);
                give_gate(0, i, i);
                give_gate(1, f, f);
                give_gate(2, g, g);
                give_gate(3, o, o);
                return;
            }
        }
    }

    // From the gradient of r h: those of the reset gate and of h.
    BK_TEAM void reset(const CellTile& tile, const CellRows& rows, int64_t t, int row, int unit, int count,
                       const Units& of_product) const {
        float* const of_h = rows.h_at(row, unit);
        const Units r = Units::of(p.saved + at(tile, t, row) * saved_of(p.cell) * p.hidden + unit, count);
        Units of_r = p.previous(t, tile.first + row, tile.direction, unit, count), dh = Units::of(of_h, count);
        BK_UNIT_LOOP
        for (int l = 0; l < kUnits; ++l) {
            of_r.at[l] = of_product.at[l] * of_r.at[l] * r.at[l] * (1.0f - r.at[l]);
            dh.at[l] += of_product.at[l] * r.at[l];
        }
        dh.put(of_h, count);
        give(tile, rows, t, row, 0, unit, count, of_r, of_r);
        Units::of(rows.c_at(row, unit), count).put(rows.sum_at(row, 1, unit), count);
        Units::zeros().put(rows.sum_at(row, 2, unit), count);
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
            for (int unit = team.rank; unit < p.outputs; unit += team.size) store_h(tile, row, unit, *rows.h_at(row, unit));
            for (int unit = team.rank; unit < p.hidden; unit += team.size) store_c(tile, row, unit, *rows.c_at(row, unit));
        }
    }

    BK_TEAM int64_t at(const CellTile& tile, int64_t t, int row) const {
        return p.at_token(t, tile.first + row, tile.direction);
    }

    // to = s' R, of h's width.
    BK_TEAM void multiply(const Team& team, const CellTile& tile, const CellRows& rows, float* to, bool adds) const {
        packed_product(team, tile.product_rows(), 0, rows.h_pitch, rows.sum_pitch, rows.sums,
                       p.recurrent + tile.direction * rows.sum_pitch * rows.h_pitch, to, rows.h_pitch, adds);
        team.sync();
    }

    BK_TEAM void retreat(const Team& team, const CellTile& tile, const CellRows& rows, int64_t t) const {
        for (int row = 0; row < tile.rows; ++row) {
            const bool has_token = is_in(tile, t, row);
            for_units(team, p.outputs, [&](int unit, int count) {
                Units h = Units::of(rows.h_at(row, unit), count);
                if (has_token) {
                    add_dy(tile, t, row, unit, count, &h);
                    h.put(rows.h_at(row, unit), count);
                }
                store_output(tile, t, row, unit, count, has_token ? h : Units::zeros());
            });
        }
        team.sync();
        const float* of_output = rows.h;
        int output_pitch = rows.h_pitch;
        if (p.projects()) {
            packed_product(team, tile.product_rows(), 0, rows.c_pitch, rows.h_pitch, rows.h,
                           p.projection + tile.direction * rows.h_pitch * rows.c_pitch, rows.operand, rows.c_pitch, false);
            team.sync();
            of_output = rows.operand;
            output_pitch = rows.c_pitch;
        }
        for (int row = 0; row < tile.rows; ++row)
            for_units(team, p.hidden, [&](int unit, int count) {
                unit_step(tile, rows, t, row, unit, count, Units::of(of_output + row * output_pitch + unit, count));
            });
        team.sync();
        if (p.cell == Cell::kGruResetFirst) through_reset(team, tile, rows, t);
        if (goes_through_sums()) {
            // Rows without the token keep the gradient of h.
            for (int row = 0; row < tile.rows; ++row)
                for (int unit = team.rank; unit < rows.h_pitch; unit += team.size)
                    if (is_in(tile, t, row)) *rows.h_at(row, unit) = 0.0f;
            team.sync();
        }
        multiply(team, tile, rows, rows.h, true);
    }

    // Stores a gate's gradient, and the one of s.
    BK_TEAM void give(const CellTile& tile, const CellRows& rows, int64_t t, int row, int gate, int unit, int count,
                      const Units& x, const Units& of_sum) const {
        of_sum.put(rows.sum_at(row, gate, unit), count);
        x.store(p.type, d.dgates, at(tile, t, row) * p.gate_rows() + gate * p.hidden + unit, count);
    }

    BK_TEAM Units previous_c(const CellTile& tile, int64_t t, int row, int unit, int count) const {
        const int64_t n = tile.first + row;
        const bool is_back = p.is_backwards(tile.direction);
        if (!(is_back ? t + 1 >= p.length(n) : t == 0)) {
            const int64_t from = p.at_token(is_back ? t + 1 : t - 1, n, tile.direction) * saved_of(p.cell);
            return Units::of(p.saved + (from + 4) * p.hidden + unit, count);
        }
        return Units::load(p.type, p.c0, p.at_state(n, tile.direction) * p.hidden + unit, count);
    }

    // The product of n's gradient with R is that of r h. Then s' has r and z alone.
    BK_TEAM void through_reset(const Team& team, const CellTile& tile, const CellRows& rows, int64_t t) const {
        multiply(team, tile, rows, rows.operand, false);
        for (int row = 0; row < tile.rows; ++row) {
            if (!is_in(tile, t, row)) continue;
            for_units(team, p.hidden, [&](int unit, int count) {
                reset(tile, rows, t, row, unit, count, Units::of(rows.operand_at(row, unit), count));
            });
        }
        team.sync();
    }
};

}  // namespace bk::recurrent

// SPDX-License-Identifier: Apache-2.0
// Gradients of fused attention on the CPU, row by row and key by key: P = exp(score - lse), dv = P^T dy,
// dS = P (dy v^T - delta) with delta = sum of y dy, dk = (dS slope)^T q, dq = (dS slope) k. Each gradient is owned by one
// thread, which sums it in f64. It needs no memory but the stack, whatever the head dimension.
#pragma once

#include <utility>

#include "attention/flash/rows_cpu.h"

namespace bk::attention_cpu {

template <class T>
struct BackwardRows {
    using C = compute_t<T>;
    static constexpr int64_t kColumns = 192, kKeys = 4;

    const AttentionBackward<T>& p;
    uint64_t seed;

    const AttentionForward<T>& forward() const { return p.forward; }

    struct Row {
        const T *q = nullptr, *dy = nullptr;
        C lse = 0, delta = 0;
    };

    // False for a row that has no gradient.
    bool load_row(const Sequence& s, int64_t b, int64_t h, int64_t i, Row& row) const {
        const int64_t r = s.q_begin + i;
        row.lse = load_lse<T>(forward().lse, b, h, r);
        if (!std::isfinite(row.lse)) return false;
        row.q = forward().q.at(b, h, r);
        row.dy = p.dy.at(b, h, r);
        row.delta = dot(p.y.at(b, h, r), row.dy, forward().d_v);
        return true;
    }

    struct Cell {
        C weight;    // dv += weight dy
        C dscore;    // gradient of the score
        C dproduct;  // gradient of q.k
    };

    bool cell(const Sequence& s, int64_t b, int64_t h, int64_t i, int64_t j, const Row& row, Cell& c) const {
        const AttentionForward<T>& f = forward();
        const ScoreRules& rules = f.rules;
        if (!shows_key(rules, s, b, h, i, j)) return false;
        const C addend = score_addend<T, C>(rules, b, h, i, j);
        if (addend == -C(INFINITY)) return false;
        const int64_t kv = f.kv_head_of(h);
        const C capped = capped_score<C>(rules, dot(row.q, key_row(f.k, f.lengths, s, b, kv, j), f.d_k));
        const C weight = math::exp<C>(capped + addend - row.lse);
        if (weight == 0) return false;
        C factor = 1;
        if (rules.dropout.probability > 0) factor = static_cast<C>(dropout_factor(rules.dropout, seed, b, h, i, j));
        c.weight = weight * factor;
        c.dscore = -weight * row.delta;
        if (factor != 0) c.dscore = weight * (factor * dot(row.dy, key_row(f.v, f.lengths, s, b, kv, j), f.d_v) - row.delta);
        c.dproduct = c.dscore * capped_slope<C>(rules, capped);
        return true;
    }

    void store_dbias(int64_t b, int64_t h, int64_t i, int64_t j, C value) const {
        const Lengths& lengths = forward().lengths;
        static_cast<T*>(p.dbias)[((b * forward().heads + h) * lengths.q_len + i) * lengths.k_len + j] = narrow<T>(value);
    }

    void query(const Sequence& s, int64_t b, int64_t h, int64_t i) const {
        const AttentionForward<T>& f = forward();
        if (i >= s.q_len) {
            if (p.dq.data != nullptr && f.lengths.q_offsets == nullptr) fill_row(p.dq.at(b, h, i), f.d_k, C(0));
            return;
        }
        Row row;
        const bool has_gradient = load_row(s, b, h, i, row);
        const KeyRange keys = keys_of_rows(f.rules.band, s, i, i);
        double sums[kColumns];
        int64_t first = 0;
        do {
            const int64_t count = p.dq.data == nullptr ? 0 : std::min(kColumns, f.d_k - first);
            for (int64_t x = 0; x < count; ++x) sums[x] = 0;
            for (int64_t j = keys.first; has_gradient && j < keys.end; ++j) {
                Cell c;
                if (!cell(s, b, h, i, j, row, c)) continue;
                if (p.dbias != nullptr && j < f.lengths.k_len) store_dbias(b, h, i, j, c.dscore);
                const T* const k = key_row(f.k, f.lengths, s, b, f.kv_head_of(h), j) + first;
                add_scaled(sums, k, count, static_cast<double>(c.dproduct));
            }
            if (p.dq.data == nullptr) return;
            store_row(p.dq.at(b, h, s.q_begin + i) + first, sums, count, 1);
            first += kColumns;
        } while (first < f.d_k);
    }

    // Columns [first, first + kColumns) of dk and dv of keys [j, j + count).
    void keys(const Sequence& s, int64_t b, int64_t kv, int64_t j, int64_t count, int64_t first) const {
        const AttentionForward<T>& f = forward();
        double sums[2][kKeys][kColumns];
        const int64_t width_k = p.dk.data == nullptr ? 0 : clamp_row(f.d_k - first, 0, kColumns),
                      width_v = p.dv.data == nullptr ? 0 : clamp_row(f.d_v - first, 0, kColumns), group = f.heads / f.kv_heads;
        for (int64_t x = 0; x < count; ++x) {
            for (int64_t c = 0; c < width_k; ++c) sums[0][x][c] = 0;
            for (int64_t c = 0; c < width_v; ++c) sums[1][x][c] = 0;
        }
        const KeyRange rows = rows_of_keys(f.rules.band, s, j, j + count - 1);
        for (int64_t h = kv * group; h < (kv + 1) * group; ++h)
            for (int64_t i = rows.first; i < rows.end; ++i) {
                Row row;
                if (!load_row(s, b, h, i, row)) continue;
                for (int64_t x = 0; x < count; ++x) {
                    Cell c;
                    if (j + x >= s.k_len || !cell(s, b, h, i, j + x, row, c)) continue;
                    add_scaled(sums[0][x], row.q + first, width_k, static_cast<double>(c.dproduct));
                    if (c.weight != 0) add_scaled(sums[1][x], row.dy + first, width_v, static_cast<double>(c.weight));
                }
            }
        for (int64_t x = 0; x < count; ++x) {
            if (width_k > 0) store_row(p.dk.at(b, kv, s.k_begin + j + x) + first, sums[0][x], width_k, 1);
            if (width_v > 0) store_row(p.dv.at(b, kv, s.k_begin + j + x) + first, sums[1][x], width_v, 1);
        }
    }

    void zero_key(int64_t b, int64_t kv, int64_t row) const {
        if (p.dk.data != nullptr) fill_row(p.dk.at(b, kv, row), forward().d_k, C(0));
        if (p.dv.data != nullptr) fill_row(p.dv.at(b, kv, row), forward().d_v, C(0));
    }

    void sink(int64_t h) const {
        const AttentionForward<T>& f = forward();
        double sum = 0;
        for (int64_t b = 0; b < f.batch; ++b) {
            const Sequence s = sequence_of(f.lengths, b);
            for (int64_t i = 0; i < s.q_len; ++i) {
                Row row;
                if (!load_row(s, b, h, i, row)) continue;
                const C weight = math::exp<C>(static_cast<C>(f.rules.sinks[h]) - row.lse);
                sum -= static_cast<double>(weight) * static_cast<double>(row.delta);
            }
        }
        p.dsinks[h] = static_cast<float>(sum);
    }

    void run_queries() const {
        constexpr int64_t kRows = 8;
        const AttentionForward<T>& f = forward();
        if (p.dq.data == nullptr && p.dbias == nullptr) return;
        const int64_t tiles = ceil_div(f.lengths.q_len, kRows);
        parallel_chunks(f.batch * f.heads * tiles, 1, [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t) {
                const int64_t b = t / tiles / f.heads, h = t / tiles % f.heads, i = t % tiles * kRows;
                const Sequence s = sequence_of(f.lengths, b);
                for (int64_t r = i; r < std::min(i + kRows, f.lengths.q_len); ++r) query(s, b, h, r);
            }
        });
    }

    void run_keys() const {
        const AttentionForward<T>& f = forward();
        if (p.dk.data == nullptr && p.dv.data == nullptr) return;
        const int64_t tiles = ceil_div(f.lengths.k_len, kKeys);
        parallel_chunks(f.batch * f.kv_heads * tiles, 1, [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t) {
                const int64_t b = t / tiles / f.kv_heads, kv = t / tiles % f.kv_heads, j = t % tiles * kKeys;
                const Sequence s = sequence_of(f.lengths, b);
                const int64_t most = f.lengths.k_offsets == nullptr ? f.lengths.k_len : s.k_len;
                const int64_t count = std::min(kKeys, std::min(most, s.k_len) - j);
                if (count > 0)
                    for (int64_t first = 0; first < std::max(f.d_k, f.d_v); first += kColumns) keys(s, b, kv, j, count, first);
                for (int64_t x = std::max<int64_t>(count, 0); x < std::min(kKeys, most - j); ++x)
                    zero_key(b, kv, s.k_begin + j + x);
            }
        });
    }

    void zero_unowned_rows() const {
        const AttentionForward<T>& f = forward();
        for (int64_t b = 0; b < f.batch; ++b) {
            if (f.lengths.q_offsets != nullptr && p.dq.data != nullptr) {
                const auto rows_of = [&](int64_t sequence) {
                    const Sequence s = sequence_of(f.lengths, sequence);
                    return std::pair(s.q_begin, s.q_len);
                };
                for_unowned_rows(f.batch, b, f.lengths.total_q, rows_of, [&](int64_t row) {
                    for (int64_t h = 0; h < f.heads; ++h) fill_row(p.dq.at(b, h, row), f.d_k, C(0));
                });
            }
            if (f.lengths.k_offsets != nullptr) {
                const auto rows_of = [&](int64_t sequence) {
                    const Sequence s = sequence_of(f.lengths, sequence);
                    return std::pair(s.k_begin, s.k_len);
                };
                for_unowned_rows(f.batch, b, f.lengths.total_k, rows_of, [&](int64_t row) {
                    for (int64_t kv = 0; kv < f.kv_heads; ++kv) zero_key(b, kv, row);
                });
            }
        }
    }

    void run() const {
        run_queries();
        run_keys();
    }

    // dbias of what is hidden, in all.
    void zero_dbias() const {
        const AttentionForward<T>& f = forward();
        if (p.dbias == nullptr) return;
        const int64_t row_bytes = f.lengths.k_len * static_cast<int64_t>(sizeof(T));
        split_ranges(f.batch * f.heads * f.lengths.q_len, grain_for(row_bytes), [&](int64_t begin, int64_t end) {
            memset(static_cast<char*>(p.dbias) + begin * row_bytes, 0, static_cast<size_t>((end - begin) * row_bytes));
        });
    }

    // Writes rows between sequences, and dsinks: no sequence's task does.
    void run_rest() const {
        zero_unowned_rows();
        if (p.dsinks != nullptr && forward().rules.sinks != nullptr)
            parallel_chunks(forward().heads, 1, [&](int64_t begin, int64_t end) {
                for (int64_t h = begin; h < end; ++h) sink(h);
            });
    }
};

}  // namespace bk::attention_cpu

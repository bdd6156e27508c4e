// SPDX-License-Identifier: Apache-2.0
// Fused attention on the CPU, row by row: the online softmax of attention/flash/problem.h over blocks of keys, with sums
// in f64. It needs no memory but the stack, whatever the head dimension.
#pragma once

#include <utility>

#include "attention/flash/rows_cpu.h"

namespace bk::attention_cpu {

template <class T>
struct ForwardRows {
    using C = compute_t<T>;
    static constexpr int64_t kKeys = 128, kColumns = 1024;

    const AttentionForward<T>& p;
    uint64_t seed;

    // Scores of keys [j, j + count) of row i; hidden ones are -inf. Returns whether all visible ones are finite or -inf.
    bool scores(const Sequence& s, int64_t b, int64_t h, int64_t i, int64_t j, int64_t count, C* to) const {
        const T* const q = p.q.at(b, h, s.q_begin + i);
        bool is_ordinary = true;
        for (int64_t x = 0; x < count; ++x) {
            to[x] = -C(INFINITY);
            if (!shows_key(p.rules, s, b, h, i, j + x)) continue;
            const C addend = score_addend<T, C>(p.rules, b, h, i, j + x);
            if (addend == -C(INFINITY)) continue;
            to[x] = capped_score<C>(p.rules, dot(q, key_row(p.k, p.lengths, s, b, p.kv_head_of(h), j + x), p.d_k)) + addend;
            is_ordinary &= to[x] < C(INFINITY);
        }
        return is_ordinary;
    }

    void empty_row(int64_t b, int64_t h, int64_t row) const {
        if (p.y.data != nullptr) fill_row(p.y.at(b, h, row), p.d_v, C(0));
        store_lse<T>(p.lse, b, h, row, static_cast<C>(p.lse.empty));
    }

    struct Statistics {
        C max;
        double sum;
        bool is_empty;
    };

    // Accumulates columns [first, first + count) of the values; true unless the row is NaN.
    bool accumulate(const Sequence& s, int64_t b, int64_t h, int64_t i, int64_t first, int64_t count, double* o,
                    Statistics& row) const {
        const KeyRange keys = keys_of_rows(p.rules.band, s, i, i);
        row = {-C(INFINITY), 0, true};
        for (int64_t x = 0; x < count; ++x) o[x] = 0;
        C score[kKeys];
        for (int64_t j = keys.first; j < keys.end; j += kKeys) {
            const int64_t block = std::min(kKeys, keys.end - j);
            if (!scores(s, b, h, i, j, block, score)) return false;
            C max = row.max;
            for (int64_t x = 0; x < block; ++x) max = std::max(max, score[x]);
            if (max == -C(INFINITY)) continue;
            row.is_empty = false;
            if (max > row.max) {
                const double factor = static_cast<double>(math::exp<C>(row.max - max));
                row.sum *= factor;
                for (int64_t x = 0; x < count; ++x) o[x] *= factor;
                row.max = max;
            }
            for (int64_t x = 0; x < block; ++x) {
                if (score[x] == -C(INFINITY)) continue;
                double e = static_cast<double>(math::exp<C>(score[x] - max));
                row.sum += e;
                if (p.rules.dropout.probability > 0)
                    e *= static_cast<double>(dropout_factor(p.rules.dropout, seed, b, h, i, j + x));
                if (e != 0) add_scaled(o, key_row(p.v, p.lengths, s, b, p.kv_head_of(h), j + x) + first, count, e);
            }
        }
        if (p.rules.sinks == nullptr || row.is_empty) return true;
        const C sink = static_cast<C>(p.rules.sinks[h]);
        if (!(sink < C(INFINITY))) return false;
        if (sink > row.max) {
            const double factor = static_cast<double>(math::exp<C>(row.max - sink));
            row.sum *= factor;
            for (int64_t x = 0; x < count; ++x) o[x] *= factor;
            row.max = sink;
        }
        row.sum += static_cast<double>(math::exp<C>(sink - row.max));
        return true;
    }

    void store_weights(const Sequence& s, int64_t b, int64_t h, int64_t i, const Statistics& row, bool is_number) const {
        if (p.weights.values == Values::kNone) return;
        const int64_t at = ((b * p.heads + h) * p.lengths.q_len + i) * p.lengths.k_len;
        C score[kKeys];
        for (int64_t j = 0; j < p.lengths.k_len; j += kKeys) {
            const int64_t block = std::min(kKeys, p.lengths.k_len - j), known = std::min(block, s.k_len - j);
            if (known > 0 && i < s.q_len) scores(s, b, h, i, j, known, score);
            for (int64_t x = 0; x < block; ++x) {
                C weight = 0;
                if (x < known && i < s.q_len && score[x] != -C(INFINITY))
                    weight =
                        is_number ? static_cast<C>(static_cast<double>(math::exp<C>(score[x] - row.max)) / row.sum) : C(NAN);
                store_weight<T>(p.weights, at + j + x, weight);
            }
        }
    }

    void row(const Sequence& s, int64_t b, int64_t h, int64_t i) const {
        double o[kColumns];
        Statistics row{-C(INFINITY), 0, true};
        if (i >= s.q_len) {
            if (p.lengths.q_offsets == nullptr) empty_row(b, h, i);
            return store_weights(s, b, h, i, row, true);
        }
        bool is_number = true;
        int64_t first = 0;
        do {
            const int64_t count = std::min(kColumns, p.d_v - first);
            is_number = accumulate(s, b, h, i, first, count, o, row);
            if (p.y.data == nullptr) break;
            T* const y = p.y.at(b, h, s.q_begin + i) + first;
            if (is_number)
                store_row(y, o, count, row.is_empty ? 0 : 1 / row.sum);
            else
                fill_row(y, count, C(NAN));
            first += kColumns;
        } while (first < p.d_v);
        const C lse = row.is_empty ? static_cast<C>(p.lse.empty) : row.max + static_cast<C>(std::log(row.sum));
        store_lse<T>(p.lse, b, h, s.q_begin + i,
                     !is_number                        ? C(NAN)
                     : row.is_empty || !p.lse.is_base2 ? lse
                                                       : static_cast<C>(static_cast<double>(lse) / kLn2));
        store_weights(s, b, h, i, row, is_number);
    }

    void run() const {
        constexpr int64_t kRows = 8;
        const int64_t tiles = ceil_div(p.lengths.q_len, kRows);
        parallel_chunks(p.batch * p.heads * tiles, 1, [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t) {
                const int64_t b = t / tiles / p.heads, h = t / tiles % p.heads, i = t % tiles * kRows;
                const Sequence s = sequence_of(p.lengths, b);
                for (int64_t r = i; r < std::min(i + kRows, p.lengths.q_len); ++r) row(s, b, h, r);
            }
        });
        fill_unowned_rows();
    }

    void fill_unowned_rows() const {
        if (p.lengths.q_offsets == nullptr) return;
        const auto rows_of = [&](int64_t b) {
            const Sequence s = sequence_of(p.lengths, b);
            return std::pair(s.q_begin, s.q_len);
        };
        for (int64_t b = 0; b < p.batch; ++b)
            for_unowned_rows(p.batch, b, p.lengths.total_q, rows_of, [&](int64_t row) {
                for (int64_t h = 0; h < p.heads; ++h) empty_row(b, h, row);
            });
    }
};

}  // namespace bk::attention_cpu

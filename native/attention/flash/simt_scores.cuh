// SPDX-License-Identifier: Apache-2.0
// Tiles of scores of fused attention on FMA: rules, visibility and dropout of a thread's scores, and the order of tiles.
// Rows of a tile are queries and its columns keys, or the other way where kKeysAreRows is set.
#pragma once

#include <cmath>
#include <cstdint>

#include "attention/flash/problem.h"
#include "attention/flash/scores.h"
#include "attention/flash/simt_tile.cuh"
#include "core/math/math.h"

namespace bk::attention_simt {

constexpr double kLog2E = 1.44269504088896340736, kLn2 = 0.69314718055994530942;

template <class C>
BK_DEVICE C minus_infinity() {
    return -static_cast<C>(INFINITY);
}

// exp; f32 by exp2 of the product, whose rounding costs |x| 2^-24.
template <class C>
BK_DEVICE C exponential(C x) {
    if constexpr (std::is_same_v<C, double>)
        return ::exp(x);
    else
        return math::exp2<bf16>(x * static_cast<float>(kLog2E));
}

// The larger operand; the other one where one is NaN.
BK_DEVICE float larger(float a, float b) { return ::fmaxf(a, b); }
BK_DEVICE double larger(double a, double b) { return ::fmax(a, b); }

// Whether scores are scale q.k within the band, and no more.
inline bool has_plain_scores(const ScoreRules& rules) {
    return rules.softcap == 0 && rules.slopes == nullptr && rules.bias.values == Values::kNone &&
           rules.mask.values == Values::kNone && rules.blocks.blocks == nullptr;
}

// A tile of scores: its sequence and head, its first row and column, and the columns that the band shows to all its rows.
struct ScoreTile {
    Sequence s;
    int64_t b, h, row, column;
    KeyRange whole;

    BK_DEVICE bool is_whole() const { return column >= whole.first && column + kColumns <= whole.end; }
};

// Columns that some row of [first, last] sees by the band.
template <bool kKeysAreRows>
BK_DEVICE KeyRange columns_of_rows(const Band& band, const Sequence& s, int64_t first, int64_t last) {
    return kKeysAreRows ? rows_of_keys(band, s, first, last) : keys_of_rows(band, s, first, last);
}

// The columns that the band shows to all rows of a tile; none if the tile has rows beyond its sequence.
template <bool kKeysAreRows>
BK_DEVICE KeyRange columns_of_all_rows(const Band& band, const ScoreTile& tile, int rows) {
    const int64_t last = tile.row + rows - 1;
    if (last >= (kKeysAreRows ? tile.s.k_len : tile.s.q_len)) return {0, 0};
    return {columns_of_rows<kKeysAreRows>(band, tile.s, last, last).first,
            columns_of_rows<kKeysAreRows>(band, tile.s, tile.row, tile.row).end};
}

// Whether a block of the mask that touches the tile is visible; for all threads of a block.
template <bool kKeysAreRows>
BK_DEVICE bool has_visible_block(const BlockMask& mask, const ScoreTile& tile, int rows) {
    const auto last = [](int64_t first, int count, int64_t length) {
        return (first + count < length ? first + count : length) - 1;
    };
    const int64_t i = kKeysAreRows ? tile.column : tile.row, j = kKeysAreRows ? tile.row : tile.column;
    const int64_t first_i = i / mask.size, first_j = j / mask.size;
    const int64_t count_i = last(i, kKeysAreRows ? kColumns : rows, tile.s.q_len) / mask.size - first_i + 1,
                  count_j = last(j, kKeysAreRows ? rows : kColumns, tile.s.k_len) / mask.size - first_j + 1;
    const uint8_t* const blocks = mask.blocks + tile.b * mask.batch + tile.h * mask.head + first_i * mask.row + first_j;
    int any = 0;
    for (int64_t x = threadIdx.x; x < count_i * count_j; x += kThreads) any |= blocks[x / count_j * mask.row + x % count_j];
    return __syncthreads_or(any);
}

// Replaces q.k of a thread's elements by scores, hidden ones -inf, by all rules. `slope` receives the derivatives if it
// is not null.
template <bool kKeysAreRows, class T, int kRows>
BK_DEVICE_COLD void apply_rules(const ScoreRules& rules, const ScoreTile& tile, compute_t<T>* score, compute_t<T>* slope) {
    using C = compute_t<T>;
    const int64_t row = tile.row + team() * kRows, column = tile.column + lane() * kOwn;
#pragma unroll 1
    for (int x = 0; x < kRows * kOwn; ++x) {
        const int64_t i = kKeysAreRows ? column + x % kOwn : row + x / kOwn,
                      j = kKeysAreRows ? row + x / kOwn : column + x % kOwn;
        C value = minus_infinity<C>(), derivative = 0;
        if (i < tile.s.q_len && j < tile.s.k_len && shows_key(rules, tile.s, tile.b, tile.h, i, j)) {
            const C addend = score_addend<T, C>(rules, tile.b, tile.h, i, j);
            if (addend != minus_infinity<C>()) {
                const C capped = capped_score<C>(rules, score[x]);
                value = capped + addend;
                derivative = capped_slope<C>(rules, capped);
            }
        }
        score[x] = value;
        if (slope != nullptr) slope[x] = derivative;
    }
}

// Dropout factors of a thread's elements.
template <bool kKeysAreRows, int kRows>
BK_DEVICE_COLD void dropout_factors(const Dropout& dropout, uint64_t seed, const ScoreTile& tile, float* factor) {
    const int64_t row = tile.row + team() * kRows, column = tile.column + lane() * kOwn;
#pragma unroll 1
    for (int x = 0; x < kRows * kOwn; x += 4) {
        if constexpr (kKeysAreRows) {
            const int key = x / 16 * 4, query = x / 4 % kOwn;
            const auto four = dropout_factors_of_four(dropout, seed, tile.b, tile.h, column + query, (row + key) / 4);
            for (int e = 0; e < 4; ++e) factor[(key + e) * kOwn + query] = four.of[e];
        } else {
            const auto four = dropout_factors_of_four(dropout, seed, tile.b, tile.h, row + x / kOwn, column / 4);
            for (int e = 0; e < 4; ++e) factor[x + e] = four.of[e];
        }
    }
}

// Scores of a thread by scale and band alone.
template <bool kKeysAreRows, int kRows, class C>
BK_DEVICE void scale_scores(const ScoreRules& rules, const ScoreTile& tile, C (&score)[kRows][kOwn]) {
    const C scale = static_cast<C>(rules.scale);
    BK_UNROLL
    for (int r = 0; r < kRows; ++r)
        for (int c = 0; c < kOwn; ++c) score[r][c] *= scale;
    if (tile.is_whole()) return;
    const int64_t row = tile.row + team() * kRows, column = tile.column + lane() * kOwn;
    const int64_t rows = kKeysAreRows ? tile.s.k_len : tile.s.q_len;
    BK_UNROLL
    for (int r = 0; r < kRows; ++r) {
        const KeyRange range = columns_of_rows<kKeysAreRows>(rules.band, tile.s, row + r, row + r);
        const int first = static_cast<int>(clamp_row(range.first - column, 0, kOwn)),
                  end = row + r < rows ? static_cast<int>(clamp_row(range.end - column, 0, kOwn)) : 0;
        BK_UNROLL
        for (int c = 0; c < kOwn; ++c)
            if (c < first || c >= end) score[r][c] = minus_infinity<C>();
    }
}

// Scores of a thread from its products q.k; `slope` has no meaning for plain ones.
template <bool kKeysAreRows, class T, int kRows>
BK_DEVICE void finish_scores(const ScoreRules& rules, bool is_plain, const ScoreTile& tile, compute_t<T> (&score)[kRows][kOwn],
                             compute_t<T>* slope = nullptr) {
    if (is_plain) return scale_scores<kKeysAreRows>(rules, tile, score);
    compute_t<T> own[kRows * kOwn];
    BK_UNROLL
    for (int x = 0; x < kRows * kOwn; ++x) own[x] = score[x / kOwn][x % kOwn];
    const ScoreTile copy = tile;  // whose address a call takes
    apply_rules<kKeysAreRows, T, kRows>(rules, copy, own, slope);
    BK_UNROLL
    for (int x = 0; x < kRows * kOwn; ++x) score[x / kOwn][x % kOwn] = own[x];
}

// Order of the blocks: tiles of rows, each with all its chunks of columns, of all heads of a section whose keys and values fit
// in the L2 cache, then the next section. A band gives the last tiles the most keys, so they start first.
struct TileOrder {
    int64_t heads, tiles, chunks, section;  // heads: of all batches
    bool is_descending;

    struct Item {
        int64_t head, tile, chunk;
    };

    BK_HD int64_t total() const { return heads * tiles * chunks; }
    BK_HD Item at(int64_t work) const {
        const int64_t first = work / (section * tiles * chunks) * section;
        const int64_t wide = heads - first < section ? heads - first : section;
        const int64_t in_section = work - first * tiles * chunks;
        const int64_t step = in_section / (wide * chunks), rest = in_section % (wide * chunks);
        return {first + rest / chunks, is_descending ? tiles - 1 - step : step, rest % chunks};
    }
};

// The order of `heads` heads with `rows` rows each, in tiles of tile_rows, and `columns` output columns in chunks of `width`.
// Beside each head `bytes` stay in the cache.
inline TileOrder tile_order(int64_t heads, int64_t rows, int64_t tile_rows, int64_t columns, int64_t width, int64_t bytes,
                            bool is_descending) {
    constexpr int64_t kCacheBytes = int64_t{16} << 20;
    const auto at_least_one = [](int64_t x) { return x < 1 ? int64_t{1} : x; };
    const int64_t section = at_least_one(kCacheBytes / at_least_one(bytes));
    return {heads, at_least_one(ceil_div(rows, tile_rows)), at_least_one(ceil_div(columns, width)),
            section < heads ? section : at_least_one(heads), is_descending};
}

inline Grid grid_of(const TileOrder& order) {
    const int64_t total = order.total();
    return {dim3(static_cast<unsigned>(total < kMaxGridX ? total : kMaxGridX)), dim3(kThreads)};
}

// Whether each row of a view begins at a multiple of four elements.
template <class E>
bool has_vector_rows(const HeadsView<E>& view) {
    return reinterpret_cast<uintptr_t>(view.data) % (4 * sizeof(E)) == 0 && view.batch % 4 == 0 && view.head % 4 == 0 &&
           view.row % 4 == 0;
}

// Rows of a packed tensor that no sequence owns, those before the first sequence or between the end of sequence b and the
// begin of the next. fill(row) is called for number `share` of `shares` equal parts of them.
template <class Fill>
BK_DEVICE void for_unowned_rows(const int32_t* offsets, int64_t batch, int64_t b, int64_t end_of_b, int64_t total,
                                int64_t share, int64_t shares, const Fill& fill) {
    const int64_t first = b == 0 ? clamp_row(offsets[0], 0, total) : 0;
    for (int64_t row = share; row < first; row += shares) fill(row);
    const int64_t next = b + 1 < batch ? clamp_row(offsets[b + 1], end_of_b, total) : total;
    for (int64_t row = end_of_b + share; row < next; row += shares) fill(row);
}

template <class T>
BK_DEVICE void zero_row(T* row, int64_t extent) {
    for (int64_t x = threadIdx.x; x < extent; x += kThreads) row[x] = narrow<T>(0);
}

}  // namespace bk::attention_simt

// SPDX-License-Identifier: Apache-2.0
// Forward attention by mma.sync (FlashAttention-2, Dao 2023): a block of four warps keeps 64 or 128 query rows in shared
// memory, and goes through the keys by tiles of 64 or 32 with an online softmax. S = q K^T and O = P V stay in registers.
//
// K and V have a buffer each: V of a tile is loaded under S and the softmax, K of the next one under P V. Tiles that the
// band or the block mask hide are skipped; the band is applied to tiles at its edges only. kIsGeneral adds the other rules
// of scores.h. Blocks with the most keys run first if the band is causal.
#pragma once

#include <cstdint>

#include "attention/sm80/rows.cuh"
#include "attention/sm80/score_rules.cuh"
#include "attention/sm80/softmax.cuh"
#include "attention/sm80/tile.cuh"
#include "core/intrinsics/dependent_launch.cuh"

namespace bk::sm80 {

constexpr int kThreads = 128, kWarps = 4, kStateBytes = 128;

template <class T>
struct ForwardMma {
    AttentionForward<T> p;
    int group;       // query heads that share a tile
    int kv_group;    // query heads of a key head
    int tiles;       // row tiles of `group` heads
    int sets;        // batch * heads / group
    int section;     // sets whose tiles run at the same time, so that their keys stay in L2; 0: in the order of items
    int split_keys;  // keys of a split; 0: a split has its share of the tile's keys
    bool copies_q, copies_k, copies_v, stores_pairs;
    FastDiv<uint32_t> page_size;
    Partials partials;
};

template <int kDk, int kDv, bool kIsGeneral>
struct ForwardShape {
    static constexpr int kRowTiles = !kIsGeneral && kDk <= 128 ? 2 : 1;  // of 16 rows, of a warp
    static constexpr int kRows = 16 * kWarps * kRowTiles;
    static constexpr int kKeys = kIsGeneral && kDv > 128 ? 32 : 64;  // as registers allow
    static constexpr int kKeyTiles = kKeys / 8, kValueTiles = kDv / 8;
    static constexpr int kQBytes = kTileBytes<kRows, kDk>, kKBytes = kTileBytes<kKeys, kDk>, kVBytes = kTileBytes<kKeys, kDv>;
    static constexpr int kBytes = kQBytes + kKBytes + kVBytes + kStateBytes;
};

// State that all threads of a block use rarely: in shared memory, since registers are scarce.
struct ForwardState {
    QueryRows queries;
    KeyBand band;
    int first_row, split;
    int64_t item;                    // number of the row tile
    Span some[kWarps], all[kWarps];  // keys that some row of a warp sees, and those that all its rows see
};
static_assert(sizeof(ForwardState) <= kStateBytes, "behind the tiles");

template <class T, int kDk, int kDv, bool kIsGeneral>
class ForwardBlock {
    using Shape = ForwardShape<kDk, kDv, kIsGeneral>;
    static constexpr int kRowTiles = Shape::kRowTiles, kKeys = Shape::kKeys;

public:
    BK_DEVICE ForwardBlock(const ForwardMma<T>& g, char* shared, ForwardState* state, const Sequence& s, int b, int kv_head)
        : g_(g),
          queries_(state->queries),
          band_(state->band),
          block_(*state),
          q_(shared),
          k_(shared + Shape::kQBytes),
          v_(k_ + Shape::kKBytes),
          keys_(g.p.k, g.p.lengths, g.page_size, s, b, kv_head),
          values_(g.p.v, g.p.lengths, g.page_size, s, b, kv_head),
          thread_(static_cast<int>(threadIdx.x)) {}

    BK_DEVICE void run() {
        const int i_first = queries_.query(block_.first_row),
                  i_last = queries_.query(min(block_.first_row + Shape::kRows, queries_.rows) - 1);
        const int end = (band_.keys.end + kKeys - 1) / kKeys;
        int tile = next_tile(band_.keys.first / kKeys, end, i_first, i_last);
        load_queries();
        set_spans();
        if (tile < end) load_keys(tile);
        end_copy_group();

#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
            clear(output_[m]);
            state_[m][0] = state_[m][1] = {-kInfinity<float>, 0};
        }
#pragma unroll 1
        while (tile < end) {
            const int j0 = tile * kKeys;
            wait_for_copies<0>();
            __syncthreads();
            const Span some = block_.some[thread_ / 32], all = block_.all[thread_ / 32];
            const bool sees = j0 < some.end && j0 + kKeys > some.first;
            const bool is_edge = j0 < all.first || j0 + kKeys > all.end;
            load_values(tile);
            end_copy_group();
            if (sees) {
                multiply_queries();
                soften_all(j0, is_edge);
            }
            tile = next_tile(tile + 1, end, i_first, i_last);
            wait_for_copies<0>();
            __syncthreads();
            if (tile < end) load_keys(tile);
            end_copy_group();
            if (sees) multiply_values();
        }
        wait_for_copies<0>();
        store_all();
    }

private:
    BK_DEVICE int warp_row() const { return block_.first_row + thread_ / 32 * 16 * kRowTiles; }

    BK_DEVICE void set_spans() {
        const int first = warp_row(), last = min(first + 16 * kRowTiles, queries_.rows) - 1;
        if (thread_ % 32 != 0) return;
        const int i_first = queries_.query(first), i_last = queries_.query(last);
        block_.some[thread_ / 32] = first < queries_.rows ? band_.of_rows(i_first, i_last) : Span{0, 0};
        block_.all[thread_ / 32] = {band_.of_rows(i_last, i_last).first, band_.of_rows(i_first, i_first).end};
    }

    BK_DEVICE int next_tile(int tile, int end, int i_first, int i_last) const {
        if constexpr (kIsGeneral) {
            const BlockMask& blocks = g_.p.rules.blocks;
            if (queries_.group == 1 || blocks.head == 0)
                while (tile < end && hides_tile(blocks, queries_.b, queries_.head, i_first, i_last, tile * kKeys,
                                                min(tile * kKeys + kKeys, keys_.k_len) - 1))
                    ++tile;
        }
        return tile;
    }

    BK_DEVICE void load_queries() {
        fill_tile<Shape::kRows, kDk, kThreads>(
            q_, thread_, static_cast<int>(g_.p.d_k), g_.copies_q, g_.p.q.data, [&](int r) -> const T* {
                const int row = block_.first_row + r;
                if (row >= queries_.rows) return nullptr;
                return g_.p.q.at(queries_.b, queries_.head_of(row), queries_.begin + queries_.query(row));
            });
    }

    BK_DEVICE void load_keys(int tile) {
        fill_tile<kKeys, kDk, kThreads>(k_, thread_, static_cast<int>(g_.p.d_k), g_.copies_k, g_.p.k.data,
                                        [&](int r) { return keys_.row(tile * kKeys + r); });
    }

    BK_DEVICE void load_values(int tile) {
        fill_tile<kKeys, kDv, kThreads>(v_, thread_, static_cast<int>(g_.p.d_v), g_.copies_v, g_.p.v.data,
                                        [&](int r) { return values_.row(tile * kKeys + r); });
    }

    BK_DEVICE void multiply_queries() {
        const int lane = thread_ % 32, base = fragment_base<kDk>(0, lane);
        const char* const q = q_ + thread_ / 32 * (16 * kRowTiles * kDk * 2);
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) clear(scores_[m]);
#pragma unroll
        for (int step = 0; step < kDk / 16; ++step) {
            uint32_t a[kRowTiles][4];
#pragma unroll
            for (int m = 0; m < kRowTiles; ++m) ldmatrix_x4(a[m], q + fragment_offset<kDk>(base, m, step));
#pragma unroll
            for (int n = 0; n < kKeys / 16; ++n) {
                uint32_t b[2][2];
                load_b(b[0], b[1], k_ + fragment_offset<kDk>(base, n, step));
#pragma unroll
                for (int m = 0; m < kRowTiles; ++m) {
                    Mma<T>::run(scores_[m][2 * n], a[m], b[0]);
                    Mma<T>::run(scores_[m][2 * n + 1], a[m], b[1]);
                }
            }
        }
    }

    BK_DEVICE void multiply_values() {
        const int base = fragment_base<kDv>(0, thread_ % 32);
#pragma unroll
        for (int step = 0; step < kKeys / 16; ++step) {
            uint32_t a[kRowTiles][4];
#pragma unroll
            for (int m = 0; m < kRowTiles; ++m) pack_a<T>(a[m], scores_[m][2 * step], scores_[m][2 * step + 1]);
#pragma unroll
            for (int n = 0; n < kDv / 16; ++n) {
                uint32_t b[2][2];
                load_b_transposed(b[0], b[1], v_ + fragment_offset<kDv>(base, step, n));
#pragma unroll
                for (int m = 0; m < kRowTiles; ++m) {
                    Mma<T>::run(output_[m][2 * n], a[m], b[0]);
                    Mma<T>::run(output_[m][2 * n + 1], a[m], b[1]);
                }
            }
        }
    }

    // The lane's row of a half of row tile m, at most the last one.
    BK_DEVICE int row_of(int m, int half) const {
        const int row = block_.first_row + (thread_ / 32 * kRowTiles + m) * 16 + thread_ % 32 / 4 + 8 * half;
        return min(row, queries_.rows - 1);
    }

    BK_DEVICE void soften_all(int j0, bool is_edge) {
        const float unit = kIsGeneral ? 1.0f : g_.p.rules.scale * kLog2e;
        const int column = thread_ % 4 * 2;
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
            RowsAreQueries at{queries_.b, {}, {}, j0 + column};
            if constexpr (kIsGeneral) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    at.query[half] = queries_.query(row_of(m, half));
                    at.head[half] = queries_.head_of(row_of(m, half));
                }
                float none[1][4];
                apply_score_rules<T, false>(g_.p.rules, at.query[1], keys_.k_len - 1, at, scores_[m], none);
            }
            if (is_edge) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int i = queries_.query(row_of(m, half));
                    const Span seen = band_.of_rows(i, i);
#pragma unroll
                    for (int n = 0; n < Shape::kKeyTiles; ++n)
#pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const int j = j0 + column + 8 * n + v;
                            if (j < seen.first || j >= seen.end) scores_[m][n][2 * half + v] = -kInfinity<float>;
                        }
                }
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float factor = soften(scores_[m], half, unit, state_[m][half], -kInfinity<float>, g_.split_keys > 0);
#pragma unroll
                for (int n = 0; n < Shape::kValueTiles; ++n) {
                    output_[m][n][2 * half] *= factor;
                    output_[m][n][2 * half + 1] *= factor;
                }
            }
            if constexpr (kIsGeneral)
                if (g_.p.rules.dropout.probability > 0)
                    apply_dropout(g_.p.rules.dropout, *g_.p.rules.dropout.seed, at, scores_[m]);
        }
    }

    BK_DEVICE void store_all() {
        const int lane = thread_ % 32, d_v = static_cast<int>(g_.p.d_v);
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                RowState state = state_[m][half];
                state.sum = quad_sum(state.sum);
                if constexpr (!kIsGeneral) state.max *= g_.p.rules.scale * kLog2e;
                const int row = warp_row() + 16 * m + lane / 4 + 8 * half;
                if (row >= queries_.rows) continue;
                const int i = queries_.query(row), h = queries_.head_of(row);
                if (g_.partials.splits > 1)
                    store_partial(state, m, half, row, d_v);
                else
                    store_row(state, m, half, i, h, d_v);
            }
    }

    BK_DEVICE void store_row(const RowState& state, int m, int half, int i, int h, int d_v) {
        const RowResult result = finish_row(state, g_.p.rules.sinks, h);
        const int lane = thread_ % 32;
        if (lane % 4 == 0) store_lse<T>(g_.p.lse, queries_.b, h, queries_.begin + i, result.log2_sum, result.is_empty);
        T* const y = g_.p.y.at(queries_.b, h, queries_.begin + i);
#pragma unroll
        for (int n = 0; n < Shape::kValueTiles; ++n)
            store_two(y, 8 * n + lane % 4 * 2, d_v, g_.stores_pairs, result.of(output_[m][n][2 * half]),
                      result.of(output_[m][n][2 * half + 1]));
    }

    BK_DEVICE void store_partial(const RowState& state, int m, int half, int row, int d_v) {
        const int64_t part = g_.partials.index(block_.item, row - block_.first_row) + block_.split;
        const bool is_empty = state.is_empty();
        const int lane = thread_ % 32;
        if (lane % 4 == 0) g_.partials.log2_sum[part] = is_empty ? -kInfinity<float> : state.log2_sum();
        if (is_empty) return;
        float* const to = g_.partials.output + part * d_v;
        const float factor = 1 / state.sum;
#pragma unroll
        for (int n = 0; n < Shape::kValueTiles; ++n)
#pragma unroll
            for (int v = 0; v < 2; ++v) {
                const int column = 8 * n + lane % 4 * 2 + v;
                if (column < d_v) to[column] = output_[m][n][2 * half + v] * factor;
            }
    }

    const ForwardMma<T>& g_;
    const QueryRows& queries_;
    const KeyBand& band_;
    ForwardState& block_;
    char *const q_, *const k_, *const v_;
    const KeyRows<T> keys_, values_;
    const int thread_;
    float output_[kRowTiles][Shape::kValueTiles][4];
    float scores_[kRowTiles][Shape::kKeyTiles][4];
    RowState state_[kRowTiles][2];
};

// Finds the block's row tile of `rows_of_tile` rows and stores what its threads share. False behind the last row and in a
// split without keys, which is done then.
template <class T>
BK_DEVICE bool find_row_tile(const ForwardMma<T>& g, int rows_of_tile, int threads, ForwardState* state, Sequence* sequence) {
    unsigned index = blockIdx.x;
    const int split = static_cast<int>(index % static_cast<unsigned>(g.partials.splits));
    index /= static_cast<unsigned>(g.partials.splits);
    int set, tile;
    if (g.section == 0) {
        const int64_t item = g.partials.first_item + index;
        set = static_cast<int>(item / g.tiles), tile = static_cast<int>(item % g.tiles);
    } else {
        const unsigned in_section = static_cast<unsigned>(g.section) * static_cast<unsigned>(g.tiles);
        const int first_set = static_cast<int>(index / in_section) * g.section, section = min(g.section, g.sets - first_set);
        const int rest = static_cast<int>(index % in_section);
        set = first_set + rest % section, tile = g.tiles - 1 - rest / section;
    }
    const int sets_of_batch = static_cast<int>(g.p.heads) / g.group;
    const int b = set / sets_of_batch;
    const Sequence s = *sequence = sequence_of(g.p.lengths, b);
    const QueryRows queries{b, set % sets_of_batch * g.group, g.group, static_cast<int>(s.q_len) * g.group,
                            static_cast<int>(s.q_begin)};
    if (tile == 0 && split == 0) store_unowned_rows(g.p, b, queries.head, g.group, static_cast<int>(threadIdx.x), threads);
    const int first_row = tile * rows_of_tile;
    if (first_row >= queries.rows) return false;
    const int rows = min(rows_of_tile, queries.rows - first_row);
    const int64_t item = static_cast<int64_t>(set) * g.tiles + tile;
    KeyBand band(g.p.rules.band, s);
    band.keys = split_of(band.of_rows(queries.query(first_row), queries.query(first_row + rows - 1)), split, g.partials.splits,
                         g.split_keys);
    if (g.partials.splits > 1 && band.keys.first >= band.keys.end) {
        g.partials.store_empty(item, rows, split, static_cast<int>(threadIdx.x), threads);
        return false;
    }
    if (threadIdx.x == 0) *state = {queries, band, first_row, split, item, {}, {}};
    __syncthreads();
    allow_next_kernel();
    return true;
}

template <class T, int kDk, int kDv, bool kIsGeneral>
__global__ void __launch_bounds__(kThreads) attention_forward_kernel(const __grid_constant__ ForwardMma<T> g) {
    BK_LAUNCH_SHARED(uint4, shared);
    using Shape = ForwardShape<kDk, kDv, kIsGeneral>;
    char* const tiles = reinterpret_cast<char*>(shared);
    ForwardState* const state = reinterpret_cast<ForwardState*>(tiles + Shape::kBytes - kStateBytes);
    Sequence s;
    if (!find_row_tile(g, Shape::kRows, kThreads, state, &s)) return;
    ForwardBlock<T, kDk, kDv, kIsGeneral>(g, tiles, state, s, state->queries.b, state->queries.head / g.kv_group).run();
}

}  // namespace bk::sm80

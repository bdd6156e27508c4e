// SPDX-License-Identifier: Apache-2.0
// Forward attention of head dimensions beyond 256 by mma.sync, above all multi-head latent attention (MLA, DeepSeek-V2, Liu
// et al. 2024): all query heads read one latent vector of 576 elements a key, whose first 512 are its value.
//
// A block of eight warps keeps 64 query rows in shared memory and goes through the keys by tiles of 32. Warps w and w + 4
// have the same 16 rows. Each computes the scores of half of the tile's keys; maxima and probabilities are exchanged in
// shared memory; then each adds the products with half of the value columns.
//
// Values that are the first elements of their keys are not loaded: two buffers hold the tile and the next one. Otherwise the
// first buffer has keys and the second values.
#pragma once

#include <cstdint>

#include "attention/sm80/forward_mma.cuh"

namespace bk::sm80 {

struct WideShape {
    static constexpr int kDk = 576, kDv = 512, kRows = 64, kKeys = 32, kWarps = 8, kThreads = 32 * kWarps;
    static constexpr int kRowTiles = kRows / 16, kOwnKeys = kKeys / 2, kOwnColumns = kDv / 2, kValueTiles = kOwnColumns / 8;
    static constexpr int kQBytes = kTileBytes<kRows, kDk>, kBufferBytes = kTileBytes<kKeys, kDk>;
    static constexpr int kPBytes = kTileBytes<kRows, kKeys>, kExchangeBytes = 2 * kRows * static_cast<int>(sizeof(float));
    static constexpr int kRowBytes = 2 * 2 * kKeys * static_cast<int>(sizeof(void*));  // addresses of two tiles
    static constexpr int kBytes = kQBytes + 2 * kBufferBytes + kPBytes + kExchangeBytes + kRowBytes + kStateBytes;
};

template <class T>
class WideBlock {
    using Shape = WideShape;
    static constexpr int kKeys = Shape::kKeys;

public:
    BK_DEVICE WideBlock(const ForwardMma<T>& g, char* shared, const ForwardState& state, const Sequence& s, int kv_head)
        : g_(g),
          block_(state),
          q_(shared),
          buffers_(shared + Shape::kQBytes),
          p_(buffers_ + 2 * Shape::kBufferBytes),
          exchange_(reinterpret_cast<float*>(p_ + Shape::kPBytes)),
          rows_(reinterpret_cast<const T**>(p_ + Shape::kPBytes + Shape::kExchangeBytes)),
          keys_(g.p.k, g.p.lengths, g.page_size, s, state.queries.b, kv_head),
          values_(g.p.v, g.p.lengths, g.page_size, s, state.queries.b, kv_head),
          thread_(static_cast<int>(threadIdx.x)),
          row_tile_(thread_ / 32 % Shape::kRowTiles),
          half_(thread_ / 32 / Shape::kRowTiles),
          are_latent_(g.p.v.data == g.p.k.data && g.p.v.batch == g.p.k.batch && g.p.v.head == g.p.k.head &&
                      g.p.v.row == g.p.k.row && g.p.d_v <= g.p.d_k) {}

    BK_DEVICE void run() {
        const Span seen = block_.band.keys;
        const int end = (seen.end + kKeys - 1) / kKeys;
        int tile = seen.first / kKeys, buffer = 0;
        load_queries();
        find_rows(tile);
        __syncthreads();
        if (tile < end) load_keys(tile, buffer);
        end_copy_group();
        for (int half = 0; half < 2; ++half) {
            const int row = min(block_.first_row + 16 * row_tile_ + thread_ % 32 / 4 + 8 * half, block_.queries.rows - 1);
            at_.query[half] = block_.queries.query(row);
            at_.head[half] = block_.queries.head_of(row);
        }
        at_.b = block_.queries.b;
        clear(output_);
#pragma unroll 1
        for (; tile < end; ++tile) {
            find_rows(tile + 1);
            wait_for_copies<0>();
            __syncthreads();
            if (!are_latent_) load_values(tile);
            if (are_latent_ && tile + 1 < end) load_keys(tile + 1, 1 - buffer);
            end_copy_group();
            multiply_queries(buffers_ + buffer * Shape::kBufferBytes);
            soften_all(tile * kKeys);
            if (!are_latent_) wait_for_copies<0>();
            __syncthreads();
            if (!are_latent_ && tile + 1 < end) load_keys(tile + 1, 0);
            end_copy_group();
            multiply_values(buffers_ + (are_latent_ ? buffer : 1) * Shape::kBufferBytes);
            if (are_latent_) buffer = 1 - buffer;
        }
        wait_for_copies<0>();
        store_all();
    }

private:
    BK_DEVICE void load_queries() {
        fill_tile<Shape::kRows, Shape::kDk, Shape::kThreads>(
            q_, thread_, static_cast<int>(g_.p.d_k), g_.copies_q, g_.p.q.data, [&](int r) -> const T* {
                const QueryRows& queries = block_.queries;
                const int row = block_.first_row + r;
                if (row >= queries.rows) return nullptr;
                return g_.p.q.at(queries.b, queries.head_of(row), queries.begin + queries.query(row));
            });
    }

    BK_DEVICE void load_keys(int tile, int buffer) {
        fill_tile<kKeys, Shape::kDk, Shape::kThreads>(buffers_ + buffer * Shape::kBufferBytes, thread_,
                                                      static_cast<int>(g_.p.d_k), g_.copies_k, g_.p.k.data,
                                                      [&](int r) { return rows_[tile % 2 * 2 * kKeys + r]; });
    }

    // Stores where the keys and values of a tile are, null behind the last: a warp reads their pages once, and early.
    BK_DEVICE void find_rows(int tile) {
        if (thread_ >= kKeys) return;
        const T** const to = rows_ + tile % 2 * 2 * kKeys + thread_;
        to[0] = keys_.row(tile * kKeys + thread_);
        if (!are_latent_) to[kKeys] = values_.row(tile * kKeys + thread_);
    }

    // Values have the layout of keys.
    BK_DEVICE void load_values(int tile) {
        fill_tile<kKeys, Shape::kDk, Shape::kThreads>(buffers_ + Shape::kBufferBytes, thread_, static_cast<int>(g_.p.d_v),
                                                      g_.copies_v, g_.p.v.data,
                                                      [&](int r) { return rows_[(tile % 2 * 2 + 1) * kKeys + r]; });
    }

    BK_DEVICE void multiply_queries(const char* keys) {
        const int base = fragment_base<Shape::kDk>(0, thread_ % 32);
        const char* const q = q_ + row_tile_ * (16 * Shape::kDk * 2);
        const char* const k = keys + half_ * (Shape::kOwnKeys * Shape::kDk * 2);
        clear(scores_);
#pragma unroll 4
        for (int step = 0; step < Shape::kDk / 16; ++step) {
            uint32_t a[4], b[2][2];
            ldmatrix_x4(a, q + fragment_offset<Shape::kDk>(base, 0, step));
            load_b(b[0], b[1], k + fragment_offset<Shape::kDk>(base, 0, step));
            Mma<T>::run(scores_[0], a, b[0]);
            Mma<T>::run(scores_[1], a, b[1]);
        }
    }

    // Scores become probabilities, in shared memory as T: those of a row over the maximum of all the tile's keys.
    BK_DEVICE void soften_all(int j0) {
        const int lane = thread_ % 32, row = 16 * row_tile_ + lane / 4;
        at_.key = j0 + half_ * Shape::kOwnKeys + lane % 4 * 2;
        float none[1][4];
        apply_score_rules<T, false>(g_.p.rules, at_.query[1], keys_.k_len - 1, at_, scores_, none);
        each_element(scores_, [&](int n, int v, float score) {
            return block_.band.shows(at_.i(n, v), at_.j(n, v)) ? score : -kInfinity<float>;
        });
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float top = quad_max(fmaxf(fmaxf(scores_[0][2 * half], scores_[0][2 * half + 1]),
                                             fmaxf(scores_[1][2 * half], scores_[1][2 * half + 1])));
            if (lane % 4 == 0) exchange_[half_ * Shape::kRows + row + 8 * half] = top;
        }
        __syncthreads();
        float factor[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float other = exchange_[(1 - half_) * Shape::kRows + row + 8 * half];
            factor[half] = soften(scores_, half, 1.0f, state_[half], other);
        }
        if (__any_sync(kAllLanes, factor[0] != 1 || factor[1] != 1)) {
#pragma unroll
            for (int n = 0; n < Shape::kValueTiles; ++n)
#pragma unroll
                for (int v = 0; v < 4; ++v) output_[n][v] *= factor[v / 2];
        }
        if (g_.p.rules.dropout.probability > 0) apply_dropout(g_.p.rules.dropout, *g_.p.rules.dropout.seed, at_, scores_);
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int column = half_ * Shape::kOwnKeys + 8 * n + lane % 4 * 2;
                *reinterpret_cast<uint32_t*>(p_ + tile_offset<kKeys>(row + 8 * half, column / 8) + column % 8 * 2) =
                    pack_pair<T>(scores_[n][2 * half], scores_[n][2 * half + 1]);
            }
    }

    BK_DEVICE void multiply_values(const char* values) {
        const int lane = thread_ % 32, base = fragment_base<Shape::kDk>(0, lane);
        const int p_base = fragment_base<kKeys>(16 * row_tile_, lane);
#pragma unroll
        for (int step = 0; step < kKeys / 16; ++step) {
            uint32_t a[4];
            ldmatrix_x4(a, p_ + fragment_offset<kKeys>(p_base, 0, step));
#pragma unroll
            for (int n = 0; n < Shape::kOwnColumns / 16; ++n) {
                uint32_t b[2][2];
                load_b_transposed(b[0], b[1],
                                  values + fragment_offset<Shape::kDk>(base, step, half_ * (Shape::kOwnColumns / 16) + n));
                Mma<T>::run(output_[2 * n], a, b[0]);
                Mma<T>::run(output_[2 * n + 1], a, b[1]);
            }
        }
    }

    BK_DEVICE void store_all() {
        const int lane = thread_ % 32, d_v = static_cast<int>(g_.p.d_v);
        __syncthreads();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            state_[half].sum = quad_sum(state_[half].sum);
            if (lane % 4 == 0) exchange_[half_ * Shape::kRows + 16 * row_tile_ + lane / 4 + 8 * half] = state_[half].sum;
        }
        __syncthreads();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int r = 16 * row_tile_ + lane / 4 + 8 * half;
            if (block_.first_row + r >= block_.queries.rows) continue;
            const RowState state{state_[half].max, exchange_[r] + exchange_[Shape::kRows + r]};
            const bool stores_sum = half_ == 0 && lane % 4 == 0;
            if (g_.partials.splits > 1)
                store_partial(state, half, r, d_v, stores_sum);
            else
                store_row(state, half, d_v, stores_sum);
        }
    }

    BK_DEVICE int column_of(int n) const { return half_ * Shape::kOwnColumns + 8 * n + thread_ % 4 * 2; }

    BK_DEVICE void store_row(const RowState& state, int half, int d_v, bool stores_sum) {
        const int h = at_.head[half], row = block_.queries.begin + at_.query[half];
        const RowResult result = finish_row(state, g_.p.rules.sinks, h);
        if (stores_sum) store_lse<T>(g_.p.lse, at_.b, h, row, result.log2_sum, result.is_empty);
        T* const y = g_.p.y.at(at_.b, h, row);
#pragma unroll
        for (int n = 0; n < Shape::kValueTiles; ++n)
            store_two(y, column_of(n), d_v, g_.stores_pairs, result.of(output_[n][2 * half]),
                      result.of(output_[n][2 * half + 1]));
    }

    BK_DEVICE void store_partial(const RowState& state, int half, int r, int d_v, bool stores_sum) {
        const int64_t part = g_.partials.index(block_.item, r) + block_.split;
        const bool is_empty = state.is_empty();
        if (stores_sum) g_.partials.log2_sum[part] = is_empty ? -kInfinity<float> : state.log2_sum();
        if (is_empty) return;
        float* const to = g_.partials.output + part * d_v;
        const float factor = 1 / state.sum;
#pragma unroll
        for (int n = 0; n < Shape::kValueTiles; ++n)
#pragma unroll
            for (int v = 0; v < 2; ++v)
                if (column_of(n) + v < d_v) to[column_of(n) + v] = output_[n][2 * half + v] * factor;
    }

    const ForwardMma<T>& g_;
    const ForwardState& block_;
    char *const q_, *const buffers_, *const p_;
    float* const exchange_;  // of each half and row: the maximum of a tile, at the end the sum
    const T** const rows_;
    const KeyRows<T> keys_, values_;
    const int thread_, row_tile_, half_;
    const bool are_latent_;  // values are the first elements of keys
    RowsAreQueries at_{};
    RowState state_[2] = {{-kInfinity<float>, 0}, {-kInfinity<float>, 0}};
    float scores_[2][4], output_[Shape::kValueTiles][4];
};

template <class T>
__global__ void __launch_bounds__(WideShape::kThreads) attention_wide_kernel(const __grid_constant__ ForwardMma<T> g) {
    BK_LAUNCH_SHARED(uint4, shared);
    char* const tiles = reinterpret_cast<char*>(shared);
    ForwardState* const state = reinterpret_cast<ForwardState*>(tiles + WideShape::kBytes - kStateBytes);
    Sequence s;
    if (!find_row_tile(g, WideShape::kRows, WideShape::kThreads, state, &s)) return;
    WideBlock<T>(g, tiles, *state, s, state->queries.head / g.kv_group).run();
}

}  // namespace bk::sm80

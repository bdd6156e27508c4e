// SPDX-License-Identifier: Apache-2.0
// Fused attention on FMA: FlashAttention-2's forward pass (Dao 2023), a block a tile of query rows, with the online softmax
// of Milakov and Gimelshein (2018). Sums are f32, or f64 for f64. Output columns beyond 64 kOut are further blocks, which
// compute the scores again. Tiles of keys begin at multiples of 64 and each sum has one order, so that a row's bits depend
// on neither its batch nor the tile it is in.
#pragma once

#include <cstdint>

#include "attention/flash/simt_scores.cuh"

namespace bk::attention_simt {

// Parameters of the kernel.
template <class T>
struct ForwardProblem {
    AttentionForward<T> p;
    TileOrder order;
    bool has_plain_scores, q_has_vectors, k_has_vectors, v_has_vectors, y_has_vectors;
};

template <class T, int kRows, int kOut>
struct ForwardShared {
    using C = compute_t<T>;
    alignas(32) C coefficients[kColumns * kRows * kTeams];
    alignas(32) C staged[2 * kChunkElements<kRows, kOut>];
    const T* q[kRows * kTeams];
    const T *k[kColumns], *v[kColumns];
};

template <class T, int kRows, int kOut>
struct ForwardBlock {
    using C = compute_t<T>;
    static constexpr int kTileRows = kRows * kTeams;

    const ForwardProblem<T>& problem;
    ForwardShared<T, kRows, kOut>& shared;
    ScoreTile tile;
    int first_column;  // of the output
    C max[kRows], sum[kRows];

    BK_DEVICE const AttentionForward<T>& p() const { return problem.p; }
    BK_DEVICE int64_t row(int r) const { return tile.row + team() * kRows + r; }

    BK_DEVICE void find_queries() {
        const int r = static_cast<int>(threadIdx.x);
        const int64_t i = clamp_row(tile.row + r, 0, tile.s.q_len - 1);
        if (r < kTileRows) shared.q[r] = p().q.at(tile.b, tile.h, tile.s.q_begin + i);
    }

    BK_DEVICE void find_keys() {
        const int c = static_cast<int>(threadIdx.x) % kColumns;
        const bool is_key = static_cast<int>(threadIdx.x) < kColumns;
        const int64_t j = clamp_row(tile.column + c, 0, tile.s.k_len - 1);
        (is_key ? shared.k : shared.v)[c] =
            key_row(is_key ? p().k : p().v, p().lengths, tile.s, tile.b, p().kv_head_of(tile.h), j);
    }

    BK_DEVICE void scores(C (&score)[kRows][kOwn]) {
        find_keys();
        __syncthreads();
        const int d_k = static_cast<int>(p().d_k);
        multiply<kRows, kOut>(Rows<T>{shared.q, d_k, problem.q_has_vectors}, Rows<T>{shared.k, d_k, problem.k_has_vectors},
                              shared.staged, score);
        finish_scores<false, T, kRows>(p().rules, problem.has_plain_scores, tile, score);
    }

    // Combines a tile of scores with the maximum and sum of each row, whose output it rescales; scores become exponentials.
    BK_DEVICE void combine(C (&score)[kRows][kOwn], C (&y)[kRows][kOut * kOwn]) {
        BK_UNROLL
        for (int r = 0; r < kRows; ++r) {
            C top = larger(larger(score[r][0], score[r][1]), larger(score[r][2], score[r][3]));
            BK_UNROLL
            for (int distance = kLanes / 2; distance > 0; distance /= 2)
                top = larger(top, __shfl_xor_sync(0xffffffffu, top, distance));
            top = larger(top, max[r]);
            const C base = top == minus_infinity<C>() ? C(0) : top, factor = exponential(max[r] - base);
            max[r] = top;
            sum[r] *= factor;
            BK_UNROLL
            for (int c = 0; c < kOwn; ++c) {
                score[r][c] = exponential(score[r][c] - base);
                sum[r] += score[r][c];
            }
            BK_UNROLL
            for (int c = 0; c < kOut * kOwn; ++c) y[r][c] *= factor;
        }
    }

    BK_DEVICE void drop(C (&weight)[kRows][kOwn]) {
        float factor[kRows * kOwn];
        const Dropout& dropout = p().rules.dropout;
        const ScoreTile copy = tile;
        dropout_factors<false, kRows>(dropout, *dropout.seed, copy, factor);
        BK_UNROLL
        for (int x = 0; x < kRows * kOwn; ++x) weight[x / kOwn][x % kOwn] *= static_cast<C>(factor[x]);
    }

    // The rows' output, not yet divided by their sums; without kHasOutput those alone.
    template <bool kHasOutput>
    BK_DEVICE void attend(C (&y)[kRows][kOut * kOwn]) {
        BK_UNROLL
        for (int r = 0; r < kRows; ++r) {
            max[r] = minus_infinity<C>();
            sum[r] = 0;
            BK_UNROLL
            for (int c = 0; c < kOut * kOwn; ++c) y[r][c] = 0;
        }
        const int64_t last = (tile.row + kTileRows < tile.s.q_len ? tile.row + kTileRows : tile.s.q_len) - 1;
        const KeyRange keys = keys_of_rows(p().rules.band, tile.s, tile.row, last);
        const Rows<T> values{shared.v, static_cast<int>(p().d_v), problem.v_has_vectors};
        for (tile.column = keys.first / kColumns * kColumns; tile.column < keys.end; tile.column += kColumns) {
            if (p().rules.blocks.blocks != nullptr && !has_visible_block<false>(p().rules.blocks, tile, kTileRows)) continue;
            C score[kRows][kOwn];
            scores(score);
            combine(score, y);
            if (!kHasOutput || p().y.data == nullptr) continue;
            if (p().rules.dropout.probability > 0) drop(score);
            store_coefficients<kRows>(shared.coefficients, score);
            const int64_t left = keys.end - tile.column;
            accumulate<kRows, kOut>(shared.coefficients, values, first_column,
                                    left < kColumns ? static_cast<int>(left) : kColumns, shared.staged, y);
        }
        BK_UNROLL
        for (int r = 0; r < kRows; ++r) sum[r] = team_sum(sum[r]);
    }

    // Adds the sink's exponential to rows that see a key.
    BK_DEVICE void add_sink(C (&y)[kRows][kOut * kOwn]) {
        const C sink = static_cast<C>(p().rules.sinks[tile.h]);
        BK_UNROLL
        for (int r = 0; r < kRows; ++r) {
            if (sum[r] == 0) continue;
            const C top = larger(max[r], sink), factor = exponential(max[r] - top);
            sum[r] = sum[r] * factor + exponential(sink - top);
            max[r] = top;
            BK_UNROLL
            for (int c = 0; c < kOut * kOwn; ++c) y[r][c] *= factor;
        }
    }

    BK_DEVICE void store_lse(int64_t at_row, C value) const {
        const LseView& lse = p().lse;
        const int64_t at = tile.b * lse.batch + tile.h * lse.head + at_row * lse.row;
        if (lse.is_element)
            static_cast<T*>(lse.data)[at] = narrow<T>(value);
        else
            static_cast<float*>(lse.data)[at] = static_cast<float>(value);
    }

    BK_DEVICE void store_rows(C (&y)[kRows][kOut * kOwn]) {
        BK_UNROLL
        for (int r = 0; r < kRows; ++r) {
            if (row(r) >= tile.s.q_len) continue;
            const int64_t at_row = tile.s.q_begin + row(r);
            const C inverse = sum[r] == 0 ? C(0) : 1 / sum[r];
            if (p().lse.data != nullptr && first_column == 0 && lane() == 0) {
                const C natural = max[r] + math::log<C>(sum[r]);
                store_lse(at_row, sum[r] == 0        ? static_cast<C>(p().lse.empty)
                                  : p().lse.is_base2 ? natural * static_cast<C>(kLog2E)
                                                     : natural);
            }
            if (p().y.data == nullptr) continue;
            T* const to = p().y.at(tile.b, tile.h, at_row);
            BK_UNROLL
            for (int g = 0; g < kOut; ++g) {
                C four[kOwn];
                BK_UNROLL
                for (int e = 0; e < kOwn; ++e) four[e] = y[r][g * kOwn + e] * inverse;
                store_four(to, first_column + g * kColumns + lane() * kOwn, static_cast<int>(p().d_v), problem.y_has_vectors,
                           four);
            }
        }
    }

    // Probabilities of all keys, those outside the sequence too.
    BK_DEVICE void store_weights() {
        const int64_t q_len = p().lengths.q_len, k_len = p().lengths.k_len;
        const KeyRange keys = keys_of_rows(p().rules.band, tile.s, tile.row, tile.row + kTileRows - 1);
        for (tile.column = 0; tile.column < k_len; tile.column += kColumns) {
            const bool is_visible = tile.row < tile.s.q_len && tile.column < keys.end && tile.column + kColumns > keys.first;
            C score[kRows][kOwn];
            if (is_visible) scores(score);
            BK_UNROLL
            for (int r = 0; r < kRows; ++r) {
                const C inverse = sum[r] == 0 ? C(0) : 1 / sum[r], base = sum[r] == 0 ? C(0) : max[r];
                BK_UNROLL
                for (int c = 0; c < kOwn; ++c) {
                    const int64_t j = tile.column + lane() * kOwn + c;
                    if (row(r) >= q_len || j >= k_len) continue;
                    const bool is_shown = is_visible && row(r) < tile.s.q_len && score[r][c] != minus_infinity<C>();
                    const C weight = is_shown ? exponential(score[r][c] - base) * inverse : C(0);
                    const int64_t at = ((tile.b * p().heads + tile.h) * q_len + row(r)) * k_len + j;
                    if (p().weights.values == Values::kF32)
                        static_cast<float*>(p().weights.data)[at] = static_cast<float>(weight);
                    else
                        static_cast<T*>(p().weights.data)[at] = narrow<T>(weight);
                }
            }
        }
    }

    BK_DEVICE void empty_unowned_rows() {
        const int64_t tile_index = tile.row / kTileRows;
        for_unowned_rows(p().lengths.q_offsets, p().batch, tile.b, tile.s.q_begin + tile.s.q_len, p().lengths.total_q,
                         tile_index, problem.order.tiles, [&](int64_t at_row) {
                             if (p().y.data != nullptr) zero_row(p().y.at(tile.b, tile.h, at_row), p().d_v);
                             if (p().lse.data != nullptr && threadIdx.x == 0) store_lse(at_row, static_cast<C>(p().lse.empty));
                         });
    }

    BK_DEVICE TileOrder::Item find(int64_t work) {
        const TileOrder::Item item = problem.order.at(work);
        tile.b = item.head / p().heads, tile.h = item.head % p().heads;
        tile.s = sequence_of(p().lengths, tile.b);
        tile.row = item.tile * kTileRows;
        first_column = static_cast<int>(item.chunk) * kOut * kColumns;
        return item;
    }

    template <bool kHasOutput>
    BK_DEVICE void attend_and_store() {
        tile.whole = columns_of_all_rows<false>(p().rules.band, tile, kTileRows);
        find_queries();
        C y[kRows][kOut * kOwn];
        attend<kHasOutput>(y);
        if (p().rules.sinks != nullptr) add_sink(y);
        if (kHasOutput) store_rows(y);
    }

    BK_DEVICE void run(int64_t work) {
        const TileOrder::Item item = find(work);
        if (item.chunk == 0 && p().lengths.q_offsets != nullptr) empty_unowned_rows();
        if (tile.row < tile.s.q_len) attend_and_store<true>();
        __syncthreads();
    }

    BK_DEVICE void run_weights(int64_t work) {
        find(work);
        BK_UNROLL
        for (int r = 0; r < kRows; ++r) sum[r] = 0;
        if (tile.row < tile.s.q_len) attend_and_store<false>();
        store_weights();
        __syncthreads();
    }
};

template <class T, int kRows, int kOut>
__global__ void __launch_bounds__(kThreads, kResidentBlocks<T>)
    attention_forward_kernel(const __grid_constant__ ForwardProblem<T> problem) {
    __shared__ ForwardShared<T, kRows, kOut> shared;
    ForwardBlock<T, kRows, kOut> block{problem, shared, {}, 0, {}, {}};
    for (int64_t work = blockIdx.x; work < problem.order.total(); work += gridDim.x) block.run(work);
}

// Probabilities, from sums of their own, so that the kernel of the output keeps its registers.
template <class T, int kRows>
__global__ void __launch_bounds__(kThreads) attention_weights_kernel(const __grid_constant__ ForwardProblem<T> problem) {
    __shared__ ForwardShared<T, kRows, 1> shared;
    ForwardBlock<T, kRows, 1> block{problem, shared, {}, 0, {}, {}};
    for (int64_t work = blockIdx.x; work < problem.order.total(); work += gridDim.x) block.run_weights(work);
}

// The problem by tiles of tile_rows queries and `width` output columns.
template <class T>
ForwardProblem<T> forward_problem(const AttentionForward<T>& p, int tile_rows, int width) {
    const int64_t bytes = p.lengths.k_len * (p.d_k + p.d_v) * static_cast<int64_t>(sizeof(T));
    const int64_t columns = p.y.data == nullptr ? 0 : p.d_v;
    return {p,
            tile_order(p.batch * p.heads, p.lengths.q_len, tile_rows, columns, width, bytes, true),
            has_plain_scores(p.rules),
            has_vector_rows(p.q),
            has_vector_rows(p.k),
            has_vector_rows(p.v),
            has_vector_rows(p.y)};
}

template <class T, int kRows, int kOut>
Status launch_forward(const Launch& launch, const AttentionForward<T>& p) {
    const ForwardProblem<T> problem = forward_problem(p, kRows * kTeams, kOut * kColumns);
    return launch_kernel(launch, grid_of(problem.order), attention_forward_kernel<T, kRows, kOut>, problem);
}

template <class T>
Status launch_weights(const Launch& launch, const AttentionForward<T>& p) {
    if (p.weights.values == Values::kNone) return Status::kOk;
    constexpr int kRows = 4;
    ForwardProblem<T> problem = forward_problem(p, kRows * kTeams, 1);
    problem.order.chunks = 1;
    return launch_kernel(launch, grid_of(problem.order), attention_weights_kernel<T, kRows>, problem);
}

// The problem without keys, whose queries are the rows that the sequences would share: what is left without sequences.
template <class T>
AttentionForward<T> without_sequences(AttentionForward<T> p) {
    p.batch = 1;
    p.lengths.q_len = p.lengths.total_q;
    p.lengths.k_len = 0;
    p.lengths.q_offsets = p.lengths.k_offsets = p.lengths.k_lens = p.lengths.page_ids = nullptr;
    p.weights = {};
    return p;
}

template <class T>
Status forward(const Launch& launch, const AttentionForward<T>& p) {
    if (p.heads == 0) return Status::kOk;
    if (p.batch == 0 && p.lengths.q_offsets != nullptr && p.lengths.total_q > 0) return forward(launch, without_sequences(p));
    if (p.batch == 0 || (p.lengths.q_len == 0 && p.lengths.q_offsets == nullptr)) return Status::kOk;
    BK_TRY(launch_weights(launch, p));
    if constexpr (std::is_same_v<T, double>) {
        return launch_forward<T, 4, 1>(launch, p);
    } else {
        // Smaller tiles where larger ones would leave SMs idle. A row's bits are the same in all.
        const auto blocks = [&](int rows) { return p.batch * p.heads * ceil_div(p.lengths.q_len, int64_t{rows} * kTeams); };
        const int64_t sms = device_sms();
        if (p.lengths.q_len <= 2 * kTeams || blocks(4) < sms) return launch_forward<T, 2, 2>(launch, p);
        if constexpr (std::is_same_v<T, float>) {
            if (blocks(8) < 2 * sms) return launch_forward<T, 4, 2>(launch, p);
            if (p.d_v <= kColumns) return launch_forward<T, 8, 1>(launch, p);
        }
        return launch_forward<T, 8, 2>(launch, p);
    }
}

}  // namespace bk::attention_simt

// SPDX-License-Identifier: Apache-2.0
// Gradients of fused attention on FMA, from the saved output and lse (Dao et al., FlashAttention, 2022): P = exp(score - lse),
// delta = sum of y dy, dS = P (dy v^T - delta), dv = P^T dy, dk = (dS slope)^T q, dq = (dS slope) k. A block owns 64 kOut
// columns of a tile of rows of one gradient and computes the scores that it needs, so that nothing is added atomically: dq
// by tiles of queries over the keys, dk and dv by tiles of keys over the queries of all heads of the group.
#pragma once

#include <cmath>
#include <cstdint>

#include "attention/flash/simt_scores.cuh"
#include "core/abi/workspace.h"

namespace bk::attention_simt {

enum class Gradient { kDq, kDk, kDv, kDkDv };

template <class T>
struct BackwardProblem {
    AttentionBackward<T> p;
    TileOrder order;
    compute_t<T>* delta;  // null: there is no workspace, and blocks compute what they need
    bool has_plain_scores, q_has_vectors, k_has_vectors, v_has_vectors, dy_has_vectors, to_has_vectors;
};

// Index of a query's delta.
BK_HD int64_t delta_at(const Lengths& lengths, int64_t heads, const Sequence& s, int64_t b, int64_t h, int64_t i) {
    if (lengths.q_offsets != nullptr) return h * lengths.total_q + s.q_begin + i;
    return (b * heads + h) * lengths.q_len + i;
}

template <class T>
int64_t delta_count(const AttentionForward<T>& p) {
    return p.heads * (p.lengths.q_offsets != nullptr ? p.lengths.total_q : p.batch * p.lengths.q_len);
}

template <class T>
size_t backward_workspace(const AttentionBackward<T>& p) {
    Carver carver;
    carver.take<compute_t<T>>(delta_count(p.forward));
    return carver.bytes();
}

// The natural logarithm of a query's sum; +inf where it is not finite, as such a row has no gradient.
template <class T>
BK_DEVICE compute_t<T> load_lse(const LseView& lse, int64_t b, int64_t h, int64_t row) {
    using C = compute_t<T>;
    const int64_t at = b * lse.batch + h * lse.head + row * lse.row;
    const C value = lse.is_element ? static_cast<C>(widen(static_cast<const T*>(lse.data)[at]))
                                   : static_cast<C>(static_cast<const float*>(lse.data)[at]);
    const C natural = lse.is_base2 ? value * static_cast<C>(kLn2) : value;
    return natural - natural == 0 ? natural : static_cast<C>(INFINITY);
}

// The sum of y dy of a row, by a team.
template <class T>
BK_DEVICE compute_t<T> row_delta(const T* y, const T* dy, int64_t extent) {
    compute_t<T> sum = 0;
    for (int64_t x = lane(); x < extent; x += kLanes) sum += widen(y[x]) * widen(dy[x]);
    return team_sum(sum);
}

template <class T, int kRows, int kOut>
struct BackwardShared {
    using C = compute_t<T>;
    static constexpr int kMost = kRows * kTeams > kColumns ? kRows * kTeams : kColumns;
    alignas(32) C coefficients[kColumns * kRows * kTeams];
    alignas(32) C staged[2 * kChunkElements<kRows, kOut>];
    const T *q[kMost], *dy[kMost], *k[kMost], *v[kMost];
    C lse[kMost], delta[kMost];
};

template <class T, Gradient kOf, int kRows, int kOut>
struct BackwardBlock {
    using C = compute_t<T>;
    static constexpr bool kKeysAreRows = kOf != Gradient::kDq, kHasGradient = kOf != Gradient::kDv;
    static constexpr int kTileRows = kRows * kTeams;
    static constexpr int kQueries = kKeysAreRows ? kColumns : kTileRows, kKeys = kKeysAreRows ? kTileRows : kColumns;

    const BackwardProblem<T>& problem;
    BackwardShared<T, kRows, kOut>& shared;
    ScoreTile tile;
    int first_column;  // of the gradient

    BK_DEVICE const AttentionBackward<T>& p() const { return problem.p; }
    BK_DEVICE const AttentionForward<T>& forward() const { return problem.p.forward; }
    BK_DEVICE const ScoreRules& rules() const { return problem.p.forward.rules; }

    // Rows, lse and delta of the queries from i on.
    BK_DEVICE void find_queries(int64_t i) {
        const Sequence& s = tile.s;
        for (int r = static_cast<int>(threadIdx.x); r < kQueries; r += kThreads) {
            const bool is_there = i + r < s.q_len;
            const int64_t row = s.q_begin + clamp_row(i + r, 0, s.q_len - 1);
            shared.q[r] = forward().q.at(tile.b, tile.h, row);
            shared.dy[r] = p().dy.at(tile.b, tile.h, row);
            shared.lse[r] = is_there ? load_lse<T>(forward().lse, tile.b, tile.h, row) : static_cast<C>(INFINITY);
            if (problem.delta != nullptr)
                shared.delta[r] =
                    is_there ? problem.delta[delta_at(forward().lengths, forward().heads, s, tile.b, tile.h, i + r)] : C(0);
        }
        if (problem.delta != nullptr || kOf == Gradient::kDv) return;
        for (int r = team(); r < kQueries; r += kTeams) {
            const int64_t row = s.q_begin + clamp_row(i + r, 0, s.q_len - 1);
            const C sum = row_delta(p().y.at(tile.b, tile.h, row), p().dy.at(tile.b, tile.h, row), forward().d_v);
            if (lane() == 0) shared.delta[r] = sum;
        }
    }

    BK_DEVICE void find_keys(int64_t j) {
        const int64_t kv = forward().kv_head_of(tile.h);
        for (int r = static_cast<int>(threadIdx.x); r < kKeys; r += kThreads) {
            const int64_t at = clamp_row(j + r, 0, tile.s.k_len - 1);
            shared.k[r] = key_row(forward().k, forward().lengths, tile.s, tile.b, kv, at);
            shared.v[r] = key_row(forward().v, forward().lengths, tile.s, tile.b, kv, at);
        }
    }

    BK_DEVICE Rows<T> q() const { return {shared.q, static_cast<int>(forward().d_k), problem.q_has_vectors}; }
    BK_DEVICE Rows<T> k() const { return {shared.k, static_cast<int>(forward().d_k), problem.k_has_vectors}; }
    BK_DEVICE Rows<T> v() const { return {shared.v, static_cast<int>(forward().d_v), problem.v_has_vectors}; }
    BK_DEVICE Rows<T> dy() const { return {shared.dy, static_cast<int>(forward().d_v), problem.dy_has_vectors}; }

    BK_DEVICE void store_dbias(int r, int c, C value) const {
        const int64_t i = tile.row + team() * kRows + r, j = tile.column + lane() * kOwn + c;
        const Lengths& lengths = forward().lengths;
        if (i >= lengths.q_len || j >= lengths.k_len) return;
        static_cast<T*>(p().dbias)[((tile.b * forward().heads + tile.h) * lengths.q_len + i) * lengths.k_len + j] =
            narrow<T>(value);
    }

    // Computes P with dropout, and the gradient of q.k, of the tile.
    BK_DEVICE void coefficients(bool stores_dbias, C (&weight)[kRows][kOwn], C (&gradient)[kRows][kOwn]) {
        if constexpr (kKeysAreRows) {
            if (kHasGradient) multiply<kRows, kOut>(v(), dy(), shared.staged, gradient);
            multiply<kRows, kOut>(k(), q(), shared.staged, weight);
        } else {
            multiply<kRows, kOut>(dy(), v(), shared.staged, gradient);
            multiply<kRows, kOut>(q(), k(), shared.staged, weight);
        }
        C slope[kRows * kOwn];
        finish_scores<kKeysAreRows, T, kRows>(rules(), problem.has_plain_scores, tile, weight, slope);
        float kept[kRows * kOwn];
        const bool has_dropout = rules().dropout.probability > 0;
        const ScoreTile copy = tile;
        if (has_dropout) dropout_factors<kKeysAreRows, kRows>(rules().dropout, *rules().dropout.seed, copy, kept);
        const C scale = static_cast<C>(rules().scale);
        BK_UNROLL
        for (int r = 0; r < kRows; ++r) {
            BK_UNROLL
            for (int c = 0; c < kOwn; ++c) {
                const int query = kKeysAreRows ? lane() * kOwn + c : team() * kRows + r;
                const C lse = shared.lse[query], factor = has_dropout ? static_cast<C>(kept[r * kOwn + c]) : C(1);
                const C probability = lse < static_cast<C>(INFINITY) ? exponential(weight[r][c] - lse) : C(0);
                weight[r][c] = probability * factor;
                if (!kHasGradient) continue;
                const C dp = factor == 0 ? C(0) : factor * gradient[r][c];
                const C ds = probability == 0 ? C(0) : probability * (dp - shared.delta[query]);
                if (stores_dbias) store_dbias(r, c, ds);
                gradient[r][c] = ds * (problem.has_plain_scores ? scale : slope[r * kOwn + c]);
            }
        }
    }

    // sum += w^T x over the first columns of the tile, up to `end`.
    BK_DEVICE void add(const C (&w)[kRows][kOwn], const Rows<T>& x, int64_t end, C (&sum)[kRows][kOut * kOwn]) {
        store_coefficients<kRows>(shared.coefficients, w);
        const int64_t left = end - tile.column;
        accumulate<kRows, kOut>(shared.coefficients, x, first_column, left < kColumns ? static_cast<int>(left) : kColumns,
                                shared.staged, sum);
    }

    BK_DEVICE bool is_hidden() const {
        return rules().blocks.blocks != nullptr && !has_visible_block<kKeysAreRows>(rules().blocks, tile, kTileRows);
    }

    BK_DEVICE void add_queries(C (&sum)[kRows][kOut * kOwn]) {
        const int64_t last = (tile.row + kTileRows < tile.s.q_len ? tile.row + kTileRows : tile.s.q_len) - 1;
        const bool stores_dbias = p().dbias != nullptr && first_column == 0;
        KeyRange keys = keys_of_rows(rules().band, tile.s, tile.row, last);
        if (tile.row >= tile.s.q_len) keys = {0, 0};
        if (tile.row < tile.s.q_len) find_queries(tile.row);
        tile.whole = columns_of_all_rows<false>(rules().band, tile, kTileRows);
        tile.column = stores_dbias ? 0 : keys.first / kColumns * kColumns;
        for (const int64_t end = stores_dbias ? forward().lengths.k_len : keys.end; tile.column < end;
             tile.column += kColumns) {
            if (tile.column >= keys.end || tile.column + kColumns <= keys.first || is_hidden()) {
                BK_UNROLL
                for (int x = 0; x < kRows * kOwn; ++x)
                    if (stores_dbias) store_dbias(x / kOwn, x % kOwn, C(0));
                continue;
            }
            find_keys(tile.column);
            __syncthreads();
            C weight[kRows][kOwn], gradient[kRows][kOwn];
            coefficients(stores_dbias, weight, gradient);
            add(gradient, k(), keys.end, sum);
        }
    }

    BK_DEVICE void add_keys(int64_t kv, C (&dk)[kRows][kOut * kOwn], C (&dv)[kRows][kOut * kOwn]) {
        if (tile.row >= tile.s.k_len) return;
        const int64_t last = (tile.row + kTileRows < tile.s.k_len ? tile.row + kTileRows : tile.s.k_len) - 1;
        const KeyRange queries = rows_of_keys(rules().band, tile.s, tile.row, last);
        const int64_t group = forward().heads / forward().kv_heads;
        find_keys(tile.row);
        tile.whole = columns_of_all_rows<true>(rules().band, tile, kTileRows);
        for (tile.h = kv * group; tile.h < (kv + 1) * group; ++tile.h)
            for (tile.column = queries.first / kColumns * kColumns; tile.column < queries.end; tile.column += kColumns) {
                if (is_hidden()) continue;
                find_queries(tile.column);
                __syncthreads();
                C weight[kRows][kOwn], gradient[kRows][kOwn];
                coefficients(false, weight, gradient);
                if (kOf != Gradient::kDk) add(weight, dy(), queries.end, dv);
                if (kOf != Gradient::kDv) add(gradient, q(), queries.end, dk);
            }
    }

    // The rows that a gradient has in memory for the sequence: keys beyond k_lens are among them.
    BK_DEVICE KeyRange stored_rows() const {
        Lengths lengths = forward().lengths;
        lengths.k_lens = nullptr;
        const Sequence s = sequence_of(lengths, tile.b);
        return kKeysAreRows ? KeyRange{s.k_begin, s.k_begin + s.k_len} : KeyRange{s.q_begin, s.q_begin + s.q_len};
    }

    BK_DEVICE void store_gradient(const HeadsView<T>& to, int64_t h, int64_t extent, const C (&sum)[kRows][kOut * kOwn]) const {
        if (to.data == nullptr) return;
        const KeyRange stored = stored_rows();
        BK_UNROLL
        for (int r = 0; r < kRows; ++r) {
            const int64_t row = stored.first + tile.row + team() * kRows + r;
            if (row >= stored.end) continue;
            BK_UNROLL
            for (int g = 0; g < kOut; ++g)
                store_four(to.at(tile.b, h, row), first_column + g * kColumns + lane() * kOwn, static_cast<int>(extent),
                           problem.to_has_vectors, &sum[r][g * kOwn]);
        }
    }

    BK_DEVICE void zero_unowned_rows(const HeadsView<T>& to, int64_t h, int64_t extent) const {
        const Lengths& lengths = forward().lengths;
        const int32_t* const offsets = kKeysAreRows ? lengths.k_offsets : lengths.q_offsets;
        if (first_column != 0 || offsets == nullptr || to.data == nullptr) return;
        for_unowned_rows(offsets, forward().batch, tile.b, stored_rows().end, kKeysAreRows ? lengths.total_k : lengths.total_q,
                         tile.row / kTileRows, problem.order.tiles,
                         [&](int64_t row) { zero_row(to.at(tile.b, h, row), extent); });
    }

    BK_DEVICE void run(int64_t work) {
        const TileOrder::Item item = problem.order.at(work);
        const int64_t heads = kKeysAreRows ? forward().kv_heads : forward().heads, h = item.head % heads;
        tile.b = item.head / heads;
        tile.s = sequence_of(forward().lengths, tile.b);
        tile.row = item.tile * kTileRows;
        tile.h = kKeysAreRows ? h * (forward().heads / forward().kv_heads) : h;
        first_column = static_cast<int>(item.chunk) * kOut * kColumns;
        if constexpr (kKeysAreRows) {
            if (kOf != Gradient::kDk) zero_unowned_rows(p().dv, h, forward().d_v);
            if (kOf != Gradient::kDv) zero_unowned_rows(p().dk, h, forward().d_k);
            C dk[kRows][kOut * kOwn] = {}, dv[kRows][kOut * kOwn] = {};
            add_keys(h, dk, dv);
            if (kOf != Gradient::kDk) store_gradient(p().dv, h, forward().d_v, dv);
            if (kOf != Gradient::kDv) store_gradient(p().dk, h, forward().d_k, dk);
        } else {
            zero_unowned_rows(p().dq, h, forward().d_k);
            C dq[kRows][kOut * kOwn] = {};
            add_queries(dq);
            store_gradient(p().dq, h, forward().d_k, dq);
        }
        __syncthreads();
    }
};

template <class T, Gradient kOf, int kRows, int kOut>
__global__ void __launch_bounds__(kThreads, kOf == Gradient::kDkDv && kOut == 2 ? 2 : kResidentBlocks<T>)
    attention_backward_kernel(const __grid_constant__ BackwardProblem<T> problem) {
    __shared__ BackwardShared<T, kRows, kOut> shared;
    BackwardBlock<T, kOf, kRows, kOut> block{problem, shared, {}, 0};
    for (int64_t work = blockIdx.x; work < problem.order.total(); work += gridDim.x) block.run(work);
}

// delta of all queries, a team a row.
template <class T>
__global__ void __launch_bounds__(kThreads) attention_delta_kernel(const __grid_constant__ BackwardProblem<T> problem) {
    const AttentionForward<T>& f = problem.p.forward;
    for (int64_t work = blockIdx.x; work < problem.order.total(); work += gridDim.x) {
        const TileOrder::Item item = problem.order.at(work);
        const int64_t b = item.head / f.heads, h = item.head % f.heads, i = item.tile * kTeams + team();
        const Sequence s = sequence_of(f.lengths, b);
        if (item.tile * kTeams >= s.q_len) continue;
        const int64_t row = s.q_begin + (i < s.q_len ? i : s.q_len - 1);
        const compute_t<T> sum = row_delta(problem.p.y.at(b, h, row), problem.p.dy.at(b, h, row), f.d_v);
        if (i < s.q_len && lane() == 0) problem.delta[delta_at(f.lengths, f.heads, s, b, h, i)] = sum;
    }
}

// dsinks[h] = -sum of exp(sink - lse) delta over the queries of all batches, a block a head.
template <class T>
__global__ void __launch_bounds__(kThreads) attention_sinks_kernel(const __grid_constant__ BackwardProblem<T> problem) {
    using C = compute_t<T>;
    const AttentionForward<T>& f = problem.p.forward;
    __shared__ double sums[kTeams];
    for (int64_t h = blockIdx.x; h < f.heads; h += gridDim.x) {
        double sum = 0;
        for (int64_t b = 0; b < f.batch; ++b) {
            const Sequence s = sequence_of(f.lengths, b);
            for (int64_t first = 0; first < s.q_len; first += kTeams) {
                const int64_t i = first + team(), row = s.q_begin + (i < s.q_len ? i : s.q_len - 1);
                const C delta = row_delta(problem.p.y.at(b, h, row), problem.p.dy.at(b, h, row), f.d_v);
                const C lse = load_lse<T>(f.lse, b, h, row);
                if (i < s.q_len && lse < static_cast<C>(INFINITY))
                    sum -=
                        static_cast<double>(exponential(static_cast<C>(f.rules.sinks[h]) - lse)) * static_cast<double>(delta);
            }
        }
        if (lane() == 0) sums[team()] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            double total = 0;
            for (int t = 0; t < kTeams; ++t) total += sums[t];
            problem.p.dsinks[h] = static_cast<float>(total);
        }
        __syncthreads();
    }
}

template <class T, Gradient kOf, int kRows, int kOut>
Status launch_gradient(const Launch& launch, BackwardProblem<T> problem) {
    constexpr bool kKeysAreRows = kOf != Gradient::kDq;
    const AttentionForward<T>& f = problem.p.forward;
    const HeadsView<T>& to = kOf == Gradient::kDq ? problem.p.dq : kOf == Gradient::kDv ? problem.p.dv : problem.p.dk;
    if (to.data == nullptr && (kKeysAreRows || problem.p.dbias == nullptr)) return Status::kOk;
    const int64_t columns = to.data == nullptr || kOf == Gradient::kDkDv ? 1 : kOf == Gradient::kDv ? f.d_v : f.d_k;
    const int64_t length = kKeysAreRows ? f.lengths.q_len : f.lengths.k_len;
    problem.order = tile_order(f.batch * (kKeysAreRows ? f.kv_heads : f.heads),
                               kKeysAreRows ? f.lengths.k_len : f.lengths.q_len, kRows * kTeams, columns, kOut * kColumns,
                               length * (f.d_k + f.d_v) * static_cast<int64_t>(sizeof(T)), !kKeysAreRows);
    problem.to_has_vectors = has_vector_rows(to) && (kOf != Gradient::kDkDv || has_vector_rows(problem.p.dv));
    return launch_kernel(launch, grid_of(problem.order), attention_backward_kernel<T, kOf, kRows, kOut>, problem);
}

// dk and dv of f32 share a kernel where each fits one chunk of 64 kOut columns.
template <class T, int kRows, int kOut>
Status launch_gradients(const Launch& launch, const BackwardProblem<T>& problem) {
    constexpr bool kMayShare = std::is_same_v<T, float>;
    const AttentionForward<T>& f = problem.p.forward;
    const bool has_both = problem.p.dk.data != nullptr && problem.p.dv.data != nullptr;
    if (kMayShare && has_both && f.d_k <= kOut * kColumns && f.d_v <= kOut * kColumns) {
        if constexpr (kMayShare) BK_TRY((launch_gradient<T, Gradient::kDkDv, kRows, kOut>(launch, problem)));
    } else {
        constexpr int kWide = kMayShare ? 2 : kOut;
        BK_TRY((launch_gradient<T, Gradient::kDv, kRows, kWide>(launch, problem)));
        BK_TRY((launch_gradient<T, Gradient::kDk, kRows, kWide>(launch, problem)));
    }
    return launch_gradient<T, Gradient::kDq, kRows, kOut>(launch, problem);
}

// The problem without sequences, whose rows are those that the sequences would share.
template <class T>
AttentionBackward<T> without_sequences(AttentionBackward<T> p) {
    Lengths& lengths = p.forward.lengths;
    p.forward.batch = 1;
    lengths.q_len = p.dq.data != nullptr && lengths.q_offsets != nullptr ? lengths.total_q : 0;
    lengths.k_len = lengths.k_offsets != nullptr ? lengths.total_k : 0;
    p.forward.rules.band = Band{0, 0, kUnbounded, false};  // which shows nothing
    lengths.q_offsets = lengths.k_offsets = lengths.k_lens = nullptr;
    p.dbias = nullptr;
    return p;
}

template <class T>
Status backward(const Launch& launch, const AttentionBackward<T>& p) {
    const AttentionForward<T>& f = p.forward;
    const Lengths& lengths = f.lengths;
    if (lengths.page_ids != nullptr) return fail(Status::kUnsupported, "pages have no gradients");
    if (f.heads == 0) return Status::kOk;
    const bool is_packed = lengths.q_offsets != nullptr || lengths.k_offsets != nullptr;
    BackwardProblem<T> problem{p,
                               {},
                               nullptr,
                               has_plain_scores(f.rules),
                               has_vector_rows(f.q),
                               has_vector_rows(f.k),
                               has_vector_rows(f.v),
                               has_vector_rows(p.dy),
                               false};
    if (p.dsinks != nullptr && f.rules.sinks != nullptr)
        BK_TRY(launch_kernel(launch,
                             Grid{dim3(static_cast<unsigned>(f.heads < kMaxGridX ? f.heads : kMaxGridX)), dim3(kThreads)},
                             attention_sinks_kernel<T>, problem));
    if (f.batch == 0) {
        if (!is_packed) return Status::kOk;
        AttentionBackward<T> rest = without_sequences(p);
        rest.dsinks = nullptr;
        return backward(launch, rest);
    }
    if (workspace_holds(launch, backward_workspace(p))) {
        problem.delta = Carver(launch.workspace).take<compute_t<T>>(delta_count(f));
        problem.order = tile_order(f.batch * f.heads, lengths.q_len, kTeams, 1, 1, 1, false);
        BK_TRY(launch_kernel(launch, grid_of(problem.order), attention_delta_kernel<T>, problem));
    }
    if constexpr (std::is_same_v<T, double>) {
        return launch_gradients<T, 4, 1>(launch, problem);
    } else {
        if constexpr (std::is_same_v<T, float>)
            if (f.d_k <= kColumns && f.d_v <= kColumns) return launch_gradients<T, 8, 1>(launch, problem);
        return launch_gradients<T, 8, 2>(launch, problem);
    }
}

}  // namespace bk::attention_simt

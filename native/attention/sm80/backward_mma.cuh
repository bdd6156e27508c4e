// SPDX-License-Identifier: Apache-2.0
// Gradients of attention by mma.sync, without atomics: P = 2^(score - lse), dv = P^T dy, dS = P (dy v^T - delta) with
// delta = rowsum(dy y), dk = dS^T q, dq = dS k (FlashAttention-2, Dao 2023, with a kernel for dq of its own).
//
// One kernel text serves both directions. A block keeps 64 rows of one side in shared memory, 16 for each warp, and streams
// tiles of the other: keys stay and the queries of all heads of the group go by for dk and dv, queries stay and keys go by
// for dq. Scores and their gradients are in registers, where they become operands of the next mma.
#pragma once

#include <cstdint>

#include "attention/sm80/score_rules.cuh"
#include "attention/sm80/softmax.cuh"
#include "attention/sm80/tile.cuh"

namespace bk::sm80 {

constexpr int kBackwardThreads = 128, kResident = 64;  // rows that a block keeps
constexpr int kDq = 1, kDk_ = 2, kDv_ = 4;             // gradients that a kernel computes

template <class T>
struct BackwardMma {
    AttentionBackward<T> p;
    int tiles;  // of resident rows
    bool copies_q, copies_k, copies_v, copies_dy;
    bool pairs_dq, pairs_dk, pairs_dv, pairs_dbias;
    FastDiv<uint32_t> page_size;
    float *log2_sum, *delta;  // [batch, head, query]
};

template <int kQWidth, int kVWidth, bool kIsGeneral>
struct BackwardShape {
    static constexpr int kWidest = kQWidth > kVWidth ? kQWidth : kVWidth;
    static constexpr int kStream = kWidest > 128 ? 16 : kWidest > 64 || kIsGeneral ? 32 : 64;  // rows of a streamed tile
    static constexpr int kFirstBytes = kTileBytes<kStream, kQWidth>, kSecondBytes = kTileBytes<kStream, kVWidth>;
    static constexpr int kStatBytes = 2 * kStream * static_cast<int>(sizeof(float));
    static constexpr int kStageBytes = kFirstBytes + kSecondBytes + kStatBytes;
    static constexpr int kResidentBytes = kTileBytes<kResident, kQWidth> + kTileBytes<kResident, kVWidth>;
    static constexpr int kBytes = kResidentBytes + 2 * kStageBytes;
};

// Dot products of dy and y, and lse in base 2, +inf for rows without a gradient. A warp takes a row.
template <class T>
__global__ void __launch_bounds__(kBackwardThreads) attention_delta_kernel(const __grid_constant__ BackwardMma<T> g) {
    const AttentionForward<T>& f = g.p.forward;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int64_t row = int64_t{blockIdx.x} * (kBackwardThreads / 32) + threadIdx.x / 32, q_len = f.lengths.q_len;
    if (row >= f.batch * f.heads * q_len) return;
    const int64_t i = row % q_len, b = row / q_len / f.heads, h = row / q_len % f.heads;
    const Sequence s = sequence_of(f.lengths, b);
    if (i >= s.q_len) return;
    const T *const y = g.p.y.at(b, h, s.q_begin + i), *const dy = g.p.dy.at(b, h, s.q_begin + i);
    float sum = 0;
    for (int x = lane; x < f.d_v; x += 32) sum += widen(y[x]) * widen(dy[x]);
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(kAllLanes, sum, distance);
    if (lane != 0) return;
    const int64_t at = b * f.lse.batch + h * f.lse.head + (s.q_begin + i) * f.lse.row;
    const float lse =
        f.lse.is_element ? widen(static_cast<const T*>(f.lse.data)[at]) : static_cast<const float*>(f.lse.data)[at];
    g.delta[row] = sum;
    g.log2_sum[row] = fabsf(lse) == kInfinity<float> ? kInfinity<float> : f.lse.is_base2 ? lse : lse * kLog2e;
}

// dsinks = -sum of 2^(sink - lse) delta over the rows of a head. A block takes a head.
template <class T>
__global__ void __launch_bounds__(kBackwardThreads) attention_dsinks_kernel(const __grid_constant__ BackwardMma<T> g) {
    __shared__ float sums[kBackwardThreads];
    const AttentionForward<T>& f = g.p.forward;
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t h = blockIdx.x;
    const float sink = f.rules.sinks[h] * kLog2e;
    float sum = 0;
    for (int64_t b = 0; b < f.batch; ++b) {
        const int64_t first = (b * f.heads + h) * f.lengths.q_len, q_len = sequence_of(f.lengths, b).q_len;
        for (int64_t i = thread; i < q_len; i += kBackwardThreads)
            sum -= math::half::exp2(sink - g.log2_sum[first + i]) * g.delta[first + i];
    }
    sums[thread] = sum;
    for (int half = kBackwardThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) sums[thread] += sums[thread + half];
    }
    if (thread == 0) g.p.dsinks[h] = sums[0];
}

template <class T, int kQWidth, int kVWidth, int kOutputs, bool kIsGeneral>
class BackwardBlock {
    using Shape = BackwardShape<kQWidth, kVWidth, kIsGeneral>;
    static constexpr bool kIsKeys = kOutputs != kDq, kHasFirst = (kOutputs & (kDq | kDk_)) != 0,
                          kHasSecond = (kOutputs & kDv_) != 0;
    static constexpr int kStream = Shape::kStream, kN = kStream / 8;
    using Coordinates = std::conditional_t<kIsKeys, RowsAreKeys, RowsAreQueries>;

public:
    BK_DEVICE BackwardBlock(const BackwardMma<T>& g, char* shared, const Sequence& s, int b, int head, int first_row)
        : g_(g),
          band_(forward().rules.band, s),
          q_len_(static_cast<int>(s.q_len)),
          q_begin_(static_cast<int>(s.q_begin)),
          b_(b),
          head_(head),
          first_row_(first_row),
          warp_row_(first_row + static_cast<int>(threadIdx.x) / 32 * 16),
          thread_(static_cast<int>(threadIdx.x)),
          keys_(forward().k, forward().lengths, g.page_size, s, b, kIsKeys ? head : forward().kv_head_of(head)),
          values_(forward().v, forward().lengths, g.page_size, s, b, kIsKeys ? head : forward().kv_head_of(head)),
          first_(shared),
          second_(shared + kTileBytes<kResident, kQWidth>),
          stages_(shared + Shape::kResidentBytes) {}

    BK_DEVICE void run() {
        const int group = static_cast<int>(forward().heads / forward().kv_heads);
        const int last_row = min(first_row_ + kResident, kIsKeys ? keys_.k_len : q_len_) - 1;
        const Span seen = kIsKeys ? band_.of_keys(first_row_, last_row, q_len_) : band_.of_rows(first_row_, last_row);
        first_tile_ = seen.first / kStream;
        tiles_ = seen.end > seen.first && last_row >= first_row_ ? (seen.end + kStream - 1) / kStream - first_tile_ : 0;
        const int end = kIsKeys ? tiles_ * group : tiles_;
        if constexpr (kHasFirst) clear(first_sums_);
        if constexpr (kHasSecond) clear(second_sums_);
        int index = next_index(0, end, last_row);
        if (index < end) {
            load_resident();
            load_stream(index, 0);
        }
        end_copy_group();
        if constexpr (!kIsKeys) load_row_statistics();
        int stage = 0;
#pragma unroll 1
        while (index < end) {
            wait_for_copies<0>();
            __syncthreads();
            const int next = next_index(index + 1, end, last_row);
            if (next < end) load_stream(next, stage ^ 1);
            end_copy_group();
            add_tile(index, stages_ + stage * Shape::kStageBytes);
            stage ^= 1;
            index = next;
        }
        wait_for_copies<0>();
        store_all();
    }

private:
    BK_DEVICE const AttentionForward<T>& forward() const { return g_.p.forward; }

    // First row of a streamed tile, and the query head that it is of.
    BK_DEVICE int stream_row(int index) const { return (first_tile_ + (kIsKeys ? index % tiles_ : index)) * kStream; }
    BK_DEVICE int stream_head(int index) const {
        return kIsKeys ? head_ * static_cast<int>(forward().heads / forward().kv_heads) + index / tiles_ : head_;
    }

    BK_DEVICE int next_index(int index, int end, int last_row) const {
        if constexpr (kIsGeneral) {
            for (; index < end; ++index) {
                const int row = stream_row(index), last = min(row + kStream, kIsKeys ? q_len_ : keys_.k_len) - 1;
                const bool is_hidden =
                    kIsKeys ? hides_tile(forward().rules.blocks, b_, stream_head(index), row, last, first_row_, last_row)
                            : hides_tile(forward().rules.blocks, b_, stream_head(index), first_row_, last_row, row, last);
                if (!is_hidden) break;
            }
        }
        return index;
    }

    template <int kRows>
    BK_DEVICE void load_queries(char* q, char* dy, int row, int head) const {
        const HeadsView<const T>&from = forward().q, &dy_from = g_.p.dy;
        const T *const q_row = from.at(b_, head, q_begin_ + row), *const dy_row = dy_from.at(b_, head, q_begin_ + row);
        const int count = q_len_ - row;
        fill_tile<kRows, kQWidth, kBackwardThreads>(q, thread_, static_cast<int>(forward().d_k), g_.copies_q, from.data,
                                                    [&](int r) { return r < count ? q_row + r * from.row : nullptr; });
        fill_tile<kRows, kVWidth, kBackwardThreads>(dy, thread_, static_cast<int>(forward().d_v), g_.copies_dy, dy_from.data,
                                                    [&](int r) { return r < count ? dy_row + r * dy_from.row : nullptr; });
    }

    template <int kRows>
    BK_DEVICE void load_keys(char* k, char* v, int row) const {
        fill_tile<kRows, kQWidth, kBackwardThreads>(k, thread_, static_cast<int>(forward().d_k), g_.copies_k, forward().k.data,
                                                    [&](int r) { return keys_.row(row + r); });
        fill_tile<kRows, kVWidth, kBackwardThreads>(v, thread_, static_cast<int>(forward().d_v), g_.copies_v, forward().v.data,
                                                    [&](int r) { return values_.row(row + r); });
    }

    BK_DEVICE void load_resident() {
        if constexpr (kIsKeys)
            load_keys<kResident>(first_, second_, first_row_);
        else
            load_queries<kResident>(first_, second_, first_row_, head_);
    }

    BK_DEVICE void load_stream(int index, int stage) {
        char* const to = stages_ + stage * Shape::kStageBytes;
        const int row = stream_row(index);
        if constexpr (kIsKeys) {
            const int head = stream_head(index);
            load_queries<kStream>(to, to + Shape::kFirstBytes, row, head);
            if (thread_ < 2 * kStream) {
                const int r = thread_ % kStream;
                const float* const from = (thread_ < kStream ? g_.log2_sum : g_.delta) + statistic(head, row);
                float* const statistics = reinterpret_cast<float*>(to + Shape::kFirstBytes + Shape::kSecondBytes);
                start_copy_4(statistics + thread_, row + r < q_len_ ? from + r : g_.delta, row + r < q_len_);
            }
        } else {
            load_keys<kStream>(to, to + Shape::kFirstBytes, row);
        }
    }

    BK_DEVICE int64_t statistic(int head, int i) const {
        return (static_cast<int64_t>(b_) * forward().heads + head) * forward().lengths.q_len + i;
    }

    BK_DEVICE void load_row_statistics() {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int i = warp_row_ + thread_ % 32 / 4 + 8 * half;
            row_log2_sum_[half] = i < q_len_ ? g_.log2_sum[statistic(head_, i)] : kInfinity<float>;
            row_delta_[half] = i < q_len_ ? g_.delta[statistic(head_, i)] : 0.0f;
        }
    }

    // sums = resident rows of the warp times streamed rows, over the tiles' width.
    template <int kWidth>
    BK_DEVICE void multiply(float (&sums)[kN][4], const char* resident, const char* stream) const {
        const int base = fragment_base<kWidth>(0, thread_ % 32);
        const char* const own = resident + thread_ / 32 * (16 * kWidth * 2);
        clear(sums);
#pragma unroll
        for (int step = 0; step < kWidth / 16; ++step) {
            uint32_t a[4];
            ldmatrix_x4(a, own + fragment_offset<kWidth>(base, 0, step));
#pragma unroll
            for (int n = 0; n < kN / 2; ++n) {
                uint32_t b[2][2];
                load_b(b[0], b[1], stream + fragment_offset<kWidth>(base, n, step));
                Mma<T>::run(sums[2 * n], a, b[0]);
                Mma<T>::run(sums[2 * n + 1], a, b[1]);
            }
        }
    }

    // sums += weights times streamed rows.
    template <int kWidth>
    BK_DEVICE void accumulate(float (&sums)[kWidth / 8][4], const float (&weights)[kN][4], const char* stream) const {
        const int base = fragment_base<kWidth>(0, thread_ % 32);
#pragma unroll
        for (int step = 0; step < kStream / 16; ++step) {
            uint32_t a[4];
            pack_a<T>(a, weights[2 * step], weights[2 * step + 1]);
#pragma unroll
            for (int n = 0; n < kWidth / 16; ++n) {
                uint32_t b[2][2];
                load_b_transposed(b[0], b[1], stream + fragment_offset<kWidth>(base, step, n));
                Mma<T>::run(sums[2 * n], a, b[0]);
                Mma<T>::run(sums[2 * n + 1], a, b[1]);
            }
        }
    }

    BK_DEVICE Coordinates coordinates(int index) const {
        const int row = warp_row_ + thread_ % 32 / 4, column = stream_row(index) + thread_ % 4 * 2;
        if constexpr (kIsKeys)
            return {b_, column, stream_head(index), row};
        else
            return {b_, {row, row + 8}, {head_, head_}, column};
    }

    // Whether all scores of the warp's rows and a streamed tile are visible by band and lengths, and whether some are.
    BK_DEVICE bool shows_all(int row) const {
        const int i = kIsKeys ? row : warp_row_, j = kIsKeys ? warp_row_ : row;
        const int i_last = i + (kIsKeys ? kStream : 16) - 1, j_last = j + (kIsKeys ? 16 : kStream) - 1;
        return i_last < q_len_ && band_.shows(i_last, j) && band_.shows(i, j_last);
    }
    BK_DEVICE bool shows_some(int row) const {
        const int i = kIsKeys ? row : warp_row_, j = kIsKeys ? warp_row_ : row;
        const int i_last = i + (kIsKeys ? kStream : 16) - 1, j_last = j + (kIsKeys ? 16 : kStream) - 1;
        return i < q_len_ && j < keys_.k_len && j_last >= i + band_.first && j < i_last + band_.end;
    }

    BK_DEVICE void add_tile(int index, const char* stage) {
        const int row = stream_row(index);
        if (!shows_some(row)) return;
        const char *const first = stage, *const second = stage + Shape::kFirstBytes;
        const float* const statistics = reinterpret_cast<const float*>(second + Shape::kSecondBytes);
        const Coordinates at = coordinates(index);
        const int column = thread_ % 4 * 2;
        float p[kN][4], ds[kN][4], gain[kIsGeneral ? kN : 1][4];
        multiply<kQWidth>(p, first_, first);
        if constexpr (kIsGeneral) apply_score_rules<T, true>(forward().rules, q_len_ - 1, keys_.k_len - 1, at, p, gain);
        if (!shows_all(row))
            each_element(p, [&](int n, int v, float score) {
                return at.i(n, v) < q_len_ && band_.shows(at.i(n, v), at.j(n, v)) ? score : -kInfinity<float>;
            });
        const float unit = kIsGeneral ? 1.0f : forward().rules.scale * kLog2e;
        each_element(p, [&](int n, int v, float score) {
            const float log2_sum = kIsKeys ? statistics[8 * n + column + v % 2] : row_log2_sum_[v / 2];
            return math::half::exp2(fmaf(score, unit, -log2_sum));
        });
        if constexpr (kHasFirst) multiply<kVWidth>(ds, second_, second);
        if constexpr (kIsGeneral) {
            const Dropout& dropout = forward().rules.dropout;
            if (dropout.probability > 0) {
                const uint64_t seed = *dropout.seed;
                each_dropout_factor<kN>(dropout, seed, at, [&](int n, int v, float factor) {
                    if constexpr (kHasFirst) ds[n][v] = p[n][v] * (ds[n][v] * factor - delta_of(statistics, column, n, v));
                    p[n][v] *= factor;
                });
            } else if constexpr (kHasFirst) {
                each_element(ds, [&](int n, int v, float x) { return p[n][v] * (x - delta_of(statistics, column, n, v)); });
            }
            if constexpr (!kIsKeys)
                if (g_.p.dbias != nullptr) store_dbias(ds, at);
            if constexpr (kHasFirst) each_element(ds, [&](int n, int v, float x) { return x * gain[n][v]; });
        } else if constexpr (kHasFirst) {
            each_element(ds, [&](int n, int v, float x) { return p[n][v] * (x - delta_of(statistics, column, n, v)); });
        }
        if constexpr (kHasSecond) accumulate<kVWidth>(second_sums_, p, second);
        if constexpr (kHasFirst) accumulate<kQWidth>(first_sums_, ds, first);
    }

    BK_DEVICE float delta_of(const float* statistics, int column, int n, int v) const {
        return kIsKeys ? statistics[kStream + 8 * n + column + v % 2] : row_delta_[v / 2];
    }

    // Gradients of the scores; those of tiles that are skipped were set to 0.
    BK_DEVICE void store_dbias(const float (&ds)[kN][4], const Coordinates& at) const {
        const int64_t k_len = forward().lengths.k_len;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int i = at.i(0, 2 * half);
            if (i >= q_len_) continue;
            T* const row = static_cast<T*>(g_.p.dbias) + statistic(head_, i) * k_len;
#pragma unroll
            for (int n = 0; n < kN; ++n)
                store_two(row, at.j(n, 0), keys_.k_len, k_len % 2 == 0 && g_.pairs_dbias, ds[n][2 * half], ds[n][2 * half + 1]);
        }
    }

    template <int kTiles>
    BK_DEVICE void store_rows(const HeadsView<T>& to, int64_t begin, int end, int width, bool in_pairs, float factor,
                              const float (&sums)[kTiles][4]) const {
        if (to.data == nullptr) return;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = warp_row_ + thread_ % 32 / 4 + 8 * half;
            if (row >= end) continue;
            T* const at = to.at(b_, head_, begin + row);
#pragma unroll
            for (int n = 0; n < kTiles; ++n)
                store_two(at, 8 * n + thread_ % 4 * 2, width, in_pairs, sums[n][2 * half] * factor,
                          sums[n][2 * half + 1] * factor);
        }
    }

    // Keys behind a sequence's length have gradients of 0, in tensors that have memory for them.
    BK_DEVICE void store_all() const {
        const int d_k = static_cast<int>(forward().d_k), d_v = static_cast<int>(forward().d_v);
        const Lengths& lengths = forward().lengths;
        const int64_t k_begin = lengths.k_offsets == nullptr ? 0 : sequence_of(lengths, b_).k_begin;
        const int k_end = lengths.k_offsets == nullptr ? static_cast<int>(lengths.k_len) : keys_.k_len;
        const float scale = forward().rules.scale;
        if constexpr (kOutputs == kDq) store_rows(g_.p.dq, q_begin_, q_len_, d_k, g_.pairs_dq, scale, first_sums_);
        if constexpr ((kOutputs & kDk_) != 0) store_rows(g_.p.dk, k_begin, k_end, d_k, g_.pairs_dk, scale, first_sums_);
        if constexpr ((kOutputs & kDv_) != 0) store_rows(g_.p.dv, k_begin, k_end, d_v, g_.pairs_dv, 1, second_sums_);
    }

    const BackwardMma<T>& g_;
    const KeyBand band_;
    const int q_len_, q_begin_, b_, head_, first_row_, warp_row_, thread_;
    const KeyRows<T> keys_, values_;
    char *const first_, *const second_, *const stages_;
    int first_tile_ = 0, tiles_ = 0;
    float row_log2_sum_[2], row_delta_[2];
    float first_sums_[kHasFirst ? kQWidth / 8 : 1][4], second_sums_[kHasSecond ? kVWidth / 8 : 1][4];
};

template <class T, int kQWidth, int kVWidth, int kOutputs, bool kIsGeneral>
__global__ void __launch_bounds__(kBackwardThreads) attention_backward_kernel(const __grid_constant__ BackwardMma<T> g) {
    BK_LAUNCH_SHARED(uint4, shared);
    constexpr bool kIsKeys = kOutputs != kDq;
    const AttentionForward<T>& f = g.p.forward;
    const int heads = static_cast<int>(kIsKeys ? f.kv_heads : f.heads), thread = static_cast<int>(threadIdx.x);
    const int index = static_cast<int>(blockIdx.x) % g.tiles, set = static_cast<int>(blockIdx.x) / g.tiles;
    const int tile = kIsKeys ? index : g.tiles - 1 - index;  // causal: the longest first
    const int b = set / heads, head = set % heads, first_row = tile * kResident;
    const Sequence s = sequence_of(f.lengths, b);
    if (index == 0) {
        for (int before = b == 0 ? -1 : b; before <= b; ++before) {
            if (!kIsKeys && f.lengths.q_offsets != nullptr && g.p.dq.data != nullptr)
                zero_rows(g.p.dq, b, head, unowned_queries(f.lengths, f.batch, before), static_cast<int>(f.d_k), thread,
                          kBackwardThreads);
            if (kIsKeys && f.lengths.k_offsets != nullptr) {
                const KeyRange rows = unowned_keys(f.lengths, f.batch, before);
                if ((kOutputs & kDk_) != 0 && g.p.dk.data != nullptr)
                    zero_rows(g.p.dk, b, head, rows, static_cast<int>(f.d_k), thread, kBackwardThreads);
                if ((kOutputs & kDv_) != 0 && g.p.dv.data != nullptr)
                    zero_rows(g.p.dv, b, head, rows, static_cast<int>(f.d_v), thread, kBackwardThreads);
            }
        }
    }
    const int64_t rows = !kIsKeys ? s.q_len : f.lengths.k_offsets == nullptr ? f.lengths.k_len : s.k_len;
    if (first_row >= rows) return;
    BackwardBlock<T, kQWidth, kVWidth, kOutputs, kIsGeneral>(g, reinterpret_cast<char*>(shared), s, b, head, first_row).run();
}

}  // namespace bk::sm80

// SPDX-License-Identifier: Apache-2.0
// Attention of few query rows over many keys by mma.sync (Flash-Decoding, Dao, Haziza, Massa and Sizov 2023): the query
// heads of a group are the rows of a tile of 16, and the keys are split over blocks and over the warps of a block.
//
// Each warp goes through its keys by chunks of 16, in a ring of stages of its own, so that no warp waits for another. The
// warps' outputs are summed in shared memory at the end, those of the splits by attention_merge_kernel.
//
// 8-bit keys and values become T between shared memory and the mma. A word of a key has four elements along k; the queries'
// fragments are stored in that order. A word of a transposed value matrix has two columns, of two mmas.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/sm80/rows.cuh"
#include "attention/sm80/score_rules.cuh"
#include "attention/sm80/softmax.cuh"
#include "attention/sm80/tile.cuh"
#include "core/intrinsics/dependent_launch.cuh"

namespace bk::sm80 {

constexpr int kDecodeTile = 16, kChunk = 16;  // rows of a tile, keys of a chunk

template <class T, class KV>
struct DecodeMma {
    AttentionForward<T, KV> p;
    int tiles;                             // of 16 rows
    int group, kv_heads;                   // query heads of a key head, key heads
    int split_keys;                        // keys of a split; 0: a split has its share of the tile's keys
    bool copies_k, copies_v, is_one_page;  // is_one_page: the keys of a chunk are adjacent
    FastDiv<uint32_t> page_size;
    Partials partials;
};

template <class KV, int kWidth>
struct DecodeShape {
    static constexpr bool kIs8Bit = sizeof(KV) == 1;
    static constexpr int kTile = kChunk * kWidth * static_cast<int>(sizeof(KV));
    static constexpr int kScaleBytes = kIs8Bit ? 2 * kChunk * static_cast<int>(sizeof(float)) : 0;  // of keys and values
    static constexpr int kStageBytes = 2 * kTile + kScaleBytes;
    static constexpr int kRingBytes = 64 << 10;  // of tiles
    static constexpr int kWarps = 4 * 2 * 2 * kTile <= kRingBytes ? 4 : 2;
    static constexpr int kFitting = kRingBytes / (kWarps * 2 * kTile), kStages = kFitting < 4 ? kFitting : 4;
    static constexpr int kThreads = 32 * kWarps, kWarpBytes = kStages * kStageBytes;
    static constexpr int kQueryBytes = kDecodeTile * kWidth * 2;
    static constexpr int kStateBytes = kWarps * kDecodeTile * 2 * static_cast<int>(sizeof(float));
    static constexpr int kBytes = kWarps * kWarpBytes + kQueryBytes + kStateBytes;
    static_assert(kDecodeTile * kWidth * 4 <= kWarpBytes, "a warp's output fits where its stages were");
};

// Two elements of f16 as two of T.
template <class T>
BK_DEVICE uint32_t halves_to(uint32_t halves) {
    if constexpr (std::is_same_v<T, f16>)
        return halves;
    else
        return pack_pair<T>(widen(f16{static_cast<uint16_t>(halves)}), widen(f16{static_cast<uint16_t>(halves >> 16)}));
}

// Two 8-bit elements, the lower or upper half of a word, as two of T.
template <class T, class KV>
BK_DEVICE uint32_t widen_pair(uint32_t word, int half) {
    if constexpr (std::is_same_v<KV, int8_t>) {
        return halves_to<T>(int8_to_f16x2(word, half));
    } else {
#if BK_ON_GPU && __CUDA_ARCH__ >= 890
        uint32_t halves;
        const uint16_t two = static_cast<uint16_t>(half == 0 ? word : word >> 16);
        if constexpr (std::is_same_v<KV, e4m3>)
            asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(two));
        else
            asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(two));
#else
        const uint32_t halves = fp8_to_f16x2<KV>(word, half);
#endif
        return halves_to<T>(halves);
    }
}

template <class T, class KV, int kWidth>
class DecodeBlock {
    using Shape = DecodeShape<KV, kWidth>;
    static constexpr int kSteps = kWidth / 16, kTiles = kWidth / 8, kVectors = kWidth * static_cast<int>(sizeof(KV)) / 16;
    static constexpr int kLanes = 16 / static_cast<int>(sizeof(KV));

public:
    BK_DEVICE DecodeBlock(const DecodeMma<T, KV>& g, char* shared, const QueryRows& queries, const Sequence& s, int kv_head,
                          int first_row, int64_t item, int split)
        : g_(g),
          queries_(queries),
          band_(g.p.rules.band, s),
          keys_(g.p.k, g.p.lengths, g.page_size, s, queries.b, kv_head),
          values_(g.p.v, g.p.lengths, g.page_size, s, queries.b, kv_head),
          first_row_(first_row),
          item_(item),
          split_(split),
          warp_(static_cast<int>(threadIdx.x) / 32),
          lane_(static_cast<int>(threadIdx.x) % 32),
          scales_(lane_ < kChunk ? g.p.k_scales : g.p.v_scales, g.p.lengths, g.page_size, s, queries.b, kv_head),
          ring_(shared + warp_ * Shape::kWarpBytes),
          rings_(shared),
          q_(reinterpret_cast<uint4*>(shared + Shape::kWarps * Shape::kWarpBytes)),
          states_(reinterpret_cast<float*>(shared + Shape::kWarps * Shape::kWarpBytes + Shape::kQueryBytes)) {}

    BK_DEVICE void run() {
        const int last_row = min(first_row_ + kDecodeTile, queries_.rows) - 1;
        const int i_first = queries_.query(first_row_), i_last = queries_.query(last_row);
        band_.keys = split_of(band_.of_rows(i_first, i_last), split_, g_.partials.splits, g_.split_keys);
        if (g_.partials.splits > 1 && band_.keys.first >= band_.keys.end) {
            g_.partials.store_empty(item_, last_row + 1 - first_row_, split_, static_cast<int>(threadIdx.x), Shape::kThreads);
            return;
        }
        end_ = (band_.keys.end + kChunk - 1) / kChunk;
        int chunk = band_.keys.first / kChunk;
        if (g_.split_keys > 0) chunk = chunk / Shape::kWarps * Shape::kWarps;  // each key has its warp, whatever the rows
        chunk += warp_;
        find_page(chunk);
        clear_padding();
#pragma unroll 1
        for (int stage = 0; stage < Shape::kStages - 1; ++stage) load(chunk + stage * Shape::kWarps, stage);
        for (int half = 0; half < 2; ++half) {
            const int row = min(first_row_ + lane_ / 4 + 8 * half, queries_.rows - 1);
            at_.query[half] = queries_.query(row);
            at_.head[half] = queries_.head + row - at_.query[half] * queries_.group;
        }
        at_.b = queries_.b;
        load_queries();
        clear(output_);
        __syncthreads();
        int stage = 0, next = Shape::kStages - 1;
#pragma unroll 1
        for (; chunk < end_; chunk += Shape::kWarps) {
            wait_for_copies<Shape::kStages - 2>();
            __syncwarp();
            load(chunk + (Shape::kStages - 1) * Shape::kWarps, next);
            add_chunk(chunk * kChunk, ring_ + stage * Shape::kStageBytes);
            stage = stage + 1 == Shape::kStages ? 0 : stage + 1;
            next = next + 1 == Shape::kStages ? 0 : next + 1;
        }
        wait_for_copies<0>();
        merge_warps();
    }

private:
    // Reads the page of a chunk's first key, a chunk before it is needed.
    BK_DEVICE void find_page(int chunk) {
        if (g_.p.lengths.page_ids == nullptr || !g_.is_one_page || chunk >= end_) return;
        const DivMod<uint32_t> at = g_.page_size(static_cast<uint32_t>(chunk * kChunk));
        page_ = static_cast<int>(page_at(g_.p.lengths, keys_.first_page + static_cast<int>(at.quotient)));
        slot_ = static_cast<int>(at.remainder);
    }

    // Copies a chunk of rows of `vectors` 16-byte vectors: lanes have a vector each of the same few rows, then of the next
    // ones. The vectors behind a row's end keep the zeros of clear_padding().
    BK_DEVICE void copy_rows(char* to, const KV* first, int64_t pitch, int vectors) const {
        constexpr int kRows = 32 / kVectors;
        static_assert(32 % kVectors == 0 && kChunk % kRows == 0, "a copy of the warp has whole rows");
        const int row = lane_ / kVectors, vector = lane_ % kVectors;
        if (vector >= vectors) return;
        const char* from = reinterpret_cast<const char*>(first + row * pitch) + vector * 16;
        const int64_t step = kRows * pitch * static_cast<int64_t>(sizeof(KV));
#pragma unroll
        for (int i = 0; i < kChunk / kRows; ++i, from += step)
            start_copy_16(to + swizzled<kVectors>(row + i * kRows, vector), from, 16);
    }

    // Zeros for the columns behind d_k and d_v, which copy_rows() leaves alone.
    BK_DEVICE void clear_padding() const {
        if (g_.p.d_k == kWidth && g_.p.d_v == kWidth) return;
        for (int i = lane_; i < Shape::kWarpBytes / 16; i += 32) reinterpret_cast<uint4*>(ring_)[i] = uint4{0, 0, 0, 0};
        __syncwarp();
    }

    template <class Rows>
    BK_DEVICE void load_tile(char* to, const Rows& rows, int j0, int64_t width, bool by_copies) {
        if (!g_.is_one_page) {
            fill_tile<kChunk, kWidth, 32>(to, lane_, static_cast<int>(width), by_copies, rows.view.data,
                                          [&](int r) { return rows.row(j0 + r); });
            return;
        }
        const KV* const first =
            rows.data +
            (g_.p.lengths.page_ids == nullptr ? j0 * rows.view.row : page_ * rows.view.batch + slot_ * rows.view.row);
        const int count = keys_.k_len - j0;
        if (by_copies && width % kLanes == 0 && count >= kChunk) {
            copy_rows(to, first, rows.view.row, static_cast<int>(width) / kLanes);
            return;
        }
        fill_tile<kChunk, kWidth, 32>(to, lane_, static_cast<int>(width), by_copies, rows.view.data,
                                      [&](int r) { return r < count ? first + r * rows.view.row : nullptr; });
    }

    BK_DEVICE void load_scales(char* to, int j0) const {
        if (scales_.view.data == nullptr) return;
        const int j = j0 + lane_ % kChunk;
        const float* from = scales_.view.data;
        if (j < scales_.k_len) {
            if (!g_.is_one_page)
                from = scales_.row(j);
            else if (g_.p.lengths.page_ids == nullptr)
                from = scales_.data + j * scales_.view.row;
            else
                from = scales_.data + (page_ * scales_.view.batch + (slot_ + lane_ % kChunk) * scales_.view.row);
        }
        start_copy_4(to + lane_ * 4, from, j < scales_.k_len);
    }

    BK_DEVICE void load(int chunk, int stage) {
        if (chunk < end_) {
            char* const to = ring_ + stage * Shape::kStageBytes;
            load_tile(to, keys_, chunk * kChunk, g_.p.d_k, g_.copies_k);
            load_tile(to + Shape::kTile, values_, chunk * kChunk, g_.p.d_v, g_.copies_v);
            if constexpr (Shape::kIs8Bit) load_scales(to + 2 * Shape::kTile, chunk * kChunk);
            find_page(chunk + Shape::kWarps);
        }
        end_copy_group();
    }

    // Elements column and column + 1 of a query row of d_k.
    BK_DEVICE static uint32_t query_pair(const T* q, int column, int d_k) {
        const uint32_t low = column < d_k ? q[column].bits : 0, high = column + 1 < d_k ? q[column + 1].bits : 0;
        return low | high << 16;
    }

    // Stores the fragments of all queries, a vector for each step and lane. Rows behind the last one repeat it.
    BK_DEVICE void load_queries() {
        const T *const q = g_.p.q.at(queries_.b, at_.head[0], queries_.begin + at_.query[0]), *const q8 = g_.p.q.at(
                                                                                                  queries_.b, at_.head[1],
                                                                                                  queries_.begin +
                                                                                                      at_.query[1]);
        const int d_k = static_cast<int>(g_.p.d_k);
        constexpr int kFirst = Shape::kIs8Bit ? 4 : 2, kSecond = Shape::kIs8Bit ? 2 : 8;
#pragma unroll
        for (int i = 0; i < kSteps / Shape::kWarps; ++i) {
            const int step = i * Shape::kWarps + warp_;
            const int column = 16 * step + lane_ % 4 * kFirst;
            q_[step * 32 + lane_] = uint4{query_pair(q, column, d_k), query_pair(q8, column, d_k),
                                          query_pair(q, column + kSecond, d_k), query_pair(q8, column + kSecond, d_k)};
        }
    }

    // Offset of the ldmatrix row that a lane points to: 16 rows by two vectors.
    BK_DEVICE int matrix_offset(int vector) const { return swizzled<kVectors>(lane_ % 16, vector + lane_ / 16); }

    BK_DEVICE void multiply_queries(float (&scores)[2][4], const char* keys) const {
        clear(scores);
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            uint32_t words[4];
            if constexpr (!Shape::kIs8Bit) {
                ldmatrix_x4(words, keys + matrix_offset(2 * step));
                multiply_step(scores, step, {words[0], words[2]}, {words[1], words[3]});
            } else if (step % 2 == 0) {
                ldmatrix_x4(words, keys + matrix_offset(step));
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const uint32_t low = words[2 * i], high = words[2 * i + 1];
                    multiply_step(scores, step + i, {widen_pair<T, KV>(low, 0), widen_pair<T, KV>(low, 1)},
                                  {widen_pair<T, KV>(high, 0), widen_pair<T, KV>(high, 1)});
                }
            }
        }
    }

    struct Operand {
        uint32_t word[2];
    };

    BK_DEVICE void multiply_step(float (&scores)[2][4], int step, const Operand& first, const Operand& second) const {
        const uint4 q = q_[step * 32 + lane_];
        const uint32_t a[4] = {q.x, q.y, q.z, q.w};
        Mma<T>::run(scores[0], a, first.word);
        Mma<T>::run(scores[1], a, second.word);
    }

    // Accumulators 2 n and 2 n + 1 of the output have columns [16 n, 16 n + 16): column_of says which.
    BK_DEVICE void multiply_values(const float (&scores)[2][4], const char* values) {
        uint32_t a[4];
        pack_a<T>(a, scores[0], scores[1]);
#pragma unroll
        for (int n = 0; n < kSteps; ++n) {
            uint32_t words[4];
            if constexpr (!Shape::kIs8Bit) {
                ldmatrix_x4_trans(words, values + matrix_offset(2 * n));
                const uint32_t first[2] = {words[0], words[1]}, second[2] = {words[2], words[3]};
                Mma<T>::run(output_[2 * n], a, first);
                Mma<T>::run(output_[2 * n + 1], a, second);
            } else if (n % 2 == 0) {
                ldmatrix_x4_trans(words, values + matrix_offset(n));
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const uint32_t low = __byte_perm(words[2 * i], 0, 0x3120), high = __byte_perm(words[2 * i + 1], 0, 0x3120);
                    const uint32_t even[2] = {widen_pair<T, KV>(low, 0), widen_pair<T, KV>(high, 0)};
                    const uint32_t odd[2] = {widen_pair<T, KV>(low, 1), widen_pair<T, KV>(high, 1)};
                    Mma<T>::run(output_[2 * (n + i)], a, even);
                    Mma<T>::run(output_[2 * (n + i) + 1], a, odd);
                }
            }
        }
    }

    BK_DEVICE int column_of(int tile, int v) const {
        if constexpr (Shape::kIs8Bit)
            return tile / 2 * 16 + (lane_ % 4 * 2 + v) * 2 + tile % 2;
        else
            return tile * 8 + lane_ % 4 * 2 + v;
    }

    // Multiplies the columns by the factors of their keys, in units of 1 / unit.
    BK_DEVICE void multiply_scales(float (&scores)[2][4], const char* scales, float unit) const {
        const float* const own = reinterpret_cast<const float*>(scales) + lane_ % 4 * 2;
        each_element(scores, [&](int n, int v, float x) { return x * (own[8 * n + v % 2] * unit); });
    }

    // The output is in units of the largest factor of values so far, so that products of probabilities and factors stay in
    // the range of f16. Returns what the output is to be multiplied by when a chunk has a larger one.
    BK_DEVICE float raise_value_scale(const char* scales) {
        const float* const own = reinterpret_cast<const float*>(scales) + lane_ % 4 * 2;
        const float largest = quad_max(fmaxf(fmaxf(own[0], own[1]), fmaxf(own[8], own[9])));
        if (!(largest > value_scale_)) return 1;
        const float change = value_scale_ / largest;
        value_scale_ = largest;
        inverse_value_scale_ = 1 / largest;
        return change;
    }

    BK_DEVICE void add_chunk(int j0, const char* stage) {
        float scores[2][4], none[1][4];
        multiply_queries(scores, stage);
        if constexpr (Shape::kIs8Bit)
            if (g_.p.k_scales.data != nullptr) multiply_scales(scores, stage + 2 * Shape::kTile, 1.0f);
        at_.key = j0 + lane_ % 4 * 2;
        apply_score_rules<T, false>(g_.p.rules, at_.query[1], keys_.k_len - 1, at_, scores, none);
        each_element(scores, [&](int n, int v, float score) {
            return band_.shows(at_.i(n, v), at_.j(n, v)) ? score : -kInfinity<float>;
        });
        float factor[2] = {soften(scores, 0, 1.0f, state_[0]), soften(scores, 1, 1.0f, state_[1])};
        if constexpr (Shape::kIs8Bit)
            if (g_.p.v_scales.data != nullptr) {
                const float change = raise_value_scale(stage + 2 * Shape::kTile + Shape::kScaleBytes / 2);
                factor[0] *= change, factor[1] *= change;
            }
        if (__any_sync(kAllLanes, factor[0] != 1 || factor[1] != 1)) {
#pragma unroll
            for (int n = 0; n < kTiles; ++n)
#pragma unroll
                for (int v = 0; v < 4; ++v) output_[n][v] *= factor[v / 2];
        }
        if (g_.p.rules.dropout.probability > 0) apply_dropout(g_.p.rules.dropout, *g_.p.rules.dropout.seed, at_, scores);
        if constexpr (Shape::kIs8Bit)
            if (g_.p.v_scales.data != nullptr)
                multiply_scales(scores, stage + 2 * Shape::kTile + Shape::kScaleBytes / 2, inverse_value_scale_);
        multiply_values(scores, stage + Shape::kTile);
    }

    // Sums the warps' outputs and stores the tile's.
    BK_DEVICE void merge_warps() {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            state_[half].sum = quad_sum(state_[half].sum);
            if (lane_ % 4 == 0) {
                float* const to = states_ + (warp_ * kDecodeTile + lane_ / 4 + 8 * half) * 2;
                to[0] = state_[half].max, to[1] = state_[half].sum;
            }
        }
        __syncthreads();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = lane_ / 4 + 8 * half;
            const float top = row_state(row).max;
            float factor = math::half::exp2(state_[half].max - (top == -kInfinity<float> ? 0.0f : top));
            if constexpr (Shape::kIs8Bit)
                if (g_.p.v_scales.data != nullptr) factor *= value_scale_;
            float* const to = reinterpret_cast<float*>(ring_) + row * kWidth;
#pragma unroll
            for (int n = 0; n < kTiles; ++n)
#pragma unroll
                for (int v = 0; v < 2; ++v) output_[n][2 * half + v] *= factor;
#pragma unroll
            for (int n = 0; n < kTiles; ++n) {
                if constexpr (Shape::kIs8Bit) {
                    to[column_of(n, 0)] = output_[n][2 * half], to[column_of(n, 1)] = output_[n][2 * half + 1];
                } else {
                    store(to + column_of(n, 0), Vec<float, 2>{{output_[n][2 * half], output_[n][2 * half + 1]}});
                }
            }
        }
        __syncthreads();
#pragma unroll 1
        for (int r = warp_; r < kDecodeTile && first_row_ + r < queries_.rows; r += Shape::kWarps) store_row(r);
    }

    // Maximum and sum of a row over all warps.
    BK_DEVICE RowState row_state(int row) const {
        RowState all{-kInfinity<float>, 0};
#pragma unroll
        for (int w = 0; w < Shape::kWarps; ++w) all.max = fmaxf(all.max, states_[(w * kDecodeTile + row) * 2]);
        const float base = all.max == -kInfinity<float> ? 0.0f : all.max;
#pragma unroll
        for (int w = 0; w < Shape::kWarps; ++w) {
            const float* const of = states_ + (w * kDecodeTile + row) * 2;
            all.sum += of[1] * math::half::exp2(of[0] - base);
        }
        return all;
    }

    BK_DEVICE void store_row(int r) {
        const int row = first_row_ + r, i = queries_.query(row), h = queries_.head_of(row), d_v = static_cast<int>(g_.p.d_v);
        RowState state = row_state(r);
        const float* const from = reinterpret_cast<const float*>(rings_) + r * kWidth;
        const auto sum_of = [&](int x) {
            float sum = 0;
#pragma unroll
            for (int w = 0; w < Shape::kWarps; ++w) sum += from[w * (Shape::kWarpBytes / 4) + x];
            return sum;
        };
        if (g_.partials.splits > 1) {
            const bool is_empty = state.is_empty();
            const int64_t part = g_.partials.index(item_, r) + split_;
            if (lane_ == 0) g_.partials.log2_sum[part] = is_empty ? -kInfinity<float> : state.log2_sum();
            if (is_empty) return;
            const float factor = 1 / state.sum;
            for (int x = lane_; x < d_v; x += 32) g_.partials.output[part * d_v + x] = sum_of(x) * factor;
            return;
        }
        const RowResult result = finish_row(state, g_.p.rules.sinks, h);
        T* const y = g_.p.y.at(queries_.b, h, queries_.begin + i);
        for (int x = lane_; x < d_v; x += 32) y[x] = narrow<T>(result.of(sum_of(x)));
        if (lane_ == 0) store_lse<T>(g_.p.lse, queries_.b, h, queries_.begin + i, result.log2_sum, result.is_empty);
    }

    const DecodeMma<T, KV>& g_;
    const QueryRows queries_;
    KeyBand band_;
    const KeyRows<KV> keys_, values_;
    const int first_row_;
    const int64_t item_;
    const int split_, warp_, lane_;
    const KeyRows<float> scales_;  // of keys in the lower half of the warp, of values in the upper one
    char *const ring_, *const rings_;
    uint4* const q_;
    float* const states_;
    int end_ = 0, page_ = 0, slot_ = 0;
    RowsAreQueries at_{};
    RowState state_[2] = {{-kInfinity<float>, 0}, {-kInfinity<float>, 0}};
    float value_scale_ = 0, inverse_value_scale_ = 0;
    float output_[kTiles][4];
};

template <class T, class KV, int kWidth>
__global__ void __launch_bounds__(DecodeShape<KV, kWidth>::kThreads)
    attention_decode_kernel(const __grid_constant__ DecodeMma<T, KV> g) {
    BK_LAUNCH_SHARED(uint4, shared);
    using Shape = DecodeShape<KV, kWidth>;
    const int group = g.group;
    unsigned index = blockIdx.x;
    const int split = static_cast<int>(index % static_cast<unsigned>(g.partials.splits));
    index = static_cast<unsigned>(g.partials.first_item) + index / static_cast<unsigned>(g.partials.splits);
    const int tile = static_cast<int>(index % static_cast<unsigned>(g.tiles)),
              set = static_cast<int>(index / static_cast<unsigned>(g.tiles));
    const int b = set / g.kv_heads, kv_head = set % g.kv_heads;
    allow_next_kernel();
    const Sequence s = sequence_of(g.p.lengths, b);
    const QueryRows queries{b, kv_head * group, group, static_cast<int>(s.q_len) * group, static_cast<int>(s.q_begin)};
    if (tile == 0 && split == 0)
        store_unowned_rows(g.p, b, queries.head, group, static_cast<int>(threadIdx.x), Shape::kThreads);
    const int first_row = tile * kDecodeTile;
    if (first_row >= queries.rows) return;
    DecodeBlock<T, KV, kWidth>(g, reinterpret_cast<char*>(shared), queries, s, kv_head, first_row, int64_t{index}, split).run();
}

}  // namespace bk::sm80

// SPDX-License-Identifier: Apache-2.0
// Rows of x, or dispatches of an expert, times eight rows of weights on the CPU. Weights are decoded 256 K elements at a
// time into the cache and multiplied by the skinny GEMM's microkernel, whose sums run in the same order for any number of
// rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/abi/vector_width_cpu.h"
#include "gemm/cpu/skinny_kernel_cpu.h"
#include "quantize/products/block_product.h"

namespace bk {

constexpr int kDecodedK = 256;  // K elements decoded at once

inline void copy_floats(const void* from, int64_t first, int64_t step, FloatDtype dtype, int64_t count, float* to) {
    const auto copy = [&](const auto* x) {
        if (step == 1)
            for (int64_t k = 0; k < count; ++k) to[k] = widen(x[first + k]);
        else
            for (int64_t k = 0; k < count; ++k) to[k] = widen(x[(first + k) * step]);
    };
    if (dtype == FloatDtype::kF32) return copy(static_cast<const float*>(from));
    if (dtype == FloatDtype::kF16) return copy(static_cast<const f16*>(from));
    copy(static_cast<const bf16*>(from));
}

inline const void* row_of(const void* base, int64_t elements, FloatDtype dtype) {
    return static_cast<const char*>(base) + elements * bytes_of(dtype);
}

// Rows of x that share decoded weights, and rows of weights.
constexpr int64_t kSharing = 16, kTileRows = kSkinny;
using TileSums = float[kSharing][kTileRows];

// sums[i][l] of rows of x and of weights, which are Rows::row_bytes() apart and which Rows::decode() converts.
template <class Rows, int kBytes>
void multiply_tile_with(const BlockProduct& p, const void* const (&x)[kSharing], int64_t x_count, const uint8_t* weights,
                        int64_t count, TileSums& sums) {
    constexpr int64_t kGroups = kSharing / kSkinny;
    const int64_t row_bytes = Rows::row_bytes(p), groups = ceil_div<int64_t>(x_count, kSkinny);
    const bool is_direct = p.dtype == FloatDtype::kF32 && p.x_step == 1 && p.k % kSkinnyLanes == 0;
    alignas(64) float values[kTileRows][kDecodedK], converted[kSkinny][kDecodedK];
    SkinnyLaneSums<float> lane_sums[kGroups];
    std::fill_n(lane_sums, groups, SkinnyLaneSums<float>{});
    const float *rows[kSkinny], *x_rows[kSkinny];
    for (int64_t l = 0; l < kTileRows; ++l) rows[l] = values[std::min(l, count - 1)];
    for (int64_t k = 0; k < p.k; k += kDecodedK) {
        const int64_t depth = std::min<int64_t>(p.k - k, kDecodedK);
        const int64_t padded = ceil_div<int64_t>(depth, kSkinnyLanes) * kSkinnyLanes;
        for (int64_t l = 0; l < count; ++l) {
            Rows::decode(p, weights + l * row_bytes, k, depth, values[l]);
            std::fill(values[l] + depth, values[l] + padded, 0.f);
        }
        for (int64_t group = 0; group < groups; ++group) {
            const void* const* const own = x + group * kSkinny;
            const int64_t own_count = std::min<int64_t>(x_count - group * kSkinny, kSkinny);
            if (!is_direct)
                run_unfused<kBytes>([&] {
                    for (int64_t i = 0; i < own_count; ++i) {
                        copy_floats(own[i], k, p.x_step, p.dtype, depth, converted[i]);
                        std::fill(converted[i] + depth, converted[i] + padded, 0.f);
                    }
                });
            for (int64_t i = 0; i < kSkinny; ++i) {
                const int64_t at = std::min(i, own_count - 1);
                x_rows[i] = is_direct ? static_cast<const float*>(own[at]) + k : converted[at];
            }
            dot_rows(static_cast<int>(own_count), rows, x_rows, padded, lane_sums[group]);
        }
    }
    for (int64_t group = 0; group < groups; ++group)
        lane_sums[group].finish(std::min<int64_t>(x_count - group * kSkinny, kSkinny), count, sums[group * kSkinny], kTileRows);
}

template <template <int> class Rows>
void multiply_tile(const BlockProduct& p, const void* const (&x)[kSharing], int64_t x_count, const uint8_t* weights,
                   int64_t count, TileSums& sums) {
#if BK_ISA_DISPATCH
    if (vector_bytes() == 64) return multiply_tile_with<Rows<64>, 64>(p, x, x_count, weights, count, sums);
    if (vector_bytes() == 32) return multiply_tile_with<Rows<32>, 32>(p, x, x_count, weights, count, sums);
#endif
    multiply_tile_with<Rows<16>, 16>(p, x, x_count, weights, count, sums);
}

// Rows j to j + count of y for all dispatches, in order.
template <template <int> class Rows>
void multiply_dispatches(const BlockProduct& p, int64_t j, int64_t count) {
    const Dispatches& of = p.dispatches;
    const int64_t row_bytes = Rows<16>::row_bytes(p);
    for (int64_t e = 0; e < of.experts; ++e) {
        const int64_t begin = std::clamp<int64_t>(of.expert_offsets[e], 0, of.count),
                      end = std::clamp<int64_t>(of.expert_offsets[e + 1], 0, of.count);
        for (int64_t first = begin; first < end; first += kSharing) {
            int64_t taken[kSharing], x_count = 0;
            const void* x[kSharing] = {};
            for (int64_t i = first; i < std::min(first + kSharing, end); ++i) {
                if (of.token_ids[i] < 0) continue;
                taken[x_count] = i;
                x[x_count++] = row_of(p.x, of.token_ids[i] * p.x_row, p.dtype);
            }
            if (x_count == 0) continue;
            TileSums sums;
            multiply_tile<Rows>(p, x, x_count, p.weights + (e * p.n + j) * row_bytes, count, sums);
            for (int64_t i = 0; i < x_count; ++i)
                for (int64_t l = 0; l < count; ++l) {
                    const int64_t at = of.token_ids[taken[i]] * p.y_row + j + l;
                    const float value = of.scales == nullptr ? sums[i][l] : of.scales[taken[i]] * sums[i][l];
                    store_float(p.y, at, p.dtype, of.accumulates ? load_float(p.y, at, p.dtype) + value : value);
                }
        }
    }
}

// Rows `first` of y and those that share weights with it, columns j to j + count.
template <template <int> class Rows>
void multiply_rows(const BlockProduct& p, int64_t first, int64_t j, int64_t count) {
    const int64_t x_count = std::min(p.m - first, kSharing);
    const void* x[kSharing] = {};
    for (int64_t i = 0; i < x_count; ++i) x[i] = row_of(p.x, (first + i) * p.x_row, p.dtype);
    TileSums sums;
    multiply_tile<Rows>(p, x, x_count, p.weights + j * Rows<16>::row_bytes(p), count, sums);
    for (int64_t i = 0; i < x_count; ++i)
        for (int64_t l = 0; l < count; ++l) {
            const float bias = p.bias == nullptr ? 0.f : load_float(p.bias, j + l, p.dtype);
            store_float(p.y, (first + i) * p.y_row + j + l, p.dtype, sums[i][l] + bias);
        }
}

// Tiles that share rows of x, which stay in the cache, follow one another.
template <template <int> class Rows>
Status multiply_row_tiles(const BlockProduct& p) {
    const bool has_dispatches = p.dispatches.experts > 0;
    const int64_t tiles = ceil_div<int64_t>(p.n, kTileRows), items = tiles * (has_dispatches ? 1 : ceil_div(p.m, kSharing));
    split_chunks(items, std::max(grain_for(kTileRows * (p.k + 1)), ceil_div(items, 16 * thread_count())),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t item = begin; item < end; ++item) {
                         const int64_t j = item % tiles * kTileRows, count = std::min<int64_t>(p.n - j, kTileRows);
                         if (has_dispatches)
                             multiply_dispatches<Rows>(p, j, count);
                         else
                             multiply_rows<Rows>(p, item / tiles * kSharing, j, count);
                     }
                 });
    return Status::kOk;
}

}  // namespace bk

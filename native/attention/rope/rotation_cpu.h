// SPDX-License-Identifier: Apache-2.0
// CPU rotation: cosines and sines of a tile of tokens and pairs are computed into a buffer, then applied to the group's
// rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "attention/rope/rotation.h"
#include "core/compiler_cpu.h"

namespace bk {

constexpr int64_t kRotaryTile = 768;  // angles of a tile; cosines and sines take 12 KiB of stack in f64

template <class C>
struct RotaryTile {
    alignas(64) C cos[kRotaryTile];
    alignas(64) C sin[kRotaryTile];
};

// Fills a tile for tokens [token, token + tokens) and `count` pairs from `pair` on, token-major.
template <class C, class U>
void find_tile(const RotaryTables<U>& tables, int64_t group, int64_t token, int64_t tokens, int64_t pair, int64_t count,
               RotaryTile<C>* tile) {
    for (int64_t s = 0; s < tokens; ++s) {
        const auto row = tables.template row<C>(group, token + s);
        for (int64_t p = 0; p < count; ++p) {
            tile->cos[s * count + p] = static_cast<C>(row.cos[pair + p]);
            tile->sin[s * count + p] = static_cast<C>(row.sin[pair + p]);
        }
    }
}

template <class C>
void find_tile(const RotaryPositions<C>& positions, int64_t group, int64_t token, int64_t tokens, int64_t pair, int64_t count,
               RotaryTile<C>* tile) {
    WideFloat<kAngleWords<C>> frequency = positions.frequencies.at(pair);
    for (int64_t p = 0; p < count; ++p) {
        for (int64_t s = 0; s < tokens; ++s) {
            const CosSin<C> angle = cos_sin<C>(positions.at(group, token + s), frequency);
            tile->cos[s * count + p] = angle.cos;
            tile->sin[s * count + p] = angle.sin;
        }
        frequency = positions.frequencies.after(frequency);
    }
}

// Rotates `count` pairs: (2p, 2p + 1) when interleaved, (p, p + distance) when split.
template <class T>
void rotate_interleaved(const T* x, T* y, const compute_t<T>* cos, const compute_t<T>* sin, int64_t count) {
    using C = compute_t<T>;
    BK_VECTOR_LOOP
    for (int64_t p = 0; p < count; ++p) {
        const Rotated<C> result = rotate_pair<C>(widen(x[2 * p]), widen(x[2 * p + 1]), {cos[p], sin[p]});
        y[2 * p] = narrow<T>(result.first);
        y[2 * p + 1] = narrow<T>(result.second);
    }
}

template <class T>
void rotate_split(const T* x, T* y, const compute_t<T>* cos, const compute_t<T>* sin, int64_t count, int64_t distance) {
    using C = compute_t<T>;
    BK_VECTOR_LOOP
    for (int64_t p = 0; p < count; ++p) {
        const Rotated<C> result = rotate_pair<C>(widen(x[p]), widen(x[p + distance]), {cos[p], sin[p]});
        y[p] = narrow<T>(result.first);
        y[p + distance] = narrow<T>(result.second);
    }
}

// Rotates rows [first, last) of a group at the tokens of a tile.
template <class T>
void rotate_rows(const RotaryShape& shape, const RotaryTile<compute_t<T>>& tile, int64_t group, int64_t token, int64_t tokens,
                 int64_t pair, int64_t count, int64_t first, int64_t last, const T* x, T* y) {
    const int64_t feature = shape.is_split ? pair : 2 * pair;
    const bool copies = shape.unrotated > 0 && x != y && pair + count == shape.pairs;
    for (int64_t row = first; row < last; ++row) {
        const int64_t outer = row / shape.inner, inner = row % shape.inner;
        const T* from = x + group * shape.x.group + outer * shape.x.outer + inner * shape.x.inner + token * shape.x.seq;
        T* to = y + group * shape.y.group + outer * shape.y.outer + inner * shape.y.inner + token * shape.y.seq;
        for (int64_t s = 0; s < tokens; ++s, from += shape.x.seq, to += shape.y.seq) {
            const auto *cos = tile.cos + s * count, *sin = tile.sin + s * count;
            if (shape.is_split)
                rotate_split(from + feature, to + feature, cos, sin, count, shape.pairs);
            else
                rotate_interleaved(from + feature, to + feature, cos, sin, count);
            if (copies) memcpy(to + 2 * shape.pairs, from + 2 * shape.pairs, sizeof(T) * static_cast<size_t>(shape.unrotated));
        }
    }
}

template <class Angles, class T>
Status rotate(const Launch&, const RotaryShape& shape, const Angles& angles, const T* x, T* y) {
    using C = compute_t<T>;
    const int64_t count = std::clamp<int64_t>(shape.pairs, 1, kRotaryTile);  // pairs of a tile, then its tokens
    const int64_t tokens = std::min(shape.seq_len, kRotaryTile / count);
    const int64_t tiles = ceil_div(shape.seq_len, tokens);
    // Rows of a group are split if there are fewer tiles than threads.
    const int64_t splits = std::clamp<int64_t>(2 * thread_count() / (shape.groups * tiles), 1, shape.rows());
    const int64_t elements = ceil_div(shape.rows(), splits) * tokens * (2 * shape.pairs + shape.unrotated);
    const int64_t grain = std::max<int64_t>(1, grain_for(2 * static_cast<int64_t>(sizeof(T)) * elements));
    parallel_ranges(shape.groups * tiles * splits, grain, [&](int64_t begin, int64_t end) {
        RotaryTile<C> tile;
        for (int64_t at = begin; at < end; ++at) {
            const int64_t group = at / (tiles * splits), token = at / splits % tiles * tokens, split = at % splits;
            const int64_t tile_tokens = std::min(tokens, shape.seq_len - token);
            const int64_t first = shape.rows() / splits * split + std::min(split, shape.rows() % splits);
            const int64_t last = first + shape.rows() / splits + (split < shape.rows() % splits ? 1 : 0);
            int64_t pair = 0;
            do {
                const int64_t tile_pairs = std::min(count, shape.pairs - pair);
                find_tile<C>(angles, group, token, tile_tokens, pair, tile_pairs, &tile);
                if (shape.is_inverse)
                    for (int64_t i = 0; i < tile_tokens * tile_pairs; ++i) tile.sin[i] = -tile.sin[i];
                rotate_rows(shape, tile, group, token, tile_tokens, pair, tile_pairs, first, last, x, y);
                pair += tile_pairs;
            } while (pair < shape.pairs);
        }
    });
    return Status::kOk;
}

}  // namespace bk

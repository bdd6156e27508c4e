// A tile of places has its cosines and sines in a buffer, by which the rows of the group are turned one after another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "attention/rotation.h"
#include "core/compiler_cpu.h"

namespace bk {

constexpr int64_t kRotaryTile = 768;  // angles of a tile; in f64 their cosines and sines take 12 KiB of stack

template <class C>
struct RotaryTile {
    alignas(64) C cos[kRotaryTile];
    alignas(64) C sin[kRotaryTile];
};

// Of `places` places from `place` on and of `count` pairs from `pair` on, place by place.
template <class C, class U>
void find_tile(const RotaryTables<U>& tables, int64_t group, int64_t place, int64_t places, int64_t pair, int64_t count,
               RotaryTile<C>* tile) {
    for (int64_t s = 0; s < places; ++s) {
        const auto row = tables.template row<C>(group, place + s);
        for (int64_t p = 0; p < count; ++p) {
            tile->cos[s * count + p] = static_cast<C>(row.cos[pair + p]);
            tile->sin[s * count + p] = static_cast<C>(row.sin[pair + p]);
        }
    }
}

template <class C>
void find_tile(const RotaryPositions<C>& positions, int64_t group, int64_t place, int64_t places, int64_t pair, int64_t count,
               RotaryTile<C>* tile) {
    WideFloat<kAngleWords<C>> frequency = positions.frequencies.at(pair);
    for (int64_t p = 0; p < count; ++p) {
        for (int64_t s = 0; s < places; ++s) {
            const CosSin<C> angle = cos_sin<C>(positions.at(group, place + s), frequency);
            tile->cos[s * count + p] = angle.cos;
            tile->sin[s * count + p] = angle.sin;
        }
        frequency = positions.frequencies.after(frequency);
    }
}

// `count` pairs, whose members are 2p and 2p + 1, or p and p + distance.
template <class T>
void turn_joined(const T* x, T* y, const compute_t<T>* cos, const compute_t<T>* sin, int64_t count) {
    using C = compute_t<T>;
    BK_VECTOR_LOOP
    for (int64_t p = 0; p < count; ++p) {
        const Rotated<C> turned = rotate_pair<C>(widen(x[2 * p]), widen(x[2 * p + 1]), {cos[p], sin[p]});
        y[2 * p] = narrow<T>(turned.first);
        y[2 * p + 1] = narrow<T>(turned.second);
    }
}

template <class T>
void turn_split(const T* x, T* y, const compute_t<T>* cos, const compute_t<T>* sin, int64_t count, int64_t distance) {
    using C = compute_t<T>;
    BK_VECTOR_LOOP
    for (int64_t p = 0; p < count; ++p) {
        const Rotated<C> turned = rotate_pair<C>(widen(x[p]), widen(x[p + distance]), {cos[p], sin[p]});
        y[p] = narrow<T>(turned.first);
        y[p + distance] = narrow<T>(turned.second);
    }
}

// Rows [first, last) of a group at the places of a tile.
template <class T>
void turn_rows(const RotaryShape& shape, const RotaryTile<compute_t<T>>& tile, int64_t group, int64_t place, int64_t places,
               int64_t pair, int64_t count, int64_t first, int64_t last, const T* x, T* y) {
    const int64_t feature = shape.is_split ? pair : 2 * pair;
    const bool copies = shape.rest > 0 && x != y && pair + count == shape.pairs;
    for (int64_t row = first; row < last; ++row) {
        const int64_t outer = row / shape.inner, inner = row % shape.inner;
        const T* from = x + group * shape.x.group + outer * shape.x.outer + inner * shape.x.inner + place * shape.x.place;
        T* to = y + group * shape.y.group + outer * shape.y.outer + inner * shape.y.inner + place * shape.y.place;
        for (int64_t s = 0; s < places; ++s, from += shape.x.place, to += shape.y.place) {
            const auto *cos = tile.cos + s * count, *sin = tile.sin + s * count;
            if (shape.is_split)
                turn_split(from + feature, to + feature, cos, sin, count, shape.pairs);
            else
                turn_joined(from + feature, to + feature, cos, sin, count);
            if (copies) memcpy(to + 2 * shape.pairs, from + 2 * shape.pairs, sizeof(T) * static_cast<size_t>(shape.rest));
        }
    }
}

template <class Angles, class T>
Status rotate(const Launch&, const RotaryShape& shape, const Angles& angles, const T* x, T* y) {
    using C = compute_t<T>;
    const int64_t count = std::clamp<int64_t>(shape.pairs, 1, kRotaryTile);  // pairs of a tile, and places
    const int64_t places = std::min(shape.places, kRotaryTile / count);
    const int64_t tiles = ceil_div(shape.places, places);
    // Parts of a group's rows, where there are fewer tiles than threads.
    const int64_t parts = std::clamp<int64_t>(2 * thread_count() / (shape.groups * tiles), 1, shape.rows());
    const int64_t elements = ceil_div(shape.rows(), parts) * places * (2 * shape.pairs + shape.rest);
    const int64_t grain = std::max<int64_t>(1, grain_for(2 * static_cast<int64_t>(sizeof(T)) * elements));
    parallel_ranges(shape.groups * tiles * parts, grain, [&](int64_t begin, int64_t end) {
        RotaryTile<C> tile;
        for (int64_t at = begin; at < end; ++at) {
            const int64_t group = at / (tiles * parts), place = at / parts % tiles * places, part = at % parts;
            const int64_t here = std::min(places, shape.places - place);
            const int64_t first = shape.rows() / parts * part + std::min(part, shape.rows() % parts);
            const int64_t last = first + shape.rows() / parts + (part < shape.rows() % parts ? 1 : 0);
            int64_t pair = 0;
            do {
                const int64_t some = std::min(count, shape.pairs - pair);
                find_tile<C>(angles, group, place, here, pair, some, &tile);
                if (shape.is_inverse)
                    for (int64_t i = 0; i < here * some; ++i) tile.sin[i] = -tile.sin[i];
                turn_rows(shape, tile, group, place, here, pair, some, first, last, x, y);
                pair += some;
            } while (pair < shape.pairs);
        }
    });
    return Status::kOk;
}

}  // namespace bk

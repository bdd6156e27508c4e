// SPDX-License-Identifier: Apache-2.0
// Keys with their indices, ordered by both, and the selection among them on the CPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/platform.h"
#include "core/topk/row_selection.h"

namespace bk {

// A key of up to 32 bits and an index below 2^32 in one integer.
struct PackedRank {
    uint64_t word;
    static PackedRank of(uint64_t key, int64_t index) { return {key << 32 | static_cast<uint64_t>(index)}; }
    uint64_t key() const { return word >> 32; }
    int64_t index() const { return static_cast<int64_t>(word & 0xffffffffu); }
    friend bool operator<(PackedRank a, PackedRank b) { return a.word < b.word; }
};

struct WideRank {
    uint64_t first;
    int64_t second;
    static WideRank of(uint64_t key, int64_t index) { return {key, index}; }
    uint64_t key() const { return first; }
    int64_t index() const { return second; }
    friend bool operator<(const WideRank& a, const WideRank& b) {
        return a.first < b.first || (a.first == b.first && a.second < b.second);
    }
};

// The order of keys with a kind that the compiler knows, so that loops over elements vectorise.
template <class Bits, KeyKind kKind>
struct KeyOf {
    Bits largest, flip;
    BK_HD Bits operator()(Bits bits) const { return KeyOrder<Bits>{kKind, largest, flip}(bits); }
};

// A row of the input.
template <class Bits>
struct InputRow {
    const Bits* x;
    int64_t length, step;
};

// The threshold of the first `count` elements in key order, 1 <= count <= length: a radix select, most significant digits
// first, that reads the row once for each digit.
template <class Bits, class Key>
BK_HD RankThreshold<Bits> find_threshold(const InputRow<Bits>& row, const Key& key_of, int64_t count) {
    constexpr int kBits = 8 * sizeof(Bits), kDigit = kBits < 11 ? kBits : 11;
    int64_t found[1 << kDigit];
    Bits prefix = 0, known = 0;  // of the threshold
    int64_t below = 0;
    for (int shift = kBits - kDigit, high = kBits; high > 0; high = shift, shift = shift > kDigit ? shift - kDigit : 0) {
        const int bins = 1 << (high - shift);
        std::fill_n(found, bins, int64_t{0});
        for (int64_t i = 0; i < row.length; ++i) {
            const Bits key = key_of(row.x[i * row.step]);
            found[static_cast<int>(key >> shift) & (bins - 1)] += ((key ^ prefix) & known) == 0;
        }
        int bin = 0;
        while (below + found[bin] < count) below += found[bin++];
        prefix = static_cast<Bits>(prefix | static_cast<Bits>(static_cast<Bits>(bin) << shift));
        known = static_cast<Bits>(known | static_cast<Bits>(static_cast<Bits>(bins - 1) << shift));
    }
    return {prefix, below, count - below};
}

// emit(index) for the elements within a threshold, in index order.
template <class Bits, class Key, class Emit>
BK_HD void for_within(const InputRow<Bits>& row, const Key& key_of, RankThreshold<Bits> threshold, const Emit& emit) {
    constexpr int64_t kTile = 64;
    Bits keys[kTile];
    int64_t ties = threshold.ties;
    for (int64_t first = 0; first < row.length; first += kTile) {
        const int64_t size = std::min(kTile, row.length - first);
        bool any = false;
        for (int64_t k = 0; k < size; ++k) {
            keys[k] = key_of(row.x[(first + k) * row.step]);
            any |= keys[k] <= threshold.key;
        }
        for (int64_t k = 0; any && k < size; ++k) {
            if (keys[k] > threshold.key || (keys[k] == threshold.key && ties-- <= 0)) continue;
            emit(first + k);
        }
    }
}

// body(key_of) with the order's kind.
template <class Bits, class Body>
void with_key_kind(const KeyOrder<Bits>& order, const Body& body) {
    switch (order.kind) {
        case KeyKind::kUnsigned: return body(KeyOf<Bits, KeyKind::kUnsigned>{order.largest, order.flip});
        case KeyKind::kSigned: return body(KeyOf<Bits, KeyKind::kSigned>{order.largest, order.flip});
        case KeyKind::kFloat: return body(KeyOf<Bits, KeyKind::kFloat>{order.largest, order.flip});
        case KeyKind::kBoolean: return body(KeyOf<Bits, KeyKind::kBoolean>{order.largest, order.flip});
    }
}

}  // namespace bk

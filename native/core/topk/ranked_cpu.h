// SPDX-License-Identifier: Apache-2.0
// Ranks in a row on the CPU: the key of a rank, by the sampling of Floyd and Rivest (CACM 18, 1975). Two elements of a sorted
// sample enclose the rank with high probability; one pass counts the keys below them and collects those between, among which
// the rank is selected. If they are too many for the buffer, they are the next sample. A sample that misleads, as that of a
// row made for it does, leads to a radix select, which reads the row once for each digit of 11 bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/platform.h"
#include "core/sort/vector_sort_cpu.h"
#include "core/topk/row_selection.h"

namespace bk {

// Keys are searched as words of 32 or 64 bits.
template <class Bits>
using RankWord = std::conditional_t<sizeof(Bits) == 8, uint64_t, uint32_t>;

constexpr int64_t kRankTile = 256;

// A row of the input.
template <class Bits>
struct InputRow {
    using Word = RankWord<Bits>;
    const Bits* x;
    int64_t length, step;
    KeyOrder<Bits> order;

    Bits operator[](int64_t index) const { return x[index * step]; }
    // Keys of elements from `first` on; returns their number, at most kRankTile.
    int64_t load(int64_t first, Word* keys) const {
        const int64_t size = std::min(kRankTile, length - first);
        load_keys(order, x + first * step, step, size, keys);
        return size;
    }
};

// Words equal to the key.
template <class Word>
int64_t count_equal(const Word* words, int64_t count, Word key) {
    return take_between(words, count, key, key, static_cast<Word*>(nullptr), 0).inside;
}

// The threshold of the first `count` elements in key order, 1 <= count <= length, by radix select, most significant digits
// first.
template <class Bits>
BK_COLD RankThreshold<Bits> find_threshold_by_digits(const InputRow<Bits>& row, int64_t count) {
    using Word = RankWord<Bits>;
    constexpr int kBits = 8 * sizeof(Bits), kDigit = 8;
    int64_t found[1 << kDigit];
    Word prefix = 0, known = 0;  // of the threshold
    int64_t below = 0;
    for (int shift = kBits - kDigit, high = kBits; high > 0; high = shift, shift = shift > kDigit ? shift - kDigit : 0) {
        const int bins = 1 << (high - shift);
        std::fill_n(found, bins, int64_t{0});
        Word keys[kRankTile];
        for (int64_t first = 0; first < row.length; first += kRankTile) {
            const int64_t size = row.load(first, keys);
            for (int64_t k = 0; k < size; ++k)
                found[static_cast<int>(keys[k] >> shift) & (bins - 1)] += ((keys[k] ^ prefix) & known) == 0;
        }
        int bin = 0;
        while (below + found[bin] < count) below += found[bin++];
        prefix |= static_cast<Word>(bin) << shift;
        known |= static_cast<Word>(bins - 1) << shift;
    }
    return {static_cast<Bits>(prefix), below, count - below};
}

// Samples of a row and keys between two bounds. 16 KiB, since a call takes at most 32 KiB of a stack.
template <class Word>
struct RankBuffer {
    static constexpr int64_t kSize = 8192 / sizeof(Word);
    Word word[kSize], other[kSize];
};

// The bounds of a rank: `below` keys of the row are less than `low`, and it is in [low, high].
template <class Word>
struct RankBounds {
    Word low, high;
    int64_t below, inside;
};

// Bounds of the rank, from a sorted sample of those inside: three standard deviations of the sample's rank on both sides.
template <class Word>
RankBounds<Word> narrowed(const RankBounds<Word>& bounds, const Word* sample, int64_t size, int64_t rank) {
    const double share = (static_cast<double>(rank - bounds.below) + 0.5) / static_cast<double>(bounds.inside);
    const double at = share * static_cast<double>(size);
    const double margin = 3 * std::sqrt(at * (1 - share)) + 1;
    const auto low = static_cast<int64_t>(at - margin), high = static_cast<int64_t>(at + margin) + 1;
    return {low > 0 ? sample[low] : bounds.low, high < size ? sample[high] : bounds.high, bounds.below, bounds.inside};
}

// Floyd and Rivest, "Expected time bounds for selection", 1975: bounds from a sample, and the keys between them.
template <class Bits>
BK_COLD RankThreshold<Bits> find_threshold(const InputRow<Bits>& row, int64_t count) {
    using Word = RankWord<Bits>;
    using Buffer = RankBuffer<Word>;
    constexpr int64_t kDirect = 1024;  // a longer row is sampled
    constexpr int kMostPasses = 8;
    Buffer buffer;
    Word keys[kRankTile];
    const int64_t rank = count - 1;
    RankBounds<Word> bounds{0, static_cast<Word>(KeyOrder<Bits>::kAll), 0, row.length};
    int64_t held = row.length;
    if (row.length <= kDirect) {
        for (int64_t first = 0; first < row.length; first += kRankTile) row.load(first, buffer.word + first);
    } else {
        int64_t size = row.length < 65536 ? 256 : 1024;
        const int64_t step = row.length / size;
        load_keys(row.order, row.x + step / 2 * row.step, step * row.step, size, buffer.word);
        for (int pass = 0;; ++pass) {
            sort_words(buffer.word, buffer.other, size);
            const RankBounds<Word> next = narrowed(bounds, buffer.word, size, rank);
            const bool is_narrower = next.low > bounds.low || next.high < bounds.high;
            if (pass == kMostPasses || !is_narrower) return find_threshold_by_digits(row, count);
            bounds = {next.low, next.high, 0, 0};
            for (int64_t first = 0; first < row.length; first += kRankTile) {
                const int64_t loaded = row.load(first, keys), taken = std::min(bounds.inside, Buffer::kSize);
                const Between found =
                    take_between(keys, loaded, bounds.low, bounds.high, buffer.word + taken, Buffer::kSize - taken);
                bounds.below += found.below;
                bounds.inside += found.inside;
            }
            if (rank < bounds.below || rank >= bounds.below + bounds.inside) return find_threshold_by_digits(row, count);
            if (bounds.low == bounds.high) return {static_cast<Bits>(bounds.low), bounds.below, count - bounds.below};
            held = bounds.inside;
            if (held <= Buffer::kSize) break;
            size = Buffer::kSize;
        }
    }
    const Word key = select_word(buffer.word, buffer.other, held, rank - bounds.below);
    const int64_t below = bounds.below + take_between(buffer.word, held, key, key, static_cast<Word*>(nullptr), 0).below;
    return {static_cast<Bits>(key), below, count - below};
}

// The index of the `ties`-th element of this key, from 1 on.
template <class Bits>
int64_t index_of_tie(const InputRow<Bits>& row, Bits key, int64_t ties) {
    RankWord<Bits> keys[kRankTile];
    for (int64_t first = 0;; first += kRankTile) {
        const int64_t size = row.load(first, keys), equal = count_equal<RankWord<Bits>>(keys, size, key);
        if (equal < ties) {
            ties -= equal;
            continue;
        }
        for (int64_t k = 0;; ++k)
            if (keys[k] == key && --ties == 0) return first + k;
    }
}

// emit(index, key) for the elements within a threshold, in index order.
template <class Bits, class Emit>
void for_within(const InputRow<Bits>& row, RankThreshold<Bits> threshold, const Emit& emit) {
    using Word = RankWord<Bits>;
    Word keys[kRankTile], positions[kRankTile];
    int64_t ties = threshold.ties;
    for (int64_t first = 0; first < row.length; first += kRankTile) {
        const int64_t size = row.load(first, keys), found = find_at_most(keys, size, Word{threshold.key}, positions);
        for (int64_t i = 0; i < found; ++i) {
            const auto at = static_cast<int64_t>(positions[i]);
            const auto key = static_cast<Bits>(keys[at]);
            if (key == threshold.key && ties-- <= 0) continue;
            emit(first + at, key);
        }
    }
}

// body(at, row) for the rows [begin, end), with the offsets of their operands. Rows whose elements are apart are copied to the
// stack where they fit, several at a time, since they may share cache lines.
template <class Bits, class Body>
void for_rows(const RowSelection& rows, const KeyOrder<Bits>& order, const Bits* x, int64_t begin, int64_t end,
              const Body& body) {
    const Walk<3, uint64_t> walk(collapse(rows.rows));
    constexpr int64_t kCopied = 7168 / sizeof(Bits), kMostRows = 64 / sizeof(Bits);
    const int64_t step = rows.step[RowSelection::kInput], length = rows.length;
    const auto first_of = [&](const Offsets<3, uint64_t>& at) { return x + static_cast<int64_t>(at.of[RowSelection::kInput]); };
    if (step == 1 || length > kCopied || length == 0) {
        for (int64_t r = begin; r < end; ++r) {
            const Offsets<3, uint64_t> at = walk(static_cast<uint64_t>(r));
            body(at, InputRow<Bits>{first_of(at), length, step, order});
        }
        return;
    }
    Bits copied[kCopied];
    const int64_t together = std::min(kMostRows, kCopied / length);
    for (int64_t first = begin; first < end; first += together) {
        const int64_t count = std::min(together, end - first);
        Offsets<3, uint64_t> at[kMostRows];
        const Bits* from[kMostRows];
        for (int64_t r = 0; r < count; ++r) {
            at[r] = walk(static_cast<uint64_t>(first + r));
            from[r] = first_of(at[r]);
        }
        for (int64_t i = 0; i < length; ++i)
            for (int64_t r = 0; r < count; ++r) copied[r * length + i] = from[r][i * step];
        for (int64_t r = 0; r < count; ++r) body(at[r], InputRow<Bits>{copied + r * length, length, 1, order});
    }
}

}  // namespace bk

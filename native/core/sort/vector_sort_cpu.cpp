// SPDX-License-Identifier: Apache-2.0
// Quicksort by AVX-512: words below a pivot are compressed to the front, the others into a buffer and copied behind them, so
// that no step has an unpredictable branch; arrays of up to 16 vectors take a sorting network. The pivot is the median of a
// sample. An array that is split badly too often goes to the radix sort, which also serves processors without AVX-512.
#include "core/sort/vector_sort_cpu.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/abi/launch.h"
#if BK_ISA_DISPATCH
#include "core/sort/sort_network_avx512_cpu.h"
#endif

namespace bk {

namespace {

constexpr int64_t kInsertionWords = 24;

template <class Word>
void insertion_sort(Word* words, int64_t count) {
    for (int64_t i = 1; i < count; ++i) {
        const Word word = words[i];
        int64_t at = i;
        for (; at > 0 && word < words[at - 1]; --at) words[at] = words[at - 1];
        words[at] = word;
    }
}

// Radix sort by digits of kDigit bits, least significant ones first. Digits are counted pass by pass, since all counts would
// take too much of the stack.
template <int kDigit, class Word>
BK_COLD void radix_sort(Word* words, Word* other, int64_t count) {
    constexpr int kBits = 8 * sizeof(Word), kPasses = (kBits + kDigit - 1) / kDigit, kBins = 1 << kDigit;
    Word *from = words, *to = other;
    for (int pass = 0; pass < kPasses; ++pass) {
        const auto digit = [pass](Word word) { return static_cast<uint32_t>(word >> (pass * kDigit)) & (kBins - 1); };
        int64_t start[kBins] = {};
        for (int64_t i = 0; i < count; ++i) ++start[digit(from[i])];
        if (start[digit(from[0])] == count) continue;
        int64_t sum = 0;
        for (int bin = 0; bin < kBins; ++bin) sum += std::exchange(start[bin], sum);
        for (int64_t i = 0; i < count; ++i) to[start[digit(from[i])]++] = from[i];
        std::swap(from, to);
    }
    if (from != words) memcpy(words, from, sizeof(Word) * static_cast<size_t>(count));
}

constexpr int64_t kWideDigits = 1 << 14;  // words for which digits of 11 bits pay

template <class Word>
void sort_by_digits(Word* words, Word* other, int64_t count) {
    if (count <= kInsertionWords) return insertion_sort(words, count);
    if (sizeof(Word) >= 4 && count >= kWideDigits) return radix_sort<11>(words, other, count);
    radix_sort<8>(words, other, count);
}

#if BK_ISA_DISPATCH

#define BK_AVX512 __attribute__((noinline, target(BK_SORT_TARGET)))

template <class Word>
constexpr int64_t kNetworkWords = 16 * Lanes<Word>::kLanes;

template <class Word>
BK_AVX512 void sort_by_network(Word* words, int64_t count) {
    constexpr int kLanes = Lanes<Word>::kLanes;
    const int size = static_cast<int>(count);
    if (size <= kLanes) return SortNetwork<Word, 0>::sort(words, size);
    if (size <= 2 * kLanes) return SortNetwork<Word, 1>::sort(words, size);
    if (size <= 4 * kLanes) return SortNetwork<Word, 2>::sort(words, size);
    if (size <= 8 * kLanes) return SortNetwork<Word, 3>::sort(words, size);
    SortNetwork<Word, 4>::sort(words, size);
}

// Moves the words below the pivot to the front; returns their number.
template <class Word>
BK_AVX512 int64_t partition(Word* words, Word* other, int64_t count, Word pivot) {
    using L = Lanes<Word>;
    const __m512i limit = L::all(pivot);
    int64_t below = 0, above = 0, i = 0;
    constexpr int kUnrolled = 4;
    for (; i + kUnrolled * L::kLanes <= count; i += kUnrolled * L::kLanes) {
        __m512i v[kUnrolled];
        typename L::Mask mask[kUnrolled];
        for (int k = 0; k < kUnrolled; ++k) v[k] = L::load(words + i + k * L::kLanes);
        for (int k = 0; k < kUnrolled; ++k) mask[k] = L::less(v[k], limit);
        for (int k = 0; k < kUnrolled; ++k) {
            L::store(words + below, L::compress(mask[k], v[k]));
            L::store(other + above, L::compress(static_cast<typename L::Mask>(~mask[k]), v[k]));
            const int found = __builtin_popcount(mask[k]);
            below += found;
            above += L::kLanes - found;
        }
    }
    for (; i < count; i += L::kLanes) {
        const int64_t left = count - i;
        const auto valid = static_cast<typename L::Mask>(left >= L::kLanes ? ~0u : (1u << static_cast<unsigned>(left)) - 1u);
        const __m512i v = L::load(words + i, valid, limit);
        const auto mask = static_cast<typename L::Mask>(L::less(v, limit) & valid);
        const int found = __builtin_popcount(mask), rest = __builtin_popcount(valid) - found;
        L::store(words + below, static_cast<typename L::Mask>((1u << static_cast<unsigned>(found)) - 1u), L::compress(mask, v));
        L::store(other + above, static_cast<typename L::Mask>((1u << static_cast<unsigned>(rest)) - 1u),
                 L::compress(static_cast<typename L::Mask>(~mask & valid), v));
        below += found;
        above += rest;
    }
    memcpy(words + below, other, sizeof(Word) * static_cast<size_t>(above));
    return below;
}

template <class Word>
BK_IN_AVX512 __m512i median_of_three(__m512i a, __m512i b, __m512i c) {
    using L = Lanes<Word>;
    return L::high(L::low(a, b), L::low(L::high(a, b), c));
}

// The median of medians of three words, from vectors at equal distances.
template <class Word>
BK_AVX512 Word choose_pivot(const Word* words, int64_t count) {
    using L = Lanes<Word>;
    constexpr int kMost = 8;
    const int vectors = count < 4096 ? 1 : count < 65536 ? 4 : kMost;
    const int64_t step = count / (3 * vectors);
    Word sample[kMost * L::kLanes];
    for (int i = 0; i < vectors; ++i) {
        const Word* const from = words + 3 * i * step + (step - L::kLanes) / 2;
        L::store(sample + i * L::kLanes, median_of_three<Word>(L::load(from), L::load(from + step), L::load(from + 2 * step)));
    }
    sort_by_network(sample, vectors * L::kLanes);
    return sample[vectors * L::kLanes / 2];
}

// Splits at a pivot of its own choice: words before `middle` are below those from `end` on, those between are equal.
struct Split {
    int64_t middle, end;
};

template <class Word>
Split split(Word* words, Word* other, int64_t count) {
    const Word pivot = choose_pivot(words, count);
    const int64_t below = partition(words, other, count, pivot);
    if (below > 0) return {below, below};
    // The pivot is the least word: its equals go to the front.
    if (pivot == static_cast<Word>(~Word{0})) return {0, count};
    return {0, partition(words, other, count, static_cast<Word>(pivot + 1))};
}

inline int split_limit(int64_t count) { return 2 * (64 - __builtin_clzll(static_cast<unsigned long long>(count | 1))); }

template <class Word>
void quicksort(Word* words, Word* other, int64_t count, int splits) {
    while (count > kNetworkWords<Word>) {
        if (splits-- == 0) return sort_by_digits(words, other, count);
        const Split at = split(words, other, count);
        quicksort(words, other, at.middle, splits);
        words += at.end;
        count -= at.end;
    }
    sort_by_network(words, count);
}

template <class Word>
Word quickselect(Word* words, Word* other, int64_t count, int64_t rank) {
    for (int splits = split_limit(count); count > kNetworkWords<Word> && splits > 0; --splits) {
        const Split at = split(words, other, count);
        if (rank >= at.middle && rank < at.end) return words[rank];
        if (rank < at.middle) {
            count = at.middle;
        } else {
            words += at.end;
            count -= at.end;
            rank -= at.end;
        }
    }
    quicksort(words, other, count, 0);
    return words[rank];
}

template <class Word>
BK_AVX512 Between take_between_avx512(const Word* words, int64_t count, Word low, Word high, Word* taken, int64_t capacity) {
    using L = Lanes<Word>;
    using Mask = typename L::Mask;
    const __m512i lows = L::all(low), highs = L::all(high);
    Between found{0, 0};
    for (int64_t i = 0; i < count; i += L::kLanes) {
        const Mask valid = static_cast<Mask>(count - i >= L::kLanes ? ~0u : (1u << static_cast<unsigned>(count - i)) - 1u);
        const __m512i v = L::load(words + i, valid, lows);
        const auto is_below = static_cast<Mask>(L::less(v, lows) & valid);
        const auto is_inside = static_cast<Mask>(L::at_most(v, highs) & ~is_below & valid);
        const int size = __builtin_popcount(is_inside);
        if (found.inside + L::kLanes <= capacity) {
            L::store(taken + found.inside, L::compress(is_inside, v));
        } else if (found.inside < capacity) {
            const int64_t left = std::min<int64_t>(capacity - found.inside, size);
            L::store(taken + found.inside, static_cast<Mask>((1u << static_cast<unsigned>(left)) - 1u),
                     L::compress(is_inside, v));
        }
        found.below += __builtin_popcount(is_below);
        found.inside += size;
    }
    return found;
}

template <class Word>
BK_AVX512 int64_t find_at_most_avx512(const Word* words, int64_t count, Word limit, Word* positions) {
    using L = Lanes<Word>;
    using Mask = typename L::Mask;
    static constexpr LaneNumbers<Word> numbers = lanes_xor<Word>(0);
    const __m512i limits = L::all(limit), lanes = _mm512_load_si512(numbers.lane);
    int64_t found = 0;
    for (int64_t i = 0; i < count; i += L::kLanes) {
        const Mask valid = static_cast<Mask>(count - i >= L::kLanes ? ~0u : (1u << static_cast<unsigned>(count - i)) - 1u);
        const auto mask = static_cast<Mask>(L::at_most(L::load(words + i, valid, limits), limits) & valid);
        if (mask == 0) continue;
        const int size = __builtin_popcount(mask);
        L::store(positions + found, static_cast<Mask>((1u << static_cast<unsigned>(size)) - 1u),
                 L::compress(mask, L::sum(lanes, L::all(static_cast<Word>(i)))));
        found += size;
    }
    return found;
}

bool has_avx512() {
    static const bool value = isa() == Isa::kAvx512;
    return value;
}
#else
bool has_avx512() { return false; }
#endif

template <class Word>
void sort_words_of(Word* words, Word* other, int64_t count) {
    if (count < 2) return;
#if BK_ISA_DISPATCH
    if (has_avx512()) return quicksort(words, other, count, split_limit(count));
#endif
    sort_by_digits(words, other, count);
}

template <class Word>
Word select_word_of(Word* words, [[maybe_unused]] Word* other, int64_t count, int64_t rank) {
#if BK_ISA_DISPATCH
    if (has_avx512()) return quickselect(words, other, count, rank);
#endif
    std::nth_element(words, words + rank, words + count);
    return words[rank];
}

template <class Word>
Between take_between_of(const Word* words, int64_t count, Word low, Word high, Word* taken, int64_t capacity) {
#if BK_ISA_DISPATCH
    if (has_avx512()) return take_between_avx512(words, count, low, high, taken, capacity);
#endif
    Between found{0, 0};
    if (capacity == 0) {
        dispatch_range(
            [&](int64_t, int64_t end) {
                Word below = 0, up_to = 0;  // at most `count`, which tiles keep small
                for (int64_t i = 0; i < end; ++i) {
                    below += words[i] < low;
                    up_to += words[i] <= high;
                }
                found = {static_cast<int64_t>(below), static_cast<int64_t>(up_to - below)};
            },
            0, count);
        return found;
    }
    for (int64_t i = 0; i < count; ++i) {
        const Word word = words[i];
        const bool is_inside = word >= low && word <= high;
        if (found.inside < capacity) taken[found.inside] = word;
        found.inside += is_inside;
        found.below += word < low;
    }
    return found;
}

template <class Word>
int64_t find_at_most_of(const Word* words, int64_t count, Word limit, Word* positions) {
#if BK_ISA_DISPATCH
    if (has_avx512()) return find_at_most_avx512(words, count, limit, positions);
#endif
    constexpr int64_t kTested = 64;
    int64_t found = 0;
    for (int64_t from = 0; from < count; from += kTested) {
        const int64_t size = std::min(kTested, count - from);
        if (take_between_of(words + from, size, Word{0}, limit, static_cast<Word*>(nullptr), 0).inside == 0) continue;
        for (int64_t i = from; i < from + size; ++i) {
            positions[found] = static_cast<Word>(i);
            found += words[i] <= limit;
        }
    }
    return found;
}

template <KeyKind kKind, class Bits, class Word>
void load_keys_of_kind(const KeyOrder<Bits>& given, const Bits* x, int64_t step, int64_t count, Word* keys) {
    const KeyOrder<Bits> order{kKind, given.largest, given.flip};
    dispatch_range(
        [&](int64_t, int64_t end) {
            if (step == 1)
                for (int64_t i = 0; i < end; ++i) keys[i] = order(x[i]);
            else
                for (int64_t i = 0; i < end; ++i) keys[i] = order(x[i * step]);
        },
        0, count);
}

template <class Bits, class Word>
void load_keys_of(const KeyOrder<Bits>& order, const Bits* x, int64_t step, int64_t count, Word* keys) {
    switch (order.kind) {
        case KeyKind::kUnsigned: return load_keys_of_kind<KeyKind::kUnsigned>(order, x, step, count, keys);
        case KeyKind::kSigned: return load_keys_of_kind<KeyKind::kSigned>(order, x, step, count, keys);
        case KeyKind::kFloat: return load_keys_of_kind<KeyKind::kFloat>(order, x, step, count, keys);
        case KeyKind::kBoolean: return load_keys_of_kind<KeyKind::kBoolean>(order, x, step, count, keys);
    }
}

}  // namespace

void sort_words(uint8_t* words, uint8_t* other, int64_t count) {
    if (count > 1) sort_by_digits(words, other, count);
}
void sort_words(uint16_t* words, uint16_t* other, int64_t count) {
    if (count > 1) sort_by_digits(words, other, count);
}
void sort_words(uint32_t* words, uint32_t* other, int64_t count) { sort_words_of(words, other, count); }
void sort_words(uint64_t* words, uint64_t* other, int64_t count) { sort_words_of(words, other, count); }

uint32_t select_word(uint32_t* words, uint32_t* other, int64_t count, int64_t rank) {
    return select_word_of(words, other, count, rank);
}
uint64_t select_word(uint64_t* words, uint64_t* other, int64_t count, int64_t rank) {
    return select_word_of(words, other, count, rank);
}

Between take_between(const uint32_t* words, int64_t count, uint32_t low, uint32_t high, uint32_t* taken, int64_t capacity) {
    return take_between_of(words, count, low, high, taken, capacity);
}
Between take_between(const uint64_t* words, int64_t count, uint64_t low, uint64_t high, uint64_t* taken, int64_t capacity) {
    return take_between_of(words, count, low, high, taken, capacity);
}

int64_t find_at_most(const uint32_t* words, int64_t count, uint32_t limit, uint32_t* positions) {
    return find_at_most_of(words, count, limit, positions);
}
int64_t find_at_most(const uint64_t* words, int64_t count, uint64_t limit, uint64_t* positions) {
    return find_at_most_of(words, count, limit, positions);
}

void load_keys(const KeyOrder<uint8_t>& order, const uint8_t* x, int64_t step, int64_t count, uint32_t* keys) {
    load_keys_of(order, x, step, count, keys);
}
void load_keys(const KeyOrder<uint16_t>& order, const uint16_t* x, int64_t step, int64_t count, uint32_t* keys) {
    load_keys_of(order, x, step, count, keys);
}
void load_keys(const KeyOrder<uint32_t>& order, const uint32_t* x, int64_t step, int64_t count, uint32_t* keys) {
    load_keys_of(order, x, step, count, keys);
}
void load_keys(const KeyOrder<uint64_t>& order, const uint64_t* x, int64_t step, int64_t count, uint64_t* keys) {
    load_keys_of(order, x, step, count, keys);
}

bool has_vector_sort() { return has_avx512(); }

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// One thread with a row; sums are exact, so that results equal those of a GPU. at(i) of a Source is element i.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch_cpu.h"
#include "core/sort/vector_sort_cpu.h"
#include "sampling/token_rows.h"

namespace bk::sampling {

// Sums by bin. A bitmap of the bins that have any makes clearing and searching cheap for short rows.
class Bins {
public:
    void clear() {
        total_ = 0;
        for (uint64_t& word : occupied_) word = 0;
    }
    void add(uint32_t bin, uint64_t amount) {
        uint64_t& word = occupied_[bin / 64];
        const uint64_t bit = uint64_t{1} << (bin % 64);
        sums_[bin] = ((word & bit) != 0 ? sums_[bin] : 0) + amount;
        word |= bit;
        total_ += amount;
    }
    uint64_t total() const { return total_; }
    // Takes the bin where the sum from the highest one down reaches what is wanted, which must exist.
    void take_into(Selection& s) const {
        uint64_t before = 0;
        for (int w = kBins / 64 - 1; w >= 0; --w)
            for (uint64_t word = occupied_[w]; word != 0;) {
                const int bit = 63 - __builtin_clzll(word), bin = 64 * w + bit;
                if (s.above + before + sums_[bin] >= s.wanted) return s.take(static_cast<uint32_t>(bin), before, sums_[bin]);
                before += sums_[bin];
                word ^= uint64_t{1} << bit;
            }
    }

private:
    uint64_t sums_[kBins], occupied_[kBins / 64], total_ = 0;
};

template <class Source>
class RowTeam {
public:
    explicit RowTeam(int64_t vocab) : vocab_(vocab) {}
    void open(const Source& source) { source_ = source; }
    int64_t first() const { return 0; }
    void close() const {}
    bool leads() const { return true; }
    bool leads_block() const { return true; }
    int64_t agreed(int64_t mine) const { return mine; }

    LargestOf largest() const {
        uint32_t low = ~0u, high = 0;  // keys, whose extremes take no branch
        for (int64_t i = 0; i < vocab_; ++i) {
            const uint32_t key = key_of(source_.at(i));
            low = key < low ? key : low;
            high = key > high ? key : high;
        }
        // NaN is below -inf or above +inf.
        const uint32_t infinity = key_of(bit_cast<float>(kInfinityBits));
        return {value_of(high), static_cast<uint32_t>(low < ~infinity || high >= infinity)};
    }

    Pair moments(const RowFilter& f) const {
        return sum([&](float x) { return Pair{f.weights.of(x), f.moment(x)}; });
    }
    template <class Of>
    Pair sum(const Of& of) const {
        Pair sums{0, 0};
        for (int64_t i = 0; i < vocab_; ++i) {
            const Pair each = of(source_.at(i));
            sums = {sums.weight + each.weight, sums.other + each.other};
        }
        return sums;
    }

    Selection select(const RowFilter& f, bool by_weight, uint32_t floor, uint64_t extra, uint64_t wanted) const {
        if (!by_weight && wanted <= kFew) return few_largest(f, static_cast<int64_t>(wanted));
        return by_weight ? selected<true>(f, floor, extra, wanted) : selected<false>(f, floor, extra, wanted);
    }

    bool find_few(const RowFilter&, bool, Admission*, uint64_t*) const { return false; }
    uint64_t admitted_weight(const RowFilter& f, const Admission& a) const {
        uint64_t total = 0;
        for_each_admitted(f, a, [&](int64_t, float, uint64_t weight) {
            total += weight;
            return false;
        });
        return total;
    }
    int64_t token_at(const RowFilter& f, const Admission& a, uint64_t drawn) const {
        int64_t token = -1;
        for_each_admitted(f, a, [&](int64_t i, float, uint64_t weight) {
            if (drawn < weight) token = i;
            drawn -= weight;
            return token >= 0;
        });
        return token;
    }

    template <class T>
    void write(const RowFilter& f, const Admission& a, uint64_t total, const FilteredValue& value, T* y) const {
        const T others = narrow<T>(total > 0 ? value.of_others() : bit_cast<float>(0x7fc00000u));
        int64_t next = 0;
        if (total > 0)
            for_each_admitted(f, a, [&](int64_t i, float x, uint64_t weight) {
                for (; next < i; ++next) y[next] = others;
                y[next++] = narrow<T>(value.of(x, weight));
                return false;
            });
        for (; next < vocab_; ++next) y[next] = others;
    }

private:
    template <bool kByWeight>
    Selection selected(const RowFilter& f, uint32_t floor, uint64_t extra, uint64_t wanted) const {
        Selection s{0, 0, 0, wanted, 0, false};
        Bins bins;
        do {
            bins.clear();
            for (int64_t i = 0; i < vocab_; ++i) {
                const float x = source_.at(i);
                const uint32_t key = f.key(x);
                if (key > floor && s.holds(key)) bins.add(s.bin(key), kByWeight ? f.weights.of(x) : 1);
            }
            if (kByWeight && s.digit == 0) s.wanted = f.wanted(bins.total() + extra);
            s.is_found = s.above + bins.total() >= s.wanted;
            if (!s.is_found) {
                s.above += bins.total();
                return s;
            }
            bins.take_into(s);
        } while (!s.is_settled());
        return s;
    }

    // Whether a key of the tile from `first` on is at least `least`; vectors tell so faster than each is looked at.
    bool has_key(const RowFilter& f, int64_t first, int64_t end, uint32_t least) const {
        uint32_t found = 0;
        for (int64_t i = first; i < end; ++i) found |= static_cast<uint32_t>(f.key(source_.at(i)) >= least);
        return found != 0;
    }
    int64_t tile_end(int64_t first) const { return std::min(first + kTile, vocab_); }

    // The selection of few tokens by count, in one pass: keys above a limit are kept, and cut to those wanted when they are
    // twice as many.
    Selection few_largest(const RowFilter& f, int64_t wanted) const {
        uint32_t kept[2 * kFew], other[2 * kFew];  // complements of keys
        uint32_t limit = 0;
        int64_t held = 0;
        const auto cut = [&] {
            sort_words(kept, other, held);
            held = wanted;
            limit = ~kept[wanted - 1];
        };
        for (int64_t first = 0; first < vocab_; first += kTile) {
            const int64_t end = tile_end(first);
            if (!has_key(f, first, end, limit + 1)) continue;
            for (int64_t i = first; i < end; ++i) {
                const uint32_t key = f.key(source_.at(i));
                if (key <= limit) continue;
                kept[held++] = ~key;
                if (held == 2 * wanted) cut();
            }
        }
        cut();
        uint64_t above = 0, equal = 0;
        for (int64_t k = 0; k < wanted; ++k) above += ~kept[k] > limit;
        for (int64_t i = 0; i < vocab_; ++i) equal += f.key(source_.at(i)) == limit;
        return {limit, above, equal, static_cast<uint64_t>(wanted), kDigits, true};
    }

    // Runs visit(i, x, weight) over the admitted tokens in index order until it returns true.
    template <class Visit>
    void for_each_admitted(const RowFilter& f, const Admission& a, const Visit& visit) const {
        uint32_t ties = a.limit.ties;
        for (int64_t first = 0; first < vocab_; first += kTile) {
            const int64_t end = tile_end(first);
            if (!has_key(f, first, end, a.limit.key)) continue;
            for (int64_t i = first; i < end; ++i) {
                const float x = source_.at(i);
                const uint32_t key = f.key(x);
                if (key < a.limit.key || (key == a.limit.key && ties == 0)) continue;
                if (key == a.limit.key) --ties;
                const uint64_t weight = f.weights.of(x);
                if (weight >= a.least && visit(i, x, weight)) return;
            }
        }
    }

    static constexpr int64_t kTile = 64, kFew = 128;
    const int64_t vocab_;
    Source source_{};
};

// Runs each(row) over the rows in any order.
template <class Each>
Status for_each_row(int64_t rows, const Each& each) {
    parallel_chunks(rows, 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) each(row);
    });
    return Status::kOk;
}

}  // namespace bk::sampling

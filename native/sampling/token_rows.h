// SPDX-License-Identifier: Apache-2.0
// Rows of logits or probabilities: which tokens a row admits, and a draw among them or the filtered row itself.
//
// Tokens are ordered by falling (value, lower index first). top-k and top-p each cut a prefix of this order, which a
// Threshold describes, found by radix selection over the bits of the values: by count for top-k, by weight for top-p
// (radix selection after Alabi et al. 2012, with sums beside counts). No row is sorted. A token is then drawn by inversion of
// the cumulative weights in index order, from one random number a row.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/types/dtype.h"
#include "sampling/weights.h"

namespace bk::sampling {

// Tokens whose key is above `key`, and the first `ties` tokens, by index, with this key.
struct Threshold {
    uint32_t key;
    uint32_t ties;
};

// Number i of an array, or the number that all rows share.
template <class N>
struct PerRow {
    N value;
    const N* array;

    BK_HD N of(int64_t row) const { return array == nullptr ? value : array[row]; }
};

enum class Rule {
    kSequential,  // top-k, then top-p of the mass that top-k leaves, then min-p; ties by index
    kOriginal,    // each filter on the whole row, top-p of the mass 1; all ties are admitted; k, p <= 0 admit nothing
    kTypical,     // top_p is the mass of the tokens whose -log p is nearest to the entropy; all ties are admitted
};

// Random numbers: of (seed, row) with one seed, of (seed, 0) with a seed for each row.
struct RowSeeds {
    PerRow<uint64_t> seed, offset;
    const uint64_t* state;  // seed and offset of all rows on the device, or null

    BK_HD Draws of(int64_t row) const {
        if (state != nullptr) return {state[0], static_cast<uint64_t>(row), state[1]};
        return {seed.of(row), seed.array != nullptr ? 0 : static_cast<uint64_t>(row), offset.of(row)};
    }
};

enum class Output { kToken, kMask, kProbabilities };

template <class T>
struct TokenRows {
    int64_t batch, vocab;
    const T* x;
    bool are_probabilities;
    Rule rule;
    Output output;
    PerRow<float> temperature;  // of logits; 0 is greedy
    PerRow<int32_t> top_k;      // <= 0 or >= vocab: no filter
    PerRow<float> top_p;        // >= 1: no filter; <= 0: the most likely token
    PerRow<float> min_p;        // <= 0: no filter
    RowSeeds seeds;
    int32_t* token;
    uint8_t* valid;  // may be null
    T* y;
};

// The numbers of one row.
struct RowFilter {
    Weights weights;
    Rule rule;
    int64_t top_k;  // 0: no filter
    float top_p, min_p;
    float mean;  // kTypical: mean of the octaves below the largest weight
    bool is_refused;

    // Order of the tokens in the row's filter.
    BK_HD uint32_t key(float x) const {
        if (rule != Rule::kTypical) return key_of(x);
        const float distance = octaves(x) - mean;
        return ~(bit_cast<uint32_t>(distance) & 0x7fffffffu);
    }
    BK_HD float octaves(float x) const { return math::product<float>(weights.largest - x, weights.factor); }
    // A summand of the mean: octaves in units of 2^-18 times the weight in units of 2^17, below 2^41.
    BK_HD uint64_t moment(float x) const {
        const uint64_t weight = weights.of(x);
        return weight == 0 ? 0 : (weight >> 17) * static_cast<uint64_t>(static_cast<int32_t>(octaves(x) * 0x1p18f));
    }
    BK_HD static float mean_of(uint64_t moments, uint64_t total) {
        return static_cast<float>(static_cast<double>(moments) * 0.5 / static_cast<double>(total));
    }
    BK_HD bool admits_all_ties() const { return rule != Rule::kSequential; }

    // The weight that a prefix must reach, of a row whose weights sum to `total`.
    BK_HD uint64_t wanted(uint64_t total) const {
        const double whole = rule == Rule::kOriginal ? weights.unit() : static_cast<double>(total);
        const double part = ceil_of(static_cast<double>(top_p) * whole);
        const uint64_t mass = part < 0x1p62 ? static_cast<uint64_t>(part) : uint64_t{1} << 62;
        if (rule == Rule::kOriginal) return mass > 0 ? mass : 1;
        return mass < 1 ? 1 : mass < total ? mass : total;
    }
    // Least weight that min-p admits.
    BK_HD uint64_t least_weight() const {
        if (!(min_p > 0.0f)) return 0;
        return static_cast<uint64_t>(ceil_of(static_cast<double>(min_p) * static_cast<double>(weights.of(weights.largest))));
    }
    BK_HD static double ceil_of(double x) {
#if BK_ON_GPU
        return ::ceil(x);
#else
        return __builtin_ceil(x);
#endif
    }
};

// The filter of a row whose largest element is known; `any_refused` says that an element is NaN or +inf.
template <class T>
BK_HD RowFilter filter_of(const TokenRows<T>& rows, int64_t row, float largest, bool any_refused) {
    RowFilter f;
    const float temperature = rows.temperature.of(row);
    f.weights = {largest, 0.0f, narrowing_for(rows.vocab), rows.are_probabilities};
    f.rule = rows.rule;
    f.top_k = rows.top_k.of(row);
    f.top_p = rows.top_p.of(row);
    f.min_p = rows.min_p.of(row);
    f.mean = 0.0f;
    const bool has_mass = rows.are_probabilities ? largest > 0.0f : largest > -bit_cast<float>(kInfinityBits);
    f.is_refused = any_refused || !has_mass || !(temperature >= 0.0f) || f.top_p != f.top_p || f.min_p != f.min_p;
    if (rows.rule == Rule::kTypical) f.is_refused = f.is_refused || temperature == 0.0f;
    if (rows.rule == Rule::kOriginal) f.is_refused = f.is_refused || f.top_k <= 0 || f.top_p <= 0.0f;
    const float factor = kLog2E / temperature;
    f.weights.factor = factor < 0x1.fffffep127f ? factor : 0x1.fffffep127f;
    if (temperature == 0.0f) f.top_k = 1;
    if (f.top_k <= 0 || f.top_k >= rows.vocab) f.top_k = 0;
    return f;
}

// Radix selection: digits of a key from the highest bit down.
constexpr int kDigitBits = 11, kBins = 1 << kDigitBits, kDigits = 3;
BK_HD int digit_shift(int digit) { return digit == 0 ? 21 : digit == 1 ? 10 : 0; }
BK_HD uint32_t digit_mask(int digit) { return digit == kDigits - 1 ? 0x3ffu : 0x7ffu; }

// The state of a selection: keys that begin with `prefix` are left, and keys above them sum to `above`.
struct Selection {
    uint32_t prefix;
    uint64_t above, amount, wanted;  // amount: of the keys that are left
    int digit;
    bool is_found;

    BK_HD bool holds(uint32_t key) const { return digit == 0 || key >> digit_shift(digit - 1) == prefix; }
    BK_HD uint32_t bin(uint32_t key) const { return key >> digit_shift(digit) & digit_mask(digit); }
    // Takes the bin where the sum reaches `wanted`; `before` is what stands above it within the prefix.
    BK_HD void take(uint32_t bin, uint64_t before, uint64_t in_bin) {
        prefix = digit == 0 ? bin : prefix << (digit == kDigits - 1 ? 10 : kDigitBits) | bin;
        above += before;
        amount = in_bin;
        ++digit;
    }
    // Whether everything that is left is wanted: later digits do not matter.
    BK_HD bool is_settled() const { return digit == kDigits || above + amount == wanted; }
    BK_HD uint32_t lowest_key() const { return prefix << digit_shift(digit - 1); }
};

// The threshold of a selection by count (each_amount 1), or by weight with that of a token.
BK_HD Threshold threshold_of(const Selection& s, bool all_ties, uint64_t each_amount) {
    const uint32_t key = s.lowest_key();
    if (all_ties || s.above + s.amount == s.wanted || each_amount == 0) return {key - 1, 0};
    const uint64_t ties = (s.wanted - s.above + each_amount - 1) / each_amount;
    return ties * each_amount >= s.amount ? Threshold{key - 1, 0} : Threshold{key, static_cast<uint32_t>(ties)};
}

// The threshold of top-p within an earlier one, whose `ties` tokens of weight `tie` the selection has not seen.
BK_HD Threshold narrowed(const RowFilter& f, const Threshold& limit, const Selection& s, uint64_t tie) {
    if (!s.is_found) {
        if (tie == 0) return limit;
        return {limit.key, static_cast<uint32_t>((s.wanted - s.above + tie - 1) / tie)};
    }
    const uint64_t each = f.admits_all_ties() || s.digit < kDigits ? 0 : f.weights.of(value_of(s.lowest_key()));
    const Threshold found = threshold_of(s, f.admits_all_ties(), each);
    return found.key < limit.key ? limit : found;
}

// Value of an admitted token in a row of filtered values.
struct FilteredValue {
    Output output;
    bool are_probabilities;
    double inverse_total, scale;  // 1 / sum of the admitted weights; for probabilities 1 / sum of the admitted ones

    BK_HD float of(float x, uint64_t weight) const {
        if (output == Output::kMask) return x;
        return static_cast<float>(are_probabilities ? static_cast<double>(x) * scale
                                                    : static_cast<double>(weight) * inverse_total);
    }
    BK_HD float of_others() const {
        return output == Output::kMask && !are_probabilities ? -bit_cast<float>(kInfinityBits) : 0.0f;
    }
};

BK_HD FilteredValue filtered_value(Output output, const Weights& weights, uint64_t total) {
    const double inverse = total > 0 ? 1.0 / static_cast<double>(total) : 0.0;
    return {output, weights.are_probabilities, inverse, weights.are_probabilities ? weights.unit() * inverse : 0.0};
}

// Two sums over a row: of weights, and of ties or moments.
struct Pair {
    uint64_t weight, other;
};

// The largest element of a row, and whether one is NaN or +inf.
struct LargestOf {
    float largest;
    uint32_t refused;
};

// Set of tokens that a row's result admits.
struct Admission {
    Threshold limit;
    uint64_t least;  // weight
};

// The threshold of top-k and top-p. A Team has the threads that share a row; all of them call its members alike.
template <class Team>
BK_HD Threshold find_threshold(Team& team, RowFilter& f) {
    if (f.rule == Rule::kTypical) {
        const Pair sums = team.moments(f);
        f.mean = RowFilter::mean_of(sums.other, sums.weight);
    }
    if (f.top_k == 1 && !f.admits_all_ties()) return {key_of(f.weights.largest), 1};
    Threshold limit{0, 0};
    if (f.top_k > 0) limit = threshold_of(team.select(f, false, 0, 0, static_cast<uint64_t>(f.top_k)), f.admits_all_ties(), 1);
    if (f.top_p >= 1.0f) return limit;
    const uint64_t tie = limit.ties > 0 ? f.weights.of(value_of(limit.key)) : 0;
    const uint32_t floor = f.rule == Rule::kSequential ? limit.key : 0;
    return narrowed(f, limit, team.select(f, true, floor, tie * limit.ties, 0), tie);
}

template <class T, class Team>
BK_HD void run_row(const TokenRows<T>& rows, int64_t row, Team& team) {
    const LargestOf found = team.largest();
    RowFilter f = filter_of(rows, row, found.largest, found.refused != 0);
    Admission admission{{0, 0}, 0};
    uint64_t total = 0;
    if (!f.is_refused) {
        admission.least = f.least_weight();
        if (!team.find_few(f, rows.output != Output::kToken, &admission, &total)) {
            admission.limit = find_threshold(team, f);
            total = team.admitted_weight(f, admission);
        }
    }
    if (team.leads() && rows.valid != nullptr) rows.valid[row] = total > 0;
    if (rows.output != Output::kToken) {
        team.write(f, admission, total, filtered_value(rows.output, f.weights, total), rows.y + row * rows.vocab);
    } else if (total == 0) {
        if (team.leads()) rows.token[row] = 0;
    } else {
        const int64_t token = team.token_at(f, admission, rows.seeds.of(row).below(total, 0));
        if (token >= 0 && team.leads_block()) rows.token[row] = static_cast<int32_t>(token);
    }
}

template <class T>
Status run_token_rows(const Launch& launch, const TokenRows<T>& rows);

}  // namespace bk::sampling

#if BK_CUDA
#include "sampling/token_rows_cuda.cuh"
#else
#include "sampling/token_rows_cpu.h"
#endif

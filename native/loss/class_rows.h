// Row functions of the losses over classes: cross entropy of probabilities, multi-class margins, and what these share with
// cross entropy of an index (index_rows.h).
//
// Each saves its row's term, and maps the row to its gradient. start() takes the target of the row and, for the gradient, dy.
#pragma once

#include <cstdint>

#include "core/math/exp_below.h"
#include "core/math/math.h"
#include "core/platform.h"
#include "core/rows/row_map.h"
#include "loss/class_weights.h"
#include "loss/likelihood.h"
#include "loss/margin.h"
#include "loss/power.h"

namespace bk {

// x at the position `target`, if that is among them, else 0.
template <class C, class W, int N>
BK_HD C picked_of(const C (&x)[N], const W& where, int32_t target) {
#if BK_IN_KERNEL
    C picked = 0;
#pragma unroll
    for (int i = 0; i < N; i += W::width) {
        const unsigned place = static_cast<unsigned>(target - where.position(i));
        if (place >= W::width) continue;
#pragma unroll
        for (unsigned lane = 0; lane < W::width; ++lane) picked = lane == place ? x[i + lane] : picked;
    }
    return picked;
#else
    if (N == 1) return static_cast<int32_t>(where.at(0)) == target ? x[0] : C(0);
    const int64_t place = target - where.at(0);  // elements are neighbours
    return place >= 0 && place < where.count() ? x[place] : C(0);
#endif
}

// Whether there is a target, which is none of `count` positions from `first` on.
BK_HD bool are_other_classes(int32_t target, int first, unsigned count) {
    return target >= 0 && static_cast<unsigned>(target - first) >= count;
}

// What is subtracted before exponentials: nothing from elements that are all -inf.
template <class C>
BK_HD C base_of(C max) {
    return math::select(max == -C(INFINITY), C(0), max);
}

// Exponentials in place of x, and their sum, both without their scale.
template <class T, int N>
BK_HD compute_t<T> exponentials(compute_t<T> (&x)[N], const ExpBelow<T>& below) {
    BK_HELD_LOOP
    for (int i = 0; i < N; ++i) x[i] = below(x[i]);
    return sum_of(x);
}

// An index of 4 bytes, which is its low word, or of 8.
BK_HD int64_t index_of_words(int32_t low, int32_t high, bool has_high_word) {
    const int64_t wide = static_cast<int64_t>(static_cast<uint64_t>(high) << 32 | static_cast<uint32_t>(low));
    return has_high_word ? wide : int64_t{low};
}

// -sum of s log(softmax(x)), where a share s = w[j] (own q + each) of 0 adds nothing.
template <class T>
struct SoftCrossEntropyRows : RowDefaults {
    static constexpr bool kTwice = !kRowsStayOnChip;  // the first pass finds the largest
    using C = compute_t<T>;
    static constexpr bool kOnePass = !kTwice, kMapsAlone = kTwice, kTakesLanes = true;
    static constexpr int kMostChunk = 64;
    struct Acc {
        C max, sum, shares, product;  // sum of q, and of q (x - base_of(max))
    };
    struct Row : LargestKnown<kTwice> {
        C scale, max, shares, factor, term;
    };
    struct Part {
        C factor;
    };
    struct Held {
        C x, q;
    };

    C factor;
    int64_t classes;
    const C* weight = nullptr;  // w; null: 1
    C own = 1, each = 0;
    bool knows_weight = false;
    C known_weight = 1;

    template <class F>
    static F at(F f, int64_t j) {
        f.known_weight = f.weight_of(j);
        f.knows_weight = true;
        return f;
    }
    static auto row_members() { return pack(&Row::scale, &Row::max, &Row::shares, &Row::factor, &Row::term); }
    static auto acc_members() { return pack(&Acc::max, &Acc::sum, &Acc::shares, &Acc::product); }
    // Of position j; of one behind the row, where vectors of its end are, anything. Vectors look weights up by a mask.
    BK_HD C weight_of(int64_t j) const {
        if (kTwice && knows_weight) return known_weight;
        const uint32_t known = weight == nullptr ? 0u : static_cast<uint32_t>(classes);
        C w = C(1);
        if (static_cast<uint32_t>(j) < known) w = weight[j];
        return w;
    }
    BK_HD Row start(C dy = C(1)) const {
        Row row{};
        row.scale = dy * factor;
        return row;
    }
    BK_HD Held hold(const Row&, int64_t j, C x, C q) const { return {x, weight_of(j) * (own * q + each)}; }
    BK_HD Held pad() const { return {-C(INFINITY), C(0)}; }
    BK_HD Acc identity() const { return {-C(INFINITY), C(0), C(0), C(0)}; }

    template <class W, class H, int N>
    BK_HD Acc sum_up([[maybe_unused]] const Row& row, H (&held)[N], const W&) const {
        C x[N], q[N], product[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) x[i] = held[i].x, q[i] = held[i].q;
        if constexpr (kTwice)
            if (!row.knows_max) return {max_of(x), 0, 0, 0};
        const C max = kTwice ? row.max : max_of(x), base = base_of(max);
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) product[i] = share(q[i], x[i] - base);
        const ExpBelow<T> below(base);
        const C sum = exponentials(x, below) * below.scale();
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) held[i].x = x[i];
        return {max, sum, sum_of(q), sum_of(product)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        if constexpr (kTwice) return {math::max(a.max, b.max), a.sum + b.sum, a.shares + b.shares, a.product + b.product};
        const bool first = a.max > b.max;
        const Acc high = first ? a : b, low = first ? b : a;
        const C base = base_of(high.max);
        return {high.max, high.sum + low.sum * math::exp<T>(low.max - base), a.shares + b.shares,
                high.product + (low.product + share(low.shares, base_of(low.max) - base))};
    }
    template <class L>
    BK_HD Acc merge(const Acc& mine, const L& lanes) const {
        const C max = lanes.largest(mine.max), base = base_of(max), own_base = base_of(mine.max);
        return {max, lanes.sum(mine.sum * math::exp_of_negative<T>(mine.max - base)), lanes.sum(mine.shares),
                lanes.sum(mine.product + share(mine.shares, own_base - base))};
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        row.max = base_of(all.max);
        if constexpr (kTwice)
            if (!row.knows_max) return row.knows_max = true;
        row.shares = all.shares;
        row.term = share(all.shares, math::log<T>(all.sum)) - all.product;
        row.factor = all.shares * row.scale / all.sum;
        return false;
    }
    BK_HD Part part(const Row& row, [[maybe_unused]] const Acc& mine) const {
        if constexpr (kTwice) return {row.factor};
        const C base = base_of(mine.max);
        return {math::exp<T>(base - row.max) * (row.factor * ExpBelow<T>(base).scale())};
    }
    BK_HD Pack<C> map(const Row& row, const Part& part, int64_t, const Held& held) const {
        return pack(held.x * part.factor - held.q * row.scale);
    }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.term, row.term); }
};

// The gradients of soft targets and of their logits; the first needs the logits as they were.
template <class T>
struct SoftCrossEntropyTargetRows : SoftCrossEntropyRows<T> {
    static constexpr int kHeldBytes = 64;
    using Base = SoftCrossEntropyRows<T>;
    using typename Base::C;
    struct Held : Base::Held {
        C logit;
    };
    struct Row : Base::Row {
        C normalizer;  // log(sum of exp(x))
    };

    static auto row_members() { return pack(&Row::scale, &Row::max, &Row::shares, &Row::factor, &Row::term, &Row::normalizer); }
    BK_HD Row start(C dy = C(1)) const { return {Base::start(dy), 0}; }
    BK_HD Held hold(const Row& row, int64_t j, C x, C q) const { return {Base::hold(row, j, x, q), x}; }
    BK_HD Held pad() const { return {Base::pad(), -C(INFINITY)}; }
    BK_HD bool finish(Row& row, const typename Base::Acc& all, int64_t n) const {
        const bool again = Base::finish(row, all, n);
        row.normalizer = math::log<T>(all.sum) + row.max;
        return again;
    }
    BK_HD Pack<C, C> map(const Row& row, const typename Base::Part& part, int64_t j, const Held& held) const {
        const C slope = this->weight_of(j) * this->own * row.scale;
        return pack(get<0>(Base::map(row, part, j, held)), slope * (row.normalizer - held.logit));
    }
};

// The mean over the classes of max(0, margin - x[target] + x[j])^p, j not being the target, times the target's weight. Two
// passes: the first finds x[target].
template <class T>
struct MultiMarginRows : RowDefaults {
    using C = compute_t<T>;
    struct Acc {
        C picked, sum, slopes;
    };
    struct Row {
        int32_t target;
        C share, scale, above, slopes, term;  // above: margin - x[target]
        int32_t pass;
    };
    using Held = C;
    static constexpr bool kOnePass = false;

    int64_t classes;
    C margin, p, factor;
    const C* weight;  // of each class; null: 1
    bool has_high_words;

    BK_HD Row start(int32_t low, int32_t high, C dy = C(1)) const {
        const int64_t target = index_of_words(low, high, has_high_words);
        const bool valid = target >= 0 && target < classes;
        const C share = (valid && weight != nullptr ? weight[target] : C(1)) / static_cast<C>(classes);
        return {valid ? static_cast<int32_t>(target) : -1, share, dy * factor * share, 0, 0, 0, 0};
    }
    BK_HD Held hold(const Row&, int64_t, C x) const { return x; }
    BK_HD Held pad() const { return 0; }
    BK_HD Acc identity() const { return {0, 0, 0}; }
    BK_HD C slope(C hinge) const { return hinge > C(0) ? (p == 1 ? C(1) : p * power_of<T>(hinge, p - 1)) : C(0); }

    template <class W, int N>
    BK_HD Acc sum_up(const Row& row, Held (&x)[N], const W& where) const {
        if (row.pass == 0) return {picked_of(x, where, row.target), 0, 0};
        C sum = 0, slopes = 0;
        BK_UNROLL
        for (int i = 0; i < N; ++i) {
            if (!where.has(i) || static_cast<int32_t>(where.at(i)) == row.target) continue;
            const C hinge = positive_part(row.above + x[i]);
            sum += power_of<T>(hinge, p);
            slopes += slope(hinge);
        }
        return {0, sum, slopes};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.picked + b.picked, a.sum + b.sum, a.slopes + b.slopes}; }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        if (row.target < 0 || row.pass == 2) return false;
        if (row.pass++ == 0) {
            row.above = margin - all.picked;
            return true;
        }
        row.slopes = all.slopes;
        row.term = all.sum * row.share;
        return false;
    }
    BK_HD Pack<C> map(const Row& row, Nothing, int64_t j, Held x) const {
        if (row.target < 0) return pack(C(0));
        return pack((static_cast<int32_t>(j) == row.target ? -row.slopes : slope(row.above + x)) * row.scale);
    }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.term, row.term); }
};

// The mean over the classes of the binary cross entropy of logits, times the class's weight.
template <class T>
struct SoftMarginRows : RowDefaults {
    using C = compute_t<T>;
    using Acc = C;
    struct Row {
        C term;
    };
    struct Held {
        C x, y;
        bool exists;
    };

    int64_t classes;
    const C* weight = nullptr;  // of each class; null: 1

    BK_HD Row start() const { return {}; }
    BK_HD Held hold(const Row&, int64_t, C x, C y) const { return {x, y, true}; }
    BK_HD Held pad() const { return {0, 0, false}; }
    BK_HD Acc identity() const { return 0; }

    template <class W, int N>
    BK_HD Acc sum_up(const Row&, Held (&held)[N], const W& where) const {
        C term[N];
        BK_UNROLL
        for (int i = 0; i < N; ++i) term[i] = math::select(held[i].exists, bce_of_logit<T>(held[i].x, held[i].y), C(0));
        if (weight != nullptr) {
            BK_UNROLL
            for (int i = 0; i < N; ++i)
                if (where.has(i)) term[i] *= weight[where.at(i)];
        }
        return sum_of(term);
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return a + b; }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        row.term = classes == 0 ? C(0) : all / static_cast<C>(classes);
        return false;
    }
    BK_HD Pack<> map(const Row&, Nothing, int64_t, const Held&) const { return {}; }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.term, row.term); }
};

}  // namespace bk

// Row functions of cross entropy of an index.
//
// Each saves its row's term, and maps the row to its gradient. start() takes the target of the row and, for the gradient, dy.
#pragma once

#include <cstdint>

#include "core/math/exp_below.h"
#include "core/math/math.h"
#include "core/platform.h"
#include "core/rows/row_map.h"
#include "loss/class_rows.h"
#include "loss/class_weights.h"

namespace bk {

// A share of the target's class, w (log(sum of exp(x)) - x[target]), plus `penalty` times the square of log(sum of exp(x)). An
// index outside the classes, or `ignored`, gives a term and gradients of 0.
template <class T>
struct CrossEntropyRows : RowDefaults {
    static constexpr bool kTwice = !kRowsStayOnChip;  // the first pass finds the largest
    static constexpr bool kOnePass = !kTwice, kMapsAlone = kTwice, kPadsInMemory = true;
    using MapsAgain = CrossEntropyRows;
    using C = compute_t<T>;
    struct Acc {
        C max, sum, picked;  // of exp(x - base_of(max)); w x[target], of neighbours on a GPU in the first one's alone
    };
    struct Row : LargestKnown<kTwice> {
        int32_t target;
        C scale, own, max, factor, on, term;  // own: w; on: what is subtracted from the target's share
    };
    struct Part {
        C factor;
    };
    using Held = C;

    int64_t classes, ignored;
    C factor;
    const C* weight = nullptr;  // of each class; null: 1
    const double* divisor = nullptr;
    C own = 1, penalty = 0;  // own: what each weight is multiplied by
    bool has_high_words = true, has_dy = true;

    BK_HD ClassWeights<C> weights() const { return {classes, ignored, weight, divisor}; }
    BK_HD Row start(int64_t target, C dy = C(1)) const {
        const bool valid = weights().counts(target);
        Row row{};
        row.target = valid ? static_cast<int32_t>(target) : -1;
        row.scale = (has_dy ? dy : C(1)) * factor * weights().share();
        row.own = valid ? own * weights().of(target) : C(0);
        return row;
    }
    BK_HD Row start(int32_t low, int32_t high, C dy = C(1)) const {
        return start(index_of_words(low, high, has_high_words), dy);
    }
    BK_HD Held hold(const Row&, int64_t, C x) const { return x; }
    BK_HD Held pad() const { return -C(INFINITY); }
    BK_HD Acc identity() const { return {-C(INFINITY), C(0), C(0)}; }

    template <class W, int N>
    BK_HD Acc sum_up(const Row& row, Held (&x)[N], const W& where) const {
        if constexpr (kTwice)
            if (!row.knows_max) return {max_of(x), C(0), C(0)};
        Acc acc = first_sums(row, x, where);
        const ExpBelow<T> by = below(acc.max);
        acc.sum = exponentials(x, by) * by.scale();
        return acc;
    }
    BK_HD ExpBelow<T> below(C max) const { return ExpBelow<T>(base_of(max)); }
    // All but the exponentials.
    template <class W, int N>
    BK_HD Acc first_sums([[maybe_unused]] const Row& row, const Held (&x)[N], [[maybe_unused]] const W& where) const {
#if BK_CUDA
        return {max_of(x), C(0), C(0)};
#else
        return {row.max, C(0), row.own * picked_of(x, where, row.target)};
#endif
    }
    BK_HD bool sums_first() const { return false; }
    BK_HD int picks(const Row& row) const { return row.target; }
    BK_HD void pick(const Row& row, Acc* all, C x) const { all->picked += row.own * x; }
    BK_HD Acc join(const Acc& a, const Acc& b) const { return {LargerOf{}(a.max, b.max), a.sum + b.sum, a.picked + b.picked}; }
    // The sum of a run of elements and of another, by the larger of both bases.
    BK_HD C joint_sum(const Acc& a, const Acc& b) const {
        const bool first = a.max > b.max;
        const C high = first ? a.max : b.max, low = first ? b.max : a.max;
        return (first ? a.sum : b.sum) + (first ? b.sum : a.sum) * math::exp<T>(low - base_of(high));
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        Acc both = join(a, b);
        if constexpr (!kTwice) both.sum = joint_sum(a, b);
        return both;
    }
    template <class L>
    BK_HD Acc merge(const Acc& mine, const L& lanes) const {
        const C max = lanes.largest(mine.max);
        return {max, lanes.sum(mine.sum * math::exp_of_negative<T>(mine.max - base_of(max))), mine.picked};
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const { return finish_of(row, all, row.own); }
    // Of the shares of all classes together.
    BK_HD bool finish_of(Row& row, const Acc& all, C shares) const {
        row.max = base_of(all.max);
        if constexpr (kTwice)
            if (!row.knows_max) return row.knows_max = true;
        const C logarithm = math::log<T>(all.sum), lse = logarithm + row.max;
        const C term = shares * logarithm + (shares * row.max - all.picked) + penalty * lse * lse;
        row.term = row.target < 0 ? C(0) : term;
        row.factor = row.scale * (shares + C(2) * penalty * lse) / all.sum;
        row.on = row.scale * row.own;
        return false;
    }
    BK_HD Part part(const Row& row, [[maybe_unused]] const Acc& mine) const {
        if constexpr (kTwice) return {row.factor};
        const ExpBelow<T> by = below(mine.max);
        return {math::exp<T>(by.base - row.max) * (row.factor * by.scale())};
    }
    BK_HD Pack<C> map(const Row& row, const Part& part, int64_t j, Held e) const {
        const C share = e * part.factor - math::select(static_cast<int32_t>(j) == row.target, row.on, C(0));
        return pack(math::select(row.target < 0, C(0), share));
    }
    BK_HD Pack<C> map_again(const Row& row, int64_t j, Held x) const {
        const ExpBelow<T> by(row.max);
        return map(row, {row.factor * by.scale()}, j, by(x));
    }
    // Of classes that are not the target.
    BK_HD bool are_others(const Row& row, int first, unsigned count) const {
        return are_other_classes(row.target, first, count);
    }
    BK_HD Pack<C> map_other(const Row&, const Part& part, Held e) const { return pack(e * part.factor); }
    BK_HD Pack<C> map_other_again(const Row& row, Held x) const {
        const ExpBelow<T> by(row.max);
        return map_other(row, {row.factor * by.scale()}, by(x));
    }
    BK_HD Pack<C, C> saved(const Row& row) const {
        const C term = row.term * weights().share();  // NaN where nothing counts
        return pack(term, term);
    }
};

// Also shares of all classes, `each` w[c].
template <class T>
struct SmoothCrossEntropyRows : CrossEntropyRows<T> {
    using Base = CrossEntropyRows<T>;
    using Base::kTwice, Base::below, Base::weight;
    static constexpr bool kTakesLanes = true, kComesBack = true;                   // to the weights
    static constexpr int kHeldBytes = 64, kKeptBytes = sizeof(T) == 4 ? 128 : 64;  // a row's numbers need registers too
    using MapsAgain = SmoothCrossEntropyRows;
    using typename Base::C;
    using typename Base::Held;
    using typename Base::Part;
    struct Acc : Base::Acc {
        C weights;  // w where `each` has it
    };
    struct Row : Base::Row {
        C off;  // what is subtracted from the share of a class that is not the target
    };

    C each = 0;
    C known_weight = 1;  // of the class at hand

    // The gradient has the weights as a column, too.
    template <class F>
    static F at(F f, int64_t j) {
        if (f.weight != nullptr) f.known_weight = f.weight[j];
        return f;
    }
    static auto row_members() {
        return pack(&Row::target, &Row::scale, &Row::own, &Row::max, &Row::factor, &Row::on, &Row::off, &Row::term);
    }
    static auto acc_members() { return pack(&Acc::max, &Acc::sum, &Acc::picked, &Acc::weights); }
    template <class... P>
    BK_HD Row start(P... given) const {
        return {Base::start(given...), C(0)};
    }
    BK_HD Acc identity() const { return {Base::identity(), C(0)}; }

#if BK_CUDA
    // load(exists, j, w): weights of the classes from position j on, a multiple of their number; 0 where they do not exist.
    template <class W, int N, class Load>
    BK_DEVICE void spread_by(const Held (&x)[N], const W& where, Acc* acc, const Load& load) const {
        C product = 0, weights = 0;
#pragma unroll
        for (int i = 0; i < N; i += W::width) {
            const bool exists = where.has(i);
            C w[W::width];
            load(exists, where.position(i), w);
#pragma unroll
            for (int lane = 0; lane < W::width; ++lane) {
                product += w[lane] * math::select(exists, x[i + lane], C(0));
                weights += w[lane];
            }
        }
        acc->picked += each * product;
        acc->weights = weights;
    }
#endif
    // The share of every class of the elements, times these.
    template <class W, int N>
    BK_HD void spread(const Held (&x)[N], const W& where, Acc* acc) const {
#if BK_IN_KERNEL
        if (weight == nullptr)
            spread_by(x, where, acc, [](bool exists, int, C(&w)[W::width]) {
#pragma unroll
                for (C& each_w : w) each_w = exists ? C(1) : C(0);
            });
        else if (reinterpret_cast<uintptr_t>(weight) % kVectorBytes == 0)
            spread_by(x, where, acc, [this](bool exists, int j, C(&w)[W::width]) {
                const Vec<C, W::width> loaded = load_if<W::width>(exists, weight + j);
#pragma unroll
                for (int lane = 0; lane < W::width; ++lane) w[lane] = loaded.lane[lane];
            });
        else
            spread_by(x, where, acc, [this](bool exists, int j, C(&w)[W::width]) {
#pragma unroll
                for (int lane = 0; lane < W::width; ++lane) w[lane] = exists ? weight[j + lane] : C(0);
            });
#else
        if constexpr (N == 1) {  // a lane for each of many rows, in a loop without branches
            acc->picked += math::select(each == C(0), C(0), each * (known_weight * x[0]));
            acc->weights = math::select(each == C(0), C(0), known_weight);
            return;
        }
        C product[N], weights[N];
        const C* const from = weight == nullptr ? nullptr : weight + where.at(0);
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            C w = C(1);
            if (from != nullptr && where.has(i)) w = from[i];
            weights[i] = math::select(where.has(i), w, C(0));
            product[i] = math::select(where.has(i), w * x[i], C(0));
        }
        acc->picked += each * sum_of(product);
        acc->weights = sum_of(weights);
#endif
    }
    template <class W, int N>
    BK_HD Acc sum_up(const Row& row, Held (&x)[N], const W& where) const {
        if constexpr (kTwice)
            if (!row.knows_max) return {Base::sum_up(row, x, where), C(0)};
        Acc acc = first_sums(row, x, where);
        const ExpBelow<T> by = below(acc.max);
        acc.sum = exponentials(x, by) * by.scale();
        return acc;
    }
    // All but the exponentials.
    template <class W, int N>
    BK_HD Acc first_sums(const Row& row, const Held (&x)[N], const W& where) const {
        Acc acc{Base::first_sums(row, x, where), C(0)};
        if ((kTwice && N == 1) || sums_first()) spread(x, where, &acc);
        return acc;
    }
    BK_HD bool sums_first() const { return each != C(0); }
    BK_HD Acc join(const Acc& a, const Acc& b) const { return {Base::join(a, b), a.weights + b.weights}; }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {Base::combine(a, b), a.weights + b.weights}; }
    template <class L>
    BK_HD Acc merge(const Acc& mine, const L& lanes) const {
        Acc all{Base::merge(mine, lanes), C(0)};
        if (!sums_first()) return all;  // the first of the lanes has x[target]
        all.picked = lanes.sum(mine.picked);
        all.weights = lanes.sum(mine.weights);
        return all;
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        const bool again = Base::finish_of(row, all, row.own + each * all.weights);
        row.off = math::select(weight == nullptr, row.scale * each, C(0));
        row.on = row.scale * row.own + row.off;
        return again;
    }
    // `w` is 0 where there are no weights or no share of every class.
    BK_HD Pack<C> map(const Row& row, const Part& part, int64_t j, Held e, C w = C(0)) const {
        const C share = math::select(static_cast<int32_t>(j) == row.target, row.on, row.off) + row.scale * each * w;
        return pack(math::select(row.target < 0, C(0), e * part.factor - share));
    }
    BK_HD Pack<C> map_again(const Row& row, int64_t j, Held x, C w = C(0)) const {
        const ExpBelow<T> by(row.max);
        return map(row, {row.factor * by.scale()}, j, by(x), w);
    }
    BK_HD Pack<C> map_other(const Row& row, const Part& part, Held e, C w = C(0)) const {
        return pack(e * part.factor - (row.off + row.scale * each * w));
    }
    BK_HD Pack<C> map_other_again(const Row& row, Held x, C w = C(0)) const {
        const ExpBelow<T> by(row.max);
        return map_other(row, {row.factor * by.scale()}, by(x), w);
    }
};

}  // namespace bk

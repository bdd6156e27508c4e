// What the gradients of scans keep: sums of dy over the results that a term went into, from the last one back.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "scan/running.h"

namespace bk {

// Of a product: dx[j] = y[j - 1] (dy[j] + x[j + 1] (dy[j + 1] + x[j + 2] (...))), which divides by nothing, and of an
// exclusive one dx[j] = y[j] (dy[j + 1] + x[j + 1] (dy[j + 2] + x[j + 2] (...))), where y[j] is the product before x[j] too.
// A run of terms turns what follows it, f, into factor f + tail.
template <class T>
struct ProductTail {
    static constexpr int kAhead = 2;  // y, which the scan from the last term on meets a place later
    using C = compute_t<T>;
    struct State {
        double factor, tail;
    };
    bool exclusive;
    BK_HD State identity() const { return {1, 0}; }
    BK_HD State term(int64_t, C dy, C x, C) const {
        return {static_cast<double>(x), exclusive ? static_cast<double>(dy) : static_cast<double>(x) * dy};
    }
    BK_HD State join(const State& earlier, const State& later) const {
        // The factor of many terms may be infinite where there is nothing to multiply yet.
        const double tail = earlier.tail == 0 ? later.tail : later.factor * earlier.tail + later.tail;
        return {later.factor * earlier.factor, tail};
    }
    BK_HD C value(int64_t, const State& before, const State&, C dy, C, C y) const {
        // A product that overflowed has a gradient of 0 where no result, or none with a gradient, has it as a factor.
        const double tail = exclusive ? before.tail : dy + before.tail;
        return tail == 0 && math::fabs<C>(y) == kInfinity<C> ? C(0) : static_cast<C>(y * tail);
    }
};

// Of an extreme: dx[j] is the sum of dy from j to the next record, where j is one, else 0. The results of an exclusive one
// that x[j] is are those behind j, up to that of the next record.
template <class T>
struct RecordTail {
    static constexpr int kAhead = -1;
    using C = compute_t<T>;
    struct State {
        sum_t<T> tail;                                                        // since the last record
        std::conditional_t<sizeof(sum_t<T>) == 8, int64_t, int32_t> is_open;  // there was none
    };
    bool exclusive;
    BK_HD State identity() const { return {sum_t<T>(-0.0), 1}; }
    BK_HD State term(int64_t, C dy, C is_record) const {
        const bool closes = is_record != 0;
        return {closes && !exclusive ? sum_t<T>(-0.0) : static_cast<sum_t<T>>(dy), !closes};
    }
    BK_HD State join(const State& earlier, const State& later) const {
        return {later.is_open ? earlier.tail + later.tail : later.tail, earlier.is_open & later.is_open};
    }
    BK_HD C value(int64_t, const State& before, const State&, C dy, C is_record) const {
        return is_record != 0 ? static_cast<C>(before.tail + (exclusive ? C(0) : dy)) : C(0);
    }
};

// Of ln(exp(x) + ...): dx[j] = exp(x[j]) sum of dy[i] exp(-y[i]), kept as a multiple of exp(-level), the largest factor; of
// an exclusive one over i > j.
template <class T>
struct LogSumExpTail {
    static constexpr int kAhead = -1;
    using C = compute_t<T>;
    struct State {
        sum_t<T> tail;
        C level;
    };
    bool exclusive;
    BK_HD State identity() const { return {0, kInfinity<C>}; }
    BK_HD State term(int64_t, C dy, C, C y) const { return {static_cast<sum_t<T>>(dy), y}; }
    BK_HD State join(const State& earlier, const State& later) const {
        const bool rises = later.level > earlier.level;
        const State low = rises ? earlier : later, high = rises ? later : earlier;
        return {low.tail + high.tail * decay<T>(descent(low.level, high.level)), low.level};
    }
    BK_HD C value(int64_t, const State& before, const State& through, C, C x, C) const {
        const State& found = exclusive ? before : through;
        // exp(-inf) is 0, whatever it is divided by; and nothing has a part in no results, however large it is.
        if (x == -kInfinity<C> || (exclusive && found.tail == 0)) return C(0);
        return static_cast<C>(found.tail * math::exp<T>(x - found.level));
    }
};

}  // namespace bk

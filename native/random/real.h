// SPDX-License-Identifier: Apache-2.0
// Arrays of real random numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/abi/checks.h"
#include "core/random/draw.h"
#include "random/distributions.h"

namespace bk {

// Base of the ops: Op has `numel`, `seed` and `offset`, checks its parameters in `require()`, and makes the functor in
// `distribution()`.
template <class Op, class T>
struct RandomArray {
    Work work() const { return all_or_none(op().numel); }
    Status check() const {
        BK_TRY(require_non_negative({{"numel", op().numel}}));
        return op().require();
    }
    Status run(const int64_t* state, T* y, const Launch& launch) const {
        return draw(launch, op().numel, op().distribution(), {op().seed, op().offset, state}, y);
    }

private:
    const Op& op() const { return static_cast<const Op&>(*this); }
};

BK_COLD inline Status require_finite(const char* name, double value) {
    if (!std::isfinite(value)) return fail(Status::kInvalidProblem, "%s is %g, must be finite", name, value);
    return Status::kOk;
}

BK_COLD inline Status require_positive(const char* name, double value) {
    if (!(value > 0) || !std::isfinite(value))
        return fail(Status::kInvalidProblem, "%s is %g, must be positive and finite", name, value);
    return Status::kOk;
}

BK_COLD inline Status require_spread(const char* name, double value) {
    if (!(value >= 0) || !std::isfinite(value))
        return fail(Status::kInvalidProblem, "%s is %g, must be finite and >= 0", name, value);
    return Status::kOk;
}

BK_COLD inline Status require_location_and_scale(const char* location, double a, const char* scale, double b) {
    BK_TRY(require_finite(location, a));
    return require_spread(scale, b);
}

// The value of T next to a value, which C can represent, in the direction of another value (nextafter).
template <class T>
compute_t<T> neighbour(compute_t<T> value, compute_t<T> towards) {
    using C = compute_t<T>;
    if constexpr (sizeof(T) == sizeof(C)) {
        return std::nextafter(value, towards);
    } else {  // T's bits count up with the magnitude
        const uint16_t bits = narrow<T>(value).bits;
        const bool grows = value == C(0) || (towards > value) == (value > C(0));
        const uint16_t sign = static_cast<uint16_t>(value == C(0) && towards < value ? 0x8000 : 0);
        return widen(T{static_cast<uint16_t>((grows ? bits + 1 : bits - 1) | sign)});
    }
}

// [low, high), or with `includes_high` (low, high], in T's numbers.
template <class T>
dist::Uniform<T> uniform_between(double low, double high, bool includes_high) {
    using C = compute_t<T>;
    const C first = widen(narrow<T>(static_cast<C>(low))), end = widen(narrow<T>(static_cast<C>(high)));
    const C span = static_cast<C>(high - low);
    if (includes_high) return {end, -span, neighbour<T>(first, end), end};
    return {first, span, first, neighbour<T>(end, first)};
}

template <class T>
BK_COLD Status require_interval(double low, double high) {
    using C = compute_t<T>;
    if (!(low < high)) return fail(Status::kInvalidProblem, "low is %g, must be below high, %g", low, high);
    const C first = widen(narrow<T>(static_cast<C>(low))), end = widen(narrow<T>(static_cast<C>(high)));
    if (!std::isfinite(first) || !std::isfinite(end) || !std::isfinite(static_cast<C>(high - low)))
        return fail(Status::kInvalidProblem, "low is %g and high %g: they and their difference must be finite in the dtype",
                    low, high);
    if (!(first < end)) return fail(Status::kInvalidProblem, "low is %g and high %g, which are equal in the dtype", low, high);
    return Status::kOk;
}

template <class T>
struct RandomUniform : RandomArray<RandomUniform<T>, T> {
    int64_t numel;
    double low;
    double high;
    uint64_t seed;
    uint64_t offset;

    Status require() const { return require_interval<T>(low, high); }
    dist::Uniform<T> distribution() const { return uniform_between<T>(low, high, false); }
};

template <class T>
struct RandomNormal : RandomArray<RandomNormal<T>, T> {
    int64_t numel;
    double mean;
    double stddev;
    uint64_t seed;
    uint64_t offset;

    Status require() const { return require_location_and_scale("mean", mean, "stddev", stddev); }
    dist::Normal<T> distribution() const {
        using C = compute_t<T>;
        return {static_cast<C>(mean), static_cast<C>(stddev)};
    }
};

// The functor of a shape with a location and a scale.
template <class T>
dist::Shaped<compute_t<T>> shaped(dist::Shape shape, double a, double b) {
    using C = compute_t<T>;
    return {shape, static_cast<C>(a), static_cast<C>(b), C(0), C(0), C(0), C(0), C(0), false};
}

template <class T>
struct RandomLogNormal : RandomArray<RandomLogNormal<T>, T> {
    int64_t numel;
    double mean;
    double stddev;
    uint64_t seed;
    uint64_t offset;

    Status require() const { return require_location_and_scale("mean", mean, "stddev", stddev); }
    dist::Shaped<compute_t<T>> distribution() const { return shaped<T>(dist::kLogNormal, mean, stddev); }
};

template <class T>
struct RandomTruncatedNormal : RandomArray<RandomTruncatedNormal<T>, T> {
    int64_t numel;
    double mean;
    double stddev;
    double low;
    double high;
    uint64_t seed;
    uint64_t offset;
    static constexpr double kFarthest = 12;  // standard deviations: the quantile reaches tails of 1e-33

    Status require() const {
        BK_TRY(require_finite("mean", mean));
        BK_TRY(require_positive("stddev", stddev));
        if (!(low < high)) return fail(Status::kInvalidProblem, "low is %g, must be below high, %g", low, high);
        if (low - mean > kFarthest * stddev || mean - high > kFarthest * stddev)
            return fail(Status::kInvalidProblem, "low is %g and high %g, more than %g stddev, %g, from mean, %g", low, high,
                        kFarthest, stddev, mean);
        return Status::kOk;
    }
    dist::Shaped<compute_t<T>> distribution() const {
        using C = compute_t<T>;
        double first = (low - mean) / stddev, last = (high - mean) / stddev;
        const bool reversed = first + last > 0;
        if (reversed) {
            const double mirrored = -last;
            last = -first;
            first = mirrored;
        }
        // Farther ends have no probability in the compute type, and erfc stays above the least tail.
        const double least = 1e-33, below = std::max(tail_below(first), least), above = std::max(tail_below(-last), least);
        const double width = last < 0 ? tail_below(last) - below : 1 - below - above;
        auto functor = shaped<T>(dist::kTruncatedNormal, mean, stddev);
        functor.least = static_cast<C>(low);
        functor.most = static_cast<C>(high);
        functor.lower = static_cast<C>(below);
        functor.width = static_cast<C>(width);
        functor.upper = static_cast<C>(above);
        functor.reversed = reversed;
        return functor;
    }

private:
    static double tail_below(double z) { return 0.5 * std::erfc(-z * 0.70710678118654752); }
};

template <class T>
struct RandomExponential : RandomArray<RandomExponential<T>, T> {
    int64_t numel;
    double rate;
    uint64_t seed;
    uint64_t offset;

    Status require() const { return require_positive("rate", rate); }
    dist::Shaped<compute_t<T>> distribution() const { return shaped<T>(dist::kExponential, 0, 1 / rate); }
};

template <class T, dist::Shape kShape>
struct RandomLocated : RandomArray<RandomLocated<T, kShape>, T> {
    int64_t numel;
    double location;
    double scale;
    uint64_t seed;
    uint64_t offset;

    Status require() const { return require_location_and_scale("location", location, "scale", scale); }
    dist::Shaped<compute_t<T>> distribution() const { return shaped<T>(kShape, location, scale); }
};

template <class T>
using RandomGumbel = RandomLocated<T, dist::kGumbel>;
template <class T>
using RandomCauchy = RandomLocated<T, dist::kCauchy>;
template <class T>
using RandomLaplace = RandomLocated<T, dist::kLaplace>;
template <class T>
using RandomLogistic = RandomLocated<T, dist::kLogistic>;

template <class T>
struct RandomGeometric : RandomArray<RandomGeometric<T>, T> {
    int64_t numel;
    double p;
    uint64_t seed;
    uint64_t offset;

    Status require() const {
        if (!(p > 0 && p <= 1)) return fail(Status::kInvalidProblem, "p is %g, must be in (0, 1]", p);
        return Status::kOk;
    }
    dist::Shaped<compute_t<T>> distribution() const { return shaped<T>(dist::kGeometric, 1 / std::log1p(-p), 0); }
};

}  // namespace bk

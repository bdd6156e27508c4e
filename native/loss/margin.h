// Losses that vanish beyond a margin.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"
#include "core/types/pack.h"

namespace bk {

// x where that is positive, or NaN, else 0.
template <class C>
BK_HD C positive_part(C x) {
    return math::select(x < C(0), C(0), x);
}

struct MarginRanking {
    template <class T>
    struct Term {
        using C = compute_t<T>;
        C margin;
        BK_HD C operator()(C x1, C x2, C t) const { return positive_part(margin - t * (x1 - x2)); }
    };
    template <class T>
    struct Gradient {
        using C = compute_t<T>;
        C factor, margin;
        BK_HD Pack<C, C> operator()(C x1, C x2, C t, C dy) const {
            const C slope = math::select(margin - t * (x1 - x2) > C(0), t * (dy * factor), C(0));
            return pack(-slope, slope);
        }
    };
    template <class T>
    static Term<T> term(double margin) {
        return {compute_t<T>(margin)};
    }
    template <class T>
    static Gradient<T> gradient(compute_t<T> factor, double margin) {
        return {factor, compute_t<T>(margin)};
    }
};

struct HingeEmbedding {
    template <class T>
    struct Term {
        using C = compute_t<T>;
        C margin;
        BK_HD C operator()(C x, int64_t target) const { return math::select(target == 1, x, positive_part(margin - x)); }
    };
    template <class T>
    struct Gradient {
        using C = compute_t<T>;
        C factor, margin;
        BK_HD C operator()(C x, int64_t target, C dy) const {
            const C s = dy * factor;
            return math::select(target == 1, s, math::select(margin > x, -s, C(0)));
        }
    };
    template <class T>
    static Term<T> term(double margin) {
        return {compute_t<T>(margin)};
    }
    template <class T>
    static Gradient<T> gradient(compute_t<T> factor, double margin) {
        return {factor, compute_t<T>(margin)};
    }
};

}  // namespace bk

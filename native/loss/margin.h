// SPDX-License-Identifier: Apache-2.0
// Elementwise hinge losses: margin ranking, max(0, margin - t (x1 - x2)), and hinge embedding, x or max(0, margin - x).
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"
#include "core/types/pack.h"

namespace bk {

// max(0, x); NaN stays NaN.
template <class C>
BK_HD C positive_part(C x) {
    return math::select(x < C(0), C(0), x);
}

struct MarginRanking {
    template <class T>
    struct Forward {
        using C = compute_t<T>;
        C margin;
        BK_HD C operator()(C x1, C x2, C t) const { return positive_part(margin - t * (x1 - x2)); }
    };
    template <class T>
    struct Gradient {
        using C = compute_t<T>;
        C grad_scale, margin;
        BK_HD Pack<C, C> operator()(C x1, C x2, C t, C dy) const {
            const C slope = math::select(margin - t * (x1 - x2) > C(0), t * (dy * grad_scale), C(0));
            return pack(-slope, slope);
        }
    };
    template <class T>
    static Forward<T> forward(double margin) {
        return {compute_t<T>(margin)};
    }
    template <class T>
    static Gradient<T> gradient(compute_t<T> grad_scale, double margin) {
        return {grad_scale, compute_t<T>(margin)};
    }
};

struct HingeEmbedding {
    template <class T>
    struct Forward {
        using C = compute_t<T>;
        C margin;
        BK_HD C operator()(C x, int64_t target) const { return math::select(target == 1, x, positive_part(margin - x)); }
    };
    template <class T>
    struct Gradient {
        using C = compute_t<T>;
        C grad_scale, margin;
        BK_HD C operator()(C x, int64_t target, C dy) const {
            const C s = dy * grad_scale;
            return math::select(target == 1, s, math::select(margin > x, -s, C(0)));
        }
    };
    template <class T>
    static Forward<T> forward(double margin) {
        return {compute_t<T>(margin)};
    }
    template <class T>
    static Gradient<T> gradient(compute_t<T> grad_scale, double margin) {
        return {grad_scale, compute_t<T>(margin)};
    }
};

}  // namespace bk

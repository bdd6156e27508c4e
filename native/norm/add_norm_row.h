// The row function of the gradients of add_rms_norm and add_layer_norm.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/rows/row_map.h"
#include "norm/norm_row.h"

namespace bk {

// dx = extra + scale * (h - mean of h - xh * mean of h * xh), h = dy * (gamma + offset) and xh = (x - mean) * scale.
template <class T>
struct AddNormBackward : RowDefaults {
    static constexpr bool kOnePass = true;
    using C = compute_t<T>;
    using Acc = NormGradientSums<C>;
    struct Row {
        C mean, scale;
        C level, slope;  // means of h and of h * xh
    };
    struct Held {
        C h, xh, extra;
    };

    bool is_centered;  // dx has no mean, and the saved statistic is scale, not 1 / scale
    bool has_gamma, has_extra;
    C gamma_offset;

    BK_HD Row start(C mean, C statistic) const {
        return {is_centered ? mean : C(0), is_centered ? statistic : C(1) / statistic, 0, 0};
    }
    BK_HD Held hold(const Row& row, int64_t, C dy, C extra, C x, C gamma) const {
        return {math::select(has_gamma, dy * (gamma + gamma_offset), dy), (x - row.mean) * row.scale,
                math::select(has_extra, extra, C(0))};
    }
    BK_HD Held pad() const { return {0, 0, 0}; }
    BK_HD Acc identity() const { return {0, 0}; }
    template <class Where, int N>
    BK_HD Acc sum_up(const Row&, Held (&held)[N], const Where&) const {
        C h[N], product[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            h[i] = held[i].h;
            product[i] = held[i].h * held[i].xh;
        }
        return {sum_of(h), sum_of(product)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.h + b.h, a.product + b.product}; }
    BK_HD bool finish(Row& row, const Acc& all, int64_t n) const {
        const C count = static_cast<C>(n);
        row.level = is_centered ? all.h / count : C(0);
        row.slope = all.product / count;
        return false;
    }
    BK_HD Pack<C> map(const Row& row, const Nothing&, int64_t, const Held& held) const {
        return pack(held.extra + row.scale * (held.h - row.level - held.xh * row.slope));
    }
};

}  // namespace bk

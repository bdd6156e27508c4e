// SPDX-License-Identifier: Apache-2.0
// Row function of the add_rms_norm and add_layer_norm gradients (core/row/row_map.h).
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/row/row_map.h"
#include "norm/norm_row.h"

namespace bk {

// dx = residual_grad + scale * (g - mean_g - x_hat * mean_gx), g = dy * (gamma + gamma_offset) and
// x_hat = (x - mean) * scale.
template <class T>
struct AddNormBackward : RowDefaults {
    static constexpr bool kOnePass = true;
    using C = compute_t<T>;
    using Acc = NormGradientSums<C>;
    struct Row {
        C mean, scale;
        C mean_g, mean_gx;  // means of g and of g * x_hat
    };
    struct Cached {
        C g, x_hat, residual_grad;
    };

    bool is_centered;  // layer norm, whose saved statistic is scale; rms norm saves 1 / scale
    bool has_gamma, has_residual_grad;
    C gamma_offset;

    BK_HD Row start(C mean, C statistic) const {
        return {is_centered ? mean : C(0), is_centered ? statistic : C(1) / statistic, 0, 0};
    }
    BK_HD Cached transform(const Row& row, int64_t, C dy, C residual_grad, C x, C gamma) const {
        return {math::select(has_gamma, dy * (gamma + gamma_offset), dy), (x - row.mean) * row.scale,
                math::select(has_residual_grad, residual_grad, C(0))};
    }
    BK_HD Cached pad() const { return {0, 0, 0}; }
    BK_HD Acc identity() const { return {0, 0}; }
    template <class Where, int N>
    BK_HD Acc reduce_tile(const Row&, Cached (&held)[N], const Where&) const {
        C g[N], gx[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            g[i] = held[i].g;
            gx[i] = held[i].g * held[i].x_hat;
        }
        return {sum_of(g), sum_of(gx)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.g + b.g, a.gx + b.gx}; }
    BK_HD bool finish(Row& row, const Acc& all, int64_t n) const {
        const C count = static_cast<C>(n);
        row.mean_g = is_centered ? all.g / count : C(0);
        row.mean_gx = all.gx / count;
        return false;
    }
    BK_HD Pack<C> map(const Row& row, const Nothing&, int64_t, const Cached& held) const {
        return pack(held.residual_grad + row.scale * (held.g - row.mean_g - held.x_hat * row.mean_gx));
    }
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Softmax of logits with Gumbel noise from given uniform numbers (Jang, Gu and Poole 2017; Maddison, Mnih and Teh 2017).
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "softmax/softmax_axis.h"
#include "softmax/softmax_rows.h"

namespace bk {

namespace op {

// x - ln(-ln u), with u clamped into (0, 1).
template <class T>
BK_HD compute_t<T> with_gumbel_noise(compute_t<T> x, float u) {
    using C = compute_t<T>;
    constexpr C kLeast = std::is_same_v<C, double> ? C(1e-30) : C(1e-20);
    constexpr C kMost = C(1) - C(0x1p-24);  // the largest u of f32
    const C inside = math::select(C(u) < kLeast, kLeast, math::select(C(u) > kMost, kMost, C(u)));
    // The logarithm has f32 accuracy for 16-bit types, too: near u = 1 its low bits decide the noise.
    return x - math::log<C>(-math::log<C>(inside));
}

template <class T>
struct GumbelSoftmaxRows : SoftmaxRows<T, false> {  // one pass: noise costs too much to compute twice
    static constexpr bool kVectorizesAcrossRows = false;
    using C = compute_t<T>;
    using typename SoftmaxRows<T, false>::Row;
    C inv_tau;
    BK_HD C transform(const Row&, int64_t, C x, float u) const { return with_gumbel_noise<T>(x, u) * inv_tau; }
};

// 1 at the first maximum of a row, 0 elsewhere; a NaN is the maximum.
template <class T>
struct GumbelHardRows : RowDefaults {
    static constexpr bool kOnePass = true;
    using C = compute_t<T>;
    struct Acc {
        C value;
        int32_t at, unused;  // unused: pads to whole words with f64
    };
    using Row = Acc;
    using Cached = C;

    C inv_tau;

    BK_HD Row start() const { return identity(); }
    BK_HD Cached transform(const Row&, int64_t, C x, float u) const { return with_gumbel_noise<T>(x, u) * inv_tau; }
    BK_HD Cached pad() const { return -C(INFINITY); }
    BK_HD Acc identity() const { return {-C(INFINITY), INT32_MAX, 0}; }
    template <class W, int N>
    BK_HD Acc reduce_tile(const Row&, Cached (&held)[N], const W& where) const {
        Acc best = identity();
        BK_UNROLL
        for (int i = 0; i < N; ++i)
            if (where.has(i)) best = combine(best, Acc{held[i], static_cast<int32_t>(where.at(i)), 0});
        return best;
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
        const bool ties = a_is_nan || b_is_nan ? a_is_nan && b_is_nan : a.value == b.value;
        return (ties ? a.at < b.at : a_is_nan || (!b_is_nan && a.value > b.value)) ? a : b;
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        row = all;
        return false;
    }
    BK_HD Pack<C> map(const Row& row, Nothing, int64_t j, Cached) const { return pack(C(j == row.at)); }
};

}  // namespace op

inline Status require_temperature(double inv_tau) {
    if (!(inv_tau > 0) || std::isinf(inv_tau))
        return fail(Status::kInvalidProblem, "inv_tau is %g, must be finite and > 0", inv_tau);
    return Status::kOk;
}

// The reference passes the temperature as float even for f64; Tau may be double.
template <class T, class Tau = float>
struct GumbelSoftmax {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t softmax_axis;
    int32_t softmax_extent;
    int64_t softmax_stride_x;
    int64_t softmax_stride_y;
    Tau inv_tau;
    int32_t hard;

    Work work() const { return forward().work(); }
    Status check() const {
        BK_TRY(forward().check());
        return require_temperature(inv_tau);
    }
    size_t workspace_size() const { return map_rows_workspace<op::GumbelHardRows<T>>(rows()); }
    Status run(const T* x, const float* u_rand, T* y, const Launch& launch) const {
        const auto factor = static_cast<compute_t<T>>(inv_tau);
        if (hard != 0) return run_rows(op::GumbelHardRows<T>{{}, factor}, x, u_rand, y, launch);
        return run_rows(op::GumbelSoftmaxRows<T>{{{}, false}, factor}, x, u_rand, y, launch);
    }

private:
    SoftmaxForwardArgs forward() const {
        return {numel, rank, shape, stride_x, stride_y, softmax_axis, softmax_extent, softmax_stride_x, softmax_stride_y};
    }
    RowAxes<3> rows() const {
        int64_t dense[kMaxRank], step = 1;
        for (int32_t d = rank - 1; d >= 0; step *= shape[d--]) dense[d] = step;
        return rows_along<3>(rank, shape, softmax_axis, {stride_x, dense, stride_y});
    }
    template <class F>
    Status run_rows(const F& f, const T* x, const float* u_rand, T* y, const Launch& launch) const {
        return map_rows(launch, rows(), f, inputs(x, u_rand), inputs(), inputs(), outputs(y), outputs());
    }
};

// dx = inv_tau times the gradient of softmax.
template <class T, class Tau = float>
struct GumbelSoftmaxBackward {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_y;
    const int64_t* stride_dx;
    int32_t softmax_axis;
    int32_t softmax_extent;
    int64_t softmax_stride_dy;
    int64_t softmax_stride_y;
    Tau inv_tau;

    using Rows = op::SoftmaxBackwardRows<T>;
    Work work() const { return backward().work(); }
    Status check() const {
        BK_TRY(backward().check());
        return require_temperature(inv_tau);
    }
    size_t workspace_size() const { return map_rows_workspace<Rows>(backward().rows()); }
    Status run(const T* dy, const T* y, T* dx, const Launch& launch) const {
        return backward().run_rows(Rows{{}, false, static_cast<compute_t<T>>(inv_tau)}, dy, y, dx, launch);
    }

private:
    SoftmaxBackwardArgs backward() const {
        return {numel,     rank,         shape,          stride_dy,         stride_y,
                stride_dx, softmax_axis, softmax_extent, softmax_stride_dy, softmax_stride_y};
    }
};

}  // namespace bk

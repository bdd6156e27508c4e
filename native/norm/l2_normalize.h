// SPDX-License-Identifier: Apache-2.0
// L2 normalisation y = x / max(|x|, eps), weight norm w = g * v / |v|, and their gradients.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/reduce/square_scale.h"
#include "norm/row_shape.h"
#include "reduce/reducers.h"

namespace bk {

// A norm times `unit`, a power of two that keeps divisions by tiny or huge norms in range.
template <class C>
struct ScaledNorm {
    C norm, unit;
};

// Sums of squares unscaled, scaled down and scaled up (reduce/reducers.h): one of the three gives the norm.
template <class T>
struct SquareSums {
    using C = compute_t<T>;
    using Norm = Norm2Reducer<T>;

    C sum, large, small;

    template <int N>
    static BK_HD SquareSums of(const C (&x)[N]) {
        SquareSums sums{0, 0, 0};
        C summand[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) summand[i] = x[i] * x[i];
        sums.sum = sum_of(summand);
        if constexpr (!Norm::kNeverScaled) {
            C down[N];
            BK_HELD_LOOP
            for (int i = 0; i < N; ++i) {
                const C low = x[i] * Norm::kDown, high = x[i] * Norm::kUp;
                down[i] = low * low;
                summand[i] = high * high;
            }
            sums.large = sum_of(down);
            sums.small = sum_of(summand);
        }
        return sums;
    }
    BK_HD SquareSums operator+(const SquareSums& other) const {
        return {sum + other.sum, large + other.large, small + other.small};
    }
    BK_HD ScaledNorm<C> norm() const {
        if (!Norm::kNeverScaled && sum < Norm::Scale::kLeast) return {math::sqrt<C>(small), Norm::kUp};
        if (Norm::kNeverScaled || sum <= kGreatest<C>) return {math::sqrt<C>(sum), C(1)};
        return {math::sqrt<C>(large), Norm::kDown};
    }
};

// Sum of squares of f32 in f64, whose range suffices; for targets with cheap f64.
template <class T>
struct WideSquareSums {
    using C = compute_t<T>;
    double sum;

    template <int N>
    static BK_HD WideSquareSums of(const C (&x)[N]) {
        double summand[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            const double wide = x[i];
            summand[i] = wide * wide;
        }
        return {sum_of(summand)};
    }
    BK_HD WideSquareSums operator+(const WideSquareSums& other) const { return {sum + other.sum}; }
    BK_HD ScaledNorm<C> norm() const {
        using Scale = SquareScale<float>;
        const double root = math::sqrt<double>(sum);
        const C unit = root < 0x1p-45 ? Scale::kUp : root <= 0x1p+64 ? C(1) : Scale::kDown;
        return {static_cast<C>(root * static_cast<double>(unit)), unit};
    }
};
template <class T>
using square_sums_t =
    std::conditional_t<std::is_same_v<norm2_reducer_t<T>, WideNorm2Reducer<T>>, WideSquareSums<T>, SquareSums<T>>;

template <class T>
struct L2Rows : RowDefaults {
    static constexpr bool kOnePass = true;
    using C = compute_t<T>;
    using Acc = square_sums_t<T>;
    using Cached = C;
    struct Row {
        C gain, norm, scale, unit;
    };

    C eps;
    bool has_gain;

    BK_HD Row start(C gain) const { return {has_gain ? gain : C(1), 0, 0, 1}; }
    BK_HD Cached transform(const Row&, int64_t, C x) const { return x; }
    BK_HD Cached pad() const { return 0; }
    BK_HD Acc identity() const { return {}; }
    template <class W, int N>
    BK_HD Acc reduce_tile(const Row&, Cached (&x)[N], const W&) const {
        return Acc::of(x);
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return a + b; }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        const ScaledNorm<C> of = all.norm();
        row.unit = of.unit;
        row.norm = of.norm / of.unit;
        const C min_norm = eps * of.unit;
        row.scale = row.gain / (of.norm < min_norm ? min_norm : of.norm);
        return false;
    }
    BK_HD Pack<C> map(const Row& row, const Nothing&, int64_t, Cached x) const { return pack(x * row.unit * row.scale); }
    BK_HD Pack<C> saved(const Row& row) const { return pack(row.norm); }
};

// dx = scale * (dy - u * sum(u * dy)), u = x / |x|. saved() is the gradient of the gain.
template <class T>
struct L2BackwardRows : RowDefaults {
    static constexpr bool kOnePass = true;
    using C = compute_t<T>;
    struct Acc {
        square_sums_t<T> squares;
        C product;  // sum(dy * x * unit)
        C unit;
    };
    struct Row {
        C gain, scale, inverse;  // gain, gain / |x|, 1 / |x * unit|
        C dot;                   // sum of u * dy
        C unit;                  // power of two that multiplies x
    };
    struct Cached {
        C dy, x;
    };
    static constexpr bool kMayRescale = SquareScale<T>::kIsNeeded;

    C eps;
    bool has_gain;

    BK_HD Row start(C gain) const { return {has_gain ? gain : C(1), 0, 0, 0, 1}; }
    BK_HD Cached transform(const Row&, int64_t, C dy, C x) const { return {dy, x}; }
    BK_HD Cached pad() const { return {0, 0}; }
    BK_HD Acc identity() const { return {{}, 0, 1}; }
    template <class W, int N>
    BK_HD Acc reduce_tile(const Row& row, Cached (&held)[N], const W&) const {
        C x[N], product[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            x[i] = held[i].x;
            product[i] = held[i].dy * in_unit(held[i].x, row.unit);
        }
        return {square_sums_t<T>::of(x), sum_of(product), row.unit};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.squares + b.squares, a.product + b.product, a.unit}; }
    // Merges partials with different units in the coarser one; one with product 0 does not count.
    BK_HD Acc combine_rescaled(const Acc& a, const Acc& b) const {
        const C unit = a.product == C(0) ? b.unit : b.product == C(0) ? a.unit : a.unit < b.unit ? a.unit : b.unit;
        return {a.squares + b.squares, a.product * (unit / a.unit) + b.product * (unit / b.unit), unit};
    }
    BK_HD bool rescales(Row& row, const Acc& all, int64_t) const {
        if (!kMayRescale || row.unit != C(1)) return false;
        row.unit = all.squares.norm().unit;
        return row.unit != C(1);
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t n) const {
        if (rescales(row, all, n)) return true;
        complete(row, all);
        return false;
    }
    BK_HD void finish_rescaled(Row& row, Acc all, int64_t) const {
        row.unit = all.squares.norm().unit;
        all.product *= row.unit / all.unit;
        complete(row, all);
    }
    BK_HD Pack<C> map(const Row& row, const Nothing&, int64_t, const Cached& held) const {
        return pack(row.scale * (held.dy - in_unit(held.x, row.unit) * row.inverse * row.dot));
    }
    BK_HD Pack<C> saved(const Row& row) const { return pack(row.dot); }

private:
    static BK_HD C in_unit(C x, C unit) { return kMayRescale ? x * unit : x; }
    BK_HD void complete(Row& row, const Acc& all) const {
        const C norm = all.squares.norm().norm, min_norm = eps * row.unit;
        const bool is_clamped = norm < min_norm;
        row.inverse = is_clamped ? C(0) : C(1) / norm;
        row.dot = all.product * row.inverse;
        row.scale = row.gain / (is_clamped ? min_norm : norm) * row.unit;
    }
};

// --- forward ----------------------------------------------------------------------------------------------------------

template <class T>
struct L2Forward {
    using C = compute_t<T>;
    using Function = L2Rows<T>;
    RowShape shape;
    const int64_t* stride_x;
    const int64_t* stride_y;

    BK_COLD Status check(const char* name_x, const char* name_y) const {
        BK_TRY(check_shape("numel", shape.numel, shape.rank, "shape", shape.shape, {{name_x, stride_x}}, {{name_y, stride_y}}));
        return shape.check();
    }
    RowAxes<2, 2> axes() const { return shape.axes({stride_x, stride_y}, {nullptr, nullptr}); }
    size_t workspace_size() const { return map_rows_workspace<Function>(axes()); }
    Status run(const Launch& launch, double eps, const T* x, const T* gain, T* y, C* norm) const {
        const Function f{{}, static_cast<C>(eps), gain != nullptr};
        return map_rows(launch, axes(), f, inputs(x), inputs(), inputs(gain), outputs(y), outputs(norm));
    }
};

// Number is the type of eps.
template <class T, class Number = float>
struct L2Normalize {
    Number eps;
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t norm_axes_mask;
    int32_t norm_total_extent;

    Work work() const { return all_or_none(numel); }
    Status check() const { return rows().check("stride_x", "stride_y"); }
    int64_t row_count() const { return rows().shape.count(); }
    size_t workspace_size() const { return rows().workspace_size(); }
    Status run(const T* x, T* y, compute_t<T>* norm_out, const Launch& launch) const {
        return rows().run(launch, eps, x, nullptr, y, norm_out);
    }

private:
    L2Forward<T> rows() const { return {{numel, rank, shape, norm_axes_mask, norm_total_extent}, stride_x, stride_y}; }
};

template <class T>
struct WeightNorm {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_v;
    const int64_t* stride_w;
    int32_t norm_axes_mask;
    int32_t norm_total_extent;

    Work work() const { return all_or_none(numel); }
    Status check() const { return rows().check("stride_v", "stride_w"); }
    int64_t row_count() const { return rows().shape.count(); }
    size_t workspace_size() const { return rows().workspace_size(); }
    Status run(const T* v, const T* g, T* w, compute_t<T>* norm_out, const Launch& launch) const {
        return rows().run(launch, 0, v, g, w, norm_out);
    }

private:
    L2Forward<T> rows() const { return {{numel, rank, shape, norm_axes_mask, norm_total_extent}, stride_v, stride_w}; }
};

// --- backward ---------------------------------------------------------------------------------------------------------

template <class T>
struct L2Backward {
    using C = compute_t<T>;
    using Function = L2BackwardRows<T>;
    RowShape shape;
    const int64_t* stride_dy;
    const int64_t* stride_x;
    const int64_t* stride_dx;

    BK_COLD Status check(const char* name_dy, const char* name_x, const char* name_dx) const {
        BK_TRY(check_shape("numel", shape.numel, shape.rank, "shape", shape.shape, {{name_dy, stride_dy}, {name_x, stride_x}},
                           {{name_dx, stride_dx}}));
        return shape.check();
    }
    RowAxes<3, 2> axes() const { return shape.axes({stride_dy, stride_x, stride_dx}, {nullptr, nullptr}); }
    size_t workspace_size() const { return map_rows_workspace<Function>(axes()); }
    Status run(const Launch& launch, double eps, const T* dy, const T* x, const T* gain, T* dx, T* dgain) const {
        const Function f{{}, static_cast<C>(eps), gain != nullptr};
        return map_rows(launch, axes(), f, inputs(dy, x), inputs(), inputs(gain), outputs(dx), outputs(dgain));
    }
};

template <class T, class Number = float>
struct L2NormalizeBackward {
    Number eps;
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_x;
    const int64_t* stride_dx;
    int32_t norm_axes_mask;
    int32_t norm_total_extent;

    Work work() const { return all_or_none(numel); }
    Status check() const { return rows().check("stride_dy", "stride_x", "stride_dx"); }
    size_t workspace_size() const { return rows().workspace_size(); }
    Status run(const T* dy, const T* x, T* dx, const Launch& launch) const {
        return rows().run(launch, eps, dy, x, nullptr, dx, nullptr);
    }

private:
    L2Backward<T> rows() const {
        return {{numel, rank, shape, norm_axes_mask, norm_total_extent}, stride_dy, stride_x, stride_dx};
    }
};

template <class T>
struct WeightNormBackward {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dw;
    const int64_t* stride_v;
    const int64_t* stride_dv;
    int32_t norm_axes_mask;
    int32_t norm_total_extent;

    Work work() const { return all_or_none(numel); }
    Status check() const { return rows().check("stride_dw", "stride_v", "stride_dv"); }
    int64_t row_count() const { return rows().shape.count(); }
    size_t workspace_size() const { return rows().workspace_size(); }
    Status run(const T* dw, const T* v, const T* g, T* dv, T* dg, const Launch& launch) const {
        return rows().run(launch, 0, dw, v, g, dv, dg);
    }

private:
    L2Backward<T> rows() const {
        return {{numel, rank, shape, norm_axes_mask, norm_total_extent}, stride_dw, stride_v, stride_dv};
    }
};

}  // namespace bk

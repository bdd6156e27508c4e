// SPDX-License-Identifier: Apache-2.0
// Dropout without a mask in memory: the gradient makes the same words again. y = residual + scale D(x), where D(x) is
// x / (1 - p) if x is kept and 0 if it is dropped; or alpha dropout (Klambauer et al. 2017), which keeps the mean and the
// variance of SELU's outputs: a x + b and a alpha' + b. What is dropped is replaced, not multiplied: NaN becomes 0 too.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/math/math.h"
#include "core/pointwise/pointwise.h"
#include "core/random/segment.h"
#include "random/probability.h"
#include "random/tune.h"

namespace bk {

namespace op {

template <class T, bool kHasResidual>
struct Dropout {
    using C = compute_t<T>;
    RandomSource source;
    Probability dropped;
    Numbering numbering;
    C factor, shift, fallback;

    struct Segment : WordSegment<kVectorLanes<T>> {
        Probability dropped;
        C factor, shift, fallback;

        BK_HD C result(int64_t k, C x) const {
            return math::select(dropped.holds(this->word(k)), fallback, math::fma(x, factor, shift));
        }
        BK_HD C operator()(int64_t k, C x) const { return result(k, x); }
        BK_HD C operator()(int64_t k, C x, C residual) const { return residual + result(k, x); }
    };

    BK_HD Segment at(int64_t i) const {
        Segment segment;
        segment.dropped = dropped;
        segment.factor = factor;
        segment.shift = shift;
        segment.fallback = fallback;
        segment.fill(source.stream<1>(), numbering, i);
        return segment;
    }
};

}  // namespace op

// Arguments of dropout and of its gradient.
struct DropoutArgs {
    int64_t numel, shared;
    double p, scale;

    Status check() const {
        BK_TRY(require_probability(p));
        if (!std::isfinite(scale)) return fail(Status::kInvalidProblem, "scale is %g, must be finite", scale);
        if (shared < 1 || numel % shared != 0)
            return fail(Status::kInvalidProblem, "shared is %lld, must be >= 1 and divide numel, %lld", (long long)shared,
                        (long long)numel);
        return Status::kOk;
    }
    // Nothing is kept if p is 1, and no factor is infinite then. Adding -0 changes no number.
    template <class T, bool kHasResidual>
    op::Dropout<T, kHasResidual> functor(bool is_alpha, bool is_gradient, const RandomSource& source,
                                         const Numbering& numbering) const {
        using C = compute_t<T>;
        constexpr double kAlpha = -1.7580993408473766;  // -lambda alpha of SELU
        double factor = p < 1 ? scale / (1 - p) : 0, shift = -0.0, fallback = kHasResidual ? -0.0 : 0.0;
        if (is_alpha && p < 1) {
            const double a = 1 / std::sqrt((1 - p) * (1 + p * kAlpha * kAlpha)), b = -a * p * kAlpha;
            factor = scale * a;
            if (!is_gradient) {
                shift = scale * b;
                fallback = scale * (a * kAlpha + b);
            }
        }
        return {source, Probability::of(p), numbering, static_cast<C>(factor), static_cast<C>(shift), static_cast<C>(fallback)};
    }
};

template <class T>
struct DropoutSeeded {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_residual;
    const int64_t* stride_y;
    int64_t shared;
    int32_t is_alpha;
    double p;
    double scale;
    uint64_t seed;
    uint64_t offset;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}, {"stride_residual", stride_residual}},
                           {{"stride_y", stride_y}}));
        return DropoutArgs{numel, shared, p, scale}.check();
    }
    Status run(const T* x, const T* residual, const int64_t* state, T* y, const Launch& launch) const {
        const DropoutArgs args{numel, shared, p, scale};
        const RandomSource source{seed, offset, state};
        const Numbering numbering = numbering_of(rank, shape, stride_y, shared);
        if (residual != nullptr)
            return pointwise_strided(launch, make_layout<3>(rank, shape, {stride_y, stride_x, stride_residual}),
                                     args.functor<T, true>(is_alpha != 0, false, source, numbering), outputs(y),
                                     inputs(x, residual));
        return pointwise_strided(launch, make_layout<2>(rank, shape, {stride_y, stride_x}),
                                 args.functor<T, false>(is_alpha != 0, false, source, numbering), outputs(y), inputs(x));
    }
};

template <class T>
struct DropoutSeededBackward {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_dx;
    int64_t shared;
    int32_t is_alpha;
    double p;
    double scale;
    uint64_t seed;
    uint64_t offset;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_dy", stride_dy}}, {{"stride_dx", stride_dx}}));
        return DropoutArgs{numel, shared, p, scale}.check();
    }
    Status run(const T* dy, const int64_t* state, T* dx, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<2>(rank, shape, {stride_dx, stride_dy}),
                                 DropoutArgs{numel, shared, p, scale}.functor<T, false>(
                                     is_alpha != 0, true, {seed, offset, state}, numbering_of(rank, shape, stride_dx, shared)),
                                 outputs(dx), inputs(dy));
    }
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// The p-norm along any set of axes, and to a shape.
#pragma once

#include <cstdint>

#include "core/math/half_power.h"
#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"
#include "reduce/axes_reduction.h"
#include "reduce/functions.h"
#include "reduce/reduce_to.h"

namespace bk {

// (sum of |x|^p)^(1/p) for p > 0, also infinite; for p = 0 the number of nonzeros. It accumulates the largest |x| and
// the sum of (|x| / largest)^p, so that no power overflows; for p = 1 the sum itself.
template <class T>
struct NormPReducer {
    using C = compute_t<T>;
    C p, inverse;

    struct Acc {
        C largest, sum;
    };
    static constexpr bool ignores_index = true;
    static NormPReducer of(double p) { return {static_cast<C>(p), static_cast<C>(1 / p)}; }
    BK_HD Acc identity() const { return {0, 0}; }
    BK_HD C power(C x) const { return p == C(3) ? x * x * x : math::pow<T>(x, p); }
    BK_HD Acc merge(const Acc& low, const Acc& high) const {
        const C ratio = math::select(low.largest == high.largest, C(1), power(low.largest / high.largest));
        return {high.largest, high.sum + math::select(low.sum == C(0), C(0), low.sum * ratio)};
    }
    BK_HD void add(Acc& acc, int64_t, C x) const {
        const C size = math::fabs<C>(x);
        acc = combine(acc, {size, p == C(1) ? size : math::select(size == C(0), C(0), C(1))});
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        if (p == C(1)) return {0, a.sum + b.sum};
        const bool grows = b.largest > a.largest;
        const Acc low{grows ? a.largest : b.largest, grows ? a.sum : b.sum};
        const Acc high{grows ? b.largest : a.largest, grows ? b.sum : a.sum};
        return merge(low, high);
    }
    BK_HD C finish(const Acc& acc, int64_t) const {
        if (p == C(0) || p == C(1)) return acc.sum;
        return acc.sum > C(0) ? acc.largest * math::pow<T>(acc.sum, inverse) : acc.sum;  // 0 or NaN
    }
};

namespace op {

template <class T>
struct ReduceNormP : ReduceToOne<T> {
    static NormPReducer<T> reducer(double p) { return NormPReducer<T>::of(p); }
};

}  // namespace op

inline Status require_power(double p) {
    if (!(p >= 0)) return fail(Status::kInvalidProblem, "p is %g, must be >= 0", p);
    return Status::kOk;
}

// p = 2 takes the reducer without powers.
template <class T>
size_t power_norm_workspace(const ReduceAxes<1, 1>& axes, double p) {
    return p == 2 ? reduction_workspace<op::ReduceNorm2<T>>(axes) : reduction_workspace<op::ReduceNormP<T>>(axes, p);
}

template <class T>
Status power_norm(const Launch& launch, const ReduceAxes<1, 1>& axes, double p, const T* x, T* y) {
    if (p == 2) return run_reduction<op::ReduceNorm2<T>>(launch, axes, op::ReduceNorm2<T>::reducer(), x, y);
    return run_reduction<op::ReduceNormP<T>>(launch, axes, op::ReduceNormP<T>::reducer(p), x, y);
}

template <class T>
struct ReducePowerNormOverAxes {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t reduce_axes_mask;
    double p;

    Work work() const { return plain().work(); }
    Status check() const {
        BK_TRY(plain().check());
        return require_power(p);
    }
    Status locate_y(Operand* y, const char* name, Role role, int64_t size) const {
        return plain().locate_y(y, name, role, size);
    }
    size_t workspace_size() const { return power_norm_workspace<T>(plain().template axes<1>(), p); }
    Status run(const T* x, T* y, const Launch& launch) const {
        return power_norm<T>(launch, plain().template axes<1>(), p, x, y);
    }

private:
    ReducedAxes plain() const { return {numel, rank, shape, stride_x, stride_y, reduce_axes_mask}; }
};

template <class T>
struct ReducePowerNormTo {
    const int32_t* input_shape;
    const int64_t* input_stride;
    int32_t rank_in;
    const int32_t* output_shape;
    double p;

    Work work() const { return plain().work(); }
    Status check() const {
        BK_TRY(plain().check());
        return require_power(p);
    }
    Status locate_src(Operand* src, const char* name, Role role, int64_t size) const {
        return plain().locate_src(src, name, role, size);
    }
    Status locate_dst(Operand* dst, const char* name, Role role, int64_t size) const {
        return plain().locate_dst(dst, name, role, size);
    }
    size_t workspace_size() const { return power_norm_workspace<T>(plain().template axes<1>(), p); }
    Status run(const T* src, T* dst, const Launch& launch) const {
        return power_norm<T>(launch, plain().template axes<1>(), p, src, dst);
    }

private:
    ShapeReduction plain() const { return {input_shape, input_stride, rank_in, output_shape}; }
};

}  // namespace bk

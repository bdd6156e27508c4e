// The p-norm along any set of axes.
#pragma once

#include <cstdint>

#include "core/math/half_power.h"
#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"
#include "reduce/axes_reduction.h"
#include "reduce/functions.h"

namespace bk {

// (sum of |x|^p)^(1/p) for p > 0, also infinite; for p = 0 the number of elements that are not 0. The largest |x|, and the sum
// of (|x| / largest)^p, so that no power overflows; for p = 1 the sum itself.
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
    BK_HD Acc merge(const Acc& low, const Acc& high) const {
        const C ratio = math::select(low.largest == high.largest, C(1), math::pow<T>(low.largest / high.largest, p));
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

// For p = 2 by the reducer that has no power.
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
        if (!(p >= 0)) return fail(Status::kInvalidProblem, "p is %g, must be >= 0", p);
        return Status::kOk;
    }
    Status locate_y(Operand* y, const char* name, Role role, int64_t size) const {
        return plain().locate_y(y, name, role, size);
    }
    size_t workspace_size() const {
        const auto axes = plain().template axes<1>();
        return p == 2 ? reduction_workspace<op::ReduceNorm2<T>>(axes) : reduction_workspace<op::ReduceNormP<T>>(axes, p);
    }
    Status run(const T* x, T* y, const Launch& launch) const {
        const auto axes = plain().template axes<1>();
        if (p == 2) return run_reduction<op::ReduceNorm2<T>>(launch, axes, op::ReduceNorm2<T>::reducer(), x, y);
        return run_reduction<op::ReduceNormP<T>>(launch, axes, op::ReduceNormP<T>::reducer(p), x, y);
    }

private:
    ReducedAxes plain() const { return {numel, rank, shape, stride_x, stride_y, reduce_axes_mask}; }
};

}  // namespace bk

// Linear interpolation with a scalar weight.
//
// lerp(a, b, w) = a + w (b - a) below w = 0.5 and b - (1 - w) (b - a) from there on, so that both ends are exact.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/reduce/pointwise_sum.h"

namespace bk {

template <class C>
struct LerpFunctor {
    C weight;
    // A branch that is the same for all elements leaves the loop.
    BK_HD C operator()(C a, C b) const { return weight < C(0.5) ? a + weight * (b - a) : b - (b - a) * (C(1) - weight); }
};

template <class C>
struct LerpBackwardFunctor {
    C weight;
    BK_HD Pack<C, C> operator()(C dy) const { return pack((C(1) - weight) * dy, weight * dy); }
};

template <class T, class P>
struct Lerp {
    int64_t numel;
    P p;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* a, const T* b, T* y, const Launch& launch) const {
        return pointwise(launch, numel, LerpFunctor<compute_t<T>>{static_cast<compute_t<T>>(p)}, outputs(y), inputs(a, b));
    }
};

template <class T, class P>
struct LerpBackward {
    int64_t numel;
    P p;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* dy, T* da, T* db, const Launch& launch) const {
        if (da == nullptr && db == nullptr) return Status::kOk;
        return pointwise(launch, numel, LerpBackwardFunctor<compute_t<T>>{static_cast<compute_t<T>>(p)}, outputs(da, db),
                         inputs(dy));
    }
};

template <class T, class P>
struct LerpStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_a;
    const int64_t* stride_b;
    const int64_t* stride_y;
    P p;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape, {{"stride_a", stride_a}, {"stride_b", stride_b}},
                           {{"stride_y", stride_y}});
    }
    Status run(const T* a, const T* b, T* y, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<3>(rank, shape, {stride_y, stride_a, stride_b}),
                                 LerpFunctor<compute_t<T>>{static_cast<compute_t<T>>(p)}, outputs(y), inputs(a, b));
    }
};

template <class T, class P>
struct LerpBackwardStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_da;
    const int64_t* stride_db;
    P p;

    Work work() const { return work_of_sums(numel, rank, shape, {stride_da, stride_db}); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape,
                           {{"stride_dy", stride_dy}, {"stride_da", stride_da}, {"stride_db", stride_db}}, {});
    }
    size_t workspace_size() const { return pointwise_sums_workspace<compute_t<T>>(layout(), 1); }
    Status run(const T* dy, T* da, T* db, const Launch& launch) const {
        return pointwise_sums<compute_t<T>>(launch, layout(), LerpBackwardFunctor<compute_t<T>>{static_cast<compute_t<T>>(p)},
                                            outputs(da, db), inputs(dy));
    }

private:
    Layout<3> layout() const { return make_layout<3>(rank, shape, {stride_dy, stride_da, stride_db}); }
};

}  // namespace bk

// Gradients of functions of two operands. A gradient with a stride of 0 is summed over that axis.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/reduce/pointwise_sum.h"
#include "elementwise/floating.h"

namespace bk {

// Of functions whose gradients need no operand.
template <template <class> class F, class T>
struct LinearBackward {
    int64_t numel;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* dy, T* da, T* db, const Launch& launch) const {
        if (da == nullptr && db == nullptr) return Status::kOk;
        return pointwise(launch, numel, F<T>{}, outputs(da, db), inputs(dy));
    }
};

template <template <class> class F, class T>
struct LinearBackwardStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_da;
    const int64_t* stride_db;

    Work work() const { return work_of_sums(numel, rank, shape, {stride_da, stride_db}); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape,
                           {{"stride_dy", stride_dy}, {"stride_da", stride_da}, {"stride_db", stride_db}}, {});
    }
    size_t workspace_size() const { return pointwise_sums_workspace<compute_t<T>>(layout(), 1); }
    Status run(const T* dy, T* da, T* db, const Launch& launch) const {
        return pointwise_sums<compute_t<T>>(launch, layout(), F<T>{}, outputs(da, db), inputs(dy));
    }

private:
    Layout<3> layout() const { return make_layout<3>(rank, shape, {stride_dy, stride_da, stride_db}); }
};

template <template <class> class F, class T>
struct BinaryBackward {
    int64_t numel;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* dy, const T* a, const T* b, T* da, T* db, const Launch& launch) const {
        if (da == nullptr && db == nullptr) return Status::kOk;
        return pointwise(launch, numel, F<T>{}, outputs(da, db), inputs(dy, a, b));
    }
};

template <template <class> class F, class T>
struct BinaryBackwardStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_a;
    const int64_t* stride_b;
    const int64_t* stride_da;
    const int64_t* stride_db;

    Work work() const { return work_of_sums(numel, rank, shape, {stride_da, stride_db}); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape,
                           {{"stride_dy", stride_dy},
                            {"stride_a", stride_a},
                            {"stride_b", stride_b},
                            {"stride_da", stride_da},
                            {"stride_db", stride_db}},
                           {});
    }
    size_t workspace_size() const { return pointwise_sums_workspace<compute_t<T>>(layout(), 3); }
    Status run(const T* dy, const T* a, const T* b, T* da, T* db, const Launch& launch) const {
        return pointwise_sums<compute_t<T>>(launch, layout(), F<T>{}, outputs(da, db), inputs(dy, a, b));
    }

private:
    Layout<5> layout() const { return make_layout<5>(rank, shape, {stride_dy, stride_a, stride_b, stride_da, stride_db}); }
};

// b is an integer exponent and has no gradient.
template <class T>
struct LdexpBackwardStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_b;
    const int64_t* stride_da;

    Work work() const { return work_of_sums(numel, rank, shape, {stride_da}); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape,
                           {{"stride_dy", stride_dy}, {"stride_b", stride_b}, {"stride_da", stride_da}}, {});
    }
    size_t workspace_size() const { return pointwise_sums_workspace<compute_t<T>>(layout(), 2); }
    Status run(const T* dy, const int32_t* b, T* da, const Launch& launch) const {
        return pointwise_sums<compute_t<T>>(launch, layout(), op::Ldexp<T>{}, outputs(da), inputs(dy, b));
    }

private:
    Layout<3> layout() const { return make_layout<3>(rank, shape, {stride_dy, stride_b, stride_da}); }
};

}  // namespace bk

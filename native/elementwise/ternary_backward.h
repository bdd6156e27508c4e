// Gradients of functions of three operands. A gradient with a stride of 0 is summed over that axis.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/reduce/pointwise_sum.h"

namespace bk {

template <template <class> class F, class T>
struct TernaryBackward {
    int64_t numel;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* dy, const T* a, const T* b, const T* c, T* da, T* db, T* dc, const Launch& launch) const {
        if (da == nullptr && db == nullptr && dc == nullptr) return Status::kOk;
        return pointwise(launch, numel, F<T>{}, outputs(da, db, dc), inputs(dy, a, b, c));
    }
};

template <template <class> class F, class T>
struct TernaryBackwardStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_a;
    const int64_t* stride_b;
    const int64_t* stride_c;
    const int64_t* stride_da;
    const int64_t* stride_db;
    const int64_t* stride_dc;

    Work work() const { return work_of_sums(numel, rank, shape, {stride_da, stride_db, stride_dc}); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape,
                           {{"stride_dy", stride_dy},
                            {"stride_a", stride_a},
                            {"stride_b", stride_b},
                            {"stride_c", stride_c},
                            {"stride_da", stride_da},
                            {"stride_db", stride_db},
                            {"stride_dc", stride_dc}},
                           {});
    }
    size_t workspace_size() const { return pointwise_sums_workspace<compute_t<T>>(layout(), 4); }
    Status run(const T* dy, const T* a, const T* b, const T* c, T* da, T* db, T* dc, const Launch& launch) const {
        return pointwise_sums<compute_t<T>>(launch, layout(), F<T>{}, outputs(da, db, dc), inputs(dy, a, b, c));
    }

private:
    Layout<7> layout() const {
        return make_layout<7>(rank, shape, {stride_dy, stride_a, stride_b, stride_c, stride_da, stride_db, stride_dc});
    }
};

template <template <class> class F, class T, class P>
struct TernaryScaledBackward {
    int64_t numel;
    P scale;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* dy, const T* a, const T* b, const T* c, T* da, T* db, T* dc, const Launch& launch) const {
        if (da == nullptr && db == nullptr && dc == nullptr) return Status::kOk;
        return pointwise(launch, numel, F<T>{static_cast<compute_t<T>>(scale)}, outputs(da, db, dc), inputs(dy, a, b, c));
    }
};

template <template <class> class F, class T, class P>
struct TernaryScaledBackwardStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_a;
    const int64_t* stride_b;
    const int64_t* stride_c;
    const int64_t* stride_da;
    const int64_t* stride_db;
    const int64_t* stride_dc;
    P scale;

    Work work() const { return work_of_sums(numel, rank, shape, {stride_da, stride_db, stride_dc}); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape,
                           {{"stride_dy", stride_dy},
                            {"stride_a", stride_a},
                            {"stride_b", stride_b},
                            {"stride_c", stride_c},
                            {"stride_da", stride_da},
                            {"stride_db", stride_db},
                            {"stride_dc", stride_dc}},
                           {});
    }
    size_t workspace_size() const { return pointwise_sums_workspace<compute_t<T>>(layout(), 4); }
    Status run(const T* dy, const T* a, const T* b, const T* c, T* da, T* db, T* dc, const Launch& launch) const {
        return pointwise_sums<compute_t<T>>(launch, layout(), F<T>{static_cast<compute_t<T>>(scale)}, outputs(da, db, dc),
                                            inputs(dy, a, b, c));
    }

private:
    Layout<7> layout() const {
        return make_layout<7>(rank, shape, {stride_dy, stride_a, stride_b, stride_c, stride_da, stride_db, stride_dc});
    }
};

}  // namespace bk

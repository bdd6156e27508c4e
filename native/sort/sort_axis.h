// SPDX-License-Identifier: Apache-2.0
// Sorts along one axis of arrays of any strides, with 64-bit indices.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/axis.h"
#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/strided_args.h"
#include "core/sort/sort_rows.h"

namespace bk {

// The problem of slices along an axis. An operand that the op lacks has null strides.
template <class T>
SortProblem sort_along(int32_t rank, const int32_t* shape, int32_t axis, bool is_descending, const int64_t* x, const int64_t* y,
                       const int64_t* indices) {
    const int64_t* const strides[kSortOperands] = {x, y, nullptr, indices};
    SortProblem problem = sort_problem<T>(1, shape[axis], is_descending, 8);
    problem.rows = {};
    for (int32_t d = 0; d < rank; ++d) {
        int64_t at_axis[kSortOperands];
        for (int k = 0; k < kSortOperands; ++k) at_axis[k] = strides[k] == nullptr ? 0 : strides[k][d];
        if (d != axis)
            problem.rows.append(shape[d], at_axis);
        else
            std::copy(at_axis, at_axis + kSortOperands, problem.step);
    }
    return problem;
}

template <class T>
struct SortAxis {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    const int64_t* stride_indices;
    int32_t sort_axis;
    int32_t descending;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}},
                           {{"stride_y", stride_y}, {"stride_indices", stride_indices}}));
        return require_axis("sort_axis", sort_axis, rank);
    }
    size_t workspace_size() const { return sort_rows_workspace(problem()); }
    Status run(const T* x, T* y, int64_t* indices, const Launch& launch) const {
        return sort_rows(launch, problem(), {x, y, nullptr, indices});
    }

private:
    SortProblem problem() const {
        return sort_along<T>(rank, shape, sort_axis, descending != 0, stride_x, stride_y, stride_indices);
    }
};

template <class T>
struct SortValuesAxis {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t sort_axis;
    int32_t descending;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}}, {{"stride_y", stride_y}}));
        return require_axis("sort_axis", sort_axis, rank);
    }
    size_t workspace_size() const { return sort_rows_workspace(problem()); }
    Status run(const T* x, T* y, const Launch& launch) const { return sort_rows(launch, problem(), {x, y, nullptr, nullptr}); }

private:
    SortProblem problem() const { return sort_along<T>(rank, shape, sort_axis, descending != 0, stride_x, stride_y, nullptr); }
};

template <class T>
struct ArgsortAxis {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_indices;
    int32_t sort_axis;
    int32_t descending;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(
            check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}}, {{"stride_indices", stride_indices}}));
        return require_axis("sort_axis", sort_axis, rank);
    }
    size_t workspace_size() const { return sort_rows_workspace(problem()); }
    Status run(const T* x, int64_t* indices, const Launch& launch) const {
        return sort_rows(launch, problem(), {x, nullptr, nullptr, indices});
    }

private:
    SortProblem problem() const {
        return sort_along<T>(rank, shape, sort_axis, descending != 0, stride_x, nullptr, stride_indices);
    }
};

}  // namespace bk

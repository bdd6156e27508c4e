// SPDX-License-Identifier: Apache-2.0
// unfold: sliding windows along an axis, as a strided copy.
#pragma once

#include <cstdint>

#include "core/abi/axis.h"
#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/copy/copies.h"
#include "shape_layout/extents.h"

namespace bk {

struct Windows {
    int32_t rank;
    const int32_t* input_shape;
    int32_t unfold_dim;
    int32_t window_size;
    int32_t window_step;

    int32_t count() const { return (input_shape[unfold_dim] - window_size) / window_step + 1; }
    Extents extents() const {
        Extents all;
        for (int32_t d = 0; d < rank; ++d) all.of[d] = d == unfold_dim ? count() : input_shape[d];
        all.of[rank] = window_size;
        return all;
    }
    BK_COLD Status check(const NamedStrides& plain, const NamedStrides& windowed) const {
        if (rank < 1 || rank >= kMaxRank)
            return fail(Status::kInvalidProblem, "rank is %d, must be in [1, %d]", rank, kMaxRank - 1);
        BK_TRY(require_shape("input_shape", input_shape, rank));
        BK_TRY(require_axis("unfold_dim", unfold_dim, rank));
        if (window_size < 1 || window_size > input_shape[unfold_dim])
            return fail(Status::kInvalidProblem, "window_size is %d, must be in [1, %d], the extent along unfold_dim",
                        window_size, input_shape[unfold_dim]);
        if (window_step < 1) return fail(Status::kInvalidProblem, "window_step is %d, must be >= 1", window_step);
        BK_TRY(require_array(plain.name, plain.array, rank));
        return require_array(windowed.name, windowed.array, rank);
    }
    // Checks that `shape` has `count` elements and that an output's strides are distinct.
    BK_COLD static Status check_count(const char* name, int64_t count, int32_t axes, const int32_t* shape,
                                      const NamedStrides& output) {
        int64_t product = 0;
        BK_TRY(require_non_negative({{name, count}}));
        BK_TRY(count_elements("input_shape", axes, shape, &product));
        if (product != count)
            return fail(Status::kInvalidProblem, "%s is %lld, but input_shape makes it %lld", name,
                        static_cast<long long>(count), static_cast<long long>(product));
        return count > 0 ? require_distinct(output, axes, shape) : Status::kOk;
    }
    BK_COLD Status locate(Operand* operand, const char* name, Role role, int64_t size, const char* strides_name,
                          const int64_t* strides) const {
        return locate_extents(operand, name, role, size, strides_name, rank + 1, extents(), strides);
    }
};

struct UnfoldShape {
    int64_t output_numel;
    int32_t rank;
    const int32_t* input_shape;
    int32_t unfold_dim;
    int32_t window_size;
    int32_t window_step;
    const int64_t* stride_x;
    const int64_t* stride_y;

    Windows windows() const { return {rank, input_shape, unfold_dim, window_size, window_step}; }
    Work work() const { return all_or_none(output_numel); }
    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"output_numel", output_numel}}));
        BK_TRY(windows().check({"stride_x", stride_x}, {"stride_y", stride_y}));
        return Windows::check_count("output_numel", output_numel, rank + 1, windows().extents().of, {"stride_y", stride_y});
    }
    Status locate_y(Operand* y, const char* name, Role role, int64_t size) const {
        return windows().locate(y, name, role, size, "stride_y", stride_y);
    }
    BK_COLD Status unfold(const Launch& launch, int bytes, const void* x, void* y) const {
        const Extents extents = windows().extents();
        CopyLayout layout;
        const int64_t step = windows().count() > 1 ? window_step : 1;  // unused for one window, and may overflow
        for (int32_t d = 0; d < rank; ++d)
            layout.append(extents.of[d], {stride_y[d], stride_x[d] * (d == unfold_dim ? step : 1)});
        layout.append(window_size, {stride_y[rank], stride_x[unfold_dim]});
        return copy_strided(launch, layout, bytes, x, y);
    }
};

template <class T>
struct Unfold : UnfoldShape {
    Status run(const T* x, T* y, const Launch& launch) const { return unfold(launch, sizeof(T), x, y); }
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Adaptive average and max pooling: outputs of given extents, whose windows tile the image and overlap by a cell where the
// extents do not divide.
#pragma once

#include <cstdint>

#include "pool/gather_windows.h"
#include "pool/problem.h"
#include "pool/reduce_windows.h"

namespace bk::pool {

// Dense planes whose unused leading axes have one cell.
struct DenseAdaptive {
    int32_t nc, spatial_rank, in_d, in_h, in_w, out_d, out_h, out_w;

    Work work() const { return all_or_none(nc); }
    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"nc", nc}}));
        if (spatial_rank < 1 || spatial_rank > kAxes)
            return fail(Status::kInvalidProblem, "spatial_rank is %d, must be in [1, %d]", spatial_rank, kAxes);
        const NamedExtent given[] = {{"in_d", in_d},   {"in_h", in_h},   {"in_w", in_w},
                                     {"out_d", out_d}, {"out_h", out_h}, {"out_w", out_w}};
        for (const NamedExtent& each : given) BK_TRY(require_positive(each.name, each.value));
        for (int k = 0; k < 2 * kAxes; ++k)
            if (k % kAxes < kAxes - spatial_rank && given[k].value != 1)
                return fail(Status::kInvalidProblem, "%s is %lld, must be 1 with spatial_rank %d", given[k].name,
                            static_cast<long long>(given[k].value), spatial_rank);
        return require_window(problem());
    }
    // Cells of a window are counted in 32 bits.
    static Status require_window(const Problem& p) {
        int64_t cells = 1;
        for (const Axis& axis : p.axis) cells = std::min(cells * axis.kernel, kMostCells + 1);
        if (cells > kMostCells) return fail(Status::kUnsupported, "a window would have 2^31 cells or more");
        return Status::kOk;
    }
    BK_COLD Problem problem() const {
        Problem p;
        p.batch = 1, p.channels = nc;
        p.axis[0] = Axis::adaptive(in_d, out_d);
        p.axis[1] = Axis::adaptive(in_h, out_h);
        p.axis[2] = Axis::adaptive(in_w, out_w);
        return dense(p);
    }
};

template <class T>
struct DenseAdaptiveAvgPool : DenseAdaptive {
    Status run(const T* x, T* y, const Launch& launch) const {
        return reduce_windows(launch, problem(), AverageOp<T>{}, x, y, nullptr);
    }
};

template <class T>
struct DenseAdaptiveAvgPoolBackward : DenseAdaptive {
    Status run(const T* dy, T* dx, const Launch& launch) const {
        return gather_windows(launch, problem(), AverageGradient{}, GradientArrays<T>{nullptr, nullptr, dy, nullptr, dx});
    }
};

template <class T>
struct DenseAdaptiveMaxPool : DenseAdaptive {
    Status run(const T* x, T* y, const Launch& launch) const {
        return reduce_windows(launch, problem(), MaxOp<T>{}, x, y, nullptr);
    }
};

template <class T>
struct DenseAdaptiveMaxPoolBackward : DenseAdaptive {
    Status run(const T* x, const T* dy, T* dx, const Launch& launch) const {
        return max_gradient_from_x(launch, problem(), x, dy, dx);
    }
};

struct AdaptiveAvgPoolArguments {
    int32_t rank;
    const int32_t *input_shape, *output_size;
    const int64_t *stride_x, *stride_y;

    OutputArguments given() const { return {{rank, input_shape}, output_size}; }
    Work work() const { return all_or_none(given().planes_of_outputs()); }
    BK_COLD Status check() const {
        BK_TRY(given().check());
        BK_TRY(check_strides({"stride_x", stride_x}, rank, given().image.shape(), false));
        BK_TRY(check_strides({"stride_y", stride_y}, rank, given().outputs(), true));
        return DenseAdaptive::require_window(given().adaptive());
    }
    Status locate_y(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_y", rank, given().outputs(), stride_y);
    }
    BK_COLD Problem problem() const {
        Problem p = given().adaptive();
        p.x = given().cell_strides(stride_x);
        p.y = given().output_strides(stride_y);
        return p;
    }
};

template <class T>
struct AdaptiveAvgPool : AdaptiveAvgPoolArguments {
    Status run(const T* x, T* y, const Launch& launch) const {
        return reduce_windows(launch, problem(), AverageOp<T>{}, x, y, nullptr);
    }
};

struct AdaptiveAvgPoolBackwardArguments {
    int32_t rank;
    const int32_t *input_shape, *output_size;
    const int64_t *stride_dy, *stride_dx;

    OutputArguments given() const { return {{rank, input_shape}, output_size}; }
    Work work() const { return all_or_none(given().image.planes()); }
    BK_COLD Status check() const {
        BK_TRY(given().check());
        BK_TRY(check_strides({"stride_dy", stride_dy}, rank, given().outputs(), false));
        return check_strides({"stride_dx", stride_dx}, rank, given().image.shape(), true);
    }
    Status locate_dy(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_dy", rank, given().outputs(), stride_dy);
    }
    BK_COLD Problem problem() const {
        Problem p = given().adaptive();
        p.dy = given().output_strides(stride_dy);
        p.dx = given().cell_strides(stride_dx);
        return p;
    }
};

template <class T>
struct AdaptiveAvgPoolBackward : AdaptiveAvgPoolBackwardArguments {
    Status run(const T* dy, T* dx, const Launch& launch) const {
        return gather_windows(launch, problem(), AverageGradient{}, GradientArrays<T>{nullptr, nullptr, dy, nullptr, dx});
    }
};

struct AdaptiveMaxPoolArguments {
    int32_t rank;
    const int32_t *input_shape, *output_size;
    const int64_t *stride_x, *stride_y, *stride_indices;

    OutputArguments given() const { return {{rank, input_shape}, output_size}; }
    Work work() const { return all_or_none(given().planes_of_outputs()); }
    BK_COLD Status check() const {
        BK_TRY(given().check());
        BK_TRY(check_strides({"stride_x", stride_x}, rank, given().image.shape(), false));
        BK_TRY(check_strides({"stride_y", stride_y}, rank, given().outputs(), true));
        BK_TRY(check_strides({"stride_indices", stride_indices}, rank, given().outputs(), true));
        return DenseAdaptive::require_window(given().adaptive());
    }
    Status locate_y(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_y", rank, given().outputs(), stride_y);
    }
    Status locate_indices(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_indices", rank, given().outputs(), stride_indices);
    }
    BK_COLD Problem problem() const {
        Problem p = given().adaptive();
        p.x = given().cell_strides(stride_x);
        p.y = given().output_strides(stride_y);
        p.indices = given().output_strides(stride_indices);
        return p;
    }
};

template <class T>
struct AdaptiveMaxPool : AdaptiveMaxPoolArguments {
    Status run(const T* x, T* y, int64_t* indices, const Launch& launch) const {
        return reduce_windows(launch, problem(), MaxOp<T>{}, x, y, indices);
    }
};

struct AdaptiveMaxPoolBackwardArguments {
    int32_t rank;
    const int32_t *input_shape, *output_size;
    const int64_t *stride_dy, *stride_x, *stride_y, *stride_dx;

    OutputArguments given() const { return {{rank, input_shape}, output_size}; }
    Work work() const { return all_or_none(given().image.planes()); }
    BK_COLD Status check() const {
        BK_TRY(given().check());
        BK_TRY(check_strides({"stride_dy", stride_dy}, rank, given().outputs(), false));
        BK_TRY(check_strides({"stride_x", stride_x}, rank, given().image.shape(), false));
        BK_TRY(check_strides({"stride_y", stride_y}, rank, given().outputs(), false));
        return check_strides({"stride_dx", stride_dx}, rank, given().image.shape(), true);
    }
    Status locate_dy(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_dy", rank, given().outputs(), stride_dy);
    }
    Status locate_y(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_y", rank, given().outputs(), stride_y);
    }
    BK_COLD Problem problem() const {
        Problem p = given().adaptive();
        p.dy = given().output_strides(stride_dy);
        p.y = given().output_strides(stride_y);
        p.x = given().cell_strides(stride_x);
        p.dx = given().cell_strides(stride_dx);
        return p;
    }
};

template <class T>
struct AdaptiveMaxPoolBackward : AdaptiveMaxPoolBackwardArguments {
    Status run(const T* dy, const T* x, const T* y, T* dx, const Launch& launch) const {
        return gather_windows(launch, problem(), MaxGradient{}, GradientArrays<T>{x, y, dy, nullptr, dx});
    }
};

struct AdaptiveMaxPoolIndexedBackwardArguments {
    int32_t rank;
    const int32_t *input_shape, *output_size;
    const int64_t *stride_dy, *stride_indices, *stride_dx;

    OutputArguments given() const { return {{rank, input_shape}, output_size}; }
    Work work() const { return all_or_none(given().image.planes()); }
    BK_COLD Status check() const {
        BK_TRY(given().check());
        BK_TRY(check_strides({"stride_dy", stride_dy}, rank, given().outputs(), false));
        BK_TRY(check_strides({"stride_indices", stride_indices}, rank, given().outputs(), false));
        return check_strides({"stride_dx", stride_dx}, rank, given().image.shape(), true);
    }
    Status locate_dy(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_dy", rank, given().outputs(), stride_dy);
    }
    Status locate_indices(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_indices", rank, given().outputs(), stride_indices);
    }
    BK_COLD Problem problem() const {
        Problem p = given().adaptive();
        p.dy = given().output_strides(stride_dy);
        p.indices = given().output_strides(stride_indices);
        p.dx = given().cell_strides(stride_dx);
        return p;
    }
};

template <class T>
struct AdaptiveMaxPoolIndexedBackward : AdaptiveMaxPoolIndexedBackwardArguments {
    Status run(const T* dy, const int64_t* indices, T* dx, const Launch& launch) const {
        return gather_windows(launch, problem(), MaxGradient{}, GradientArrays<T>{nullptr, nullptr, dy, indices, dx});
    }
};

}  // namespace bk::pool

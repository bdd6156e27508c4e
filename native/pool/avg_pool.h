// SPDX-License-Identifier: Apache-2.0
// Average pooling and its gradient.
#pragma once

#include <cstdint>

#include "pool/dense_windows.h"
#include "pool/gather_windows.h"
#include "pool/problem.h"
#include "pool/reduce_windows.h"

namespace bk::pool {

template <class T, class Given>
struct DenseAvgPool : Given {
    Work work() const { return this->given().work(); }
    Status check() const { return this->given().check(); }
    Status run(const T* x, T* y, const Launch& launch) const {
        return reduce_windows(launch, this->given().problem(), AverageOp<T>{this->divisor()}, x, y, nullptr);
    }
};

template <class T, class Given>
struct DenseAvgPoolBackward : Given {
    Work work() const { return this->given().work(); }
    Status check() const { return this->given().check(); }
    Status run(const T*, const T* dy, const T*, T* dx, const Launch& launch) const {
        return gather_windows(launch, this->given().problem(), AverageGradient{this->divisor()},
                              GradientArrays<T>{nullptr, nullptr, dy, nullptr, dx});
    }
};

struct AvgPoolArguments {
    int32_t rank;
    const int32_t *input_shape, *kernel_size, *steps, *padding_low, *padding_high, *dilation;
    int32_t ceil_mode, count_include_pad;
    int64_t divisor_override;
    const int64_t *stride_x, *stride_y;

    WindowArguments given() const {
        return {{rank, input_shape}, kernel_size, steps, padding_low, padding_high, dilation, ceil_mode};
    }
    Divisor divisor() const { return {count_include_pad != 0, divisor_override}; }
    Work work() const { return all_or_none(given().image.planes()); }
    BK_COLD Status check() const {
        const WindowArguments windows = given();
        BK_TRY(windows.check());
        BK_TRY(check_strides({"stride_x", stride_x}, rank, windows.image.shape(), false));
        return check_strides({"stride_y", stride_y}, rank, windows.windows(), true);
    }
    Status locate_y(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_y", rank, given().windows(), stride_y);
    }
    BK_COLD Problem problem() const {
        Problem p = given().problem();
        p.x = given().cell_strides(stride_x);
        p.y = given().window_strides(stride_y);
        return p;
    }
};

template <class T>
struct AvgPool : AvgPoolArguments {
    Status run(const T* x, T* y, const Launch& launch) const {
        return reduce_windows(launch, problem(), AverageOp<T>{divisor()}, x, y, nullptr);
    }
};

struct AvgPoolBackwardArguments {
    int32_t rank;
    const int32_t *input_shape, *kernel_size, *steps, *padding_low, *padding_high, *dilation;
    int32_t ceil_mode, count_include_pad;
    int64_t divisor_override;
    const int64_t *stride_dy, *stride_dx;

    WindowArguments given() const {
        return {{rank, input_shape}, kernel_size, steps, padding_low, padding_high, dilation, ceil_mode};
    }
    Divisor divisor() const { return {count_include_pad != 0, divisor_override}; }
    Work work() const { return all_or_none(given().image.planes()); }
    BK_COLD Status check() const {
        const WindowArguments windows = given();
        BK_TRY(windows.check());
        BK_TRY(check_strides({"stride_dy", stride_dy}, rank, windows.windows(), false));
        return check_strides({"stride_dx", stride_dx}, rank, windows.image.shape(), true);
    }
    Status locate_dy(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_dy", rank, given().windows(), stride_dy);
    }
    BK_COLD Problem problem() const {
        Problem p = given().problem();
        p.dy = given().window_strides(stride_dy);
        p.dx = given().cell_strides(stride_dx);
        return p;
    }
};

template <class T>
struct AvgPoolBackward : AvgPoolBackwardArguments {
    Status run(const T* dy, T* dx, const Launch& launch) const {
        return gather_windows(launch, problem(), AverageGradient{divisor()},
                              GradientArrays<T>{nullptr, nullptr, dy, nullptr, dx});
    }
};

}  // namespace bk::pool

// SPDX-License-Identifier: Apache-2.0
// Max pooling and its gradient. NaN is greater than all numbers; of equal cells the first one in row-major order counts.
#pragma once

#include <cstdint>

#include "pool/dense_windows.h"
#include "pool/gather_windows.h"
#include "pool/problem.h"
#include "pool/reduce_windows.h"

namespace bk::pool {

template <class T, class Given>
struct DenseMaxPool : Given {
    Work work() const { return this->given().work(); }
    Status check() const { return this->given().check(); }
    Status run(const T* x, T* y, const Launch& launch) const {
        return reduce_windows(launch, this->given().problem(), MaxOp<T>{}, x, y, nullptr);
    }
};

template <class T, class Given>
struct DenseMaxPoolBackward : Given {
    Work work() const { return this->given().work(); }
    Status check() const { return this->given().check(); }
    Status run(const T* y, const T* dy, const T* x, T* dx, const Launch& launch) const {
        return gather_windows(launch, this->given().problem(), MaxGradient{}, GradientArrays<T>{x, y, dy, nullptr, dx});
    }
};

struct MaxPoolArguments {
    int32_t rank;
    const int32_t *input_shape, *kernel_size, *steps, *padding_low, *padding_high, *dilation;
    int32_t ceil_mode;
    const int64_t *stride_x, *stride_y, *stride_indices;

    WindowArguments given() const {
        return {{rank, input_shape}, kernel_size, steps, padding_low, padding_high, dilation, ceil_mode};
    }
    Work work() const { return all_or_none(given().image.planes()); }
    BK_COLD Status check() const {
        const WindowArguments windows = given();
        BK_TRY(windows.check());
        BK_TRY(check_strides({"stride_x", stride_x}, rank, windows.image.shape(), false));
        BK_TRY(check_strides({"stride_y", stride_y}, rank, windows.windows(), true));
        return check_strides({"stride_indices", stride_indices}, rank, windows.windows(), true);
    }
    Status locate_y(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_y", rank, given().windows(), stride_y);
    }
    Status locate_indices(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_indices", rank, given().windows(), stride_indices);
    }
    BK_COLD Problem problem() const {
        Problem p = given().problem();
        p.x = given().cell_strides(stride_x);
        p.y = given().window_strides(stride_y);
        p.indices = given().window_strides(stride_indices);
        return p;
    }
};

template <class T>
struct MaxPool : MaxPoolArguments {
    Status run(const T* x, T* y, int64_t* indices, const Launch& launch) const {
        return reduce_windows(launch, problem(), MaxOp<T>{}, x, y, indices);
    }
};

struct MaxPoolBackwardArguments {
    int32_t rank;
    const int32_t *input_shape, *kernel_size, *steps, *padding_low, *padding_high, *dilation;
    int32_t ceil_mode;
    const int64_t *stride_dy, *stride_x, *stride_y, *stride_dx;

    WindowArguments given() const {
        return {{rank, input_shape}, kernel_size, steps, padding_low, padding_high, dilation, ceil_mode};
    }
    Work work() const { return all_or_none(given().image.planes()); }
    BK_COLD Status check() const {
        const WindowArguments windows = given();
        BK_TRY(windows.check());
        BK_TRY(check_strides({"stride_dy", stride_dy}, rank, windows.windows(), false));
        BK_TRY(check_strides({"stride_x", stride_x}, rank, windows.image.shape(), false));
        BK_TRY(check_strides({"stride_y", stride_y}, rank, windows.windows(), false));
        return check_strides({"stride_dx", stride_dx}, rank, windows.image.shape(), true);
    }
    Status locate_dy(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_dy", rank, given().windows(), stride_dy);
    }
    Status locate_y(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_y", rank, given().windows(), stride_y);
    }
    BK_COLD Problem problem() const {
        Problem p = given().problem();
        p.dy = given().window_strides(stride_dy);
        p.y = given().window_strides(stride_y);
        p.x = given().cell_strides(stride_x);
        p.dx = given().cell_strides(stride_dx);
        return p;
    }
};

template <class T>
struct MaxPoolBackward : MaxPoolBackwardArguments {
    Status run(const T* dy, const T* x, const T* y, T* dx, const Launch& launch) const {
        return gather_windows(launch, problem(), MaxGradient{}, GradientArrays<T>{x, y, dy, nullptr, dx});
    }
};

struct MaxPoolIndexedBackwardArguments {
    int32_t rank;
    const int32_t *input_shape, *kernel_size, *steps, *padding_low, *padding_high, *dilation;
    int32_t ceil_mode;
    const int64_t *stride_dy, *stride_indices, *stride_dx;

    WindowArguments given() const {
        return {{rank, input_shape}, kernel_size, steps, padding_low, padding_high, dilation, ceil_mode};
    }
    Work work() const { return all_or_none(given().image.planes()); }
    BK_COLD Status check() const {
        const WindowArguments windows = given();
        BK_TRY(windows.check());
        BK_TRY(check_strides({"stride_dy", stride_dy}, rank, windows.windows(), false));
        BK_TRY(check_strides({"stride_indices", stride_indices}, rank, windows.windows(), false));
        return check_strides({"stride_dx", stride_dx}, rank, windows.image.shape(), true);
    }
    Status locate_dy(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_dy", rank, given().windows(), stride_dy);
    }
    Status locate_indices(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_indices", rank, given().windows(), stride_indices);
    }
    BK_COLD Problem problem() const {
        Problem p = given().problem();
        p.dy = given().window_strides(stride_dy);
        p.indices = given().window_strides(stride_indices);
        p.dx = given().cell_strides(stride_dx);
        return p;
    }
};

template <class T>
struct MaxPoolIndexedBackward : MaxPoolIndexedBackwardArguments {
    Status run(const T* dy, const int64_t* indices, T* dx, const Launch& launch) const {
        return gather_windows(launch, problem(), MaxGradient{}, GradientArrays<T>{nullptr, nullptr, dy, indices, dx});
    }
};

}  // namespace bk::pool

// SPDX-License-Identifier: Apache-2.0
// p-norm pooling, y = (sum of abs(x)^p)^(1/p), the greatest abs(x) for p = infinity, and its gradient
// dx = dy (abs(x) / y)^(p - 1) sign(x), which stays in range. For p = infinity dy goes to the first greatest cell.
#pragma once

#include <cstdint>

#include "pool/gather_windows.h"
#include "pool/problem.h"
#include "pool/reduce_windows.h"

namespace bk::pool {

BK_COLD inline Status require_norm(float p) {
    if (p > 0) return Status::kOk;
    return fail(Status::kUnsupported, "norm_p is %g, must be > 0", static_cast<double>(p));
}

template <class T>
NormOp<T> norm_op(float p) {
    return {norm_of(p), static_cast<compute_t<T>>(p)};
}

template <class T>
Status norm_windows(const Launch& launch, const Problem& problem, float p, const T* x, T* y) {
    return reduce_windows(launch, problem, norm_op<T>(p), x, y, nullptr);
}

template <class T>
Status norm_gradient(const Launch& launch, const Problem& problem, float p, const GradientArrays<T>& arrays, bool adds) {
    if (norm_of(p) == Norm::kMaximum) return gather_windows(launch, problem, MaxGradient{true}, arrays, adds);
    return gather_windows(launch, problem, NormGradient<T>{norm_op<T>(p)}, arrays, adds);
}

// Windows of lp_pool_1d and lp_pool_2d: no padding; those behind the image are cut, and are 0 if nothing is left.
struct CutWindows {
    int32_t batch, channels;
    int rank;
    struct {
        const char *in_name, *kernel_name, *step_name, *out_name;
        int32_t in, kernel, step, out;
    } axis[2];
    float norm_p;

    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"channels", channels}}));
        for (int d = 0; d < rank; ++d) BK_TRY(require_positive(axis[d].in_name, axis[d].in));
        for (int d = 0; d < rank; ++d) {
            BK_TRY(require_positive(axis[d].kernel_name, axis[d].kernel));
            BK_TRY(require_positive(axis[d].step_name, axis[d].step));
        }
        int64_t cells = 1;
        for (int d = 0; d < rank; ++d) {
            BK_TRY(require_positive(axis[d].out_name, axis[d].out));
            if (int64_t{axis[d].step} * axis[d].out + axis[d].kernel > kMostCells ||
                int64_t{axis[d].in} + axis[d].step + axis[d].kernel > kMostCells)
                return fail(Status::kInvalidProblem, "%s is %d: windows would reach 2^31 cells or more", axis[d].out_name,
                            axis[d].out);
            cells = std::min(cells * axis[d].kernel, kMostCells + 1);
        }
        if (cells > kMostCells)
            return fail(Status::kInvalidProblem, "%s is %d: a window would have 2^31 cells or more", axis[0].kernel_name,
                        axis[0].kernel);
        return require_norm(norm_p);
    }
    BK_COLD Problem problem() const {
        Problem p;
        p.batch = batch, p.channels = channels;
        for (int d = 0; d < rank; ++d)
            p.axis[kAxes - rank + d] = Axis::windows(axis[d].in, axis[d].out, axis[d].kernel, axis[d].step, 1, 0, 0);
        return dense(p);
    }
    Work work() const { return all_or_none(int64_t{batch} * channels); }
};

struct LpPool1dArguments {
    int32_t batch, channels, l_in, kernel, stride, l_out;
    float norm_p;
    int32_t ceil_mode;

    CutWindows given() const {
        return {batch, channels, 1, {{"l_in", "kernel", "stride", "l_out", l_in, kernel, stride, l_out}}, norm_p};
    }
};

struct LpPool2dArguments {
    int32_t batch, channels, h_in, w_in, kh, kw, sh, sw, h_out, w_out;
    float norm_p;
    int32_t ceil_mode;

    CutWindows given() const {
        return {batch,
                channels,
                2,
                {{"h_in", "kh", "sh", "h_out", h_in, kh, sh, h_out}, {"w_in", "kw", "sw", "w_out", w_in, kw, sw, w_out}},
                norm_p};
    }
};

template <class T, class Given>
struct DenseLpPool : Given {
    Work work() const { return this->given().work(); }
    Status check() const { return this->given().check(); }
    Status run(const T* x, T* y, const Launch& launch) const {
        return norm_windows(launch, this->given().problem(), this->norm_p, x, y);
    }
};

// Adds to dx.
template <class T, class Given>
struct DenseLpPoolBackward : Given {
    Work work() const { return this->given().work(); }
    Status check() const { return this->given().check(); }
    Status run(const T* x, const T* y, const T* dy, T* dx, const Launch& launch) const {
        return norm_gradient(launch, this->given().problem(), this->norm_p, GradientArrays<T>{x, y, dy, nullptr, dx}, true);
    }
};

struct LpPoolArguments {
    int32_t rank;
    const int32_t *input_shape, *kernel_size, *steps, *padding_low, *padding_high, *dilation;
    int32_t ceil_mode;
    float norm_p;
    const int64_t *stride_x, *stride_y;

    WindowArguments given() const {
        return {{rank, input_shape}, kernel_size, steps, padding_low, padding_high, dilation, ceil_mode};
    }
    Work work() const { return all_or_none(given().image.planes()); }
    BK_COLD Status check() const {
        const WindowArguments windows = given();
        BK_TRY(windows.check());
        BK_TRY(require_norm(norm_p));
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
struct LpPool : LpPoolArguments {
    Status run(const T* x, T* y, const Launch& launch) const { return norm_windows(launch, problem(), norm_p, x, y); }
};

struct LpPoolBackwardArguments {
    int32_t rank;
    const int32_t *input_shape, *kernel_size, *steps, *padding_low, *padding_high, *dilation;
    int32_t ceil_mode;
    float norm_p;
    const int64_t *stride_dy, *stride_x, *stride_y, *stride_dx;

    WindowArguments given() const {
        return {{rank, input_shape}, kernel_size, steps, padding_low, padding_high, dilation, ceil_mode};
    }
    Work work() const { return all_or_none(given().image.planes()); }
    BK_COLD Status check() const {
        const WindowArguments windows = given();
        BK_TRY(windows.check());
        BK_TRY(require_norm(norm_p));
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
struct LpPoolBackward : LpPoolBackwardArguments {
    Status run(const T* dy, const T* x, const T* y, T* dx, const Launch& launch) const {
        return norm_gradient(launch, problem(), norm_p, GradientArrays<T>{x, y, dy, nullptr, dx}, false);
    }
};

}  // namespace bk::pool

// SPDX-License-Identifier: Apache-2.0
// conv_{1,2,3}d and conv_transpose_{1,2,3}d: contiguous NCL, NCHW and NCDHW operands, one padding for both sides.
//
// Output extents among the arguments are not read: they follow from the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "conv/core.h"
#include "core/abi/checks.h"

namespace bk {

// Arguments of one spatial axis with their names.
struct ConvAxisArguments {
    NamedExtent in, taps, step, pad, dilation, output_pad;

    ConvAxis axis() const {
        ConvAxis a;
        a.in = in.value;
        a.taps = taps.value;
        a.step = step.value;
        a.pad = pad.value;
        a.dilation = dilation.value;
        return a;
    }
};

BK_COLD inline Status check_conv_axes(std::initializer_list<ConvAxisArguments> axes) {
    for (const ConvAxisArguments& a : axes) {
        BK_TRY(require_at_least(a.in.name, a.in.value, 0));
        BK_TRY(require_at_least(a.taps.name, a.taps.value, 1));
        BK_TRY(require_at_least(a.step.name, a.step.value, 1));
        BK_TRY(require_at_least(a.dilation.name, a.dilation.value, 1));
        BK_TRY(require_at_least(a.pad.name, a.pad.value, 0));
    }
    return Status::kOk;
}

// Extents of a convolution, whose x is the row's input.
BK_COLD inline ConvShape conv_shape(int64_t batch, int64_t c_in, int64_t c_out, int64_t groups,
                                    std::initializer_list<ConvAxisArguments> axes) {
    ConvShape s;
    s.batch = batch;
    s.c_in = c_in;
    s.c_out = c_out;
    s.groups = groups;
    int d = kConvAxes - static_cast<int>(axes.size());
    for (const ConvAxisArguments& a : axes) {
        s.axis[d] = a.axis();
        s.axis[d].out = s.axis[d].windows(a.pad.value);
        ++d;
    }
    s.set_layout(ConvLayout::kChannelsFirst);
    return s;
}

BK_COLD inline Status check_conv(int64_t batch, int64_t c_in, int64_t c_out, int64_t groups,
                                 std::initializer_list<ConvAxisArguments> axes) {
    BK_TRY(require_non_negative({{"batch", batch}, {"c_in", c_in}, {"c_out", c_out}}));
    BK_TRY(check_conv_axes(axes));
    BK_TRY(require_groups("c_in", c_in, "c_out", c_out, groups));
    for (const ConvAxisArguments& a : axes) BK_TRY(require_window(a.taps.name, a.axis(), a.pad.value));
    return Status::kOk;
}

// Extent of a transposed convolution's result.
inline int64_t transposed_extent(const ConvAxisArguments& a) {
    return (a.in.value - 1) * a.step.value - 2 * a.pad.value + a.dilation.value * (a.taps.value - 1) + a.output_pad.value + 1;
}

// The convolution whose gradient of data a transposed convolution is: its y is the row's input.
BK_COLD inline ConvShape conv_transpose_shape(int64_t batch, int64_t c_in, int64_t c_out, int64_t groups,
                                              std::initializer_list<ConvAxisArguments> axes) {
    ConvShape s;
    s.batch = batch;
    s.c_in = c_out;
    s.c_out = c_in;
    s.groups = groups;
    int d = kConvAxes - static_cast<int>(axes.size());
    for (const ConvAxisArguments& a : axes) {
        s.axis[d] = a.axis();
        s.axis[d].in = transposed_extent(a);
        s.axis[d].out = a.in.value;
        ++d;
    }
    s.set_layout(ConvLayout::kChannelsFirst);
    return s;
}

BK_COLD inline Status require_output_pad(const NamedExtent& pad, int64_t step, int64_t dilation) {
    const int64_t most = std::max(step, dilation) - 1;
    if (pad.value >= 0 && pad.value <= most) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %lld, must be in [0, %lld], below the larger of stride and dilation", pad.name,
                static_cast<long long>(pad.value), static_cast<long long>(most));
}

// Refuses an axis whose result has no element, or coordinates beyond 32 bits.
BK_COLD inline Status require_transposed_extent(const ConvAxisArguments& a) {
    BK_TRY(require_at_least(a.in.name, a.in.value, 1));
    const int64_t extent = transposed_extent(a);
    if (extent >= 1 && extent + 2 * a.pad.value <= INT32_MAX) return Status::kOk;
    return fail(Status::kInvalidProblem,
                "%s is %lld: the result would have an extent of %lld, must be in [1, 2^31 - 1 - 2 * %s]", a.taps.name,
                static_cast<long long>(a.taps.value), static_cast<long long>(extent), a.pad.name);
}

BK_COLD inline Status check_conv_transpose(int64_t batch, int64_t c_in, int64_t c_out, int64_t groups,
                                           std::initializer_list<ConvAxisArguments> axes) {
    BK_TRY(require_non_negative({{"batch", batch}, {"c_in", c_in}, {"c_out", c_out}}));
    BK_TRY(check_conv_axes(axes));
    for (const ConvAxisArguments& a : axes) BK_TRY(require_output_pad(a.output_pad, a.step.value, a.dilation.value));
    BK_TRY(require_groups("c_in", c_in, "c_out", c_out, groups));
    for (const ConvAxisArguments& a : axes) BK_TRY(require_transposed_extent(a));
    return Status::kOk;
}

struct Conv1dArguments {
    int32_t batch, c_in, c_out, l_in, l_out, l_filt, stride_l, pad_l, dilation_l, groups;

    ConvShape shape() const { return conv_shape(batch, c_in, c_out, groups, {axis_l()}); }
    Status check() const { return check_conv(batch, c_in, c_out, groups, {axis_l()}); }

private:
    ConvAxisArguments axis_l() const {
        return {{"l_in", l_in}, {"l_filt", l_filt}, {"stride_l", stride_l}, {"pad_l", pad_l}, {"dilation_l", dilation_l}, {}};
    }
};

struct Conv2dArguments {
    int32_t batch, c_in, c_out, h_in, w_in, h_out, w_out, kh, kw, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
        groups;

    ConvShape shape() const { return conv_shape(batch, c_in, c_out, groups, {axis_h(), axis_w()}); }
    Status check() const { return check_conv(batch, c_in, c_out, groups, {axis_h(), axis_w()}); }

private:
    ConvAxisArguments axis_h() const {
        return {{"h_in", h_in}, {"kh", kh}, {"stride_h", stride_h}, {"pad_h", pad_h}, {"dilation_h", dilation_h}, {}};
    }
    ConvAxisArguments axis_w() const {
        return {{"w_in", w_in}, {"kw", kw}, {"stride_w", stride_w}, {"pad_w", pad_w}, {"dilation_w", dilation_w}, {}};
    }
};

struct Conv3dArguments {
    int32_t batch, c_in, c_out, d_in, h_in, w_in, d_out, h_out, w_out, kd, kh, kw, stride_d, stride_h, stride_w, pad_d, pad_h,
        pad_w, dilation_d, dilation_h, dilation_w, groups;

    ConvShape shape() const { return conv_shape(batch, c_in, c_out, groups, {axis_d(), axis_h(), axis_w()}); }
    Status check() const { return check_conv(batch, c_in, c_out, groups, {axis_d(), axis_h(), axis_w()}); }

private:
    ConvAxisArguments axis_d() const {
        return {{"d_in", d_in}, {"kd", kd}, {"stride_d", stride_d}, {"pad_d", pad_d}, {"dilation_d", dilation_d}, {}};
    }
    ConvAxisArguments axis_h() const {
        return {{"h_in", h_in}, {"kh", kh}, {"stride_h", stride_h}, {"pad_h", pad_h}, {"dilation_h", dilation_h}, {}};
    }
    ConvAxisArguments axis_w() const {
        return {{"w_in", w_in}, {"kw", kw}, {"stride_w", stride_w}, {"pad_w", pad_w}, {"dilation_w", dilation_w}, {}};
    }
};

struct ConvTranspose1dArguments {
    int32_t batch, c_in, c_out, l_in, l_out, l_filt, stride_l, pad_l, dilation_l, output_pad_l, groups;

    ConvShape shape() const { return conv_transpose_shape(batch, c_in, c_out, groups, {axis_l()}); }
    Status check() const { return check_conv_transpose(batch, c_in, c_out, groups, {axis_l()}); }

private:
    ConvAxisArguments axis_l() const {
        return {{"l_in", l_in},   {"l_filt", l_filt},         {"stride_l", stride_l},
                {"pad_l", pad_l}, {"dilation_l", dilation_l}, {"output_pad_l", output_pad_l}};
    }
};

struct ConvTranspose2dArguments {
    int32_t batch, c_in, c_out, h_in, w_in, h_out, w_out, kh, kw, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
        output_pad_h, output_pad_w, groups;

    ConvShape shape() const { return conv_transpose_shape(batch, c_in, c_out, groups, {axis_h(), axis_w()}); }
    Status check() const { return check_conv_transpose(batch, c_in, c_out, groups, {axis_h(), axis_w()}); }

private:
    ConvAxisArguments axis_h() const {
        return {{"h_in", h_in},
                {"kh", kh},
                {"stride_h", stride_h},
                {"pad_h", pad_h},
                {"dilation_h", dilation_h},
                {"output_pad_h", output_pad_h}};
    }
    ConvAxisArguments axis_w() const {
        return {{"w_in", w_in},
                {"kw", kw},
                {"stride_w", stride_w},
                {"pad_w", pad_w},
                {"dilation_w", dilation_w},
                {"output_pad_w", output_pad_w}};
    }
};

struct ConvTranspose3dArguments {
    int32_t batch, c_in, c_out, d_in, h_in, w_in, d_out, h_out, w_out, kd, kh, kw, stride_d, stride_h, stride_w, pad_d, pad_h,
        pad_w, dilation_d, dilation_h, dilation_w, output_pad_d, output_pad_h, output_pad_w, groups;

    ConvShape shape() const { return conv_transpose_shape(batch, c_in, c_out, groups, {axis_d(), axis_h(), axis_w()}); }
    Status check() const { return check_conv_transpose(batch, c_in, c_out, groups, {axis_d(), axis_h(), axis_w()}); }

private:
    ConvAxisArguments axis_d() const {
        return {{"d_in", d_in},
                {"kd", kd},
                {"stride_d", stride_d},
                {"pad_d", pad_d},
                {"dilation_d", dilation_d},
                {"output_pad_d", output_pad_d}};
    }
    ConvAxisArguments axis_h() const {
        return {{"h_in", h_in},
                {"kh", kh},
                {"stride_h", stride_h},
                {"pad_h", pad_h},
                {"dilation_h", dilation_h},
                {"output_pad_h", output_pad_h}};
    }
    ConvAxisArguments axis_w() const {
        return {{"w_in", w_in},
                {"kw", kw},
                {"stride_w", stride_w},
                {"pad_w", pad_w},
                {"dilation_w", dilation_w},
                {"output_pad_w", output_pad_w}};
    }
};

// A row of convolution: `Arguments` are its fields, kDirection is what the row computes of the shape.
template <class T, class Arguments, ConvDirection kDirection>
struct ConvRow : Arguments {
    // Extents of the operands in the row's order, without the batch: x's and y's exchange roles in transposed rows.
    int64_t x_channels() const { return this->shape().c_in; }
    int64_t y_channels() const { return this->shape().c_out; }
    int64_t filter_channels() const { return this->shape().group_in(); }
    int64_t x_d() const { return this->shape().axis[0].in; }
    int64_t x_h() const { return this->shape().axis[1].in; }
    int64_t x_w() const { return this->shape().axis[2].in; }
    int64_t y_d() const { return this->shape().axis[0].out; }
    int64_t y_h() const { return this->shape().axis[1].out; }
    int64_t y_w() const { return this->shape().axis[2].out; }

    Work work() const { return this->shape().is_empty(kDirection) ? Work::kNone : Work::kAll; }
    size_t workspace_size() const { return conv_workspace<T>(this->shape(), kDirection); }
};

// y = conv(x, w).
template <class T, class Arguments>
struct ConvForward : ConvRow<T, Arguments, ConvDirection::kForward> {
    Status run(const T* x, const T* w, T* y, const Launch& launch) const {
        return conv_forward<T>(launch, this->shape(), x, w, y, {});
    }
};

// dx from w and dy.
template <class T, class Arguments>
struct ConvBackwardData : ConvRow<T, Arguments, ConvDirection::kBackwardData> {
    Status run(const T* w, const T* dy, T* dx, const Launch& launch) const {
        return conv_backward_data<T>(launch, this->shape(), dy, w, dx, {});
    }
};

template <class T, class Arguments>
struct ConvBackwardFilter : ConvRow<T, Arguments, ConvDirection::kBackwardFilter> {
    Status run(const T* x, const T* dy, T* dw, const Launch& launch) const {
        return conv_backward_filter<T>(launch, this->shape(), x, dy, dw, 1, 0);
    }
};

// The gradient of data at the row's input, which is the shape's y.
template <class T, class Arguments>
struct ConvTransposeForward : ConvRow<T, Arguments, ConvDirection::kBackwardData> {
    Status run(const T* input, const T* w, T* output, const Launch& launch) const {
        return conv_backward_data<T>(launch, this->shape(), input, w, output, {});
    }
};

// The gradient of the row's input is the convolution of the gradient of its output.
template <class T, class Arguments>
struct ConvTransposeBackwardData : ConvRow<T, Arguments, ConvDirection::kForward> {
    Status run(const T* w, const T* grad_output, T* grad_input, const Launch& launch) const {
        return conv_forward<T>(launch, this->shape(), grad_output, w, grad_input, {});
    }
};

template <class T, class Arguments>
struct ConvTransposeBackwardFilter : ConvRow<T, Arguments, ConvDirection::kBackwardFilter> {
    Status run(const T* input, const T* grad_output, T* grad_filter, const Launch& launch) const {
        return conv_backward_filter<T>(launch, this->shape(), grad_output, input, grad_filter, 1, 0);
    }
};

}  // namespace bk

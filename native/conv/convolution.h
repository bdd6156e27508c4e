// SPDX-License-Identifier: Apache-2.0
// Convolution of any rank with all that the cores can do: layouts, a padding for each side, an epilogue, a choice of TF32;
// and 8-bit operands. The rows of convolution*.abi.
//
// Shapes are in the order of memory. Channels first: x [batch, c_in, spatial], filter [c_out, c_in / groups, taps], y
// [batch, c_out, spatial]; channels last: x [batch, spatial, c_in], filter [c_out, taps, c_in / groups], y [batch, spatial,
// c_out].
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "conv/core.h"
#include "core/abi/operand.h"
#include "core/reduce/reduce.h"
#include "core/reduce/sums.h"
#include "gemm/epilogue.h"

namespace bk {

// The arguments that all general rows share, as they were passed.
struct ConvArguments {
    int32_t rank;
    const int32_t *input_shape, *filter_shape, *steps, *padding, *padding_after, *dilation, *output_padding;
    int32_t groups, channels_last;

    int spatial() const { return rank - 2; }
    ConvLayout order() const { return static_cast<ConvLayout>(channels_last); }
    int channel_axis() const { return order() == ConvLayout::kChannelsFirst ? 1 : rank - 1; }
    int spatial_axis(int d) const { return d + (order() == ConvLayout::kChannelsFirst ? 2 : 1); }
    int64_t input_channels() const { return input_shape[channel_axis()]; }
    int64_t filter_channels() const { return filter_shape[channel_axis()]; }

    // Axis d of the convolution whose x has `in` elements along it.
    ConvAxis axis(int d, int64_t in) const {
        ConvAxis a;
        a.in = in;
        a.taps = filter_shape[spatial_axis(d)];
        a.step = steps[d];
        a.dilation = dilation[d];
        a.pad = padding[d];
        return a;
    }

    BK_COLD Status check_arrays() const {
        if (rank < 3 || rank > 2 + kConvAxes)
            return fail(Status::kInvalidProblem, "rank is %d, must be in [3, %d]", rank, 2 + kConvAxes);
        BK_TRY(require_choice("channels_last", channels_last, 2, "0 (channels first) or 1 (channels last)"));
        BK_TRY(require_shape("input_shape", input_shape, rank));
        BK_TRY(require_shape("filter_shape", filter_shape, rank));
        BK_TRY(require_entries("steps", steps, 1));
        BK_TRY(require_entries("padding", padding, 0));
        BK_TRY(require_entries("padding_after", padding_after, 0));
        BK_TRY(require_entries("dilation", dilation, 1));
        for (int d = 0; d < spatial(); ++d)
            if (filter_shape[spatial_axis(d)] < 1)
                return fail(Status::kInvalidProblem, "filter_shape[%d] is %d, must be >= 1", spatial_axis(d),
                            filter_shape[spatial_axis(d)]);
        return require_at_least("groups", groups, 1);
    }

    // x is the row's input.
    BK_COLD Status check() const {
        BK_TRY(check_arrays());
        if (input_channels() != groups * filter_channels())
            return fail(Status::kInvalidProblem, "input_shape[%d] is %lld, must be groups * filter_shape[%d], %d * %lld",
                        channel_axis(), static_cast<long long>(input_channels()), channel_axis(), groups,
                        static_cast<long long>(filter_channels()));
        BK_TRY(require_groups("filter_shape[0]", filter_shape[0], "filter_shape[0]", filter_shape[0], groups));
        for (int d = 0; d < spatial(); ++d)
            BK_TRY(require_window("filter_shape", axis(d, input_shape[spatial_axis(d)]), padding_after[d]));
        return Status::kOk;
    }
    BK_COLD ConvShape shape() const {
        ConvShape s;
        s.batch = input_shape[0];
        s.c_in = input_channels();
        s.c_out = filter_shape[0];
        s.groups = groups;
        for (int d = 0; d < spatial(); ++d) {
            ConvAxis& a = s.axis[kConvAxes - spatial() + d];
            a = axis(d, input_shape[spatial_axis(d)]);
            a.out = a.windows(padding_after[d]);
        }
        s.set_layout(order());
        return s;
    }

    // The row's input is y, as in a transposed convolution.
    BK_COLD Status check_transposed() const {
        BK_TRY(check_arrays());
        BK_TRY(require_entries("output_padding", output_padding, 0));
        if (input_channels() != filter_shape[0])
            return fail(Status::kInvalidProblem, "input_shape[%d] is %lld, must be filter_shape[0], %d", channel_axis(),
                        static_cast<long long>(input_channels()), filter_shape[0]);
        BK_TRY(require_groups("filter_shape[0]", filter_shape[0], "filter_shape[0]", filter_shape[0], groups));
        for (int d = 0; d < spatial(); ++d) {
            const int32_t most = std::max(steps[d], dilation[d]) - 1;
            if (output_padding[d] > most)
                return fail(Status::kInvalidProblem,
                            "output_padding[%d] is %d, must be in [0, %d], below the larger of step and dilation", d,
                            output_padding[d], most);
            const int64_t extent = transposed_extent(d);
            if (input_shape[spatial_axis(d)] < 1 || extent < 1 || extent + padding[d] + padding_after[d] > INT32_MAX)
                return fail(Status::kInvalidProblem,
                            "input_shape[%d] is %d: the result would have an extent of %lld, must be in [1, 2^31 - 1]",
                            spatial_axis(d), input_shape[spatial_axis(d)], static_cast<long long>(extent));
        }
        return Status::kOk;
    }
    int64_t transposed_extent(int d) const {
        return (int64_t{input_shape[spatial_axis(d)]} - 1) * steps[d] - padding[d] - padding_after[d] +
               int64_t{dilation[d]} * (filter_shape[spatial_axis(d)] - 1) + output_padding[d] + 1;
    }
    BK_COLD ConvShape transposed_shape() const {
        ConvShape s;
        s.batch = input_shape[0];
        s.c_in = filter_channels() * groups;
        s.c_out = input_channels();
        s.groups = groups;
        for (int d = 0; d < spatial(); ++d) {
            ConvAxis& a = s.axis[kConvAxes - spatial() + d];
            a = axis(d, transposed_extent(d));
            a.out = input_shape[spatial_axis(d)];
        }
        s.set_layout(order());
        return s;
    }

private:
    BK_COLD Status require_entries(const char* name, const int32_t* array, int32_t least) const {
        if (array == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", name);
        for (int d = 0; d < spatial(); ++d)
            if (array[d] < least) return fail(Status::kInvalidProblem, "%s[%d] is %d, must be >= %d", name, d, array[d], least);
        return Status::kOk;
    }
};

// Locates operands of the general rows: contiguous arrays with the extents of x, w and y.
struct ConvOperands {
    ConvShape s;

    BK_COLD Status x(Operand* at, const char* name, Role role, int64_t size) const {
        return locate_dense(at, name, role, size,
                            {{"batch", s.batch},
                             {"channels", s.c_in},
                             {"depth", s.axis[0].in},
                             {"height", s.axis[1].in},
                             {"width", s.axis[2].in}});
    }
    BK_COLD Status y(Operand* at, const char* name, Role role, int64_t size) const {
        return locate_dense(at, name, role, size,
                            {{"batch", s.batch},
                             {"channels", s.c_out},
                             {"depth", s.axis[0].out},
                             {"height", s.axis[1].out},
                             {"width", s.axis[2].out}});
    }
    BK_COLD Status w(Operand* at, const char* name, Role role, int64_t size) const {
        return locate_dense(at, name, role, size,
                            {{"output channels", s.c_out},
                             {"input channels", s.group_in()},
                             {"depth", s.axis[0].taps},
                             {"height", s.axis[1].taps},
                             {"width", s.axis[2].taps}});
    }
};

inline Status require_activation(int32_t activation) {
    return require_choice("activation", activation, kActivations, kActivationNames);
}

// Calls run(T) or, where TF32 is allowed and the target has it, run(tf32).
template <class T, class Run>
auto with_tf32(bool is_allowed, const Run& run) {
    if constexpr (BK_CUDA && std::is_same_v<T, float>)
        if (is_allowed) return run(tf32{});
    return run(T{});
}

template <class T>
ConvEpilogue<T> conv_epilogue(matmul_scalar_t<T> alpha, matmul_scalar_t<T> beta, const matmul_element_t<T>* c,
                              const matmul_element_t<T>* result, const matmul_element_t<T>* bias, matmul_element_t<T>* z,
                              int32_t activation) {
    return {alpha, beta, beta == 0 ? nullptr : c == nullptr ? result : c, bias, z, static_cast<Activation>(activation)};
}

// y = act(alpha conv(x, w) + beta c + bias).
template <class T>
struct Convolution {
    using S = compute_t<T>;
    int32_t rank;
    const int32_t *input_shape, *filter_shape, *steps, *padding, *padding_after, *dilation;
    int32_t groups, channels_last, activation, allow_tf32;
    S alpha, beta;

    ConvArguments arguments() const {
        return {rank, input_shape, filter_shape, steps, padding, padding_after, dilation, nullptr, groups, channels_last};
    }
    ConvShape shape() const { return arguments().shape(); }
    int64_t out_channels() const { return filter_shape[0]; }
    Status check() const {
        BK_TRY(arguments().check());
        return require_activation(activation);
    }
    Work work() const { return shape().is_empty(ConvDirection::kForward) ? Work::kNone : Work::kAll; }
    size_t workspace_size() const {
        return with_tf32<T>(allow_tf32 != 0,
                            [&](auto tag) { return conv_workspace<decltype(tag)>(shape(), ConvDirection::kForward); });
    }
    Status locate_x(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.x(at, name, role, size);
    }
    Status locate_w(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.w(at, name, role, size);
    }
    Status locate_c(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.y(at, name, role, size);
    }
    Status locate_z(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.y(at, name, role, size);
    }
    Status locate_y(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.y(at, name, role, size);
    }
    Status run(const T* x, const T* w, const T* c, const T* bias, T* z, T* y, const Launch& launch) const {
        return with_tf32<T>(allow_tf32 != 0, [&](auto tag) {
            using Tag = decltype(tag);
            return conv_forward<Tag>(launch, shape(), x, w, y, conv_epilogue<Tag>(alpha, beta, c, y, bias, z, activation));
        });
    }
};

// dx = alpha (adjoint of conv(., w)) dy + beta dx, for x of input_shape.
template <class T>
struct ConvolutionBackwardData {
    using S = compute_t<T>;
    int32_t rank;
    const int32_t *input_shape, *filter_shape, *steps, *padding, *padding_after, *dilation;
    int32_t groups, channels_last, allow_tf32;
    S alpha, beta;

    ConvArguments arguments() const {
        return {rank, input_shape, filter_shape, steps, padding, padding_after, dilation, nullptr, groups, channels_last};
    }
    ConvShape shape() const { return arguments().shape(); }
    Status check() const { return arguments().check(); }
    Work work() const { return shape().is_empty(ConvDirection::kBackwardData) ? Work::kNone : Work::kAll; }
    size_t workspace_size() const {
        return with_tf32<T>(allow_tf32 != 0,
                            [&](auto tag) { return conv_workspace<decltype(tag)>(shape(), ConvDirection::kBackwardData); });
    }
    Status locate_dy(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.y(at, name, role, size);
    }
    Status locate_w(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.w(at, name, role, size);
    }
    Status locate_dx(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.x(at, name, role, size);
    }
    Status run(const T* dy, const T* w, T* dx, const Launch& launch) const {
        return with_tf32<T>(allow_tf32 != 0, [&](auto tag) {
            using Tag = decltype(tag);
            return conv_backward_data<Tag>(launch, shape(), dy, w, dx,
                                           conv_epilogue<Tag>(alpha, beta, nullptr, dx, nullptr, nullptr, 0));
        });
    }
};

// dw = alpha sum + beta dw, dbias[k] = sum of dy over images and pixels.
template <class T>
struct ConvolutionBackwardFilter {
    using S = compute_t<T>;
    int32_t rank;
    const int32_t *input_shape, *filter_shape, *steps, *padding, *padding_after, *dilation;
    int32_t groups, channels_last, allow_tf32;
    S alpha, beta;

    ConvArguments arguments() const {
        return {rank, input_shape, filter_shape, steps, padding, padding_after, dilation, nullptr, groups, channels_last};
    }
    ConvShape shape() const { return arguments().shape(); }
    int64_t out_channels() const { return filter_shape[0]; }
    Status check() const { return arguments().check(); }
    Work work() const { return all_or_none(filter_shape[0]); }
    size_t workspace_size() const {
        const size_t of_filter = with_tf32<T>(
            allow_tf32 != 0, [&](auto tag) { return conv_workspace<decltype(tag)>(shape(), ConvDirection::kBackwardFilter); });
        return std::max(of_filter, reduce_workspace<SumReducer<T>, T>(bias_axes()));
    }
    Status locate_x(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.x(at, name, role, size);
    }
    Status locate_dy(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.y(at, name, role, size);
    }
    Status locate_dw(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.w(at, name, role, size);
    }
    Status run(const T* x, const T* dy, T* dw, T* dbias, const Launch& launch) const {
        if (dbias != nullptr) BK_TRY(reduce(launch, bias_axes(), SumReducer<T>{false}, Outputs<T>{dbias}, Inputs<T>{dy}));
        if (dw == nullptr || shape().is_empty(ConvDirection::kBackwardFilter)) return Status::kOk;
        return with_tf32<T>(allow_tf32 != 0, [&](auto tag) {
            return conv_backward_filter<decltype(tag)>(launch, shape(), x, dy, dw, alpha, beta);
        });
    }

private:
    ReduceAxes<1, 1> bias_axes() const {
        const ConvShape s = shape();
        ReduceAxes<1, 1> axes;
        axes.kept.append(s.c_out, {s.y.channel, 1});
        axes.reduced.append(s.batch, {s.y.outer});
        for (int d = 0; d < kConvAxes; ++d) axes.reduced.append(s.axis[d].out, {s.y.axis[d]});
        return axes;
    }
};

// y = act(alpha (adjoint of conv(., w)) x + beta c + bias), for x of input_shape.
template <class T>
struct ConvolutionTranspose {
    using S = compute_t<T>;
    int32_t rank;
    const int32_t *input_shape, *filter_shape, *steps, *padding, *padding_after, *dilation, *output_padding;
    int32_t groups, channels_last, activation, allow_tf32;
    S alpha, beta;

    ConvArguments arguments() const {
        return {rank,          input_shape, filter_shape,   steps,  padding,
                padding_after, dilation,    output_padding, groups, channels_last};
    }
    ConvShape shape() const { return arguments().transposed_shape(); }
    int64_t out_channels() const { return shape().c_in; }
    Status check() const {
        BK_TRY(arguments().check_transposed());
        return require_activation(activation);
    }
    Work work() const { return shape().is_empty(ConvDirection::kBackwardData) ? Work::kNone : Work::kAll; }
    size_t workspace_size() const {
        return with_tf32<T>(allow_tf32 != 0,
                            [&](auto tag) { return conv_workspace<decltype(tag)>(shape(), ConvDirection::kBackwardData); });
    }
    Status locate_x(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.y(at, name, role, size);
    }
    Status locate_w(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.w(at, name, role, size);
    }
    Status locate_c(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.x(at, name, role, size);
    }
    Status locate_z(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.x(at, name, role, size);
    }
    Status locate_y(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.x(at, name, role, size);
    }
    Status run(const T* x, const T* w, const T* c, const T* bias, T* z, T* y, const Launch& launch) const {
        return with_tf32<T>(allow_tf32 != 0, [&](auto tag) {
            using Tag = decltype(tag);
            return conv_backward_data<Tag>(launch, shape(), x, w, y,
                                           conv_epilogue<Tag>(alpha, beta, c, y, bias, z, activation));
        });
    }
};

template <class U>
constexpr ConvResult kConvResult = std::is_same_v<U, float>    ? ConvResult::kF32
                                   : std::is_same_v<U, f16>    ? ConvResult::kF16
                                   : std::is_same_v<U, bf16>   ? ConvResult::kBf16
                                   : std::is_same_v<U, int8_t> ? ConvResult::kI8
                                                               : ConvResult::kI32;

// y = the exact sum of 8-bit products.
template <class T>
struct ConvolutionSums {
    int32_t rank;
    const int32_t *input_shape, *filter_shape, *steps, *padding, *padding_after, *dilation;
    int32_t groups, channels_last;

    ConvArguments arguments() const {
        return {rank, input_shape, filter_shape, steps, padding, padding_after, dilation, nullptr, groups, channels_last};
    }
    ConvShape shape() const { return arguments().shape(); }
    Status check() const { return arguments().check(); }
    Work work() const { return shape().is_empty(ConvDirection::kForward) ? Work::kNone : Work::kAll; }
    Status locate_x(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.x(at, name, role, size);
    }
    Status locate_w(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.w(at, name, role, size);
    }
    Status locate_y(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.y(at, name, role, size);
    }
    Status run(const T* x, const int8_t* w, int32_t* y, const Launch& launch) const {
        return conv_forward_int8<T>(launch, shape(), x, w, y, {});
    }
};

// y = act(alpha scale[k] sum + bias[k]).
template <class T, class U>
struct ConvolutionScaled {
    int32_t rank;
    const int32_t *input_shape, *filter_shape, *steps, *padding, *padding_after, *dilation;
    int32_t groups, channels_last, activation;
    float alpha;

    ConvArguments arguments() const {
        return {rank, input_shape, filter_shape, steps, padding, padding_after, dilation, nullptr, groups, channels_last};
    }
    ConvShape shape() const { return arguments().shape(); }
    int64_t out_channels() const { return filter_shape[0]; }
    Status check() const {
        BK_TRY(arguments().check());
        return require_activation(activation);
    }
    Work work() const { return shape().is_empty(ConvDirection::kForward) ? Work::kNone : Work::kAll; }
    Status locate_x(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.x(at, name, role, size);
    }
    Status locate_w(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.w(at, name, role, size);
    }
    Status locate_y(Operand* at, const char* name, Role role, int64_t size) const {
        return ConvOperands{shape()}.y(at, name, role, size);
    }
    Status run(const T* x, const int8_t* w, const float* scale, const float* bias, U* y, const Launch& launch) const {
        return conv_forward_int8<T>(launch, shape(), x, w, y,
                                    {kConvResult<U>, alpha, scale, bias, static_cast<Activation>(activation)});
    }
};

}  // namespace bk

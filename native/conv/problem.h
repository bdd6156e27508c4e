// SPDX-License-Identifier: Apache-2.0
// Convolution: the problem that every core and every entry point of the family share.
//
// y[n, k, o] = sum over c and the taps t of x[n, c, o * step + t * dilation - pad] w[k, c, t], a cross-correlation, with
// zeros outside x. x is [batch, c_in, spatial], w [c_out, c_in / groups, taps], y [batch, c_out, spatial]: the channels of
// group g of y read those of group g of x alone. There are one to three spatial axes; missing ones are leading axes of
// extent 1. Strides are in elements, so that NCHW, NHWC and any other order are one description.
//
// The cores compute three directions: y from x and w, the gradient of x from y's and w, the gradient of w from x and y's.
// Transposed convolution is the gradient of x with the roles of x and y exchanged.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/status.h"
#include "core/platform.h"
#include "gemm/activation.h"
#include "gemm/matmul.h"

namespace bk {

constexpr int kConvAxes = 3;

enum class ConvDirection : int32_t { kForward, kBackwardData, kBackwardFilter };

// Memory order: channels before the spatial axes (NCHW, filters KCRS), or behind them (NHWC, KRSC).
enum class ConvLayout : int32_t { kChannelsFirst, kChannelsLast };

struct ConvAxis {
    int64_t in = 1, out = 1;  // extents of x and y
    int64_t taps = 1, step = 1, dilation = 1;
    int64_t pad = 0;  // zeros before x

    // Elements of x that a window spans.
    int64_t reach() const { return dilation * (taps - 1) + 1; }
    // Windows that fit x with its padding before and behind; 0 if none does.
    int64_t windows(int64_t pad_after) const {
        const int64_t slack = in + pad + pad_after - reach();
        return slack < 0 ? 0 : slack / step + 1;
    }
};

// The product of extents, or the largest number: operands of so many elements are refused.
inline int64_t saturating_product(int64_t a, int64_t b) {
    int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

// Strides of x or y by image and channel, of w by output and input channel; then by spatial axis or tap.
struct ConvStrides {
    int64_t outer = 0, channel = 0, axis[kConvAxes] = {};

    // Strides of a row-major array.
    static ConvStrides of(ConvLayout layout, int64_t channels, const int64_t (&extent)[kConvAxes]) {
        ConvStrides s;
        int64_t step = 1;
        if (layout == ConvLayout::kChannelsLast) {
            s.channel = step;
            step = saturating_product(step, channels);
        }
        for (int d = kConvAxes; d-- > 0; step = saturating_product(step, extent[d])) s.axis[d] = step;
        if (layout == ConvLayout::kChannelsFirst) {
            s.channel = step;
            step = saturating_product(step, channels);
        }
        s.outer = step;
        return s;
    }
};

struct ConvShape {
    int64_t batch = 1, c_in = 1, c_out = 1, groups = 1;
    ConvAxis axis[kConvAxes];
    ConvStrides x, w, y;

    int64_t group_in() const { return c_in / groups; }    // input channels of a group
    int64_t group_out() const { return c_out / groups; }  // output channels of a group
    int64_t taps() const { return saturating_product(saturating_product(axis[0].taps, axis[1].taps), axis[2].taps); }
    int64_t inputs() const {  // pixels of an image of x
        return saturating_product(saturating_product(axis[0].in, axis[1].in), axis[2].in);
    }
    int64_t outputs() const {  // pixels of an image of y
        return saturating_product(saturating_product(axis[0].out, axis[1].out), axis[2].out);
    }
    bool is_depthwise() const { return group_in() == 1 && groups > 1; }

    bool is_empty(ConvDirection direction) const {
        switch (direction) {
            case ConvDirection::kForward: return std::min({batch, c_out, outputs()}) == 0;
            case ConvDirection::kBackwardData: return std::min({batch, c_in, inputs()}) == 0;
            default: return std::min({c_out, group_in(), taps()}) == 0;
        }
    }

    // Sets the strides of contiguous operands.
    void set_layout(ConvLayout layout) {
        int64_t in[kConvAxes], out[kConvAxes], taps[kConvAxes];
        for (int d = 0; d < kConvAxes; ++d) {
            in[d] = axis[d].in;
            out[d] = axis[d].out;
            taps[d] = axis[d].taps;
        }
        x = ConvStrides::of(layout, c_in, in);
        y = ConvStrides::of(layout, c_out, out);
        w = ConvStrides::of(layout, group_in(), taps);
    }

    // Exchanges the roles of x and y, as a transposed convolution does: the shape's own x is its y.
    ConvShape transposed() const {
        ConvShape s = *this;
        std::swap(s.c_in, s.c_out);
        std::swap(s.x, s.y);
        for (ConvAxis& a : s.axis) std::swap(a.in, a.out);
        return s;
    }
};

// result = act(alpha sum + beta c + bias[channel]); z is the activation's input. c and z have the result's strides;
// c, bias and z may be null. T as in gemm/matmul.h: tf32 is f32 whose operands are rounded to TF32.
template <class T>
struct ConvEpilogue {
    using E = matmul_element_t<T>;
    using S = matmul_scalar_t<T>;
    S alpha = 1, beta = 0;
    const E* c = nullptr;  // not read if beta is 0
    const E* bias = nullptr;
    E* z = nullptr;
    Activation activation = Activation::kNone;
};

// dtype of the results of 8-bit operands, known at run time.
enum class ConvResult : int32_t { kI32, kF32, kF16, kBf16, kI8 };

// y = the exact sum (kI32), or act(alpha scale[channel] sum + bias[channel]) in f32, rounded to nearest even; kI8 saturates,
// and NaN gives 0. scale and bias may be null.
struct ConvInt8Epilogue {
    ConvResult type = ConvResult::kI32;
    float alpha = 1;
    const float *scale = nullptr, *bias = nullptr;
    Activation activation = Activation::kNone;
};

// --- checks ----------------------------------------------------------------------------------------------------------

BK_COLD inline Status require_at_least(const char* name, int64_t value, int64_t least) {
    if (value >= least) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %lld, must be >= %lld", name, static_cast<long long>(value),
                static_cast<long long>(least));
}

BK_COLD inline Status require_groups(const char* in_name, int64_t c_in, const char* out_name, int64_t c_out, int64_t groups) {
    BK_TRY(require_at_least("groups", groups, 1));
    const auto fails = [&](const char* name, int64_t channels) {
        return fail(Status::kInvalidProblem, "groups is %lld, must divide %s, %lld", static_cast<long long>(groups), name,
                    static_cast<long long>(channels));
    };
    if (c_in % groups != 0) return fails(in_name, c_in);
    if (c_out % groups != 0) return fails(out_name, c_out);
    return Status::kOk;
}

// Refuses a spatial axis into which no window fits, or whose coordinates exceed 32 bits. `kernel` is the argument with the
// taps.
BK_COLD inline Status require_window(const char* kernel, const ConvAxis& axis, int64_t pad_after) {
    const auto fails = [&](const char* reason) {
        return fail(Status::kInvalidProblem, "%s is %lld: with dilation %lld, %lld elements and a padding of %lld and %lld, %s",
                    kernel, static_cast<long long>(axis.taps), static_cast<long long>(axis.dilation),
                    static_cast<long long>(axis.in), static_cast<long long>(axis.pad), static_cast<long long>(pad_after),
                    reason);
    };
    if (axis.windows(pad_after) < 1) return fails("no window fits");
    if (axis.in + axis.pad + pad_after > INT32_MAX) return fails("coordinates exceed 2^31 - 1");
    return Status::kOk;
}

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// im2col_{1,2}d and col2im_1d of contiguous arrays, with the caller's number of windows.
//
// im2col: y[n, (c, t), o] = x[n, c, o * stride + t * dilation - pad], and 0 outside x, whatever the number of windows.
// col2im adds the adjoint. The general im2col and col2im, of one to three axes, are in shape_layout/.
#pragma once

#include <cstdint>

#include "conv/conv.h"
#include "conv/core.h"
#include "core/copy/im2col.h"

namespace bk {

struct Windows1d {
    int32_t batch, channels, l_in, l_out, kl, stride_l, pad_l, dilation_l;

    int64_t rows() const { return int64_t{channels} * kl; }
    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"channels", channels}, {"l_in", l_in}, {"l_out", l_out}}));
        return check_conv_axes(
            {{{"l_in", l_in}, {"kl", kl}, {"stride_l", stride_l}, {"pad_l", pad_l}, {"dilation_l", dilation_l}, {}}});
    }
};

// The axis of a copy of windows, which may begin or end outside x.
inline WindowAxis window_axis(int64_t extent, int64_t stride, int64_t windows, int64_t step, int64_t pad, int64_t taps,
                              int64_t dilation) {
    return {extent, stride, windows, windows > 1 ? step : 1, pad, taps, taps > 1 ? dilation : 1};
}

template <class T>
struct Im2Col1d : Windows1d {
    Work work() const { return all_or_none(std::min({batch, channels, l_out})); }
    Status run(const T* x, T* y, const Launch& launch) const {
        if (l_in == 0) return fill_bytes(launch, y, 0, sizeof(T) * static_cast<size_t>(batch * rows() * l_out));
        WindowCopy copy;
        copy.rank = 1;
        copy.axis[2] = window_axis(l_in, 1, l_out, stride_l, pad_l, kl, dilation_l);
        copy.items = batch, copy.item_x = int64_t{channels} * l_in, copy.item_y = rows() * l_out;
        copy.channels = channels, copy.channel_x = l_in, copy.channel_y = int64_t{kl} * l_out;
        copy.tap_y = l_out, copy.window_y = 1;
        return copy_windows(launch, copy, sizeof(T), x, y);
    }
};

template <class T>
struct Col2Im1dRow : Windows1d {
    Work work() const { return all_or_none(std::min({batch, channels, l_in, l_out})); }
    Status run(const T* columns, T* image, const Launch& launch) const {
        return add_col2im_1d<T>(launch, {int64_t{batch} * channels, l_in, l_out, kl, stride_l, pad_l, dilation_l}, columns,
                                image);
    }
};

template <class T>
struct Im2Col2d {
    int32_t batch, channels, h_in, w_in, h_out, w_out, kh, kw, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;

    int64_t rows() const { return int64_t{channels} * kh * kw; }
    int64_t columns() const { return int64_t{h_out} * w_out; }
    Status check() const {
        BK_TRY(require_non_negative(
            {{"batch", batch}, {"channels", channels}, {"h_in", h_in}, {"w_in", w_in}, {"h_out", h_out}, {"w_out", w_out}}));
        return check_conv_axes(
            {{{"h_in", h_in}, {"kh", kh}, {"stride_h", stride_h}, {"pad_h", pad_h}, {"dilation_h", dilation_h}, {}},
             {{"w_in", w_in}, {"kw", kw}, {"stride_w", stride_w}, {"pad_w", pad_w}, {"dilation_w", dilation_w}, {}}});
    }
    Work work() const { return all_or_none(std::min({batch, channels, h_out, w_out})); }
    Status run(const T* x, T* y, const Launch& launch) const {
        const int64_t taps = int64_t{kh} * kw;
        if (h_in == 0 || w_in == 0)
            return fill_bytes(launch, y, 0, sizeof(T) * static_cast<size_t>(batch * rows() * columns()));
        WindowCopy copy;
        copy.rank = 2;
        copy.axis[1] = window_axis(h_in, w_in, h_out, stride_h, pad_h, kh, dilation_h);
        copy.axis[2] = window_axis(w_in, 1, w_out, stride_w, pad_w, kw, dilation_w);
        copy.items = batch, copy.item_x = int64_t{channels} * h_in * w_in, copy.item_y = rows() * columns();
        copy.channels = channels, copy.channel_x = int64_t{h_in} * w_in, copy.channel_y = taps * columns();
        copy.tap_y = columns(), copy.window_y = 1;
        return copy_windows(launch, copy, sizeof(T), x, y);
    }
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// im2col by the bytes of an element, and its inverse for windows that do not overlap (im2col.cu,
// im2col_cpu.cpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/copy/copies.h"
#include "core/platform.h"

namespace bk {

constexpr int kMaxWindowAxes = 3;

// One spatial axis: windows begin `step` elements apart, the first one `padding` before the image; the kernel has
// `taps`, `dilation` apart.
struct WindowAxis {
    int64_t extent = 1, stride = 0;
    int64_t windows = 1, step = 1, padding = 0;
    int64_t taps = 1, dilation = 1;

    // Elements that the image with its padding spans, or the windows where they reach beyond.
    int64_t span() const { return std::max(extent + 2 * padding, (windows - 1) * step + (taps - 1) * dilation + 1); }
    // Whether windows reach beyond the image.
    bool is_padded() const { return padding != 0 || (windows - 1) * step + (taps - 1) * dilation >= extent; }
};

// y[n, c, taps, windows] = x[n, c, window * step + tap * dilation - padding], and 0 outside x. Taps are row-major in y
// with stride tap_y, windows with window_y.
struct WindowCopy {
    int64_t items = 1, item_x = 0, item_y = 0;
    int64_t channels = 1, channel_x = 0, channel_y = 0;
    int64_t tap_y = 0, window_y = 0;
    int rank = 0;
    WindowAxis axis[kMaxWindowAxes];  // the last `rank` of them

    const WindowAxis* begin() const { return axis + kMaxWindowAxes - rank; }
    const WindowAxis* end() const { return axis + kMaxWindowAxes; }
    int64_t taps() const {
        int64_t all = 1;
        for (const WindowAxis& a : axis) all *= a.taps;
        return all;
    }
    int64_t windows() const {
        int64_t all = 1;
        for (const WindowAxis& a : axis) all *= a.windows;
        return all;
    }
};

// `bytes` as for copy_strided.
Status copy_windows(const Launch& launch, const WindowCopy& copy, int bytes, const void* x, void* y);

// col2im for windows that tile the image, elements of 2 bytes or more, on a GPU; otherwise sets *is_done to false.
Status windows_to_image(const Launch& launch, const WindowCopy& copy, int bytes, const void* y, void* x, bool* is_done);

// im2col as a strided copy or, if padded, as a mapped copy with a band per spatial axis, in whose sum both window and
// tap step.
BK_COLD inline Status copy_windows_by_axes(const Launch& launch, const WindowCopy& copy, int bytes, const void* x, void* y) {
    MappedCopy padded;
    CopyLayout plain;
    const auto append = [&](int64_t extent, int64_t stride_to, int64_t stride_from, int64_t slope, int band) {
        plain.append(extent, {stride_to, stride_from});
        padded.axis[padded.rank++] = {extent, extent, 0, stride_to, stride_from, slope, band};
    };
    append(copy.items, copy.item_y, copy.item_x, 0, 0);
    append(copy.channels, copy.channel_y, copy.channel_x, 0, 0);
    int64_t step_tap = copy.taps() * copy.tap_y, step_window = copy.windows() * copy.window_y;
    int band = 0;
    for (const WindowAxis& a : copy) append(a.taps, step_tap /= a.taps, a.dilation * a.stride, a.dilation, band++);
    band = 0;
    for (const WindowAxis& a : copy) append(a.windows, step_window /= a.windows, a.step * a.stride, a.step, band++);
    if (std::none_of(copy.begin(), copy.end(), [](const WindowAxis& a) { return a.is_padded(); }))
        return copy_strided(launch, plain, bytes, x, y);
    int64_t before = 0;  // bytes from the (virtual) first element of the first window to x
    band = 0;
    for (const WindowAxis& a : copy) {
        padded.band[band++] = {a.padding, a.padding + a.extent - 1};
        before += a.padding * a.stride * bytes;
    }
    const uintptr_t first = reinterpret_cast<uintptr_t>(x) - static_cast<uintptr_t>(before);
    return copy_mapped(launch, padded, bytes, reinterpret_cast<const void*>(first), y);
}

}  // namespace bk

// Copies of the windows of images, by the bytes of an element (window_copies.cu, window_copies_cpu.cpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/platform.h"
#include "core/pointwise/copies.h"

namespace bk {

constexpr int kMostWindowAxes = 3;

// Of the image, along a spatial axis: windows begin `step` elements apart, the first `padding` before the image, and have
// `places`, `dilation` apart.
struct WindowAxis {
    int64_t extent = 1, stride = 0;
    int64_t windows = 1, step = 1, padding = 0;
    int64_t places = 1, dilation = 1;

    bool is_padded() const { return padding != 0; }
};

// y[n, c, places, windows] = x[n, c, window * step + place * dilation - padding], and 0 where that is outside of x. In y the
// places are neighbours, as are the windows, row-major.
struct WindowCopy {
    int64_t items = 1, item_x = 0, item_y = 0;
    int64_t channels = 1, channel_x = 0, channel_y = 0;
    int64_t place_y = 0, window_y = 0;
    int rank = 0;
    WindowAxis axis[kMostWindowAxes];  // the last `rank` of them

    const WindowAxis* begin() const { return axis + kMostWindowAxes - rank; }
    const WindowAxis* end() const { return axis + kMostWindowAxes; }
    int64_t places() const {
        int64_t all = 1;
        for (const WindowAxis& a : axis) all *= a.places;
        return all;
    }
    int64_t windows() const {
        int64_t all = 1;
        for (const WindowAxis& a : axis) all *= a.windows;
        return all;
    }
};

// Elements of `bytes` bytes, as copy_strided has them.
Status copy_windows(const Launch& launch, const WindowCopy& copy, int bytes, const void* x, void* y);

// The other way, where windows cut the image and a GPU has tiles for them, for elements of 2 bytes or more; else *is_done is
// false.
Status join_windows(const Launch& launch, const WindowCopy& copy, int bytes, const void* y, void* x, bool* is_done);

// As copies of other kinds: strided or, where images are padded, with a band along each spatial axis, along which x moves both
// by window and by place.
BK_COLD inline Status copy_windows_by_axes(const Launch& launch, const WindowCopy& copy, int bytes, const void* x, void* y) {
    MappedCopy padded;
    CopyLayout plain;
    const auto append = [&](int64_t extent, int64_t stride_to, int64_t stride_from, int64_t slope, int band) {
        plain.append(extent, {stride_to, stride_from});
        padded.axis[padded.rank++] = {extent, extent, 0, stride_to, stride_from, slope, band};
    };
    append(copy.items, copy.item_y, copy.item_x, 0, 0);
    append(copy.channels, copy.channel_y, copy.channel_x, 0, 0);
    int64_t step_place = copy.places() * copy.place_y, step_window = copy.windows() * copy.window_y;
    int band = 0;
    for (const WindowAxis& a : copy) append(a.places, step_place /= a.places, a.dilation * a.stride, a.dilation, band++);
    band = 0;
    for (const WindowAxis& a : copy) append(a.windows, step_window /= a.windows, a.step * a.stride, a.step, band++);
    if (std::none_of(copy.begin(), copy.end(), [](const WindowAxis& a) { return a.is_padded(); }))
        return copy_strided(launch, plain, bytes, x, y);
    int64_t before = 0;  // bytes from what would be the first element of the first window to x
    band = 0;
    for (const WindowAxis& a : copy) {
        padded.band[band++] = {a.padding, a.padding + a.extent - 1};
        before += a.padding * a.stride * bytes;
    }
    const uintptr_t first = reinterpret_cast<uintptr_t>(x) - static_cast<uintptr_t>(before);
    return copy_mapped(launch, padded, bytes, reinterpret_cast<const void*>(first), y);
}

}  // namespace bk

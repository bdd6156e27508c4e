// SPDX-License-Identifier: Apache-2.0
// Windows along the axes of an image that TMA can read (core/intrinsics/image_map.h).
#pragma once

#include <cstdint>

namespace bk {

constexpr int kImageAxes = 3;

// Windows along one axis of an image: window i begins at first + i * step, in elements of the axis.
struct ImageAxis {
    int64_t extent, stride;               // of the image, the stride in elements
    int64_t windows, first, step, reach;  // reach: from a window's first tap to its last
};

// Whether the driver can encode an axis of a map of five axes.
inline bool fits_image_map(const ImageAxis& axis) {
    constexpr int64_t kLeastCorner = -16, kMostCorner = 15, kMostOffset = 31, kMostStep = 8;
    const int64_t last = axis.first + (axis.windows - 1) * axis.step + 1 - axis.extent;
    return axis.first >= kLeastCorner && axis.first <= kMostCorner && last >= kLeastCorner && last <= kMostCorner &&
           axis.reach >= 0 && axis.reach <= kMostOffset && axis.step >= 1 && axis.step <= kMostStep && axis.extent > 0;
}

// Drivers up to 13.1 encode maps of smaller images wrongly.
constexpr int64_t kLeastImageBytes = 131072;

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// The images and options of grid_sample.
#pragma once

#include <cstdint>

#include "image/grid/sample_point.h"
#include "image/resample/image_layout.h"

namespace bk::image {

// Problem as all kernels see it. Extents and strides of images are [N, C, z, y, x].
struct GridProblem {
    ImageLayout x, y;  // y has the positions
    SampleOptions options;
    int axes;  // 2 or 3

    int64_t points() const { return y.extent[2] * y.extent[3] * y.extent[4]; }
    int64_t cells() const { return x.extent[2] * x.extent[3] * x.extent[4]; }
    int64_t taps() const { return int64_t{options.taps()} * options.taps() * (axes == 3 ? options.taps() : 1); }
};

}  // namespace bk::image

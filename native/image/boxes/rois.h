// SPDX-License-Identifier: Apache-2.0
// Regions of interest: rows (image, x1, y1, x2, y2), and what their pooling ops share.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/math/math.h"
#include "core/types/dtype.h"

namespace bk::boxes {

constexpr int64_t kRoiFields = 5;

// Extents of images and of the results of their regions.
struct RoiShape {
    int32_t batch, channels, height, width, rois, pooled_h, pooled_w;

    BK_HD int64_t bins() const { return int64_t{pooled_h} * pooled_w; }
    BK_HD int64_t pixels() const { return int64_t{height} * width; }
    int64_t results() const { return bins() * channels * rois; }
    int64_t cells() const { return pixels() * channels * batch; }
    Status check() const {
        return require_non_negative({{"batch", batch},
                                     {"channels", channels},
                                     {"height", height},
                                     {"width", width},
                                     {"num_rois", rois},
                                     {"pooled_h", pooled_h},
                                     {"pooled_w", pooled_w}});
    }
};

// The image of a region, its index truncated towards 0; -1 if there is no such image.
template <class T>
BK_HD int64_t image_of(const T* roi, int64_t batch) {
    using C = compute_t<T>;
    const C index = widen(roi[0]);
    if (!(index > C(-1) && index <= static_cast<C>(batch))) return -1;
    const auto image = static_cast<int64_t>(index);
    return image < batch ? image : -1;
}

template <class C>
BK_HD bool is_finite(C x) {
    return x - x == C(0);
}

// Rows of results that a team computes: some channels of a region.
struct RoiChannels {
    static constexpr int64_t kChannels = 32;
    int64_t channels, count;  // of the images; chunks of a region

    static RoiChannels of(int64_t channels) { return {channels, (channels + kChannels - 1) / kChannels}; }
    BK_HD int64_t roi(int64_t item) const { return item / count; }
    BK_HD int64_t first(int64_t item) const { return item % count * kChannels; }
    BK_HD int64_t here(int64_t item) const {
        const int64_t rest = channels - first(item);
        return rest < kChannels ? rest : kChannels;
    }
};

}  // namespace bk::boxes

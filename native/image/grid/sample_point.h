// SPDX-License-Identifier: Apache-2.0
// Sampling positions of grid_sample: from normalised coordinates to elements and weights along each axis.
//
// A coordinate g in [-1, 1] is at p = ((g + 1) extent - 1) / 2, or (g + 1) (extent - 1) / 2 with aligned corners. Padding
// applies to p for linear and nearest sampling, and to the index of each of the four elements for cubic sampling, as in
// PyTorch. A coordinate that is not finite has no elements with zero padding, and counts as 0 with others.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/math/math.h"
#include "core/platform.h"
#include "image/resample/sample_axis.h"

namespace bk::image {

enum class SampleMode : int32_t { kLinear, kNearest, kCubic };
enum class SamplePadding : int32_t { kZeros, kBorder, kReflection };

struct SampleOptions {
    SampleMode mode;
    SamplePadding padding;
    bool align_corners;

    BK_HD int taps() const { return mode == SampleMode::kNearest ? 1 : mode == SampleMode::kLinear ? 2 : 4; }
};

// A position along one axis: elements first + k with weight(k), k < count, C being the type of coordinates.
template <class C>
struct AxisPoint {
    int64_t extent, first;
    int count;
    C fraction;
    C scale;  // derivative of the position by the coordinate
    SampleOptions options;

    AxisPoint() = default;
    BK_HD AxisPoint(C coordinate, int64_t axis_extent, const SampleOptions& given) : extent(axis_extent), options(given) {
        const C size = static_cast<C>(extent);
        scale = (given.align_corners ? size - C(1) : size) / C(2);
        C p = given.align_corners ? math::product<C>((coordinate + C(1)) / C(2), size - C(1))
                                  : (math::product<C>(coordinate + C(1), size) - C(1)) / C(2);
        const bool is_finite = p - p == C(0);
        count = is_finite || given.padding != SamplePadding::kZeros ? given.taps() : 0;
        if (!is_finite) p = C(0);
        if (given.mode != SampleMode::kCubic) p = padded(p);
        // Beyond this all elements are outside, or at an edge.
        const C low = C(-8), high = size + C(8);
        if (given.mode != SampleMode::kCubic || given.padding != SamplePadding::kReflection)
            p = p < low ? low : p > high ? high : p;
        else
            p = p < -C(kFarthest) ? -C(kFarthest) : p > C(kFarthest) ? C(kFarthest) : p;
        const C base = given.mode == SampleMode::kNearest ? ::rint(p) : ::floor(p);
        fraction = p - base;
        first = static_cast<int64_t>(base) - (given.mode == SampleMode::kCubic ? 1 : 0);
    }

    // Index of tap k in the input, or -1 outside of it.
    BK_HD int64_t index(int k) const {
        int64_t i = first + k;
        if (options.mode == SampleMode::kCubic && options.padding != SamplePadding::kZeros)
            i = options.padding == SamplePadding::kBorder ? clamped(i) : reflected(i);
        return ((i >= 0) & (i < extent)) ? i : -1;
    }
    BK_HD C weight(int k) const {
        if (options.mode == SampleMode::kNearest) return C(1);
        if (options.mode == SampleMode::kLinear) return k == 0 ? C(1) - fraction : fraction;
        return cubic_weight<C>(fraction + C(1 - k), C(kCubic));
    }
    // Derivative of weight(k) by the coordinate.
    BK_HD C slope(int k) const {
        if (options.mode == SampleMode::kNearest) return C(0);
        if (options.mode == SampleMode::kLinear) return k == 0 ? -scale : scale;
        const C distance = fraction + C(1 - k), d = distance < C(0) ? -distance : distance, a = C(kCubic);
        const C rise = d <= C(1) ? (C(3) * (a + C(2)) * d - C(2) * (a + C(3))) * d : a * ((C(3) * d - C(10)) * d + C(8));
        return (distance < C(0) ? -rise : rise) * scale;
    }

private:
    static constexpr double kCubic = -0.75, kFarthest = 4e18;

    BK_HD int64_t clamped(int64_t i) const { return i < 0 ? 0 : i >= extent ? extent - 1 : i; }
    // Mirrored at the centres of edge elements with aligned corners, at their outer sides without.
    BK_HD int64_t reflected(int64_t i) const {
        const int64_t span = options.align_corners ? extent - 1 : extent;
        if (span == 0) return 0;
        int64_t rest = i % (2 * span);
        rest = rest < 0 ? rest + 2 * span : rest;
        return rest < span || (options.align_corners && rest == span) ? rest
               : options.align_corners                                ? 2 * span - rest
                                                                      : 2 * span - 1 - rest;
    }
    // Adjusts scale: 0 where the position is at the border or beyond, and negative on a mirrored stretch.
    BK_HD C padded(C p) {
        if (options.padding == SamplePadding::kZeros) return p;
        const C last = static_cast<C>(extent - 1);
        if (options.padding == SamplePadding::kReflection) {
            const C low = options.align_corners ? C(0) : C(-0.5), span = options.align_corners ? last : last + C(1);
            if (span == C(0)) {
                scale = C(0);
                return C(0);
            }
            const bool is_below = p < low;
            const C distance = is_below ? low - p : p - low, rest = ::fmod(distance, span);
            const bool is_mirrored = ::fmod(::floor(distance / span), C(2)) != C(0);
            scale = is_below != is_mirrored ? -scale : scale;
            p = is_mirrored ? span - rest + low : rest + low;
        }
        if (!(p > C(0))) {
            scale = C(0);
            return C(0);
        }
        if (p >= last) {
            scale = C(0);
            return last;
        }
        return p;
    }
};

}  // namespace bk::image

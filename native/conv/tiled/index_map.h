// SPDX-License-Identifier: Apache-2.0
// From the index of a row, or of a K element, of an implicit GEMM to its offset in an operand and its coordinates.
//
// An index counts five axes, row-major: outer, depth, height, width, inner. Pixels are (image, depth, height, width, 1),
// K elements (1, taps, channel) or (channel, taps, 1). The three middle axes have coordinates in x. Element [row, k] of an
// operand is at the sum of both offsets, and it is zero unless the sum of both coordinates lies in the image.
#pragma once

#include <cstdint>

#include "conv/problem.h"
#include "core/math/fastdiv.h"

namespace bk {

// Coordinates of no element are kOutside along one axis: that sum is negative whatever the other coordinate, which is
// between minus a padding and an extent.
struct IndexPosition {
    int64_t offset;
    int32_t at[kConvAxes];
    int32_t unused;  // 32 bytes
};

constexpr int32_t kOutside = INT32_MIN;

struct IndexMap {
    FastDiv<uint32_t> extent[4];           // of depth, height, width, inner
    int64_t stride[5] = {};                // of the five axes
    int64_t base = 0;                      // offset of index 0
    int32_t step[kConvAxes] = {};          // coordinates are first + index * step
    int32_t first[kConvAxes] = {0, 0, 0};  // of index 0

    BK_HD IndexPosition locate(int64_t index) const {
        if (index > INT32_MAX) return locate_far(index);
        const DivMod<uint32_t> in = extent[3](static_cast<uint32_t>(index)), w = extent[2](in.quotient),
                               h = extent[1](w.quotient), d = extent[0](h.quotient);
        return position(d.quotient, {d.remainder, h.remainder, w.remainder}, in.remainder);
    }

    // Position of the index with these parts.
    BK_HD IndexPosition position(int64_t outer, const uint32_t (&middle)[kConvAxes], int64_t inner) const {
        IndexPosition found;
        found.offset = base + outer * stride[0] + inner * stride[4];
        for (int d = 0; d < kConvAxes; ++d) {
            found.offset += int64_t{middle[d]} * stride[1 + d];
            found.at[d] = first[d] + static_cast<int32_t>(middle[d]) * step[d];
        }
        found.unused = 0;
        return found;
    }
    BK_HD IndexPosition locate_far(int64_t index) const {
        uint32_t part[4];
        for (int a = 4; a-- > 0;) {
            const int64_t divisor = static_cast<int64_t>(extent[a].divisor()), quotient = index / divisor;
            part[a] = static_cast<uint32_t>(index - quotient * divisor);
            index = quotient;
        }
        return position(index, {part[0], part[1], part[2]}, part[3]);
    }

    // Indices 0, 1, 2 ... of a single axis.
    static IndexMap single(int64_t count, int64_t step_of_one) {
        IndexMap map;
        map.extent[3] = FastDiv<uint32_t>(count);
        map.stride[4] = step_of_one;
        return map;
    }

    // `outer` times the middle axes of these extents and strides times `inner`.
    static IndexMap of(int64_t outer_stride, const int64_t (&middle)[kConvAxes], const int64_t (&strides)[kConvAxes],
                       int64_t inner, int64_t inner_stride) {
        IndexMap map;
        for (int d = 0; d < kConvAxes; ++d) {
            map.extent[d] = FastDiv<uint32_t>(middle[d]);
            map.stride[1 + d] = middle[d] > 1 ? strides[d] : 0;
        }
        map.extent[3] = FastDiv<uint32_t>(inner);
        map.stride[0] = outer_stride;
        map.stride[4] = inner > 1 ? inner_stride : 0;
        return map;
    }
    // Merges the middle axes into the inner one where their memory is contiguous; of a map without coordinates.
    IndexMap merged() const {
        IndexMap map = *this;
        if (extent[3].divisor() != 1) return map;
        int64_t inner = 1, step_of_one = 0;
        for (int d = kConvAxes; d-- > 0;) {
            const int64_t count = static_cast<int64_t>(map.extent[d].divisor());
            if (count > 1 && inner > 1 && map.stride[1 + d] != inner * step_of_one) break;
            if (inner * count > INT32_MAX) break;
            if (count > 1 && inner == 1) step_of_one = map.stride[1 + d];
            inner *= count;
            map.extent[d] = FastDiv<uint32_t>(1);
            map.stride[1 + d] = 0;
        }
        map.extent[3] = FastDiv<uint32_t>(inner);
        map.stride[4] = step_of_one;
        return map;
    }

    // Whether vectors of `lanes` elements along the inner axis are contiguous, and begin at multiples of `lanes`.
    bool has_vectors(int64_t lanes) const {
        if (static_cast<int64_t>(extent[3].divisor()) % lanes != 0 || stride[4] != 1) return false;
        return steps_by(lanes);
    }
    // Whether all offsets but those along the inner axis are multiples of `lanes`.
    bool steps_by(int64_t lanes) const {
        for (int a = 0; a < 4; ++a)
            if (stride[a] % lanes != 0) return false;
        return base % lanes == 0;
    }
    // Whether adjacent indices are adjacent in memory.
    bool is_adjacent() const {
        for (int a = 4; a > 0; --a)
            if (extent[a - 1].divisor() > 1) return stride[a] == 1;
        return stride[0] == 1;
    }
};

}  // namespace bk

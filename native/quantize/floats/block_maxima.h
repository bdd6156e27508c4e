// SPDX-License-Identifier: Apache-2.0
// The largest magnitudes of blocks, which multiply the values of a code book.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/platform.h"

namespace bk::floats {

// The largest magnitude of each block, in f32, or as codes of an 8-bit map, whose blocks of 256 have their own: then it
// is map[code] * outer + offset, each operation rounded.
struct BlockMaxima {
    static constexpr int64_t kOuterBlock = 256;
    const float* values;
    const uint8_t* codes;  // null unless the maxima are quantised, as `outer` and `offset`
    const float* map;
    const float* outer;
    const float* offset;

    BK_HD float of(int64_t block) const {
        if (codes == nullptr) return values[block];
        return decoded(codes[block], outer[block / kOuterBlock]);
    }
    BK_HD float decoded(uint32_t code, float of_outer) const {
        const float product = math::product(map[code], of_outer);
#if BK_ON_GPU
        return __fadd_rn(product, offset[0]);
#else
        return product + offset[0];
#endif
    }
};

}  // namespace bk::floats

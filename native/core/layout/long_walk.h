// SPDX-License-Identifier: Apache-2.0
// Index-to-offset walks with 64-bit offsets, for fewer than 2^31 elements.
#pragma once

#include <cstdint>

#include "core/layout/layout.h"
#include "core/math/fastdiv.h"
#include "core/platform.h"

namespace bk {

// Divides in 32 bits and accumulates offsets in 64.
template <int Operands, int MaxRank = 8>
struct LongWalk {
    int rank = 0;
    FastDiv<uint32_t> extent[MaxRank];
    int64_t stride[MaxRank][Operands] = {};

    LongWalk() = default;
    explicit LongWalk(const Layout<Operands, MaxRank>& layout) : rank(layout.rank) {
        for (int d = 0; d < rank; ++d) {
            extent[rank - 1 - d] = FastDiv<uint32_t>(layout.extent[d]);
            for (int k = 0; k < Operands; ++k) stride[rank - 1 - d][k] = layout.stride[k][d];
        }
    }

    BK_HD void operator()(uint32_t i, int64_t (&offset)[Operands]) const {
        BK_UNROLL
        for (int d = 0; d < MaxRank; ++d) {
            if (d >= rank) break;
            uint32_t coordinate = i;
            if (d + 1 < rank) {
                const DivMod<uint32_t> split = extent[d](i);
                coordinate = split.remainder;
                i = split.quotient;
            }
            for (int k = 0; k < Operands; ++k) offset[k] += coordinate * stride[d][k];
        }
    }
};

}  // namespace bk

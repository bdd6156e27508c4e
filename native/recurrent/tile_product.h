// SPDX-License-Identifier: Apache-2.0
// Products of small f32 matrices in a team's scratch: out (+)= alpha a b.
//
// m and n are multiples of 16 and k is one of 8. The CPU has 4 x 16 microtiles; a GPU's warps have 16 x 16 tiles of
// mma.sync, 3xTF32: with x = hi + lo, products of hi hi, hi lo and lo hi keep about 21 bits.
#pragma once

#include <cstdint>

#include "core/collectives/team.h"
#include "core/math/math.h"
#include "core/platform.h"
#include "recurrent/block_team.h"

namespace bk::recurrent {

// Element (i, j) is data[i * row + j * column].
struct Operand {
    const float* data;
    int row, column;
};

BK_HD Operand transposed(const float* data, int pitch) { return {data, 1, pitch}; }
BK_HD Operand plain(const float* data, int pitch) { return {data, pitch, 1}; }

// Rows of b, and of out, are contiguous. All threads of the team call it; the caller synchronises before and after.
BK_HD void tile_product(const Team& team, int m, int n, int k, const Operand& a, const float* b, int b_pitch, float* out,
                        int out_pitch, float alpha, bool adds);

}  // namespace bk::recurrent

#if BK_CUDA
#include "recurrent/tile_product_cuda.cuh"
#else
#include "recurrent/tile_product_cpu.h"
#endif

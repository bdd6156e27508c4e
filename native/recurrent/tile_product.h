// SPDX-License-Identifier: Apache-2.0
// Products of small f32 matrices in a team's scratch: out (+)= alpha a b.
//
// m and n are multiples of 16 and k is one of 8; m is any on the CPU, which has microtiles of vectors. A GPU's warps have
// 16 x 16 tiles of mma.sync, 3xTF32: with x = hi + lo, products of hi hi, hi lo and lo hi keep about 21 bits.
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

BK_TEAM Operand transposed(const float* data, int pitch) { return {data, 1, pitch}; }
BK_TEAM Operand plain(const float* data, int pitch) { return {data, pitch, 1}; }

// tile_product(team, m, n, k, a, b, b_pitch, out, out_pitch, alpha, adds): rows of b, and of out, are contiguous. All threads
// of the team call it; the caller synchronises before and after.

}  // namespace bk::recurrent

#if BK_CUDA
#include "recurrent/tile_product_cuda.cuh"
#else
#include "recurrent/tile_product_cpu.h"
#endif

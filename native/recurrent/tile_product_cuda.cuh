// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/intrinsics/tensor_core.cuh"
#include "core/math/bit_math.h"
#include "recurrent/tile_product.h"

namespace bk::recurrent {

// A TF32 value and its residual, itself rounded to TF32. An infinity or NaN has the residual 0: inf - inf would be NaN.
struct SplitWord {
    uint32_t high, low;

    BK_DEVICE static SplitWord of(float x) {
        const uint32_t high = round_to_tf32(bit_cast<uint32_t>(x));
        const bool is_finite = (high & 0x7f800000u) != 0x7f800000u;
        return {high, is_finite ? round_to_tf32(bit_cast<uint32_t>(x - bit_cast<float>(high))) : 0u};
    }
};

BK_STEP void tile_product(const Team& team, int m, int n, int k, Operand a, const float* b, int b_pitch, float* out,
                          int out_pitch, float alpha, bool adds) {
    const int lane = team.rank % 32, g = lane / 4, t = lane % 4, across = n / 16, tiles = m / 16 * across;
    for (int tile = team.rank / 32; tile < tiles; tile += team.size / 32) {
        const int i = tile / across * 16, j = tile % across * 16;
        float sum[2][4] = {}, rest[2][4] = {};
        for (int x = 0; x < k; x += 8) {
            const float* const from = a.data + (i + g) * a.row + (x + t) * a.column;
            uint32_t high[4], low[4];
            BK_UNROLL
            for (int v = 0; v < 4; ++v) {
                const SplitWord word = SplitWord::of(from[v % 2 * 8 * a.row + v / 2 * 4 * a.column]);
                high[v] = word.high;
                low[v] = word.low;
            }
            BK_UNROLL
            for (int half = 0; half < 2; ++half) {
                uint32_t of_b[2], of_low[2];
                BK_UNROLL
                for (int v = 0; v < 2; ++v) {
                    const SplitWord word = SplitWord::of(b[(x + t + 4 * v) * b_pitch + j + 8 * half + g]);
                    of_b[v] = word.high;
                    of_low[v] = word.low;
                }
                Mma<float>::run(sum[half], high, of_b);
                Mma<float>::run(rest[half], low, of_b);
                Mma<float>::run(rest[half], high, of_low);
            }
        }
        BK_UNROLL
        for (int v = 0; v < 8; ++v) {
            const int half = v / 4, e = v % 4;
            float* const to = out + (i + g + e / 2 * 8) * out_pitch + j + 8 * half + 2 * t + e % 2;
            *to = (adds ? *to : 0.0f) + alpha * (sum[half][e] + rest[half][e]);
        }
    }
}

}  // namespace bk::recurrent

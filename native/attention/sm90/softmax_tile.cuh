// SPDX-License-Identifier: Apache-2.0
// Online softmax of a warpgroup's 64 rows in wgmma accumulators: thread t holds, of rows 16 (t / 32) + t % 32 / 4 and that
// row + 8, columns 2 (t % 4) and 2 (t % 4) + 1 of each eight.
#pragma once

#include <cstdint>

#include "attention/sm80/tile.cuh"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

constexpr float kLog2E = 1.4426950408889634f;

BK_DEVICE float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

using sm80::pack_pair;
using sm80::quad_max;
using sm80::quad_sum;

// Running maximum and sum of this thread's two rows. Scores are in units of 1 / log2_scale: p = 2^(log2_scale (s - max)).
struct RowStatistics {
    float max[2] = {-INFINITY, -INFINITY};
    float sum[2] = {0, 0};  // of this thread's columns

    // Replaces a tile of scores by probabilities; factor[r] is what the sums and outputs so far are multiplied by.
    template <int kCount>
    BK_DEVICE void update(float (&scores)[kCount], float log2_scale, float (&factor)[2]) {
        float offset[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float largest = max[r];
#pragma unroll
            for (int v = 2 * r; v < kCount; v += 4) largest = fmaxf(largest, fmaxf(scores[v], scores[v + 1]));
            largest = quad_max(largest);
            const float used = largest == -INFINITY ? 0.0f : largest;
            factor[r] = exp2_approx((max[r] - used) * log2_scale);
            offset[r] = used * log2_scale;
            max[r] = largest;
            sum[r] *= factor[r];
        }
#pragma unroll
        for (int v = 0; v < kCount; ++v) {
            const int r = v / 2 % 2;
            scores[v] = exp2_approx(fmaf(scores[v], log2_scale, -offset[r]));
            sum[r] += scores[v];
        }
    }
};

}  // namespace bk

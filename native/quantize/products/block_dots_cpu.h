// SPDX-License-Identifier: Apache-2.0
// Integer dot products of quantised weights and activations on the CPU: eight rows of weights at a time, decoded to bytes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/vector_width_cpu.h"
#include "quantize/products/block_product.h"
#include "quantize/products/block_sums.h"
#include "quantize/products/codes_kernel_cpu.h"

namespace bk {

// `count` elements from block `x` on, at most kCodesK; zeros follow.
template <class Format>
BK_HD void read_quantized(const uint8_t* x, int64_t count, QuantizedRow* to) {
    memset(to, 0, sizeof(*to));
    for (int64_t k = 0; k < count; k += 32, x += codec::Q81::kBytes) {
        memcpy(to->codes + k, x + 4, 32);
        const float scale = codec::Q81::affine(x, 0).scale, stored = codec::Q81::sum(x);
        int32_t sums[2] = {};
        for (int64_t quad = 0; quad < 8; ++quad) {
            int32_t sum = 0;
            for (int64_t i = 0; i < 4; ++i) sum += to->codes[k + 4 * quad + i];
            to->quads[k / 4 + quad] = -128 * sum;
            sums[quad / 4] += sum;
        }
        const bool by_groups = kBlockSum<Format> == BlockSum::kCodes;
        for (int64_t half = 0; half < 2; ++half) to->scales[k / 16 + half] = scale;
        to->sums[k / 16] = block_sum<Format>(scale, stored, by_groups ? sums[0] : sums[0] + sums[1]);
        to->sums[k / 16 + 1] = by_groups ? block_sum<Format>(scale, stored, sums[1]) : 0.f;
    }
}

template <class Format, int kBytes>
void dot_eight(const BlockDots& p, int64_t j, int64_t count) {
    constexpr int64_t kRows = 8;
    const int64_t row_bytes = p.k / Format::kBlock * Format::kBytes, x_bytes = p.k / 32 * codec::Q81::kBytes;
    float lanes[kRows][kRows][kDotLanes] = {};
    QuantizedRow x[kRows];
    for (int64_t k = 0; k < p.k; k += kCodesK) {
        const int64_t depth = std::min<int64_t>(p.k - k, kCodesK);
        run_unfused<kBytes>([&] {
            for (int64_t i = 0; i < p.m; ++i)
                read_quantized<Format>(p.x + i * x_bytes + k / 32 * codec::Q81::kBytes, depth, &x[i]);
        });
        for (int64_t l = 0; l < count; ++l) {
            CodesRow w;
            float factors[kCodeGroups] = {};
            run_unfused<kBytes>([&] {
                read_codes<Format>(p.weights + (j + l) * row_bytes, k, depth, &w);
                if (depth < kCodesK) {
                    memset(w.codes + depth, 0, static_cast<size_t>(kCodesK - depth));
                    std::fill(w.scales + depth / 16, w.scales + kCodeGroups, 0.f);
                }
                if (kBlockSum<Format> != BlockSum::kNone)
                    for (int64_t group = 0; group < depth / 16; ++group)
                        factors[group] = sum_factor<Format>({w.scales[group], w.offsets[group]});
            });
            for (int64_t i = 0; i < p.m; ++i)
                dot_codes(w, kBlockSum<Format> != BlockSum::kNone ? factors : nullptr, x[i], depth, lanes[l][i]);
        }
    }
    for (int64_t l = 0; l < count; ++l)
        for (int64_t i = 0; i < p.m; ++i) {
            float (&own)[kDotLanes] = lanes[l][i];
            for (int half = kDotLanes / 2; half > 0; half /= 2)
                for (int lane = 0; lane < half; ++lane) own[lane] += own[lane + half];
            p.y[i * p.n + j + l] = own[0];
        }
}

template <class Format>
Status block_dots(const Launch&, const BlockDots& p) {
    constexpr int64_t kRows = 8;
    const int64_t tiles = ceil_div(p.n, kRows), tile_bytes = kRows * (p.k / Format::kBlock * Format::kBytes + 1);
    split_chunks(tiles, std::max(grain_for(tile_bytes), ceil_div(tiles, 16 * thread_count())), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
            const int64_t j = t * kRows, count = std::min(p.n - j, kRows);
#if BK_ISA_DISPATCH
            if (vector_bytes() == 64) {
                dot_eight<Format, 64>(p, j, count);
                continue;
            }
            if (vector_bytes() == 32) {
                dot_eight<Format, 32>(p, j, count);
                continue;
            }
#endif
            dot_eight<Format, 16>(p, j, count);
        }
    });
    return Status::kOk;
}

}  // namespace bk

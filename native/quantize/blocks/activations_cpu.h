// SPDX-License-Identifier: Apache-2.0
// Quantisation of activations on the CPU, a block at a time; sums are added in the GPU's order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/abi/launch.h"
#include "quantize/blocks/activations.h"

namespace bk {

template <class T, bool kWide>
Status quantize_rows_q8_1(const Launch&, int64_t kx, int64_t ny, const T* src, uint8_t* dst) {
    const int64_t per_row = ceil_div<int64_t>(kx, kQ81Values);
    parallel_ranges(per_row * ny, grain_for(kQ81Values * 8), [&](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block) {
            const int64_t row = block / per_row, column = block % per_row * kQ81Values;
            const int64_t count = std::min<int64_t>(kx - column, kQ81Values);
            float x[kQ81Values] = {}, sums[kQ81Values];
            uint32_t largest = 0;
            for (int64_t i = 0; i < count; ++i) x[i] = widen(src[row * kx + column + i]);
            for (int i = 0; i < kQ81Values; ++i) largest = std::max(largest, bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
            for (int i = 0; i < kQ81Values; ++i) sums[i] = x[i];
            for (int left = kQ81Values / 2; left > 0; left /= 2)
                for (int i = 0; i < left; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
            const Q81Scale scale = Q81Scale::of(largest);
            uint8_t* const to = dst + block * kQ81Bytes;
            const uint32_t header = scale.header<kWide>(sums[0]);
            memcpy(to, &header, sizeof(header));
            for (int i = 0; i < kQ81Values; ++i) to[4 + i] = static_cast<uint8_t>(scale.code(x[i]));
        }
    });
    return Status::kOk;
}

}  // namespace bk

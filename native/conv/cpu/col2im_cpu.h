// SPDX-License-Identifier: Apache-2.0
// col2im of sequences on the CPU, in gather form: an element sums the windows that contain it, taps in order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv/core.h"
#include "core/types/convert.h"

namespace bk {

template <class T>
Status add_col2im_1d(const Launch&, const Col2Im1d& p, const T* columns, T* image) {
    using S = compute_t<T>;
    constexpr int64_t kChunk = 256;
    const int64_t chunks = ceil_div(p.extent, kChunk);
    parallel_ranges(
        p.images * chunks, grain_for(kChunk * p.taps * static_cast<int64_t>(sizeof(S))), [&](int64_t begin, int64_t end) {
            S sums[kChunk];
            for (int64_t t = begin; t < end; ++t) {
                const int64_t n = t / chunks, first = t % chunks * kChunk, count = std::min(p.extent - first, kChunk);
                for (int64_t x = 0; x < count; ++x) sums[x] = S(0);
                for (int64_t tap = 0; tap < p.taps; ++tap) {
                    // Windows o with o * step + shift in [first, first + count).
                    const int64_t shift = tap * p.dilation - p.pad;
                    const int64_t low = shift >= first ? 0 : ceil_div(first - shift, p.step);
                    const int64_t high =
                        std::min(p.windows, first + count <= shift ? int64_t{0} : ceil_div(first + count - shift, p.step));
                    const T* const row = columns + (n * p.taps + tap) * p.windows;
                    S* const to = sums + shift - first;
                    for (int64_t o = low; o < high; ++o) to[o * p.step] += static_cast<S>(widen(row[o]));
                }
                T* const own = image + n * p.extent + first;
                for (int64_t x = 0; x < count; ++x) {
                    const S sum = static_cast<S>(widen(own[x])) + sums[x];
                    if constexpr (std::is_same_v<T, S>)
                        own[x] = sum;
                    else
                        own[x] = narrow<T>(sum);
                }
            }
        });
    return Status::kOk;
}

}  // namespace bk

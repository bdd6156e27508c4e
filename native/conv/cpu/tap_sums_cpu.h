// SPDX-License-Identifier: Apache-2.0
// Walks over the positions and taps of sums over taps (conv/tap_sums.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv/tap_sums.h"
#include "core/platform.h"

namespace bk {

// A position of the batch.
struct PositionCursor {
    int64_t n, q[kTapAxes];

    PositionCursor(const TapSums& p, int64_t index) {
        for (int d = kTapAxes - 1; d >= 0; --d) {
            q[d] = index % p.axis[d].positions;
            index /= p.axis[d].positions;
        }
        n = index;
    }
    // Positions from this one on in the same row.
    int64_t left_in_row(const TapSums& p) const { return p.axis[2].positions - q[2]; }
    // Advances by at most the rest of the row.
    BK_HD void advance(const TapSums& p, int64_t count) {
        q[2] += count;
        if (q[2] < p.axis[2].positions) return;
        q[2] = 0;
        if (++q[1] < p.axis[1].positions) return;
        q[1] = 0;
        if (++q[0] < p.axis[0].positions) return;
        q[0] = 0;
        ++n;
    }
    int64_t coordinate(const TapSums& p, int d) const { return p.axis[d].first + q[d] * p.axis[d].step; }
    // Offset in the source of tap 0 and channel 0, which may lie outside.
    int64_t source(const TapSums& p) const {
        int64_t at = n * p.source_n;
        for (int d = 0; d < kTapAxes; ++d) at += coordinate(p, d) * p.axis[d].source_stride;
        return at;
    }
    int64_t result(const TapSums& p) const {
        int64_t at = n * p.result_n;
        for (int d = 0; d < kTapAxes; ++d) at += q[d] * p.axis[d].result_stride;
        return at;
    }
};

// A tap and a channel, in either order of summands: channels outermost, or innermost.
struct TapCursor {
    int64_t c, t[kTapAxes];

    // A sum of nothing has no taps or channels, and k 0.
    TapCursor(const TapSums& p, int64_t k, bool channels_inside) {
        if (channels_inside) {
            c = k % std::max<int64_t>(p.inputs, 1);
            k /= std::max<int64_t>(p.inputs, 1);
        }
        for (int d = kTapAxes - 1; d >= 0; --d) {
            t[d] = k % std::max<int64_t>(p.axis[d].taps, 1);
            k /= std::max<int64_t>(p.axis[d].taps, 1);
        }
        if (!channels_inside) c = k;
    }
    BK_HD bool next_tap(const TapSums& p) {
        for (int d = kTapAxes - 1; d >= 0; --d) {
            if (++t[d] < p.axis[d].taps) return true;
            t[d] = 0;
        }
        return false;
    }
    // The next tap, and behind the last one the next channel.
    BK_HD void advance_channels_outside(const TapSums& p) {
        if (!next_tap(p)) ++c;
    }
    int64_t source_shift(const TapSums& p) const {
        int64_t at = c * p.source_c;
        for (int d = 0; d < kTapAxes; ++d) at += t[d] * p.axis[d].tap_step * p.axis[d].source_stride;
        return at;
    }
    int64_t weight(const TapSums& p) const {
        int64_t at = c * p.weight_in;
        for (int d = 0; d < kTapAxes; ++d) at += t[d] * p.axis[d].weight_stride;
        return at;
    }
};

}  // namespace bk

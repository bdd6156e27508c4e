// SPDX-License-Identifier: Apache-2.0
// Sums over the taps of a filter on the CPU: the common form of a convolution, of the gradient of its data and of its
// transpose.
//
//     result[n, g, r, q] = sum over c and t of weight[g, r, c, t] * source[n, g, c, first + q * step + t * tap_step]
//
// along each of three axes, where a coordinate outside [0, extent) contributes 0. A convolution reads its input so. The
// gradient of data with stride s reads the gradient of results: the positions of one remainder modulo s have the same
// taps, at unit steps (data_sums()).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/platform.h"

namespace bk {

constexpr int kTapAxes = 3;

// Strides are in elements, of any sign.
struct TapAxis {
    int64_t positions = 1, taps = 1, extent = 1;
    int64_t first = 0, step = 1, tap_step = 1;
    int64_t source_stride = 0, weight_stride = 0, result_stride = 0;

    int64_t last_coordinate() const { return first + (positions - 1) * step; }
    // Whether an axis of one tap reads the source from end to end.
    bool is_copy() const { return taps == 1 && first == 0 && step == 1 && positions == extent; }
    bool has_padding() const {
        const int64_t reach = (taps - 1) * tap_step;
        return first + std::min<int64_t>(reach, 0) < 0 || last_coordinate() + std::max<int64_t>(reach, 0) >= extent;
    }
};

// `inputs` and `outputs` are channels of a group; their groups lie inputs * source_c and outputs * result_c apart.
struct TapSums {
    int64_t batch = 1, groups = 1, inputs = 1, outputs = 1;
    TapAxis axis[kTapAxes];
    int64_t source_n = 0, source_c = 0, result_n = 0, result_c = 0;
    int64_t weight_g = 0, weight_out = 0, weight_in = 0;

    int64_t positions() const { return axis[0].positions * axis[1].positions * axis[2].positions; }
    int64_t taps() const { return axis[0].taps * axis[1].taps * axis[2].taps; }
    int64_t summands() const { return inputs * taps(); }
    // Whether results of one channel and image are adjacent.
    bool has_dense_positions() const {
        int64_t stride = 1;
        for (int d = kTapAxes - 1; d >= 0; --d) {
            if (axis[d].positions > 1 && axis[d].result_stride != stride) return false;
            stride *= axis[d].positions;
        }
        return true;
    }
};

// Without axes of one element, and with adjacent axes that are read from end to end made one, so that rows are long.
inline TapSums merged(const TapSums& given) {
    TapSums p = given;
    TapAxis kept[kTapAxes];
    int count = 0;
    for (TapAxis a : given.axis) {
        if (a.positions == 1) a.step = 1;
        if (a.taps == 1) a.tap_step = 1;
        if (a.positions == 1 && a.extent == 1 && a.taps == 1 && a.first == 0) continue;
        TapAxis* const outer = count > 0 ? &kept[count - 1] : nullptr;
        if (outer != nullptr && outer->is_copy() && a.is_copy() && outer->source_stride == a.source_stride * a.extent &&
            outer->result_stride == a.result_stride * a.positions) {
            a.extent = a.positions = a.positions * outer->positions;
            *outer = a;
        } else {
            kept[count++] = a;
        }
    }
    for (int d = 0; d < kTapAxes; ++d) p.axis[d] = d < kTapAxes - count ? TapAxis{} : kept[d - (kTapAxes - count)];
    return p;
}

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

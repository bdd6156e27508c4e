// SPDX-License-Identifier: Apache-2.0
// Sums over the taps of a filter: the common form of a convolution, of the gradient of its data and of its transpose.
//
//     result[n, g, r, q] = sum over c and t of weight[g, r, c, t] * source[n, g, c, first + q * step + t * tap_step]
//
// along each of three axes, where a coordinate outside [0, extent) contributes 0. A convolution reads its input so. The
// gradient of data with stride s reads the gradient of results: the positions of one remainder modulo s have the same
// taps, at unit steps (data_phase()).
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "conv/problem.h"
#include "core/abi/launch.h"

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

// Drops axes of one element and merges adjacent axes that are read from end to end, so that rows are long.
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

inline TapSums forward_sums(const ConvShape& s) {
    TapSums p;
    p.batch = s.batch;
    p.groups = s.groups;
    p.inputs = s.group_in();
    p.outputs = s.group_out();
    p.source_n = s.x.outer;
    p.source_c = s.x.channel;
    p.result_n = s.y.outer;
    p.result_c = s.y.channel;
    p.weight_g = s.group_out() * s.w.outer;
    p.weight_out = s.w.outer;
    p.weight_in = s.w.channel;
    for (int d = 0; d < kTapAxes; ++d) {
        const ConvAxis& a = s.axis[d];
        p.axis[d] = {a.out, a.taps, a.in, -a.pad, a.step, a.dilation, s.x.axis[d], s.w.axis[d], s.y.axis[d]};
    }
    return merged(p);
}

// Positions of dx whose remainder modulo the step is `phase` on each axis. The taps that reach them are every
// (step / gcd)-th from the first on; `weight` and `result` are offsets of the first tap and position.
struct DataPhase {
    TapSums sums;
    int64_t weight = 0, result = 0;
};

inline DataPhase data_phase(const ConvShape& s, const int64_t (&phase)[kConvAxes]) {
    DataPhase found;
    TapSums& p = found.sums;
    p.batch = s.batch;
    p.groups = s.groups;
    p.inputs = s.group_out();
    p.outputs = s.group_in();
    p.source_n = s.y.outer;
    p.source_c = s.y.channel;
    p.result_n = s.x.outer;
    p.result_c = s.x.channel;
    p.weight_g = s.group_out() * s.w.outer;
    p.weight_out = s.w.channel;
    p.weight_in = s.w.outer;
    for (int d = 0; d < kTapAxes; ++d) {
        const ConvAxis& a = s.axis[d];
        const int64_t common = std::gcd(a.dilation, a.step), between = a.step / common, from = phase[d] + a.pad;
        const int64_t most = std::min(between, a.taps);
        int64_t tap = 0;
        while (tap < most && (from - tap * a.dilation) % a.step != 0) ++tap;
        const bool has_taps = tap < most;
        p.axis[d] = {ceil_div(a.in - phase[d], a.step),
                     has_taps ? (a.taps - 1 - tap) / between + 1 : 0,
                     a.out,
                     has_taps ? (from - tap * a.dilation) / a.step : 0,
                     1,
                     -a.dilation / common,
                     s.y.axis[d],
                     s.w.axis[d] * between,
                     s.x.axis[d] * a.step};
        if (has_taps) found.weight += tap * s.w.axis[d];
        found.result += phase[d] * s.x.axis[d];
    }
    p = merged(p);
    return found;
}

// Calls each(phase) until it fails.
template <class Each>
Status for_each_phase(const ConvShape& s, const Each& each) {
    int64_t count[kConvAxes];
    for (int d = 0; d < kConvAxes; ++d) count[d] = std::min(s.axis[d].step, s.axis[d].in);
    for (int64_t d = 0; d < count[0]; ++d)
        for (int64_t h = 0; h < count[1]; ++h)
            for (int64_t w = 0; w < count[2]; ++w) BK_TRY(each(data_phase(s, {d, h, w})));
    return Status::kOk;
}

// Calls each(phase) for the phases that have taps, some more than once: they are no more than the taps, however long the
// steps are.
template <class Each>
void for_each_phase_with_taps(const ConvShape& s, const Each& each) {
    const auto phase_of = [&](int d, int64_t tap) {
        const ConvAxis& a = s.axis[d];
        const int64_t rest = (tap * a.dilation - a.pad) % a.step;
        return rest < 0 ? rest + a.step : rest;
    };
    const auto taps = [&](int d) { return std::min(s.axis[d].taps, s.axis[d].step); };
    for (int64_t i = 0; i < taps(0); ++i)
        for (int64_t j = 0; j < taps(1); ++j)
            for (int64_t k = 0; k < taps(2); ++k) {
                const int64_t d = phase_of(0, i), h = phase_of(1, j), w = phase_of(2, k);
                if (d < s.axis[0].in && h < s.axis[1].in && w < s.axis[2].in) each(data_phase(s, {d, h, w}));
            }
}

}  // namespace bk

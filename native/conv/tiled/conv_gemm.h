// SPDX-License-Identifier: Apache-2.0
// Convolution as an implicit GEMM: no operand is copied into a matrix; loads compute the address of each vector.
//
//   direction        rows           columns           K elements
//   forward          pixels of y    output channels   taps and input channels
//   gradient of x    pixels of x    input channels    taps and output channels
//   gradient of w    out channels   taps, in channels pixels of y
//
// The gradient of x has a GEMM for each phase: the pixels i with (i + pad) mod step = r along each axis, which only the taps
// t with t dilation mod step = r reach. Row j of a phase is pixel first + step j, its tap number m is t0 + m step / gcd, and
// the pixel of y is begin + j - m dilation / gcd: no zero is multiplied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "conv/problem.h"
#include "conv/tiled/index_map.h"
#include "core/types/vec.h"
#include "gemm/matmul.h"

namespace bk {

// Element [row, k] of group g is data[g * group + rows + k], if the coordinates of row and k add up to a position in
// `extent`, else 0.
template <class E>
struct GatheredOperand {
    const E* data = nullptr;
    int64_t group = 0;
    IndexMap rows, k;
    int32_t extent[kConvAxes] = {INT32_MAX, INT32_MAX, INT32_MAX};
    // Loads of elements where vectors do not serve both operands.
    bool is_copied = false;          // vectors along k
    bool rows_are_adjacent = false;  // in memory, and K elements are not

    void choose_order() {
        is_copied = has_vectors_along_k();
        rows_are_adjacent = rows.is_adjacent();
    }

    // Loads of 16 bytes along k, or along rows.
    bool has_vectors_along_k() const { return has_vectors(k, rows); }
    bool has_vectors_along_rows() const { return has_vectors(rows, k); }

private:
    static constexpr int64_t kLanes = kVectorLanes<E>;
    bool has_vectors(const IndexMap& along, const IndexMap& across) const {
        return is_aligned(data, kVectorBytes) && group % kLanes == 0 && along.has_vectors(kLanes) && across.steps_by(kLanes) &&
               across.stride[4] % kLanes == 0;
    }
};

// One axis of the phases of a gradient of x.
struct ConvPhaseAxis {
    int32_t step = 1, dilation = 1, pad = 0, taps = 1;
    int32_t tap_step = 1;                              // step / gcd(step, dilation): taps of a phase are this far apart
    int32_t most = 1;                                  // taps of a phase at most
    FastDiv<uint32_t> count, count_less;               // `most`, and one less
    int64_t y_stride = 0, w_stride = 0, x_stride = 0;  // by pixel and tap
};

struct ConvPhases {
    int64_t count = 1;                     // of phases; with one, steps of 1, all taps are in it
    bool is_phased = false;                // whether blocks adjust the maps
    int64_t channels = 0;                  // K elements of a tap
    int64_t along[kConvAxes] = {1, 1, 1};  // phases along each axis
    ConvPhaseAxis axis[kConvAxes];
};

template <class T>
struct ConvGemm {
    using E = matmul_element_t<T>;
    int64_t m = 0, n = 0, k = 0, groups = 1;  // of a group; m of a phase, the largest
    GatheredOperand<E> a, b;
    ConvPhases phases;
    IndexMap result;            // rows
    int64_t result_group = 0;   // offset of a group's results, bar that of its channels
    int64_t column_stride = 1;  // of the results
    int64_t channels = 0;       // by which a group's channels are apart: columns of the bias
    int32_t result_extent[kConvAxes] = {INT32_MAX, INT32_MAX, INT32_MAX};
};

// K elements with channels inside taps, if they are adjacent in memory: the order of filters [c_out, taps, c_in].
inline bool has_inner_channels(const ConvShape& s) {
    return s.taps() == 1 ? s.x.channel == 1 || s.group_in() == 1 : s.w.channel == 1 && s.group_in() > 1;
}

inline void set_taps(const ConvShape& s, int64_t (&taps)[kConvAxes]) {
    for (int d = 0; d < kConvAxes; ++d) taps[d] = s.axis[d].taps;
}

// Map of (taps, channel) or (channel, taps), `channels` of stride `channel`, over taps of these strides.
inline IndexMap taps_map(const ConvShape& s, const int64_t (&strides)[kConvAxes], int64_t channels, int64_t channel,
                         bool is_inner) {
    int64_t taps[kConvAxes];
    set_taps(s, taps);
    return is_inner ? IndexMap::of(0, taps, strides, channels, channel) : IndexMap::of(channel, taps, strides, 1, 0);
}

// x as an operand of (pixels of y, taps and input channels).
template <class E>
GatheredOperand<E> gathered_x(const ConvShape& s, const E* x, bool is_inner) {
    GatheredOperand<E> a;
    a.data = x;
    a.group = s.group_in() * s.x.channel;
    int64_t out[kConvAxes], steps[kConvAxes], dilations[kConvAxes];
    for (int d = 0; d < kConvAxes; ++d) {
        out[d] = s.axis[d].out;
        steps[d] = s.axis[d].step * s.x.axis[d];
        dilations[d] = s.axis[d].dilation * s.x.axis[d];
    }
    a.rows = IndexMap::of(s.x.outer, out, steps, 1, 0);
    a.k = taps_map(s, dilations, s.group_in(), s.x.channel, is_inner);
    for (int d = 0; d < kConvAxes; ++d) {
        const ConvAxis& axis = s.axis[d];
        a.extent[d] = static_cast<int32_t>(axis.in);
        a.rows.step[d] = out[d] > 1 ? static_cast<int32_t>(axis.step) : 0;
        a.rows.first[d] = static_cast<int32_t>(-axis.pad);
        a.rows.base -= axis.pad * s.x.axis[d];
        a.k.step[d] = axis.taps > 1 ? static_cast<int32_t>(axis.dilation) : 0;
    }
    return a;
}

// Pixels of y without coordinates.
inline IndexMap pixels_of_y(const ConvShape& s) {
    int64_t out[kConvAxes];
    for (int d = 0; d < kConvAxes; ++d) out[d] = s.axis[d].out;
    return IndexMap::of(s.y.outer, out, s.y.axis, 1, 0).merged();
}

template <class T>
ConvGemm<T> forward_gemm(const ConvShape& s, const matmul_element_t<T>* x, const matmul_element_t<T>* w) {
    ConvGemm<T> p;
    const bool is_inner = has_inner_channels(s);
    p.m = s.batch * s.outputs();
    p.n = s.group_out();
    p.k = s.taps() * s.group_in();
    p.groups = s.groups;
    p.a = gathered_x(s, x, is_inner);
    p.b.data = w;
    p.b.group = s.group_out() * s.w.outer;
    p.b.rows = IndexMap::single(p.n, s.w.outer);
    p.b.k = taps_map(s, s.w.axis, s.group_in(), s.w.channel, is_inner);
    if (s.w.outer == p.k) p.b.k = IndexMap::single(p.k, 1);  // K elements are in the order of memory
    p.result = pixels_of_y(s);
    p.column_stride = s.y.channel;
    p.channels = s.group_out();
    return p;
}

template <class T>
ConvGemm<T> backward_data_gemm(const ConvShape& s, const matmul_element_t<T>* dy, const matmul_element_t<T>* w) {
    ConvGemm<T> p;
    const bool is_inner = s.y.channel == 1 || s.group_out() == 1;
    p.groups = s.groups;
    p.n = s.group_in();
    p.a.data = dy;
    p.a.group = s.group_out() * s.y.channel;
    p.b.data = w;
    p.b.group = s.group_out() * s.w.outer;
    int64_t pixels[kConvAxes], of_x[kConvAxes], of_y[kConvAxes], of_w[kConvAxes], most[kConvAxes];
    p.phases.is_phased = true;
    p.phases.channels = s.group_out();
    for (int d = 0; d < kConvAxes; ++d) {
        const ConvAxis& axis = s.axis[d];
        const int64_t divisor = std::gcd(axis.step, axis.dilation), tap_step = axis.step / divisor;
        ConvPhaseAxis& phase = p.phases.axis[d];
        phase.step = static_cast<int32_t>(axis.step);
        phase.dilation = static_cast<int32_t>(axis.dilation);
        phase.pad = static_cast<int32_t>(axis.pad);
        phase.taps = static_cast<int32_t>(axis.taps);
        phase.tap_step = static_cast<int32_t>(tap_step);
        most[d] = ceil_div(axis.taps, tap_step);
        phase.most = static_cast<int32_t>(most[d]);
        phase.count = FastDiv<uint32_t>(most[d]);
        phase.count_less = FastDiv<uint32_t>(most[d] - 1);
        phase.y_stride = s.y.axis[d];
        phase.w_stride = s.w.axis[d];
        phase.x_stride = s.x.axis[d];
        p.phases.along[d] = std::min(axis.step, axis.in);
        p.phases.count *= p.phases.along[d];
        pixels[d] = ceil_div(axis.in, axis.step);
        of_x[d] = axis.step * s.x.axis[d];
        of_y[d] = -(axis.dilation / divisor) * s.y.axis[d];
        of_w[d] = tap_step * s.w.axis[d];
        p.a.extent[d] = static_cast<int32_t>(axis.out);
        p.result_extent[d] = static_cast<int32_t>(axis.in);
    }
    p.m = s.batch * pixels[0] * pixels[1] * pixels[2];
    p.k = s.taps() * s.group_out();
    p.a.rows = IndexMap::of(s.y.outer, pixels, s.y.axis, 1, 0);
    p.result = IndexMap::of(s.x.outer, pixels, of_x, 1, 0);
    const int64_t channels = s.group_out();
    const auto taps = [&](const int64_t (&strides)[kConvAxes], int64_t channel) {
        return is_inner ? IndexMap::of(0, most, strides, channels, channel) : IndexMap::of(channel, most, strides, 1, 0);
    };
    p.a.k = taps(of_y, s.y.channel);
    p.b.k = taps(of_w, s.w.outer);
    p.b.rows = IndexMap::single(p.n, s.w.channel);
    for (int d = 0; d < kConvAxes; ++d) {
        const ConvAxis& axis = s.axis[d];
        p.a.rows.step[d] = pixels[d] > 1 ? 1 : 0;
        p.a.k.step[d] = most[d] > 1 ? static_cast<int32_t>(-axis.dilation / std::gcd(axis.step, axis.dilation)) : 0;
        p.result.step[d] = pixels[d] > 1 ? static_cast<int32_t>(axis.step) : 0;
    }
    p.column_stride = s.x.channel;
    p.channels = s.group_in();
    return p;
}

template <class T>
ConvGemm<T> backward_filter_gemm(const ConvShape& s, const matmul_element_t<T>* x, const matmul_element_t<T>* dy) {
    ConvGemm<T> p;
    const GatheredOperand<matmul_element_t<T>> of_x = gathered_x(s, x, has_inner_channels(s));
    p.m = s.group_out();
    p.n = s.taps() * s.group_in();
    p.k = s.batch * s.outputs();
    p.groups = s.groups;
    p.a.data = dy;
    p.a.group = s.group_out() * s.y.channel;
    p.a.rows = IndexMap::single(p.m, s.y.channel);
    p.a.k = pixels_of_y(s);
    p.b = of_x;
    p.b.rows = of_x.k;
    p.b.k = of_x.rows;
    p.result = IndexMap::single(p.m, s.w.outer);
    p.result_group = s.group_out() * s.w.outer;
    return p;
}

}  // namespace bk

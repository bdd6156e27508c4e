// SPDX-License-Identifier: Apache-2.0
// Operands of an implicit GEMM with adjacent channels, copied into the workspace where those of the caller have none: then
// loads take 16 bytes. Channels of a group are padded with zeros to whole vectors.
//
//   x, dy  [image, pixels, group, channels of a group, padded]
//   w      [output channels, taps, channels of a group, padded]
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv/problem.h"
#include "core/abi/launch.h"
#include "core/copy/copies.h"

namespace bk {

struct PackedConv {
    ConvShape shape;              // with padded channels and the strides of the copies
    int64_t x = 0, y = 0, w = 0;  // elements of the copies

    // Pads the channels of a group to multiples of `lanes`.
    static PackedConv of(const ConvShape& s, int64_t lanes) {
        PackedConv p;
        p.shape = s;
        const auto padded = [lanes](int64_t channels) { return ceil_div(channels, lanes) * lanes; };
        p.shape.c_in = s.groups * padded(s.group_in());
        p.shape.c_out = s.groups * padded(s.group_out());
        p.shape.set_layout(ConvLayout::kChannelsLast);
        p.x = s.batch * p.shape.x.outer;
        p.y = s.batch * p.shape.y.outer;
        p.w = p.shape.c_out * p.shape.w.outer;
        return p;
    }
};

// Appends the three spatial axes.
inline void append_axes(CopyLayout* layout, const int64_t (&extent)[kConvAxes], const ConvStrides& to,
                        const ConvStrides& from) {
    for (int d = 0; d < kConvAxes; ++d) layout->append(extent[d], {to.axis[d], from.axis[d]});
}

// Copies `elements` elements with the layout, which may leave gaps: these become zeros.
inline Status copy_padded(const Launch& launch, const CopyLayout& layout, int bytes, int64_t elements, const void* from,
                          void* to) {
    if (layout.numel() != elements) BK_TRY(fill_bytes(launch, to, 0, static_cast<size_t>(elements * bytes)));
    if (layout.is_empty()) return Status::kOk;
    return copy_strided(launch, layout, bytes, from, to);
}

// Layouts of the copies of x and y: strides of the copy, then of the operand.
inline CopyLayout packed_x(const ConvShape& s, const PackedConv& p) {
    CopyLayout layout;
    layout.append(s.batch, {p.shape.x.outer, s.x.outer});
    append_axes(&layout, {s.axis[0].in, s.axis[1].in, s.axis[2].in}, p.shape.x, s.x);
    layout.append(s.groups, {p.shape.group_in(), s.group_in() * s.x.channel});
    layout.append(s.group_in(), {1, s.x.channel});
    return layout;
}

inline CopyLayout packed_y(const ConvShape& s, const PackedConv& p) {
    CopyLayout layout;
    layout.append(s.batch, {p.shape.y.outer, s.y.outer});
    append_axes(&layout, {s.axis[0].out, s.axis[1].out, s.axis[2].out}, p.shape.y, s.y);
    layout.append(s.groups, {p.shape.group_out(), s.group_out() * s.y.channel});
    layout.append(s.group_out(), {1, s.y.channel});
    return layout;
}

inline Status pack_x(const Launch& launch, const ConvShape& s, const PackedConv& p, int bytes, const void* x, void* to) {
    return copy_padded(launch, packed_x(s, p), bytes, p.x, x, to);
}

inline Status pack_y(const Launch& launch, const ConvShape& s, const PackedConv& p, int bytes, const void* y, void* to) {
    return copy_padded(launch, packed_y(s, p), bytes, p.y, y, to);
}

// The layout of w's copy: strides of the copy, then of w.
inline CopyLayout packed_filter(const ConvShape& s, const PackedConv& p) {
    CopyLayout layout;
    layout.append(s.groups, {p.shape.group_out() * p.shape.w.outer, s.group_out() * s.w.outer});
    layout.append(s.group_out(), {p.shape.w.outer, s.w.outer});
    append_axes(&layout, {s.axis[0].taps, s.axis[1].taps, s.axis[2].taps}, p.shape.w, s.w);
    layout.append(s.group_in(), {1, s.w.channel});
    return layout;
}

inline Status pack_w(const Launch& launch, const ConvShape& s, const PackedConv& p, int bytes, const void* w, void* to) {
    return copy_padded(launch, packed_filter(s, p), bytes, p.w, w, to);
}

// Copies a packed operand back.
inline Status unpack(const Launch& launch, CopyLayout layout, int bytes, const void* from, void* to) {
    for (int d = 0; d < layout.rank; ++d) std::swap(layout.stride[0][d], layout.stride[1][d]);
    return copy_strided(launch, layout, bytes, from, to);
}

}  // namespace bk

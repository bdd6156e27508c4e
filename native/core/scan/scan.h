// SPDX-License-Identifier: Apache-2.0
// The scan skeleton: y[i] combines elements 0 .. i along one axis, in axis order; inclusive or exclusive.
//
// An operator S is trivially copyable and takes the inputs widened to their compute types:
//   using State                                      the state of a range of elements
//   State identity() const                           the neutral element
//   State lift(int64_t i, C... x) const              the state of element i alone
//   State combine(State earlier, State later) const     adjacent ranges together; associative up to rounding
//   auto value(int64_t i, State before, State through, C... x) const
//                                                    result i, or a Pack of results, from the exclusive prefix `before`
//                                                    and the inclusive prefix `through`
// An operator of one input may split its work around a running maximum, so that the CPU vectorises most of it:
//   struct MaxStep { C low, top; }                   State has a `top` too, the largest element so far
//   MaxStep step_max(C top, C x) const               the next top, and the smaller of the two
//   C weight(MaxStep) const                          depends on no other element
//   State extend_max(State earlier, MaxStep, C weight) const
//                                                    the state after one more element
// S::kLookaheadInput, unless negative, is the input that is read one position ahead; past the end it reads as 1.
//
// The reduction order depends on the extents and on the presence of a workspace only, so results are bitwise
// reproducible. An output may alias an input of the same layout, except the input that is read ahead.
#pragma once

#include <cstdint>
#include <utility>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/layout/layout.h"
#include "core/pointwise/pointwise.h"

namespace bk {

// Operands are the outputs, then the inputs; strides are in elements.
template <int Operands>
struct ScanAxes {
    Layout<Operands> rows;  // all axes but the scanned one
    int64_t length = 0;
    int64_t step[Operands] = {};

    // Whether the scanned axis has the smallest stride of the first output.
    bool is_innermost() const { return rows.rank == 0 || magnitude(step[0]) <= magnitude(rows.stride[0][rows.rank - 1]); }
};

// Reverses the scanned axis; pointers must then advance by the returned offsets, to the last element.
template <int Operands>
Offsets<Operands, int64_t> reverse_axis(ScanAxes<Operands>* axes) {
    Offsets<Operands, int64_t> last_offsets{};
    for (int k = 0; k < Operands; ++k) {
        last_offsets.of[k] = (axes->length - 1) * axes->step[k];
        axes->step[k] = -axes->step[k];
    }
    return last_offsets;
}

template <class... T, size_t... I>
Pack<T*...> advanced(const Pack<T*...>& pointers, const int64_t* by, std::index_sequence<I...>) {
    return pack(get<I>(pointers) + by[I]...);
}

template <class... Out, class... In>
void advance_pointers(Outputs<Out...>* out, Inputs<In...>* in, const int64_t* offsets) {
    out->pointer = advanced(out->pointer, offsets, std::index_sequence_for<Out...>{});
    in->pointer = advanced(in->pointer, offsets + sizeof...(Out), std::index_sequence_for<In...>{});
}

}  // namespace bk

#if BK_CUDA
#include "core/scan/scan_cuda.cuh"
#else
#include "core/scan/scan_cpu.h"
#endif

namespace bk {

// Workspace bytes for the chained scan of few long rows; 0 where rows alone fill the device.
template <class T, class S, int Operands>
size_t scan_workspace(const ScanAxes<Operands>& given) {
    ScanAxes<Operands> axes = given;
    axes.rows = collapse(given.rows);
    return scan_workspace_bytes<T, S>(axes);
}

template <class S, class... Out, class... In>
Status scan(const Launch& launch, const ScanAxes<sizeof...(Out) + sizeof...(In)>& given, const S& scan, Outputs<Out...> out,
            Inputs<In...> in, bool reversed) {
    auto axes = given;
    axes.rows = collapse(given.rows);
    if (reversed) {
        const auto last_offsets = reverse_axis(&axes);
        advance_pointers(&out, &in, last_offsets.of);
    }
    return run_scan(launch, axes, scan, out, in);
}

}  // namespace bk

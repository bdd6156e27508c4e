// The scan skeleton: along one axis, each result of the terms up to its place, in the order of the axis.
//
// A scan S, trivially copyable, takes the inputs, widened to their compute types:
//   using State                                      what is known of a run of terms
//   State identity() const                           of none: joined with anything it leaves that as it is
//   State term(int64_t i, C... x) const              of the one at place i
//   State join(State earlier, State later) const     of a run and the one that follows it; associative but for rounding
//   auto value(int64_t i, State before, State through, C... x) const
//                                                    the result at place i, or a Pack of results: `before` is that of the
//                                                    terms before it, `through` that of these and its own
// A scan of one input, whose results need no more than the states, may climb; the CPU takes blocks of terms by steps, then:
//   struct Climb { C low, top; }                     State has the `top`, too: the largest term so far
//   Climb climb(C top, C x) const                    the next top, and what lies below it
//   C factor(Climb) const                            waits for no other term
//   State climbed(State earlier, Climb, C factor) const      is join(earlier, term(i, x))
// Of one input, `S::kAhead` where it is not negative, the element of the next place is taken, and beyond the last place 1.
//
// Places count from the first term: a scan from the other end is one of a turned axis. Terms are joined in an order that
// follows from the extents and the presence of a workspace alone. An output may be an input of the same layout, but for that
// which is read ahead.
#pragma once

#include <cstdint>
#include <utility>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/pointwise/layout.h"
#include "core/pointwise/pointwise.h"

namespace bk {

// Operands are the outputs, then the inputs.
template <int Operands>
struct ScanAxes {
    Layout<Operands> rows;  // all axes but the scanned one
    int64_t length = 0;     // of that
    int64_t step[Operands] = {};

    // Whether neighbours in memory, of the first output, are terms of one row.
    bool runs_along() const { return rows.rank == 0 || magnitude(step[0]) <= magnitude(rows.stride[0][rows.rank - 1]); }
};

// Walks the axis from its other end; pointers move by as many elements as `last_places` says.
template <int Operands>
Offsets<Operands, int64_t> turn(ScanAxes<Operands>* axes) {
    Offsets<Operands, int64_t> last_places{};
    for (int k = 0; k < Operands; ++k) {
        last_places.of[k] = (axes->length - 1) * axes->step[k];
        axes->step[k] = -axes->step[k];
    }
    return last_places;
}

template <class... T, size_t... I>
Pack<T*...> moved(const Pack<T*...>& pointers, const int64_t* by, std::index_sequence<I...>) {
    return pack(get<I>(pointers) + by[I]...);
}

template <class... Out, class... In>
void move_by(Outputs<Out...>* out, Inputs<In...>* in, const int64_t* offsets) {
    out->pointer = moved(out->pointer, offsets, std::index_sequence_for<Out...>{});
    in->pointer = moved(in->pointer, offsets + sizeof...(Out), std::index_sequence_for<In...>{});
}

}  // namespace bk

#if BK_CUDA
#include "core/rows/scan_cuda.cuh"
#else
#include "core/rows/scan_cpu.h"
#endif

namespace bk {

// T are the elements. Bytes with which few long rows are scanned by many threads; 0 where that takes no more than the rows
// themselves.
template <class T, class S, int Operands>
size_t scan_workspace(const ScanAxes<Operands>& given) {
    ScanAxes<Operands> axes = given;
    axes.rows = collapse(given.rows);
    return scan_parts_bytes<T, S>(axes);
}

template <class S, class... Out, class... In>
Status scan(const Launch& launch, const ScanAxes<sizeof...(Out) + sizeof...(In)>& given, const S& scan, Outputs<Out...> out,
            Inputs<In...> in, bool reversed) {
    auto axes = given;
    axes.rows = collapse(given.rows);
    if (reversed) {
        const auto last_places = turn(&axes);
        move_by(&out, &in, last_places.of);
    }
    return run_scan(launch, axes, scan, out, in);
}

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Adjacent elements of a thread, by 16-byte accesses where all of them exist and the tensor is aligned, else one by one.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/types/vec.h"

namespace bk::optim {

// Elements i to i + N - 1, of which `count` exist; the others read as 0.
struct Lanes {
    int64_t i;
    int count;
    bool whole;  // by vectors

    template <int N, class S, class C>
    BK_DEVICE void read(const S* from, C (&to)[N]) const {
        constexpr int kStep = N < kVectorLanes<S> ? N : kVectorLanes<S>;
        if (whole) {
#pragma unroll
            for (int v = 0; v < N; v += kStep) {
                const Vec<S, kStep> cell = load_once<kStep>(from + i + v);
#pragma unroll
                for (int l = 0; l < kStep; ++l) to[v + l] = widen_lane(cell, l);
            }
        } else {
#pragma unroll
            for (int l = 0; l < N; ++l) to[l] = l < count ? static_cast<C>(widen(from[i + l])) : C(0);
        }
    }

    // value(l) is of S
    template <int N, class S, class Value>
    BK_DEVICE void write(S* to, const Value& value) const {
        constexpr int kStep = N < kVectorLanes<S> ? N : kVectorLanes<S>;
        if (whole) {
#pragma unroll
            for (int v = 0; v < N; v += kStep) {
                Vec<S, kStep> cell;
#pragma unroll
                for (int l = 0; l < kStep; ++l) cell.lane[l] = value(v + l);
                store_once(to + i + v, cell);
            }
        } else {
#pragma unroll
            for (int l = 0; l < N; ++l)
                if (l < count) to[i + l] = value(l);
        }
    }
};

}  // namespace bk::optim

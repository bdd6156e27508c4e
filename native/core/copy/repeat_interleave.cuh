// SPDX-License-Identifier: Apache-2.0
// Repeat-interleave copies: the innermost axis has stride 0 in x and stride 1 in y. A thread writes 16-byte vectors of
// y and loads the few elements of x that they contain.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/copy/copies.h"
#include "core/math/fastdiv.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kRepeatThreads = 256;
constexpr int kRepeatUnroll = 4;  // vectors of a thread in flight together

struct RepeatedElements {
    FastDiv<uint32_t> row_vectors, repeats;
    uint32_t length = 0;   // of a row of y
    uint32_t vectors = 0;  // of all rows; the last vector of a row may be partial
    int64_t pitch_x = 0, pitch_y = 0;
    bool whole_loads = false;  // the elements of x in a vector of y can be loaded as one vector

    // Returns false for other copies, or if counts do not fit 32 bits.
    static bool of(const CopyLayout& given, int bytes, const void* x, const void* y, RepeatedElements* repeated) {
        constexpr int64_t kMost = INT32_MAX - kRepeatThreads * kRepeatUnroll * kVectorBytes, kMaxRepeats = 256;
        const CopyLayout layout = collapse(given);
        const int last = layout.rank - 1, lanes = kVectorBytes / bytes;
        if (last < 1 || last > 2 || layout.stride[0][last] != 1 || layout.stride[1][last] != 0) return false;
        const int64_t repeats = layout.extent[last], count = layout.extent[last - 1];
        if (repeats > kMaxRepeats || layout.stride[0][last - 1] != repeats || layout.stride[1][last - 1] != 1) return false;
        const int64_t rows = last == 2 ? layout.extent[0] : 1;
        RepeatedElements r;
        if (last == 2) r.pitch_y = layout.stride[0][0], r.pitch_x = layout.stride[1][0];
        if (count > kMost / repeats || count * repeats < lanes) return false;
        if (!is_aligned(y, kVectorBytes) || r.pitch_y % lanes != 0) return false;
        const int64_t row_vectors = ceil_div<int64_t>(count * repeats, lanes);
        if (rows > kMost / row_vectors) return false;
        const int64_t sources = lanes / repeats;
        r.row_vectors = FastDiv<uint32_t>(row_vectors), r.repeats = FastDiv<uint32_t>(repeats);
        r.length = static_cast<uint32_t>(count * repeats), r.vectors = static_cast<uint32_t>(rows * row_vectors);
        r.whole_loads = sources > 0 && lanes % repeats == 0 && r.pitch_x % sources == 0 &&
                        is_aligned(x, static_cast<size_t>(sources * bytes));
        *repeated = r;
        return true;
    }
};

// Offsets of a vector of y and of the first element of x in it; `phase` copies of that one precede the vector.
template <int N>
struct RepeatedVector {
    int64_t x, y;
    uint32_t phase, elements;

    BK_DEVICE RepeatedVector(const RepeatedElements& plan, uint32_t number) {
        const DivMod<uint32_t> row = plan.row_vectors(number);
        const uint32_t along = row.remainder * N;
        const DivMod<uint32_t> source = plan.repeats(along);
        x = row.quotient * plan.pitch_x + source.quotient;
        y = row.quotient * plan.pitch_y + along;
        phase = source.remainder, elements = min(plan.length - along, static_cast<uint32_t>(N));
    }
};

// Repeats > 0: that many copies of each element, which divides a vector. 0: at least a vector of each.
template <int Repeats, class Bits>
BK_DEVICE void repeat_vectors(const RepeatedElements& plan, const Bits* x, Bits* y) {
    constexpr int N = kVectorLanes<Bits>, kSources = Repeats > 0 ? N / (Repeats > 0 ? Repeats : 1) : 2;
    const uint32_t first = blockIdx.x * (kRepeatThreads * kRepeatUnroll) + threadIdx.x, repeats = plan.repeats.divisor();
    Vec<Bits, kSources> sources[kRepeatUnroll];
#pragma unroll
    for (int u = 0; u < kRepeatUnroll; ++u) {
        if (first + u * kRepeatThreads >= plan.vectors) break;
        const RepeatedVector<N> vector(plan, first + u * kRepeatThreads);
        if constexpr (Repeats > 0) {
            if (vector.elements == N) sources[u] = load<kSources>(x + vector.x);
        } else {
            sources[u].lane[0] = sources[u].lane[1] = x[vector.x];
            if (vector.phase + vector.elements > repeats) sources[u].lane[1] = x[vector.x + 1];
        }
    }
#pragma unroll
    for (int u = 0; u < kRepeatUnroll; ++u) {
        if (first + u * kRepeatThreads >= plan.vectors) break;
        const RepeatedVector<N> vector(plan, first + u * kRepeatThreads);
        Vec<Bits, N> result;
#pragma unroll
        for (int lane = 0; lane < N; ++lane) {
            if constexpr (Repeats > 0)
                result.lane[lane] = sources[u].lane[lane / Repeats];
            else
                result.lane[lane] = vector.phase + lane < repeats ? sources[u].lane[0] : sources[u].lane[1];
        }
        if (vector.elements == N) {
            store<N>(y + vector.y, result);
            continue;
        }
#pragma unroll 1
        for (uint32_t lane = 0; lane < vector.elements; ++lane)
            y[vector.y + lane] = x[vector.x + (vector.phase + lane) / repeats];
    }
}

// Any number of repeats shorter than a vector, lane by lane.
template <class Bits>
BK_DEVICE void repeat_elements(const RepeatedElements& plan, const Bits* x, Bits* y) {
    constexpr int N = kVectorLanes<Bits>;
    const uint32_t first = blockIdx.x * (kRepeatThreads * kRepeatUnroll) + threadIdx.x, repeats = plan.repeats.divisor();
#pragma unroll 1
    for (int u = 0; u < kRepeatUnroll; ++u) {
        if (first + u * kRepeatThreads >= plan.vectors) break;
        const RepeatedVector<N> vector(plan, first + u * kRepeatThreads);
        const Bits* from = x + vector.x;
        uint32_t phase = vector.phase;
        Vec<Bits, N> result;
#pragma unroll
        for (uint32_t lane = 0; lane < N; ++lane) {
            if (lane < vector.elements) result.lane[lane] = *from;
            if (++phase == repeats) phase = 0, ++from;
        }
        if (vector.elements == N) {
            store<N>(y + vector.y, result);
            continue;
        }
#pragma unroll
        for (uint32_t lane = 0; lane < N; ++lane)
            if (lane < vector.elements) y[vector.y + lane] = result.lane[lane];
    }
}

template <class Bits>
__global__ void __launch_bounds__(kRepeatThreads, 5)
    repeat_kernel(const __grid_constant__ RepeatedElements plan, const Bits* x, Bits* y) {
    constexpr uint32_t N = kVectorLanes<Bits>;
    const uint32_t repeats = plan.repeats.divisor();
    if (repeats >= N) return repeat_vectors<0>(plan, x, y);
    if constexpr (N > 2)
        if (plan.whole_loads && repeats == 2) return repeat_vectors<2>(plan, x, y);
    if constexpr (N > 4)
        if (plan.whole_loads && repeats == 4) return repeat_vectors<4>(plan, x, y);
    repeat_elements(plan, x, y);
}

template <class Bits>
Status launch_repeated(const Launch& launch, const RepeatedElements& plan, const void* x, void* y) {
    const unsigned blocks = ceil_div<unsigned>(plan.vectors, kRepeatThreads * kRepeatUnroll);
    return launch_kernel(launch, Grid{dim3(blocks), dim3(kRepeatThreads)}, repeat_kernel<Bits>, plan,
                         static_cast<const Bits*>(x), static_cast<Bits*>(y));
}

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Unaligned 16-byte loads by two aligned ones, and a block-wide list of vectors that are copied element by element.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/types/vec.h"

namespace bk {

// Bytes that an array spans, gaps included; all of it may be read.
struct AddressRange {
    const char* begin = nullptr;
    const char* end = nullptr;

    // Whether both aligned vectors around the unaligned one at `first` lie inside.
    BK_DEVICE bool covers_aligned(const void* first) const {
        const char* const p = static_cast<const char*>(first);
        const int skipped = static_cast<int>(reinterpret_cast<uintptr_t>(p) % kVectorBytes);
        const bool starts_inside = p - skipped >= begin, ends_inside = p - skipped + 2 * kVectorBytes <= end;
        return skipped == 0 || (starts_inside && ends_inside);
    }
};

// The two aligned vectors around an unaligned one; `high` is used only if `skipped` bytes of `low` are not wanted.
struct UnalignedVector {
    uint4 low, high;
    unsigned skipped;

    BK_DEVICE void load_from(const void* first) {
        skipped = static_cast<unsigned>(reinterpret_cast<uintptr_t>(first) % kVectorBytes);
        const uint4* const aligned = reinterpret_cast<const uint4*>(static_cast<const char*>(first) - skipped);
        low = *aligned;
        high = {};
        if (skipped != 0) high = aligned[1];
    }
    // Extracts the elements, which are aligned to their size.
    template <class Bits>
    BK_DEVICE Vec<Bits, kVectorLanes<Bits>> elements() const {
        const bool by_two = (skipped & 8) != 0, by_one = (skipped & 4) != 0;
        const uint32_t a0 = by_two ? low.z : low.x, a1 = by_two ? low.w : low.y, a2 = by_two ? high.x : low.z;
        const uint32_t a3 = by_two ? high.y : low.w, a4 = by_two ? high.z : high.x, a5 = by_two ? high.w : high.y;
        uint4 words;
        words.x = by_one ? a1 : a0, words.y = by_one ? a2 : a1, words.z = by_one ? a3 : a2, words.w = by_one ? a4 : a3;
        if constexpr (sizeof(Bits) < 4) {
            const uint32_t last = by_one ? a5 : a4;
            const unsigned bits = 8 * (skipped & 3);
            words.x = __funnelshift_r(words.x, words.y, bits);
            words.y = __funnelshift_r(words.y, words.z, bits);
            words.z = __funnelshift_r(words.z, words.w, bits);
            words.w = __funnelshift_r(words.w, last, bits);
        }
        return bit_cast<Vec<Bits, kVectorLanes<Bits>>>(words);
    }
};

template <int N, class Bits>
BK_DEVICE Vec<Bits, N> reversed(const Vec<Bits, N>& x) {
    Vec<Bits, N> y;
#pragma unroll
    for (int lane = 0; lane < N; ++lane) y.lane[lane] = x.lane[N - 1 - lane];
    return y;
}

// Vectors of a block, in shared memory, that all of its threads copy together element by element. Vectors at row
// borders are deferred to it, so that one thread does not delay its warp.
template <int kCapacity>
struct DeferredVectors {
    unsigned count;
    uint16_t number[kCapacity];

    BK_DEVICE void clear() {
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
    }
    BK_DEVICE void add(unsigned vector) { number[atomicAdd(&count, 1u)] = static_cast<uint16_t>(vector); }

    // Calls each(element) for the elements below `numel`, counted from the block's first one.
    template <int N, class Index, class Each>
    BK_DEVICE void each_element(Index numel, const Each& each) const {
        __syncthreads();
#pragma unroll 1
        for (unsigned at = threadIdx.x; at < count * N; at += blockDim.x) {
            const Index element = static_cast<Index>(number[at / N]) * N + at % N;
            if (element < numel) each(element);
        }
    }
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Random arrays on the GPU: a thread computes up to kDrawVectors vectors of 16 bytes.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/random/source.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kDrawThreads = 256;
constexpr int kDrawVectors = 4;
constexpr int64_t kManyDraws = int64_t{1} << 20;  // vectors; fewer are spread over more threads

// Elements that a thread computes together: a 16-byte vector, or those of a Philox block if these are more.
template <class T, class Stream>
constexpr int kDrawLanes = kVectorLanes<T> > Stream::kNumbers ? kVectorLanes<T> : Stream::kNumbers;

// The words of `Count` numbers from number offset + i on.
template <int Count, class Stream>
BK_DEVICE void words_of(const Stream& stream, uint64_t i, uint32_t* words) {
    if ((stream.offset + i) % Stream::kNumbers == 0) {
        words_of_blocks<Count>(stream, i, words);
    } else {
#pragma unroll 1
        for (int k = 0; k < Count; ++k) {
            uint32_t of_number[Stream::kWords];
            stream.words(i + static_cast<unsigned>(k), of_number);
#pragma unroll
            for (int w = 0; w < Stream::kWords; ++w)
                set_slot<Count * Stream::kWords>(words, k * Stream::kWords + w, of_number[w]);
        }
    }
}

template <class T, class Dist>
__global__ void __launch_bounds__(kDrawThreads)
    draw_kernel(Dist dist, RandomSource source, T* y, int64_t numel, int per_thread, bool is_aligned) {
    constexpr int kLanes = kDrawLanes<T, WordStream<Dist::kWords>>;
    const auto stream = source.template stream<Dist::kWords>();
    const int64_t first = (int64_t{blockIdx.x} * (kDrawThreads * per_thread) + threadIdx.x) * kLanes;
#pragma unroll 1
    for (int v = 0; v < per_thread; ++v) {
        const int64_t i = first + int64_t{v} * (kDrawThreads * kLanes);
        if (i >= numel) return;
        uint32_t words[kLanes * Dist::kWords];
        words_of<kLanes>(stream, static_cast<uint64_t>(i), words);
        Vec<T, kLanes> drawn;
#pragma unroll
        for (int lane = 0; lane < kLanes; ++lane)
            drawn.lane[lane] =
                narrow<T>(dist(words + lane * Dist::kWords,
                               {stream.seed, stream.offset + static_cast<uint64_t>(i + lane), Dist::kWords, i + lane}));
        if (is_aligned && i + kLanes <= numel) {
            store<kLanes>(y + i, drawn);
        } else {
#pragma unroll
            for (int lane = 0; lane < kLanes; ++lane)
                if (i + lane < numel) y[i + lane] = drawn.lane[lane];
        }
    }
}

template <class T, class Dist>
Status draw(const Launch& launch, int64_t numel, const Dist& dist, const RandomSource& source, T* y) {
    constexpr int kLanes = kDrawLanes<T, WordStream<Dist::kWords>>;
    const int64_t vectors = ceil_div<int64_t>(numel, kLanes);
    const int per_thread = vectors < kManyDraws ? 1 : kDrawVectors;
    const int64_t blocks = ceil_div<int64_t>(vectors, kDrawThreads * per_thread);
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "numel is %lld, too many for one launch", (long long)numel);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kDrawThreads)}, draw_kernel<T, Dist>, dist,
                         source, y, numel, per_thread, is_aligned(y, kLanes * sizeof(T)));
}

}  // namespace bk

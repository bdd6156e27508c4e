// SPDX-License-Identifier: Apache-2.0
// Random arrays on the GPU: a thread computes up to kDrawVectors vectors of 16 bytes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/pointwise/cases.h"
#include "core/random/source.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kDrawThreads = 256;
constexpr int kDrawVectors = 8;
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

// The elements of words, from element i on, which has number `number`.
template <class T, int Lanes, class Dist>
BK_DEVICE Vec<T, Lanes> drawn_of(const Dist& dist, const uint32_t* words, uint64_t seed, uint64_t number, int64_t i) {
    Vec<T, Lanes> drawn;
#pragma unroll
    for (int lane = 0; lane < Lanes; ++lane)
        drawn.lane[lane] =
            narrow<T>(dist(words + lane * Dist::kWords, {seed, number + static_cast<unsigned>(lane), Dist::kWords, i + lane}));
    return drawn;
}

// A block whose vectors are aligned and whole, and whose numbers begin a Philox block: pointer and counter alone move on.
template <class T, class Stream, class Dist>
BK_DEVICE void draw_whole(const Dist& dist, const Stream& stream, T* y, int64_t first, int vectors) {
    constexpr int kLanes = kDrawLanes<T, Stream>, kBlocks = kLanes / Stream::kNumbers;
    constexpr int64_t step = int64_t{kDrawThreads} * kLanes;
    uint64_t block = (stream.offset + static_cast<uint64_t>(first)) / Stream::kNumbers;
#pragma unroll 1
    for (int v = 0; v < vectors; ++v, block += kDrawThreads * kBlocks) {
        const int64_t i = first + v * step;
        uint32_t words[kLanes * Dist::kWords];
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
            const PhiloxBlock made = philox_block(stream.seed, block + static_cast<unsigned>(b), 0);
            for (int k = 0; k < 4; ++k) words[4 * b + k] = made.word[k];
        }
        store<kLanes>(y + i, drawn_of<T, kLanes>(dist, words, stream.seed, stream.offset + static_cast<uint64_t>(i), i));
    }
}

template <class T, class Stream, class Dist>
BK_DEVICE void draw_some(const Dist& dist, const Stream& stream, T* y, int64_t numel, int64_t first, int vectors,
                         bool is_aligned) {
    constexpr int kLanes = kDrawLanes<T, Stream>;
#pragma unroll 1
    for (int v = 0; v < vectors; ++v) {
        const int64_t i = first + int64_t{v} * (kDrawThreads * kLanes);
        if (i >= numel) return;
        uint32_t words[kLanes * Dist::kWords];
        words_of<kLanes>(stream, static_cast<uint64_t>(i), words);
        const auto drawn = drawn_of<T, kLanes>(dist, words, stream.seed, stream.offset + static_cast<uint64_t>(i), i);
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
__global__ void __launch_bounds__(kDrawThreads)
    draw_kernel(Dist dist, RandomSource source, T* y, int64_t numel, int vectors, bool is_aligned) {
    const auto stream = source.template stream<Dist::kWords>();
    using Stream = std::remove_const_t<decltype(stream)>;
    constexpr int kLanes = kDrawLanes<T, Stream>;
    const int64_t span = int64_t{kDrawThreads} * kLanes * vectors, begin = blockIdx.x * span;
    const int64_t first = begin + int64_t{threadIdx.x} * kLanes;
    const uint64_t number = stream.offset + static_cast<uint64_t>(begin);
    if (is_aligned && begin + span <= numel && number % Stream::kNumbers == 0 && number + static_cast<uint64_t>(span) > number)
        in_case(dist, [&](const auto& one) { draw_whole(one, stream, y, first, vectors); });
    else
        draw_some(dist, stream, y, numel, first, vectors, is_aligned);
}

template <class T, class Dist>
Status draw(const Launch& launch, int64_t numel, const Dist& dist, const RandomSource& source, T* y) {
    constexpr int kLanes = kDrawLanes<T, WordStream<Dist::kWords>>;
    const int64_t vectors = ceil_div<int64_t>(numel, kLanes);
    const int per_thread = static_cast<int>(std::clamp<int64_t>(vectors / kManyDraws, 1, kDrawVectors));
    const int64_t blocks = ceil_div<int64_t>(vectors, kDrawThreads * per_thread);
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "numel is %lld, too many for one launch", (long long)numel);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kDrawThreads)}, draw_kernel<T, Dist>, dist,
                         source, y, numel, per_thread, is_aligned(y, kLanes * sizeof(T)));
}

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Random arrays on the CPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/pointwise/cases.h"
#include "core/pointwise/pointwise_cpu.h"
#include "core/random/source.h"
#include "core/random/word_buffer_cpu.h"

namespace bk {

constexpr int kDrawnTogether = 1024;  // numbers of a buffer

// kBlock elements. If a distribution rejects numbers, the vector loop takes them all, and the rejected ones are replaced.
template <class Made, class Dist>
BK_HD void draw_chunk(const Dist& dist, const uint32_t* words, const MoreWords& first, Made* made) {
    if constexpr (kRejects<Dist>) {
        uint32_t rejected = 0;
        BK_VECTOR_LOOP
        for (int k = 0; k < kBlock; ++k) {
            made[k] = narrow<Made>(dist.unchecked(words + k * Dist::kWords));
            rejected |= dist.rejects(words + k * Dist::kWords) ? 1u : 0u;
        }
        if (__builtin_expect(rejected != 0, 0))
            for (int k = 0; k < kBlock; ++k)
                made[k] = narrow<Made>(dist(words + k * Dist::kWords, {first.seed, first.number + static_cast<unsigned>(k),
                                                                       Dist::kWords, first.element + k}));
    } else {
        BK_VECTOR_LOOP
        for (int k = 0; k < kBlock; ++k)
            made[k] = narrow<Made>(dist(words + k * Dist::kWords, {first.seed, first.number + static_cast<unsigned>(k),
                                                                   Dist::kWords, first.element + k}));
    }
}

// Numbers [begin, end); f16 is narrowed from a buffer of f32 (core/pointwise/pointwise_cpu.h).
template <class T, class Dist>
BK_HD void draw_range(const Dist& dist, const WordStream<Dist::kWords>& stream, T* y, int64_t begin, int64_t end) {
    using Made = Buffered<T>;
    constexpr int kTogether = kDrawnTogether / Dist::kWords;
    WordBuffer<Dist::kWords, kTogether> words;
    alignas(64) Made made[kTogether];
    for (int64_t at = begin; at < end; at += kTogether) {
        const int64_t count = std::min<int64_t>(kTogether, end - at);
        const int64_t whole = ceil_div<int64_t>(count, kBlock) * kBlock;
        words.fill(stream, static_cast<uint64_t>(at), whole);
        const uint64_t number = stream.offset + static_cast<uint64_t>(at);
        for (int64_t chunk = 0; chunk < whole; chunk += kBlock)  // of constant length, without a scalar tail
            draw_chunk<Made>(dist, words.of(chunk),
                             {stream.seed, number + static_cast<uint64_t>(chunk), Dist::kWords, at + chunk}, made + chunk);
        if constexpr (std::is_same_v<T, f16>)
            narrow_span(y + at, made, count);
        else
            std::copy(made, made + count, y + at);
    }
}

template <class T, class Dist>
Status draw(const Launch&, int64_t numel, const Dist& dist, const RandomSource& source, T* y) {
    const auto stream = source.template stream<Dist::kWords>();
    split_ranges(ceil_div<int64_t>(numel, kDrawnTogether), 16, [&](int64_t begin, int64_t end) {
        const int64_t first = begin * kDrawnTogether, last = std::min(end * kDrawnTogether, numel);
        dispatch_range(
            [&](int64_t from, int64_t to) {
                in_case(dist, [&](const auto& one) BK_INLINED { draw_range(one, stream, y, from, to); });
            },
            first, last);
    });
    return Status::kOk;
}

}  // namespace bk

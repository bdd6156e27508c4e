// SPDX-License-Identifier: Apache-2.0
// Pointwise loops on the CPU: blocks of a constant length compile to vector code without a scalar tail, so that a
// result does not depend on its index. Operands that are not dense along the last axis pass through small stack
// buffers. Only the dense loop knows the functor; the code around it is compiled once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/compiler_cpu.h"
#include "core/layout/layout.h"
#include "core/pointwise/cases.h"
#include "core/pointwise/pointwise.h"

namespace bk {

// Buffer sizes: a call takes at most 16 KiB of stack.
constexpr int kBlock = 64;          // elements; a multiple of every vector width
constexpr int kBuffer = 1024;       // elements gathered at a time, if they fit
constexpr int kBufferBytes = 4608;  // of all operands together

// Shorter blocks limit the stack for many wide operands.
template <class... Operands>
constexpr int kBlockOf = (0 + ... + static_cast<int>(sizeof(Operands))) * kBlock > 2560 ? kBlock / 2 : kBlock;

template <class T, int kLength>
struct alignas(64) Block {
    T cell[kLength];
};

template <class T, class Result>
BK_HD void put_at(const Pack<T*>& out, int64_t i, const Result& result) {
    get<0>(out)[i] = narrow<T>(result);
}

template <class... T, class... C, size_t... O>
BK_HD void put_each_at(const Pack<T*...>& out, int64_t i, const Pack<C...>& result, std::index_sequence<O...>) {
    ((get<O>(out)[i] = narrow<T>(get<O>(result))), ...);
}

template <class... T, class... C>
BK_HD void put_at(const Pack<T*...>& out, int64_t i, const Pack<C...>& result) {
    put_each_at(out, i, result, std::index_sequence_for<T...>{});
}

// Computes one block that begins k elements after the segment. If one input is rare the whole block uses `of_rare`,
// which agrees with the operator on other inputs, so that a result does not depend on adjacent ones.
template <int kLength, class Segment, class... Out, class... In, size_t... I>
BK_HD void compute_block(const Segment& segment, int64_t k, const Pack<Out*...>& out, const Pack<const In*...>& in,
                         std::index_sequence<I...>) {
    if constexpr (kHasRare<Segment>) {
        uint32_t rare = 0;
#pragma GCC unroll 1
        for (int lane = 0; lane < kLength; ++lane) rare |= segment.fn.is_rare(widen(get<I>(in)[lane])...) ? 1u : 0u;
        if (__builtin_expect(rare != 0, 0)) {
#pragma GCC unroll 1
            for (int lane = 0; lane < kLength; ++lane) put_at(out, lane, segment.fn.of_rare(widen(get<I>(in)[lane])...));
            return;
        }
    }
    // Stores of bytes may alias the functor, but for a copy, whose parameters then stay in registers.
    constexpr bool kHasBytes = (... || (sizeof(Out) == 1));
    const std::conditional_t<kHasBytes, Segment, const Segment&> own = segment;
    BK_VECTOR_LOOP
    for (int lane = 0; lane < kLength; ++lane) put_at(out, lane, own(k + lane, widen(get<I>(in)[lane])...));
}

// Loads `count` elements and pads the block with the first one. Filling it whole and then copying is faster than a
// choice per element.
template <class T, int kLength>
BK_HD void load_tail(Block<T, kLength>& block, const T* from, int64_t count) {
    const T first = from[0];
    for (int lane = 0; lane < kLength; ++lane) block.cell[lane] = first;
    memcpy(block.cell, from, static_cast<size_t>(count) * sizeof(T));
}

// Computes elements element, ..., element + count - 1, dense in every operand. The tail is computed as a block in
// buffers.
template <class Fn, class... Out, class... In, size_t... O, size_t... I>
BK_HD void compute_dense(const Fn& fn, int64_t element, int64_t count, const Pack<Out*...>& out, const Pack<const In*...>& in,
                         std::index_sequence<O...>, std::index_sequence<I...> ins) {
    constexpr int kLength = kBlockOf<Out..., In...>;
    Pack<Block<Out, kLength>...> y;
    [[maybe_unused]] Pack<Block<In, kLength>...> x;
    for (int64_t done = 0; done < count;) {
        const auto segment = segment_at(fn, element + done, 0);
        const int64_t length = segment.count < count - done ? segment.count : count - done;
        for (int64_t k = 0; k < length; k += kLength) {
            const int64_t at = done + k, remaining = length - k;
            const bool is_full = remaining >= kLength;
            if (!is_full) (load_tail(get<I>(x), get<I>(in) + at, remaining), ...);
            compute_block<kLength>(segment, k, pack((is_full ? get<O>(out) + at : &get<O>(y).cell[0])...),
                                   pack((is_full ? get<I>(in) + at : &get<I>(x).cell[0])...), ins);
            if (!is_full) ((void)memcpy(get<O>(out) + at, get<O>(y).cell, static_cast<size_t>(remaining) * sizeof(Out)), ...);
        }
        done += length;
    }
}

// Loops see f16 as f32: spans are converted in buffers with F16C, which compilers do not use for this by themselves.
template <class T>
using Buffered = std::conditional_t<std::is_same_v<T, f16>, float, T>;

void widen_span(float* to, const f16* from, int64_t count);
void narrow_span(f16* to, const float* from, int64_t count);

// A type-erased functor and its operands, outputs first.
struct DenseLoop {
    void (*run)(const void* fn, int64_t element, int64_t count, char* const* operands);
    const void* fn;
    int outputs;
    const int* size;        // bytes of an element in memory, by operand
    const bool* converted;  // f16 operands, which `run` sees as f32
};

template <class Fn, class... Out, class... In, size_t... O, size_t... I>
DenseLoop dense_loop(const Fn& fn, const Pack<Out*...>&, const Pack<const In*...>&, std::index_sequence<O...>,
                     std::index_sequence<I...>) {
    constexpr bool kCopies = std::is_same_v<Fn, CopyFunctor>;
    constexpr bool kWidens = kIsConversion<Fn, float, f16>, kNarrows = kIsConversion<Fn, f16, float>;
    constexpr bool kDirect = kCopies || kWidens || kNarrows;
    static constexpr int kSizes[] = {static_cast<int>(sizeof(Out))..., static_cast<int>(sizeof(In))...};
    static constexpr bool kConverted[] = {(!kDirect && std::is_same_v<Out, f16>)..., (!kDirect && std::is_same_v<In, f16>)...};
    const auto run = [](const void* functor, int64_t element, int64_t count, char* const* operands) {
        [[maybe_unused]] const auto out = pack(reinterpret_cast<Buffered<Out>*>(operands[O])...);
        [[maybe_unused]] const auto in = pack(reinterpret_cast<const Buffered<In>*>(operands[sizeof...(Out) + I])...);
        if constexpr (kCopies)  // memmove has better stores for long spans
            memmove(operands[0], operands[1], static_cast<size_t>(kSizes[0] * count));  // y may alias x
        else if constexpr (kWidens)
            widen_span(get<0>(out), reinterpret_cast<const f16*>(operands[1]), count);
        else if constexpr (kNarrows)
            narrow_span(reinterpret_cast<f16*>(operands[0]), get<0>(in), count);
        else
            dispatch_range(
                [&](int64_t, int64_t) {
                    in_case(*static_cast<const Fn*>(functor), [&](const Fn& fn) BK_INLINED {
                        compute_dense(fn, element, count, out, in, std::index_sequence_for<Out...>{},
                                      std::index_sequence_for<In...>{});
                    });
                },
                0, count);
    };
    return {run, &fn, sizeof...(Out), kSizes, kConverted};
}

// Computes `count` elements along one axis; operand k has stride step[k]. Outputs may be null.
void compute_span(const DenseLoop& loop, int operands, int64_t element, int64_t count, char* const* pointers,
                  const int64_t* step);

// Short rows along the last axis (stride `step`) that follow one another along the next axis (`row_step`). Computed one
// at a time they would be mostly empty blocks, each with its own walk.
constexpr int kMaxShortRow = 256;
struct ShortRows {
    int64_t length;
    const int64_t *step, *row_step;
    bool is_dense(int k) const { return step[k] == 1 && row_step[k] == length; }
};

// Rows to compute as one span, through buffers if not dense; 1 if rows are better computed one by one.
int64_t rows_per_span(const DenseLoop& loop, int operands, char* const* pointers, const ShortRows& axes);
// Computes `rows` rows, for rows_per_span() > 1.
void compute_rows(const DenseLoop& loop, int operands, int64_t element, int64_t rows, char* const* pointers,
                  const ShortRows& axes);

// Loops over the rows of a layout, collapsed here. Operands are the outputs, then the inputs.
template <int Operands, int MaxRank>
BK_COLD void loop_over_rows(const DenseLoop& loop, const Layout<Operands, MaxRank>& given, char* const* pointers) {
    auto layout = collapse(given);
    if (layout.rank == 0) {
        layout.rank = 1;
        layout.extent[0] = 1;
        for (auto& stride : layout.stride) stride[0] = 1;
    }
    const int last = layout.rank - 1;
    const int64_t length = layout.extent[last];
    Layout<Operands, MaxRank> rows = layout;
    rows.rank = last;
    const Walk<Operands, uint64_t, MaxRank> walk(rows);
    int64_t step[Operands], bytes = 0;
    for (int k = 0; k < Operands; ++k) {
        step[k] = layout.stride[k][last];
        bytes += loop.size[k];
    }
    if (last > 0) {
        int64_t row_step[Operands];
        for (int k = 0; k < Operands; ++k) row_step[k] = layout.stride[k][last - 1];
        const ShortRows axes{length, step, row_step};
        const int64_t extent = layout.extent[last - 1];
        if (std::min(rows_per_span(loop, Operands, pointers, axes), extent) > 1)
            return split_ranges(rows.numel(), grain_for(bytes * length), [&](int64_t begin, int64_t end) {
                for (int64_t row = begin, count = 0; row < end; row += count) {
                    count = std::min(extent - row % extent, end - row);
                    const auto offset = walk(static_cast<uint64_t>(row));
                    char* start[Operands];
                    for (int k = 0; k < Operands; ++k)
                        start[k] = pointers[k] == nullptr ? nullptr : pointers[k] + signed_offset(offset.of[k]) * loop.size[k];
                    compute_rows(loop, Operands, row * length, count, start, axes);
                }
            });
    }
    // Long rows are split into chunks, so that threads may share one.
    const int64_t chunk = length < 16384 ? length : 16384;
    const int64_t chunks = ceil_div(length, chunk);
    split_ranges(rows.numel() * chunks, grain_for(bytes * chunk), [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end;) {
            const int64_t row = chunks == 1 ? at : at / chunks, first = (at - row * chunks) * chunk;
            const int64_t until = end - row * chunks < chunks ? end - row * chunks : chunks;  // of our chunks
            const int64_t stop = until * chunk < length ? until * chunk : length;
            const auto offset = walk(static_cast<uint64_t>(row));
            char* start[Operands];
            for (int k = 0; k < Operands; ++k)
                start[k] = pointers[k] == nullptr
                               ? nullptr
                               : pointers[k] + (signed_offset(offset.of[k]) + first * step[k]) * loop.size[k];
            compute_span(loop, Operands, row * length + first, stop - first, start, step);
            at = row * chunks + until;
        }
    });
}

template <class... Out, class... In, size_t... O, size_t... I>
DenseLoop erase(const DenseLoop& loop, char** pointers, const Pack<Out*...>& out, const Pack<const In*...>& in,
                std::index_sequence<O...>, std::index_sequence<I...>) {
    ((pointers[O] = reinterpret_cast<char*>(get<O>(out))), ...);
    ((pointers[sizeof...(Out) + I] = reinterpret_cast<char*>(const_cast<In*>(get<I>(in)))), ...);
    return loop;
}

template <class Fn, int MaxRank, class... Out, class... In>
Status run_pointwise_strided(const Launch&, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& layout, const Fn& fn,
                             const Outputs<Out...>& out, const Inputs<In...>& in) {
    constexpr std::index_sequence_for<Out...> outs{};
    constexpr std::index_sequence_for<In...> ins{};
    char* pointers[sizeof...(Out) + sizeof...(In)];
    loop_over_rows(erase(dense_loop(fn, out.pointer, in.pointer, outs, ins), pointers, out.pointer, in.pointer, outs, ins),
                   layout, pointers);
    return Status::kOk;
}

template <class Fn, class... Out, class... In>
Status run_pointwise(const Launch& launch, int64_t numel, const Fn& fn, const Outputs<Out...>& out, const Inputs<In...>& in) {
    Layout<sizeof...(Out) + sizeof...(In)> flat;
    flat.rank = 1;
    flat.extent[0] = numel;
    for (auto& stride : flat.stride) stride[0] = 1;
    return run_pointwise_strided(launch, flat, fn, out, in);
}

}  // namespace bk

// Pointwise loops: blocks of a constant length, which the compiler turns into vector code without a scalar remainder, so
// that an element's result does not depend on its place. Operands that do not lie dense along the last axis pass through
// small buffers. Only the dense loop knows the functor; what brings operands to it is compiled once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/compiler_cpu.h"
#include "core/pointwise/cases.h"
#include "core/pointwise/layout.h"
#include "core/pointwise/pointwise.h"

namespace bk {

// Sizes of buffers: a call takes at most 16 KiB of stack.
constexpr int kBlock = 64;          // elements of a block; a multiple of every vector
constexpr int kBuffer = 1024;       // elements that are gathered at a time, if they fit
constexpr int kBufferBytes = 4608;  // for those of all operands

// Shorter where many wide operands would take much of the stack.
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

// One block; `k` is the distance of its first element from the piece's. `of_rare` agrees with the operator where both serve, so
// that a result does not depend on its neighbours.
template <int kLength, class Piece, class... Out, class... In, size_t... I>
BK_HD void compute_block(const Piece& piece, int64_t k, const Pack<Out*...>& out, const Pack<const In*...>& in,
                         std::index_sequence<I...>) {
    if constexpr (kHasRare<Piece>) {
        uint32_t rare = 0;
#pragma GCC unroll 1
        for (int lane = 0; lane < kLength; ++lane) rare |= piece.fn.is_rare(widen(get<I>(in)[lane])...) ? 1u : 0u;
        if (__builtin_expect(rare != 0, 0)) {
#pragma GCC unroll 1
            for (int lane = 0; lane < kLength; ++lane) put_at(out, lane, piece.fn.of_rare(widen(get<I>(in)[lane])...));
            return;
        }
    }
    BK_VECTOR_LOOP
    for (int lane = 0; lane < kLength; ++lane) put_at(out, lane, piece(k + lane, widen(get<I>(in)[lane])...));
}

// A block of `count` elements, and of the first one again where there are no more. Filled as a whole and then written over:
// whole vectors and a copy take less time than a choice for every element.
template <class T, int kLength>
BK_HD void load_rest(Block<T, kLength>& block, const T* from, int64_t count) {
    const T first = from[0];
    for (int lane = 0; lane < kLength; ++lane) block.cell[lane] = first;
    memcpy(block.cell, from, static_cast<size_t>(count) * sizeof(T));
}

// Elements element, ..., element + count - 1, dense in every operand. What is left after the last block is computed as a
// block of its own, in buffers.
template <class Fn, class... Out, class... In, size_t... O, size_t... I>
BK_HD void compute_dense(const Fn& fn, int64_t element, int64_t count, const Pack<Out*...>& out, const Pack<const In*...>& in,
                         std::index_sequence<O...>, std::index_sequence<I...> ins) {
    constexpr int kLength = kBlockOf<Out..., In...>;
    Pack<Block<Out, kLength>...> y;
    [[maybe_unused]] Pack<Block<In, kLength>...> x;
    for (int64_t done = 0; done < count;) {
        const auto piece = piece_at(fn, element + done, 0);
        const int64_t length = piece.count < count - done ? piece.count : count - done;
        for (int64_t k = 0; k < length; k += kLength) {
            const int64_t at = done + k, rest = length - k;
            const bool whole = rest >= kLength;
            if (!whole) (load_rest(get<I>(x), get<I>(in) + at, rest), ...);
            compute_block<kLength>(piece, k, pack((whole ? get<O>(out) + at : &get<O>(y).cell[0])...),
                                   pack((whole ? get<I>(in) + at : &get<I>(x).cell[0])...), ins);
            if (!whole) ((void)memcpy(get<O>(out) + at, get<O>(y).cell, static_cast<size_t>(rest) * sizeof(Out)), ...);
        }
        done += length;
    }
}

// The loops know f16 as f32: spans are converted in buffers, by instructions that compilers do not use by themselves.
template <class T>
using Buffered = std::conditional_t<std::is_same_v<T, f16>, float, T>;

void widen_span(float* to, const f16* from, int64_t count);
void narrow_span(f16* to, const float* from, int64_t count);

// A functor and the types of its operands behind plain pointers, outputs first.
struct DenseLoop {
    void (*run)(const void* fn, int64_t element, int64_t count, char* const* operands);
    const void* fn;
    int outputs;
    const int* size;        // bytes of an element in memory, by operand
    const bool* converted;  // of f16, which `run` knows as f32
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
        if constexpr (kCopies)  // the C library has better stores for long spans
            memmove(operands[0], operands[1], static_cast<size_t>(kSizes[0] * count));  // y may be x
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

// A span: `count` elements along one axis, those of operand k step[k] apart. Outputs may be null.
void compute_span(const DenseLoop& loop, int operands, int64_t element, int64_t count, char* const* pointers,
                  const int64_t* step);

// Lines of `length` elements along the last axis, `step` apart, that follow one another along the axis before it. A short line
// alone would be one block, most of it empty, and a walk to where it begins.
constexpr int kMostShortLine = 256;
struct LineAxes {
    int64_t length;
    const int64_t *step, *line_step;
    bool is_dense(int k) const { return step[k] == 1 && line_step[k] == length; }
};

// How many lines are computed as one span, through buffers where they are not dense; 1 where each is better alone.
int64_t lines_together(const DenseLoop& loop, int operands, char* const* pointers, const LineAxes& axes);
// `lines` lines, of which lines_together() are more than one.
void compute_lines(const DenseLoop& loop, int operands, int64_t element, int64_t lines, char* const* pointers,
                   const LineAxes& axes);

// The loop over all lines of a collapsed layout, which are its elements along the last axis. Operands are the outputs, then the
// inputs.
template <int Operands, int MaxRank>
BK_COLD void run_lines(const DenseLoop& loop, const Layout<Operands, MaxRank>& given, char* const* pointers) {
    auto layout = collapse(given);
    if (layout.rank == 0) {
        layout.rank = 1;
        layout.extent[0] = 1;
        for (auto& stride : layout.stride) stride[0] = 1;
    }
    const int last = layout.rank - 1;
    const int64_t length = layout.extent[last];
    Layout<Operands, MaxRank> lines = layout;
    lines.rank = last;
    const Walk<Operands, uint64_t, MaxRank> walk(lines);
    int64_t step[Operands], bytes = 0;
    for (int k = 0; k < Operands; ++k) {
        step[k] = layout.stride[k][last];
        bytes += loop.size[k];
    }
    if (last > 0) {
        int64_t line_step[Operands];
        for (int k = 0; k < Operands; ++k) line_step[k] = layout.stride[k][last - 1];
        const LineAxes axes{length, step, line_step};
        const int64_t extent = layout.extent[last - 1];
        if (std::min(lines_together(loop, Operands, pointers, axes), extent) > 1)
            return split_ranges(lines.numel(), grain_for(bytes * length), [&](int64_t begin, int64_t end) {
                for (int64_t line = begin, count = 0; line < end; line += count) {
                    count = std::min(extent - line % extent, end - line);
                    const auto offset = walk(static_cast<uint64_t>(line));
                    char* start[Operands];
                    for (int k = 0; k < Operands; ++k)
                        start[k] = pointers[k] == nullptr ? nullptr : pointers[k] + signed_offset(offset.of[k]) * loop.size[k];
                    compute_lines(loop, Operands, line * length, count, start, axes);
                }
            });
    }
    // Long lines are cut, so that threads may share one.
    const int64_t cut = length < 16384 ? length : 16384;
    const int64_t cuts = ceil_div(length, cut);
    split_ranges(lines.numel() * cuts, grain_for(bytes * cut), [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end;) {
            const int64_t line = cuts == 1 ? at : at / cuts, first = (at - line * cuts) * cut;
            const int64_t until = end - line * cuts < cuts ? end - line * cuts : cuts;  // the cuts of this line that are ours
            const int64_t stop = until * cut < length ? until * cut : length;
            const auto offset = walk(static_cast<uint64_t>(line));
            char* start[Operands];
            for (int k = 0; k < Operands; ++k)
                start[k] = pointers[k] == nullptr
                               ? nullptr
                               : pointers[k] + (signed_offset(offset.of[k]) + first * step[k]) * loop.size[k];
            compute_span(loop, Operands, line * length + first, stop - first, start, step);
            at = line * cuts + until;
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
    run_lines(erase(dense_loop(fn, out.pointer, in.pointer, outs, ins), pointers, out.pointer, in.pointer, outs, ins), layout,
              pointers);
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

// Pointwise loops: blocks of a constant length, which the compiler turns into vector code without a scalar remainder, so
// that an element's result does not depend on its place. Operands that do not lie dense along the last axis pass through
// small buffers.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/launch.h"
#include "core/layout.h"
#include "core/pointwise.h"

namespace bk {

constexpr int kBlock = 64;     // elements; a multiple of every vector
constexpr int kBuffer = 1024;  // elements that are gathered at a time

template <class T, int N>
struct alignas(64) Buffer {
    T cell[N];
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

// One block; `k` is the distance of its first element from the piece's.
template <class Piece, class... Out, class... In, size_t... I>
BK_HD void compute_block(const Piece& piece, int64_t k, const Pack<Out*...>& out, const Pack<const In*...>& in,
                         std::index_sequence<I...>) {
#pragma GCC ivdep
#pragma GCC unroll 1
    for (int lane = 0; lane < kBlock; ++lane) put_at(out, lane, piece(k + lane, widen(get<I>(in)[lane])...));
}

// Elements element, ..., element + count - 1, dense in every operand. What is left after the last block is computed as a
// block of its own, in buffers.
template <class Fn, class... Out, class... In, size_t... O, size_t... I>
BK_HD void compute_dense(const Fn& fn, int64_t element, int64_t count, const Pack<Out*...>& out, const Pack<const In*...>& in,
                         std::index_sequence<O...>, std::index_sequence<I...> ins) {
    Pack<Buffer<Out, kBlock>...> y;
    [[maybe_unused]] Pack<Buffer<In, kBlock>...> x;
    for (int64_t done = 0; done < count;) {
        const auto piece = piece_at(fn, element + done, 0);
        const int64_t length = piece.count < count - done ? piece.count : count - done;
        for (int64_t k = 0; k < length; k += kBlock) {
            const int64_t at = done + k, rest = length - k;
            const bool whole = rest >= kBlock;
            if (!whole)
                for (int64_t lane = 0; lane < kBlock; ++lane)
                    ((get<I>(x).cell[lane] = get<I>(in)[at + (lane < rest ? lane : 0)]), ...);
            compute_block(piece, k, pack((whole ? get<O>(out) + at : &get<O>(y).cell[0])...),
                          pack((whole ? get<I>(in) + at : &get<I>(x).cell[0])...), ins);
            if (!whole) ((void)memcpy(get<O>(out) + at, get<O>(y).cell, static_cast<size_t>(rest) * sizeof(Out)), ...);
        }
        done += length;
    }
}

template <class T>
__attribute__((noinline)) void gather(T* BK_RESTRICT to, const T* BK_RESTRICT from, int64_t step, int64_t count) {
    if (step == 0)
        for (int64_t i = 0; i < count; ++i) to[i] = *from;
    else
        for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}

template <class T>
__attribute__((noinline)) void scatter(T* BK_RESTRICT to, const T* BK_RESTRICT from, int64_t step, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i * step] = from[i];
}

// An operand of a row: its elements `step` apart, or absent.
template <class T>
struct RowOperand {
    T* pointer;
    int64_t step;
    bool dense() const { return pointer != nullptr && step == 1; }
    // The operand itself where it is dense, else `buffer`, with the elements from `first` on if it is an input.
    T* at(int64_t first, Buffer<std::remove_const_t<T>, kBuffer>& buffer, int64_t count) const {
        if (dense()) return pointer + first;
        if constexpr (std::is_const_v<T>) gather(&buffer.cell[0], pointer + first * step, step, count);
        return &buffer.cell[0];
    }
    void put_back(int64_t first, const Buffer<T, kBuffer>& buffer, int64_t count) const {
        if (pointer != nullptr && step != 1) scatter(pointer + first * step, &buffer.cell[0], step, count);
    }
};

template <class Fn, class... Out, class... In, size_t... O, size_t... I>
void compute_row(const Fn& fn, int64_t element, int64_t count, const Pack<RowOperand<Out>...>& out,
                 const Pack<RowOperand<const In>...>& in, std::index_sequence<O...> outs, std::index_sequence<I...> ins) {
    const bool dense = (get<O>(out).dense() && ... && true) && (get<I>(in).dense() && ... && true);
    const int64_t stride = dense ? count : kBuffer;
    Pack<Buffer<Out, kBuffer>...> y;
    [[maybe_unused]] Pack<Buffer<In, kBuffer>...> x;
    for (int64_t first = 0; first < count; first += stride) {
        const int64_t n = count - first < stride ? count - first : stride;
        const auto to = pack(get<O>(out).at(first, get<O>(y), n)...);
        const auto from = pack(get<I>(in).at(first, get<I>(x), n)...);
        dispatch_range([&](int64_t, int64_t) { compute_dense(fn, element + first, n, to, from, outs, ins); }, 0, n);
        (get<O>(out).put_back(first, get<O>(y), n), ...);
    }
}

template <class Fn, int MaxRank, class... Out, class... In, size_t... O, size_t... I>
void pointwise_rows(const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& layout, const Fn& fn, const Pack<Out*...>& out,
                    const Pack<const In*...>& in, std::index_sequence<O...> outs, std::index_sequence<I...> ins) {
    constexpr int kOut = sizeof...(Out);
    constexpr int kOperands = kOut + sizeof...(In);
    constexpr int64_t bytes = (int64_t{0} + ... + int64_t{sizeof(Out)}) + (int64_t{0} + ... + int64_t{sizeof(In)});
    const int last = layout.rank - 1;
    const int64_t columns = layout.extent[last];
    Layout<kOperands, MaxRank> rows = layout;
    rows.rank = last;
    const Walk<kOperands, uint64_t, MaxRank> walk(rows);
    int64_t step[kOperands];
    for (int k = 0; k < kOperands; ++k) step[k] = layout.stride[k][last];
    // Long rows are cut, so that one is shared too.
    const int64_t piece = columns < 16384 ? columns : 16384;
    const int64_t pieces = ceil_div(columns, piece);
    split_ranges(rows.numel() * pieces, grain_for(bytes * piece), [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end;) {
            const int64_t row = pieces == 1 ? at : at / pieces, first = (at - row * pieces) * piece;
            const int64_t until =
                end - row * pieces < pieces ? end - row * pieces : pieces;  // pieces of this row that are ours
            const int64_t stop = until * piece < columns ? until * piece : columns;
            const auto offset = walk(static_cast<uint64_t>(row));
            const auto y = pack(RowOperand<Out>{
                get<O>(out) == nullptr ? nullptr : get<O>(out) + signed_offset(offset.of[O]) + first * step[O], step[O]}...);
            const auto x = pack(RowOperand<const In>{get<I>(in) + signed_offset(offset.of[kOut + I]) + first * step[kOut + I],
                                                     step[kOut + I]}...);
            at = row * pieces + until;
            if constexpr (std::is_same_v<Fn, CopyFunctor>) {
                if (get<0>(y).dense() && get<0>(x).dense()) {  // the C library has better stores for long rows
                    memcpy(get<0>(y).pointer, get<0>(x).pointer,
                           sizeof(*get<0>(y).pointer) * static_cast<size_t>(stop - first));
                    continue;
                }
            }
            compute_row(fn, row * columns + first, stop - first, y, x, outs, ins);
        }
    });
}

// The layout's operands are the outputs, then the inputs. Outputs may be null.
template <class Fn, int MaxRank, class... Out, class... In>
Status pointwise_strided(const Launch&, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& given, const Fn& fn,
                         const Outputs<Out...>& out, const Inputs<In...>& in) {
    auto layout = collapse(given);
    if (layout.rank == 0) {
        layout.rank = 1;
        layout.extent[0] = 1;
        for (auto& stride : layout.stride) stride[0] = 1;
    }
    pointwise_rows(layout, fn, out.pointer, in.pointer, std::index_sequence_for<Out...>{}, std::index_sequence_for<In...>{});
    return Status::kOk;
}

template <class Fn, class... Out, class... In>
Status pointwise(const Launch& launch, int64_t numel, const Fn& fn, const Outputs<Out...>& out, const Inputs<In...>& in) {
    Layout<sizeof...(Out) + sizeof...(In)> flat;
    flat.rank = 1;
    flat.extent[0] = numel;
    for (auto& stride : flat.stride) stride[0] = 1;
    return pointwise_strided(launch, flat, fn, out, in);
}

}  // namespace bk

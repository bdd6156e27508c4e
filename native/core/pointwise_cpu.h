// Pointwise loops: flat where all operands are contiguous, else one flat loop a row of the last axis.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/launch.h"
#include "core/layout.h"
#include "core/pointwise.h"

namespace bk {

template <class T, class Result>
BK_HD void put_at(const Pack<T*>& out, const int64_t* offset, const Result& result) {
    get<0>(out)[offset[0]] = narrow<T>(result);
}

template <class... T, class... C, size_t... O>
BK_HD void put_each_at(const Pack<T*...>& out, const int64_t* offset, const Pack<C...>& result, std::index_sequence<O...>) {
    ((get<O>(out)[offset[O]] = narrow<T>(get<O>(result))), ...);
}

template <class... T, class... C>
BK_HD void put_at(const Pack<T*...>& out, const int64_t* offset, const Pack<C...>& result) {
    put_each_at(out, offset, result, std::index_sequence_for<T...>{});
}

// Elements element, ..., element + count - 1, operand k stepping by kUnitSteps ? 1 : step[k].
template <bool kUnitSteps, class Fn, class... Out, class... In, size_t... O, size_t... I>
BK_HD void pointwise_row(const Fn& fn, int64_t element, int64_t count, const Pack<Out*...>& out, const Pack<const In*...>& in,
                         const int64_t* step, std::index_sequence<O...>, std::index_sequence<I...>) {
    constexpr int kOut = sizeof...(Out);
    for (int64_t done = 0; done < count;) {
        const auto piece = piece_at(fn, element + done, 0);
        const int64_t length = piece.count < count - done ? piece.count : count - done;
#pragma GCC ivdep
        for (int64_t k = 0; k < length; ++k) {
            const int64_t i = done + k;
            const int64_t at[] = {(kUnitSteps ? i : i * step[O])...};
            put_at(out, at, piece(k, widen(get<I>(in)[kUnitSteps ? i : i * step[kOut + I]])...));
        }
        done += length;
    }
}

template <class Fn, class... Out, class... In, size_t... O, size_t... I>
void pointwise_flat(int64_t numel, const Fn& fn, const Pack<Out*...>& out, const Pack<const In*...>& in,
                    std::index_sequence<O...> outs, std::index_sequence<I...> ins) {
    constexpr int64_t bytes =
        (int64_t{0} + ... + static_cast<int64_t>(sizeof(Out))) + (int64_t{0} + ... + static_cast<int64_t>(sizeof(In)));
    parallel_ranges(numel, grain_for(bytes), [&](int64_t begin, int64_t end) {
        pointwise_row<true>(fn, begin, end - begin, pack((get<O>(out) + begin)...), pack((get<I>(in) + begin)...), nullptr,
                            outs, ins);
    });
}

template <class Fn, class... Out, class... In>
Status pointwise(const Launch&, int64_t numel, const Fn& fn, const Outputs<Out...>& out, const Inputs<In...>& in) {
    pointwise_flat(numel, fn, out.pointer, in.pointer, std::index_sequence_for<Out...>{}, std::index_sequence_for<In...>{});
    return Status::kOk;
}

template <class Fn, int MaxRank, class... Out, class... In, size_t... O, size_t... I>
void pointwise_rows(const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& layout, const Fn& fn, const Pack<Out*...>& out,
                    const Pack<const In*...>& in, std::index_sequence<O...> outs, std::index_sequence<I...> ins) {
    constexpr int kOut = sizeof...(Out);
    constexpr int kOperands = kOut + sizeof...(In);
    const int last = layout.rank - 1;
    const int64_t columns = layout.extent[last];
    Layout<kOperands, MaxRank> rows = layout;
    rows.rank = last;
    const Walk<kOperands, uint64_t, MaxRank> walk(rows);
    int64_t step[kOperands];
    bool unit = true;
    for (int k = 0; k < kOperands; ++k) unit = (step[k] = layout.stride[k][last]) == 1 && unit;
    // Rows longer than a grain are cut, so that one long row is shared too.
    const int64_t piece = columns < 16384 ? columns : 16384;
    const int64_t pieces = ceil_div(columns, piece);
    parallel_ranges(rows.numel() * pieces, grain_for(8 * piece), [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at) {
            const int64_t row = pieces == 1 ? at : at / pieces, first = (at - row * pieces) * piece;
            const int64_t count = columns - first < piece ? columns - first : piece;
            const auto offset = walk(static_cast<uint64_t>(row));
            const int64_t element = row * columns + first;
            const auto y = pack((get<O>(out) + signed_offset(offset.of[O]) + first * step[O])...);
            const auto x = pack((get<I>(in) + signed_offset(offset.of[kOut + I]) + first * step[kOut + I])...);
            if constexpr (std::is_same_v<Fn, CopyFunctor>) {
                if (unit) {  // the C library has better stores for long rows: 2 KiB take two thirds of the time
                    memcpy(get<0>(y), get<0>(x), sizeof(*get<0>(y)) * static_cast<size_t>(count));
                    continue;
                }
            }
            if (unit)
                pointwise_row<true>(fn, element, count, y, x, step, outs, ins);
            else
                pointwise_row<false>(fn, element, count, y, x, step, outs, ins);
        }
    });
}

// The layout's operands are the outputs, then the inputs.
template <class Fn, int MaxRank, class... Out, class... In>
Status pointwise_strided(const Launch& launch, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& given, const Fn& fn,
                         const Outputs<Out...>& out, const Inputs<In...>& in) {
    const auto layout = collapse(given);
    if (layout.rank == 0) return pointwise(launch, 1, fn, out, in);
    pointwise_rows(layout, fn, out.pointer, in.pointer, std::index_sequence_for<Out...>{}, std::index_sequence_for<In...>{});
    return Status::kOk;
}

}  // namespace bk

// Rows on a GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/abi/launch.h"
#include "core/pointwise/layout.h"
#include "core/reduce/pointwise_sum.h"
#include "core/rows/row_map.h"
#include "core/rows/row_operands.cuh"

namespace bk {

constexpr int kRowThreads = 256;
constexpr int kRowGroup = 4;  // elements that a thread of a streamed row sums up at a time

// A block a row; the row is read once for each pass, and once more.
template <class F, class Operands>
__global__ void __launch_bounds__(kRowThreads) stream_rows(const Operands operands, const F f) {
    using Held = typename F::Held;
    using Acc = typename F::Acc;
    __shared__ RowExchange<Acc> exchange;
    const auto at = operands.row(blockIdx.x);
    auto row = operands.start(f, at);
    const int64_t n = operands.n, stride = int64_t{kRowThreads} * kRowGroup;
    Acc all;
    int turn = 0;
    do {
        all = f.identity();
        for (int64_t first = threadIdx.x * kRowGroup; first < n; first += stride) {
            Held held[kRowGroup];
            const RowSpan where{first, n};
            operands.hold(f, at, row, where, held);
            all = f.combine(all, f.sum_up(row, held, where));
        }
        all = combine_block(f, all, exchange, turn++);
    } while (f.finish(row, all, n));
    for (int64_t first = threadIdx.x * kRowGroup; first < n; first += stride) {
        Held held[kRowGroup];
        const RowSpan where{first, n};
        operands.hold(f, at, row, where, held);
        const Acc mine = f.sum_up(row, held, where);
        operands.map(f, at, row, f.part(row, mine), where, held);
    }
    if (threadIdx.x == 0) operands.save(f, at, row);
}

template <class F, int Full, int Single>
size_t map_rows_workspace(const RowAxes<Full, Single>&) {
    return 0;
}

template <class F, int Full, int Single, class... In, class... Column, class... RowIn, class... Out, class... Saved>
Status map_rows(const Launch& launch, const RowAxes<Full, Single>& axes, const F& f, const Inputs<In...>& x,
                const Inputs<Column...>& columns, const Inputs<RowIn...>& row_inputs, const Outputs<Out...>& y,
                const Outputs<Saved...>& saved) {
    static_assert(Full == sizeof...(In) + sizeof...(Out) && Single == sizeof...(RowIn) + sizeof...(Saved), "an operand each");
    using Operands =
        RowOperands<Full, Single, Inputs<In...>, Inputs<Column...>, Inputs<RowIn...>, Outputs<Out...>, Outputs<Saved...>>;
    const Layout<Full> inner = merge_axes(axes.inner);
    const auto outer = collapse(axes.outer);
    const int64_t rows = outer.numel(), n = inner.numel();
    if (rows == 0) return Status::kOk;
    if (rows > kMaxGridX) return fail(Status::kUnsupported, "%lld rows are too many for one launch", (long long)rows);
    if (n > INT32_MAX) return fail(Status::kUnsupported, "rows of %lld elements are too long", (long long)n);
    const Operands operands{LongWalk<Full>(inner), Walk<Full + Single, uint64_t>(outer), n,         x.pointer,
                            columns.pointer,       row_inputs.pointer,                   y.pointer, saved.pointer};
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(rows)), dim3(kRowThreads)}, stream_rows<F, Operands>, operands, f);
}

}  // namespace bk

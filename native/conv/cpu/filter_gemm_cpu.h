// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM of the gradient of the filter on the CPU.
//
// Channels of the results are rows, channels and taps of the source columns, and the sum runs over the positions of all
// images in order, so that it does not depend on threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv/cpu/implicit_gemm_cpu.h"

namespace bk {

// dw = alpha sum over positions of dy source + beta dw. `shape` is that of the forward sum: dy has the strides of its
// results, dw those of its weights.
template <class T>
struct FilterProblem {
    TapSums shape;
    const T* source;
    const T* dy;
    T* dw;
    matmul_scalar_t<T> alpha, beta;

    bool channels_inside() const { return shape.source_c == 1 && shape.inputs > 1; }
    bool has_adjacent_rows() const { return shape.result_c == 1 && shape.outputs > 1; }
};

// The next `count` elements of a channel of dy, from `at` on.
template <class T>
BK_HD void gather_results(const TapSums& p, const T* channel, PositionCursor at, int64_t count, T* to) {
    while (count > 0) {
        const int64_t length = std::min(count, at.left_in_row(p));
        copy_apart(to, channel + at.result(p), p.axis[kTapAxes - 1].result_stride, length);
        at.advance(p, length);
        to += length;
        count -= length;
    }
}

// Gathers the elements that a tap reads at `count` positions, from `at` on.
template <class T>
BK_HD void gather_tap(const TapSums& p, const T* source, const TapCursor& tap, PositionCursor at, int64_t count, T* to) {
    const int64_t shift = tap.source_shift(p);
    for (int64_t column = 0; column < count;) {
        PositionRun run;
        run.column = column;
        run.count = std::min(count - column, at.left_in_row(p));
        run.source = at.source(p);
        for (int d = 0; d < kTapAxes; ++d) run.coordinate[d] = at.coordinate(p, d);
        gather_run(p, source, run, tap, shift, to);
        at.advance(p, run.count);
        column += run.count;
    }
}

template <class T, Packing kPacking, int kBytes>
struct FilterBlocks {
    using Problem = FilterProblem<T>;
    using Unit = typename PackedUnit<kPacking>::Unit;
    using Sum = typename PackedUnit<kPacking>::Sum;
    using Blocks = TapSumBlocks<T, T, TapSumStore<T>, kPacking, kBytes>;
    static constexpr int kKPerUnit = Blocks::kKPerUnit, kMr = Blocks::kMr, kNr = Blocks::kNr;

    // Positions at the start of each segment of a block, found once for all its rows or columns.
    static constexpr int64_t kSegment = Blocks::kSegment;

    // A unit of `width` elements, kWidth apart in the panel, for each position. read(at, to) gathers those of one position.
    template <int kWidth, class Read>
    static BK_HD void pack_positions(const TapSums& p, int64_t width, int64_t k, int64_t depth, Unit* panel, const Read& read) {
        PositionCursor at(p, k);
        T rows[kKPerUnit * kWidth];
        for (int64_t x = 0; x < kKPerUnit * kWidth; ++x) rows[x] = T{};
        for (int64_t done = 0; done < depth; done += kKPerUnit, panel += kWidth) {
            const int64_t k_count = std::min<int64_t>(depth - done, kKPerUnit);
            for (int64_t t = 0; t < k_count; ++t, at.advance(p, 1)) read(at, rows + t * kWidth);
            Units<T, kPacking>::convert_mn_major(rows, kWidth, k_count, kWidth, panel);
        }
        (void)width;
    }

    static void rows(const void* problem, int64_t g, int64_t i, int64_t rows, int64_t k, int64_t depth, void* to) {
        const Problem& p = *static_cast<const Problem*>(problem);
        const TapSums& s = p.shape;
        Unit* const panel = static_cast<Unit*>(to);
        const T* const dy = p.dy + (g * s.outputs + i) * s.result_c;
        run_unfused<kBytes>([&] {
            if (p.has_adjacent_rows()) {
                pack_positions<kMr>(s, rows, k, depth, panel, [&](const PositionCursor& at, T* row) BK_INLINED {
                    const T* const from = dy + at.result(s);
                    for (int64_t r = 0; r < rows; ++r) row[r] = from[r];
                });
                Blocks::finish_rows(panel, ceil_div<int64_t>(depth, kKPerUnit));
                return;
            }
            const PositionCursor first(s, k);
            Blocks::template pack_rows_of<T>(
                rows, depth, panel, [&](int64_t r, int64_t skipped, int64_t count, T* row) BK_INLINED {
                    gather_results(s, dy + r * s.result_c, skipped == 0 ? first : PositionCursor(s, k + skipped), count, row);
                });
        });
    }

    static void columns(const void* problem, int64_t g, int64_t j, int64_t columns, int64_t k, int64_t depth, void* to) {
        const Problem& p = *static_cast<const Problem*>(problem);
        const TapSums& s = p.shape;
        Unit* const panel = static_cast<Unit*>(to);
        const T* const source = p.source + g * s.inputs * s.source_c;
        run_unfused<kBytes>([&] {
            if (p.channels_inside()) {
                pack_positions<kNr>(s, columns, k, depth, panel, [&](const PositionCursor& at, T* row) BK_INLINED {
                    gather_patch(s, source, at, j, columns, row);
                });
                Blocks::finish_columns(panel, ceil_div<int64_t>(depth, kKPerUnit));
                return;
            }
            // One segment after another, for all columns of a vector.
            int64_t current = 0;
            PositionCursor first(s, k);
            Blocks::template pack_columns_of<T>(columns, depth, panel,
                                                [&](int64_t x, int64_t skipped, int64_t count, T* column) BK_INLINED {
                                                    if (skipped != current) first = PositionCursor(s, k + skipped);
                                                    current = skipped;
                                                    gather_tap(s, source, TapCursor(s, j + x, false), first, count, column);
                                                });
        });
    }

    static void store(const void* problem, int64_t g, int64_t i, int64_t j, int64_t rows, int64_t columns, const void* sums) {
        const Problem& p = *static_cast<const Problem*>(problem);
        const TapSums& s = p.shape;
        using S = matmul_scalar_t<T>;
        const Sum* const from = static_cast<const Sum*>(sums);
        T* const to = p.dw + g * s.weight_g + i * s.weight_out;
        run_unfused<kBytes>([&] {
            for (int64_t x = 0; x < columns; ++x) {
                const int64_t at = TapCursor(s, j + x, p.channels_inside()).weight(s);
                for (int64_t r = 0; r < rows; ++r) {
                    T* const result = to + r * s.weight_out + at;
                    S value = p.alpha * static_cast<S>(from[r * kNr + x]);
                    if (p.beta != 0) value += p.beta * static_cast<S>(widen(*result));
                    if constexpr (std::is_same_v<T, S>)
                        *result = value;
                    else
                        *result = narrow<T>(value);
                }
            }
        });
    }

    static BlockedMatmul product_of(const Problem& p) {
        const TapSums& s = p.shape;
        return {&microkernel<kPacking>(),
                s.outputs,
                s.summands(),
                s.batch * s.positions(),
                s.groups,
                p.has_adjacent_rows(),
                false,
                {},
                {},
                {},
                &p,
                rows,
                columns,
                store};
    }
    static size_t workspace(const Problem& p) {
        const BlockedMatmul product = product_of(p);
        return blocked_workspace(*product.kernel, product.m, product.n, product.k);
    }
    static Status run(const Launch& launch, const Problem& p) { return multiply_blocked(launch, product_of(p)); }
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM on the CPU: patches of the source are gathered as the panels of the blocked GEMM are packed
// (gemm/cpu/matmul_driver_cpu.h), and never stored as a matrix.
//
// If channels of the source are adjacent (NHWC), positions are rows of the product and results its columns; summands run
// over channels innermost. Otherwise (NCHW) results are rows, positions columns, and summands run over taps innermost.
// Positions of all images are one axis of the product, and groups its batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "conv/cpu/store_cpu.h"
#include "conv/cpu/tap_sums_cpu.h"
#include "gemm/matmul_cpu.h"

namespace bk {

// T and W are the dtypes of the source and of the weights.
template <class T, class W, class Store>
struct TapSumProblem {
    TapSums shape;
    const T* source;
    const W* weight;
    Store results;

    bool channels_inside() const { return shape.source_c == 1 && shape.inputs > 1; }
    // Whether the weights of a result are adjacent in the order of summands.
    bool has_weight_rows() const {
        int64_t step = channels_inside() ? shape.inputs : 1;
        for (int d = kTapAxes - 1; d >= 0; --d) {
            if (shape.axis[d].taps > 1 && shape.axis[d].weight_stride != step) return false;
            step *= shape.axis[d].taps;
        }
        return shape.inputs == 1 || shape.weight_in == (channels_inside() ? 1 : step);
    }
};

// Elements `pitch` apart.
template <class E>
BK_HD void copy_apart(E* BK_RESTRICT to, const E* BK_RESTRICT from, int64_t pitch, int64_t count) {
    if (pitch == 1) return copy_bytes(to, from, count * static_cast<int64_t>(sizeof(E)));
    if (pitch == 2) {
        for (int64_t x = 0; x < count; ++x) to[x] = from[2 * x];
        return;
    }
    for (int64_t x = 0; x < count; ++x) to[x] = from[x * pitch];
}

// Positions in one row of the image, and what of the source their taps read.
struct PositionRun {
    int64_t source;                // offset of tap 0 at its first position
    int64_t coordinate[kTapAxes];  // of tap 0
    int64_t column, count;
};

// The elements of a run that a tap reads, into to[column ..].
template <class T>
BK_HD void gather_run(const TapSums& p, const T* source, const PositionRun& run, const TapCursor& tap, int64_t shift, T* to) {
    to += run.column;
    int64_t first = 0, end = run.count;
    for (int d = 0; d < kTapAxes; ++d) {
        const TapAxis& a = p.axis[d];
        const int64_t at = run.coordinate[d] + tap.t[d] * a.tap_step;
        if (d < kTapAxes - 1) {
            if (at < 0 || at >= a.extent) first = end;
        } else {
            if (at < 0) first = std::max(first, std::min(end, ceil_div(-at, a.step)));
            if (at + (run.count - 1) * a.step >= a.extent)
                end = std::max(first, std::min(end, at >= a.extent ? int64_t{0} : (a.extent - 1 - at) / a.step + 1));
        }
    }
    for (int64_t x = 0; x < first; ++x) to[x] = T{};
    const int64_t pitch = p.axis[kTapAxes - 1].step * p.axis[kTapAxes - 1].source_stride;
    if (end > first) copy_apart(to + first, source + run.source + shift + first * pitch, pitch, end - first);
    for (int64_t x = end; x < run.count; ++x) to[x] = T{};
}

// Summands [k, k + count) of a position whose channels are adjacent. Where the taps of the last axis read adjacent pixels,
// all of them are one run.
template <class T>
BK_HD void gather_patch(const TapSums& p, const T* source, const PositionCursor& at, int64_t k, int64_t count, T* to) {
    constexpr int kLast = kTapAxes - 1;
    const TapAxis& last = p.axis[kLast];
    const bool is_run = last.taps > 1 && last.tap_step == 1 && last.source_stride == p.inputs;
    TapCursor tap(p, k, true);
    const int64_t base = at.source(p);
    while (count > 0) {
        const int64_t taps = is_run ? last.taps - tap.t[kLast] : 1, length = std::min(taps * p.inputs - tap.c, count);
        bool is_inside = true;
        for (int d = 0; d < kLast; ++d) {
            const int64_t coordinate = at.coordinate(p, d) + tap.t[d] * p.axis[d].tap_step;
            is_inside = is_inside && coordinate >= 0 && coordinate < p.axis[d].extent;
        }
        // Elements [begin, end) of the run are those of taps inside the image.
        const int64_t coordinate = at.coordinate(p, kLast) + tap.t[kLast] * last.tap_step;
        const int64_t before = coordinate < 0 ? -coordinate : 0, inside = last.extent - coordinate;
        int64_t begin = 0, end = is_inside && inside > 0 ? length : 0;
        if (before > 0) begin = std::min(end, before * p.inputs - tap.c);
        if (inside < taps) end = std::min(end, std::max<int64_t>(inside, 0) * p.inputs - tap.c);
        end = std::max(begin, end);
        const T* const from = source + base + tap.source_shift(p);
        for (int64_t x = 0; x < begin; ++x) to[x] = T{};
        if (end > begin) copy_bytes(to + begin, from + begin, (end - begin) * static_cast<int64_t>(sizeof(T)));
        for (int64_t x = end; x < length; ++x) to[x] = T{};
        to += length;
        count -= length;
        tap.c = 0;
        if (is_run) tap.t[kLast] = last.taps - 1;
        tap.next_tap(p);
    }
}

// Weights of result r for summands [k, k + count).
template <class T>
BK_HD void gather_weights(const TapSums& p, const T* weights, int64_t k, int64_t count, bool channels_inside, T* to) {
    TapCursor tap(p, k, channels_inside);
    if (!channels_inside) {
        for (int64_t x = 0; x < count; ++x, tap.advance_channels_outside(p)) to[x] = weights[tap.weight(p)];
        return;
    }
    while (count > 0) {
        const int64_t length = std::min(p.inputs - tap.c, count);
        copy_apart(to, weights + tap.weight(p), p.weight_in, length);
        to += length;
        count -= length;
        tap.c = 0;
        tap.next_tap(p);
    }
}

template <class T, class W, class Store, Packing kPacking, int kBytes>
struct TapSumBlocks {
    using Problem = TapSumProblem<T, W, Store>;
    using Unit = typename PackedUnit<kPacking>::Unit;
    using Sum = typename PackedUnit<kPacking>::Sum;
    using Shape = MicrotileShape<kBytes, Unit>;
    static constexpr int kKPerUnit = PackedUnit<kPacking>::kKPerUnit, kMr = Shape::kMr, kNr = Shape::kNr;
    static constexpr int64_t kSegment = 32 * kKPerUnit;  // K elements that are gathered at once

    // --- packing ---

    // One operand of a 8-bit product is unsigned. Signed rows are shifted by 128, for which the columns' sums correct.
    static constexpr bool kIsMixed = !std::is_same_v<T, W>;

    static BK_HD void finish_rows(Unit* panel, int64_t units) {
        if constexpr (PackedUnit<kPacking>::kIsQuads && !kIsMixed)
            for (int64_t x = 0; x < kMr * units; ++x) panel[x] ^= 0x80808080u;
        if constexpr (kPacking == Packing::kBf16Pairs) write_panel_min(panel, units * kMr);
    }
    static BK_HD void finish_columns(Unit* panel, int64_t units) {
        if constexpr (kPacking == Packing::kBf16Pairs) write_panel_min(panel, units * kNr);
        if constexpr (PackedUnit<kPacking>::kIsQuads && kIsMixed)
            std::memset(reinterpret_cast<char*>(panel) + panel_footer_offset(units * kNr * 4), 0, kPanelFooterBytes);
        else if constexpr (kPacking == Packing::kS8Quads)
            write_column_sums_s8(panel, units);
    }

    // read(r, k, count, to) gathers `count` K elements of row r.
    template <class E, class Read>
    static BK_HD void pack_rows_of(int64_t rows, int64_t depth, Unit* panel, const Read& read) {
        const int64_t units = ceil_div<int64_t>(depth, kKPerUnit);
        [[maybe_unused]] E buffer[kSegment];
        for (int64_t r = 0; r < rows; ++r) {
            if constexpr (std::is_same_v<E, Unit>) {
                read(r, 0, depth, panel + r * units);
            } else {
                for (int64_t k = 0; k < depth; k += kSegment) {
                    const int64_t count = std::min(depth - k, kSegment);
                    read(r, k, count, buffer);
                    Units<E, kPacking>::convert_k_major(buffer, count, panel + r * units + k / kKPerUnit);
                }
            }
        }
        std::fill(panel + rows * units, panel + kMr * units, Unit(0));
        finish_rows(panel, units);
    }
    template <class E, class Read>
    static BK_HD void pack_columns_of(int64_t columns, int64_t depth, Unit* panel, const Read& read) {
        const int64_t units = ceil_div<int64_t>(depth, kKPerUnit);
        [[maybe_unused]] E elements[kSegment];
        pack_transposed<kBytes>(columns, units, kNr, panel, [&](int64_t j, int64_t u, int64_t count, Unit* buffer) BK_INLINED {
            const int64_t k = u * kKPerUnit, k_count = std::min<int64_t>(depth - k, count * kKPerUnit);
            if constexpr (std::is_same_v<E, Unit>) {
                read(j, k, k_count, buffer);
            } else {
                read(j, k, k_count, elements);
                Units<E, kPacking>::convert_k_major(elements, k_count, buffer);
            }
            return static_cast<const Unit*>(buffer);
        });
        finish_columns(panel, units);
    }

    static void weight_rows(const void* problem, int64_t g, int64_t i, int64_t rows, int64_t k, int64_t depth, void* to) {
        const Problem& p = *static_cast<const Problem*>(problem);
        const W* const from = p.weight + g * p.shape.weight_g + i * p.shape.weight_out;
        const bool has_rows = p.has_weight_rows();
        run_unfused<kBytes>([&] {
            pack_rows_of<W>(rows, depth, static_cast<Unit*>(to),
                            [&](int64_t r, int64_t first, int64_t count, W* buffer) BK_INLINED {
                                const W* const row = from + r * p.shape.weight_out;
                                if (has_rows)
                                    copy_bytes(buffer, row + k + first, count * static_cast<int64_t>(sizeof(W)));
                                else
                                    gather_weights(p.shape, row, k + first, count, false, buffer);
                            });
        });
    }
    static void weight_columns(const void* problem, int64_t g, int64_t j, int64_t columns, int64_t k, int64_t depth, void* to) {
        const Problem& p = *static_cast<const Problem*>(problem);
        const W* const from = p.weight + g * p.shape.weight_g + j * p.shape.weight_out;
        const bool has_rows = p.has_weight_rows();
        run_unfused<kBytes>([&] {
            pack_columns_of<W>(columns, depth, static_cast<Unit*>(to),
                               [&](int64_t x, int64_t first, int64_t count, W* buffer) BK_INLINED {
                                   const W* const row = from + x * p.shape.weight_out;
                                   if (has_rows)
                                       copy_bytes(buffer, row + k + first, count * static_cast<int64_t>(sizeof(W)));
                                   else
                                       gather_weights(p.shape, row, k + first, count, true, buffer);
                               });
        });
    }

    static void position_rows(const void* problem, int64_t g, int64_t i, int64_t rows, int64_t k, int64_t depth, void* to) {
        const Problem& p = *static_cast<const Problem*>(problem);
        const T* const source = p.source + g * p.shape.inputs * p.shape.source_c;
        run_unfused<kBytes>([&] {
            PositionCursor at(p.shape, i);
            int64_t current = 0;
            pack_rows_of<T>(rows, depth, static_cast<Unit*>(to),
                            [&](int64_t r, int64_t first, int64_t count, T* buffer) BK_INLINED {
                                if (r != current) at.advance(p.shape, 1);
                                current = r;
                                gather_patch(p.shape, source, at, k + first, count, buffer);
                            });
        });
    }
    // Panels of B of NCHW: a unit of NR positions for each tap and channel.
    static void position_columns(const void* problem, int64_t g, int64_t j, int64_t columns, int64_t k, int64_t depth,
                                 void* to) {
        const Problem& p = *static_cast<const Problem*>(problem);
        const T* const source = p.source + g * p.shape.inputs * p.shape.source_c;
        Unit* const panel = static_cast<Unit*>(to);
        run_unfused<kBytes>([&] { gather_position_columns(p.shape, source, j, columns, k, depth, panel); });
    }
    static BK_HD void gather_position_columns(const TapSums& p, const T* source, int64_t j, int64_t columns, int64_t k,
                                              int64_t depth, Unit* panel) {
        PositionRun runs[kNr];
        int64_t count = 0;
        PositionCursor at(p, j);
        for (int64_t column = 0; column < columns; ++count) {
            PositionRun& run = runs[count];
            run.column = column;
            run.count = std::min(columns - column, at.left_in_row(p));
            run.source = at.source(p);
            for (int d = 0; d < kTapAxes; ++d) run.coordinate[d] = at.coordinate(p, d);
            column += run.count;
            at.advance(p, run.count);
        }
        const int64_t units = ceil_div<int64_t>(depth, kKPerUnit);
        TapCursor tap(p, k, false);
        const auto gather = [&](T* row) BK_INLINED {
            const int64_t shift = tap.source_shift(p);
            for (int64_t r = 0; r < count; ++r) gather_run(p, source, runs[r], tap, shift, row);
            for (int64_t x = columns; x < kNr; ++x) row[x] = T{};
            tap.advance_channels_outside(p);
        };
        for (int64_t u = 0; u < units; ++u) {
            if constexpr (std::is_same_v<T, Unit>) {
                gather(panel + u * kNr);
            } else {
                T rows[kKPerUnit * kNr];
                const int64_t k_count = std::min<int64_t>(depth - u * kKPerUnit, kKPerUnit);
                for (int64_t t = 0; t < k_count; ++t) gather(rows + t * kNr);
                Units<T, kPacking>::convert_mn_major(rows, kNr, k_count, kNr, panel + u * kNr);
            }
        }
        finish_columns(panel, units);
    }

    // --- results ---

    // Rows are results, columns positions.
    static void store_columns(const void* problem, int64_t g, int64_t i, int64_t j, int64_t rows, int64_t columns,
                              const void* sums) {
        const Problem& p = *static_cast<const Problem*>(problem);
        const TapSums& s = p.shape;
        const Sum* const from = static_cast<const Sum*>(sums);
        const int64_t channel = g * s.outputs + i;
        const bool is_dense = s.has_dense_positions();
        run_unfused<kBytes>([&] {
            PositionCursor at(s, j);
            for (int64_t column = 0; column < columns;) {
                int64_t count = std::min(columns - column, at.left_in_row(s));
                const int64_t first = at.result(s), n = at.n;
                at.advance(s, count);
                while (is_dense && column + count < columns && at.n == n) {
                    const int64_t more = std::min(columns - column - count, at.left_in_row(s));
                    at.advance(s, more);
                    count += more;
                }
                const int64_t pitch = is_dense ? 1 : s.axis[kTapAxes - 1].result_stride;
                for (int64_t r = 0; r < rows; ++r)
                    p.results.template of_channel<kNr>(from + r * kNr + column, channel + r, count,
                                                       (channel + r) * s.result_c + first, pitch);
                column += count;
            }
        });
    }
    // Rows are positions, columns results.
    static void store_rows(const void* problem, int64_t g, int64_t i, int64_t j, int64_t rows, int64_t columns,
                           const void* sums) {
        const Problem& p = *static_cast<const Problem*>(problem);
        const TapSums& s = p.shape;
        const Sum* const from = static_cast<const Sum*>(sums);
        const int64_t channel = g * s.outputs + j;
        run_unfused<kBytes>([&] {
            PositionCursor at(s, i);
            for (int64_t r = 0; r < rows; ++r, at.advance(s, 1))
                p.results.template of_position<kNr>(from + r * kNr, channel, columns, channel * s.result_c + at.result(s),
                                                    s.result_c);
        });
    }

    static BlockedMatmul product_of(const Problem& p) {
        const TapSums& s = p.shape;
        const int64_t positions = s.batch * s.positions();
        const bool by_rows = p.channels_inside();
        BlockedMatmul product{&microkernel<kPacking>(),
                              by_rows ? positions : s.outputs,
                              by_rows ? s.outputs : positions,
                              s.summands(),
                              s.groups,
                              false,
                              false,
                              {},
                              {},
                              {},
                              &p,
                              by_rows ? position_rows : weight_rows,
                              by_rows ? weight_columns : position_columns,
                              by_rows ? store_rows : store_columns};
        return product;
    }

    static size_t workspace(const Problem& p) {
        const BlockedMatmul product = product_of(p);
        return blocked_workspace(*product.kernel, product.m, product.n, product.k);
    }
    static Status run(const Launch& launch, const Problem& p) { return multiply_blocked(launch, product_of(p)); }
};

}  // namespace bk

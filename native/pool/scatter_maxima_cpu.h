// SPDX-License-Identifier: Apache-2.0
// Gradients of maxima on the CPU: blocks of adjacent rows of cells, of one plane or of some adjacent channels, to which the
// windows that have them are scattered in order. The greatest cells are given by indices, or are the first ones that equal y.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "pool/gather_windows.h"
#include "pool/rows_cpu.h"

namespace bk::pool {

// A task is a block of rows, of a plane or of `lanes` channels. Sums of adjacent channels lie in dx where its type is theirs,
// others in a buffer.
template <class T>
struct ScatterMaxima {
    using C = compute_t<T>;
    static constexpr bool kInPlace = std::is_same_v<C, T>;
    static constexpr int32_t kCells = 24576 / static_cast<int32_t>(sizeof(C));  // of the stack
    static constexpr int32_t kCellsInPlace = 262144 / static_cast<int32_t>(sizeof(C));
    const Problem& p;
    const GradientArrays<T>& arrays;
    const bool adds, by_channels;

    BK_HD int32_t lanes() const {
        return by_channels ? static_cast<int32_t>(std::min<int64_t>(kInPlace ? kColumns : 32, p.channels)) : 1;
    }
    BK_HD int64_t groups() const { return by_channels ? (p.channels + lanes() - 1) / lanes() : p.channels; }
    BK_HD int32_t rows_per_block() const {
        const int64_t cells = by_channels && kInPlace ? kCellsInPlace : kCells;
        return static_cast<int32_t>(std::clamp<int64_t>(cells / (int64_t{p.axis[2].in} * lanes()), 1, p.axis[1].in));
    }
    BK_HD int32_t blocks() const { return (p.axis[1].in + rows_per_block() - 1) / rows_per_block(); }
    int64_t tasks() const { return p.batch * groups() * p.axis[0].in * blocks(); }
    bool serves() const {
        const bool is_found = arrays.indices == nullptr;
        const bool are_adjacent = p.axis[1].in == 1 || p.dx.axis[1] == p.axis[2].in * p.dx.axis[2];
        if (p.axis[2].in <= 0 || p.axis[1].dilation != 1) return false;
        if (is_found && (arrays.y == nullptr || p.cells() > INT32_MAX)) return false;
        if (by_channels && kInPlace) return are_adjacent && p.axis[2].dilation == 1 && p.cells() <= INT32_MAX;
        if (by_channels) return is_found && p.axis[2].in <= kCells / lanes();
        return p.axis[2].in <= kCells && p.dx.axis[2] == 1 && are_adjacent;
    }

    BK_HD void run(int64_t begin, int64_t end) const {
        alignas(64) C sum[kCells];
        alignas(64) int32_t found[kColumns];
        const FastDiv<uint32_t> by_width(static_cast<uint32_t>(p.axis[2].in));
        const int32_t most = rows_per_block();
        for (int64_t task = begin; task < end; ++task) {
            const int32_t low = static_cast<int32_t>(task % blocks()) * most, high = std::min(low + most, p.axis[1].in);
            RowAt at = RowAt::of(task / blocks(), groups(), p.axis[0].in, 1);
            at.c *= lanes();
            Block block{at,  low, high,  static_cast<int32_t>(std::min<int64_t>(lanes(), p.channels - at.c)),
                        sum, 1,   found, by_width};
            if (by_channels) block.pitch = block.lanes;
            if constexpr (kInPlace) {
                if (by_channels) block.sum = cells_of(block), block.pitch = p.dx.axis[2];
            }
            if (!adds || block.sum == sum)
                each_cell(block, [&](const T* cells, C* sums, int32_t n) BK_INLINED {
                    BK_VECTOR_LOOP
                    for (int32_t i = 0; i < n; ++i) sums[i] = adds ? widen(cells[i]) : C(0);
                });
            const Cover ca = p.axis[0].cover(at.a);
            const int32_t first = p.axis[1].cover(low).low, last = p.axis[1].cover(high - 1).high;
            for (int32_t oa = ca.low; oa <= ca.high; ++oa)
                for (int32_t ob = first; ob <= last && p.axis[0].has(oa, at.a); ++ob) add_windows(block, oa, ob);
            if (block.sum != sum) continue;
            each_cell(block, [&](T* cells, const C* sums, int32_t n) BK_INLINED {
                BK_VECTOR_LOOP
                for (int32_t i = 0; i < n; ++i) cells[i] = narrow<T>(sums[i]);
            });
        }
    }

private:
    // Rows [low, high) of cells of a plane at.a, in `lanes` channels from at.c on.
    struct Block {
        RowAt at;
        int32_t low, high, lanes;
        C* sum;
        int64_t pitch;  // of cells in sum
        int32_t* found;
        const FastDiv<uint32_t>& by_width;
    };
    // Cells of a block whose indices count in windows of one row.
    struct Target {
        int64_t base;
        uint64_t cells;
        C* sum;
    };

    BK_HD T* cells_of(const Block& block) const {
        return arrays.dx + p.dx.plane(block.at.n, block.at.c) + p.dx.at(block.at.a, block.low, 0);
    }

    // visit(cells, sums, count) for adjacent cells of a block.
    template <class Visit>
    BK_HD void each_cell(const Block& block, const Visit& visit) const {
        T* const to = cells_of(block);
        const int32_t width = p.axis[2].in, rows = block.high - block.low;
        if (!by_channels) return visit(to, block.sum, rows * width);
        for (int32_t row = 0; row < rows; ++row)
            for (int32_t c = 0; c < width; ++c)
                visit(to + row * p.dx.axis[1] + c * p.dx.axis[2], block.sum + (int64_t{row} * width + c) * block.pitch,
                      block.lanes);
    }

    // Windows (oa, ob, .): their indices count in rows of cells that the windows and the block have.
    BK_HD void add_windows(const Block& block, int32_t oa, int32_t ob) const {
        const Taps b = p.axis[1].taps(ob);
        const int32_t begin = std::max(block.low, b.first), end = std::min(block.high, b.first + b.count);
        if (begin >= end) return;
        const RowAt& at = block.at;
        const Target target{p.cell_number(at.a, begin, 0), static_cast<uint64_t>(end - begin) * p.axis[2].in,
                            block.sum + int64_t{begin - block.low} * p.axis[2].in * block.pitch};
        const T* const dy = arrays.dy + p.dy.plane(at.n, at.c) + p.dy.at(oa, ob, 0);
        const int64_t of_windows = arrays.indices == nullptr ? 0 : p.indices.plane(at.n, at.c) + p.indices.at(oa, ob, 0);
        if (!by_channels && arrays.indices != nullptr) {
            add(target, arrays.indices + of_windows, p.indices.axis[2], dy, p.dy.axis[2], p.axis[2].out);
        } else if (!by_channels) {
            for (int32_t first = 0; first < p.axis[2].out; first += kColumns) {
                const int32_t count = std::min(kColumns, p.axis[2].out - first);
                find_in_row(block, oa, ob, {first, count});
                add(target, block.found, 1, dy + first * p.dy.axis[2], p.dy.axis[2], count);
            }
        } else {
            for (int32_t oc = 0; oc < p.axis[2].out; ++oc) {
                if (arrays.indices != nullptr) {
                    add_channels(block, target, p.axis[2].taps(oc), arrays.indices + of_windows + oc * p.indices.axis[2],
                                 dy + oc * p.dy.axis[2]);
                } else {
                    find_in_channels(block, oa, ob, oc);
                    add_found(block, target, dy + oc * p.dy.axis[2]);
                }
            }
        }
    }
    // Adds dy[i] to the cell numbers[i] of a plane. A number may be any.
    template <class Number>
    BK_HD static void add(const Target& target, const Number* numbers, int64_t step, const T* dy, int64_t of_dy,
                          int32_t count) {
        for (int64_t i = 0; i < count; ++i) {
            const uint64_t cell = static_cast<uint64_t>(numbers[i * step]) - static_cast<uint64_t>(target.base);
            if (cell < target.cells) target.sum[cell] += widen(dy[i * of_dy]);
        }
    }
    // Adds dy[l] to the cell numbers[l] of channel l, if it is one of the window's columns.
    template <class Number>
    BK_HD static void add_channels(const Block& block, const Target& target, const Taps& columns, const Number* numbers,
                                   const T* dy) {
        for (int64_t l = 0; l < block.lanes; ++l) {
            const uint64_t cell = static_cast<uint64_t>(numbers[l]) - static_cast<uint64_t>(target.base);
            if (cell >= target.cells) continue;
            const auto column = static_cast<int32_t>(block.by_width(static_cast<uint32_t>(cell)).remainder) - columns.first;
            if (static_cast<uint32_t>(column) >= static_cast<uint32_t>(columns.count)) continue;
            target.sum[static_cast<int64_t>(cell) * block.pitch + l] += widen(dy[l]);
        }
    }
    // Adds dy[l] to the cell found[l] of channel l.
    BK_HD static void add_found(const Block& block, const Target& target, const T* dy) {
        for (int64_t l = 0; l < block.lanes; ++l) {
            const uint64_t cell = static_cast<uint64_t>(block.found[l]) - static_cast<uint64_t>(target.base);
            if (cell < target.cells) target.sum[static_cast<int64_t>(cell) * block.pitch + l] += widen(dy[l]);
        }
    }

    // visit(row of x, number of its first cell) for the rows of cells of windows, the last one first.
    template <class Visit>
    BK_HD void each_row_backwards(const Block& block, int32_t oa, int32_t ob, const Visit& visit) const {
        const Taps a = p.axis[0].taps(oa), b = p.axis[1].taps(ob);
        const T* const plane = arrays.x + p.x.plane(block.at.n, block.at.c);
        for (int32_t ka = a.count - 1; ka >= 0; --ka)
            for (int32_t kb = b.count - 1; kb >= 0; --kb) {
                const int32_t at_a = a.first + ka * p.axis[0].dilation, at_b = b.first + kb;
                visit(plane + p.x.at(at_a, at_b, 0), static_cast<int32_t>(p.cell_number(at_a, at_b, 0)));
            }
    }
    // found[i]: the number of the first cell of window range.first + i of a row that equals its y, or -1.
    BK_HD void find_in_row(const Block& block, int32_t oa, int32_t ob, Range range) const {
        const Axis& axis = p.axis[2];
        int32_t* const found = block.found;
        std::fill(found, found + range.count, -1);
        const T* const y = arrays.y + p.y.plane(block.at.n, block.at.c) + p.y.at(oa, ob, range.first);
        each_row_backwards(block, oa, ob, [&](const T* row, int32_t number) BK_INLINED {
            if (axis.is_adaptive) {
                for (int32_t i = 0; i < range.count; ++i) {
                    const Taps c = axis.taps(range.first + i);
                    for (int32_t k = c.first + c.count - 1; k >= c.first; --k)
                        if (equals(widen(row[k * p.x.axis[2]]), widen(y[i * p.y.axis[2]]))) found[i] = number + k;
                }
                return;
            }
            for (int32_t k = axis.kernel - 1; k >= 0; --k) {
                const int64_t at = int64_t{range.first} * axis.step - axis.pad_low + int64_t{k} * axis.dilation;
                const int64_t low = at >= 0 ? 0 : (-at + axis.step - 1) / axis.step;
                const int64_t high = std::min<int64_t>(range.count, at >= axis.in ? 0 : (axis.in - at - 1) / axis.step + 1);
                const int32_t column = number + static_cast<int32_t>(at);
                if (p.x.axis[2] == 1 && p.y.axis[2] == 1 && axis.step == 1)
                    find_tap<1>(row + at, 1, y, 1, column, low, high, found);
                else if (p.x.axis[2] == 1 && p.y.axis[2] == 1 && axis.step == 2)
                    find_tap<2>(row + at, 2, y, 1, column, low, high, found);
                else
                    find_tap<0>(row + at * p.x.axis[2], axis.step * p.x.axis[2], y, p.y.axis[2], column, low, high, found);
            }
        });
    }
    template <int kStep>
    BK_HD void find_tap(const T* x, int64_t of_x, const T* y, int64_t of_y, int32_t column, int64_t low, int64_t high,
                        int32_t* found) const {
        const int32_t step = p.axis[2].step;
        if (kStep > 0) {
            BK_VECTOR_LOOP
            for (int64_t i = low; i < high; ++i)
                found[i] = equals(widen(x[i * kStep]), widen(y[i])) ? column + static_cast<int32_t>(i) * kStep : found[i];
        } else {
            for (int64_t i = low; i < high; ++i)
                found[i] = equals(widen(x[i * of_x]), widen(y[i * of_y])) ? column + static_cast<int32_t>(i) * step : found[i];
        }
    }
    // found[l]: the number of the first cell of a window that equals y in channel l of the block.
    BK_HD void find_in_channels(const Block& block, int32_t oa, int32_t ob, int32_t oc) const {
        const Taps c = p.axis[2].taps(oc);
        int32_t* const found = block.found;
        const int32_t lanes = block.lanes;
        std::fill(found, found + lanes, -1);
        const T* const y = arrays.y + p.y.plane(block.at.n, block.at.c) + p.y.at(oa, ob, oc);
        each_row_backwards(block, oa, ob, [&](const T* row, int32_t number) BK_INLINED {
            for (int32_t k = c.count - 1; k >= 0; --k) {
                const int32_t column = c.first + k * p.axis[2].dilation;
                const T* const x = row + column * p.x.axis[2];
                BK_VECTOR_LOOP
                for (int32_t l = 0; l < lanes; ++l) found[l] = equals(widen(x[l]), widen(y[l])) ? number + column : found[l];
            }
        });
    }
};

}  // namespace bk::pool

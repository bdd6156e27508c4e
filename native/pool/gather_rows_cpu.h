// SPDX-License-Identifier: Apache-2.0
// Gradients of a row of cells of one plane on the CPU. Averages add the rows of windows first, then their columns; maxima
// without indices find them again by rows of windows, the last of which are cached, since neighbouring rows of cells share
// them.
#pragma once

#include "pool/gather_windows.h"
#include "pool/rows_cpu.h"

namespace bk::pool {

// The numbers of the greatest cells of rows of windows.
template <class T>
class WinnerRows {
public:
    WinnerRows(const Problem& problem, const GradientArrays<T>& arrays, const MaxOp<T>& op)
        : p_(problem), arrays_(arrays), rows_(problem, op) {}

    // Winners of at most kWinners windows of one row.
    static constexpr int kWinners = 128, kCached = 4;
    BK_HD const int64_t* find(const RowAt& at, int32_t oa, int32_t ob, Range range) {
        const int64_t row = ((at.n * p_.channels + at.c) * p_.axis[0].out + oa) * p_.axis[1].out + ob;
        int64_t* const found = number_[row % kCached];
        Key& key = key_[row % kCached];
        if (key.row == row && key.range.first == range.first && key.range.count >= range.count) return found;
        key = {row, range};
        const T* const plane = arrays_.x + p_.x.plane(at.n, at.c);
        for (int32_t first = range.first; first < range.end();) {
            const Range some = rows_.chunk(first, range.end());
            rows_.reduce(plane, oa, ob, some);
            for (int32_t i = 0; i < some.count; ++i) found[first - range.first + i] = rows_.number(i);
            first = some.end();
        }
        return found;
    }

private:
    struct Key {
        int64_t row = -1;
        Range range{};
    };
    const Problem& p_;
    const GradientArrays<T>& arrays_;
    RowReducer<MaxOp<T>, T> rows_;
    Key key_[kCached];
    int64_t number_[kCached][kWinners];
};

template <class Rule, class T>
class RowSummands;

template <class T>
struct RowGather {
    using C = compute_t<T>;
    static constexpr int kCells = 256;  // of a chunk
    const Problem& p;
    const GradientArrays<T>& arrays;
    const bool adds;

    // Cells [begin, end) of the row `at`, and the windows along the row that may have some of them.
    struct Chunk {
        RowAt at;
        int32_t begin, end;
        Cover windows;
    };

    template <class Rule>
    BK_HD void run(const Rule& rule, int64_t begin, int64_t end) const {
        RowSummands<Rule, T> summands(*this, rule);
        C sum[kCells];
        for (int64_t task = begin; task < end; ++task) {
            const RowAt at = RowAt::of(task, p.channels, p.axis[0].in, p.axis[1].in);
            const int64_t step = p.dx.axis[2];
            for (int32_t first = 0; first < p.axis[2].in; first += kCells) {
                const int32_t last = std::min(first + kCells, p.axis[2].in);
                T* const to = arrays.dx + p.dx.plane(at.n, at.c) + p.dx.at(at.a, at.b, first);
                const int32_t count = last - first;
                for (int32_t i = 0; i < count; ++i) sum[i] = adds ? widen(to[i * step]) : C(0);
                const Chunk chunk{at, first, last, {p.axis[2].cover(first).low, p.axis[2].cover(last - 1).high}};
                summands.add(chunk, sum);
                if (step == 1) {
                    BK_VECTOR_LOOP
                    for (int32_t i = 0; i < count; ++i) to[i] = narrow<T>(sum[i]);
                } else {
                    for (int32_t i = 0; i < count; ++i) to[i * step] = narrow<T>(sum[i]);
                }
            }
        }
    }

    template <class E>
    BK_HD E* row_of(E* base, const Strides& strides, const RowAt& at, int32_t oa, int32_t ob) const {
        return base + strides.plane(at.n, at.c) + strides.at(oa, ob, 0);
    }
    // visit(oa, ob) for the rows of windows that have the row of cells.
    template <class Visit>
    BK_HD void each_row(const RowAt& at, const Visit& visit) const {
        const Cover a = p.axis[0].cover(at.a), b = p.axis[1].cover(at.b);
        for (int32_t oa = a.low; oa <= a.high; ++oa)
            for (int32_t ob = b.low; ob <= b.high && p.axis[0].has(oa, at.a); ++ob)
                if (p.axis[1].has(ob, at.b)) visit(oa, ob);
    }
    // visit(range) for the chunk's windows, at most `most` at once.
    template <class Visit>
    BK_HD static void each_range(const Chunk& chunk, int32_t most, const Visit& visit) {
        for (int32_t first = chunk.windows.low; first <= chunk.windows.high;) {
            const Range range{first, std::min(most, chunk.windows.high - first + 1)};
            visit(range);
            if (range.end() > chunk.windows.high) break;
            first = range.end();
        }
    }
    // visit(i, cell) for windows range.first + i and their cells of the chunk, counted from chunk.begin; tap by tap, so that
    // cells of one inner loop are distinct.
    template <class Visit>
    BK_HD void each_pair(const Chunk& chunk, Range range, const Visit& visit) const {
        const Axis& axis = p.axis[2];
        const int32_t cells = chunk.end - chunk.begin;
        if (axis.is_adaptive) {
            for (int32_t i = 0; i < range.count; ++i) {
                const Taps c = axis.taps(range.first + i);
                const int32_t low = std::max(c.first, chunk.begin), high = std::min(c.first + c.count, chunk.end);
                for (int32_t cell = low; cell < high; ++cell) visit(i, cell - chunk.begin);
            }
            return;
        }
        for (int32_t k = 0; k < axis.kernel; ++k) {
            const int64_t at = int64_t{range.first} * axis.step - axis.pad_low + int64_t{k} * axis.dilation - chunk.begin;
            const int64_t low = at >= 0 ? 0 : (-at + axis.step - 1) / axis.step;
            const int64_t high = std::min<int64_t>(range.count, at >= cells ? 0 : (cells - at - 1) / axis.step + 1);
            if (axis.step == 1) {
                BK_VECTOR_LOOP
                for (int64_t i = low; i < high; ++i) visit(i, at + i);
            } else if (axis.step == 2) {
                BK_VECTOR_LOOP
                for (int64_t i = low; i < high; ++i) visit(i, at + 2 * i);
            } else {
                for (int64_t i = low; i < high; ++i) visit(i, at + i * axis.step);
            }
        }
    }
};

// Summands that the windows of a chunk add to its cells.
template <class T>
class RowSummands<AverageGradient, T> {
public:
    using C = compute_t<T>;
    using Chunk = typename RowGather<T>::Chunk;
    RowSummands(const RowGather<T>& gather, const AverageGradient& rule) : g_(gather), divisors_(gather.p, rule.divisor) {}

    BK_HD void add(const Chunk& chunk, C* sum) {
        const Problem& p = g_.p;
        const int64_t stride = p.dy.axis[2];
        g_.each_range(chunk, kColumns, [&](Range range) BK_INLINED {
            divisors_.prepare(range);
            for (int32_t i = 0; i < range.count; ++i) column_[i] = C(0);
            g_.each_row(chunk.at, [&](int32_t oa, int32_t ob) BK_INLINED {
                const C weight = C(1) / static_cast<C>(divisors_.rows(p.axis[0].taps(oa), p.axis[1].taps(ob)));
                const T* const dy = g_.row_of(g_.arrays.dy, p.dy, chunk.at, oa, ob) + range.first * stride;
                if (stride == 1) {
                    BK_VECTOR_LOOP
                    for (int32_t i = 0; i < range.count; ++i) column_[i] += widen(dy[i]) * weight;
                } else {
                    for (int32_t i = 0; i < range.count; ++i) column_[i] += widen(dy[i * stride]) * weight;
                }
            });
            BK_VECTOR_LOOP
            for (int32_t i = 0; i < range.count; ++i) column_[i] /= static_cast<C>(divisors_[i]);
            g_.each_pair(chunk, range, [&](int64_t i, int64_t cell) BK_INLINED { sum[cell] += column_[i]; });
        });
    }

private:
    const RowGather<T>& g_;
    RowDivisors divisors_;
    C column_[kColumns];
};

template <class T>
class RowSummands<NormGradient<T>, T> {
public:
    using C = compute_t<T>;
    using Chunk = typename RowGather<T>::Chunk;
    RowSummands(const RowGather<T>& gather, const NormGradient<T>& rule) : g_(gather), op_(rule.op) {}

    BK_HD void add(const Chunk& chunk, C* sum) const {
        const Problem& p = g_.p;
        const T* const x = g_.row_of(g_.arrays.x, p.x, chunk.at, chunk.at.a, chunk.at.b) + chunk.begin * p.x.axis[2];
        const int64_t of_x = p.x.axis[2], of_y = p.y.axis[2], of_dy = p.dy.axis[2];
        g_.each_range(chunk, kColumns, [&](Range range) BK_INLINED {
            g_.each_row(chunk.at, [&](int32_t oa, int32_t ob) BK_INLINED {
                const T* const dy = g_.row_of(g_.arrays.dy, p.dy, chunk.at, oa, ob) + range.first * of_dy;
                const T* const y = g_.row_of(g_.arrays.y, p.y, chunk.at, oa, ob) + range.first * of_y;
                g_.each_pair(chunk, range, [&](int64_t i, int64_t cell) BK_INLINED {
                    sum[cell] += widen(dy[i * of_dy]) * op_.slope(widen(x[cell * of_x]), widen(y[i * of_y]));
                });
            });
        });
    }

private:
    const RowGather<T>& g_;
    const NormOp<T> op_;
};

template <class T>
class RowSummands<MaxGradient, T> {
public:
    using C = compute_t<T>;
    using Chunk = typename RowGather<T>::Chunk;
    RowSummands(const RowGather<T>& gather, const MaxGradient& rule)
        : g_(gather), rule_(rule), op_{rule.is_absolute}, winners_(gather.p, gather.arrays, op_) {}

    BK_HD void add(const Chunk& chunk, C* sum) {
        const Problem& p = g_.p;
        const int64_t base = p.cell_number(chunk.at.a, chunk.at.b, chunk.begin);
        const uint64_t cells = static_cast<uint64_t>(chunk.end - chunk.begin);
        const bool is_given = g_.arrays.indices != nullptr;
        const int64_t step = is_given ? p.indices.axis[2] : 1, of_dy = p.dy.axis[2], of_x = p.x.axis[2];
        g_.each_row(chunk.at, [&](int32_t oa, int32_t ob) BK_INLINED {
            g_.each_range(chunk, WinnerRows<T>::kWinners, [&](Range range) BK_INLINED {
                const T* const dy = g_.row_of(g_.arrays.dy, p.dy, chunk.at, oa, ob) + range.first * of_dy;
                const int64_t* const numbers =
                    is_given ? g_.row_of(g_.arrays.indices, p.indices, chunk.at, oa, ob) + range.first * step
                             : winners_.find(chunk.at, oa, ob, range);
                for (int32_t i = 0; i < range.count; ++i) {
                    const uint64_t cell = static_cast<uint64_t>(numbers[i * step]) - static_cast<uint64_t>(base);  // any number
                    if (cell >= cells) continue;
                    const C gradient = widen(dy[i * of_dy]);
                    const bool is_reversed = rule_.is_absolute && is_negative(chunk, static_cast<int64_t>(cell) * of_x);
                    sum[cell] += is_reversed ? -gradient : gradient;
                }
            });
        });
    }

private:
    BK_HD bool is_negative(const Chunk& chunk, int64_t offset) const {
        const Problem& p = g_.p;
        const T* const row = g_.row_of(g_.arrays.x, p.x, chunk.at, chunk.at.a, chunk.at.b) + chunk.begin * p.x.axis[2];
        return widen(row[offset]) < C(0);
    }

    const RowGather<T>& g_;
    const MaxGradient rule_;
    const MaxOp<T> op_;
    WinnerRows<T> winners_;
};

}  // namespace bk::pool

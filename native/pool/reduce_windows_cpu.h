// SPDX-License-Identifier: Apache-2.0
// Forward pooling on the CPU: loops over adjacent channels, or over the columns of a plane (pool/rows_cpu.h). A task is a
// row of windows.
#pragma once

#include "core/row/parallel_rows_cpu.h"
#include "pool/reduce_windows.h"
#include "pool/rows_cpu.h"

namespace bk::pool {

template <class Op, class T>
struct WindowRows {
    using C = typename Op::C;
    const Problem& p;
    const Op& op;
    const T* x;
    T* y;
    int64_t* indices;

    BK_HD Divisor divisor() const {
        if constexpr (std::is_same_v<Op, AverageOp<T>>)
            return op.divisor;
        else
            return {false, 1};
    }

    BK_HD void planes(int64_t begin, int64_t end) const {
        RowReducer<Op, T> rows(p, op);
        RowDivisors divisors(p, divisor());
        const int32_t all = p.axis[2].out;
        for (int64_t task = begin; task < end; ++task) {
            const RowAt at = RowAt::of(task, p.channels, p.axis[0].out, p.axis[1].out);
            const T* const plane = x + p.x.plane(at.n, at.c);
            for (int32_t first = 0; first < all;) {
                const Range range = rows.chunk(first, all);
                rows.reduce(plane, at.a, at.b, range);
                divisors.prepare(range);
                const int64_t by = divisors.rows(rows.a(), rows.b()), step = p.y.axis[2];
                T* const to = y + p.y.plane(at.n, at.c) + p.y.at(at.a, at.b, first);
                if (rows.is_plain() && step == 1) {
                    BK_VECTOR_LOOP
                    for (int32_t i = 0; i < range.count; ++i) to[i] = narrow<T>(rows.finished(i, by * divisors[i]));
                } else {
                    for (int32_t i = 0; i < range.count; ++i) to[i * step] = narrow<T>(rows.value(i, by * divisors[i]));
                }
                if constexpr (Op::kHasPosition) {
                    first = range.end();
                    if (indices == nullptr) continue;
                    rows.write_numbers(indices + p.indices.plane(at.n, at.c) + p.indices.at(at.a, at.b, range.first),
                                       p.indices.axis[2]);
                }
                first = range.end();
            }
        }
    }

    BK_HD void channels(int64_t begin, int64_t end) const {
        for (int64_t task = begin; task < end; ++task) {
            const RowAt at = RowAt::of(task, 1, p.axis[0].out, p.axis[1].out);
            const Taps a = p.axis[0].taps(at.a), b = p.axis[1].taps(at.b);
            for (int32_t o = 0; o < p.axis[2].out; ++o) {
                const Taps c = p.axis[2].taps(o);
                const T* const from = x + at.n * p.x.batch + p.x.at(a.first, b.first, c.first);
                T* const to = y + at.n * p.y.batch + p.y.at(at.a, at.b, o);
                const int64_t number = at.n * p.indices.batch + p.indices.at(at.a, at.b, o);
                for (int64_t first = 0; first < p.channels; first += kChannels)
                    channel_chunk(a, b, c, from + first, std::min<int64_t>(kChannels, p.channels - first), to + first,
                                  indices == nullptr ? nullptr : indices + number + first);
            }
        }
    }

private:
    template <class Visit>
    BK_HD void each_cell(const Taps& a, const Taps& b, const Taps& c, const Visit& visit) const {
        int32_t t = 0;
        for (int32_t ka = 0; ka < a.count; ++ka)
            for (int32_t kb = 0; kb < b.count; ++kb)
                for (int32_t kc = 0; kc < c.count; ++kc)
                    visit(int64_t{ka} * p.axis[0].dilation * p.x.axis[0] + int64_t{kb} * p.axis[1].dilation * p.x.axis[1] +
                              int64_t{kc} * p.axis[2].dilation * p.x.axis[2],
                          t++);
    }
    BK_HD void channel_chunk(const Taps& a, const Taps& b, const Taps& c, const T* from, int64_t count, T* to,
                             int64_t* numbers) const {
        LaneArrays<Op, kChannels> lanes;
        lanes.start(op, count);
        each_cell(a, b, c, [&](int64_t offset, int32_t t) BK_INLINED {
            const T* const cell = from + offset;
            BK_VECTOR_LOOP
            for (int64_t l = 0; l < count; ++l) lanes.add(op, l, widen(cell[l]), t);
        });
        const int64_t by = divisor().of(a, b, c);
        int lost = 0;
        BK_VECTOR_LOOP
        for (int64_t l = 0; l < count; ++l) {
            to[l] = narrow<T>(op.finish(lanes.load(l), by));
            lost |= op.is_lost(lanes.load(l));
        }
        for (int64_t l = 0; lost != 0 && l < count; ++l) {
            if (!op.is_lost(lanes.load(l))) continue;
            to[l] = narrow<T>(op.recover(
                [&](const auto& use) { each_cell(a, b, c, [&](int64_t offset, int32_t) { use(widen(from[offset + l])); }); },
                by));
        }
        if constexpr (Op::kHasPosition) {
            if (numbers == nullptr) return;
            const int64_t cells = int64_t{a.count} * b.count * c.count;
            const auto number_of = [&](int32_t t) {
                const int32_t row = t / c.count;
                return p.cell_number(a.first + row / b.count * p.axis[0].dilation, b.first + row % b.count * p.axis[1].dilation,
                                     c.first + (t - row * c.count) * p.axis[2].dilation);
            };
            constexpr int kTable = 128;
            int64_t table[kTable];
            for (int32_t t = 0; cells <= kTable && t < cells; ++t) table[t] = number_of(t);
            for (int64_t l = 0; l < count; ++l) {
                const int32_t t = std::max(lanes.at[l], 0);
                numbers[l] = cells == 0 ? -1 : cells <= kTable ? table[t] : number_of(t);
            }
        }
    }
};

// One window that has the whole of a plane, whose cells are adjacent. A task is a plane.
template <class Op, class T>
struct WholePlanes {
    static constexpr int kLanes = 64;
    const WindowRows<Op, T>& rows;

    bool serve() const {
        const Problem& p = rows.p;
        int64_t step = 1;
        for (int d = kAxes - 1; d >= 0; --d) {
            const Axis& axis = p.axis[d];
            const Taps taps = axis.taps(0);
            const bool has_all = axis.out == 1 && taps.first == 0 && taps.count == axis.in && axis.dilation == 1;
            if (!has_all || (axis.in > 1 && p.x.axis[d] != step)) return false;
            step *= axis.in;
        }
        return p.cells() > 0 && p.cells() <= INT32_MAX;
    }
    BK_HD void run(int64_t begin, int64_t end) const {
        const Problem& p = rows.p;
        const Op& op = rows.op;
        const auto cells = static_cast<int32_t>(p.cells());
        const int64_t by = rows.divisor().of(p.axis[0].taps(0), p.axis[1].taps(0), p.axis[2].taps(0));
        LaneArrays<Op, kLanes> lanes;
        for (int64_t plane = begin; plane < end; ++plane) {
            const int64_t n = plane / p.channels, c = plane % p.channels;
            const T* const from = rows.x + p.x.plane(n, c);
            lanes.start(op, kLanes);
            int32_t first = 0;
            for (; first + kLanes <= cells; first += kLanes) {
                BK_VECTOR_LOOP
                for (int32_t l = 0; l < kLanes; ++l) lanes.add(op, l, widen(from[first + l]), first + l);
            }
            const int32_t left = cells - first;
            BK_VECTOR_LOOP
            for (int32_t l = 0; l < left; ++l) lanes.add(op, l, widen(from[first + l]), first + l);
            for (int width = kLanes / 2; width >= 8; width /= 2) {
                BK_VECTOR_LOOP
                for (int l = 0; l < width; ++l) combine(lanes, l, lanes.load(l + width));
            }
            typename Op::Lane lane = lanes.load(0);
            for (int l = 1; l < 8; ++l) op.combine(lane, lanes.load(l));
            const auto visit = [&](const auto& use) {
                for (int32_t i = 0; i < cells; ++i) use(widen(from[i]));
            };
            rows.y[p.y.plane(n, c)] = narrow<T>(op.is_lost(lane) ? op.recover(visit, by) : op.finish(lane, by));
            if constexpr (Op::kHasPosition) {
                if (rows.indices != nullptr) rows.indices[p.indices.plane(n, c)] = lane.at < 0 ? 0 : lane.at;
            }
        }
    }

private:
    BK_HD void combine(LaneArrays<Op, kLanes>& lanes, int l, const typename Op::Lane& other) const {
        typename Op::Lane lane = lanes.load(l);
        rows.op.combine(lane, other);
        lanes.store(l, lane);
    }
};

template <class Op, class T>
Status reduce_windows(const Launch&, const Problem& p, const Op& op, const T* x, T* y, int64_t* indices) {
    const WindowRows<Op, T> rows{p, op, x, y, indices};
    const int64_t per_plane = int64_t{p.axis[0].out} * p.axis[1].out;
    const int64_t bytes = p.axis[2].out * static_cast<int64_t>(sizeof(T)) * std::min<int64_t>(p.window_cells(), 4096);
    const bool by_channels = p.x.channel == 1 && p.y.channel == 1 && p.channels >= kLeastChannels && p.x.axis[2] != 1 &&
                             (indices == nullptr || p.indices.channel == 1);
    const WholePlanes<Op, T> whole{rows};
    if (whole.serve()) {
        parallel_rows(p.planes(), grain_for(p.cells() * static_cast<int64_t>(sizeof(T))),
                      [&](int64_t begin, int64_t end) { whole.run(begin, end); });
    } else if (by_channels) {
        parallel_rows(p.batch * per_plane, grain_for(bytes * p.channels),
                      [&](int64_t begin, int64_t end) { rows.channels(begin, end); });
    } else {
        parallel_rows(p.planes() * per_plane, grain_for(bytes), [&](int64_t begin, int64_t end) { rows.planes(begin, end); });
    }
    return Status::kOk;
}

}  // namespace bk::pool

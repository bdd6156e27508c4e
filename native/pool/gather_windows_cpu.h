// SPDX-License-Identifier: Apache-2.0
// Gradients of pooling on the CPU: loops over adjacent channels, or rows of cells of a plane. A task is a row of cells.
#pragma once

#include "core/abi/launch.h"
#include "core/row/parallel_rows_cpu.h"
#include "pool/gather_rows_cpu.h"
#include "pool/gather_windows.h"
#include "pool/scatter_maxima_cpu.h"

namespace bk::pool {

// Windows of all channels of one image, for loops over adjacent channels.
template <class T>
struct ChannelGather {
    using C = compute_t<T>;
    const Problem& p;
    const GradientArrays<T>& arrays;
    const bool adds;

    template <class Rule>
    BK_HD void run(const Rule& rule, int64_t begin, int64_t end) const {
        C sum[kChannels];
        for (int64_t task = begin; task < end; ++task) {
            const RowAt at = RowAt::of(task, 1, p.axis[0].in, p.axis[1].in);
            for (int32_t c = 0; c < p.axis[2].in; ++c) {
                T* const to = arrays.dx + at.n * p.dx.batch + p.dx.at(at.a, at.b, c);
                for (int64_t first = 0; first < p.channels; first += kChannels) {
                    const int64_t count = std::min<int64_t>(kChannels, p.channels - first);
                    for (int64_t l = 0; l < count; ++l) sum[l] = adds ? widen(to[first + l]) : C(0);
                    each_window(at, c, [&](int32_t oa, int32_t ob, int32_t oc) BK_INLINED {
                        add(rule, at, c, first, count, oa, ob, oc, sum);
                    });
                    BK_VECTOR_LOOP
                    for (int64_t l = 0; l < count; ++l) to[first + l] = narrow<T>(sum[l]);
                }
            }
        }
    }

private:
    template <class Visit>
    BK_HD void each_window(const RowAt& at, int32_t c, const Visit& visit) const {
        const Cover ca = p.axis[0].cover(at.a), cb = p.axis[1].cover(at.b), cc = p.axis[2].cover(c);
        for (int32_t oa = ca.low; oa <= ca.high; ++oa)
            for (int32_t ob = cb.low; ob <= cb.high && p.axis[0].has(oa, at.a); ++ob)
                for (int32_t oc = cc.low; oc <= cc.high && p.axis[1].has(ob, at.b); ++oc)
                    if (p.axis[2].has(oc, c)) visit(oa, ob, oc);
    }
    BK_HD const T* of(const T* base, const Strides& strides, const RowAt& at, int32_t a, int32_t b, int32_t c) const {
        return base + at.n * strides.batch + strides.at(a, b, c);
    }

    BK_HD void add(const NormGradient<T>& rule, const RowAt& at, int32_t c, int64_t first, int64_t count, int32_t oa,
                   int32_t ob, int32_t oc, C* sum) const {
        const T* const dy = of(arrays.dy, p.dy, at, oa, ob, oc) + first;
        const T* const y = of(arrays.y, p.y, at, oa, ob, oc) + first;
        const T* const x = of(arrays.x, p.x, at, at.a, at.b, c) + first;
        BK_VECTOR_LOOP
        for (int64_t l = 0; l < count; ++l) sum[l] += widen(dy[l]) * rule.op.slope(widen(x[l]), widen(y[l]));
    }
    BK_HD void add(const MaxGradient& rule, const RowAt& at, int32_t c, int64_t first, int64_t count, int32_t oa, int32_t ob,
                   int32_t oc, C* sum) const {
        const T* const dy = of(arrays.dy, p.dy, at, oa, ob, oc) + first;
        if (arrays.indices == nullptr) return add_first(rule, at, c, first, count, {oa, ob, oc}, dy, sum);
        const int64_t* const indices = arrays.indices + at.n * p.indices.batch + p.indices.at(oa, ob, oc) + first;
        const int64_t number = p.cell_number(at.a, at.b, c);
        BK_VECTOR_LOOP
        for (int64_t l = 0; l < count; ++l) sum[l] += math::select(indices[l] == number, widen(dy[l]), C(0));
    }

    struct WindowAt {
        int32_t a, b, c;
    };
    BK_HD void add_first(const MaxGradient& rule, const RowAt& at, int32_t c, int64_t first, int64_t count, const WindowAt& o,
                         const T* dy, C* sum) const {
        const auto size = [&](C value) BK_INLINED { return rule.is_absolute ? math::fabs<C>(value) : value; };
        const T* const y = of(arrays.y, p.y, at, o.a, o.b, o.c) + first;
        const T* const own = of(arrays.x, p.x, at, at.a, at.b, c) + first;
        int32_t takes[kChannels];
        int32_t any = 0;
        BK_VECTOR_LOOP
        for (int64_t l = 0; l < count; ++l) {
            takes[l] = equals(size(widen(own[l])), widen(y[l]));
            any |= takes[l];
        }
        const Taps ta = p.axis[0].taps(o.a), tb = p.axis[1].taps(o.b), tc = p.axis[2].taps(o.c);
        for (int32_t a = ta.first; any != 0 && a <= at.a; a += p.axis[0].dilation)
            for (int32_t kb = 0; any != 0 && kb < tb.count; ++kb) {
                const int32_t b = tb.first + kb * p.axis[1].dilation;
                if (a == at.a && b > at.b) break;
                const bool is_own_row = a == at.a && b == at.b;
                for (int32_t kc = 0; any != 0 && kc < tc.count; ++kc) {
                    const int32_t column = tc.first + kc * p.axis[2].dilation;
                    if (is_own_row && column >= c) break;
                    const T* const before = of(arrays.x, p.x, at, a, b, column) + first;
                    any = 0;
                    BK_VECTOR_LOOP
                    for (int64_t l = 0; l < count; ++l) {
                        takes[l] &= !equals(size(widen(before[l])), widen(y[l]));
                        any |= takes[l];
                    }
                }
            }
        if (any == 0) return;
        for (int64_t l = 0; l < count; ++l) {
            const bool is_reversed = rule.is_absolute && widen(own[l]) < C(0);
            if (takes[l] != 0) sum[l] += is_reversed ? -widen(dy[l]) : widen(dy[l]);
        }
    }
};

// Gradients of averages for loops over adjacent channels: the windows of a cell are looked up once and added up to four at a
// time, in order.
template <class T>
struct ChannelAverageGather {
    using C = compute_t<T>;
    const Problem& p;
    const GradientArrays<T>& arrays;
    const bool adds;

    BK_HD void run(const AverageGradient& rule, int64_t begin, int64_t end) const {
        RowDivisors divisors(p, rule.divisor);
        const Axis &a = p.axis[0], &b = p.axis[1], &c = p.axis[2];
        Windows windows;
        for (int64_t task = begin; task < end; ++task) {
            const RowAt at = RowAt::of(task, 1, a.in, b.in);
            const Cover ca = a.cover(at.a), cb = b.cover(at.b);
            for (int32_t cell = 0; cell < c.in; ++cell) {
                T* const to = arrays.dx + at.n * p.dx.batch + p.dx.at(at.a, at.b, cell);
                const Cover cc = c.cover(cell);
                C sum[kChannels];
                for (int64_t first = 0; first < p.channels; first += kChannels) {
                    const int64_t count = std::min<int64_t>(kChannels, p.channels - first);
                    BK_VECTOR_LOOP
                    for (int64_t l = 0; l < count; ++l) sum[l] = adds ? widen(to[first + l]) : C(0);
                    windows.count = 0;
                    for (int32_t oa = ca.low; oa <= ca.high; ++oa)
                        for (int32_t ob = cb.low; ob <= cb.high && a.has(oa, at.a); ++ob) {
                            if (!b.has(ob, at.b)) continue;
                            const auto rows = static_cast<C>(divisors.rows(a.taps(oa), b.taps(ob)));
                            const T* const dy = arrays.dy + at.n * p.dy.batch + p.dy.at(oa, ob, 0) + first;
                            for (int32_t oc = cc.low; oc <= cc.high; ++oc) {
                                if (!c.has(oc, cell)) continue;
                                divisors.prepare({oc - oc % kColumns, std::min(kColumns, c.out - oc + oc % kColumns)});
                                const C weight = C(1) / (rows * static_cast<C>(divisors[oc % kColumns]));
                                windows.add(dy + oc * p.dy.axis[2], weight, count, sum);
                            }
                        }
                    windows.flush(count, sum);
                    BK_VECTOR_LOOP
                    for (int64_t l = 0; l < count; ++l) to[first + l] = narrow<T>(sum[l]);
                }
            }
        }
    }

private:
    struct Windows {
        const T* dy[4];
        C weight[4];
        int count = 0;

        BK_HD void add(const T* at, C by, int64_t channels, C* sum) {
            dy[count] = at, weight[count] = by;
            if (++count == 4) flush(channels, sum);
        }
        BK_HD void flush(int64_t channels, C* sum) {
            if (count == 4) add_up<4>(0, channels, sum);
            if (count == 2 || count == 3) add_up<2>(0, channels, sum);
            if (count % 2 == 1) add_up<1>(count - 1, channels, sum);
            count = 0;
        }
        template <int N>
        BK_HD void add_up(int first, int64_t channels, C* sum) const {
            const T* from[N];
            C by[N];
            for (int n = 0; n < N; ++n) from[n] = dy[first + n], by[n] = weight[first + n];
            BK_VECTOR_LOOP
            for (int64_t l = 0; l < channels; ++l) {
                C s = sum[l];
                for (int n = 0; n < N; ++n) s += widen(from[n][l]) * by[n];
                sum[l] = s;
            }
        }
    };
};

// The gradient of an average over a whole plane: one value for all cells. A task is a plane.
template <class T>
struct PlaneFill {
    using C = compute_t<T>;
    const Problem& p;
    const GradientArrays<T>& arrays;

    bool serves() const {
        const auto covers = [](const Axis& axis) {
            return axis.out == 1 && axis.taps(0).first == 0 && axis.taps(0).count == axis.in;
        };
        const int64_t width = p.axis[2].in, rows = width * p.axis[1].in;
        return covers(p.axis[0]) && covers(p.axis[1]) && covers(p.axis[2]) && p.dx.axis[2] == 1 &&
               (p.axis[1].in == 1 || p.dx.axis[1] == width) && (p.axis[0].in == 1 || p.dx.axis[0] == rows);
    }
    BK_HD void run(const AverageGradient& rule, int64_t begin, int64_t end) const {
        RowDivisors divisors(p, rule.divisor);
        divisors.prepare({0, 1});
        const C weight = C(1) / static_cast<C>(divisors.rows(p.axis[0].taps(0), p.axis[1].taps(0)));
        const C columns = static_cast<C>(divisors[0]);
        const int64_t cells = p.cells();
        for (int64_t plane = begin; plane < end; ++plane) {
            const int64_t n = plane / p.channels, c = plane % p.channels;
            const T value = narrow<T>(C(0) + widen(arrays.dy[p.dy.plane(n, c)]) * weight / columns);
            T* const to = arrays.dx + p.dx.plane(n, c);
            BK_VECTOR_LOOP
            for (int64_t i = 0; i < cells; ++i) to[i] = value;
        }
    }
};

template <class Rule, class T>
Status gather_windows(const Launch&, const Problem& p, const Rule& rule, const GradientArrays<T>& arrays, bool adds) {
    const auto has_channels = [](const void* array, const Strides& strides) {
        return array == nullptr || strides.channel == 1;
    };
    const bool is_max = std::is_same_v<Rule, MaxGradient>;
    const bool by_channels = p.channels >= kLeastChannels && p.dx.axis[2] != 1 && has_channels(arrays.x, p.x) &&
                             has_channels(arrays.y, p.y) && has_channels(arrays.dy, p.dy) &&
                             has_channels(arrays.indices, p.indices) && has_channels(arrays.dx, p.dx) &&
                             (!is_max || arrays.indices != nullptr || arrays.y != nullptr);
    const int64_t rows = int64_t{p.axis[0].in} * p.axis[1].in;
    const int64_t bytes = p.axis[2].in * static_cast<int64_t>(4 * sizeof(T));
    if constexpr (std::is_same_v<Rule, MaxGradient>) {
        const ScatterMaxima<T> scatter{p, arrays, adds, by_channels};
        if (!rule.is_absolute && scatter.serves()) {
            parallel_rows(scatter.tasks(), grain_for(bytes * scatter.rows_per_block() * scatter.lanes()),
                          [&](int64_t begin, int64_t end) { scatter.run(begin, end); });
            return Status::kOk;
        }
    }
    if (by_channels) {
        using Gather = std::conditional_t<std::is_same_v<Rule, AverageGradient>, ChannelAverageGather<T>, ChannelGather<T>>;
        const Gather gather{p, arrays, adds};
        parallel_rows(p.batch * rows, grain_for(bytes * p.channels),
                      [&](int64_t begin, int64_t end) { gather.run(rule, begin, end); });
        return Status::kOk;
    }
    if constexpr (std::is_same_v<Rule, MaxGradient>) {
    }
    if constexpr (std::is_same_v<Rule, AverageGradient>) {
        const PlaneFill<T> fill{p, arrays};
        if (!adds && fill.serves()) {
            parallel_rows(p.planes(), grain_for(bytes * rows), [&](int64_t begin, int64_t end) { fill.run(rule, begin, end); });
            return Status::kOk;
        }
    }
    const RowGather<T> gather{p, arrays, adds};
    parallel_rows(p.planes() * rows, grain_for(bytes), [&](int64_t begin, int64_t end) { gather.run(rule, begin, end); });
    return Status::kOk;
}

template <class T>
Status max_gradient_from_x(const Launch& launch, const Problem& p, const T* x, const T* dy, T* dx) {
    return gather_windows(launch, p, MaxGradient{}, GradientArrays<T>{x, nullptr, dy, nullptr, dx});
}

}  // namespace bk::pool

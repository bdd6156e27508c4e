// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution on the CPU, vectorised along adjacent channels (NHWC).
//
// The weights of a chunk of channels are transposed to scratch, tap by tap. Interior results of a row are computed in groups,
// which share the loads of weights; at the edges a result sums the taps inside.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv/cpu/filter_gemm_cpu.h"
#include "conv/cpu/tap_sums_cpu.h"

namespace bk {

// Taps of an axis that lie inside for position q.
struct TapRange {
    int64_t begin, end;

    BK_HD TapRange(const TapAxis& a, int64_t q) {
        const int64_t at = a.first + q * a.step;
        begin = 0, end = a.taps;
        while (begin < end && !is_inside(a, at + begin * a.tap_step)) ++begin;
        while (end > begin && !is_inside(a, at + (end - 1) * a.tap_step)) --end;
    }
    static BK_HD bool is_inside(const TapAxis& a, int64_t at) { return at >= 0 && at < a.extent; }
    BK_HD bool is_whole(const TapAxis& a) const { return begin == 0 && end == a.taps; }
};

// Adjacent elements as a vector of the compute type.
template <class Vector, int kLanes, class T>
BK_HD Vector load_channels(const T* from) {
    using S = compute_t<T>;
    if constexpr (std::is_same_v<T, S>) {
        return *reinterpret_cast<const Vector*>(from);
    } else {
        S wide[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) wide[lane] = static_cast<S>(widen(from[lane]));
        return *reinterpret_cast<const Vector*>(wide);
    }
}

template <class S, int kBytes>
struct PixelChunks {
    static constexpr int kLanes = kBytes / static_cast<int>(sizeof(S));
    static constexpr int64_t kScratch = 16384 / static_cast<int64_t>(sizeof(S));

    // Channels of a chunk, a multiple of the vector width; 0 if the taps do not fit.
    static int64_t channels(const TapSums& p, int64_t scratch = kScratch) {
        const int64_t most = scratch / p.taps() / kLanes * kLanes, all = ceil_div<int64_t>(p.groups, kLanes) * kLanes;
        return std::min(most, all);
    }
};

template <class T, class Store, int kBytes>
struct DepthwisePixels {
    using S = compute_t<T>;
    using Problem = TapSumProblem<T, T, Store>;
    using Chunks = PixelChunks<S, kBytes>;
    typedef S Vector __attribute__((vector_size(kBytes), aligned(alignof(S)), may_alias));
    static constexpr int kLanes = Chunks::kLanes;

    static Status run(const Problem& problem) {
        const TapSums& p = problem.shape;
        const int64_t length = Chunks::channels(p), chunks = ceil_div(p.groups, length);
        const int64_t rows = p.batch * p.axis[0].positions * p.axis[1].positions;
        const int64_t work = p.axis[2].positions * p.taps() * length * static_cast<int64_t>(sizeof(S));
        split_ranges(rows * chunks, grain_for(work),
                     [&](int64_t begin, int64_t end) { run_rows(problem, length, rows, begin, end); });
        return Status::kOk;
    }

    static void run_rows(const Problem& problem, int64_t length, int64_t rows, int64_t begin, int64_t end) {
        const TapSums& p = problem.shape;
        alignas(64) S weights[Chunks::kScratch];
        int64_t current = -1;
        for (int64_t t = begin; t < end; ++t) {
            const int64_t first = t / rows * length, row = t % rows, count = std::min(length, p.groups - first);
            run_fused<kBytes>([&] {
                if (first != current) load_weights(p, problem.weight, first, count, length, weights);
                current = first;
            });
            run_row(problem, weights, first, count, length, row);
        }
    }

    static BK_HD void load_weights(const TapSums& p, const T* from, int64_t first, int64_t count, int64_t length, S* to) {
        TapCursor tap(p, 0, false);
        for (int64_t t = 0; t < p.taps(); ++t, tap.next_tap(p), to += length) {
            const T* const own = from + first * p.weight_g + tap.weight(p);
            for (int64_t c = 0; c < count; ++c) to[c] = static_cast<S>(widen(own[c * p.weight_g]));
            for (int64_t c = count; c < length; ++c) to[c] = S(0);
        }
    }

    // A row of results, kAtOnce interior ones at a time.
    static void run_row(const Problem& problem, const S* weights, int64_t first, int64_t count, int64_t length, int64_t row) {
        constexpr int kAtOnce = 4;
        const TapSums& p = problem.shape;
        PositionCursor at(p, row * p.axis[2].positions);
        const TapRange d(p.axis[0], at.q[0]), h(p.axis[1], at.q[1]);
        alignas(64) S sums[kAtOnce * 64];
        for (int64_t q = 0; q < p.axis[2].positions;) {
            const TapRange w(p.axis[2], q);
            const bool is_group = q + kAtOnce <= p.axis[2].positions && w.is_whole(p.axis[2]) &&
                                  TapRange(p.axis[2], q + kAtOnce - 1).is_whole(p.axis[2]);
            const int64_t at_once = is_group ? kAtOnce : 1;
            at.q[2] = q;
            const T* const source = problem.source + at.source(p) + first;
            for (int64_t c = 0; c < count; c += 64) {
                const int64_t width = std::min<int64_t>(count - c, 64);
                run_fused<kBytes>([&] {
                    if (is_group)
                        sum_channels<kAtOnce>(p, source + c, weights + c, length, width, d, h, w, sums);
                    else
                        sum_channels<1>(p, source + c, weights + c, length, width, d, h, w, sums);
                });
                run_unfused<kBytes>([&] {
                    for (int64_t x = 0; x < at_once; ++x)
                        problem.results.template of_position<64>(
                            sums + x * 64, first + c, width,
                            at.result(p) + x * p.axis[2].result_stride + (first + c) * p.result_c, p.result_c);
                });
            }
            q += at_once;
        }
    }

    template <int kAtOnce>
    static BK_HD void sum_channels(const TapSums& p, const T* source, const S* weights, int64_t length, int64_t count,
                                   const TapRange& d, const TapRange& h, const TapRange& w, S* sums) {
        BK_FUSE_PRODUCTS
        const int64_t step = p.axis[2].step * p.axis[2].source_stride, next = p.axis[2].tap_step * p.axis[2].source_stride;
        for (int64_t c = 0; c < count; c += kLanes) {
            Vector sum[kAtOnce] = {};
            const bool is_whole = c + kLanes <= count;
            for (int64_t t0 = d.begin; t0 < d.end; ++t0)
                for (int64_t t1 = h.begin; t1 < h.end; ++t1) {
                    const T* from = source + c + t0 * p.axis[0].tap_step * p.axis[0].source_stride +
                                    t1 * p.axis[1].tap_step * p.axis[1].source_stride + w.begin * next;
                    const S* factor = weights + ((t0 * p.axis[1].taps + t1) * p.axis[2].taps + w.begin) * length + c;
                    for (int64_t t2 = w.begin; t2 < w.end; ++t2, from += next, factor += length) {
                        const Vector own = *reinterpret_cast<const Vector*>(factor);
                        if (is_whole) {
#pragma GCC unroll 4
                            for (int x = 0; x < kAtOnce; ++x) sum[x] += own * load_channels<Vector, kLanes>(from + x * step);
                        } else {
                            for (int x = 0; x < kAtOnce; ++x) {
                                T last[kLanes] = {};
                                for (int64_t lane = 0; lane < count - c; ++lane) last[lane] = from[x * step + lane];
                                sum[x] += own * load_channels<Vector, kLanes>(last);
                            }
                        }
                    }
                }
            for (int x = 0; x < kAtOnce; ++x) *reinterpret_cast<Vector*>(sums + x * 64 + c) = sum[x];
        }
    }
};

// The gradient of the filter: a chunk of channels sums all positions in order, in the compute type over a row or more, and
// these in f64.
template <class T, int kBytes>
struct DepthwiseFilterPixels {
    using S = compute_t<T>;
    using Problem = FilterProblem<T>;
    typedef S Vector __attribute__((vector_size(kBytes), aligned(alignof(S)), may_alias));
    static constexpr int kLanes = kBytes / static_cast<int>(sizeof(S));
    static constexpr int64_t kScratch = 1024;
    static constexpr int64_t kMaxTaps = kScratch / kLanes;

    static Status run(const Problem& problem) {
        const TapSums& p = problem.shape;
        const int64_t length = std::min<int64_t>(kScratch / p.taps() / kLanes, 4) * kLanes;
        const int64_t work = p.batch * p.positions() * p.taps() * length * static_cast<int64_t>(sizeof(S));
        split_ranges(ceil_div(p.groups, length), grain_for(work), [&](int64_t begin, int64_t end) {
            for (int64_t chunk = begin; chunk < end; ++chunk)
                run_chunk(problem, length, chunk * length, std::min(length, p.groups - chunk * length));
        });
        return Status::kOk;
    }

    static void run_chunk(const Problem& problem, int64_t length, int64_t first, int64_t count) {
        const TapSums& p = problem.shape;
        const int64_t taps = p.taps();
        alignas(64) S sums[kScratch];
        double totals[kScratch];
        std::fill(sums, sums + taps * length, S(0));
        std::fill(totals, totals + taps * length, 0.0);
        constexpr int64_t kLeastSpan = 64;  // positions between additions to the totals
        const int64_t rows = p.batch * p.axis[0].positions * p.axis[1].positions;
        int64_t summed = 0;
        for (int64_t row = 0; row < rows; ++row) {
            PositionCursor at(p, row * p.axis[2].positions);
            run_fused<kBytes>([&] { add_row(problem, at, length, first, count, sums); });
            summed += p.axis[2].positions;
            if (summed < kLeastSpan && row + 1 < rows) continue;
            summed = 0;
            run_unfused<kBytes>([&] {
                for (int64_t x = 0; x < taps * length; ++x) {
                    totals[x] += static_cast<double>(sums[x]);
                    sums[x] = S(0);
                }
            });
        }
        TapCursor tap(p, 0, false);
        for (int64_t t = 0; t < taps; ++t, tap.next_tap(p))
            for (int64_t c = 0; c < count; ++c) {
                T* const result = problem.dw + (first + c) * p.weight_g + tap.weight(p);
                S value = problem.alpha * static_cast<S>(totals[t * length + c]);
                if (problem.beta != 0) value += problem.beta * static_cast<S>(widen(*result));
                if constexpr (std::is_same_v<T, S>)
                    *result = value;
                else
                    *result = narrow<T>(value);
            }
    }

    static BK_HD void add_row(const Problem& problem, PositionCursor at, int64_t length, int64_t first, int64_t count,
                              S* sums) {
        BK_FUSE_PRODUCTS
        const TapSums& p = problem.shape;
        const TapRange d(p.axis[0], at.q[0]), h(p.axis[1], at.q[1]);
        for (; at.q[2] < p.axis[2].positions; ++at.q[2]) {
            const TapRange w(p.axis[2], at.q[2]);
            const T* const dy = problem.dy + at.result(p) + first;
            const T* const source = problem.source + at.source(p) + first;
            for (int64_t c = 0; c < count; c += kLanes) {
                const bool is_whole = c + kLanes <= count;
                const Vector own = load(dy + c, is_whole ? kLanes : count - c);
                for (int64_t t0 = d.begin; t0 < d.end; ++t0)
                    for (int64_t t1 = h.begin; t1 < h.end; ++t1)
                        for (int64_t t2 = w.begin; t2 < w.end; ++t2) {
                            const T* const from = source + c + t0 * p.axis[0].tap_step * p.axis[0].source_stride +
                                                  t1 * p.axis[1].tap_step * p.axis[1].source_stride +
                                                  t2 * p.axis[2].tap_step * p.axis[2].source_stride;
                            S* const sum = sums + ((t0 * p.axis[1].taps + t1) * p.axis[2].taps + t2) * length + c;
                            *reinterpret_cast<Vector*>(sum) += own * load(from, is_whole ? kLanes : count - c);
                        }
            }
        }
    }
    static BK_HD Vector load(const T* from, int64_t count) {
        if (count == kLanes) return load_channels<Vector, kLanes>(from);
        T last[kLanes] = {};
        for (int64_t lane = 0; lane < count; ++lane) last[lane] = from[lane];
        return load_channels<Vector, kLanes>(last);
    }
};

}  // namespace bk

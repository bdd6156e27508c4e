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

    BK_HD TapRange(int64_t first, int64_t last) : begin(first), end(last) {}
    BK_HD TapRange(const TapAxis& a, int64_t q) {
        const int64_t at = a.first + q * a.step;
        begin = 0, end = a.taps;
        while (begin < end && !is_inside(a, at + begin * a.tap_step)) ++begin;
        while (end > begin && !is_inside(a, at + (end - 1) * a.tap_step)) --end;
    }
    static BK_HD bool is_inside(const TapAxis& a, int64_t at) { return at >= 0 && at < a.extent; }
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
    static constexpr int64_t kWidth = 64;                                     // channels that are summed together
    static constexpr int64_t kSums = 8192 / static_cast<int64_t>(sizeof(S));  // of kWidth channels at several positions

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

    // A row of results. Interior ones are computed in groups, which share weights; those at the edges one by one.
    static void run_row(const Problem& problem, const S* weights, int64_t first, int64_t count, int64_t length, int64_t row) {
        const TapSums& p = problem.shape;
        const TapAxis& w = p.axis[2];
        PositionCursor at(p, row * w.positions);
        const TapRange d(p.axis[0], at.q[0]), h(p.axis[1], at.q[1]);
        alignas(64) S sums[kSums];
        const int64_t most = std::max<int64_t>(kSums / kWidth, 1);
        for (int64_t c = 0; c < count; c += kWidth) {
            const int64_t width = std::min(count - c, kWidth), channel = first + c;
            for (at.q[2] = 0; at.q[2] < w.positions;) {
                const int64_t positions = std::min(w.positions - at.q[2], most);
                const T* const source = problem.source + at.source(p) + channel;
                run_fused<kBytes>(
                    [&] { sum_positions(p, source, weights + c, length, width, d, h, at.q[2], positions, sums); });
                run_unfused<kBytes>([&] {
                    for (int64_t x = 0; x < positions; ++x)
                        problem.results.template of_position<kWidth>(sums + x * kWidth, channel, width,
                                                                     at.result(p) + x * w.result_stride + channel * p.result_c,
                                                                     p.result_c);
                });
                at.q[2] += positions;
            }
        }
    }

    static BK_HD void sum_positions(const TapSums& p, const T* source, const S* weights, int64_t length, int64_t count,
                                    const TapRange& d, const TapRange& h, int64_t first, int64_t positions, S* sums) {
        const TapAxis& w = p.axis[2];
        const int64_t step = w.step * w.source_stride;
        const int64_t reach = (w.taps - 1) * w.tap_step, low = w.first + std::min<int64_t>(reach, 0);
        const int64_t high = w.first + std::max<int64_t>(reach, 0);
        // Interior positions have all taps inside: low + q * step >= 0 and high + q * step < extent.
        const int64_t begin = std::clamp<int64_t>((low < 0 ? ceil_div(-low, w.step) : 0) - first, 0, positions);
        const int64_t end =
            std::clamp<int64_t>((w.extent > high ? (w.extent - 1 - high) / w.step + 1 : 0) - first, begin, positions);
        const auto edge = [&](int64_t x) BK_INLINED {
            const TapRange taps(w, first + x);
            sum_channels<1, 4>(p, source + x * step, weights, length, count, d, h, taps, sums + x * kWidth);
        };
        for (int64_t x = 0; x < begin; ++x) edge(x);
        const TapRange whole(0, w.taps);
        int64_t x = begin;
        for (; x + 8 <= end; x += 8)
            sum_channels<8, 1>(p, source + x * step, weights, length, count, d, h, whole, sums + x * kWidth);
        for (; x + 4 <= end; x += 4)
            sum_channels<4, 1>(p, source + x * step, weights, length, count, d, h, whole, sums + x * kWidth);
        for (; x < positions; ++x) edge(x);
    }

    // Sums of kPositions positions, kVectors vectors of channels at a time.
    template <int kPositions, int kVectors>
    static BK_HD void sum_channels(const TapSums& p, const T* source, const S* weights, int64_t length, int64_t count,
                                   const TapRange& d, const TapRange& h, const TapRange& w, S* sums) {
        int64_t c = 0;
        for (; c + kVectors * kLanes <= count; c += kVectors * kLanes)
            sum_vectors<kPositions, kVectors>(p, source + c, weights + c, length, d, h, w, kLanes, sums + c);
        for (; c < count; c += kLanes)
            sum_vectors<kPositions, 1>(p, source + c, weights + c, length, d, h, w, std::min<int64_t>(count - c, kLanes),
                                       sums + c);
    }

    template <int kPositions, int kVectors>
    static BK_HD void sum_vectors(const TapSums& p, const T* source, const S* weights, int64_t length, const TapRange& d,
                                  const TapRange& h, const TapRange& w, int64_t lanes, S* sums) {
        BK_FUSE_PRODUCTS
        const int64_t step = p.axis[2].step * p.axis[2].source_stride, next = p.axis[2].tap_step * p.axis[2].source_stride;
        Vector sum[kPositions][kVectors] = {};
        for (int64_t t0 = d.begin; t0 < d.end; ++t0)
            for (int64_t t1 = h.begin; t1 < h.end; ++t1) {
                const T* from = source + t0 * p.axis[0].tap_step * p.axis[0].source_stride +
                                t1 * p.axis[1].tap_step * p.axis[1].source_stride + w.begin * next;
                const S* factor = weights + ((t0 * p.axis[1].taps + t1) * p.axis[2].taps + w.begin) * length;
                for (int64_t t2 = w.begin; t2 < w.end; ++t2, from += next, factor += length) {
                    if (lanes == kLanes) {
#pragma GCC unroll 4
                        for (int v = 0; v < kVectors; ++v) {
                            const Vector own = *reinterpret_cast<const Vector*>(factor + v * kLanes);
#pragma GCC unroll 8
                            for (int x = 0; x < kPositions; ++x)
                                sum[x][v] += own * load_channels<Vector, kLanes>(from + x * step + v * kLanes);
                        }
                    } else {
                        const Vector own = *reinterpret_cast<const Vector*>(factor);
                        for (int x = 0; x < kPositions; ++x) {
                            T last[kLanes] = {};
                            for (int64_t lane = 0; lane < lanes; ++lane) last[lane] = from[x * step + lane];
                            sum[x][0] += own * load_channels<Vector, kLanes>(last);
                        }
                    }
                }
            }
#pragma GCC unroll 8
        for (int x = 0; x < kPositions; ++x)
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) *reinterpret_cast<Vector*>(sums + x * kWidth + v * kLanes) = sum[x][v];
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

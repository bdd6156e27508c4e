// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution on the CPU, vectorised along rows of the image, for any strides.
//
// Rows of a plane that a block of results reads are copied to scratch in the compute type, with zeros for padding, and with
// each remainder modulo the step apart: every tap then reads adjacent elements, and no sum needs bounds. The gradient of
// the filter reads the same scratch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv/cpu/filter_gemm_cpu.h"
#include "conv/cpu/tap_sums_cpu.h"

namespace bk {

// Block sizes for scratch of a constant size; rows_w == 0 if not even one vector of results fits.
template <class S>
struct PlaneBlocks {
    static constexpr int64_t kScratch = 16384 / static_cast<int64_t>(sizeof(S));
    static constexpr int64_t kResults = 8192 / static_cast<int64_t>(sizeof(S));  // sums of a block
    static constexpr int64_t kSlack = 256 / static_cast<int64_t>(sizeof(S));     // read behind a row by the last vectors
    int64_t width = 0, height = 0;                                               // positions of a block along axes 2 and 1
    int64_t pitch = 0, rows = 0;  // elements of one remainder of a row; rows of a slice along axis 0

    explicit PlaneBlocks(const TapSums& p) {
        const TapAxis &h = p.axis[1], &w = p.axis[2];
        for (width = std::min(w.positions, kResults / 4);; width = ceil_div<int64_t>(width, 2)) {
            pitch = (width - 1) + ceil_div(reach(w), w.step) + kSlack;
            if (size(p, 1) <= kScratch) break;
            if (width == 1) {
                width = 0;
                return;
            }
        }
        for (height = 1; height < h.positions && (height + 1) * padded_width() <= kResults && size(p, height + 1) <= kScratch;)
            ++height;
        rows = (height - 1) * h.step + reach(h);
    }
    int64_t padded_width() const { return (width + kSlack - 1) / kSlack * kSlack; }

    static int64_t reach(const TapAxis& a) { return (a.taps - 1) * std::abs(a.tap_step) + 1; }
    // Elements of scratch for `count` rows of results.
    int64_t size(const TapSums& p, int64_t count) const {
        constexpr int64_t kMost = int64_t{1} << 20;
        const int64_t row = std::min(pitch, kMost) * std::min(p.axis[2].step, kMost);
        const int64_t all = std::min((count - 1) * p.axis[1].step + reach(p.axis[1]), kMost) * std::min(p.axis[0].taps, kMost);
        return std::min(row, kMost) * all;
    }
};

// Rows of a channel of one image, from the position q on; `scratch` has p.axis[0].taps slices of blocks.rows rows.
template <class T, class S>
BK_HD void load_planes(const TapSums& p, const PlaneBlocks<S>& blocks, const T* channel, const int64_t (&q)[kTapAxes],
                       int64_t height, int64_t width, S* scratch) {
    const TapAxis &d = p.axis[0], &h = p.axis[1], &w = p.axis[2];
    const int64_t rows = (height - 1) * h.step + blocks.reach(h);
    const int64_t low_h = h.first + q[1] * h.step + std::min<int64_t>((h.taps - 1) * h.tap_step, 0);
    const int64_t low_w = w.first + q[2] * w.step + std::min<int64_t>((w.taps - 1) * w.tap_step, 0);
    const int64_t length = (width - 1) + ceil_div(blocks.reach(w), w.step);
    const int64_t pitch = w.step * w.source_stride;
    for (int64_t remainder = 0; remainder < w.step; ++remainder) {
        const int64_t from = low_w + remainder;
        const int64_t first = from < 0 ? std::min(length, ceil_div(-from, w.step)) : 0;
        const int64_t end = from >= w.extent ? first : std::max(first, std::min(length, (w.extent - 1 - from) / w.step + 1));
        for (int64_t t = 0; t < d.taps; ++t) {
            const int64_t at_d = d.first + q[0] * d.step + t * d.tap_step;
            for (int64_t r = 0; r < rows; ++r) {
                const int64_t at_h = low_h + r;
                S* const to = scratch + ((t * blocks.rows + r) * w.step + remainder) * blocks.pitch;
                if (at_d < 0 || at_d >= d.extent || at_h < 0 || at_h >= h.extent) {
                    for (int64_t x = 0; x < length; ++x) to[x] = S(0);
                    continue;
                }
                const T* const own =
                    channel + at_d * d.source_stride + at_h * h.source_stride + (from + first * w.step) * w.source_stride;
                for (int64_t x = 0; x < first; ++x) to[x] = S(0);
                if (pitch == 1)
                    for (int64_t x = 0; x < end - first; ++x) to[first + x] = static_cast<S>(widen(own[x]));
                else if (pitch == 2)
                    for (int64_t x = 0; x < end - first; ++x) to[first + x] = static_cast<S>(widen(own[2 * x]));
                else
                    for (int64_t x = 0; x < end - first; ++x) to[first + x] = static_cast<S>(widen(own[x * pitch]));
                for (int64_t x = end; x < length; ++x) to[x] = S(0);
            }
        }
    }
}

// Offsets in scratch of what each tap reads for the first result.
template <class S>
struct PlaneTaps {
    static constexpr int64_t kMost = 256;
    int64_t count = 0;
    int32_t offset[kMost];

    PlaneTaps(const TapSums& p, const PlaneBlocks<S>& blocks) {
        const TapAxis &h = p.axis[1], &w = p.axis[2];
        TapCursor tap(p, 0, false);
        for (const int64_t all = p.taps(); count < all; tap.next_tap(p)) {
            const int64_t row = tap.t[0] * blocks.rows + shifted(h, tap.t[1]), shift = shifted(w, tap.t[2]);
            offset[count++] = static_cast<int32_t>((row * w.step + shift % w.step) * blocks.pitch + shift / w.step);
        }
    }
    // Coordinate of a tap relative to the first one that a window reads.
    static int64_t shifted(const TapAxis& a, int64_t t) { return (a.tap_step < 0 ? t - (a.taps - 1) : t) * a.tap_step; }
};

// The weights of a channel in the compute type, in the order of the taps.
template <class T, class S>
BK_HD void load_taps(const TapSums& p, const T* weight, S* to) {
    TapCursor tap(p, 0, false);
    for (int64_t t = 0, all = p.taps(); t < all; ++t, tap.next_tap(p)) to[t] = static_cast<S>(widen(weight[tap.weight(p)]));
}

template <class T, class Store, int kBytes>
struct DepthwisePlanes {
    using S = compute_t<T>;
    using Problem = TapSumProblem<T, T, Store>;
    using Blocks = PlaneBlocks<S>;
    typedef S Vector __attribute__((vector_size(kBytes), aligned(alignof(S)), may_alias));
    static constexpr int kLanes = kBytes / static_cast<int>(sizeof(S));

    // kRows rows of kVectors vectors of sums, `pitch` apart; rows of the scratch are `step` elements apart.
    template <int kRows, int kVectors>
    static BK_HD void sum_taps(const PlaneTaps<S>& taps, const S* weights, const S* scratch, int64_t step, S* sums,
                               int64_t pitch) {
        BK_FUSE_PRODUCTS
        Vector sum[kRows][kVectors] = {};
        for (int64_t t = 0; t < taps.count; ++t) {
            const S factor = weights[t];
            const S* const from = scratch + taps.offset[t];
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
                for (int v = 0; v < kVectors; ++v)
                    sum[r][v] += factor * *reinterpret_cast<const Vector*>(from + r * step + v * kLanes);
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) *reinterpret_cast<Vector*>(sums + r * pitch + v * kLanes) = sum[r][v];
    }
    // Rows of a single tile are adjacent: what the last vector of a row writes behind it, the next row replaces.
    static int64_t sums_pitch(const Blocks& blocks, int64_t width) {
        return width <= 2 * kLanes ? width : blocks.padded_width();
    }

    // All rows of a tile of kVectors vectors; the last group of rows overlaps the one before.
    template <int kRows, int kVectors>
    static BK_HD void sum_tile(const PlaneTaps<S>& taps, const S* weights, const S* scratch, int64_t step, int64_t height,
                               S* sums, int64_t pitch) {
        if (height < kRows) {
            for (int64_t r = 0; r < height; ++r)
                sum_taps<1, kVectors>(taps, weights, scratch + r * step, step, sums + r * pitch, pitch);
            return;
        }
        for (int64_t r = 0; r < height; r += kRows) {
            const int64_t first = std::min(r, height - kRows);
            sum_taps<kRows, kVectors>(taps, weights, scratch + first * step, step, sums + first * pitch, pitch);
        }
    }

    static BK_HD void sum_block(const TapSums& p, const Blocks& blocks, const PlaneTaps<S>& taps, const S* weights,
                                const S* scratch, int64_t height, int64_t width, S* sums) {
        const int64_t step = p.axis[1].step * p.axis[2].step * blocks.pitch, pitch = sums_pitch(blocks, width);
        if (width <= kLanes) return sum_tile<6, 1>(taps, weights, scratch, step, height, sums, pitch);
        if (width <= 2 * kLanes) return sum_tile<4, 2>(taps, weights, scratch, step, height, sums, pitch);
        for (int64_t x = 0; x < width; x += 4 * kLanes)
            sum_tile<2, 4>(taps, weights, scratch + x, step, height, sums + x, pitch);
    }

    static Status run(const Problem& problem) {
        const TapSums& p = problem.shape;
        const Blocks blocks(p);
        const PlaneTaps<S> taps(p, blocks);
        const int64_t work = p.positions() * p.taps() * static_cast<int64_t>(sizeof(S));
        split_ranges(p.batch * p.groups, grain_for(work), [&](int64_t begin, int64_t end) {
            for (int64_t plane = begin; plane < end; ++plane)
                run_plane(problem, blocks, taps, plane / p.groups, plane % p.groups);
        });
        return Status::kOk;
    }

    // Results of one group of one image.
    static void run_plane(const Problem& problem, const Blocks& blocks, const PlaneTaps<S>& taps, int64_t n, int64_t g) {
        const TapSums& p = problem.shape;
        alignas(64) S scratch[Blocks::kScratch];
        alignas(64) S sums[Blocks::kResults + Blocks::kSlack];
        const T* const channel = problem.source + n * p.source_n + g * p.source_c;
        alignas(64) S weights[PlaneTaps<S>::kMost];
        int64_t q[kTapAxes], loaded = -1;
        for (q[0] = 0; q[0] < p.axis[0].positions; ++q[0])
            for (q[1] = 0; q[1] < p.axis[1].positions; q[1] += blocks.height)
                for (q[2] = 0; q[2] < p.axis[2].positions; q[2] += blocks.width) {
                    const int64_t height = std::min(blocks.height, p.axis[1].positions - q[1]);
                    const int64_t width = std::min(blocks.width, p.axis[2].positions - q[2]);
                    run_unfused<kBytes>([&] { load_planes(p, blocks, channel, q, height, width, scratch); });
                    for (int64_t r = 0; r < p.outputs; ++r) {
                        run_fused<kBytes>([&] {
                            if (r != loaded) load_taps(p, problem.weight + g * p.weight_g + r * p.weight_out, weights);
                            sum_block(p, blocks, taps, weights, scratch, height, width, sums);
                        });
                        loaded = r;
                        run_unfused<kBytes>(
                            [&] { store_block(problem, blocks, n, g * p.outputs + r, q, height, width, sums); });
                    }
                }
    }

    static BK_HD void store_block(const Problem& problem, const Blocks& blocks, int64_t n, int64_t channel,
                                  const int64_t (&q)[kTapAxes], int64_t height, int64_t width, const S* sums) {
        const TapSums& p = problem.shape;
        const TapAxis &h = p.axis[1], &w = p.axis[2];
        const int64_t pitch = sums_pitch(blocks, width);
        const bool is_one = pitch == width && w.result_stride == 1 && (height == 1 || h.result_stride == width);
        const int64_t rows = is_one ? 1 : height, length = is_one ? height * width : width;
        for (int64_t r = 0; r < rows; ++r) {
            const int64_t at = n * p.result_n + channel * p.result_c + q[0] * p.axis[0].result_stride +
                               (q[1] + r) * h.result_stride + q[2] * w.result_stride;
            for (int64_t x = 0; x < length; x += 64)
                problem.results.template of_channel<64>(sums + r * pitch + x, channel, std::min<int64_t>(length - x, 64),
                                                        at + x * w.result_stride, w.result_stride);
        }
    }
};

// dw = alpha sum of dy source + beta dw of groups with one input channel: images in order, sums of a block of rows in vectors
// of the compute type, totals in f64.
template <class T, int kBytes>
struct DepthwiseFilterPlanes {
    using S = compute_t<T>;
    using Problem = FilterProblem<T>;
    using Blocks = PlaneBlocks<S>;
    typedef S Vector __attribute__((vector_size(kBytes), aligned(alignof(S)), may_alias));
    typedef std::conditional_t<sizeof(S) == 8, int64_t, int32_t> Lanes __attribute__((vector_size(kBytes)));
    static constexpr int kLanes = kBytes / static_cast<int>(sizeof(S));
    static constexpr int64_t kMaxTaps = PlaneTaps<S>::kMost;

    static Status run(const Problem& problem) {
        const TapSums& p = problem.shape;
        const Blocks blocks(p);
        const PlaneTaps<S> taps(p, blocks);
        const int64_t work = p.batch * p.positions() * p.taps() * static_cast<int64_t>(sizeof(S));
        split_ranges(p.groups * p.outputs, grain_for(work), [&](int64_t begin, int64_t end) {
            for (int64_t k = begin; k < end; ++k) run_channel(problem, blocks, taps, k / p.outputs, k % p.outputs);
        });
        return Status::kOk;
    }

    static void run_channel(const Problem& problem, const Blocks& blocks, const PlaneTaps<S>& plane_taps, int64_t g,
                            int64_t r) {
        const TapSums& p = problem.shape;
        alignas(64) S scratch[Blocks::kScratch];
        alignas(64) S dy[Blocks::kResults];
        double totals[kMaxTaps];
        const int64_t taps = p.taps();
        std::fill(totals, totals + taps, 0.0);
        for (int64_t n = 0; n < p.batch; ++n) {
            int64_t q[kTapAxes];
            const T* const channel = problem.source + n * p.source_n + g * p.source_c;
            const T* const of_dy = problem.dy + n * p.result_n + (g * p.outputs + r) * p.result_c;
            for (q[0] = 0; q[0] < p.axis[0].positions; ++q[0])
                for (q[1] = 0; q[1] < p.axis[1].positions; q[1] += blocks.height)
                    for (q[2] = 0; q[2] < p.axis[2].positions; q[2] += blocks.width) {
                        const int64_t height = std::min(blocks.height, p.axis[1].positions - q[1]);
                        const int64_t width = std::min(blocks.width, p.axis[2].positions - q[2]);
                        run_unfused<kBytes>([&] {
                            load_planes(p, blocks, channel, q, height, width, scratch);
                            load_dy(p, blocks, of_dy, q, height, width, dy);
                        });
                        run_fused<kBytes>([&] { add_block(p, blocks, plane_taps, scratch, height, width, dy, totals); });
                    }
        }
        T* const dw = problem.dw + g * p.weight_g + r * p.weight_out;
        TapCursor tap(p, 0, false);
        for (int64_t t = 0; t < taps; ++t, tap.next_tap(p)) {
            T* const result = dw + tap.weight(p);
            S value = problem.alpha * static_cast<S>(totals[t]);
            if (problem.beta != 0) value += problem.beta * static_cast<S>(widen(*result));
            if constexpr (std::is_same_v<T, S>)
                *result = value;
            else
                *result = narrow<T>(value);
        }
    }

    // Rows of dy in the compute type.
    static BK_HD void load_dy(const TapSums& p, const Blocks& blocks, const T* of_dy, const int64_t (&q)[kTapAxes],
                              int64_t height, int64_t width, S* dy) {
        const int64_t stride = p.axis[2].result_stride;
        for (int64_t r = 0; r < height; ++r) {
            const T* const from = of_dy + q[0] * p.axis[0].result_stride + (q[1] + r) * p.axis[1].result_stride + q[2] * stride;
            S* const to = dy + r * blocks.padded_width();
            for (int64_t x = 0; x < width; ++x) to[x] = static_cast<S>(widen(from[x * stride]));
        }
    }

    // Several taps at a time share the loads of dy.
    static BK_HD void add_block(const TapSums& p, const Blocks& blocks, const PlaneTaps<S>& taps, const S* scratch,
                                int64_t height, int64_t width, const S* dy, double* totals) {
        BK_FUSE_PRODUCTS
        const int64_t step = p.axis[1].step * p.axis[2].step * blocks.pitch, whole = width / kLanes * kLanes;
        Lanes is_in_row;
        for (int lane = 0; lane < kLanes; ++lane) is_in_row[lane] = lane < width - whole ? -1 : 0;
        constexpr int kAtOnce = 4;
        for (int64_t t = 0; t < taps.count; t += kAtOnce) {
            const int64_t first = std::max<int64_t>(std::min(t, taps.count - kAtOnce), 0);
            const S* from[kAtOnce];
            for (int k = 0; k < kAtOnce; ++k) from[k] = scratch + taps.offset[std::min(first + k, taps.count - 1)];
            Vector sum[kAtOnce] = {};
            for (int64_t r = 0; r < height; ++r) {
                const S* const own = dy + r * blocks.padded_width();
                for (int64_t x = 0; x < whole; x += kLanes) {
                    const Vector factor = *reinterpret_cast<const Vector*>(own + x);
#pragma GCC unroll 4
                    for (int k = 0; k < kAtOnce; ++k)
                        sum[k] += *reinterpret_cast<const Vector*>(from[k] + r * step + x) * factor;
                }
                if (whole < width) {  // lanes behind the row may hold anything
                    const Vector factor = *reinterpret_cast<const Vector*>(own + whole);
#pragma GCC unroll 4
                    for (int k = 0; k < kAtOnce; ++k) {
                        const Vector product = *reinterpret_cast<const Vector*>(from[k] + r * step + whole) * factor;
                        sum[k] += is_in_row ? product : Vector{};
                    }
                }
            }
            for (int64_t k = t - first; k < std::min<int64_t>(kAtOnce, taps.count - first); ++k) {
                double total = 0;
                for (int lane = 0; lane < kLanes; ++lane) total += static_cast<double>(sum[k][lane]);
                totals[first + k] += total;
            }
        }
    }
};

}  // namespace bk

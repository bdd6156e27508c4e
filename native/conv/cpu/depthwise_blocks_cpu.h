// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of small planes on the CPU (NCHW), vectorised over channels: rows of such planes are shorter than a
// vector. A vector of channels is transposed to scratch, with zeros for padding, where a position's channels are adjacent.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv/cpu/filter_gemm_cpu.h"
#include "conv/cpu/tap_sums_cpu.h"
#include "gemm/cpu/matmul_pack_cpu.h"

namespace bk {

template <class T, class Store, int kBytes>
struct DepthwiseBlocks {
    using Problem = TapSumProblem<T, T, Store>;
    typedef T Vector __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
    static constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
    static constexpr int64_t kMostPixels = 208, kMostTaps = 64, kMostPositions = 64;

    // Coordinates of the padded plane that taps read along an axis.
    static int64_t low(const TapAxis& a) { return a.first + std::min<int64_t>((a.taps - 1) * a.tap_step, 0); }
    static int64_t reach(const TapAxis& a) { return (a.positions - 1) * a.step + (a.taps - 1) * std::abs(a.tap_step) + 1; }

    // Planes of at most two axes whose rows fill less than half of a tile of the row kernels.
    static bool suits(const TapSums& p) {
        const TapAxis &h = p.axis[1], &w = p.axis[2];
        return std::is_floating_point_v<T> && p.outputs == 1 && p.groups >= kLanes && w.source_stride == 1 &&
               h.source_stride == w.extent && p.axis[0].positions == 1 && p.axis[0].extent == 1 && p.axis[0].taps == 1 &&
               p.axis[0].first == 0 && p.taps() <= kMostTaps && p.positions() <= kMostPositions &&
               h.extent * w.extent <= kMostPixels && reach(h) <= kMostPixels && reach(w) <= kMostPixels &&
               reach(h) * reach(w) <= kMostPixels;
    }

    static Status run(const Problem& problem) {
        const TapSums& p = problem.shape;
        const int64_t blocks = ceil_div<int64_t>(p.groups, kLanes);
        const int64_t work = p.positions() * p.taps() * kLanes * static_cast<int64_t>(sizeof(T));
        split_ranges(p.batch * blocks, grain_for(work), [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t) run_block(problem, t / blocks, t % blocks * kLanes);
        });
        return Status::kOk;
    }

    // Results of kLanes channels of image n, from `first` on.
    static void run_block(const Problem& problem, int64_t n, int64_t first) {
        const TapSums& p = problem.shape;
        const int64_t count = std::min<int64_t>(p.groups - first, kLanes), positions = p.positions();
        alignas(64) T pixels[kMostPixels * kLanes];  // of the padded plane
        alignas(64) T weights[kMostTaps * kLanes];
        alignas(64) T sums[kMostPositions * kLanes];
        run_unfused<kBytes>([&] {
            load_weights(p, problem.weight, first, count, weights);
            load_pixels(p, problem.source + n * p.source_n + first * p.source_c, count, pixels);
        });
        run_fused<kBytes>([&] { sum_positions(p, pixels, weights, sums); });
        run_unfused<kBytes>([&] {
            alignas(64) T results[kLanes * kMostPositions];
            pack_transposed<kBytes>(positions, kLanes, kMostPositions, results,
                                    [&](int64_t x, int64_t unit, int64_t, T*)
                                        BK_INLINED { return static_cast<const T*>(sums + x * kLanes + unit); });
            store(problem, n, first, count, results);
        });
    }

    static BK_HD void load_weights(const TapSums& p, const T* from, int64_t first, int64_t count, T* to) {
        TapCursor tap(p, 0, false);
        for (int64_t t = 0, all = p.taps(); t < all; ++t, tap.next_tap(p), to += kLanes)
            for (int64_t lane = 0; lane < kLanes; ++lane)
                to[lane] = lane < count ? from[(first + lane) * p.weight_g + tap.weight(p)] : T(0);
    }

    // Rows of the plane, transposed into the padded one.
    static BK_HD void load_pixels(const TapSums& p, const T* channels, int64_t count, T* to) {
        const TapAxis &h = p.axis[1], &w = p.axis[2];
        const int64_t low_h = low(h), low_w = low(w), width = reach(w);
        std::fill(to, to + reach(h) * width * kLanes, T(0));
        const int64_t begin = std::max<int64_t>(low_w, 0), end = std::min(low_w + width, w.extent);
        for (int64_t y = std::max<int64_t>(low_h, 0); y < std::min(low_h + reach(h), h.extent) && begin < end; ++y)
            pack_transposed<kBytes>(count, end - begin, kLanes, to + ((y - low_h) * width + begin - low_w) * kLanes,
                                    [&](int64_t lane, int64_t unit, int64_t units, T* buffer) BK_INLINED {
                                        copy_bytes(buffer, channels + lane * p.source_c + y * w.extent + begin + unit,
                                                   units * static_cast<int64_t>(sizeof(T)));
                                        return static_cast<const T*>(buffer);
                                    });
    }

    // Eight positions of a row at a time; the last group overlaps the one before.
    static BK_HD void sum_positions(const TapSums& p, const T* pixels, const T* weights, T* sums) {
        const TapAxis& w = p.axis[2];
        for (int64_t y = 0; y < p.axis[1].positions; ++y, sums += w.positions * kLanes) {
            if (w.positions < 4) {
                for (int64_t x = 0; x < w.positions; ++x) sum_group<1>(p, pixels, weights, y, x, sums);
            } else if (w.positions < 8) {
                sum_group<4>(p, pixels, weights, y, 0, sums);
                if (w.positions > 4) sum_group<4>(p, pixels, weights, y, w.positions - 4, sums);
            } else {
                for (int64_t x = 0; x < w.positions; x += 8)
                    sum_group<8>(p, pixels, weights, y, std::min(x, w.positions - 8), sums);
            }
        }
    }

    template <int kGroup>
    static BK_HD void sum_group(const TapSums& p, const T* pixels, const T* weights, int64_t y, int64_t x, T* sums) {
        BK_FUSE_PRODUCTS
        const TapAxis &h = p.axis[1], &w = p.axis[2];
        const int64_t width = reach(w), step = w.step * kLanes;
        const int64_t back_h = std::min<int64_t>((h.taps - 1) * h.tap_step, 0),
                      back_w = std::min<int64_t>((w.taps - 1) * w.tap_step, 0);
        Vector sum[kGroup] = {};
        for (int64_t t1 = 0; t1 < h.taps; ++t1) {
            const T* from = pixels + ((y * h.step + t1 * h.tap_step - back_h) * width + x * w.step - back_w) * kLanes;
            for (int64_t t2 = 0; t2 < w.taps; ++t2, from += w.tap_step * kLanes, weights += kLanes) {
                const Vector factor = *reinterpret_cast<const Vector*>(weights);
#pragma GCC unroll 8
                for (int k = 0; k < kGroup; ++k) sum[k] += factor * *reinterpret_cast<const Vector*>(from + k * step);
            }
        }
#pragma GCC unroll 8
        for (int k = 0; k < kGroup; ++k) *reinterpret_cast<Vector*>(sums + (x + k) * kLanes) = sum[k];
    }

    static BK_HD void store(const Problem& problem, int64_t n, int64_t first, int64_t count, const T* results) {
        const TapSums& p = problem.shape;
        const TapAxis &h = p.axis[1], &w = p.axis[2];
        const bool is_one = p.has_dense_positions();
        const int64_t rows = is_one ? 1 : h.positions, length = is_one ? p.positions() : w.positions;
        for (int64_t lane = 0; lane < count; ++lane)
            for (int64_t y = 0; y < rows; ++y)
                problem.results.template of_channel<kMostPositions>(
                    results + lane * kMostPositions + y * length, first + lane, length,
                    n * p.result_n + (first + lane) * p.result_c + y * h.result_stride, is_one ? 1 : w.result_stride);
    }
};

}  // namespace bk

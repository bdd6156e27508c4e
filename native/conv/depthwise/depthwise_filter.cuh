// SPDX-License-Identifier: Apache-2.0
// Gradient of a depthwise filter: a thread sums kFilterTaps taps of one row of the filter, for 16 bytes of adjacent channels
// or for one channel, over the rows of images, or the pixels, of its slice. Where pixels are as far apart as taps the inputs
// slide through registers. Partial sums of a block are added in the order of its threads, those of slices in their order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv/depthwise/depthwise_filter_rows.cuh"
#include "conv/problem.h"
#include "core/abi/workspace.h"
#include "core/math/math.h"
#include "core/types/vec.h"
#include "gemm/tiled/matmul_finish.cuh"
#include "gemm/tiled/matmul_split_k.cuh"

namespace bk {

constexpr int kFilterTaps = 4, kFilterThreads = 128, kMostTapBlocks = 16;

// Row k of the filter is the sum over images n and pixels o of dy[n, k, o] x[n, k / outputs, o * step + t * dilation - pad].
template <class T>
struct DepthwiseFilter {
    const T *x, *dy;
    Epilogue<T> e;
    SplitK<matmul_scalar_t<T>> split;
    ConvAxis axis[kConvAxes];
    ConvStrides of_x, of_y;
    int64_t channels, outputs;
    int64_t segments, slice;             // rows of all images, or pixels; of a slice
    int64_t chunks, tap_blocks, groups;  // blocks of channels; of taps, and blocks that share those
    int vectors, own_taps, slots;        // of a block: channel vectors, blocks of taps, segments at once
    bool slides;
};

template <class T, int kLanes>
__global__ void __launch_bounds__(kFilterThreads, 2) depthwise_filter_kernel(const __grid_constant__ DepthwiseFilter<T> p) {
    using C = compute_t<T>;
    BK_LAUNCH_SHARED(double, words);
    C* const partials = reinterpret_cast<C*>(words);
    const int thread = static_cast<int>(threadIdx.x), vector = thread % p.vectors, own_tap = thread / p.vectors % p.own_taps,
              slot = thread / p.vectors / p.own_taps;
    int64_t block = blockIdx.x;
    const int64_t chunk = block % p.chunks;
    block /= p.chunks;
    const int64_t group = block % p.groups, number = block / p.groups;
    const int64_t channel = (chunk * p.vectors + vector) * kLanes, tap_block = group * p.own_taps + own_tap;
    const ConvAxis &outer = p.axis[0], &middle = p.axis[1], &last = p.axis[2];
    const int64_t blocks_of_row = (last.taps + kFilterTaps - 1) / kFilterTaps, filter_row = tap_block / blocks_of_row,
                  first_tap = tap_block % blocks_of_row * kFilterTaps;
    const int64_t tap_outer = filter_row / middle.taps, tap_middle = filter_row % middle.taps;
    const bool is_active = slot < p.slots && channel < p.channels && tap_block < p.tap_blocks;

    const int first = static_cast<int>(first_tap), step = static_cast<int>(last.step),
              dilation = static_cast<int>(last.dilation), pad = static_cast<int>(last.pad);
    const unsigned extent = static_cast<unsigned>(last.in);

    C sums[kFilterTaps][kLanes] = {};
    if (is_active) {
        const int64_t begin = number * p.slice, end = begin + p.slice < p.segments ? begin + p.slice : p.segments;
        const T* const x = p.x + channel / p.outputs * p.of_x.channel;
        const T* const dy = p.dy + channel * p.of_y.channel;
        for (int64_t segment = begin + slot; segment < end; segment += p.slots) {
            // A segment is a row of pixels if channels are adjacent, else one pixel.
            int64_t rest = segment, from = 0, to = last.out;
            if (kLanes == 1) {
                from = rest % last.out;
                to = from + 1;
                rest /= last.out;
            }
            const int64_t q_middle = rest % middle.out;
            rest /= middle.out;
            const int64_t q_outer = rest % outer.out, n = rest / outer.out;
            const int64_t at_middle = q_middle * middle.step + tap_middle * middle.dilation - middle.pad;
            const int64_t at_outer = q_outer * outer.step + tap_outer * outer.dilation - outer.pad;
            if (at_middle < 0 || at_middle >= middle.in || at_outer < 0 || at_outer >= outer.in) continue;
            const T* const x_row = x + n * p.of_x.outer + at_outer * p.of_x.axis[0] + at_middle * p.of_x.axis[1];
            const T* const dy_row = dy + n * p.of_y.outer + q_outer * p.of_y.axis[0] + q_middle * p.of_y.axis[1];
            C inside[kFilterTaps][kLanes];
            const auto read = [&](int at, int64_t q, int tap) {
                const int coordinate = static_cast<int>(q) * step + (first + tap) * dilation - pad;
                const auto elements =
                    load_if<kLanes>(static_cast<unsigned>(coordinate) < extent, x_row + coordinate * p.of_x.axis[2]);
#pragma unroll
                for (int lane = 0; lane < kLanes; ++lane) inside[at][lane] = static_cast<C>(widen_lane(elements, lane));
            };
            const bool slides = kLanes > 1 && p.slides;
            if (slides) {
#pragma unroll
                for (int tap = 0; tap < kFilterTaps - 1; ++tap) read(tap, from, tap);
            }
            for (int64_t begin_q = from; begin_q < to; begin_q += kFilterTaps) {
#pragma unroll
                for (int i = 0; i < kFilterTaps; ++i) {
                    const int64_t q = begin_q + i;
                    if (q >= to) break;
                    if (slides) {
                        read((i + kFilterTaps - 1) % kFilterTaps, q, kFilterTaps - 1);
                    } else {
#pragma unroll
                        for (int tap = 0; tap < kFilterTaps; ++tap) read((i + tap) % kFilterTaps, q, tap);
                    }
                    const auto gradient = load<kLanes>(dy_row + q * p.of_y.axis[2]);
#pragma unroll
                    for (int lane = 0; lane < kLanes; ++lane) {
                        const C factor = static_cast<C>(widen_lane(gradient, lane));
#pragma unroll
                        for (int tap = 0; tap < kFilterTaps; ++tap)
                            sums[tap][lane] = math::fma(inside[(i + tap) % kFilterTaps][lane], factor, sums[tap][lane]);
                    }
                }
            }
        }
    }

    // Threads of one vector and block of taps are vectors * own_taps apart.
    constexpr int kOwn = kFilterTaps * kLanes;
#pragma unroll
    for (int tap = 0; tap < kFilterTaps; ++tap)
#pragma unroll
        for (int lane = 0; lane < kLanes; ++lane) partials[(tap * kLanes + lane) * kFilterThreads + thread] = sums[tap][lane];
    __syncthreads();
    const int together = p.vectors * p.own_taps;
    const int64_t all_taps = outer.taps * middle.taps * last.taps;
    for (int index = thread; index < kOwn * together; index += kFilterThreads) {
        const int own = index % kOwn, of = index / kOwn;
        const int64_t k = (chunk * p.vectors + of % p.vectors) * kLanes + own % kLanes;
        const int64_t of_block = group * p.own_taps + of / p.vectors;
        const int64_t tap = of_block % blocks_of_row * kFilterTaps + own / kLanes;
        if (k >= p.channels || of_block >= p.tap_blocks || tap >= last.taps) continue;
        C sum = 0;
        for (int other = 0; other < p.slots; ++other) sum += partials[own * kFilterThreads + of + other * together];
        const int64_t at = of_block / blocks_of_row * last.taps + tap;
        if (p.split.count > 1)
            p.split.partials[(number * p.channels + k) * all_taps + at] = sum;
        else
            p.e.store_one(0, k, at, sum);
    }
}

// Sets what follows from the shape and the lanes, and the blocks but for slices.
template <class T>
DepthwiseFilter<T> plan_depthwise_filter(const ConvShape& s, int lanes) {
    DepthwiseFilter<T> p{};
    for (int d = 0; d < kConvAxes; ++d) p.axis[d] = s.axis[d];
    p.of_x = s.x;
    p.of_y = s.y;
    p.channels = s.c_out;
    p.outputs = s.group_out();
    p.segments = s.batch * s.outputs() / (lanes == 1 ? 1 : s.axis[2].out);
    p.tap_blocks = s.axis[0].taps * s.axis[1].taps * ceil_div<int64_t>(s.axis[2].taps, kFilterTaps);
    const int64_t channel_vectors = ceil_div<int64_t>(p.channels, lanes);
    p.vectors = 1;
    if (lanes > 1)
        while (p.vectors < 8 && p.vectors < channel_vectors) p.vectors *= 2;
    p.own_taps = static_cast<int>(std::min<int64_t>(p.tap_blocks, lanes == 1 ? 1 : kMostTapBlocks));
    p.slots = kFilterThreads / p.vectors / p.own_taps;
    p.chunks = ceil_div<int64_t>(channel_vectors, p.vectors);
    p.groups = ceil_div<int64_t>(p.tap_blocks, p.own_taps);
    p.slides = s.axis[2].step == s.axis[2].dilation;
    return p;
}

// Slices that fill the reference chip; a slice has some segments for each slot.
template <class T>
int64_t depthwise_filter_slices(const DepthwiseFilter<T>& p) {
    constexpr int64_t kMinSegments = 8, kMostSlices = 256;
    const int64_t blocks = p.chunks * p.groups;
    const int64_t wanted = std::min({4 * kReferenceSms / blocks, p.segments / (kMinSegments * p.slots), kMostSlices});
    return std::max<int64_t>(wanted, 1);
}

// Lanes of the kernel for such operands.
template <class T>
int depthwise_filter_lanes(const ConvShape& s, const T* x, const T* dy) {
    constexpr int kLanes = kVectorLanes<T>;
    bool has_vectors = s.group_out() == 1 && s.x.channel == 1 && s.y.channel == 1 && s.c_out % kLanes == 0 &&
                       s.x.outer % kLanes == 0 && s.y.outer % kLanes == 0 && is_aligned(x, kVectorBytes) &&
                       is_aligned(dy, kVectorBytes);
    for (int d = 0; d < kConvAxes; ++d)
        has_vectors = has_vectors && (s.x.axis[d] % kLanes == 0 || s.axis[d].in == 1) &&
                      (s.y.axis[d] % kLanes == 0 || s.axis[d].out == 1);
    return has_vectors ? kLanes : 1;
}

template <class T>
size_t depthwise_filter_workspace(const ConvShape& s) {
    size_t most = 0;
    if (depthwise_filter_lanes<T>(s, nullptr, nullptr) > 1)
        if (const FilterRowsShape rows = filter_rows_shape(s, sizeof(T)); rows.is_valid()) most = filter_rows_workspace(rows);
    for (const int lanes : {depthwise_filter_lanes<T>(s, nullptr, nullptr), 1}) {
        Carver carver;
        carve_partials<T>(&carver, s.c_out, s.taps(), 1, depthwise_filter_slices(plan_depthwise_filter<T>(s, lanes)));
        most = std::max(most, carver.bytes());
    }
    return most;
}

template <class T>
Status depthwise_filter(const Launch& launch, const ConvShape& s, const T* x, const T* dy, const Epilogue<T>& e) {
    constexpr int kLanes = kVectorLanes<T>;
    const int lanes = depthwise_filter_lanes(s, x, dy);
    if (lanes > 1 && workspace_holds(launch, depthwise_filter_workspace<T>(s)))
        if (const FilterRowsShape rows = filter_rows_shape(s, sizeof(T)); rows.is_valid())
            return filter_rows(launch, s, rows, x, dy, e);
    DepthwiseFilter<T> p = plan_depthwise_filter<T>(s, lanes);
    p.x = x;
    p.dy = dy;
    p.e = e;
    p.split.count = workspace_holds(launch, depthwise_filter_workspace<T>(s)) ? depthwise_filter_slices(p) : 1;
    p.slice = ceil_div(p.segments, p.split.count);
    Carver carver(launch.workspace);
    if (p.split.count > 1) p.split.partials = carve_partials<T>(&carver, s.c_out, s.taps(), 1, p.split.count);
    int64_t blocks = 0;
    if (__builtin_mul_overflow(p.chunks * p.groups, p.split.count, &blocks) || blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld channels of %lld taps are more blocks than a grid has",
                    static_cast<long long>(s.c_out), static_cast<long long>(s.taps()));
    Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kFilterThreads)};
    grid.shared = static_cast<unsigned>(kFilterTaps * lanes * kFilterThreads * sizeof(compute_t<T>));
    BK_TRY(launch_kernel(launch, grid, lanes == 1 ? depthwise_filter_kernel<T, 1> : depthwise_filter_kernel<T, kLanes>, p));
    if (p.split.count == 1) return Status::kOk;
    return finish(launch, e, p.split, s.taps(), s.c_out, s.taps());
}

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Gradients of learned fake quantisation on a GPU in one pass over x and dy: a thread block has a part of a channel, writes its
// dx, and adds up both sums; a second launch adds the parts. Parts depend on the shape alone, so that sums keep their bits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/collectives/shuffle.cuh"
#include "core/math/fastdiv.h"
#include "core/reference_chip.h"
#include "core/types/vec.h"
#include "quantize/affine/learnable.h"

namespace bk::quantize {

constexpr int kLearnedThreads = 256, kLearnedAhead = 2;  // vectors of a thread that are read together
constexpr int64_t kLearnedBlocks = 16 * kReferenceSms, kLearnedVectors = 8 * kLearnedThreads;  // of a block, at least

// Parts of channels: those of [outer, scales, inner], whose runs of `inner` elements are whole vectors.
template <class T>
struct LearnedParts {
    int64_t scales, inner, vectors, parts, of_part;  // vectors of a channel and of a part
    FastDiv<uint32_t> by_run;

    // Parts of 0 vectors where the form does not serve.
    static LearnedParts of(const Scope& scope) {
        constexpr int kLanes = kVectorLanes<T>;
        const int64_t run = scope.inner / kLanes, vectors = scope.outer * run;
        if (sizeof(compute_t<T>) != 4 || scope.numel() == 0 || scope.inner % kLanes != 0 || vectors >= int64_t{1} << 31)
            return {0, 0, 0, 0, 0, {}};
        const int64_t wanted = std::max<int64_t>(1, kLearnedBlocks / scope.scales);
        const int64_t of_part = std::max(ceil_div(vectors, wanted), kLearnedVectors);
        return {scope.scales, scope.inner, vectors, ceil_div(vectors, of_part), of_part, FastDiv<uint32_t>(run)};
    }
    bool serves() const { return of_part > 0 && scales * parts <= kMaxGridX; }
    float* take_sums(Carver* carver) const { return parts > 1 ? carver->take<float>(2 * scales * parts) : nullptr; }
    size_t workspace() const {
        Carver carver;
        take_sums(&carver);
        return carver.bytes();
    }
};

template <class T>
struct LearnedCall {
    LearnedParts<T> parts;
    FakeQuantizeLearnableBackward<float> fn;
    const T *dy, *x, *scale, *zero_point;
    T *dx, *dscale, *dzero_point;  // any may be null
    float* sums;                   // of parts: [2, scales, parts]; null if channels are whole
};

struct LearnedSums {
    float scale, zero_point;
    BK_DEVICE LearnedSums across_lanes() const {
        LearnedSums all = *this;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const LearnedSums other = shuffle_xor(all, distance);
            all = {all.scale + other.scale, all.zero_point + other.zero_point};
        }
        return all;
    }
};

template <class T>
BK_DEVICE void store_sums(const LearnedCall<T>& call, int64_t channel, const LearnedSums& all) {
    if (call.dscale != nullptr) call.dscale[channel] = narrow<T>(all.scale);
    if (call.dzero_point != nullptr) call.dzero_point[channel] = narrow<T>(all.zero_point);
}

template <class T>
__global__ void __launch_bounds__(kLearnedThreads) learned_parts_kernel(const LearnedCall<T> call) {
    constexpr int kLanes = kVectorLanes<T>;
    __shared__ LearnedSums of_warps[kLearnedThreads / 32];
    const LearnedParts<T>& parts = call.parts;
    const int64_t part = static_cast<uint32_t>(blockIdx.x) / static_cast<uint32_t>(parts.scales);
    const int64_t channel = blockIdx.x - part * parts.scales, begin = part * parts.of_part;
    const int64_t end = min(begin + parts.of_part, parts.vectors);
    const Affine<float> affine = call.fn.affine(widen(call.scale[channel]), widen(call.zero_point[channel]));
    LearnedSums mine{0.0f, 0.0f};
    for (int64_t first = begin + threadIdx.x; first < end; first += kLearnedAhead * kLearnedThreads) {
        Vec<T, kLanes> dy[kLearnedAhead], x[kLearnedAhead];
        int64_t at[kLearnedAhead];
#pragma unroll
        for (int i = 0; i < kLearnedAhead; ++i) {
            const int64_t v = first + i * kLearnedThreads;
            const auto run = parts.by_run(static_cast<uint32_t>(v));
            at[i] = (run.quotient * parts.scales + channel) * parts.inner + int64_t{run.remainder} * kLanes;
            dy[i] = load_if<kLanes>(v < end, call.dy + at[i]);
            x[i] = load_if<kLanes>(v < end, call.x + at[i]);
        }
#pragma unroll
        for (int i = 0; i < kLearnedAhead; ++i) {
            if (first + i * kLearnedThreads >= end) break;
            Vec<T, kLanes> dx;
#pragma unroll
            for (int lane = 0; lane < kLanes; ++lane) {
                const auto found = call.fn.at(widen_lane(dy[i], lane), widen_lane(x[i], lane), affine);
                dx.lane[lane] = narrow<T>(get<0>(found));
                mine.scale += get<1>(found);
                mine.zero_point += get<2>(found);
            }
            if (call.dx != nullptr) store<kLanes>(call.dx + at[i], dx);
        }
    }
    mine = mine.across_lanes();
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int w = 1; w < kLearnedThreads / 32; ++w)
        mine = {mine.scale + of_warps[w].scale, mine.zero_point + of_warps[w].zero_point};
    if (call.sums == nullptr) return store_sums(call, channel, mine);
    call.sums[channel * parts.parts + part] = mine.scale;
    call.sums[(parts.scales + channel) * parts.parts + part] = mine.zero_point;
}

// A warp a channel.
template <class T>
__global__ void __launch_bounds__(kLearnedThreads) learned_sums_kernel(const LearnedCall<T> call) {
    const LearnedParts<T>& parts = call.parts;
    const int64_t channel = (int64_t{blockIdx.x} * kLearnedThreads + threadIdx.x) / 32;
    if (channel >= parts.scales) return;
    LearnedSums mine{0.0f, 0.0f};
    for (int64_t part = threadIdx.x % 32; part < parts.parts; part += 32) {
        mine.scale += call.sums[channel * parts.parts + part];
        mine.zero_point += call.sums[(parts.scales + channel) * parts.parts + part];
    }
    mine = mine.across_lanes();
    if (threadIdx.x % 32 == 0) store_sums(call, channel, mine);
}

template <class T>
Status run_learned_parts(const Launch& launch, const LearnedCall<T>& call) {
    const LearnedParts<T>& parts = call.parts;
    LearnedCall<T> own = call;
    Carver carver(launch.workspace);
    own.sums = parts.take_sums(&carver);
    const Grid grid{dim3(static_cast<unsigned>(parts.scales * parts.parts)), dim3(kLearnedThreads)};
    BK_TRY(launch_kernel(launch, grid, learned_parts_kernel<T>, own));
    if (own.sums == nullptr) return Status::kOk;
    const Grid rest{dim3(static_cast<unsigned>(ceil_div<int64_t>(parts.scales * 32, kLearnedThreads))), dim3(kLearnedThreads)};
    return launch_kernel(launch, rest, learned_sums_kernel<T>, own);
}

}  // namespace bk::quantize

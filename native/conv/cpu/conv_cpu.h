// SPDX-License-Identifier: Apache-2.0
// Convolution on the CPU: the problems of the three directions as sums over taps, and the kernels that compute them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "conv/core.h"
#include "conv/cpu/depthwise_blocks_cpu.h"
#include "conv/cpu/depthwise_pixels_cpu.h"
#include "conv/cpu/depthwise_planes_cpu.h"
#include "conv/cpu/filter_gemm_cpu.h"
#include "conv/cpu/implicit_gemm_cpu.h"

namespace bk {

// --- kernels ---

template <class P, Packing kPacking, int kBytes>
struct BlocksOf;
template <class T, class W, class Store, Packing kPacking, int kBytes>
struct BlocksOf<TapSumProblem<T, W, Store>, kPacking, kBytes> : TapSumBlocks<T, W, Store, kPacking, kBytes> {};
template <class T, Packing kPacking, int kBytes>
struct BlocksOf<FilterProblem<T>, kPacking, kBytes> : FilterBlocks<T, kPacking, kBytes> {};

// use(blocks) with the blocks that suit the machine.
template <class T, class P, class Use>
auto with_blocks(const P&, const Use& use) {
#if BK_ISA_DISPATCH
    if constexpr (kDotPacking<T> != kFmaPacking<T>)
        if (has_dot_products()) return use(BlocksOf<P, kDotPacking<T>, 64>{});
    if (vector_bytes() == 64) return use(BlocksOf<P, kFmaPacking<T>, 64>{});
    if (vector_bytes() == 32) return use(BlocksOf<P, kFmaPacking<T>, 32>{});
#endif
    return use(BlocksOf<P, kFmaPacking<T>, 16>{});
}

template <class T, class P>
Status multiply_taps(const Launch& launch, const P& p) {
    return with_blocks<T>(p, [&](auto blocks) { return blocks.run(launch, p); });
}

template <class T, class P>
size_t taps_workspace(const P& p) {
    return with_blocks<T>(p, [&](auto blocks) { return blocks.workspace(p); });
}

// Sums over one channel, for which products of matrices would have one row: direct kernels.
constexpr int64_t kMostDirectOutputs = 4;

template <class T, int kBytes, class Store>
bool sum_direct(const TapSumProblem<T, T, Store>& p) {
    const TapSums& s = p.shape;
    if (s.inputs != 1 || s.outputs > kMostDirectOutputs || s.taps() == 0) return false;
    if (s.source_c == 1 && s.groups > 1 && s.outputs == 1 && PixelChunks<compute_t<T>, kBytes>::channels(s) > 0) {
        (void)DepthwisePixels<T, Store, kBytes>::run(p);
        return true;
    }
    if constexpr (std::is_floating_point_v<T>)
        if (DepthwiseBlocks<T, Store, kBytes>::suits(s)) {
            (void)DepthwiseBlocks<T, Store, kBytes>::run(p);
            return true;
        }
    if (s.taps() > PlaneTaps<compute_t<T>>::kMost || PlaneBlocks<compute_t<T>>(s).width == 0) return false;
    (void)DepthwisePlanes<T, Store, kBytes>::run(p);
    return true;
}

template <class T, int kBytes>
bool sum_direct(const FilterProblem<T>& p) {
    const TapSums& s = p.shape;
    if (s.inputs != 1 || s.outputs > kMostDirectOutputs) return false;
    if (s.source_c == 1 && s.result_c == 1 && s.groups > 1 && s.outputs == 1 &&
        s.taps() <= DepthwiseFilterPixels<T, kBytes>::kMaxTaps) {
        (void)DepthwiseFilterPixels<T, kBytes>::run(p);
        return true;
    }
    if (s.taps() > DepthwiseFilterPlanes<T, kBytes>::kMaxTaps || PlaneBlocks<compute_t<T>>(s).width == 0) return false;
    (void)DepthwiseFilterPlanes<T, kBytes>::run(p);
    return true;
}

template <class T, class P>
Status sum_taps(const Launch& launch, const P& p) {
#if BK_ISA_DISPATCH
    if (vector_bytes() == 64) return sum_direct<T, 64>(p) ? Status::kOk : multiply_taps<T>(launch, p);
    if (vector_bytes() == 32) return sum_direct<T, 32>(p) ? Status::kOk : multiply_taps<T>(launch, p);
#endif
    return sum_direct<T, 16>(p) ? Status::kOk : multiply_taps<T>(launch, p);
}

// --- directions ---

template <class T>
Status conv_forward(const Launch& launch, const ConvShape& shape, const matmul_element_t<T>* x, const matmul_element_t<T>* w,
                    matmul_element_t<T>* y, const ConvEpilogue<T>& epilogue) {
    const TapSumProblem<T, T, TapSumStore<T>> p{forward_sums(shape), x, w, {epilogue, y}};
    return sum_taps<T>(launch, p);
}

template <class T>
Status conv_backward_data(const Launch& launch, const ConvShape& shape, const matmul_element_t<T>* dy,
                          const matmul_element_t<T>* w, matmul_element_t<T>* dx, const ConvEpilogue<T>& epilogue) {
    const TapSumStore<T> results{epilogue, dx};
    return for_each_phase(shape, [&](const DataPhase& phase) {
        const TapSumProblem<T, T, TapSumStore<T>> p{phase.sums, dy, w + phase.weight, results.moved(phase.result)};
        return sum_taps<T>(launch, p);
    });
}

template <class T>
Status conv_backward_filter(const Launch& launch, const ConvShape& shape, const matmul_element_t<T>* x,
                            const matmul_element_t<T>* dy, matmul_element_t<T>* dw, matmul_scalar_t<T> alpha,
                            matmul_scalar_t<T> beta) {
    const FilterProblem<T> p{forward_sums(shape), x, dy, dw, alpha, beta};
    return sum_taps<T>(launch, p);
}

template <class T>
size_t conv_workspace(const ConvShape& shape, ConvDirection direction) {
    if (shape.is_empty(direction)) return 0;
    if (direction == ConvDirection::kBackwardFilter)
        return taps_workspace<T>(FilterProblem<T>{forward_sums(shape), nullptr, nullptr, nullptr, 1, 0});
    const auto bytes = [](const TapSums& sums) {
        return taps_workspace<T>(TapSumProblem<T, T, TapSumStore<T>>{sums, nullptr, nullptr, {}});
    };
    if (direction == ConvDirection::kForward) return bytes(forward_sums(shape));
    size_t most = 0;
    for_each_phase_with_taps(shape, [&](const DataPhase& phase) { most = std::max(most, bytes(phase.sums)); });
    return most;
}

}  // namespace bk

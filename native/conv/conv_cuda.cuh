// SPDX-License-Identifier: Apache-2.0
// The choice of a convolution's kernel on the GPU. conv_*.cu instantiate it for a dtype each.
#pragma once

#include <cstddef>
#include <type_traits>

#include "conv/core.h"
#include "conv/depthwise/depthwise_filter.cuh"
#include "conv/depthwise/depthwise_sums.cuh"
#include "conv/epilogue.h"
#include "conv/narrow/narrow_filter.cuh"
#include "conv/narrow/narrow_sums.cuh"
#include "conv/pointwise_wgmma.cuh"
#include "conv/sm90/conv_wgmma.h"
#include "conv/tap_sums.h"
#include "conv/tiled/launch.cuh"

namespace bk {

// Whether direct kernels compute it: products of matrices would have few columns.
constexpr int64_t kMostMultiplier = 8;
inline bool is_direct(const ConvShape& s) { return s.is_depthwise() && s.group_out() <= kMostMultiplier; }

// The type of the direct kernels, which have no tensor cores.
template <class T>
using direct_t = std::conditional_t<std::is_same_v<T, tf32>, float, T>;

// The epilogue of a direct kernel: d[channel, offset].
template <class T>
Epilogue<direct_t<T>> direct_epilogue(const ConvEpilogue<T>& given, matmul_element_t<T>* result, int64_t channel_stride) {
    auto e = conv_epilogue<direct_t<T>>(given, result, channel_stride);
    e.row_bias = given.bias;
    return e;
}

template <class T>
Status conv_forward(const Launch& launch, const ConvShape& s, const matmul_element_t<T>* x, const matmul_element_t<T>* w,
                    matmul_element_t<T>* y, const ConvEpilogue<T>& epilogue) {
    if (is_direct(s))
        if (const TapSums sums = forward_sums(s); has_depthwise_sums(sums))
            return depthwise_sums<direct_t<T>>(launch, sums, x, w, direct_epilogue(epilogue, y, s.y.channel));
    bool is_done = false;
    BK_TRY(conv_by_narrow<T>(launch, s, ConvDirection::kForward, x, w, y, epilogue, &is_done));
    if (is_done) return Status::kOk;
    if (is_pointwise(s)) {
        BK_TRY(multiply_pixels<T>(launch, s.batch * s.outputs(), s.c_out, s.c_in, x, w, true, y, epilogue, &is_done));
        if (is_done) return Status::kOk;
    }
    BK_TRY(multiply_planes<T>(launch, s, ConvDirection::kForward, x, w, y, epilogue, &is_done));
    if (is_done) return Status::kOk;
    BK_TRY(conv_by_wgmma<T>(launch, s, ConvDirection::kForward, x, w, y, epilogue, &is_done));
    if (is_done) return Status::kOk;
    return conv_by_gemm<T>(launch, s, ConvDirection::kForward, x, w, nullptr, y, epilogue);
}

template <class T>
Status conv_backward_data(const Launch& launch, const ConvShape& s, const matmul_element_t<T>* dy, const matmul_element_t<T>* w,
                          matmul_element_t<T>* dx, const ConvEpilogue<T>& epilogue) {
    if (is_direct(s) && has_depthwise_phases(s))
        return for_each_phase(s, [&](const DataPhase& phase) {
            const Epilogue<direct_t<T>> e = direct_epilogue(epilogue, dx, s.x.channel);
            return depthwise_sums<direct_t<T>>(launch, phase.sums, dy, w + phase.weight, offset_epilogue(e, phase.result));
        });
    bool is_done = false;
    BK_TRY(conv_by_narrow<T>(launch, s, ConvDirection::kBackwardData, dy, w, dx, epilogue, &is_done));
    if (is_done) return Status::kOk;
    if (is_pointwise(s)) {
        BK_TRY(multiply_pixels<T>(launch, s.batch * s.outputs(), s.c_in, s.c_out, dy, w, false, dx, epilogue, &is_done));
        if (is_done) return Status::kOk;
    }
    BK_TRY(multiply_planes<T>(launch, s, ConvDirection::kBackwardData, dy, w, dx, epilogue, &is_done));
    if (is_done) return Status::kOk;
    BK_TRY(conv_by_wgmma<T>(launch, s, ConvDirection::kBackwardData, dy, w, dx, epilogue, &is_done));
    if (is_done) return Status::kOk;
    return conv_by_gemm<T>(launch, s, ConvDirection::kBackwardData, nullptr, w, dy, dx, epilogue);
}

template <class T>
Status conv_backward_filter(const Launch& launch, const ConvShape& s, const matmul_element_t<T>* x,
                            const matmul_element_t<T>* dy, matmul_element_t<T>* dw, matmul_scalar_t<T> alpha,
                            matmul_scalar_t<T> beta) {
    ConvEpilogue<T> epilogue;
    epilogue.alpha = alpha;
    epilogue.beta = beta;
    if (beta != 0) epilogue.c = dw;
    if (is_direct(s)) return depthwise_filter<direct_t<T>>(launch, s, x, dy, direct_epilogue(epilogue, dw, s.w.outer));
    bool is_done = false;
    BK_TRY(filter_by_narrow<T>(launch, s, x, dy, dw, epilogue, &is_done));
    if (is_done) return Status::kOk;
    BK_TRY(multiply_planes<T>(launch, s, ConvDirection::kBackwardFilter, x, dy, dw, epilogue, &is_done));
    if (is_done) return Status::kOk;
    BK_TRY(conv_by_wgmma<T>(launch, s, ConvDirection::kBackwardFilter, x, dy, dw, epilogue, &is_done));
    if (is_done) return Status::kOk;
    return conv_by_gemm<T>(launch, s, ConvDirection::kBackwardFilter, x, nullptr, dy, dw, epilogue);
}

template <class T>
size_t conv_workspace(const ConvShape& s, ConvDirection direction) {
    if (is_direct(s)) {
        if (direction == ConvDirection::kBackwardFilter) return depthwise_filter_workspace<direct_t<T>>(s);
        const bool has_kernel =
            direction == ConvDirection::kForward ? has_depthwise_sums(forward_sums(s)) : has_depthwise_phases(s);
        if (has_kernel) return 0;
    }
    if (direction == ConvDirection::kBackwardFilter)
        if (const NarrowFilterPlan plan = narrow_filter_plan<T>(s); plan.shape.is_valid())
            return NarrowFilterSpace::of(plan, nullptr).bytes;
    if (const NarrowPlan plan = narrow_plan<T>(s, direction); plan.shape.is_valid()) return narrow_workspace<T>(plan);
    if (const Matmul<T> planes = planes_gemm<T>(s, direction, nullptr, nullptr); planes.m > 0)
        return planes_workspace(s, direction, planes);
    if constexpr (kHasConvWgmma<T>)
        if (conv_wgmma_on<T>(device_arch()) != nullptr)
            if (const ConvWgmma<T> conv = conv_wgmma_of<T>(s, direction, true); conv.is_valid()) return conv_wgmma_bytes(conv);
    return ConvWorkspace<T>::of(s, direction, true, nullptr).bytes;
}

#define BK_CONV(T)                                                                                                           \
    template Status conv_forward<T>(const Launch&, const ConvShape&, const matmul_element_t<T>*, const matmul_element_t<T>*, \
                                    matmul_element_t<T>*, const ConvEpilogue<T>&);                                           \
    template Status conv_backward_data<T>(const Launch&, const ConvShape&, const matmul_element_t<T>*,                       \
                                          const matmul_element_t<T>*, matmul_element_t<T>*, const ConvEpilogue<T>&);         \
    template Status conv_backward_filter<T>(const Launch&, const ConvShape&, const matmul_element_t<T>*,                     \
                                            const matmul_element_t<T>*, matmul_element_t<T>*, matmul_scalar_t<T>,            \
                                            matmul_scalar_t<T>);                                                             \
    template size_t conv_workspace<T>(const ConvShape&, ConvDirection);

}  // namespace bk

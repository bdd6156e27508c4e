// SPDX-License-Identifier: Apache-2.0
// Convolution with one tap, unit steps and adjacent channels is a GEMM of matrices in memory: on sm_90 by the wgmma kernels
// of gemm/sm90, where they suit its extents.
//
//   forward          y [pixels, c_out] = x [pixels, c_in] w^T, w [c_out, c_in]
//   gradient of x    dx [pixels, c_in] = dy [pixels, c_out] w
#pragma once

#include <cstdint>

#include "conv/epilogue.h"
#include "conv/problem.h"
#include "core/abi/launch.h"
#include "gemm/sm90/matmul_wgmma.h"

namespace bk {

// Whether pixels of all images are rows of a matrix with this pitch.
inline bool is_matrix(const ConvShape& s, const ConvStrides& strides, int64_t (ConvShape::*pixels)() const, int64_t pitch,
                      bool of_x) {
    int64_t expected = pitch;
    for (int d = kConvAxes; d-- > 0;) {
        const int64_t extent = of_x ? s.axis[d].in : s.axis[d].out;
        if (extent > 1 && strides.axis[d] != expected) return false;
        expected *= extent;
    }
    return strides.channel == 1 && (s.batch == 1 || strides.outer == (s.*pixels)() * pitch);
}

inline bool is_pointwise(const ConvShape& s) {
    for (const ConvAxis& a : s.axis)
        if (a.taps != 1 || a.step != 1 || a.pad != 0 || a.in != a.out) return false;
    return s.groups == 1 && s.w.channel == 1 && is_matrix(s, s.x, &ConvShape::inputs, s.c_in, true) &&
           is_matrix(s, s.y, &ConvShape::outputs, s.c_out, false);
}

// Computes rows of `pixels` with `a` [m, k] and w as B; sets *is_done if the chip has the kernel and it suits.
template <class T>
Status multiply_pixels(const Launch& launch, int64_t m, int64_t n, int64_t k, const matmul_element_t<T>* a,
                       const matmul_element_t<T>* w, bool w_is_k_major, matmul_element_t<T>* d, const ConvEpilogue<T>& epilogue,
                       bool* is_done) {
    *is_done = false;
    if constexpr (kHasWgmma<T>) {
        const int arch = device_arch();
        Matmul<T> p{};
        p.m = m;
        p.n = n;
        p.k = k;
        p.batch = 1;
        p.a = a;
        p.b = w;
        p.a_at = {k, 1, 0};
        p.b_at = w_is_k_major ? MatrixStrides{1, k, 0} : MatrixStrides{n, 1, 0};
        p.epilogue = conv_epilogue<T>(epilogue, d, n);
        p.epilogue.bias = epilogue.bias;
        MatmulShape shape{m, n, k, 1, k_major_of(p), p.epilogue.has_steps()};
        const bool fits = m <= INT32_MAX && a_is_aligned(p) && b_is_aligned(p) &&
                          fits_tma<T>(p.a_at, p.a_at.row, p.a_at.column, m, k, 0, Grouped::kNot) &&
                          fits_tma<T>(p.b_at, p.b_at.column, p.b_at.row, n, k, 0, Grouped::kNot);
        if (!fits || !suits_wgmma<T>(shape, arch)) return Status::kOk;
        *is_done = true;
        return wgmma_on<T>(arch)(launch, p, wgmma_columns<T>(shape));
    }
    return Status::kOk;
}

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Convolution with one tap, unit steps and adjacent channels is a GEMM of matrices in memory: on sm_90 by the wgmma kernels
// of gemm/sm90, where they suit its extents.
//
//   forward          y [pixels, c_out] = x [pixels, c_in] w^T, w [c_out, c_in]
//   gradient of x    dx [pixels, c_in] = dy [pixels, c_out] w
//
// Where channels are planes of pixels each image is a GEMM, whose operands lie as they are, too:
//
//   forward          y [c_out, pixels] = w x [c_in, pixels]
//   gradient of x    dx [c_in, pixels] = w^T dy [c_out, pixels]
//   gradient of w    dw [c_out, c_in] = the sum over images of dy [c_out, pixels] x^T [pixels, c_in]: the workspace holds
//                    each image's, which are added in order.
#pragma once

#include <cstdint>

#include "conv/epilogue.h"
#include "conv/problem.h"
#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "gemm/sm90/matmul_wgmma.h"
#include "gemm/tiled/matmul_finish.cuh"
#include "gemm/tiled/matmul_split_k.cuh"

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

// Whether results are products of channels alone.
inline bool has_single_tap(const ConvShape& s) {
    for (const ConvAxis& a : s.axis)
        if (a.taps != 1 || a.step != 1 || a.pad != 0 || a.in != a.out) return false;
    return s.groups == 1 && s.w.channel == 1;
}

inline bool is_pointwise(const ConvShape& s) {
    return has_single_tap(s) && is_matrix(s, s.x, &ConvShape::inputs, s.c_in, true) &&
           is_matrix(s, s.y, &ConvShape::outputs, s.c_out, false);
}

// Whether each channel is a plane of adjacent pixels, behind the one before.
inline bool is_planar(const ConvShape& s, const ConvStrides& strides) {
    int64_t expected = 1;
    for (int d = kConvAxes; d-- > 0; expected *= s.axis[d].in)
        if (s.axis[d].in > 1 && strides.axis[d] != expected) return false;
    return strides.channel == expected;
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

// The GEMM of each image if channels are planes, without an epilogue; `image` is x, or dy of a gradient of x, `matrix` is w,
// or dy of a gradient of w. It has no rows where the wgmma kernels do not serve or suit it.
template <class T>
Matmul<T> planes_gemm(const ConvShape& s, ConvDirection direction, const matmul_element_t<T>* image,
                      const matmul_element_t<T>* matrix) {
    Matmul<T> p{};
    if constexpr (kHasWgmma<T>) {
        if (s.batch < 1 || !has_single_tap(s) || !is_planar(s, s.x) || !is_planar(s, s.y)) return p;
        const int64_t pixels = s.outputs();
        p.a = matrix;
        p.b = image;
        p.k = direction == ConvDirection::kForward ? s.c_in : s.c_out;
        p.n = pixels;
        p.batch = s.batch;
        p.b_at = {pixels, 1, direction == ConvDirection::kForward ? s.x.outer : s.y.outer};
        p.a_at = direction == ConvDirection::kForward ? MatrixStrides{s.w.outer, 1, 0} : MatrixStrides{1, s.w.outer, 0};
        if (direction == ConvDirection::kBackwardFilter) {
            p.k = pixels;
            p.n = s.c_in;
            p.a_at = {pixels, 1, s.y.outer};
            p.b_at = {1, pixels, s.x.outer};
            // Partials of an image are no more bytes than its operands.
            constexpr int64_t kSize = sizeof(matmul_element_t<T>), kPartial = 2 * sizeof(matmul_scalar_t<T>);
            if (kPartial * s.c_out * s.c_in > kSize * (s.c_out + s.c_in) * pixels) return p;
        }
        const int64_t m = direction == ConvDirection::kBackwardData ? s.c_in : s.c_out;
        const int arch = device_arch();
        const bool fits = m <= INT32_MAX && a_is_aligned(p) && b_is_aligned(p) &&
                          fits_tma<T>(p.a_at, p.a_at.row, p.a_at.column, m, p.k, p.a_at.step, Grouped::kNot) &&
                          fits_tma<T>(p.b_at, p.b_at.column, p.b_at.row, p.n, p.k, p.b_at.step, Grouped::kNot);
        if (fits && suits_wgmma<T>({m, p.n, p.k, p.batch, k_major_of(p)}, arch)) p.m = m;
    }
    return p;
}

// Bytes of workspace of the gradient of w by planes.
template <class T>
size_t planes_workspace(const ConvShape& s, ConvDirection direction, const Matmul<T>& p) {
    if (direction != ConvDirection::kBackwardFilter || s.batch == 1) return 0;
    Carver carver;
    carve_partials<T>(&carver, p.m, p.n, 1, s.batch);
    return carver.bytes();
}

// Computes a convolution of planes; sets *is_done if the chip has the kernel and it suits.
template <class T>
Status multiply_planes(const Launch& launch, const ConvShape& s, ConvDirection direction, const matmul_element_t<T>* image,
                       const matmul_element_t<T>* matrix, matmul_element_t<T>* result, const ConvEpilogue<T>& given,
                       bool* is_done) {
    *is_done = false;
    if constexpr (kHasWgmma<T>) {
        Matmul<T> p = planes_gemm<T>(s, direction, image, matrix);
        if (p.m == 0) return Status::kOk;
        const bool is_filter = direction == ConvDirection::kBackwardFilter, is_split = is_filter && s.batch > 1;
        if (is_split && !workspace_holds(launch, planes_workspace(s, direction, p))) return Status::kOk;
        *is_done = true;
        Epilogue<T> e = conv_epilogue<T>(given, result, is_filter ? s.w.outer : p.n);
        if (!is_filter) {
            e.c_at.step = e.d_at.step = e.z_at.step = direction == ConvDirection::kForward ? s.y.outer : s.x.outer;
            e.row_bias = given.bias;
        }
        SplitKOf<T> split;
        p.epilogue = e;
        if (is_split) {
            Carver carver(launch.workspace);
            split.count = s.batch;
            split.partials = carve_partials<T>(&carver, p.m, p.n, 1, s.batch);
            p.epilogue = {};
            p.epilogue.alpha = 1;
            p.epilogue.d = reinterpret_cast<matmul_element_t<T>*>(split.partials);
            p.epilogue.d_at = {p.n, 1, p.m * p.n};
            p.epilogue.is_wide = true;
        }
        const MatmulShape shape{p.m, p.n, p.k, p.batch, k_major_of(p), p.epilogue.has_steps()};
        BK_TRY(wgmma_on<T>(device_arch())(launch, p, wgmma_columns<T>(shape)));
        if (is_split) return finish(launch, e, split, p.n, p.m, p.n);
    }
    return Status::kOk;
}

}  // namespace bk

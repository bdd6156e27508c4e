// SPDX-License-Identifier: Apache-2.0
// Functions of the cores of convolution on each target: conv*.cu and conv*_cpu.cpp define them.
//
// T is float, double, f16 or bf16, and on a GPU tf32 too; sums are of f32 (f64 for f64), rounded once. A problem has
// results (ConvShape::is_empty), but may sum nothing, for want of channels or images: then the sum is 0. All are
// deterministic; none needs the workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "conv/problem.h"
#include "core/abi/launch.h"

namespace bk {

// y = act(alpha conv(x, w) + beta c + bias).
template <class T>
Status conv_forward(const Launch& launch, const ConvShape& shape, const matmul_element_t<T>* x, const matmul_element_t<T>* w,
                    matmul_element_t<T>* y, const ConvEpilogue<T>& epilogue);

// dx = act(alpha adjoint of conv(., w) at dy + beta c + bias), with bias[c_in].
template <class T>
Status conv_backward_data(const Launch& launch, const ConvShape& shape, const matmul_element_t<T>* dy,
                          const matmul_element_t<T>* w, matmul_element_t<T>* dx, const ConvEpilogue<T>& epilogue);

// dw = alpha sum over images and pixels of dy x + beta dw.
template <class T>
Status conv_backward_filter(const Launch& launch, const ConvShape& shape, const matmul_element_t<T>* x,
                            const matmul_element_t<T>* dy, matmul_element_t<T>* dw, matmul_scalar_t<T> alpha,
                            matmul_scalar_t<T> beta);

// Bytes of workspace that the direction can use: a shorter one counts as none.
template <class T>
size_t conv_workspace(const ConvShape& shape, ConvDirection direction);

// Exact sums of 8-bit products; T is int8_t or uint8_t, y of epilogue.type. More than 2^31 is saturated.
template <class T>
Status conv_forward_int8(const Launch& launch, const ConvShape& shape, const T* x, const int8_t* w, void* y,
                         const ConvInt8Epilogue& epilogue);

// Windows of a sequence [images, extent] as columns [images, taps, windows].
struct Col2Im1d {
    int64_t images, extent, windows, taps, step, pad, dilation;
};

// image[n, i] += the sum of columns[n, t, o] over o * step + t * dilation - pad = i, in f32 (f64 for f64), in the order of t.
template <class T>
Status add_col2im_1d(const Launch& launch, const Col2Im1d& p, const T* columns, T* image);

}  // namespace bk

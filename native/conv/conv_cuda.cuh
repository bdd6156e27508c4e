// SPDX-License-Identifier: Apache-2.0
// The choice of a convolution's kernel on the GPU. conv_*.cu instantiate it for a dtype each.
#pragma once

#include <cstddef>

#include "conv/core.h"
#include "conv/tiled/launch.cuh"

namespace bk {

template <class T>
Status conv_forward(const Launch& launch, const ConvShape& s, const matmul_element_t<T>* x, const matmul_element_t<T>* w,
                    matmul_element_t<T>* y, const ConvEpilogue<T>& epilogue) {
    return conv_by_gemm<T>(launch, s, ConvDirection::kForward, x, w, nullptr, y, epilogue);
}

template <class T>
Status conv_backward_data(const Launch& launch, const ConvShape& s, const matmul_element_t<T>* dy, const matmul_element_t<T>* w,
                          matmul_element_t<T>* dx, const ConvEpilogue<T>& epilogue) {
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
    return conv_by_gemm<T>(launch, s, ConvDirection::kBackwardFilter, x, nullptr, dy, dw, epilogue);
}

template <class T>
size_t conv_workspace(const ConvShape& s, ConvDirection direction) {
    return ConvWorkspace<T>::of(s, direction, true, nullptr).bytes;
}

#define BK_CONV(T)                                                                                                            \
    template Status conv_forward<T>(const Launch&, const ConvShape&, const matmul_element_t<T>*, const matmul_element_t<T>*,  \
                                    matmul_element_t<T>*, const ConvEpilogue<T>&);                                            \
    template Status conv_backward_data<T>(const Launch&, const ConvShape&, const matmul_element_t<T>*,                        \
                                          const matmul_element_t<T>*, matmul_element_t<T>*, const ConvEpilogue<T>&);          \
    template Status conv_backward_filter<T>(const Launch&, const ConvShape&, const matmul_element_t<T>*,                      \
                                            const matmul_element_t<T>*, matmul_element_t<T>*, matmul_scalar_t<T>,             \
                                            matmul_scalar_t<T>);                                                              \
    template size_t conv_workspace<T>(const ConvShape&, ConvDirection);

}  // namespace bk

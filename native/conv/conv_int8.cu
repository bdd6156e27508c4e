// SPDX-License-Identifier: Apache-2.0
// Convolution of 8-bit operands on the GPU: exact sums on tensor cores.
#include "conv/core.h"
#include "conv/tiled/launch.cuh"

namespace bk {

namespace {

template <class T>
Status forward(const Launch& launch, const ConvShape& s, const matmul_element_t<T>* x, const int8_t* w, void* y,
               const ConvInt8Epilogue& epilogue) {
    const ConvGemm<T> p = forward_gemm<T>(s, x, reinterpret_cast<const matmul_element_t<T>*>(w));
    ConvStore<T> to;
    to.y = y;
    to.e = epilogue;
    to.column_stride = p.column_stride;
    to.along_rows = p.column_stride != 1;
    return launch_conv(launch, p, to, {});
}

}  // namespace

template <>
Status conv_forward_int8<int8_t>(const Launch& launch, const ConvShape& s, const int8_t* x, const int8_t* w, void* y,
                                 const ConvInt8Epilogue& epilogue) {
    return forward<s8_sums>(launch, s, x, w, y, epilogue);
}
template <>
Status conv_forward_int8<uint8_t>(const Launch& launch, const ConvShape& s, const uint8_t* x, const int8_t* w, void* y,
                                  const ConvInt8Epilogue& epilogue) {
    return forward<u8_sums>(launch, s, x, w, y, epilogue);
}

}  // namespace bk

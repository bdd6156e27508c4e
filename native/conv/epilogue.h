// SPDX-License-Identifier: Apache-2.0
// The epilogue of a convolution as that of a GEMM.
#pragma once

#include <cstdint>

#include "conv/problem.h"
#include "gemm/matmul.h"

namespace bk {

// Rows `pitch` apart, but for the bias: channels are rows or columns. A direct kernel's type T differs from that of `given`.
template <class T, class Given>
Epilogue<T> conv_epilogue(const ConvEpilogue<Given>& given, matmul_element_t<T>* result, int64_t pitch) {
    Epilogue<T> e{};
    e.c = given.c;
    e.d = result;
    e.z = given.z;
    e.bias_type = BiasType::kElement;
    e.alpha = given.alpha;
    e.beta = given.beta;
    e.activation = given.activation;
    e.c_at = e.d_at = e.z_at = {pitch, 1, 0};
    return e;
}

// The epilogue of results that begin `elements` further on.
template <class T>
Epilogue<T> offset_epilogue(Epilogue<T> e, int64_t elements) {
    e.c = e.offset_by(e.c, elements);
    e.d = e.offset_by(e.d, elements);
    e.z = e.offset_by(e.z, elements);
    return e;
}

}  // namespace bk

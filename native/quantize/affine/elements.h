// SPDX-License-Identifier: Apache-2.0
// Elements with a scale and a zero point of their tensor, channel, token or group: to codes of 8 or 4 bits, to the nearest
// numbers that have codes, back, and the gradient. A GPU has one kernel for each, whose scope and width are run-time choices.
#pragma once

#include <cstdint>

#include "core/types/dtype.h"
#include "quantize/affine/functors.h"
#include "quantize/affine/scopes.h"

namespace bk::quantize {

template <class U>
auto* bytes_of(U* codes) {
    using Byte = std::conditional_t<std::is_const_v<U>, const uint8_t, uint8_t>;
    return reinterpret_cast<Byte*>(codes);
}

// The scales of x and the rule of its codes.
template <class T>
struct Coding {
    Scope scope;
    Rule rule;
    const T* scale;
    const int32_t* zero;
    const T* learned = nullptr;  // a zero point in place of `zero`
    compute_t<T> own_scale = 1;  // of the tensor, if `scale` is null
    int32_t own_zero = 0;

    static Coding of_tensor(int64_t numel, const Rule& rule, compute_t<T> scale, int32_t zero) {
        return {{1, 1, numel, rule.adds_first}, rule, nullptr, nullptr, nullptr, scale, zero};
    }
};

// q[i] = the code of x[i], a byte each, or two a byte if packed.
template <class T>
Status quantize_elements(const Launch& launch, const Coding<T>& coding, bool is_packed, const T* x, uint8_t* q);

// x[i] of the code q[i], of which `flip` is the sign bit; 0: codes have no sign.
template <class T>
Status dequantize_elements(const Launch& launch, const Coding<T>& coding, bool is_packed, int32_t flip, const uint8_t* q, T* x);

// y[i] = the number nearest to x[i] that has a code.
template <class T>
Status round_elements(const Launch& launch, const Coding<T>& coding, const T* x, T* y);

// dx[i] = the gradient of codes, or of those numbers if `is_fake`.
template <class T>
Status elements_backward(const Launch& launch, const Coding<T>& coding, bool is_fake, const T* x, const T* dy, T* dx);

}  // namespace bk::quantize

#if BK_CUDA
#include "quantize/affine/elements_cuda.cuh"
#else
#include "quantize/affine/elements_cpu.h"
#endif

// SPDX-License-Identifier: Apache-2.0
// Activations of the GEMM epilogue. A new one is an entry of this list, and a functor in native/elementwise/functors/.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "elementwise/functors/activations.h"
#include "elementwise/functors/normal_distribution.h"
#include "elementwise/functors/rectifiers.h"

namespace bk {

// X(number, functor, name, low, high): between low and high |act(z)| is about 2^-150 to 2^-110, where a functor of 16-bit
// accuracy may be inaccurate, and where a gate may scale the result up; an empty interval if no act(z) is that small.
#define BK_ACTIVATIONS(X)              \
    X(1, Relu, "relu", 0, 0)           \
    X(2, Gelu, "gelu", -14.6f, -12.4f) \
    X(3, Silu, "silu", -109, -76)      \
    X(4, GeluTanh, "gelu_tanh", -10.9f, -9.3f)

enum class Activation : int32_t {
    kNone,
#define BK_ENUMERATOR(number, functor, name, low, high) k##functor = number,
    BK_ACTIVATIONS(BK_ENUMERATOR)
#undef BK_ENUMERATOR
};

#define BK_COUNT(number, functor, name, low, high) +1
constexpr int32_t kActivations = 1 BK_ACTIVATIONS(BK_COUNT);
#undef BK_COUNT

#define BK_TEXT(number, functor, name, low, high) ", " #number " (" name ")"
constexpr const char* kActivationNames = "0 (none)" BK_ACTIVATIONS(BK_TEXT);
#undef BK_TEXT

// Whether a gate may scale act(z) out of what its 16-bit functor is accurate for.
BK_HD bool is_near_underflow(Activation activation, float z) {
    switch (activation) {
#define BK_CASE(number, functor, name, low, high) \
    case Activation::k##functor: return z > low && z < high;
        BK_ACTIVATIONS(BK_CASE)
#undef BK_CASE
        case Activation::kNone: break;
    }
    return false;
}

}  // namespace bk

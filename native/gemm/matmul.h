// D = act(alpha A B + beta C + bias), once or for a batch: the problem that every product of matrices comes down to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/types/convert.h"
#include "core/types/dtype.h"
#include "core/types/fp8.h"
#include "elementwise/activations.h"
#include "elementwise/rectifiers.h"

namespace bk {

// f32 whose factors are rounded to 10 bits behind the point, to nearest, ties away from zero; sums are f32's.
struct tf32 {};

// What stands for T: Element in memory, Scalar in alpha, beta and all that follows the sum.
template <class T>
struct MatmulType {
    using Element = T;
    using Scalar = std::conditional_t<std::is_same_v<T, double>, double, float>;
};
template <>
struct MatmulType<tf32> {
    using Element = float;
    using Scalar = float;
};

template <class T>
using matmul_element_t = typename MatmulType<T>::Element;
template <class T>
using matmul_scalar_t = typename MatmulType<T>::Scalar;

enum class Activation : int32_t { kNone, kRelu, kGelu, kSilu };
enum class BiasType : int32_t { kElement, kF32, kI32 };

// Where element [i, j] of matrix g lies: g * step + i * row + j * column. One of row and column is 1.
struct MatrixStrides {
    int64_t row, column, step;
};

// What is done to a sum before it is stored. `c` and `bias` may be null.
template <class T>
struct Epilogue {
    using E = matmul_element_t<T>;
    using S = matmul_scalar_t<T>;
    const E* c;
    E* d;
    const void* bias;
    MatrixStrides c_at, d_at;
    S alpha, beta;
    BiasType bias_type;
    Activation activation;

    BK_HD S bias_of(int64_t j) const {
        if (bias == nullptr) return S(0);
        if (bias_type == BiasType::kI32) return static_cast<S>(static_cast<const int32_t*>(bias)[j]);
        if (bias_type == BiasType::kF32) return static_cast<S>(static_cast<const float*>(bias)[j]);
        return element_of(static_cast<const E*>(bias)[j]);
    }

    static BK_HD S element_of(E x) {
        if constexpr (kIsFp8<E>)
            return fp8_to_float(x);
        else
            return static_cast<S>(widen(x));
    }

    static BK_HD E stored(S z) {
        if constexpr (kIsFp8<E>)
            return float_to_fp8<E>(z);
        else if constexpr (std::is_integral_v<E>)
            return to_integer<E>(math::rint<float>(z));
        else
            return narrow<E>(z);
    }

    static BK_HD S activated(Activation activation, S z) {
        switch (activation) {
            case Activation::kRelu: return op::Relu<S>{}(z);
            case Activation::kGelu: return op::Gelu<S>{}(z);
            case Activation::kSilu: return op::Silu<S>{}(z);
            default: return z;
        }
    }
};

template <class T>
struct Matmul {
    using E = matmul_element_t<T>;
    int64_t m, n, k, batch;
    const E *a, *b;
    MatrixStrides a_at, b_at;  // [i, k] of A, [k, j] of B
    Epilogue<T> epilogue;
};

template <class T>
Status matmul(const Launch& launch, const Matmul<T>& problem);

// Bytes of workspace that such a product can use.
template <class T>
size_t matmul_workspace(int64_t m, int64_t n, int64_t k, int64_t batch, Activation activation);

}  // namespace bk

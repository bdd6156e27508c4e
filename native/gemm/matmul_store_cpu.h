// Elements of products of matrices on the CPU before they are multiplied, and the last steps of their results.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "gemm/matmul.h"

namespace bk {

// z = act(z), the epilogue's.
void activate_span(Activation activation, float* z, int64_t count);
void activate_span(Activation activation, double* z, int64_t count);

// Terms of products, as they are multiplied.
template <class T>
struct MatmulArithmetic {
    static constexpr bool kIsInteger = std::is_integral_v<matmul_element_t<T>>;
    using Term = std::conditional_t<kIsInteger, float, matmul_scalar_t<T>>;

    static BK_HD Term term(matmul_element_t<T> x) {
        if constexpr (std::is_same_v<T, tf32>) {
            const uint32_t u = bit_cast<uint32_t>(x), rounded = (u + 0x1000u) & 0xffffe000u;
            return bit_cast<float>((u & 0x7f800000u) == 0x7f800000u ? u : rounded);
        } else if constexpr (kIsInteger) {
            return static_cast<float>(static_cast<int32_t>(x));
        } else {
            return Epilogue<T>::element_of(x);
        }
    }
};

// The last steps of `columns` results from [i, j] of matrix g.
template <class T, class Sum>
BK_HD void store_row(const Epilogue<T>& e, int64_t g, int64_t i, int64_t j, int64_t columns, const Sum* sums) {
    using S = matmul_scalar_t<T>;
    constexpr int64_t kMost = 64;
    alignas(64) S z[kMost];
    for (int64_t first = 0; first < columns; first += kMost) {
        const int64_t count = std::min(columns - first, kMost), at = j + first;
        for (int64_t c = 0; c < count; ++c) {
            if constexpr (std::is_integral_v<S>)
                z[c] = bounded_sum(static_cast<int64_t>(sums[first + c]));
            else
                z[c] = e.alpha * static_cast<S>(sums[first + c]);
        }
        if (e.c != nullptr) {
            const auto* const from = e.c + g * e.c_at.step + i * e.c_at.row + at;
            for (int64_t c = 0; c < count; ++c) z[c] += e.beta * Epilogue<T>::element_of(from[c]);
        }
        if (e.bias != nullptr)
            for (int64_t c = 0; c < count; ++c) z[c] += e.bias_of(at + c);
        if constexpr (std::is_floating_point_v<S>)
            if (e.activation != Activation::kNone) activate_span(e.activation, z, count);
        auto* const to = e.d + g * e.d_at.step + i * e.d_at.row + at;
        for (int64_t c = 0; c < count; ++c) to[c] = Epilogue<T>::stored(z[c]);
    }
}

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Operand conversion and epilogue of GEMM on the CPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/abi/launch.h"
#include "gemm/matmul.h"

namespace bk {

// z = act(z), to the accuracy of A: f16, bf16, float or double.
template <class A>
void activate_span(Activation activation, compute_t<A>* z, int64_t count);

// Conversion of elements to the type in which they are multiplied.
template <class T>
struct MatmulConversion {
    static constexpr bool kIsInteger = std::is_integral_v<matmul_element_t<T>>;
    using Value = std::conditional_t<kIsInteger, float, matmul_scalar_t<T>>;

    static BK_HD Value value(matmul_element_t<T> x) {
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

// Copies some hundred bytes, for which neither a call nor a string instruction pays.
BK_HD void copy_bytes(void* to, const void* from, int64_t bytes) {
    char* target = static_cast<char*>(to);
    const char* source = static_cast<const char*>(from);
    for (; bytes >= 64; bytes -= 64, target += 64, source += 64) {
        std::memcpy(target, source, 64);
        __asm__("" : "+r"(target));  // keeps the compiler from making it a memcpy call
    }
    const auto tail = [&](auto size) {
        if ((bytes & size) == 0) return;
        std::memcpy(target, source, size);
        target += size;
        source += size;
    };
    tail(std::integral_constant<int64_t, 32>());
    tail(std::integral_constant<int64_t, 16>());
    tail(std::integral_constant<int64_t, 8>());
    tail(std::integral_constant<int64_t, 4>());
    tail(std::integral_constant<int64_t, 2>());
    tail(std::integral_constant<int64_t, 1>());
}

// z += factor * c over `count` elements of a row.
template <class T>
BK_HD void add_span(const Epilogue<T>& e, matmul_scalar_t<T>* z, int64_t count, matmul_scalar_t<T> factor,
                    const matmul_result_t<T>* from, int64_t at) {
    if constexpr (kMayBeWide<matmul_result_t<T>>)
        if (e.is_wide) {
            const float* const wide = reinterpret_cast<const float*>(from) + at;
            for (int64_t c = 0; c < count; ++c) z[c] += factor * wide[c];
            return;
        }
    for (int64_t c = 0; c < count; ++c) z[c] += factor * Epilogue<T>::element_of(from[at + c]);
}

template <class T>
BK_HD void write_span(const Epilogue<T>& e, const matmul_scalar_t<T>* z, int64_t count, matmul_result_t<T>* to, int64_t at) {
    if constexpr (kMayBeWide<matmul_result_t<T>>)
        if (e.is_wide) {
            float* const wide = reinterpret_cast<float*>(to) + at;
            for (int64_t c = 0; c < count; ++c) wide[c] = z[c];
            return;
        }
    for (int64_t c = 0; c < count; ++c) to[at + c] = Epilogue<T>::stored(z[c]);
}

// z = act(z) of an epilogue without a gate.
template <class T>
void activate_results(const Epilogue<T>& e, matmul_scalar_t<T>* z, int64_t count) {
    using E = matmul_result_t<T>;
    if constexpr (kMayBeWide<E>)
        if (!e.is_wide) return activate_span<E>(e.activation, z, count);
    activate_span<matmul_scalar_t<T>>(e.activation, z, count);
}

// z = act(z) of at most `kMost` elements that a gate multiplies.
template <int64_t kMost, class T>
void activate_gated(const Epilogue<T>& e, matmul_scalar_t<T>* z, int64_t count) {
    using E = matmul_result_t<T>;
    using S = matmul_scalar_t<T>;
    if constexpr (kMayBeWide<E>)
        if (!e.is_wide) {
            S input[kMost];
            std::copy(z, z + count, input);
            activate_span<E>(e.activation, z, count);
            for (int64_t c = 0; c < count; ++c)
                if (is_near_underflow(e.activation, input[c]))
                    z[c] = Epilogue<T>::template activated_as<S>(e.activation, input[c]);
            return;
        }
    activate_span<S>(e.activation, z, count);
}

// Stores `columns` results of a gated GEMM from [i, j] on: d = act(z) gate.
template <class T, class S>
BK_HD void store_gated_row(const Epilogue<T>& e, int64_t i, int64_t j, int64_t columns, const S* sums, const S* gate_sums) {
    constexpr int64_t kMost = 64;
    alignas(64) S z[kMost], gate[kMost];
    for (int64_t first = 0; first < columns; first += kMost) {
        const int64_t count = std::min(columns - first, kMost), at = j + first;
        for (int64_t c = 0; c < count; ++c) {
            z[c] = e.alpha * sums[first + c];
            gate[c] = e.alpha * gate_sums[first + c];
        }
        if (e.bias != nullptr)
            for (int64_t c = 0; c < count; ++c) z[c] += e.bias_of(at + c);
        if (e.gate_bias != nullptr)
            for (int64_t c = 0; c < count; ++c) gate[c] += Epilogue<T>::element_of(e.gate_bias[at + c]);
        if (e.z != nullptr) write_span(e, z, count, e.z, i * e.z_at.row + at);
        if (e.gate_z != nullptr) write_span(e, gate, count, e.gate_z, i * e.gate_z_at.row + at);
        if (e.activation != Activation::kNone) activate_gated<kMost>(e, z, count);
        for (int64_t c = 0; c < count; ++c) z[c] *= gate[c];
        write_span(e, z, count, e.d, i * e.d_at.row + at);
    }
}

// Stores `columns` results from [i, j] of matrix g.
template <class T, class Sum>
BK_HD void store_row(const Epilogue<T>& e, int64_t g, int64_t i, int64_t j, int64_t columns, const Sum* sums) {
    using S = matmul_scalar_t<T>;
    constexpr int64_t kMost = 64;
    alignas(64) S z[kMost];
    for (int64_t first = 0; first < columns; first += kMost) {
        const int64_t count = std::min(columns - first, kMost), at = j + first;
        for (int64_t c = 0; c < count; ++c) {
            if constexpr (std::is_integral_v<S>)
                z[c] = saturated_sum(static_cast<int64_t>(sums[first + c]));
            else
                z[c] = e.alpha * static_cast<S>(sums[first + c]);
        }
        if constexpr (std::is_floating_point_v<S>) {
            if (e.row_scale != nullptr)
                for (int64_t c = 0; c < count; ++c) z[c] *= e.row_scale[i];
            if (e.column_scale != nullptr)
                for (int64_t c = 0; c < count; ++c) z[c] *= e.column_scale[at + c];
        }
        if (e.has_c()) add_span(e, z, count, e.beta, e.matrix(e.c, e.c_at, g), i * e.c_at.row + at);
        if (e.bias != nullptr)
            for (int64_t c = 0; c < count; ++c) z[c] += e.bias_of(at + c);
        if constexpr (std::is_floating_point_v<S>) {
            if (e.row_bias != nullptr)
                for (int64_t c = 0; c < count; ++c) z[c] += Epilogue<T>::element_of(e.row_bias[i]);
            if (e.z != nullptr) write_span(e, z, count, e.matrix(e.z, e.z_at, g), i * e.z_at.row + at);
            if (e.activation != Activation::kNone) activate_results(e, z, count);
            if (e.residual != nullptr)
                add_span(e, z, count, S(1), e.matrix(e.residual, e.residual_at, g), i * e.residual_at.row + at);
        }
        write_span(e, z, count, e.matrix(e.d, e.d_at, g), i * e.d_at.row + at);
    }
}

// Stores rows of a block whose epilogue is alpha alone; returns false for any other. Whole vectors are computed, and
// the columns needed are copied.
template <int kColumns, class T, class Sum>
BK_HD bool store_plain_rows(const Epilogue<T>& e, int64_t g, int64_t i, int64_t j, int64_t rows, int64_t columns,
                            const Sum* sums) {
    using S = matmul_scalar_t<T>;
    using E = matmul_result_t<T>;
    if constexpr (std::is_integral_v<S>) {
        return false;
    } else {
        if (e.has_steps() || e.has_c() || e.bias != nullptr || e.is_wide) return false;
        const S alpha = e.alpha;
        E* to = e.matrix(e.d, e.d_at, g) + i * e.d_at.row + j;
        constexpr int kMost = 64;
        static_assert(kColumns <= kMost, "a line of a block");
        alignas(64) S z[kMost];
        alignas(64) E row[kMost];
        for (int64_t r = 0; r < rows; ++r, to += e.d_at.row) {
            for (int c = 0; c < kColumns; ++c) z[c] = alpha * static_cast<S>(sums[r * kColumns + c]);
            for (int c = 0; c < kColumns; ++c) row[c] = Epilogue<T>::stored(z[c]);
            copy_bytes(to, row, columns * static_cast<int64_t>(sizeof(E)));
        }
        return true;
    }
}

}  // namespace bk

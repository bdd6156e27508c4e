// SPDX-License-Identifier: Apache-2.0
// D = act(alpha A B + beta C + bias), once or for a batch: the descriptor that every GEMM passes to the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/types/convert.h"
#include "core/types/dtype.h"
#include "core/types/fp8.h"
#include "core/types/fp8_factors.h"
#include "core/types/nibbles.h"
#include "gemm/activation.h"
#include "gemm/choice.h"

namespace bk {

// f32 operands rounded to TF32 (10 mantissa bits, to nearest, ties away from zero); f32 accumulators.
struct tf32 {};

// 3xTF32: each f32 operand is split into a TF32 value and its TF32 residual, and three products are summed, exact but
// for 3 parts in 2^22. The residual of an infinity is 0, and its products may be NaN.
struct tf32x3 {};

// Types behind T: Element of A and B in memory, Result of C and D, Scalar of alpha, beta and the epilogue.
template <class T>
struct MatmulType {
    using Element = T;
    using Result = T;
    using Scalar = std::conditional_t<std::is_same_v<T, double>, double, float>;
};
template <>
struct MatmulType<tf32> {
    using Element = float;
    using Result = float;
    using Scalar = float;
};
template <>
struct MatmulType<tf32x3> : MatmulType<tf32> {};
// Binary GEMM: the "product" of two bits is 1 where they differ.
template <>
struct MatmulType<b1x8> {
    using Element = b1x8;
    using Result = int32_t;
    using Scalar = int32_t;
};

// 8-bit operands with i32 results, saturated.
template <class T>
struct i32_results {};
template <class T>
struct MatmulType<i32_results<T>> {
    using Element = T;
    using Result = int32_t;
    using Scalar = int32_t;
};

template <class T>
using matmul_element_t = typename MatmulType<T>::Element;
template <class T>
using matmul_result_t = typename MatmulType<T>::Result;
template <class T>
using matmul_scalar_t = typename MatmulType<T>::Scalar;

BK_HD int32_t saturated_sum(int64_t sum) {
    return static_cast<int32_t>(sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum);
}

enum class BiasType : int32_t { kElement, kF32, kI32 };

// Two elements to a byte of A, B, C and D.
template <class T>
constexpr bool kIsNibbles = std::is_same_v<T, s4x2> || std::is_same_v<T, u4x2>;

// Several elements to a byte of A and B.
template <class T>
constexpr bool kIsPacked = kIsNibbles<T> || std::is_same_v<T, b1x8>;

// Whether a GEMM may have a second B (gate).
template <class T>
constexpr bool kMayBeGated = std::is_floating_point_v<matmul_scalar_t<T>> && !kHasFp8Factors<matmul_element_t<T>> &&
                             !std::is_integral_v<matmul_element_t<T>> && !kIsPacked<matmul_element_t<T>>;

// 16-bit floats, whose results may be f32.
template <class E>
constexpr bool kMayBeWide = std::is_same_v<E, f16> || std::is_same_v<E, bf16>;

// Element [i, j] of matrix g is at g * step + i * row + j * column, where row or column is 1. Strides and k of packed
// types count bytes, whose elements are adjacent along k. If the other axis is packed its stride is 0: element [k, j]
// of B is in byte k * row + j / kElementsPerByte. Pointer-array batches have a `list` of device addresses in place of base and
// step; `list_is_aligned` promises that all are multiples of 16 bytes.
struct MatrixStrides {
    int64_t row, column, step;
    void* const* list = nullptr;
    bool list_is_aligned = false;

    template <class E>
    BK_HD E* matrix(E* base, int64_t g) const {
        return list != nullptr ? static_cast<E*>(list[g]) : base + g * step;
    }
};

// d = act(alpha row_scale[i] column_scale[j] sum + beta c + bias[j] + row_bias[i]) + residual. Everything but d may be
// null; members behind `activation` serve the ops with a full epilogue.
template <class T>
struct Epilogue {
    using E = matmul_result_t<T>;
    using S = matmul_scalar_t<T>;
    const E* c;
    E* d;
    const void* bias;
    MatrixStrides c_at, d_at;
    S alpha, beta;
    BiasType bias_type;
    Activation activation;
    const S *row_scale = nullptr, *column_scale = nullptr;
    const E* row_bias = nullptr;
    const E* residual = nullptr;
    E* z = nullptr;  // stores the activation's input
    MatrixStrides residual_at{}, z_at{};
    bool is_wide = false;  // c, d, residual and z are f32, whatever E is
    // Gated GEMM: d = act(z) * (alpha gate_sum + gate_bias[j]), where gate_z stores the second factor.
    const E* gate_bias = nullptr;
    E* gate_z = nullptr;
    MatrixStrides gate_z_at{};

    // Whether the epilogue has more than alpha, beta, C and bias.
    BK_HD bool has_steps() const {
        return activation != Activation::kNone || row_scale != nullptr || column_scale != nullptr || row_bias != nullptr ||
               residual != nullptr || z != nullptr;
    }

    BK_HD bool has_c() const { return c != nullptr || c_at.list != nullptr; }

    // Matrix g of c, d, residual or z with strides `at`.
    template <class P>
    BK_HD P* matrix(P* base, const MatrixStrides& at, int64_t g) const {
        return at.list != nullptr ? static_cast<P*>(at.list[g]) : offset_by(base, g * at.step);
    }
    // Read and write an element of c, d, residual or z at offset `at`.
    BK_HD S read(const E* from, int64_t at) const {
        if constexpr (kMayBeWide<E>)
            if (is_wide) return reinterpret_cast<const float*>(from)[at];
        return element_of(from[at]);
    }
    BK_HD void write(E* to, int64_t at, S value) const {
        if constexpr (kMayBeWide<E>)
            if (is_wide) {
                reinterpret_cast<float*>(to)[at] = value;
                return;
            }
        to[at] = stored(value);
    }
    template <class P>
    BK_HD P* offset_by(P* base, int64_t elements) const {
        if (base == nullptr) return base;
        if constexpr (kMayBeWide<E>)
            if (is_wide) elements *= static_cast<int64_t>(sizeof(float) / sizeof(E));
        return base + elements;
    }
    // The epilogue of rows from `first` on.
    Epilogue from_row(int64_t first) const {
        Epilogue e = *this;
        e.c = offset_by(c, first * c_at.row);
        e.d = offset_by(d, first * d_at.row);
        e.residual = offset_by(residual, first * residual_at.row);
        e.z = offset_by(z, first * z_at.row);
        e.gate_z = offset_by(gate_z, first * gate_z_at.row);
        if (row_scale != nullptr) e.row_scale += first;
        if (row_bias != nullptr) e.row_bias += first;
        return e;
    }

    BK_HD S scaled(S sum, int64_t i, int64_t j) const {
        S z = alpha * sum;
        if (row_scale != nullptr) z *= row_scale[i];
        if (column_scale != nullptr) z *= column_scale[j];
        return z;
    }

    BK_HD void store_one(int64_t matrix, int64_t i, int64_t j, S sum) const {
        S x = scaled(sum, i, j);
        if (has_c()) x += beta * read(this->matrix(c, c_at, matrix), i * c_at.row + j);
        if (bias != nullptr) x += bias_of(j);
        if (row_bias != nullptr) x += element_of(row_bias[i]);
        if (z != nullptr) write(this->matrix(z, z_at, matrix), i * z_at.row + j, x);
        x = activated(x);
        if (residual != nullptr) x += read(this->matrix(residual, residual_at, matrix), i * residual_at.row + j);
        write(this->matrix(d, d_at, matrix), i * d_at.row + j, x);
    }

    // Stores one result of a gated GEMM, which has no batch.
    BK_HD void store_gated(int64_t i, int64_t j, S sum, S gate_sum) const {
        const S own = bias != nullptr ? bias_of(j) : S(0), other = gate_bias != nullptr ? element_of(gate_bias[j]) : S(0);
        write(d, i * d_at.row + j, gated(i, j, sum, gate_sum, own, other));
    }
    // Biases that do not exist are not read.
    BK_HD S gated(int64_t i, int64_t j, S sum, S gate_sum, S bias_j, S gate_bias_j) const {
        S x = alpha * sum, gate = alpha * gate_sum;
        if (bias != nullptr) x += bias_j;
        if (gate_bias != nullptr) gate += gate_bias_j;
        if (z != nullptr) write(z, i * z_at.row + j, x);
        if (gate_z != nullptr) write(gate_z, i * gate_z_at.row + j, gate);
        return activated_as<S>(activation, x) * gate;
    }

    BK_HD S bias_of(int64_t j) const {
        if (bias == nullptr) return S(0);
        if (bias_type == BiasType::kI32) return static_cast<S>(static_cast<const int32_t*>(bias)[j]);
        if (bias_type == BiasType::kF32) return static_cast<S>(static_cast<const float*>(bias)[j]);
        if constexpr (kIsNibbles<E>)
            return S(0);
        else
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
        else if constexpr (std::is_same_v<E, S>)
            return z;
        else if constexpr (std::is_integral_v<E>)
            return to_integer<E>(math::rint<float>(z));
        else
            return narrow<E>(z);
    }

    static BK_HD void add_pair(S (&z)[2], S factor, E pair) {
        z[0] += factor * static_cast<S>(low_nibble(pair));
        z[1] += factor * static_cast<S>(high_nibble(pair));
    }
    static BK_HD E stored_pair(S first, S second) { return to_nibbles<E>(first, second); }

    // The activation, evaluated to the accuracy of dtype A.
    template <class A>
    static BK_HD S activated_as(Activation activation, S z) {
        if constexpr (!std::is_integral_v<S>) {
            switch (activation) {
#define BK_CASE(number, functor, name, low, high) \
    case Activation::k##functor: return op::functor<A>{}(z);
                BK_ACTIVATIONS(BK_CASE)
#undef BK_CASE
                case Activation::kNone: break;
            }
        }
        return z;
    }
    // The 16-bit accuracy is two to four times as fast as f32's.
    BK_HD S activated(S z) const {
        if constexpr (kMayBeWide<E>)
            if (!is_wide) return activated_as<E>(activation, z);
        return activated_as<S>(activation, z);
    }
};

// Offset g, clamped to [0, size] so that no offset reaches foreign memory.
BK_HD int64_t group_offset(const int32_t* offsets, int64_t g, int64_t size) {
    const int64_t offset = offsets[g];
    return offset < 0 ? 0 : offset > size ? size : offset;
}

// Extents of one GEMM of a batch of different sizes, known on the device alone and clamped to the problem's.
struct MatmulExtents {
    int64_t m, n, k;
};

template <class T>
struct Matmul {
    using E = matmul_element_t<T>;
    int64_t m, n, k, batch;
    const E *a, *b;
    MatrixStrides a_at, b_at;  // [i, k] of A, [k, j] of B
    Epilogue<T> epilogue;
    Grouped grouped = Grouped::kNot;
    const int32_t* offsets = nullptr;
    Backend backend = Backend::kAny;
    const E* gate = nullptr;         // second B of a gated GEMM, with b's strides
    const int32_t* sizes = nullptr;  // m, n and k of each GEMM of the batch, on the device

    BK_HD MatmulExtents extents_of(int64_t g) const {
        if (sizes == nullptr) return {m, n, k};
        const auto within = [](int64_t size, int64_t most) { return size < 0 ? 0 : size > most ? most : size; };
        const int32_t* const own = sizes + 3 * g;
        return {within(own[0], m), within(own[1], n), within(own[2], k)};
    }
};

template <class T>
Status matmul(const Launch& launch, const Matmul<T>& problem);

// Bytes of workspace that such a GEMM can use.
template <class T>
size_t matmul_workspace(const MatmulShape& shape);

// Whether the shape's backend computes such a GEMM, alignment aside.
template <class T>
Status require_backend(const MatmulShape& shape);

}  // namespace bk

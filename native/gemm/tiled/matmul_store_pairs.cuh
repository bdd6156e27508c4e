// SPDX-License-Identifier: Apache-2.0
// Epilogue of a tiled GEMM on pairs of adjacent columns: one load or store of two elements each, or of the byte that two
// results share. Pairs need aligned operands (stores_pairs); others are stored one by one.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/types/vec.h"
#include "gemm/scaled_epilogue.h"
#include "gemm/tiled/matmul_tile.cuh"

namespace bk {

// Stores two results that share a byte.
template <class T>
BK_DEVICE void store_nibbles(const Epilogue<T>& e, int64_t matrix, int64_t i, int64_t j, matmul_scalar_t<T> first,
                             matmul_scalar_t<T> second) {
    matmul_scalar_t<T> z[2] = {e.alpha * first, e.alpha * second};
    if (e.c != nullptr) e.add_pair(z, e.beta, e.c[matrix * e.c_at.step + i * e.c_at.row + j / 2]);
    if (e.bias != nullptr)
        for (int v = 0; v < 2; ++v) z[v] += e.bias_of(j + v);
    e.d[matrix * e.d_at.step + i * e.d_at.row + j / 2] = e.stored_pair(e.activated(z[0]), e.activated(z[1]));
}

// Reads two adjacent elements of c, d, residual or z.
template <class T>
BK_DEVICE Vec<matmul_scalar_t<T>, 2> read_pair(const Epilogue<T>& e, const matmul_result_t<T>* from, int64_t at) {
    Vec<matmul_scalar_t<T>, 2> two;
    if constexpr (kMayBeWide<matmul_result_t<T>>)
        if (e.is_wide) return load<2>(reinterpret_cast<const float*>(from) + at);
    const auto pair = load<2>(from + at);
    for (int v = 0; v < 2; ++v) two.lane[v] = Epilogue<T>::element_of(pair.lane[v]);
    return two;
}

template <class T>
BK_DEVICE void write_pair(const Epilogue<T>& e, matmul_result_t<T>* to, int64_t at, const matmul_scalar_t<T> (&x)[2]) {
    if constexpr (kMayBeWide<matmul_result_t<T>>)
        if (e.is_wide) return store(reinterpret_cast<float*>(to) + at, Vec<float, 2>{{x[0], x[1]}});
    Vec<matmul_result_t<T>, 2> pair;
    for (int v = 0; v < 2; ++v) pair.lane[v] = Epilogue<T>::stored(x[v]);
    store(to + at, pair);
}

// Applies the activation to the accuracy of dtype A, with one switch for all pairs.
template <class T, class A, int kPairs>
BK_DEVICE void activate_pairs(Activation activation, matmul_scalar_t<T> (&x)[kPairs][2]) {
    const auto each = [&](auto kind) {
#pragma unroll
        for (int i = 0; i < kPairs; ++i)
            for (int v = 0; v < 2; ++v) x[i][v] = Epilogue<T>::template activated_as<A>(decltype(kind)::value, x[i][v]);
    };
    switch (activation) {
#define BK_CASE(number, functor, name, low, high) \
    case Activation::k##functor: return each(std::integral_constant<Activation, Activation::k##functor>{});
        BK_ACTIVATIONS(BK_CASE)
#undef BK_CASE
        case Activation::kNone: return;
    }
}

// Epilogue of pairs of adjacent columns, the same in several rows; rows without `has` are skipped. Each step is a loop
// of its own, so that it branches once and its loads are in flight together.
template <class T, int kPairs>
struct PairEpilogue {
    using S = matmul_scalar_t<T>;
    using E = matmul_result_t<T>;
    const Epilogue<T>& e;
    int64_t matrix, column;
    int64_t row[kPairs];
    bool has[kPairs];
    Vec<S, 2> bias{}, column_scale{};

    // Loads bias and scale of the two columns.
    BK_DEVICE void load_column_operands() {
        for (int v = 0; v < 2; ++v) {
            if (e.bias != nullptr) bias.lane[v] = e.bias_of(column + v);
            if (e.column_scale != nullptr) column_scale.lane[v] = e.column_scale[column + v];
        }
    }

    BK_DEVICE void store(S (&x)[kPairs][2]) const {
        each(x, [&](int, S z) { return e.alpha * z; });
        if (e.row_scale != nullptr) each_with_row_value(x, e.row_scale, [](S z, S scale) { return z * scale; });
        if (e.column_scale != nullptr) each(x, [&](int v, S z) { return z * column_scale.lane[v]; });
        if (e.has_c()) each_with_matrix(x, e.c, e.c_at, [&](S z, S c) { return z + e.beta * c; });
        if (e.bias != nullptr) each(x, [&](int v, S z) { return z + bias.lane[v]; });
        if (e.row_bias != nullptr)
            each_with_row_value(x, e.row_bias, [](S z, E value) { return z + Epilogue<T>::element_of(value); });
        if (e.z != nullptr) write_all(x, e.z, e.z_at);
        activate(x);
        if (e.residual != nullptr) each_with_matrix(x, e.residual, e.residual_at, [](S z, S r) { return z + r; });
        write_all(x, e.d, e.d_at);
    }

private:
    BK_DEVICE void activate(S (&x)[kPairs][2]) const {
        if constexpr (kMayBeWide<E>)
            if (!e.is_wide) return activate_pairs<T, E>(e.activation, x);
        activate_pairs<T, S>(e.activation, x);
    }

    template <class F>
    BK_DEVICE static void each(S (&x)[kPairs][2], F step) {
#pragma unroll
        for (int i = 0; i < kPairs; ++i)
            for (int v = 0; v < 2; ++v) x[i][v] = step(v, x[i][v]);
    }

    template <class V, class F>
    BK_DEVICE void each_with_row_value(S (&x)[kPairs][2], const V* values, F step) const {
        V value[kPairs] = {};
#pragma unroll
        for (int i = 0; i < kPairs; ++i)
            if (has[i]) value[i] = values[row[i]];
#pragma unroll
        for (int i = 0; i < kPairs; ++i)
            for (int v = 0; v < 2; ++v) x[i][v] = step(x[i][v], value[i]);
    }

    template <class F>
    BK_DEVICE void each_with_matrix(S (&x)[kPairs][2], const E* from, const MatrixStrides& at, F step) const {
        const E* const own = e.matrix(from, at, matrix);
        Vec<S, 2> value[kPairs] = {};
#pragma unroll
        for (int i = 0; i < kPairs; ++i)
            if (has[i]) value[i] = read_pair(e, own, row[i] * at.row + column);
#pragma unroll
        for (int i = 0; i < kPairs; ++i)
            for (int v = 0; v < 2; ++v) x[i][v] = step(x[i][v], value[i].lane[v]);
    }

    BK_DEVICE void write_all(const S (&x)[kPairs][2], E* to, const MatrixStrides& at) const {
        E* const own = e.matrix(to, at, matrix);
#pragma unroll
        for (int i = 0; i < kPairs; ++i)
            if (has[i]) write_pair(e, own, row[i] * at.row + column, x[i]);
    }
};

template <class T>
BK_DEVICE void store_elements(const Epilogue<T>& e, int64_t matrix, int64_t i, int64_t j, int64_t n, matmul_scalar_t<T> first,
                              matmul_scalar_t<T> second, bool in_pairs) {
    if (!in_pairs || j + 1 >= n) {
#pragma unroll 1
        for (int v = 0; v < 2 && j + v < n; ++v) e.store_one(matrix, i, j + v, v == 0 ? first : second);
        return;
    }
    PairEpilogue<T, 1> stores{e, matrix, j, {i}, {true}};
    stores.load_column_operands();
    matmul_scalar_t<T> x[1][2] = {{first, second}};
    stores.store(x);
}

template <class T>
BK_DEVICE void store_scaled(const Epilogue<scaled<T>>& e, int64_t i, int64_t j, int64_t n, float first, float second,
                            bool in_pairs) {
    if (!in_pairs || j + 1 >= n) {
#pragma unroll 1
        for (int v = 0; v < 2 && j + v < n; ++v) e.store_one(i, j + v, v == 0 ? first : second);
        return;
    }
    const float x = e.result(i, j, first), y = e.result(i, j + 1, second);
    const int64_t at = i * e.d_at.row + j;
    switch (e.type) {
        case FloatType::kF16: store(static_cast<f16*>(e.d) + at, Vec<f16, 2>{{narrow<f16>(x), narrow<f16>(y)}}); break;
        case FloatType::kBf16: store(static_cast<bf16*>(e.d) + at, Vec<bf16, 2>{{narrow<bf16>(x), narrow<bf16>(y)}}); break;
        default: store(static_cast<float*>(e.d) + at, Vec<float, 2>{{x, y}});
    }
}

// `j` is even; so is n if results share bytes.
template <class T>
BK_DEVICE void store_pair(const Epilogue<T>& e, int64_t matrix, int64_t i, int64_t j, int64_t n, matmul_scalar_t<T> first,
                          matmul_scalar_t<T> second, bool in_pairs) {
    if constexpr (kIsNibbles<T>)
        store_nibbles(e, matrix, i, j, first, second);
    else if constexpr (kIsScaled<T>)
        store_scaled(e, i, j, n, first, second, in_pairs);
    else
        store_elements(e, matrix, i, j, n, first, second, in_pairs);
}

// --- alignment ---

template <class E>
bool is_aligned_in_pairs(const E* data, const MatrixStrides& at) {
    const bool begins = at.list != nullptr ? at.list_is_aligned : is_aligned(data, 2 * sizeof(E)) && at.step % 2 == 0;
    return begins && at.row % 2 == 0;
}

template <class T>
bool stores_pairs(const Epilogue<scaled<T>>& e) {
    if (e.type == FloatType::kF32) return is_aligned_in_pairs(static_cast<const float*>(e.d), e.d_at);
    return is_aligned_in_pairs(static_cast<const f16*>(e.d), e.d_at);
}

template <class T>
bool stores_pairs(const Epilogue<T>& e) {
    const auto fits = [&](const auto* data, const MatrixStrides& at) {
        if (e.is_wide) return is_aligned_in_pairs(reinterpret_cast<const float*>(data), at);
        return is_aligned_in_pairs(data, at);
    };
    return fits(e.d, e.d_at) && (!e.has_c() || fits(e.c, e.c_at)) &&
           (e.residual == nullptr || fits(e.residual, e.residual_at)) && (e.z == nullptr || fits(e.z, e.z_at));
}

}  // namespace bk

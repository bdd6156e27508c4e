// SPDX-License-Identifier: Apache-2.0
// Epilogue of wgmma kernels: registers to memory, directly along rows if layout and alignment allow it, else staged in
// shared memory.
#pragma once

#include <cstdint>

#include "core/types/vec.h"
#include "gemm/sm90/matmul_wgmma_store_rows.cuh"
#include "gemm/sm90/matmul_wgmma_store_scaled.cuh"
#include "gemm/tiled/matmul_mma.cuh"

namespace bk {

constexpr int kStagingColumns = 32, kStagingPitch = kStagingColumns + 8;  // of a warp's staging buffer, in results

// Stores of the epilogue: in pairs, and straight from registers.
struct StoreMode {
    bool in_pairs, is_direct;
};

// Stores a tile that lies inside the columns, with alpha, bias and relu as the only epilogue.
template <class T, int kColumns, class Sum>
BK_DEVICE void store_directly(const Matmul<T>& p, Sum (&sums)[kColumns / 2], const TileCoord& coord, int64_t row, int lane) {
    using E = matmul_result_t<T>;
    using S = matmul_scalar_t<T>;
    const Epilogue<T>& e = p.epilogue;
    const int64_t column = coord.column + lane % 4 * 2;
    const E* const bias = static_cast<const E*>(e.bias);
    const bool has_bias = bias != nullptr, is_relu = e.activation == Activation::kRelu;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int64_t i = row + lane / 4 + 8 * half;
        if (i >= coord.row_end) continue;
        E* const to = e.d + coord.matrix * e.d_at.step + i * e.d_at.row + column;
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) {
            S x[2];
            for (int v = 0; v < 2; ++v) x[v] = e.alpha * MmaTraits<T>::finalize(sums[4 * j + 2 * half + v], p.k);
            if (has_bias) {
                const Vec<E, 2> two = load<2>(bias + column + 8 * j);
                for (int v = 0; v < 2; ++v) x[v] += Epilogue<T>::element_of(two.lane[v]);
            }
            if (is_relu)
                for (int v = 0; v < 2; ++v) x[v] = Epilogue<T>::template activated_as<S>(Activation::kRelu, x[v]);
            Vec<E, 2> pair;
            for (int v = 0; v < 2; ++v) pair.lane[v] = Epilogue<T>::stored(x[v]);
            store(to + 8 * j, pair);
        }
    }
}

// Rows of the results as they are; a convolution's may be elsewhere.
struct SameRows {
    BK_DEVICE int64_t operator()(int64_t row) const { return row; }
};

// Stores a staged pass: two columns of every second of the warp's 16 rows.
template <class T, class Rows>
BK_DEVICE void store_staged(const Matmul<T>& p, const matmul_scalar_t<T>* staging, const TileCoord& coord, int64_t row,
                            int staged_row, int at, int64_t column, bool in_pairs, const Rows& rows) {
    using S = matmul_scalar_t<T>;
    constexpr int kStagedRows = 8, kRowStep = 16 / kStagedRows;
    const S* const pair = staging + staged_row * kStagingPitch + at;
    if (column >= p.n) return;
    if (kIsScaled<T> || !in_pairs || column + 1 >= p.n) {
#pragma unroll 1
        for (int i = 0; i < kStagedRows; ++i) {
            const int64_t at_row = row + staged_row + i * kRowStep;
            const S* const two = pair + i * kRowStep * kStagingPitch;
            if (at_row < coord.row_end)
                store_pair(p.epilogue, coord.matrix, rows(at_row), column, p.n, two[0], two[1], kIsScaled<T> && in_pairs);
        }
        return;
    }
    if constexpr (!kIsScaled<T>) {
        PairEpilogue<T, kStagedRows> stores{p.epilogue, coord.matrix, column, {}, {}};
        stores.load_column_operands();
        S x[kStagedRows][2];
#pragma unroll
        for (int i = 0; i < kStagedRows; ++i) {
            const int64_t at_row = row + staged_row + i * kRowStep;
            stores.row[i] = rows(at_row);
            stores.has[i] = at_row < coord.row_end;
            for (int v = 0; v < 2; ++v) x[i][v] = pair[i * kRowStep * kStagingPitch + v];
        }
        stores.store(x);
    }
}

// Stores a staged pass of a gated GEMM; gate sums are half a buffer behind the others.
template <class T, int kStagedRows>
BK_DEVICE void store_gated_staged(const Matmul<T>& p, const matmul_scalar_t<T>* staging, const TileCoord& coord, int64_t row,
                                  int staged_row, int at, int64_t column, bool in_pairs) {
    using S = matmul_scalar_t<T>;
    constexpr int kRowStep = 16 / kStagedRows, kGate = kStagingColumns / 2;
    const Epilogue<T>& e = p.epilogue;
    const int count = column + 1 < p.n ? 2 : column < p.n ? 1 : 0;
    S bias[2] = {}, gate_bias[2] = {};
    for (int v = 0; v < count; ++v) {
        if (e.bias != nullptr) bias[v] = e.bias_of(column + v);
        if (e.gate_bias != nullptr) gate_bias[v] = Epilogue<T>::element_of(e.gate_bias[column + v]);
    }
#pragma unroll
    for (int i = 0; i < kStagedRows; ++i) {
        const int64_t at_row = row + staged_row + i * kRowStep;
        if (at_row >= coord.row_end || count == 0) continue;
        const S* const pair = staging + (staged_row + i * kRowStep) * kStagingPitch + at;
        S two[2] = {};
        for (int v = 0; v < count; ++v) two[v] = e.gated(at_row, column + v, pair[v], pair[v + kGate], bias[v], gate_bias[v]);
        if (count == 2 && in_pairs)
            write_pair(e, e.d, at_row * e.d_at.row + column, two);
        else
            for (int v = 0; v < count; ++v) e.write(e.d, at_row * e.d_at.row + column + v, two[v]);
    }
}

// Stages a warp's 16 rows in shared memory, so that stores go along rows.
template <class T, int kColumns, class Sum, class Rows = SameRows>
BK_DEVICE void store_staged_tile(const Matmul<T>& p, const Sum (&sums)[kColumns / 2], matmul_scalar_t<T>* staging,
                                 const TileCoord& coord, int64_t row, int lane, bool in_pairs, const Rows& rows = {}) {
    using S = matmul_scalar_t<T>;
    const bool is_gated = kMayBeGated<T> && p.gate != nullptr;
#pragma unroll 1
    for (int pass = 0; pass < kColumns / kStagingColumns; ++pass) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) {
            // a pass has four groups of eight columns, or two and their two gates
            const int upper = j >= kColumns / 16;
            const int own = is_gated ? (j - upper * (kColumns / 16)) / 2 : j / 4;
            const int staged_group = is_gated ? j % 2 + 2 * upper : j % 4;
            if (own != pass) continue;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                S* const to = staging + (lane / 4 + 8 * half) * kStagingPitch + 8 * staged_group + lane % 4 * 2;
                Vec<S, 2> two;
                for (int v = 0; v < 2; ++v) two.lane[v] = MmaTraits<T>::finalize(sums[4 * j + 2 * half + v], p.k);
                store(to, two);
            }
        }
        __syncwarp();
        if constexpr (kMayBeGated<T>)
            if (is_gated) {
                const int at = lane % 8 * 2;
                store_gated_staged<T, 4>(p, staging, coord, row, lane / 8, at, coord.column + pass * (kStagingColumns / 2) + at,
                                         in_pairs);
                continue;
            }
        const int at = lane % 16 * 2;
        store_staged(p, staging, coord, row, lane / 16, at, coord.column + pass * kStagingColumns + at, in_pairs, rows);
    }
}

// Stores 16 rows of each warp along the path chosen on the host.
template <class T, int kColumns, class Sum>
BK_DEVICE void store_sums(const Matmul<T>& p, Sum (&sums)[kColumns / 2], matmul_scalar_t<T>* staging, const TileCoord& coord,
                          int64_t row, int lane, const StoreMode& stores) {
    if (stores.is_direct && coord.column + columns_of(p, kColumns) <= p.n) {
        if constexpr (kIsScaled<T>)
            store_scaled_rows<T, kColumns>(p, sums, coord, row, lane);
        else if constexpr (kStoresVectors<T>)
            store_rows<T, kColumns>(p, sums, coord, row, lane);
        else
            store_directly<T, kColumns>(p, sums, coord, row, lane);
        return;
    }
    store_staged_tile<T, kColumns>(p, sums, staging, coord, row, lane, stores.in_pairs);
}

// Whether store_rows() or store_directly() can do the whole epilogue.
template <class T>
StoreMode store_mode_of(const Matmul<T>& p) {
    const Epilogue<T>& e = p.epilogue;
    const bool in_pairs = stores_pairs(e);
    if constexpr (kIsScaled<T>) {
        return {in_pairs, can_store_scaled_rows(e)};
    } else {
        if constexpr (kStoresVectors<T>)
            if (!can_store_rows(e)) return {in_pairs, false};
        const bool has_scales = e.row_scale != nullptr || e.column_scale != nullptr || e.row_bias != nullptr || e.is_wide;
        const bool has_more = e.has_c() || e.residual != nullptr || e.z != nullptr || p.gate != nullptr ||
                              (e.activation != Activation::kNone && e.activation != Activation::kRelu);
        const auto is_simple = [](const void* bias) { return is_aligned(bias, 2 * sizeof(matmul_result_t<T>)); };
        const bool has_simple_bias =
            (e.bias == nullptr || e.bias_type == BiasType::kElement) && is_simple(e.bias) && is_simple(e.gate_bias);
        return {in_pairs, in_pairs && !has_scales && has_simple_bias && (kStoresVectors<T> || !has_more)};
    }
}

}  // namespace bk

// Epilogue of wgmma kernels: registers to memory, directly along rows if layout and alignment allow it, else staged in
// shared memory.
#pragma once

#include <cstdint>

#include "core/types/vec.h"
#include "gemm/matmul_group_runs.cuh"
#include "gemm/matmul_group_scaled.cuh"
#include "gemm/matmul_tensor.cuh"

namespace bk {

constexpr int kBandColumns = 32, kBandPitch = kBandColumns + 8;  // of a warp's staging buffer, in results

// How the epilogue stores: in pairs, and straight from registers.
struct GroupStores {
    bool in_pairs, is_direct;
};

// Stores a tile that lies inside the columns, with alpha, bias and relu as the only epilogue.
template <class T, int kColumns, class Sum>
BK_DEVICE void store_directly(const Matmul<T>& p, Sum (&sums)[kColumns / 2], const MatmulPlace& place, int64_t row, int lane) {
    using E = matmul_result_t<T>;
    using S = matmul_scalar_t<T>;
    const Epilogue<T>& e = p.epilogue;
    const int64_t column = place.column + lane % 4 * 2;
    const E* const bias = static_cast<const E*>(e.bias);
    const bool has_bias = bias != nullptr, is_relu = e.activation == Activation::kRelu;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int64_t i = row + lane / 4 + 8 * half;
        if (i >= place.end) continue;
        E* const to = e.d + place.matrix * e.d_at.step + i * e.d_at.row + column;
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) {
            S x[2];
            for (int v = 0; v < 2; ++v) x[v] = e.alpha * TensorKind<T>::finished(sums[4 * j + 2 * half + v], p.k);
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

// Stores a staged pass: two columns of every second of the warp's 16 rows.
template <class T>
BK_DEVICE void store_band(const Matmul<T>& p, const matmul_scalar_t<T>* band, const MatmulPlace& place, int64_t row, int line,
                          int at, int64_t column, bool in_pairs) {
    using S = matmul_scalar_t<T>;
    constexpr int kLines = 8, kApart = 16 / kLines;
    const S* const pair = band + line * kBandPitch + at;
    if (column >= p.n) return;
    if (kIsScaled<T> || !in_pairs || column + 1 >= p.n) {
#pragma unroll 1
        for (int i = 0; i < kLines; ++i) {
            const int64_t at_row = row + line + i * kApart;
            const S* const two = pair + i * kApart * kBandPitch;
            if (at_row < place.end)
                store_pair(p.epilogue, place.matrix, at_row, column, p.n, two[0], two[1], kIsScaled<T> && in_pairs);
        }
        return;
    }
    if constexpr (!kIsScaled<T>) {
        PairStores<T, kLines> stores{p.epilogue, place.matrix, column, {}, {}};
        stores.load_of_columns();
        S x[kLines][2];
#pragma unroll
        for (int i = 0; i < kLines; ++i) {
            stores.row[i] = row + line + i * kApart;
            stores.has[i] = stores.row[i] < place.end;
            for (int v = 0; v < 2; ++v) x[i][v] = pair[i * kApart * kBandPitch + v];
        }
        stores.store(x);
    }
}

// Stores a staged pass of a gated GEMM; gate sums are half a buffer behind the others.
template <class T, int kLines>
BK_DEVICE void store_gated_band(const Matmul<T>& p, const matmul_scalar_t<T>* band, const MatmulPlace& place, int64_t row,
                                int line, int at, int64_t column, bool in_pairs) {
    using S = matmul_scalar_t<T>;
    constexpr int kApart = 16 / kLines, kGate = kBandColumns / 2;
    const Epilogue<T>& e = p.epilogue;
    const int count = column + 1 < p.n ? 2 : column < p.n ? 1 : 0;
    S bias[2] = {}, gate_bias[2] = {};
    for (int v = 0; v < count; ++v) {
        if (e.bias != nullptr) bias[v] = e.bias_of(column + v);
        if (e.gate_bias != nullptr) gate_bias[v] = Epilogue<T>::element_of(e.gate_bias[column + v]);
    }
#pragma unroll
    for (int i = 0; i < kLines; ++i) {
        const int64_t at_row = row + line + i * kApart;
        if (at_row >= place.end || count == 0) continue;
        const S* const pair = band + (line + i * kApart) * kBandPitch + at;
        S two[2] = {};
        for (int v = 0; v < count; ++v) two[v] = e.gated(at_row, column + v, pair[v], pair[v + kGate], bias[v], gate_bias[v]);
        if (count == 2 && in_pairs)
            keep_two(e, e.d, at_row * e.d_at.row + column, two);
        else
            for (int v = 0; v < count; ++v) e.keep(e.d, at_row * e.d_at.row + column + v, two[v]);
    }
}

// Stages a warp's 16 rows in shared memory, so that stores go along rows.
template <class T, int kColumns, class Sum>
BK_DEVICE void store_group(const Matmul<T>& p, const Sum (&sums)[kColumns / 2], matmul_scalar_t<T>* band,
                           const MatmulPlace& place, int64_t row, int lane, bool in_pairs) {
    using S = matmul_scalar_t<T>;
    const bool is_gated = kMayBeGated<T> && p.gate != nullptr;
#pragma unroll 1
    for (int pass = 0; pass < kColumns / kBandColumns; ++pass) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) {
            // a pass has four groups of eight columns, or two and their two gates
            const int upper = j >= kColumns / 16;
            const int own = is_gated ? (j - upper * (kColumns / 16)) / 2 : j / 4;
            const int place_in_band = is_gated ? j % 2 + 2 * upper : j % 4;
            if (own != pass) continue;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                S* const to = band + (lane / 4 + 8 * half) * kBandPitch + 8 * place_in_band + lane % 4 * 2;
                Vec<S, 2> two;
                for (int v = 0; v < 2; ++v) two.lane[v] = TensorKind<T>::finished(sums[4 * j + 2 * half + v], p.k);
                store(to, two);
            }
        }
        __syncwarp();
        if constexpr (kMayBeGated<T>)
            if (is_gated) {
                const int at = lane % 8 * 2;
                store_gated_band<T, 4>(p, band, place, row, lane / 8, at, place.column + pass * (kBandColumns / 2) + at,
                                       in_pairs);
                continue;
            }
        const int at = lane % 16 * 2;
        store_band(p, band, place, row, lane / 16, at, place.column + pass * kBandColumns + at, in_pairs);
    }
}

// Stores 16 rows of each warp along the path chosen on the host.
template <class T, int kColumns, class Sum>
BK_DEVICE void store_sums(const Matmul<T>& p, Sum (&sums)[kColumns / 2], matmul_scalar_t<T>* band, const MatmulPlace& place,
                          int64_t row, int lane, const GroupStores& stores) {
    if (stores.is_direct && place.column + columns_of(p, kColumns) <= p.n) {
        if constexpr (kIsScaled<T>)
            store_scaled_runs<T, kColumns>(p, sums, place, row, lane);
        else if constexpr (kHasRuns<T>)
            store_runs<T, kColumns>(p, sums, place, row, lane);
        else
            store_directly<T, kColumns>(p, sums, place, row, lane);
        return;
    }
    store_group<T, kColumns>(p, sums, band, place, row, lane, stores.in_pairs);
}

// Whether store_rows() or store_directly() can do the whole epilogue.
template <class T>
GroupStores stores_of(const Matmul<T>& p) {
    const Epilogue<T>& e = p.epilogue;
    const bool in_pairs = stores_pairs(e);
    if constexpr (kIsScaled<T>) {
        return {in_pairs, are_scaled_runs(e)};
    } else {
        if constexpr (kHasRuns<T>)
            if (!are_runs(e)) return {in_pairs, false};
        const bool has_scales = e.row_scale != nullptr || e.column_scale != nullptr || e.row_bias != nullptr || e.is_wide;
        const bool has_more = e.has_c() || e.residual != nullptr || e.z != nullptr || p.gate != nullptr ||
                              (e.activation != Activation::kNone && e.activation != Activation::kRelu);
        const auto is_simple = [](const void* bias) { return is_aligned(bias, 2 * sizeof(matmul_result_t<T>)); };
        const bool has_simple_bias =
            (e.bias == nullptr || e.bias_type == BiasType::kElement) && is_simple(e.bias) && is_simple(e.gate_bias);
        return {in_pairs, in_pairs && !has_scales && has_simple_bias && (kHasRuns<T> || !has_more)};
    }
}

}  // namespace bk

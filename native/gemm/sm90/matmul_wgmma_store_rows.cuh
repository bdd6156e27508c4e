// SPDX-License-Identifier: Apache-2.0
// Vectorised epilogue of wgmma kernels for 16-bit results: 16 bytes a thread along rows, C and residual prefetched one
// pass ahead.
//
// Each lane of a quad accumulates a pair out of every eight columns of a row. A 4 x 4 transpose of words within the
// quad gives each lane eight adjacent columns.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/types/vec.h"
#include "gemm/tiled/matmul_mma.cuh"

namespace bk {

// Whether T's results can be stored so.
template <class T>
constexpr bool kStoresVectors = !kIsScaled<T> && kMayBeWide<matmul_result_t<T>>;

// Transposes 4 x 4 words across a quad: word i of lane p becomes word p of lane i.
BK_DEVICE void transpose_in_quad(uint32_t (&word)[4], int lane) {
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
        const bool is_upper = (lane & step) != 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if ((i & step) != 0) continue;
            const uint32_t other = __shfl_xor_sync(~0u, is_upper ? word[i] : word[i + step], step);
            if (is_upper)
                word[i] = other;
            else
                word[i + step] = other;
        }
    }
}

// A thread's 16 results of 32 columns: a pair of each eight columns in rows `row` and row + 8.
template <class T>
struct VectorEpilogue {
    using E = matmul_result_t<T>;
    using S = matmul_scalar_t<T>;
    static constexpr int kEights = 4, kPairs = 2 * kEights;
    const Epilogue<T>& e;
    const TileCoord& coord;
    int64_t row;
    int lane;

    // Eight adjacent elements of each of the two rows.
    struct RowVectors {
        uint4 half[2];
    };

    BK_DEVICE bool has(int half) const { return row + 8 * half < coord.row_end; }

    BK_DEVICE RowVectors load_rows(const E* from, const MatrixStrides& at, int64_t column) const {
        RowVectors vectors{};
        if (from == nullptr) return vectors;
        const E* const own = e.matrix(from, at, coord.matrix) + row * at.row + column + lane % 4 * 8;
#pragma unroll
        for (int half = 0; half < 2; ++half)
            if (has(half)) vectors.half[half] = *reinterpret_cast<const uint4*>(own + 8 * half * at.row);
        return vectors;
    }

    BK_DEVICE void add(S (&x)[kPairs][2], const RowVectors& vectors, S factor) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint32_t word[kEights] = {vectors.half[half].x, vectors.half[half].y, vectors.half[half].z, vectors.half[half].w};
            transpose_in_quad(word, lane);
#pragma unroll
            for (int i = 0; i < kEights; ++i) {
                const auto pair = bit_cast<Vec<E, 2>>(word[i]);
                for (int v = 0; v < 2; ++v) x[half * kEights + i][v] += factor * widen_lane(pair, v);
            }
        }
    }

    // `bias` points to the pair in the first eight columns.
    BK_DEVICE void scale(S (&x)[kPairs][2], const E* bias) const {
#pragma unroll
        for (int i = 0; i < kEights; ++i) {
            Vec<S, 2> value{};
            if (bias != nullptr) {
                const auto pair = load<2>(bias + 8 * i);
                for (int v = 0; v < 2; ++v) value.lane[v] = widen_lane(pair, v);
            }
            for (int half = 0; half < 2; ++half)
                for (int v = 0; v < 2; ++v) {
                    S& own = x[half * kEights + i][v];
                    own = e.alpha * own + value.lane[v];
                }
        }
    }

    BK_DEVICE void write_rows(const S (&x)[kPairs][2], E* to, const MatrixStrides& at, int64_t column) const {
        E* const own = e.matrix(to, at, coord.matrix) + row * at.row + column + lane % 4 * 8;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint32_t word[kEights];
#pragma unroll
            for (int i = 0; i < kEights; ++i) {
                Vec<E, 2> pair;
                for (int v = 0; v < 2; ++v) pair.lane[v] = Epilogue<T>::stored(x[half * kEights + i][v]);
                word[i] = bit_cast<uint32_t>(pair);
            }
            transpose_in_quad(word, lane);
            if (has(half)) *reinterpret_cast<uint4*>(own + 8 * half * at.row) = make_uint4(word[0], word[1], word[2], word[3]);
        }
    }
};

// Stores a warp's rows of a tile that lies inside the columns.
template <class T, int kColumns, class Sum>
BK_DEVICE void store_rows(const Matmul<T>& p, const Sum (&sums)[kColumns / 2], const TileCoord& coord, int64_t row, int lane) {
    using E = matmul_result_t<T>;
    using S = matmul_scalar_t<T>;
    using Stores = VectorEpilogue<T>;
    constexpr int kEights = Stores::kEights, kPassColumns = 8 * kEights;
    const Epilogue<T>& e = p.epilogue;
    const Stores stores{e, coord, row + lane / 4, lane};
    const bool is_gated = p.gate != nullptr;
    const int passes = (is_gated ? kColumns / 2 : kColumns) / kPassColumns;
    const E* const bias = static_cast<const E*>(e.bias);
    const auto gather_sums = [&](S(&x)[Stores::kPairs][2], int eights) {
#pragma unroll
        for (int i = 0; i < kColumns / 8; i += kEights)
            if (i == eights)
                for (int pair = 0; pair < Stores::kPairs; ++pair)
                    for (int v = 0; v < 2; ++v) x[pair][v] = sums[4 * (i + pair % kEights) + pair / kEights * 2 + v];
    };
    // C or residual is loaded one pass ahead; if both exist, the residual.
    const E* const prefetch_from = e.residual != nullptr ? e.residual : e.c;
    const MatrixStrides& prefetch_at = e.residual != nullptr ? e.residual_at : e.c_at;
    auto vectors = stores.load_rows(prefetch_from, prefetch_at, coord.column);
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
        const int64_t column = coord.column + pass * kPassColumns, own = column + lane % 4 * 2;
        const int64_t next = pass + 1 < passes ? column + kPassColumns : column;
        S x[Stores::kPairs][2];
        gather_sums(x, pass * kEights);
        stores.scale(x, bias == nullptr ? nullptr : bias + own);
        const auto current = vectors;
        vectors = stores.load_rows(prefetch_from, prefetch_at, next);
        if (e.c != nullptr) stores.add(x, e.residual == nullptr ? current : stores.load_rows(e.c, e.c_at, column), e.beta);
        if (e.z != nullptr) stores.write_rows(x, e.z, e.z_at, column);
        if (is_gated) {
            S gate[Stores::kPairs][2];
            gather_sums(gate, pass * kEights + kColumns / 16);
            stores.scale(gate, e.gate_bias == nullptr ? nullptr : e.gate_bias + own);
            if (e.gate_z != nullptr) stores.write_rows(gate, e.gate_z, e.gate_z_at, column);
            activate_pairs<T, S>(e.activation, x);
#pragma unroll
            for (int pair = 0; pair < Stores::kPairs; ++pair)
                for (int v = 0; v < 2; ++v) x[pair][v] *= gate[pair][v];
        } else {
            activate_pairs<T, E>(e.activation, x);
        }
        if (e.residual != nullptr) stores.add(x, current, S(1));
        stores.write_rows(x, e.d, e.d_at, column);
    }
}

// Whether every matrix of the epilogue is aligned to 16 bytes.
template <class T>
bool can_store_rows(const Epilogue<T>& e) {
    const auto fits = [](const auto* data, const MatrixStrides& at) {
        return data == nullptr || (at.list == nullptr && is_aligned_by_16(data, at));
    };
    return !e.is_wide && e.c_at.list == nullptr && fits(e.c, e.c_at) && fits(e.d, e.d_at) && fits(e.residual, e.residual_at) &&
           fits(e.z, e.z_at) && fits(e.gate_z, e.gate_z_at);
}

}  // namespace bk

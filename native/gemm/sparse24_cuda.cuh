// SPDX-License-Identifier: Apache-2.0
// 2:4 sparse GEMM on the GPU. Skinny x multiplies the compressed weights; otherwise, given a workspace, weights are
// expanded once and a dense GEMM follows.
#pragma once

#include <cstdint>

#include "core/types/vec.h"
#include "gemm/matmul_cuda.cuh"
#include "gemm/sparse24.h"

namespace bk {

constexpr int kSparseRows = 8, kSparseWarps = 8;

// Loads N elements, by 16-byte vectors if `aligned`.
template <int N, class E>
BK_DEVICE void load_elements(E (&to)[N], const E* from, bool aligned) {
    constexpr int kEach = 16 / sizeof(E) < N ? 16 / sizeof(E) : N;
    if (aligned) {
#pragma unroll
        for (int i = 0; i < N; i += kEach) {
            const Vec<E, kEach> vector = load<kEach>(from + i);
            for (int e = 0; e < kEach; ++e) to[i + e] = vector.lane[e];
        }
    } else {
        for (int i = 0; i < N; ++i) to[i] = from[i];
    }
}

// One row of weights a warp; a lane takes eight of each 256 K elements.
template <class T>
__global__ void __launch_bounds__(32 * kSparseWarps) sparse24_rows_kernel(const __grid_constant__ Sparse24<T> p, bool aligned) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int64_t j = static_cast<int64_t>(blockIdx.x) * kSparseWarps + warp;
    if (j >= p.m) return;
    const T* const values = p.values + j * (p.k / 2);
    const uint16_t* const metadata = p.metadata + j * (p.k / 8);
    for (int64_t i = static_cast<int64_t>(blockIdx.y) * kSparseRows; i < p.n;
         i += static_cast<int64_t>(gridDim.y) * kSparseRows) {
        float sum[kSparseRows] = {};
        for (int64_t k = 8 * lane; k < p.k; k += 256) {
            T nonzeros[4], expanded[8];
            load_elements(nonzeros, values + k / 2, aligned);
            expand_groups(nonzeros, metadata[k / 8], expanded);
#pragma unroll
            for (int r = 0; r < kSparseRows; ++r) {
                if (i + r >= p.n) continue;
                T x[8];
                load_elements(x, p.x + (i + r) * p.k + k, aligned);
#pragma unroll
                for (int e = 0; e < 8; ++e) sum[r] = math::fma(widen(x[e]), widen(expanded[e]), sum[r]);
            }
        }
#pragma unroll
        for (int r = 0; r < kSparseRows; ++r) {
            for (int distance = 16; distance > 0; distance /= 2) sum[r] += __shfl_xor_sync(~0u, sum[r], distance);
            if (lane == r && i + r < p.n) p.y[(i + r) * p.m + j] = narrow<T>(sum[r]);
        }
    }
}

// Expands eight K elements a thread; `E` has the elements' bits.
template <class E>
__global__ void __launch_bounds__(256) sparse24_expand_kernel(const E* values, const uint16_t* metadata, E* dense,
                                                              int64_t words, bool aligned, bool stores_vectors) {
    for (int64_t w = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x; w < words;
         w += static_cast<int64_t>(gridDim.x) * 256) {
        E nonzeros[4], expanded[8];
        load_elements(nonzeros, values + 4 * w, aligned);
        expand_groups(nonzeros, metadata[w], expanded);
        constexpr int kEach = 16 / sizeof(E);
        if (!stores_vectors) {
            for (int i = 0; i < 8; ++i) dense[8 * w + i] = expanded[i];
            continue;
        }
#pragma unroll
        for (int i = 0; i < 8; i += kEach) {
            Vec<E, kEach> vector;
            for (int e = 0; e < kEach; ++e) vector.lane[e] = expanded[i + e];
            store(dense + 8 * w + i, vector);
        }
    }
}

template <class T>
size_t sparse24_workspace(int64_t n, int64_t m, int64_t k) {
    if (n <= kSparseRows) return 0;
    Carver carver;
    carver.take<T>(m * k);
    carver.take<char>(static_cast<int64_t>(matmul_workspace<T>({n, m, k, 1})));
    return carver.bytes();
}

template <class T>
Status sparse24_inflate(const Launch& launch, int64_t m, int64_t k, const T* values, const uint16_t* metadata, T* dense) {
    using E = bits_t<T>;
    const int64_t words = m * (k / 8), blocks = ceil_div<int64_t>(words, 256);
    if (words == 0) return Status::kOk;
    return launch_kernel(launch, {dim3(static_cast<unsigned>(blocks < kMaxGridX ? blocks : kMaxGridX)), dim3(256)},
                         sparse24_expand_kernel<E>, reinterpret_cast<const E*>(values), metadata, reinterpret_cast<E*>(dense),
                         words, is_aligned(values, 16), is_aligned(dense, 16));
}

template <class T>
Status sparse24_product(const Launch& launch, const Sparse24<T>& p) {
    // The reference ABI's workspace has m k elements; the dense GEMM's own follows if the caller's is larger.
    using Words = Vec<T, 16 / sizeof(T)>;
    const int64_t words = p.m * p.k * static_cast<int64_t>(sizeof(T)) / 16;
    Words* const dense_words = p.n > kSparseRows ? workspace_array<Words>(launch, words) : nullptr;
    if (dense_words == nullptr) {
        const int64_t rows = ceil_div<int64_t>(p.n, kSparseRows);
        const dim3 blocks(static_cast<unsigned>(ceil_div<int64_t>(p.m, kSparseWarps)),
                          static_cast<unsigned>(rows < kMaxGridY ? rows : kMaxGridY));
        return launch_kernel(launch, {blocks, dim3(32 * kSparseWarps)}, sparse24_rows_kernel<T>, p,
                             is_aligned(p.x, 16) && is_aligned(p.values, 16));
    }
    T* const dense = reinterpret_cast<T*>(dense_words);
    BK_TRY(sparse24_inflate(launch, p.m, p.k, p.values, p.metadata, dense));
    const StoredMatrices x{1, 0, p.n, p.k, p.k}, w{1, 0, p.m, p.k, p.k}, y{1, 0, p.n, p.m, p.m};
    const Epilogue<T> epilogue{nullptr, p.y, nullptr, {}, strides_of(y, true), 1, 0, BiasType::kElement, Activation::kNone};
    return matmul(launch_with_workspace_from(launch, dense_words + words),
                  make_matmul<T>(kRcr, p.n, p.m, p.k, x, p.x, w, dense, epilogue));
}

}  // namespace bk

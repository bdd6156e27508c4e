// Products of at most eight rows of A on the GPU, which reading B once bounds: sums by FMA in f32, in an order that depends on
// the extents alone.
#pragma once

#include <cstdint>

#include "gemm/matmul_tensor.cuh"

namespace bk {

constexpr int kThinRows = 8;
constexpr int kDeepThreads = 256, kDeepColumns = 2, kDeepUnroll = 4;  // of a B whose columns lie together: columns a warp
constexpr int kWideThreads = 512, kWideChunks = 4;                    // of a B whose rows do: 16-byte chunks a row and block
constexpr int kWideSlices = 32 / kWideChunks;                         // rows of B that a warp reads at a time

// One result.
template <class T>
BK_DEVICE void store_one(const Epilogue<T>& e, int64_t matrix, int64_t i, int64_t j, matmul_scalar_t<T> sum) {
    matmul_scalar_t<T> z = e.alpha * sum;
    if (e.c != nullptr) z += e.beta * Epilogue<T>::element_of(e.c[matrix * e.c_at.step + i * e.c_at.row + j]);
    if (e.bias != nullptr) z += e.bias_of(j);
    e.d[matrix * e.d_at.step + i * e.d_at.row + j] = Epilogue<T>::stored(Epilogue<T>::activated(e.activation, z));
}

// Up to 16 bytes of neighbours as f32, zeros behind the last of `inside`.
template <class E>
BK_DEVICE void load_chunk(float (&lane)[kVectorLanes<E>], const E* from, int64_t inside, bool moves) {
    if (moves && inside >= kVectorLanes<E>) {
        const Vec<E, kVectorLanes<E>> chunk = load<kVectorLanes<E>>(from);
#pragma unroll
        for (int v = 0; v < kVectorLanes<E>; ++v) lane[v] = widen(chunk.lane[v]);
    } else {
#pragma unroll
        for (int v = 0; v < kVectorLanes<E>; ++v) lane[v] = v < inside ? widen(from[v]) : 0.f;
    }
}

// A warp has kDeepColumns columns, whose terms its lanes share. `moves` says that chunks of A and B are aligned.
template <class T>
__global__ void __launch_bounds__(kDeepThreads, 2) matmul_thin_deep_kernel(const __grid_constant__ Matmul<T> p, bool moves) {
    using E = matmul_element_t<T>;
    constexpr int kLanes = kVectorLanes<E>, kSpan = 32 * kLanes;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int64_t first = (static_cast<int64_t>(blockIdx.x) * (kDeepThreads / 32) + warp) * kDeepColumns;
    for (int64_t matrix = blockIdx.y; matrix < p.batch; matrix += gridDim.y) {
        const E* const a = p.a + matrix * p.a_at.step;
        const E* const b = p.b + matrix * p.b_at.step;
        float sum[kThinRows][kDeepColumns] = {};
        for (int64_t k0 = 0; k0 < p.k; k0 += kDeepUnroll * kSpan) {
            float column[kDeepUnroll][kDeepColumns][kLanes];
#pragma unroll
            for (int u = 0; u < kDeepUnroll; ++u) {
                const int64_t k = k0 + u * kSpan + lane * kLanes;
#pragma unroll
                for (int j = 0; j < kDeepColumns; ++j)
                    load_chunk(column[u][j], b + (first + j) * p.b_at.column + k, first + j < p.n ? p.k - k : 0, moves);
            }
#pragma unroll
            for (int u = 0; u < kDeepUnroll; ++u) {
                const int64_t k = k0 + u * kSpan + lane * kLanes;
#pragma unroll
                for (int i = 0; i < kThinRows; ++i) {
                    if (i >= p.m) break;
                    float row[kLanes];
                    load_chunk(row, a + i * p.a_at.row + k, p.k - k, moves);
#pragma unroll
                    for (int j = 0; j < kDeepColumns; ++j)
#pragma unroll
                        for (int v = 0; v < kLanes; ++v) sum[i][j] = math::fma(row[v], column[u][j][v], sum[i][j]);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < kThinRows; ++i) {
            if (i >= p.m) break;
#pragma unroll
            for (int j = 0; j < kDeepColumns; ++j) {
                float total = sum[i][j];
                for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(~0u, total, step);
                sum[i][j] = total;
            }
        }
        // Lane l has result l of the warp: one copy of the last steps.
        float mine = 0;
#pragma unroll
        for (int r = 0; r < kThinRows * kDeepColumns; ++r) mine = lane == r ? sum[r / kDeepColumns][r % kDeepColumns] : mine;
        const int64_t i = lane / kDeepColumns, j = first + lane % kDeepColumns;
        if (i < p.m && i < kThinRows && j < p.n) store_one(p.epilogue, matrix, i, j, mine);
    }
}

// A block has kWideChunks chunks of columns; its threads share the terms.
template <class T>
__global__ void __launch_bounds__(kWideThreads) matmul_thin_wide_kernel(const __grid_constant__ Matmul<T> p, bool moves) {
    using E = matmul_element_t<T>;
    constexpr int kLanes = kVectorLanes<E>, kColumns = kWideChunks * kLanes, kWarps = kWideThreads / 32, kUnroll = 4;
    __shared__ float part[kWarps][kThinRows][kColumns];
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int chunk = lane % kWideChunks, slice = warp * kWideSlices + lane / kWideChunks;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kColumns, j0 = first + chunk * kLanes;
    constexpr int64_t kSlices = kWarps * kWideSlices;
    for (int64_t matrix = blockIdx.y; matrix < p.batch; matrix += gridDim.y) {
        const E* const a = p.a + matrix * p.a_at.step;
        const E* const b = p.b + matrix * p.b_at.step + j0;
        float sum[kThinRows][kLanes] = {};
        for (int64_t k0 = slice; k0 < p.k; k0 += kUnroll * kSlices) {
            float row[kUnroll][kLanes];
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
                const int64_t k = k0 + u * kSlices;
                load_chunk(row[u], b + k * p.b_at.row, k < p.k ? p.n - j0 : 0, moves);
            }
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
                const int64_t k = k0 + u * kSlices;
                if (k >= p.k) break;
#pragma unroll
                for (int i = 0; i < kThinRows; ++i) {
                    if (i >= p.m) break;
                    const float factor = widen(a[i * p.a_at.row + k * p.a_at.column]);
#pragma unroll
                    for (int v = 0; v < kLanes; ++v) sum[i][v] = math::fma(factor, row[u][v], sum[i][v]);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < kThinRows; ++i) {
            if (i >= p.m) break;
#pragma unroll
            for (int v = 0; v < kLanes; ++v) {
                float total = sum[i][v];
                for (int step = kWideChunks; step < 32; step *= 2) total += __shfl_xor_sync(~0u, total, step);
                if (lane < kWideChunks) part[warp][i][chunk * kLanes + v] = total;
            }
        }
        __syncthreads();
        for (int r = thread; r < kThinRows * kColumns; r += kWideThreads) {
            const int i = r / kColumns, column = r % kColumns;
            if (i >= p.m || first + column >= p.n) continue;
            float total = 0;
            for (int w = 0; w < kWarps; ++w) total += part[w][i][column];
            store_one(p.epilogue, matrix, i, first + column, total);
        }
        __syncthreads();
    }
}

// Whether the kernels of this file compute the product: few rows, and B along k or along its rows.
template <class T>
constexpr bool kHasThinKernels = std::is_same_v<T, float> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

template <class T>
Status matmul_thin(const Launch& launch, const Matmul<T>& p) {
    using E = matmul_element_t<T>;
    const unsigned matrices = static_cast<unsigned>(p.batch < kMaxGridY ? p.batch : kMaxGridY);
    const bool b_moves = moves_by_16(p.b, p.b_at);
    if (p.b_at.row == 1 && p.a_at.column == 1) {
        const int64_t blocks = ceil_div<int64_t>(p.n, kDeepThreads / 32 * kDeepColumns);
        return launch_kernel(launch, {dim3(static_cast<unsigned>(blocks), matrices), dim3(kDeepThreads)},
                             matmul_thin_deep_kernel<T>, p, b_moves && moves_by_16(p.a, p.a_at));
    }
    const int64_t blocks = ceil_div<int64_t>(p.n, kWideChunks * kVectorLanes<E>);
    return launch_kernel(launch, {dim3(static_cast<unsigned>(blocks), matrices), dim3(kWideThreads)},
                         matmul_thin_wide_kernel<T>, p, b_moves);
}

}  // namespace bk

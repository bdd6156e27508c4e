// Skinny FP8 GEMM, M <= 16, both operands K-major: bandwidth-bound on one read of B. As the 16-bit kernels of
// gemm/matmul_thin_tensor.cuh, with sums over 128 K elements promoted and scaled if scales are by blocks.
#pragma once

#include <cstdint>

#include "core/types/vec.h"
#include "gemm/matmul_thin_store.cuh"
#include "gemm/matmul_thin_tensor.cuh"

namespace bk {

template <class T>
constexpr bool kHasThinBytes = kIsFp8<matmul_element_t<T>>;

constexpr int kByteRows = 2 * kThinRows, kByteColumns = 16;

// Loads 16 bytes along k; zeros from index `inside` on.
template <class E>
BK_DEVICE void load_bytes(uint32_t (&words)[4], const E* from, int64_t inside) {
    if (inside >= 16) return load_words(words, reinterpret_cast<const f16*>(from));
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        words[w] = 0;
#pragma unroll
        for (int v = 0; v < 4; ++v)
            if (4 * w + v < inside) words[w] |= static_cast<uint32_t>(from[4 * w + v].bits) << 8 * v;
    }
}

// With g = lane / 4 and t = lane % 4, a lane reads K elements 16t to 16t + 15 of 64, of columns g and g + 8 of B and
// rows g and g + 8 of A, the latter if M > 8. Two mmas take two of their four words each.
template <class T>
__global__ void __launch_bounds__(32 * kThinWarps, 2) matmul_thin_bytes_kernel(const __grid_constant__ Matmul<T> p) {
    using E = matmul_element_t<T>;
    using Step = TensorStep<E>;
    constexpr int kSpan = 64, kSpans = kScaleTerms / kSpan, kAhead = 2, kChunk = kAhead * kScaleTerms;
    __shared__ ThinParts<kThinWarps, kByteColumns, kByteRows> part;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kByteColumns, chunks = p.k / kChunk;
    const bool has_more = p.m > kThinRows;
    bool is_by_blocks = false;
    if constexpr (kIsScaled<T>) is_by_blocks = p.epilogue.is_by_blocks();
    for (int64_t matrix = blockIdx.y; matrix < p.batch; matrix += gridDim.y) {
        const E *a[2], *b[2];
        for (int half = 0; half < 2; ++half) {
            a[half] = p.a_at.matrix(p.a, matrix) + min(int64_t{g} + 8 * half, p.m - 1) * p.a_at.row + 16 * t;
            b[half] = p.b_at.matrix(p.b, matrix) + min(first + g + 8 * half, p.n - 1) * p.b_at.column + 16 * t;
        }
        float total[2][4] = {}, sum[2][4] = {};
        const auto multiply = [&](const uint32_t (&of_b)[2][4], const uint32_t (&of_a)[2][4]) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint32_t columns[4] = {of_b[0][2 * half], of_b[1][2 * half], of_b[0][2 * half + 1],
                                             of_b[1][2 * half + 1]};
#pragma unroll
                for (int eight = 0; eight < 2; ++eight) {
                    const uint32_t rows[2] = {of_a[eight][2 * half], of_a[eight][2 * half + 1]};
                    if (eight == 0 || has_more) Step::run(sum[eight], columns, rows);
                }
            }
        };
        const auto end_block = [&](int64_t block) {
#pragma unroll
            for (int eight = 0; eight < 2; ++eight)
#pragma unroll
                for (int v = 0; v < 4; ++v) {
                    float scale = 1;
                    if constexpr (kIsScaled<T>)
                        if (is_by_blocks && (eight == 0 || has_more))
                            scale = p.epilogue.scale_of_row(min(int64_t{8 * eight + 2 * t + v % 2}, p.m - 1), block) *
                                    p.epilogue.scale_of_column(first, block);
                    total[eight][v] += sum[eight][v] * scale;
                    sum[eight][v] = 0;
                }
        };
        for (int64_t chunk = warp; chunk < chunks; chunk += kThinWarps) {
            uint32_t of_b[kAhead * kSpans][2][4], of_a[kAhead * kSpans][2][4];
#pragma unroll
            for (int u = 0; u < kAhead * kSpans; ++u)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    load_words_once(of_b[u][half], reinterpret_cast<const f16*>(b[half] + chunk * kChunk + u * kSpan));
#pragma unroll
            for (int u = 0; u < kAhead * kSpans; ++u)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    if (half == 0 || has_more)
                        load_words(of_a[u][half], reinterpret_cast<const f16*>(a[half] + chunk * kChunk + u * kSpan));
#pragma unroll
            for (int u = 0; u < kAhead * kSpans; ++u) {
                multiply(of_b[u], of_a[u]);
                if (u % kSpans == kSpans - 1) end_block(chunk * kAhead + u / kSpans);
            }
        }
        for (int64_t block = chunks * kAhead + warp; block * kScaleTerms < p.k; block += kThinWarps) {
#pragma unroll
            for (int u = 0; u < kSpans; ++u) {
                const int64_t k = block * kScaleTerms + u * kSpan;
                uint32_t of_b[2][4], of_a[2][4];
                for (int half = 0; half < 2; ++half) {
                    load_bytes(of_b[half], b[half] + k, p.k - k - 16 * t);
                    load_bytes(of_a[half], a[half] + k, p.k - k - 16 * t);
                }
                multiply(of_b, of_a);
            }
            end_block(block);
        }
#pragma unroll
        for (int eight = 0; eight < 2; ++eight)
#pragma unroll
            for (int v = 0; v < 4; ++v) part[warp][8 * eight + 2 * t + v % 2][g + v / 2 * 8] = total[eight][v];
        store_thin<kThinWarps, kByteColumns>(p, part, matrix, first);
    }
}

// *is_taken tells whether this kernel supports the GEMM.
template <class T>
Status matmul_thin_bytes(const Launch& launch, const Matmul<T>& p, bool* is_taken) {
    const bool has_lists = p.a_at.list != nullptr || p.b_at.list != nullptr || p.epilogue.d_at.list != nullptr;
    *is_taken = p.m <= kByteRows && !has_lists && p.a_at.column == 1 && p.b_at.row == 1 && moves_by_16(p.b, p.b_at) &&
                is_aligned(p.a, 16) && (p.m == 1 || p.a_at.row % 16 == 0) && (p.batch == 1 || p.a_at.step % 16 == 0);
    if (!*is_taken) return Status::kOk;
    const dim3 blocks(static_cast<unsigned>(ceil_div<int64_t>(p.n, kByteColumns)),
                      static_cast<unsigned>(p.batch < kMaxGridY ? p.batch : kMaxGridY));
    return launch_kernel(launch, {blocks, dim3(32 * kThinWarps)}, matmul_thin_bytes_kernel<T>, p);
}

}  // namespace bk

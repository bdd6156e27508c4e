// SPDX-License-Identifier: Apache-2.0
// Rounds operands to TF32 in the workspace, so that cuBLASLt, which truncates, multiplies what the TF32 ops promise.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/intrinsics/tensor_core.cuh"
#include "core/types/vec.h"
#include "gemm/cublaslt/cublaslt.h"
#include "gemm/matmul.h"

namespace bk {

template <class T>
constexpr bool kIsRounded = std::is_same_v<T, tf32>;

// Rows of rounded operands start at multiples of 16 bytes.
inline int64_t rounded_pitch(int64_t length) { return ceil_div<int64_t>(length, 4) * 4; }

// Elements of a rounded operand in either memory order.
inline int64_t rounded_numel(int64_t rows, int64_t columns) { return rounded_pitch(rows) * rounded_pitch(columns); }

// Rows of `length` elements; base and pitch of both matrices are multiples of 16 bytes.
struct RoundedCopy {
    const float* from;
    float* to;
    int64_t rows, length, from_pitch, to_pitch;
};

// Rounds one operand for each blockIdx.z, a row for each blockIdx.y, four elements a thread.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    round_kernel(const __grid_constant__ RoundedCopy first, const __grid_constant__ RoundedCopy second) {
    const RoundedCopy& copy = blockIdx.z == 0 ? first : second;
    const int64_t at = 4 * (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x);
    if (at >= copy.length) return;
    const bool is_whole = at + 4 <= copy.length;
    for (int64_t row = blockIdx.y; row < copy.rows; row += gridDim.y) {
        const float* const from = copy.from + row * copy.from_pitch + at;
        Vec<float, 4> four{};
        if (is_whole)
            four = load_once<4>(from);
        else
            for (int v = 0; v < 3; ++v)
                if (at + v < copy.length) four.lane[v] = from[v];
        for (float& x : four.lane) x = bit_cast<float>(round_to_tf32(bit_cast<uint32_t>(x)));
        store(copy.to + row * copy.to_pitch + at, four);
    }
}

// Rounds both operands of a GEMM without batch into `a` and `b`, of rounded_numel() elements, and points the problem
// there.
inline Status round_operands(const Launch& launch, LibraryMatmul* problem, float* a, float* b) {
    constexpr int kThreads = 256;
    const auto round = [](LibraryMatrix* matrix, float* to, int64_t rows, int64_t length) {
        const RoundedCopy copy{static_cast<const float*>(matrix->data), to, rows, length, matrix->pitch, rounded_pitch(length)};
        *matrix = {to, copy.to_pitch, 0, matrix->is_transposed};
        return copy;
    };
    const int64_t m = problem->m, n = problem->n, k = problem->k;
    const bool a_is_transposed = problem->a.is_transposed, b_is_transposed = problem->b.is_transposed;
    const RoundedCopy a_copy = round(&problem->a, a, a_is_transposed ? k : m, a_is_transposed ? m : k);
    const RoundedCopy b_copy = round(&problem->b, b, b_is_transposed ? n : k, b_is_transposed ? k : n);
    const int64_t blocks_x = ceil_div<int64_t>(std::max(a_copy.length, b_copy.length), 4 * kThreads);
    const int64_t blocks_y = std::min<int64_t>(std::max(a_copy.rows, b_copy.rows), kMaxGridY);
    const dim3 blocks(static_cast<unsigned>(blocks_x), static_cast<unsigned>(blocks_y), 2);
    return launch_kernel(launch, {blocks, dim3(kThreads)}, round_kernel<kThreads>, a_copy, b_copy);
}

}  // namespace bk

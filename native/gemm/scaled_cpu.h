// SPDX-License-Identifier: Apache-2.0
// 8-bit GEMM with scales on the CPU, in f32: block scales are applied as operands are packed, others to the sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "gemm/cpu/matmul_decode_cpu.h"
#include "gemm/scaled.h"

namespace bk {

template <class T>
struct ScaledReads {
    static constexpr Packing kPacking = Packing::kF32;
    const Matmul<scaled<T>>& p;
    int64_t m, n, k;

    // E is the dtype of the operand that x is of.
    template <class E>
    static BK_HD float element_value(T x) {
        if constexpr (kHasFp8Factors<T>)
            return fp8_to_float(E{x.bits});
        else
            return static_cast<float>(x);
    }

    // Converts K elements [first, first + depth), `step` apart, scaled by scale(block) if scales are by blocks.
    template <class E, class Scale>
    BK_HD void read(const T* from, int64_t step, int64_t first, int64_t depth, float* to, const Scale& scale) const {
        for (int64_t x = 0; x < depth;) {
            const int64_t block = (first + x) / kScaleBlock, end = std::min(depth, (block + 1) * kScaleBlock - first);
            const float block_scale = p.epilogue.is_by_blocks() ? scale(block) : 1.f;
            if (step == 1)
                for (; x < end; ++x) to[x] = block_scale * element_value<E>(from[first + x]);
            else
                for (; x < end; ++x) to[x] = block_scale * element_value<E>(from[(first + x) * step]);
        }
    }

    BK_HD void read_row(int64_t i, int64_t first, int64_t depth, float* to) const {
        const auto scale = [&](int64_t block) { return p.epilogue.scale_of_row(i, block); };
        read<typename Factors<T>::A>(p.a + i * p.a_at.row, p.a_at.column, first, depth, to, scale);
    }
    BK_HD void read_column(int64_t j, int64_t first, int64_t depth, float* to) const {
        const auto scale = [&](int64_t block) { return p.epilogue.scale_of_column(j, block); };
        read<typename Factors<T>::B>(p.b + j * p.b_at.column, p.b_at.row, first, depth, to, scale);
    }
    BK_HD void store(int64_t i, int64_t j, int64_t columns, const float* sums) const {
        for (int64_t c = 0; c < columns; ++c) p.epilogue.store_one(i, j + c, sums[c]);
    }
    ScratchRows scratch_rows() const {
        const Epilogue<scaled<T>>& e = p.epilogue;
        if (e.beta != 0) return {};
        if (e.type == FloatType::kF32) return ScratchRows::of(static_cast<float*>(e.d), e.d_at.row, n);
        return ScratchRows::of(static_cast<f16*>(e.d), e.d_at.row, n);
    }
};

template <class T>
size_t scaled_workspace(const MatmulShape& s, Scaling) {
    return blocked_workspace(microkernel<Packing::kF32>(), s.m, s.n, s.k, s.backend == Backend::kInvariant);
}

template <class T>
Status require_scaled_backend(const MatmulShape& shape, Scaling) {
    return require_backend<scaled<T>>(shape);
}

template <class T>
Status scaled_product(const Launch& launch, const Matmul<scaled<T>>& p) {
    return multiply_read(launch, ScaledReads<T>{p, p.m, p.n, p.k}, p.backend == Backend::kInvariant);
}

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// 8-bit GEMM with scales for A and B in device memory: checks and layouts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "gemm/epilogue.h"
#include "gemm/scaled_epilogue.h"

namespace bk {

template <class T>
size_t scaled_workspace(const MatmulShape& shape, Scaling scaling);

// Whether the shape's backend computes such a GEMM.
template <class T>
Status require_scaled_backend(const MatmulShape& shape, Scaling scaling);

template <class T>
Status scaled_product(const Launch& launch, const Matmul<scaled<T>>& problem);

template <class U>
constexpr FloatType kFloatType = std::is_same_v<U, f16>    ? FloatType::kF16
                                 : std::is_same_v<U, bf16> ? FloatType::kBf16
                                                           : FloatType::kF32;

// D = alpha (a_scale A) (b_scale B) + beta D + bias, A of dtype F and B of dtype G.
template <class F, class U, class G = F>
struct GemmScaled {
    using T = typename ProductOf<F, G>::Element;
    int32_t m, n, k, layout, scaling, backend;
    float alpha, beta;
    int64_t lda, ldb, ldd;

    GemmLayout order() const { return static_cast<GemmLayout>(layout); }
    StoredMatrices stored_a() const { return stored_a_of(order(), m, k, lda); }
    StoredMatrices stored_b() const { return stored_b_of(order(), n, k, ldb); }
    StoredMatrices stored_d() const { return {1, 0, m, n, ldd}; }

    int64_t blocks() const { return ceil_div<int64_t>(k, kScaleBlock); }
    int64_t a_scales() const { return count_scales(m, m); }
    int64_t b_scales() const { return count_scales(n, ceil_div<int64_t>(n, kScaleBlock)); }

    Work work() const { return all_or_none(std::min(m, n)); }
    size_t workspace_size() const { return scaled_workspace<T>(shape(), static_cast<Scaling>(scaling)); }
    Status check_extents() const {
        BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}}));
        BK_TRY(require_layout(layout));
        BK_TRY(require_choice("scaling", scaling, 3, "0 (of matrices), 1 (of rows and columns) or 2 (of blocks)"));
        BK_TRY(require_backend_choice(backend));
        return require_scaled_backend<T>(shape(), static_cast<Scaling>(scaling));
    }
    Status check() const {
        BK_TRY(check_extents());
        BK_TRY(require_pitch("lda", stored_a()));
        BK_TRY(require_pitch("ldb", stored_b()));
        BK_TRY(require_library_pitch(backend, "lda", stored_a(), 1));
        BK_TRY(require_library_pitch(backend, "ldb", stored_b(), 1));
        return require_pitch("ldd", stored_d());
    }
    Status run(const F* first, const G* second, const float* a_scale, const float* b_scale, const U* bias, U* d,
               const Launch& launch) const {
        const T *const a = reinterpret_cast<const T*>(first), *const b = reinterpret_cast<const T*>(second);
        const MatrixStrides d_at = strides_of(stored_d(), true);
        const Scaling scale_mode = static_cast<Scaling>(scaling);
        const Epilogue<scaled<T>> epilogue{d, bias, d_at, kFloatType<U>, alpha, beta, scale_mode, a_scale, b_scale, blocks()};
        Matmul<scaled<T>> problem = make_matmul(order(), m, n, k, stored_a(), a, stored_b(), b, epilogue);
        problem.backend = static_cast<Backend>(backend);
        return scaled_product(launch, problem);
    }

private:
    MatmulShape shape() const { return {m, n, k, 1, k_major_of(order()), false, false, static_cast<Backend>(backend)}; }
    // Scales of an operand of `rows` rows or columns, in `row_blocks` blocks.
    int64_t count_scales(int64_t rows, int64_t row_blocks) const {
        if (static_cast<Scaling>(scaling) == Scaling::kBlocks) return row_blocks * blocks();
        return static_cast<Scaling>(scaling) == Scaling::kRows ? rows : 1;
    }
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// GEMM with an epilogue chosen at run time (gemm_epilogue), and gated GEMM of two weight matrices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "gemm/gemm.h"

namespace bk {

inline Status require_choice(const char* name, int32_t value, int32_t count, const char* choices) {
    if (value >= 0 && value < count) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %d, must be %s", name, value, choices);
}

inline Status require_backend_choice(int32_t backend) {
    return require_choice("backend", backend, 6,
                          "0 (any), 1 (own), 2 (cuBLASLt), 3 (cuBLASLt by the rule), 4 (own by warp groups) or 5 (own, "
                          "batch-invariant)");
}

inline Status require_epilogue(int32_t layout, int32_t activation, int32_t backend) {
    BK_TRY(require_layout(layout));
    BK_TRY(require_choice("activation", activation, kActivations, kActivationNames));
    return require_backend_choice(backend);
}

// cuBLASLt and TMA need rows at multiples of 16 bytes.
inline Status require_library_pitch(int32_t backend, const char* name, const StoredMatrices& m, int64_t size) {
    const bool is_own = !must_be_library(static_cast<Backend>(backend)) && static_cast<Backend>(backend) != Backend::kWgmma;
    if (is_own || m.rows <= 1 || m.pitch * size % 16 == 0) return Status::kOk;
    return fail(Status::kUnsupported, "backend is %d, but %s is %lld, and it wants rows at multiples of 16 bytes", backend,
                name, static_cast<long long>(m.pitch));
}

// Whether D is f32 while A and B have 16 bits.
template <class T, class U>
constexpr bool kIsWideResult = kMayBeWide<matmul_element_t<T>> && std::is_same_v<U, float>;

// D = act(alpha row_scale column_scale A B + beta C + bias + row_bias) + residual; z is the activation's input.
template <class T, class U>
struct GemmEpilogue {
    using E = matmul_element_t<T>;
    using S = matmul_scalar_t<T>;
    int32_t m, n, k, batch, layout, activation, backend;
    S alpha, beta;
    int64_t lda, stride_a, ldb, stride_b, ldc, stride_c, ldr, stride_r, ldz, stride_z, ldd, stride_d;

    GemmLayout order() const { return static_cast<GemmLayout>(layout); }
    StoredMatrices stored_a() const { return stored_a_of(order(), m, k, lda, batch, stride_a); }
    StoredMatrices stored_b() const { return stored_b_of(order(), n, k, ldb, batch, stride_b); }
    StoredMatrices stored_c() const { return {batch, stride_c, m, n, ldc, beta != 0}; }
    StoredMatrices stored_r() const { return {batch, stride_r, m, n, ldr}; }
    StoredMatrices stored_z() const { return {batch, stride_z, m, n, ldz}; }
    StoredMatrices stored_d() const { return {batch, stride_d, m, n, ldd}; }

    Work work() const { return all_or_none(std::min({m, n, batch})); }
    size_t workspace_size() const {
        const auto bytes = [&](bool has_steps) {
            return matmul_workspace<T>({m, n, k, batch, {}, has_steps, false, static_cast<Backend>(backend)});
        };
        return std::max(bytes(false), bytes(true));
    }
    Status check_extents() const {
        BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}, {"batch", batch}}));
        BK_TRY(require_epilogue(layout, activation, backend));
        return require_backend<T>({m, n, k, batch, k_major_of(order()), activation != 0, false, static_cast<Backend>(backend)});
    }
    Status check() const {
        BK_TRY(check_extents());
        BK_TRY(require_pitch("lda", stored_a()));
        BK_TRY(require_pitch("ldb", stored_b()));
        BK_TRY(require_pitch("ldd", stored_d()));
        BK_TRY(require_library_pitch(backend, "lda", stored_a(), sizeof(E)));
        BK_TRY(require_library_pitch(backend, "ldb", stored_b(), sizeof(E)));
        BK_TRY(require_library_pitch(backend, "ldd", stored_d(), sizeof(U)));
        return GemmBatched<f16, kRcr>::require_own_results(batch, stride_d);
    }
    Status run(const E* a, const E* b, const U* c, const E* bias, const E* row_bias, const S* row_scale, const S* column_scale,
               const U* r, U* z, U* d, const Launch& launch) const {
        const auto as_result = [](auto* data) {
            using Pointer = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(data)>>, const E*, E*>;
            return reinterpret_cast<Pointer>(data);
        };
        Epilogue<T> epilogue{nullptr,
                             as_result(d),
                             bias,
                             {},
                             strides_of(stored_d(), true),
                             alpha,
                             beta,
                             BiasType::kElement,
                             static_cast<Activation>(activation)};
        epilogue.is_wide = kIsWideResult<T, U>;
        BK_TRY(find_c(&epilogue, as_result(c), stored_c(), NullC::kIsD));
        epilogue.row_scale = row_scale;
        epilogue.column_scale = column_scale;
        epilogue.row_bias = row_bias;
        if (r != nullptr) {
            // Without activation and z a residual equals C, which cuBLASLt can add.
            const bool is_c = activation == 0 && z == nullptr && !epilogue.has_c();
            if (is_c) epilogue.beta = 1;
            (is_c ? epilogue.c : epilogue.residual) = as_result(r);
            (is_c ? epilogue.c_at : epilogue.residual_at) = strides_of(stored_r(), true);
        }
        if (z != nullptr) {
            BK_TRY((GemmBatched<f16, kRcr>::require_own_results(batch, stride_z, "stride_z")));
            epilogue.z = as_result(z);
            epilogue.z_at = strides_of(stored_z(), true);
        }
        Matmul<T> problem = make_matmul(order(), m, n, k, stored_a(), a, stored_b(), b, epilogue);
        problem.backend = static_cast<Backend>(backend);
        return matmul(launch, problem);
    }
};

// D = act(alpha A B1 + bias1) * (alpha A B2 + bias2); z1 and z2 are the values in parentheses.
template <class T>
struct GemmGated {
    using E = matmul_element_t<T>;
    using S = matmul_scalar_t<T>;
    int32_t m, n, k, layout, activation, backend;
    S alpha;
    int64_t lda, ldb1, ldb2, ldz1, ldz2, ldd;

    GemmLayout order() const { return static_cast<GemmLayout>(layout); }
    StoredMatrices stored_a() const { return stored_a_of(order(), m, k, lda); }
    StoredMatrices stored_b1() const { return stored_b_of(order(), n, k, ldb1); }
    StoredMatrices stored_b2() const { return stored_b_of(order(), n, k, ldb2); }
    StoredMatrices stored_z1() const { return {1, 0, m, n, ldz1}; }
    StoredMatrices stored_z2() const { return {1, 0, m, n, ldz2}; }
    StoredMatrices stored_d() const { return {1, 0, m, n, ldd}; }

    Work work() const { return all_or_none(std::min(m, n)); }
    size_t workspace_size() const { return matmul_workspace<T>({m, n, k, 1, {}, true, true, static_cast<Backend>(backend)}); }
    Status check_extents() const {
        BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}}));
        BK_TRY(require_epilogue(layout, activation, backend));
        return require_backend<T>({m, n, k, 1, k_major_of(order()), true, true, static_cast<Backend>(backend)});
    }
    Status check() const {
        BK_TRY(check_extents());
        BK_TRY(require_pitch("lda", stored_a()));
        BK_TRY(require_pitch("ldb1", stored_b1()));
        if (stored_b1().rows > 1 && ldb2 != ldb1)
            return fail(Status::kInvalidProblem, "ldb2 is %lld, must be ldb1, %lld", static_cast<long long>(ldb2),
                        static_cast<long long>(ldb1));
        BK_TRY(require_pitch("ldd", stored_d()));
        BK_TRY(require_library_pitch(backend, "lda", stored_a(), sizeof(E)));
        return require_library_pitch(backend, "ldb1", stored_b1(), sizeof(E));
    }
    Status run(const E* a, const E* b1, const E* b2, const E* bias1, const E* bias2, E* z1, E* z2, E* d,
               const Launch& launch) const {
        Epilogue<T> epilogue{nullptr,
                             d,
                             bias1,
                             {},
                             strides_of(stored_d(), true),
                             alpha,
                             0,
                             BiasType::kElement,
                             static_cast<Activation>(activation)};
        epilogue.gate_bias = bias2;
        epilogue.z = z1;
        epilogue.z_at = strides_of(stored_z1(), true);
        epilogue.gate_z = z2;
        epilogue.gate_z_at = strides_of(stored_z2(), true);
        Matmul<T> problem = make_matmul(order(), m, n, k, stored_a(), a, stored_b1(), b1, epilogue);
        problem.gate = b2;
        problem.backend = static_cast<Backend>(backend);
        return matmul(launch, problem);
    }
};

}  // namespace bk

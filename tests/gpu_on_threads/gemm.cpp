// SPDX-License-Identifier: Apache-2.0
// GEMM kernels on fibers (tests/gpu_on_threads/core) against plain loops.
#define __CUDA_ARCH_LIST__ 800

#include "gemm/gemm.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "gemm/matmul.h"
#include "gemm/matmul_cuda.cuh"

namespace bk {

Status fail(Status status, const char* format, ...) {
    puts(format);
    return status;
}

// Replaces cuBLASLt: f32 sums of bf16 or f32 products, for the first `library_calls` calls.
int library_calls = 0;

size_t library_workspace(int64_t, int64_t, int64_t) { return 0; }
Status require_library() { return fail(Status::kUnsupported, "there is no cuBLASLt"); }

bool matmul_by_library(const Launch&, const LibraryMatmul& p, void*) {
    if (library_calls-- <= 0) return false;
    const auto element = [&](const LibraryMatrix& at, int64_t i, int64_t j) {
        const int64_t index = at.is_transposed ? j * at.pitch + i : i * at.pitch + j;
        return p.type == LibraryType::kF32 ? static_cast<const float*>(at.data)[index]
                                           : widen(static_cast<const bf16*>(at.data)[index]);
    };
    for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < p.n; ++j) {
            float z = 0;
            for (int64_t l = 0; l < p.k; ++l) z += element(p.a, i, l) * element(p.b, l, j);
            z *= *static_cast<const float*>(p.alpha);
            if (p.bias != nullptr) z += static_cast<const float*>(p.bias)[j];
            static_cast<float*>(const_cast<void*>(p.d.data))[i * p.d.pitch + j] = z;
        }
    return true;
}

}  // namespace bk

namespace {

using namespace bk;

uint32_t state = 1;

uint32_t draw_bits() {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

template <class E>
E draw() {
    if constexpr (std::is_integral_v<E>)
        return static_cast<E>(draw_bits());
    else
        return narrow<E>(static_cast<compute_t<E>>(static_cast<int>(draw_bits() % 65) - 32) / 16);
}

enum class Kernel { kSkinny, kSide64, kSide128 };

struct Problem {
    int64_t m, n, k;
    int gap = 0, offset = 0;  // elements after each row; elements before the first
    int64_t batch = 1;
    bool has_c = true, has_bias = true;
};

// Elements that begin `offset` after a 16-byte boundary.
template <class E>
struct Memory {
    std::vector<E> cells;
    E* first;
    Memory(int64_t count, int offset) : cells(static_cast<size_t>(count) + 64) {
        for (E& cell : cells) cell = draw<E>();
        first = reinterpret_cast<E*>((reinterpret_cast<uintptr_t>(cells.data()) + 15) / 16 * 16) + offset;
    }
    Readable range(int64_t count) const {
        return {reinterpret_cast<const char*>(first), reinterpret_cast<const char*>(first + count)};
    }
};

template <class T, class P>
Status launch(const P& p, Kernel kernel) {
    if constexpr (kHasSkinnyKernels<T>)
        if (kernel == Kernel::kSkinny) return matmul(Launch{}, p);
    if constexpr (std::is_same_v<T, float>) {
        return kernel == Kernel::kSide128 ? launch_fma_by_load_mode<128>(Launch{}, p, {})
                                          : launch_fma_by_load_mode<64>(Launch{}, p, {});
    } else {
        if constexpr (!std::is_same_v<T, double>)
            if (kernel == Kernel::kSide128) return launch_by_load_mode<T, 128>(Launch{}, p);
        return launch_by_load_mode<T, 64>(Launch{}, p);
    }
}

// a is transposed in layouts 2 and 3, b in layouts 1 and 3.
template <class T>
bool test(const char* name, Kernel kernel, int layout, const Problem& q) {
    using E = matmul_element_t<T>;
    using S = matmul_scalar_t<T>;
    using Wide = Epilogue<T>;
    const bool a_transposed = layout >= 2, b_transposed = layout % 2 == 1;
    const int64_t a_rows = a_transposed ? q.k : q.m, a_columns = a_transposed ? q.m : q.k, b_rows = b_transposed ? q.n : q.k,
                  b_columns = b_transposed ? q.k : q.n, lda = a_columns + q.gap, ldb = b_columns + q.gap, ldd = q.n + q.gap;
    Memory<E> a(q.batch * a_rows * lda, q.offset), b(q.batch * b_rows * ldb, q.offset), c(q.batch * q.m * ldd, q.offset),
        d(q.batch * q.m * ldd, q.offset), bias(q.n, q.offset);
    const Memory<E> before(d);
    const int64_t shift = d.first - d.cells.data();
    readable = {a.range(q.batch * a_rows * lda - q.gap), b.range(q.batch * b_rows * ldb - q.gap)};
    const S alpha = std::is_integral_v<E> ? S(0.0078125) : S(0.5), beta = S(0.25);
    const StoredMatrices stored_a{q.batch, a_rows * lda, a_rows, a_columns, lda},
        stored_b{q.batch, b_rows * ldb, b_rows, b_columns, ldb}, stored_d{q.batch, q.m * ldd, q.m, q.n, ldd};
    const Epilogue<T> epilogue{q.has_c ? c.first : nullptr,
                               d.first,
                               q.has_bias ? bias.first : nullptr,
                               strides_of(stored_d, true),
                               strides_of(stored_d, true),
                               alpha,
                               beta,
                               BiasType::kElement,
                               Activation::kNone};
    const auto p =
        make_matmul<T>(static_cast<GemmLayout>(layout), q.m, q.n, q.k, stored_a, a.first, stored_b, b.first, epilogue);
    if (launch<T>(p, kernel) != Status::kOk) return false;
    for (int64_t g = 0; g < q.batch; ++g)
        for (int64_t i = 0; i < q.m; ++i)
            for (int64_t j = 0; j < ldd; ++j) {
                const int64_t at = (g * q.m + i) * ldd + j;
                const E got = d.first[at];
                if (j >= q.n) {
                    if (memcmp(&got, &before.cells[static_cast<size_t>(shift + at)], sizeof(E)) == 0) continue;
                    printf("%s, kernel %d: written behind row %d\n", name, static_cast<int>(kernel), static_cast<int>(i));
                    return false;
                }
                double z = 0;
                for (int64_t x = 0; x < q.k; ++x)
                    z += static_cast<double>(
                             Wide::element_of(a.first[g * a_rows * lda + (a_transposed ? x * lda + i : i * lda + x)])) *
                         static_cast<double>(
                             Wide::element_of(b.first[g * b_rows * ldb + (b_transposed ? j * ldb + x : x * ldb + j)]));
                z *= static_cast<double>(alpha);
                if (q.has_c) z += static_cast<double>(beta) * static_cast<double>(Wide::element_of(c.first[at]));
                if (q.has_bias) z += static_cast<double>(Wide::element_of(bias.first[j]));
                const double wanted = static_cast<double>(Wide::element_of(Wide::stored(static_cast<S>(z)))),
                             result = static_cast<double>(Wide::element_of(got));
                if (std::fabs(result - wanted) < 0.01 * (1 + std::fabs(wanted))) continue;
                printf("%s, kernel %d, layout %d, %d x %d x %d: [%d, %d] of matrix %d is %g, expected %g\n", name,
                       static_cast<int>(kernel), layout, static_cast<int>(q.m), static_cast<int>(q.n), static_cast<int>(q.k),
                       static_cast<int>(i), static_cast<int>(j), static_cast<int>(g), result, wanted);
                return false;
            }
    return true;
}

template <class T>
bool test_tiles(const char* name) {
    const int lanes = static_cast<int>(16 / sizeof(matmul_element_t<T>));
    bool right = true;
    for (int layout = 0; layout < 4; ++layout) {
        right &= test<T>(name, Kernel::kSide64, layout, {66, 16, 68, lanes, 0, 2});
        right &= test<T>(name, Kernel::kSide64, layout, {33, 47, 61, 1, 1});
        right &= test<T>(name, Kernel::kSide64, layout, {88, 56, 152, 8});
        right &= test<T>(name, Kernel::kSide64, layout, {5, 6, 0});
        right &= test<T>(name, Kernel::kSide128, layout, {136, 56, 37, 3, 0, 1, true, false});
    }
    return right;
}

template <class T>
bool test_skinny(const char* name) {
    bool right = true;
    for (int layout = 0; layout < 4; ++layout)
        for (int64_t m : {2, 8}) {
            right &= test<T>(name, Kernel::kSkinny, layout, {m - 1, 33, 65, 3, 1, 2, true, false});
            right &= test<T>(name, Kernel::kSkinny, layout, {m, 24, 0});
            right &= test<T>(name, Kernel::kSkinny, layout, {m, 24, 2184, 8});
            right &= test<T>(name, Kernel::kSkinny, layout, {m, 37, 600, 3});
            right &= test<T>(name, Kernel::kSkinny, layout, {m, 64 * kReferenceSms + 24, 70, 8});
        }
    return right;
}

// silu(a b + bias), times the gate's sums if any. cuBLASLt serves the first `calls` calls, which finish `rows` rows of
// m.
template <class T>
bool test_activated(const char* name, int64_t m, int64_t n, int calls, int64_t rows, bool is_gated = false) {
    constexpr int64_t k = 3, gap = 8;
    Memory<T> a(k * (m + gap), 0), b(k * (n + gap), 0), gate(k * (n + gap), 0), d(m * (n + gap), 0), bias(n, 0);
    const Memory<T> before(d);
    const Epilogue<T> epilogue{nullptr, d.first, bias.first, {}, {n + gap, 1, 0}, 1, 0, BiasType::kElement, Activation::kSilu};
    Matmul<T> p{m, n, k, 1, a.first, b.first, {1, m + gap, 0}, {n + gap, 1, 0}, epilogue};
    if (is_gated) p.gate = gate.first;
    LibraryMatmul problem;
    int64_t done = 0;
    library_calls = calls;
    std::vector<float> sums(static_cast<size_t>(sum_bytes_of<T>(m, n, is_gated)) / sizeof(float));
    const auto finish_all = [&] {
        if constexpr (sizeof(T) > 2) return finish_in_place(Launch{}, p, problem, nullptr, &done);
        return finish_row_blocks(Launch{}, p, problem, nullptr, sums.data(), &done);
    };
    if (!library_matmul(p, &problem) || finish_all() != Status::kOk || done != rows) {
        printf("%s: %d rows are done, expected %d\n", name, static_cast<int>(done), static_cast<int>(rows));
        return false;
    }
    const int64_t shift = d.first - d.cells.data();
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n + gap; ++j) {
            float z = j < n ? widen(bias.first[j]) : 0;
            for (int64_t l = 0; j < n && l < k; ++l) z += widen(a.first[l * (m + gap) + i]) * widen(b.first[l * (n + gap) + j]);
            const int64_t at = i * (n + gap) + j;
            const float got = widen(d.first[at]), was = widen(before.cells[static_cast<size_t>(shift + at)]);
            float factor = is_gated ? 0 : 1;
            for (int64_t l = 0; is_gated && j < n && l < k; ++l)
                factor += widen(a.first[l * (m + gap) + i]) * widen(gate.first[l * (n + gap) + j]);
            const float wanted = i < rows && j < n ? z / (1 + std::exp(-z)) * factor : was;
            if (std::fabs(got - wanted) < 0.01f * (1 + std::fabs(wanted))) continue;
            printf("%s: [%d, %d] is %g, expected %g\n", name, static_cast<int>(i), static_cast<int>(j),
                   static_cast<double>(got), static_cast<double>(wanted));
            return false;
        }
    return true;
}

}  // namespace

int main() {
    bool right = test_skinny<f16>("f16") & test_skinny<bf16>("bf16") & test_skinny<float>("f32");
    right &= test_tiles<f16>("f16") & test_tiles<bf16>("bf16") & test_tiles<tf32>("tf32") & test_tiles<tf32x3>("3xtf32") &
             test_tiles<double>("f64");
    right &= test_tiles<int8_t>("i8") & test_tiles<uint8_t>("u8") & test_tiles<float>("f32");
    constexpr int64_t wide = kSumBytes / 4 / kRowBlock;  // columns of which the workspace holds a block of rows
    right &= test_activated<bf16>("row blocks", 160, wide, 2, 160) & test_activated<bf16>("lost block", 160, wide, 1, 128);
    right &= test_activated<bf16>("no row block", 24, 40, 0, 0) & test_activated<float>("in place", 24, 40, 1, 24);
    right &= test_activated<bf16>("gated", 160, wide / 2, 4, 160, true) &
             test_activated<bf16>("lost gate", 160, wide / 2, 3, 128, true);
    if (!right) return 1;
    puts("ok");
    return 0;
}

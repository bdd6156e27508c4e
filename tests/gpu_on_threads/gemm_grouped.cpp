// SPDX-License-Identifier: Apache-2.0
// Grouped GEMM, split-K GEMM and integer GEMM on fibers against plain loops.
#define __CUDA_ARCH_LIST__ 800

#include <cmath>
#include <cstdio>
#include <vector>

#include "gemm/grouped.h"
#include "gemm/matmul.h"
#include "gemm/matmul_cuda.cuh"

namespace bk {

Status fail(Status status, const char* format, ...) {
    puts(format);
    return status;
}

size_t library_workspace(int64_t, int64_t, int64_t) { return 0; }
Status require_library() { return fail(Status::kUnsupported, "there is no cuBLASLt"); }
bool matmul_by_library(const Launch&, const LibraryMatmul&, void*) { return false; }
Status copy_strided(const Launch&, const CopyLayout&, int, const void*, void*) {
    return fail(Status::kUnsupported, "there are no operands to transpose");
}

}  // namespace bk

namespace {

using namespace bk;

uint32_t state = 1;

template <class E>
std::vector<E> draw(int64_t count) {
    std::vector<E> cells(static_cast<size_t>(count) + 16);
    for (E& cell : cells) {
        state = state * 1664525u + 1013904223u;
        cell = narrow<E>(static_cast<compute_t<E>>(static_cast<int>(state >> 8) % 65 - 32) / 16);
    }
    return cells;
}

template <class E>
E* aligned(std::vector<E>& cells) {
    return reinterpret_cast<E*>((reinterpret_cast<uintptr_t>(cells.data()) + 15) / 16 * 16);
}

template <class E>
Readable range(const E* first, int64_t count) {
    return {reinterpret_cast<const char*>(first), reinterpret_cast<const char*>(first + count)};
}

bool is_near(const char* name, int64_t i, int64_t j, double got, double wanted) {
    if (std::fabs(got - wanted) < 0.01 * (1 + std::fabs(wanted))) return true;
    printf("%s: [%d, %d] is %g, expected %g\n", name, static_cast<int>(i), static_cast<int>(j), got, wanted);
    return false;
}

struct Groups {
    int64_t m, n, k;
    std::vector<int32_t> offsets;
    int32_t count() const { return static_cast<int32_t>(offsets.size()) - 1; }
    // Group of a row, or -1.
    int64_t of(int64_t row) const {
        for (int32_t g = 0; g < count(); ++g)
            if (offsets[static_cast<size_t>(g)] <= row && row < offsets[static_cast<size_t>(g) + 1]) return g;
        return -1;
    }
};

template <class T>
bool test_groups(const char* name, const Groups& q, int32_t layout, float beta) {
    const auto m = static_cast<int32_t>(q.m), n = static_cast<int32_t>(q.n), k = static_cast<int32_t>(q.k);
    const int64_t ldb = layout == 0 ? q.n : q.k;
    auto a = draw<T>(q.m * q.k), b = draw<T>(q.count() * q.n * q.k), d = draw<T>(q.m * q.n), da = draw<T>(q.m * q.k),
         db = draw<T>(q.count() * q.n * q.k);
    const T *const pa = aligned(a), *const pb = aligned(b);
    T* const pd = aligned(d);
    const std::vector<T> before(pd, pd + q.m * q.n);
    readable = {range(pa, q.m * q.k), range(pb, q.count() * q.n * q.k), range(pd, q.m * q.n)};
    const GroupedGemm<T> op{m, n, k, q.count(), layout, 0.5f, beta, q.k, ldb, q.n * q.k, q.n};
    if (op.check() != Status::kOk || op.run(pa, pb, q.offsets.data(), pd, Launch{}) != Status::kOk) return false;
    const auto b_of = [&](int64_t g, int64_t x, int64_t j) {
        return static_cast<double>(widen(pb[g * q.n * q.k + (layout == 0 ? x * q.n + j : j * q.k + x)]));
    };
    for (int64_t i = 0; i < q.m; ++i)
        for (int64_t j = 0; j < q.n; ++j) {
            double z = 0;
            const int64_t g = q.of(i);
            for (int64_t x = 0; g >= 0 && x < q.k; ++x) z += static_cast<double>(widen(pa[i * q.k + x])) * b_of(g, x, j);
            z = 0.5 * z + static_cast<double>(beta * widen(before[static_cast<size_t>(i * q.n + j)]));
            if (!is_near(name, i, j, widen(pd[i * q.n + j]), z)) return false;
        }
    const GroupedGemmBackward<T> gradient{m, n, k, q.count(), layout, q.n, q.k, ldb, q.n * q.k};
    if (gradient.run(pd, pa, pb, q.offsets.data(), aligned(da), aligned(db), Launch{}) != Status::kOk) return false;
    for (int64_t i = 0; i < q.m; ++i)
        for (int64_t x = 0; x < q.k; ++x) {
            double z = 0;
            const int64_t g = q.of(i);
            for (int64_t j = 0; g >= 0 && j < q.n; ++j) z += static_cast<double>(widen(pd[i * q.n + j])) * b_of(g, x, j);
            if (!is_near(name, i, x, widen(aligned(da)[i * q.k + x]), z)) return false;
        }
    for (int64_t g = 0; g < q.count(); ++g)
        for (int64_t x = 0; x < q.k; ++x)
            for (int64_t j = 0; j < q.n; ++j) {
                double z = 0;
                for (int64_t i = q.offsets[static_cast<size_t>(g)]; i < q.offsets[static_cast<size_t>(g) + 1]; ++i)
                    z += static_cast<double>(widen(pa[i * q.k + x])) * static_cast<double>(widen(pd[i * q.n + j]));
                const int64_t at = g * q.n * q.k + (layout == 0 ? x * q.n + j : j * q.k + x);
                if (!is_near(name, x, j, widen(aligned(db)[at]), z)) return false;
            }
    return true;
}

// Split-K: small m x n and large k, with the requested workspace.
template <class T>
bool test_split_k(const char* name, int64_t m, int64_t n, int64_t k, int64_t batch) {
    using E = matmul_element_t<T>;
    auto a = draw<E>(batch * m * k), b = draw<E>(batch * n * k), d = draw<E>(batch * m * n);
    const size_t bytes = split_k_workspace<T>({m, n, k, batch});
    std::vector<char> workspace(bytes);
    if (bytes == 0 || bytes != matmul_workspace<T>({m, n, k, batch, {}, true})) {
        printf("%s: %d bytes of workspace\n", name, static_cast<int>(bytes));
        return false;
    }
    const Epilogue<T> epilogue = {nullptr, aligned(d), nullptr, {}, {n, 1, m * n}, 1, 0, BiasType::kElement, Activation::kSilu};
    const Matmul<T> p{m, n, k, batch, aligned(a), aligned(b), {k, 1, m * k}, {1, k, n * k}, epilogue};
    readable = {range(p.a, batch * m * k), range(p.b, batch * n * k)};
    if (matmul(Launch{workspace.data(), bytes, nullptr}, p) != Status::kOk) return false;
    for (int64_t g = 0; g < batch; ++g)
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
                double z = 0;
                for (int64_t x = 0; x < k; ++x)
                    z += static_cast<double>(widen(aligned(a)[(g * m + i) * k + x])) *
                         static_cast<double>(widen(aligned(b)[(g * n + j) * k + x]));
                if (!is_near(name, i, j, widen(aligned(d)[(g * m + i) * n + j]), z / (1 + std::exp(-z)))) return false;
            }
    return true;
}

// 8-bit integers with int32 results.
template <class T>
bool test_sums(const char* name, int32_t m, int32_t n, int32_t k, int32_t layout) {
    std::vector<T> a(static_cast<size_t>(m * k) + 16), b(static_cast<size_t>(n * k) + 16);
    for (auto* cells : {&a, &b})
        for (T& cell : *cells) cell = static_cast<T>((state = state * 1664525u + 1013904223u) >> 20);
    std::vector<int32_t> d(static_cast<size_t>(m * n));
    const T *const pa = aligned(a), *const pb = aligned(b);
    readable = {range(pa, m * k), range(pb, n * k)};
    const int32_t lda = layout == 2 ? m : k, ldb = layout == 1 ? k : n;
    const GemmDenseSums<T> op{m, n, k, 1, layout, lda, 0, ldb, 0, n, 0};
    if (op.check() != Status::kOk || op.run(pa, pb, d.data(), Launch{}) != Status::kOk) return false;
    for (int32_t i = 0; i < m; ++i)
        for (int32_t j = 0; j < n; ++j) {
            int32_t z = 0;
            for (int32_t x = 0; x < k; ++x)
                z += int32_t{pa[layout == 2 ? x * m + i : i * k + x]} * int32_t{pb[layout == 1 ? j * k + x : x * n + j]};
            if (d[static_cast<size_t>(i * n + j)] == z) continue;
            printf("%s: [%d, %d] is %d, expected %d\n", name, i, j, d[static_cast<size_t>(i * n + j)], z);
            return false;
        }
    return true;
}

}  // namespace

int main() {
    bool right = true;
    for (int32_t layout = 0; layout < 2; ++layout) {
        right &= test_groups<bf16>("bf16", {90, 24, 40, {0, 3, 3, 70, 86}}, layout, 0.25f);
        right &= test_groups<f16>("f16", {30, 9, 17, {2, 11, 29}}, layout, 0);
        right &= test_groups<float>("f32", {150, 20, 12, {4, 4, 140, 150}}, layout, 1);
    }
    Groups many{40, 8, 8, {}};
    for (int32_t g = 0; g <= 70; ++g) many.offsets.push_back(g < 40 ? g / 2 : g / 2 + 4);
    right &= test_groups<bf16>("many groups", many, 0, 0);
    right &= test_split_k<bf16>("split-K of bf16", 20, 9, 1200, 2) & test_split_k<float>("split-K of f32", 33, 10, 1100, 1);
    right &= test_split_k<double>("split-K of f64", 9, 12, 1030, 1);
    for (int32_t layout = 0; layout < 3; ++layout)
        right &= test_sums<int8_t>("sums of i8", 20, 11, 70, layout) & test_sums<uint8_t>("sums of u8", 33, 16, 64, layout);
    if (!right) return 1;
    puts("ok");
    return 0;
}

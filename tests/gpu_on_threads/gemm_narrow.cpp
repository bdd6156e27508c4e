// SPDX-License-Identifier: Apache-2.0
// GEMM of 8-, 4- and 1-bit elements, and with sparse and 4-bit weights, on fibers against plain loops.
#define __CUDA_ARCH_LIST__ 800

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "gemm/matmul.h"
#include "gemm/packed.h"
#include "gemm/packed_cuda.cuh"
#include "gemm/sparse24.h"
#include "gemm/sparse24_cuda.cuh"
#include "gemm/w4.h"
#include "gemm/w4_cuda.cuh"

namespace bk {

Status fail(Status status, const char* format, ...) {
    puts(format);
    return status;
}

size_t library_workspace(int64_t, int64_t, int64_t) { return 0; }
Status require_library() { return fail(Status::kUnsupported, "there is no cuBLASLt"); }
bool matmul_by_library(const Launch&, const LibraryMatmul&, void*) { return false; }

}  // namespace bk

namespace {

using namespace bk;

uint32_t state = 1;

uint32_t draw_bits() {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

f16 draw_half() { return narrow<f16>(static_cast<float>(static_cast<int>(draw_bits() % 65) - 32) / 16); }

// Bytes that begin `offset` after a 16-byte boundary.
template <class E>
struct Memory {
    std::vector<E> cells;
    E* first;
    explicit Memory(int64_t count, int offset = 0) : cells(static_cast<size_t>(count) + 64) {
        for (E& cell : cells) {
            const uint32_t bits = draw_bits();
            memcpy(&cell, &bits, sizeof(E) < 4 ? sizeof(E) : 4);
        }
        first = reinterpret_cast<E*>((reinterpret_cast<uintptr_t>(cells.data()) + 15) / 16 * 16) + offset;
    }
    Readable range(int64_t count) const {
        return {reinterpret_cast<const char*>(first), reinterpret_cast<const char*>(first + count)};
    }
};

bool is(const char* name, int64_t i, int64_t j, double got, double wanted, double bound) {
    if (std::fabs(got - wanted) <= bound * (1 + std::fabs(wanted)) || (std::isnan(got) && std::isnan(wanted))) return true;
    printf("%s: [%d, %d] is %g, expected %g\n", name, static_cast<int>(i), static_cast<int>(j), got, wanted);
    return false;
}

template <class T>
double element(T byte, int64_t i) {
    if constexpr (std::is_same_v<T, b1x8>)
        return byte.bits >> (i % 8) & 1;
    else if constexpr (kIsNibbles<T>)
        return i % 2 == 0 ? low_nibble(byte) : high_nibble(byte);
    else
        return static_cast<double>(fp8_to_float(byte));
}

// Rows of A, and of B if it is column-major, are followed by `gap` bytes.
template <class T, int kSide>
bool test(const char* name, bool by_columns, int64_t m, int64_t n, int64_t k, int gap, int offset) {
    constexpr int64_t kCount = kElementsPerByte<T>;
    const int64_t lda = k / kCount + gap, b_rows = by_columns ? n : k, ldb = (by_columns ? k : n) / kCount + gap;
    const int64_t d_columns = kIsNibbles<T> ? n / 2 : n, ldd = d_columns + gap;
    using R = matmul_result_t<T>;
    Memory<T> a(m * lda, offset), b(b_rows * ldb, offset);
    Memory<R> c(m * ldd), d(m * ldd);
    readable = {a.range(m * lda - gap), b.range(b_rows * ldb - gap)};
    constexpr bool kCounts = std::is_same_v<T, b1x8>;
    using S = matmul_scalar_t<T>;
    const S alpha = kCounts ? S(1) : static_cast<S>(0.03125), beta = kCounts ? S(0) : static_cast<S>(0.5);
    const MatrixStrides d_at{ldd, 1, 0};
    const Epilogue<T> epilogue{
        kCounts ? nullptr : c.first, d.first, nullptr, d_at, d_at, alpha, beta, BiasType::kF32, Activation::kNone};
    MatrixStrides b_at = by_columns ? MatrixStrides{1, ldb, 0} : MatrixStrides{ldb, kCount > 1 ? 0 : 1, 0};
    const Matmul<T> p{m, n, k / kCount, 1, a.first, b.first, {lda, 1, 0}, b_at, epilogue};
    if (launch_by_load_mode<T, kSide>(Launch{}, p) != Status::kOk) return false;
    bool right = true;
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n && right; ++j) {
            double z = 0;
            for (int64_t x = 0; x < k; ++x) {
                const double of_a = element(a.first[i * lda + x / kCount], x);
                const double of_b =
                    by_columns ? element(b.first[j * ldb + x / kCount], x) : element(b.first[x * ldb + j / kCount], j);
                z += kCounts ? (of_a != of_b ? 1 : 0) : of_a * of_b;
            }
            if constexpr (kCounts) {
                right = is(name, i, j, d.first[i * ldd + j], z, 0);
            } else if constexpr (kIsNibbles<T>) {
                const float scaled = static_cast<float>(alpha) * static_cast<float>(z) +
                                     static_cast<float>(beta) * static_cast<float>(element(c.first[i * ldd + j / 2], j));
                const T wanted = to_nibbles<T>(scaled, scaled);
                right = is(name, i, j, element(d.first[i * ldd + j / 2], j), element(wanted, 0), 0);
            } else {
                const float scaled = static_cast<float>(z) * static_cast<float>(alpha) +
                                     static_cast<float>(beta) * fp8_to_float(c.first[i * ldd + j]);
                const double got = static_cast<double>(fp8_to_float(d.first[i * ldd + j]));
                right = is(name, i, j, got, static_cast<double>(fp8_to_float(float_to_fp8<T>(scaled))), 0.15);
            }
        }
    return right;
}

template <class T>
bool test_all(const char* name) {
    bool right = test<T, 64>(name, true, 33, 40, 8 * 9, 0, 1) & test<T, 64>(name, false, 33, 40, 8 * 9, 1, 0);
    right &= test<T, 64>(name, true, 66, 72, 128 * 5, 0, 0) & test<T, 128>(name, true, 130, 24, 128 * 2, 0, 0);
    return right & test<T, 64>(name, false, 5, 8, 0, 3, 0);
}

bool test_marlin(int64_t m, int64_t n, int64_t k, bool by_groups, int offset = 0) {
    const int64_t groups = by_groups ? k / 128 : 1;
    Memory<int32_t> words(k / 16 * 2 * n, offset);
    Memory<f16> a(m * k, offset), scales(groups * n, offset), d(m * n, offset);
    readable = {a.range(m * k), words.range(k / 16 * 2 * n)};
    for (f16& x : a.cells) x = draw_half();
    for (f16& x : scales.cells) x = draw_half();
    const MarlinProduct p{m, n, k, by_groups ? 128 : k, a.first, words.first, scales.first, d.first, by_groups};
    if (marlin_product(Launch{}, p) != Status::kOk) return false;
    bool right = true;
    std::vector<double> w(static_cast<size_t>(k * n));
    for (int64_t step = 0; step < k / 16; ++step)
        for (int64_t run = 0; run < n / 64; ++run)
            for (int i = 0; i < 32; ++i)
                for (int j = 0; j < 4; ++j) {
                    const uint32_t word = static_cast<uint32_t>(words.first[step * 2 * n + run * 128 + 4 * i + j]);
                    const int order[8] = {0, 2, 4, 6, 1, 3, 5, 7}, rows[4] = {0, 1, 8, 9};
                    for (int e = 0; e < 8; ++e) {
                        const int64_t row = step * 16 + 2 * (i % 4) + rows[order[e] % 4],
                                      column = run * 64 + j * 16 + i / 4 + order[e] / 4 * 8;
                        const double q = static_cast<double>(word >> 4 * e & 15u) - 8;
                        const f16 s = scales.first[(by_groups ? row / 128 * n : 0) + marlin_scale_index(column, by_groups)];
                        w[static_cast<size_t>(row * n + column)] = q * static_cast<double>(widen(s));
                    }
                }
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n && right; ++j) {
            double z = 0;
            for (int64_t x = 0; x < k; ++x)
                z += static_cast<double>(widen(a.first[i * k + x])) * w[static_cast<size_t>(x * n + j)];
            right = is("marlin", i, j, static_cast<double>(widen(d.first[i * n + j])), z, 0.002);
        }
    return right;
}

bool test_awq(int64_t m, int64_t n, int64_t k, int32_t group, int offset) {
    const int64_t zero_words = AwqLayout::zero_words(static_cast<int32_t>(k), group);
    Memory<int32_t> words(n * k / 8), zeros(n * zero_words);
    Memory<f16> a(m * k, offset), scales(n * 8 * zero_words), d(m * n), dense(n * k, offset);
    for (f16& x : a.cells) x = draw_half();
    for (f16& x : scales.cells) x = draw_half();
    readable = {a.range(m * k), words.range(n * k / 8)};
    AwqProduct p{m, n, k, group, zero_words, a.first, words.first, scales.first, zeros.first, d.first};
    if (awq_product(Launch{}, p) != Status::kOk) return false;
    p.d = dense.first;
    if (awq_dequantize(Launch{}, p) != Status::kOk) return false;
    bool right = true;
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n && right; ++j) {
            double z = 0;
            for (int64_t x = 0; x < k; ++x) {
                const uint32_t word = static_cast<uint32_t>(words.first[j * (k / 8) + x / 8]);
                const float q = static_cast<float>(word >> x % 8 * 4 & 15u) - p.zero_of(j, x / group);
                const f16 w = narrow<f16>(widen(p.scale_of(j, x / group)) * q);
                right &= w.bits == dense.first[j * k + x].bits;
                z += static_cast<double>(widen(a.first[i * k + x])) * static_cast<double>(widen(w));
            }
            right &= is("awq", i, j, static_cast<double>(widen(d.first[i * n + j])), z, 0.002);
        }
    return right;
}

template <class T>
bool test_sparse(const char* name, int64_t n, int64_t m, int64_t k, int offset, bool has_workspace) {
    Memory<T> x(n * k, offset), values(m * k / 2, offset), y(n * m);
    Memory<uint16_t> metadata(m * k / 8);
    for (T& cell : x.cells) cell = narrow<T>(widen(draw_half()));
    for (T& cell : values.cells) cell = narrow<T>(widen(draw_half()));
    const size_t bytes = has_workspace ? sparse24_workspace<T>(n, m, k) : 0;
    std::vector<char> workspace(bytes + 1);
    readable = {x.range(n * k), {workspace.data(), workspace.data() + bytes}};
    const Sparse24<T> p{n, m, k, x.first, values.first, metadata.first, y.first};
    if (sparse24_product(Launch{bytes > 0 ? workspace.data() : nullptr, bytes, nullptr}, p) != Status::kOk) return false;
    bool right = true;
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m && right; ++j) {
            double z = 0;
            for (int64_t w = 0; w < k / 8; ++w) {
                T weights[8];
                expand_groups(values.first + j * (k / 2) + 4 * w, metadata.first[j * (k / 8) + w], weights);
                for (int e = 0; e < 8; ++e)
                    z += static_cast<double>(widen(weights[e])) * static_cast<double>(widen(x.first[i * k + 8 * w + e]));
            }
            right = is(name, i, j, static_cast<double>(widen(y.first[i * m + j])), z, 0.01);
        }
    return right;
}

template <class T>
bool test_sparse(const char* name) {
    return test_sparse<T>(name, 3, 20, 528, 0, false) & test_sparse<T>(name, 11, 9, 40, 1, false) &
           test_sparse<T>(name, 11, 36, 72, 0, true);
}

}  // namespace

int main() {
    bool right = test_all<s4x2>("s4") & test_all<u4x2>("u4") & test_all<b1x8>("b1");
    right &= test_all<e4m3>("e4m3") & test_all<e5m2>("e5m2");
    right &= test_marlin(3, 64, 384, true) & test_marlin(37, 128, 208, false);
    right &= test_marlin(12, 64, 2304, true, 1) & test_marlin(9, 64, 4144, false);
    right &= test_awq(5, 64, 1280, 128, 0) & test_awq(35, 64, 192, 64, 1);
    right &= test_awq(9, 64, 5504, 128, 0) & test_awq(16, 128, 3264, 64, 0);
    right &= test_sparse<float>("f32") & test_sparse<f16>("f16") & test_sparse<bf16>("bf16");
    if (!right) return 1;
    puts("ok");
    return 0;
}

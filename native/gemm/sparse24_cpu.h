// Sparse weights on the CPU: spread as panels are packed.
#pragma once

#include <cstdint>

#include "gemm/matmul_read_cpu.h"
#include "gemm/sparse24.h"

namespace bk {

template <class T>
struct Sparse24Reads {
    using Arithmetic = T;
    const Sparse24<T>& p;
    int64_t m, n, k;  // of the product: rows of x, rows of weights

    BK_HD void read_row(int64_t i, int64_t first, int64_t depth, float* to) const {
        for (int64_t x = 0; x < depth; ++x) to[x] = widen(p.x[i * k + first + x]);
    }
    BK_HD void read_column(int64_t j, int64_t first, int64_t depth, float* to) const {
        const T* const values = p.values + j * (k / 2) + first / 2;
        const uint16_t* const places = p.places + j * (k / 8) + first / 8;
        for (int64_t w = 0; w < depth / 8; ++w) {
            T terms[8];
            spread_groups(values + 4 * w, places[w], terms);
            for (int e = 0; e < 8; ++e) to[8 * w + e] = widen(terms[e]);
        }
    }
    BK_HD void store(int64_t i, int64_t j, int64_t columns, const float* sums) const {
        for (int64_t c = 0; c < columns; ++c) p.y[i * n + j + c] = narrow<T>(sums[c]);
    }
};

template <class T>
size_t sparse24_workspace(int64_t, int64_t, int64_t) {
    return 0;
}

template <class T>
Status sparse24_product(const Launch&, const Sparse24<T>& p) {
    return multiply_read(Sparse24Reads<T>{p, p.n, p.m, p.k});
}

}  // namespace bk

// Sparse weights on the CPU: spread as panels are packed, the second value of a group over the first.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm/matmul_read_cpu.h"
#include "gemm/sparse24.h"

namespace bk {

template <class T>
struct Sparse24Reads {
    static constexpr Packing kPacking = Packing::kF32;
    const Sparse24<T>& p;
    int64_t m, n, k;  // of the product: rows of x, rows of weights

    BK_HD void read_row(int64_t i, int64_t first, int64_t depth, float* to) const {
        for (int64_t x = 0; x < depth; ++x) to[x] = widen(p.x[i * k + first + x]);
    }
    BK_HD void read_column(int64_t j, int64_t first, int64_t depth, float* to) const {
        const T* const values = p.values + j * (k / 2) + first / 2;
        const uint16_t* const places = p.places + j * (k / 8) + first / 8;
        for (int64_t x = 0; x < depth; ++x) to[x] = 0;
        for (int64_t g = 0; g < depth / 4; ++g) {
            const uint32_t word = places[g / 2] >> g % 2 * 8;
            to[4 * g + (word & 3u)] = widen(values[2 * g]);
            to[4 * g + (word >> 2 & 3u)] = widen(values[2 * g + 1]);
        }
    }
    BK_HD void store(int64_t i, int64_t j, int64_t columns, const float* sums) const {
        for (int64_t c = 0; c < columns; ++c) p.y[i * n + j + c] = narrow<T>(sums[c]);
    }
};

template <class T>
size_t sparse24_workspace(int64_t n, int64_t m, int64_t k) {
    return blocked_workspace(block_kernel<Packing::kF32>(), n, m, k);
}

template <class T>
Status sparse24_product(const Launch& launch, const Sparse24<T>& p) {
    return multiply_read(launch, Sparse24Reads<T>{p, p.n, p.m, p.k});
}

template <class T>
Status sparse24_inflate(const Launch&, int64_t m, int64_t k, const T* values, const uint16_t* places, T* dense) {
    parallel_chunks(m * (k / 8), grain_for(8), [&](int64_t begin, int64_t end) {
        for (int64_t w = begin; w < end; ++w) {
            T terms[8];
            spread_groups(values + 4 * w, places[w], terms);
            std::copy_n(terms, 8, dense + 8 * w);
        }
    });
    return Status::kOk;
}

}  // namespace bk

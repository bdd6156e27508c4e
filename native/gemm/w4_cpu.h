// SPDX-License-Identifier: Apache-2.0
// int4-weight GEMM on the CPU: weights are dequantised as panels are packed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm/cpu/matmul_decode_cpu.h"
#include "gemm/w4.h"

namespace bk {

BK_HD void widen_run(const f16* from, int64_t count, float* to) {
    for (int64_t x = 0; x < count; ++x) to[x] = widen(from[x]);
}

BK_HD void narrow_run(const float* from, int64_t count, f16* to) {
    for (int64_t x = 0; x < count; ++x) to[x] = narrow<f16>(from[x]);
}

struct MarlinReads : MarlinProduct {
    static constexpr Packing kPacking = Packing::kF32;

    BK_HD void read_row(int64_t i, int64_t first, int64_t depth, float* to) const { widen_run(a + i * k + first, depth, to); }

    // Row r of 16 K elements is in the word of lane 4 (j % 8) + r % 8 / 2, as element r / 8 * 2 + r % 2, and four later
    // for the upper eight columns. A word stores its even elements first.
    BK_HD void read_column(int64_t j, int64_t first, int64_t depth, float* to) const {
        const int32_t* const words = weights + j / 64 * 128 + j % 8 * 16 + j % 64 / 16;
        const int64_t upper = j % 16 / 8 * 4, scale_index = marlin_scale_index(j, by_groups);
        for (int64_t x = 0; x < depth; ++x) {
            const int64_t row = first + x, r = row % 16, element = upper + r / 8 * 2 + r % 2;
            const uint32_t word = static_cast<uint32_t>(words[row / 16 * (2 * n) + r % 8 / 2 * 4]);
            const int64_t nibble = element % 2 * 4 + element / 2;
            const float scale = widen(scales[row / group * n + scale_index]);
            to[x] = scale * (static_cast<float>(word >> 4 * nibble & 15u) - 8.f);
        }
    }

    BK_HD void store(int64_t i, int64_t j, int64_t columns, const float* sums) const {
        narrow_run(sums, columns, d + i * n + j);
    }
    ScratchRows scratch_rows() const { return ScratchRows::of(d, n, n); }
};

struct AwqReads : AwqProduct {
    static constexpr Packing kPacking = Packing::kF32;

    BK_HD void read_row(int64_t i, int64_t first, int64_t depth, float* to) const { widen_run(a + i * k + first, depth, to); }

    // `first` and `depth` are multiples of 8, and groups of 64.
    BK_HD void read_column(int64_t j, int64_t first, int64_t depth, float* to) const {
        const int32_t* const words = weights + j * (k / 8) + first / 8;
        for (int64_t w = 0; w < depth / 8; ++w) {
            const int64_t g = (first + 8 * w) / group;
            const float scale = widen(scale_of(j, g)), zero = zero_of(j, g);
            const uint32_t word = static_cast<uint32_t>(words[w]);
            for (uint32_t e = 0; e < 8; ++e)
                to[8 * w + e] = widen(narrow<f16>(scale * (static_cast<float>(word >> 4 * e & 15u) - zero)));
        }
    }

    BK_HD void store(int64_t i, int64_t j, int64_t columns, const float* sums) const {
        narrow_run(sums, columns, d + i * n + j);
    }
    ScratchRows scratch_rows() const { return ScratchRows::of(d, n, n); }
};

inline Status marlin_product(const Launch&, const MarlinProduct& p) { return multiply_read(Launch{}, MarlinReads{p}); }
inline Status awq_product(const Launch&, const AwqProduct& p) { return multiply_read(Launch{}, AwqReads{p}); }

inline Status awq_dequantize(const Launch&, const AwqProduct& p) {
    const AwqReads reads{p};
    constexpr int64_t kMost = 512;
    parallel_chunks(p.n, grain_for(2 * p.k), [&](int64_t begin, int64_t end) {
        float row[kMost];
        for (int64_t j = begin; j < end; ++j)
            for (int64_t first = 0; first < p.k; first += kMost) {
                const int64_t depth = std::min(p.k - first, kMost);
                reads.read_column(j, first, depth, row);
                narrow_run(row, depth, p.d + j * p.k + first);
            }
    });
    return Status::kOk;
}

}  // namespace bk

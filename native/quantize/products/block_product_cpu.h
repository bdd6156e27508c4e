// SPDX-License-Identifier: Apache-2.0
// Products with quantised weights on the CPU: by tiles of eight rows for few rows of x, else by the blocked GEMM, which
// decodes weights as it packs them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm/cpu/matmul_decode_cpu.h"
#include "quantize/products/codes_kernel_cpu.h"
#include "quantize/products/dispatches_cpu.h"

namespace bk {

// Values first to first + count of a row of weights, at most kCodesK; both are multiples of 16.
template <class Format, int kBytes>
void decode_values(const uint8_t* row, int64_t first, int64_t count, float* to) {
    CodesRow codes;
    run_unfused<kBytes>([&] { read_codes<Format>(row, first, count, &codes); });
    expand_codes(codes, Format::kHasOffset, count, to);
}

template <class Format>
struct FormatRows {
    static_assert(kCodesK == kDecodedK, "what is decoded at once");

    template <int kBytes>
    struct Of {
        static void decode(const BlockProduct&, const uint8_t* row, int64_t first, int64_t count, float* to) {
            decode_values<Format, kBytes>(row, first, count, to);
        }
        static int64_t row_bytes(const BlockProduct& p) { return p.k / Format::kBlock * Format::kBytes; }
    };
};

// Operands of the blocked GEMM.
template <class Format>
struct BlockReads : BlockProduct {
    static constexpr Packing kPacking = Packing::kF32;

    BK_HD void read_row(int64_t i, int64_t first, int64_t depth, float* to) const {
        copy_floats(row_of(x, i * x_row, dtype), first, x_step, dtype, depth, to);
    }
    // `first` and `depth` are multiples of 8, depth at most 32.
    BK_HD void read_column(int64_t j, int64_t first, int64_t depth, float* to) const {
        const uint8_t* const row = weights + j * (k / Format::kBlock * Format::kBytes);
        const int64_t begin = first / 16 * 16, end = ceil_div<int64_t>(first + depth, 16) * 16;
        CodesRow codes;
        alignas(64) float values[64];
        read_codes<Format>(row, begin, end - begin, &codes);
        expand_codes(codes, Format::kHasOffset, end - begin, values);
        std::copy_n(values + (first - begin), depth, to);
    }
    BK_HD void store(int64_t i, int64_t j, int64_t columns, const float* sums) const {
        for (int64_t l = 0; l < columns; ++l)
            store_float(y, i * y_row + j + l, dtype, sums[l] + (bias == nullptr ? 0.f : load_float(bias, j + l, dtype)));
    }
    ScratchRows scratch_rows() const {
        if (y_row != n) return {};
        return {static_cast<char*>(y), n * bytes_of(dtype), 0};
    }
};

template <class Format>
Status block_product(const Launch&, const BlockProduct& p) {
    if (p.dispatches.experts == 0 && p.m > kSkinny && !p.is_invariant())
        return multiply_read(Launch{}, BlockReads<Format>{p}, true);
    return multiply_row_tiles<FormatRows<Format>::template Of>(p);
}

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Products with quantised weights on the CPU, by tiles of rows that decode weights as they multiply.
#pragma once

#include <cstdint>

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

template <class Format>
Status block_product(const Launch&, const BlockProduct& p) {
    return multiply_row_tiles<FormatRows<Format>::template Of>(p);
}

}  // namespace bk

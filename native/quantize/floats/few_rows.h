// SPDX-License-Identifier: Apache-2.0
// Products of few rows of x with weights of four bits whose codes name one of 16 values, on a GPU: by the tensor cores, with
// every row of weights read once for 32 rows of x.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/codec/code_books.h"
#include "core/codec/mx.h"
#include "quantize/floats/block_maxima.h"
#include "quantize/products/block_product.h"

namespace bk::floats {

// Layouts of codes in bytes, and the blocks that share a scale: bytes of two columns, the first in the high half, blocks of a
// multiple of 64; bytes of two rows, likewise; bytes of two columns, the first in the low half, blocks of 32 or of 16.
enum class FewRowsLayout : int32_t { kColumns, kRowPairs, kMx32, kMx16 };

// y[m, r] = sum over c of w[r, c] x[m, c] + bias[r] with w = value of the code times the scale of its block. f16 or bf16.
struct FewRows {
    int64_t m, n, k;
    const uint8_t* codes = nullptr;
    const void* x = nullptr;
    const void* bias = nullptr;  // null is zeros
    void* y = nullptr;
    FloatDtype dtype = FloatDtype::kBf16;
    FewRowsLayout layout = FewRowsLayout::kColumns;
    // A value is unit (values[code] + low_unit digit[code]): an f16, and what it lacks as a byte of `digits`, in 0 to 127.
    uint16_t values[codec::kBookCodes] = {};
    uint32_t digits[codec::kBookCodes / 4] = {};
    float unit = 1, low_unit = 0;  // low_unit is 0 where f16 suffices
    // Scales: `maxima` of blocks of 64 << block_shift elements, or codes of MX formats.
    BlockMaxima maxima{};
    int32_t block_shift = 0;
    const uint8_t* scales = nullptr;
    const float* tensor_scale = nullptr;
    codec::ScaleMap scale_map{};
};

// The values of a code book: those of FP4 are exact, those of NF4 within 2^-19.
void set_book(FewRows& p, codec::CodeBook book);

// Whether the kernel takes these operands; m does not matter.
bool takes_few_rows(const FewRows& p);

// Any number of rows, 32 at a time. The bits of a row of y depend on that row of x, the weights, n and k alone.
Status few_rows_product(const Launch& launch, const FewRows& p);

}  // namespace bk::floats

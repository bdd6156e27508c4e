// SPDX-License-Identifier: Apache-2.0
// Quantisation to block formats, chosen by the GGML type id. The importance of the columns, if given, weighs the errors.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/codec/encode_k.h"
#include "core/codec/encode_legacy.h"
#include "quantize/blocks/block_rows.h"

namespace bk {

namespace codec {
using EncodedFormats =
    FormatList<Numbered<2, Q40>, Numbered<3, Q41>, Numbered<6, Q50>, Numbered<7, Q51>, Numbered<8, Q80>, Numbered<10, Q2K>,
               Numbered<11, Q3K>, Numbered<12, Q4K>, Numbered<13, Q5K>, Numbered<14, Q6K>, Numbered<15, Q8K>,
               Numbered<20, Iq4Nl>, Numbered<23, Iq4Xs>, Numbered<34, Tq10>, Numbered<35, Tq20>>;
}

// The values to encode: blocks_per_row blocks a row, with the importance of each column, or null.
struct ValueRows {
    FloatArray x;
    const float* importance;
    int64_t count, blocks_per_row;
};

// The power of two that scales a block, whose largest magnitude has these bits, to [1, 4). Bits order NaN
// above infinity above numbers.
struct BlockRange {
    bool is_finite;
    float unit;
    static BK_HD BlockRange of(uint32_t largest, bool is_scaled) {
        if (largest >= 0x7f800000u) return {false, 1.f};
        const uint32_t exponent = largest >> 23 < 253u ? largest >> 23 : 253u;  // 2^-126 is the least unit
        // Values below 2^-100 have an f16 scale of 0 anyway.
        return {true, is_scaled && exponent > 27 ? bit_cast<float>((254u - exponent) << 23) : 1.f};
    }
};

template <class Format>
Status quantize_rows(const Launch& launch, const ValueRows& values, uint8_t* y);

template <class T>
struct QuantizeBlocks {
    int64_t rows, columns;
    int32_t format;

    Status check() const {
        BK_TRY(require_non_negative({{"rows", rows}}));
        return codec::EncodedFormats::with(
            format, [&](auto numbered) { return require_whole_blocks("columns", columns, decltype(numbered)::type::kBlock); });
    }
    Work work() const { return all_or_none(rows > 0 ? columns : 0); }
    int64_t row_bytes() const {
        const codec::BlockSize block = codec::BlockSize::of(format);
        return columns / block.values * block.bytes;
    }
    Status run(const T* x, const float* importance, uint8_t* y, const Launch& launch) const {
        return codec::EncodedFormats::with(format, [&](auto numbered) {
            using Format = typename decltype(numbered)::type;
            const int64_t per_row = columns / Format::kBlock;
            return quantize_rows<Format>(launch, {FloatArray::of(const_cast<T*>(x)), importance, rows * per_row, per_row}, y);
        });
    }
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Quantisation on the CPU, a block at a time.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/abi/launch.h"
#include "quantize/blocks/quantize.h"

namespace bk {

BK_HD float load_value(const FloatArray& x, int64_t at) {
    switch (x.kind) {
        case FloatKind::kF32: return static_cast<const float*>(x.data)[at];
        case FloatKind::kF16: return widen(static_cast<const f16*>(x.data)[at]);
        default: return widen(static_cast<const bf16*>(x.data)[at]);
    }
}

template <class Format>
BK_HD void encode_block(const ValueRows& values, int64_t block, uint8_t* y) {
    using Encoder = codec::Encoder<Format>;
    constexpr int kSubBlock = Encoder::kSubBlock, kSubBlocks = Format::kBlock / kSubBlock;
    codec::SubBlock<kSubBlock> sub_blocks[kSubBlocks];
    uint32_t largest = 0;
    for (int i = 0; i < Format::kBlock; ++i) {
        const float x = load_value(values.x, block * Format::kBlock + i);
        const uint32_t magnitude = bit_cast<uint32_t>(x) & 0x7fffffffu;
        sub_blocks[i / kSubBlock].x[i % kSubBlock] = x;
        largest = magnitude > largest ? magnitude : largest;
    }
    const BlockRange range = BlockRange::of(largest, Encoder::kScaled);
    if (!range.is_finite) return Encoder::poison(y);
    float squares = 0.f;
    for (auto& sub_block : sub_blocks) {
        float of_sub_block = 0.f;
        for (float& x : sub_block.x) {
            x = codec::mul(x, range.unit);
            of_sub_block += codec::mul(x, x);
        }
        squares += of_sub_block;
    }
    const float twice_mean_square = 2.f * squares / Format::kBlock;
    const int64_t column = block % values.blocks_per_row * Format::kBlock;
    codec::Fit fits[kSubBlocks];
    for (int p = 0; p < kSubBlocks; ++p) {
        Encoder::weights(&sub_blocks[p], values.importance == nullptr ? nullptr : values.importance + column + p * kSubBlock,
                         twice_mean_square);
        fits[p] = Encoder::fit(sub_blocks[p]);
    }
    codec::clear_block<Format::kBytes>(y);
    Encoder::head(y, fits, range.unit);
    uint8_t codes[Format::kBlock];
    for (int pass = 0; pass < 2; ++pass) {
        if constexpr (Encoder::kRefits) {
            codec::SubBlockSums sums[kSubBlocks];
            for (int p = 0; p < kSubBlocks; ++p)
                sums[p] = Encoder::codes(y, fits, p, sub_blocks[p], range.unit, codes + p * kSubBlock);
            if (pass == 0) Encoder::refit(y, sums, range.unit);
        } else if (pass == 0) {
            for (int p = 0; p < kSubBlocks; ++p) Encoder::codes(y, fits, p, sub_blocks[p], range.unit, codes + p * kSubBlock);
        }
    }
    for (int p = 0; p < kSubBlocks; ++p) Encoder::pack(y, codes, p);
}

template <class Format>
Status quantize_rows(const Launch&, const ValueRows& values, uint8_t* y) {
    parallel_ranges(values.count, grain_for(64 * Format::kBlock), [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) encode_block<Format>(values, k, y + k * Format::kBytes);
    });
    return Status::kOk;
}

}  // namespace bk

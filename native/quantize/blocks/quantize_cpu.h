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
    constexpr int kPart = Encoder::kPart, kParts = Format::kBlock / kPart;
    codec::Part<kPart> parts[kParts];
    uint32_t largest = 0;
    for (int i = 0; i < Format::kBlock; ++i) {
        const float x = load_value(values.x, block * Format::kBlock + i);
        const uint32_t magnitude = bit_cast<uint32_t>(x) & 0x7fffffffu;
        parts[i / kPart].x[i % kPart] = x;
        largest = magnitude > largest ? magnitude : largest;
    }
    const BlockRange range = BlockRange::of(largest, Encoder::kScaled);
    if (!range.is_finite) return Encoder::poison(y);
    float squares = 0.f;
    for (auto& part : parts) {
        float of_part = 0.f;
        for (float& x : part.x) {
            x = codec::mul(x, range.unit);
            of_part += codec::mul(x, x);
        }
        squares += of_part;
    }
    const float twice_mean_square = 2.f * squares / Format::kBlock;
    const int64_t column = block % values.blocks_per_row * Format::kBlock;
    codec::Fit fits[kParts];
    for (int p = 0; p < kParts; ++p) {
        Encoder::weights(&parts[p], values.importance == nullptr ? nullptr : values.importance + column + p * kPart,
                         twice_mean_square);
        fits[p] = Encoder::fit(parts[p]);
    }
    codec::clear_block<Format::kBytes>(y);
    Encoder::head(y, fits, range.unit);
    uint8_t codes[Format::kBlock];
    for (int pass = 0; pass < 2; ++pass) {
        if constexpr (Encoder::kRefits) {
            codec::PartSums sums[kParts];
            for (int p = 0; p < kParts; ++p) sums[p] = Encoder::codes(y, fits, p, parts[p], range.unit, codes + p * kPart);
            if (pass == 0) Encoder::refit(y, sums, range.unit);
        } else if (pass == 0) {
            for (int p = 0; p < kParts; ++p) Encoder::codes(y, fits, p, parts[p], range.unit, codes + p * kPart);
        }
    }
    for (int p = 0; p < kParts; ++p) Encoder::pack(y, codes, p);
}

template <class Format>
Status quantize_rows(const Launch&, const ValueRows& values, uint8_t* y) {
    parallel_ranges(values.count, grain_for(64 * Format::kBlock), [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) encode_block<Format>(values, k, y + k * Format::kBytes);
    });
    return Status::kOk;
}

}  // namespace bk

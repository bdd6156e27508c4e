// SPDX-License-Identifier: Apache-2.0
// Dequantisation on the CPU: a block is decoded to f32 and rounded to the result's dtype while it is in cache.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/abi/launch.h"
#include "core/codec/block_format.h"
#include "quantize/blocks/dequantize.h"

namespace bk {

template <class Format>
BK_HD void decode_block(const uint8_t* block, float* values) {
    for (int g = 0; g < Format::kBlock / Format::kGroup; ++g) {
        const codec::Affine affine = Format::affine(block, g);
        for (int e = g * Format::kGroup; e < (g + 1) * Format::kGroup; e += 4) {
            const uint32_t codes = Format::codes4(block, e);
            for (int i = 0; i < 4; ++i) values[e + i] = codec::value_of<Format>(affine, codec::code_of(codes, i));
        }
    }
}

template <class T>
BK_HD void narrow_values(const float* values, T* y, int count) {
    for (int i = 0; i < count; ++i) y[i] = narrow<T>(values[i]);
}

BK_HD void store_values(const float* values, const FloatArray& y, int64_t at, int count) {
    switch (y.kind) {
        case FloatKind::kF32: memcpy(static_cast<float*>(y.data) + at, values, sizeof(float) * count); break;
        case FloatKind::kF16: narrow_values(values, static_cast<f16*>(y.data) + at, count); break;
        case FloatKind::kBf16: narrow_values(values, static_cast<bf16*>(y.data) + at, count); break;
    }
}

template <class Format>
Status dequantize_rows(const Launch&, const EncodedRows& blocks, const FloatArray& y) {
    constexpr int kBlock = Format::kBlock;
    parallel_ranges(blocks.count(), grain_for(4 * kBlock), [&](int64_t begin, int64_t end) {
        float values[kBlock];
        for (int64_t k = begin; k < end; ++k) {
            const int64_t row = k / blocks.blocks_per_row, source = blocks.source_row(row);
            if (blocks.has(source))
                decode_block<Format>(
                    blocks.blocks + (source * blocks.blocks_per_row + k % blocks.blocks_per_row) * Format::kBytes, values);
            else
                memset(values, 0, sizeof(values));
            store_values(values, y, k * kBlock, kBlock);
        }
    });
    return Status::kOk;
}

}  // namespace bk

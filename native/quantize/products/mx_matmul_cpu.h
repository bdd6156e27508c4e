// SPDX-License-Identifier: Apache-2.0
// Products with MX weights on the CPU, by tiles of rows that decode weights as they multiply. Codes are looked up in a table
// of their values.
#pragma once

#include <algorithm>
#include <cstdint>

#include "quantize/products/codes_kernel_cpu.h"
#include "quantize/products/dispatches_cpu.h"
#include "quantize/products/mx_matmul.h"

namespace bk {

// Rows of codes as values: element times scale, rounded as dequantize_mx does.
struct MxRows : MxProduct {
    float element[256], nibble[16], nvfp4_scale[256];

    explicit MxRows(const MxProduct& p) : MxProduct(p) {
        const codec::MxElements elements = codec::MxElements::of(format_of_codes);
        const codec::Minifloat scale = codec::minifloat(codec::FloatFormat::kE4m3);
        const float whole = tensor_scale == nullptr ? 1.f : *tensor_scale;
        for (uint32_t code = 0; code < 256; ++code) {
            element[code] = elements.decode(code);
            nvfp4_scale[code] = math::product(scale.decode(code), whole);
        }
        std::copy_n(element, 16, nibble);
    }

    float scale_at(int64_t row, int64_t block) const {
        const uint8_t code = scales[scale_map.at(row, block)];
        return layout().is_nvfp4() ? nvfp4_scale[code] : codec::e8m0_value(code);
    }

    // Values first to first + count of a row; both are multiples of 8, what eight elements fill whole bytes of.
    BK_HD void read(int64_t row, int64_t first, int64_t count, float* to) const {
        const codec::MxLayout form = layout();
        const int bits = form.bits(), block = form.block();
        const uint8_t* bytes = weights + row * row_bytes() + first * bits / 8;
        for (int64_t k = 0; k < count;) {
            const int64_t at = first + k, length = std::min(count - k, block - at % block);
            const float scale = scale_at(row, at / block);
            if (bits == 4) {
                expand_nibbles(bytes, Nibbles::kLowFirst, length, nibble, scale, to + k);
                bytes += length / 2;
            } else if (bits == 8)
                for (int64_t i = 0; i < length; ++i, ++bytes) to[k + i] = element[*bytes] * scale;
            else
                for (int64_t i = 0; i < length; i += 4, bytes += 3) {
                    const uint32_t four =
                        bytes[0] | static_cast<uint32_t>(bytes[1]) << 8 | static_cast<uint32_t>(bytes[2]) << 16;
                    for (int e = 0; e < 4; ++e) to[k + i + e] = element[four >> (6 * e) & 63u] * scale;
                }
            k += length;
        }
    }
};

template <int kBytes>
struct MxRowTiles {
    static const MxRows& rows_of(const BlockProduct& p) { return static_cast<const MxRows&>(static_cast<const MxProduct&>(p)); }
    static int64_t row_bytes(const BlockProduct& p) { return rows_of(p).row_bytes(); }
    static void decode(const BlockProduct& p, const uint8_t* row, int64_t first, int64_t count, float* to) {
        const MxRows& rows = rows_of(p);
        run_unfused<kBytes>([&] { rows.read((row - p.weights) / rows.row_bytes(), first, count, to); });
    }
};

template <class T>
Status mx_product(const Launch&, const MxProduct& p) {
    return multiply_row_tiles<MxRowTiles>(MxRows(p));
}

}  // namespace bk

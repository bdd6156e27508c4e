// SPDX-License-Identifier: Apache-2.0
// Blocks of narrow elements with one narrow scale: OCP Microscaling Formats (MX) v1.0, 32 elements with a power of two
// (e8m0), and NVFP4, 16 elements of e2m1 with a scale of e4m3 and one f32 scale of the whole tensor.
//
// Elements are packed in order as a little-endian stream of bits: of 4 bits two to a byte, the first in the low half, of 6
// bits four to three bytes. An element of MXINT8 is its two's complement over 64; -128 is not written.
#pragma once

#include <cstdint>

#include "core/codec/minifloat.h"
#include "core/math/math.h"

namespace bk::codec {

enum class MxFormat : int32_t { kMxfp4, kMxfp6E2m3, kMxfp6E3m2, kMxfp8E4m3, kMxfp8E5m2, kMxint8, kNvfp4 };
constexpr int kMxFormats = 7;

// The exponent of a power-of-two scale for a block whose largest magnitude is `largest`:
//   kFloor  floor(log2(largest)) - largest exponent of the element format (OCP MX v1.0, 6.3): the largest may saturate
//   kCeil   the least with which nothing saturates
//   kRound  as kFloor, after rounding the magnitude half up to the mantissa bits of the element format
enum class ScaleRule : int32_t { kFloor, kCeil, kRound };

constexpr int kMostMxBlock = 32;

struct MxLayout {
    MxFormat format;

    BK_HD bool is_nvfp4() const { return format == MxFormat::kNvfp4; }
    BK_HD int block() const { return is_nvfp4() ? 16 : 32; }
    BK_HD int bits() const {
        if (format == MxFormat::kMxfp4 || is_nvfp4()) return 4;
        return format == MxFormat::kMxfp6E2m3 || format == MxFormat::kMxfp6E3m2 ? 6 : 8;
    }
    BK_HD int bytes() const { return block() * bits() / 8; }
    BK_HD FloatFormat element() const {
        switch (format) {
            case MxFormat::kMxfp6E2m3: return FloatFormat::kE2m3;
            case MxFormat::kMxfp6E3m2: return FloatFormat::kE3m2;
            case MxFormat::kMxfp8E4m3: return FloatFormat::kE4m3;
            case MxFormat::kMxfp8E5m2: return FloatFormat::kE5m2;
            default: return FloatFormat::kE2m1;
        }
    }
};

// Integers over 64 in place of a float.
BK_HD uint32_t mxint8_code(float x) {
    const float bounded = x < -127.0f / 64 ? -127.0f / 64 : x > 127.0f / 64 ? 127.0f / 64 : x;
    // At this magnitude the last mantissa bit is 1/64, so the sum rounds, ties to even.
    const uint32_t bits = bit_cast<uint32_t>(bounded + 0x1.8p17f);
    return x == x ? bits & 0xffu : 0u;
}
BK_HD float mxint8_value(uint32_t code) { return static_cast<float>(static_cast<int8_t>(code)) * 0x1p-6f; }

// Elements of a format, with its constants at hand.
struct MxElements {
    bool is_integer;
    Minifloat floats;

    BK_HD static MxElements of(MxFormat format) { return {format == MxFormat::kMxint8, minifloat(MxLayout{format}.element())}; }
    BK_HD uint32_t encode(float x) const { return is_integer ? mxint8_code(x) : floats.encode(x); }
    BK_HD float decode(uint32_t code) const { return is_integer ? mxint8_value(code) : floats.decode(code); }
    BK_HD int mantissa() const { return is_integer ? 6 : floats.mantissa; }
    BK_HD int largest_exponent() const { return is_integer ? 0 : floats.largest_exponent; }
    BK_HD float largest() const { return is_integer ? 127.0f / 64 : floats.decode(floats.largest); }
};

// Code of the e8m0 scale of a block with this largest magnitude: finite, as is `largest`. A block of zeros has 0, 2^-127.
BK_HD uint32_t mx_scale_code(const MxElements& elements, ScaleRule rule, float largest) {
    uint32_t u = bit_cast<uint32_t>(largest);
    if (rule == ScaleRule::kRound) u += 1u << (22 - elements.mantissa());
    if (u < 0x00800000u) return 0;  // subnormals: the exponent of the scale is below -127 for all formats
    int exponent = static_cast<int>(u >> 23) - elements.largest_exponent();
    if (rule == ScaleRule::kCeil) {  // mantissas beyond that of the largest element need one more
        const uint32_t most = bit_cast<uint32_t>(elements.largest()) & 0x7fffffu;
        exponent += (u & 0x7fffffu) > most ? 1 : 0;
    }
    return static_cast<uint32_t>(exponent < 0 ? 0 : exponent > 254 ? 254 : exponent);
}

// Code of the e4m3 scale of a block of NVFP4; 0 where it underflows, and the elements are zeros.
BK_HD uint32_t nvfp4_scale_code(float largest, float tensor_scale) {
#if BK_ON_GPU
    const float scale = __fdiv_rn(__fdiv_rn(largest, 6.0f), tensor_scale);
#else
    const float scale = largest / 6.0f / tensor_scale;
#endif
    return minifloat(FloatFormat::kE4m3).encode(scale);
}

// 2^-exponent of an e8m0 scale, which an element is multiplied by.
BK_HD float inverse_of_e8m0(uint32_t code) { return bit_cast<float>(code == 254 ? 0x00400000u : (254 - code) << 23); }

// Index of the scale of row r and block b. Swizzled, as cuBLASLt and cuDNN want them: tiles of 128 rows and 4 blocks of 512
// bytes, rows r, r + 32, r + 64 and r + 96 of a tile adjacent, with 4 blocks each.
BK_HD int64_t swizzled_index(int64_t row, int64_t block, int64_t blocks) {
    const int64_t tile = row / 128 * ((blocks + 3) / 4) + block / 4;
    return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
}

enum class ScaleLayout : int32_t { kLinear, kSwizzled };

// The layout of a matrix of scales. Swizzled ones are padded with zeros to whole tiles.
struct ScaleMap {
    ScaleLayout layout;
    int64_t rows, blocks;

    BK_HD int64_t at(int64_t row, int64_t block) const {
        return layout == ScaleLayout::kLinear ? row * blocks + block : swizzled_index(row, block, blocks);
    }
    BK_HD int64_t padded_rows() const { return layout == ScaleLayout::kLinear ? rows : (rows + 127) / 128 * 128; }
    BK_HD int64_t padded_blocks() const { return layout == ScaleLayout::kLinear ? blocks : (blocks + 3) / 4 * 4; }
    BK_HD int64_t count() const { return padded_rows() * padded_blocks(); }
};

}  // namespace bk::codec

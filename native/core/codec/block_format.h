// SPDX-License-Identifier: Apache-2.0
// Block formats: kBlock adjacent values of a row in kBytes bytes, as integer codes that a scale and an offset make
// values. Kernels read a format through these members alone, so that dequantisation, products, experts and embedding rows
// share one text:
//
//   kBlock, kBytes                values and bytes of a block; kAlign, the alignment of a block in bytes (1, 2 or 4)
//   kGroup                        adjacent values with one scale and offset: 16, 32 or 256
//   kHasOffset                    false if all offsets are 0
//   kHasPositiveCodes             true if codes are from 0 to 127; formats without such codes do not have it
//   codes4(block, e)              the codes of values e to e + 3 (e a multiple of 4), as signed bytes, the first lowest
//   affine(block, g)              scale and offset of group g
//
// A value is scale * code + offset, multiplied and added without contraction, in f32: the bits of the formats' reference
// decoders (the Python package `gguf`).
#pragma once

#include <cstdint>
#include <cstring>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk::codec {

struct Affine {
    float scale, offset;
};

// Four bytes from an address that is a multiple of kAlign.
template <int kAlign>
BK_HD uint32_t load4(const uint8_t* p) {
    static_assert(kAlign == 1 || kAlign == 2 || kAlign == 4, "blocks lie on 1, 2 or 4 bytes");
#if BK_ON_GPU
    if constexpr (kAlign == 4) return *reinterpret_cast<const uint32_t*>(p);
    if constexpr (kAlign == 2) {
        const uint16_t* halves = reinterpret_cast<const uint16_t*>(p);
        return halves[0] | static_cast<uint32_t>(halves[1]) << 16;
    }
#endif
    uint32_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

// An f16 of a block, which lies on two bytes where a kernel on the GPU reads it.
BK_HD float load_f16(const uint8_t* p) {
#if BK_ON_GPU
    return widen(f16{*reinterpret_cast<const uint16_t*>(p)});
#else
    return widen(f16{static_cast<uint16_t>(p[0] | p[1] << 8)});
#endif
}

// Bytes of `codes`, each at most 127, less the bytes of `subtrahend`, each at most 127.
BK_HD uint32_t subtract_bytes(uint32_t codes, uint32_t subtrahend) {
    return ((codes | 0x80808080u) - subtrahend) ^ 0x80808080u;
}

// The low four bits of `bits` as bit kBit of four bytes.
template <int kBit>
BK_HD uint32_t spread_bits(uint32_t bits) {
    return ((bits & 15u) * 0x00204081u & 0x01010101u) << kBit;
}

BK_HD float code_of(uint32_t codes, int i) { return static_cast<float>(static_cast<int8_t>(codes >> (8 * i))); }

// Product and sum are rounded each, so that all targets have the same bits.
template <class Format>
BK_HD float value_of(Affine affine, float code) {
    const float product = math::product(affine.scale, code);
    if constexpr (!Format::kHasOffset) return product;
#if BK_ON_GPU
    return __fadd_rn(product, affine.offset);
#else
    return product + affine.offset;
#endif
}

// Values e to e + 3 of a block; e is a multiple of 4.
template <class Format>
BK_HD void values4(const uint8_t* block, int e, float (&values)[4]) {
    const uint32_t codes = Format::codes4(block, e);
    const Affine affine = Format::affine(block, e / Format::kGroup);
    for (int i = 0; i < 4; ++i) values[i] = value_of<Format>(affine, code_of(codes, i));
}

}  // namespace bk::codec

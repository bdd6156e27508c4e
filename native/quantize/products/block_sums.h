// SPDX-License-Identifier: Apache-2.0
// How integer dot products with q8_1 activations treat the offset of a format. With the codes c of a group of weights, its
// scale and offset, and the codes q of an activation block, its scale d and stored sum s of values before rounding:
//
//   formats of groups     scale d sum(c q) + offset d sum(q)
//   q4_1, q5_1            scale d sum(c q) + offset s
//   q4_0, q5_0            scale (d sum(u q) - zero s) for unsigned codes u = c + zero: scale d sum(c q) + scale zero (d sum(q)
//   - s)
//
// s has overflowed f16 where it is not finite: then d sum(q) replaces it.
#pragma once

#include <cstdint>

#include "core/codec/gguf_k.h"
#include "core/codec/gguf_legacy.h"
#include "core/math/math.h"

namespace bk {

enum class BlockSum { kNone, kStored, kRounding, kCodes };

template <class Format>
constexpr BlockSum kBlockSum = Format::kHasOffset ? BlockSum::kCodes : BlockSum::kNone;
template <>
constexpr BlockSum kBlockSum<codec::Q41> = BlockSum::kStored;
template <>
constexpr BlockSum kBlockSum<codec::Q51> = BlockSum::kStored;
template <>
constexpr BlockSum kBlockSum<codec::Q40> = BlockSum::kRounding;
template <>
constexpr BlockSum kBlockSum<codec::Q50> = BlockSum::kRounding;

template <class Format>
constexpr float kZeroCode = 0;
template <>
constexpr float kZeroCode<codec::Q40> = 8;
template <>
constexpr float kZeroCode<codec::Q50> = 16;

// The activations' sum that an offset multiplies.
template <class Format>
BK_HD float block_sum(float scale, float stored, int32_t codes) {
    const float sum = scale * static_cast<float>(codes);
    const bool is_finite = (bit_cast<uint32_t>(stored) & 0x7f800000u) != 0x7f800000u;
    if constexpr (kBlockSum<Format> == BlockSum::kStored) return is_finite ? stored : sum;
    if constexpr (kBlockSum<Format> == BlockSum::kRounding) return is_finite ? sum - stored : 0.f;
    return sum;
}

template <class Format>
BK_HD float sum_factor(codec::Affine affine) {
    if constexpr (kBlockSum<Format> == BlockSum::kRounding) return affine.scale * kZeroCode<Format>;
    return affine.offset;
}

}  // namespace bk

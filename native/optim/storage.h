// SPDX-License-Identifier: Apache-2.0
// How parameters and states are stored.
//
// Parameters of 16 bits are updated in f32: from f32 master weights; or from a bf16 parameter and an error word, which are
// the high and the low half of one f32 number, so that no update is lost; or rounded stochastically (Zamirai et al. 2020),
// up with the probability of the remainder, by Philox.
//
// States of 8 bits have a scale for each block of 256 elements (Dettmers et al. 2022), its largest magnitude a, and
// companded codes, finer at small magnitudes. Signed states are softsign-companded, q = 2x / (1 + |x|) with x = s / a
// (Ortiz et al., arXiv 2602.23349). States that are never negative take the fourth root, q = (s / a)^(1/4), whose smallest
// code stands for 2.4e-10 a, and a positive state never becomes 0, so that no update is divided by eps alone.
// The codes of a state come first, a byte each, in whole blocks; the scales follow, f32.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/random/philox.h"
#include "core/types/dtype.h"

namespace bk::optim {

// --- error words ---

// Rounds half away from zero, so that the error fits 16 bits.
BK_HD bf16 high_half(float x) { return bf16{static_cast<uint16_t>((bit_cast<uint32_t>(x) + 0x8000u) >> 16)}; }
BK_HD uint16_t low_half(float x) { return static_cast<uint16_t>(bit_cast<uint32_t>(x)); }
BK_HD float from_halves(bf16 high, uint16_t low) {
    return bit_cast<float>((static_cast<uint32_t>(high.bits) << 16) + low - (low & 0x8000u ? 0x10000u : 0u));
}

// --- stochastic rounding ---

// `random` has 16 bits.
BK_HD bf16 round_randomly(float x, uint32_t random, bf16) {
    const uint32_t u = bit_cast<uint32_t>(x);
    const bool is_finite = (u & 0x7f800000u) != 0x7f800000u;
    return is_finite ? bf16{static_cast<uint16_t>((u + random) >> 16)} : narrow<bf16>(x);
}

BK_HD f16 round_randomly(float x, uint32_t random, f16) {
    const uint32_t u = bit_cast<uint32_t>(x), magnitude = u & 0x7fffffffu;
    if (magnitude >= 0x7f800000u) return narrow<f16>(x);
    if (magnitude >= 0x38800000u) return narrow<f16>(bit_cast<float>((u + (random >> 3)) & ~0x1fffu));
    // Subnormal results are multiples of 2^-24.
    const float units = math::fabs<float>(x) * 0x1p24f + static_cast<float>(random >> 3) * 0x1p-13f;
    return narrow<f16>(math::copysign<float>(math::floor<float>(units) * 0x1p-24f, x));
}

// Random bits of an element: 16 of the block that eight adjacent elements share. Steps and tensors have streams of their own.
struct RandomBits {
    uint64_t seed, stream;

    static BK_HD RandomBits of(uint64_t seed, int64_t step, int64_t tensor) {
        return {seed, static_cast<uint64_t>(step) << 32 | static_cast<uint64_t>(tensor)};
    }
    BK_HD PhiloxBlock block(int64_t i) const { return philox_block(seed, static_cast<uint64_t>(i) / 8, stream); }
    static BK_HD uint32_t bits(const PhiloxBlock& block, int lane) { return block.word[lane / 2] >> (lane % 2 * 16) & 0xffffu; }
};

// --- states of 8 bits ---

constexpr int kStateBlock = 256;

BK_HD int64_t padded(int64_t size) { return (size + kStateBlock - 1) / kStateBlock * kStateBlock; }
BK_HD float* scales_of(void* state, int64_t size) {
    return reinterpret_cast<float*>(static_cast<uint8_t*>(state) + padded(size));
}

BK_HD float decode_signed(uint8_t code, float scale) {
    const float q = (static_cast<float>(static_cast<int32_t>(code)) - 128.0f) * (1.0f / 127.0f);
    return scale * (q / (2.0f - math::fabs<float>(q)));
}
BK_HD float decode_positive(uint8_t code, float scale) {
    const float q = static_cast<float>(static_cast<int32_t>(code)) * (1.0f / 255.0f), square = q * q;
    return scale * (square * square);
}

// Code of an element in a block whose scale is not 0; a NaN scale makes the block NaN.
BK_HD uint8_t encode_signed(float s, float scale) {
    const float x = s / scale, q = 2.0f * x / (1.0f + math::fabs<float>(x));
    const float code = math::rint<float>(q * 127.0f) + 128.0f;
    return static_cast<uint8_t>(static_cast<int32_t>(code >= 1.0f && code <= 255.0f ? code : 128.0f));
}
BK_HD uint8_t encode_positive(float s, float scale) {
    const float code = math::rint<float>(math::sqrt<float>(math::sqrt<float>(s / scale)) * 255.0f);
    const float bounded = code >= 1.0f && code <= 255.0f ? code : s > 0.0f ? 1.0f : 0.0f;
    return static_cast<uint8_t>(static_cast<int32_t>(bounded));
}

// The larger magnitude; NaN if either is.
BK_HD float larger(float a, float b) { return b > a || b != b ? b : a; }

}  // namespace bk::optim

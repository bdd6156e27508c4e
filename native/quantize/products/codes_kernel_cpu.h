// SPDX-License-Identifier: Apache-2.0
// Microkernels on decoded codes, the same for all formats: rows of 8-bit codes with a scale and an offset for each 16.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/codec/codes_cpu.h"
#include "core/platform.h"

namespace bk {

constexpr int kCodesK = 256, kCodeGroup = 16, kCodeGroups = kCodesK / kCodeGroup;  // K elements decoded at once: whole blocks

// Part of a row of weights.
struct CodesRow {
    alignas(64) int8_t codes[kCodesK];
    float scales[kCodeGroups], offsets[kCodeGroups];
};

// values[k] = scale code + offset, product and sum rounded each; `count` is a multiple of 16.
void expand_codes(const CodesRow& row, bool has_offset, int64_t count, float* values);

// The nibbles of bytes, in order: both of each byte, or one.
enum class Nibbles { kLowFirst, kHighFirst, kLow, kHigh };

// values[i] = table[nibble i] scale, rounded once; `count` is even if bytes have two.
void expand_nibbles(const uint8_t* bytes, Nibbles order, int64_t count, const float (&table)[16], float scale, float* values);

// Part of a row of q8_1 activations: codes, and for each 16 the scale and the sum that an offset multiplies.
struct QuantizedRow {
    alignas(64) int8_t codes[kCodesK];
    alignas(64) int32_t quads[kCodesK / 4];  // -128 times the sum of four codes
    float scales[kCodeGroups], sums[kCodeGroups];
};

constexpr int kDotLanes = 16;

// lanes[] += scale of w and x times the products of their codes, and `factors` times the sums if it is not null; `count` is
// a multiple of 32, and both rows have zeros behind it.
void dot_codes(const CodesRow& w, const float* factors, const QuantizedRow& x, int64_t count, float (&lanes)[kDotLanes]);

// Values e to e + 16 kSixteens of a block, from element `k` of `to` on. The loop is unrolled, so that what groups share is
// computed once.
template <int kSixteens, class Format>
BK_HD void read_sixteens(const uint8_t* BK_RESTRICT block, int e, int64_t k, CodesRow* BK_RESTRICT to) {
    constexpr int kEach = Format::kGroup / 16;  // sixteens with one scale
    codec::Affine affine{};
    _Pragma("GCC unroll 16") for (int s = 0; s < kSixteens; ++s) {
        if (s % kEach == 0) affine = Format::affine(block, (e + 16 * s) / Format::kGroup);
        to->scales[k / 16 + s] = affine.scale;
        to->offsets[k / 16 + s] = affine.offset;
        const codec::Bytes16 codes = codec::Codes16<Format>::read(block, e + 16 * s);
        memcpy(to->codes + k + 16 * s, &codes, sizeof(codes));
    }
}

// K elements first to first + count of a row, with at most kCodesK; both are multiples of 16.
template <class Format>
BK_HD void read_codes(const uint8_t* BK_RESTRICT row, int64_t first, int64_t count, CodesRow* BK_RESTRICT to) {
    static_assert(Format::kGroup % 16 == 0, "sixteens with one scale");
    // Whole blocks, but for codes that are gathered, whose code is long.
    constexpr bool kIsShort = Format::kBlock <= 64 || !std::is_base_of_v<codec::GatheredCodes, codec::Codes16<Format>>;
    constexpr int kAtOnce = kIsShort ? Format::kBlock / 16 : 4;
    const uint8_t* BK_RESTRICT block = row + first / Format::kBlock * Format::kBytes;
    int e = static_cast<int>(first % Format::kBlock);
    for (int64_t k = 0; k < count; block += Format::kBytes, e = 0) {
        const int64_t end = count - k < Format::kBlock - e ? count : k + Format::kBlock - e;
        if (e % (16 * kAtOnce) == 0)
            for (; k + 16 * kAtOnce <= end; k += 16 * kAtOnce, e += 16 * kAtOnce)
                read_sixteens<kAtOnce, Format>(block, kIsShort ? 0 : e, k, to);
        for (; k < end; k += 16, e += 16) read_sixteens<1, Format>(block, e, k, to);
    }
}

}  // namespace bk

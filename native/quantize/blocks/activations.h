// SPDX-License-Identifier: Apache-2.0
// Activations as blocks of 32 signed bytes. q8_1: an f16 scale and the f16 sum of the values; the wide form has an f32
// scale instead of both, so that neither overflows. Rows are padded with zeros to whole blocks.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/math/math.h"
#include "core/types/dtype.h"

namespace bk {

constexpr int kQ81Values = 32, kQ81Bytes = 36;

// The nearest integer, halves away from zero.
BK_HD float round_away(float x) {
    const float whole = truncf(x);
    return whole + (fabsf(x - whole) >= 0.5f ? copysignf(1.f, x) : 0.f);
}

// The scale of a block, and its codes. `largest` has the bits of the largest magnitude, which order NaN above infinity:
// a block with either has a NaN scale and the codes 0.
struct Q81Scale {
    float scale, divisor;

    static BK_HD Q81Scale of(uint32_t largest) {
        if (largest >= 0x7f800000u) return {bit_cast<float>(0x7fc00000u), 0.f};
        const float scale = bit_cast<float>(largest) / 127.f;
        return {scale, scale};
    }
    BK_HD uint32_t code(float x) const {
        if (!(divisor > 0.f)) return 0;
        // x / scale may round up to 127.5 only for subnormal scales.
        const float code = round_away(x / divisor);
        return static_cast<uint32_t>(static_cast<int32_t>(code < -127.f ? -127.f : code > 127.f ? 127.f : code)) & 255u;
    }
    // The four bytes in front of the codes.
    template <bool kWide>
    BK_HD uint32_t header(float sum) const {
        if constexpr (kWide) return bit_cast<uint32_t>(scale);
        return half_of(scale) | half_of(sum) << 16;
    }

private:
    // The bits of x as f16. NaN has those of one quiet NaN: whatever order of a sum made it, and however a GPU converts it.
    static BK_HD uint32_t half_of(float x) { return x == x ? narrow<f16>(x).bits : 0x7e00u; }
};

template <class T, bool kWide>
Status quantize_rows_q8_1(const Launch& launch, int64_t kx, int64_t ny, const T* src, uint8_t* dst);

template <class T, bool kWide>
struct QuantizeQ81 {
    int64_t kx, ny;

    Status check() const { return require_non_negative({{"kx", kx}, {"ny", ny}}); }
    Work work() const { return all_or_none(ny > 0 ? kx : 0); }
    int64_t row_bytes() const { return ceil_div<int64_t>(kx, kQ81Values) * kQ81Bytes; }
    Status run(const T* src, uint8_t* dst_q8_1, const Launch& launch) const {
        return quantize_rows_q8_1<T, kWide>(launch, kx, ny, src, dst_q8_1);
    }
};

// ny rows of kx values; 0 unless both are positive, and for sizes of 2^63 and more.
inline int64_t q8_1_bytes(int64_t kx, int64_t ny) {
    if (kx <= 0 || ny <= 0) return 0;
    int64_t bytes = 0;
    if (__builtin_mul_overflow(ceil_div<int64_t>(kx, kQ81Values), int64_t{kQ81Bytes}, &bytes)) return 0;
    return __builtin_mul_overflow(bytes, ny, &bytes) ? 0 : bytes;
}

}  // namespace bk

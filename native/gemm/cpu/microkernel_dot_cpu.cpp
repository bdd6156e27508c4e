// SPDX-License-Identifier: Apache-2.0
// GEMM microkernels on AVX-512 dot products (vdpbf16ps, vpdpbusd), which sum adjacent products along k.
#include "gemm/cpu/microkernel_cpu.h"

#include <algorithm>

#if BK_ISA_DISPATCH
#include <immintrin.h>

#include "gemm/cpu/compensated_cpu.h"

namespace bk {

BK_FOR_AVX512 int32_t min_abs_bf16(const void* elements, int64_t pitch, int rows, int64_t count) {
    constexpr int kLanes = 32;
    typedef uint16_t Bits __attribute__((may_alias));
    typedef uint16_t Lanes __attribute__((vector_size(2 * kLanes), aligned(2), may_alias));
    Lanes lanes = ~Lanes{};
    uint16_t min_abs = 0xffff;
    for (int i = 0; i < rows; ++i) {
        const Bits* const bits = reinterpret_cast<const Bits*>(static_cast<const char*>(elements) + i * pitch);
        int64_t x = 0;
        for (; x + kLanes <= count; x += kLanes) {
            const Lanes own = (*reinterpret_cast<const Lanes*>(bits + x) & 0x7fff) - 1;
            lanes = own < lanes ? own : lanes;
        }
        for (; x < count; ++x) min_abs = std::min(min_abs, static_cast<uint16_t>((bits[x] & 0x7fff) - 1));
    }
    for (int lane = 0; lane < kLanes; ++lane) min_abs = std::min<uint16_t>(min_abs, lanes[lane]);
    return min_abs;
}

// Exponent of the smallest nonzero element, given its bits less one: far below any normal one for a subnormal.
static int exponent_of(int32_t min_abs) {
    return min_abs == 0xffff ? 1000 : min_abs < 0x7f ? -100000 : (min_abs + 1) / 128 - 127;
}

bool has_normal_products(int32_t min_abs_a, int32_t min_abs_b) {
    return exponent_of(min_abs_a) + exponent_of(min_abs_b) >= -126 + 2 * 7;
}

namespace {

using Shape = MicrotileShape<64, uint32_t>;
constexpr int kMr = Shape::kMr, kNr = Shape::kNr;

enum class Dot { kBf16, kWidened, kS8, kU8 };

template <Dot kDot>
struct DotSum {
    using Type = float;
    using Vector = __m512;
};
template <>
struct DotSum<Dot::kS8> {
    using Type = int32_t;
    using Vector = __m512i;
};
template <>
struct DotSum<Dot::kU8> : DotSum<Dot::kS8> {};

BK_FOR_AVX512_DOT inline __m512 added(__m512 x, __m512 y) { return _mm512_add_ps(x, y); }
BK_FOR_AVX512_DOT inline __m512i added(__m512i x, __m512i y) { return _mm512_add_epi32(x, y); }

// Sums products of bf16 pairs in f32 by FMA, which keeps subnormals.
BK_FOR_AVX512_DOT inline __m512 add_widened(__m512 sum, __m512i a, __m512i b) {
    typedef uint32_t Bits __attribute__((vector_size(64)));
    const Bits in_a = reinterpret_cast<Bits>(a), in_b = reinterpret_cast<Bits>(b);
    const auto lower_a = reinterpret_cast<__m512>(in_a << 16), lower_b = reinterpret_cast<__m512>(in_b << 16);
    const auto upper_a = reinterpret_cast<__m512>(in_a & 0xffff0000u), upper_b = reinterpret_cast<__m512>(in_b & 0xffff0000u);
    return _mm512_fmadd_ps(upper_a, upper_b, _mm512_fmadd_ps(lower_a, lower_b, sum));
}

template <Dot kDot, class Vector>
BK_FOR_AVX512_DOT inline Vector add_products(Vector sum, __m512i a, __m512i b) {
    if constexpr (kDot == Dot::kBf16)
        return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
    else if constexpr (kDot == Dot::kWidened)
        return add_widened(sum, a, b);
    else if constexpr (kDot == Dot::kS8)
        return _mm512_dpbusd_epi32(sum, a, b);
    else
        return _mm512_dpbusd_epi32(sum, b, a);
}

template <Dot kDot, int kUsed, bool kAIsMMajor>
BK_FOR_AVX512_DOT void multiply_used(int64_t units, const int32_t* a, int64_t pitch, const int32_t* b, const int32_t* footer,
                                     void* sums, bool adds) {
    typedef int32_t Loose __attribute__((aligned(2), may_alias));
    const auto unit = [&](int i, int64_t k) {
        return reinterpret_cast<const Loose*>(reinterpret_cast<const char*>(a) + i * pitch)[k];
    };
    using Sum = typename DotSum<kDot>::Type;
    using Vector = typename DotSum<kDot>::Vector;
    Sum* const to = static_cast<Sum*>(sums);
    if (adds)
#pragma GCC unroll 8
        for (int i = 0; i < kMr; ++i)
            for (int v = 0; v < kUsed; ++v) __builtin_prefetch(to + i * kNr + v * 16, 1);
    Vector sum[kMr][kUsed] = {};
    if constexpr (kDot >= Dot::kS8)
#pragma GCC unroll 8
        for (int i = 0; i < kMr; ++i)
            for (int v = 0; v < kUsed; ++v) sum[i][v] = _mm512_loadu_si512(footer + v * 16);
    for (int64_t k = 0; k < units; ++k) {
        __m512i row[kUsed];
        for (int v = 0; v < kUsed; ++v) row[v] = _mm512_loadu_si512(b + k * kNr + v * 16);
#pragma GCC unroll 8
        for (int i = 0; i < kMr; ++i) {
            const __m512i a_units = _mm512_set1_epi32(kAIsMMajor ? a[k * kMr + i] : unit(i, k));
#pragma GCC unroll 3
            for (int v = 0; v < kUsed; ++v) sum[i][v] = add_products<kDot>(sum[i][v], a_units, row[v]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kMr; ++i)
#pragma GCC unroll 3
        for (int v = 0; v < kUsed; ++v) {
            Sum* const at = to + i * kNr + v * 16;
            if constexpr (kDot < Dot::kS8)
                _mm512_storeu_ps(at, adds ? added(_mm512_loadu_ps(at), sum[i][v]) : sum[i][v]);
            else
                _mm512_storeu_si512(at, adds ? added(_mm512_loadu_si512(at), sum[i][v]) : sum[i][v]);
        }
}

template <Dot kDot, bool kAIsMMajor>
void multiply_width(int64_t units, const int32_t* a, int64_t pitch, const int32_t* b, const int32_t* footer, int64_t width,
                    void* sums, bool adds) {
    if (width > 32) return multiply_used<kDot, 3, kAIsMMajor>(units, a, pitch, b, footer, sums, adds);
    if (width > 16) return multiply_used<kDot, 2, kAIsMMajor>(units, a, pitch, b, footer, sums, adds);
    multiply_used<kDot, 1, kAIsMMajor>(units, a, pitch, b, footer, sums, adds);
}

template <Dot kDot>
void multiply(int64_t units, const void* a, int64_t pitch, bool a_is_m_major, const void* b, const int32_t* footer,
              int64_t width, void* sums, bool adds) {
    const auto* const from_a = static_cast<const int32_t*>(a);
    const auto* const from_b = static_cast<const int32_t*>(b);
    if (a_is_m_major)
        multiply_width<kDot, true>(units, from_a, pitch, from_b, footer, width, sums, adds);
    else
        multiply_width<kDot, false>(units, from_a, pitch, from_b, footer, width, sums, adds);
}

const int32_t* panel_footer(const void* panel, int64_t units) {
    return reinterpret_cast<const int32_t*>(static_cast<const char*>(panel) + panel_footer_offset(units * 4));
}

// Pairs are widened to f32 if the dot product could flush a subnormal.
void multiply_pairs(int64_t units, const void* a, int64_t pitch, bool a_is_m_major, const void* b, int64_t width, void* sums,
                    bool adds) {
    const int32_t min_abs = pitch == 0 ? *panel_footer(a, units * kMr) : min_abs_bf16(a, pitch, kMr, 2 * units);
    if (pitch == 0) pitch = units * 4;
    if (has_normal_products(min_abs, *panel_footer(b, units * kNr)))
        return multiply<Dot::kBf16>(units, a, pitch, a_is_m_major, b, nullptr, width, sums, adds);
    multiply<Dot::kWidened>(units, a, pitch, a_is_m_major, b, nullptr, width, sums, adds);
}

void add_pairs_block(int64_t width, void* totals, void* sums) {
    for (int i = 0; i < kMr; ++i)
        add_compensated(static_cast<float*>(totals) + i * kNr, static_cast<float*>(sums) + i * kNr, width);
}

template <Dot kDot>
void multiply_quads(int64_t units, const void* a, int64_t, bool a_is_m_major, const void* b, int64_t width, void* sums,
                    bool adds) {
    multiply<kDot>(units, a, units * 4, a_is_m_major, b, panel_footer(b, units * kNr), width, sums, adds);
}

}  // namespace

void write_panel_min(uint32_t* panel, int64_t units) {
    panel[panel_footer_offset(units * 4) / 4] = static_cast<uint32_t>(min_abs_bf16(panel, 0, 1, 2 * units));
}

// A is shifted by 128 to be unsigned, or signed if B is unsigned. That adds 128 times the sum of B's column, with
// either sign, to every result; the accumulators start from its negative.
template <Dot kDot>
BK_FOR_AVX512_DOT void write_column_sums(uint32_t* panel, int64_t units) {
    const __m512i a_units = _mm512_set1_epi8(-128);
    int32_t* const footer = reinterpret_cast<int32_t*>(panel) + panel_footer_offset(units * kNr * 4) / 4;
    for (int v = 0; v < Shape::kVectors; ++v) {
        __m512i sum = _mm512_setzero_si512();
        for (int64_t u = 0; u < units; ++u)
            sum = add_products<kDot>(sum, a_units, _mm512_loadu_si512(panel + u * kNr + v * 16));
        _mm512_storeu_si512(footer + v * 16, _mm512_sub_epi32(_mm512_setzero_si512(), sum));
    }
}

void write_column_sums_s8(uint32_t* panel, int64_t units) { write_column_sums<Dot::kS8>(panel, units); }
void write_column_sums_u8(uint32_t* panel, int64_t units) { write_column_sums<Dot::kU8>(panel, units); }

template <>
const Microkernel& microkernel<Packing::kBf16Pairs>() {
    static constexpr Microkernel kKernel{kMr, kNr, 2, 4, sizeof(float), INT64_MAX, multiply_pairs, add_pairs_block};
    return kKernel;
}
template <>
const Microkernel& microkernel<Packing::kS8Quads>() {
    static constexpr Microkernel kKernel{kMr, kNr, 4, 4, sizeof(int32_t), INT64_MAX, multiply_quads<Dot::kS8>, nullptr};
    return kKernel;
}
template <>
const Microkernel& microkernel<Packing::kU8Quads>() {
    static constexpr Microkernel kKernel{kMr, kNr, 4, 4, sizeof(int32_t), INT64_MAX, multiply_quads<Dot::kU8>, nullptr};
    return kKernel;
}

}  // namespace bk
#endif

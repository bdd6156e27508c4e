// SPDX-License-Identifier: Apache-2.0
// Microkernels on decoded codes for each instruction set.
#include "quantize/products/codes_kernel_cpu.h"

#include "core/abi/vector_width_cpu.h"

#if BK_ISA_DISPATCH
#include <immintrin.h>
#endif

namespace bk {

namespace {

#if BK_ISA_DISPATCH
BK_FOR_AVX512 void expand_avx512(const CodesRow& row, bool has_offset, int64_t count, float* values) {
    for (int64_t k = 0; k < count; k += 16) {
        const __m128i codes = _mm_load_si128(reinterpret_cast<const __m128i*>(row.codes + k));
        __m512 value = _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, codes)),
                                     _mm512_set1_ps(row.scales[k / 16]));
        if (has_offset) value = _mm512_add_ps(value, _mm512_set1_ps(row.offsets[k / 16]));
        _mm512_storeu_ps(values + k, value);
    }
}

BK_FOR_AVX2 void expand_avx2(const CodesRow& row, bool has_offset, int64_t count, float* values) {
    for (int64_t k = 0; k < count; k += 8) {
        const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row.codes + k));
        __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)), _mm256_set1_ps(row.scales[k / 16]));
        if (has_offset) value = _mm256_add_ps(value, _mm256_set1_ps(row.offsets[k / 16]));
        _mm256_storeu_ps(values + k, value);
    }
}
#endif

void expand_baseline(const CodesRow& row, bool has_offset, int64_t count, float* values) {
    for (int64_t k = 0; k < count; ++k) values[k] = static_cast<float>(row.codes[k]);
    for (int64_t k = 0; k < count; ++k) values[k] *= row.scales[k / 16];
    if (!has_offset) return;
    for (int64_t k = 0; k < count; ++k) values[k] += row.offsets[k / 16];
}

constexpr bool is_pair(Nibbles order) { return order == Nibbles::kLowFirst || order == Nibbles::kHighFirst; }

void expand_nibbles_baseline(const uint8_t* bytes, Nibbles order, int64_t first, int64_t count, const float (&table)[16],
                             float scale, float* values) {
    const int even = order == Nibbles::kHighFirst || order == Nibbles::kHigh ? 4 : 0, odd = is_pair(order) ? 4 - even : even;
    const int64_t step = is_pair(order) ? 2 : 1;
    for (int64_t i = first; i < count; i += step) {
        const uint8_t byte = bytes[i / step];
        values[i] = table[byte >> even & 15] * scale;
        if (step == 2) values[i + 1] = table[byte >> odd & 15] * scale;
    }
}

#if BK_ISA_DISPATCH
// Sixteen nibbles as bytes, of which the low four bits count.
BK_FOR_AVX2 inline __m128i nibbles16(const uint8_t* bytes, Nibbles order, int64_t first) {
    if (!is_pair(order)) {
        const __m128i loaded = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + first));
        return order == Nibbles::kLow ? loaded : _mm_srli_epi16(loaded, 4);
    }
    const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes + first / 2)), high = _mm_srli_epi16(low, 4);
    return order == Nibbles::kLowFirst ? _mm_unpacklo_epi8(low, high) : _mm_unpacklo_epi8(high, low);
}

BK_FOR_AVX512 int64_t expand_nibbles_avx512(const uint8_t* bytes, Nibbles order, int64_t count, const float (&table)[16],
                                            float scale, float* values) {
    const __m512 entries = _mm512_mul_ps(_mm512_loadu_ps(table), _mm512_set1_ps(scale));
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const __m512i at = _mm512_maskz_cvtepu8_epi32(0xffff, nibbles16(bytes, order, i));
        _mm512_storeu_ps(values + i, _mm512_maskz_permutexvar_ps(0xffff, at, entries));
    }
    return i;
}

BK_FOR_AVX2 int64_t expand_nibbles_avx2(const uint8_t* bytes, Nibbles order, int64_t count, const float (&table)[16],
                                        float scale, float* values) {
    const __m256 low = _mm256_mul_ps(_mm256_loadu_ps(table), _mm256_set1_ps(scale)),
                 high = _mm256_mul_ps(_mm256_loadu_ps(table + 8), _mm256_set1_ps(scale));
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const __m128i codes = nibbles16(bytes, order, i);
        for (int half = 0; half < 2; ++half) {
            const __m256i at = _mm256_cvtepu8_epi32(half == 0 ? codes : _mm_srli_si128(codes, 8));
            const __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(at, 28));
            _mm256_storeu_ps(values + i + 8 * half,
                             _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, at), _mm256_permutevar8x32_ps(high, at), is_high));
        }
    }
    return i;
}

// 128 + code is unsigned, as vpdpbusd wants one operand; x.quads takes 128 times the other off again.
BK_FOR_AVX512_DOT void dot_vnni(const CodesRow& w, const float* factors, const QuantizedRow& x, int64_t count,
                                float (&lanes)[kDotLanes]) {
    const __m512i sign = _mm512_set1_epi8(-128);
    __m512 sum = _mm512_loadu_ps(lanes);
    const __m512 scales = _mm512_mul_ps(_mm512_loadu_ps(w.scales), _mm512_loadu_ps(x.scales));
    for (int64_t k = 0; k < count; k += 64) {
        const __m512i codes = _mm512_xor_si512(_mm512_load_si512(w.codes + k), sign);
        const __m512i dots = _mm512_dpbusd_epi32(_mm512_load_si512(x.quads + k / 4), codes, _mm512_load_si512(x.codes + k));
        const int first = static_cast<int>(k / 16);
        const __m512i groups =
            _mm512_add_epi32(_mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0), _mm512_set1_epi32(first));
        const __m512 own = _mm512_maskz_permutexvar_ps(0xffff, groups, scales);
        sum = _mm512_fmadd_ps(own, _mm512_maskz_cvtepi32_ps(0xffff, dots), sum);
    }
    if (factors != nullptr) sum = _mm512_fmadd_ps(_mm512_loadu_ps(factors), _mm512_loadu_ps(x.sums), sum);
    _mm512_storeu_ps(lanes, sum);
}

BK_FOR_AVX2 void dot_avx2(const CodesRow& w, const float* factors, const QuantizedRow& x, int64_t count,
                          float (&lanes)[kDotLanes]) {
    __m256 sum = _mm256_loadu_ps(lanes);
    for (int64_t k = 0; k < count; k += 16) {
        const __m256i a = _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(w.codes + k)));
        const __m256i b = _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(x.codes + k)));
        const __m256 scale = _mm256_set1_ps(w.scales[k / 16] * x.scales[k / 16]);
        sum = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(_mm256_madd_epi16(a, b)), sum);
    }
    if (factors != nullptr)
        for (int half = 0; half < 16; half += 8)
            sum = _mm256_fmadd_ps(_mm256_loadu_ps(factors + half), _mm256_loadu_ps(x.sums + half), sum);
    _mm256_storeu_ps(lanes, sum);
}
#endif

void dot_baseline(const CodesRow& w, const float* factors, const QuantizedRow& x, int64_t count, float (&lanes)[kDotLanes]) {
    for (int64_t group = 0; group < count / 16; ++group) {
        int32_t dot = 0;
        for (int64_t k = 16 * group; k < 16 * group + 16; ++k) dot += int32_t{w.codes[k]} * x.codes[k];
        lanes[group] += w.scales[group] * x.scales[group] * static_cast<float>(dot);
        if (factors != nullptr) lanes[group] += factors[group] * x.sums[group];
    }
}

}  // namespace

void dot_codes(const CodesRow& w, const float* factors, const QuantizedRow& x, int64_t count, float (&lanes)[kDotLanes]) {
#if BK_ISA_DISPATCH
    if (has_dot_products()) return dot_vnni(w, factors, x, count, lanes);
    if (isa() >= Isa::kAvx2) return dot_avx2(w, factors, x, count, lanes);
#endif
    dot_baseline(w, factors, x, count, lanes);
}

void expand_nibbles(const uint8_t* bytes, Nibbles order, int64_t count, const float (&table)[16], float scale, float* values) {
    int64_t first = 0;
#if BK_ISA_DISPATCH
    if (isa() == Isa::kAvx512)
        first = expand_nibbles_avx512(bytes, order, count, table, scale, values);
    else if (isa() == Isa::kAvx2)
        first = expand_nibbles_avx2(bytes, order, count, table, scale, values);
#endif
    expand_nibbles_baseline(bytes, order, first, count, table, scale, values);
}

void expand_codes(const CodesRow& row, bool has_offset, int64_t count, float* values) {
#if BK_ISA_DISPATCH
    if (isa() == Isa::kAvx512) return expand_avx512(row, has_offset, count, values);
    if (isa() == Isa::kAvx2) return expand_avx2(row, has_offset, count, values);
#endif
    expand_baseline(row, has_offset, count, values);
}

}  // namespace bk

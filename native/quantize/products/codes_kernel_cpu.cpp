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

}  // namespace

void expand_codes(const CodesRow& row, bool has_offset, int64_t count, float* values) {
#if BK_ISA_DISPATCH
    if (isa() == Isa::kAvx512) return expand_avx512(row, has_offset, count, values);
    if (isa() == Isa::kAvx2) return expand_avx2(row, has_offset, count, values);
#endif
    expand_baseline(row, has_offset, count, values);
}

}  // namespace bk

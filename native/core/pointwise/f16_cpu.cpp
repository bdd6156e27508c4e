// SPDX-License-Identifier: Apache-2.0
// Converts spans between f16 and f32, with F16C if the CPU has it.
#include "core/pointwise/pointwise.h"

#if BK_ISA_DISPATCH
#include <immintrin.h>
#endif

namespace bk {

#if BK_ISA_DISPATCH
namespace {

constexpr int kLanes = 8;

__attribute__((target("avx,f16c"))) void widen_f16c(float* to, const f16* from, int64_t count) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
    for (; i < count; ++i) to[i] = _cvtsh_ss(from[i].bits);
}

__attribute__((target("avx,f16c"))) void narrow_f16c(f16* to, const float* from, int64_t count) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < count; ++i) to[i].bits = static_cast<uint16_t>(_cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT));
}

}  // namespace
#endif

void widen_span(float* to, const f16* from, int64_t count) {
#if BK_ISA_DISPATCH
    if (isa() != Isa::kBase) return widen_f16c(to, from, count);
#endif
    for (int64_t i = 0; i < count; ++i) to[i] = widen(from[i]);
}

void narrow_span(f16* to, const float* from, int64_t count) {
#if BK_ISA_DISPATCH
    if (isa() != Isa::kBase) return narrow_f16c(to, from, count);
#endif
    for (int64_t i = 0; i < count; ++i) to[i] = narrow<f16>(from[i]);
}

}  // namespace bk

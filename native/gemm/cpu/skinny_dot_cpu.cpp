// SPDX-License-Identifier: Apache-2.0
// Dot products of bf16 rows, both operands unconverted, by AVX-512 vdpbf16ps.
#include "gemm/cpu/microkernel_cpu.h"
#include "gemm/cpu/skinny_kernel_cpu.h"

#if BK_ISA_DISPATCH
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#endif

namespace bk {

#if BK_ISA_DISPATCH
namespace {

constexpr int64_t kAhead = 512;  // prefetch distance in elements

// Adds the dot products; returns the smallest nonzero |x| of the rows, as min_abs_bf16() encodes it.
template <int kCount, int kAtOnce>
BK_FOR_AVX512_DOT int32_t dot_bf16_of(const uint16_t* const* rows, const uint16_t* const (&skinny_rows)[kSkinny], int64_t count,
                                      float (*lane_sums)[kSkinny][kSkinnyLanes]) {
    __m512 sum[kAtOnce][kCount];
    for (int l = 0; l < kAtOnce; ++l)
        for (int i = 0; i < kCount; ++i) sum[l][i] = _mm512_load_ps(lane_sums[l][i]);
    const __m512i magnitude = _mm512_set1_epi16(0x7fff);
    __m512i min_abs = _mm512_set1_epi16(-1);
    for (int64_t k = 0; k < count; k += kPairBlock) {
        __m512i row[kAtOnce];
        for (int l = 0; l < kAtOnce; ++l) {
            row[l] = _mm512_loadu_si512(rows[l] + k);
            __builtin_prefetch(rows[l] + k + kAhead);
            const __m512i below = _mm512_add_epi16(_mm512_and_si512(row[l], magnitude), _mm512_set1_epi16(-1));
            min_abs = _mm512_min_epu16(min_abs, below);
        }
        for (int i = 0; i < kCount; ++i) {
            const auto skinny_values = reinterpret_cast<__m512bh>(_mm512_loadu_si512(skinny_rows[i] + k));
            for (int l = 0; l < kAtOnce; ++l)
                sum[l][i] = _mm512_dpbf16_ps(sum[l][i], skinny_values, reinterpret_cast<__m512bh>(row[l]));
        }
    }
    for (int l = 0; l < kAtOnce; ++l)
        for (int i = 0; i < kCount; ++i) _mm512_store_ps(lane_sums[l][i], sum[l][i]);
    alignas(64) uint16_t lanes[kPairBlock];
    _mm512_store_si512(lanes, min_abs);
    uint16_t result = lanes[0];
    for (const uint16_t lane : lanes) result = std::min(result, lane);
    return result;
}

template <int kCount, int kAtOnce>
int32_t dot_bf16_all(const uint16_t* const (&rows)[kSkinny], const uint16_t* const (&skinny_rows)[kSkinny], int64_t count,
                     SkinnyLaneSums<float>& lane_sums) {
    int32_t min_abs = 0xffff;
    for (int l = 0; l < kSkinny; l += kAtOnce)
        min_abs = std::min(min_abs, dot_bf16_of<kCount, kAtOnce>(rows + l, skinny_rows, count, lane_sums.at + l));
    return min_abs;
}

}  // namespace

int32_t min_abs_skinny(const void* small, int64_t pitch, int skinny, int64_t count) {
    return has_dot_products() ? min_abs_bf16(small, pitch, skinny, count) : 0;
}

bool dot_bf16_avx512(int skinny, const uint16_t* const (&rows)[kSkinny], const uint16_t* const (&skinny_rows)[kSkinny],
                     int32_t min_abs, int64_t count, SkinnyLaneSums<float>& lane_sums) {
    const int slots = skinny == 1 ? 1 : skinny <= 4 ? 4 : kSkinny;
    alignas(64) float before[kSkinny][kSkinny][kSkinnyLanes];
    const auto copy = [slots](const auto& from, auto& to) {
        for (int l = 0; l < kSkinny; ++l)
            for (int i = 0; i < slots; ++i) std::memcpy(to[l][i], from[l][i], sizeof(to[l][i]));
    };
    copy(lane_sums.at, before);
    const int32_t min_abs_of_rows = skinny == 1   ? dot_bf16_all<1, 8>(rows, skinny_rows, count, lane_sums)
                                    : skinny <= 4 ? dot_bf16_all<4, 4>(rows, skinny_rows, count, lane_sums)
                                                  : dot_bf16_all<8, 2>(rows, skinny_rows, count, lane_sums);
    if (has_normal_products(min_abs, min_abs_of_rows)) return true;
    copy(before, lane_sums.at);
    return false;
}
#else
int32_t min_abs_skinny(const void*, int64_t, int, int64_t) { return 0; }
bool dot_bf16_avx512(int, const uint16_t* const (&)[kSkinny], const uint16_t* const (&)[kSkinny], int32_t, int64_t,
                     SkinnyLaneSums<float>&) {
    return false;
}
#endif

}  // namespace bk

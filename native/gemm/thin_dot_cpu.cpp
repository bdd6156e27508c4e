// Dot products of bf16 rows, both operands unconverted, by AVX-512 vdpbf16ps.
#include "gemm/block_kernel_cpu.h"
#include "gemm/thin_kernel_cpu.h"

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
BK_FOR_AVX512_DOT int32_t add_dots_of(const uint16_t* const* lines, const uint16_t* const (&thin_lines)[kThin], int64_t count,
                                      float (*parts)[kThin][kThinLanes]) {
    __m512 sum[kAtOnce][kCount];
    for (int l = 0; l < kAtOnce; ++l)
        for (int i = 0; i < kCount; ++i) sum[l][i] = _mm512_load_ps(parts[l][i]);
    const __m512i magnitude = _mm512_set1_epi16(0x7fff);
    __m512i least = _mm512_set1_epi16(-1);
    for (int64_t k = 0; k < count; k += kPairBlock) {
        __m512i line[kAtOnce];
        for (int l = 0; l < kAtOnce; ++l) {
            line[l] = _mm512_loadu_si512(lines[l] + k);
            __builtin_prefetch(lines[l] + k + kAhead);
            const __m512i below = _mm512_add_epi16(_mm512_and_si512(line[l], magnitude), _mm512_set1_epi16(-1));
            least = _mm512_min_epu16(least, below);
        }
        for (int i = 0; i < kCount; ++i) {
            const auto factor = reinterpret_cast<__m512bh>(_mm512_loadu_si512(thin_lines[i] + k));
            for (int l = 0; l < kAtOnce; ++l)
                sum[l][i] = _mm512_dpbf16_ps(sum[l][i], factor, reinterpret_cast<__m512bh>(line[l]));
        }
    }
    for (int l = 0; l < kAtOnce; ++l)
        for (int i = 0; i < kCount; ++i) _mm512_store_ps(parts[l][i], sum[l][i]);
    alignas(64) uint16_t lanes[kPairBlock];
    _mm512_store_si512(lanes, least);
    uint16_t result = lanes[0];
    for (const uint16_t lane : lanes) result = std::min(result, lane);
    return result;
}

template <int kCount, int kAtOnce>
int32_t add_all_dots(const uint16_t* const (&lines)[kThin], const uint16_t* const (&thin_lines)[kThin], int64_t count,
                     ThinParts<float>& parts) {
    int32_t least = 0xffff;
    for (int l = 0; l < kThin; l += kAtOnce)
        least = std::min(least, add_dots_of<kCount, kAtOnce>(lines + l, thin_lines, count, parts.at + l));
    return least;
}

}  // namespace

int32_t least_thin(const void* few, int64_t line, int thin, int64_t count) {
    return has_dot_products() ? least_of_bf16(few, line, thin, count) : 0;
}

bool add_dots(int thin, const uint16_t* const (&lines)[kThin], const uint16_t* const (&thin_lines)[kThin], int32_t least,
              int64_t count, ThinParts<float>& parts) {
    const int slots = thin == 1 ? 1 : thin <= 4 ? 4 : kThin;
    alignas(64) float before[kThin][kThin][kThinLanes];
    const auto copy = [slots](const auto& from, auto& to) {
        for (int l = 0; l < kThin; ++l)
            for (int i = 0; i < slots; ++i) std::memcpy(to[l][i], from[l][i], sizeof(to[l][i]));
    };
    copy(parts.at, before);
    const int32_t least_of_lines = thin == 1   ? add_all_dots<1, 8>(lines, thin_lines, count, parts)
                                   : thin <= 4 ? add_all_dots<4, 4>(lines, thin_lines, count, parts)
                                               : add_all_dots<8, 2>(lines, thin_lines, count, parts);
    if (has_normal_products(least, least_of_lines)) return true;
    copy(before, parts.at);
    return false;
}
#else
int32_t least_thin(const void*, int64_t, int, int64_t) { return 0; }
bool add_dots(int, const uint16_t* const (&)[kThin], const uint16_t* const (&)[kThin], int32_t, int64_t, ThinParts<float>&) {
    return false;
}
#endif

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Microkernels of skinny GEMM: axpy across rows and dot products along k.
#include "gemm/cpu/skinny_kernel_cpu.h"

#include "core/abi/vector_width_cpu.h"

namespace bk {

namespace {

template <class S, int kBytes>
struct Register {
    static constexpr int kLanes = kBytes / static_cast<int>(sizeof(S));
    typedef S Vector __attribute__((vector_size(kBytes), aligned(sizeof(S)), may_alias));
};

template <class S, int kBytes, int kCount>
BK_HD void axpy_rows_of(const S* const (&rows)[kSkinny], const S (&factors)[kSkinny][kSkinny], S* sums, int64_t pitch,
                        int64_t count) {
    BK_FUSE_PRODUCTS
    using Vector = typename Register<S, kBytes>::Vector;
    constexpr int kLanes = Register<S, kBytes>::kLanes;
    int64_t j = 0;
    for (; j + kLanes <= count; j += kLanes) {
        Vector sum[kCount];
        for (int i = 0; i < kCount; ++i) sum[i] = *reinterpret_cast<const Vector*>(sums + i * pitch + j);
        for (int r = 0; r < kSkinny; ++r) {
            const Vector row = *reinterpret_cast<const Vector*>(rows[r] + j);
            for (int i = 0; i < kCount; ++i) sum[i] += factors[r][i] * row;
        }
        for (int i = 0; i < kCount; ++i) *reinterpret_cast<Vector*>(sums + i * pitch + j) = sum[i];
    }
    for (; j < count; ++j)
        for (int i = 0; i < kCount; ++i) {
            S sum = sums[i * pitch + j];
            for (int r = 0; r < kSkinny; ++r) sum += factors[r][i] * rows[r][j];
            sums[i * pitch + j] = sum;
        }
}

template <class S, int kBytes>
__attribute__((noinline)) void axpy_rows_with(int skinny, const S* const (&rows)[kSkinny], const S (&factors)[kSkinny][kSkinny],
                                              S* sums, int64_t pitch, int64_t count) {
    run_fused<kBytes>([&] {
        if (skinny == 1) return axpy_rows_of<S, kBytes, 1>(rows, factors, sums, pitch, count);
        if (skinny <= 4) return axpy_rows_of<S, kBytes, 4>(rows, factors, sums, pitch, count);
        axpy_rows_of<S, kBytes, 8>(rows, factors, sums, pitch, count);
    });
}

// The two bf16 of a word become f32 with one instruction each; lower ones are summed first, then upper ones.
template <int kBytes, int kCount>
BK_HD void axpy_bf16_rows_of(const uint16_t* const (&rows)[kSkinny], const float (&factors)[kSkinny][kSkinny], float* sums,
                             int64_t pitch, int64_t count) {
    BK_FUSE_PRODUCTS
    using Vector = typename Register<float, kBytes>::Vector;
    typedef uint32_t Bits __attribute__((vector_size(kBytes), aligned(2), may_alias));
    constexpr int kLanes = Register<float, kBytes>::kLanes;
    for (int64_t j = 0; j < count; j += kPairBlock)
        for (int upper = 0; upper < 2; ++upper)
            for (int at = 0; at < kSkinnyLanes; at += kLanes) {
                float* const to = sums + j + upper * kSkinnyLanes + at;
                Vector sum[kCount];
                for (int i = 0; i < kCount; ++i) sum[i] = *reinterpret_cast<const Vector*>(to + i * pitch);
                for (int r = 0; r < kSkinny; ++r) {
                    const Bits bits = *reinterpret_cast<const Bits*>(rows[r] + j + 2 * at);
                    const Vector row = reinterpret_cast<Vector>(upper ? bits & 0xffff0000u : bits << 16);
                    for (int i = 0; i < kCount; ++i) sum[i] += factors[r][i] * row;
                }
                for (int i = 0; i < kCount; ++i) *reinterpret_cast<Vector*>(to + i * pitch) = sum[i];
            }
}

template <class S, int kBytes>
__attribute__((noinline)) void axpy_bf16_rows_with(int skinny, const uint16_t* const (&rows)[kSkinny],
                                                   const S (&factors)[kSkinny][kSkinny], S* sums, int64_t pitch,
                                                   int64_t count) {
    run_fused<kBytes>([&] {
        if (skinny == 1) return axpy_bf16_rows_of<kBytes, 1>(rows, factors, sums, pitch, count);
        if (skinny <= 4) return axpy_bf16_rows_of<kBytes, 4>(rows, factors, sums, pitch, count);
        axpy_bf16_rows_of<kBytes, 8>(rows, factors, sums, pitch, count);
    });
}

// `kAtOnce` rows times all skinny ones fill the registers.
template <class S, int kBytes, int kCount, int kAtOnce>
BK_HD void dot_rows_of(const S* const (&rows)[kSkinny], const S* const (&skinny_rows)[kSkinny], int64_t count,
                       SkinnyLaneSums<S>& lane_sums) {
    BK_FUSE_PRODUCTS
    using Vector = typename Register<S, kBytes>::Vector;
    constexpr int kLanes = Register<S, kBytes>::kLanes;
    constexpr int kSpread = kSkinnyLanes / kLanes < 2 ? kSkinnyLanes / kLanes : kCount == 1 ? 2 : 1;  // independent chains
    for (int first = 0; first < kSkinny; first += kAtOnce) {
        Vector sum[kSpread][kAtOnce][kCount];
        const auto at = [&](int s, int l, int i) { return reinterpret_cast<Vector*>(&lane_sums.at[first + l][i][s * kLanes]); };
        for (int s = 0; s < kSpread; ++s)
            for (int l = 0; l < kAtOnce; ++l)
                for (int i = 0; i < kCount; ++i) sum[s][l][i] = *at(s, l, i);
        for (int64_t k = 0; k < count; k += kSpread * kLanes)
            for (int s = 0; s < kSpread; ++s) {
                Vector skinny_values[kCount];
                for (int i = 0; i < kCount; ++i)
                    skinny_values[i] = *reinterpret_cast<const Vector*>(skinny_rows[i] + k + s * kLanes);
                for (int l = 0; l < kAtOnce; ++l) {
                    const Vector row = *reinterpret_cast<const Vector*>(rows[first + l] + k + s * kLanes);
                    for (int i = 0; i < kCount; ++i) sum[s][l][i] += row * skinny_values[i];
                }
            }
        for (int s = 0; s < kSpread; ++s)
            for (int l = 0; l < kAtOnce; ++l)
                for (int i = 0; i < kCount; ++i) *at(s, l, i) = sum[s][l][i];
    }
}

template <class S, int kBytes>
__attribute__((noinline)) void dot_rows_with(int skinny, const S* const (&rows)[kSkinny],
                                             const S* const (&skinny_rows)[kSkinny], int64_t count,
                                             SkinnyLaneSums<S>& lane_sums) {
    constexpr bool kIsWide = kBytes == 64;
    run_fused<kBytes>([&] {
        if (skinny == 1) return dot_rows_of<S, kBytes, 1, kIsWide ? 8 : 4>(rows, skinny_rows, count, lane_sums);
        if (skinny <= 4) return dot_rows_of<S, kBytes, 4, kIsWide ? 4 : 2>(rows, skinny_rows, count, lane_sums);
        dot_rows_of<S, kBytes, 8, kIsWide ? 2 : 1>(rows, skinny_rows, count, lane_sums);
    });
}

template <int kBytes, int kCount, int kAtOnce>
BK_HD void dot_bf16_rows_of(const uint16_t* const (&rows)[kSkinny], const float* const (&skinny_rows)[kSkinny], int64_t count,
                            SkinnyLaneSums<float>& lane_sums) {
    BK_FUSE_PRODUCTS
    using Vector = typename Register<float, kBytes>::Vector;
    typedef uint32_t Bits __attribute__((vector_size(kBytes), aligned(2), may_alias));
    constexpr int kLanes = Register<float, kBytes>::kLanes;
    const int64_t pairs = count / 2;
    for (int first = 0; first < kSkinny; first += kAtOnce) {
        Vector sum[kAtOnce][kCount];
        const auto at = [&](int l, int i) { return reinterpret_cast<Vector*>(lane_sums.at[first + l][i]); };
        for (int l = 0; l < kAtOnce; ++l)
            for (int i = 0; i < kCount; ++i) sum[l][i] = *at(l, i);
        for (int64_t k = 0; k < pairs; k += kLanes) {
            Vector even[kCount], odd[kCount];
            for (int i = 0; i < kCount; ++i) {
                even[i] = *reinterpret_cast<const Vector*>(skinny_rows[i] + k);
                odd[i] = *reinterpret_cast<const Vector*>(skinny_rows[i] + pairs + k);
            }
            for (int l = 0; l < kAtOnce; ++l) {
                const Bits bits = *reinterpret_cast<const Bits*>(rows[first + l] + 2 * k);
                const Vector low = reinterpret_cast<Vector>(bits << 16), high = reinterpret_cast<Vector>(bits & 0xffff0000u);
                for (int i = 0; i < kCount; ++i) sum[l][i] += low * even[i];
                for (int i = 0; i < kCount; ++i) sum[l][i] += high * odd[i];
            }
        }
        for (int l = 0; l < kAtOnce; ++l)
            for (int i = 0; i < kCount; ++i) *at(l, i) = sum[l][i];
    }
}

template <class S, int kBytes>
__attribute__((noinline)) void dot_bf16_rows_with(int skinny, const uint16_t* const (&rows)[kSkinny],
                                                  const S* const (&skinny_rows)[kSkinny], int64_t count,
                                                  SkinnyLaneSums<S>& lane_sums) {
    constexpr bool kIsWide = kBytes == 64;
    run_fused<kBytes>([&] {
        if (skinny == 1) return dot_bf16_rows_of<kBytes, 1, kIsWide ? 8 : 4>(rows, skinny_rows, count, lane_sums);
        if (skinny <= 4) return dot_bf16_rows_of<kBytes, 4, kIsWide ? 4 : 2>(rows, skinny_rows, count, lane_sums);
        dot_bf16_rows_of<kBytes, 8, kIsWide ? 2 : 1>(rows, skinny_rows, count, lane_sums);
    });
}

}  // namespace

#if BK_ISA_DISPATCH
#define BK_BY_WIDTH(S, function, ...)                              \
    if (vector_bytes() == 64) return function<S, 64>(__VA_ARGS__); \
    if (vector_bytes() == 32) return function<S, 32>(__VA_ARGS__); \
    function<S, 16>(__VA_ARGS__)
#else
#define BK_BY_WIDTH(S, function, ...) function<S, 16>(__VA_ARGS__)
#endif

void axpy_rows(int skinny, const float* const (&rows)[kSkinny], const float (&factors)[kSkinny][kSkinny], float* sums,
               int64_t pitch, int64_t count) {
    BK_BY_WIDTH(float, axpy_rows_with, skinny, rows, factors, sums, pitch, count);
}
void axpy_rows(int skinny, const double* const (&rows)[kSkinny], const double (&factors)[kSkinny][kSkinny], double* sums,
               int64_t pitch, int64_t count) {
    BK_BY_WIDTH(double, axpy_rows_with, skinny, rows, factors, sums, pitch, count);
}
void axpy_rows(int skinny, const uint16_t* const (&rows)[kSkinny], const float (&factors)[kSkinny][kSkinny], float* sums,
               int64_t pitch, int64_t count) {
    BK_BY_WIDTH(float, axpy_bf16_rows_with, skinny, rows, factors, sums, pitch, count);
}
void dot_rows(int skinny, const float* const (&rows)[kSkinny], const float* const (&skinny_rows)[kSkinny], int64_t count,
              SkinnyLaneSums<float>& lane_sums) {
    BK_BY_WIDTH(float, dot_rows_with, skinny, rows, skinny_rows, count, lane_sums);
}
void dot_bf16_rows(int skinny, const uint16_t* const (&rows)[kSkinny], const float* const (&skinny_rows)[kSkinny],
                   int64_t count, SkinnyLaneSums<float>& lane_sums) {
    BK_BY_WIDTH(float, dot_bf16_rows_with, skinny, rows, skinny_rows, count, lane_sums);
}
void dot_rows(int skinny, const double* const (&rows)[kSkinny], const double* const (&skinny_rows)[kSkinny], int64_t count,
              SkinnyLaneSums<double>& lane_sums) {
    BK_BY_WIDTH(double, dot_rows_with, skinny, rows, skinny_rows, count, lane_sums);
}

}  // namespace bk

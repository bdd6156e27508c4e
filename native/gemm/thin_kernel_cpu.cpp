// Microkernels of skinny GEMM: axpy across rows and dot products along k.
#include "gemm/thin_kernel_cpu.h"

#include "core/abi/vector_width_cpu.h"

namespace bk {

namespace {

template <class S, int kBytes>
struct Register {
    static constexpr int kLanes = kBytes / static_cast<int>(sizeof(S));
    typedef S Vector __attribute__((vector_size(kBytes), aligned(sizeof(S)), may_alias));
};

template <class S, int kBytes, int kCount>
BK_HD void add_rows_of(const S* const (&rows)[kThin], const S (&factors)[kThin][kThin], S* sums, int64_t pitch, int64_t count) {
    BK_FUSE_PRODUCTS
    using Vector = typename Register<S, kBytes>::Vector;
    constexpr int kLanes = Register<S, kBytes>::kLanes;
    int64_t j = 0;
    for (; j + kLanes <= count; j += kLanes) {
        Vector sum[kCount];
        for (int i = 0; i < kCount; ++i) sum[i] = *reinterpret_cast<const Vector*>(sums + i * pitch + j);
        for (int r = 0; r < kThin; ++r) {
            const Vector row = *reinterpret_cast<const Vector*>(rows[r] + j);
            for (int i = 0; i < kCount; ++i) sum[i] += factors[r][i] * row;
        }
        for (int i = 0; i < kCount; ++i) *reinterpret_cast<Vector*>(sums + i * pitch + j) = sum[i];
    }
    for (; j < count; ++j)
        for (int i = 0; i < kCount; ++i) {
            S sum = sums[i * pitch + j];
            for (int r = 0; r < kThin; ++r) sum += factors[r][i] * rows[r][j];
            sums[i * pitch + j] = sum;
        }
}

template <class S, int kBytes>
__attribute__((noinline)) void add_rows_with(int thin, const S* const (&rows)[kThin], const S (&factors)[kThin][kThin], S* sums,
                                             int64_t pitch, int64_t count) {
    run_fused<kBytes>([&] {
        if (thin == 1) return add_rows_of<S, kBytes, 1>(rows, factors, sums, pitch, count);
        if (thin <= 4) return add_rows_of<S, kBytes, 4>(rows, factors, sums, pitch, count);
        add_rows_of<S, kBytes, 8>(rows, factors, sums, pitch, count);
    });
}

// The two bf16 of a word become f32 with one instruction each; lower ones are summed first, then upper ones.
template <int kBytes, int kCount>
BK_HD void add_pair_rows_of(const uint16_t* const (&rows)[kThin], const float (&factors)[kThin][kThin], float* sums,
                            int64_t pitch, int64_t count) {
    BK_FUSE_PRODUCTS
    using Vector = typename Register<float, kBytes>::Vector;
    typedef uint32_t Bits __attribute__((vector_size(kBytes), aligned(2), may_alias));
    constexpr int kLanes = Register<float, kBytes>::kLanes;
    for (int64_t j = 0; j < count; j += kPairBlock)
        for (int upper = 0; upper < 2; ++upper)
            for (int at = 0; at < kThinLanes; at += kLanes) {
                float* const to = sums + j + upper * kThinLanes + at;
                Vector sum[kCount];
                for (int i = 0; i < kCount; ++i) sum[i] = *reinterpret_cast<const Vector*>(to + i * pitch);
                for (int r = 0; r < kThin; ++r) {
                    const Bits bits = *reinterpret_cast<const Bits*>(rows[r] + j + 2 * at);
                    const Vector row = reinterpret_cast<Vector>(upper ? bits & 0xffff0000u : bits << 16);
                    for (int i = 0; i < kCount; ++i) sum[i] += factors[r][i] * row;
                }
                for (int i = 0; i < kCount; ++i) *reinterpret_cast<Vector*>(to + i * pitch) = sum[i];
            }
}

template <class S, int kBytes>
__attribute__((noinline)) void add_pair_rows_with(int thin, const uint16_t* const (&rows)[kThin],
                                                  const S (&factors)[kThin][kThin], S* sums, int64_t pitch, int64_t count) {
    run_fused<kBytes>([&] {
        if (thin == 1) return add_pair_rows_of<kBytes, 1>(rows, factors, sums, pitch, count);
        if (thin <= 4) return add_pair_rows_of<kBytes, 4>(rows, factors, sums, pitch, count);
        add_pair_rows_of<kBytes, 8>(rows, factors, sums, pitch, count);
    });
}

// `kAtOnce` rows times all skinny ones fill the registers.
template <class S, int kBytes, int kCount, int kAtOnce>
BK_HD void add_lines_of(const S* const (&lines)[kThin], const S* const (&thin_lines)[kThin], int64_t count,
                        ThinParts<S>& parts) {
    BK_FUSE_PRODUCTS
    using Vector = typename Register<S, kBytes>::Vector;
    constexpr int kLanes = Register<S, kBytes>::kLanes;
    constexpr int kSpread = kThinLanes / kLanes < 2 ? kThinLanes / kLanes : kCount == 1 ? 2 : 1;  // independent chains
    for (int first = 0; first < kThin; first += kAtOnce) {
        Vector sum[kSpread][kAtOnce][kCount];
        const auto at = [&](int s, int l, int i) { return reinterpret_cast<Vector*>(&parts.at[first + l][i][s * kLanes]); };
        for (int s = 0; s < kSpread; ++s)
            for (int l = 0; l < kAtOnce; ++l)
                for (int i = 0; i < kCount; ++i) sum[s][l][i] = *at(s, l, i);
        for (int64_t k = 0; k < count; k += kSpread * kLanes)
            for (int s = 0; s < kSpread; ++s) {
                Vector factor[kCount];
                for (int i = 0; i < kCount; ++i) factor[i] = *reinterpret_cast<const Vector*>(thin_lines[i] + k + s * kLanes);
                for (int l = 0; l < kAtOnce; ++l) {
                    const Vector line = *reinterpret_cast<const Vector*>(lines[first + l] + k + s * kLanes);
                    for (int i = 0; i < kCount; ++i) sum[s][l][i] += line * factor[i];
                }
            }
        for (int s = 0; s < kSpread; ++s)
            for (int l = 0; l < kAtOnce; ++l)
                for (int i = 0; i < kCount; ++i) *at(s, l, i) = sum[s][l][i];
    }
}

template <class S, int kBytes>
__attribute__((noinline)) void add_lines_with(int thin, const S* const (&lines)[kThin], const S* const (&thin_lines)[kThin],
                                              int64_t count, ThinParts<S>& parts) {
    constexpr bool kIsWide = kBytes == 64;
    run_fused<kBytes>([&] {
        if (thin == 1) return add_lines_of<S, kBytes, 1, kIsWide ? 8 : 4>(lines, thin_lines, count, parts);
        if (thin <= 4) return add_lines_of<S, kBytes, 4, kIsWide ? 4 : 2>(lines, thin_lines, count, parts);
        add_lines_of<S, kBytes, 8, kIsWide ? 2 : 1>(lines, thin_lines, count, parts);
    });
}

template <int kBytes, int kCount, int kAtOnce>
BK_HD void add_pairs_of(const uint16_t* const (&lines)[kThin], const float* const (&thin_lines)[kThin], int64_t count,
                        ThinParts<float>& parts) {
    BK_FUSE_PRODUCTS
    using Vector = typename Register<float, kBytes>::Vector;
    typedef uint32_t Bits __attribute__((vector_size(kBytes), aligned(2), may_alias));
    constexpr int kLanes = Register<float, kBytes>::kLanes;
    const int64_t pairs = count / 2;
    for (int first = 0; first < kThin; first += kAtOnce) {
        Vector sum[kAtOnce][kCount];
        const auto at = [&](int l, int i) { return reinterpret_cast<Vector*>(parts.at[first + l][i]); };
        for (int l = 0; l < kAtOnce; ++l)
            for (int i = 0; i < kCount; ++i) sum[l][i] = *at(l, i);
        for (int64_t k = 0; k < pairs; k += kLanes) {
            Vector even[kCount], odd[kCount];
            for (int i = 0; i < kCount; ++i) {
                even[i] = *reinterpret_cast<const Vector*>(thin_lines[i] + k);
                odd[i] = *reinterpret_cast<const Vector*>(thin_lines[i] + pairs + k);
            }
            for (int l = 0; l < kAtOnce; ++l) {
                const Bits bits = *reinterpret_cast<const Bits*>(lines[first + l] + 2 * k);
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
__attribute__((noinline)) void add_pairs_with(int thin, const uint16_t* const (&lines)[kThin],
                                              const S* const (&thin_lines)[kThin], int64_t count, ThinParts<S>& parts) {
    constexpr bool kIsWide = kBytes == 64;
    run_fused<kBytes>([&] {
        if (thin == 1) return add_pairs_of<kBytes, 1, kIsWide ? 8 : 4>(lines, thin_lines, count, parts);
        if (thin <= 4) return add_pairs_of<kBytes, 4, kIsWide ? 4 : 2>(lines, thin_lines, count, parts);
        add_pairs_of<kBytes, 8, kIsWide ? 2 : 1>(lines, thin_lines, count, parts);
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

void add_rows(int thin, const float* const (&rows)[kThin], const float (&factors)[kThin][kThin], float* sums, int64_t pitch,
              int64_t count) {
    BK_BY_WIDTH(float, add_rows_with, thin, rows, factors, sums, pitch, count);
}
void add_rows(int thin, const double* const (&rows)[kThin], const double (&factors)[kThin][kThin], double* sums, int64_t pitch,
              int64_t count) {
    BK_BY_WIDTH(double, add_rows_with, thin, rows, factors, sums, pitch, count);
}
void add_rows(int thin, const uint16_t* const (&rows)[kThin], const float (&factors)[kThin][kThin], float* sums, int64_t pitch,
              int64_t count) {
    BK_BY_WIDTH(float, add_pair_rows_with, thin, rows, factors, sums, pitch, count);
}
void add_lines(int thin, const float* const (&lines)[kThin], const float* const (&thin_lines)[kThin], int64_t count,
               ThinParts<float>& parts) {
    BK_BY_WIDTH(float, add_lines_with, thin, lines, thin_lines, count, parts);
}
void add_pairs(int thin, const uint16_t* const (&lines)[kThin], const float* const (&thin_lines)[kThin], int64_t count,
               ThinParts<float>& parts) {
    BK_BY_WIDTH(float, add_pairs_with, thin, lines, thin_lines, count, parts);
}
void add_lines(int thin, const double* const (&lines)[kThin], const double* const (&thin_lines)[kThin], int64_t count,
               ThinParts<double>& parts) {
    BK_BY_WIDTH(double, add_lines_with, thin, lines, thin_lines, count, parts);
}

}  // namespace bk

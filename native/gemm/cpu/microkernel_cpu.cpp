// SPDX-License-Identifier: Apache-2.0
// GEMM microkernels on FMA, in GCC vectors of 16, 32 and 64 bytes.
#include "gemm/cpu/microkernel_cpu.h"

#include "gemm/cpu/compensated_cpu.h"

namespace bk {

namespace {

template <class Unit, class Sum, int kBytes, int kUsed, bool kAIsMMajor>
BK_HD void multiply_microtile(int64_t units, const Unit* a, int64_t pitch, const Unit* b, Sum* sums, bool adds) {
    BK_FUSE_PRODUCTS
    using Shape = MicrotileShape<kBytes, Unit>;
    typedef const Unit RowUnits __attribute__((may_alias));
    typedef Unit Vector __attribute__((vector_size(kBytes), aligned(16), may_alias));
    constexpr int kMr = Shape::kMr, kLanes = Shape::kLanes, kNr = Shape::kNr;
    if (adds)
        for (int i = 0; i < kMr; ++i)
            for (int64_t byte = 0; byte < static_cast<int64_t>(kUsed * kLanes * sizeof(Sum)); byte += 64)
                __builtin_prefetch(reinterpret_cast<const char*>(sums + i * kNr) + byte, 1);
    Vector sum[kMr][kUsed] = {};
    for (int64_t k = 0; k < units; ++k) {
        Vector row[kUsed];
        for (int v = 0; v < kUsed; ++v) row[v] = *reinterpret_cast<const Vector*>(b + k * kNr + v * kLanes);
#pragma GCC unroll 8
        for (int i = 0; i < kMr; ++i)
            for (int v = 0; v < kUsed; ++v)
                sum[i][v] += (kAIsMMajor ? a[k * kMr + i]
                                         : reinterpret_cast<RowUnits*>(reinterpret_cast<const char*>(a) + i * pitch)[k]) *
                             row[v];
    }
#pragma GCC unroll 8
    for (int i = 0; i < kMr; ++i)
#pragma GCC unroll 3
        for (int v = 0; v < kUsed; ++v) {
            Sum* const to = sums + i * kNr + v * kLanes;
            if constexpr (std::is_same_v<Unit, Sum>) {
                Vector* const at = reinterpret_cast<Vector*>(to);
                *at = adds ? *at + sum[i][v] : sum[i][v];
            } else {
                for (int lane = 0; lane < kLanes; ++lane)
                    to[lane] = (adds ? to[lane] : Sum(0)) + static_cast<Sum>(sum[i][v][lane]);
            }
        }
}

template <class Unit, class Sum, int kBytes, bool kAIsMMajor>
BK_HD void multiply_width(int64_t units, const Unit* a, int64_t pitch, const Unit* b, int64_t width, Sum* sums, bool adds) {
    constexpr int kLanes = MicrotileShape<kBytes, Unit>::kLanes, kVectors = MicrotileShape<kBytes, Unit>::kVectors;
    if (width > (kVectors - 1) * kLanes)
        multiply_microtile<Unit, Sum, kBytes, kVectors, kAIsMMajor>(units, a, pitch, b, sums, adds);
    else if (kVectors == 3 && width > kLanes)
        multiply_microtile<Unit, Sum, kBytes, 2, kAIsMMajor>(units, a, pitch, b, sums, adds);
    else
        multiply_microtile<Unit, Sum, kBytes, 1, kAIsMMajor>(units, a, pitch, b, sums, adds);
}

template <class Unit, class Sum, int kBytes>
void multiply(int64_t units, const void* a, int64_t pitch, bool a_is_m_major, const void* b, int64_t width, void* sums,
              bool adds) {
    if (pitch == 0) pitch = units * static_cast<int64_t>(sizeof(Unit));
    const auto* const from_a = static_cast<const Unit*>(a);
    const auto* const from_b = static_cast<const Unit*>(b);
    auto* const to = static_cast<Sum*>(sums);
    if (a_is_m_major)
        run_fused<kBytes>([&] { multiply_width<Unit, Sum, kBytes, true>(units, from_a, pitch, from_b, width, to, adds); });
    else
        run_fused<kBytes>([&] { multiply_width<Unit, Sum, kBytes, false>(units, from_a, pitch, from_b, width, to, adds); });
}

template <class Sum, int kMr, int kNr>
void add_block(int64_t width, void* totals, void* sums) {
    for (int i = 0; i < kMr; ++i)
        add_compensated(static_cast<Sum*>(totals) + i * kNr, static_cast<Sum*>(sums) + i * kNr, width);
}

template <Packing kPacking, int kBytes>
constexpr Microkernel make_kernel() {
    using Unit = typename PackedUnit<kPacking>::Unit;
    using Sum = typename PackedUnit<kPacking>::Sum;
    using Shape = MicrotileShape<kBytes, Unit>;
    return {Shape::kMr,
            Shape::kNr,
            1,
            sizeof(Unit),
            sizeof(Sum),
            kPacking == Packing::kF32Integer ? 256 : INT64_MAX,
            multiply<Unit, Sum, kBytes>,
            kPacking == Packing::kF32Integer ? nullptr : add_block<Sum, Shape::kMr, Shape::kNr>};
}

template <Packing kPacking>
const Microkernel& kernel_of_width() {
    static constexpr Microkernel kNarrow = make_kernel<kPacking, 16>();
#if BK_ISA_DISPATCH
    static constexpr Microkernel kMiddle = make_kernel<kPacking, 32>(), kWide = make_kernel<kPacking, 64>();
    if (vector_bytes() == 64) return kWide;
    if (vector_bytes() == 32) return kMiddle;
#endif
    return kNarrow;
}

}  // namespace

template <>
const Microkernel& microkernel<Packing::kF32>() {
    return kernel_of_width<Packing::kF32>();
}
template <>
const Microkernel& microkernel<Packing::kF32Integer>() {
    return kernel_of_width<Packing::kF32Integer>();
}
template <>
const Microkernel& microkernel<Packing::kF64>() {
    return kernel_of_width<Packing::kF64>();
}

}  // namespace bk

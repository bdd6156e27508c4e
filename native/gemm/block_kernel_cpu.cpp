// GEMM microkernels on FMA, in GCC vectors of 16, 32 and 64 bytes.
#include "gemm/block_kernel_cpu.h"

#include "gemm/compensated_cpu.h"

namespace bk {

namespace {

template <class Unit, class Sum, int kBytes, int kUsed, bool kTurned>
BK_HD void multiply_block(int64_t units, const Unit* a, int64_t line, const Unit* b, Sum* sums, bool adds) {
    BK_FUSE_PRODUCTS
    using Shape = BlockShape<kBytes, Unit>;
    typedef const Unit Rows __attribute__((may_alias));
    typedef Unit Vector __attribute__((vector_size(kBytes), aligned(16), may_alias));
    constexpr int kRows = Shape::kRows, kLanes = Shape::kLanes, kColumns = Shape::kColumns;
    if (adds)
        for (int i = 0; i < kRows; ++i)
            for (int64_t byte = 0; byte < static_cast<int64_t>(kUsed * kLanes * sizeof(Sum)); byte += 64)
                __builtin_prefetch(reinterpret_cast<const char*>(sums + i * kColumns) + byte, 1);
    Vector sum[kRows][kUsed] = {};
    for (int64_t k = 0; k < units; ++k) {
        Vector row[kUsed];
        for (int v = 0; v < kUsed; ++v) row[v] = *reinterpret_cast<const Vector*>(b + k * kColumns + v * kLanes);
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i)
            for (int v = 0; v < kUsed; ++v)
                sum[i][v] +=
                    (kTurned ? a[k * kRows + i] : reinterpret_cast<Rows*>(reinterpret_cast<const char*>(a) + i * line)[k]) *
                    row[v];
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
        for (int v = 0; v < kUsed; ++v) {
            Sum* const to = sums + i * kColumns + v * kLanes;
            if constexpr (std::is_same_v<Unit, Sum>) {
                Vector* const at = reinterpret_cast<Vector*>(to);
                *at = adds ? *at + sum[i][v] : sum[i][v];
            } else {
                for (int lane = 0; lane < kLanes; ++lane)
                    to[lane] = (adds ? to[lane] : Sum(0)) + static_cast<Sum>(sum[i][v][lane]);
            }
        }
}

template <class Unit, class Sum, int kBytes, bool kTurned>
BK_HD void multiply_width(int64_t units, const Unit* a, int64_t line, const Unit* b, int64_t width, Sum* sums, bool adds) {
    constexpr int kLanes = BlockShape<kBytes, Unit>::kLanes, kVectors = BlockShape<kBytes, Unit>::kVectors;
    if (width > (kVectors - 1) * kLanes)
        multiply_block<Unit, Sum, kBytes, kVectors, kTurned>(units, a, line, b, sums, adds);
    else if (kVectors == 3 && width > kLanes)
        multiply_block<Unit, Sum, kBytes, 2, kTurned>(units, a, line, b, sums, adds);
    else
        multiply_block<Unit, Sum, kBytes, 1, kTurned>(units, a, line, b, sums, adds);
}

template <class Unit, class Sum, int kBytes>
void multiply(int64_t units, const void* a, int64_t line, bool is_turned, const void* b, int64_t width, void* sums, bool adds) {
    if (line == 0) line = units * static_cast<int64_t>(sizeof(Unit));
    const auto* const from_a = static_cast<const Unit*>(a);
    const auto* const from_b = static_cast<const Unit*>(b);
    auto* const to = static_cast<Sum*>(sums);
    if (is_turned)
        run_fused<kBytes>([&] { multiply_width<Unit, Sum, kBytes, true>(units, from_a, line, from_b, width, to, adds); });
    else
        run_fused<kBytes>([&] { multiply_width<Unit, Sum, kBytes, false>(units, from_a, line, from_b, width, to, adds); });
}

template <class Sum, int kRows, int kColumns>
void add_block(int64_t width, void* totals, void* sums) {
    for (int i = 0; i < kRows; ++i)
        add_compensated(static_cast<Sum*>(totals) + i * kColumns, static_cast<Sum*>(sums) + i * kColumns, width);
}

template <Packing kPacking, int kBytes>
constexpr BlockKernel make_kernel() {
    using Unit = typename PackedUnit<kPacking>::Unit;
    using Sum = typename PackedUnit<kPacking>::Sum;
    using Shape = BlockShape<kBytes, Unit>;
    return {Shape::kRows,
            Shape::kColumns,
            1,
            sizeof(Unit),
            sizeof(Sum),
            kPacking == Packing::kF32Whole ? 256 : INT64_MAX,
            multiply<Unit, Sum, kBytes>,
            kPacking == Packing::kF32Whole ? nullptr : add_block<Sum, Shape::kRows, Shape::kColumns>};
}

template <Packing kPacking>
const BlockKernel& kernel_of_width() {
    static constexpr BlockKernel kNarrow = make_kernel<kPacking, 16>();
#if BK_ISA_DISPATCH
    static constexpr BlockKernel kMiddle = make_kernel<kPacking, 32>(), kWide = make_kernel<kPacking, 64>();
    if (vector_bytes() == 64) return kWide;
    if (vector_bytes() == 32) return kMiddle;
#endif
    return kNarrow;
}

}  // namespace

template <>
const BlockKernel& block_kernel<Packing::kF32>() {
    return kernel_of_width<Packing::kF32>();
}
template <>
const BlockKernel& block_kernel<Packing::kF32Whole>() {
    return kernel_of_width<Packing::kF32Whole>();
}
template <>
const BlockKernel& block_kernel<Packing::kF64>() {
    return kernel_of_width<Packing::kF64>();
}

}  // namespace bk

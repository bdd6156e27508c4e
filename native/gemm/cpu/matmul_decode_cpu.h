// SPDX-License-Identifier: Apache-2.0
// GEMM on the CPU with operands that the problem decodes as they are packed (packed, sparse, quantised), on the driver
// of gemm/cpu/matmul_driver_cpu.h. A problem P provides
//     kPacking                                              kF32, kF64, kBf16Pairs, or kF32Integer
//     m, n, k
//     void read_row(i, k, depth, Unit* to) const            units of [i, k] to [i, k + depth) of A; k is a multiple of 8
//     void read_column(j, k, depth, Unit* to) const         units of [k, j] to [k + depth, j] of B
//     void store(i, j, columns, const Sum* sums) const      stores `columns` results from [i, j]
//     ScratchRows scratch_rows() const
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm/matmul_cpu.h"

namespace bk {

template <class P, int kBytes>
struct ReadBlocks {
    using Unit = typename PackedUnit<P::kPacking>::Unit;
    using Sum = typename PackedUnit<P::kPacking>::Sum;
    using Shape = MicrotileShape<kBytes, Unit>;
    static constexpr int kKPerUnit = PackedUnit<P::kPacking>::kKPerUnit;

    static void rows(const void* problem, int64_t, int64_t i, int64_t rows, int64_t k, int64_t depth, void* to) {
        const P& p = *static_cast<const P*>(problem);
        Unit* const panel = static_cast<Unit*>(to);
        const int64_t units = ceil_div<int64_t>(depth, kKPerUnit);
        run_unfused<kBytes>([&] {
            for (int64_t r = 0; r < rows; ++r) p.read_row(i + r, k, depth, panel + r * units);
            std::fill(panel + rows * units, panel + Shape::kMr * units, Unit(0));
        });
        if constexpr (P::kPacking == Packing::kBf16Pairs) write_panel_min(panel, units * Shape::kMr);
    }
    static void columns(const void* problem, int64_t, int64_t j, int64_t columns, int64_t k, int64_t depth, void* to) {
        const P& p = *static_cast<const P*>(problem);
        Unit* const panel = static_cast<Unit*>(to);
        const int64_t units = ceil_div<int64_t>(depth, kKPerUnit);
        run_unfused<kBytes>([&] {
            pack_transposed<kBytes>(columns, units, Shape::kNr, panel,
                                    [&](int64_t x, int64_t first, int64_t count, Unit* buffer) BK_INLINED {
                                        const int64_t skipped = first * kKPerUnit;
                                        p.read_column(j + x, k + skipped, std::min(depth - skipped, count * kKPerUnit), buffer);
                                        return static_cast<const Unit*>(buffer);
                                    });
        });
        if constexpr (P::kPacking == Packing::kBf16Pairs) write_panel_min(panel, units * Shape::kNr);
    }
    static void store(const void* problem, int64_t, int64_t i, int64_t j, int64_t rows, int64_t columns, const void* sums) {
        const P& p = *static_cast<const P*>(problem);
        const Sum* const from = static_cast<const Sum*>(sums);
        run_unfused<kBytes>([&] {
            for (int64_t r = 0; r < rows; ++r) p.store(i + r, j, columns, from + r * Shape::kNr);
        });
    }

    static Status multiply(const Launch& launch, const P& p, bool fixes_order = false) {
        return multiply_blocked(launch, {&microkernel<P::kPacking>(),
                                         p.m,
                                         p.n,
                                         p.k,
                                         1,
                                         false,
                                         false,
                                         {},
                                         {},
                                         p.scratch_rows(),
                                         &p,
                                         rows,
                                         columns,
                                         store,
                                         fixes_order});
    }
};

template <class P>
Status multiply_read(const Launch& launch, const P& p, bool fixes_order = false) {
#if BK_ISA_DISPATCH
    if (vector_bytes() == 64) return ReadBlocks<P, 64>::multiply(launch, p, fixes_order);
    if (vector_bytes() == 32) return ReadBlocks<P, 32>::multiply(launch, p, fixes_order);
#endif
    return ReadBlocks<P, 16>::multiply(launch, p, fixes_order);
}

}  // namespace bk

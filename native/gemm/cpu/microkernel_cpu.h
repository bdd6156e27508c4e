// SPDX-License-Identifier: Apache-2.0
// GEMM microkernels on the CPU, after BLIS: an MR x NR tile of accumulators in vector registers, a rank-1 update for
// each unit along k of packed panels of A and B. Compiled once for each packing and instruction set
// (gemm/cpu/microkernel_cpu.cpp).
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/vector_width_cpu.h"

namespace bk {

// Content of a packed unit: one K element, or adjacent ones for dot-product instructions. kF32Integer holds integers,
// whose products sum exactly in f32 over 256 K elements; f64 accumulates these.
enum class Packing { kF32, kF32Integer, kF64, kBf16Pairs, kS8Quads, kU8Quads };

template <Packing kPacking>
struct PackedUnit {
    static constexpr bool kIsF64 = kPacking == Packing::kF64, kIsQuads = kPacking >= Packing::kS8Quads;
    static constexpr bool kIsDot = kPacking >= Packing::kBf16Pairs;
    using Unit = std::conditional_t<kIsF64, double, std::conditional_t<kIsDot, uint32_t, float>>;
    using Sum =
        std::conditional_t<kIsF64 || kPacking == Packing::kF32Integer, double, std::conditional_t<kIsQuads, int32_t, float>>;
    static constexpr int kKPerUnit = kIsQuads ? 4 : kIsDot ? 2 : 1;
};

// MR x NR for vectors of kBytes: accumulators, a row of B and an element of A fill the registers.
template <int kBytes, class Unit>
struct MicrotileShape {
#if defined(__aarch64__)
    static constexpr int kMr = 8, kVectors = 3;
#else
    static constexpr int kMr = kBytes == 64 ? 8 : kBytes == 32 ? 6 : 4, kVectors = kBytes == 64 ? 3 : 2;
#endif
    static constexpr int kLanes = kBytes / static_cast<int>(sizeof(Unit));
    static constexpr int kNr = kLanes * kVectors;
};

// A packed panel of A is row after row of units along k or, M-major, MR units for each k; a panel of B has NR units for
// each k. A footer behind the units serves dot products: the smallest |x| of a bf16 panel, the column sums of an
// integer panel of B.
struct Microkernel {
    int mr, nr, k_per_unit, unit_bytes, sum_bytes;
    int64_t max_k;  // bound on the K elements of one call
    // sums[mr][nr] = or += a b over `units` along k, of which the first `width` columns are needed. `pitch` is 0 for
    // a packed panel of A; unpacked rows, whole units along k, are that many bytes apart.
    void (*multiply)(int64_t units, const void* a, int64_t pitch, bool a_is_m_major, const void* b, int64_t width, void* sums,
                     bool adds);
    // add_compensated() of the first `width` columns (gemm/cpu/compensated_cpu.h); null if sums are exact.
    void (*add_block)(int64_t width, void* totals, void* sums);
};

// Offset of a panel's footer behind `bytes` of units, and the footer's size.
constexpr int64_t panel_footer_offset(int64_t bytes) { return (bytes + 63) / 64 * 64; }
constexpr int64_t kPanelFooterBytes = 192;

template <Packing kPacking>
const Microkernel& microkernel();

// Dot-product instructions flush subnormal operands and sums of bf16 to zero. min_abs_bf16() returns the smallest
// nonzero |x| of `rows` rows of `count` elements, `pitch` bytes apart, as bits less one, 0xffff if all are zeros;
// has_normal_products() tells whether such operands are normal and their products multiples of 2^-126, so that nothing
// is flushed.
int32_t min_abs_bf16(const void* elements, int64_t pitch, int rows, int64_t count);
bool has_normal_products(int32_t min_abs_a, int32_t min_abs_b);

// Write the footer of a packed panel of `units` (bf16, in all) or of B (integers, along k).
void write_panel_min(uint32_t* panel, int64_t units);
void write_column_sums_s8(uint32_t* panel, int64_t units);
void write_column_sums_u8(uint32_t* panel, int64_t units);

}  // namespace bk

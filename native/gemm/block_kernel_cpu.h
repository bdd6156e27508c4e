// The innermost loops of products on the CPU: a block of results in vector registers, summed from packed factors. Compiled once
// for each packing and instruction set (gemm/block_kernel_cpu.cpp).
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/vector_width_cpu.h"

namespace bk {

// What a unit of packed factors holds: a term, or neighbouring terms along k for instructions that sum their products. A
// kF32Whole unit is an integer, whose products' sums are exact in f32 over 256 terms and are added up in f64.
enum class Packing { kF32, kF32Whole, kF64, kBf16Pairs, kS8Quads, kU8Quads };

template <Packing kPacking>
struct PackedUnit {
    static constexpr bool kIsF64 = kPacking == Packing::kF64, kIsQuads = kPacking >= Packing::kS8Quads;
    static constexpr bool kIsDot = kPacking >= Packing::kBf16Pairs;
    using Unit = std::conditional_t<kIsF64, double, std::conditional_t<kIsDot, uint32_t, float>>;
    using Sum =
        std::conditional_t<kIsF64 || kPacking == Packing::kF32Whole, double, std::conditional_t<kIsQuads, int32_t, float>>;
    static constexpr int kTerms = kIsQuads ? 4 : kIsDot ? 2 : 1;
};

// Extents of a block for vectors of kBytes: its sums, a row of B and one factor of A fill the registers.
template <int kBytes, class Unit>
struct BlockShape {
#if defined(__aarch64__)
    static constexpr int kRows = 8, kVectors = 3;
#else
    static constexpr int kRows = kBytes == 64 ? 8 : kBytes == 32 ? 6 : 4, kVectors = kBytes == 64 ? 3 : 2;
#endif
    static constexpr int kLanes = kBytes / static_cast<int>(sizeof(Unit));
    static constexpr int kColumns = kLanes * kVectors;
};

// A panel of A has for each of `rows` its units along k or, turned, for each unit along k those of `rows`; one of B for each
// unit those of `columns`. Behind the units there is room for what kernels of dot products want to know: of bf16 the least of a
// panel, of integers the sums of B's columns.
struct BlockKernel {
    int rows, columns, terms, unit_bytes, sum_bytes;
    int64_t most_terms;  // that a block may sum
    // sums[rows][columns] = or += a b over `units`, of which the first `width` columns are wanted. `line` is 0 for a panel of
    // A; rows that are read as they lie, of whole units along k, are so many bytes apart.
    void (*multiply)(int64_t units, const void* a, int64_t line, bool is_turned, const void* b, int64_t width, void* sums,
                     bool adds);
    // add_compensated() of the first `width` columns (gemm/compensated_cpu.h); null where sums are exact.
    void (*add_block)(int64_t width, void* totals, void* sums);
};

// Where the notes begin behind `bytes` of units, and their room.
constexpr int64_t panel_notes(int64_t bytes) { return (bytes + 63) / 64 * 64; }
constexpr int64_t kPanelNotes = 192;

template <Packing kPacking>
const BlockKernel& block_kernel();

// Instructions of dot products take subnormal factors and sums of bf16 for zeros. Of `rows` lines of `count` elements, `line`
// bytes apart, the least |x| but zeros, as bits less one, 0xffff where there is none; and whether such factors are normal and
// their products multiples of 2^-126, so that nothing is lost.
int32_t least_of_bf16(const void* elements, int64_t line, int rows, int64_t count);
bool has_normal_products(int32_t least_a, int32_t least_b);

// The notes of a panel of so many units: of bf16 pairs the least |x| but zeros, as bits less one, 0xffff where there is
// none; of a panel of B, so many units along k, what to begin a column's sums with.
void note_least(uint32_t* panel, int64_t units);
void note_sums_s8(uint32_t* panel, int64_t units);
void note_sums_u8(uint32_t* panel, int64_t units);

}  // namespace bk

// Packing of A and B into panels for the microkernel of gemm/block_kernel_cpu.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/pointwise/pointwise.h"
#include "gemm/block_kernel_cpu.h"
#include "gemm/matmul_store_cpu.h"

namespace bk {

// --- transposes in registers ---

template <class Unit, int kLanes>
struct Turned {
    using Whole = std::conditional_t<sizeof(Unit) == 8, int64_t, int32_t>;
    typedef Unit Vector __attribute__((vector_size(kLanes * sizeof(Unit)), aligned(1), may_alias));
    typedef Unit Lanes __attribute__((vector_size(kLanes * sizeof(Unit))));
    typedef Whole Mask __attribute__((vector_size(kLanes * sizeof(Unit))));

    // Interleaves the lower or upper halves of a and b.
    template <int kFirst, size_t... kAt>
    static BK_HD Lanes interleave(Lanes a, Lanes b, std::index_sequence<kAt...>) {
        return BK_SHUFFLE(Mask, a, b, (kFirst + static_cast<int>(kAt) / 2 + (kAt % 2 != 0 ? kLanes : 0))...);
    }

    // Transposes kLanes x kLanes units in log2(kLanes) steps of interleaves.
    static BK_HD void turn(Lanes (&v)[kLanes]) {
        constexpr auto kOrder = std::make_index_sequence<kLanes>();
        constexpr int kHalf = kLanes / 2;
#pragma GCC unroll 4
        for (int step = 1; step < kLanes; step *= 2) {
            Lanes next[kLanes];
#pragma GCC unroll 8
            for (int i = 0; i < kHalf; ++i) {
                next[2 * i] = interleave<0>(v[i], v[i + kHalf], kOrder);
                next[2 * i + 1] = interleave<kHalf>(v[i], v[i + kHalf], kOrder);
            }
#pragma GCC unroll 16
            for (int i = 0; i < kLanes; ++i) v[i] = next[i];
        }
    }
};

// to[u * pitch + x] = unit u of row x. row(x, first, count, buffer) returns the address of up to 32 units from a
// multiple of 32 on: `buffer`, which it may fill, or memory, if `count` is a multiple of 16. Columns behind the last
// row are zeros.
template <int kBytes, class Unit, class Line>
BK_HD void pack_turned(int64_t lines, int64_t units, int64_t pitch, Unit* to, const Line& line) {
    constexpr int kLanes = kBytes / static_cast<int>(sizeof(Unit)), kRun = 32;
    using Turn = Turned<Unit, kLanes>;
    static_assert(16 % kLanes == 0, "vectors end where units do");
    alignas(64) Unit room[kLanes][kRun];
    const Unit* run[kLanes];
    for (int64_t x = 0; x < pitch; x += kLanes) {
        const int64_t width = std::min<int64_t>(pitch - x, kLanes);
        for (int64_t u = 0; u < units; u += kRun) {
            const int64_t count = std::min<int64_t>(units - u, kRun);
            for (int64_t l = 0; l < kLanes; ++l) {
                run[l] = room[l];
                if (x + l < lines)
                    run[l] = line(x + l, u, count, room[l]);
                else
                    std::memset(room[l], 0, sizeof(room[l]));
            }
            for (int64_t first = 0; first < count; first += kLanes) {
                typename Turn::Lanes v[kLanes];
                for (int l = 0; l < kLanes; ++l) v[l] = *reinterpret_cast<const typename Turn::Vector*>(run[l] + first);
                Turn::turn(v);
                Unit* const at = to + (u + first) * pitch + x;
                if (width == kLanes && first + kLanes <= count) {
#pragma GCC unroll 16
                    for (int l = 0; l < kLanes; ++l) *reinterpret_cast<typename Turn::Vector*>(at + l * pitch) = v[l];
                } else {
                    for (int64_t l = 0; l < std::min<int64_t>(kLanes, count - first); ++l)
                        std::memcpy(at + l * pitch, &v[l], static_cast<size_t>(width) * sizeof(Unit));
                }
            }
        }
    }
}

// --- units of elements ---

// Converts elements to units: `terms` adjacent ones along k, or `count` adjacent ones across k, a unit each of `terms`
// K elements k_step apart.
template <class T, Packing kPacking>
struct Units {
    using E = matmul_element_t<T>;
    using Unit = typename PackedUnit<kPacking>::Unit;
    static constexpr int kTerms = PackedUnit<kPacking>::kTerms;
    static constexpr bool kIsUnits = std::is_same_v<T, Unit> || kTerms > 1;  // rows along k need no conversion
    static BK_HD Unit unit(E x) { return MatmulArithmetic<T>::term(x); }

    static BK_HD void along(const E* BK_RESTRICT from, int64_t terms, Unit* BK_RESTRICT to) {
        if constexpr (std::is_same_v<E, f16>) {
            widen_span(to, from, terms);
        } else if constexpr (std::is_same_v<T, Unit>) {
            copy_bytes(to, from, terms * static_cast<int64_t>(sizeof(E)));
        } else if constexpr (kTerms == 1) {
            if (terms == 32)
                for (int64_t k = 0; k < 32; ++k) to[k] = unit(from[k]);
            else
                for (int64_t k = 0; k < terms; ++k) to[k] = unit(from[k]);
        } else {
            if (terms % kTerms != 0) to[terms / kTerms] = 0;
            copy_bytes(to, from, terms * static_cast<int64_t>(sizeof(E)));
        }
    }

    static BK_HD void across(const E* BK_RESTRICT from, int64_t k_step, int64_t terms, int64_t count, Unit* BK_RESTRICT to) {
        if constexpr (std::is_same_v<E, f16>) {
            widen_span(to, from, count);
        } else if constexpr (std::is_same_v<T, Unit>) {
            copy_bytes(to, from, count * static_cast<int64_t>(sizeof(E)));
        } else if constexpr (kTerms == 1) {
            for (int64_t x = 0; x < count; ++x) to[x] = unit(from[x]);
        } else {
            using Bits = std::conditional_t<kTerms == 2, uint16_t, uint8_t>;
            const Bits* const bits = reinterpret_cast<const Bits*>(from);
            const auto term = [&](int64_t t, int64_t x) {
                return static_cast<uint32_t>(bits[t * k_step + x]) << 32 / kTerms * t;
            };
            if (terms < kTerms) {
                for (int64_t x = 0; x < count; ++x) {
                    to[x] = 0;
                    for (int64_t t = 0; t < terms; ++t) to[x] |= term(t, x);
                }
            } else if constexpr (kTerms == 2) {
                for (int64_t x = 0; x < count; ++x) to[x] = term(0, x) | term(1, x);
            } else {
                for (int64_t x = 0; x < count; ++x) to[x] = term(0, x) | term(1, x) | term(2, x) | term(3, x);
            }
        }
    }
};

// --- panels ---

// Packs kWidth units for each step along k, kPitch apart.
template <class T, Packing kPacking, int kWidth, int kPitch = kWidth>
BK_HD void pack_across(const matmul_element_t<T>* from, int64_t k_step, int64_t count, int64_t depth,
                       typename PackedUnit<kPacking>::Unit* to) {
    using Of = Units<T, kPacking>;
    for (int64_t k = 0; k < depth; k += Of::kTerms, to += kPitch) {
        const int64_t terms = std::min<int64_t>(depth - k, Of::kTerms);
        if (count == kWidth) {
            Of::across(from + k * k_step, k_step, terms, kWidth, to);
        } else {
            Of::across(from + k * k_step, k_step, terms, count, to);
            for (int64_t x = count; x < kWidth; ++x) to[x] = 0;
        }
    }
}

// Packs a panel of A: rows of units along k, or MR units for each k.
template <class T, Packing kPacking, int kBytes>
BK_HD void pack_rows(const matmul_element_t<T>* from, const MatrixStrides& at, int64_t rows, int64_t depth,
                     typename PackedUnit<kPacking>::Unit* to) {
    using Of = Units<T, kPacking>;
    constexpr int kRows = BlockShape<kBytes, typename Of::Unit>::kRows;
    const int64_t units = ceil_div<int64_t>(depth, Of::kTerms);
    if (at.column == 1) {
        for (int64_t i = 0; i < rows; ++i) Of::along(from + i * at.row, depth, to + i * units);
        for (int64_t x = rows * units; x < kRows * units; ++x) to[x] = 0;
    } else {
        pack_across<T, kPacking, kRows>(from, at.column, rows, depth, to);
    }
    if constexpr (PackedUnit<kPacking>::kIsQuads)
        for (int64_t x = 0; x < kRows * units; ++x) to[x] ^= 0x80808080u;
    if constexpr (kPacking == Packing::kBf16Pairs) note_least(to, units * kRows);
}

// Packs a panel of B: NR units for each k. A gated GEMM has the other B in the second half.
template <class T, Packing kPacking, int kBytes>
BK_HD void pack_columns(const matmul_element_t<T>* from, const matmul_element_t<T>* gate, const MatrixStrides& at,
                        int64_t columns, int64_t depth, typename PackedUnit<kPacking>::Unit* to) {
    using Of = Units<T, kPacking>;
    using Unit = typename Of::Unit;
    constexpr int kColumns = BlockShape<kBytes, Unit>::kColumns, kHalf = kColumns / 2;
    const int64_t units = ceil_div<int64_t>(depth, Of::kTerms);
    const bool is_gated = kMayBeGated<T> && gate != nullptr;
    if (at.column == 1) {
        if (is_gated) {
            pack_across<T, kPacking, kHalf, kColumns>(from, at.row, columns, depth, to);
            pack_across<T, kPacking, kHalf, kColumns>(gate, at.row, columns, depth, to + kHalf);
        } else {
            pack_across<T, kPacking, kColumns>(from, at.row, columns, depth, to);
        }
    } else {
        const int64_t lines = is_gated ? kColumns : columns;
        pack_turned<kBytes>(lines, units, kColumns, to, [&](int64_t j, int64_t u, int64_t count, Unit* line) {
            const int64_t k = u * Of::kTerms, own = is_gated && j >= kHalf ? j - kHalf : j;
            const int64_t terms = std::min<int64_t>(depth - k, count * Of::kTerms);
            const auto* const place = (is_gated && j >= kHalf ? gate : from) + own * at.column + k * at.row;
            if (is_gated && own >= columns)
                std::memset(line, 0, static_cast<size_t>(count) * sizeof(Unit));
            else if (Of::kIsUnits && terms % (16 * Of::kTerms) == 0)
                return reinterpret_cast<const Unit*>(place);
            else
                Of::along(place, terms, line);
            return static_cast<const Unit*>(line);
        });
    }
    if constexpr (kPacking == Packing::kBf16Pairs) note_least(to, units * kColumns);
    if constexpr (kPacking == Packing::kS8Quads) note_sums_s8(to, units);
    if constexpr (kPacking == Packing::kU8Quads) note_sums_u8(to, units);
}

}  // namespace bk

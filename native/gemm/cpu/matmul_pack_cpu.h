// SPDX-License-Identifier: Apache-2.0
// Packing of A and B into panels for the microkernel of gemm/cpu/microkernel_cpu.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/pointwise/pointwise.h"
#include "gemm/cpu/matmul_store_cpu.h"
#include "gemm/cpu/microkernel_cpu.h"

namespace bk {

// --- transposes in registers ---

template <class Unit, int kLanes>
struct LaneTranspose {
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
    static BK_HD void transpose(Lanes (&v)[kLanes]) {
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
template <int kBytes, class Unit, class ReadRow>
BK_HD void pack_transposed(int64_t rows, int64_t units, int64_t pitch, Unit* to, const ReadRow& read_row) {
    constexpr int kLanes = kBytes / static_cast<int>(sizeof(Unit)), kSegment = 32;
    using Transpose = LaneTranspose<Unit, kLanes>;
    static_assert(16 % kLanes == 0, "vectors end where units do");
    alignas(64) Unit buffer[kLanes][kSegment];
    const Unit* segment[kLanes];
    for (int64_t x = 0; x < pitch; x += kLanes) {
        const int64_t width = std::min<int64_t>(pitch - x, kLanes);
        for (int64_t u = 0; u < units; u += kSegment) {
            const int64_t count = std::min<int64_t>(units - u, kSegment);
            for (int64_t l = 0; l < kLanes; ++l) {
                segment[l] = buffer[l];
                if (x + l < rows)
                    segment[l] = read_row(x + l, u, count, buffer[l]);
                else
                    std::memset(buffer[l], 0, sizeof(buffer[l]));
            }
            for (int64_t first = 0; first < count; first += kLanes) {
                typename Transpose::Lanes v[kLanes];
                for (int l = 0; l < kLanes; ++l)
                    v[l] = *reinterpret_cast<const typename Transpose::Vector*>(segment[l] + first);
                Transpose::transpose(v);
                Unit* const at = to + (u + first) * pitch + x;
                if (width == kLanes && first + kLanes <= count) {
#pragma GCC unroll 16
                    for (int l = 0; l < kLanes; ++l) *reinterpret_cast<typename Transpose::Vector*>(at + l * pitch) = v[l];
                } else {
                    for (int64_t l = 0; l < std::min<int64_t>(kLanes, count - first); ++l)
                        std::memcpy(at + l * pitch, &v[l], static_cast<size_t>(width) * sizeof(Unit));
                }
            }
        }
    }
}

// --- units of elements ---

// Converts elements to units: `k_count` adjacent ones along k, or `count` adjacent ones across k, a unit each of
// `k_count` K elements k_step apart.
template <class T, Packing kPacking>
struct Units {
    using E = matmul_element_t<T>;
    using Unit = typename PackedUnit<kPacking>::Unit;
    static constexpr int kKPerUnit = PackedUnit<kPacking>::kKPerUnit;
    static constexpr bool kIsUnits = std::is_same_v<T, Unit> || kKPerUnit > 1;  // rows along k need no conversion
    static BK_HD Unit unit(E x) { return MatmulConversion<T>::value(x); }

    static BK_HD void convert_k_major(const E* BK_RESTRICT from, int64_t k_count, Unit* BK_RESTRICT to) {
        if constexpr (std::is_same_v<E, f16>) {
            widen_span(to, from, k_count);
        } else if constexpr (std::is_same_v<T, Unit>) {
            copy_bytes(to, from, k_count * static_cast<int64_t>(sizeof(E)));
        } else if constexpr (kKPerUnit == 1) {
            if (k_count == 32)
                for (int64_t k = 0; k < 32; ++k) to[k] = unit(from[k]);
            else
                for (int64_t k = 0; k < k_count; ++k) to[k] = unit(from[k]);
        } else {
            if (k_count % kKPerUnit != 0) to[k_count / kKPerUnit] = 0;
            copy_bytes(to, from, k_count * static_cast<int64_t>(sizeof(E)));
        }
    }

    static BK_HD void convert_mn_major(const E* BK_RESTRICT from, int64_t k_step, int64_t k_count, int64_t count,
                                       Unit* BK_RESTRICT to) {
        if constexpr (std::is_same_v<E, f16>) {
            widen_span(to, from, count);
        } else if constexpr (std::is_same_v<T, Unit>) {
            copy_bytes(to, from, count * static_cast<int64_t>(sizeof(E)));
        } else if constexpr (kKPerUnit == 1) {
            for (int64_t x = 0; x < count; ++x) to[x] = unit(from[x]);
        } else {
            using Bits = std::conditional_t<kKPerUnit == 2, uint16_t, uint8_t>;
            const Bits* const bits = reinterpret_cast<const Bits*>(from);
            const auto shifted_bits = [&](int64_t t, int64_t x) {
                return static_cast<uint32_t>(bits[t * k_step + x]) << 32 / kKPerUnit * t;
            };
            if (k_count < kKPerUnit) {
                for (int64_t x = 0; x < count; ++x) {
                    to[x] = 0;
                    for (int64_t t = 0; t < k_count; ++t) to[x] |= shifted_bits(t, x);
                }
            } else if constexpr (kKPerUnit == 2) {
                for (int64_t x = 0; x < count; ++x) to[x] = shifted_bits(0, x) | shifted_bits(1, x);
            } else {
                for (int64_t x = 0; x < count; ++x)
                    to[x] = shifted_bits(0, x) | shifted_bits(1, x) | shifted_bits(2, x) | shifted_bits(3, x);
            }
        }
    }
};

// --- panels ---

// Packs kWidth units for each step along k, kPitch apart.
template <class T, Packing kPacking, int kWidth, int kPitch = kWidth>
BK_HD void pack_mn_major(const matmul_element_t<T>* from, int64_t k_step, int64_t count, int64_t depth,
                         typename PackedUnit<kPacking>::Unit* to) {
    using Conversion = Units<T, kPacking>;
    for (int64_t k = 0; k < depth; k += Conversion::kKPerUnit, to += kPitch) {
        const int64_t k_count = std::min<int64_t>(depth - k, Conversion::kKPerUnit);
        if (count == kWidth) {
            Conversion::convert_mn_major(from + k * k_step, k_step, k_count, kWidth, to);
        } else {
            Conversion::convert_mn_major(from + k * k_step, k_step, k_count, count, to);
            for (int64_t x = count; x < kWidth; ++x) to[x] = 0;
        }
    }
}

// Packs a panel of A: rows of units along k, or MR units for each k.
template <class T, Packing kPacking, int kBytes>
BK_HD void pack_rows(const matmul_element_t<T>* from, const MatrixStrides& at, int64_t rows, int64_t depth,
                     typename PackedUnit<kPacking>::Unit* to) {
    using Conversion = Units<T, kPacking>;
    constexpr int kRows = MicrotileShape<kBytes, typename Conversion::Unit>::kMr;
    const int64_t units = ceil_div<int64_t>(depth, Conversion::kKPerUnit);
    if (at.column == 1) {
        for (int64_t i = 0; i < rows; ++i) Conversion::convert_k_major(from + i * at.row, depth, to + i * units);
        for (int64_t x = rows * units; x < kRows * units; ++x) to[x] = 0;
    } else {
        pack_mn_major<T, kPacking, kRows>(from, at.column, rows, depth, to);
    }
    if constexpr (PackedUnit<kPacking>::kIsQuads)
        for (int64_t x = 0; x < kRows * units; ++x) to[x] ^= 0x80808080u;
    if constexpr (kPacking == Packing::kBf16Pairs) write_panel_min(to, units * kRows);
}

// Packs a panel of B: NR units for each k. A gated GEMM has the other B in the second half.
template <class T, Packing kPacking, int kBytes>
BK_HD void pack_columns(const matmul_element_t<T>* from, const matmul_element_t<T>* gate, const MatrixStrides& at,
                        int64_t columns, int64_t depth, typename PackedUnit<kPacking>::Unit* to) {
    using Conversion = Units<T, kPacking>;
    using Unit = typename Conversion::Unit;
    constexpr int kColumns = MicrotileShape<kBytes, Unit>::kNr, kHalf = kColumns / 2;
    const int64_t units = ceil_div<int64_t>(depth, Conversion::kKPerUnit);
    const bool is_gated = kMayBeGated<T> && gate != nullptr;
    if (at.column == 1) {
        if (is_gated) {
            pack_mn_major<T, kPacking, kHalf, kColumns>(from, at.row, columns, depth, to);
            pack_mn_major<T, kPacking, kHalf, kColumns>(gate, at.row, columns, depth, to + kHalf);
        } else {
            pack_mn_major<T, kPacking, kColumns>(from, at.row, columns, depth, to);
        }
    } else {
        const int64_t rows = is_gated ? kColumns : columns;
        pack_transposed<kBytes>(rows, units, kColumns, to, [&](int64_t j, int64_t u, int64_t count, Unit* buffer) {
            const int64_t k = u * Conversion::kKPerUnit, column = is_gated && j >= kHalf ? j - kHalf : j;
            const int64_t k_count = std::min<int64_t>(depth - k, count * Conversion::kKPerUnit);
            const auto* const source = (is_gated && j >= kHalf ? gate : from) + column * at.column + k * at.row;
            if (is_gated && column >= columns)
                std::memset(buffer, 0, static_cast<size_t>(count) * sizeof(Unit));
            else if (Conversion::kIsUnits && k_count % (16 * Conversion::kKPerUnit) == 0)
                return reinterpret_cast<const Unit*>(source);
            else
                Conversion::convert_k_major(source, k_count, buffer);
            return static_cast<const Unit*>(buffer);
        });
    }
    if constexpr (kPacking == Packing::kBf16Pairs) write_panel_min(to, units * kColumns);
    if constexpr (kPacking == Packing::kS8Quads) write_column_sums_s8(to, units);
    if constexpr (kPacking == Packing::kU8Quads) write_column_sums_u8(to, units);
}

}  // namespace bk

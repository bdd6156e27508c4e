// SPDX-License-Identifier: Apache-2.0
// Tiles of fused attention on the CPU: operands of the GEMM microkernel (gemm/cpu/microkernel_cpu.h).
//
// Scores are computed transposed, S^T = K Q^T: a microtile has MR keys and NR queries, whose statistics are therefore
// lanes of vectors. Microtiles of a panel of NR queries lie behind each other, so that exp(S^T) is at once the packed
// operand B of O^T = V^T P^T. Rows of K are operand A as they lie in memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>

#include "attention/flash/rows_cpu.h"
#include "core/abi/vector_width_cpu.h"
#include "gemm/cpu/matmul_pack_cpu.h"
#include "gemm/cpu/microkernel_cpu.h"

namespace bk::attention_cpu {

template <class T, Packing kPacking, int kVectorBytes>
struct Tiles {
    using C = compute_t<T>;
    using Unit = typename PackedUnit<kPacking>::Unit;
    using Shape = MicrotileShape<kVectorBytes, Unit>;
    static constexpr int kBytes = kVectorBytes, kMr = Shape::kMr, kNr = Shape::kNr, kVectorLanes = Shape::kLanes;
    static constexpr bool kIsPairs = kPacking == Packing::kBf16Pairs;
    static constexpr bool kConverts = !kIsPairs && !std::is_same_v<T, Unit>;
    static constexpr int kKPerUnit = kIsPairs ? 2 : 1;
    // Element of the rows that are multiplied: T, or f32 of 16-bit types without dot-product instructions.
    using E = std::conditional_t<kConverts, Unit, T>;
    typedef C Vector __attribute__((vector_size(kVectorBytes), aligned(16), may_alias));
    static_assert(std::is_same_v<typename PackedUnit<kPacking>::Sum, C>, "sums are of the compute type");

    static const Microkernel& kernel() { return microkernel<kPacking>(); }
    static int64_t units(int64_t k) { return ceil_div<int64_t>(k, kKPerUnit); }
    static int64_t padded(int64_t count) { return ceil_div<int64_t>(count, kMr) * kMr; }
    // Bytes of a packed panel of A or B.
    static int64_t a_bytes(int64_t k) { return panel_bytes(units(k) * kMr); }
    static int64_t b_bytes(int64_t k) { return panel_bytes(units(k) * kNr); }
    static int64_t panel_bytes(int64_t count) {
        return panel_footer_offset(count * static_cast<int64_t>(sizeof(Unit))) + kPanelFooterBytes;
    }

    // Copies a row, converted and padded with zeros to whole units.
    static BK_HD void copy_row(const T* from, int64_t count, E* to) {
        if constexpr (std::is_same_v<T, f16> && kConverts) {
            widen_span(to, from, count);
        } else if constexpr (kConverts) {
            for (int64_t x = 0; x < count; ++x) to[x] = widen(from[x]);
        } else {
            std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
            if (kIsPairs && count % 2 != 0) std::memset(to + count, 0, sizeof(T));
        }
    }

    // Packs rows of `depth` elements, given by row(x) or null for zeros, as a panel of B: NR units for each unit along
    // the row.
    template <class Row>
    static void pack_transposed_rows(int64_t depth, Unit* to, const Row& row) {
        run_unfused<kBytes>([&] {
            pack_transposed<kBytes>(kNr, units(depth), kNr, to, [&](int64_t x, int64_t u, int64_t count, Unit* buffer) {
                const int64_t k = u * kKPerUnit, k_count = std::min<int64_t>(depth - k, count * kKPerUnit);
                const T* const from = row(x);
                if (from == nullptr) {
                    std::memset(buffer, 0, static_cast<size_t>(count) * sizeof(Unit));
                } else {
                    if (!kConverts && k_count % (16 * kKPerUnit) == 0) return reinterpret_cast<const Unit*>(from + k);
                    copy_row(from + k, k_count, reinterpret_cast<E*>(buffer));
                }
                return static_cast<const Unit*>(buffer);
            });
        });
        if constexpr (kIsPairs) write_panel_min(to, units(depth) * kNr);
    }

    // Packs columns [first, first + count) of `depth` rows, `pitch` elements apart, as a panel of kWidth units for each
    // unit along the rows' axis.
    template <int kWidth>
    static void pack_rows_of(const E* from, int64_t pitch, int64_t count, int64_t depth, Unit* to) {
        run_unfused<kBytes>(
            [&] { pack_mn_major<E, kPacking, kWidth>(from, pitch, std::min<int64_t>(count, kWidth), depth, to); });
        if constexpr (kIsPairs) write_panel_min(to, units(depth) * kWidth);
    }

    // Packs all columns of `rows` rows as panels of A, MR units for each unit along the rows' axis. Row after row: a panel
    // after the other would read few bytes of many cache lines.
    static void pack_all_columns(const E* from, int64_t pitch, int64_t columns, int64_t rows, char* to) {
        const int64_t stride = a_bytes(rows);
        run_unfused<kBytes>([&] {
            for (int64_t y = 0; y < rows; y += kKPerUnit) {
                const E *const low = from + y * pitch, *const high = y + 1 < rows ? low + pitch : nullptr;
                for (int64_t c = 0; c < columns; c += kMr) {
                    Unit* const at = reinterpret_cast<Unit*>(to + c / kMr * stride) + y / kKPerUnit * kMr;
                    const int64_t count = std::min<int64_t>(columns - c, kMr);
                    if constexpr (kIsPairs) {
                        alignas(16) E zeros[kMr] = {}, first[kMr] = {}, second[kMr] = {};
                        const E *lower = low + c, *upper = high == nullptr ? zeros : high + c;
                        if (count < kMr) {
                            std::memcpy(first, lower, static_cast<size_t>(count) * sizeof(E));
                            if (high != nullptr) std::memcpy(second, upper, static_cast<size_t>(count) * sizeof(E));
                            lower = first;
                            upper = second;
                        }
                        for (int x = 0; x < kMr; ++x)
                            at[x] = static_cast<uint32_t>(lower[x].bits) | static_cast<uint32_t>(upper[x].bits) << 16;
                    } else if (count == kMr) {
                        std::memcpy(at, low + c, kMr * sizeof(E));
                    } else {
                        std::memset(at, 0, kMr * sizeof(E));
                        std::memcpy(at, low + c, static_cast<size_t>(count) * sizeof(E));
                    }
                }
            }
        });
        if constexpr (kIsPairs)
            for (int64_t c = 0; c < columns; c += kMr)
                write_panel_min(reinterpret_cast<Unit*>(to + c / kMr * stride), units(rows) * kMr);
    }

    // Says of a packed panel that no product with it can be subnormal: of probabilities, whose products with normal
    // numbers may flush to 0.
    static void assume_normal(void* panel, int64_t count) {
        if constexpr (kIsPairs)
            static_cast<uint32_t*>(panel)[panel_footer_offset(count * 4) / 4] = 0xffff;
        else
            (void)panel, (void)count;
    }

    // Whether `count` units hold an infinity or a NaN.
    static bool has_non_finite(const Unit* from, int64_t count) {
        bool found = false;
        run_unfused<kBytes>([&] {
            using Bits = bits_t<Unit>;
            constexpr Bits kHigh = kIsPairs            ? Bits(0x7f80)
                                   : sizeof(Unit) == 4 ? Bits(0x7f800000u)
                                                       : static_cast<Bits>(0x7ff0000000000000ull);
            Bits any = 0;
            for (int64_t x = 0; x < count; ++x) {
                const Bits bits = bit_cast<Bits>(from[x]);
                any |= static_cast<Bits>((bits & kHigh) == kHigh);
                if constexpr (kIsPairs) any |= static_cast<Bits>((bits >> 16 & kHigh) == kHigh);
            }
            found = any != 0;
        });
        return found;
    }
};

// Rows of keys or values of a tile as operand A, K-major: in memory, or copied where they are converted, in pages, or
// fewer than MR.
template <class Tile, class T>
struct KeyRows {
    using E = typename Tile::E;

    const E* base = nullptr;
    int64_t pitch = 0;  // in elements

    // Bytes of scratch for `count` rows of `depth` elements.
    static int64_t scratch_bytes(int64_t count, int64_t depth) {
        return panel_footer_offset(Tile::padded(count) * pitch_of(depth) * static_cast<int64_t>(sizeof(E)));
    }
    static int64_t pitch_of(int64_t depth) { return std::max<int64_t>(Tile::units(depth), 1) * Tile::kKPerUnit; }

    // Rows [j, j + count), of which the last microtile may be copied to `scratch` alone.
    void load(const HeadsView<const T>& view, const Lengths& lengths, const Sequence& s, int64_t b, int64_t h, int64_t j,
              int64_t count, int64_t depth, char* scratch) {
        const bool is_in_place = !Tile::kConverts && lengths.page_ids == nullptr && count % Tile::kMr == 0 &&
                                 depth % Tile::kKPerUnit == 0 && view.row != 0;
        if constexpr (!Tile::kConverts)
            if (is_in_place) {
                base = view.at(b, h, s.k_begin + j);
                pitch = view.row;
                return;
            }
        E* const to = reinterpret_cast<E*>(scratch);
        base = to;
        pitch = pitch_of(depth);
        run_unfused<Tile::kBytes>([&] {
            for (int64_t x = 0; x < count; ++x) Tile::copy_row(key_row(view, lengths, s, b, h, j + x), depth, to + x * pitch);
            if (depth > 0)
                std::memset(static_cast<void*>(to + count * pitch), 0,
                            static_cast<size_t>((Tile::padded(count) - count) * pitch) * sizeof(E));
        });
    }
};

// Queries of a panel: rows of the group of heads that share keys.
template <class C, int kNr>
struct QueryPanel {
    int64_t count = 0;
    KeyRange keys{0, 0};  // union of those that the band shows
    int64_t first[kNr], end[kNr];
    int64_t head[kNr], row[kNr];
    alignas(64) C max[kNr];
    alignas(64) C sum[kNr];

    // Queries `begin` on of `rows` rows: row r is query r % q_len of head first_head + r / q_len.
    void fill(const ScoreRules& rules, const Sequence& s, int64_t first_head, int64_t begin, int64_t rows) {
        count = clamp_row(rows - begin, 0, kNr);
        keys = {s.k_len, 0};
        for (int64_t x = 0; x < kNr; ++x) {
            first[x] = end[x] = 0;
            head[x] = row[x] = 0;
            max[x] = -C(INFINITY);
            sum[x] = 0;
            if (x >= count) continue;
            head[x] = first_head + (begin + x) / s.q_len;
            row[x] = (begin + x) % s.q_len;
            const KeyRange own = keys_of_rows(rules.band, s, row[x], row[x]);
            if (own.first >= own.end) continue;
            first[x] = own.first;
            end[x] = own.end;
            keys = {std::min(keys.first, own.first), std::max(keys.end, own.end)};
        }
    }
    // Whether a query does not see all keys [j, j + number).
    bool hides_some(int64_t j, int64_t number) const {
        for (int64_t x = 0; x < count; ++x)
            if (first[x] > j || end[x] < j + number) return true;
        return false;
    }
};

// Tiling of the rows of a group of heads: within a head, or whole heads if they are short.
struct RowTiles {
    int64_t rows, heads_per_tile, tiles_per_head, tiles;

    static RowTiles of(int64_t group, int64_t q_len, int64_t rows) {
        if (q_len >= rows) return {rows, 1, ceil_div(q_len, rows), group * ceil_div(q_len, rows)};
        const int64_t heads = std::min(group, rows / std::max<int64_t>(q_len, 1));
        return {rows, heads, 1, ceil_div(group, heads)};
    }
};

}  // namespace bk::attention_cpu

// SPDX-License-Identifier: Apache-2.0
// Slots of the bit patterns of 16-bit floats, for histograms that count patterns and map them to bins at the end, so that an
// element costs no arithmetic of floats.
//
// Patterns of one sign are in the order of their magnitudes. Those up to `least` are in the bin of zero and those from `most`
// on in that of infinity, so that a clamp leaves few slots: 1,470 for 100 bins of bf16 in [-4, 4].
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/platform.h"
#include "core/sort/ordered_key.h"
#include "search/bins.h"

namespace bk {

// Bins of equal width of 16-bit floats.
template <class Bins>
constexpr bool kCountsPatterns = false;
template <class T>
constexpr bool kCountsPatterns<UniformBins<T>> = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

// Slots of the bit patterns of T, for each sign; the bounds and the pattern of slot 0 stand in both halves of a word.
template <class T>
struct PatternSlots {
    uint32_t least[2], most[2], origin[2];
    int32_t count, positive;  // slots; those of positive numbers come first

    static PatternSlots make(const UniformBins<T>& bins) {
        constexpr uint32_t kInfinity = KeyTraits<T>::kLargest;
        PatternSlots slots{};
        for (uint32_t sign = 0; sign < 2; ++sign) {
            const auto rank = [&](uint32_t magnitude) {
                const T x{static_cast<uint16_t>(sign << 15 | magnitude)};
                const float value = widen(x);
                return value < bins.low ? -1 : value > bins.high ? bins.num_bins : static_cast<int32_t>(bins.exact(x, nullptr));
            };
            const uint32_t zero = sign;  // -0 counts as +0
            uint32_t least = zero, most = kInfinity;
            for (uint32_t beyond = kInfinity; least < beyond;) {
                const uint32_t middle = (least + beyond + 1) / 2;
                (rank(middle) == rank(zero) ? least : beyond) = rank(middle) == rank(zero) ? middle : middle - 1;
            }
            for (uint32_t below = least; below < most;) {
                const uint32_t middle = (below + most) / 2;
                (rank(middle) == rank(kInfinity) ? most : below) = rank(middle) == rank(kInfinity) ? middle : middle + 1;
            }
            slots.least[sign] = (sign << 15 | least) * 0x10001u;
            slots.most[sign] = (sign << 15 | most) * 0x10001u;
            slots.origin[sign] = ((sign << 15 | least) - static_cast<uint32_t>(slots.count)) * 0x10001u;
            slots.count += static_cast<int32_t>(most - least) + 1;
            if (sign == 0) slots.positive = slots.count;
        }
        return slots;
    }

    // The slot of one pattern, without branches.
    BK_HD uint32_t of(uint16_t pattern) const {
        const uint32_t bits = pattern == 0x8000u ? 0u : pattern, sign = 0u - (bits >> 15);
        const uint32_t low = (least[0] ^ ((least[0] ^ least[1]) & sign)) & 0xffffu,
                       high = (most[0] ^ ((most[0] ^ most[1]) & sign)) & 0xffffu,
                       start = (origin[0] ^ ((origin[0] ^ origin[1]) & sign)) & 0xffffu;
        const uint32_t from = bits < low ? low : bits, to = from > high ? high : from;
        return to - start;
    }
    BK_HD T pattern(int32_t slot) const {
        return T{static_cast<uint16_t>(static_cast<uint32_t>(slot) + (origin[slot < positive ? 0 : 1] & 0xffffu))};
    }
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Blocks of adjacent elements in f32: one of a GPU's thread; on the CPU vectorised loops of a constant length.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/platform.h"
#include "recurrent/block_team.h"
#include "recurrent/storage.h"

#if BK_CUDA
#define BK_UNIT_LOOP BK_UNROLL
#else
#include "core/compiler_cpu.h"
#define BK_UNIT_LOOP BK_CHUNK_LOOP
#endif

namespace bk::recurrent {

constexpr int kUnits = BK_CUDA ? 1 : 32;

// A block of values; of a block at a row's end the first `count` are meant, and the others are 0 when loaded.
struct Units {
    float at[kUnits];

    BK_HD static Units zeros() {
        Units units;
        BK_UNIT_LOOP
        for (int l = 0; l < kUnits; ++l) units.at[l] = 0.0f;
        return units;
    }
    BK_HD static Units of(const float* from, int count) {
        Units units = zeros();
        if (count == kUnits) {
            BK_UNIT_LOOP
            for (int l = 0; l < kUnits; ++l) units.at[l] = from[l];
        } else {
            copy(from, count, units.at);
        }
        return units;
    }
    // Elements from + l of an operand, zeros if it is null.
    BK_TEAM static Units load(RowType type, const void* data, int64_t from, int count) {
        if (data == nullptr) return zeros();
        if (type == RowType::kF32) return of(static_cast<const float*>(data) + from, count);
        Units units = zeros();
        load_narrow(type, data, from, count, units.at);
        return units;
    }

    BK_HD void put(float* to, int count) const {
        if (count == kUnits) {
            BK_UNIT_LOOP
            for (int l = 0; l < kUnits; ++l) to[l] = at[l];
        } else {
            copy(at, count, to);
        }
    }
    BK_TEAM void store(RowType type, void* data, int64_t from, int count) const {
        if (type == RowType::kF32) return put(static_cast<float*>(data) + from, count);
        store_narrow(type, data, from, count, at);
    }

private:
    BK_HD static void copy(const float* from, int count, float* to) {
#if BK_CUDA
        for (int l = 0; l < count; ++l) to[l] = from[l];
#else
        std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
#endif
    }
    BK_STEP static void load_narrow(RowType type, const void* data, int64_t from, int count, float* to) {
        with_vectors([=] {
            with_type(type, data, [&](const auto* elements) {
                for (int l = 0; l < count; ++l) to[l] = widen(elements[from + l]);
            });
        });
    }
    BK_STEP static void store_narrow(RowType type, void* data, int64_t to, int count, const float* from) {
        with_vectors([=] {
            with_type(type, data, [&](auto* elements) {
                for (int l = 0; l < count; ++l)
                    elements[to + l] = narrow<std::remove_reference_t<decltype(*elements)>>(from[l]);
            });
        });
    }
};

// body(first, count) for the blocks of `width` elements that a thread of the team has.
template <class Body>
BK_TEAM void for_units(const Team& team, int width, const Body& body) {
    for (int first = team.rank * kUnits; first < width; first += team.size * kUnits)
        body(first, width - first < kUnits ? width - first : kUnits);
}

}  // namespace bk::recurrent

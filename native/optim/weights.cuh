// SPDX-License-Identifier: Apache-2.0
// Parameters of a thread's lanes in the compute type, from how they are stored (storage.h).
#pragma once

#include <cstdint>
#include <type_traits>

#include "optim/common.h"
#include "optim/lanes.cuh"
#include "optim/storage.h"
#include "optim/table.h"

namespace bk::optim {

template <class T, int N>
struct Weights {
    using C = compute_t<T>;
    static constexpr bool kIsShort = sizeof(T) == 2, kHasErrors = std::is_same_v<T, bf16>;
    T* param;
    void* master;
    int32_t rounding;

    BK_DEVICE bool has_errors() const { return kHasErrors && rounding == kErrorWord && master != nullptr; }
    BK_DEVICE bool has_master() const { return kIsShort && rounding != kErrorWord && master != nullptr; }

    BK_DEVICE void read(const Lanes& lanes, C (&p)[N]) const {
        if constexpr (kIsShort) {
            if (has_master()) return lanes.read<N>(static_cast<const float*>(master), p);
        }
        lanes.read<N>(param, p);
        if constexpr (kHasErrors) {
            if (!has_errors()) return;
            uint32_t low[N];
            lanes.read<N>(static_cast<const uint16_t*>(master), low);
#pragma unroll
            for (int l = 0; l < N; ++l) p[l] = from_halves(narrow<bf16>(p[l]), static_cast<uint16_t>(low[l]));
        }
    }

    BK_DEVICE void write(const Lanes& lanes, const C (&p)[N], const RandomBits& random) const {
        if constexpr (kIsShort) {
            if (has_master()) {
                lanes.write<N>(static_cast<float*>(master), [&](int l) { return p[l]; });
            } else if (rounding == kStochastic) {
                const PhiloxBlock block = random.block(lanes.i);
                const int first = static_cast<int>(lanes.i % 8);
                return lanes.write<N>(param,
                                      [&](int l) { return round_randomly(p[l], RandomBits::bits(block, first + l), T{}); });
            }
        }
        if constexpr (kHasErrors) {
            if (has_errors()) {
                lanes.write<N>(static_cast<uint16_t*>(master), [&](int l) { return low_half(p[l]); });
                return lanes.write<N>(param, [&](int l) { return high_half(p[l]); });
            }
        }
        lanes.write<N>(param, [&](int l) { return narrow<T>(p[l]); });
    }
};

}  // namespace bk::optim

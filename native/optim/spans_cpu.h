// SPDX-License-Identifier: Apache-2.0
// Up to kStateBlock adjacent elements in the compute type, from how they are stored (storage.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/compiler_cpu.h"
#include "optim/common.h"
#include "optim/storage.h"

namespace bk::optim {

template <class T>
BK_HD void widen_span(const T* from, int count, compute_t<T>* to) {
    BK_VECTOR_LOOP for (int l = 0; l < count; ++l) to[l] = widen(from[l]);
}

template <class T>
struct StoredWeights {
    using C = compute_t<T>;
    static constexpr bool kIsShort = sizeof(T) == 2, kHasErrors = std::is_same_v<T, bf16>;
    T* param;
    void* master;
    int32_t rounding;

    BK_HD void read(int64_t i, int count, C* p) const {
        if constexpr (kIsShort) {
            if (master != nullptr && rounding != kErrorWord) {
                memcpy(p, static_cast<const float*>(master) + i, sizeof(float) * static_cast<size_t>(count));
                return;
            }
        }
        if constexpr (kHasErrors) {
            if (master != nullptr) {
                const uint16_t* const low = static_cast<const uint16_t*>(master) + i;
                BK_VECTOR_LOOP for (int l = 0; l < count; ++l) p[l] = from_halves(param[i + l], low[l]);
                return;
            }
        }
        widen_span(param + i, count, p);
    }

    BK_HD void write(int64_t i, int count, const C* p, const RandomBits& random) const {
        T* const to = param + i;
        if constexpr (kIsShort) {
            if (master != nullptr && rounding != kErrorWord) {
                memcpy(static_cast<float*>(master) + i, p, sizeof(float) * static_cast<size_t>(count));
            } else if (rounding == kStochastic) {
                return write_randomly(i, count, p, random);
            }
        }
        if constexpr (kHasErrors) {
            if (master != nullptr && rounding == kErrorWord) {
                uint16_t* const low = static_cast<uint16_t*>(master) + i;
                BK_VECTOR_LOOP for (int l = 0; l < count; ++l) {
                    to[l] = high_half(p[l]);
                    low[l] = low_half(p[l]);
                }
                return;
            }
        }
        BK_VECTOR_LOOP for (int l = 0; l < count; ++l) to[l] = narrow<T>(p[l]);
    }

private:
    BK_HD void write_randomly(int64_t i, int count, const C* p, const RandomBits& random) const {
        if constexpr (kIsShort) {
            for (int first = 0; first < count; first += 8) {  // i is a multiple of kStateBlock
                const PhiloxBlock block = random.block(i + first);
                for (int l = 0; l < 8 && first + l < count; ++l)
                    param[i + first + l] = round_randomly(p[first + l], RandomBits::bits(block, l), T{});
            }
        }
    }
};

}  // namespace bk::optim

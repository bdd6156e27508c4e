// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "core/math/math.h"
#include "core/platform.h"

namespace bk {

// An accumulator as 32-bit words.
template <class Acc>
struct AccWords {
    static constexpr int kCount = sizeof(Acc) / 4;
    static_assert(sizeof(Acc) % 4 == 0 && sizeof(Acc) <= 40, "a few whole words");
    uint32_t word[kCount];

    static BK_DEVICE AccWords of(const Acc& acc) {
        AccWords result;
        memcpy(&result, &acc, sizeof(Acc));
        return result;
    }
    BK_DEVICE Acc value() const { return bit_cast<Acc>(*this); }
};

}  // namespace bk

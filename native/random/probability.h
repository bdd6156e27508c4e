// SPDX-License-Identifier: Apache-2.0
// Events of a probability p: those words of 32 bits that are below p 2^32, rounded. Probabilities 0 and 1 are exact.
#pragma once

#include <cstdint>

#include "core/abi/status.h"
#include "core/platform.h"

namespace bk {

struct Probability {
    uint32_t last;  // the last word of the event
    bool is_never;

    static Probability of(double p) {
        const uint64_t words = static_cast<uint64_t>(p * 0x1p32 + 0.5);
        return {static_cast<uint32_t>(words - 1), words == 0};
    }
    BK_HD bool holds(uint32_t word) const { return (word <= last) & !is_never; }
};

BK_COLD inline Status require_probability(double p) {
    if (!(p >= 0 && p <= 1)) return fail(Status::kInvalidProblem, "p is %g, must be in [0, 1]", p);
    return Status::kOk;
}

}  // namespace bk

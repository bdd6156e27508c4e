// SPDX-License-Identifier: Apache-2.0
// Division by a launch constant: a multiplication and a shift (Granlund and Montgomery 1994).
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk {

template <class Index>
struct DivMod {
    Index quotient;
    Index remainder;
};

// 64-bit indices use plain division: such problems are memory-bound. A divisor of 0, an empty extent, becomes 1, so
// that a layout that is never walked can be constructed.
template <class Index>
class FastDiv {
public:
    FastDiv() = default;
    explicit FastDiv(int64_t divisor) : divisor_(static_cast<Index>(divisor > 0 ? divisor : 1)) {}
    BK_HD Index divisor() const { return divisor_; }
    BK_HD DivMod<Index> operator()(Index n) const { return {n / divisor_, n % divisor_}; }

private:
    Index divisor_ = 1;
};

// Exact for n and divisor below 2^31.
template <>
class FastDiv<uint32_t> {
public:
    FastDiv() = default;
    explicit FastDiv(int64_t divisor) : divisor_(static_cast<uint32_t>(divisor > 0 ? divisor : 1)) {
        while (shift_ < 32 && (uint64_t{1} << shift_) < divisor_) ++shift_;
        multiplier_ = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift_) - divisor_)) / divisor_ + 1);
    }
    BK_HD uint32_t divisor() const { return divisor_; }
    BK_HD DivMod<uint32_t> operator()(uint32_t n) const {
#if BK_ON_GPU
        const uint32_t high = __umulhi(n, multiplier_);
#else
        const uint32_t high = static_cast<uint32_t>((static_cast<uint64_t>(n) * multiplier_) >> 32);
#endif
        const uint32_t q = (high + n) >> shift_;
        return {q, n - q * divisor_};
    }

private:
    uint32_t divisor_ = 1;
    uint32_t multiplier_ = 1;
    uint32_t shift_ = 0;
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// one_hot: row r has a one at column src[r], else zeros.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/types/complex.h"
#include "core/types/dtype.h"

namespace bk {

template <class T>
bits_t<T> one_bits() {
    return bit_cast<bits_t<T>>(narrow<T>(compute_t<T>(1)));
}
template <>
inline uint8_t one_bits<e4m3>() {
    return 7 << 3;
}
template <>
inline uint8_t one_bits<e5m2>() {
    return 15 << 2;
}
template <>
inline uint64_t one_bits<c32>() {
    return bit_cast<uint32_t>(1.0f);
}
template <>
inline Word16 one_bits<c64>() {
    return {{bit_cast<uint64_t>(1.0), 0}};
}

template <class Bits, class I>
Status one_hot(const Launch& launch, int64_t numel, int32_t classes, const I* src, Bits* out, const Bits& one);

template <class T, class I>
struct OneHot {
    int64_t out_numel;
    int32_t num_classes;

    int64_t rows() const { return num_classes > 0 ? out_numel / num_classes + (out_numel % num_classes != 0) : 0; }
    Work work() const { return all_or_none(out_numel); }
    Status check() const {
        BK_TRY(require_non_negative({{"out_numel", out_numel}}));
        if (out_numel > kMaxOperandBytes / static_cast<int64_t>(sizeof(T)))
            return fail(Status::kInvalidProblem, "out_numel is %lld: out would have more than 2^47 bytes",
                        static_cast<long long>(out_numel));
        if (num_classes < 1) return fail(Status::kInvalidProblem, "num_classes is %d, must be >= 1", num_classes);
        return Status::kOk;
    }
    Status run(const I* src, T* out, const Launch& launch) const {
        return one_hot(launch, out_numel, num_classes, src, reinterpret_cast<bits_t<T>*>(out), one_bits<T>());
    }
};

}  // namespace bk

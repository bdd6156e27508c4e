// SPDX-License-Identifier: Apache-2.0
// Argument checks that ops share. All are host code; each failure names the argument and its value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "core/abi/status.h"
#include "core/platform.h"

namespace bk {

constexpr int kMaxRank = 8;

// Default user address space of any supported machine, and so the limit of an operand's span. Sums of a few such
// values, and products with a rank or an element size, fit 64 bits.
constexpr int64_t kMaxOperandBytes = int64_t{1} << 47;

// Work that a valid problem leaves to run(); only the op's `work()` knows what empty extents mean. kNone: no output has
// elements, run() is not called. kZeros: outputs have elements but inputs contribute none; run() writes zeros and reads
// no input. kAll: everything else.
enum class Work { kNone, kZeros, kAll };

inline Work all_or_none(int64_t elements) { return elements == 0 ? Work::kNone : Work::kAll; }

struct NamedExtent {
    const char* name;
    int64_t value;
};

BK_COLD inline Status require_non_negative(std::initializer_list<NamedExtent> extents) {
    for (const NamedExtent& e : extents)
        if (e.value < 0)
            return fail(Status::kInvalidProblem, "%s is %lld, must be >= 0", e.name, static_cast<long long>(e.value));
    return Status::kOk;
}

BK_COLD inline Status require_rank(int32_t rank) {
    if (rank < 0 || rank > kMaxRank) return fail(Status::kInvalidProblem, "rank is %d, must be in [0, %d]", rank, kMaxRank);
    return Status::kOk;
}

// `array` has `rank` entries >= 0; at rank 0 it may be null.
BK_COLD inline Status require_shape(const char* name, const int32_t* array, int32_t rank) {
    if (array == nullptr && rank > 0) return fail(Status::kInvalidProblem, "%s is NULL", name);
    for (int32_t d = 0; d < rank; ++d)
        if (array[d] < 0) return fail(Status::kInvalidProblem, "%s[%d] is %d, must be >= 0", name, d, array[d]);
    return Status::kOk;
}

}  // namespace bk

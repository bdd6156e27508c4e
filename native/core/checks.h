// Argument checks that ops share. All are host code; each failure names the argument and its value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "core/platform.h"
#include "core/status.h"

namespace bk {

constexpr int kMaxRank = 8;

struct NamedPointer {
    const char* name;
    const void* pointer;
    size_t alignment = 1;
};

struct NamedExtent {
    const char* name;
    int64_t value;
};

BK_COLD inline Status require_pointers(std::initializer_list<NamedPointer> pointers) {
    for (const NamedPointer& p : pointers)
        if (p.pointer == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", p.name);
    return Status::kOk;
}

// Natural alignment, without which no access to the element is defined. Wider accesses are the kernels' own concern.
BK_COLD inline Status require_alignment(std::initializer_list<NamedPointer> pointers) {
    for (const NamedPointer& p : pointers)
        if (reinterpret_cast<uintptr_t>(p.pointer) % p.alignment != 0)
            return fail(Status::kMisaligned, "%s is %p, must be aligned to %zu bytes", p.name, p.pointer, p.alignment);
    return Status::kOk;
}

BK_COLD inline Status require_non_negative(std::initializer_list<NamedExtent> extents) {
    for (const NamedExtent& e : extents)
        if (e.value < 0)
            return fail(Status::kInvalidProblem, "%s is %lld, must be >= 0", e.name, static_cast<long long>(e.value));
    return Status::kOk;
}

// Two outputs may not be one.
BK_COLD inline Status require_different(const char* a_name, const void* a, const char* b_name, const void* b) {
    if (a == b) return fail(Status::kInvalidProblem, "%s and %s are both %p", a_name, b_name, a);
    return Status::kOk;
}

// The same of any number, of which some may be null.
BK_COLD inline Status require_distinct_outputs(std::initializer_list<NamedPointer> outputs) {
    for (const NamedPointer* a = outputs.begin(); a != outputs.end(); ++a)
        for (const NamedPointer* b = a + 1; b != outputs.end(); ++b)
            if (a->pointer != nullptr) BK_TRY(require_different(a->name, a->pointer, b->name, b->pointer));
    return Status::kOk;
}

// A product of extents that may not pass 2^63 - 1.
BK_COLD inline Status require_addressable(const char* what, std::initializer_list<int64_t> extents) {
    int64_t product = 1;
    for (const int64_t e : extents)
        if (e == 0) return Status::kOk;
    for (const int64_t e : extents)
        if (__builtin_mul_overflow(product, e, &product))
            return fail(Status::kInvalidProblem, "%s has more than 2^63 - 1 elements", what);
    return Status::kOk;
}

BK_COLD inline Status require_rank(int32_t rank) {
    if (rank < 0 || rank > kMaxRank) return fail(Status::kInvalidProblem, "rank is %d, must be in [0, %d]", rank, kMaxRank);
    return Status::kOk;
}

// `array` has `rank` entries >= 0.
BK_COLD inline Status require_shape(const char* name, const int32_t* array, int32_t rank) {
    for (int32_t d = 0; d < rank; ++d)
        if (array[d] < 0) return fail(Status::kInvalidProblem, "%s[%d] is %d, must be >= 0", name, d, array[d]);
    return Status::kOk;
}

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Operands of an op: their byte ranges, and the checks of pointers, alignment and overlap. Rules: core/abi/prologue.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "core/abi/checks.h"
#include "core/abi/status.h"
#include "core/platform.h"

namespace bk {

// Bytes [first, end) of an operand, which begin and end with an element of `size` bytes; empty if both are equal.
struct ByteRange {
    uintptr_t first = 0, end = 0;
    int32_t size = 0;
    bool has_gaps = false;
};

enum class Role { kInput, kOptionalInput, kOutput, kOptionalOutput, kUnread };

struct Operand {
    const char* name = nullptr;
    Role role = Role::kInput;
    int64_t size = 0;           // bytes of an element, and its alignment
    int64_t low = 0, high = 0;  // all elements lie in bytes [low, high) from `pointer`
    int64_t origin = 0;         // byte offset of the element with all indices 0
    bool has_gaps = false;      // the range has bytes of no element
    bool is_summed = false;     // stride 0: several indices share an element
    int32_t rank = 0;
    const int32_t* shape = nullptr;
    const int64_t* strides = nullptr;  // null: row-major
    const void* pointer = nullptr;
    unsigned readers = kAnyReader;  // of an input: a bit for each operand that needs it
    unsigned may_be = 0;            // of an output: a bit for each input that it may alias
    int32_t index = 0;              // among the op's operands: the bit in these sets
    int64_t pitch = 0, step = 0;    // of matrices: leading dimension and batch stride, in elements
    NamedExtent columns{};          // set if a matrix that must be NULL has pitch 0 and this many columns

    static constexpr unsigned kAnyReader = ~0u;
    bool may_be_null() const { return role == Role::kOptionalInput || role == Role::kOptionalOutput; }
    bool is_output() const { return role == Role::kOutput || role == Role::kOptionalOutput; }
    bool has_elements() const { return high > low; }
    ByteRange range() const {
        const uintptr_t at = reinterpret_cast<uintptr_t>(pointer);
        return {at + static_cast<uintptr_t>(low), at + static_cast<uintptr_t>(high), static_cast<int32_t>(size), has_gaps};
    }
    uintptr_t first_element() const { return reinterpret_cast<uintptr_t>(pointer) + static_cast<uintptr_t>(origin); }
};

// Bytes of an element of T.
template <class T>
constexpr int64_t size_of() {
    static_assert(sizeof(T) == alignof(T), "an element is aligned to its size");
    return sizeof(T);
}

// A contiguous operand with the given extents.
BK_COLD inline Status locate_dense(Operand* operand, const char* name, Role role, int64_t size,
                                   std::initializer_list<NamedExtent> extents) {
    *operand = {name, role, size};
    int64_t bytes = size;
    const NamedExtent* largest = nullptr;
    bool fits = true;
    for (const NamedExtent& e : extents) {
        if (largest == nullptr || e.value > largest->value) largest = &e;
        if (e.value == 0) return Status::kOk;
        fits = fits && !__builtin_mul_overflow(bytes, e.value, &bytes) && bytes <= kMaxOperandBytes;
    }
    if (!fits)
        return fail(Status::kInvalidProblem, "%s is %lld: %s would have more than 2^47 bytes", largest->name,
                    static_cast<long long>(largest->value), name);
    operand->high = bytes;
    return Status::kOk;
}

// Rows `stride` elements apart; rows of an output must not overlap.
BK_COLD inline Status locate_rows(Operand* operand, const char* name, Role role, int64_t size, NamedExtent rows,
                                  NamedExtent stride, NamedExtent columns) {
    *operand = {name, role, size};
    if (rows.value == 0 || columns.value == 0) return Status::kOk;
    if (operand->is_output() && rows.value > 1 && stride.value < columns.value)
        return fail(Status::kInvalidProblem, "%s is %lld, must be >= %s, %lld: rows of %s would overlap", stride.name,
                    static_cast<long long>(stride.value), columns.name, static_cast<long long>(columns.value), name);
    int64_t span = 0;
    if (__builtin_mul_overflow(rows.value - 1, stride.value, &span) || __builtin_add_overflow(span, columns.value, &span) ||
        span > kMaxOperandBytes / size)
        return fail(Status::kInvalidProblem, "%s is %lld and %s is %lld: %s would span more than 2^47 bytes", rows.name,
                    static_cast<long long>(rows.value), stride.name, static_cast<long long>(stride.value), name);
    operand->high = span * size;
    operand->has_gaps = rows.value > 1 && stride.value > columns.value;
    return Status::kOk;
}

// A strided operand: extents are those of `shape`, each times `repeats` if given.
BK_COLD inline Status locate_strided(Operand* operand, const char* name, Role role, int64_t size, const char* strides_name,
                                     int32_t rank, const int32_t* shape, const int64_t* strides, const int32_t* repeats) {
    *operand = {name, role, size};
    const int64_t most = kMaxOperandBytes / size;
    int64_t low = 0, high = 0, cells = 1;
    bool is_empty = false, fits = true;
    for (int32_t d = 0; d < rank; ++d) {
        const int64_t extent = int64_t{shape[d]} * (repeats == nullptr ? 1 : repeats[d]), stride = strides[d];
        int64_t span = 0;
        if (__builtin_mul_overflow(std::max({extent, int64_t{shape[d]}, int64_t{1}}), stride, &span) || span > most ||
            span < -most)
            return fail(Status::kInvalidProblem,
                        "%s[%d] is %lld: %s would span more than 2^47 bytes along an axis of %lld elements", strides_name, d,
                        static_cast<long long>(stride), name, static_cast<long long>(extent));
        operand->is_summed = operand->is_summed || (stride == 0 && extent > 1);
        if (stride == 0) continue;
        is_empty = is_empty || extent == 0;
        fits = fits && !__builtin_mul_overflow(cells, std::max<int64_t>(extent, 1), &cells) && cells <= most;
        if (extent > 0) (stride < 0 ? low : high) += (extent - 1) * stride;
    }
    operand->rank = rank;
    operand->shape = shape;
    operand->strides = strides;
    if (is_empty) return Status::kOk;
    const int64_t reach = high - low + 1;
    if (!fits || reach > most) return fail(Status::kInvalidProblem, "%s spans more than 2^47 bytes of %s", strides_name, name);
    operand->low = low * size;
    operand->high = (high + 1) * size;
    operand->has_gaps = cells < reach;
    return Status::kOk;
}

// Rows that are themselves of extents columns * inner.
BK_COLD inline Status locate_rows(Operand* operand, const char* name, Role role, int64_t size, NamedExtent rows,
                                  NamedExtent stride, NamedExtent columns, NamedExtent inner) {
    BK_TRY(locate_dense(operand, name, role, size, {columns, inner}));
    const int64_t length = columns.value * inner.value;
    if (operand->is_output() && rows.value > 1 && stride.value < length)
        return fail(Status::kInvalidProblem, "%s is %lld, must be >= %s * %s, %lld: rows of %s would overlap", stride.name,
                    static_cast<long long>(stride.value), columns.name, inner.name, static_cast<long long>(length), name);
    return locate_rows(operand, name, role, size, rows, stride, {columns.name, length});
}

inline bool is_same_memory(const Operand& a, const Operand& b) {
    if (a.pointer != b.pointer || a.size != b.size || a.low != b.low || a.high != b.high || a.rank != b.rank) return false;
    if (a.pitch != b.pitch || a.step != b.step) return false;
    for (int32_t d = 0; d < a.rank; ++d)
        if (a.shape[d] != b.shape[d] || (a.shape[d] > 1 && a.strides[d] != b.strides[d])) return false;
    return true;
}

// Whether `size` bytes at `at` certainly overlap an element of a; with gaps only the first and last element are
// certain.
inline bool surely_contains(const ByteRange& a, uintptr_t at, uintptr_t size) {
    const auto overlaps = [at, size](uintptr_t first, uintptr_t end) { return at < end && at + size > first; };
    const uintptr_t element = static_cast<uintptr_t>(a.size);
    return a.has_gaps ? overlaps(a.first, a.first + element) || overlaps(a.end - element, a.end) : overlaps(a.first, a.end);
}

inline bool contains_end_of(const ByteRange& a, const ByteRange& b) {
    const uintptr_t element = static_cast<uintptr_t>(b.size);
    return surely_contains(a, b.first, element) || surely_contains(a, b.end - element, element);
}

// Whether the ranges prove that two operands share an element; interleaved views may not.
inline bool surely_overlap(const ByteRange& a, const ByteRange& b) { return contains_end_of(a, b) || contains_end_of(b, a); }

inline bool surely_overlap(const Operand& a, const Operand& b) {
    const ByteRange of_a = a.range(), of_b = b.range();
    return surely_overlap(of_a, of_b) || surely_contains(of_a, b.first_element(), static_cast<uintptr_t>(b.size)) ||
           surely_contains(of_b, a.first_element(), static_cast<uintptr_t>(a.size)) || a.first_element() == b.first_element();
}

// Rejects outputs that overlap another operand, except for inputs that they may alias exactly.
BK_COLD inline Status require_no_overlap(const Operand* first, const Operand* last) {
    for (const Operand* out = first; out != last; ++out) {
        if (!out->is_output() || out->pointer == nullptr) continue;
        for (const Operand* other = first; other != last; ++other) {
            if (other->pointer == nullptr || (other->is_output() && other <= out)) continue;
            if (other->is_output() && other->pointer == out->pointer)
                return fail(Status::kInvalidProblem, "%s and %s are both %p", out->name, other->name, out->pointer);
            const bool in_place = (out->may_be >> other->index & 1) != 0 && !out->is_summed && is_same_memory(*out, *other);
            if (!in_place && surely_overlap(*out, *other))
                return fail(Status::kInvalidProblem, "%s overlaps %s: %p and %p", out->name, other->name, out->pointer,
                            other->pointer);
        }
    }
    return Status::kOk;
}

// Checks that operands which the work accesses have aligned pointers and that outputs overlap nothing else. Alignment
// is that of the element; kernels handle wider accesses. An input that names its readers may be null if none is wanted.
BK_COLD inline Status require_pointers(Operand* first, Operand* last, Work work) {
    for (Operand* o = first; o != last; ++o) {
        o->index = static_cast<int32_t>(o - first);
        if (o->columns.value > 0 && o->pointer != nullptr)
            return fail(Status::kInvalidProblem, "%s is %p, but %s is 0, must be >= %lld, the length of a row", o->name,
                        o->pointer, o->columns.name, static_cast<long long>(o->columns.value));
        if (o->readers == Operand::kAnyReader || o->pointer != nullptr || work != Work::kAll || !o->has_elements()) continue;
        for (const Operand* reader = first; reader != last; ++reader)
            if (o->readers >> (reader - first) & 1 && reader->pointer != nullptr)
                return fail(Status::kInvalidProblem, "%s is NULL, but %s reads it", o->name, reader->name);
        o->role = Role::kUnread;
    }
    last = std::remove_if(first, last, [work](const Operand& operand) {
        return !operand.has_elements() || operand.role == Role::kUnread || (work == Work::kZeros && !operand.is_output());
    });
    for (const Operand* o = first; o != last; ++o)
        if (o->pointer == nullptr && !o->may_be_null()) return fail(Status::kInvalidProblem, "%s is NULL", o->name);
    for (const Operand* o = first; o != last; ++o)
        if (reinterpret_cast<uintptr_t>(o->pointer) % static_cast<uintptr_t>(o->size) != 0)
            return fail(Status::kMisaligned, "%s is %p, must be aligned to %lld bytes", o->name, o->pointer,
                        static_cast<long long>(o->size));
    return require_no_overlap(first, last);
}

}  // namespace bk

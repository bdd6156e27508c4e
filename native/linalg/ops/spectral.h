// SPDX-License-Identifier: Apache-2.0
// Operands of the spectral rows, and checks of the reference's functions, whose pitches are those of columns.
#pragma once

#include "linalg/ops/operands.h"
#include "linalg/spectral/view.h"

namespace bk::linalg::spectral {

// A batch with three strides; NULL stays NULL.
template <class E>
View<E> strided(E* base, const int64_t* strides) {
    return base == nullptr ? View<E>{} : View<E>{base, Strides::of(strides)};
}

BK_COLD inline Status require_positive(std::initializer_list<NamedExtent> extents) {
    for (const NamedExtent& e : extents)
        if (e.value <= 0)
            return fail(Status::kInvalidProblem, "%s is %lld, must be > 0", e.name, static_cast<long long>(e.value));
    return Status::kOk;
}

BK_COLD inline Status require_column_pitch(const char* name, int64_t pitch, const char* rows_name, int64_t rows) {
    if (pitch >= rows) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %lld, must be >= %s, %lld", name, static_cast<long long>(pitch), rows_name,
                static_cast<long long>(rows));
}

struct NamedPointer {
    const char* name;
    const void* pointer;
    size_t alignment;
};
BK_COLD inline Status require_arrays(std::initializer_list<NamedPointer> pointers) {
    for (const NamedPointer& p : pointers)
        if (p.pointer == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", p.name);
    for (const NamedPointer& p : pointers)
        if (reinterpret_cast<uintptr_t>(p.pointer) % p.alignment != 0)
            return fail(Status::kMisaligned, "%s is %p, must be aligned to %zu bytes", p.name, p.pointer, p.alignment);
    return Status::kOk;
}

// info of matrices without elements.
inline Status clear_info(const Launch& launch, int32_t* info, int64_t batch) {
    return info == nullptr ? Status::kOk : fill_bytes(launch, info, 0, static_cast<size_t>(batch) * sizeof(int32_t));
}

// Writes a workspace size through the pointer of a query.
BK_COLD inline Status set_size(const char* name, size_t* out, size_t bytes) {
    if (out == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", name);
    *out = bytes;
    return Status::kOk;
}

}  // namespace bk::linalg::spectral

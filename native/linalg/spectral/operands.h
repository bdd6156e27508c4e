// SPDX-License-Identifier: Apache-2.0
// Operands of the spectral rows, and checks of the reference's functions.
#pragma once

#include "core/abi/operand.h"
#include "core/abi/strided_args.h"
#include "linalg/spectral/view.h"

namespace bk::linalg::spectral {

template <class T>
const scalar_t<T>* scalars(const T* a) {
    return reinterpret_cast<const scalar_t<T>*>(a);
}
template <class T>
scalar_t<T>* scalars(T* a) {
    return reinterpret_cast<scalar_t<T>*>(a);
}

// A batch of input matrices with three strides.
struct StridedMatrices {
    int32_t batch, rows, columns;
    const int64_t* strides;

    bool is_empty() const { return batch == 0 || rows == 0 || columns == 0; }
    BK_COLD Status check(const char* name) const {
        return strides == nullptr ? fail(Status::kInvalidProblem, "%s is NULL", name) : Status::kOk;
    }
    BK_COLD Status locate(Operand* operand, const char* name, Role role, int64_t size, const char* strides_name) const {
        const int32_t shape[] = {batch, rows, columns};
        BK_TRY(locate_strided(operand, name, role, size, strides_name, 3, shape, strides, nullptr));
        operand->rank = 0;  // no output is these matrices, so layouts are never compared
        operand->shape = nullptr;
        operand->strides = nullptr;
        return Status::kOk;
    }
};

// A row-major batch of results; NULL stays NULL.
template <class E>
View<E> dense(E* base, int64_t rows, int64_t columns) {
    return {base, {rows * columns, columns, 1}};
}

BK_COLD inline Status require_positive(std::initializer_list<NamedExtent> extents) {
    for (const NamedExtent& e : extents)
        if (e.value <= 0)
            return fail(Status::kInvalidProblem, "%s is %lld, must be > 0", e.name, static_cast<long long>(e.value));
    return Status::kOk;
}

BK_COLD inline Status require_pitch(const char* name, int64_t pitch, const char* rows_name, int64_t rows) {
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

BK_COLD inline Status require_choice(const char* name, int32_t value) {
    if (value == 0 || value == 1) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %d, must be 0 or 1", name, value);
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

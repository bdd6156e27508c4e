// SPDX-License-Identifier: Apache-2.0
// Strided operands of linear algebra: batches of matrices with three strides, of the batch, rows and columns.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/operand.h"
#include "core/abi/require_workspace.h"
#include "core/abi/strided_args.h"
#include "linalg/problem.h"

namespace bk::linalg {

// The scalars of an array in memory.
template <class T>
scalar_t<T>* scalars(T* data) {
    return reinterpret_cast<scalar_t<T>*>(data);
}
template <class T>
const scalar_t<T>* scalars(const T* data) {
    return reinterpret_cast<const scalar_t<T>*>(data);
}

struct StridedMatrices {
    const char* strides_name;
    const int64_t* strides;
    int32_t shape[3];

    bool is_empty() const { return shape[0] == 0 || shape[1] == 0 || shape[2] == 0; }
    BK_COLD Status require(bool is_output) const {
        if (is_empty()) return Status::kOk;
        if (strides == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", strides_name);
        return is_output ? require_distinct({strides_name, strides}, 3, shape) : Status::kOk;
    }
    BK_COLD Status locate(Operand* operand, const char* name, Role role, int64_t size) const {
        *operand = {name, role, size};
        if (is_empty()) {  // strides are bounded even so
            Operand none;
            return strides == nullptr ? Status::kOk
                                      : locate_strided(&none, name, role, size, strides_name, 3, shape, strides, nullptr);
        }
        BK_TRY(locate_strided(operand, name, role, size, strides_name, 3, shape, strides, nullptr));
        // Operands with equal strides of rows and columns, here pitch and step, and with equal ranges have equal strides of the
        // batch too. Strides of extents of 1 do not count.
        operand->pitch = shape[1] > 1 ? strides[1] : 0;
        operand->step = shape[2] > 1 ? strides[2] : 0;
        operand->rank = 0;
        operand->shape = nullptr;
        operand->strides = nullptr;
        return Status::kOk;
    }
};

template <class T>
Matrices<scalar_t<T>> matrices(T* data, const int64_t* strides) {
    return {scalars(data), strides[0], strides[1], strides[2]};
}
template <class T>
Matrices<const scalar_t<T>> matrices(const T* data, const int64_t* strides) {
    return {scalars(data), strides[0], strides[1], strides[2]};
}

// The view through which an upper triangle is a lower one.
template <class S>
Matrices<S> lower_view(const Matrices<S>& a, bool is_upper) {
    return is_upper ? a.transposed() : a;
}

inline size_t carved(int64_t bytes) {
    Carver carver;
    carver.take<char>(bytes);
    return carver.bytes();
}

// The workspace of `bytes`, aligned; status 4 if the caller's is too short.
inline Status take_workspace(const Launch& launch, int64_t bytes, void** workspace) {
    BK_TRY(require_workspace(launch, carved(bytes)));
    *workspace = bytes == 0 ? nullptr : Carver(launch.workspace).take<char>(bytes);
    return Status::kOk;
}

BK_COLD inline Status require_flag(const char* name, int32_t value) {
    if (value == 0 || value == 1) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %d, must be 0 or 1", name, value);
}

}  // namespace bk::linalg

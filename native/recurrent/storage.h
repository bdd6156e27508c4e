// SPDX-License-Identifier: Apache-2.0
// Rows of f32, f16 or bf16, told apart at run time: memory is read and written once, arithmetic is f32, and kernels are not
// compiled for each dtype.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk::recurrent {

enum class RowType : int32_t { kF32, kF16, kBf16 };

template <class T>
constexpr RowType kRowType = std::is_same_v<T, float> ? RowType::kF32
                             : std::is_same_v<T, f16> ? RowType::kF16
                                                      : RowType::kBf16;

// body(pointer) with the pointer's own type.
template <class Body>
BK_HD void with_type(RowType type, const void* data, const Body& body) {
    switch (type) {
        case RowType::kF32: return body(static_cast<const float*>(data));
        case RowType::kF16: return body(static_cast<const f16*>(data));
        case RowType::kBf16: return body(static_cast<const bf16*>(data));
    }
}
template <class Body>
BK_HD void with_type(RowType type, void* data, const Body& body) {
    switch (type) {
        case RowType::kF32: return body(static_cast<float*>(data));
        case RowType::kF16: return body(static_cast<f16*>(data));
        case RowType::kBf16: return body(static_cast<bf16*>(data));
    }
}

BK_HD float load_float(RowType type, const void* data, int64_t i) {
    switch (type) {
        case RowType::kF32: return static_cast<const float*>(data)[i];
        case RowType::kF16: return widen(static_cast<const f16*>(data)[i]);
        case RowType::kBf16: break;
    }
    return widen(static_cast<const bf16*>(data)[i]);
}

BK_HD void store_float(RowType type, void* data, int64_t i, float x) {
    switch (type) {
        case RowType::kF32: static_cast<float*>(data)[i] = x; return;
        case RowType::kF16: static_cast<f16*>(data)[i] = narrow<f16>(x); return;
        case RowType::kBf16: static_cast<bf16*>(data)[i] = narrow<bf16>(x); return;
    }
}

}  // namespace bk::recurrent

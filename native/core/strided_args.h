// Checks and layouts for ops that take a shape and one stride array an operand.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/checks.h"
#include "core/layout.h"

namespace bk {

struct NamedStrides {
    const char* name;
    const int64_t* array;
};

// Of an output: no two indices may name one element, as far as a stride of 0 tells.
BK_COLD inline Status require_distinct(const NamedStrides& strides, int32_t rank, const int32_t* shape) {
    for (int32_t d = 0; d < rank; ++d)
        if (strides.array[d] == 0 && shape[d] > 1)
            return fail(Status::kInvalidProblem, "%s[%d] is 0, but an output has %d elements along that axis", strides.name, d,
                        shape[d]);
    return Status::kOk;
}

// Offsets stay far inside 64 bits, so that sums and products of them cannot overflow.
BK_COLD inline Status require_reach(const NamedStrides& strides, int32_t rank, const int32_t* shape) {
    constexpr int64_t limit = int64_t{1} << 58;
    for (int32_t d = 0; d < rank; ++d) {
        const int64_t steps = shape[d] > 1 ? shape[d] : 1;
        if (strides.array[d] > limit / steps || strides.array[d] < -(limit / steps))
            return fail(Status::kInvalidProblem, "%s[%d] is %lld: an axis of %d elements would span more than 2^58 elements",
                        strides.name, d, static_cast<long long>(strides.array[d]), shape[d]);
    }
    return Status::kOk;
}

// count >= 0, the rank in range, the arrays there (at rank 0 too: the reference ABI wants them), and `count` the product
// of `shape`.
BK_COLD inline Status check_shape(const char* count_name, int64_t count, int32_t rank, const char* shape_name,
                                  const int32_t* shape, std::initializer_list<NamedStrides> inputs,
                                  std::initializer_list<NamedStrides> outputs) {
    BK_TRY(require_non_negative({{count_name, count}}));
    BK_TRY(require_rank(rank));
    if (count == 0) return Status::kOk;
    if (shape == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", shape_name);
    for (const auto& strides : {inputs, outputs})
        for (const NamedStrides& s : strides)
            if (s.array == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", s.name);
    BK_TRY(require_shape(shape_name, shape, rank));
    int64_t product = 1;
    for (int32_t d = 0; d < rank; ++d)
        if (__builtin_mul_overflow(product, static_cast<int64_t>(shape[d]), &product))
            return fail(Status::kInvalidProblem, "%s has more than 2^63 - 1 elements", shape_name);
    if (product != count)
        return fail(Status::kInvalidProblem, "%s is %lld, but %s has %lld elements", count_name, static_cast<long long>(count),
                    shape_name, static_cast<long long>(product));
    for (const auto& strides : {inputs, outputs})
        for (const NamedStrides& s : strides) BK_TRY(require_reach(s, rank, shape));
    for (const NamedStrides& s : outputs) BK_TRY(require_distinct(s, rank, shape));
    return Status::kOk;
}

template <int Operands>
BK_COLD Layout<Operands> make_layout(int32_t rank, const int32_t* shape, const int64_t* const (&strides)[Operands]) {
    Layout<Operands> layout;
    for (int32_t d = 0; d < rank; ++d) {
        int64_t at_axis[Operands];
        for (int k = 0; k < Operands; ++k) at_axis[k] = strides[k][d];
        layout.append(shape[d], at_axis);
    }
    return layout;
}

}  // namespace bk

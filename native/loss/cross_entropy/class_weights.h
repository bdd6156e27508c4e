// SPDX-License-Identifier: Apache-2.0
// Class weights of targets, ignored targets, and the number of losses of an [N, C, d...] input.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk {

// A target is counted unless it is ignored or out of range. As a functor, for sums: the weight of a target, or 0.
template <class C>
struct ClassWeights {
    int64_t classes, ignored;
    const C* weight = nullptr;        // of each class; null: 1
    const double* divisor = nullptr;  // null: 1

    BK_HD bool is_counted(int64_t target) const { return target >= 0 && target < classes && target != ignored; }
    BK_HD C of(int64_t target) const { return weight == nullptr ? C(1) : weight[target]; }
    BK_HD C inverse_divisor() const { return divisor == nullptr ? C(1) : C(1) / static_cast<C>(*divisor); }
    BK_HD double operator()(int64_t target) const { return is_counted(target) ? static_cast<double>(of(target)) : 0.0; }
};

// An input [N, C, d...] has N * inner losses, `inner` being the product of d...; INT64_MAX on overflow.
inline int64_t count_losses(int64_t items, int64_t inner) {
    int64_t num_losses = 0;
    return __builtin_mul_overflow(items, inner, &num_losses) ? INT64_MAX : num_losses;
}

}  // namespace bk

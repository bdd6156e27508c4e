// Classes of items: weights of the classes, and how many terms there are.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk {

// Whether a target counts, and with which weight.
template <class C>
struct ClassWeights {
    int64_t classes, ignored;
    const C* weight = nullptr;        // of each class; null: 1
    const double* divisor = nullptr;  // null: 1

    BK_HD bool counts(int64_t target) const { return target >= 0 && target < classes && target != ignored; }
    BK_HD C of(int64_t target) const { return weight == nullptr ? C(1) : weight[target]; }
    BK_HD C share() const { return divisor == nullptr ? C(1) : C(1) / static_cast<C>(*divisor); }
    BK_HD double operator()(int64_t target) const { return counts(target) ? static_cast<double>(of(target)) : 0.0; }
};

// Items of class_extent elements for each of inner_extent places, which lie side by side: [N, C, d...]. There is a term for
// each place of each item.
inline int64_t terms_of_items(int64_t items, int64_t inner) {
    int64_t terms = 0;
    return __builtin_mul_overflow(items, inner, &terms) ? INT64_MAX : terms;
}

}  // namespace bk

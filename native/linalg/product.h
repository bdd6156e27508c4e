// SPDX-License-Identifier: Apache-2.0
// Products of strided matrices of any scalar, in any layout: the updates of blocked factorisations. Sums go in the order of k,
// in tiles whose size does not depend on the batch.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "linalg/matrix.h"

namespace bk::linalg {

// c = c - a b, or without `subtracts` c = a b, for a of m x k and b of k x n. Of a lower c only elements (i, j) with i >= j
// are written.
template <class S>
struct ProductProblem {
    int64_t batch, m, n, k;
    Matrices<const S> a, b;
    Matrices<S> c;
    bool conjugates_a, conjugates_b;
    bool subtracts;
    bool is_lower;
};

template <class S>
Status product(const Launch& launch, const ProductProblem<S>& p);

}  // namespace bk::linalg

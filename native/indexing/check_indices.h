// SPDX-License-Identifier: Apache-2.0
// Reports the first index that is out of bounds, and the first that is smaller than its predecessor.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/strided_args.h"

namespace bk {

// The rule for a valid index: in [0, bound), or equal to `other` if has_other. Positions are row-major in the shape.
struct IndexRule {
    int64_t bound, other;
    bool has_other, is_sorted;

    template <class I>
    BK_HD bool is_outside(I index) const {
        const int64_t value = static_cast<int64_t>(index);
        return (value < 0 || value >= bound) && !(has_other && value == other);
    }
};

// Writes (position, index) of each fault; all bits set for none. Positions are compared as unsigned.
template <class I>
Status find_faults(const Launch& launch, const Layout<1>& layout, const IndexRule& rule, const I* indices, int64_t* report);

template <class I>
struct CheckIndices {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_indices;
    int64_t bound;
    int64_t other;
    int32_t has_other;
    int32_t is_sorted;

    Work work() const { return Work::kAll; }  // without indices the report is that nothing is wrong
    Status check() const { return check_shape("numel", numel, rank, "shape", shape, {{"stride_indices", stride_indices}}, {}); }
    Status run(const I* indices, int64_t* report, const Launch& launch) const {
        const IndexRule rule{bound, other, has_other != 0, is_sorted != 0};
        return find_faults(launch, make_layout<1>(rank, shape, {stride_indices}), rule, indices, report);
    }
};

}  // namespace bk

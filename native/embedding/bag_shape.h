// SPDX-License-Identifier: Apache-2.0
// Extents of the embedding bag ops, shared by forward and backward.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/platform.h"
#include "core/segmented/reduce_ops.h"

namespace bk {

enum class BagMode : int32_t { kSum = 0, kMean = 1 };

// The row index where there is none, as a pointwise functor.
struct NoRowIndex {
    BK_HD int32_t operator()() const { return -1; }
};

struct BagShape {
    int32_t total_indices, num_embeddings, embedding_dim, num_bags, mode;
    int64_t padding_idx;
    bool has_last_offset = false;  // offsets has one more entry, the end of the last bag
    bool is_by_frequency = false;  // row gradients are divided by how often indices name the row

    Status check() const {
        BK_TRY(require_non_negative({{"total_indices", total_indices},
                                     {"num_embeddings", num_embeddings},
                                     {"embedding_dim", embedding_dim},
                                     {"num_bags", num_bags}}));
        if (mode != static_cast<int32_t>(BagMode::kSum) && mode != static_cast<int32_t>(BagMode::kMean))
            return fail(Status::kUnsupported, "mode is %d, must be 0 (sum) or 1 (mean)", mode);
        return Status::kOk;
    }

    BK_HD bool is_mean() const { return mode == static_cast<int32_t>(BagMode::kMean); }

    BK_HD bool keeps(int64_t index) const { return index >= 0 && index < num_embeddings && index != padding_idx; }

    // Positions [first, last) of bag b. Offsets are clamped to [0, total_indices], so that none reaches foreign memory.
    // Null offsets: each index is a bag.
    struct Range {
        int32_t first, last;
    };
    // The end of the last bag, clamped to the indices.
    BK_HD int64_t end(IdArray offsets) const {
        return has_last_offset && offsets[num_bags] < total_indices ? offsets[num_bags] : total_indices;
    }
    // Whether position k is in a bag; offsets are sorted.
    BK_HD bool is_in_bag(IdArray offsets, int64_t k) const {
        return offsets.ids == nullptr || (offsets[0] <= k && k < end(offsets));
    }
    BK_HD Range bag(IdArray offsets, int64_t b) const {
        if (offsets.ids == nullptr) return {static_cast<int32_t>(b), static_cast<int32_t>(b + 1)};
        const int64_t first = offsets[b], last = b + 1 < num_bags || has_last_offset ? offsets[b + 1] : total_indices;
        const int64_t low = first < 0 ? 0 : first > total_indices ? total_indices : first;
        const int64_t high = last > total_indices ? total_indices : last;
        return {static_cast<int32_t>(low), static_cast<int32_t>(high > low ? high : low)};
    }
    // The number of bags that begin at or before position k; offsets are sorted.
    BK_HD int64_t bags_until(IdArray offsets, int64_t k) const {
        int64_t low = 0, high = num_bags;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (offsets[middle] <= k)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }
};

}  // namespace bk

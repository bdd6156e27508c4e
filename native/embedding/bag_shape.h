// Extents of the embedding bag ops and what both directions share.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/platform.h"

namespace bk {

enum class BagMode : int32_t { kSum = 0, kMean = 1 };

struct BagShape {
    int32_t total_indices, num_embeddings, embedding_dim, num_bags, mode;
    int64_t padding_idx;
    bool has_last_offset = false;  // offsets has one more entry, where the last bag ends

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

    // Positions [first, last) of bag b. Offsets outside [0, total_indices] are clamped: they may not reach foreign memory.
    struct Range {
        int32_t first, last;
    };
    // Where the last bag ends, within the indices.
    BK_HD int64_t end(const int32_t* offsets) const {
        return has_last_offset && offsets[num_bags] < total_indices ? offsets[num_bags] : total_indices;
    }
    BK_HD Range bag(const int32_t* offsets, int64_t b) const {
        const int32_t first = offsets[b], last = b + 1 < num_bags || has_last_offset ? offsets[b + 1] : total_indices;
        const int32_t low = first < 0 ? 0 : first, high = last > total_indices ? total_indices : last;
        return {low, high > low ? high : low};
    }
};

}  // namespace bk

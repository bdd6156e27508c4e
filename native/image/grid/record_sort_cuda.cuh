// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/segmented/sort_pairs.h"
#include "image/grid/record_sort.h"

namespace bk::image {

inline SortBuffers buffers_of(const RecordSort& sort) {
    return {{sort.key, sort.other[0]}, {sort.value, sort.other[1]}, sort.scratch, sort.scratch_bytes};
}

inline RecordSort RecordSort::carve(Carver* carver, int64_t images, int64_t records, int64_t keys) {
    RecordSort sort{images, records, keys, nullptr, nullptr, nullptr, nullptr};
    const SortBuffers buffers = carve_sort(carver, images * records, static_cast<uint32_t>(keys));
    sort.key = buffers.keys[0];
    sort.value = buffers.values[0];
    sort.other[0] = buffers.keys[1];
    sort.other[1] = buffers.values[1];
    sort.scratch = buffers.scratch;
    sort.scratch_bytes = buffers.scratch_bytes;
    sort.start = carver->take<uint32_t>(keys + 1);
    return sort;
}

// The number of sorted keys below each key.
struct KeyStartJob {
    const uint32_t* sorted;
    uint32_t* start;
    int64_t count;

    BK_HD void operator()(int64_t key) const {
        int64_t low = 0, high = count;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (sorted[middle] < key)
                low = middle + 1;
            else
                high = middle;
        }
        start[key] = static_cast<uint32_t>(low);
    }
};

inline Status RecordSort::sort(const Launch& launch) {
    SortBuffers buffers = buffers_of(*this);
    BK_TRY(sort_pairs(launch, &buffers, images * records, static_cast<uint32_t>(keys)));
    sorted = buffers.values[0];
    return run_items(launch, keys + 1, 128, KeyStartJob{buffers.keys[0], start, images * records});
}

}  // namespace bk::image

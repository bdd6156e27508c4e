// SPDX-License-Identifier: Apache-2.0
// Counting sort, each image by one thread: its records have the keys of its share.
#pragma once

#include <cstdint>

#include "core/abi/launch_cpu.h"
#include "image/grid/record_sort.h"

namespace bk::image {

inline RecordSort RecordSort::carve(Carver* carver, int64_t images, int64_t records, int64_t keys) {
    RecordSort sort{images, records, keys, nullptr, nullptr, nullptr, nullptr};
    sort.key = carver->take<uint32_t>(images * records);
    sort.value = carver->take<uint32_t>(images * records);
    sort.start = carver->take<uint32_t>(keys + 1);
    sort.other[0] = carver->take<uint32_t>(images * records);
    sort.other[1] = carver->take<uint32_t>(images);
    sort.sorted = sort.other[0];
    return sort;
}

inline Status RecordSort::sort(const Launch&) {
    const int64_t own_keys = keys / images;
    // start[k + 1] counts the records of key k, and other[1] those of each image.
    split_ranges(images, 1, [&](int64_t begin, int64_t end) {
        for (int64_t image = begin; image < end; ++image) {
            uint32_t* const count = start + image * own_keys + 1;
            for (int64_t k = 0; k < own_keys; ++k) count[k] = 0;
            uint32_t all = 0;
            for (int64_t r = image * records; r < (image + 1) * records; ++r) {
                if (key[r] >= keys) continue;
                ++start[key[r] + 1];
                ++all;
            }
            other[1][image] = all;
        }
    });
    start[0] = 0;
    uint32_t before = 0;
    for (int64_t image = 0; image < images; ++image) {
        const uint32_t own = other[1][image];
        other[1][image] = before;
        before += own;
    }
    split_ranges(images, 1, [&](int64_t begin, int64_t end) {
        for (int64_t image = begin; image < end; ++image) {
            // While records are placed start[k + 1] is the next slot of key k; afterwards it is the end of key k.
            uint32_t next = other[1][image];
            for (int64_t k = image * own_keys; k < (image + 1) * own_keys; ++k) {
                const uint32_t own = start[k + 1];
                start[k + 1] = next;
                next += own;
            }
            for (int64_t r = image * records; r < (image + 1) * records; ++r)
                if (key[r] < keys) other[0][start[key[r] + 1]++] = value[r];
        }
    });
    return Status::kOk;
}

}  // namespace bk::image

// SPDX-License-Identifier: Apache-2.0
// Records sorted by a key, stably, with the first record of each key: a radix sort on a GPU, a counting sort on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/collectives/items.h"

namespace bk::image {

// `images` equal shares of records, whose keys are those of the image or `keys`, which is no key. The caller fills key and
// value.
struct RecordSort {
    int64_t images, records, keys;  // records of an image; keys of all images
    uint32_t* key;
    uint32_t* value;
    uint32_t* start;  // keys + 1: after sort(), records start[k] to start[k + 1] of `sorted` have key k
    const uint32_t* sorted;

    static RecordSort carve(Carver* carver, int64_t images, int64_t records, int64_t keys);
    Status sort(const Launch& launch);

    void* scratch = nullptr;  // of the target
    uint32_t* other[2] = {};
    size_t scratch_bytes = 0;
};

}  // namespace bk::image

#if BK_CUDA
#include "image/grid/record_sort_cuda.cuh"
#else
#include "image/grid/record_sort_cpu.h"
#endif

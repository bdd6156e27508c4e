// SPDX-License-Identifier: Apache-2.0
// Threads stride over the positions; atomicMin keeps the first fault, whose index is looked up at the end.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/row/row_map.h"
#include "indexing/check_indices.h"

namespace bk {

constexpr int kCheckThreads = 256;
constexpr int64_t kCheckBlocks = 1056;

template <class I>
__global__ void __launch_bounds__(kCheckThreads)
    find_faults_kernel(const I* indices, Walk<1, uint64_t> walk, int64_t numel, IndexRule rule, unsigned long long* report) {
    const int64_t step = int64_t{gridDim.x} * kCheckThreads;
    bool seeks_outside = true, seeks_decrease = rule.is_sorted;  // only a thread's first finding matters
    const auto at = [&](int64_t i) { return indices[signed_offset(walk(static_cast<uint64_t>(i)).of[0])]; };
    for (int64_t i = int64_t{blockIdx.x} * kCheckThreads + threadIdx.x; i < numel && (seeks_outside || seeks_decrease);
         i += step) {
        const I index = at(i);
        if (seeks_outside && rule.is_outside(index)) {
            atomicMin(report, static_cast<unsigned long long>(i));
            seeks_outside = false;
        }
        if (seeks_decrease && i > 0 && index < at(i - 1)) {
            atomicMin(report + 2, static_cast<unsigned long long>(i));
            seeks_decrease = false;
        }
    }
}

template <class I>
__global__ void look_up_faults_kernel(const I* indices, Walk<1, uint64_t> walk, int64_t* report) {
    for (int fault = 0; fault < 4; fault += 2)
        if (report[fault] >= 0)
            report[fault + 1] = static_cast<int64_t>(indices[signed_offset(walk(static_cast<uint64_t>(report[fault])).of[0])]);
}

template <class I>
Status find_faults(const Launch& launch, const Layout<1>& layout, const IndexRule& rule, const I* indices, int64_t* report) {
    BK_TRY(fill_bytes(launch, report, 0xff, 4 * sizeof(int64_t)));
    const int64_t numel = layout.numel();
    if (numel == 0) return Status::kOk;
    const Walk<1, uint64_t> walk(merge_axes(layout));
    const int64_t blocks = std::min(kCheckBlocks, ceil_div<int64_t>(numel, kCheckThreads));
    BK_TRY(launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kCheckThreads)}, find_faults_kernel<I>, indices,
                         walk, numel, rule, reinterpret_cast<unsigned long long*>(report)));
    return launch_kernel(launch, Grid{dim3(1), dim3(1)}, look_up_faults_kernel<I>, indices, walk, report);
}

}  // namespace bk

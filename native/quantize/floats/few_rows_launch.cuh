// SPDX-License-Identifier: Apache-2.0
// Launches of the kernel of few_rows_cuda.cuh.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/active_clusters.h"
#include "core/abi/launch.h"
#include "core/intrinsics/cluster.cuh"
#include "core/types/vec.h"
#include "quantize/floats/few_rows_cuda.cuh"

namespace bk::floats {

inline FewRowsSplit few_rows_slices(int64_t k) {
    FewRowsSplit split{1, 1, 0, kFewStageK, false};
    if (k == 0) return split;
    const int64_t slices = kFewSlices * ceil_div(k, kFewSlices * kFewSliceK);
    split.length = static_cast<int32_t>(ceil_div(ceil_div(k, slices), int64_t{kFewStageK}) * kFewStageK);
    split.slices = static_cast<int32_t>(ceil_div(k, int64_t{split.length}));
    return split;
}

// The largest clusters that reach 32 of 33 SMs, since GPCs may have SMs to spare: 128 SMs share 4096 rows evenly. One answer
// for all numbers of rows, so that a sum's order does not depend on them.
template <FewRowsLayout kLayout>
FewRowsSplit few_rows_clusters(FewRowsSplit split) {
    static uint32_t known;  // of one chip, by its number of SMs
    split.clusters = static_cast<int32_t>(device_sms());
    if (most_cluster_blocks() < kFewSlices) return split;
    const uint32_t sms = static_cast<uint32_t>(device_sms()), found = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (found >> 20 == sms) {
        split.cluster = static_cast<int32_t>(found >> 12 & 255u);
        split.clusters = static_cast<int32_t>(found & 4095u);
        return split;
    }
    for (int size = kFewSlices; size > 1; size /= 2) {
        using Shape = FewRowsShape<kLayout, 1>;
        Grid grid{dim3(static_cast<unsigned>(size)), dim3(Shape::kThreads)};
        grid.cluster = static_cast<unsigned>(size);
        grid.shared = static_cast<unsigned>(Shape::shared({1, 1, kFewSlices, kFewSliceK, false}));
        const int clusters = active_clusters(grid, few_rows_kernel<kLayout, 1>);
        if (clusters * size * 33 < device_sms() * 32) continue;
        split.cluster = size;
        split.clusters = clusters;
        break;
    }
    const uint32_t now = sms << 20 | static_cast<uint32_t>(split.cluster) << 12 | static_cast<uint32_t>(split.clusters);
    __atomic_store_n(&known, now, __ATOMIC_RELAXED);
    return split;
}

template <FewRowsLayout kLayout, int kColumnBlocks>
Status launch_few_rows(const Launch& launch, const FewRows& p, FewRowsSplit split) {
    using Shape = FewRowsShape<kLayout, kColumnBlocks>;
    const int64_t units = ceil_div(ceil_div<int64_t>(p.n, 16), int64_t{Shape::kTiles});
    split.clusters = static_cast<int32_t>(std::min<int64_t>(split.clusters, units));
    split.is_vector = is_aligned(p.x, 16);
    Grid grid{dim3(static_cast<unsigned>(split.clusters * split.cluster)), dim3(Shape::kThreads)};
    grid.cluster = static_cast<unsigned>(split.cluster);
    grid.shared = static_cast<unsigned>(Shape::shared(split));
    return launch_kernel(launch, grid, few_rows_kernel<kLayout, kColumnBlocks>, p, split);
}

template <FewRowsLayout kLayout>
Status few_rows_of(const Launch& launch, const FewRows& p) {
    const FewRowsSplit split = few_rows_clusters<kLayout>(few_rows_slices(p.k));
    const auto fits = [&](int bytes) { return has_shared(bytes); };
    const int64_t most = fits(FewRowsShape<kLayout, 4>::shared(split))   ? 32
                         : fits(FewRowsShape<kLayout, 2>::shared(split)) ? 16
                                                                         : 8;
    for (int64_t first = 0; first < p.m; first += most) {
        FewRows part = p;
        part.m = std::min(p.m - first, most);
        part.x = static_cast<const uint16_t*>(p.x) + first * p.k;
        part.y = static_cast<uint16_t*>(p.y) + first * p.n;
        BK_TRY(part.m <= 8    ? (launch_few_rows<kLayout, 1>(launch, part, split))
               : part.m <= 16 ? (launch_few_rows<kLayout, 2>(launch, part, split))
                              : (launch_few_rows<kLayout, 4>(launch, part, split)));
    }
    return Status::kOk;
}

}  // namespace bk::floats

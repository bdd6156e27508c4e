// SPDX-License-Identifier: Apache-2.0
// Gradient of the images of grid_sample, as a sum over sorted records.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "image/grid/grid_sample.h"
#include "image/grid/record_sort.h"

namespace bk::image {

constexpr int64_t kMostRecords = int64_t{1} << 26;  // images share a sort up to this many records
constexpr int64_t kRecordLimit = (int64_t{1} << 31) - 1;

// Images of one sort.
inline int64_t images_at_once(const GridProblem& problem) {
    const int64_t each = std::max(problem.points() * problem.taps(), problem.cells());
    return std::clamp<int64_t>(kMostRecords / std::max<int64_t>(each, 1), 1, std::max<int64_t>(problem.x.extent[0], 1));
}

inline Status require_records(const GridProblem& problem) {
    const int64_t records = problem.points() * problem.taps();
    if (records > kRecordLimit || problem.cells() > kRecordLimit)
        return fail(Status::kUnsupported, "images of %lld elements at %lld positions are too large: at most 2^31 - 1 in all",
                    static_cast<long long>(problem.cells()), static_cast<long long>(records));
    return Status::kOk;
}

// Key and weight of each record: tap of a point. Taps outside of the image, or without weight, have no key.
template <class T>
struct RecordJob {
    using C = compute_t<T>;
    PointReader<T> points;
    int64_t first_point, points_of_image, taps, cells, keys;
    uint32_t* key;
    uint32_t* value;
    C* weight;

    BK_HD void operator()(int64_t record) const {
        const int64_t local = record / taps;
        int tap = static_cast<int>(record % taps);
        AxisPoint<C> at[3];
        points.read(first_point + local, at);
        const int each = points.options.taps();
        const int i = tap % each, j = tap / each % each, k = tap / (each * each);
        int64_t found = keys;
        C w = C(0);
        if (i < at[2].count && j < at[1].count && k < at[0].count) {
            const int64_t z = at[0].index(k), row = at[1].index(j), column = at[2].index(i);
            w = at[0].weight(k) * at[1].weight(j) * at[2].weight(i);
            if (z >= 0 && row >= 0 && column >= 0 && w != C(0))
                found = local / points_of_image * cells + (z * points.extent[1] + row) * points.extent[2] + column;
        }
        key[record] = static_cast<uint32_t>(found);
        value[record] = static_cast<uint32_t>(record);
        weight[record] = w;
    }
};

// dx of an element and a group of channels: the sum over its records.
template <class T>
struct RecordSumJob {
    using C = compute_t<T>;
    const T* dy;
    T* dx;
    OutputItems items;
    int64_t extent_x[3], extent_y[3], stride_x[5], stride_y[5];
    const uint32_t* start;
    const uint32_t* sorted;
    const C* weight;
    int64_t taps, points_of_image;
    bool accumulates;

    BK_HD void operator()(int64_t item) const {
        int64_t own[5];
        items.indices(item, own);
        const int64_t channel = items.channels.first(own[1]);
        const int lanes = items.channels.lanes(own[1]);
        const int64_t step_x = items.channels.step() * stride_x[1], step_y = items.channels.step() * stride_y[1];
        const int64_t cell = ((own[0] * extent_x[0] + own[2]) * extent_x[1] + own[3]) * extent_x[2] + own[4];
        const T* const image = dy + own[0] * stride_y[0] + channel * stride_y[1];
        C sum[kItemLanes] = {};
        const uint32_t end = start[cell + 1];
        for (uint32_t r = start[cell]; r < end; ++r) {
            const uint32_t record = sorted[r];
            int64_t point = record / taps - own[0] * points_of_image;
            const int64_t x = point % extent_y[2];
            point /= extent_y[2];
            add_lanes(sum, lanes, weight[record],
                      image + point / extent_y[1] * stride_y[2] + point % extent_y[1] * stride_y[3] + x * stride_y[4], step_y);
        }
        T* const to = dx + own[0] * stride_x[0] + channel * stride_x[1] + own[2] * stride_x[2] + own[3] * stride_x[3] +
                      own[4] * stride_x[4];
        if (accumulates)
            for_lanes(lanes, [&](int lane) { to[lane * step_x] = narrow<T>(widen(to[lane * step_x]) + sum[lane]); });
        else
            for_lanes(lanes, [&](int lane) { to[lane * step_x] = narrow<T>(sum[lane]); });
    }
};

template <class C>
struct RecordMemory {
    RecordSort sort;
    C* weight;

    static RecordMemory carve(Carver* carver, const GridProblem& problem, int64_t images) {
        const int64_t records = problem.points() * problem.taps();
        RecordMemory memory{RecordSort::carve(carver, images, records, images * problem.cells()), nullptr};
        memory.weight = carver->take<C>(images * records);
        return memory;
    }
};

template <class T>
size_t image_gradient_workspace(const GridProblem& problem) {
    if (problem.points() * problem.taps() > kRecordLimit || problem.cells() > kRecordLimit) return 0;
    Carver carver;
    RecordMemory<compute_t<T>>::carve(&carver, problem, images_at_once(problem));
    return carver.bytes();
}

template <class T>
Status image_gradient(const Launch& launch, const GridProblem& problem, bool accumulates, const T* dy, const T* grid, T* dx) {
#if !BK_CUDA
    if constexpr (std::is_same_v<T, compute_t<T>>) {
        const SamplePoints<T> points = SamplePoints<T>::of(problem, grid);
        if (points.serves() && !accumulates) return points.scatter(dy, dx);
    }
#endif
    const int64_t most = images_at_once(problem), images = problem.x.extent[0];
    for (int64_t first = 0; first < images; first += most) {
        const int64_t count = std::min(most, images - first), records = problem.points() * problem.taps();
        Carver carver(launch.workspace);
        RecordMemory<compute_t<T>> memory = RecordMemory<compute_t<T>>::carve(&carver, problem, count);
        RecordJob<T> fill{};
        fill.points = PointReader<T>::of(problem, grid);
        fill.first_point = first * problem.points();
        fill.points_of_image = problem.points();
        fill.taps = problem.taps();
        fill.cells = problem.cells();
        fill.keys = count * problem.cells();
        fill.key = memory.sort.key;
        fill.value = memory.sort.value;
        fill.weight = memory.weight;
        BK_TRY(run_items(launch, count * records, 64, fill));
        BK_TRY(memory.sort.sort(launch));
        RecordSumJob<T> sum{};
        ImageLayout layout = problem.x;
        layout.extent[0] = count;
        sum.items = OutputItems::of(layout);
        sum.dy = dy + first * problem.y.stride[0];
        sum.dx = dx + first * problem.x.stride[0];
        for (int d = 0; d < 3; ++d) {
            sum.extent_x[d] = problem.x.extent[2 + d];
            sum.extent_y[d] = problem.y.extent[2 + d];
        }
        copy_strides(problem.x, sum.stride_x);
        copy_strides(problem.y, sum.stride_y);
        sum.start = memory.sort.start;
        sum.sorted = memory.sort.sorted;
        sum.weight = memory.weight;
        sum.taps = problem.taps();
        sum.points_of_image = problem.points();
        sum.accumulates = accumulates;
        const int64_t bytes =
            kItemLanes * static_cast<int64_t>(sizeof(T)) * (2 + records / std::max<int64_t>(problem.cells(), 1));
        BK_TRY(run_items(launch, sum.items.split.items, bytes, sum));
    }
    return Status::kOk;
}

}  // namespace bk::image

#if BK_CUDA
#include "image/grid/scatter_gradient_cuda.cuh"
#else
#include "image/grid/scatter_gradient_cpu.h"
#endif

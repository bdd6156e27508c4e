// SPDX-License-Identifier: Apache-2.0
// Intersection over union of boxes (x1, y1, x2, y2), and its table for two lists.
//
// Sides are x2 - x1, without a pixel more. Where the union is not positive the ratio is 0; with NaN it is NaN.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/collectives/team.h"
#include "core/math/math.h"
#include "core/types/dtype.h"

namespace bk::boxes {

template <class C>
struct Box {
    C x1, y1, x2, y2, area;
};

template <class T, class C = compute_t<T>>
BK_HD Box<C> box_of(const T* at) {
    const C x1 = widen(at[0]), y1 = widen(at[1]), x2 = widen(at[2]), y2 = widen(at[3]);
    return {x1, y1, x2, y2, math::product(x2 - x1, y2 - y1)};
}

// Symmetric in its arguments, bit by bit.
template <class C>
BK_HD C overlap(const Box<C>& a, const Box<C>& b) {
    const C left = a.x1 > b.x1 ? a.x1 : b.x1, top = a.y1 > b.y1 ? a.y1 : b.y1;
    const C right = a.x2 < b.x2 ? a.x2 : b.x2, bottom = a.y2 < b.y2 ? a.y2 : b.y2;
    const C width = right - left, height = bottom - top;
    const C common = width > C(0) && height > C(0) ? math::product(width, height) : C(0);
    const C joint = (a.area + b.area) - common;
    return joint > C(0) ? common / joint : joint <= C(0) ? C(0) : joint;
}

template <class T>
struct BoxIouJob {
    using C = compute_t<T>;
    static constexpr int64_t kColumns = 1024;
    int64_t columns, tiles;  // of a row
    const T *boxes1, *boxes2;
    T* iou;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t row = item / tiles, begin = item % tiles * kColumns;
        const int64_t end = begin + kColumns < columns ? begin + kColumns : columns;
        const Box<C> own = box_of(boxes1 + 4 * row);
        for (int64_t k = begin + team.rank; k < end; k += team.size)
            iou[row * columns + k] = narrow<T>(overlap(own, box_of(boxes2 + 4 * k)));
    }
};

template <class T>
struct BoxIou {
    int32_t rows, columns;

    Work work() const { return all_or_none(int64_t{rows} * columns); }
    Status check() const { return require_non_negative({{"rows", rows}, {"columns", columns}}); }
    Status run(const T* boxes1, const T* boxes2, T* iou, const Launch& launch) const {
        const int64_t tiles = ceil_div<int64_t>(columns, BoxIouJob<T>::kColumns);
        const BoxIouJob<T> job{columns, tiles, boxes1, boxes2, iou};
        return run_teams(launch, rows * tiles, int64_t{columns} * 20, job);
    }
};

}  // namespace bk::boxes

// SPDX-License-Identifier: Apache-2.0
// Suppression on the CPU: each box against the kept ones of its class, which are stored by coordinate so that compilers
// vectorise the test.
#pragma once

#include <algorithm>

#include "core/abi/launch_cpu.h"
#include "image/boxes/nms.h"

namespace bk::boxes {

template <class C>
struct NmsScratch {
    static constexpr int64_t kLanes = 32;
    C* kept[5];         // x1, y1, x2, y2 and area of kept boxes of a class
    int32_t* by_class;  // positions, class by class
    uint8_t* is_kept;   // by position, if there are classes

    static NmsScratch carve(Carver* carver, int64_t count, bool has_classes) {
        NmsScratch made{};
        for (C*& field : made.kept) field = carver->take<C>(ceil_div(count, kLanes) * kLanes);
        made.is_kept = carver->take<uint8_t>(count);
        if (has_classes) made.by_class = carver->take<int32_t>(count);
        return made;
    }

    Box<C> at(int64_t k) const { return {kept[0][k], kept[1][k], kept[2][k], kept[3][k], kept[4][k]}; }
    void put(int64_t k, const Box<C>& box) const {
        const C fields[] = {box.x1, box.y1, box.x2, box.y2, box.area};
        for (int f = 0; f < 5; ++f) kept[f][k] = fields[f];
    }
    bool is_suppressed(const Box<C>& box, int64_t count, C threshold) const {
        int64_t k = 0;
        for (; k + kLanes <= count; k += kLanes) {
            int hits = 0;
            for (int64_t lane = 0; lane < kLanes; ++lane) hits |= overlap(at(k + lane), box) > threshold ? 1 : 0;
            if (hits != 0) return true;
        }
        for (; k < count; ++k)
            if (overlap(at(k), box) > threshold) return true;
        return false;
    }
};

template <class C>
Status suppress(const Launch&, const SortedBoxes<C>& boxes, const NmsScratch<C>& scratch) {
    dispatch_range(
        [&](int64_t, int64_t) {
            if (boxes.group != nullptr) {
                for (int64_t k = 0; k < boxes.count; ++k) scratch.by_class[k] = static_cast<int32_t>(k);
                std::sort(scratch.by_class, scratch.by_class + boxes.count, [&](int32_t a, int32_t b) {
                    return boxes.group[a] != boxes.group[b] ? boxes.group[a] < boxes.group[b] : a < b;
                });
            }
            int64_t count = 0;
            for (int64_t k = 0; k < boxes.count; ++k) {
                const int64_t at = boxes.group == nullptr ? k : scratch.by_class[k];
                if (boxes.group != nullptr && k > 0 && boxes.group[at] != boxes.group[scratch.by_class[k - 1]]) count = 0;
                const bool is_kept = !scratch.is_suppressed(boxes.box[at], count, boxes.threshold);
                scratch.is_kept[at] = is_kept ? 1 : 0;
                if (is_kept) scratch.put(count++, boxes.box[at]);
            }
        },
        0, 1);
    int32_t rank = 0;
    for (int64_t at = 0; at < boxes.count; ++at)
        if (scratch.is_kept[at] != 0) boxes.store(at, rank++);
    *boxes.kept = rank;
    return Status::kOk;
}

template <class T>
Status suppress_in_place(const Launch&, int64_t count, compute_t<T> threshold, const T* boxes, uint8_t* keep, int32_t* kept) {
    std::fill_n(keep, count, uint8_t{1});
    for (int64_t i = 0; i < count; ++i) {
        if (keep[i] == 0) continue;
        ++*kept;
        const auto own = box_of(boxes + 4 * i);
        for (int64_t j = i + 1; j < count; ++j)
            if (keep[j] != 0 && overlap(own, box_of(boxes + 4 * j)) > threshold) keep[j] = 0;
    }
    return Status::kOk;
}

}  // namespace bk::boxes

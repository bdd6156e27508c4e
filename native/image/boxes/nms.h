// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression: of boxes in falling order of scores each is kept unless a kept one of its class overlaps it by more
// than the threshold.
//
// GPU: panels of kPanel boxes. Of a panel, a bit matrix has the pairs that overlap (as in torchvision's op), one block decides
// in order which boxes stay, and then all later boxes are tested with those of the panel at once. The number of launches
// follows from the number of boxes, so that nothing is read by the host. CPU: each box against the kept ones of its class.
//
// Scores of one value keep their order, and NaN is above all, as in a stable falling sort. A box with NaN neither suppresses
// nor is suppressed.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/sort/sort_rows.h"
#include "image/boxes/overlap.h"

namespace bk::boxes {

constexpr int64_t kPanel = 1024;

// Boxes in falling order, and where the kept ones go. Of the arrays of results either may be null.
template <class C>
struct SortedBoxes {
    int64_t count;
    C threshold;
    const Box<C>* box;
    const int64_t* group;  // classes, or null: one class
    const int32_t* order;  // indices of the caller's boxes, or null: their order

    uint8_t* keep;     // by sorted position
    int64_t* indices;  // of kept boxes
    int32_t* kept;     // their number

    BK_HD bool suppresses(int64_t a, int64_t b) const {
        return (group == nullptr || group[a] == group[b]) && overlap(box[a], box[b]) > threshold;
    }
    BK_HD void store(int64_t at, int64_t rank) const {
        if (keep != nullptr) keep[at] = 1;
        if (indices != nullptr) indices[rank] = order == nullptr ? at : order[at];
    }
};

// Gathers boxes and classes in sorted order.
template <class T, class I>
struct GatherBoxesJob {
    using C = compute_t<T>;
    static constexpr int64_t kBoxes = 1024;
    int64_t count;
    const T* boxes;
    const I* classes;      // or null
    const int32_t* order;  // or null
    Box<C>* box;
    int64_t* group;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t end = (item + 1) * kBoxes < count ? (item + 1) * kBoxes : count;
        for (int64_t at = item * kBoxes + team.rank; at < end; at += team.size) {
            const int64_t from = order == nullptr ? at : order[at];
            box[at] = box_of(boxes + 4 * from);
            if (classes != nullptr) group[at] = static_cast<int64_t>(classes[from]);
        }
    }
};

// Memory of the suppression, for each target.
template <class C>
struct NmsScratch;

// keep and indices are zeros and -1 before, and kept is 0.
template <class C>
Status suppress(const Launch& launch, const SortedBoxes<C>& boxes, const NmsScratch<C>& scratch);

// Suppression without a workspace: keep is the state. T's boxes are in order.
template <class T>
Status suppress_in_place(const Launch& launch, int64_t count, compute_t<T> threshold, const T* boxes, uint8_t* keep,
                         int32_t* kept);

}  // namespace bk::boxes

#if BK_CUDA
#include "image/boxes/nms_cuda.cuh"
#else
#include "image/boxes/nms_cpu.h"
#endif

namespace bk::boxes {

template <class C>
struct NmsWorkspace {
    Box<C>* box;
    int64_t* group;
    NmsScratch<C> scratch;

    static NmsWorkspace carve(Carver* carver, int64_t count, bool has_classes) {
        NmsWorkspace made{};
        made.box = carver->take<Box<C>>(count);
        if (has_classes) made.group = carver->take<int64_t>(count);
        made.scratch = NmsScratch<C>::carve(carver, count, has_classes);
        return made;
    }
};

// A mask of boxes that the caller has sorted.
template <class T>
struct Nms {
    using C = compute_t<T>;
    int32_t num_boxes;
    float iou_thresh;

    Work work() const { return Work::kAll; }  // count_out is always written
    Status check() const { return require_non_negative({{"num_boxes", num_boxes}}); }
    size_t workspace_size() const {
        Carver carver;
        NmsWorkspace<C>::carve(&carver, num_boxes, false);
        return carver.bytes();
    }
    Status run(const T* boxes, uint8_t* keep_mask, int32_t* count_out, const Launch& launch) const {
        BK_TRY(fill_bytes(launch, count_out, 0, sizeof(int32_t)));
        if (num_boxes == 0) return Status::kOk;
        const C threshold = static_cast<C>(iou_thresh);
        if (!workspace_holds(launch, workspace_size()))
            return suppress_in_place<T>(launch, num_boxes, threshold, boxes, keep_mask, count_out);
        Carver carver(launch.workspace);
        const auto own = NmsWorkspace<C>::carve(&carver, num_boxes, false);
        BK_TRY(fill_bytes(launch, keep_mask, 0, static_cast<size_t>(num_boxes)));
        using Job = GatherBoxesJob<T, int32_t>;
        BK_TRY(run_teams(launch, ceil_div<int64_t>(num_boxes, Job::kBoxes), int64_t{1} << 12,
                         Job{num_boxes, boxes, nullptr, nullptr, own.box, nullptr}));
        return suppress(launch, SortedBoxes<C>{num_boxes, threshold, own.box, nullptr, nullptr, keep_mask, nullptr, count_out},
                        own.scratch);
    }
};

// Indices of the kept boxes of any order, by classes or not.
template <class T, class I>
struct BatchedNms {
    using C = compute_t<T>;
    int32_t num_boxes;
    float iou_thresh;

    SortProblem sort() const { return sort_problem<T>(1, num_boxes, true, 4); }
    Work work() const { return Work::kAll; }  // count is always written
    Status check() const { return require_non_negative({{"num_boxes", num_boxes}}); }
    struct Memory {
        int32_t* order;
        NmsWorkspace<C> own;
        char* sort;
    };
    Memory carve(Carver* carver) const {
        Memory made{};
        made.order = carver->take<int32_t>(num_boxes);
        made.own = NmsWorkspace<C>::carve(carver, num_boxes, true);
        made.sort = carver->take<char>(static_cast<int64_t>(sort_rows_workspace(sort())));
        return made;
    }
    size_t workspace_size() const {
        Carver carver;
        carve(&carver);
        return num_boxes == 0 ? 0 : carver.bytes();
    }
    Status run(const T* boxes, const T* scores, const I* classes, int64_t* indices, int32_t* count,
               const Launch& launch) const {
        const size_t needed = workspace_size();
        if (needed > 0 && !workspace_holds(launch, needed))
            return fail(Status::kWorkspaceTooSmall, "workspace has %zu bytes, must have %zu",
                        launch.workspace == nullptr ? size_t{0} : launch.workspace_bytes, needed);
        BK_TRY(fill_bytes(launch, count, 0, sizeof(int32_t)));
        if (num_boxes == 0) return Status::kOk;
        Carver carver(launch.workspace);
        const Memory memory = carve(&carver);
        BK_TRY(sort_rows(launch_with_workspace_from(launch, memory.sort), sort(), {scores, nullptr, nullptr, memory.order}));
        BK_TRY(fill_bytes(launch, indices, 0xff, sizeof(int64_t) * static_cast<size_t>(num_boxes)));
        int64_t* const group = classes == nullptr ? nullptr : memory.own.group;
        using Job = GatherBoxesJob<T, I>;
        BK_TRY(run_teams(launch, ceil_div<int64_t>(num_boxes, Job::kBoxes), int64_t{1} << 12,
                         Job{num_boxes, boxes, classes, memory.order, memory.own.box, group}));
        return suppress(
            launch,
            SortedBoxes<C>{num_boxes, static_cast<C>(iou_thresh), memory.own.box, group, memory.order, nullptr, indices, count},
            memory.own.scratch);
    }
};

}  // namespace bk::boxes

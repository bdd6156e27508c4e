// SPDX-License-Identifier: Apache-2.0
// Suppression on a GPU, panel by panel: the bit matrix of the panel, the decision, and the test of all later boxes.
//
// Row i of the matrix has bit j where boxes i and j of the panel overlap: a symmetric relation, so that a lane's word of the
// diagonal has its suppressors too. A warp decides 32 boxes in rounds: a box stays when all its suppressors are decided and
// none stays; a chain of overlaps needs a round a box, which is rare.
#pragma once

#include "core/abi/launch_cuda.h"
#include "core/collectives/shuffle.cuh"
#include "image/boxes/nms.h"

namespace bk::boxes {

constexpr int kPanelWords = kPanel / 32;
constexpr int kMaskThreads = 256, kTestThreads = 256, kAloneThreads = 1024;

template <class C>
struct NmsScratch {
    uint32_t* mask;        // of a panel: [kPanel, kPanelWords]
    uint8_t* is_removed;   // of all boxes, by earlier panels
    int32_t* panel_kept;   // positions of the panel's kept boxes
    int32_t* panel_count;  // their number

    static NmsScratch carve(Carver* carver, int64_t count, bool) {
        NmsScratch made{};
        made.mask = carver->take<uint32_t>(kPanel * kPanelWords);
        made.is_removed = carver->take<uint8_t>(count);
        made.panel_kept = carver->take<int32_t>(kPanel);
        made.panel_count = carver->take<int32_t>(1);
        return made;
    }
};

// A thread has a word of the matrix, on or right of the diagonal; lanes have neighbouring rows.
template <class C>
__global__ void __launch_bounds__(kMaskThreads) panel_mask_kernel(SortedBoxes<C> boxes, NmsScratch<C> s, int64_t begin) {
    const int64_t id = int64_t{blockIdx.x} * kMaskThreads + threadIdx.x, warp = id / 32;
    const int64_t row = warp / kPanelWords * 32 + id % 32, word = warp % kPanelWords;
    const int64_t own = begin + row, first = begin + word * 32;
    if (word < row / 32 || own >= boxes.count || first >= boxes.count) return;
    const int count = boxes.count - first < 32 ? static_cast<int>(boxes.count - first) : 32;
    uint32_t bits = 0;
    for (int k = 0; k < count; ++k)
        if (first + k != own && boxes.suppresses(own, first + k)) bits |= 1u << k;
    s.mask[row * kPanelWords + word] = bits;
}

// One block of kPanelWords warps: warp w collects what is removed of word w, and warp b decides word b.
template <class C>
__global__ void __launch_bounds__(kPanel) decide_panel_kernel(SortedBoxes<C> boxes, NmsScratch<C> s, int64_t begin) {
    __shared__ uint32_t decided;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int64_t rest = boxes.count - begin, count = rest < kPanel ? rest : kPanel;
    const bool exists = static_cast<int64_t>(threadIdx.x) < count;
    const bool is_gone = !exists || s.is_removed[begin + threadIdx.x] != 0;
    uint32_t removed = __ballot_sync(~0u, is_gone);
    const int32_t before = *boxes.kept;
    int32_t total = 0;
    const int words = static_cast<int>((count + 31) / 32);
    for (int b = 0; b < words; ++b) {
        const int64_t row = int64_t{b} * 32 + lane;
        uint32_t bits = 0;
        if (warp >= b && warp < words && row < count) bits = s.mask[row * kPanelWords + warp];
        if (warp == b) {
            const uint32_t earlier = bits & ((1u << lane) - 1);
            uint32_t kept = 0, open = ~removed;
            while (open != 0) {
                const bool is_open = (open >> lane & 1) != 0;
                const bool is_dead = is_open && (earlier & kept) != 0;
                const bool stays = is_open && !is_dead && (earlier & open) == 0;
                kept |= __ballot_sync(~0u, stays);
                open &= ~__ballot_sync(~0u, stays || is_dead);
            }
            if (lane == 0) decided = kept;
            const int32_t rank = total + __popc(kept & ((1u << lane) - 1));
            if ((kept >> lane & 1) != 0) {
                s.panel_kept[rank] = static_cast<int32_t>(begin + row);
                boxes.store(begin + row, int64_t{before} + rank);
            }
        }
        __syncthreads();
        const uint32_t kept = decided;
        total += __popc(kept);
        uint32_t hits = (kept >> lane & 1) != 0 ? bits : 0;
        for (int distance = 1; distance < 32; distance *= 2) hits |= shuffle_xor(hits, distance);
        if (warp > b) removed |= hits;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        *s.panel_count = total;
        *boxes.kept = before + total;
    }
}

// Tests the boxes from `begin` on with the panel's kept ones, staged by tiles.
template <class C>
__global__ void __launch_bounds__(kTestThreads) test_later_kernel(SortedBoxes<C> boxes, NmsScratch<C> s, int64_t begin) {
    __shared__ Box<C> staged[kTestThreads];
    __shared__ int64_t groups[kTestThreads];
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t own = begin + int64_t{blockIdx.x} * kTestThreads + thread;
    const int32_t count = *s.panel_count;
    bool is_removed = own >= boxes.count || s.is_removed[own] != 0;
    Box<C> box{};
    int64_t group = 0;
    if (!is_removed) {
        box = boxes.box[own];
        if (boxes.group != nullptr) group = boxes.group[own];
    }
    bool hit = false;
    for (int32_t base = 0; base < count; base += kTestThreads) {
        __syncthreads();
        if (base + thread < count) {
            const int32_t at = s.panel_kept[base + thread];
            staged[thread] = boxes.box[at];
            groups[thread] = boxes.group != nullptr ? boxes.group[at] : 0;
        }
        __syncthreads();
        const int here = count - base < kTestThreads ? count - base : kTestThreads;
        for (int k = 0; k < here && !is_removed; ++k)
            if (groups[k] == group && overlap(staged[k], box) > boxes.threshold) hit = is_removed = true;
    }
    if (hit) s.is_removed[own] = 1;
}

template <class C>
Status suppress(const Launch& launch, const SortedBoxes<C>& boxes, const NmsScratch<C>& scratch) {
    BK_TRY(fill_bytes(launch, scratch.is_removed, 0, static_cast<size_t>(boxes.count)));
    const Grid mask{dim3(static_cast<unsigned>(kPanel * kPanelWords / kMaskThreads)), dim3(kMaskThreads)};
    for (int64_t begin = 0; begin < boxes.count; begin += kPanel) {
        BK_TRY(launch_kernel(launch, mask, panel_mask_kernel<C>, boxes, scratch, begin));
        BK_TRY(launch_kernel(launch, Grid{dim3(1), dim3(kPanel)}, decide_panel_kernel<C>, boxes, scratch, begin));
        const int64_t later = boxes.count - begin - kPanel;
        if (later <= 0) break;
        const Grid test{dim3(static_cast<unsigned>(ceil_div<int64_t>(later, kTestThreads))), dim3(kTestThreads)};
        BK_TRY(launch_kernel(launch, test, test_later_kernel<C>, boxes, scratch, begin + kPanel));
    }
    return Status::kOk;
}

// One block; a barrier for each box that may be kept.
template <class T>
__global__ void __launch_bounds__(kAloneThreads)
    suppress_alone_kernel(int64_t count, compute_t<T> threshold, const T* boxes, uint8_t* keep, int32_t* kept) {
    for (int64_t k = threadIdx.x; k < count; k += kAloneThreads) keep[k] = 1;
    __syncthreads();
    int32_t total = 0;
    for (int64_t i = 0; i < count; ++i) {
        if (keep[i] == 0) continue;
        ++total;
        const auto own = box_of(boxes + 4 * i);
        for (int64_t j = i + 1 + threadIdx.x; j < count; j += kAloneThreads)
            if (keep[j] != 0 && overlap(own, box_of(boxes + 4 * j)) > threshold) keep[j] = 0;
        __syncthreads();
    }
    if (threadIdx.x == 0) *kept = total;
}

template <class T>
Status suppress_in_place(const Launch& launch, int64_t count, compute_t<T> threshold, const T* boxes, uint8_t* keep,
                         int32_t* kept) {
    return launch_kernel(launch, Grid{dim3(1), dim3(kAloneThreads)}, suppress_alone_kernel<T>, count, threshold, boxes, keep,
                         kept);
}

}  // namespace bk::boxes

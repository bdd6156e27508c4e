// SPDX-License-Identifier: Apache-2.0
// Batch and group norm and their gradients for channels first, [N, C, S]: a group stays in shared memory between
// statistics and map, so that memory is read once.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/types/dtype.h"

namespace bk {

// Slice l of group g is the `length` elements at g * group_stride + l * slice_stride. Slices are the channels of a
// group, of which an item has `groups_per_item`; if that is 0, groups are channels and slices are those of the items.
struct SliceGroups {
    int64_t groups, slices, length, group_stride, slice_stride, groups_per_item;

    static SliceGroups of_batch(int64_t items, int64_t channels, int64_t spatial) {
        return {channels, items, spatial, spatial, channels * spatial, 0};
    }
    static SliceGroups of_items(int64_t items, int64_t item_groups, int64_t width, int64_t spatial) {
        return {items * item_groups, width, spatial, width * spatial, spatial, item_groups};
    }
};

// Operands of staged_norm_backward(). Statistics are inputs or, if new_mean is not null, computed from x with eps and
// written. Groups of an item write slice_gx and slice_g, sums of each slice that dgamma and dbeta combine; groups that
// are channels write dgamma and dbeta. All outputs and gamma may be null.
template <class T, class S, class G>
struct StagedNormBackward {
    const T *dy, *x;
    const G* gamma;
    const S *mean, *rstd;
    T* dx;
    G *dgamma, *dbeta;
    compute_t<T>*slice_gx = nullptr, *slice_g = nullptr;
    S *new_mean = nullptr, *new_rstd = nullptr;
    compute_t<T> eps = 0;
};

// Whether slices are whole vectors, so that all are aligned if the array is, and sizes are in range.
template <class T>
bool may_stage_slices(const SliceGroups& groups);

// Whether this device can stage `arrays` arrays of the groups, and the pointers are aligned.
template <class T, class... P>
bool can_stage_slices(const SliceGroups& groups, int arrays, const P*... pointers);

// Requires can_stage_slices(): y = (x - mean) * rstd * gamma + beta, statistics by a GroupMoments reducer.
template <class T, class R, class Out, class G>
Status staged_norm(const Launch& launch, const SliceGroups& groups, const R& moments, const Out& saved, const T* x,
                   const G* gamma, const G* beta, T* y);

template <class T, class S, class G>
Status staged_norm_backward(const Launch& launch, const SliceGroups& groups, const StagedNormBackward<T, S, G>& of);

}  // namespace bk

#if BK_CUDA
#include "norm/channel/staged_slices_cuda.cuh"
#endif

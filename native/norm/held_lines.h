// Groups of lines that stay on a GPU between their statistics and their map, so that memory is read once: what batch and group
// norm and their gradients do where the elements of a channel of an item are neighbours.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/types/dtype.h"

namespace bk {

// Line l of group g is the `length` elements from g * group_step + l * line_step on. It is one of a channel of its own, the
// groups of an item being `of_item`; or, where that is 0, groups are channels, and lines those of the items.
struct LineGroups {
    int64_t groups, lines, length, group_step, line_step, of_item;

    static LineGroups of_batch(int64_t items, int64_t channels, int64_t spatial) {
        return {channels, items, spatial, spatial, channels * spatial, 0};
    }
    static LineGroups of_items(int64_t items, int64_t parts, int64_t width, int64_t spatial) {
        return {items * parts, width, spatial, width * spatial, spatial, parts};
    }
};

// dy and x, and what dx needs. Statistics are given or, where new_mean is not null, those of x with eps, which are written
// there. Of groups of an item line_products and line_slopes, one a line, are the sums that dgamma and dbeta are made of; of
// groups that are channels dgamma and dbeta are written. All outputs and gamma may be null.
template <class T, class S, class G>
struct HeldGradient {
    const T *dy, *x;
    const G* gamma;
    const S *mean, *rstd;
    T* dx;
    G *dgamma, *dbeta;
    compute_t<T>*line_products = nullptr, *line_slopes = nullptr;
    S *new_mean = nullptr, *new_rstd = nullptr;
    compute_t<T> eps = 0;
};

// Whether lines are whole vectors, which those of an array of them then are.
template <class T>
bool may_hold_lines(const LineGroups& groups);

// Whether `arrays` of the groups are held: on this device, where the pointers are aligned.
template <class T, class... P>
bool holds_lines(const LineGroups& groups, int arrays, const P*... pointers);

// What holds_lines() says yes to: y = (x - mean) * rstd * gamma + beta, and the statistics by a reducer that is GroupMoments.
template <class T, class R, class Out, class G>
Status norm_held_lines(const Launch& launch, const LineGroups& groups, const R& moments, const Out& saved, const T* x,
                       const G* gamma, const G* beta, T* y);

template <class T, class S, class G>
Status held_gradient(const Launch& launch, const LineGroups& groups, const HeldGradient<T, S, G>& of);

}  // namespace bk

#if BK_CUDA
#include "norm/held_lines_cuda.cuh"
#endif

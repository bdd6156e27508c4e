// SPDX-License-Identifier: Apache-2.0
// Sampling positions of a 2-D affine map (Jaderberg et al. 2015), for grid_sample.
//
// grid[n, i, j] = theta[n] (bx, by, 1), where (bx, by) is the centre of pixel (i, j) of an image that spans [-1, 1]^2.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/math/fastdiv.h"
#include "core/math/math.h"
#include "core/pointwise/pointwise.h"

namespace bk {

// Centre coordinate of pixel `index` of `extent`; the numerator is exact.
template <class C>
BK_HD C pixel_centre(int32_t index, int32_t extent) {
    return static_cast<C>(static_cast<int32_t>(2 * int64_t{index} + 1 - extent)) / static_cast<C>(extent);
}

// Elements of the grid in order: a pixel's two coordinates are adjacent, 2 * width elements a row.
template <class T, class Index>
struct AffineGrid2dFunctor {
    const T* theta;
    FastDiv<Index> row_length, height;

    // Functor for the remaining elements of a grid row.
    struct Segment {
        int64_t count;
        int64_t first;  // index of the first element in its row
        int32_t width;
        T x_slope, x_offset, y_slope, y_offset;
        BK_HD T operator()(int64_t k) const {
            const int64_t at = first + k;
            const T bx = pixel_centre<T>(static_cast<int32_t>(at >> 1), width);
            const bool is_y = (at & 1) != 0;
            return math::fma(math::select(is_y, y_slope, x_slope), bx, math::select(is_y, y_offset, x_offset));
        }
    };

    BK_HD Segment at(int64_t element) const {
        const auto column = row_length(static_cast<Index>(element));
        const auto row = height(column.quotient);
        const int64_t length = static_cast<int64_t>(row_length.divisor()), first = static_cast<int64_t>(column.remainder);
        const T by = pixel_centre<T>(static_cast<int32_t>(row.remainder), static_cast<int32_t>(height.divisor()));
        const T* t = theta + 6 * static_cast<int64_t>(row.quotient);
        return {length - first,           first, static_cast<int32_t>(length / 2), t[0], math::fma(t[1], by, t[2]), t[3],
                math::fma(t[4], by, t[5])};
    }
};

template <class T>
struct AffineGrid2d {
    int32_t batch;
    int32_t height;
    int32_t width;

    Work work() const { return all_or_none(count()); }
    Status check() const { return require_non_negative({{"batch", batch}, {"height", height}, {"width", width}}); }
    Status run(const T* theta, T* grid, const Launch& launch) const {
        return count() < (int64_t{1} << 31) ? run_as<uint32_t>(theta, grid, launch) : run_as<uint64_t>(theta, grid, launch);
    }

private:
    int64_t count() const { return 2 * int64_t{batch} * (int64_t{height} * width); }

    template <class Index>
    Status run_as(const T* theta, T* grid, const Launch& launch) const {
        const AffineGrid2dFunctor<T, Index> map{theta, FastDiv<Index>(2 * int64_t{width}), FastDiv<Index>(height)};
        return pointwise(launch, count(), map, outputs(grid), inputs());
    }
};

}  // namespace bk

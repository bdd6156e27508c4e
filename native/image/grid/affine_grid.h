// SPDX-License-Identifier: Apache-2.0
// Sampling positions of an affine map in two or three dimensions, and the gradient of the map.
//
// grid[n, cell] = theta[n] (b, 1): b = (x, y) or (x, y, z) is the centre of the cell, (2 i + 1) / extent - 1 along each axis,
// or 2 i / (extent - 1) - 1 with aligned corners, and 0 where the extent is 1 then.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/require_workspace.h"
#include "core/collectives/items.h"
#include "core/collectives/team.h"
#include "core/math/math.h"
#include "core/pointwise/pointwise.h"
#include "core/types/dtype.h"

namespace bk::image {

struct AffineCells {
    int64_t depth, height, width;
    bool is_3d, align_corners;

    BK_HD int axes() const { return is_3d ? 3 : 2; }
    BK_HD int64_t count() const { return depth * height * width; }
    template <class C>
    BK_HD C centre(int64_t i, int64_t extent) const {
        if (align_corners) return extent == 1 ? C(0) : static_cast<C>(2 * i - (extent - 1)) / static_cast<C>(extent - 1);
        return static_cast<C>(2 * i + 1 - extent) / static_cast<C>(extent);
    }
    // (x, y, 1) or (x, y, z, 1) of a cell.
    template <class C>
    BK_HD void base(int64_t cell, C (&b)[4]) const {
        b[0] = centre<C>(cell % width, width);
        b[1] = centre<C>(cell / width % height, height);
        b[2] = is_3d ? centre<C>(cell / width / height, depth) : C(1);
        b[3] = C(1);
    }
};

template <class T>
struct AffineCellJob {
    using C = compute_t<T>;
    const T* theta;
    T* grid;
    AffineCells cells;

    BK_HD void operator()(int64_t item) const {
        const int axes = cells.axes();
        C b[4];
        cells.base(item % cells.count(), b);
        const T* row = theta + item / cells.count() * axes * (axes + 1);
        T* const to = grid + item * axes;
        for (int d = 0; d < axes; ++d, row += axes + 1) {
            C sum = widen(row[axes]);
            for (int k = axes - 1; k >= 0; --k) sum = math::fma(widen(row[k]), b[k], sum);
            to[d] = narrow<T>(sum);
        }
    }
};

constexpr int64_t kCellsOfSlice = 4096;

// Sums over a slice of the cells: the gradient of one row of theta.
template <class T>
struct AffineSliceJob {
    using C = compute_t<T>;
    const T* dgrid;
    C* partial;  // [batch, axes, slices, 4]
    AffineCells cells;
    int64_t slices;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int axes = cells.axes();
        const int64_t slice = item % slices, row = item / slices, begin = slice * kCellsOfSlice;
        const int64_t end = begin + kCellsOfSlice < cells.count() ? begin + kCellsOfSlice : cells.count();
        const T* const from = dgrid + row / axes * cells.count() * axes + row % axes;
        C sum[4] = {};
        for (int64_t cell = begin + team.rank; cell < end; cell += team.size) {
            C b[4];
            cells.base(cell, b);
            const C gradient = widen(from[cell * axes]);
            for (int k = 0; k < 4; ++k) sum[k] += gradient * b[k];
        }
        for (int k = 0; k < 4; ++k) {
            const C all = team.sum(sum[k]);
            if (team.rank == 0) partial[item * 4 + k] = all;
        }
    }
};

// An element of theta: the sum of its slices, in order.
template <class T>
struct AffineSumJob {
    using C = compute_t<T>;
    const C* partial;
    T* dtheta;
    int64_t slices;
    int columns;

    BK_HD void operator()(int64_t item) const {
        const C* const from = partial + item / columns * slices * 4 + item % columns;
        C sum = C(0);
        for (int64_t slice = 0; slice < slices; ++slice) sum += from[slice * 4];
        dtheta[item] = narrow<T>(sum);
    }
};

// The scalars of both ops. depth is 0 for two dimensions, and height may be 0 with it.
struct AffineShape {
    int32_t batch, dims, depth, height, width, align_corners;

    int64_t rows() const { return dims; }
    int64_t columns() const { return int64_t{dims} + 1; }
    int64_t layers() const { return dims == 3 ? depth : 1; }
    AffineCells cells() const { return {layers(), height, width, dims == 3, align_corners != 0}; }
    int64_t positions() const { return batch * cells().count(); }
    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"depth", depth}, {"height", height}, {"width", width}}));
        if (dims != 2 && dims != 3) return fail(Status::kInvalidProblem, "dims is %d, must be 2 or 3", dims);
        if (dims == 2 && depth > 1) return fail(Status::kInvalidProblem, "depth is %d, must be at most 1 for dims 2", depth);
        if (align_corners != 0 && align_corners != 1)
            return fail(Status::kInvalidProblem, "align_corners is %d, must be 0 or 1", align_corners);
        return Status::kOk;
    }
};

template <class T>
struct AffineGrid {
    int32_t batch, dims, depth, height, width, align_corners;

    AffineShape shape() const { return {batch, dims, depth, height, width, align_corners}; }
    int64_t rows() const { return shape().rows(); }
    int64_t columns() const { return shape().columns(); }
    int64_t layers() const { return shape().layers(); }
    Work work() const { return all_or_none(shape().positions()); }
    Status check() const { return shape().check(); }
    Status run(const T* theta, T* grid, const Launch& launch) const {
        return run_items(launch, shape().positions(), 4 * sizeof(T), AffineCellJob<T>{theta, grid, shape().cells()});
    }
};

template <class T>
struct AffineGridBackward {
    int32_t batch, dims, depth, height, width, align_corners;

    AffineShape shape() const { return {batch, dims, depth, height, width, align_corners}; }
    int64_t rows() const { return shape().rows(); }
    int64_t columns() const { return shape().columns(); }
    int64_t layers() const { return shape().layers(); }
    Work work() const {
        if (batch == 0) return Work::kNone;
        return shape().positions() == 0 ? Work::kZeros : Work::kAll;
    }
    Status check() const { return shape().check(); }
    size_t workspace_size() const {
        Carver carver;
        carver.take<compute_t<T>>(partials());
        return carver.bytes();
    }
    Status run(const T* dgrid, T* dtheta, const Launch& launch) const {
        using C = compute_t<T>;
        const int64_t elements = batch * rows() * columns();
        if (work() == Work::kZeros) return write_zeros(launch, elements, dtheta);
        BK_TRY(require_workspace(launch, workspace_size()));
        C* const partial = Carver(launch.workspace).take<C>(partials());
        const int64_t bytes = std::min(kCellsOfSlice, shape().cells().count()) * static_cast<int64_t>(sizeof(T));
        BK_TRY(
            run_teams(launch, batch * rows() * slices(), bytes, AffineSliceJob<T>{dgrid, partial, shape().cells(), slices()}));
        return run_items(launch, elements, 64, AffineSumJob<T>{partial, dtheta, slices(), static_cast<int>(columns())});
    }

private:
    int64_t slices() const { return ceil_div(shape().cells().count(), kCellsOfSlice); }
    int64_t partials() const { return batch * rows() * slices() * 4; }
};

}  // namespace bk::image

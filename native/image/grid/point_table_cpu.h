// SPDX-License-Identifier: Apache-2.0
// Tables of adjacent points of a grid on the CPU: the elements that they read, and weights, tap by tap, for vectors of points.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/compiler_cpu.h"
#include "core/types/dtype.h"
#include "image/grid/grid_problem.h"
#include "image/grid/sample_point.h"

namespace bk::image {

constexpr int32_t kPoints = 64, kPointTaps = 512;  // of a table, which is on the stack

// Points of a chunk.
inline int32_t points_at_once(const GridProblem& problem) {
    return static_cast<int32_t>(std::min<int64_t>(kPoints, kPointTaps / problem.taps()));
}

// Options of which mode and padding are constants.
template <SampleMode kMode, SamplePadding kPadding>
struct FixedOptions {
    bool align_corners;
    BK_HD SampleOptions get() const { return {kMode, kPadding, align_corners}; }
};
struct AnyOptions {
    SampleOptions options;
    BK_HD SampleOptions get() const { return options; }
};

// One axis: AxisPoint of each point.
template <class C>
struct AxisTable {
    alignas(64) int32_t index[4][kPoints];  // negative: no element
    alignas(64) C weight[4][kPoints], slope[4][kPoints];

    template <class Options, class T>
    BK_HD void fill(const Options& given, const T* coordinates, int64_t step, int64_t extent, int32_t count) {
        const SampleOptions options = given.get();
        const int taps = options.taps();
        BK_VECTOR_LOOP
        for (int32_t p = 0; p < count; ++p) {
            const AxisPoint<C> at(widen(coordinates[p * step]), extent, options);
            for (int k = 0; k < taps; ++k) {
                index[k][p] = at.count > 0 ? static_cast<int32_t>(at.index(k)) : -1;
                weight[k][p] = at.weight(k);
                slope[k][p] = at.slope(k);
            }
        }
    }
    template <class T>
    BK_HD void fill(const SampleOptions& options, const T* coordinates, int64_t step, int64_t extent, int32_t count) {
        const bool has_zeros = options.padding == SamplePadding::kZeros;
        if (options.mode == SampleMode::kLinear && has_zeros)
            fill(FixedOptions<SampleMode::kLinear, SamplePadding::kZeros>{options.align_corners}, coordinates, step, extent,
                 count);
        else if (options.mode == SampleMode::kNearest && has_zeros)
            fill(FixedOptions<SampleMode::kNearest, SamplePadding::kZeros>{options.align_corners}, coordinates, step, extent,
                 count);
        else
            fill(AnyOptions{options}, coordinates, step, extent, count);
    }
};

// The points of a chunk: adjacent ones of an image, of one row if rows of results are apart.
template <class T>
class PointTable {
public:
    using C = compute_t<T>;

    PointTable(const GridProblem& problem, const T* grid)
        : p_(problem), grid_(grid), taps_(problem.options.taps()), pitch_(points_at_once(problem)) {}

    static bool serves(const GridProblem& problem) {
        int64_t reach = 1;
        for (int d = 2; d < 5; ++d) reach += (problem.x.extent[d] - 1) * std::abs(problem.x.stride[d]);
        return reach < INT32_MAX;
    }
    BK_HD int taps() const { return p_.axes == 3 ? taps_ * taps_ * taps_ : taps_ * taps_; }
    BK_HD int32_t count() const { return count_; }
    BK_HD const int32_t* index(int tap) const { return index_ + tap * pitch_; }
    // Elements of sums: those without weight are element 0, and elements outside of the image have no weight.
    BK_HD const int32_t* element(int tap) const { return element_ + tap * pitch_; }
    BK_HD const C* weight(int tap) const { return weight_ + tap * pitch_; }
    BK_HD int32_t pitch() const { return pitch_; }  // from a tap to the next one
    // Slope of tap along an axis, 0 to 2 for x to z, times the weights of the others.
    BK_HD C slope(int axis, int tap, int32_t p) const {
        const int i = tap % taps_, j = tap / taps_ % taps_, k = tap / (taps_ * taps_);
        const C of[3] = {p_.axes == 3 ? axis_[2].weight[k][p] : C(1), axis_[1].weight[j][p], axis_[0].weight[i][p]};
        if (axis == 0) return axis_[0].slope[i][p] * of[0] * of[1];
        if (axis == 1) return axis_[1].slope[j][p] * of[0] * of[2];
        return axis_[2].slope[k][p] * of[1] * of[2];
    }

    BK_HD void fill(int64_t first_point, int32_t count) {
        count_ = count;
        const T* const coordinates = grid_ + first_point * p_.axes;
        for (int d = 0; d < p_.axes; ++d) axis_[d].fill(p_.options, coordinates + d, p_.axes, p_.x.extent[4 - d], count);
        const auto of_x = static_cast<int32_t>(p_.x.stride[4]), of_y = static_cast<int32_t>(p_.x.stride[3]);
        const auto of_z = static_cast<int32_t>(p_.x.stride[2]);
        for (int tap = 0; tap < taps(); ++tap) {
            const int i = tap % taps_, j = tap / taps_ % taps_, k = tap / (taps_ * taps_);
            const int32_t *const x = axis_[0].index[i], *const y = axis_[1].index[j], *const z = axis_[2].index[k];
            int32_t *const index = index_ + tap * pitch_, *const element = element_ + tap * pitch_;
            C* const weight = weight_ + tap * pitch_;
            const C *const wx = axis_[0].weight[i], *const wy = axis_[1].weight[j], *const wz = axis_[2].weight[k];
            if (p_.axes == 3) {
                BK_VECTOR_LOOP
                for (int32_t p = 0; p < count; ++p) {
                    const bool has = (x[p] >= 0) & (y[p] >= 0) & (z[p] >= 0);
                    index[p] = has ? x[p] * of_x + y[p] * of_y + z[p] * of_z : kNone;
                    weight[p] = has ? wz[p] * wy[p] * wx[p] : C(0);
                }
            } else {
                BK_VECTOR_LOOP
                for (int32_t p = 0; p < count; ++p) {
                    const bool has = (x[p] >= 0) & (y[p] >= 0);
                    index[p] = has ? x[p] * of_x + y[p] * of_y : kNone;
                    weight[p] = has ? wy[p] * wx[p] : C(0);
                }
            }
            BK_VECTOR_LOOP
            for (int32_t p = 0; p < count; ++p) element[p] = weight[p] != C(0) ? index[p] : 0;
        }
    }

    static constexpr int32_t kNone = INT32_MIN;  // the index of a tap outside of the image

private:
    const GridProblem& p_;
    const T* grid_;
    const int taps_;
    const int32_t pitch_;
    int32_t count_ = 0;
    AxisTable<C> axis_[3];
    alignas(64) int32_t index_[kPointTaps], element_[kPointTaps];
    alignas(64) C weight_[kPointTaps];
};

// Chunks of the points of an image.
struct PointChunks {
    int64_t rows, columns, each, most;  // rows of results that are adjacent make one

    static PointChunks of(const GridProblem& problem) {
        const ImageLayout& y = problem.y;
        const int64_t most = points_at_once(problem);
        const bool is_dense_y = y.extent[3] == 1 || y.stride[3] == y.extent[4] * y.stride[4];
        const bool is_dense_z = y.extent[2] == 1 || y.stride[2] == y.extent[3] * y.extent[4] * y.stride[4];
        const int64_t points = y.extent[2] * y.extent[3] * y.extent[4];
        if (is_dense_y && is_dense_z && y.extent[4] > 1) return {1, points, ceil_div(points, most), most};
        return {y.extent[2] * y.extent[3], y.extent[4], ceil_div(y.extent[4], most), most};
    }
    int64_t count() const { return rows * each; }

    struct Chunk {
        int64_t first, offset;  // the number of its first point, and its offset in results
        int32_t count;
    };
    BK_HD Chunk at(int64_t chunk, const ImageLayout& y) const {
        const int64_t row = chunk / each, column = chunk % each * most;
        const int64_t offset = row / y.extent[3] * y.stride[2] + row % y.extent[3] * y.stride[3] + column * y.stride[4];
        return {row * columns + column, rows == 1 ? column * y.stride[4] : offset,
                static_cast<int32_t>(std::min(most, columns - column))};
    }
};

}  // namespace bk::image

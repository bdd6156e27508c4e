// SPDX-License-Identifier: Apache-2.0
// grid_sample and its gradients on the CPU for planes, and for few adjacent channels: loops over vectors of points, whose
// tables serve all channels. Sums have the order of GridSampleJob, GridGradientJob and the sorted records.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/row/parallel_rows_cpu.h"
#include "image/grid/point_table_cpu.h"

namespace bk::image {

constexpr int64_t kLeastPointChannels = 8;  // for loops over adjacent channels, a point after another
// Planes of more channels do not fit caches: GridSampleJob takes a point and 32 channels at a time.
constexpr int64_t kMostSampledPlanes = 32;

template <class T>
struct SamplePoints {
    using C = compute_t<T>;
    const GridProblem& p;
    const T* grid;
    PointChunks chunks;

    static SamplePoints of(const GridProblem& problem, const T* grid) { return {problem, grid, PointChunks::of(problem)}; }
    // Whether the channels of a point are a vector.
    bool has_channels() const { return p.x.stride[1] == 1 && p.y.stride[1] == 1 && p.y.extent[1] >= kLeastPointChannels; }
    bool serves() const { return PointTable<T>::serves(p) && !has_channels(); }
    bool serves_sample() const { return serves() && p.y.extent[1] <= kMostSampledPlanes; }
    int64_t bytes() const { return kPoints * p.taps() * p.y.extent[1] * static_cast<int64_t>(sizeof(C)); }

    Status sample(const T* x, T* y) const {
        parallel_rows(p.y.extent[0] * chunks.count(), grain_for(bytes()), [&](int64_t begin, int64_t end) {
            PointTable<T> table(p, grid);
            alignas(64) C sum[kPoints];
            for (int64_t task = begin; task < end; ++task) {
                const int64_t n = task / chunks.count();
                const PointChunks::Chunk chunk = chunks.at(task % chunks.count(), p.y);
                table.fill(n * p.points() + chunk.first, chunk.count);
                for (int64_t c = 0; c < p.y.extent[1]; ++c) {
                    const T* const plane = x + n * p.x.stride[0] + c * p.x.stride[1];
                    T* const to = y + n * p.y.stride[0] + c * p.y.stride[1] + chunk.offset;
                    for (int32_t i = 0; i < chunk.count; ++i) sum[i] = C(0);
                    int tap = 0;
                    for (; tap + 4 <= table.taps(); tap += 4) add_taps<4>(table, tap, plane, sum);
                    for (; tap < table.taps(); ++tap) add_taps<1>(table, tap, plane, sum);
                    store(sum, chunk.count, to, p.y.stride[4]);
                }
            }
        });
        return Status::kOk;
    }

    // Adds to dx, which begins as zeros, in the order of points and their taps. A task is some planes of an image.
    Status scatter(const T* dy, T* dx) const {
        static_assert(std::is_same_v<T, C>);
        constexpr int64_t kPlanes = 8;
        const int64_t channels = p.x.extent[1], groups = ceil_div(channels, kPlanes);
        parallel_rows(p.x.extent[0] * groups, grain_for(bytes() * chunks.count() / groups), [&](int64_t begin, int64_t end) {
            PointTable<T> table(p, grid);
            for (int64_t task = begin; task < end; ++task) {
                const int64_t n = task / groups, first = task % groups * kPlanes, last = std::min(first + kPlanes, channels);
                for (int64_t c = first; c < last; ++c) clear(dx + n * p.x.stride[0] + c * p.x.stride[1]);
                for (int64_t i = 0; i < chunks.count(); ++i) {
                    const PointChunks::Chunk chunk = chunks.at(i, p.y);
                    table.fill(n * p.points() + chunk.first, chunk.count);
                    for (int64_t c = first; c < last; ++c)
                        add_points(table, dy + n * p.y.stride[0] + c * p.y.stride[1] + chunk.offset,
                                   dx + n * p.x.stride[0] + c * p.x.stride[1]);
                }
            }
        });
        return Status::kOk;
    }

    Status gradient(bool accumulates, const T* dy, const T* x, T* dgrid) const {
        parallel_rows(p.y.extent[0] * chunks.count(), grain_for(bytes()), [&](int64_t begin, int64_t end) {
            PointTable<T> table(p, grid);
            alignas(64) C dot[kPoints], sum[3][kPoints];
            for (int64_t task = begin; task < end; ++task) {
                const int64_t n = task / chunks.count();
                const PointChunks::Chunk chunk = chunks.at(task % chunks.count(), p.y);
                const int64_t first = n * p.points() + chunk.first;
                table.fill(first, chunk.count);
                for (C* axis : sum)
                    for (int32_t i = 0; i < chunk.count; ++i) axis[i] = C(0);
                for (int tap = 0; tap < table.taps(); ++tap) {
                    find_dots(table, tap, dy + n * p.y.stride[0] + chunk.offset, x + n * p.x.stride[0], dot);
                    const int32_t* const index = table.index(tap);
                    for (int d = 0; d < p.axes; ++d) {
                        C* const of_axis = sum[d];
                        BK_VECTOR_LOOP
                        for (int32_t i = 0; i < chunk.count; ++i) {
                            const C slope = table.slope(d, tap, i), product = slope * dot[i];
                            of_axis[i] += ((index[i] != PointTable<T>::kNone) & (slope != C(0))) ? product : C(0);
                        }
                    }
                }
                T* const to = dgrid + first * p.axes;
                for (int32_t i = 0; i < chunk.count; ++i)
                    for (int d = 0; d < p.axes; ++d) {
                        T& at = to[i * p.axes + d];
                        at = narrow<T>(accumulates ? widen(at) + sum[d][i] : sum[d][i]);
                    }
            }
        });
        return Status::kOk;
    }

private:
    // Elements are gathered before they are added up, in vectors.
    template <int N>
    BK_HD static void add_taps(const PointTable<T>& table, int tap, const T* plane, C* sum) {
        alignas(64) C gathered[N][kPoints];
        const int32_t count = table.count();
        for (int n = 0; n < N; ++n) {
            const int32_t* const element = table.element(tap + n);
            for (int32_t i = 0; i < count; ++i) {
                int64_t at = element[i];
                BK_OPAQUE(at);
                gathered[n][i] = widen(plane[at]);
            }
        }
        const C* const weight = table.weight(tap);
        const int64_t pitch = table.pitch();
        BK_VECTOR_LOOP
        for (int32_t i = 0; i < count; ++i) {
            C s = sum[i];
            for (int n = 0; n < N; ++n) {
                const C w = weight[n * pitch + i], product = w * gathered[n][i];
                s += w != C(0) ? product : C(0);
            }
            sum[i] = s;
        }
    }
    BK_HD static void store(const C* sum, int32_t count, T* to, int64_t step) {
        if (step == 1) {
            BK_VECTOR_LOOP
            for (int32_t i = 0; i < count; ++i) to[i] = narrow<T>(sum[i]);
        } else {
            for (int32_t i = 0; i < count; ++i) to[i * step] = narrow<T>(sum[i]);
        }
    }
    BK_HD void clear(T* plane) const {
        const int64_t (&e)[5] = p.x.extent;
        const int64_t (&s)[5] = p.x.stride;
        for (int64_t z = 0; z < e[2]; ++z)
            for (int64_t y = 0; y < e[3]; ++y)
                for (int64_t x = 0; x < e[4]; ++x) plane[z * s[2] + y * s[3] + x * s[4]] = T(0);
    }
    BK_HD void add_points(const PointTable<T>& table, const T* dy, T* dx) const {
        const int taps = table.taps();
        for (int32_t i = 0; i < table.count(); ++i) {
            const C gradient = dy[i * p.y.stride[4]];
            for (int tap = 0; tap < taps; ++tap) {
                const C weight = table.weight(tap)[i];
                if (weight != C(0)) dx[table.element(tap)[i]] += weight * gradient;
            }
        }
    }
    // Products of a tap's elements and gradients, added up over channels.
    BK_HD void find_dots(const PointTable<T>& table, int tap, const T* dy, const T* x, C* dot) const {
        const int32_t* const index = table.index(tap);
        const int32_t count = table.count();
        for (int32_t i = 0; i < count; ++i) dot[i] = C(0);
        for (int64_t c = 0; c < p.y.extent[1]; ++c) {
            const T* const plane = x + c * p.x.stride[1];
            const T* const gradient = dy + c * p.y.stride[1];
            BK_VECTOR_LOOP
            for (int32_t i = 0; i < count; ++i) {
                const bool has = index[i] != PointTable<T>::kNone;
                const C product = widen(gradient[i * p.y.stride[4]]) * widen(plane[has ? index[i] : 0]);
                dot[i] += has ? product : C(0);
            }
        }
    }
};

}  // namespace bk::image

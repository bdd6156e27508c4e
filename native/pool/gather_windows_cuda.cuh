// SPDX-License-Identifier: Apache-2.0
// Gradients of pooling on GPUs: a thread a cell of several channels. Adjacent threads read dy of the same windows. Dense planes
// have tiles instead (tiles/gather_tiles_cuda.cuh), and maxima of vectors (tiles/gather_last_cuda.cuh).
#pragma once

#include "core/collectives/team.h"
#include "pool/gather_windows.h"
#include "pool/thread_lanes.cuh"
#include "pool/tiles/gather_last_cuda.cuh"
#include "pool/tiles/gather_tiles_cuda.cuh"

namespace bk::pool {

template <class T, int V, bool kWhole>
struct GatherLanes {
    using C = compute_t<T>;
    using Item = ItemAt<V, kWhole>;
    template <class E>
    using Pointers = LanePointers<E, V, kWhole>;

    const Problem& p;
    const GradientArrays<T>& arrays;
    const Item& item;
    C sum[V];

    BK_DEVICE C sign_or_one(bool is_absolute, C x) const { return is_absolute && x < C(0) ? C(-1) : C(1); }

    BK_DEVICE void add_indexed(const Pointers<const T>& dy, const Pointers<const int64_t>& indices, int64_t number,
                               const Position& o) {
        const auto gradient = dy.read(p.dy.at(o.a, o.b, o.c));
        const auto winner = indices.read(p.indices.at(o.a, o.b, o.c));
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] += winner.lane[v] == number ? widen_lane(gradient, v) : C(0);
    }

    // y of a window, searched again.
    BK_DEVICE Vec<T, V> greatest_of(const Pointers<const T>& x, const Position& o) const {
        const Taps ta = p.axis[0].taps(o.a), tb = p.axis[1].taps(o.b), tc = p.axis[2].taps(o.c);
        const MaxValueOp<T> op;
        typename MaxValueOp<T>::Lane lane[V];
#pragma unroll
        for (int v = 0; v < V; ++v) lane[v] = op.start();
        for (int32_t a = 0; a < ta.count; ++a)
            for (int32_t b = 0; b < tb.count; ++b)
                for (int32_t c = 0; c < tc.count; ++c) {
                    const auto cell = x.read(p.x.at(ta.first + a * p.axis[0].dilation, tb.first + b * p.axis[1].dilation,
                                                    tc.first + c * p.axis[2].dilation));
#pragma unroll
                    for (int v = 0; v < V; ++v) op.add(lane[v], widen_lane(cell, v), 0);
                }
        Vec<T, V> found;
#pragma unroll
        for (int v = 0; v < V; ++v) found.lane[v] = narrow<T>(lane[v].value);
        return found;
    }

    // own[v] is the cell's value. Cells of the window before it decide whether it is the first one that equals y.
    BK_DEVICE void add_first(const Pointers<const T>& dy, const Pointers<const T>& y, const Pointers<const T>& x,
                             const C (&own)[V], bool is_absolute, const Position& o) {
        const Vec<T, V> greatest = arrays.y == nullptr ? greatest_of(x, o) : y.read(p.y.at(o.a, o.b, o.c));
        bool takes[V], any = false;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            takes[v] = equals(is_absolute ? math::fabs<C>(own[v]) : own[v], widen_lane(greatest, v));
            any = any || takes[v];
        }
        if (!any) return;
        const Taps ta = p.axis[0].taps(o.a), tb = p.axis[1].taps(o.b), tc = p.axis[2].taps(o.c);
        const int32_t da = p.axis[0].dilation, db = p.axis[1].dilation, dc = p.axis[2].dilation;
        for (int32_t a = ta.first; any && a <= item.at.a; a += da) {
            const int32_t last_b = a < item.at.a ? tb.first + (tb.count - 1) * db : item.at.b;
            for (int32_t b = tb.first; any && b <= last_b; b += db) {
                const bool is_own_row = a == item.at.a && b == item.at.b;
                const int32_t end_c = is_own_row ? item.at.c : tc.first + tc.count * dc;
                for (int32_t c = tc.first; any && c < end_c; c += dc) {
                    const auto before = x.read(p.x.at(a, b, c));
                    any = false;
#pragma unroll
                    for (int v = 0; v < V; ++v) {
                        const C value = widen_lane(before, v);
                        takes[v] = takes[v] && !equals(is_absolute ? math::fabs<C>(value) : value, widen_lane(greatest, v));
                        any = any || takes[v];
                    }
                }
            }
        }
        if (!any) return;
        const auto gradient = dy.read(p.dy.at(o.a, o.b, o.c));
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] += takes[v] ? widen_lane(gradient, v) * sign_or_one(is_absolute, own[v]) : C(0);
    }
};

// visit(o) for the windows that have the cell, in row-major order.
template <class Visit>
BK_DEVICE void each_window(const Problem& p, const Position& at, const Visit& visit) {
    const Cover ca = p.axis[0].cover(at.a), cb = p.axis[1].cover(at.b), cc = p.axis[2].cover(at.c);
    for (int32_t a = ca.low; a <= ca.high; ++a) {
        if (!p.axis[0].has(a, at.a)) continue;
        for (int32_t b = cb.low; b <= cb.high; ++b) {
            if (!p.axis[1].has(b, at.b)) continue;
            for (int32_t c = cc.low; c <= cc.high; ++c)
                if (p.axis[2].has(c, at.c)) visit(Position{a, b, c});
        }
    }
}

template <class T, int V, bool kWhole>
BK_DEVICE void gather_lanes(const MaxGradient& rule, GatherLanes<T, V, kWhole>& lanes) {
    using C = compute_t<T>;
    const Problem& p = lanes.p;
    const auto& arrays = lanes.arrays;
    const LanePointers<const T, V, kWhole> dy(arrays.dy, p.dy, lanes.item);
    if (arrays.indices != nullptr) {
        const LanePointers<const int64_t, V, kWhole> indices(arrays.indices, p.indices, lanes.item);
        const int64_t number = p.cell_number(lanes.item.at.a, lanes.item.at.b, lanes.item.at.c);
        each_window(p, lanes.item.at, [&](const Position& o) { lanes.add_indexed(dy, indices, number, o); });
        return;
    }
    const LanePointers<const T, V, kWhole> x(arrays.x, p.x, lanes.item), y(arrays.y, p.y, lanes.item);
    const auto mine = x.read(p.x.at(lanes.item.at.a, lanes.item.at.b, lanes.item.at.c));
    C own[V];
#pragma unroll
    for (int v = 0; v < V; ++v) own[v] = widen_lane(mine, v);
    each_window(p, lanes.item.at, [&](const Position& o) { lanes.add_first(dy, y, x, own, rule.is_absolute, o); });
}

template <class T, int V, bool kWhole>
BK_DEVICE void gather_lanes(const AverageGradient& rule, GatherLanes<T, V, kWhole>& lanes) {
    using C = compute_t<T>;
    const Problem& p = lanes.p;
    const LanePointers<const T, V, kWhole> dy(lanes.arrays.dy, p.dy, lanes.item);
    each_window(p, lanes.item.at, [&](const Position& o) {
        const auto gradient = dy.read(p.dy.at(o.a, o.b, o.c));
        const int64_t divisor = rule.divisor.of(p.axis[0].taps(o.a), p.axis[1].taps(o.b), p.axis[2].taps(o.c));
        const C weight = C(1) / static_cast<C>(divisor);
#pragma unroll
        for (int v = 0; v < V; ++v) lanes.sum[v] = math::fma(widen_lane(gradient, v), weight, lanes.sum[v]);
    });
}

template <class T, int V, bool kWhole>
BK_DEVICE void gather_lanes(const NormGradient<T>& rule, GatherLanes<T, V, kWhole>& lanes) {
    using C = compute_t<T>;
    const Problem& p = lanes.p;
    const auto& arrays = lanes.arrays;
    const LanePointers<const T, V, kWhole> dy(arrays.dy, p.dy, lanes.item), y(arrays.y, p.y, lanes.item),
        x(arrays.x, p.x, lanes.item);
    const auto mine = x.read(p.x.at(lanes.item.at.a, lanes.item.at.b, lanes.item.at.c));
    each_window(p, lanes.item.at, [&](const Position& o) {
        const auto gradient = dy.read(p.dy.at(o.a, o.b, o.c)), norm = y.read(p.y.at(o.a, o.b, o.c));
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const C slope = rule.op.slope(widen_lane(mine, v), widen_lane(norm, v));
            lanes.sum[v] = math::fma(widen_lane(gradient, v), slope, lanes.sum[v]);
        }
    });
}

template <class Rule, class T, int V, bool kWhole>
__global__ void __launch_bounds__(kPoolThreads)
    gather_windows_kernel(const __grid_constant__ Problem p, const __grid_constant__ ItemGrid grid, Rule rule,
                          const __grid_constant__ GradientArrays<T> arrays, bool adds) {
    const int64_t at = int64_t{blockIdx.x} * kPoolThreads + threadIdx.x;
    if (at >= grid.items) return;
    const ItemAt<V, kWhole> item(grid, at);
    GatherLanes<T, V, kWhole> lanes{p, arrays, item, {}};
    const LanePointers<T, V, kWhole> dx(arrays.dx, p.dx, item, p.dx.at(item.at.a, item.at.b, item.at.c));
    if (adds) {
        const auto before = dx.read(0);
#pragma unroll
        for (int v = 0; v < V; ++v) lanes.sum[v] = widen_lane(before, v);
    }
    gather_lanes(rule, lanes);
    Vec<T, V> result;
#pragma unroll
    for (int v = 0; v < V; ++v) result.lane[v] = narrow<T>(lanes.sum[v]);
    dx.write(result);
}

template <class T, int V, bool kWhole, class Rule>
Status launch_gather_windows(const Launch& launch, const Problem& p, int width, const Rule& rule,
                             const GradientArrays<T>& arrays, bool adds) {
    const int32_t extent[] = {p.axis[0].in, p.axis[1].in, p.axis[2].in};
    const ItemGrid grid = ItemGrid::of(p, extent, V, width);
    const int64_t blocks = ceil_div<int64_t>(grid.items, kPoolThreads);
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "%lld cells are too many for one launch", (long long)grid.items);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPoolThreads)},
                         gather_windows_kernel<Rule, T, V, kWhole>, p, grid, rule, arrays, adds);
}

template <class Rule, class T>
Status gather_windows(const Launch& launch, const Problem& p, const Rule& rule, const GradientArrays<T>& arrays, bool adds) {
    constexpr int kLanes = kVectorLanes<T>;
    const int width = std::min({channel_width(p, arrays.x, p.x, kLanes), channel_width(p, arrays.y, p.y, kLanes),
                                channel_width(p, arrays.dy, p.dy, kLanes), channel_width(p, arrays.indices, p.indices, kLanes),
                                channel_width(p, arrays.dx, p.dx, kLanes)});
    if (width == kLanes) {
        if constexpr (std::is_same_v<Rule, MaxGradient>) {
            const LastTiles tiles = LastTiles::of(p, kLanes);
            const bool has_values = arrays.y != nullptr && arrays.indices == nullptr && !rule.is_absolute && !adds;
            if (has_values && tiles.is_possible()) return launch_gather_last<kLanes>(launch, p, tiles, arrays);
        }
        return launch_gather_windows<T, kLanes, true>(launch, p, width, rule, arrays, adds);
    }
    const TileGrid tiles = tiles_of_cells<Rule>(p, arrays);
    if (tiles.is_possible()) return launch_gather_tiles(launch, p, tiles, rule, arrays, adds);
    return launch_gather_windows<T, kLanes, false>(launch, width > 0 ? p : with_merged_planes(p), width, rule, arrays, adds);
}

// Large windows: a team finds the greatest cell of its window. Few windows share a cell; the first of those that have the
// same greatest cell writes the sum of their gradients, so that each cell has one writer.
template <class T>
struct WinnersJob {
    using C = compute_t<T>;
    struct Best {
        typename MaxOp<T>::Lane lane;
        // Whether a is the maximum of both.
        friend BK_HD bool operator>(const Best& a, const Best& b) { return MaxOp<T>{}.yields(b.lane, a.lane); }
    };

    Problem p;
    const T *x, *dy;
    T* dx;

    // Number of the greatest cell of a window of the plane at `plane`.
    BK_DEVICE int64_t find(const Team& team, const T* plane, const Position& o) const {
        const Taps ta = p.axis[0].taps(o.a), tb = p.axis[1].taps(o.b), tc = p.axis[2].taps(o.c);
        const int32_t row = tb.count * tc.count, all = ta.count * row;
        const auto number = [&](int32_t t) {
            return p.cell_number(ta.first + t / row, tb.first + t % row / tc.count, tc.first + t % tc.count);
        };
        Best best{MaxOp<T>{}.start()};
        for (int32_t t = team.rank; t < all; t += team.size) MaxOp<T>{}.add(best.lane, widen(plane[number(t)]), t);
        best = team.largest(best);
        return number(best.lane.at < 0 ? 0 : best.lane.at);
    }

    BK_HD void operator()([[maybe_unused]] const Team& team, [[maybe_unused]] int64_t item) const {
#if BK_IN_KERNEL
        const int64_t windows = p.windows(), plane = item / windows, window = item % windows;
        const int64_t rows = window / p.axis[2].out;
        const T* const cells = x + plane * p.cells();
        const T* const gradient = dy + plane * windows;
        const Position own{static_cast<int32_t>(rows / p.axis[1].out), static_cast<int32_t>(rows % p.axis[1].out),
                           static_cast<int32_t>(window % p.axis[2].out)};
        const int64_t winner = find(team, cells, own), winner_row = winner / p.axis[2].in;
        const Position at{static_cast<int32_t>(winner_row / p.axis[1].in), static_cast<int32_t>(winner_row % p.axis[1].in),
                          static_cast<int32_t>(winner % p.axis[2].in)};
        C sum = 0;
        bool is_first = true;
        each_window(p, at, [&](const Position& o) {
            const int64_t other = p.dy.at(o.a, o.b, o.c);
            if (!is_first || (other != window && find(team, cells, o) != winner)) return;
            is_first = other >= window;
            sum += widen(gradient[other]);
        });
        if (is_first && team.rank == 0) dx[plane * p.cells() + winner] = narrow<T>(sum);
#endif
    }
};

template <class T>
Status max_gradient_from_x(const Launch& launch, const Problem& p, const T* x, const T* dy, T* dx) {
    constexpr int64_t kMostSearched = 64;  // cells of windows that every cell searches again
    if (p.window_cells() <= kMostSearched)
        return gather_windows(launch, p, MaxGradient{}, GradientArrays<T>{x, nullptr, dy, nullptr, dx}, false);
    BK_TRY(fill_bytes(launch, dx, 0, sizeof(T) * static_cast<size_t>(p.planes() * p.cells())));
    const int64_t bytes = p.window_cells() * static_cast<int64_t>(sizeof(T));
    return run_teams(launch, p.planes() * p.windows(), bytes, WinnersJob<T>{p, x, dy, dx});
}

}  // namespace bk::pool

// SPDX-License-Identifier: Apache-2.0
// CUDA row reduce + map. A row is cached in the registers of up to a warp, a block or a cluster (sm_90), hence read
// once; longer rows are read again for each pass. Aligned dense rows use 16-byte vectors, many a thread or few (short
// or few rows); other layouts use scalars, with one thread row per matrix row or, if rows are adjacent in memory,
// neighbouring threads on neighbouring rows. A few long rows are split over blocks if the workspace has space for
// partial statistics. Functions that only map use one kernel for per-column parameters (row_map_columns.cuh) and one for
// per-row parameters (row_map_long.cuh).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/abi/launch.h"
#include "core/collectives/row_exchange.cuh"
#include "core/intrinsics/cluster.cuh"
#include "core/layout/layout.h"
#include "core/row/row_cache.cuh"
#include "core/row/row_map.h"
#include "core/row/row_map_columns.cuh"
#include "core/row/row_map_long.cuh"
#include "core/row/row_operands.cuh"

namespace bk {

// Rows stay in registers and are read once, very long ones excepted.
constexpr bool kRowsStayOnChip = true;

constexpr int kMostRowThreads = 1024;
constexpr int kRowThreads = 512;                         // block size with cached rows: two blocks per SM
constexpr int kStreamingThreads = 256;                   // block size for loops over a row: four blocks per SM
constexpr int64_t kRowTargetThreads = int64_t{1} << 17;  // fill a 132-SM chip; fixed, since the split decides the bits

// kFused: one launch. Split rows take two: kReduce writes partial statistics, kMap combines them and maps.
enum class RowStage { kFused, kReduce, kMap };

// Mapping of threads to rows.
struct RowGrid {
    RowStage stage = RowStage::kFused;
    int64_t rows = 0;
    int n = 0;
    int lanes = 1;  // threads of a block on one row
    int rows_per_block = 1;
    bool rows_are_adjacent = false;  // neighbouring threads take neighbouring rows
    int shift = 31;                  // low bits of threadIdx.x: the lane or, if rows_are_adjacent, the row
    int cluster_blocks = 1;          // blocks of a cluster on one row
    int splits = 1;                  // split rows: blocks of different clusters on one row
    int tiles = 1;                   // loop count over a row
};

template <int N, int V, class F, class Operands>
__global__ void __launch_bounds__(kMostRowThreads)
    map_rows_kernel(const __grid_constant__ Operands operands, const F f, const RowGrid grid, void* partials) {
    using Acc = typename F::Acc;
    __shared__ RowExchange<Acc> exchange;
    BK_LAUNCH_SHARED(uint4, dynamic);
    if (!F::kMapOnly && grid.cluster_blocks > 1) exchange.blocks.open();
    const int thread = static_cast<int>(threadIdx.x), low = thread & ((1u << grid.shift) - 1), high = thread >> grid.shift;
    const int lane = grid.rows_are_adjacent ? high : low, local = grid.rows_are_adjacent ? low : high;
    const int blocks_per_row = grid.cluster_blocks * grid.splits;
    int rank = 0;
    unsigned group = blockIdx.x;
    if (blocks_per_row > 1) {
        rank = static_cast<int>(blockIdx.x % blocks_per_row);
        group = blockIdx.x / blocks_per_row;
    }
    const int64_t index = int64_t{group} * grid.rows_per_block + local;
    const bool exists = index < grid.rows;
    const int64_t r = exists ? index : grid.rows - 1;  // surplus threads see a row of length 0
    const int n = exists ? grid.n : 0;
    const auto at = operands.row(r);
    auto row = operands.start(f, r);
    // Blocks of a cluster interleave their tiles; a split has consecutive tiles.
    const int threads = grid.lanes * grid.cluster_blocks, tile = threads * V * N;
    const int split = grid.splits == 1 ? 0 : rank;
    const int begin = split * grid.tiles * tile;
    const int mine_at = ((grid.splits == 1 ? rank : 0) * grid.lanes + lane) * N;
    const auto span = [&](int t) { return RowTile<N, V>{begin + t * tile + mine_at, threads * N, n}; };
    const bool is_first = exists && lane == 0 && rank == 0;
    [[maybe_unused]] const auto target_logit = [&] {
        if constexpr (kHasTarget<F>)
            return operands.template element<N>(at, is_first && grid.stage != RowStage::kMap ? f.target_index(row) : -1);
        else
            return 0;
    }();
    CachedTile<N, V, F, Operands> cached_tile;
    Acc mine = f.identity();
    if constexpr (F::kMapOnly) {
    } else if (grid.stage != RowStage::kMap) {
        constexpr bool kLoops = !F::kOnePass || F::kMayRescale;
        int phase = 0;
        bool is_partial = false;
        // Returns whether the row needs another pass.
        const auto pass = [&](auto& tile_cache, bool is_loaded, int tiles, const auto& tile_at) {
            Acc all = f.identity();
#pragma unroll 1
            for (int t = 0; t < tiles; ++t) {
                const auto where = tile_at(t);
                if (!is_loaded) tile_cache.load(operands, f, at, row, where);
                mine = tile_cache.reduce_tile(operands, f, row, where);
                all = tiles == 1 ? mine : f.combine(all, mine);
            }
            if (grid.rows_are_adjacent)
                all = combine_strided(f, all, grid.rows_per_block, grid.lanes, reinterpret_cast<AccWords<Acc>*>(dynamic));
            else if (grid.lanes <= 32)
                all = combine_lanes(f, all, grid.lanes);
            else
                all = combine_block(f, all, exchange, phase);
            if (grid.cluster_blocks > 1) all = combine_cluster(f, all, grid.cluster_blocks, exchange, phase);
            ++phase;
            if constexpr (kHasTarget<F>)
                if (is_first) f.add_target(row, &all, target_logit);
            if (grid.stage == RowStage::kReduce) {
                if constexpr (F::kMayRescale)
                    if (f.rescales(row, all, int64_t{grid.tiles} * tile)) return true;
                if (threadIdx.x == 0) static_cast<AccWords<Acc>*>(partials)[r * grid.splits + split] = AccWords<Acc>::of(all);
                is_partial = true;
                return false;
            }
            bool again = f.finish(row, all, grid.n);
            if constexpr (kLoops) again = grid.rows_are_adjacent ? __syncthreads_or(again) : __any_sync(0xffffffffu, again);
            return again;
        };
        bool again = pass(cached_tile, false, grid.tiles, span);
        if constexpr (F::kOnePass && F::kPureReduce && F::kMayRescale) {
            // The rare second pass takes one vector at a time: a loop over the cached tile would spill it.
            if (again) {
                CachedTile<N, 1, F, Operands> one;
                pass(one, false, grid.tiles * V, [&](int t) {
                    return RowTile<N, 1>{begin + t / V * tile + t % V * (threads * N) + mine_at, threads * N, n};
                });
            }
        } else {
            while (kLoops && again) again = pass(cached_tile, grid.tiles == 1, grid.tiles, span);
        }
        if (is_partial) return;
    } else if constexpr (F::kMayRescale) {
        const RescaledCombine<F> combiner{f};
        Acc all = f.identity();
        for (int p = threadIdx.x; p < grid.splits; p += blockDim.x)
            all = combiner.combine(all, static_cast<const AccWords<Acc>*>(partials)[r * grid.splits + p].value());
        f.finish_rescaled(row, combine_block(combiner, all, exchange, 0), grid.n);
    } else {
        Acc all = f.identity();
        for (int p = threadIdx.x; p < grid.splits; p += blockDim.x)
            all = f.combine(all, static_cast<const AccWords<Acc>*>(partials)[r * grid.splits + p].value());
        f.finish(row, combine_block(f, all, exchange, 0), grid.n);
    }
    if constexpr (Operands::kOut > 0) {
        for (int t = 0; t < grid.tiles; ++t) {
            const RowTile<N, V> where = span(t);
            if (F::kMapOnly || grid.tiles > 1 || grid.stage == RowStage::kMap) {
                cached_tile.load(operands, f, at, row, where);
                if constexpr (cached_tile.kReducesBeforeMap) mine = cached_tile.reduce_tile(operands, f, row, where);
            }
            if (exists) cached_tile.map(operands, f, at, row, mine, where);
        }
    }
    if (is_first) operands.save(f, r, row);
}

// --- launch shapes ---------------------------------------------------------------------------------------------------

template <class F>
constexpr int kRowScalars = kFewVectors<F, 1>;

inline int power_of_two_from(int64_t least) {
    int power = 1;
    while (power < least) power *= 2;
    return power;
}

inline int log2_of(int power) {
    int log = 0;
    while (power > 1 << log) ++log;
    return log;
}

// Thread mapping for rows of n elements, `values` per thread. is_streaming: one pass, no map, nothing to cache.
inline RowGrid plan_rows(int64_t rows, int64_t n, int values, int vector, bool has_clusters, bool is_streaming) {
    RowGrid grid;
    grid.rows = rows;
    grid.n = static_cast<int>(n);
    const int64_t threads = ceil_div<int64_t>(n, values);
    if (threads <= 32) {
        grid.lanes = std::max(power_of_two_from(threads), std::min(4, power_of_two_from(ceil_div<int64_t>(n, vector))));
        grid.rows_per_block = 128 / grid.lanes;
        grid.shift = log2_of(grid.lanes);
        return grid;
    }
    const bool alone = is_streaming && rows * kStreamingThreads >= kRowTargetThreads;
    const int most = alone                                                     ? kStreamingThreads
                     : threads > kRowThreads * kMaxRowCluster || !has_clusters ? kMostRowThreads
                                                                               : kRowThreads;
    if (has_clusters && !alone)
        grid.cluster_blocks = std::min(kMaxRowCluster, power_of_two_from(ceil_div<int64_t>(threads, most)));
    const int64_t each = ceil_div<int64_t>(threads, grid.cluster_blocks);
    grid.lanes = static_cast<int>(std::min<int64_t>(most, ceil_div<int64_t>(each, 32) * 32));
    grid.tiles = static_cast<int>(ceil_div<int64_t>(n, int64_t{grid.lanes} * grid.cluster_blocks * values));
    return grid;
}

// Thread mapping if the row axis has the smaller stride: warps load neighbouring rows for coalescing.
inline RowGrid plan_adjacent_rows(int64_t rows, int64_t n, int values) {
    RowGrid grid;
    grid.rows = rows;
    grid.n = static_cast<int>(n);
    grid.rows_are_adjacent = true;
    grid.rows_per_block = std::min(32, power_of_two_from(rows));
    grid.shift = log2_of(grid.rows_per_block);
    grid.lanes = std::min(kMostRowThreads / 32, power_of_two_from(ceil_div<int64_t>(n, values)));
    grid.lanes = std::max(grid.lanes, 32 / grid.rows_per_block);
    grid.tiles = static_cast<int>(ceil_div<int64_t>(n, int64_t{grid.lanes} * values));
    return grid;
}

// Splits long rows over blocks if there are too few rows to fill the chip.
inline void split_rows(RowGrid* grid, int values) {
    if (grid->tiles == 1 || grid->rows_are_adjacent || grid->rows * kMostRowThreads * kMaxRowCluster > kRowTargetThreads)
        return;
    grid->cluster_blocks = 1;
    grid->lanes = kRowThreads;
    const int64_t all = ceil_div<int64_t>(grid->n, int64_t{kRowThreads} * values);
    const int64_t splits = std::min<int64_t>({all, 512, 2 * kRowTargetThreads / kRowThreads / grid->rows});
    grid->tiles = static_cast<int>(ceil_div(all, splits));
    grid->splits = static_cast<int>(ceil_div<int64_t>(all, grid->tiles));
}

template <int N, int V, class F, class Operands>
Status launch_rows(const Launch& launch, const RowGrid& grid, const F& f, const Operands& operands, void* partials) {
    const int64_t blocks = ceil_div<int64_t>(grid.rows, grid.rows_per_block) * grid.cluster_blocks * grid.splits;
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld rows are too many for one launch", static_cast<long long>(grid.rows));
    const unsigned threads = static_cast<unsigned>(grid.lanes * grid.rows_per_block);
    const unsigned shared = grid.rows_are_adjacent ? threads * static_cast<unsigned>(sizeof(typename F::Acc)) : 0;
    return launch_kernel(
        launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(threads), static_cast<unsigned>(grid.cluster_blocks), shared},
        map_rows_kernel<N, V, F, Operands>, operands, f, grid, partials);
}

template <int N, int V, class F, class Operands>
Status run_rows(const Launch& launch, const RowGrid& whole, const F& f, const Operands& operands) {
    if constexpr (F::kMapOnly) {
        RowGrid grid = whole;  // no reduction: blocks of one row are independent
        if (grid.lanes > 32 && !grid.rows_are_adjacent) std::swap(grid.splits, grid.tiles);
        return launch_rows<N, V>(launch, grid, f, operands, nullptr);
    }
    if constexpr (F::kOnePass) {
        RowGrid grid = whole;
        split_rows(&grid, N * V);
        Carver measure;
        measure.take<typename F::Acc>(grid.rows * grid.splits);
        if (grid.splits > 1 && workspace_holds(launch, measure.bytes())) {
            Carver carver(launch.workspace);
            void* const partials = carver.take<typename F::Acc>(grid.rows * grid.splits);
            grid.stage = RowStage::kReduce;
            BK_TRY((launch_rows<N, V>(launch, grid, f, operands, partials)));
            grid.stage = RowStage::kMap;
            return launch_rows<N, V>(launch, grid, f, operands, partials);
        }
    }
    return launch_rows<N, V>(launch, whole, f, operands, nullptr);
}

// Upper bound over all launch shapes.
template <class F, int Full, int Single>
size_t map_rows_workspace(const RowAxes<Full, Single>& axes) {
    if (!F::kOnePass || axes.inner.numel() < kRowThreads || axes.outer.numel() > 512) return 0;
    Carver carver;
    carver.take<typename F::Acc>(axes.outer.numel() * 512);
    return carver.bytes();
}

// Whether each row of each operand is dense and a multiple of N elements.
template <int N, int Full, int Operands>
bool are_vectors(const Layout<Full>& inner, const Layout<Operands>& outer) {
    if (inner.rank != 1 || inner.extent[0] % N != 0) return false;
    for (int k = 0; k < Full; ++k) {
        if (inner.stride[k][0] != 1) return false;
        for (int d = 0; d < outer.rank; ++d)
            if (outer.stride[k][d] % N != 0) return false;
    }
    return true;
}

template <int Full, int Single, class F, class... In, class... Column, class... RowIn, class... Out, class... Saved,
          size_t... I, size_t... K, size_t... O>
Status map_rows_of(const Launch& launch, const RowAxes<Full, Single>& axes, const F& f, const Inputs<In...>& x,
                   const Inputs<Column...>& columns, const Inputs<RowIn...>& row_inputs, const Outputs<Out...>& y,
                   const Outputs<Saved...>& saved, std::index_sequence<I...>, std::index_sequence<K...>,
                   std::index_sequence<O...>) {
    using Operands =
        RowOperands<Full, Single, Inputs<In...>, Inputs<Column...>, Inputs<RowIn...>, Outputs<Out...>, Outputs<Saved...>>;
    constexpr int N = kVectorBytes / static_cast<int>(sizeof(*get<0>(x.pointer)));
    const int64_t n = axes.inner.numel();
    const Layout<Full> inner =
        n == 0 ? Layout<Full>{} : merge_axes(axes.inner);  // LongWalk divides by extents, so none may be 0
    const auto outer = collapse(axes.outer);
    const int64_t rows = outer.numel();
    if (rows == 0) return Status::kOk;
    constexpr int64_t kLongest = int64_t{INT32_MAX} - (int64_t{1} << 27);  // indices past the row end still fit 32 bits
    if (n > kLongest) return fail(Status::kUnsupported, "rows of %lld elements are too long", static_cast<long long>(n));

    const bool wide = are_vectors<N>(inner, outer) && all_aligned(x.pointer, N, std::index_sequence<I...>{}) &&
                      all_aligned(columns.pointer, N, std::index_sequence<K...>{}) &&
                      all_aligned(y.pointer, N, std::index_sequence<O...>{});
    const Operands operands{
        LongWalk<Full>(inner), Walk<Full + Single, uint64_t>(outer), x.pointer, columns.pointer, row_inputs.pointer, y.pointer,
        saved.pointer};
    const bool has_clusters = kHasClusterCode && !F::kMapOnly && device_arch() >= 90;
    constexpr bool is_streaming = F::kOnePass && sizeof...(Out) == 0;
    if (wide) {
        constexpr int kTransformed = kMaxTransformedVectors<F, N>, kMany = kMaxVectors<F, N, Operands>;
        constexpr int kFew = kFewVectors<F, N>;
        if constexpr (kMapsColumns<F, Inputs<Column...>>) {
            const ColumnGrid grid = ColumnGrid::of<Full>(outer, n, N, kVectorsAtOnce<N, Operands>);
            if (grid.is_there()) return launch_columns<N>(launch, grid, f, operands);
            return run_rows<N, kFew>(launch, plan_rows(rows, n, N * kFew, N, false, is_streaming), f, operands);
        } else if constexpr (F::kMapOnly) {
            const LongRowGrid grid = LongRowGrid::of(rows, n, N, kVectorsAtOnce<N, Operands>);
            if (grid.is_there()) return launch_long_rows<N>(launch, grid, f, operands);
            return run_rows<N, kFew>(launch, plan_rows(rows, n, N * kFew, N, false, is_streaming), f, operands);
        } else {
            // Starting a thread costs as much as tens of elements, so few vectors per thread pay only if rows are short
            // or the chip is not full.
            const bool few =
                n <= 2 * N * kTransformed || (rows * n <= kRowTargetThreads * N * kFew && n <= kRowThreads * N * kFew);
            if (few) return run_rows<N, kFew>(launch, plan_rows(rows, n, N * kFew, N, has_clusters, is_streaming), f, operands);
            // On a full chip kMany saves blocks for long rows and threads for read-only rows. Otherwise caching
            // transformed elements wins, since map() then reuses exponentials (bf16 gradients of 1000 classes: 148 us,
            // not 179).
            const bool is_full = rows * ceil_div<int64_t>(n, N * kMany) >= kRowTargetThreads;
            const bool many = is_full && (is_streaming || n > int64_t{kRowThreads} * N * kTransformed);
            if (many)
                return run_rows<N, kMany>(launch, plan_rows(rows, n, N * kMany, N, has_clusters, is_streaming), f, operands);
            return run_rows<N, kTransformed>(launch, plan_rows(rows, n, N * kTransformed, N, has_clusters, is_streaming), f,
                                             operands);
        }
    }
    const int last = outer.rank - 1;
    const bool is_adjacent =
        last >= 0 && n > 1 && magnitude(outer.stride[0][last]) < magnitude(inner.stride[0][inner.rank - 1]);
    constexpr int kScalars = kRowScalars<F>;
    // Many long scalar rows take one block each and are read twice: a thread's few scalars do not pay for
    // its start in a cluster.
    const bool by_clusters = has_clusters && rows * kMostRowThreads < kRowTargetThreads;
    const RowGrid grid =
        is_adjacent ? plan_adjacent_rows(rows, n, kScalars) : plan_rows(rows, n, kScalars, 1, by_clusters, is_streaming);
    return run_rows<1, kScalars>(launch, grid, f, operands);
}

template <class F, int Full, int Single, class... In, class... Column, class... RowIn, class... Out, class... Saved>
Status map_rows(const Launch& launch, const RowAxes<Full, Single>& axes, const F& f, const Inputs<In...>& x,
                const Inputs<Column...>& columns, const Inputs<RowIn...>& row_inputs, const Outputs<Out...>& y,
                const Outputs<Saved...>& saved) {
    static_assert(Full == sizeof...(In) + sizeof...(Out) && Single == sizeof...(RowIn) + sizeof...(Saved), "an operand each");
    return map_rows_of(launch, axes, f, x, columns, row_inputs, y, saved, std::index_sequence_for<In...>{},
                       std::index_sequence_for<Column...>{}, std::index_sequence_for<Out...>{});
}

}  // namespace bk

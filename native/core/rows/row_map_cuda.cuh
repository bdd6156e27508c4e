// Rows on a GPU. A row is held in the registers of a part of a warp, of a block or of a cluster of blocks, and so read once;
// what is longer is read again. Three kernels: dense rows by many vectors a thread, short ones and few ones by few, and rows of
// any strides by single elements. Rows that are neighbours in memory across their axis take the last with neighbouring threads
// for neighbouring rows. A few long rows are cut into parts, where there is a workspace for their statistics. What only
// maps walks over rows, by numbers of columns (row_columns.cuh), or along a row, by numbers of that (row_numbers.cuh).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/abi/launch.h"
#include "core/cluster.cuh"
#include "core/pointwise/layout.h"
#include "core/rows/row_columns.cuh"
#include "core/rows/row_exchange.cuh"
#include "core/rows/row_kept.cuh"
#include "core/rows/row_map.h"
#include "core/rows/row_numbers.cuh"
#include "core/rows/row_operands.cuh"

namespace bk {

// Rows are read once, up to a length that few have.
constexpr bool kRowsStayOnChip = true;

constexpr int kMostRowThreads = 1024;
constexpr int kRowThreads = 512;      // of a block that has rows to itself: two of them share a multiprocessor
constexpr int kPassingThreads = 256;  // of a block that takes the tiles of a row one after another: four share a multiprocessor
constexpr int64_t kRowTargetThreads = int64_t{1} << 17;  // about what fills a large chip; constant, as results are

// What a launch does: a pass over rows; or, of rows in parts, the statistics of each part, then the map.
enum class RowStage { kWhole, kSums, kMaps };

// How threads share rows.
struct RowGrid {
    RowStage stage = RowStage::kWhole;
    int64_t rows = 0;
    int n = 0;
    int lanes = 1;  // threads of a block that share a row
    int rows_of_block = 1;
    bool is_across = false;  // neighbouring threads have neighbouring rows
    int shift = 31;          // of the bits of a thread's number that say its lane, across rows its row
    int blocks = 1;          // of a cluster, that share a row
    int parts = 1;           // of a row, each a block's
    int tiles = 1;           // times that a block's threads take their elements
};

template <int N, int V, class F, class Operands>
__global__ void __launch_bounds__(kMostRowThreads)
    map_rows_kernel(const __grid_constant__ Operands operands, const F f, const RowGrid grid, void* parts) {
    using Acc = typename F::Acc;
    __shared__ RowExchange<Acc> exchange;
    BK_LAUNCH_SHARED(uint4, dynamic);
    if (!F::kOnlyMaps && grid.blocks > 1) exchange.blocks.open();
    const int thread = static_cast<int>(threadIdx.x), low = thread & ((1u << grid.shift) - 1), high = thread >> grid.shift;
    const int lane = grid.is_across ? high : low, local = grid.is_across ? low : high;
    const int sharing = grid.blocks * grid.parts;  // blocks that share rows
    int share = 0;
    unsigned group = blockIdx.x;
    if (sharing > 1) {
        share = static_cast<int>(blockIdx.x % sharing);
        group = blockIdx.x / sharing;
    }
    const int64_t wanted = int64_t{group} * grid.rows_of_block + local;
    const bool exists = wanted < grid.rows;
    const int64_t r = exists ? wanted : grid.rows - 1;  // threads without a row have an empty one
    const int n = exists ? grid.n : 0;
    const auto at = operands.row(r);
    auto row = operands.start(f, r);
    // Tiles of a row's blocks lie one after another; the tiles of a part do.
    const int threads = grid.lanes * grid.blocks, tile = threads * V * N;
    const int part = grid.parts == 1 ? 0 : share;
    const int begin = part * grid.tiles * tile;
    const int mine_at = ((grid.parts == 1 ? share : 0) * grid.lanes + lane) * N;
    const auto span = [&](int t) { return RowTile<N, V>{begin + t * tile + mine_at, threads * N, n}; };
    const bool is_first = exists && lane == 0 && share == 0;
    [[maybe_unused]] const auto picked = [&] {
        if constexpr (kPicks<F>)
            return operands.template element<N>(at, is_first && grid.stage != RowStage::kMaps ? f.picks(row) : -1);
        else
            return 0;
    }();
    Kept<N, V, F, Operands> kept;
    Acc mine = f.identity();
    if constexpr (F::kOnlyMaps) {
    } else if (grid.stage != RowStage::kMaps) {
        constexpr bool kLoops = !F::kOnePass || F::kRepeats;
        int turn = 0;
        bool is_part = false;
        // Whether the row wants another pass.
        const auto pass = [&](auto& taken, bool holds, int tiles, const auto& tile_at) {
            Acc all = f.identity();
#pragma unroll 1
            for (int t = 0; t < tiles; ++t) {
                const auto where = tile_at(t);
                if (!holds) taken.load(operands, f, at, row, where);
                mine = taken.sum_up(operands, f, row, where);
                all = tiles == 1 ? mine : f.combine(all, mine);
            }
            if (grid.is_across)
                all = combine_apart(f, all, grid.rows_of_block, grid.lanes, reinterpret_cast<AccWords<Acc>*>(dynamic));
            else if (grid.lanes <= 32)
                all = combine_lanes(f, all, grid.lanes);
            else
                all = combine_block(f, all, exchange, turn);
            if (grid.blocks > 1) all = combine_cluster(f, all, grid.blocks, exchange, turn);
            ++turn;
            if constexpr (kPicks<F>)
                if (is_first) f.pick(row, &all, picked);
            if (grid.stage == RowStage::kSums) {
                if constexpr (F::kRepeats)
                    if (f.rescales(row, all, int64_t{grid.tiles} * tile)) return true;
                if (threadIdx.x == 0) static_cast<AccWords<Acc>*>(parts)[r * grid.parts + part] = AccWords<Acc>::of(all);
                is_part = true;
                return false;
            }
            bool again = f.finish(row, all, grid.n);
            if constexpr (kLoops) again = grid.is_across ? __syncthreads_or(again) : __any_sync(0xffffffffu, again);
            return again;
        };
        bool again = pass(kept, false, grid.tiles, span);
        if constexpr (F::kOnePass && F::kOnlySums && F::kRepeats) {
            // The rare second pass takes a vector at a time: a loop over all that is held would spill it.
            if (again) {
                Kept<N, 1, F, Operands> one;
                pass(one, false, grid.tiles * V, [&](int t) {
                    return RowTile<N, 1>{begin + t / V * tile + t % V * (threads * N) + mine_at, threads * N, n};
                });
            }
        } else {
            while (kLoops && again) again = pass(kept, grid.tiles == 1, grid.tiles, span);
        }
        if (is_part) return;
    } else if constexpr (F::kRepeats) {
        const RowParts<F> of_parts{f};
        Acc all = f.identity();
        for (int p = threadIdx.x; p < grid.parts; p += blockDim.x)
            all = of_parts.combine(all, static_cast<const AccWords<Acc>*>(parts)[r * grid.parts + p].value());
        f.complete_parts(row, combine_block(of_parts, all, exchange, 0), grid.n);
    } else {
        Acc all = f.identity();
        for (int p = threadIdx.x; p < grid.parts; p += blockDim.x)
            all = f.combine(all, static_cast<const AccWords<Acc>*>(parts)[r * grid.parts + p].value());
        f.finish(row, combine_block(f, all, exchange, 0), grid.n);
    }
    if constexpr (Operands::kOut > 0) {
        for (int t = 0; t < grid.tiles; ++t) {
            const RowTile<N, V> where = span(t);
            if (F::kOnlyMaps || grid.tiles > 1 || grid.stage == RowStage::kMaps) {
                kept.load(operands, f, at, row, where);
                if constexpr (kept.kSumsFirst) mine = kept.sum_up(operands, f, row, where);
            }
            if (exists) kept.map(operands, f, at, row, mine, where);
        }
    }
    if (is_first) operands.save(f, r, row);
}

// --- plans ------------------------------------------------------------------------------------------------------------

template <class F>
constexpr int kRowSingles = kFewRowVectors<F, 1>;

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

// Threads of rows of n elements, `values` of them a thread. Rows `in_passing` are read once and not held.
inline RowGrid share_rows(int64_t rows, int64_t n, int values, int vector, bool has_clusters, bool in_passing) {
    RowGrid grid;
    grid.rows = rows;
    grid.n = static_cast<int>(n);
    const int64_t threads = ceil_div<int64_t>(n, values);
    if (threads <= 32) {
        grid.lanes = std::max(power_of_two_from(threads), std::min(4, power_of_two_from(ceil_div<int64_t>(n, vector))));
        grid.rows_of_block = 128 / grid.lanes;
        grid.shift = log2_of(grid.lanes);
        return grid;
    }
    const bool alone = in_passing && rows * kPassingThreads >= kRowTargetThreads;
    const int most = alone                                                      ? kPassingThreads
                     : threads > kRowThreads * kMostRowCluster || !has_clusters ? kMostRowThreads
                                                                                : kRowThreads;
    if (has_clusters && !alone) grid.blocks = std::min(kMostRowCluster, power_of_two_from(ceil_div<int64_t>(threads, most)));
    const int64_t each = ceil_div<int64_t>(threads, grid.blocks);
    grid.lanes = static_cast<int>(std::min<int64_t>(most, ceil_div<int64_t>(each, 32) * 32));
    grid.tiles = static_cast<int>(ceil_div<int64_t>(n, int64_t{grid.lanes} * grid.blocks * values));
    return grid;
}

// Rows whose neighbours in memory are those of other rows.
inline RowGrid share_across(int64_t rows, int64_t n, int values) {
    RowGrid grid;
    grid.rows = rows;
    grid.n = static_cast<int>(n);
    grid.is_across = true;
    grid.rows_of_block = std::min(32, power_of_two_from(rows));
    grid.shift = log2_of(grid.rows_of_block);
    grid.lanes = std::min(kMostRowThreads / 32, power_of_two_from(ceil_div<int64_t>(n, values)));
    grid.lanes = std::max(grid.lanes, 32 / grid.rows_of_block);
    grid.tiles = static_cast<int>(ceil_div<int64_t>(n, int64_t{grid.lanes} * values));
    return grid;
}

// Cuts long rows that are too few to fill the chip.
inline void cut_rows(RowGrid* grid, int values) {
    if (grid->tiles == 1 || grid->is_across || grid->rows * kMostRowThreads * kMostRowCluster > kRowTargetThreads) return;
    grid->blocks = 1;
    grid->lanes = kRowThreads;
    const int64_t all = ceil_div<int64_t>(grid->n, int64_t{kRowThreads} * values);
    const int64_t parts = std::min<int64_t>({all, 512, 2 * kRowTargetThreads / kRowThreads / grid->rows});
    grid->tiles = static_cast<int>(ceil_div(all, parts));
    grid->parts = static_cast<int>(ceil_div<int64_t>(all, grid->tiles));
}

template <int N, int V, class F, class Operands>
Status launch_rows(const Launch& launch, const RowGrid& grid, const F& f, const Operands& operands, void* parts) {
    const int64_t blocks = ceil_div<int64_t>(grid.rows, grid.rows_of_block) * grid.blocks * grid.parts;
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld rows are too many for one launch", static_cast<long long>(grid.rows));
    const unsigned threads = static_cast<unsigned>(grid.lanes * grid.rows_of_block);
    const unsigned shared = grid.is_across ? threads * static_cast<unsigned>(sizeof(typename F::Acc)) : 0;
    return launch_kernel(launch,
                         Grid{dim3(static_cast<unsigned>(blocks)), dim3(threads), static_cast<unsigned>(grid.blocks), shared},
                         map_rows_kernel<N, V, F, Operands>, operands, f, grid, parts);
}

template <int N, int V, class F, class Operands>
Status run_rows(const Launch& launch, const RowGrid& whole, const F& f, const Operands& operands) {
    if constexpr (F::kOnlyMaps) {
        RowGrid grid = whole;  // blocks that share a row have nothing to tell each other
        if (grid.lanes > 32 && !grid.is_across) std::swap(grid.parts, grid.tiles);
        return launch_rows<N, V>(launch, grid, f, operands, nullptr);
    }
    if constexpr (F::kOnePass) {
        RowGrid grid = whole;
        cut_rows(&grid, N * V);
        Carver measure;
        measure.take<typename F::Acc>(grid.rows * grid.parts);
        if (grid.parts > 1 && workspace_holds(launch, measure.bytes())) {
            Carver carver(launch.workspace);
            void* const parts = carver.take<typename F::Acc>(grid.rows * grid.parts);
            grid.stage = RowStage::kSums;
            BK_TRY((launch_rows<N, V>(launch, grid, f, operands, parts)));
            grid.stage = RowStage::kMaps;
            return launch_rows<N, V>(launch, grid, f, operands, parts);
        }
    }
    return launch_rows<N, V>(launch, whole, f, operands, nullptr);
}

// The most that any plan asks for.
template <class F, int Full, int Single>
size_t map_rows_workspace(const RowAxes<Full, Single>& axes) {
    if (!F::kOnePass || axes.inner.numel() < kRowThreads || axes.outer.numel() > 512) return 0;
    Carver carver;
    carver.take<typename F::Acc>(axes.outer.numel() * 512);
    return carver.bytes();
}

// Whether every row of every operand is whole vectors of N.
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
    const Layout<Full> inner = n == 0 ? Layout<Full>{} : merge_axes(axes.inner);  // a walk divides by its extents
    const auto outer = collapse(axes.outer);
    const int64_t rows = outer.numel();
    if (rows == 0) return Status::kOk;
    constexpr int64_t kLongest = int64_t{INT32_MAX} - (int64_t{1} << 27);  // positions beyond the end still fit 32 bits
    if (n > kLongest) return fail(Status::kUnsupported, "rows of %lld elements are too long", static_cast<long long>(n));

    const bool wide = are_vectors<N>(inner, outer) && all_aligned(x.pointer, N, std::index_sequence<I...>{}) &&
                      all_aligned(columns.pointer, N, std::index_sequence<K...>{}) &&
                      all_aligned(y.pointer, N, std::index_sequence<O...>{});
    const Operands operands{
        LongWalk<Full>(inner), Walk<Full + Single, uint64_t>(outer), x.pointer, columns.pointer, row_inputs.pointer, y.pointer,
        saved.pointer};
    const bool has_clusters = kHasClusterCode && !F::kOnlyMaps && device_arch() >= 90;
    constexpr bool in_passing = F::kOnePass && sizeof...(Out) == 0;
    if (wide) {
        constexpr int kElements = kManyElementVectors<F, N>, kMany = kManyRowVectors<F, N, Operands>;
        constexpr int kFew = kFewRowVectors<F, N>;
        if constexpr (kMapsColumns<F, Inputs<Column...>>) {
            const ColumnGrid grid = ColumnGrid::of<Full>(outer, n, N, kVectorsAtOnce<N, Operands>);
            if (grid.is_there()) return launch_columns<N>(launch, grid, f, operands);
            return run_rows<N, kFew>(launch, share_rows(rows, n, N * kFew, N, false, in_passing), f, operands);
        } else if constexpr (F::kOnlyMaps) {
            const NumberGrid grid = NumberGrid::of(rows, n, N, kVectorsAtOnce<N, Operands>);
            if (grid.is_there()) return launch_by_numbers<N>(launch, grid, f, operands);
            return run_rows<N, kFew>(launch, share_rows(rows, n, N * kFew, N, false, in_passing), f, operands);
        } else {
            // A thread's start costs as much as tens of elements: few of them a thread where rows are short or the chip not
            // full.
            const bool few =
                n <= 2 * N * kElements || (rows * n <= kRowTargetThreads * N * kFew && n <= kRowThreads * N * kFew);
            if (few) return run_rows<N, kFew>(launch, share_rows(rows, n, N * kFew, N, has_clusters, in_passing), f, operands);
            // Rows of many blocks get fewer of them, and short ones that are only read fewer threads, where the chip is full.
            // Elsewhere an exponential that is not made twice is worth more (bf16 gradients of 1000 classes: 148 microseconds,
            // not 179).
            const bool is_full = rows * ceil_div<int64_t>(n, N * kMany) >= kRowTargetThreads;
            const bool many = is_full && (in_passing || n > int64_t{kRowThreads} * N * kElements);
            if (many)
                return run_rows<N, kMany>(launch, share_rows(rows, n, N * kMany, N, has_clusters, in_passing), f, operands);
            return run_rows<N, kElements>(launch, share_rows(rows, n, N * kElements, N, has_clusters, in_passing), f, operands);
        }
    }
    const int last = outer.rank - 1;
    const bool across = last >= 0 && n > 1 && magnitude(outer.stride[0][last]) < magnitude(inner.stride[0][inner.rank - 1]);
    constexpr int kSingles = kRowSingles<F>;
    // Many long rows are read twice by a block each: a thread has too few single elements to be worth its start in a cluster.
    const bool by_clusters = has_clusters && rows * kMostRowThreads < kRowTargetThreads;
    const RowGrid grid = across ? share_across(rows, n, kSingles) : share_rows(rows, n, kSingles, 1, by_clusters, in_passing);
    return run_rows<1, kSingles>(launch, grid, f, operands);
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

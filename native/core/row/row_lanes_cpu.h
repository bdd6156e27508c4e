// SPDX-License-Identifier: Apache-2.0
// CPU row reduce + map vectorised across adjacent rows, as for softmax along an outer axis: memory is contiguous across
// rows, and each SIMD lane processes one row, index by index. Accumulators are combined in the tree order of dense rows
// (sum_of in row_map.h), so results are bit-identical. Short dense rows are transposed into this layout by tiles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/copy/transpose_cpu.h"
#include "core/layout/layout.h"
#include "core/row/row_map.h"
#include "core/row/row_memory_cpu.h"

namespace bk {

constexpr int kLaneStep = 16;          // lanes per loop
constexpr int kLaneStackBytes = 9216;  // of accumulators
constexpr int64_t kMaxTileRow = 31;    // row length limit: a row of 32 fills a chunk
constexpr int kPrefetchAhead = 6;      // prefetch distance in indices
constexpr int kPrefetchSteps = 4;      // prefetch distance in steps of the tree order

// The `where` argument of reduce_tile() for one element.
struct OnePosition {
    int64_t position;
    BK_HD bool has(int) const { return true; }
    BK_HD int count() const { return 1; }
    BK_HD int64_t at(int i) const { return position + i; }
};

// Struct of arrays: S for kLanes rows. Members is a Pack of member pointers, or Nothing if S is a scalar.
template <class S, class Members, int kLanes>
struct LanesOf {
    Block<S, kLanes> of;
    BK_HD void load(Members, int lane, S& to) const { to = of.cell[lane]; }
    BK_HD void store(Members, int lane, const S& from) { of.cell[lane] = from; }
};
template <class S, class... Owner, class... T, int kLanes>
struct LanesOf<S, Pack<T Owner::*...>, kLanes> {
    using Members = Pack<T Owner::*...>;
    Pack<Block<T, kLanes>...> of;
    BK_HD void load(const Members& members, int lane, S& to) const { load(members, lane, to, std::index_sequence_for<T...>{}); }
    BK_HD void store(const Members& members, int lane, const S& from) {
        store(members, lane, from, std::index_sequence_for<T...>{});
    }

private:
    template <size_t... I>
    BK_HD void load(const Members& members, int lane, S& to, std::index_sequence<I...>) const {
        ((to.*get<I>(members) = get<I>(of).cell[lane]), ...);
    }
    template <size_t... I>
    BK_HD void store(const Members& members, int lane, const S& from, std::index_sequence<I...>) {
        ((get<I>(of).cell[lane] = from.*get<I>(members)), ...);
    }
};

// body(lane) for blocks * kLaneStep lanes.
template <class Body>
BK_HD void each_lane(int blocks, const Body& body) {
    for (int block = 0; block < blocks; ++block) {
        const int first = block * kLaneStep;
        BK_VECTOR_LOOP
        for (int i = 0; i < kLaneStep; ++i) body(first + i);
    }
}

// Processes the rows of a RowJob, up to kLanes at a time.
template <class Job, class X, class K, class Y>
struct LaneJob;

template <class Job, class... In, class... Column, class... Out>
struct LaneJob<Job, Inputs<In...>, Inputs<Column...>, Outputs<Out...>> {
    using F = typename Job::Function;
    using Row = typename F::Row;
    using Acc = typename F::Acc;
    using Cached = typename F::Cached;
    static constexpr int kIn = Job::kIn, kOut = Job::kOut, kChunk = Job::kChunk;
    static constexpr int levels_of(int chunk) { return chunk == 1 ? 0 : 1 + levels_of(chunk / 2); }
    static constexpr int kLevels = levels_of(kChunk);
    // Lanes per batch: accumulators fit in kLaneStackBytes; those of four f64 stay below 24 KiB with temporaries.
    static constexpr int lanes() {
        int count = sizeof(Acc) < 32 ? 128 : kLaneStep;
        while (count > kLaneStep && count * static_cast<int>(sizeof(Acc)) * (kLevels + 3) > kLaneStackBytes) count /= 2;
        return count;
    }
    static constexpr int kLanes = lanes();
    // Stack of a transposed tile; f64 accumulators leave less of it.
    static constexpr int kTileBytes = (false || ... || (sizeof(In) == 8)) ? 2048 : 4096;
    static constexpr bool kFindsMax = std::is_base_of_v<MaxKnown, Row>;
    // The output caches what reduce_tile() wrote, for map().
    static constexpr bool kCachesInOutput =
        F::kMapIsElementwise && kIn == 1 && kOut == 1 && (std::is_same_v<Out, Cached> && ...);
    using RowLanes = LanesOf<Row, decltype(F::row_members()), kLanes>;
    using AccLanes = LanesOf<Acc, decltype(F::acc_members()), kLanes>;

    const Job& job;

    // A batch of adjacent rows.
    struct Batch {
        typename Job::At at;  // of the first row
        int rows, blocks;
        Row common;  // members that are equal for all rows
        RowLanes row;
        AccLanes all;
    };

    template <bool kHasMax>
    static BK_HD Row row_of(const Batch& batch, int lane) {
        Row row = batch.common;
        batch.row.load(F::row_members(), lane, row);
        if constexpr (kFindsMax) row.knows_max = kHasMax;
        return row;
    }
    static BK_HD Acc acc_of(const AccLanes& lanes, int lane) {
        Acc acc;
        lanes.load(F::acc_members(), lane, acc);
        return acc;
    }
    BK_HD void clear(const Batch& batch, AccLanes& lanes) const {
        const Acc none = job.f.identity();
        each_lane(batch.blocks, [&](int l) BK_INLINED { lanes.store(F::acc_members(), l, none); });
    }
    // to = combine(a, b) in each lane.
    BK_HD void combine(const Batch& batch, AccLanes& to, const AccLanes& a, const AccLanes& b) const {
        const F fn = job.f;
        each_lane(batch.blocks,
                  [&](int l) BK_INLINED { to.store(F::acc_members(), l, fn.combine(acc_of(a, l), acc_of(b, l))); });
    }

    // Whether lanes are contiguous in memory, and a multiple of kLaneStep.
    BK_HD bool is_dense(const Batch& batch, int k) const { return job.row_offset(k, 1) == 1 && batch.rows % kLaneStep == 0; }

    template <class T>
    BK_HD T* pointer_at(T* operand, int k, const Batch& batch, int64_t position) const {
        return operand + signed_offset(batch.at.of[k]) + position * job.fibers.step[k];
    }

    template <int I, class T>
    BK_HD const compute_t<T>* load(const Batch& batch, int64_t position, compute_t<T>* wide, const T* operand) const {
        const T* from = pointer_at(operand, I, batch, position);
        Block<T, kLanes> buffer;
        if (!is_dense(batch, I)) {
            if (job.row_offset(I, 1) == 1)
                memcpy(buffer.cell, from, static_cast<size_t>(batch.rows) * sizeof(T));
            else
                gather_run(buffer.cell, from, job.row_offset(I, 1), batch.rows);
            for (int l = batch.rows; l < batch.blocks * kLaneStep; ++l) buffer.cell[l] = buffer.cell[0];
            from = buffer.cell;
        }
        if constexpr (std::is_same_v<T, compute_t<T>>) {
            if (from == buffer.cell) memcpy(wide, from, static_cast<size_t>(batch.blocks * kLaneStep) * sizeof(T));
            return from == buffer.cell ? wide : from;
        } else {
            widen_lanes(batch, wide, from);
            return wide;
        }
    }
    template <class T>
    static BK_HD void widen_lanes(const Batch& batch, compute_t<T>* BK_RESTRICT to, const T* BK_RESTRICT from) {
        if constexpr (std::is_same_v<T, f16>)
            widen_span(to, from, batch.blocks * kLaneStep);
        else
            each_lane(batch.blocks, [&](int l) BK_INLINED { to[l] = widen(from[l]); });
    }
    template <class T>
    BK_HD void store(const Batch& batch, int k, int64_t position, T* operand, const compute_t<T>* from) const {
        if (operand == nullptr) return;
        T* const target = pointer_at(operand, k, batch, position);
        if constexpr (std::is_same_v<T, compute_t<T>>)
            if (from == target) return;
        Block<T, kLanes> buffer;
        T* BK_RESTRICT const to = is_dense(batch, k) ? target : buffer.cell;
        if constexpr (std::is_same_v<T, f16>)
            narrow_span(to, from, batch.blocks * kLaneStep);
        else
            each_lane(batch.blocks, [&](int l) BK_INLINED { to[l] = narrow<T>(from[l]); });
        if (to == target) return;
        if (job.row_offset(k, 1) == 1)
            memcpy(target, buffer.cell, static_cast<size_t>(batch.rows) * sizeof(T));
        else
            scatter_run(target, buffer.cell, job.row_offset(k, 1), batch.rows);
    }
    // Destination of results in the compute type: the output itself if dense and of that type, else `buffer`.
    template <class T>
    BK_HD compute_t<T>* target_of(const Batch& batch, int k, int64_t position, T* operand, compute_t<T>* buffer) const {
        if constexpr (std::is_same_v<T, compute_t<T>>)
            if (operand != nullptr && is_dense(batch, k)) return pointer_at(operand, k, batch, position);
        return buffer;
    }

    // Lanes of each input at one index.
    using Cells = Pack<const compute_t<In>*...>;

    // body(f, lanes of the inputs at `position`).
    template <class Body, size_t... I>
    BK_HD void at_position(const Batch& batch, int64_t position, const Body& body, std::index_sequence<I...>) const {
        Pack<Block<compute_t<In>, kLanes>...> wide;
        const Cells cell = pack(load<I, In>(batch, position, get<I>(wide).cell, get<I>(job.x))...);
        in_case(job.f, [&](const F& known) BK_INLINED {
            const F fn = F::at(known, position);
            body(fn, cell);
        });
    }
    template <size_t... I>
    static BK_HD Cached transform(const F& fn, const Row& row, int64_t position, const Cells& cell, int lane,
                                  std::index_sequence<I...>) {
        return fn.transform(row, position_params_of(fn, row, position), get<I>(cell)[lane]...);
    }

    template <size_t... I>
    BK_HD void prefetch(const Batch& batch, int64_t position, std::index_sequence<I...>) const {
        if (position >= job.n) return;
        ((job.row_offset(I, 1) == 1 ? prefetch_chunk<0>(pointer_at(get<I>(job.x), I, batch, position), batch.rows) : void()),
         ...);
    }

    // Outputs are only stored to, which the hardware prefetcher ignores.
    template <size_t... O>
    BK_HD void prefetch_outputs(const Batch& batch, int64_t position, std::index_sequence<O...>) const {
        if (position >= job.n) return;
        ((get<O>(job.y) != nullptr && job.row_offset(kIn + O, 1) == 1
              ? prefetch_chunk<1>(pointer_at(get<O>(job.y), kIn + O, batch, position), batch.rows)
              : void()),
         ...);
    }

    // Row maxima; their order is free.
    BK_HD void find_max(Batch& batch) const {
        constexpr std::index_sequence_for<In...> ins{};
        clear(batch, batch.all);
        for (int64_t position = 0; position < job.n; ++position) {
            prefetch(batch, position + kPrefetchAhead, ins);
            at_position(
                batch, position,
                [&](const F& fn, const Cells& cell) BK_INLINED {
                    each_lane(batch.blocks, [&](int l) BK_INLINED {
                        const Row row = row_of<false>(batch, l);
                        Cached cached[1] = {transform(fn, row, position, cell, l, ins)};
                        Acc all = acc_of(batch.all, l);
                        all.max = MaxOp{}(all.max, fn.reduce_tile(row, cached, OnePosition{position}).max);
                        batch.all.store(F::acc_members(), l, all);
                    });
                },
                ins);
        }
    }

    // Successor of `index` in bit-reversed order, which visits leaves as the tree of sum_of() combines them.
    static BK_HD int next_in_tree(int index) {
        int bit = kChunk / 2;
        for (; index & bit; bit /= 2) index ^= bit;
        return index | bit;
    }

    // acc = combine(acc, statistics of indices [first, first + count) of a chunk).
    template <bool kInOutput>
    BK_HD void sum_chunk(const Batch& batch, int64_t first, int count, AccLanes (&scratch)[kLevels + 1], AccLanes& acc) const {
        AccLanes *level[kLevels + 1], *now = &scratch[kLevels];  // level[d]: a subtree of 2^d steps
        bool exists[kLevels + 1] = {};
        for (int d = 0; d < kLevels; ++d) level[d] = &scratch[d];
        int ahead = 0;
        for (int i = 0; i < kPrefetchSteps; ++i) ahead = next_in_tree(ahead);
        for (int i = 0, index = 0; i < kChunk; ++i, index = next_in_tree(index), ahead = next_in_tree(ahead)) {
            const int64_t later = first + ahead + (i + kPrefetchSteps < kChunk ? 0 : kChunk);
            prefetch(batch, later, std::index_sequence_for<In...>{});
            if constexpr (kInOutput) prefetch_outputs(batch, later, std::index_sequence_for<Out...>{});
            bool any = index < count;
            if (any) sum_position<kInOutput>(batch, first + index, *now);
            int d = 0;
            for (; i >> d & 1; ++d) {
                if (any)
                    combine(batch, *now, *level[d], *now);
                else if (exists[d])
                    std::swap(level[d], now);
                any |= exists[d];
            }
            if (d == kLevels) break;
            exists[d] = any;
            if (any) std::swap(level[d], now);
        }
        combine(batch, acc, acc, *now);
    }

    // Statistics of one index. kInOutput: the output caches the elements.
    template <bool kInOutput>
    BK_HD void sum_position(const Batch& batch, int64_t position, AccLanes& to) const {
        constexpr std::index_sequence_for<In...> ins{};
        Block<Cached, kInOutput ? kLanes : 1> buffer;
        [[maybe_unused]] Cached* stored = buffer.cell;
        if constexpr (kInOutput) stored = target_of(batch, kIn, position, get<0>(job.y), stored);
        at_position(
            batch, position,
            [&](const F& fn, const Cells& cell) BK_INLINED {
                each_lane(batch.blocks, [&](int l) BK_INLINED {
                    const Row row = row_of<true>(batch, l);
                    Cached cached[1] = {transform(fn, row, position, cell, l, ins)};
                    to.store(F::acc_members(), l, fn.reduce_tile(row, cached, OnePosition{position}));
                    if constexpr (kInOutput) stored[l] = cached[0];
                });
            },
            ins);
        if constexpr (kInOutput) store(batch, kIn, position, get<0>(job.y), stored);
    }

    // Reduces in the segments and chunks of dense rows.
    template <bool kInOutput>
    BK_HD void reduce_tile(Batch& batch, AccLanes (&scratch)[kLevels + 1]) const {
        AccLanes acc;
        clear(batch, batch.all);
        for (int64_t at = 0, end = 0; at < job.n; at = end) {
            end = std::min(at + job.segment(), job.n);
            clear(batch, acc);
            for (int64_t first = at; first < end; first += kChunk)
                sum_chunk<kInOutput>(batch, first, static_cast<int>(std::min<int64_t>(end - first, kChunk)), scratch, acc);
            combine(batch, batch.all, batch.all, acc);
        }
    }

    template <bool kHasMax>
    BK_HD void finish(Batch& batch) const {
        const F fn = job.f;
        each_lane(batch.blocks, [&](int l) BK_INLINED {
            Row row = row_of<kHasMax>(batch, l);
            fn.finish(row, acc_of(batch.all, l), job.n);
            batch.row.store(F::row_members(), l, row);
        });
    }

    template <class... C, size_t... O>
    static BK_HD void set_lane(const Pack<compute_t<Out>*...>& cell, int l, const Pack<C...>& result,
                               std::index_sequence<O...>) {
        ((get<O>(cell)[l] = get<O>(result)), ...);
    }

    // Maps one index. kInOutput: of elements that the output caches.
    template <bool kInOutput, size_t... K, size_t... O>
    BK_HD void map(const Batch& batch, int64_t position, std::index_sequence<K...>, std::index_sequence<O...> outs) const {
        constexpr std::index_sequence_for<In...> ins{};
        constexpr bool kReduces = !F::kPureReduce && !kCachesInOutput;
        Pack<Block<compute_t<Out>, kLanes>...> buffer;
        const Pack<compute_t<Out>*...> to = pack(target_of(batch, kIn + O, position, get<O>(job.y), get<O>(buffer).cell)...);
        [[maybe_unused]] const Pack<compute_t<Column>...> column =
            pack((get<K>(job.columns) == nullptr ? compute_t<Column>(0) : widen(get<K>(job.columns)[position]))...);
        const auto map_lanes = [&](const F& fn, const auto& cached_at) BK_INLINED {
            each_lane(batch.blocks, [&](int l) BK_INLINED {
                const Row row = row_of<true>(batch, l);
                const Cached cached = cached_at(row, l);
                set_lane(to, l,
                         fn.map(row, fn.tile_params(row, fn.identity()), position_params_of(fn, row, position), cached,
                                get<K>(column)...),
                         outs);
            });
        };
        if constexpr (kInOutput) {
            const Cached* const stored = load<kIn, Cached>(batch, position, get<0>(buffer).cell, get<0>(job.y));
            map_lanes(job.f, [&](const Row&, int l) BK_INLINED { return stored[l]; });
        } else {
            prefetch(batch, position + kPrefetchAhead, ins);
            prefetch_outputs(batch, position + kPrefetchAhead, outs);
            at_position(
                batch, position,
                [&](const F& fn, const Cells& cell) BK_INLINED {
                    map_lanes(fn, [&](const Row& row, int l) BK_INLINED {
                        Cached cached[1] = {transform(fn, row, position, cell, l, ins)};
                        if constexpr (kReduces)
                            if (!fn.keeps_elements()) fn.reduce_tile(row, cached, OnePosition{position});
                        return cached[0];
                    });
                },
                ins);
        }
        (store(batch, kIn + O, position, get<O>(job.y), get<O>(to)), ...);
    }

    template <bool kInOutput>
    BK_HD void run_batch(Batch& batch) const {
        {
            AccLanes scratch[kLevels + 1];
            if constexpr (kFindsMax) {
                find_max(batch);
                finish<false>(batch);
            }
            reduce_tile<kInOutput>(batch, scratch);
            finish<true>(batch);
        }
        if constexpr (kOut > 0)
            for (int64_t position = 0; position < job.n; ++position)
                map<kInOutput>(batch, position, std::index_sequence_for<Column...>{}, std::index_sequence_for<Out...>{});
    }

    // Processes rows [begin, end). in_tiles: short dense rows are transposed into tiles, and results transposed back.
    BK_HD void run(int64_t begin, int64_t end, [[maybe_unused]] bool in_tiles) const {
        constexpr bool kMayTile = Job::kIsShort;
        alignas(64) char buffer[kMayTile ? kTileBytes : 1];
        Job mine = job;
        const int max_rows = !kMayTile || !in_tiles ? kLanes : static_cast<int>(std::min<int64_t>(kLanes, tile_rows(job.n)));
        if (kMayTile && in_tiles) allocate_tile(mine, buffer, max_rows, std::index_sequence_for<In..., Out...>{});
        const LaneJob lanes{mine};
        Batch batch;
        for (int64_t i = begin; i < end; i += batch.rows) {
            find_batch(batch, i, end, max_rows);
            const typename Job::At at = batch.at;
            if (kMayTile && in_tiles) {
                for (int k = 0; k < kIn + kOut; ++k) batch.at.of[k] = 0;
                load_tile(mine, at, max_rows, batch.rows, std::index_sequence_for<In...>{});
            }
            lanes.compute(batch);
            if (kMayTile && in_tiles) store_tile(mine, at, max_rows, batch.rows, std::index_sequence_for<Out...>{});
        }
    }

    // Rows of n elements per tile, a multiple of kLaneStep; 0 if fewer fit or rows are too long.
    static constexpr int64_t tile_rows(int64_t n) {
        constexpr int64_t kBytes = (int64_t{0} + ... + int64_t{sizeof(In)}) + (int64_t{0} + ... + int64_t{sizeof(Out)});
        return n < 1 || n > kMaxTileRow ? 0 : kTileBytes / (kBytes * n) / kLaneStep * kLaneStep;
    }

private:
    template <size_t... K>
    BK_HD void allocate_tile(Job& tile, char* buffer, int pitch, std::index_sequence<K...>) const {
        constexpr int64_t kSize[] = {sizeof(In)..., sizeof(Out)...};
        char* base[] = {(static_cast<void>(K), buffer)...};
        for (int k = 0; k < kIn + kOut; ++k) {
            base[k] = buffer;
            buffer += kSize[k] * pitch * job.n;
            tile.fibers.step[k] = pitch;
            tile.rows.stride[k][tile.rows.rank - 1] = 1;
        }
        set_operands(tile, base, std::index_sequence_for<In...>{}, std::index_sequence_for<Out...>{});
    }
    template <size_t... I, size_t... O>
    BK_HD void set_operands(Job& tile, char* const* base, std::index_sequence<I...>, std::index_sequence<O...>) const {
        tile.x = pack(reinterpret_cast<const In*>(base[I])...);
        tile.y = pack((get<O>(job.y) == nullptr ? nullptr : reinterpret_cast<Out*>(base[kIn + O]))...);
    }
    template <size_t... I>
    BK_HD void load_tile(const Job& tile, const typename Job::At& at, int pitch, int rows, std::index_sequence<I...>) const {
        (transpose(sizeof(In), const_cast<In*>(get<I>(tile.x)), pitch, get<I>(job.x) + signed_offset(at.of[I]),
                   job.row_offset(I, 1), job.n, rows),
         ...);
    }
    template <size_t... O>
    BK_HD void store_tile([[maybe_unused]] const Job& tile, [[maybe_unused]] const typename Job::At& at,
                          [[maybe_unused]] int pitch, [[maybe_unused]] int rows, std::index_sequence<O...>) const {
        ((get<O>(job.y) == nullptr ? void()
                                   : transpose(sizeof(Out), get<O>(job.y) + signed_offset(at.of[kIn + O]),
                                               job.row_offset(kIn + O, 1), get<O>(tile.y), pitch, rows, job.n)),
         ...);
    }

    // The batch from row i on, up to `end`, the end of the last outer axis, or max_rows.
    BK_HD void find_batch(Batch& batch, int64_t i, int64_t end, int max_rows) const {
        const int64_t extent = job.rows.extent[job.rows.rank - 1];
        batch.at = job.outer(static_cast<uint64_t>(i));
        batch.rows = static_cast<int>(std::min({int64_t{max_rows}, extent - i % extent, end - i}));
    }

    BK_HD void compute(Batch& batch) const {
        static_assert(kFindsMax || F::kOnePass, "all rows take the same passes");
        batch.blocks = static_cast<int>(ceil_div(batch.rows, kLaneStep));
        batch.common = job.start(batch.at);
        for (int r = 0; r < batch.blocks * kLaneStep; ++r)
            batch.row.store(F::row_members(), r, r < batch.rows ? job.start(job.at_row(batch.at, r)) : batch.common);
        if constexpr (kCachesInOutput) {
            if (get<0>(job.y) != nullptr && !job.f.keeps_elements())
                run_batch<true>(batch);
            else
                run_batch<false>(batch);
        } else {
            run_batch<false>(batch);
        }
        if constexpr (Job::kSaved > 0)
            for (int r = 0; r < batch.rows; ++r)
                job.save(job.at_row(batch.at, r), job.f.saved(row_of<true>(batch, r)), std::make_index_sequence<Job::kSaved>{});
    }
};

}  // namespace bk

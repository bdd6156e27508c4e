// SPDX-License-Identifier: Apache-2.0
// CPU fast path for full chunks of dense rows of two-pass functions, which find the row maximum first (softmax, cross
// entropy). Dispatch on step and layout is hoisted out of the chunk loop: in RowJob it costs more per chunk than the
// exponentials of 128 logits.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/pointwise/cases.h"
#include "core/row/row_lanes_cpu.h"
#include "core/row/row_map.h"

namespace bk {

// One row of a RowJob; x and y point to its first elements.
template <class Job, class X, class K, class Y>
struct FullChunks;

template <class Job, class... In, class... Column, class... Out>
struct FullChunks<Job, Inputs<In...>, Inputs<Column...>, Outputs<Out...>> {
    using F = typename Job::Function;
    using Row = typename F::Row;
    using Acc = typename F::Acc;
    using Cached = typename F::Cached;
    static constexpr int kChunk = Job::kChunk;
    static constexpr auto kIns = std::index_sequence_for<In...>{};
    static constexpr auto kColumns = std::index_sequence_for<Column...>{};
    static constexpr auto kOuts = std::index_sequence_for<Out...>{};

    const Job& job;
    Row row;
    Pack<const In*...> x;
    Pack<Out*...> y;

    // Row maximum with one running maximum per lane.
    BK_HD Acc find_max(int64_t begin, int64_t end) const {
        using C = decltype(Acc::max);
        Acc all = job.f.identity();
        Block<C, kChunk> maxima;
        for (C& each : maxima.cell) each = all.max;
        const F fn = job.f;
        const Row known = row;
        for (int64_t first = begin; first < end; first += kChunk) {
            Block<Cached, kChunk> cached;
            transform(fn, known, first, cached.cell, kIns);
            BK_CHUNK_LOOP
            for (int i = 0; i < kChunk; ++i) {
                Cached one[1] = {cached.cell[i]};
                maxima.cell[i] = MaxOp{}(maxima.cell[i], fn.reduce_tile(known, one, OnePosition{first + i}).max);
            }
        }
        all.max = max_of(maxima.cell);
        return all;
    }

    // combine(all, statistics of [begin, end)). kToOutput: the output caches what reduce_tile() wrote.
    template <bool kToOutput>
    BK_HD Acc reduce_tile(int64_t begin, int64_t end, Acc all) const {
        in_case(job.f, [&](const auto& chosen) BK_INLINED {
            const auto fn = chosen;
            const Row known = row;
            for (int64_t first = begin; first < end; first += kChunk) {
                Block<Cached, kChunk> cached;
                transform(fn, known, first, cached.cell, kIns);
                all = fn.combine(all, fn.reduce_tile(known, cached.cell, typename Job::Chunk{first, kChunk}));
                if constexpr (kToOutput)
                    for (int i = 0; i < kChunk; ++i) get<0>(y)[first + i] = cached.cell[i];
            }
        });
        return all;
    }

    // kFromOutput: maps elements that the output caches; else transforms and reduces the inputs again.
    template <bool kFromOutput>
    BK_HD void map(int64_t begin, int64_t end) const {
        in_case(job.f, [&](const auto& chosen) BK_INLINED {
            const auto fn = chosen;
            const Row known = row;
            const typename F::TileParams tile_params = fn.tile_params(known, fn.identity());
            for (int64_t first = begin; first < end; first += kChunk) {
                Block<Cached, kChunk> cached;
                if constexpr (kFromOutput) {
                    for (int i = 0; i < kChunk; ++i) cached.cell[i] = get<0>(y)[first + i];
                } else {
                    transform(fn, known, first, cached.cell, kIns);
                    if (!fn.keeps_elements()) fn.reduce_tile(known, cached.cell, typename Job::Chunk{first, kChunk});
                }
                map_chunk(fn, known, tile_params, first, cached.cell, kColumns, kOuts);
            }
        });
    }

private:
    template <class Fn, size_t... I>
    BK_HD void transform(const Fn& fn, const Row& known, int64_t first, Cached (&cached)[kChunk],
                         std::index_sequence<I...>) const {
        Pack<Block<compute_t<In>, kChunk>...> wide;
        const Pack<const compute_t<In>*...> cell = pack(Job::widened(get<I>(x) + first, get<I>(wide).cell)...);
        BK_CHUNK_LOOP
        for (int i = 0; i < kChunk; ++i)
            cached[i] = fn.transform(known, position_params_of(fn, known, first + i), get<I>(cell)[i]...);
    }

    template <class Fn, size_t... K, size_t... O>
    BK_HD void map_chunk(const Fn& fn, const Row& known, const typename F::TileParams& tile_params, int64_t first,
                         const Cached (&cached)[kChunk], std::index_sequence<K...>, std::index_sequence<O...> outs) const {
        const typename Job::Chunk where{first, kChunk};
        [[maybe_unused]] Pack<Block<compute_t<Column>, kChunk>...> wide;
        [[maybe_unused]] const Pack<const compute_t<Column>*...> column =
            pack(Job::column_chunk(get<K>(wide).cell, get<K>(job.columns), where)...);
        Pack<Block<compute_t<Out>, kChunk>...> buffer;
        const Pack<compute_t<Out>*...> cell = pack(Job::target_of(get<O>(y), true, where, get<O>(buffer).cell)...);
        BK_CHUNK_LOOP
        for (int i = 0; i < kChunk; ++i)
            Job::set_cells(
                cell, i, fn.map(known, tile_params, position_params_of(fn, known, first + i), cached[i], get<K>(column)[i]...),
                outs);
        (job.store_chunk(get<O>(y), Job::kIn + static_cast<int>(O), true, where, get<O>(cell)), ...);
    }
};

}  // namespace bk

// Whole chunks of dense rows on the CPU, of functions that find a row's largest element first, as softmax and cross entropy do.
// What is done to a chunk, and where it lies, is asked once for all of them: what RowJob asks for each takes longer than the
// exponentials of 128 logits.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/pointwise/cases.h"
#include "core/rows/row_lanes_cpu.h"
#include "core/rows/row_map.h"

namespace bk {

// Of a row of a RowJob; x and y are its operands at position 0.
template <class Job, class X, class K, class Y>
struct WholeChunks;

template <class Job, class... In, class... Column, class... Out>
struct WholeChunks<Job, Inputs<In...>, Inputs<Column...>, Outputs<Out...>> {
    using F = typename Job::Function;
    using Row = typename F::Row;
    using Acc = typename F::Acc;
    using Held = typename F::Held;
    static constexpr int kChunk = Job::kChunk;
    static constexpr auto kIns = std::index_sequence_for<In...>{};
    static constexpr auto kColumns = std::index_sequence_for<Column...>{};
    static constexpr auto kOuts = std::index_sequence_for<Out...>{};

    const Job& job;
    Row row;
    Pack<const In*...> x;
    Pack<Out*...> y;

    // Each lane finds the largest of its own: their order does not matter.
    BK_HD Acc find_largest(int64_t begin, int64_t end) const {
        using C = decltype(Acc::max);
        Acc all = job.f.identity();
        Block<C, kChunk> largest;
        for (C& each : largest.cell) each = all.max;
        const F fn = job.f;
        const Row known = row;
        for (int64_t first = begin; first < end; first += kChunk) {
            Block<Held, kChunk> held;
            hold(fn, known, first, held.cell, kIns);
            BK_CHUNK_LOOP
            for (int i = 0; i < kChunk; ++i) {
                Held one[1] = {held.cell[i]};
                largest.cell[i] = LargerOf{}(largest.cell[i], fn.sum_up(known, one, OnePosition{first + i}).max);
            }
        }
        all.max = max_of(largest.cell);
        return all;
    }

    // Statistics, behind `all`; where kStores, the output has what sum_up() left of the elements.
    template <bool kStores>
    BK_HD Acc sum_up(int64_t begin, int64_t end, Acc all) const {
        in_case(job.f, [&](const auto& chosen) BK_INLINED {
            const auto fn = chosen;
            const Row known = row;
            for (int64_t first = begin; first < end; first += kChunk) {
                Block<Held, kChunk> held;
                hold(fn, known, first, held.cell, kIns);
                all = fn.combine(all, fn.sum_up(known, held.cell, typename Job::Chunk{first, kChunk}));
                if constexpr (kStores)
                    for (int i = 0; i < kChunk; ++i) get<0>(y)[first + i] = held.cell[i];
            }
        });
        return all;
    }

    // Of what the output has, where kStored, or else of the elements and what sum_up() leaves of them.
    template <bool kStored>
    BK_HD void map(int64_t begin, int64_t end) const {
        in_case(job.f, [&](const auto& chosen) BK_INLINED {
            const auto fn = chosen;
            const Row known = row;
            const typename F::Part part = fn.part(known, fn.identity());
            for (int64_t first = begin; first < end; first += kChunk) {
                Block<Held, kChunk> held;
                if constexpr (kStored) {
                    for (int i = 0; i < kChunk; ++i) held.cell[i] = get<0>(y)[first + i];
                } else {
                    hold(fn, known, first, held.cell, kIns);
                    if (!fn.keeps_elements()) fn.sum_up(known, held.cell, typename Job::Chunk{first, kChunk});
                }
                put(fn, known, part, first, held.cell, kColumns, kOuts);
            }
        });
    }

private:
    template <class Fn, size_t... I>
    BK_HD void hold(const Fn& fn, const Row& known, int64_t first, Held (&held)[kChunk], std::index_sequence<I...>) const {
        Pack<Block<compute_t<In>, kChunk>...> wide;
        const Pack<const compute_t<In>*...> cell = pack(Job::widened(get<I>(x) + first, get<I>(wide).cell)...);
        BK_CHUNK_LOOP
        for (int i = 0; i < kChunk; ++i) held[i] = fn.hold(known, near_of(fn, known, first + i), get<I>(cell)[i]...);
    }

    template <class Fn, size_t... K, size_t... O>
    BK_HD void put(const Fn& fn, const Row& known, const typename F::Part& part, int64_t first, const Held (&held)[kChunk],
                   std::index_sequence<K...>, std::index_sequence<O...> outs) const {
        const typename Job::Chunk where{first, kChunk};
        [[maybe_unused]] Pack<Block<compute_t<Column>, kChunk>...> wide;
        [[maybe_unused]] const Pack<const compute_t<Column>*...> column =
            pack(Job::column_chunk(get<K>(wide).cell, get<K>(job.columns), where)...);
        Pack<Block<compute_t<Out>, kChunk>...> buffer;
        const Pack<compute_t<Out>*...> cell = pack(Job::target_of(get<O>(y), true, where, get<O>(buffer).cell)...);
        BK_CHUNK_LOOP
        for (int i = 0; i < kChunk; ++i)
            Job::put_cells(cell, i, fn.map(known, part, near_of(fn, known, first + i), held[i], get<K>(column)[i]...), outs);
        (job.store_chunk(get<O>(y), Job::kIn + static_cast<int>(O), true, where, get<O>(cell)), ...);
    }
};

}  // namespace bk

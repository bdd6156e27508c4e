// Rows on the CPU that lie across memory, as those of a softmax along an outer axis: neighbours in memory are elements of
// different rows, and each lane of a vector works on a row of its own, position after position. Statistics of a chunk's
// positions are combined in the order in which dense rows combine theirs (sum_of in row_map.h), so that results are the same.
// Short dense rows, of which a chunk would be mostly empty, are transposed into such ones a tile at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/pointwise/layout.h"
#include "core/pointwise/transpose_cpu.h"
#include "core/rows/row_map.h"
#include "core/rows/row_memory_cpu.h"

namespace bk {

constexpr int kLaneStep = 16;          // lanes of a loop
constexpr int kLaneStackBytes = 9216;  // of statistics
constexpr int64_t kMostOfTile = 31;    // elements of such a row: a chunk of 32 is full
constexpr int kPositionsAhead = 6;     // that memory is asked for
constexpr int kStepsAhead = 4;         // of those that jump to and fro

// What sum_up() knows of one position.
struct OnePosition {
    int64_t position;
    BK_HD bool has(int) const { return true; }
    BK_HD int count() const { return 1; }
    BK_HD int64_t at(int i) const { return position + i; }
};

// Values of a struct, each of its members a block of lanes. `Members` is a Pack of pointers to them, or Nothing of a number.
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

// body(lane) for `blocks` kLaneStep lanes.
template <class Body>
BK_HD void each_lane(int blocks, const Body& body) {
    for (int block = 0; block < blocks; ++block) {
        const int first = block * kLaneStep;
        BK_VECTOR_LOOP
        for (int i = 0; i < kLaneStep; ++i) body(first + i);
    }
}

// The rows of a RowJob, some at a time.
template <class Job, class X, class K, class Y>
struct LaneJob;

template <class Job, class... In, class... Column, class... Out>
struct LaneJob<Job, Inputs<In...>, Inputs<Column...>, Outputs<Out...>> {
    using F = typename Job::Function;
    using Row = typename F::Row;
    using Acc = typename F::Acc;
    using Held = typename F::Held;
    static constexpr int kIn = Job::kIn, kOut = Job::kOut, kChunk = Job::kChunk;
    static constexpr int levels_of(int chunk) { return chunk == 1 ? 0 : 1 + levels_of(chunk / 2); }
    static constexpr int kLevels = levels_of(kChunk);
    // Statistics of four f64 have temporaries of their size beside them, and stay below 24 KiB in one loop's lanes.
    static constexpr int lanes() {
        int count = sizeof(Acc) < 32 ? 128 : kLaneStep;
        while (count > kLaneStep && count * static_cast<int>(sizeof(Acc)) * (kLevels + 3) > kLaneStackBytes) count /= 2;
        return count;
    }
    static constexpr int kLanes = lanes();
    // Of dense rows that are transposed: what a small stack has left beside statistics, which of f64 take more.
    static constexpr int kTileBytes = (false || ... || (sizeof(In) == 8)) ? 2048 : 4096;
    static constexpr bool kFindsLargest = std::is_base_of_v<KnowsLargest, Row>;
    // Of a function that maps what it summed up, where an output can take that.
    static constexpr bool kHoldsInOutput = F::kMapsAlone && kIn == 1 && kOut == 1 && (std::is_same_v<Out, Held> && ...);
    using RowLanes = LanesOf<Row, decltype(F::row_members()), kLanes>;
    using AccLanes = LanesOf<Acc, decltype(F::acc_members()), kLanes>;

    const Job& job;

    // Rows side by side.
    struct Lot {
        typename Job::At at;  // of the first
        int rows, blocks;
        Row common;  // what lanes do not have
        RowLanes row;
        AccLanes all;
    };

    template <bool kKnows>
    static BK_HD Row row_of(const Lot& lot, int lane) {
        Row row = lot.common;
        lot.row.load(F::row_members(), lane, row);
        if constexpr (kFindsLargest) row.knows_max = kKnows;
        return row;
    }
    static BK_HD Acc acc_of(const AccLanes& lanes, int lane) {
        Acc acc;
        lanes.load(F::acc_members(), lane, acc);
        return acc;
    }
    BK_HD void clear(const Lot& lot, AccLanes& lanes) const {
        const Acc none = job.f.identity();
        each_lane(lot.blocks, [&](int l) BK_INLINED { lanes.store(F::acc_members(), l, none); });
    }
    // to = a and, behind it, b.
    BK_HD void combine(const Lot& lot, AccLanes& to, const AccLanes& a, const AccLanes& b) const {
        const F fn = job.f;
        each_lane(lot.blocks, [&](int l) BK_INLINED { to.store(F::acc_members(), l, fn.combine(acc_of(a, l), acc_of(b, l))); });
    }

    // Whether lanes are neighbours in memory and fill whole loops.
    BK_HD bool is_dense(const Lot& lot, int k) const { return job.row_offset(k, 1) == 1 && lot.rows % kLaneStep == 0; }

    template <class T>
    BK_HD T* place_of(T* operand, int k, const Lot& lot, int64_t position) const {
        return operand + signed_offset(lot.at.of[k]) + position * job.lines.step[k];
    }

    template <int I, class T>
    BK_HD const compute_t<T>* load(const Lot& lot, int64_t position, compute_t<T>* wide, const T* operand) const {
        const T* from = place_of(operand, I, lot, position);
        Block<T, kLanes> buffer;
        if (!is_dense(lot, I)) {
            if (job.row_offset(I, 1) == 1)
                memcpy(buffer.cell, from, static_cast<size_t>(lot.rows) * sizeof(T));
            else
                gather_run(buffer.cell, from, job.row_offset(I, 1), lot.rows);
            for (int l = lot.rows; l < lot.blocks * kLaneStep; ++l) buffer.cell[l] = buffer.cell[0];
            from = buffer.cell;
        }
        if constexpr (std::is_same_v<T, compute_t<T>>) {
            if (from == buffer.cell) memcpy(wide, from, static_cast<size_t>(lot.blocks * kLaneStep) * sizeof(T));
            return from == buffer.cell ? wide : from;
        } else {
            widen_lanes(lot, wide, from);
            return wide;
        }
    }
    template <class T>
    static BK_HD void widen_lanes(const Lot& lot, compute_t<T>* BK_RESTRICT to, const T* BK_RESTRICT from) {
        if constexpr (std::is_same_v<T, f16>)
            widen_span(to, from, lot.blocks * kLaneStep);
        else
            each_lane(lot.blocks, [&](int l) BK_INLINED { to[l] = widen(from[l]); });
    }
    template <class T>
    BK_HD void store(const Lot& lot, int k, int64_t position, T* operand, const compute_t<T>* from) const {
        if (operand == nullptr) return;
        T* const place = place_of(operand, k, lot, position);
        if constexpr (std::is_same_v<T, compute_t<T>>)
            if (from == place) return;
        Block<T, kLanes> buffer;
        T* BK_RESTRICT const to = is_dense(lot, k) ? place : buffer.cell;
        if constexpr (std::is_same_v<T, f16>)
            narrow_span(to, from, lot.blocks * kLaneStep);
        else
            each_lane(lot.blocks, [&](int l) BK_INLINED { to[l] = narrow<T>(from[l]); });
        if (to == place) return;
        if (job.row_offset(k, 1) == 1)
            memcpy(place, buffer.cell, static_cast<size_t>(lot.rows) * sizeof(T));
        else
            scatter_run(place, buffer.cell, job.row_offset(k, 1), lot.rows);
    }
    // Where results of the compute type are made: where they are to lie, if they can be.
    template <class T>
    BK_HD compute_t<T>* target_of(const Lot& lot, int k, int64_t position, T* operand, compute_t<T>* buffer) const {
        if constexpr (std::is_same_v<T, compute_t<T>>)
            if (operand != nullptr && is_dense(lot, k)) return place_of(operand, k, lot, position);
        return buffer;
    }

    // Elements of each input.
    using Cells = Pack<const compute_t<In>*...>;

    // body(f, elements at the position).
    template <class Body, size_t... I>
    BK_HD void at_position(const Lot& lot, int64_t position, const Body& body, std::index_sequence<I...>) const {
        Pack<Block<compute_t<In>, kLanes>...> wide;
        const Cells cell = pack(load<I, In>(lot, position, get<I>(wide).cell, get<I>(job.x))...);
        in_case(job.f, [&](const F& known) BK_INLINED {
            const F fn = F::at(known, position);
            body(fn, cell);
        });
    }
    template <size_t... I>
    static BK_HD Held hold(const F& fn, const Row& row, int64_t position, const Cells& cell, int lane,
                           std::index_sequence<I...>) {
        return fn.hold(row, near_of(fn, row, position), get<I>(cell)[lane]...);
    }

    template <size_t... I>
    BK_HD void ask_for(const Lot& lot, int64_t position, std::index_sequence<I...>) const {
        if (position >= job.n) return;
        ((job.row_offset(I, 1) == 1 ? ask_for_chunk<0>(place_of(get<I>(job.x), I, lot, position), lot.rows) : void()), ...);
    }

    // Nothing but stores goes there, so that hardware does not look ahead.
    template <size_t... O>
    BK_HD void ask_for_outputs(const Lot& lot, int64_t position, std::index_sequence<O...>) const {
        if (position >= job.n) return;
        ((get<O>(job.y) != nullptr && job.row_offset(kIn + O, 1) == 1
              ? ask_for_chunk<1>(place_of(get<O>(job.y), kIn + O, lot, position), lot.rows)
              : void()),
         ...);
    }

    // The largest elements, of which the order does not matter.
    BK_HD void find_largest(Lot& lot) const {
        constexpr std::index_sequence_for<In...> ins{};
        clear(lot, lot.all);
        for (int64_t position = 0; position < job.n; ++position) {
            ask_for(lot, position + kPositionsAhead, ins);
            at_position(
                lot, position,
                [&](const F& fn, const Cells& cell) BK_INLINED {
                    each_lane(lot.blocks, [&](int l) BK_INLINED {
                        const Row row = row_of<false>(lot, l);
                        Held held[1] = {hold(fn, row, position, cell, l, ins)};
                        Acc all = acc_of(lot.all, l);
                        all.max = LargerOf{}(all.max, fn.sum_up(row, held, OnePosition{position}).max);
                        lot.all.store(F::acc_members(), l, all);
                    });
                },
                ins);
        }
    }

    // Behind `place`, in the order in which each pair of neighbours is one that sum_of() adds, and then each pair of pairs.
    static BK_HD int place_behind(int place) {
        int bit = kChunk / 2;
        for (; place & bit; bit /= 2) place ^= bit;
        return place | bit;
    }

    // Statistics of positions [first, first + count) of a chunk, into `acc` behind what is there.
    template <bool kHolds>
    BK_HD void sum_chunk(const Lot& lot, int64_t first, int count, AccLanes (&room)[kLevels + 1], AccLanes& acc) const {
        AccLanes *level[kLevels + 1], *now = &room[kLevels];  // level[d]: of 2^d steps, whose neighbours are still to come
        bool exists[kLevels + 1] = {};
        for (int d = 0; d < kLevels; ++d) level[d] = &room[d];
        int ahead = 0;
        for (int i = 0; i < kStepsAhead; ++i) ahead = place_behind(ahead);
        for (int i = 0, place = 0; i < kChunk; ++i, place = place_behind(place), ahead = place_behind(ahead)) {
            const int64_t later = first + ahead + (i + kStepsAhead < kChunk ? 0 : kChunk);
            ask_for(lot, later, std::index_sequence_for<In...>{});
            if constexpr (kHolds) ask_for_outputs(lot, later, std::index_sequence_for<Out...>{});
            bool any = place < count;
            if (any) sum_position<kHolds>(lot, first + place, *now);
            int d = 0;
            for (; i >> d & 1; ++d) {
                if (any)
                    combine(lot, *now, *level[d], *now);
                else if (exists[d])
                    std::swap(level[d], now);
                any |= exists[d];
            }
            if (d == kLevels) break;
            exists[d] = any;
            if (any) std::swap(level[d], now);
        }
        combine(lot, acc, acc, *now);
    }

    // Of one position; where kHolds, the output has what map() reads.
    template <bool kHolds>
    BK_HD void sum_position(const Lot& lot, int64_t position, AccLanes& to) const {
        constexpr std::index_sequence_for<In...> ins{};
        Block<Held, kHolds ? kLanes : 1> buffer;
        [[maybe_unused]] Held* kept = buffer.cell;
        if constexpr (kHolds) kept = target_of(lot, kIn, position, get<0>(job.y), kept);
        at_position(
            lot, position,
            [&](const F& fn, const Cells& cell) BK_INLINED {
                each_lane(lot.blocks, [&](int l) BK_INLINED {
                    const Row row = row_of<true>(lot, l);
                    Held held[1] = {hold(fn, row, position, cell, l, ins)};
                    to.store(F::acc_members(), l, fn.sum_up(row, held, OnePosition{position}));
                    if constexpr (kHolds) kept[l] = held[0];
                });
            },
            ins);
        if constexpr (kHolds) store(lot, kIn, position, get<0>(job.y), kept);
    }

    // Segments and chunks of dense rows.
    template <bool kHolds>
    BK_HD void sum_up(Lot& lot, AccLanes (&room)[kLevels + 1]) const {
        AccLanes acc;
        clear(lot, lot.all);
        for (int64_t at = 0, end = 0; at < job.n; at = end) {
            end = std::min(at + job.segment(), job.n);
            clear(lot, acc);
            for (int64_t first = at; first < end; first += kChunk)
                sum_chunk<kHolds>(lot, first, static_cast<int>(std::min<int64_t>(end - first, kChunk)), room, acc);
            combine(lot, lot.all, lot.all, acc);
        }
    }

    template <bool kKnows>
    BK_HD void finish(Lot& lot) const {
        const F fn = job.f;
        each_lane(lot.blocks, [&](int l) BK_INLINED {
            Row row = row_of<kKnows>(lot, l);
            fn.finish(row, acc_of(lot.all, l), job.n);
            lot.row.store(F::row_members(), l, row);
        });
    }

    template <class... C, size_t... O>
    static BK_HD void put(const Pack<compute_t<Out>*...>& cell, int l, const Pack<C...>& result, std::index_sequence<O...>) {
        ((get<O>(cell)[l] = get<O>(result)), ...);
    }

    // Results of one position; where kHolds, of what the output has.
    template <bool kHolds, size_t... K, size_t... O>
    BK_HD void map(const Lot& lot, int64_t position, std::index_sequence<K...>, std::index_sequence<O...> outs) const {
        constexpr std::index_sequence_for<In...> ins{};
        constexpr bool kSums = !F::kOnlySums && !kHoldsInOutput;
        Pack<Block<compute_t<Out>, kLanes>...> buffer;
        const Pack<compute_t<Out>*...> to = pack(target_of(lot, kIn + O, position, get<O>(job.y), get<O>(buffer).cell)...);
        [[maybe_unused]] const Pack<compute_t<Column>...> column =
            pack((get<K>(job.columns) == nullptr ? compute_t<Column>(0) : widen(get<K>(job.columns)[position]))...);
        const auto put_lanes = [&](const F& fn, const auto& held_at) BK_INLINED {
            each_lane(lot.blocks, [&](int l) BK_INLINED {
                const Row row = row_of<true>(lot, l);
                const Held held = held_at(row, l);
                put(to, l, fn.map(row, fn.part(row, fn.identity()), near_of(fn, row, position), held, get<K>(column)...), outs);
            });
        };
        if constexpr (kHolds) {
            const Held* const kept = load<kIn, Held>(lot, position, get<0>(buffer).cell, get<0>(job.y));
            put_lanes(job.f, [&](const Row&, int l) BK_INLINED { return kept[l]; });
        } else {
            ask_for(lot, position + kPositionsAhead, ins);
            ask_for_outputs(lot, position + kPositionsAhead, outs);
            at_position(
                lot, position,
                [&](const F& fn, const Cells& cell) BK_INLINED {
                    put_lanes(fn, [&](const Row& row, int l) BK_INLINED {
                        Held held[1] = {hold(fn, row, position, cell, l, ins)};
                        if constexpr (kSums)
                            if (!fn.keeps_elements()) fn.sum_up(row, held, OnePosition{position});
                        return held[0];
                    });
                },
                ins);
        }
        (store(lot, kIn + O, position, get<O>(job.y), get<O>(to)), ...);
    }

    template <bool kHolds>
    BK_HD void run_lot(Lot& lot) const {
        {
            AccLanes room[kLevels + 1];
            if constexpr (kFindsLargest) {
                find_largest(lot);
                finish<false>(lot);
            }
            sum_up<kHolds>(lot, room);
            finish<true>(lot);
        }
        if constexpr (kOut > 0)
            for (int64_t position = 0; position < job.n; ++position)
                map<kHolds>(lot, position, std::index_sequence_for<Column...>{}, std::index_sequence_for<Out...>{});
    }

    // Rows [begin, end). In tiles, short dense rows are transposed, and their results are transposed back.
    BK_HD void run(int64_t begin, int64_t end, [[maybe_unused]] bool in_tiles) const {
        constexpr bool kMayTile = Job::kIsShort;
        alignas(64) char buffer[kMayTile ? kTileBytes : 1];
        Job mine = job;
        const int most = !kMayTile || !in_tiles ? kLanes : static_cast<int>(std::min<int64_t>(kLanes, tile_rows(job.n)));
        if (kMayTile && in_tiles) lay_out(mine, buffer, most, std::index_sequence_for<In..., Out...>{});
        const LaneJob lanes{mine};
        Lot lot;
        for (int64_t i = begin; i < end; i += lot.rows) {
            find(lot, i, end, most);
            const typename Job::At at = lot.at;
            if (kMayTile && in_tiles) {
                for (int k = 0; k < kIn + kOut; ++k) lot.at.of[k] = 0;
                load_tile(mine, at, most, lot.rows, std::index_sequence_for<In...>{});
            }
            lanes.compute(lot);
            if (kMayTile && in_tiles) store_tile(mine, at, most, lot.rows, std::index_sequence_for<Out...>{});
        }
    }

    // How many rows of n elements have room in a tile; too few are not worth one.
    static constexpr int64_t tile_rows(int64_t n) {
        constexpr int64_t kBytes = (int64_t{0} + ... + int64_t{sizeof(In)}) + (int64_t{0} + ... + int64_t{sizeof(Out)});
        return n < 1 || n > kMostOfTile ? 0 : kTileBytes / (kBytes * n) / kLaneStep * kLaneStep;
    }

private:
    template <size_t... K>
    BK_HD void lay_out(Job& tile, char* buffer, int across, std::index_sequence<K...>) const {
        constexpr int64_t kSize[] = {sizeof(In)..., sizeof(Out)...};
        char* place[] = {(static_cast<void>(K), buffer)...};
        for (int k = 0; k < kIn + kOut; ++k) {
            place[k] = buffer;
            buffer += kSize[k] * across * job.n;
            tile.lines.step[k] = across;
            tile.rows.stride[k][tile.rows.rank - 1] = 1;
        }
        point(tile, place, std::index_sequence_for<In...>{}, std::index_sequence_for<Out...>{});
    }
    template <size_t... I, size_t... O>
    BK_HD void point(Job& tile, char* const* place, std::index_sequence<I...>, std::index_sequence<O...>) const {
        tile.x = pack(reinterpret_cast<const In*>(place[I])...);
        tile.y = pack((get<O>(job.y) == nullptr ? nullptr : reinterpret_cast<Out*>(place[kIn + O]))...);
    }
    template <size_t... I>
    BK_HD void load_tile(const Job& tile, const typename Job::At& at, int across, int rows, std::index_sequence<I...>) const {
        (transpose(sizeof(In), const_cast<In*>(get<I>(tile.x)), across, get<I>(job.x) + signed_offset(at.of[I]),
                   job.row_offset(I, 1), job.n, rows),
         ...);
    }
    template <size_t... O>
    BK_HD void store_tile([[maybe_unused]] const Job& tile, [[maybe_unused]] const typename Job::At& at,
                          [[maybe_unused]] int across, [[maybe_unused]] int rows, std::index_sequence<O...>) const {
        ((get<O>(job.y) == nullptr ? void()
                                   : transpose(sizeof(Out), get<O>(job.y) + signed_offset(at.of[kIn + O]),
                                               job.row_offset(kIn + O, 1), get<O>(tile.y), across, rows, job.n)),
         ...);
    }

    // Row i and those behind it in its line, before `end`: `most` at most.
    BK_HD void find(Lot& lot, int64_t i, int64_t end, int most) const {
        const int64_t extent = job.rows.extent[job.rows.rank - 1];
        lot.at = job.outer(static_cast<uint64_t>(i));
        lot.rows = static_cast<int>(std::min({int64_t{most}, extent - i % extent, end - i}));
    }

    BK_HD void compute(Lot& lot) const {
        static_assert(kFindsLargest || F::kOnePass, "passes that are the same for all rows");
        lot.blocks = static_cast<int>(ceil_div(lot.rows, kLaneStep));
        lot.common = job.start(lot.at);
        for (int r = 0; r < lot.blocks * kLaneStep; ++r)
            lot.row.store(F::row_members(), r, r < lot.rows ? job.start(job.at_row(lot.at, r)) : lot.common);
        if constexpr (kHoldsInOutput) {
            if (get<0>(job.y) != nullptr && !job.f.keeps_elements())
                run_lot<true>(lot);
            else
                run_lot<false>(lot);
        } else {
            run_lot<false>(lot);
        }
        if constexpr (Job::kSaved > 0)
            for (int r = 0; r < lot.rows; ++r)
                job.save(job.at_row(lot.at, r), job.f.saved(row_of<true>(lot, r)), std::make_index_sequence<Job::kSaved>{});
    }
};

}  // namespace bk

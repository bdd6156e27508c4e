// SPDX-License-Identifier: Apache-2.0
// CPU row reduce + map. Rows are processed in chunks of constant length, which vectorise. Short rows are cached on the
// stack between passes and run in batches, to hide the latency of each row's dependent steps; longer rows are read
// again. A row longer than kRowSegment is reduced segment by segment, by several threads if there are fewer rows than
// threads. Adjacent rows (the row axis is contiguous) take one SIMD lane each (row_lanes_cpu.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/abi/launch.h"
#include "core/layout/layout.h"
#include "core/pointwise/cases.h"
#include "core/row/parallel_rows_cpu.h"
#include "core/row/row_full_chunks_cpu.h"
#include "core/row/row_lanes_cpu.h"
#include "core/row/row_map.h"
#include "core/row/row_memory_cpu.h"

namespace bk {

// Only short rows are cached between passes.
constexpr bool kRowsStayOnChip = false;

constexpr int kCachedBytes = 6144;  // of cached rows: a call takes at most 32 KiB of stack
constexpr int kMaxChunksInOutput = 512;
constexpr int64_t kRowSegment = 32768;
constexpr int kMostSegments = 128;
constexpr int64_t kMinLanes = 8;     // adjacent rows
constexpr int kMaxBatchRows = 8;     // rows of a batch without lanes
constexpr int kMaxRowsOfTable = 32;  // rows of a batch with a Table

constexpr int64_t kPrefetch = 1024;  // distance in elements: hardware stops at page ends and ignores streams of stores

// Chunk lengths: long to amortise work per chunk, short so that short rows waste few elements of padding.
constexpr int kShortRow = 32;
constexpr int kMaxShortChunks = 3;  // of a row that would fill little of a long chunk
template <class F, class... In>
constexpr int kLongRowChunk =
    sizeof(typename F::Cached) <= 4 || (sizeof(typename F::Cached) <= 8 && F::kMaxChunk == 128 && (... && (sizeof(In) <= 4)))
        ? 128
        : 64;

// Elements first, first + 1, ... of a row, the first `exist` of which are in the row.
struct RowChunk {
    int64_t first;
    int exist;
    BK_HD bool has(int i) const { return i < exist; }
    BK_HD int count() const { return exist; }
    BK_HD int64_t at(int i) const { return first + i; }
};

// The inner axes as fibers along the last one.
template <int Full>
struct RowFibers {
    Walk<Full, uint64_t> walk;
    int64_t length = 1, step[Full] = {};
    bool is_single = true;

    explicit RowFibers(const Layout<Full>& inner) {
        const int last = inner.rank - 1;
        Layout<Full> outer = inner;
        outer.rank = std::max(last, 0);
        walk = Walk<Full, uint64_t>(outer);
        is_single = last <= 0;
        if (last < 0) return;
        length = inner.extent[last];
        for (int k = 0; k < Full; ++k) step[k] = inner.stride[k][last];
    }

    // Cuts [first, first + count) at fiber ends: body(offset of operand k, index from `first`, size) per segment.
    template <class Body>
    BK_HD void for_each_segment(int k, int64_t first, int64_t count, const Body& body) const {
        if (is_single) return body(first * step[k], int64_t{0}, count);
        for (int64_t done = 0; done < count;) {
            const int64_t fiber = (first + done) / length, at = first + done - fiber * length;
            const int64_t size = std::min(length - at, count - done);
            body(signed_offset(walk(static_cast<uint64_t>(fiber)).of[k]) + at * step[k], done, size);
            done += size;
        }
    }
};

enum RowWork : int { kLoad = 1, kReduce = 2, kMap = 4 };  // bit mask of the steps for a chunk

template <int kRowChunk, class F, int Full, int Single, class X, class K, class P, class Y, class S>
struct RowJob;

template <int kRowChunk, class F, int Full, int Single, class... In, class... Column, class... RowIn, class... Out,
          class... Saved>
struct RowJob<kRowChunk, F, Full, Single, Inputs<In...>, Inputs<Column...>, Inputs<RowIn...>, Outputs<Out...>,
              Outputs<Saved...>> {
    using Function = F;
    using Row = typename F::Row;
    using Acc = typename F::Acc;
    using Cached = typename F::Cached;
    using Chunk = RowChunk;
    using At = Offsets<Full + Single, uint64_t>;
    struct alignas(64) CachedChunk {
        Cached cached[kRowChunk];
        Acc mine;
    };
    static constexpr int kIn = sizeof...(In), kOut = sizeof...(Out), kRowIn = sizeof...(RowIn);
    static constexpr int kSaved = sizeof...(Saved), kChunk = kRowChunk;
    static constexpr int kMaxCachedChunks = std::max<int>(1, kCachedBytes / static_cast<int>(sizeof(CachedChunk)));
    // Rows of equal first_offset share all PositionParams: looked up once per chunk for the batch, they load as vectors.
    static constexpr bool kHasParamTable = F::kMapOnly && kHasPositionParams<F> && kHasFirstOffset<Row>;
    static constexpr int kMaxRows = kHasParamTable ? kMaxRowsOfTable : kMaxBatchRows;
    struct Table {
        decltype(position_params_of(std::declval<F>(), std::declval<Row>(), 0)) of[kHasParamTable ? kRowChunk : 1];
    };
    // The output doubles as the cache of a row if its type is Cached, until results overwrite it.
    static constexpr bool kCachesInOutput = (F::kMapIsElementwise || (F::kOnePass && !F::kMapOnly && sizeof(Acc) <= 8)) &&
                                            kOut == 1 && (std::is_same_v<Out, Cached> && ...);

    static constexpr bool kIsShort = kRowChunk == kShortRow;
    static constexpr bool kUsesFullChunks = std::is_base_of_v<MaxKnown, Row> && !kIsShort;

    struct Batch {
        At at;  // of the first row
        int rows;
    };

    static constexpr int kFirstWork = kLoad | (F::kMapOnly ? kMap : kReduce);

    const F& f;
    Layout<Full + Single> rows;
    Walk<Full + Single, uint64_t> outer;
    RowFibers<Full> fibers;
    int64_t n;
    Pack<const In*...> x;
    Pack<const Column*...> columns;
    Pack<const RowIn*...> row_inputs;
    Pack<Out*...> y;
    Pack<Saved*...> saved;

    // Offsets of the row that follows `at` by r rows along the last outer axis.
    BK_HD At at_row(At at, int r) const {
        for (int k = 0; r > 0 && k < Full + Single; ++k) at.of[k] += static_cast<uint64_t>(row_offset(k, r));
        return at;
    }
    BK_HD int64_t row_offset(int k, int r) const { return r == 0 ? 0 : r * rows.stride[k][rows.rank - 1]; }

    // Whether the element kPrefetch past `first` of a dense row is in this row or a contiguous next one.
    BK_HD bool can_prefetch(int k, int64_t first) const {
        return first + kPrefetch < n || (rows.rank > 0 && rows.stride[k][rows.rank - 1] == n);
    }

    // Pointer to a chunk: a dense full one in the operand, any other copied to `buffer` and padded with zeros.
    template <class T>
    BK_HD const T* chunk_of(const T* row, int k, int64_t first, int count, T* buffer) const {
        if (fibers.is_single && fibers.step[k] == 1 && count == kRowChunk) {
            if (can_prefetch(k, first)) prefetch_chunk<0>(row + first + kPrefetch, kRowChunk);
            return row + first;
        }
        fibers.for_each_segment(k, first, count, [&](int64_t offset, int64_t done, int64_t size) {
            if (fibers.step[k] == 1)
                memcpy(buffer + done, row + offset, static_cast<size_t>(size) * sizeof(T));
            else
                gather_run(buffer + done, row + offset, fibers.step[k], size);
        });
        if (count < kRowChunk) memset(buffer + count, 0, static_cast<size_t>(kRowChunk - count) * sizeof(T));
        return buffer;
    }

    template <size_t I, class T>
    BK_HD const T* source_row(const Batch& batch, int r) const {
        return get<I>(x) + signed_offset(batch.at.of[I]) + row_offset(I, r);
    }

    template <size_t I, class T>
    BK_HD const T* source_of(const Batch& batch, int r, const RowChunk& where, T* buffer) const {
        return chunk_of(source_row<I, T>(batch, r), I, where.first, where.exist, buffer);
    }

    template <class T>
    static BK_HD void widen_chunk(compute_t<T>* BK_RESTRICT to, const T* BK_RESTRICT from) {
        if constexpr (std::is_same_v<T, f16>)
            widen_span(to, from, kRowChunk);
        else
            for (int i = 0; i < kRowChunk; ++i) to[i] = widen(from[i]);
    }

    // The chunk in the compute type: converted into `buffer` unless T is that type.
    template <class T>
    static BK_HD const compute_t<T>* widened(const T* from, compute_t<T>* buffer) {
        if constexpr (std::is_same_v<T, compute_t<T>>) {
            return from;
        } else {
            widen_chunk(buffer, from);
            return buffer;
        }
    }

    static BK_HD auto params_in(const F& fn, const Row& row, const RowChunk& where, [[maybe_unused]] const Table& table,
                                int i) {
        if constexpr (kHasParamTable)
            return table.of[i];
        else
            return position_params_of(fn, row, where.first + i);
    }

    template <size_t... I>
    BK_HD void transform(const Batch& batch, int r, const Row& row, const RowChunk& where, const Table& table,
                         Cached (&cached)[kRowChunk], std::index_sequence<I...>) const {
        Pack<Block<In, kRowChunk>...> raw;
        Pack<Block<compute_t<In>, kRowChunk>...> wide;
        const Pack<const compute_t<In>*...> cell =
            pack(widened(source_of<I, In>(batch, r, where, get<I>(raw).cell), get<I>(wide).cell)...);
        in_case(f, [&](const F& known) BK_INLINED {
            const F fn = known;  // a local copy, which no store can alias: the loop vectorises
            BK_CHUNK_LOOP
            for (int i = 0; i < kRowChunk; ++i)
                cached[i] = fn.transform(row, params_in(fn, row, where, table, i), get<I>(cell)[i]...);
        });
        if (where.exist < kRowChunk)
            for (int i = where.exist; i < kRowChunk; ++i) cached[i] = f.pad();
    }

    // Chunk of a column input; zeros if it is null or past its end.
    template <class T>
    static BK_HD const compute_t<T>* column_chunk(compute_t<T>* buffer, const T* column, const RowChunk& where) {
        if (column != nullptr && where.exist == kRowChunk) return widened(column + where.first, buffer);
        for (int i = 0; i < kRowChunk; ++i) buffer[i] = compute_t<T>(0);
        for (int i = 0; column != nullptr && i < where.exist; ++i) buffer[i] = widen(column[where.first + i]);
        return buffer;
    }

    template <class... C, size_t... O>
    static BK_HD void set_cells(const Pack<compute_t<Out>*...>& cell, int i, const Pack<C...>& result,
                                std::index_sequence<O...>) {
        ((get<O>(cell)[i] = get<O>(result)), ...);
    }

    // Destination of a chunk of results: the output itself if dense and of the compute type, else `buffer`.
    template <class T>
    static BK_HD compute_t<T>* target_of(T* y_row, bool is_dense, const RowChunk& where, compute_t<T>* buffer) {
        if constexpr (std::is_same_v<T, compute_t<T>>)
            if (y_row != nullptr && is_dense) return y_row + where.first;
        return buffer;
    }

    template <class T>
    BK_HD void store_chunk(T* y_row, int k, bool is_dense, const RowChunk& where, const compute_t<T>* from) const {
        if (y_row == nullptr) return;
        if constexpr (std::is_same_v<T, compute_t<T>>)
            if (from == y_row + where.first) return;
        Block<T, kRowChunk> buffer;
        T* BK_RESTRICT const to = is_dense ? y_row + where.first : buffer.cell;
        if constexpr (std::is_same_v<T, f16>)
            narrow_span(to, from, kRowChunk);
        else
            for (int i = 0; i < kRowChunk; ++i) to[i] = narrow<T>(from[i]);
        if (is_dense) return;
        fibers.for_each_segment(k, where.first, where.exist, [&](int64_t offset, int64_t done, int64_t size) {
            if (fibers.step[k] == 1)
                memcpy(y_row + offset, buffer.cell + done, static_cast<size_t>(size) * sizeof(T));
            else
                scatter_run(y_row + offset, buffer.cell + done, fibers.step[k], size);
        });
    }

    template <class T>
    BK_HD void prefetch_output(const T* y_row, int k, bool is_dense, int64_t first) const {
        if (y_row != nullptr && is_dense && can_prefetch(k, first)) prefetch_chunk<1>(y_row + first + kPrefetch, kRowChunk);
    }

    template <size_t O, class T>
    BK_HD T* target_row(const Batch& batch, int r) const {
        if (get<O>(y) == nullptr) return nullptr;
        return get<O>(y) + signed_offset(batch.at.of[kIn + O]) + row_offset(kIn + O, r);
    }

    template <size_t... K, size_t... O>
    BK_HD void map(const Batch& batch, int r, const Row& row, const Cached (&cached)[kRowChunk], const Acc& mine,
                   const RowChunk& where, const Table& table, std::index_sequence<K...>, std::index_sequence<O...> outs) const {
        [[maybe_unused]] Pack<Block<compute_t<Column>, kRowChunk>...> wide;
        [[maybe_unused]] const Pack<const compute_t<Column>*...> column =
            pack(column_chunk(get<K>(wide).cell, get<K>(columns), where)...);
        Pack<Block<compute_t<Out>, kRowChunk>...> buffer;
        const Pack<Out*...> to = pack(target_row<O, Out>(batch, r)...);
        const auto is_dense = [&](int k) { return fibers.is_single && fibers.step[k] == 1 && where.exist == kRowChunk; };
        (prefetch_output(get<O>(to), kIn + O, is_dense(kIn + O), where.first), ...);
        const Pack<compute_t<Out>*...> cell = pack(target_of(get<O>(to), is_dense(kIn + O), where, get<O>(buffer).cell)...);
        const typename F::TileParams tile_params = f.tile_params(row, mine);
        in_case(f, [&](const F& known) BK_INLINED {
            const F fn = known;
            BK_CHUNK_LOOP
            for (int i = 0; i < kRowChunk; ++i)
                set_cells(cell, i,
                          fn.map(row, tile_params, params_in(fn, row, where, table, i), cached[i], get<K>(column)[i]...), outs);
        });
        (store_chunk(get<O>(to), kIn + O, is_dense(kIn + O), where, get<O>(cell)), ...);
    }

    // Applies `work` to [begin, end) of each row of a batch, chunk by chunk. caches_row: each chunk has its own slot,
    // else all share one. in_output, if not null, stores the accumulators of chunks whose elements the output caches.
    BK_HD void visit(int work, const Batch& batch, const Row* row, int64_t begin, int64_t end, CachedChunk* slots,
                     bool caches_row, Acc* in_output, Acc* acc) const {
        const int64_t slots_per_row = caches_row ? ceil_div<int64_t>(n, kRowChunk) : 0;
        for (int r = 0; r < batch.rows; ++r) acc[r] = f.identity();
        Table table;
        int64_t first = begin;
        if constexpr (kUsesFullChunks)
            if (!caches_row && are_dense(std::make_index_sequence<kIn + kOut>{})) {
                first = begin + (end - begin) / kRowChunk * kRowChunk;
                for (int r = 0; r < batch.rows; ++r)
                    visit_full_chunks(work, batch, r, row[r], begin, first, in_output != nullptr, acc[r],
                                      std::index_sequence_for<In...>{}, std::index_sequence_for<Out...>{});
            }
        for (; first < end; first += kRowChunk) {
            const RowChunk where{first, static_cast<int>(std::min<int64_t>(end - first, kRowChunk))};
            for (int r = 0; r < batch.rows; ++r) {
                const Row known = row[r];
                CachedChunk* const slot = slots + r * slots_per_row;
                if constexpr (kHasParamTable)
                    if (r == 0 || known.first_offset != row[r - 1].first_offset)
                        for (int i = 0; i < kRowChunk; ++i) table.of[i] = f.position_params(known, first + i);
                if (work & kLoad) transform(batch, r, known, where, table, slot->cached, std::index_sequence_for<In...>{});
                if constexpr (!F::kMapOnly)
                    if (work & kReduce) {
                        in_case(f, [&](const F& fn) BK_INLINED { slot->mine = fn.reduce_tile(known, slot->cached, where); });
                        acc[r] = f.combine(acc[r], slot->mine);
                    }
                if (in_output != nullptr)
                    exchange(work, batch, r, first, where.exist, slot,
                             &in_output[F::kMapIsElementwise ? 0 : first / kRowChunk]);
                if constexpr (kOut > 0) {
                    if (work & kMap)
                        map(batch, r, known, slot->cached, slot->mine, where, table, std::index_sequence_for<Column...>{},
                            std::index_sequence_for<Out...>{});
                }
            }
            if (caches_row) ++slots;
        }
    }

    template <size_t... K>
    BK_HD bool are_dense(std::index_sequence<K...>) const {
        return fibers.is_single && (true && ... && (fibers.step[K] == 1));
    }

    // visit() of row r for [begin, end), a multiple of kRowChunk elements.
    template <size_t... I, size_t... O>
    BK_HD void visit_full_chunks(int work, const Batch& batch, int r, const Row& row, int64_t begin, int64_t end,
                                 bool in_output, Acc& acc, std::index_sequence<I...>, std::index_sequence<O...>) const {
        const FullChunks<RowJob, Inputs<In...>, Inputs<Column...>, Outputs<Out...>> full_chunks{
            *this, row, pack(source_row<I, In>(batch, r)...), pack(target_row<O, Out>(batch, r)...)};
        if (!row.knows_max) {
            acc = full_chunks.find_max(begin, end);
            return;
        }
        if constexpr (kCachesInOutput)
            if (in_output) {
                if (work & kMap)
                    full_chunks.template map<true>(begin, end);
                else
                    acc = full_chunks.template reduce_tile<true>(begin, end, acc);
                return;
            }
        if constexpr (kOut > 0)
            if (work & kMap) {
                full_chunks.template map<false>(begin, end);
                return;
            }
        acc = full_chunks.template reduce_tile<false>(begin, end, acc);
    }

    // Copies a chunk's elements to the output or, with kMap, back from it.
    BK_HD void exchange([[maybe_unused]] int work, [[maybe_unused]] const Batch& batch, [[maybe_unused]] int r,
                        [[maybe_unused]] int64_t first, [[maybe_unused]] int count, [[maybe_unused]] CachedChunk* slot,
                        [[maybe_unused]] Acc* mine) const {
        if constexpr (kCachesInOutput) {
            Cached* BK_RESTRICT const output = target_row<0, Cached>(batch, r) + first;
            if (work & kMap) {
                for (int i = 0; i < count; ++i) slot->cached[i] = output[i];
                if constexpr (!F::kMapIsElementwise) slot->mine = *mine;
            } else {
                if (can_prefetch(kIn, first)) prefetch_chunk<1>(output + kPrefetch, kRowChunk);
                for (int i = 0; i < count; ++i) output[i] = slot->cached[i];
                if constexpr (!F::kMapIsElementwise) *mine = slot->mine;
            }
        }
    }

    // Whether map() takes elements as transform() returns them.
    bool maps_transformed() const { return F::kPureReduce || (F::kMapIsElementwise && f.keeps_elements()); }

    // Whether the output caches a row that the stack does not.
    bool caches_in_output() const {
        if constexpr (kCachesInOutput)
            return fibers.is_single && fibers.step[kIn] == 1 && get<0>(y) != nullptr &&
                   (F::kMapIsElementwise ? !f.keeps_elements() : n <= int64_t{kMaxChunksInOutput} * kRowChunk);
        return false;
    }

    // Whether the output is the cache even for short rows, as for dense rows with full chunks.
    BK_HD bool prefers_output() const {
        if constexpr (kUsesFullChunks && kCachesInOutput)
            return n >= kRowChunk && are_dense(std::make_index_sequence<kIn + kOut>{}) && caches_in_output();
        return false;
    }

    BK_HD Row start(const At& at) const { return start_row(f, row_inputs, at.of + Full, std::index_sequence_for<RowIn...>{}); }

    template <class Result, size_t... I>
    BK_HD void save(const At& at, const Result& result, std::index_sequence<I...>) const {
        ((get<I>(saved) == nullptr
              ? (void)0
              : (void)(get<I>(saved)[signed_offset(at.of[Full + kRowIn + I])] = narrow<Saved>(get<I>(result)))),
         ...);
    }

    int64_t segment() const {
        return std::max(kRowSegment, ceil_div<int64_t>(ceil_div<int64_t>(n, kMostSegments), kRowChunk) * kRowChunk);
    }

    // One row for all threads: run() takes its segments [begin, end). in_output: the output caches elements for the
    // map.
    struct SplitRow {
        int64_t row;
        int work;
        bool in_output;
        Row known;
        Acc* partials;
    };

    BK_HD void run(int64_t begin, int64_t end, int64_t length, const SplitRow* split) const {
        CachedChunk slot[kMaxCachedChunks];
        Acc chunk[kCachesInOutput && !F::kMapIsElementwise ? kMaxChunksInOutput : 1];
        Row row[kMaxRows];
        Acc all[kMaxRows], acc[kMaxRows];
        const int64_t chunks = ceil_div<int64_t>(n, kRowChunk);
        const bool caches_row = !F::kMapOnly && chunks <= kMaxCachedChunks && !prefers_output();
        const int max_rows = split != nullptr || rows.rank == 0 ? 1
                             : F::kMapOnly                      ? kMaxRows
                             : caches_row || prefers_output()   ? rows_at_once(chunks)
                                                                : 1;
        const bool in_output = split != nullptr ? split->in_output : !caches_row && caches_in_output();
        int count = 1;
        for (int64_t i = begin; i < end; i += count) {
            if (max_rows > 1) count = batch_rows(i, end, max_rows);
            if (count < 1 || count > kMaxRows) __builtin_unreachable();
            const Batch batch{outer(static_cast<uint64_t>(split != nullptr ? split->row : i)), count};
            for (int r = 0; r < count; ++r) row[r] = split != nullptr ? split->known : start(at_row(batch.at, r));
            const int64_t first = split != nullptr ? i * length : 0;
            const int64_t last = split != nullptr ? std::min(first + length, n) : n;
            int work = split != nullptr ? split->work : kFirstWork;
            bool again = F::kOnePass;
            for (;;) {
                const bool writes_output = in_output && (again || split != nullptr || work == kMap);
                for (int r = 0; r < count; ++r) all[r] = f.identity();
                for (int64_t at_segment = first; at_segment < last; at_segment += length) {
                    visit(work, batch, row, at_segment, std::min(at_segment + length, last), slot, caches_row,
                          writes_output ? chunk : nullptr, acc);
                    for (int r = 0; r < count; ++r) all[r] = f.combine(all[r], acc[r]);
                }
                if (split != nullptr) split->partials[i] = all[0];
                if (split != nullptr || (work & kMap)) break;
                again = false;
                for (int r = 0; r < count; ++r) again |= f.finish(row[r], all[r], n);
                if (!again && kOut == 0) break;
                work = again ? kReduce : kMap;
                if (!caches_row && (again || !in_output)) work |= kLoad | (again || !maps_transformed() ? kReduce : 0);
            }
            for (int r = 0; split == nullptr && r < count; ++r)
                save(at_row(batch.at, r), f.saved(row[r]), std::index_sequence_for<Saved...>{});
        }
    }

    // Whether the first input is contiguous across rows, not along them.
    bool rows_are_adjacent() const {
        const int last = rows.rank - 1;
        if (kIn == 0 || !fibers.is_single || last < 0) return false;
        return rows.stride[0][last] == 1 && magnitude(fibers.step[0]) > 1 && rows.extent[last] >= kMinLanes;
    }

    // Whether there are enough rows along the last outer axis to fill kLaneStep lanes.
    bool fill_vector() const { return kIn > 0 && rows.rank > 0 && rows.extent[rows.rank - 1] >= kLaneStep; }

    int rows_at_once(int64_t chunks) const {
        return static_cast<int>(std::clamp<int64_t>(kMaxCachedChunks / std::max<int64_t>(chunks, 1), 1, kMaxBatchRows));
    }

    // Rows from i on, up to `end`, the end of the last outer axis, or max_rows.
    BK_HD int batch_rows(int64_t i, int64_t end, int max_rows) const {
        const int64_t extent = rows.extent[rows.rank - 1];
        return static_cast<int>(std::min<int64_t>(max_rows, std::min(extent - i % extent, end - i)));
    }

    // It is not inlined, nor is run_split_rows: neither adds to the other's stack.
    BK_COLD void run_ranges(int64_t count, int64_t grain, int64_t length, const SplitRow* split) const {
        parallel_rows(count, grain, [&](int64_t begin, int64_t end) { run(begin, end, length, split); });
    }

    // Processes rows one by one, each with all threads.
    BK_COLD void run_split_rows(int64_t row_count, int64_t length, int64_t segments) const {
        for (int64_t r = 0; r < row_count; ++r) {
            Acc partials[kMostSegments];
            const At at = outer(static_cast<uint64_t>(r));
            SplitRow split{r, kFirstWork, false, start(at), partials};
            // Segments do not store accumulators of chunks, so the output is a cache only if map() needs none.
            const bool in_output = F::kMapIsElementwise && caches_in_output();
            for (;;) {
                run_ranges(segments, 1, length, &split);
                if (split.work & kMap) break;
                Acc all = f.identity();
                for (int64_t s = 0; s < segments; ++s) all = f.combine(all, partials[s]);
                const bool again = f.finish(split.known, all, n);
                if (!again && kOut == 0) break;
                split.in_output = in_output;
                if (!again) split.work = kMap | (in_output ? 0 : kLoad | (maps_transformed() ? 0 : kReduce));
            }
            save(at, f.saved(split.known), std::index_sequence_for<Saved...>{});
        }
    }

    void run_rows(int64_t row_count, int64_t row_bytes) const {
        const int64_t length = segment(), segments = ceil_div<int64_t>(n, length);
        if (segments > 1 && row_count < thread_count()) return run_split_rows(row_count, length, segments);
        if constexpr (F::kVectorizesAcrossRows) {
            using Lanes = LaneJob<RowJob, Inputs<In...>, Inputs<Column...>, Outputs<Out...>>;
            const bool in_tiles = kIsShort && Lanes::tile_rows(n) > 0 && fill_vector() && !rows_are_adjacent() &&
                                  are_dense(std::make_index_sequence<Full>{});
            if (in_tiles || rows_are_adjacent()) {
                const Lanes lanes{*this};
                return parallel_rows(row_count, grain_for(row_bytes),
                                     [&](int64_t begin, int64_t end) { lanes.run(begin, end, in_tiles); });
            }
        }
        run_ranges(row_count, grain_for(row_bytes), length, nullptr);
    }
};

template <class F, int Full, int Single>
size_t map_rows_workspace(const RowAxes<Full, Single>&) {
    return 0;
}

template <class F, int Full, int Single, class... In, class... Column, class... RowIn, class... Out, class... Saved>
Status map_rows(const Launch&, const RowAxes<Full, Single>& axes, const F& f, const Inputs<In...>& x,
                const Inputs<Column...>& columns, const Inputs<RowIn...>& row_inputs, const Outputs<Out...>& y,
                const Outputs<Saved...>& saved) {
    static_assert(Full == sizeof...(In) + sizeof...(Out) && Single == sizeof...(RowIn) + sizeof...(Saved), "an operand each");
    const Layout<Full> inner = merge_axes(axes.inner);
    const auto outer = collapse(axes.outer);
    const int64_t bytes = (static_cast<int64_t>(0) + ... + static_cast<int64_t>(sizeof(In))) +
                          (static_cast<int64_t>(0) + ... + static_cast<int64_t>(sizeof(Out)));
    const auto run = [&](auto chunk) {
        using Job = RowJob<decltype(chunk)::value, F, Full, Single, Inputs<In...>, Inputs<Column...>, Inputs<RowIn...>,
                           Outputs<Out...>, Outputs<Saved...>>;
        const Job job{f,
                      outer,
                      Walk<Full + Single, uint64_t>(outer),
                      RowFibers<Full>(inner),
                      inner.numel(),
                      x.pointer,
                      columns.pointer,
                      row_inputs.pointer,
                      y.pointer,
                      saved.pointer};
        job.run_rows(outer.numel(), bytes * job.n);
    };
    if (inner.numel() <= kMaxShortChunks * kShortRow)
        run(std::integral_constant<int, kShortRow>{});
    else
        run(std::integral_constant<int, kLongRowChunk<F, In...>>{});
    return Status::kOk;
}

}  // namespace bk

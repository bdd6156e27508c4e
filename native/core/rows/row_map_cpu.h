// Rows on the CPU: chunks of a constant length, which become vector code. Short rows are held on the stack between passes,
// long ones read again; several short ones are worked on together, since each waits for what was made of it; one that is longer
// than a segment is summed up segment by segment, by several threads where there are
// fewer rows than threads. Rows whose neighbours lie side by side have a lane each (row_lanes_cpu.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/abi/launch.h"
#include "core/pointwise/cases.h"
#include "core/pointwise/layout.h"
#include "core/rows/row_lanes_cpu.h"
#include "core/rows/row_map.h"
#include "core/rows/row_memory_cpu.h"
#include "core/rows/row_wholes_cpu.h"

namespace bk {

// All but short rows are read again.
constexpr bool kRowsStayOnChip = false;

constexpr int kHeldBytes = 6144;  // of a row that is held: a call takes at most 32 KiB of stack
constexpr int kMostChunksInOutput = 512;
constexpr int64_t kRowSegment = 32768;
constexpr int kMostSegments = 128;
constexpr int64_t kLeastLanes = 8;    // rows side by side
constexpr int kMostRowsTogether = 8;  // that have no lanes
constexpr int kMostRowsOfNears = 32;  // that look up together what neighbours have in common

constexpr int64_t kAskedAhead = 1024;  // elements between what is worked on and what memory is asked for

// Elements of a chunk: what is done once a chunk should not count, nor what is done for elements that short rows lack.
constexpr int kShortRow = 32;
constexpr int kMostShortChunks = 3;  // of a row that would leave most of a long chunk empty
template <class F, class... In>
constexpr int kLongRowChunk =
    sizeof(typename F::Held) <= 4 || (sizeof(typename F::Held) <= 8 && F::kMostChunk == 128 && (... && (sizeof(In) <= 4))) ? 128
                                                                                                                           : 64;

// Elements first, first + 1, ... of a row, of which `exist` are some.
struct RowChunk {
    int64_t first;
    int exist;
    BK_HD bool has(int i) const { return i < exist; }
    BK_HD int count() const { return exist; }
    BK_HD int64_t at(int i) const { return first + i; }
};

// The inner axes as lines along the last one.
template <int Full>
struct RowLines {
    Walk<Full, uint64_t> walk;
    int64_t length = 1, step[Full] = {};
    bool is_single = true;

    explicit RowLines(const Layout<Full>& inner) {
        const int last = inner.rank - 1;
        Layout<Full> outer = inner;
        outer.rank = std::max(last, 0);
        walk = Walk<Full, uint64_t>(outer);
        is_single = last <= 0;
        if (last < 0) return;
        length = inner.extent[last];
        for (int k = 0; k < Full; ++k) step[k] = inner.stride[k][last];
    }

    // body(offset of operand k, position from `first` on, count) for each run of positions [first, first + count).
    template <class Body>
    BK_HD void runs(int k, int64_t first, int64_t count, const Body& body) const {
        if (is_single) return body(first * step[k], int64_t{0}, count);
        for (int64_t done = 0; done < count;) {
            const int64_t line = (first + done) / length, at = first + done - line * length;
            const int64_t run = std::min(length - at, count - done);
            body(signed_offset(walk(static_cast<uint64_t>(line)).of[k]) + at * step[k], done, run);
            done += run;
        }
    }
};

// parallel_ranges, with the copies of chunks as loops.
#if BK_ISA_DISPATCH
template <class Body>
BK_FOR_AVX512 BK_KEEPS_COPIES void run_rows_avx512(const Body& body, int64_t begin, int64_t end) {
    body(begin, end);
}

template <class Body>
BK_FOR_AVX2 BK_KEEPS_COPIES void run_rows_avx2(const Body& body, int64_t begin, int64_t end) {
    body(begin, end);
}
#endif

template <class Body>
void parallel_rows(int64_t count, int64_t grain, const Body& body) {
    split_ranges(count, grain, [&](int64_t begin, int64_t end) {
#if BK_ISA_DISPATCH
        switch (isa()) {
            case Isa::kAvx512: return run_rows_avx512(body, begin, end);
            case Isa::kAvx2: return run_rows_avx2(body, begin, end);
            case Isa::kBase: break;
        }
#endif
        run_range(body, begin, end);
    });
}

// What is done to a chunk.
enum RowWork : int { kLoads = 1, kSums = 2, kMaps = 4 };

template <int kRowChunk, class F, int Full, int Single, class X, class K, class P, class Y, class S>
struct RowJob;

template <int kRowChunk, class F, int Full, int Single, class... In, class... Column, class... RowIn, class... Out,
          class... Saved>
struct RowJob<kRowChunk, F, Full, Single, Inputs<In...>, Inputs<Column...>, Inputs<RowIn...>, Outputs<Out...>,
              Outputs<Saved...>> {
    using Function = F;
    using Row = typename F::Row;
    using Acc = typename F::Acc;
    using Held = typename F::Held;
    using Chunk = RowChunk;
    using At = Offsets<Full + Single, uint64_t>;
    struct alignas(64) Group {
        Held held[kRowChunk];
        Acc mine;
    };
    static constexpr int kIn = sizeof...(In), kOut = sizeof...(Out), kRowIn = sizeof...(RowIn);
    static constexpr int kSaved = sizeof...(Saved), kChunk = kRowChunk;
    static constexpr int kMostGroups = std::max<int>(1, kHeldBytes / static_cast<int>(sizeof(Group)));
    // Rows of one place have the same Nears: those of a chunk are looked up for a lot of such rows, and are vectors then.
    static constexpr bool kListsNears = F::kOnlyMaps && kHasNear<F> && kHasPlace<Row>;
    static constexpr int kMostRows = kListsNears ? kMostRowsOfNears : kMostRowsTogether;
    struct Nears {
        decltype(near_of(std::declval<F>(), std::declval<Row>(), 0)) of[kListsNears ? kRowChunk : 1];
    };
    // An output of what is held may hold it, too, until its values replace it.
    static constexpr bool kHoldsInOutput = (F::kMapsAlone || (F::kOnePass && !F::kOnlyMaps && sizeof(Acc) <= 8)) && kOut == 1 &&
                                           (std::is_same_v<Out, Held> && ...);

    static constexpr bool kIsShort = kRowChunk == kShortRow;
    static constexpr bool kTakesWholes = std::is_base_of_v<KnowsLargest, Row> && !kIsShort;

    struct Lot {
        At at;  // of the first
        int rows;
    };

    static constexpr int kFirstWork = kLoads | (F::kOnlyMaps ? kMaps : kSums);

    const F& f;
    Layout<Full + Single> rows;
    Walk<Full + Single, uint64_t> outer;
    RowLines<Full> lines;
    int64_t n;
    Pack<const In*...> x;
    Pack<const Column*...> columns;
    Pack<const RowIn*...> row_inputs;
    Pack<Out*...> y;
    Pack<Saved*...> saved;

    // Offsets of the row r behind that at `at`, in its line.
    BK_HD At at_row(At at, int r) const {
        for (int k = 0; r > 0 && k < Full + Single; ++k) at.of[k] += static_cast<uint64_t>(row_offset(k, r));
        return at;
    }
    BK_HD int64_t row_offset(int k, int r) const { return r == 0 ? 0 : r * rows.stride[k][rows.rank - 1]; }

    // Whether what lies kAskedAhead behind position `first` of a dense row is of that row or of those that follow: hardware
    // looks no further than the end of a page, and not at all where nothing but stores goes.
    BK_HD bool goes_on(int k, int64_t first) const {
        return first + kAskedAhead < n || (rows.rank > 0 && rows.stride[k][rows.rank - 1] == n);
    }

    // A whole dense chunk is read where it lies, any other from a buffer.
    template <class T>
    BK_HD const T* chunk_of(const T* row, int k, int64_t first, int count, T* buffer) const {
        if (lines.is_single && lines.step[k] == 1 && count == kRowChunk) {
            if (goes_on(k, first)) ask_for_chunk<0>(row + first + kAskedAhead, kRowChunk);
            return row + first;
        }
        lines.runs(k, first, count, [&](int64_t offset, int64_t done, int64_t run) {
            if (lines.step[k] == 1)
                memcpy(buffer + done, row + offset, static_cast<size_t>(run) * sizeof(T));
            else
                gather_run(buffer + done, row + offset, lines.step[k], run);
        });
        if (count < kRowChunk) memset(buffer + count, 0, static_cast<size_t>(kRowChunk - count) * sizeof(T));
        return buffer;
    }

    template <size_t I, class T>
    BK_HD const T* source_row(const Lot& lot, int r) const {
        return get<I>(x) + signed_offset(lot.at.of[I]) + row_offset(I, r);
    }

    template <size_t I, class T>
    BK_HD const T* source_of(const Lot& lot, int r, const RowChunk& where, T* buffer) const {
        return chunk_of(source_row<I, T>(lot, r), I, where.first, where.exist, buffer);
    }

    template <class T>
    static BK_HD void widen_chunk(compute_t<T>* BK_RESTRICT to, const T* BK_RESTRICT from) {
        if constexpr (std::is_same_v<T, f16>)
            widen_span(to, from, kRowChunk);
        else
            for (int i = 0; i < kRowChunk; ++i) to[i] = widen(from[i]);
    }

    // A chunk in the compute type: where it lies, or in the buffer.
    template <class T>
    static BK_HD const compute_t<T>* widened(const T* from, compute_t<T>* buffer) {
        if constexpr (std::is_same_v<T, compute_t<T>>) {
            return from;
        } else {
            widen_chunk(buffer, from);
            return buffer;
        }
    }

    static BK_HD auto near_in(const F& fn, const Row& row, const RowChunk& where, [[maybe_unused]] const Nears& nears, int i) {
        if constexpr (kListsNears)
            return nears.of[i];
        else
            return near_of(fn, row, where.first + i);
    }

    template <size_t... I>
    BK_HD void hold(const Lot& lot, int r, const Row& row, const RowChunk& where, const Nears& nears, Held (&held)[kRowChunk],
                    std::index_sequence<I...>) const {
        Pack<Block<In, kRowChunk>...> raw;
        Pack<Block<compute_t<In>, kRowChunk>...> wide;
        const Pack<const compute_t<In>*...> cell =
            pack(widened(source_of<I, In>(lot, r, where, get<I>(raw).cell), get<I>(wide).cell)...);
        in_case(f, [&](const F& known) BK_INLINED {
            const F fn = known;  // which no store can change, so that the loop becomes vector code whatever it looks at
            BK_CHUNK_LOOP
            for (int i = 0; i < kRowChunk; ++i) held[i] = fn.hold(row, near_in(fn, row, where, nears, i), get<I>(cell)[i]...);
        });
        if (where.exist < kRowChunk)
            for (int i = where.exist; i < kRowChunk; ++i) held[i] = f.pad();
    }

    // Zeros where there is no column or no element.
    template <class T>
    static BK_HD const compute_t<T>* column_chunk(compute_t<T>* buffer, const T* column, const RowChunk& where) {
        if (column != nullptr && where.exist == kRowChunk) return widened(column + where.first, buffer);
        for (int i = 0; i < kRowChunk; ++i) buffer[i] = compute_t<T>(0);
        for (int i = 0; column != nullptr && i < where.exist; ++i) buffer[i] = widen(column[where.first + i]);
        return buffer;
    }

    template <class... C, size_t... O>
    static BK_HD void put_cells(const Pack<compute_t<Out>*...>& cell, int i, const Pack<C...>& result,
                                std::index_sequence<O...>) {
        ((get<O>(cell)[i] = get<O>(result)), ...);
    }

    // Where a chunk of results is put: where it is to lie, if it can be, else a buffer.
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
        lines.runs(k, where.first, where.exist, [&](int64_t offset, int64_t done, int64_t run) {
            if (lines.step[k] == 1)
                memcpy(y_row + offset, buffer.cell + done, static_cast<size_t>(run) * sizeof(T));
            else
                scatter_run(y_row + offset, buffer.cell + done, lines.step[k], run);
        });
    }

    template <class T>
    BK_HD void ask_for_output(const T* y_row, int k, bool is_dense, int64_t first) const {
        if (y_row != nullptr && is_dense && goes_on(k, first)) ask_for_chunk<1>(y_row + first + kAskedAhead, kRowChunk);
    }

    template <size_t O, class T>
    BK_HD T* target_row(const Lot& lot, int r) const {
        if (get<O>(y) == nullptr) return nullptr;
        return get<O>(y) + signed_offset(lot.at.of[kIn + O]) + row_offset(kIn + O, r);
    }

    template <size_t... K, size_t... O>
    BK_HD void map(const Lot& lot, int r, const Row& row, const Held (&held)[kRowChunk], const Acc& mine, const RowChunk& where,
                   const Nears& nears, std::index_sequence<K...>, std::index_sequence<O...> outs) const {
        [[maybe_unused]] Pack<Block<compute_t<Column>, kRowChunk>...> wide;
        [[maybe_unused]] const Pack<const compute_t<Column>*...> column =
            pack(column_chunk(get<K>(wide).cell, get<K>(columns), where)...);
        Pack<Block<compute_t<Out>, kRowChunk>...> buffer;
        const Pack<Out*...> to = pack(target_row<O, Out>(lot, r)...);
        const auto is_dense = [&](int k) { return lines.is_single && lines.step[k] == 1 && where.exist == kRowChunk; };
        (ask_for_output(get<O>(to), kIn + O, is_dense(kIn + O), where.first), ...);
        const Pack<compute_t<Out>*...> cell = pack(target_of(get<O>(to), is_dense(kIn + O), where, get<O>(buffer).cell)...);
        const typename F::Part part = f.part(row, mine);
        in_case(f, [&](const F& known) BK_INLINED {
            const F fn = known;
            BK_CHUNK_LOOP
            for (int i = 0; i < kRowChunk; ++i)
                put_cells(cell, i, fn.map(row, part, near_in(fn, row, where, nears, i), held[i], get<K>(column)[i]...), outs);
        });
        (store_chunk(get<O>(to), kIn + O, is_dense(kIn + O), where, get<O>(cell)), ...);
    }

    // Positions [begin, end) of a lot chunk by chunk, in one group or each of each row in its own. Where `in_output` is there,
    // it has the chunks' statistics, and the output what they hold.
    BK_HD void visit(int work, const Lot& lot, const Row* row, int64_t begin, int64_t end, Group* groups, bool keeps,
                     Acc* in_output, Acc* acc) const {
        const int64_t of_row = keeps ? ceil_div<int64_t>(n, kRowChunk) : 0;
        for (int r = 0; r < lot.rows; ++r) acc[r] = f.identity();
        Nears nears;
        int64_t first = begin;
        if constexpr (kTakesWholes)
            if (!keeps && are_dense(std::make_index_sequence<kIn + kOut>{})) {
                first = begin + (end - begin) / kRowChunk * kRowChunk;
                for (int r = 0; r < lot.rows; ++r)
                    visit_wholes(work, lot, r, row[r], begin, first, in_output != nullptr, acc[r],
                                 std::index_sequence_for<In...>{}, std::index_sequence_for<Out...>{});
            }
        for (; first < end; first += kRowChunk) {
            const RowChunk where{first, static_cast<int>(std::min<int64_t>(end - first, kRowChunk))};
            for (int r = 0; r < lot.rows; ++r) {
                const Row known = row[r];
                Group* const group = groups + r * of_row;
                if constexpr (kListsNears)
                    if (r == 0 || known.place != row[r - 1].place)
                        for (int i = 0; i < kRowChunk; ++i) nears.of[i] = f.near(known, first + i);
                if (work & kLoads) hold(lot, r, known, where, nears, group->held, std::index_sequence_for<In...>{});
                if constexpr (!F::kOnlyMaps)
                    if (work & kSums) {
                        in_case(f, [&](const F& fn) BK_INLINED { group->mine = fn.sum_up(known, group->held, where); });
                        acc[r] = f.combine(acc[r], group->mine);
                    }
                if (in_output != nullptr)
                    exchange(work, lot, r, first, where.exist, group, &in_output[F::kMapsAlone ? 0 : first / kRowChunk]);
                if constexpr (kOut > 0) {
                    if (work & kMaps)
                        map(lot, r, known, group->held, group->mine, where, nears, std::index_sequence_for<Column...>{},
                            std::index_sequence_for<Out...>{});
                }
            }
            if (keeps) ++groups;
        }
    }

    // Whether the rows of all operands are single lines of neighbours.
    template <size_t... K>
    BK_HD bool are_dense(std::index_sequence<K...>) const {
        return lines.is_single && (true && ... && (lines.step[K] == 1));
    }

    // Positions [begin, end) of row r of a lot, which are whole chunks.
    template <size_t... I, size_t... O>
    BK_HD void visit_wholes(int work, const Lot& lot, int r, const Row& row, int64_t begin, int64_t end, bool in_output,
                            Acc& acc, std::index_sequence<I...>, std::index_sequence<O...>) const {
        const WholeChunks<RowJob, Inputs<In...>, Inputs<Column...>, Outputs<Out...>> wholes{
            *this, row, pack(source_row<I, In>(lot, r)...), pack(target_row<O, Out>(lot, r)...)};
        if (!row.knows_max) {
            acc = wholes.find_largest(begin, end);
            return;
        }
        if constexpr (kHoldsInOutput)
            if (in_output) {
                if (work & kMaps)
                    wholes.template map<true>(begin, end);
                else
                    acc = wholes.template sum_up<true>(begin, end, acc);
                return;
            }
        if constexpr (kOut > 0)
            if (work & kMaps) {
                wholes.template map<false>(begin, end);
                return;
            }
        acc = wholes.template sum_up<false>(begin, end, acc);
    }

    // Puts a chunk's elements into the output or, to map them, takes them from there.
    BK_HD void exchange([[maybe_unused]] int work, [[maybe_unused]] const Lot& lot, [[maybe_unused]] int r,
                        [[maybe_unused]] int64_t first, [[maybe_unused]] int count, [[maybe_unused]] Group* group,
                        [[maybe_unused]] Acc* mine) const {
        if constexpr (kHoldsInOutput) {
            Held* BK_RESTRICT const place = target_row<0, Held>(lot, r) + first;
            if (work & kMaps) {
                for (int i = 0; i < count; ++i) group->held[i] = place[i];
                if constexpr (!F::kMapsAlone) group->mine = *mine;
            } else {
                if (goes_on(kIn, first)) ask_for_chunk<1>(place + kAskedAhead, kRowChunk);
                for (int i = 0; i < count; ++i) place[i] = group->held[i];
                if constexpr (!F::kMapsAlone) *mine = group->mine;
            }
        }
    }

    // Whether elements are mapped as they are held, before any sum.
    bool leaves_elements() const { return F::kOnlySums || (F::kMapsAlone && f.keeps_elements()); }

    // Whether a row that is not kept may be held in the output.
    bool holds_in_output() const {
        if constexpr (kHoldsInOutput)
            return lines.is_single && lines.step[kIn] == 1 && get<0>(y) != nullptr &&
                   (F::kMapsAlone ? !f.keeps_elements() : n <= int64_t{kMostChunksInOutput} * kRowChunk);
        return false;
    }

    // Whether the output holds a row of whole chunks, and even a short one is not kept elsewhere.
    BK_HD bool prefers_output() const {
        if constexpr (kTakesWholes && kHoldsInOutput)
            return n >= kRowChunk && are_dense(std::make_index_sequence<kIn + kOut>{}) && holds_in_output();
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

    // Segments of a long row: their length depends on its own alone.
    int64_t segment() const {
        return std::max(kRowSegment, ceil_div<int64_t>(ceil_div<int64_t>(n, kMostSegments), kRowChunk) * kRowChunk);
    }

    // Rows [begin, end); or, where `part` is there, segments [begin, end) of row `shared`: their sums or, with kMaps, the map.
    // Where `in_output`, sums leave in the output what they hold, and the map finds it there.
    struct Shared {
        int64_t row;
        int work;
        bool in_output;
        Row known;
        Acc* part;
    };

    BK_HD void run(int64_t begin, int64_t end, int64_t length, const Shared* shared) const {
        Group group[kMostGroups];
        Acc chunk[kHoldsInOutput && !F::kMapsAlone ? kMostChunksInOutput : 1];
        Row row[kMostRows];
        Acc all[kMostRows], acc[kMostRows];
        const int64_t chunks = ceil_div<int64_t>(n, kRowChunk);
        const bool keeps = !F::kOnlyMaps && chunks <= kMostGroups && !prefers_output();
        const int most = shared != nullptr || rows.rank == 0 ? 1
                         : F::kOnlyMaps                      ? kMostRows
                         : keeps || prefers_output()         ? rows_together(chunks)
                                                             : 1;
        const bool in_output = shared != nullptr ? shared->in_output : !keeps && holds_in_output();
        int count = 1;
        for (int64_t i = begin; i < end; i += count) {
            if (most > 1) count = lot_rows(i, end, most);
            if (count < 1 || count > kMostRows) __builtin_unreachable();
            const Lot lot{outer(static_cast<uint64_t>(shared != nullptr ? shared->row : i)), count};
            for (int r = 0; r < count; ++r) row[r] = shared != nullptr ? shared->known : start(at_row(lot.at, r));
            const int64_t first = shared != nullptr ? i * length : 0;
            const int64_t last = shared != nullptr ? std::min(first + length, n) : n;
            int work = shared != nullptr ? shared->work : kFirstWork;
            bool again = F::kOnePass;
            for (;;) {
                const bool puts = in_output && (again || shared != nullptr || work == kMaps);
                for (int r = 0; r < count; ++r) all[r] = f.identity();
                for (int64_t at_segment = first; at_segment < last; at_segment += length) {
                    visit(work, lot, row, at_segment, std::min(at_segment + length, last), group, keeps, puts ? chunk : nullptr,
                          acc);
                    for (int r = 0; r < count; ++r) all[r] = f.combine(all[r], acc[r]);
                }
                if (shared != nullptr) shared->part[i] = all[0];
                if (shared != nullptr || (work & kMaps)) break;
                again = false;
                for (int r = 0; r < count; ++r) again |= f.finish(row[r], all[r], n);
                if (!again && kOut == 0) break;
                work = again ? kSums : kMaps;
                if (!keeps && (again || !in_output)) work |= kLoads | (again || !leaves_elements() ? kSums : 0);
            }
            for (int r = 0; shared == nullptr && r < count; ++r)
                save(at_row(lot.at, r), f.saved(row[r]), std::index_sequence_for<Saved...>{});
        }
    }

    // Whether neighbours in memory are elements of different rows.
    bool lies_across() const {
        const int last = rows.rank - 1;
        if (kIn == 0 || !lines.is_single || last < 0) return false;
        return rows.stride[0][last] == 1 && magnitude(lines.step[0]) > 1 && rows.extent[last] >= kLeastLanes;
    }

    // Whether rows behind one another fill a vector.
    bool are_many() const { return kIn > 0 && rows.rank > 0 && rows.extent[rows.rank - 1] >= kLaneStep; }

    // Rows of `chunks` chunks each that are worked on at a time.
    int rows_together(int64_t chunks) const {
        return static_cast<int>(std::clamp<int64_t>(kMostGroups / std::max<int64_t>(chunks, 1), 1, kMostRowsTogether));
    }

    // Of row i and those behind it in its line: at most `most`.
    BK_HD int lot_rows(int64_t i, int64_t end, int most) const {
        const int64_t extent = rows.extent[rows.rank - 1];
        return static_cast<int>(std::min<int64_t>(most, std::min(extent - i % extent, end - i)));
    }

    // Not inlined, as run_shared is not: what only one of them needs is not on the other's stack.
    BK_COLD void run_ranges(int64_t count, int64_t grain, int64_t length, const Shared* shared) const {
        parallel_rows(count, grain, [&](int64_t begin, int64_t end) { run(begin, end, length, shared); });
    }

    // Rows one after another, each by all threads.
    BK_COLD void run_shared(int64_t row_count, int64_t length, int64_t segments) const {
        for (int64_t r = 0; r < row_count; ++r) {
            Acc part[kMostSegments];
            const At at = outer(static_cast<uint64_t>(r));
            Shared shared{r, kFirstWork, false, start(at), part};
            // Segments of a row have no place for the statistics of its chunks: those that the map needs are made again.
            const bool in_output = F::kMapsAlone && holds_in_output();
            for (;;) {
                run_ranges(segments, 1, length, &shared);
                if (shared.work & kMaps) break;
                Acc all = f.identity();
                for (int64_t s = 0; s < segments; ++s) all = f.combine(all, part[s]);
                const bool again = f.finish(shared.known, all, n);
                if (!again && kOut == 0) break;
                shared.in_output = in_output;
                if (!again) shared.work = kMaps | (in_output ? 0 : kLoads | (leaves_elements() ? 0 : kSums));
            }
            save(at, f.saved(shared.known), std::index_sequence_for<Saved...>{});
        }
    }

    void run_rows(int64_t row_count, int64_t row_bytes) const {
        const int64_t length = segment(), segments = ceil_div<int64_t>(n, length);
        if (segments > 1 && row_count < thread_count()) return run_shared(row_count, length, segments);
        if constexpr (F::kTakesLanes) {
            using Lanes = LaneJob<RowJob, Inputs<In...>, Inputs<Column...>, Outputs<Out...>>;
            const bool in_tiles = kIsShort && Lanes::tile_rows(n) > 0 && are_many() && !lies_across() &&
                                  are_dense(std::make_index_sequence<Full>{});
            if (in_tiles || lies_across()) {
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
                      RowLines<Full>(inner),
                      inner.numel(),
                      x.pointer,
                      columns.pointer,
                      row_inputs.pointer,
                      y.pointer,
                      saved.pointer};
        job.run_rows(outer.numel(), bytes * job.n);
    };
    if (inner.numel() <= kMostShortChunks * kShortRow)
        run(std::integral_constant<int, kShortRow>{});
    else
        run(std::integral_constant<int, kLongRowChunk<F, In...>>{});
    return Status::kOk;
}

}  // namespace bk

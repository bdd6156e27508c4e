// Rows on the CPU: chunks of a constant length, which become vector code. Short rows are held on the stack between passes,
// long ones read again; several short ones are worked on together, since each waits for what was made of it; one that is longer
// than a segment is summed up segment by segment, by several threads where there are
// fewer rows than threads. Rows whose neighbours lie side by side are brought to tiles, which have a cache line of rows and a
// chunk of each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/abi/launch.h"
#include "core/pointwise/cases.h"
#include "core/pointwise/layout.h"
#include "core/pointwise/transpose_cpu.h"
#include "core/rows/row_map.h"

namespace bk {

// All but short rows are read again.
constexpr bool kRowsStayOnChip = false;

constexpr int kHeldBytes = 6144;  // of a row that is held: a call takes at most 24 KiB of stack
constexpr int kMostChunksInOutput = 512;
constexpr int64_t kRowSegment = 32768;
constexpr int kMostSegments = 128;
constexpr int64_t kLeastTiled = 8;                        // rows side by side
constexpr int kMostTileBytes = 16384, kTileRoom = 14336;  // of the tiles, and of them and what is held
constexpr int kMostRowsTogether = 8;                      // that are not in tiles

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

// Elements that lie apart: no loop of vectors is worth its time to compile.
template <class T>
BK_COLD void gather_run(T* to, const T* from, int64_t step, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}
template <class T>
BK_COLD void scatter_run(T* to, const T* from, int64_t step, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i * step] = from[i];
}

// The lines of `count` elements, to be read or written. Inlined at once, for GCC takes a call that does no more than this for
// one without effect.
template <int kWrites, class T>
__attribute__((always_inline)) inline void ask_for_chunk(const T* x, int count) {
    for (int i = 0; i < count; i += 64 / static_cast<int>(sizeof(T))) __builtin_prefetch(x + i, kWrites);
}

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
enum RowWork : int { kLoads = 1, kSums = 2, kMaps = 4, kReads = 8 };  // loads are from tiles, which are read from memory

template <int kRowChunk, class F, int Full, int Single, class X, class K, class P, class Y, class S>
struct RowJob;

template <int kRowChunk, class F, int Full, int Single, class... In, class... Column, class... RowIn, class... Out,
          class... Saved>
struct RowJob<kRowChunk, F, Full, Single, Inputs<In...>, Inputs<Column...>, Inputs<RowIn...>, Outputs<Out...>,
              Outputs<Saved...>> {
    using Row = typename F::Row;
    using Acc = typename F::Acc;
    using Held = typename F::Held;
    using At = Offsets<Full + Single, uint64_t>;
    struct alignas(64) Group {
        Held held[kRowChunk];
        Acc mine;
    };
    static constexpr int kIn = sizeof...(In), kOut = sizeof...(Out), kRowIn = sizeof...(RowIn);
    static constexpr int kMostGroups = std::max<int>(1, kHeldBytes / static_cast<int>(sizeof(Group)));
    // An output of what is held may hold it, too, until its values replace it.
    static constexpr bool kHoldsInOutput =
        (F::kMapsAlone || (F::kOnePass && sizeof(Acc) <= 8)) && kOut == 1 && (std::is_same_v<Out, Held> && ...);

    template <class T>
    static constexpr bool kIsInput = (std::is_same_v<T, In> || ...);
    // Of rows that lie across: those of a cache line, or fewer. The output takes the place of an input of its type.
    static constexpr int tile_rows() {
        constexpr int kBytes =
            (0 + ... + static_cast<int>(sizeof(In))) + (0 + ... + (kIsInput<Out> ? 0 : static_cast<int>(sizeof(Out))));
        int count = 64 / static_cast<int>(std::max({sizeof(char), sizeof(In)..., sizeof(Out)...}));
        while (count > 1 && count * kRowChunk * kBytes > kMostTileBytes) count /= 2;
        return count;
    }
    static constexpr int kTileRows = tile_rows();
    static_assert((kTileRows & (kTileRows - 1)) == 0, "a power of 2");
    static constexpr bool kTiles = F::kTakesTiles && kIn > 0 && kOut <= 1;
    template <class T>
    struct alignas(64) Tile {
        T cell[kTileRows * kRowChunk];
    };
    struct Tiles {
        Pack<Tile<In>...> in;
        Pack<std::conditional_t<kIsInput<Out>, Nothing, Tile<Out>>...> out;
    };
    using UsedTiles = std::conditional_t<kTiles, Tiles, Nothing>;
    // Of the stack: groups, or tiles and as many groups as there is still room for.
    static constexpr int kTileBytes = kTiles ? static_cast<int>(sizeof(Tiles)) : 0;
    static constexpr int kTileGroups = std::clamp((kTileRoom - kTileBytes) / static_cast<int>(sizeof(Group)), 1, kMostGroups);
    static constexpr int kRoom = std::max(kMostGroups * static_cast<int>(sizeof(Group)),
                                          kTiles ? kTileBytes + kTileGroups * static_cast<int>(sizeof(Group)) : 0);
    // Rows that are worked on together: some in tiles, or short ones.
    static constexpr int kMostRows = kTiles ? std::max(kTileRows, kMostRowsTogether) : kMostRowsTogether;
    struct Lot {
        At at;  // of the first
        int rows;
        UsedTiles* tiles;
    };

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

    // Offsets of a row of the lot.
    BK_HD At at_row(const Lot& lot, int r) const {
        At at = lot.at;
        for (int k = 0; r > 0 && k < Full + Single; ++k) at.of[k] += static_cast<uint64_t>(row_offset(k, r));
        return at;
    }
    BK_HD int64_t row_offset(int k, int r) const { return r == 0 ? 0 : r * rows.stride[k][rows.rank - 1]; }

    // A tile of operand k where it lies: positions from `first` on of all rows of the lot.
    template <class T>
    StridedBlock in_memory(const Lot& lot, T* x, int k, int64_t first) const {
        T* const at = x + signed_offset(lot.at.of[k]) + first * lines.step[k];
        return {const_cast<std::remove_const_t<T>*>(at), rows.stride[k][rows.rank - 1], lines.step[k]};
    }
    template <size_t... I>
    void load_tiles(const Lot& lot, const RowChunk& where, std::index_sequence<I...>) const {
        (copy_block(sizeof(In), {get<I>(lot.tiles->in).cell, kRowChunk, 1}, in_memory(lot, get<I>(x), I, where.first), lot.rows,
                    where.exist),
         ...);
    }
    template <size_t... O>
    void store_tiles(const Lot& lot, const RowChunk& where, std::index_sequence<O...>) const {
        ((get<O>(y) == nullptr ? void()
                               : copy_block(sizeof(Out), in_memory(lot, get<O>(y), kIn + O, where.first),
                                            {output_tile<O, Out>(lot.tiles), kRowChunk, 1}, lot.rows, where.exist)),
         ...);
    }
    template <int O, class T, int I = 0>
    static BK_HD T* output_tile(Tiles* tiles) {
        if constexpr (!kIsInput<T>)
            return get<O>(tiles->out).cell;
        else if constexpr (std::is_same_v<std::decay_t<decltype(get<I>(tiles->in).cell[0])>, T>)
            return get<I>(tiles->in).cell;
        else
            return output_tile<O, T, I + 1>(tiles);
    }

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
    BK_HD const T* source_of(const Lot& lot, int r, const RowChunk& where, T* buffer) const {
        if constexpr (kTiles)
            if (lot.tiles != nullptr) return get<I>(lot.tiles->in).cell + r * kRowChunk;
        return chunk_of(get<I>(x) + signed_offset(lot.at.of[I]) + row_offset(I, r), I, where.first, where.exist, buffer);
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

    template <size_t... I>
    BK_HD void hold(const Lot& lot, int r, const Row& row, const RowChunk& where, Held (&held)[kRowChunk],
                    std::index_sequence<I...>) const {
        Pack<Block<In, kRowChunk>...> raw;
        Pack<Block<compute_t<In>, kRowChunk>...> wide;
        const Pack<const compute_t<In>*...> cell =
            pack(widened(source_of<I, In>(lot, r, where, get<I>(raw).cell), get<I>(wide).cell)...);
        in_case(f, [&](const F& known) BK_INLINED {
            const F fn = known;  // which no store can change, so that the loop becomes vector code whatever it looks at
            BK_CHUNK_LOOP
            for (int i = 0; i < kRowChunk; ++i) held[i] = fn.hold(row, near_of(fn, row, where.first + i), get<I>(cell)[i]...);
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
    BK_HD compute_t<T>* target_of(T* y_row, bool is_dense, const RowChunk& where, compute_t<T>* buffer) const {
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
        if constexpr (kTiles)
            if (lot.tiles != nullptr) return output_tile<O, T>(lot.tiles) + r * kRowChunk;
        return get<O>(y) + signed_offset(lot.at.of[kIn + O]) + row_offset(kIn + O, r);
    }

    template <size_t... K, size_t... O>
    BK_HD void map(const Lot& lot, int r, const Row& row, const Held (&held)[kRowChunk], const Acc& mine, const RowChunk& where,
                   std::index_sequence<K...>, std::index_sequence<O...> outs) const {
        [[maybe_unused]] Pack<Block<compute_t<Column>, kRowChunk>...> wide;
        [[maybe_unused]] const Pack<const compute_t<Column>*...> column =
            pack(column_chunk(get<K>(wide).cell, get<K>(columns), where)...);
        Pack<Block<compute_t<Out>, kRowChunk>...> buffer;
        const Pack<Out*...> to = pack(target_row<O, Out>(lot, r)...);
        const RowChunk there = lot.tiles != nullptr ? RowChunk{0, kRowChunk} : where;
        const auto is_dense = [&](int k) {
            return lot.tiles != nullptr || (lines.is_single && lines.step[k] == 1 && where.exist == kRowChunk);
        };
        if (lot.tiles == nullptr) (ask_for_output(get<O>(to), kIn + O, is_dense(kIn + O), where.first), ...);
        const Pack<compute_t<Out>*...> cell = pack(target_of(get<O>(to), is_dense(kIn + O), there, get<O>(buffer).cell)...);
        const typename F::Part part = f.part(row, mine);
        in_case(f, [&](const F& known) BK_INLINED {
            const F fn = known;
            BK_CHUNK_LOOP
            for (int i = 0; i < kRowChunk; ++i)
                put_cells(cell, i, fn.map(row, part, near_of(fn, row, where.first + i), held[i], get<K>(column)[i]...), outs);
        });
        (store_chunk(get<O>(to), kIn + O, is_dense(kIn + O), there, get<O>(cell)), ...);
    }

    // Positions [begin, end) of a lot chunk by chunk, in one group or each of each row in its own. Where `in_output` is there,
    // it has the chunks' statistics, and the output what they hold.
    BK_HD void visit(int work, const Lot& lot, const Row* row, int64_t begin, int64_t end, Group* groups, bool keeps,
                     Acc* in_output, Acc* acc) const {
        const int64_t of_row = keeps ? ceil_div<int64_t>(n, kRowChunk) : 0;
        for (int r = 0; r < lot.rows; ++r) acc[r] = f.identity();
        for (int64_t first = begin; first < end; first += kRowChunk) {
            const RowChunk where{first, static_cast<int>(std::min<int64_t>(end - first, kRowChunk))};
            if constexpr (kTiles)
                if (lot.tiles != nullptr && (work & kReads)) load_tiles(lot, where, std::index_sequence_for<In...>{});
            for (int r = 0; r < lot.rows; ++r) {
                const Row known = row[r];
                Group* const group = groups + r * of_row;
                if (work & kLoads) hold(lot, r, known, where, group->held, std::index_sequence_for<In...>{});
                if (work & kSums) {
                    in_case(f, [&](const F& fn) BK_INLINED { group->mine = fn.sum_up(known, group->held, where); });
                    acc[r] = f.combine(acc[r], group->mine);
                }
                if (in_output != nullptr)
                    exchange(work, lot.at, first, where.exist, group, &in_output[F::kMapsAlone ? 0 : first / kRowChunk]);
                if constexpr (kOut > 0) {
                    if (work & kMaps)
                        map(lot, r, known, group->held, group->mine, where, std::index_sequence_for<Column...>{},
                            std::index_sequence_for<Out...>{});
                }
            }
            if constexpr (kTiles)
                if (lot.tiles != nullptr && (work & kMaps)) store_tiles(lot, where, std::index_sequence_for<Out...>{});
            if (keeps) ++groups;
        }
    }

    // Puts a chunk's elements into the output or, to map them, takes them from there.
    BK_HD void exchange([[maybe_unused]] int work, [[maybe_unused]] const At& at, [[maybe_unused]] int64_t first,
                        [[maybe_unused]] int count, [[maybe_unused]] Group* group, [[maybe_unused]] Acc* mine) const {
        if constexpr (kHoldsInOutput) {
            Held* BK_RESTRICT const place = get<0>(y) + signed_offset(at.of[kIn]) + first;
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
    struct Shared {
        int64_t row;
        int work;
        Row known;
        Acc* part;
    };

    BK_HD void run(int64_t begin, int64_t end, int64_t length, const Shared* shared, bool is_tiled) const {
        alignas(64) unsigned char room[kRoom];
        if (is_tiled) memset(room, 0, kTileBytes);
        UsedTiles* const tiles = is_tiled ? reinterpret_cast<UsedTiles*>(room) : nullptr;
        Group* const group = reinterpret_cast<Group*>(is_tiled ? room + kTileBytes : room);
        Acc chunk[kHoldsInOutput && !F::kMapsAlone ? kMostChunksInOutput : 1];
        Row row[kMostRows];
        Acc all[kMostRows], acc[kMostRows];
        const int64_t chunks = ceil_div<int64_t>(n, kRowChunk);
        const bool keeps = tiles == nullptr ? chunks <= kMostGroups : kTileRows * chunks <= kTileGroups;
        const int most = tiles != nullptr ? kTileRows : !keeps || shared != nullptr ? 1 : rows_together(chunks);
        const bool in_output = tiles == nullptr && !keeps && shared == nullptr && holds_in_output();
        const int reads = kLoads | (n > kRowChunk ? kReads : 0);  // a tile that has the whole rows stays
        int count = 1;
        for (int64_t i = begin; i < end; i += count) {
            if (most > 1) count = lot_rows(i, end, most, tiles != nullptr);
            if (count < 1 || count > kMostRows) __builtin_unreachable();
            const Lot lot{outer(static_cast<uint64_t>(shared != nullptr ? shared->row : i)), count, tiles};
            for (int r = 0; r < count; ++r) row[r] = shared != nullptr ? shared->known : start(at_row(lot, r));
            const int64_t first = shared != nullptr ? i * length : 0;
            const int64_t last = shared != nullptr ? std::min(first + length, n) : n;
            int work = (shared != nullptr ? shared->work : kLoads | kSums) | kReads;
            bool again = F::kOnePass;
            for (;;) {
                const bool puts = in_output && (again || work == kMaps);
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
                if (!keeps && (again || !in_output)) work |= reads | (again || !leaves_elements() ? kSums : 0);
            }
            for (int r = 0; shared == nullptr && r < count; ++r)
                save(at_row(lot, r), f.saved(row[r]), std::index_sequence_for<Saved...>{});
        }
    }

    // Whether neighbours in memory are elements of different rows.
    bool lies_across() const {
        const int last = rows.rank - 1;
        if (!kTiles || !lines.is_single || last < 0) return false;
        return rows.stride[0][last] == 1 && magnitude(lines.step[0]) > 1 && rows.extent[last] >= kLeastTiled;
    }

    // Rows of `chunks` chunks each that are kept at a time.
    int rows_together(int64_t chunks) const {
        if (rows.rank == 0) return 1;
        return static_cast<int>(std::min<int64_t>(kMostRowsTogether, kMostGroups / std::max<int64_t>(chunks, 1)));
    }

    // Of row i and those behind it in its line: `most`, or up to the end of a tile, which begins where the line does.
    BK_HD int lot_rows(int64_t i, int64_t end, int most, bool is_tile) const {
        const int64_t extent = rows.extent[rows.rank - 1], at = i % extent, of_tile = at & (kTileRows - 1);
        return static_cast<int>(std::min(most - (is_tile ? of_tile : 0), std::min(extent - at, end - i)));
    }

    void run_rows(int64_t row_count, int64_t row_bytes) const {
        const int64_t length = segment(), segments = ceil_div<int64_t>(n, length);
        const Shared none{};
        const bool shares = segments > 1 && row_count < thread_count(), is_tiled = !shares && lies_across();
        for (int64_t r = 0; r < (shares ? row_count : 1); ++r) {
            Acc part[kMostSegments];
            const At at = outer(static_cast<uint64_t>(r));
            Shared shared{r, kLoads | kSums, shares ? start(at) : none.known, part};
            for (;;) {
                parallel_rows(
                    shares ? segments : row_count, shares ? 1 : grain_for(row_bytes),
                    [&](int64_t begin, int64_t end) { run(begin, end, length, shares ? &shared : nullptr, is_tiled); });
                if (!shares || (shared.work & kMaps)) break;
                Acc all = f.identity();
                for (int64_t s = 0; s < segments; ++s) all = f.combine(all, part[s]);
                const bool again = f.finish(shared.known, all, n);
                if (!again && kOut == 0) break;
                if (!again) shared.work = kLoads | kMaps | (leaves_elements() ? 0 : kSums);
            }
            if (shares) save(at, f.saved(shared.known), std::index_sequence_for<Saved...>{});
        }
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

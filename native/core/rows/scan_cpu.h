// Threads take rows, or chunks of a long one. Rows that lie across memory are scanned side by side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/math/math.h"
#include "core/reduce/reduce_accs_cpu.h"
#include "core/rows/scan.h"
#include "core/types/vec.h"

namespace bk {

// A row of more terms is scanned in chunks, whatever the number of threads, and in no more than kMostScanChunks.
constexpr int64_t kScanChunk = int64_t{1} << 15;
constexpr int64_t kMostScanChunks = 256;
constexpr int64_t kScanRows = 128;   // side by side
constexpr int kScanAtOnce = 4;       // rows or chunks, each of which waits for its own sums
constexpr int64_t kScanBlock = 128;  // terms that are widened together
constexpr int64_t kClimbBlock = 64;  // terms of a scan that climbs

template <class T, class S, int Operands>
size_t scan_parts_bytes(const ScanAxes<Operands>&) {
    return 0;
}

// An input's term at a place, or at the next one, which may not be there.
template <bool kIsAhead, class T>
BK_HD T term_at(const T* row, int64_t step, int64_t place, int64_t length) {
    if constexpr (kIsAhead)
        return place + 1 < length ? row[(place + 1) * step] : narrow<T>(compute_t<T>(1));
    else
        return row[place * step];
}

// `parts` times kBlock terms, in the type in which they are joined.
template <class T, int kParts, int64_t kBlock = kScanBlock>
struct alignas(64) WideTerms {
    compute_t<T> cell[kParts * kBlock];

    BK_HD void load(int part, const T* from, int64_t step, int64_t count) {
        compute_t<T>* const to = cell + part * kBlock;
        in_steps(step, count, [=](int64_t k, int64_t at) { to[k] = widen(from[at]); });
    }
    BK_HD void store(int part, T* to, int64_t step, int64_t count) const {
        const compute_t<T>* const from = cell + part * kBlock;
        in_steps(step, count, [=](int64_t k, int64_t at) { to[at] = narrow<T>(from[k]); });
    }

private:
    // Vectors where neighbours lie side by side, from either end.
    template <class Body>
    static BK_HD void in_steps(int64_t step, int64_t count, const Body& body) {
        if (step == 1) {
            BK_VECTOR_LOOP
            for (int64_t k = 0; k < count; ++k) body(k, k);
        } else if (step == -1) {
            BK_VECTOR_LOOP
            for (int64_t k = 0; k < count; ++k) body(k, -k);
        } else {
            for (int64_t k = 0; k < count; ++k) body(k, k * step);
        }
    }
};

// Of Inputs or Outputs.
template <size_t I, class Operands>
using TypeOf = std::remove_cv_t<std::remove_pointer_t<std::decay_t<decltype(get<I>(std::declval<Operands>().pointer))>>>;
template <class Operands, class = void>
constexpr bool kHasHalves = false;
template <class... T>
constexpr bool kHasHalves<Inputs<T...>> = (math::kIsHalf<T> || ...);

template <class S, class = void>
constexpr bool kClimbs = false;
template <class S>
constexpr bool kClimbs<S, std::void_t<typename S::Climb>> = true;

template <class S, class Out, class In>
struct RowScan {
    static constexpr int kOut = Out::count, kOperands = Out::count + In::count;
    using State = typename S::State;
    const S& scan;
    const ScanAxes<kOperands>& axes;
    const Out& out;
    const In& in;

    int64_t chunk() const { return std::max(kScanChunk, ceil_div(axes.length, kMostScanChunks)); }

    // Terms of a row from `first` on. Those that are seen are joined in `sum`; `before` is what precedes the first.
    struct Part {
        int64_t first;
        Offsets<kOperands, int64_t> place;
        State before, sum, previous;
    };

    template <bool kWanted, size_t... O, size_t... I>
    BK_HD void scan_term(Part& part, int64_t k, std::index_sequence<O...>, std::index_sequence<I...>) const {
        const int64_t i = part.first + k;
        part.sum = scan.join(part.sum, scan.term(i, widen(element<I>(part.place.of, i))...));
        if constexpr (!kWanted) return;
        const State through = part.first == 0 ? part.sum : scan.join(part.before, part.sum);
        store_result<O...>(part.place.of, i, scan.value(i, part.previous, through, widen(element<I>(part.place.of, i))...));
        part.previous = through;
    }

    // `count` more terms of each of several parts, side by side. Their results are written where they are wanted. The parts are
    // members of their own, which stay in registers where elements of an array would not.
    template <int... P, class... Indices>
    BK_HD void scan_run(Part* given, std::integer_sequence<int, P...>, int64_t count, bool is_wanted,
                        Indices... indices) const {
        auto parts = pack(given[P]...);
        if (is_wanted)
            for (int64_t k = 0; k < count; ++k) (scan_term<true>(get<P>(parts), k, indices...), ...);
        else
            for (int64_t k = 0; k < count; ++k) (scan_term<false>(get<P>(parts), k, indices...), ...);
        ((given[P] = get<P>(parts)), ...);
    }

    // All terms of several parts.
    template <int... P, class... Indices>
    BK_HD void scan_parts(Part* given, std::integer_sequence<int, P...> parts, int64_t count, bool is_wanted,
                          Indices... indices) const {
        ((given[P].sum = scan.identity(), given[P].previous = given[P].before), ...);
        if constexpr (kClimbs<S>)
            climb_parts(given, parts, count, is_wanted);
        else if constexpr (kHasHalves<In> && S::kAhead < 0)
            scan_widened(given, parts, count, is_wanted, indices...);
        else
            scan_run(given, parts, count, is_wanted, indices...);
    }

    // Conversions of 16-bit terms and results are vectors of their own, beside sums that wait for each other.
    template <int... P, size_t... O, size_t... I>
    BK_HD void scan_widened(Part* given, std::integer_sequence<int, P...> parts, int64_t count, bool is_wanted,
                            std::index_sequence<O...> o, std::index_sequence<I...> i) const {
        constexpr int kParts = sizeof...(P);
        Pack<WideTerms<TypeOf<I, In>, kParts>...> terms;
        Pack<WideTerms<TypeOf<O, Out>, kParts>...> results;
        const auto to = outputs(get<O>(results).cell...);
        const auto from = inputs(static_cast<const compute_t<TypeOf<I, In>>*>(get<I>(terms).cell)...);
        const ScanAxes<kOperands> dense{{}, 0, {(static_cast<void>(O), 1)..., (static_cast<void>(I), 1)...}};
        const RowScan<S, std::decay_t<decltype(to)>, std::decay_t<decltype(from)>> wide{scan, dense, to, from};
        typename decltype(wide)::Part block[kParts];
        for (int p = 0; p < kParts; ++p) block[p] = {given[p].first, {}, given[p].before, given[p].sum, given[p].previous};
        for (int64_t done = 0; done < count; done += kScanBlock) {
            const int64_t run = std::min(kScanBlock, count - done);
            for (int p = 0; p < kParts; ++p) {
                const int64_t first = given[p].first + done;
                (get<I>(terms).load(p, place<I + kOut>(get<I>(in.pointer), given[p], first), axes.step[I + kOut], run), ...);
                block[p].first = first;
                for (int k = 0; k < kOperands; ++k) block[p].place.of[k] = p * kScanBlock - first;
            }
            wide.scan_run(block, parts, run, is_wanted, o, i);
            for (int p = 0; is_wanted && p < kParts; ++p)
                (get<O>(results).store(p, place<O>(get<O>(out.pointer), given[p], given[p].first + done), axes.step[O], run),
                 ...);
        }
        for (int p = 0; p < kParts; ++p) given[p].sum = block[p].sum;
    }

    // Terms of a scan that climbs (core/rows/scan.h), a block at a time: what waits for the term before is a loop of little
    // else, and the rest are vectors.
    template <int... P>
    BK_HD void climb_parts(Part* given, std::integer_sequence<int, P...>, int64_t count, bool is_wanted) const {
        constexpr int kParts = sizeof...(P);
        using Climb = typename S::Climb;
        WideTerms<TypeOf<0, In>, kParts, kClimbBlock> cells;  // terms, then factors, then results
        AccArrays<Climb, kParts * kClimbBlock> climbs;
        AccArrays<State, kParts * kClimbBlock> states;
        auto* const cell = cells.cell;
        auto sums = pack(given[P].sum...);
        for (int64_t done = 0; done < count; done += kClimbBlock) {
            const int64_t run = std::min(kClimbBlock, count - done);
            (cells.load(P, place<1>(get<0>(in.pointer), given[P], given[P].first + done), axes.step[1], run), ...);
            auto tops = pack(get<P>(sums).top...);
            const auto climb = [&](auto& top, int64_t at) BK_INLINED {
                const Climb next = scan.climb(top, cell[at]);
                top = next.top;
                climbs.store(at, next);
            };
            for (int64_t k = 0; k < run; ++k) (climb(get<P>(tops), P * kClimbBlock + k), ...);
            const auto find_factors = [&](int64_t start) BK_INLINED {
                BK_VECTOR_LOOP
                for (int64_t at = start; at < start + run; ++at) cell[at] = scan.factor(climbs.load(at));
            };
            (find_factors(P * kClimbBlock), ...);
            const auto extend = [&](State& sum, int64_t at) BK_INLINED {
                sum = scan.climbed(sum, climbs.load(at), cell[at]);
                states.store(at, sum);
            };
            for (int64_t k = 0; k < run; ++k) (extend(get<P>(sums), P * kClimbBlock + k), ...);
            if (!is_wanted) continue;
            (climb_results(given[P], P * kClimbBlock, done, run, states, cell), ...);
            (cells.store(P, place<0>(get<0>(out.pointer), given[P], given[P].first + done), axes.step[0], run), ...);
        }
        ((given[P].sum = get<P>(sums)), ...);
    }

    template <class States, class C>
    BK_HD void climb_results(Part& part, int64_t start, int64_t done, int64_t run, States& states, C* cell) const {
        const State before = part.before;
        if (part.first != 0) {
            BK_VECTOR_LOOP
            for (int64_t at = start; at < start + run; ++at) states.store(at, scan.join(before, states.load(at)));
        }
        const int64_t first = part.first + done;
        cell[start] = scan.value(first, part.previous, states.load(start), C(0));
        BK_VECTOR_LOOP
        for (int64_t k = 1; k < run; ++k)
            cell[start + k] = scan.value(first + k, states.load(start + k - 1), states.load(start + k), C(0));
        part.previous = states.load(start + run - 1);
    }

    // The terms [first, last) of a row, joined.
    template <class... Indices>
    BK_HD State scan_terms(const int64_t* offset, const State& before, int64_t first, int64_t last, bool is_wanted,
                           Indices... indices) const {
        Part part{first, {}, before, before, before};
        std::copy_n(offset, kOperands, part.place.of);
        scan_parts(&part, std::make_integer_sequence<int, 1>{}, last - first, is_wanted, indices...);
        return part.sum;
    }

    // Whole rows, or whole chunks of a single one, as many as there are several of; what is left begins where it returns.
    template <class... Indices>
    BK_HD int64_t several(int64_t begin, int64_t end, State* of_chunk, bool is_first_pass, Indices... indices) const {
        const Walk<kOperands, uint64_t> walk(axes.rows);
        const int64_t size = of_chunk == nullptr ? axes.length : chunk();
        int64_t at = begin;
        for (; at + kScanAtOnce <= end && (of_chunk == nullptr || (at + kScanAtOnce) * size <= axes.length);
             at += kScanAtOnce) {
            Part part[kScanAtOnce];
            for (int p = 0; p < kScanAtOnce; ++p) {
                part[p].first = of_chunk == nullptr ? 0 : (at + p) * size;
                part[p].before = of_chunk == nullptr || is_first_pass ? scan.identity() : of_chunk[at + p];
                locate(walk, of_chunk == nullptr ? at + p : 0, part[p].place.of);
            }
            scan_parts(part, std::make_integer_sequence<int, kScanAtOnce>{}, size, !is_first_pass, indices...);
            for (int p = 0; is_first_pass && p < kScanAtOnce; ++p) of_chunk[at + p] = part[p].sum;
        }
        return at;
    }

    // Rows [begin, end), one chunk after another; or these chunks of a single row, where `of_chunk` has a place for each: what
    // precedes them or, for a first pass, what they come to.
    template <class... Indices>
    BK_HD void rows(int64_t begin, int64_t end, State* of_chunk, bool is_first_pass, Indices... indices) const {
        const Walk<kOperands, uint64_t> walk(axes.rows);
        const int64_t size = chunk(), count = of_chunk == nullptr ? ceil_div(axes.length, size) : 1;
        if (count == 1) begin = several(begin, end, of_chunk, is_first_pass, indices...);
        for (int64_t at = begin; at < end; ++at) {
            const int64_t row = of_chunk == nullptr ? at : 0, start = of_chunk == nullptr ? 0 : at;
            int64_t offset[kOperands];
            locate(walk, row, offset);
            State before = of_chunk == nullptr || is_first_pass ? scan.identity() : of_chunk[at];
            for (int64_t c = start; c < start + count; ++c) {
                const State sum =
                    scan_terms(offset, before, c * size, std::min((c + 1) * size, axes.length), !is_first_pass, indices...);
                before = c == 0 || is_first_pass ? sum : scan.join(before, sum);
            }
            if (is_first_pass) of_chunk[at] = before;
        }
    }

    // Blocks of `width` neighbours along the last axis of the rows.
    template <size_t... O, size_t... I>
    BK_HD void across(int64_t begin, int64_t end, int64_t width, std::index_sequence<O...> o,
                      std::index_sequence<I...> i) const {
        const int last = axes.rows.rank - 1;
        Layout<kOperands> outer = axes.rows;
        outer.rank = last;
        const Walk<kOperands, uint64_t> walk(outer);
        const int64_t length = axes.rows.extent[last], blocks = ceil_div(length, width);
        int64_t beside[kOperands];
        bool is_unit = true;
        for (int k = 0; k < kOperands; ++k) {
            beside[k] = axes.rows.stride[k][last];
            is_unit = is_unit && beside[k] == 1;
        }
        State state[kScanRows];
        for (int64_t at = begin; at < end; ++at) {
            int64_t offset[kOperands];
            locate(walk, at / blocks, offset);
            const int64_t first = at % blocks * width, count = std::min(width, length - first);
            for (int k = 0; k < kOperands; ++k) offset[k] += first * beside[k];
            for (int64_t j = 0; j < count; ++j) state[j] = scan.identity();
            for (int64_t place = 0; place < axes.length; ++place) {
                if (is_unit)
                    places<true>(state, offset, place, count, beside, o, i);
                else
                    places<false>(state, offset, place, count, beside, o, i);
            }
        }
    }

private:
    template <size_t K, class T>
    BK_HD T* place(T* operand, const Part& part, int64_t i) const {
        return operand + part.place.of[K] + i * axes.step[K];
    }

    static void locate(const Walk<kOperands, uint64_t>& walk, int64_t row, int64_t (&offset)[kOperands]) {
        const auto found = walk(static_cast<uint64_t>(row));
        for (int k = 0; k < kOperands; ++k) offset[k] = signed_offset(found.of[k]);
    }

    template <size_t I>
    BK_HD auto element(const int64_t* offset, int64_t i) const {
        return term_at<S::kAhead == static_cast<int>(I)>(get<I>(in.pointer) + offset[kOut + I], axes.step[kOut + I], i,
                                                         axes.length);
    }

    template <size_t... O, class Result>
    BK_HD void store_result(const int64_t* offset, int64_t i, const Result& result) const {
        auto y = pack(Vec<std::remove_pointer_t<std::decay_t<decltype(get<O>(out.pointer))>>, 1>{}...);
        put(y, 0, result);
        ((get<O>(out.pointer)[offset[O] + i * axes.step[O]] = get<O>(y).lane[0]), ...);
    }

    // One place of rows side by side.
    template <bool kUnit, size_t... O, size_t... I>
    BK_HD void places(State* BK_RESTRICT state, const int64_t* offset, int64_t place, int64_t count, const int64_t* beside,
                      std::index_sequence<O...>, std::index_sequence<I...>) const {
        int64_t at[kOperands];
        for (int k = 0; k < kOperands; ++k) at[k] = offset[k] + place * axes.step[k];
        const bool is_last = place + 1 == axes.length;
        BK_VECTOR_LOOP
        for (int64_t j = 0; j < count; ++j) {
            const auto x = pack(side<I, kUnit>(at, j, beside, is_last)...);
            const State before = state[j], through = scan.join(before, scan.term(place, get<I>(x)...));
            auto y = pack(Vec<std::remove_pointer_t<std::decay_t<decltype(get<O>(out.pointer))>>, 1>{}...);
            put(y, 0, scan.value(place, before, through, get<I>(x)...));
            ((get<O>(out.pointer)[at[O] + (kUnit ? j : j * beside[O])] = get<O>(y).lane[0]), ...);
            state[j] = through;
        }
    }

    template <size_t I, bool kUnit>
    BK_HD auto side(const int64_t* at, int64_t j, const int64_t* beside, bool is_last) const {
        const auto* const x = get<I>(in.pointer) + at[kOut + I] + (kUnit ? j : j * beside[kOut + I]);
        using T = std::decay_t<decltype(*x)>;
        if constexpr (S::kAhead == static_cast<int>(I))
            return is_last ? compute_t<T>(1) : widen(x[axes.step[kOut + I]]);
        else
            return widen(*x);
    }
};

template <class S, class... Out, class... In>
Status run_scan(const Launch&, const ScanAxes<sizeof...(Out) + sizeof...(In)>& axes, const S& scan, const Outputs<Out...>& out,
                const Inputs<In...>& in) {
    constexpr typename Outputs<Out...>::Indices o{};
    constexpr typename Inputs<In...>::Indices i{};
    const RowScan<S, Outputs<Out...>, Inputs<In...>> work{scan, axes, out, in};
    const int64_t rows = axes.rows.numel(), threads = thread_count();
    const int64_t bytes = (sizeof(Out) + ...) + (sizeof(In) + ...);
    using State = typename S::State;
    if (!axes.runs_along()) {
        const int64_t beside = axes.rows.extent[axes.rows.rank - 1], lines = rows / beside;
        // Narrow blocks where there are too few to go round.
        const int64_t fair = ceil_div(rows, 2 * threads);
        const int64_t width = std::min(beside, std::max<int64_t>(16, std::min(kScanRows, fair)));
        parallel_ranges(lines * ceil_div(beside, width), grain_for(bytes * width * axes.length),
                        [&](int64_t begin, int64_t end) { work.across(begin, end, width, o, i); });
        return Status::kOk;
    }
    State before[kMostScanChunks];
    const int64_t chunks = ceil_div(axes.length, work.chunk());
    const bool shares_row = rows == 1 && chunks > 1 && threads > 1;
    const auto pass = [&](bool is_first) {
        const int64_t items = shares_row ? chunks : rows, grain = shares_row ? 1 : grain_for(bytes * axes.length);
        parallel_ranges(items, grain, [&](int64_t begin, int64_t end) {
            work.rows(begin, end, shares_row ? before : nullptr, is_first, o, i);
        });
    };
    if (shares_row) {
        pass(true);
        State sum = scan.identity();
        for (int64_t c = 0; c < chunks; ++c) {
            const State through = c == 0 ? before[0] : scan.join(sum, before[c]);
            before[c] = sum;
            sum = through;
        }
    }
    pass(false);
    return Status::kOk;
}

}  // namespace bk

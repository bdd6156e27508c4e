// SPDX-License-Identifier: Apache-2.0
// CPU scan. Threads take rows, or tiles of a single long row in two passes (reduce, then scan). Strided rows are
// scanned side by side, vectorised across the rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/math/math.h"
#include "core/reduce/reduce_accs_cpu.h"
#include "core/scan/scan.h"
#include "core/types/vec.h"

namespace bk {

// A longer row is scanned in tiles, at most kMaxScanTiles, whatever the number of threads.
constexpr int64_t kScanTile = int64_t{1} << 15;
constexpr int64_t kMaxScanTiles = 256;
constexpr int64_t kStridedRows = 128;
constexpr int kInterleavedScans = 4;      // independent rows or tiles, which hide the latency of the running sums
constexpr int64_t kWidenBlock = 128;      // elements widened at a time
constexpr int64_t kRunningMaxBlock = 64;  // elements of a running-maximum scan at a time

template <class T, class S, int Operands>
size_t scan_workspace_bytes(const ScanAxes<Operands>&) {
    return 0;
}

// Element `index`, or the next one if the input is read ahead; 1 past the end.
template <bool kIsLookahead, class T>
BK_HD T load_element(const T* row, int64_t step, int64_t index, int64_t length) {
    if constexpr (kIsLookahead)
        return index + 1 < length ? row[(index + 1) * step] : narrow<T>(compute_t<T>(1));
    else
        return row[index * step];
}

// kBlock elements of each of kStreams streams in the compute type.
template <class T, int kStreams, int64_t kBlock = kWidenBlock>
struct alignas(64) WidenedBlock {
    compute_t<T> values[kStreams * kBlock];

    BK_HD void load(int stream, const T* from, int64_t step, int64_t count) {
        compute_t<T>* const to = values + stream * kBlock;
        for_each_strided(step, count, [=](int64_t k, int64_t at) { to[k] = widen(from[at]); });
    }
    BK_HD void store(int stream, T* to, int64_t step, int64_t count) const {
        const compute_t<T>* const from = values + stream * kBlock;
        for_each_strided(step, count, [=](int64_t k, int64_t at) { to[at] = narrow<T>(from[k]); });
    }

private:
    // Unit strides, of either sign, vectorise.
    template <class Body>
    static BK_HD void for_each_strided(int64_t step, int64_t count, const Body& body) {
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

// The element type of operand I of Inputs or Outputs.
template <size_t I, class Operands>
using TypeOf = std::remove_cv_t<std::remove_pointer_t<std::decay_t<decltype(get<I>(std::declval<Operands>().pointer))>>>;
template <class Operands, class = void>
constexpr bool kHas16Bit = false;
template <class... T>
constexpr bool kHas16Bit<Inputs<T...>> = (math::kIsHalf<T> || ...);

template <class S, class = void>
constexpr bool kHasRunningMax = false;
template <class S>
constexpr bool kHasRunningMax<S, std::void_t<typename S::MaxStep>> = true;

template <class S, class Out, class In>
struct RowScan {
    static constexpr int kOut = Out::count, kOperands = Out::count + In::count;
    using State = typename S::State;
    const S& scan;
    const ScanAxes<kOperands>& axes;
    const Out& out;
    const In& in;

    int64_t tile_length() const { return std::max(kScanTile, ceil_div(axes.length, kMaxScanTiles)); }

    // A range of a row from `first` on: `before` is its exclusive prefix, `sum` its elements so far.
    struct Stream {
        int64_t first;
        Offsets<kOperands, int64_t> offset;
        State before, sum, previous;
    };

    template <bool kWrites, size_t... O, size_t... I>
    BK_HD void scan_element(Stream& stream, int64_t k, std::index_sequence<O...>, std::index_sequence<I...>) const {
        const int64_t i = stream.first + k;
        stream.sum = scan.combine(stream.sum, scan.lift(i, widen(element<I>(stream.offset.of, i))...));
        if constexpr (!kWrites) return;
        const State through = stream.first == 0 ? stream.sum : scan.combine(stream.before, stream.sum);
        store_result<O...>(stream.offset.of, i,
                           scan.value(i, stream.previous, through, widen(element<I>(stream.offset.of, i))...));
        stream.previous = through;
    }

    // `count` more elements of several streams, interleaved. The streams are copied to separate variables: elements of
    // an array would not stay in registers.
    template <int... P, class... Indices>
    BK_HD void scan_elements(Stream* streams, std::integer_sequence<int, P...>, int64_t count, bool writes,
                             Indices... indices) const {
        auto local = pack(streams[P]...);
        if (writes)
            for (int64_t k = 0; k < count; ++k) (scan_element<true>(get<P>(local), k, indices...), ...);
        else
            for (int64_t k = 0; k < count; ++k) (scan_element<false>(get<P>(local), k, indices...), ...);
        ((streams[P] = get<P>(local)), ...);
    }

    template <int... P, class... Indices>
    BK_HD void scan_streams(Stream* streams, std::integer_sequence<int, P...> stream_indices, int64_t count, bool writes,
                            Indices... indices) const {
        ((streams[P].sum = scan.identity(), streams[P].previous = streams[P].before), ...);
        if constexpr (kHasRunningMax<S>)
            scan_with_running_max(streams, stream_indices, count, writes);
        else if constexpr (kHas16Bit<In> && S::kLookaheadInput < 0)
            scan_widened(streams, stream_indices, count, writes, indices...);
        else
            scan_elements(streams, stream_indices, count, writes, indices...);
    }

    // 16-bit elements are converted in vectorised blocks, apart from the serial sums.
    template <int... P, size_t... O, size_t... I>
    BK_HD void scan_widened(Stream* streams, std::integer_sequence<int, P...> stream_indices, int64_t count, bool writes,
                            std::index_sequence<O...> o, std::index_sequence<I...> i) const {
        constexpr int kStreams = sizeof...(P);
        Pack<WidenedBlock<TypeOf<I, In>, kStreams>...> elements;
        Pack<WidenedBlock<TypeOf<O, Out>, kStreams>...> results;
        const auto to = outputs(get<O>(results).values...);
        const auto from = inputs(static_cast<const compute_t<TypeOf<I, In>>*>(get<I>(elements).values)...);
        const ScanAxes<kOperands> dense{{}, 0, {(static_cast<void>(O), 1)..., (static_cast<void>(I), 1)...}};
        const RowScan<S, std::decay_t<decltype(to)>, std::decay_t<decltype(from)>> wide{scan, dense, to, from};
        typename decltype(wide)::Stream block[kStreams];
        for (int p = 0; p < kStreams; ++p)
            block[p] = {streams[p].first, {}, streams[p].before, streams[p].sum, streams[p].previous};
        for (int64_t done = 0; done < count; done += kWidenBlock) {
            const int64_t block_count = std::min(kWidenBlock, count - done);
            for (int p = 0; p < kStreams; ++p) {
                const int64_t first = streams[p].first + done;
                (get<I>(elements).load(p, pointer_at<I + kOut>(get<I>(in.pointer), streams[p], first), axes.step[I + kOut],
                                       block_count),
                 ...);
                block[p].first = first;
                for (int k = 0; k < kOperands; ++k) block[p].offset.of[k] = p * kWidenBlock - first;
            }
            wide.scan_elements(block, stream_indices, block_count, writes, o, i);
            for (int p = 0; writes && p < kStreams; ++p)
                (get<O>(results).store(p, pointer_at<O>(get<O>(out.pointer), streams[p], streams[p].first + done), axes.step[O],
                                       block_count),
                 ...);
        }
        for (int p = 0; p < kStreams; ++p) streams[p].sum = block[p].sum;
    }

    // A running-maximum scan (core/scan/scan.h) by blocks: only the dependent steps run serially, the rest vectorises.
    template <int... P>
    BK_HD void scan_with_running_max(Stream* streams, std::integer_sequence<int, P...>, int64_t count, bool writes) const {
        constexpr int kStreams = sizeof...(P);
        using MaxStep = typename S::MaxStep;
        WidenedBlock<TypeOf<0, In>, kStreams, kRunningMaxBlock> buffer;  // elements, then weights, then results
        AccArrays<MaxStep, kStreams * kRunningMaxBlock> steps;
        AccArrays<State, kStreams * kRunningMaxBlock> states;
        auto* const values = buffer.values;
        auto sums = pack(streams[P].sum...);
        for (int64_t done = 0; done < count; done += kRunningMaxBlock) {
            const int64_t block_count = std::min(kRunningMaxBlock, count - done);
            (buffer.load(P, pointer_at<1>(get<0>(in.pointer), streams[P], streams[P].first + done), axes.step[1], block_count),
             ...);
            auto tops = pack(get<P>(sums).top...);
            const auto advance_max = [&](auto& top, int64_t at) BK_INLINED {
                const MaxStep next = scan.step_max(top, values[at]);
                top = next.top;
                steps.store(at, next);
            };
            for (int64_t k = 0; k < block_count; ++k) (advance_max(get<P>(tops), P * kRunningMaxBlock + k), ...);
            const auto compute_weights = [&](int64_t start) BK_INLINED {
                BK_VECTOR_LOOP
                for (int64_t at = start; at < start + block_count; ++at) values[at] = scan.weight(steps.load(at));
            };
            (compute_weights(P * kRunningMaxBlock), ...);
            const auto extend = [&](State& sum, int64_t at) BK_INLINED {
                sum = scan.extend_max(sum, steps.load(at), values[at]);
                states.store(at, sum);
            };
            for (int64_t k = 0; k < block_count; ++k) (extend(get<P>(sums), P * kRunningMaxBlock + k), ...);
            if (!writes) continue;
            (running_max_results(streams[P], P * kRunningMaxBlock, done, block_count, states, values), ...);
            (buffer.store(P, pointer_at<0>(get<0>(out.pointer), streams[P], streams[P].first + done), axes.step[0],
                          block_count),
             ...);
        }
        ((streams[P].sum = get<P>(sums)), ...);
    }

    template <class States, class C>
    BK_HD void running_max_results(Stream& stream, int64_t start, int64_t done, int64_t block_count, States& states,
                                   C* values) const {
        const State before = stream.before;
        if (stream.first != 0) {
            BK_VECTOR_LOOP
            for (int64_t at = start; at < start + block_count; ++at) states.store(at, scan.combine(before, states.load(at)));
        }
        const int64_t first = stream.first + done;
        values[start] = scan.value(first, stream.previous, states.load(start), C(0));
        BK_VECTOR_LOOP
        for (int64_t k = 1; k < block_count; ++k)
            values[start + k] = scan.value(first + k, states.load(start + k - 1), states.load(start + k), C(0));
        stream.previous = states.load(start + block_count - 1);
    }

    // Scans elements [first, last) of a row; returns their aggregate.
    template <class... Indices>
    BK_HD State scan_range(const int64_t* offset, const State& before, int64_t first, int64_t last, bool writes,
                           Indices... indices) const {
        Stream stream{first, {}, before, before, before};
        std::copy_n(offset, kOperands, stream.offset.of);
        scan_streams(&stream, std::make_integer_sequence<int, 1>{}, last - first, writes, indices...);
        return stream.sum;
    }

    // Whole rows, or whole tiles of a single row, kInterleavedScans at a time; returns where the remainder begins.
    template <class... Indices>
    BK_HD int64_t scan_interleaved(int64_t begin, int64_t end, State* tile_states, bool is_first_pass,
                                   Indices... indices) const {
        const Walk<kOperands, uint64_t> walk(axes.rows);
        const int64_t size = tile_states == nullptr ? axes.length : tile_length();
        int64_t at = begin;
        for (; at + kInterleavedScans <= end && (tile_states == nullptr || (at + kInterleavedScans) * size <= axes.length);
             at += kInterleavedScans) {
            Stream stream[kInterleavedScans];
            for (int p = 0; p < kInterleavedScans; ++p) {
                stream[p].first = tile_states == nullptr ? 0 : (at + p) * size;
                stream[p].before = tile_states == nullptr || is_first_pass ? scan.identity() : tile_states[at + p];
                locate(walk, tile_states == nullptr ? at + p : 0, stream[p].offset.of);
            }
            scan_streams(stream, std::make_integer_sequence<int, kInterleavedScans>{}, size, !is_first_pass, indices...);
            for (int p = 0; is_first_pass && p < kInterleavedScans; ++p) tile_states[at + p] = stream[p].sum;
        }
        return at;
    }

    // Rows [begin, end), tile after tile; or tiles [begin, end) of a single row if `tile_states` is given: the
    // exclusive prefix of each tile or, in the first pass, its aggregate.
    template <class... Indices>
    BK_HD void rows(int64_t begin, int64_t end, State* tile_states, bool is_first_pass, Indices... indices) const {
        const Walk<kOperands, uint64_t> walk(axes.rows);
        const int64_t size = tile_length(), count = tile_states == nullptr ? ceil_div(axes.length, size) : 1;
        if (count == 1) begin = scan_interleaved(begin, end, tile_states, is_first_pass, indices...);
        for (int64_t at = begin; at < end; ++at) {
            const int64_t row = tile_states == nullptr ? at : 0, start = tile_states == nullptr ? 0 : at;
            int64_t offset[kOperands];
            locate(walk, row, offset);
            State before = tile_states == nullptr || is_first_pass ? scan.identity() : tile_states[at];
            for (int64_t c = start; c < start + count; ++c) {
                const State sum =
                    scan_range(offset, before, c * size, std::min((c + 1) * size, axes.length), !is_first_pass, indices...);
                before = c == 0 || is_first_pass ? sum : scan.combine(before, sum);
            }
            if (is_first_pass) tile_states[at] = before;
        }
    }

    // Blocks [begin, end) of `width` adjacent rows along the last row axis.
    template <size_t... O, size_t... I>
    BK_HD void scan_strided(int64_t begin, int64_t end, int64_t width, std::index_sequence<O...> o,
                            std::index_sequence<I...> i) const {
        const int last = axes.rows.rank - 1;
        Layout<kOperands> outer = axes.rows;
        outer.rank = last;
        const Walk<kOperands, uint64_t> walk(outer);
        const int64_t length = axes.rows.extent[last], blocks = ceil_div(length, width);
        int64_t row_step[kOperands];
        bool is_unit = true;
        for (int k = 0; k < kOperands; ++k) {
            row_step[k] = axes.rows.stride[k][last];
            is_unit = is_unit && row_step[k] == 1;
        }
        State state[kStridedRows];
        for (int64_t at = begin; at < end; ++at) {
            int64_t offset[kOperands];
            locate(walk, at / blocks, offset);
            const int64_t first = at % blocks * width, count = std::min(width, length - first);
            for (int k = 0; k < kOperands; ++k) offset[k] += first * row_step[k];
            for (int64_t j = 0; j < count; ++j) state[j] = scan.identity();
            for (int64_t index = 0; index < axes.length; ++index) {
                if (is_unit)
                    scan_step<true>(state, offset, index, count, row_step, o, i);
                else
                    scan_step<false>(state, offset, index, count, row_step, o, i);
            }
        }
    }

private:
    template <size_t K, class T>
    BK_HD T* pointer_at(T* operand, const Stream& stream, int64_t i) const {
        return operand + stream.offset.of[K] + i * axes.step[K];
    }

    static void locate(const Walk<kOperands, uint64_t>& walk, int64_t row, int64_t (&offset)[kOperands]) {
        const auto found = walk(static_cast<uint64_t>(row));
        for (int k = 0; k < kOperands; ++k) offset[k] = signed_offset(found.of[k]);
    }

    template <size_t I>
    BK_HD auto element(const int64_t* offset, int64_t i) const {
        return load_element<S::kLookaheadInput == static_cast<int>(I)>(get<I>(in.pointer) + offset[kOut + I],
                                                                       axes.step[kOut + I], i, axes.length);
    }

    template <size_t... O, class Result>
    BK_HD void store_result(const int64_t* offset, int64_t i, const Result& result) const {
        auto y = pack(Vec<std::remove_pointer_t<std::decay_t<decltype(get<O>(out.pointer))>>, 1>{}...);
        put(y, 0, result);
        ((get<O>(out.pointer)[offset[O] + i * axes.step[O]] = get<O>(y).lane[0]), ...);
    }

    // One index of `count` adjacent rows.
    template <bool kUnit, size_t... O, size_t... I>
    BK_HD void scan_step(State* BK_RESTRICT state, const int64_t* offset, int64_t index, int64_t count, const int64_t* row_step,
                         std::index_sequence<O...>, std::index_sequence<I...>) const {
        int64_t at[kOperands];
        for (int k = 0; k < kOperands; ++k) at[k] = offset[k] + index * axes.step[k];
        const bool is_last = index + 1 == axes.length;
        BK_VECTOR_LOOP
        for (int64_t j = 0; j < count; ++j) {
            const auto x = pack(load_lane<I, kUnit>(at, j, row_step, is_last)...);
            const State before = state[j], through = scan.combine(before, scan.lift(index, get<I>(x)...));
            auto y = pack(Vec<std::remove_pointer_t<std::decay_t<decltype(get<O>(out.pointer))>>, 1>{}...);
            put(y, 0, scan.value(index, before, through, get<I>(x)...));
            ((get<O>(out.pointer)[at[O] + (kUnit ? j : j * row_step[O])] = get<O>(y).lane[0]), ...);
            state[j] = through;
        }
    }

    template <size_t I, bool kUnit>
    BK_HD auto load_lane(const int64_t* at, int64_t j, const int64_t* row_step, bool is_last) const {
        const auto* const x = get<I>(in.pointer) + at[kOut + I] + (kUnit ? j : j * row_step[kOut + I]);
        using T = std::decay_t<decltype(*x)>;
        if constexpr (S::kLookaheadInput == static_cast<int>(I))
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
    if (!axes.is_innermost()) {
        const int64_t inner = axes.rows.extent[axes.rows.rank - 1], outer = rows / inner;
        // Narrow blocks if there are too few for all threads.
        const int64_t fair = ceil_div(rows, 2 * threads);
        const int64_t width = std::min(inner, std::max<int64_t>(16, std::min(kStridedRows, fair)));
        parallel_ranges(outer * ceil_div(inner, width), grain_for(bytes * width * axes.length),
                        [&](int64_t begin, int64_t end) { work.scan_strided(begin, end, width, o, i); });
        return Status::kOk;
    }
    State before[kMaxScanTiles];
    const int64_t tiles = ceil_div(axes.length, work.tile_length());
    const bool is_row_shared = rows == 1 && tiles > 1 && threads > 1;
    const auto pass = [&](bool is_first) {
        const int64_t items = is_row_shared ? tiles : rows, grain = is_row_shared ? 1 : grain_for(bytes * axes.length);
        parallel_ranges(items, grain, [&](int64_t begin, int64_t end) {
            work.rows(begin, end, is_row_shared ? before : nullptr, is_first, o, i);
        });
    };
    if (is_row_shared) {
        pass(true);
        State sum = scan.identity();
        for (int64_t c = 0; c < tiles; ++c) {
            const State through = c == 0 ? before[0] : scan.combine(sum, before[c]);
            before[c] = sum;
            sum = through;
        }
    }
    pass(false);
    return Status::kOk;
}

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Top-k on the CPU, rows over threads.
//
// Few results: a buffer takes the elements that are below a threshold, the last of the best so far; when it is full, a
// quickselect halves it and the threshold falls. Many results: a radix select finds the threshold, and a second pass takes
// what is within it, in index order; they are sorted through the workspace, or by heapsort in the results without one.
#include <algorithm>
#include <cstdint>

#include "core/abi/workspace.h"
#include "core/topk/ranked_cpu.h"
#include "core/topk/row_selection.h"
#include "core/topk/sorted_results.h"

namespace bk {

namespace {

constexpr int64_t kBufferedResults = 512, kTile = 256, kBuffer = 2 * kBufferedResults + kTile;

// The results of one row.
template <class Bits>
struct OutputRow {
    Bits* values;
    IndexArray indices;
    int64_t value_at, index_at, value_step, index_step;

    BK_HD void set(int64_t k, Bits value, int64_t index) const {
        values[value_at + k * value_step] = value;
        indices.set(index_at + k * index_step, index);
    }
};

template <class Bits>
struct Row {
    InputRow<Bits> input;
    OutputRow<Bits> output;
};

template <class Bits>
BK_HD Row<Bits> row_of(const TopKRows<Bits>& rows, const Walk<3, uint64_t>& walk, int64_t r, const Bits* x, Bits* values,
                       IndexArray indices) {
    const Offsets<3, uint64_t> at = walk(static_cast<uint64_t>(r));
    int64_t first = static_cast<int64_t>(at.of[0]), length = rows.length;
    if (rows.has_offsets) {
        first = std::min(std::max<int64_t>(rows.offsets[r], 0), rows.length);
        length = std::min(std::max(rows.offsets[r + 1], first), rows.length) - first;
    }
    return {{x + first, length, rows.step[0]},
            {values, indices, static_cast<int64_t>(at.of[1]), static_cast<int64_t>(at.of[2]), rows.step[1], rows.step[2]}};
}

// The first `count` elements in key order, at most kBufferedResults, in the front of the buffer and in no order.
template <class Rank, class Bits, class Key>
BK_HD void buffer_best(const InputRow<Bits>& row, const Key& key_of, int64_t count, Rank* buffer) {
    int64_t held = std::min(row.length, kBuffer);
    for (int64_t i = 0; i < held; ++i) buffer[i] = Rank::of(key_of(row.x[i * row.step]), i);
    const auto keep_best = [&] {
        if (count < held) std::nth_element(buffer, buffer + count - 1, buffer + held);
        held = std::min(held, count);
    };
    for (int64_t next = held; next < row.length;) {
        keep_best();
        // Later elements of an equal key have a higher index.
        const Bits last = static_cast<Bits>(std::max_element(buffer, buffer + held)->key());
        for (int64_t size; next < row.length && held <= kBuffer - kTile; next += size) {
            size = std::min(kTile, row.length - next);
            Bits keys[kTile];
            bool any = false;
            for (int64_t k = 0; k < size; ++k) {
                keys[k] = key_of(row.x[(next + k) * row.step]);
                any |= keys[k] < last;
            }
            for (int64_t k = 0; any && k < size; ++k) {
                buffer[held] = Rank::of(keys[k], next + k);
                held += keys[k] < last;
            }
        }
    }
    keep_best();
}

template <class Rank, class Bits, class Key>
BK_HD void few_results(const Row<Bits>& row, const Key& key_of, int64_t count, bool is_sorted) {
    Rank buffer[kBuffer];
    buffer_best(row.input, key_of, count, buffer);
    if (is_sorted)
        std::sort(buffer, buffer + count);
    else
        std::sort(buffer, buffer + count, [](const Rank& a, const Rank& b) { return a.index() < b.index(); });
    for (int64_t k = 0; k < count; ++k) {
        const int64_t index = buffer[k].index();
        row.output.set(k, row.input.x[index * row.input.step], index);
    }
}

// Heapsort of results by key and index, in place.
template <class Bits, class Key>
BK_HD void sort_results(const OutputRow<Bits>& out, const Key& key_of, int64_t count) {
    const auto at = [&](int64_t k) {
        return WideRank::of(key_of(out.values[out.value_at + k * out.value_step]),
                            out.indices[out.index_at + k * out.index_step]);
    };
    const auto exchange = [&](int64_t a, int64_t b) {
        const Bits value = out.values[out.value_at + a * out.value_step];
        const int64_t index = out.indices[out.index_at + a * out.index_step];
        out.set(a, out.values[out.value_at + b * out.value_step], out.indices[out.index_at + b * out.index_step]);
        out.set(b, value, index);
    };
    const auto sink = [&](int64_t parent, int64_t end) {
        for (int64_t child; (child = 2 * parent + 1) < end; parent = child) {
            if (child + 1 < end && at(child) < at(child + 1)) ++child;
            if (!(at(parent) < at(child))) return;
            exchange(parent, child);
        }
    };
    for (int64_t k = count / 2; k-- > 0;) sink(k, count);
    for (int64_t end = count; end-- > 1;) {
        exchange(0, end);
        sink(0, end);
    }
}

template <class Bits, class Key>
BK_HD void many_results(const Row<Bits>& row, const Key& key_of, int64_t count, bool is_sorted) {
    RankThreshold<Bits> threshold{KeyOrder<Bits>::kAll, 0, count};
    if (count < row.input.length) threshold = find_threshold(row.input, key_of, count);
    int64_t k = 0;
    for_within(row.input, key_of, threshold,
               [&](int64_t index) { row.output.set(k++, row.input.x[index * row.input.step], index); });
    if (is_sorted) sort_results(row.output, key_of, count);
}

template <class Bits>
constexpr bool kPacks = sizeof(Bits) <= 4;

template <class Bits, class Key>
BK_HD void select_row(const TopKRows<Bits>& rows, const Row<Bits>& row, const Key& key_of) {
    const int64_t count = std::min(rows.results, row.input.length);
    for (int64_t k = count; k < rows.results; ++k) row.output.set(k, rows.padding, -1);
    if (count == 0) return;
    if (count > kBufferedResults) return many_results(row, key_of, count, rows.is_sorted);
    if constexpr (kPacks<Bits>)
        if (row.input.length <= int64_t{1} << 32) return few_results<PackedRank>(row, key_of, count, rows.is_sorted);
    few_results<WideRank>(row, key_of, count, rows.is_sorted);
}

}  // namespace

namespace {

template <class Bits>
Status select_rows(const TopKRows<Bits>& rows, const Bits* x, Bits* values, IndexArray indices) {
    const Walk<3, uint64_t> walk(collapse(rows.rows));
    with_key_kind(rows.order, [&](const auto& key_of) {
        parallel_ranges(rows.rows.numel(), grain_for(rows.length * 8), [&](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r) select_row(rows, row_of(rows, walk, r, x, values, indices), key_of);
        });
    });
    return Status::kOk;
}

}  // namespace

template <class Bits>
size_t top_k_workspace(const TopKRows<Bits>& rows) {
    return sorts_in_workspace(rows, kBufferedResults) ? sorted_results_workspace(rows) : 0;
}

template <class Bits>
Status select_top_k(const Launch& launch, const TopKRows<Bits>& rows, const Bits* x, Bits* values, IndexArray indices) {
    if (!workspace_holds(launch, top_k_workspace(rows))) return select_rows(rows, x, values, indices);
    return select_and_sort(launch, rows, values, indices, [&](const TopKRows<Bits>& dense, Bits* to, IndexArray to_indices) {
        return select_rows(dense, x, to, to_indices);
    });
}

#define BK_TOP_K(Bits)                                            \
    template size_t top_k_workspace<Bits>(const TopKRows<Bits>&); \
    template Status select_top_k<Bits>(const Launch&, const TopKRows<Bits>&, const Bits*, Bits*, IndexArray);
BK_TOP_K(uint8_t)
BK_TOP_K(uint16_t)
BK_TOP_K(uint32_t)
BK_TOP_K(uint64_t)

}  // namespace bk

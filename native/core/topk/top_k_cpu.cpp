// SPDX-License-Identifier: Apache-2.0
// Top-k on the CPU, rows over threads.
//
// The threshold of the results is found first (core/topk/ranked_cpu.h); a second pass takes what is within it, in index order.
// Few results are sorted on the stack, many through the workspace, or by heapsort in the results without one. Columns are
// selected side by side (core/topk/top_k_columns_cpu.h).
#include <algorithm>
#include <cstdint>

#include "core/abi/workspace.h"
#include "core/topk/ranked_cpu.h"
#include "core/topk/row_selection.h"
#include "core/topk/sorted_results.h"
#include "core/topk/top_k_columns_cpu.h"

namespace bk {

namespace {

constexpr int64_t kBufferedResults = 1024;

// The results of one row.
template <class Bits>
struct OutputRow {
    Bits* values;
    IndexArray indices;
    int64_t value_at, index_at, value_step, index_step;

    void set(int64_t k, Bits value, int64_t index) const {
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
OutputRow<Bits> output_of(const TopKRows<Bits>& rows, const Offsets<3, uint64_t>& at, Bits* values, IndexArray indices) {
    return {values, indices, static_cast<int64_t>(at.of[1]), static_cast<int64_t>(at.of[2]), rows.step[1], rows.step[2]};
}

// Row r, or segment r of it.
template <class Bits>
Row<Bits> row_of(const TopKRows<Bits>& rows, const Offsets<3, uint64_t>& at, const InputRow<Bits>& whole, int64_t segment,
                 Bits* values, IndexArray indices) {
    InputRow<Bits> input = whole;
    if (rows.has_offsets) {
        const int64_t first = std::min(std::max<int64_t>(rows.offsets[segment], 0), rows.length);
        input.x += first;
        input.length = std::min(std::max(rows.offsets[segment + 1], first), rows.length) - first;
    }
    return {input, output_of(rows, at, values, indices)};
}

// A key of up to 32 bits above an index below 2^32 is a word.
template <class Bits>
struct PackedRanks {
    uint64_t rank[kBufferedResults], other[kBufferedResults];

    void set(int64_t k, Bits key, int64_t index) { rank[k] = uint64_t{key} << 32 | static_cast<uint64_t>(index); }
    void sort(int64_t count) { sort_words(rank, other, count); }
    int64_t index(int64_t k) const { return static_cast<int64_t>(rank[k] & 0xffffffffu); }
};

struct WideRank {
    uint64_t key;
    int64_t index;
    friend bool operator<(const WideRank& a, const WideRank& b) {
        return a.key < b.key || (a.key == b.key && a.index < b.index);
    }
};

template <class Bits>
struct WideRanks {
    WideRank rank[kBufferedResults];

    void set(int64_t k, Bits key, int64_t index) { rank[k] = {key, index}; }
    void sort(int64_t count) { std::sort(rank, rank + count); }
    int64_t index(int64_t k) const { return rank[k].index; }
};

template <class Bits>
RankThreshold<Bits> threshold_of(const InputRow<Bits>& row, int64_t count) {
    return count < row.length ? find_threshold(row, count) : RankThreshold<Bits>{KeyOrder<Bits>::kAll, 0, count};
}

// It is not inlined, so that its buffers and those of find_threshold() are not on the stack at once.
template <class Ranks, class Bits>
BK_COLD void few_sorted_results(const Row<Bits>& row, int64_t count, RankThreshold<Bits> threshold) {
    Ranks ranks;
    int64_t k = 0;
    for_within(row.input, threshold, [&](int64_t index, Bits key) { ranks.set(k++, key, index); });
    ranks.sort(count);
    for (k = 0; k < count; ++k) row.output.set(k, row.input[ranks.index(k)], ranks.index(k));
}

// Heapsort of results by key and index, in place.
template <class Bits>
void sort_results(const OutputRow<Bits>& out, const KeyOrder<Bits>& order, int64_t count) {
    const auto at = [&](int64_t k) {
        return WideRank{order(out.values[out.value_at + k * out.value_step]), out.indices[out.index_at + k * out.index_step]};
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

template <class Bits>
void select_row(const TopKRows<Bits>& rows, const Row<Bits>& row) {
    const int64_t count = std::min(rows.results, row.input.length);
    for (int64_t k = count; k < rows.results; ++k) row.output.set(k, rows.padding, -1);
    if (count == 0) return;
    const RankThreshold<Bits> threshold = threshold_of(row.input, count);
    if (rows.is_sorted && count <= kBufferedResults) {
        if constexpr (sizeof(Bits) <= 4)
            if (row.input.length <= int64_t{1} << 32) return few_sorted_results<PackedRanks<Bits>>(row, count, threshold);
        return few_sorted_results<WideRanks<Bits>>(row, count, threshold);
    }
    int64_t k = 0;
    for_within(row.input, threshold, [&](int64_t index, Bits) { row.output.set(k++, row.input[index], index); });
    if (rows.is_sorted) sort_results(row.output, rows.order, count);
}

template <class Bits>
void select_columns(const TopKRows<Bits>& rows, const Bits* x, Bits* values, IndexArray indices, int64_t begin, int64_t end) {
    using Selection = ColumnSelection<Bits>;
    const Walk<3, uint64_t> walk(collapse(rows.rows));
    Selection selection;
    for (int64_t r = begin; r < end; r += Selection::kColumns) {
        const Bits* first[Selection::kColumns];
        OutputRow<Bits> output[Selection::kColumns];
        const int count = static_cast<int>(std::min<int64_t>(Selection::kColumns, end - r));
        for (int c = 0; c < Selection::kColumns; ++c) {  // the last one fills up
            const Offsets<3, uint64_t> at = walk(static_cast<uint64_t>(r + std::min(c, count - 1)));
            first[c] = x + static_cast<int64_t>(at.of[RowSelection::kInput]);
            output[c] = output_of(rows, at, values, indices);
        }
        selection.select(rows, first);
        for (int64_t k = 0; k < rows.results; ++k)
            for (int c = 0; c < count; ++c) {
                const int64_t index = selection.index(c, k);
                output[c].set(k, first[c][index * rows.step[RowSelection::kInput]], index);
            }
    }
}

template <class Bits>
Status select_rows(const TopKRows<Bits>& rows, const Bits* x, Bits* values, IndexArray indices) {
    if constexpr (sizeof(Bits) <= 4)
        if (ColumnSelection<Bits>::serves(rows)) {
            split_ranges(rows.rows.numel(), grain_for(rows.length * 8),
                         [&](int64_t begin, int64_t end) { select_columns(rows, x, values, indices, begin, end); });
            return Status::kOk;
        }
    split_ranges(rows.rows.numel(), grain_for(rows.length * 8), [&](int64_t begin, int64_t end) {
        int64_t r = begin;
        for_rows(rows, rows.order, x, begin, end, [&](const Offsets<3, uint64_t>& at, const InputRow<Bits>& row) {
            select_row(rows, row_of(rows, at, row, r++, values, indices));
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

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/sort/sort_items_cpu.h"
#include "core/sort/sort_network_cpu.h"
#include "core/sort/sort_rows.h"

namespace bk {

namespace {

constexpr int64_t kStackLength = 1024;  // items of a row that are on the stack; longer rows are in the workspace
constexpr int64_t kLongRow = 1 << 17;   // a row that threads share

// Calls f with the order, its kind known to the compiler.
template <class Bits, class F>
void with_kind(KeyOrder<Bits> order, const F& f) {
    switch (order.kind) {
        case KeyKind::kUnsigned: order.kind = KeyKind::kUnsigned; return f(order);
        case KeyKind::kSigned: order.kind = KeyKind::kSigned; return f(order);
        case KeyKind::kFloat: order.kind = KeyKind::kFloat; return f(order);
        case KeyKind::kBoolean: order.kind = KeyKind::kBoolean; return f(order);
    }
}

// The bits of an element from its key, unless is_lost.
template <class Bits>
Bits bits_of_key(const KeyOrder<Bits>& order, Bits key) {
    constexpr Bits sign = KeyOrder<Bits>::kSign;
    key = static_cast<Bits>(key ^ order.flip);
    if (order.kind == KeyKind::kSigned) return static_cast<Bits>(key ^ sign);
    if (order.kind != KeyKind::kFloat) return key;
    return (key & sign) != 0 ? static_cast<Bits>(key ^ sign) : static_cast<Bits>(~key);
}

// Keys of elements of several bits: zeros and NaN, or booleans.
template <class Bits>
struct LostKeys {
    Bits key[2];
    int count;

    explicit LostKeys(const KeyOrder<Bits>& order) : key{}, count(0) {
        if (order.kind != KeyKind::kFloat && order.kind != KeyKind::kBoolean) return;
        const bool is_float = order.kind == KeyKind::kFloat;
        key[0] = static_cast<Bits>((is_float ? KeyOrder<Bits>::kSign : Bits{0}) ^ order.flip);
        key[1] = static_cast<Bits>((is_float ? KeyOrder<Bits>::kAll : Bits{1}) ^ order.flip);
        count = 2;
    }
};

template <class Bits, class Items>
class RowSorter {
public:
    using Item = typename Items::Item;

    RowSorter(const SortProblem& problem, const SortPointers& pointers)
        : problem_(problem), pointers_(pointers), rows_(problem.rows), order_(problem.order<Bits>()) {}

    // Sorts one row, which threads may share.
    void operator()(int64_t row, Item* items, Item* other, bool is_shared) const {
        const int64_t length = problem_.length, grain = is_shared ? kLongRow / 8 : length;
        load(row, items, grain);
        Item* sorted = items;
        if (is_shared)
            sorted = sort_items_in_slices(items, other, length);
        else
            sort_items(items, other, length);
        store(row, sorted, sorted == items ? other : items, grain);
    }

    // Sorts a short row without another array: (key, index) is a total order, so that any sort by it is stable.
    void in_place(int64_t row, Item* items, Item* buffer) const {
        load(row, items, problem_.length);
        std::sort(items, items + problem_.length);
        store(row, items, buffer, problem_.length);
    }

    // Sorts kNetworkLanes short rows from `row` on.
    void sort_short_rows(int64_t row, Item* items, Item* other, NetworkColumns& columns) const {
        const int64_t length = problem_.length;
        for (int lane = 0; lane < kNetworkLanes; ++lane) {
            load(row + lane, items, length);
            for (int64_t i = 0; i < length; ++i) columns[i][lane] = items[i];
        }
        sort_columns_vectorised(columns, length);
        for (int lane = 0; lane < kNetworkLanes; ++lane) {
            for (int64_t i = 0; i < length; ++i) items[i] = columns[i][lane];
            store(row + lane, items, other, length);
        }
    }

private:
    void load(int64_t row, Item* items, int64_t grain) const {
        const int64_t step = problem_.step[kSortX];
        const Bits* const x = x_of(rows_(static_cast<uint64_t>(row)));
        parallel_chunks(problem_.length, grain, [&](int64_t begin, int64_t end) {
            with_kind(order_, [&](const KeyOrder<Bits>& order) {
                if (step == 1)
                    for (int64_t i = begin; i < end; ++i) items[i] = Items::make(order(x[i]), i);
                else
                    for (int64_t i = begin; i < end; ++i) items[i] = Items::make(order(x[i * step]), i);
            });
        });
    }

    void store(int64_t row, const Item* sorted, Item* other, int64_t grain) const {
        const Offsets<kSortOperands, uint64_t> first = rows_(static_cast<uint64_t>(row));
        if (pointers_.values != nullptr)
            store_values(x_of(first), sorted, reinterpret_cast<Bits*>(other),
                         static_cast<Bits*>(pointers_.values) + static_cast<int64_t>(first.of[kSortValues]), grain);
        if constexpr (Items::kHasIndex) {
            if (pointers_.indices == nullptr) return;
            const int64_t from = static_cast<int64_t>(first.of[kSortPayload]),
                          to = static_cast<int64_t>(first.of[kSortIndices]);
            if (problem_.index_bytes == 4)
                store_indices<uint32_t>(sorted, from, to, grain);
            else
                store_indices<uint64_t>(sorted, from, to, grain);
        }
    }

    const Bits* x_of(const Offsets<kSortOperands, uint64_t>& first) const {
        return static_cast<const Bits*>(pointers_.x) + static_cast<int64_t>(first.of[kSortX]);
    }

    // Stores through a buffer, since values may be x.
    void store_values(const Bits* x, const Item* sorted, Bits* buffer, Bits* values, int64_t grain) const {
        const int64_t value_step = problem_.step[kSortValues];
        parallel_chunks(problem_.length, grain, [&](int64_t begin, int64_t end) {
            with_kind(order_, [&](const KeyOrder<Bits>& order) {
                for (int64_t i = begin; i < end; ++i) buffer[i] = bits_of_key(order, Items::key(sorted[i]));
            });
        });
        const LostKeys<Bits> lost(order_);
        for (int k = 0; k < lost.count; ++k) restore(x, sorted, lost.key[k], buffer, grain);
        parallel_chunks(problem_.length, grain, [&](int64_t begin, int64_t end) {
            if (value_step == 1)
                std::copy(buffer + begin, buffer + end, values + begin);
            else
                for (int64_t i = begin; i < end; ++i) values[i * value_step] = buffer[i];
        });
    }

    // The bits of the elements with a lost key, in their order.
    void restore(const Bits* x, const Item* sorted, Bits key, Bits* buffer, int64_t grain) const {
        const int64_t step = problem_.step[kSortX], length = problem_.length;
        const auto below = [](const Item& item, Bits limit) { return Items::key(item) < limit; };
        const auto above = [](Bits limit, const Item& item) { return limit < Items::key(item); };
        const int64_t first = std::lower_bound(sorted, sorted + length, key, below) - sorted;
        const int64_t last = std::upper_bound(sorted + first, sorted + length, key, above) - sorted;
        if (first == last) return;
        if constexpr (Items::kHasIndex) {
            split_chunks(last - first, grain, [&](int64_t begin, int64_t end) {
                for (int64_t i = first + begin; i < first + end; ++i) buffer[i] = x[Items::index(sorted[i]) * step];
            });
        } else {
            with_kind(order_, [&](const KeyOrder<Bits>& order) {
                int64_t at = first;
                for (int64_t i = 0; at < last; ++i)
                    if (order(x[i * step]) == key) buffer[at++] = x[i * step];
            });
        }
    }

    template <class Index>
    void store_indices(const Item* sorted, int64_t from, int64_t to, int64_t grain) const {
        const Index* const payload =
            pointers_.payload == nullptr ? nullptr : static_cast<const Index*>(pointers_.payload) + from;
        Index* const indices = static_cast<Index*>(pointers_.indices) + to;
        const int64_t step = problem_.step[kSortPayload], index_step = problem_.step[kSortIndices];
        parallel_chunks(problem_.length, grain, [&](int64_t begin, int64_t end) {
            if (payload == nullptr && index_step == 1)
                for (int64_t i = begin; i < end; ++i) indices[i] = static_cast<Index>(Items::index(sorted[i]));
            else if (payload == nullptr)
                for (int64_t i = begin; i < end; ++i) indices[i * index_step] = static_cast<Index>(Items::index(sorted[i]));
            else
                for (int64_t i = begin; i < end; ++i) indices[i * index_step] = payload[Items::index(sorted[i]) * step];
        });
    }

    const SortProblem& problem_;
    const SortPointers& pointers_;
    Walk<kSortOperands, uint64_t> rows_;
    KeyOrder<Bits> order_;
};

// Bytes of a slot of the workspace, which has the items of one row, twice.
template <class Item>
int64_t slot_bytes(const SortProblem& problem) {
    return 2 * problem.length * static_cast<int64_t>(sizeof(Item));
}

// Whether threads share a row rather than taking rows.
bool shares_rows(const SortProblem& problem, int64_t rows) { return rows < thread_count() && problem.length >= kLongRow; }

template <class Bits, class Items>
void sort_on_stack(const SortProblem& problem, const RowSorter<Bits, Items>& sort_row, bool uses_columns) {
    using Item = typename Items::Item;
    const int64_t rows = problem.rows.numel(), length = problem.length;
    const int64_t grain = std::max<int64_t>(1, grain_for(8) / std::max<int64_t>(length, 1));
    split_chunks(rows, grain, [&](int64_t begin, int64_t end) {
        // Two arrays of items, and the columns of a network; of wide items one, and a buffer of values.
        constexpr bool kInPlace = std::is_same_v<Item, WideItem>, kPacked = std::is_same_v<Items, PackedItems<Bits>>;
        constexpr size_t kColumnsAt = 2 * kNetworkLength * sizeof(Item), kArrays = kStackLength * 2 * sizeof(Item);
        constexpr size_t kBytes = kInPlace  ? kStackLength * (sizeof(Item) + sizeof(Bits))
                                  : kPacked ? std::max(kArrays, kColumnsAt + sizeof(NetworkColumns))
                                            : kArrays;
        alignas(64) char memory[kBytes];
        Item* const items = reinterpret_cast<Item*>(memory);
        int64_t row = begin;
        if constexpr (kPacked) {
            NetworkColumns& columns = *reinterpret_cast<NetworkColumns*>(memory + kColumnsAt);
            for (; uses_columns && row + kNetworkLanes <= end; row += kNetworkLanes)
                sort_row.sort_short_rows(row, items, items + length, columns);
        }
        for (; row < end; ++row) {
            if constexpr (kInPlace)
                sort_row.in_place(row, items, items + length);
            else
                sort_row(row, items, items + length, false);
        }
    });
}

template <class Bits, class Items>
Status sort_by_items(const Launch& launch, const SortProblem& problem, const SortPointers& pointers) {
    using Item = typename Items::Item;
    const RowSorter<Bits, Items> sort_row(problem, pointers);
    const int64_t rows = problem.rows.numel(), length = problem.length;
    if (length <= kStackLength) {
        sort_on_stack(problem, sort_row, length <= kNetworkLength && !has_vector_sort());
        return Status::kOk;
    }
    const int64_t slot = slot_bytes<Item>(problem);
    const size_t least = static_cast<size_t>(slot) + Carver::kAlignment;
    if (!workspace_holds(launch, least))
        return fail(Status::kWorkspaceTooSmall, "workspace has %zu bytes, rows of %lld elements need %zu",
                    launch.workspace == nullptr ? size_t{0} : launch.workspace_bytes, static_cast<long long>(length), least);
    Carver carver(launch.workspace);
    char* const first = carver.take<char>(0);
    if (shares_rows(problem, rows)) {
        Item* const items = reinterpret_cast<Item*>(first);
        for (int64_t row = 0; row < rows; ++row) sort_row(row, items, items + length, true);
        return Status::kOk;
    }
    const int64_t fit = static_cast<int64_t>((launch.workspace_bytes - Carver::kAlignment) / static_cast<size_t>(slot));
    const int64_t workers = std::min({fit, rows, thread_count()});
    split_chunks(workers, 1, [&](int64_t begin, int64_t end) {
        for (int64_t worker = begin; worker < end; ++worker) {
            Item* const items = reinterpret_cast<Item*>(first + worker * slot);
            for (int64_t row = worker; row < rows; row += workers) sort_row(row, items, items + length, false);
        }
    });
    return Status::kOk;
}

bool is_packed(const SortProblem& problem) { return problem.key_bytes <= 4 && problem.length <= int64_t{UINT32_MAX}; }

template <class Bits>
Status sort_keys(const Launch& launch, const SortProblem& problem, const SortPointers& pointers) {
    // A network over columns takes packed items.
    const bool uses_columns = problem.length <= kNetworkLength && !has_vector_sort() && is_packed(problem);
    if (pointers.indices == nullptr && !uses_columns) return sort_by_items<Bits, KeyItems<Bits>>(launch, problem, pointers);
    if constexpr (sizeof(Bits) <= 4)
        if (is_packed(problem)) return sort_by_items<Bits, PackedItems<Bits>>(launch, problem, pointers);
    return sort_by_items<Bits, WideItems<Bits>>(launch, problem, pointers);
}

}  // namespace

// Enough for indices, whether they are wanted or not.
size_t sort_rows_workspace(const SortProblem& problem) {
    if (problem.length <= kStackLength) return 0;
    const int64_t slot = is_packed(problem) ? slot_bytes<uint64_t>(problem) : slot_bytes<WideItem>(problem);
    const int64_t rows = problem.rows.numel(), count = shares_rows(problem, rows) ? 1 : std::min(rows, thread_count());
    return static_cast<size_t>(count * slot) + Carver::kAlignment;
}

Status sort_rows(const Launch& launch, const SortProblem& given, const SortPointers& pointers) {
    SortProblem problem = given;
    problem.rows = collapse(given.rows);
    if (pointers.values == nullptr && pointers.indices == nullptr) return Status::kOk;
    switch (problem.key_bytes) {
        case 1: return sort_keys<uint8_t>(launch, problem, pointers);
        case 2: return sort_keys<uint16_t>(launch, problem, pointers);
        case 4: return sort_keys<uint32_t>(launch, problem, pointers);
        default: return sort_keys<uint64_t>(launch, problem, pointers);
    }
}

}  // namespace bk

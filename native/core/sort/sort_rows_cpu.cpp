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

// The bits of an element from its key; false if keys do not tell: zeros, NaN and booleans.
template <class Bits>
bool bits_of_key(const KeyOrder<Bits>& order, Bits key, Bits* bits) {
    constexpr Bits sign = KeyOrder<Bits>::kSign;
    key = static_cast<Bits>(key ^ order.flip);
    switch (order.kind) {
        case KeyKind::kUnsigned: *bits = key; return true;
        case KeyKind::kSigned: *bits = static_cast<Bits>(key ^ sign); return true;
        case KeyKind::kFloat:
            *bits = (key & sign) != 0 ? static_cast<Bits>(key ^ sign) : static_cast<Bits>(~key);
            return key != sign && key != KeyOrder<Bits>::kAll;
        case KeyKind::kBoolean: break;
    }
    return false;
}

template <class Bits, class Item>
class RowSorter {
public:
    RowSorter(const SortProblem& problem, const SortPointers& pointers)
        : problem_(problem), pointers_(pointers), rows_(problem.rows), order_(problem.order<Bits>()) {}

    // Sorts one row; `counts` is set if threads share it.
    void operator()(int64_t row, Item* items, Item* other, SliceCounts* counts, bool in_place = false) const {
        const int64_t length = problem_.length, grain = counts == nullptr ? length : kLongRow / 8;
        load(row, items, grain);
        const int key_bytes = order_.kind == KeyKind::kBoolean ? 1 : static_cast<int>(sizeof(Bits));
        const Item* const sorted = in_place            ? sort_in_place(items, length)
                                   : counts == nullptr ? sort_items(items, other, length, key_bytes)
                                                       : sort_items_in_slices(items, other, length, key_bytes, counts);
        store(row, sorted, sorted == items ? other : items, grain);
    }

    // Sorts kNetworkLanes short rows from `row` on.
    void sort_short_rows(int64_t row, Item* items, Item* other, NetworkColumns& columns) const {
        const int64_t length = problem_.length;
        for (int lane = 0; lane < kNetworkLanes; ++lane) {
            load(row + lane, items, length);
            for (int64_t i = 0; i < length; ++i) columns[i][lane] = items[i].word;
        }
        sort_columns_vectorised(columns, length);
        for (int lane = 0; lane < kNetworkLanes; ++lane) {
            for (int64_t i = 0; i < length; ++i) items[i].word = columns[i][lane];
            store(row + lane, items, other, length);
        }
    }

private:
    void load(int64_t row, Item* items, int64_t grain) const {
        const int64_t step = problem_.step[kSortX];
        const Bits* const x = x_of(rows_(static_cast<uint64_t>(row)));
        split_chunks(problem_.length, grain, [&](int64_t begin, int64_t end) {
            with_kind(order_, [&](const KeyOrder<Bits>& order) {
                for (int64_t i = begin; i < end; ++i) items[i] = Item::make(order(x[i * step]), static_cast<uint64_t>(i));
            });
        });
    }

    void store(int64_t row, const Item* sorted, Item* other, int64_t grain) const {
        const Offsets<kSortOperands, uint64_t> first = rows_(static_cast<uint64_t>(row));
        if (pointers_.values != nullptr)
            store_values(x_of(first), sorted, reinterpret_cast<Bits*>(other),
                         static_cast<Bits*>(pointers_.values) + static_cast<int64_t>(first.of[kSortValues]), grain);
        if (pointers_.indices == nullptr) return;
        const int64_t from = static_cast<int64_t>(first.of[kSortPayload]), to = static_cast<int64_t>(first.of[kSortIndices]);
        if (problem_.index_bytes == 4)
            store_indices<uint32_t>(sorted, from, to, grain);
        else
            store_indices<uint64_t>(sorted, from, to, grain);
    }

    const Bits* x_of(const Offsets<kSortOperands, uint64_t>& first) const {
        return static_cast<const Bits*>(pointers_.x) + static_cast<int64_t>(first.of[kSortX]);
    }

    // By a buffer, since values may be x.
    void store_values(const Bits* x, const Item* sorted, Bits* buffer, Bits* values, int64_t grain) const {
        const int64_t step = problem_.step[kSortX], value_step = problem_.step[kSortValues];
        split_chunks(problem_.length, grain, [&](int64_t begin, int64_t end) {
            with_kind(order_, [&](const KeyOrder<Bits>& order) {
                for (int64_t i = begin; i < end; ++i) {
                    Bits bits;
                    if (!bits_of_key(order, static_cast<Bits>(sorted[i].key()), &bits))
                        bits = x[static_cast<int64_t>(sorted[i].index()) * step];
                    buffer[i] = bits;
                }
            });
        });
        split_chunks(problem_.length, grain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) values[i * value_step] = buffer[i];
        });
    }

    template <class Index>
    void store_indices(const Item* sorted, int64_t from, int64_t to, int64_t grain) const {
        const Index* const payload =
            pointers_.payload == nullptr ? nullptr : static_cast<const Index*>(pointers_.payload) + from;
        Index* const indices = static_cast<Index*>(pointers_.indices) + to;
        const int64_t step = problem_.step[kSortPayload], index_step = problem_.step[kSortIndices];
        split_chunks(problem_.length, grain, [&](int64_t begin, int64_t end) {
            if (payload == nullptr)
                for (int64_t i = begin; i < end; ++i) indices[i * index_step] = static_cast<Index>(sorted[i].index());
            else
                for (int64_t i = begin; i < end; ++i)
                    indices[i * index_step] = payload[static_cast<int64_t>(sorted[i].index()) * step];
        });
    }

    const SortProblem& problem_;
    const SortPointers& pointers_;
    Walk<kSortOperands, uint64_t> rows_;
    KeyOrder<Bits> order_;
};

// Slots of the workspace: each has the items of one row, twice.
template <class Item>
struct SortSlots {
    int64_t bytes;  // of a slot

    explicit SortSlots(const SortProblem& problem) : bytes(2 * problem.length * static_cast<int64_t>(sizeof(Item))) {}
    bool on_stack() const { return bytes <= 2 * kStackLength * static_cast<int64_t>(sizeof(Item)); }
    static constexpr size_t kShared = sizeof(SliceCounts) * kMostSlices + Carver::kAlignment;
};

// Whether threads share a row rather than taking rows.
bool shares_rows(const SortProblem& problem, int64_t rows) { return rows < thread_count() && problem.length >= kLongRow; }

template <class Bits, class Item>
Status sort_by_items(const Launch& launch, const SortProblem& problem, const SortPointers& pointers) {
    const RowSorter<Bits, Item> sort_row(problem, pointers);
    const SortSlots<Item> slots(problem);
    const int64_t rows = problem.rows.numel(), length = problem.length;
    if (slots.on_stack()) {
        const int64_t grain = std::max<int64_t>(1, grain_for(8) / std::max<int64_t>(length, 1));
        split_chunks(rows, grain, [&](int64_t begin, int64_t end) {
            // Two arrays of items, and the columns of a network; of wide items one, and a buffer of values.
            constexpr bool kInPlace = !std::is_same_v<Item, PackedItem>;
            constexpr size_t kNetworkItems = 2 * kNetworkLength * sizeof(PackedItem);
            constexpr size_t kPacked = std::max(kStackLength * 2 * sizeof(PackedItem), kNetworkItems + sizeof(NetworkColumns));
            alignas(64) char memory[kInPlace ? kStackLength * (sizeof(WideItem) + sizeof(Bits)) : kPacked];
            Item* const items = reinterpret_cast<Item*>(memory);
            int64_t row = begin;
            if constexpr (std::is_same_v<Item, PackedItem>) {
                NetworkColumns& columns = *reinterpret_cast<NetworkColumns*>(memory + kNetworkItems);
                if (length <= kNetworkLength)
                    for (; row + kNetworkLanes <= end; row += kNetworkLanes)
                        sort_row.sort_short_rows(row, items, items + length, columns);
            }
            for (; row < end; ++row) sort_row(row, items, items + length, nullptr, kInPlace);
        });
        return Status::kOk;
    }
    const size_t least = static_cast<size_t>(slots.bytes) + slots.kShared;
    if (!workspace_holds(launch, least))
        return fail(Status::kWorkspaceTooSmall, "workspace has %zu bytes, rows of %lld elements need %zu",
                    launch.workspace == nullptr ? size_t{0} : launch.workspace_bytes, static_cast<long long>(length), least);
    Carver carver(launch.workspace);
    SliceCounts* const counts = carver.take<SliceCounts>(kMostSlices);
    char* const first = carver.take<char>(0);
    if (shares_rows(problem, rows)) {
        Item* const items = reinterpret_cast<Item*>(first);
        for (int64_t row = 0; row < rows; ++row) sort_row(row, items, items + length, counts);
        return Status::kOk;
    }
    const int64_t fit = static_cast<int64_t>((launch.workspace_bytes - slots.kShared) / static_cast<size_t>(slots.bytes));
    const int64_t workers = std::min({fit, rows, thread_count()});
    split_chunks(workers, 1, [&](int64_t begin, int64_t end) {
        for (int64_t worker = begin; worker < end; ++worker) {
            Item* const items = reinterpret_cast<Item*>(first + worker * slots.bytes);
            for (int64_t row = worker; row < rows; row += workers) sort_row(row, items, items + length, nullptr);
        }
    });
    return Status::kOk;
}

template <class Item>
size_t slots_workspace(const SortProblem& problem) {
    const SortSlots<Item> slots(problem);
    if (slots.on_stack()) return 0;
    const int64_t rows = problem.rows.numel();
    const int64_t count = shares_rows(problem, rows) ? 1 : std::min(rows, thread_count());
    return static_cast<size_t>(count * slots.bytes) + slots.kShared;
}

bool is_packed(const SortProblem& problem) {
    return problem.key_bytes <= PackedItem::kKeyBytes && problem.length <= int64_t{UINT32_MAX};
}

template <class Bits>
Status sort_keys(const Launch& launch, const SortProblem& problem, const SortPointers& pointers) {
    if constexpr (sizeof(Bits) <= PackedItem::kKeyBytes)
        if (is_packed(problem)) return sort_by_items<Bits, PackedItem>(launch, problem, pointers);
    return sort_by_items<Bits, WideItem>(launch, problem, pointers);
}

}  // namespace

size_t sort_rows_workspace(const SortProblem& problem) {
    return is_packed(problem) ? slots_workspace<PackedItem>(problem) : slots_workspace<WideItem>(problem);
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

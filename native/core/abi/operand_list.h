// SPDX-License-Identifier: Apache-2.0
// Operands passed as a host array of pointers, as many as the call says.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/operand.h"

namespace bk {

// Name of an entry in error texts: "inputs[3]".
struct EntryName {
    char text[40];

    EntryName(const char* list, int64_t entry);
};

inline EntryName::EntryName(const char* list, int64_t entry) {
    char digits[20];
    int count = 0, at = 0;
    do digits[count++] = static_cast<char>('0' + entry % 10);
    while ((entry /= 10) > 0);
    for (; list[at] != '\0' && at < 16; ++at) text[at] = list[at];
    text[at++] = '[';
    while (count > 0) text[at++] = digits[--count];
    text[at++] = ']';
    text[at] = '\0';
}

// Calls body(list, k) for every entry; if it fails, again with the entry's own name, for the error text.
template <class Body>
Status for_entries(const char* list, int32_t count, const Body& body) {
    for (int32_t k = 0; k < count; ++k)
        if (body(list, k) != Status::kOk) return body(EntryName(list, k).text, k);
    return Status::kOk;
}

constexpr int kMaxOtherOperands = 4;  // other operands of a row that has a list

// Rejects written entries that overlap each other. Entries in ascending address order need one pass, others O(n^2).
template <class Locate>
BK_COLD Status require_entries_disjoint(const char* list, int32_t count, const void* const* pointers, const Locate& locate) {
    constexpr int32_t kBlock = 128;
    const auto range_of = [&](int32_t k) {
        Operand entry;
        const bool is_there = pointers[k] != nullptr && locate(&entry, list, k) == Status::kOk && entry.has_elements();
        entry.pointer = pointers[k];
        return is_there ? entry.range() : ByteRange{};
    };
    bool is_ascending = true;
    uintptr_t end = 0;
    for (int32_t k = 0; k < count && is_ascending; ++k) {
        const ByteRange range = range_of(k);
        if (range.first == range.end) continue;
        is_ascending = range.first >= end;
        end = range.end;
    }
    if (is_ascending) return Status::kOk;
    ByteRange some[kBlock], others[kBlock];
    for (int32_t low = 0; low < count; low += kBlock) {
        const int32_t high = std::min(low + kBlock, count);
        for (int32_t k = low; k < high; ++k) some[k - low] = range_of(k);
        for (int32_t first = low; first < count; first += kBlock) {
            const int32_t last = std::min(first + kBlock, count);
            for (int32_t k = first; k < last; ++k) others[k - first] = range_of(k);
            for (int32_t a = low; a < high; ++a)
                for (int32_t b = std::max(first, a + 1); b < last; ++b)
                    if (surely_overlap(some[a - low], others[b - first]))
                        return fail(Status::kInvalidProblem, "%s overlaps %s: %p and %p", EntryName(list, b).text,
                                    EntryName(list, a).text, pointers[b], pointers[a]);
        }
    }
    return Status::kOk;
}

// require_pointers() for the entries of a list, each together with the operands [first, last). locate(&operand, name,
// k) computes an entry's byte range.
template <class Locate>
BK_COLD Status require_entries(const char* list, int32_t count, const void* const* pointers, const Operand* first,
                               const Operand* last, Work work, const Locate& locate) {
    if (count > 0 && pointers == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", list);
    bool is_written = false;
    BK_TRY(for_entries(list, count, [&](const char* name, int32_t k) {
        Operand all[kMaxOtherOperands + 1];
        Operand* const entry = std::copy(first, last, all);
        BK_TRY(locate(entry, name, k));
        entry->pointer = pointers[k];
        is_written = entry->is_output();
        return require_pointers(all, entry + 1, work);
    }));
    return is_written ? require_entries_disjoint(list, count, pointers, locate) : Status::kOk;
}

}  // namespace bk

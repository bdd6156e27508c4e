// Operands of which a call has as many as it says: a host array of their pointers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/operand.h"

namespace bk {

// How texts name an entry: "inputs[3]".
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

// body(name, k) for every entry, which is given its own name where it has failed under that of the list.
template <class Body>
Status for_entries(const char* list, int32_t count, const Body& body) {
    for (int32_t k = 0; k < count; ++k)
        if (body(list, k) != Status::kOk) return body(EntryName(list, k).text, k);
    return Status::kOk;
}

constexpr int kMostBeside = 4;  // operands of a row that has a list

// Entries that are written are apart from one another. Where each lies behind all before it, one pass tells.
template <class Locate>
BK_COLD Status require_entries_apart(const char* list, int32_t count, const void* const* pointers, const Locate& locate) {
    constexpr int32_t kBlock = 128;
    const auto range_of = [&](int32_t k) {
        Operand entry;
        const bool is_there = pointers[k] != nullptr && locate(&entry, list, k) == Status::kOk && entry.has_elements();
        entry.pointer = pointers[k];
        return is_there ? entry.range() : ByteRange{};
    };
    bool rises = true;
    uintptr_t end = 0;
    for (int32_t k = 0; k < count && rises; ++k) {
        const ByteRange range = range_of(k);
        if (range.first == range.end) continue;
        rises = range.first >= end;
        end = range.end;
    }
    if (rises) return Status::kOk;
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

// What require_pointers() asks of operands, of the entries of a list beside the operands [first, last), which stay as they are.
// locate(&operand, name, k) finds an entry's place.
template <class Locate>
BK_COLD Status require_entries(const char* list, int32_t count, const void* const* pointers, const Operand* first,
                               const Operand* last, Work work, const Locate& locate) {
    if (count > 0 && pointers == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", list);
    bool is_written = false;
    BK_TRY(for_entries(list, count, [&](const char* name, int32_t k) {
        Operand all[kMostBeside + 1];
        Operand* const entry = std::copy(first, last, all);
        BK_TRY(locate(entry, name, k));
        entry->pointer = pointers[k];
        is_written = entry->is_output();
        return require_pointers(all, entry + 1, work);
    }));
    return is_written ? require_entries_apart(list, count, pointers, locate) : Status::kOk;
}

}  // namespace bk

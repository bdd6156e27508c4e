// SPDX-License-Identifier: Apache-2.0
// Tables of tensors, so that one launch updates any number of them. A table lies in device memory:
//   void* grads[n]                  first, since gradients move between steps and the rest does not; padded to 16 bytes
//   Entry entries[n]                the other addresses and the size of each tensor
//   int32_t tensor_of_chunk[chunks]
// A thread block takes one chunk of kChunk elements of one tensor. The host writes the table with fill_table; upload
// carries it to the device in kernel parameters, which needs no pinned memory and may be captured.
//
// Calls with host arrays of pointers (reference.h) carry up to kInlined tensors in the kernel's parameters instead.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/status.h"
#include "core/platform.h"

namespace bk::optim {

constexpr int64_t kChunk = 4096;
constexpr int kMostStates = 3;
constexpr int64_t kMostChunks = INT32_MAX;

// NULL for what a tensor lacks.
struct Entry {
    void* param;
    void* state[kMostStates];
    void* master;  // f32 weights, or the low 16 bits of f32 weights whose high bits are `param` (storage.h)
    void* ema;
    int64_t size;
    int64_t first_chunk;
};

struct InlineEntry {
    void *param, *grad, *state[2];
    int32_t size, first_chunk;
};
constexpr int kInlined = 88;  // 4 KiB of kernel parameters, less the scalars

// Chunk of a tensor, the work of one block.
struct Slot {
    Entry of;
    void* grad;
    int64_t tensor, chunk;

    BK_HD int64_t begin() const { return chunk * kChunk; }
    BK_HD int64_t end() const { return begin() + kChunk < of.size ? begin() + kChunk : of.size; }
};

struct Table {
    const char* memory;  // NULL for inlined entries
    int64_t tensors, chunks;
    InlineEntry inlined[kInlined];

    static BK_HD int64_t bytes_of_grads(int64_t tensors) { return (tensors * 8 + 15) / 16 * 16; }

    BK_HD Slot at(int64_t chunk) const {
        if (memory == nullptr) return inline_at(chunk);
        const Entry* entries = reinterpret_cast<const Entry*>(memory + bytes_of_grads(tensors));
        const int32_t tensor = reinterpret_cast<const int32_t*>(entries + tensors)[chunk];
        Slot slot{entries[tensor], reinterpret_cast<void* const*>(memory)[tensor], tensor, 0};
        slot.chunk = chunk - slot.of.first_chunk;
        return slot;
    }

    BK_HD Entry entry(int64_t tensor) const {
        if (memory != nullptr) return reinterpret_cast<const Entry*>(memory + bytes_of_grads(tensors))[tensor];
        const InlineEntry& from = inlined[tensor];
        return {from.param, {from.state[0], from.state[1], nullptr}, nullptr, nullptr, from.size, from.first_chunk};
    }

private:
    // The last entry that begins at or before the chunk; an empty tensor has no chunk and shares the next one's first.
    BK_HD Slot inline_at(int64_t chunk) const {
        int64_t low = 0, high = tensors;
        while (high - low > 1) {
            const int64_t middle = (low + high) / 2;
            if (inlined[middle].first_chunk <= chunk)
                low = middle;
            else
                high = middle;
        }
        Slot slot{entry(low), inlined[low].grad, low, 0};
        slot.chunk = chunk - slot.of.first_chunk;
        return slot;
    }
};

inline int64_t chunks_of(int64_t size) { return ceil_div<int64_t>(size, kChunk); }

// --- host functions of the ABI ---

inline Status require_sizes(int64_t n_tensors, const int64_t* sizes) {
    if (n_tensors < 0 || n_tensors > INT32_MAX)
        return fail(Status::kInvalidProblem, "n_tensors is %lld, must be in [0, 2^31)", static_cast<long long>(n_tensors));
    if (n_tensors > 0 && sizes == nullptr) return fail(Status::kInvalidProblem, "sizes is NULL");
    int64_t chunks = 0;
    for (int64_t t = 0; t < n_tensors; ++t) {
        if (sizes[t] < 0 || sizes[t] > kMaxOperandBytes / 8)
            return fail(Status::kInvalidProblem, "sizes[%lld] is %lld, must be in [0, 2^44]", static_cast<long long>(t),
                        static_cast<long long>(sizes[t]));
        chunks += chunks_of(sizes[t]);
        if (chunks > kMostChunks) return fail(Status::kUnsupported, "the tensors have 2^31 chunks of %d elements", 4096);
    }
    return Status::kOk;
}

// -1 for sizes that are refused.
inline int64_t count_chunks(int64_t n_tensors, const int64_t* sizes) {
    if (require_sizes(n_tensors, sizes) != Status::kOk) return -1;
    int64_t chunks = 0;
    for (int64_t t = 0; t < n_tensors; ++t) chunks += chunks_of(sizes[t]);
    return chunks;
}

inline size_t table_bytes(int64_t n_tensors, int64_t n_chunks) {
    if (n_tensors < 0 || n_chunks < 0) return 0;
    return static_cast<size_t>(Table::bytes_of_grads(n_tensors) + n_tensors * static_cast<int64_t>(sizeof(Entry)) +
                               n_chunks * 4);
}

inline void* entry_of(void* const* list, int64_t t) { return list == nullptr ? nullptr : list[t]; }

inline Status fill_table(int64_t n_tensors, const int64_t* sizes, void* const* params, void* const* grads, void* const* state0,
                         void* const* state1, void* const* state2, void* const* master, void* const* ema, void* table,
                         size_t bytes) {
    BK_TRY(require_sizes(n_tensors, sizes));
    const int64_t chunks = count_chunks(n_tensors, sizes);
    if (bytes < table_bytes(n_tensors, chunks))
        return fail(Status::kWorkspaceTooSmall, "table_bytes is %zu, must be >= %zu", bytes, table_bytes(n_tensors, chunks));
    if (n_tensors == 0) return Status::kOk;
    if (table == nullptr || params == nullptr)
        return fail(Status::kInvalidProblem, "%s is NULL", table == nullptr ? "table" : "params");
    char* const memory = static_cast<char*>(table);
    void** const grad = reinterpret_cast<void**>(memory);
    if (n_tensors % 2 != 0) grad[n_tensors] = nullptr;
    Entry* const entries = reinterpret_cast<Entry*>(memory + Table::bytes_of_grads(n_tensors));
    int32_t* const tensor_of = reinterpret_cast<int32_t*>(entries + n_tensors);
    int64_t chunk = 0;
    for (int64_t t = 0; t < n_tensors; ++t) {
        if (params[t] == nullptr && sizes[t] > 0)
            return fail(Status::kInvalidProblem, "params[%lld] is NULL", static_cast<long long>(t));
        grad[t] = entry_of(grads, t);
        entries[t] = {params[t],
                      {entry_of(state0, t), entry_of(state1, t), entry_of(state2, t)},
                      entry_of(master, t),
                      entry_of(ema, t),
                      sizes[t],
                      chunk};
        for (const int64_t end = chunk + chunks_of(sizes[t]); chunk < end; ++chunk) tensor_of[chunk] = static_cast<int32_t>(t);
    }
    return Status::kOk;
}

inline Status require_table(const void* table, int64_t n_tensors, int64_t n_chunks) {
    BK_TRY(require_non_negative({{"n_tensors", n_tensors}, {"n_chunks", n_chunks}}));
    if (n_chunks > kMostChunks)
        return fail(Status::kInvalidProblem, "n_chunks is %lld, must be < 2^31", static_cast<long long>(n_chunks));
    if (n_chunks > 0 && table == nullptr) return fail(Status::kInvalidProblem, "table is NULL");
    if (reinterpret_cast<uintptr_t>(table) % 8 != 0)
        return fail(Status::kMisaligned, "table is %p, must be aligned to 8", table);
    return Status::kOk;
}

inline Table table_at(const void* table, int64_t n_tensors, int64_t n_chunks) {
    Table made{};
    made.memory = static_cast<const char*>(table);
    made.tensors = n_tensors;
    made.chunks = n_chunks;
    return made;
}

}  // namespace bk::optim

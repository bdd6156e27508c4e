// SPDX-License-Identifier: Apache-2.0
// Copies new key and value rows into caches in pages [page, head, slot, element]: the row of a token at position p of its
// sequence goes to slot p % page_size of the sequence's page p / page_size.
#pragma once

#include <cstdint>
#include <cstring>

#include "attention/serving/paged.h"
#include "core/collectives/team.h"
#include "core/types/vec.h"

namespace bk {

// Destination of new tokens.
struct PagedTokens {
    int64_t batch, page_size, num_pages, num_page_ids;
    const int32_t *page_ids, *page_offsets;
    const int32_t *batch_indices, *positions;  // of the tokens; null: token b is the last one of sequence b
    const int32_t* last_page_len;

    struct Slot {
        int64_t page, slot;
    };

    // Destination of a token; page -1 if it is dropped.
    BK_HD Slot slot_of(int64_t token) const {
        const int64_t b = batch_indices == nullptr ? token : batch_indices[token];
        if (b < 0 || b >= batch) return {-1, 0};
        const int64_t begin = page_offsets[b], pages = page_offsets[b + 1] - begin;
        if (pages <= 0) return {-1, 0};
        const int64_t position =
            positions == nullptr ? (pages - 1) * page_size + last_page_len[b] - 1 : int64_t{positions[token]};
        const int64_t at = begin + position / page_size;
        if (position < 0 || position >= pages * page_size || at < 0 || at >= num_page_ids) return {-1, 0};
        const int64_t page = page_ids[at];
        return page < 0 || page >= num_pages ? Slot{-1, 0} : Slot{page, position % page_size};
    }
};

// Rows are words of d[0] (keys) and d[1] (values) elements.
template <class Word>
struct PagedAppendJob {
    PagedTokens tokens;
    int64_t heads;
    int64_t d[2];
    const Word* source[2];
    Word* cache[2];

    BK_HD void operator()(const Team& team, int64_t token) const {
        const PagedTokens::Slot to = tokens.slot_of(token);
        if (to.page < 0) return;
        for (int kind = 0; kind < 2; ++kind)
            for (int64_t e = team.rank; e < heads * d[kind]; e += team.size) {
                const int64_t head = e / d[kind], at = ((to.page * heads + head) * tokens.page_size + to.slot) * d[kind];
                cache[kind][at + e % d[kind]] = source[kind][token * heads * d[kind] + e];
            }
    }
};

struct PagedAppend {
    int64_t tokens, batch, heads, page_size, num_pages, num_page_ids, d_k, d_v, size;
    const void *k, *v;
    void *k_cache, *v_cache;
    const int32_t *page_ids, *page_offsets, *batch_indices, *positions, *last_page_len;

    // Copies words of 16 bytes where rows and addresses allow, else elements.
    Status run(const Launch& launch) const {
        const bool is_wide = (d_k * size | d_v * size) % 16 == 0 && is_aligned(k, 16) && is_aligned(v, 16) &&
                             is_aligned(k_cache, 16) && is_aligned(v_cache, 16);
        if (is_wide) return in_words<Vec<uint32_t, 4>>(launch);
        switch (size) {
            case 8: return in_words<uint64_t>(launch);
            case 4: return in_words<uint32_t>(launch);
            case 2: return in_words<uint16_t>(launch);
            default: return in_words<uint8_t>(launch);
        }
    }

private:
    template <class Word>
    Status in_words(const Launch& launch) const {
        const auto words = [&](int64_t d) { return d * size / static_cast<int64_t>(sizeof(Word)); };
        const PagedAppendJob<Word> job{
            {batch, page_size, num_pages, num_page_ids, page_ids, page_offsets, batch_indices, positions, last_page_len},
            heads,
            {words(d_k), words(d_v)},
            {static_cast<const Word*>(k), static_cast<const Word*>(v)},
            {static_cast<Word*>(k_cache), static_cast<Word*>(v_cache)}};
        return run_teams(launch, tokens, heads * (d_k + d_v) * size, job);
    }
};

template <class T>
struct PagedKvAppend {
    int32_t batch;
    int32_t num_tokens;
    int32_t num_pages;
    int32_t page_size;
    int32_t num_page_ids;
    int32_t heads;
    int32_t d_k;
    int32_t d_v;

    int64_t offset_count() const { return int64_t{batch} + 1; }
    Work work() const {
        return num_tokens == 0 || heads == 0 || num_pages == 0 || (d_k == 0 && d_v == 0) ? Work::kNone : Work::kAll;
    }
    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch},
                                     {"num_tokens", num_tokens},
                                     {"num_pages", num_pages},
                                     {"num_page_ids", num_page_ids},
                                     {"heads", heads},
                                     {"d_k", d_k},
                                     {"d_v", d_v}}));
        return require_extents({{"page_size", page_size}});
    }
    Status run(const T* k_new, const T* v_new, const int32_t* batch_indices, const int32_t* positions, const int32_t* page_ids,
               const int32_t* page_offsets, T* k_cache, T* v_cache, const Launch& launch) const {
        return PagedAppend{num_tokens, batch,    heads,        page_size,     num_pages, num_page_ids,
                           d_k,        d_v,      size_of<T>(), k_new,         v_new,     k_cache,
                           v_cache,    page_ids, page_offsets, batch_indices, positions, nullptr}
            .run(launch);
    }
};

template <class T>
Status run_paged_append(int32_t batch_size, int32_t page_size, int32_t num_heads, int32_t head_dim, void* k_data, void* v_data,
                        void* indices, void* indptr, void* last_page_len, const void* key, const void* value, void* stream) {
    BK_TRY(check_paged_append(batch_size, page_size, num_heads, head_dim));
    BK_TRY(require_given({{"k_data", k_data, sizeof(T)},
                          {"v_data", v_data, sizeof(T)},
                          {"indices", indices, sizeof(int32_t)},
                          {"indptr", indptr, sizeof(int32_t)},
                          {"last_page_len", last_page_len, sizeof(int32_t)},
                          {"key", key, sizeof(T)},
                          {"value", value, sizeof(T)}}));
    const auto indexes = [](const void* p) { return static_cast<const int32_t*>(p); };
    return PagedAppend{batch_size, batch_size,       num_heads,       page_size, INT32_MAX, INT32_MAX,
                       head_dim,   head_dim,         size_of<T>(),    key,       value,     k_data,
                       v_data,     indexes(indices), indexes(indptr), nullptr,   nullptr,   indexes(last_page_len)}
        .run({nullptr, 0, stream});
}

}  // namespace bk

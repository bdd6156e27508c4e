// SPDX-License-Identifier: Apache-2.0
// Attention over caches in pages [page, head, slot, element], and over ragged batches, whose lengths are read from the
// device. The symbols named flashinfer_ have that library's arguments: sums of exponentials of base 2, and no number of
// pages, so that page ids are taken as they are.
#pragma once

#include <cstdint>

#include "attention/flash/problem.h"
#include "attention/serving/merge_states.h"
#include "core/abi/operand.h"

namespace bk {

template <class T, class KV>
Status paged_forward(const Launch& launch, const AttentionForward<T, KV>& p) {
    if constexpr (std::is_same_v<T, KV>)
        return attention_forward<T>(launch, p);
    else
        return attention_decode(launch, p);
}

template <class T, class KV>
size_t paged_forward_workspace(const AttentionForward<T, KV>& p) {
    if constexpr (std::is_same_v<T, KV>)
        return attention_forward_workspace<T>(p);
    else
        return attention_decode_workspace(p);
}

inline Status require_head_groups(const char* q_name, int32_t heads, const char* kv_name, int32_t kv_heads) {
    if (kv_heads == 0 ? heads != 0 : heads % kv_heads != 0)
        return fail(Status::kInvalidProblem, "%s is %d, must be a multiple of %s, %d", q_name, heads, kv_name, kv_heads);
    return Status::kOk;
}

// Queries and outputs [row, head, element] of sequences; without offsets one row each.
template <class T, class KV>
AttentionForward<T, KV> token_major(int64_t batch, int64_t rows, int64_t heads, int64_t kv_heads, int64_t d_k, int64_t d_v,
                                    float scale, const T* q, const int32_t* q_offsets, T* y, float* lse) {
    AttentionForward<T, KV> p;
    p.batch = batch;
    p.heads = heads;
    p.kv_heads = kv_heads;
    p.d_k = d_k;
    p.d_v = d_v;
    p.rules.scale = scale;
    const bool has_offsets = q_offsets != nullptr;
    p.lengths.q_len = has_offsets ? rows : 1;
    p.lengths.total_q = rows;
    p.lengths.q_offsets = q_offsets;
    p.q = {q, has_offsets ? 0 : heads * d_k, d_k, heads * d_k};
    p.y = {y, has_offsets ? 0 : heads * d_v, d_v, heads * d_v};
    p.lse.data = lse;
    p.lse.empty = -kInfinity<float>;
    p.lse.batch = has_offsets ? 0 : heads;
    p.lse.head = 1;
    p.lse.row = heads;
    return p;
}

template <class KV>
struct PagedCache {
    const KV *k, *v;
    const int32_t *page_ids, *page_offsets, *last_page_len;
    int64_t page_size;
    int64_t page_id_count = kUnbounded, page_count = kUnbounded;

    // k_len bounds the keys of a sequence.
    template <class T>
    void set(AttentionForward<T, KV>& p, int64_t k_len) const {
        p.lengths.k_len = k_len;
        p.lengths.page_ids = page_ids;
        p.lengths.page_offsets = page_offsets;
        p.lengths.last_page_len = last_page_len;
        p.lengths.page_size = page_size;
        p.lengths.page_id_count = page_id_count;
        p.lengths.page_count = page_count;
        p.k = {k, p.kv_heads * page_size * p.d_k, page_size * p.d_k, p.d_k};
        p.v = {v, p.kv_heads * page_size * p.d_v, page_size * p.d_v, p.d_v};
    }
};

template <class T>
void set_ragged_keys(AttentionForward<T, T>& p, const T* k, const T* v, int64_t rows, const int32_t* offsets) {
    p.lengths.k_len = p.lengths.total_k = rows;
    p.lengths.k_offsets = offsets;
    p.k = {k, 0, p.d_k, p.kv_heads * p.d_k};
    p.v = {v, 0, p.d_v, p.kv_heads * p.d_v};
}

inline Status check_serving(int32_t heads, int32_t kv_heads, float softcap) {
    BK_TRY(require_head_groups("heads", heads, "kv_heads", kv_heads));
    if (!(softcap >= 0)) return fail(Status::kInvalidProblem, "softcap is %g, must be >= 0", static_cast<double>(softcap));
    return Status::kOk;
}

inline Band serving_band(int32_t is_causal, int32_t window) { return Band::of(is_causal != 0, window, window, true); }

template <class T, class KV>
struct AttentionPaged {
    int32_t batch;
    int32_t total_q;
    int32_t num_pages;
    int32_t page_size;
    int32_t num_page_ids;
    int32_t heads;
    int32_t kv_heads;
    int32_t d_k;
    int32_t d_v;
    float scale;
    int32_t is_causal;
    int32_t window;
    float softcap;
    int32_t is_base2;
    int32_t is_batch_invariant;

    int64_t offset_count() const { return int64_t{batch} + 1; }
    Work work() const { return all_or_none(int64_t{batch} * total_q * heads); }
    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch},
                                     {"total_q", total_q},
                                     {"num_pages", num_pages},
                                     {"num_page_ids", num_page_ids},
                                     {"heads", heads},
                                     {"kv_heads", kv_heads},
                                     {"d_k", d_k},
                                     {"d_v", d_v}}));
        BK_TRY(require_extents({{"page_size", page_size}}));
        return check_serving(heads, kv_heads, softcap);
    }
    AttentionForward<T, KV> problem(const T* q, const KV* k_cache, const KV* v_cache, const int32_t* page_ids,
                                    const int32_t* page_offsets, const int32_t* last_page_len, const int32_t* q_offsets, T* y,
                                    float* lse) const {
        auto p = token_major<T, KV>(batch, total_q, heads, kv_heads, d_k, d_v, scale, q, q_offsets, y, lse);
        PagedCache<KV>{k_cache, v_cache, page_ids, page_offsets, last_page_len, page_size, num_page_ids, num_pages}.set(
            p, int64_t{num_page_ids} * page_size);
        p.rules.band = serving_band(is_causal, window);
        p.rules.softcap = softcap;
        p.lse.is_base2 = is_base2 != 0;
        p.is_batch_invariant = is_batch_invariant != 0;
        return p;
    }
    size_t workspace_size() const {
        static const int32_t offsets[2] = {};  // a problem with offsets, whose sizes alone are read
        return paged_forward_workspace<T, KV>(problem(nullptr, nullptr, nullptr, offsets, offsets, offsets,
                                                      total_q == batch ? nullptr : offsets, nullptr, nullptr));
    }
    Status check_rows(const int32_t* q_offsets) const {
        if (q_offsets == nullptr && total_q != batch)
            return fail(Status::kInvalidProblem, "q_offsets is NULL, but total_q, %d, is not batch, %d", total_q, batch);
        return Status::kOk;
    }
    Status run(const T* q, const KV* k_cache, const KV* v_cache, const int32_t* page_ids, const int32_t* page_offsets,
               const int32_t* last_page_len, const int32_t* q_offsets, T* y, float* lse, const Launch& launch) const {
        BK_TRY(check_rows(q_offsets));
        return paged_forward<T, KV>(launch,
                                    problem(q, k_cache, v_cache, page_ids, page_offsets, last_page_len, q_offsets, y, lse));
    }
};

// 8-bit keys and values with a factor for each slot of a head: those that paged_kv_append_quantized_{T}_{U} stores.
template <class T, class KV>
struct AttentionPagedQuantized : AttentionPaged<T, KV> {
    Status run(const T* q, const KV* k_cache, const KV* v_cache, const float* k_scales, const float* v_scales,
               const int32_t* page_ids, const int32_t* page_offsets, const int32_t* last_page_len, const int32_t* q_offsets,
               T* y, float* lse, const Launch& launch) const {
        BK_TRY(this->check_rows(q_offsets));
        auto p = this->problem(q, k_cache, v_cache, page_ids, page_offsets, last_page_len, q_offsets, y, lse);
        const int64_t page = this->page_size;
        p.k_scales = {k_scales, this->kv_heads * page, page, 1};
        p.v_scales = {v_scales, this->kv_heads * page, page, 1};
        return paged_forward<T, KV>(launch, p);
    }
};

// One head of keys, whose first d_v elements are the values: multi-head latent attention.
template <class T>
struct AttentionPagedLatent {
    int32_t batch;
    int32_t total_q;
    int32_t num_pages;
    int32_t page_size;
    int32_t num_page_ids;
    int32_t heads;
    int32_t d_k;
    int32_t d_v;
    float scale;
    int32_t is_causal;
    int32_t window;
    float softcap;
    int32_t is_base2;
    int32_t is_batch_invariant;

    AttentionPaged<T, T> paged() const {
        return {batch,     total_q, num_pages, page_size, num_page_ids,      heads, 1, d_k, d_v, scale,
                is_causal, window,  softcap,   is_base2,  is_batch_invariant};
    }
    int64_t offset_count() const { return paged().offset_count(); }
    Work work() const { return paged().work(); }
    Status check() const {
        BK_TRY(paged().check());
        if (d_v > d_k) return fail(Status::kInvalidProblem, "d_v is %d, must be at most d_k, %d", d_v, d_k);
        return Status::kOk;
    }
    size_t workspace_size() const { return paged().workspace_size(); }
    Status run(const T* q, const T* cache, const int32_t* page_ids, const int32_t* page_offsets, const int32_t* last_page_len,
               const int32_t* q_offsets, T* y, float* lse, const Launch& launch) const {
        BK_TRY(paged().check_rows(q_offsets));
        auto p = paged().problem(q, cache, cache, page_ids, page_offsets, last_page_len, q_offsets, y, lse);
        p.v = p.k;
        return paged_forward<T, T>(launch, p);
    }
};

template <class T>
struct AttentionRagged {
    int32_t batch;
    int32_t total_q;
    int32_t total_k;
    int32_t heads;
    int32_t kv_heads;
    int32_t d_k;
    int32_t d_v;
    float scale;
    int32_t is_causal;
    int32_t window;
    float softcap;
    int32_t is_base2;
    int32_t is_batch_invariant;

    int64_t offset_count() const { return int64_t{batch} + 1; }
    Work work() const { return all_or_none(int64_t{batch} * total_q * heads); }
    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch},
                                     {"total_q", total_q},
                                     {"total_k", total_k},
                                     {"heads", heads},
                                     {"kv_heads", kv_heads},
                                     {"d_k", d_k},
                                     {"d_v", d_v}}));
        return check_serving(heads, kv_heads, softcap);
    }
    AttentionForward<T> problem(const T* q, const T* k, const T* v, const int32_t* q_offsets, const int32_t* k_offsets, T* y,
                                float* lse) const {
        auto p = token_major<T, T>(batch, total_q, heads, kv_heads, d_k, d_v, scale, q, q_offsets, y, lse);
        set_ragged_keys(p, k, v, total_k, k_offsets);
        p.rules.band = serving_band(is_causal, window);
        p.rules.softcap = softcap;
        p.lse.is_base2 = is_base2 != 0;
        p.is_batch_invariant = is_batch_invariant != 0;
        return p;
    }
    size_t workspace_size() const {
        static const int32_t offsets[2] = {};  // only sizes are read
        return attention_forward_workspace<T>(problem(nullptr, nullptr, nullptr, offsets, offsets, nullptr, nullptr));
    }
    Status run(const T* q, const T* k, const T* v, const int32_t* q_offsets, const int32_t* k_offsets, T* y, float* lse,
               const Launch& launch) const {
        return attention_forward<T>(launch, problem(q, k, v, q_offsets, k_offsets, y, lse));
    }
};

// --- the reference's symbols ---

// Keys of a sequence of which only the device knows the length.
constexpr int64_t kUnknownKeys = INT32_MAX;

inline Status check_paged_decode(int32_t batch_size, int32_t page_size, int32_t head_dim, int32_t num_qo_heads,
                                 int32_t num_kv_heads, float = 0) {
    BK_TRY(require_extents({{"batch_size", batch_size},
                            {"page_size", page_size},
                            {"head_dim", head_dim},
                            {"num_qo_heads", num_qo_heads},
                            {"num_kv_heads", num_kv_heads}}));
    return require_head_groups("num_qo_heads", num_qo_heads, "num_kv_heads", num_kv_heads);
}

inline Status check_paged_prefill(int32_t batch_size, int32_t total_num_rows, int32_t page_size, int32_t head_dim,
                                  int32_t num_qo_heads, int32_t num_kv_heads, float = 0, int32_t = 0, int32_t = 0) {
    BK_TRY(require_extents({{"batch_size", batch_size}, {"total_num_rows", total_num_rows}}));
    return check_paged_decode(batch_size, page_size, head_dim, num_qo_heads, num_kv_heads);
}

inline Status check_ragged_prefill(int32_t batch_size, int32_t total_num_rows, int32_t total_kv_rows, int32_t head_dim,
                                   int32_t num_qo_heads, int32_t num_kv_heads, float = 0, int32_t = 0) {
    BK_TRY(require_extents({{"total_kv_rows", total_kv_rows}}));
    return check_paged_prefill(batch_size, total_num_rows, 1, head_dim, num_qo_heads, num_kv_heads);
}

inline Status check_paged_append(int32_t batch_size, int32_t page_size, int32_t num_heads, int32_t head_dim) {
    return require_extents(
        {{"batch_size", batch_size}, {"page_size", page_size}, {"num_heads", num_heads}, {"head_dim", head_dim}});
}

struct NamedPointer {
    const char* name;
    const void* pointer;
    size_t alignment;
};

BK_COLD inline Status require_given(std::initializer_list<NamedPointer> pointers) {
    for (const NamedPointer& p : pointers)
        if (p.pointer == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", p.name);
    for (const NamedPointer& p : pointers)
        if (reinterpret_cast<uintptr_t>(p.pointer) % p.alignment != 0)
            return fail(Status::kMisaligned, "%s is %p, must be aligned to %zu bytes", p.name, p.pointer, p.alignment);
    return Status::kOk;
}

// Bytes that the reference's planner writes for a batch; split-KV uses a longer workspace, where it has one.
inline size_t paged_decode_workspace(int32_t batch_size) {
    return batch_size <= 0 ? 0 : sizeof(int32_t) * (3 * static_cast<size_t>(batch_size) + 2);
}

template <class T, class KV>
Status run_paged_decode(int32_t batch_size, int32_t page_size, int32_t head_dim, int32_t num_qo_heads, int32_t num_kv_heads,
                        float sm_scale, void* k_data, void* v_data, void* indices, void* indptr, void* last_page_len,
                        const void* q, void* o, void* lse, void* workspace, size_t workspace_bytes, void* stream) {
    BK_TRY(check_paged_decode(batch_size, page_size, head_dim, num_qo_heads, num_kv_heads));
    BK_TRY(require_given({{"k_data", k_data, sizeof(KV)},
                          {"v_data", v_data, sizeof(KV)},
                          {"indices", indices, sizeof(int32_t)},
                          {"indptr", indptr, sizeof(int32_t)},
                          {"last_page_len", last_page_len, sizeof(int32_t)},
                          {"q", q, sizeof(T)},
                          {"o", o, sizeof(T)},
                          {"lse", lse, sizeof(float)},
                          {"workspace", workspace, 1}}));
    if (workspace_bytes < paged_decode_workspace(batch_size))
        return fail(Status::kInvalidProblem, "workspace_bytes is %zu, must be >= %zu", workspace_bytes,
                    paged_decode_workspace(batch_size));
    auto p = token_major<T, KV>(batch_size, batch_size, num_qo_heads, num_kv_heads, head_dim, head_dim, sm_scale,
                                static_cast<const T*>(q), nullptr, static_cast<T*>(o), static_cast<float*>(lse));
    p.lse.is_base2 = true;
    PagedCache<KV>{static_cast<const KV*>(k_data),
                   static_cast<const KV*>(v_data),
                   static_cast<const int32_t*>(indices),
                   static_cast<const int32_t*>(indptr),
                   static_cast<const int32_t*>(last_page_len),
                   page_size}
        .set(p, kUnknownKeys);
    return paged_forward<T, KV>({workspace, workspace_bytes, stream}, p);
}

template <class T>
Status run_paged_prefill(int32_t batch_size, int32_t total_num_rows, int32_t page_size, int32_t head_dim, int32_t num_qo_heads,
                         int32_t num_kv_heads, float sm_scale, int32_t causal, int32_t, void* k_data, void* v_data,
                         void* kv_indices, void* kv_indptr, void* last_page_len, const void* q, void* q_indptr, void* o,
                         void* lse, void* stream) {
    BK_TRY(check_paged_prefill(batch_size, total_num_rows, page_size, head_dim, num_qo_heads, num_kv_heads));
    BK_TRY(require_given({{"k_data", k_data, sizeof(T)},
                          {"v_data", v_data, sizeof(T)},
                          {"kv_indices", kv_indices, sizeof(int32_t)},
                          {"kv_indptr", kv_indptr, sizeof(int32_t)},
                          {"last_page_len", last_page_len, sizeof(int32_t)},
                          {"q", q, sizeof(T)},
                          {"q_indptr", q_indptr, sizeof(int32_t)},
                          {"o", o, sizeof(T)},
                          {"lse", lse, sizeof(float)}}));
    auto p = token_major<T, T>(batch_size, total_num_rows, num_qo_heads, num_kv_heads, head_dim, head_dim, sm_scale,
                               static_cast<const T*>(q), static_cast<const int32_t*>(q_indptr), static_cast<T*>(o),
                               static_cast<float*>(lse));
    p.lse.is_base2 = true;
    p.rules.band = Band::of(causal != 0, -1, -1, true);
    PagedCache<T>{static_cast<const T*>(k_data),
                  static_cast<const T*>(v_data),
                  static_cast<const int32_t*>(kv_indices),
                  static_cast<const int32_t*>(kv_indptr),
                  static_cast<const int32_t*>(last_page_len),
                  page_size}
        .set(p, kUnknownKeys);
    return attention_forward<T>({nullptr, 0, stream}, p);
}

template <class T>
Status run_ragged_prefill(int32_t batch_size, int32_t total_num_rows, int32_t total_kv_rows, int32_t head_dim,
                          int32_t num_qo_heads, int32_t num_kv_heads, float sm_scale, int32_t causal, int32_t,
                          const void* k_data, const void* v_data, void* kv_indptr, const void* q, void* q_indptr, void* o,
                          void* lse, void* stream) {
    BK_TRY(check_ragged_prefill(batch_size, total_num_rows, total_kv_rows, head_dim, num_qo_heads, num_kv_heads));
    BK_TRY(require_given({{"k_data", k_data, sizeof(T)},
                          {"v_data", v_data, sizeof(T)},
                          {"kv_indptr", kv_indptr, sizeof(int32_t)},
                          {"q", q, sizeof(T)},
                          {"q_indptr", q_indptr, sizeof(int32_t)},
                          {"o", o, sizeof(T)},
                          {"lse", lse, sizeof(float)}}));
    auto p = token_major<T, T>(batch_size, total_num_rows, num_qo_heads, num_kv_heads, head_dim, head_dim, sm_scale,
                               static_cast<const T*>(q), static_cast<const int32_t*>(q_indptr), static_cast<T*>(o),
                               static_cast<float*>(lse));
    p.lse.is_base2 = true;
    p.rules.band = Band::of(causal != 0, -1, -1, true);
    set_ragged_keys(p, static_cast<const T*>(k_data), static_cast<const T*>(v_data), total_kv_rows,
                    static_cast<const int32_t*>(kv_indptr));
    return attention_forward<T>({nullptr, 0, stream}, p);
}

}  // namespace bk

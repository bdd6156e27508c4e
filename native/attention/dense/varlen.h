// SPDX-License-Identifier: Apache-2.0
// Attention of sequences of their own lengths in one tensor: sequence b has rows cu_seqlens_q[b] to cu_seqlens_q[b + 1] of
// q [total_q, heads, d_k] and cu_seqlens_k[b] to cu_seqlens_k[b + 1] of k and v. Rules are those of attention/dense/fused.h.
#pragma once

#include <cmath>
#include <cstdint>

#include "attention/dense/fused.h"

namespace bk {

// Scalars that both directions have. The longest sequences bound what is computed of each.
template <class T>
struct AttentionVarlenProblem {
    int32_t batch;
    int32_t heads;
    int32_t kv_heads;
    int32_t max_q_len;
    int32_t max_k_len;
    int32_t total_q;
    int32_t total_k;
    int32_t d_k;
    int32_t d_v;
    float scale;
    int32_t is_causal;
    int32_t aligns_ends;
    int32_t window_left;
    int32_t window_right;
    float softcap;
    float dropout;

    BK_COLD Status check() const {
        const AttentionExtents e = extents();
        BK_TRY(require_non_negative(
            {{"max_q_len", max_q_len}, {"max_k_len", max_k_len}, {"total_q", total_q}, {"total_k", total_k}}));
        BK_TRY(require_grouped_extents(e));
        if (batch == 0 && (total_q > 0 || total_k > 0))
            return fail(Status::kInvalidProblem, "batch is 0, must be >= 1 where there are rows");
        return choices().check();
    }
    int64_t offsets() const { return int64_t{batch} + 1; }

    AttentionExtents extents() const { return {batch, heads, kv_heads, max_q_len, max_k_len, d_k, d_v}; }
    AttentionChoices choices() const { return {scale, softcap, dropout, is_causal, aligns_ends, window_left, window_right}; }
    // Rows [total, heads, d] of all sequences.
    template <class E>
    static HeadsView<E> view(E* data, int64_t heads, int64_t d) {
        return {data, 0, d, heads * d};
    }
    AttentionForward<T> problem(const T* q, const T* k, const T* v, T* y, const compute_t<T>* lse) const {
        AttentionForward<T> p = forward_of<T>(extents(), scale);
        p.q = view(q, heads, d_k);
        p.k = view(k, kv_heads, d_k);
        p.v = view(v, kv_heads, d_v);
        p.y = view(y, heads, d_v);
        p.lse = {const_cast<compute_t<T>*>(lse), kHasF64Lse<T>, false, -INFINITY, 0, total_q, 1};
        p.lengths.total_q = total_q;
        p.lengths.total_k = total_k;
        choices().add_to(&p.rules, nullptr, nullptr, nullptr);
        return p;
    }
};

template <class T>
struct AttentionVarlen {
    int32_t batch;
    int32_t heads;
    int32_t kv_heads;
    int32_t max_q_len;
    int32_t max_k_len;
    int32_t total_q;
    int32_t total_k;
    int32_t d_k;
    int32_t d_v;
    float scale;
    int32_t is_causal;
    int32_t aligns_ends;
    int32_t window_left;
    int32_t window_right;
    float softcap;
    float dropout;
    int32_t is_batch_invariant;

    AttentionVarlenProblem<T> scalars() const {
        return {batch, heads, kv_heads,  max_q_len,   max_k_len,   total_q,      total_k, d_k,
                d_v,   scale, is_causal, aligns_ends, window_left, window_right, softcap, dropout};
    }
    Status check() const { return scalars().check(); }
    int64_t offsets() const { return scalars().offsets(); }
    Work work() const { return heads == 0 || total_q == 0 || d_v == 0 ? Work::kNone : Work::kAll; }
    size_t workspace_size() const {
        AttentionForward<T> p = scalars().problem(nullptr, nullptr, nullptr, nullptr, nullptr);
        p.is_batch_invariant = is_batch_invariant != 0;
        return attention_forward_workspace(p);
    }
    Status run(const T* q, const T* k, const T* v, const int32_t* cu_seqlens_q, const int32_t* cu_seqlens_k,
               const float* slopes, const float* sinks, const int64_t* seed, T* y, compute_t<T>* lse,
               const Launch& launch) const {
        const AttentionChoices choices = scalars().choices();
        BK_TRY(choices.require_seed(seed));
        AttentionForward<T> p = scalars().problem(q, k, v, y, lse);
        choices.add_to(&p.rules, slopes, sinks, seed);
        p.is_batch_invariant = is_batch_invariant != 0;
        p.lengths.q_offsets = cu_seqlens_q;
        p.lengths.k_offsets = cu_seqlens_k;
        return attention_forward(launch, p);
    }
};

template <class T>
struct AttentionVarlenGradients : AttentionVarlenProblem<T> {
    Work work() const {
        const bool has_rows = this->total_q != 0 || this->total_k != 0, has_elements = this->d_k != 0 || this->d_v != 0;
        return this->heads != 0 && has_rows && has_elements ? Work::kAll : Work::kNone;
    }
    size_t workspace_size() const {
        AttentionBackward<T> p;
        p.forward = this->problem(nullptr, nullptr, nullptr, nullptr, nullptr);
        return attention_backward_workspace(p);
    }
    Status run(const T* q, const T* k, const T* v, const int32_t* cu_seqlens_q, const int32_t* cu_seqlens_k,
               const float* slopes, const float* sinks, const int64_t* seed, const T* y, const compute_t<T>* lse, const T* dy,
               T* dq, T* dk, T* dv, float* dsinks, const Launch& launch) const {
        if (dsinks != nullptr && sinks == nullptr) {
            BK_TRY(fill_bytes(launch, dsinks, 0, sizeof(float) * static_cast<size_t>(this->heads)));
            dsinks = nullptr;
        }
        BK_TRY(this->choices().require_seed(seed));
        AttentionBackward<T> p;
        p.forward = this->problem(q, k, v, nullptr, lse);
        this->choices().add_to(&p.forward.rules, slopes, sinks, seed);
        p.forward.lengths.q_offsets = cu_seqlens_q;
        p.forward.lengths.k_offsets = cu_seqlens_k;
        p.y = this->view(y, this->heads, this->d_v);
        p.dy = this->view(dy, this->heads, this->d_v);
        p.dq = this->view(dq, this->heads, this->d_k);
        p.dk = this->view(dk, this->kv_heads, this->d_k);
        p.dv = this->view(dv, this->kv_heads, this->d_v);
        p.dsinks = dsinks;
        return attention_backward(launch, p);
    }
};

}  // namespace bk

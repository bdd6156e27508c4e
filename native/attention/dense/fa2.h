// SPDX-License-Identifier: Apache-2.0
// Attention with the interface of FlashAttention-2 (Dao 2023): grouped keys and values, windows, ALiBi, a cap of the
// scores, and sequences of their own lengths in one tensor.
//
// The causal mask and windows align the last query with the last key (bottom-right): key j is visible to query i where
// i + k_len - q_len - left <= j <= i + k_len - q_len + right, a window of -1 being unbounded; causal sets right to 0. A
// score is c tanh(scale q.k / c) + slope (j - i) where softcap c is not 0. lse is f32; of a row that sees no key it is
// +inf, and y is 0.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "attention/dense/heads.h"

namespace bk {

// Scalars that all forms share. Extents of 0 are refused.
struct Fa2Scalars {
    int32_t batch, heads, kv_heads, q_len, k_len, head_dim;
    const char *q_name, *k_name;  // of the lengths
    float scale;
    int32_t is_causal, window_left, window_right;
    float softcap;
    int32_t slopes_step;

    AttentionExtents extents() const { return {batch, heads, kv_heads, q_len, k_len, head_dim, head_dim}; }
    Band band() const { return Band::of(is_causal != 0, window_left, window_right, true); }

    BK_COLD Status check() const {
        if (head_dim < 1) return fail(Status::kUnsupported, "head_dim is %d, must be >= 1", head_dim);
        const NamedExtent extents[] = {
            {"batch", batch}, {"num_heads", heads}, {"num_heads_k", kv_heads}, {q_name, q_len}, {k_name, k_len}};
        for (const NamedExtent& e : extents) BK_TRY(require_positive(e));
        if (heads % kv_heads != 0)
            return fail(Status::kInvalidProblem, "num_heads_k is %d, must divide num_heads, %d", kv_heads, heads);
        if (slopes_step < 0) return fail(Status::kInvalidProblem, "alibi_batch_stride is %d, must be >= 0", slopes_step);
        if (softcap < 0) return fail(Status::kInvalidProblem, "softcap is %g, must be >= 0", static_cast<double>(softcap));
        return Status::kOk;
    }
    static Status require_positive(const NamedExtent& e) {
        if (e.value > 0) return Status::kOk;
        return fail(Status::kInvalidProblem, "%s is %lld, must be >= 1", e.name, static_cast<long long>(e.value));
    }

    template <class T>
    AttentionForward<T> problem(const void* slopes) const {
        AttentionForward<T> p = forward_of<T>(extents(), scale);
        p.rules.band = band();
        p.rules.softcap = softcap;
        p.rules.slopes = static_cast<const float*>(slopes);
        p.rules.slopes_step = slopes_step;
        p.lse.empty = INFINITY;
        return p;
    }
};

// q and y are [batch, heads, q_len, d], k and v [batch, kv_heads, k_len, d], lse [batch, heads, q_len].
template <class T>
AttentionForward<T> fa2_dense(const Fa2Scalars& s, const float* slopes, const T* q, const T* k, const T* v, T* y,
                              const float* lse) {
    const AttentionExtents e = s.extents();
    AttentionForward<T> p = s.problem<T>(slopes);
    p.q = queries(e).view(q);
    p.k = keys(e).view(k);
    p.v = values(e).view(v);
    p.y = results(e).view(y);
    p.lse = dense_lse(e, const_cast<float*>(lse), false, INFINITY);
    return p;
}

// Sequences of a tensor: q and y are [total_q, heads, d], k and v [total_k, kv_heads, d], lse [heads, total_q].
struct Fa2Rows {
    int32_t total_q, total_k;

    Status check() const {
        BK_TRY(Fa2Scalars::require_positive({"total_q", total_q}));
        return Fa2Scalars::require_positive({"total_k", total_k});
    }
    template <class E>
    static HeadsView<E> view(E* data, int64_t heads, int64_t d) {
        return {data, 0, d, heads * d};
    }
    template <class T>
    AttentionForward<T> problem(const Fa2Scalars& s, const float* slopes, const T* q, const T* k, const T* v,
                                const int32_t* cu_seqlens_q, const int32_t* cu_seqlens_k, T* y, const float* lse) const {
        AttentionForward<T> p = s.problem<T>(slopes);
        p.q = view(q, s.heads, s.head_dim);
        p.k = view(k, s.kv_heads, s.head_dim);
        p.v = view(v, s.kv_heads, s.head_dim);
        p.y = view(y, s.heads, s.head_dim);
        p.lse = {const_cast<float*>(lse), false, false, INFINITY, 0, total_q, 1};
        p.lengths.total_q = total_q;
        p.lengths.total_k = total_k;
        p.lengths.q_offsets = cu_seqlens_q;
        p.lengths.k_offsets = cu_seqlens_k;
        return p;
    }
};

template <class T>
struct Fa2Sdpa {
    int32_t batch;
    int32_t num_heads;
    int32_t num_heads_k;
    int32_t seq_q;
    int32_t seq_k;
    int32_t head_dim;
    float softmax_scale;
    int32_t is_causal;

    Work work() const { return Work::kAll; }
    Status check() const { return scalars().check(); }
    size_t workspace_size() const {
        return attention_forward_workspace(fa2_dense<T>(scalars(), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
    }
    Status run(const T* q, const T* k, const T* v, T* out, float* softmax_lse, const Launch& launch) const {
        return attention_forward(launch, fa2_dense(scalars(), nullptr, q, k, v, out, softmax_lse));
    }

private:
    Fa2Scalars scalars() const {
        return {batch,   num_heads,     num_heads_k, seq_q, seq_k, head_dim, "seq_q",
                "seq_k", softmax_scale, is_causal,   -1,    -1,    0,        0};
    }
};

// The scalars of the forms with all features.
template <class T>
struct Fa2Problem {
    int32_t batch;
    int32_t num_heads;
    int32_t num_heads_k;
    int32_t seq_q;
    int32_t seq_k;
    int32_t head_dim;
    float softmax_scale;
    int32_t is_causal;
    int32_t alibi_batch_stride;
    int32_t window_size_left;
    int32_t window_size_right;
    float softcap;

    Work work() const { return Work::kAll; }
    Status check() const { return scalars().check(); }

protected:
    Fa2Scalars scalars() const {
        return {batch,         num_heads,         num_heads_k,      seq_q,
                seq_k,         head_dim,          "seq_q",          "seq_k",
                softmax_scale, is_causal,         window_size_left, window_size_right,
                softcap,       alibi_batch_stride};
    }
};

template <class T>
struct Fa2SdpaV2 : Fa2Problem<T> {
    size_t workspace_size() const {
        return attention_forward_workspace(fa2_dense<T>(this->scalars(), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
    }
    Status run(const float* alibi_slopes, const T* q, const T* k, const T* v, T* out, float* softmax_lse,
               const Launch& launch) const {
        return attention_forward(launch, fa2_dense(this->scalars(), alibi_slopes, q, k, v, out, softmax_lse));
    }
};

// The workspace of the gradients of a problem without operands.
template <class T>
size_t backward_workspace_of(const AttentionForward<T>& forward) {
    AttentionBackward<T> p;
    p.forward = forward;
    return attention_backward_workspace(p);
}

template <class T>
struct Fa2SdpaBackward : Fa2Problem<T> {
    size_t workspace_size() const { return backward_workspace_of<T>(problem()); }
    Status run(const float* alibi_slopes_ptr, const T* q, const T* k, const T* v, const T* o, const T* dout, const float* lse,
               T* dq, T* dk, T* dv, const Launch& launch) const {
        const AttentionExtents e = this->scalars().extents();
        AttentionBackward<T> p;
        p.forward = fa2_dense<T>(this->scalars(), alibi_slopes_ptr, q, k, v, nullptr, lse);
        p.y = results(e).view(o);
        p.dy = results(e).view(dout);
        p.dq = queries(e).view(dq);
        p.dk = keys(e).view(dk);
        p.dv = values(e).view(dv);
        return attention_backward(launch, p);
    }

private:
    AttentionForward<T> problem() const {
        return fa2_dense<T>(this->scalars(), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    }
};

// The scalars of sequences in one tensor.
template <class T>
struct Fa2VarlenProblem {
    int32_t batch;
    int32_t num_heads;
    int32_t num_heads_k;
    int32_t max_seqlen_q;
    int32_t max_seqlen_k;
    int32_t total_q;
    int32_t total_k;
    int32_t head_dim;
    float softmax_scale;
    int32_t is_causal;
    int32_t alibi_batch_stride;
    int32_t window_size_left;
    int32_t window_size_right;
    float softcap;

    Work work() const { return Work::kAll; }
    Status check() const {
        BK_TRY(scalars().check());
        return rows().check();
    }
    int64_t offsets() const { return int64_t{batch} + 1; }

protected:
    Fa2Rows rows() const { return {total_q, total_k}; }
    Fa2Scalars scalars() const {
        return {batch,          num_heads,     num_heads_k, max_seqlen_q,     max_seqlen_k,      head_dim, "max_seqlen_q",
                "max_seqlen_k", softmax_scale, is_causal,   window_size_left, window_size_right, softcap,  alibi_batch_stride};
    }
    AttentionForward<T> problem(const float* slopes, const T* q, const T* k, const T* v, const int32_t* cu_seqlens_q,
                                const int32_t* cu_seqlens_k, T* y, const float* lse) const {
        return rows().problem(scalars(), slopes, q, k, v, cu_seqlens_q, cu_seqlens_k, y, lse);
    }
    // Problem without memory, for workspaces.
    AttentionForward<T> problem() const {
        const T* const none = nullptr;
        return problem(nullptr, none, none, none, nullptr, nullptr, nullptr, nullptr);
    }
};

template <class T>
struct Fa2SdpaVarlen : Fa2VarlenProblem<T> {
    size_t workspace_size() const { return attention_forward_workspace(this->problem()); }
    Status run(const float* alibi_slopes_ptr, const T* q, const T* k, const T* v, const int32_t* cu_seqlens_q,
               const int32_t* cu_seqlens_k, T* out, float* softmax_lse, const Launch& launch) const {
        return attention_forward(launch,
                                 this->problem(alibi_slopes_ptr, q, k, v, cu_seqlens_q, cu_seqlens_k, out, softmax_lse));
    }
};

template <class T>
struct Fa2SdpaVarlenBackward : Fa2VarlenProblem<T> {
    size_t workspace_size() const { return backward_workspace_of<T>(this->problem()); }
    Status run(const float* alibi_slopes_ptr, const T* q, const T* k, const T* v, const T* o, const T* dout, const float* lse,
               const int32_t* cu_seqlens_q, const int32_t* cu_seqlens_k, T* dq, T* dk, T* dv, const Launch& launch) const {
        AttentionBackward<T> p;
        p.forward = this->problem(alibi_slopes_ptr, q, k, v, cu_seqlens_q, cu_seqlens_k, nullptr, lse);
        const int64_t heads = this->num_heads, kv_heads = this->num_heads_k, d = this->head_dim;
        p.y = Fa2Rows::view(o, heads, d);
        p.dy = Fa2Rows::view(dout, heads, d);
        p.dq = Fa2Rows::view(dq, heads, d);
        p.dk = Fa2Rows::view(dk, kv_heads, d);
        p.dv = Fa2Rows::view(dv, kv_heads, d);
        return attention_backward(launch, p);
    }
};

// Sizes that callers of FlashAttention-2's interface ask for. Results are 0 where an extent is not positive.

constexpr int64_t kFa2RowTile = 128;  // rows that its kernels pad a sequence to

inline size_t fa2_sdpa_lse_size(int32_t batch, int32_t num_heads, int32_t seq_q) {
    if (batch <= 0 || num_heads <= 0 || seq_q <= 0) return 0;
    return static_cast<size_t>(batch) * static_cast<size_t>(num_heads) * static_cast<size_t>(seq_q);
}

inline size_t fa2_sdpa_varlen_lse_size(int32_t batch, int32_t num_heads, int32_t total_q) {
    if (batch <= 0 || num_heads <= 0 || total_q <= 0) return 0;
    return static_cast<size_t>(num_heads) * static_cast<size_t>(total_q + kFa2RowTile * batch);
}

// Bytes of f32 sums of dq and of a value each row, of `rows` rows in each head.
inline size_t fa2_backward_bytes(int64_t heads, int64_t rows, int64_t head_dim) {
    const int64_t step = head_dim <= 128 ? 32 : 64, padded = ceil_div(head_dim, step) * step;
    return sizeof(float) * static_cast<size_t>(heads) * static_cast<size_t>(rows) * static_cast<size_t>(padded + 1);
}

inline size_t fa2_sdpa_backward_workspace_size(int32_t batch, int32_t num_heads, int32_t seq_q, int32_t head_dim) {
    if (batch <= 0 || num_heads <= 0 || seq_q <= 0 || head_dim <= 0) return 0;
    return fa2_backward_bytes(int64_t{batch} * num_heads, ceil_div<int64_t>(seq_q, kFa2RowTile) * kFa2RowTile, head_dim);
}

inline size_t fa2_sdpa_varlen_backward_workspace_size(int32_t batch, int32_t num_heads, int32_t max_seqlen_q, int32_t total_q,
                                                      int32_t head_dim) {
    if (batch <= 0 || num_heads <= 0 || max_seqlen_q <= 0 || total_q <= 0 || head_dim <= 0) return 0;
    return fa2_backward_bytes(num_heads, total_q + kFa2RowTile * batch, head_dim);
}

}  // namespace bk

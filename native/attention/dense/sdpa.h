// SPDX-License-Identifier: Apache-2.0
// Attention that also gives its probabilities: attn = softmax(scale q k^T + mask), y = attn v.
//
// Softmax and both products are computed in the compute type; attn is rounded to T once, and y does not depend on that
// rounding. The causal mask shows key j to query i where j <= i.
#pragma once

#include <cmath>
#include <cstdint>

#include "attention/dense/heads.h"

namespace bk {

// Runs both forms of sdpa on their views.
template <class T>
Status run_sdpa(const Launch& launch, AttentionForward<T> p, const AttentionExtents& e, bool is_causal, const T* mask,
                T* attn) {
    p.rules.band = Band::of(is_causal, -1, -1, false);
    if (mask != nullptr) p.rules.bias = dense_scores(e, mask, Values::kElement);
    p.lse.empty = -INFINITY;
    p.weights = {attn, Values::kElement};
    return attention_forward(launch, p);
}

template <class T>
struct Sdpa {
    int32_t batch;
    int32_t heads;
    int32_t q_len;
    int32_t k_len;
    int32_t d_k;
    int32_t d_v;
    float scale;
    int32_t is_causal;
    int32_t has_mask;

    Work work() const { return extents().has_results() ? Work::kAll : Work::kNone; }
    Status check() const { return require_dense_extents(extents()); }
    int32_t mask_rows() const { return has_mask != 0 ? q_len : 0; }
    size_t workspace_size() const {
        AttentionForward<T> p = problem(nullptr, nullptr, nullptr, nullptr);
        p.rules.band = Band::of(is_causal != 0, -1, -1, false);
        return attention_forward_workspace(p);
    }
    Status run(const T* q, const T* k, const T* v, const T* mask, T* attn, T* y, const Launch& launch) const {
        if (has_mask != 0 && mask == nullptr && k_len > 0)
            return fail(Status::kInvalidProblem, "mask is NULL, but has_mask is %d", has_mask);
        return run_sdpa(launch, problem(q, k, v, y), extents(), is_causal != 0, has_mask != 0 ? mask : nullptr, attn);
    }

private:
    AttentionExtents extents() const { return {batch, heads, heads, q_len, k_len, d_k, d_v}; }
    AttentionForward<T> problem(const T* q, const T* k, const T* v, T* y) const {
        const AttentionExtents e = extents();
        AttentionForward<T> p = forward_of<T>(e, scale);
        p.q = queries(e).view(q);
        p.k = keys(e).view(k);
        p.v = values(e).view(v);
        p.y = results(e).view(y);
        return p;
    }
};

// Strides are of batch, heads and rows. A head stride of 0 shares keys or values among all heads.
template <class T>
struct SdpaStrided {
    int32_t batch;
    int32_t heads;
    int32_t q_len;
    int32_t k_len;
    int32_t d_k;
    int32_t d_v;
    const int64_t* stride_q;
    const int64_t* stride_k;
    const int64_t* stride_v;
    const int64_t* stride_mask;
    const int64_t* stride_y;
    float scale;
    int32_t is_causal;
    int32_t has_mask;

    Work work() const { return extents().has_results() ? Work::kAll : Work::kNone; }
    BK_COLD Status check() const {
        BK_TRY(require_dense_extents(extents()));
        return extents().has_results() ? require_forward_strides(of_q(), of_k(), of_v(), of_y()) : Status::kOk;
    }
    Status locate_mask(Operand* at, const char* name, Role role, int64_t size) const {
        const HeadsLayout scores{batch, heads, has_mask != 0 ? q_len : 0, k_len};
        return scores.locate(at, name, role, size);
    }
    Status locate_q(Operand* at, const char* name, Role role, int64_t size) const {
        return of_q().locate(at, name, role, size);
    }
    Status locate_k(Operand* at, const char* name, Role role, int64_t size) const {
        return of_k().locate(at, name, role, size);
    }
    Status locate_v(Operand* at, const char* name, Role role, int64_t size) const {
        return of_v().locate(at, name, role, size);
    }
    Status locate_y(Operand* at, const char* name, Role role, int64_t size) const {
        return of_y().locate(at, name, role, size);
    }
    size_t workspace_size() const {
        AttentionForward<T> p = problem(nullptr, nullptr, nullptr, nullptr);
        p.rules.band = Band::of(is_causal != 0, -1, -1, false);
        return attention_forward_workspace(p);
    }
    Status run(const T* q, const T* k, const T* v, const T* mask, T* attn, T* y, const Launch& launch) const {
        if (has_mask != 0 && mask == nullptr && k_len > 0)
            return fail(Status::kInvalidProblem, "mask is NULL, but has_mask is %d", has_mask);
        return run_sdpa(launch, problem(q, k, v, y), extents(), is_causal != 0, has_mask != 0 ? mask : nullptr, attn);
    }

private:
    AttentionExtents extents() const { return {batch, heads, heads, q_len, k_len, d_k, d_v}; }
    HeadsLayout of_q() const { return with_strides(queries(extents()), "stride_q", stride_q); }
    HeadsLayout of_k() const { return with_strides(keys(extents()), "stride_k", stride_k); }
    HeadsLayout of_v() const { return with_strides(values(extents()), "stride_v", stride_v); }
    HeadsLayout of_y() const { return with_strides(results(extents()), "stride_y", stride_y); }
    AttentionForward<T> problem(const T* q, const T* k, const T* v, T* y) const {
        AttentionForward<T> p = forward_of<T>(extents(), scale);
        p.q = of_q().view(q);
        p.k = of_k().view(k);
        p.v = of_v().view(v);
        p.y = of_y().view(y);
        return p;
    }
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Attention with the logarithms of the sums of exponentials, lse, in T: y and lse for the gradients, no probabilities.
//
// The causal mask shows key j to query i where j <= i, whatever the lengths are. A row that sees no key has y = 0 and
// lse = -inf.
#pragma once

#include <cmath>
#include <cstdint>

#include "attention/dense/heads.h"
#include "attention/dense/products.h"

namespace bk {

// Scalars that all contiguous forms have. The classes below add functions to it alone: the glue sets its members.
template <class T>
struct FlashProblem {
    int32_t batch;
    int32_t heads;
    int32_t q_len;
    int32_t k_len;
    int32_t d_k;
    int32_t d_v;
    float scale;
    int32_t is_causal;

    Work work() const { return extents().has_results() ? Work::kAll : Work::kNone; }
    Status check() const { return require_dense_extents(extents()); }

protected:
    AttentionExtents extents() const { return {batch, heads, heads, q_len, k_len, d_k, d_v}; }
    AttentionForward<T> problem(const T* q, const T* k, const T* v, T* y, const T* lse) const {
        const AttentionExtents e = extents();
        AttentionForward<T> p = forward_of<T>(e, scale);
        p.q = queries(e).view(q);
        p.k = keys(e).view(k);
        p.v = values(e).view(v);
        p.y = results(e).view(y);
        p.lse = dense_lse(e, const_cast<T*>(lse), true, -INFINITY);
        p.rules.band = Band::of(is_causal != 0, -1, -1, false);
        return p;
    }
};

template <class T>
struct FlashSdpa : FlashProblem<T> {
    size_t workspace_size() const {
        return attention_forward_workspace(this->problem(nullptr, nullptr, nullptr, nullptr, nullptr));
    }
    Status run(const T* q, const T* k, const T* v, T* y, T* lse, const Launch& launch) const {
        return attention_forward(launch, this->problem(q, k, v, y, lse));
    }
};

// d_ws receives rowsum(y dy), which the gradients are computed from in the compute type. Without keys dQ is 0, without
// queries dK and dV are.
template <class T>
struct FlashSdpaBackward : FlashProblem<T> {
    Work work() const {
        const bool has_heads = this->batch != 0 && this->heads != 0, has_rows = this->q_len != 0 || this->k_len != 0;
        return has_heads && has_rows && (this->d_k != 0 || this->d_v != 0) ? Work::kAll : Work::kNone;
    }
    size_t workspace_size() const {
        return attention_backward_workspace(
            problem(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
    }
    Status run(const T* q, const T* k, const T* v, const T* y, const T* lse, const T* dy, T* d_ws, T* dQ, T* dK, T* dV,
               const Launch& launch) const {
        const AttentionExtents e = this->extents();
        BK_TRY(row_dots(launch, e, results(e).view(y), results(e).view(dy), d_ws));
        return attention_backward(launch, problem(q, k, v, y, lse, dy, dQ, dK, dV));
    }

private:
    AttentionBackward<T> problem(const T* q, const T* k, const T* v, const T* y, const T* lse, const T* dy, T* dQ, T* dK,
                                 T* dV) const {
        const AttentionExtents e = this->extents();
        AttentionBackward<T> p;
        p.forward = FlashProblem<T>::problem(q, k, v, nullptr, lse);
        p.y = results(e).view(y);
        p.dy = results(e).view(dy);
        p.dq = queries(e).view(dQ);
        p.dk = keys(e).view(dK);
        p.dv = values(e).view(dV);
        return p;
    }
};

// Scores have a mask of f32 added, [batch, heads, q_len, k_len].
template <class T>
struct SdpaArbmask : FlashProblem<T> {
    size_t workspace_size() const {
        return attention_forward_workspace(problem(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
    }
    Status run(const T* q, const T* k, const T* v, const float* mask, T* y, T* lse, const Launch& launch) const {
        return attention_forward(launch, problem(q, k, v, mask, y, lse));
    }

private:
    AttentionForward<T> problem(const T* q, const T* k, const T* v, const float* mask, T* y, T* lse) const {
        AttentionForward<T> p = FlashProblem<T>::problem(q, k, v, y, lse);
        p.rules.bias = dense_scores(this->extents(), mask, Values::kF32);
        return p;
    }
};

// Blocks of block_size x block_size scores are visible where their byte is not 0.
template <class T>
struct SdpaBlockSparse {
    int32_t batch;
    int32_t heads;
    int32_t q_len;
    int32_t k_len;
    int32_t d_k;
    int32_t d_v;
    int32_t block_size;
    float scale;
    int32_t is_causal;

    Work work() const { return extents().has_results() ? Work::kAll : Work::kNone; }
    BK_COLD Status check() const {
        BK_TRY(require_dense_extents(extents()));
        if (block_size < 1) return fail(Status::kUnsupported, "block_size is %d, must be >= 1", block_size);
        return Status::kOk;
    }
    int32_t query_blocks() const { return ceil_div(q_len, block_size); }
    int32_t key_blocks() const { return ceil_div(k_len, block_size); }
    size_t workspace_size() const {
        return attention_forward_workspace(problem(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
    }
    Status run(const T* q, const T* k, const T* v, const uint8_t* block_pattern, T* y, T* lse, const Launch& launch) const {
        return attention_forward(launch, problem(q, k, v, block_pattern, y, lse));
    }

private:
    AttentionExtents extents() const { return {batch, heads, heads, q_len, k_len, d_k, d_v}; }
    AttentionForward<T> problem(const T* q, const T* k, const T* v, const uint8_t* block_pattern, T* y, T* lse) const {
        const AttentionExtents e = extents();
        AttentionForward<T> p = forward_of<T>(e, scale);
        p.q = queries(e).view(q);
        p.k = keys(e).view(k);
        p.v = values(e).view(v);
        p.y = results(e).view(y);
        p.lse = dense_lse(e, lse, true, -INFINITY);
        p.rules.band = Band::of(is_causal != 0, -1, -1, false);
        const int64_t head = int64_t{query_blocks()} * key_blocks();
        if (k_len > 0) p.rules.blocks = {block_pattern, block_size, heads * head, head, key_blocks()};
        return p;
    }
};

// Strides are of batch, heads and rows. A head stride of 0 shares keys or values among all heads. lse is contiguous.
template <class T>
struct FlashSdpaStrided {
    int32_t batch;
    int32_t heads;
    int32_t q_len;
    int32_t k_len;
    int32_t d_k;
    int32_t d_v;
    const int64_t* stride_q;
    const int64_t* stride_k;
    const int64_t* stride_v;
    const int64_t* stride_y;
    float scale;
    int32_t is_causal;

    Work work() const { return extents().has_results() ? Work::kAll : Work::kNone; }
    BK_COLD Status check() const {
        BK_TRY(require_dense_extents(extents()));
        return extents().has_results() ? require_forward_strides(of_q(), of_k(), of_v(), of_y()) : Status::kOk;
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
    size_t workspace_size() const { return attention_forward_workspace(problem(nullptr, nullptr, nullptr, nullptr, nullptr)); }
    Status run(const T* q, const T* k, const T* v, T* y, T* lse, const Launch& launch) const {
        return attention_forward(launch, problem(q, k, v, y, lse));
    }

private:
    AttentionExtents extents() const { return {batch, heads, heads, q_len, k_len, d_k, d_v}; }
    HeadsLayout of_q() const { return with_strides(queries(extents()), "stride_q", stride_q); }
    HeadsLayout of_k() const { return with_strides(keys(extents()), "stride_k", stride_k); }
    HeadsLayout of_v() const { return with_strides(values(extents()), "stride_v", stride_v); }
    HeadsLayout of_y() const { return with_strides(results(extents()), "stride_y", stride_y); }
    AttentionForward<T> problem(const T* q, const T* k, const T* v, T* y, T* lse) const {
        const AttentionExtents e = extents();
        AttentionForward<T> p = forward_of<T>(e, scale);
        p.q = of_q().view(q);
        p.k = of_k().view(k);
        p.v = of_v().view(v);
        p.y = of_y().view(y);
        p.lse = dense_lse(e, lse, true, -INFINITY);
        p.rules.band = Band::of(is_causal != 0, -1, -1, false);
        return p;
    }
};

}  // namespace bk

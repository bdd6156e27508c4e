// SPDX-License-Identifier: Apache-2.0
// Gradients of sdpa from its probabilities attn, which hold its masks as zeros:
//   dA = dy v^T, dS = attn (dA - rowsum(attn dA)), dV = attn^T dy, dQ = scale dS k, dK = scale dS^T q.
// dA and then dS are rounded to T in dscores_ws, where the mask's gradient dS remains.
#pragma once

#include <cstdint>

#include "attention/dense/products.h"

namespace bk {

// The operands of a call. Keys or values that all heads share (head stride 0) have gradients that are added to.
template <class T>
struct SdpaGradients {
    AttentionExtents e;
    float scale;
    HeadsView<const T> q, k, v, dy;
    HeadsView<T> dq, dk, dv;
    bool adds_to_dk, adds_to_dv;

    // The product [m, n] for all heads; those of one gradient cell are summed where the gradient's head stride is 0.
    HeadProducts<T> product(int64_t m, int64_t n, int64_t k, HeadMatrices<const T> a, HeadMatrices<const T> b,
                            HeadMatrices<T> c, float alpha, bool adds) const {
        const int64_t summed = adds && c.head == 0 ? e.heads : 1;
        return {e.batch, e.heads / summed, summed, m, n, k, a, b, c, alpha, adds};
    }

    Status run(const Launch& launch, const T* attn, T* dscores_ws) const {
        const int64_t head = e.q_len * e.k_len;
        const HeadMatrices<const T> p{attn, e.heads * head, head, e.k_len, 1};
        const HeadMatrices<T> ds{dscores_ws, e.heads * head, head, e.k_len, 1};
        const HeadMatrices<const T> ds_read{dscores_ws, ds.batch, ds.head, ds.row, 1};
        BK_TRY(multiply_heads(launch,
                              product(e.q_len, e.k_len, e.d_v, matrices_of(dy), transposed(matrices_of(v)), ds, 1, false)));
        BK_TRY(score_gradients<T>(launch, e.batch * e.heads * e.q_len, e.k_len, attn, dscores_ws, dscores_ws));
        BK_TRY(multiply_heads(
            launch, product(e.k_len, e.d_v, e.q_len, transposed(p), matrices_of(dy), matrices_of(dv), 1, adds_to_dv)));
        BK_TRY(
            multiply_heads(launch, product(e.q_len, e.d_k, e.k_len, ds_read, matrices_of(k), matrices_of(dq), scale, false)));
        return multiply_heads(
            launch, product(e.k_len, e.d_k, e.q_len, transposed(ds_read), matrices_of(q), matrices_of(dk), scale, adds_to_dk));
    }
};

inline Work sdpa_backward_work(const AttentionExtents& e) {
    const bool has_heads = e.batch != 0 && e.heads != 0, has_rows = e.q_len != 0 || e.k_len != 0;
    return has_heads && has_rows ? Work::kAll : Work::kNone;
}

template <class T>
struct SdpaBackward {
    int32_t batch;
    int32_t heads;
    int32_t q_len;
    int32_t k_len;
    int32_t d_k;
    int32_t d_v;
    float scale;

    Work work() const { return sdpa_backward_work(extents()); }
    Status check() const { return require_dense_extents(extents()); }
    Status run(const T* q, const T* k, const T* v, const T* attn, const T* dy, T* dscores_ws, T* dQ, T* dK, T* dV,
               const Launch& launch) const {
        const AttentionExtents e = extents();
        const SdpaGradients<T> gradients{e,
                                         scale,
                                         queries(e).view(q),
                                         keys(e).view(k),
                                         values(e).view(v),
                                         results(e).view(dy),
                                         queries(e).view(dQ),
                                         keys(e).view(dK),
                                         values(e).view(dV),
                                         false,
                                         false};
        return gradients.run(launch, attn, dscores_ws);
    }

private:
    AttentionExtents extents() const { return {batch, heads, heads, q_len, k_len, d_k, d_v}; }
};

// Strides are of batch, heads and rows. Where stride_k[1] is 0 dK is added to, and so is dV where stride_v[1] is 0; a
// head stride of 0 of these gradients then sums over the heads.
template <class T>
struct SdpaBackwardStrided {
    int32_t batch;
    int32_t heads;
    int32_t q_len;
    int32_t k_len;
    int32_t d_k;
    int32_t d_v;
    const int64_t* stride_q;
    const int64_t* stride_k;
    const int64_t* stride_v;
    const int64_t* stride_dy;
    const int64_t* stride_dQ;
    const int64_t* stride_dK;
    const int64_t* stride_dV;
    float scale;

    Work work() const { return sdpa_backward_work(extents()); }
    BK_COLD Status check() const {
        BK_TRY(require_dense_extents(extents()));
        if (work() == Work::kNone) return Status::kOk;
        for (const HeadsLayout& input : {of_q(), of_k(), of_v(), of_dy()}) BK_TRY(input.require_strides(false));
        BK_TRY(of_dq().require_strides(true));
        BK_TRY(require_gradient(of_dk(), of_k()));
        return require_gradient(of_dv(), of_v());
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
    Status locate_dy(Operand* at, const char* name, Role role, int64_t size) const {
        return of_dy().locate(at, name, role, size);
    }
    Status locate_dQ(Operand* at, const char* name, Role role, int64_t size) const {
        return of_dq().locate(at, name, role, size);
    }
    Status locate_dK(Operand* at, const char* name, Role role, int64_t size) const {
        return of_dk().locate(at, name, role, size);
    }
    Status locate_dV(Operand* at, const char* name, Role role, int64_t size) const {
        return of_dv().locate(at, name, role, size);
    }
    Status run(const T* q, const T* k, const T* v, const T* attn, const T* dy, T* dscores_ws, T* dQ, T* dK, T* dV,
               const Launch& launch) const {
        const SdpaGradients<T> gradients{extents(),           scale,
                                         of_q().view(q),      of_k().view(k),
                                         of_v().view(v),      of_dy().view(dy),
                                         of_dq().view(dQ),    of_dk().view(dK),
                                         of_dv().view(dV),    shares_heads(of_k()),
                                         shares_heads(of_v())};
        return gradients.run(launch, attn, dscores_ws);
    }

private:
    static bool shares_heads(const HeadsLayout& input) { return !input.is_empty() && input.strides[1] == 0; }
    static Status require_gradient(const HeadsLayout& gradient, const HeadsLayout& input) {
        BK_TRY(gradient.require_strides(false));
        if (gradient.is_empty()) return Status::kOk;
        const int64_t own[] = {gradient.strides[0], 1, gradient.strides[2]};  // heads are summed
        const bool sums = shares_heads(input) && gradient.strides[1] == 0;
        return with_strides(gradient, gradient.strides_name, sums ? own : gradient.strides).require_strides(true);
    }
    AttentionExtents extents() const { return {batch, heads, heads, q_len, k_len, d_k, d_v}; }
    HeadsLayout of_q() const { return with_strides(queries(extents()), "stride_q", stride_q); }
    HeadsLayout of_k() const { return with_strides(keys(extents()), "stride_k", stride_k); }
    HeadsLayout of_v() const { return with_strides(values(extents()), "stride_v", stride_v); }
    HeadsLayout of_dy() const { return with_strides(results(extents()), "stride_dy", stride_dy); }
    HeadsLayout of_dq() const { return with_strides(queries(extents()), "stride_dQ", stride_dQ); }
    HeadsLayout of_dk() const { return with_strides(keys(extents()), "stride_dK", stride_dK); }
    HeadsLayout of_dv() const { return with_strides(values(extents()), "stride_dV", stride_dV); }
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Ops of native/recurrent/tables/linear_attention.abi.
#pragma once

#include <cstdint>

#include "recurrent/state/run.h"

namespace bk::recurrent {

// Operands of a row in any order of its own: what a rule lacks is null.
struct StateOperands {
    const void *q, *k, *v, *a, *b;
    const float* g;
    const void *beta, *bonus;
    const float* initial;
    const int32_t* cu_seqlens;

    void give_to(StateProblem* p) const {
        p->q = q;
        p->k = k;
        p->v = v;
        p->a = a;
        p->b = b;
        p->g = g;
        p->beta = beta;
        p->bonus = bonus;
        p->initial = initial;
        p->sequences.offsets = cu_seqlens;
    }
};

inline Status forward(const Launch& launch, const StateExtents& e, const StateOperands& operands, void* y, float* final) {
    StateProblem p = e.problem();
    operands.give_to(&p);
    p.y = y;
    p.final = final;
    return run_forward(launch, e, p);
}

inline Status backward(const Launch& launch, const StateExtents& e, const StateOperands& operands, const StateGradients& d,
                       bool has_bonus) {
    StateProblem p = e.problem();
    operands.give_to(&p);
    return run_backward(launch, e, p, d, has_bonus);
}

inline Status update(const Launch& launch, const StateExtents& e, const StateOperands& operands, void* y, float* final) {
    StateProblem p = e.problem();
    operands.give_to(&p);
    p.y = y;
    p.final = final;
    return run_update(launch, p);
}

// --- gated delta rule ---

template <class T>
struct GatedDeltaRule {
    int32_t batch, seqlen, sequences, qk_heads, heads, d_k, d_v, normalizes;
    float scale;

    StateExtents extents() const {
        return {batch, seqlen, sequences, qk_heads, heads, d_k, d_v, 1, normalizes != 0, scale, Rule::kDelta, kRowType<T>};
    }
    int64_t boundaries() const { return extents().boundaries(); }
    Work work() const { return extents().work(); }
    Status check() const {
        BK_TRY(require_in("normalizes", normalizes, 0, 1));
        return extents().check();
    }
    size_t workspace_size() const { return extents().forward_bytes(); }
    Status run(const T* q, const T* k, const T* v, const T* beta, const float* g, const float* initial_state,
               const int32_t* cu_seqlens, T* y, float* final_state, const Launch& launch) const {
        const StateOperands operands{q, k, v, nullptr, nullptr, g, beta, nullptr, initial_state, cu_seqlens};
        return forward(launch, extents(), operands, y, final_state);
    }
};

template <class T>
struct GatedDeltaRuleBackward : GatedDeltaRule<T> {
    size_t workspace_size() const { return this->extents().backward_bytes(false); }
    Status run(const T* dy, const float* dfinal_state, const T* q, const T* k, const T* v, const T* beta, const float* g,
               const float* initial_state, const int32_t* cu_seqlens, T* dq, T* dk, T* dv, T* dbeta, float* dg,
               float* dinitial_state, const Launch& launch) const {
        const StateOperands operands{q, k, v, nullptr, nullptr, g, beta, nullptr, initial_state, cu_seqlens};
        StateGradients d{};
        d.dy = dy;
        d.dfinal = dfinal_state;
        d.dq = dq;
        d.dk = dk;
        d.dv = dv;
        d.dbeta = dbeta;
        d.dg = dg;
        d.dinitial = dinitial_state;
        return backward(launch, this->extents(), operands, d, false);
    }
};

template <class T>
struct GatedDeltaRuleUpdate {
    int32_t batch, qk_heads, heads, d_k, d_v, normalizes;
    float scale;

    StateExtents extents() const {
        return {batch, 1, batch, qk_heads, heads, d_k, d_v, 1, normalizes != 0, scale, Rule::kDelta, kRowType<T>};
    }
    Work work() const { return all_or_none(batch); }
    Status check() const {
        BK_TRY(require_in("normalizes", normalizes, 0, 1));
        return extents().check();
    }
    Status run(const T* q, const T* k, const T* v, const T* beta, const float* g, const float* state, T* y, float* new_state,
               const Launch& launch) const {
        return update(launch, extents(), {q, k, v, nullptr, nullptr, g, beta, nullptr, state, nullptr}, y, new_state);
    }
};

// --- gated linear attention ---

template <class T>
struct GatedLinearAttention {
    int32_t batch, seqlen, sequences, qk_heads, heads, d_k, d_v, gate_width;
    float scale;

    StateExtents extents() const {
        return {batch, seqlen, sequences, qk_heads, heads, d_k, d_v, gate_width, false, scale, Rule::kGated, kRowType<T>};
    }
    int64_t boundaries() const { return extents().boundaries(); }
    Work work() const { return extents().work(); }
    Status check() const { return extents().check(); }
    size_t workspace_size() const { return extents().forward_bytes(); }
    Status run(const T* q, const T* k, const T* v, const float* g, const T* bonus, const float* initial_state,
               const int32_t* cu_seqlens, T* y, float* final_state, const Launch& launch) const {
        const StateOperands operands{q, k, v, nullptr, nullptr, g, nullptr, bonus, initial_state, cu_seqlens};
        return forward(launch, extents(), operands, y, final_state);
    }
};

template <class T>
struct GatedLinearAttentionBackward : GatedLinearAttention<T> {
    size_t workspace_size() const { return this->extents().backward_bytes(true); }
    Status run(const T* dy, const float* dfinal_state, const T* q, const T* k, const T* v, const float* g, const T* bonus,
               const float* initial_state, const int32_t* cu_seqlens, T* dq, T* dk, T* dv, float* dg, T* dbonus,
               float* dinitial_state, const Launch& launch) const {
        const StateOperands operands{q, k, v, nullptr, nullptr, g, nullptr, bonus, initial_state, cu_seqlens};
        StateGradients d{};
        d.dy = dy;
        d.dfinal = dfinal_state;
        d.dq = dq;
        d.dk = dk;
        d.dv = dv;
        d.dg = dg;
        d.dbonus = dbonus;
        d.dinitial = dinitial_state;
        return backward(launch, this->extents(), operands, d, true);
    }
};

template <class T>
struct GatedLinearAttentionUpdate {
    int32_t batch, qk_heads, heads, d_k, d_v, gate_width;
    float scale;

    StateExtents extents() const {
        return {batch, 1, batch, qk_heads, heads, d_k, d_v, gate_width, false, scale, Rule::kGated, kRowType<T>};
    }
    Work work() const { return all_or_none(batch); }
    Status check() const { return extents().check(); }
    Status run(const T* q, const T* k, const T* v, const float* g, const T* bonus, const float* state, T* y, float* new_state,
               const Launch& launch) const {
        return update(launch, extents(), {q, k, v, nullptr, nullptr, g, nullptr, bonus, state, nullptr}, y, new_state);
    }
};

// --- RWKV-7 ---

template <class T>
struct Rwkv7 {
    int32_t batch, seqlen, sequences, heads, d_k, d_v;
    float scale;

    StateExtents extents() const {
        return {batch, seqlen, sequences, heads, heads, d_k, d_v, d_k, false, scale, Rule::kRwkv7, kRowType<T>};
    }
    int64_t boundaries() const { return extents().boundaries(); }
    Work work() const { return extents().work(); }
    Status check() const { return extents().check(); }
    size_t workspace_size() const { return extents().forward_bytes(); }
    Status run(const T* r, const float* w, const T* k, const T* v, const T* a, const T* b, const float* initial_state,
               const int32_t* cu_seqlens, T* y, float* final_state, const Launch& launch) const {
        return forward(launch, extents(), {r, k, v, a, b, w, nullptr, nullptr, initial_state, cu_seqlens}, y, final_state);
    }
};

template <class T>
struct Rwkv7Backward : Rwkv7<T> {
    size_t workspace_size() const { return this->extents().backward_bytes(false); }
    Status run(const T* dy, const float* dfinal_state, const T* r, const float* w, const T* k, const T* v, const T* a,
               const T* b, const float* initial_state, const int32_t* cu_seqlens, T* dr, float* dw, T* dk, T* dv, T* da, T* db,
               float* dinitial_state, const Launch& launch) const {
        const StateOperands operands{r, k, v, a, b, w, nullptr, nullptr, initial_state, cu_seqlens};
        StateGradients d{};
        d.dy = dy;
        d.dfinal = dfinal_state;
        d.dq = dr;
        d.dk = dk;
        d.dv = dv;
        d.da = da;
        d.db = db;
        d.dg = dw;
        d.dinitial = dinitial_state;
        return backward(launch, this->extents(), operands, d, false);
    }
};

template <class T>
struct Rwkv7Update {
    int32_t batch, heads, d_k, d_v;
    float scale;

    StateExtents extents() const {
        return {batch, 1, batch, heads, heads, d_k, d_v, d_k, false, scale, Rule::kRwkv7, kRowType<T>};
    }
    Work work() const { return all_or_none(batch); }
    Status check() const { return extents().check(); }
    Status run(const T* r, const float* w, const T* k, const T* v, const T* a, const T* b, const float* state, T* y,
               float* new_state, const Launch& launch) const {
        return update(launch, extents(), {r, k, v, a, b, w, nullptr, nullptr, state, nullptr}, y, new_state);
    }
};

}  // namespace bk::recurrent

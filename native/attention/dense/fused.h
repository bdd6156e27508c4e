// SPDX-License-Identifier: Apache-2.0
// Attention with all that the cores can do, on strided operands, and its gradients; lse in f32, or f64 for f64.
//
// A score is c tanh(scale q.k / c) + slope (j - i) + bias, without the cap where c = 0 and without the additions whose
// operands are absent. Key j is visible to query i where -left <= j - i - shift <= right, the shift being k_len - q_len if
// aligns_ends is set, else 0, and where the mask is not 0.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "attention/dense/heads.h"

namespace bk {

// lse of f64 is f64, of all other dtypes f32.
template <class T>
constexpr bool kHasF64Lse = std::is_same_v<T, double>;

// Scalars and small operands of the rules.
struct AttentionChoices {
    float scale, softcap, dropout;
    int32_t is_causal, aligns_ends, window_left, window_right;

    BK_COLD Status check() const {
        if (!(softcap >= 0 && softcap < INFINITY))
            return fail(Status::kInvalidProblem, "softcap is %g, must be >= 0 and finite", static_cast<double>(softcap));
        if (!(dropout >= 0 && dropout < 1))
            return fail(Status::kInvalidProblem, "dropout is %g, must be in [0, 1)", static_cast<double>(dropout));
        return Status::kOk;
    }
    BK_COLD Status require_seed(const int64_t* seed) const {
        if (dropout > 0 && seed == nullptr)
            return fail(Status::kInvalidProblem, "seed is NULL, but dropout is %g", static_cast<double>(dropout));
        return Status::kOk;
    }
    void add_to(ScoreRules* rules, const float* slopes, const float* sinks, const int64_t* seed) const {
        rules->band = Band::of(is_causal != 0, window_left, window_right, aligns_ends != 0);
        rules->softcap = softcap;
        rules->slopes = slopes;
        rules->sinks = sinks;
        if (dropout > 0) rules->dropout = {dropout, reinterpret_cast<const uint64_t*>(seed)};
    }
};

BK_COLD inline Status require_grouped_extents(const AttentionExtents& e) {
    BK_TRY(require_non_negative({{"batch", e.batch}, {"heads", e.heads}, {"kv_heads", e.kv_heads}}));
    if (e.kv_heads == 0 ? e.heads != 0 : e.heads % e.kv_heads != 0)
        return fail(Status::kInvalidProblem, "kv_heads is %lld, must divide heads, %lld", static_cast<long long>(e.kv_heads),
                    static_cast<long long>(e.heads));
    return require_non_negative({{"q_len", e.q_len}, {"k_len", e.k_len}, {"d_k", e.d_k}, {"d_v", e.d_v}});
}

// An optional operand of scores and the strides of its four axes, which are read where it is not null.
struct ScoresLayout {
    AttentionExtents e;
    const char* name;
    const int64_t* strides;

    BK_COLD Status locate(Operand* operand, const char* operand_name, Role role, int64_t size) const {
        *operand = {operand_name, role, size};
        if (strides == nullptr) return Status::kOk;
        const int32_t shape[] = {static_cast<int32_t>(e.batch), static_cast<int32_t>(e.heads), static_cast<int32_t>(e.q_len),
                                 static_cast<int32_t>(e.k_len)};
        BK_TRY(locate_strided(operand, operand_name, role, size, name, 4, shape, strides, nullptr));
        operand->rank = 0;
        operand->shape = nullptr;
        operand->strides = nullptr;
        return Status::kOk;
    }
    BK_COLD Status view(const void* data, Values values, ScoresView* view) const {
        if (data == nullptr) return Status::kOk;
        if (strides == nullptr)
            return fail(Status::kInvalidProblem, "%s is given without strides: %s is NULL",
                        values == Values::kKeep ? "mask" : "bias", name);
        *view = {data, values, strides[0], strides[1], strides[2], strides[3]};
        return Status::kOk;
    }
};

template <class T>
struct Attention {
    int32_t batch;
    int32_t heads;
    int32_t kv_heads;
    int32_t q_len;
    int32_t k_len;
    int32_t d_k;
    int32_t d_v;
    const int64_t* stride_q;
    const int64_t* stride_k;
    const int64_t* stride_v;
    const int64_t* stride_bias;
    const int64_t* stride_mask;
    const int64_t* stride_y;
    float scale;
    int32_t is_causal;
    int32_t aligns_ends;
    int32_t is_batch_invariant;
    int32_t window_left;
    int32_t window_right;
    float softcap;
    float dropout;

    Work work() const { return extents().has_results() ? Work::kAll : Work::kNone; }
    BK_COLD Status check() const {
        BK_TRY(require_grouped_extents(extents()));
        BK_TRY(choices().check());
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
    Status locate_bias(Operand* at, const char* name, Role role, int64_t size) const {
        return of_bias().locate(at, name, role, size);
    }
    Status locate_mask(Operand* at, const char* name, Role role, int64_t size) const {
        return of_mask().locate(at, name, role, size);
    }
    size_t workspace_size() const {
        AttentionForward<T> p = problem(nullptr, nullptr, nullptr, nullptr, nullptr);
        choices().add_to(&p.rules, nullptr, nullptr, nullptr);
        p.is_batch_invariant = is_batch_invariant != 0;
        return attention_forward_workspace(p);
    }
    Status run(const T* q, const T* k, const T* v, const T* bias, const uint8_t* mask, const float* slopes, const float* sinks,
               const int64_t* seed, T* y, compute_t<T>* lse, const Launch& launch) const {
        AttentionForward<T> p = problem(q, k, v, y, lse);
        BK_TRY(choices().require_seed(seed));
        choices().add_to(&p.rules, slopes, sinks, seed);
        p.is_batch_invariant = is_batch_invariant != 0;
        BK_TRY(of_bias().view(bias, Values::kElement, &p.rules.bias));
        BK_TRY(of_mask().view(mask, Values::kKeep, &p.rules.mask));
        return attention_forward(launch, p);
    }

private:
    AttentionExtents extents() const { return {batch, heads, kv_heads, q_len, k_len, d_k, d_v}; }
    AttentionChoices choices() const { return {scale, softcap, dropout, is_causal, aligns_ends, window_left, window_right}; }
    HeadsLayout of_q() const { return with_strides(queries(extents()), "stride_q", stride_q); }
    HeadsLayout of_k() const { return with_strides(keys(extents()), "stride_k", stride_k); }
    HeadsLayout of_v() const { return with_strides(values(extents()), "stride_v", stride_v); }
    HeadsLayout of_y() const { return with_strides(results(extents()), "stride_y", stride_y); }
    ScoresLayout of_bias() const { return {extents(), "stride_bias", stride_bias}; }
    ScoresLayout of_mask() const { return {extents(), "stride_mask", stride_mask}; }
    AttentionForward<T> problem(const T* q, const T* k, const T* v, T* y, compute_t<T>* lse) const {
        AttentionForward<T> p = forward_of<T>(extents(), scale);
        p.q = of_q().view(q);
        p.k = of_k().view(k);
        p.v = of_v().view(v);
        p.y = of_y().view(y);
        p.lse = dense_lse(extents(), lse, kHasF64Lse<T>, -INFINITY);
        return p;
    }
};

template <class T>
struct AttentionGradients {
    int32_t batch;
    int32_t heads;
    int32_t kv_heads;
    int32_t q_len;
    int32_t k_len;
    int32_t d_k;
    int32_t d_v;
    const int64_t* stride_q;
    const int64_t* stride_k;
    const int64_t* stride_v;
    const int64_t* stride_bias;
    const int64_t* stride_mask;
    const int64_t* stride_y;
    const int64_t* stride_dy;
    const int64_t* stride_dq;
    const int64_t* stride_dk;
    const int64_t* stride_dv;
    float scale;
    int32_t is_causal;
    int32_t aligns_ends;
    int32_t window_left;
    int32_t window_right;
    float softcap;
    float dropout;

    Work work() const {
        const bool has_heads = batch != 0 && heads != 0, has_rows = q_len != 0 || k_len != 0;
        return has_heads && has_rows && (d_k != 0 || d_v != 0) ? Work::kAll : Work::kNone;
    }
    BK_COLD Status check() const {
        BK_TRY(require_grouped_extents(extents()));
        BK_TRY(choices().check());
        if (work() == Work::kNone) return Status::kOk;
        for (const HeadsLayout& input : {of_q(), of_k(), of_v(), of_y(), of_dy()}) BK_TRY(input.require_strides(false));
        for (const HeadsLayout& output : {of_dq(), of_dk(), of_dv()}) BK_TRY(output.require_strides(true));
        return Status::kOk;
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
    Status locate_dy(Operand* at, const char* name, Role role, int64_t size) const {
        return of_dy().locate(at, name, role, size);
    }
    Status locate_dq(Operand* at, const char* name, Role role, int64_t size) const {
        return of_dq().locate(at, name, role, size);
    }
    Status locate_dk(Operand* at, const char* name, Role role, int64_t size) const {
        return of_dk().locate(at, name, role, size);
    }
    Status locate_dv(Operand* at, const char* name, Role role, int64_t size) const {
        return of_dv().locate(at, name, role, size);
    }
    Status locate_bias(Operand* at, const char* name, Role role, int64_t size) const {
        return of_bias().locate(at, name, role, size);
    }
    Status locate_mask(Operand* at, const char* name, Role role, int64_t size) const {
        return of_mask().locate(at, name, role, size);
    }
    size_t workspace_size() const {
        AttentionBackward<T> p = problem(nullptr, nullptr, nullptr, nullptr, nullptr);
        choices().add_to(&p.forward.rules, nullptr, nullptr, nullptr);
        return attention_backward_workspace(p);
    }
    Status run(const T* q, const T* k, const T* v, const T* bias, const uint8_t* mask, const float* slopes, const float* sinks,
               const int64_t* seed, const T* y, const compute_t<T>* lse, const T* dy, T* dq, T* dk, T* dv, T* dbias,
               float* dsinks, const Launch& launch) const {
        if (dsinks != nullptr && sinks == nullptr) {
            BK_TRY(fill_bytes(launch, dsinks, 0, sizeof(float) * static_cast<size_t>(heads)));
            dsinks = nullptr;
        }
        BK_TRY(choices().require_seed(seed));
        AttentionBackward<T> p = problem(q, k, v, y, dy);
        p.forward.lse.data = const_cast<compute_t<T>*>(lse);
        p.dq = of_dq().view(dq);
        p.dk = of_dk().view(dk);
        p.dv = of_dv().view(dv);
        p.dbias = dbias;
        p.dsinks = dsinks;
        choices().add_to(&p.forward.rules, slopes, sinks, seed);
        BK_TRY(of_bias().view(bias, Values::kElement, &p.forward.rules.bias));
        BK_TRY(of_mask().view(mask, Values::kKeep, &p.forward.rules.mask));
        return attention_backward(launch, p);
    }

private:
    AttentionExtents extents() const { return {batch, heads, kv_heads, q_len, k_len, d_k, d_v}; }
    AttentionChoices choices() const { return {scale, softcap, dropout, is_causal, aligns_ends, window_left, window_right}; }
    HeadsLayout of_q() const { return with_strides(queries(extents()), "stride_q", stride_q); }
    HeadsLayout of_k() const { return with_strides(keys(extents()), "stride_k", stride_k); }
    HeadsLayout of_v() const { return with_strides(values(extents()), "stride_v", stride_v); }
    HeadsLayout of_y() const { return with_strides(results(extents()), "stride_y", stride_y); }
    HeadsLayout of_dy() const { return with_strides(results(extents()), "stride_dy", stride_dy); }
    HeadsLayout of_dq() const { return with_strides(queries(extents()), "stride_dq", stride_dq); }
    HeadsLayout of_dk() const { return with_strides(keys(extents()), "stride_dk", stride_dk); }
    HeadsLayout of_dv() const { return with_strides(values(extents()), "stride_dv", stride_dv); }
    ScoresLayout of_bias() const { return {extents(), "stride_bias", stride_bias}; }
    ScoresLayout of_mask() const { return {extents(), "stride_mask", stride_mask}; }
    AttentionBackward<T> problem(const T* q, const T* k, const T* v, const T* y, const T* dy) const {
        AttentionBackward<T> p;
        p.forward = forward_of<T>(extents(), scale);
        p.forward.q = of_q().view(q);
        p.forward.k = of_k().view(k);
        p.forward.v = of_v().view(v);
        p.forward.lse = dense_lse(extents(), nullptr, kHasF64Lse<T>, -INFINITY);
        p.y = of_y().view(y);
        p.dy = of_dy().view(dy);
        return p;
    }
};

}  // namespace bk

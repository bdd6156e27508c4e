// SPDX-License-Identifier: Apache-2.0
// Attention of one query row a sequence over contiguous keys, with strides, and optionally the attention weights and their
// mean over the heads.
#pragma once

#include <cstdint>

#include "attention/serving/paged.h"
#include "core/collectives/team.h"

namespace bk {

struct NamedStrideOf {
    const char* name;
    int64_t value;
};

// mean[b, j] = sum over h of weights[b, h, j] / heads, in order.
struct MeanOfHeadsJob {
    int64_t heads, keys, blocks;
    const float* weights;
    float* mean;

    static constexpr int64_t kChunk = 512;
    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t b = item / blocks, first = item % blocks * kChunk;
        const int64_t end = first + kChunk < keys ? first + kChunk : keys;
        for (int64_t j = first + team.rank; j < end; j += team.size) {
            float sum = 0;
            for (int64_t h = 0; h < heads; ++h) sum += weights[(b * heads + h) * keys + j];
            mean[b * keys + j] = sum / static_cast<float>(heads);
        }
    }
};

template <class T>
struct AttentionDecode {
    int32_t batch;
    int32_t heads;
    int32_t kv_heads;
    int32_t k_len;
    int32_t d_k;
    int32_t d_v;
    int64_t stride_q_b;
    int64_t stride_q_h;
    int64_t stride_k_b;
    int64_t stride_k_h;
    int64_t stride_k_s;
    int64_t stride_v_b;
    int64_t stride_v_h;
    int64_t stride_v_s;
    int64_t stride_y_b;
    int64_t stride_y_h;
    float scale;
    int32_t is_batch_invariant;

    Work work() const { return all_or_none(int64_t{batch} * heads); }
    Status check() const {
        BK_TRY(require_non_negative(
            {{"batch", batch}, {"heads", heads}, {"kv_heads", kv_heads}, {"k_len", k_len}, {"d_k", d_k}, {"d_v", d_v}}));
        BK_TRY(require_head_groups("heads", heads, "kv_heads", kv_heads));
        Operand y;
        BK_TRY(locate_dense(&y, "y", Role::kOutput, size_of<T>(), {{"batch", batch}, {"heads", heads}, {"d_v", d_v}}));
        const NamedStrideOf each[] = {{"stride_y_b", stride_y_b}, {"stride_y_h", stride_y_h}};
        const int32_t extents[] = {batch, heads};
        for (int d = 0; d < 2 && y.has_elements(); ++d)
            if (each[d].value == 0 && extents[d] > 1)
                return fail(Status::kInvalidProblem, "%s is 0, but an output has %d elements along that axis", each[d].name,
                            extents[d]);
        return Status::kOk;
    }
    Status locate_q(Operand* q, const char* name, Role role, int64_t size) const {
        return locate(q, name, role, size, {{"stride_q_b", stride_q_b}, {"stride_q_h", stride_q_h}, {"", 0}}, heads, 1, d_k);
    }
    Status locate_k(Operand* k, const char* name, Role role, int64_t size) const {
        return locate(k, name, role, size, {{"stride_k_b", stride_k_b}, {"stride_k_h", stride_k_h}, {"stride_k_s", stride_k_s}},
                      kv_heads, k_len, d_k);
    }
    Status locate_v(Operand* v, const char* name, Role role, int64_t size) const {
        return locate(v, name, role, size, {{"stride_v_b", stride_v_b}, {"stride_v_h", stride_v_h}, {"stride_v_s", stride_v_s}},
                      kv_heads, k_len, d_v);
    }
    Status locate_y(Operand* y, const char* name, Role role, int64_t size) const {
        return locate(y, name, role, size, {{"stride_y_b", stride_y_b}, {"stride_y_h", stride_y_h}, {"", 0}}, heads, 1, d_v);
    }
    AttentionForward<T> problem(const T* q, const T* k, const T* v, T* y, float* lse, float* weights) const {
        AttentionForward<T> p;
        p.batch = batch;
        p.heads = heads;
        p.kv_heads = kv_heads;
        p.d_k = d_k;
        p.d_v = d_v;
        p.lengths.q_len = 1;
        p.lengths.k_len = k_len;
        p.rules.scale = scale;
        p.is_batch_invariant = is_batch_invariant != 0;
        p.q = {q, stride_q_b, stride_q_h, d_k};
        p.k = {k, stride_k_b, stride_k_h, stride_k_s};
        p.v = {v, stride_v_b, stride_v_h, stride_v_s};
        p.y = {y, stride_y_b, stride_y_h, d_v};
        p.lse.data = lse;
        p.lse.empty = -kInfinity<float>;
        p.lse.batch = heads;
        p.lse.head = p.lse.row = 1;
        p.weights = {weights, weights == nullptr ? Values::kNone : Values::kF32};
        return p;
    }
    size_t workspace_size() const {
        return attention_forward_workspace<T>(problem(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
    }
    Status run(const T* q, const T* k, const T* v, T* y, float* lse, float* weights, float* mean_weights,
               const Launch& launch) const {
        if (mean_weights != nullptr && weights == nullptr)
            return fail(Status::kInvalidProblem, "weights is NULL, but mean_weights is not");
        BK_TRY(attention_forward<T>(launch, problem(q, k, v, y, lse, weights)));
        if (mean_weights == nullptr || k_len == 0) return Status::kOk;
        const int64_t blocks = ceil_div<int64_t>(k_len, MeanOfHeadsJob::kChunk);
        return run_teams(launch, batch * blocks, MeanOfHeadsJob::kChunk * heads * 4,
                         MeanOfHeadsJob{heads, k_len, blocks, weights, mean_weights});
    }

private:
    struct Strides {
        NamedStrideOf batch, head, row;
    };
    Status locate(Operand* operand, const char* name, Role role, int64_t size, const Strides& given, int32_t head_count,
                  int32_t rows, int32_t d) const {
        const int32_t shape[] = {batch, head_count, rows, d};
        const int64_t strides[] = {given.batch.value, given.head.value, given.row.value, 1};
        const NamedStrideOf named[] = {given.batch, given.head, given.row};
        for (int axis = 0; axis < 3; ++axis)  // separately, so that their sum fits 64 bits
            BK_TRY(locate_strided(operand, name, role, size, named[axis].name, 1, shape + axis, strides + axis, nullptr));
        BK_TRY(locate_strided(operand, name, role, size, given.batch.name, 4, shape, strides, nullptr));
        operand->rank = 0;
        operand->shape = nullptr;
        operand->strides = nullptr;
        return Status::kOk;
    }
};

// --- the reference's symbols ---

inline Status check_flash_decoding(int32_t batch, int32_t heads, int32_t num_kv_heads, int32_t k_len, int32_t head_dim) {
    BK_TRY(require_extents({{"batch", batch}, {"heads", heads}, {"num_kv_heads", num_kv_heads}, {"head_dim", head_dim}}));
    BK_TRY(require_head_groups("heads", heads, "num_kv_heads", num_kv_heads));
    return require_non_negative({{"k_len", k_len}});
}

// Bytes of m, l and o for splits of 256 keys.
inline size_t flash_decoding_workspace(int32_t batch, int32_t heads, int32_t k_len, int32_t head_dim) {
    if (batch <= 0 || heads <= 0 || k_len <= 0 || head_dim <= 0) return 0;
    size_t bytes = sizeof(float) * static_cast<size_t>(batch) * static_cast<size_t>(heads);
    bool fits = !__builtin_mul_overflow(bytes, static_cast<size_t>(ceil_div<int64_t>(k_len, 256)), &bytes);
    fits = !__builtin_mul_overflow(bytes, static_cast<size_t>(head_dim) + 2, &bytes) && fits;
    return fits ? bytes : 0;
}

template <class T>
Status run_flash_decoding(const void* q, const void* k, const void* v, void* y, void* a, void* a_mean, void* workspace,
                          size_t workspace_bytes, int32_t batch, int32_t heads, int32_t num_kv_heads, int32_t k_len,
                          int32_t head_dim, int64_t q_b_stride, int64_t q_h_stride, int64_t k_b_stride, int64_t k_h_stride,
                          int64_t k_seq_stride, int64_t v_b_stride, int64_t v_h_stride, int64_t v_seq_stride,
                          int64_t y_b_stride, int64_t y_h_stride, float scale, void* stream) {
    BK_TRY(check_flash_decoding(batch, heads, num_kv_heads, k_len < 0 ? 0 : k_len, head_dim));
    if (a_mean != nullptr && a == nullptr) return fail(Status::kInvalidProblem, "a is NULL, but a_mean is not");
    k_len = k_len < 0 ? 0 : k_len;
    BK_TRY(require_given({{"q", q, sizeof(T)}, {"y", y, sizeof(T)}}));
    if (k_len > 0) BK_TRY(require_given({{"k", k, sizeof(T)}, {"v", v, sizeof(T)}}));
    const size_t needed = flash_decoding_workspace(batch, heads, k_len, head_dim);
    if (needed > 0 && (workspace == nullptr || workspace_bytes < needed))
        return fail(Status::kWorkspaceTooSmall, "workspace has %zu bytes, needs %zu",
                    workspace == nullptr ? 0 : workspace_bytes, needed);
    const AttentionDecode<T> op{batch,      heads,        num_kv_heads, k_len,      head_dim,     head_dim,
                                q_b_stride, q_h_stride,   k_b_stride,   k_h_stride, k_seq_stride, v_b_stride,
                                v_h_stride, v_seq_stride, y_b_stride,   y_h_stride, scale,        0};
    return op.run(static_cast<const T*>(q), static_cast<const T*>(k), static_cast<const T*>(v), static_cast<T*>(y), nullptr,
                  static_cast<float*>(a), static_cast<float*>(a_mean), {workspace, workspace_bytes, stream});
}

}  // namespace bk

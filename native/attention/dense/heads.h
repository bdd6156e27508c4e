// SPDX-License-Identifier: Apache-2.0
// Operands [batch, head, row, element] of the dense entry points: checks, byte ranges, and views for the cores.
#pragma once

#include <cstdint>

#include "attention/flash/problem.h"
#include "core/abi/checks.h"
#include "core/abi/operand.h"
#include "core/abi/strided_args.h"

namespace bk {

// The extents of q, k, v and y; the query heads are a multiple of the key-value heads.
struct AttentionExtents {
    int64_t batch, heads, kv_heads, q_len, k_len, d_k, d_v;

    bool has_queries() const { return batch != 0 && heads != 0 && q_len != 0; }
    bool has_results() const { return has_queries() && d_v != 0; }
};

BK_COLD inline Status require_dense_extents(const AttentionExtents& e) {
    return require_non_negative(
        {{"batch", e.batch}, {"heads", e.heads}, {"q_len", e.q_len}, {"k_len", e.k_len}, {"d_k", e.d_k}, {"d_v", e.d_v}});
}

// The extents of one operand, and its strides along batch, heads and rows; elements of a row are adjacent.
struct HeadsLayout {
    int64_t batch, heads, rows, d;
    const char* strides_name = nullptr;
    const int64_t* strides = nullptr;  // null: row-major, or an absent array of an operand without elements

    bool is_empty() const { return batch == 0 || heads == 0 || rows == 0 || d == 0; }
    int64_t stride(int axis) const {
        if (strides != nullptr) return strides[axis];
        return axis == 2 ? d : axis == 1 ? rows * d : heads * rows * d;
    }

    template <class E>
    HeadsView<E> view(E* data) const {
        if (is_empty()) return {data, 0, 0, 0};
        return {data, stride(0), stride(1), stride(2)};
    }

    BK_COLD Status locate(Operand* operand, const char* name, Role role, int64_t size) const {
        if (strides == nullptr) {
            const NamedExtent extents[] = {{"batch", batch}, {"heads", heads}, {"rows", rows}, {"d", d}};
            return locate_dense(operand, name, role, size, {extents[0], extents[1], extents[2], extents[3]});
        }
        const int32_t shape[] = {static_cast<int32_t>(batch), static_cast<int32_t>(heads), static_cast<int32_t>(rows),
                                 static_cast<int32_t>(d)};
        const int64_t steps[] = {strides[0], strides[1], strides[2], 1};
        BK_TRY(locate_strided(operand, name, role, size, strides_name, 4, shape, steps, nullptr));
        operand->rank = 0;
        operand->shape = nullptr;
        operand->strides = nullptr;
        return Status::kOk;
    }

    // Rejects an absent array of strides. An output also takes no stride of 0 along an axis of several elements.
    BK_COLD Status require_strides(bool is_output) const {
        if (is_empty()) return Status::kOk;
        if (strides == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", strides_name);
        const int32_t shape[] = {static_cast<int32_t>(batch), static_cast<int32_t>(heads), static_cast<int32_t>(rows)};
        return is_output ? require_distinct({strides_name, strides}, 3, shape) : Status::kOk;
    }
};

// Checks the strides of a forward op that has results.
BK_COLD inline Status require_forward_strides(const HeadsLayout& q, const HeadsLayout& k, const HeadsLayout& v,
                                              const HeadsLayout& y) {
    BK_TRY(q.require_strides(false));
    BK_TRY(k.require_strides(false));
    BK_TRY(v.require_strides(false));
    return y.require_strides(true);
}

inline HeadsLayout queries(const AttentionExtents& e) { return {e.batch, e.heads, e.q_len, e.d_k}; }
inline HeadsLayout keys(const AttentionExtents& e) { return {e.batch, e.kv_heads, e.k_len, e.d_k}; }
inline HeadsLayout values(const AttentionExtents& e) { return {e.batch, e.kv_heads, e.k_len, e.d_v}; }
inline HeadsLayout results(const AttentionExtents& e) { return {e.batch, e.heads, e.q_len, e.d_v}; }
inline HeadsLayout with_strides(HeadsLayout layout, const char* name, const int64_t* strides) {
    layout.strides_name = name;
    layout.strides = strides;
    return layout;
}

// The extents of a forward problem; its operands are added by the entry point.
template <class T>
AttentionForward<T> forward_of(const AttentionExtents& e, float scale) {
    AttentionForward<T> p;
    p.batch = e.batch;
    p.heads = e.heads;
    p.kv_heads = e.kv_heads;
    p.d_k = e.d_k;
    p.d_v = e.d_v;
    p.lengths.q_len = e.q_len;
    p.lengths.k_len = e.k_len;
    p.rules.scale = scale;
    return p;
}

// lse [batch, heads, q_len], contiguous.
inline LseView dense_lse(const AttentionExtents& e, void* lse, bool is_element, float empty) {
    return {lse, is_element, false, empty, e.heads * e.q_len, e.q_len, 1};
}

// An operand of scores [batch, heads, q_len, k_len], contiguous.
inline ScoresView dense_scores(const AttentionExtents& e, const void* data, Values values) {
    const int64_t head = e.q_len * e.k_len;
    return {data, values, e.heads * head, head, e.k_len, 1};
}

}  // namespace bk

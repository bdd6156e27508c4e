// SPDX-License-Identifier: Apache-2.0
// Products by expert: dispatches of tokens to experts, as mixtures of experts make them.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "quantize/products/dense_batch.h"
#include "quantize/products/mmvq.h"

namespace bk {

// The number of dispatches is that of the workspace's words; the words themselves are not used.
inline int64_t dispatches_of(size_t workspace_bytes) { return static_cast<int64_t>(workspace_bytes / sizeof(int32_t)); }

inline Status require_positive_extents(std::initializer_list<NamedExtent> extents) {
    for (const NamedExtent& e : extents)
        if (e.value <= 0)
            return fail(Status::kInvalidProblem, "%s is %lld, must be > 0", e.name, static_cast<long long>(e.value));
    return Status::kOk;
}

struct ExpertOperand {
    const char* name;
    const void* pointer;
    size_t alignment;
};

inline Status require_given(std::initializer_list<ExpertOperand> pointers) {
    for (const ExpertOperand& p : pointers) {
        if (p.pointer == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", p.name);
        if (reinterpret_cast<uintptr_t>(p.pointer) % p.alignment != 0)
            return fail(Status::kMisaligned, "%s is %p, must be aligned to %zu bytes", p.name, p.pointer, p.alignment);
    }
    return Status::kOk;
}

// Rows of dense weights have elements of T.
template <class T>
struct DenseFormat {
    static constexpr int kBlock = 1;
};

// Checks of extents alone: what can_implement can say.
template <class Format>
Status mmvq_batched_check(int32_t n_experts, int32_t n_rows_per_expert, int32_t n_cols, const void*, const void*,
                          const int32_t*, const int32_t*, const float*, const void*, int32_t) {
    BK_TRY(require_non_negative({{"n_experts", n_experts}, {"n_rows_per_expert", n_rows_per_expert}, {"n_cols", n_cols}}));
    return require_blocks<Format>("n_cols", n_cols);
}

template <class Format, class T>
Status mmvq_batched(int32_t n_experts, int32_t n_rows_per_expert, int32_t n_cols, const void* weights, const void* activations,
                    const int32_t* sorted_token_ids, const int32_t* expert_offsets, const float* topk_weights, void* output,
                    int32_t top_k, void* workspace, size_t workspace_bytes, void* stream) {
    BK_TRY(require_positive_extents({{"n_experts", n_experts}, {"n_rows_per_expert", n_rows_per_expert}, {"n_cols", n_cols}}));
    BK_TRY(require_blocks<Format>("n_cols", n_cols));
    BK_TRY(require_given({{"weights", weights, Format::kBlock == 1 ? sizeof(T) : 1},
                          {"activations", activations, sizeof(T)},
                          {"sorted_token_ids", sorted_token_ids, sizeof(int32_t)},
                          {"expert_offsets", expert_offsets, sizeof(int32_t)},
                          {"output", output, sizeof(T)}}));
    if (topk_weights != nullptr) BK_TRY(require_given({{"topk_weights", topk_weights, sizeof(float)}}));
    const int64_t count = dispatches_of(workspace_bytes);
    if (count == 0) return Status::kOk;
    if (workspace == nullptr)
        return fail(Status::kWorkspaceTooSmall, "workspace is NULL, but workspace_bytes is %zu: 4 for each dispatch",
                    workspace_bytes);
    const Dispatches dispatches{count, n_experts, sorted_token_ids, expert_offsets, topk_weights, top_k > 1};
    const Launch launch{workspace, workspace_bytes, stream};
    const BlockProduct product{0,
                               n_rows_per_expert,
                               n_cols,
                               static_cast<const uint8_t*>(weights),
                               activations,
                               output,
                               nullptr,
                               n_cols,
                               1,
                               n_rows_per_expert,
                               kFloatDtype<T>,
                               dispatches};
    if constexpr (Format::kBlock == 1)
        return dense_dispatches(launch, product);
    else
        return block_product<Format>(launch, product);
}

}  // namespace bk

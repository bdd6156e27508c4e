// SPDX-License-Identifier: Apache-2.0
// Products of rows with the matrix of their expert, rows gathered and results scattered by id:
//
//   out[t] = w_t W[e] x[r],  t = ids[p], r = t / topk and w_t = 1 without weights, else r = t and w_t = topk_weights[t]
//
// W[e] is [n, k], of f16 or bf16 or in a GGUF format. Results are not summed over the slots of a token. An id outside of [0,
// m), or a position without an expert, writes nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/codec/formats.h"
#include "core/types/dtype.h"
#include "moe/checks.h"

namespace bk::moe {

// Numbers of gguf_dtype, those to kQ6K the reference's, and kDense.
enum class WeightFormat : int32_t { kDense = -1, kQ80, kQ4K, kQ2K, kQ3K, kQ5K, kQ6K, kMxfp4, kNvfp4 };
constexpr int32_t kWeightFormats = 8;
enum class RowType : int32_t { kF32, kF16, kBf16 };

template <class T>
constexpr RowType kRowType = std::is_same_v<T, float> ? RowType::kF32
                             : std::is_same_v<T, f16> ? RowType::kF16
                                                      : RowType::kBf16;

// body(format) with the codec.
template <class Body>
BK_HD void with_format(WeightFormat format, const Body& body) {
    switch (format) {
        case WeightFormat::kQ80: return body(codec::Q80{});
        case WeightFormat::kQ4K: return body(codec::Q4K{});
        case WeightFormat::kQ2K: return body(codec::Q2K{});
        case WeightFormat::kQ3K: return body(codec::Q3K{});
        case WeightFormat::kQ5K: return body(codec::Q5K{});
        case WeightFormat::kQ6K: return body(codec::Q6K{});
        case WeightFormat::kMxfp4: return body(codec::Mxfp4{});
        case WeightFormat::kNvfp4: return body(codec::Nvfp4{});
        case WeightFormat::kDense: return;
    }
}

// Values and bytes of a block; 0 of numbers that name no format.
inline codec::BlockSize block_of(WeightFormat format) {
    constexpr int32_t kGgmlTypes[kWeightFormats] = {8, 12, 10, 11, 13, 14, 39, 40};
    const auto number = static_cast<int32_t>(format);
    return number < 0 || number >= kWeightFormats ? codec::BlockSize{0, 0} : codec::BlockSize::of(kGgmlTypes[number]);
}
inline int64_t row_bytes_of(WeightFormat format, int64_t k) {
    const codec::BlockSize block = block_of(format);
    return block.values == 0 ? 0 : k / block.values * block.bytes;
}

struct ExpertProduct {
    const void *x, *weights;
    void* out;
    RowType x_type, out_type;  // dense weights have x_type
    WeightFormat format;
    const int32_t *ids, *expert_of;
    const float* topk_weights;  // or null
    int64_t experts, topk, m, n, k, row_bytes;
    bool is_aligned;  // blocks of weights lie on multiples of 4 bytes, where those of their format do

    // Row of x of the id, and its weight.
    BK_HD bool has(int32_t id) const { return id >= 0 && id < m; }
    BK_HD int64_t row_of(int32_t id) const { return topk_weights != nullptr ? id : id / topk; }
    BK_HD float weight_of(int32_t id) const { return topk_weights != nullptr ? topk_weights[id] : 1.0f; }
    BK_HD const uint8_t* weight_row(int64_t expert, int64_t j) const {
        return static_cast<const uint8_t*>(weights) + (expert * n + j) * row_bytes;
    }
};

// Positions of expert e are offsets[e] to offsets[e + 1]; counts and offsets are stored, by a histogram of expert_of.
inline Status product_by_segments(const Launch& launch, const ExpertProduct& product, int32_t* counts, int32_t* offsets);

// Each position by itself: expert_of needs no order. x and out are f32.
inline Status product_by_positions(const Launch& launch, const ExpertProduct& product);

// Extents of a product, and its operands but for weights and results.
struct ProductExtents {
    int32_t num_experts, topk, size_m, size_n, size_k;

    int64_t tokens() const { return ceil_div<int64_t>(size_m, topk > 0 ? topk : 1); }
    int64_t offset_count() const { return int64_t{num_experts} + 1; }
    Status check_extents() const {
        return require_positive(
            {{"num_experts", num_experts}, {"topk", topk}, {"size_m", size_m}, {"size_n", size_n}, {"size_k", size_k}});
    }
    Status check_segments() const {
        BK_TRY(check_extents());
        if (topk <= num_experts) return Status::kOk;
        return fail(Status::kInvalidProblem, "topk is %d, must be <= num_experts, %d", topk, num_experts);
    }
    Status check_format(int32_t gguf_dtype) const {
        const int64_t block = block_of(static_cast<WeightFormat>(gguf_dtype)).values;
        if (block == 0) return fail(Status::kUnsupported, "gguf_dtype is %d, must be in [0, 7]", gguf_dtype);
        if (size_k % block == 0) return Status::kOk;
        return fail(Status::kInvalidProblem, "size_k is %d, must be a multiple of %lld, the values of a block", size_k,
                    static_cast<long long>(block));
    }
    template <class T, class Out>
    ExpertProduct product(const T* input, const void* weights, WeightFormat format, const int32_t* ids,
                          const int32_t* expert_ids, const float* topk_weights, Out* output) const {
        ExpertProduct p{};
        p.x = input;
        p.weights = weights;
        p.out = output;
        p.x_type = kRowType<T>;
        p.out_type = kRowType<Out>;
        p.format = format;
        p.ids = ids;
        p.expert_of = expert_ids;
        p.topk_weights = topk_weights;
        p.experts = num_experts;
        p.topk = topk;
        p.m = size_m;
        p.n = size_n;
        p.k = size_k;
        p.is_aligned = reinterpret_cast<uintptr_t>(weights) % 4 == 0;
        p.row_bytes =
            format == WeightFormat::kDense ? int64_t{size_k} * static_cast<int64_t>(sizeof(T)) : row_bytes_of(format, size_k);
        return p;
    }
};

template <class T>
struct MoeWmma {
    int32_t num_experts, topk, size_m, size_n, size_k, is_prefill;

    ProductExtents extents() const { return {num_experts, topk, size_m, size_n, size_k}; }
    int64_t tokens() const { return extents().tokens(); }
    int64_t offset_count() const { return extents().offset_count(); }
    Work work() const { return Work::kAll; }
    size_t workspace_size() const { return 0; }
    Status check() const { return extents().check_segments(); }
    Status run(const T* input, const T* weights, const int32_t* sorted_token_ids, const int32_t* expert_ids,
               const float* topk_weights, T* output, int32_t* expert_counts, int32_t* expert_offsets,
               const Launch& launch) const {
        return product_by_segments(
            launch, extents().product(input, weights, WeightFormat::kDense, sorted_token_ids, expert_ids, topk_weights, output),
            expert_counts, expert_offsets);
    }
};

template <class T>
struct MoeWmmaGguf {
    int32_t num_experts, topk, size_m, size_n, size_k, gguf_dtype;

    ProductExtents extents() const { return {num_experts, topk, size_m, size_n, size_k}; }
    int64_t tokens() const { return extents().tokens(); }
    int64_t offset_count() const { return extents().offset_count(); }
    Work work() const { return Work::kAll; }
    size_t workspace_size() const { return 0; }
    WeightFormat format() const { return static_cast<WeightFormat>(gguf_dtype); }
    int64_t row_bytes() const { return row_bytes_of(format(), size_k); }
    Status check() const {
        BK_TRY(extents().check_segments());
        return extents().check_format(gguf_dtype);
    }
    Status run(const T* input, const uint8_t* weights, const int32_t* sorted_token_ids, const int32_t* expert_ids,
               const float* topk_weights, float* output, int32_t* expert_counts, int32_t* expert_offsets,
               const Launch& launch) const {
        return product_by_segments(
            launch, extents().product(input, weights, format(), sorted_token_ids, expert_ids, topk_weights, output),
            expert_counts, expert_offsets);
    }
};

struct MoeScalarGguf {
    int32_t num_experts, topk, size_m, size_n, size_k, gguf_dtype;

    ProductExtents extents() const { return {num_experts, topk, size_m, size_n, size_k}; }
    int64_t tokens() const { return extents().tokens(); }
    Work work() const { return Work::kAll; }
    size_t workspace_size() const { return 0; }
    WeightFormat format() const { return static_cast<WeightFormat>(gguf_dtype); }
    int64_t row_bytes() const { return row_bytes_of(format(), size_k); }
    Status check() const {
        BK_TRY(extents().check_extents());
        return extents().check_format(gguf_dtype);
    }
    Status run(const float* inputs, const uint8_t* weights, const int32_t* sorted_token_ids, const int32_t* expert_ids,
               const float* topk_weights, float* outputs, const Launch& launch) const {
        return product_by_positions(
            launch, extents().product(inputs, weights, format(), sorted_token_ids, expert_ids, topk_weights, outputs));
    }
};

}  // namespace bk::moe

#if BK_CUDA
#include "moe/expert_product_cuda.cuh"
#else
#include "moe/expert_product_cpu.h"
#endif

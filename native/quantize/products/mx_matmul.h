// SPDX-License-Identifier: Apache-2.0
// y = x w^T + bias with weights in MX formats or NVFP4, as quantize_mx writes them: codes, and scales in an array of their own.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/codec/mx.h"
#include "quantize/decoded/decoded_product.h"
#include "quantize/floats/mx.h"
#include "quantize/products/block_product.h"

namespace bk {

struct MxProduct : BlockProduct {
    codec::MxFormat format_of_codes;
    codec::ScaleMap scale_map;
    const uint8_t* scales;
    const float* tensor_scale;  // of NVFP4; null is 1

    BK_HD codec::MxLayout layout() const { return {format_of_codes}; }
    BK_HD int64_t row_bytes() const { return k / layout().block() * layout().bytes(); }
};

template <class T>
Status mx_product(const Launch& launch, const MxProduct& p);

template <class T>
struct MxMatmul {
    int64_t m, n, k;
    int32_t mx_format, scale_layout, backend;

    int64_t code_bytes() const { return floats::MxShape::bytes(k, mx_format); }
    codec::ScaleMap scale_map() const { return floats::MxShape::scales(n, k, mx_format, scale_layout); }
    int64_t scale_rows() const { return scale_map().padded_rows(); }
    int64_t scale_columns() const { return scale_map().padded_blocks(); }
    Work work() const { return m == 0 || n == 0 ? Work::kNone : Work::kAll; }
    Status check() const {
        BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}}));
        BK_TRY(floats::require_mx_format(mx_format));
        BK_TRY(floats::require_member("scale_layout", scale_layout, 2));
        BK_TRY(require_product_backend(backend));
        const int block = floats::MxShape::layout(mx_format).block();
        if (k % block != 0)
            return fail(Status::kInvalidProblem, "k is %lld, must be a multiple of %d, the format's block",
                        static_cast<long long>(k), block);
        return Status::kOk;
    }
    // A pass has eight rows, or 32 of weights of four bits with x of f16 or bf16 (quantize/floats/few_rows.h).
    DecodedProduct decoded() const {
        const bool has_few_rows = sizeof(T) == 2 && floats::MxShape::layout(mx_format).bits() == 4;
        const CodedPasses passes = has_few_rows ? CodedPasses{32, 1.2, 0} : CodedPasses{8, 1.1, 0.29};
        return {m, n, k, n * code_bytes() + scale_map().count(), backend, passes};
    }
    size_t workspace_size() const { return DecodedWorkspace<T>(decoded(), nullptr).bytes; }
    Status run(const T* x, const uint8_t* codes, const uint8_t* scales, const float* tensor_scale, const T* bias, T* y,
               const Launch& launch) const {
        bool is_done = false;
        const auto decode = [&](T* weights) {
            const floats::DequantizeMx<T> mx{static_cast<int32_t>(n), static_cast<int32_t>(k), mx_format, scale_layout};
            return mx.run(codes, scales, tensor_scale, weights, launch);
        };
        BK_TRY(multiply_by_decoding(launch, decoded(), x, bias, y, decode, &is_done));
        if (is_done) return Status::kOk;
        const BlockProduct product{m, n, k, codes, x, y, bias, k, 1, n, kFloatDtype<T>, {}, backend};
        return mx_product<T>(launch, {product, static_cast<codec::MxFormat>(mx_format), scale_map(), scales, tensor_scale});
    }
};

}  // namespace bk

#if BK_CUDA
#include "quantize/products/mx_matmul_cuda.cuh"
#else
#include "quantize/products/mx_matmul_cpu.h"
#endif

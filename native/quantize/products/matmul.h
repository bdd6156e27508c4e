// SPDX-License-Identifier: Apache-2.0
// y = x w^T + bias with weights of any block format, chosen at run time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "quantize/blocks/dequantize.h"
#include "quantize/decoded/decoded_product.h"
#include "quantize/products/formats.h"
#include "quantize/products/mmvq.h"

namespace bk {

template <class T>
struct QuantizedMatmul {
    int64_t m, n, k;
    int32_t format, backend;

    int64_t row_bytes() const {
        const codec::BlockSize block = codec::BlockSize::of(format);
        return block.values == 0 ? 0 : k / block.values * block.bytes;
    }
    Work work() const { return m == 0 || n == 0 ? Work::kNone : Work::kAll; }
    Status check() const {
        BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}}));
        BK_TRY(require_product_backend(backend));
        return with_product_format(format,
                                   [&](auto chosen) { return require_blocks<typename decltype(chosen)::type>("k", k); });
    }
    // A pass has columns for 32 rows of bf16, and two columns for a row of f16, or three of f32 (one row of q4_K: 0.5).
    DecodedProduct decoded() const {
        constexpr int64_t kColumns = kFloatDtype<T> == FloatDtype::kF32 ? 3 : kFloatDtype<T> == FloatDtype::kF16 ? 2 : 1;
        return {m, n, k, n * row_bytes(), backend, {32 / kColumns, 0.9, 0.0}};
    }
    size_t workspace_size() const { return DecodedWorkspace<T>(decoded(), nullptr).bytes; }
    Status run(const T* x, const uint8_t* w, const T* bias, T* y, const Launch& launch) const {
        bool is_done = false;
        const DequantizeBlocks<T> blocks{n, k, format};
        BK_TRY(multiply_by_decoding(
            launch, decoded(), x, bias, y, [&](T* weights) { return blocks.run(w, weights, launch); }, &is_done));
        if (is_done) return Status::kOk;
        return with_product_format(format, [&](auto chosen) {
            using Format = typename decltype(chosen)::type;
            return block_product<Format>(launch, {m, n, k, w, x, y, bias, k, 1, n, kFloatDtype<T>, {}, backend, format});
        });
    }
};

}  // namespace bk

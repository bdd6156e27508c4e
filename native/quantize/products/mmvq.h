// SPDX-License-Identifier: Apache-2.0
// Ops of products.abi: checks of vectors and small batches times quantised weights.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/operand.h"
#include "core/codec/gguf_k.h"
#include "core/codec/gguf_legacy.h"
#include "quantize/products/block_product.h"

namespace bk {

template <class Format>
Status require_blocks(const char* name, int64_t k) {
    if (k % Format::kBlock == 0) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %lld, must be a multiple of %d, a block", name, static_cast<long long>(k),
                Format::kBlock);
}

// Rows of weights as bytes that begin `offset` bytes from the pointer.
inline Status locate_weights(Operand* operand, const char* name, Role role, int64_t size, NamedExtent rows, int64_t row_bytes,
                             const char* offset_name, int64_t offset) {
    BK_TRY(locate_dense(operand, name, role, size, {rows, {"ncols", row_bytes}}));
    if (offset < -kMaxOperandBytes || offset > kMaxOperandBytes)
        return fail(Status::kInvalidProblem, "%s is %lld, must be within 2^47", offset_name, static_cast<long long>(offset));
    if (operand->has_elements()) {
        operand->low += offset;
        operand->high += offset;
        operand->origin = offset;
    }
    return Status::kOk;
}

// dst[r] = sum over c of w[r, c] y[c].
template <class Format, class T>
struct Mmvq {
    int32_t ncols, nrows;

    int64_t row_bytes() const { return int64_t{ncols} / Format::kBlock * Format::kBytes; }
    Work work() const { return nrows == 0 ? Work::kNone : ncols == 0 ? Work::kZeros : Work::kAll; }
    Status check() const {
        BK_TRY(require_non_negative({{"ncols", ncols}, {"nrows", nrows}}));
        return require_blocks<Format>("ncols", ncols);
    }
    Status run(const uint8_t* x, const T* y, T* dst, const Launch& launch) const {
        return block_product<Format>(launch, {1, nrows, ncols, x, y, dst, nullptr, ncols, 1, nrows, kFloatDtype<T>});
    }
};

// A product with strided y, with weights that begin in the middle of an allocation.
template <class Format, class T>
struct MmvqActstrided {
    int32_t ncols, nrows;
    int64_t w_start_byte_offset, stride_y;

    int64_t row_bytes() const { return int64_t{ncols} / Format::kBlock * Format::kBytes; }
    Work work() const { return Mmvq<Format, T>{ncols, nrows}.work(); }
    Status check() const { return Mmvq<Format, T>{ncols, nrows}.check(); }
    Status locate_x(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_weights(operand, name, role, size, {"nrows", nrows}, row_bytes(), "w_start_byte_offset",
                              w_start_byte_offset);
    }
    Status locate_y(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_strided(operand, name, role, size, "stride_y", 1, &ncols, &stride_y, nullptr);
    }
    Status run(const uint8_t* x, const T* y, T* dst, const Launch& launch) const {
        const uint8_t* const weights = x + w_start_byte_offset;
        return block_product<Format>(launch, {1, nrows, ncols, weights, y, dst, nullptr, 0, stride_y, nrows, kFloatDtype<T>});
    }
};

// dst[i, r] = sum over c of w[r, c] x[i, c] of kRows rows of q8_1 blocks.
template <class Format, int kRows>
struct MmvqMultiM {
    int32_t ncols_x, nrows_x;
    int64_t w_start_byte_offset;

    int32_t rows() const { return kRows; }
    int64_t row_bytes() const { return int64_t{ncols_x} / Format::kBlock * Format::kBytes; }
    int64_t activation_bytes() const { return int64_t{ncols_x} / codec::Q81::kBlock * codec::Q81::kBytes; }
    Work work() const { return nrows_x == 0 ? Work::kNone : ncols_x == 0 ? Work::kZeros : Work::kAll; }
    Status check() const {
        BK_TRY(require_non_negative({{"ncols_x", ncols_x}, {"nrows_x", nrows_x}}));
        return require_blocks<Format>("ncols_x", ncols_x);
    }
    Status locate_w_ptr(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_weights(operand, name, role, size, {"nrows_x", nrows_x}, row_bytes(), "w_start_byte_offset",
                              w_start_byte_offset);
    }
    Status run(const uint8_t* w_ptr, const uint8_t* activations_q8_1, float* dst, const Launch& launch) const {
        const uint8_t* const weights = w_ptr + w_start_byte_offset;
        return block_dots<Format>(launch, {kRows, nrows_x, ncols_x, weights, activations_q8_1, dst});
    }
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Blocks of a quantised matrix, all rows or those that an index array names, and the dtype of their values.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/codec/formats.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

// Row r of the result is row index[r] of the blocks, or zeros if there is none; row r itself without an index.
struct EncodedRows {
    const uint8_t* blocks;
    const void* index;  // i64 if is_wide, else i32; may be null
    bool is_wide;
    int64_t rows, blocks_per_row, source_rows;

    int64_t count() const { return rows * blocks_per_row; }
    BK_HD int64_t source_row(int64_t row) const {
        if (index == nullptr) return row;
        return is_wide ? static_cast<const int64_t*>(index)[row] : int64_t{static_cast<const int32_t*>(index)[row]};
    }
    BK_HD bool has(int64_t row) const { return row >= 0 && row < source_rows; }
};

enum class FloatKind : int32_t { kF32, kF16, kBf16 };

template <class T>
constexpr FloatKind kFloatKind = std::is_same_v<T, float> ? FloatKind::kF32
                                 : std::is_same_v<T, f16> ? FloatKind::kF16
                                                          : FloatKind::kBf16;

// Floats of a dtype that is known at run time.
struct FloatArray {
    void* data;
    FloatKind kind;

    template <class T>
    static FloatArray of(T* data) {
        return {data, kFloatKind<T>};
    }
};

// Values of `blocks` in their order, decoded in f32 and rounded once.
template <class Format>
Status dequantize_rows(const Launch& launch, const EncodedRows& blocks, const FloatArray& y);

// Rejects an extent that is no multiple of the format's block.
BK_COLD inline Status require_whole_blocks(const char* name, int64_t values, int32_t block) {
    BK_TRY(require_non_negative({{name, values}}));
    if (values % block != 0)
        return fail(Status::kInvalidProblem, "%s is %lld, must be a multiple of %d, the values of a block", name,
                    static_cast<long long>(values), block);
    return Status::kOk;
}

}  // namespace bk

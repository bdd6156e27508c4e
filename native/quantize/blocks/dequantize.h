// SPDX-License-Identifier: Apache-2.0
// Dequantisation of block formats: of one named format, and of any format by its GGML type id, as rows or gathered.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "quantize/blocks/block_rows.h"

namespace bk {

template <class Format>
struct DequantizeFormat {
    int64_t numel;

    Status check() const {
        if (numel > kMaxOperandBytes / 4)
            return fail(Status::kInvalidProblem, "numel is %lld: y would have more than 2^47 bytes",
                        static_cast<long long>(numel));
        return require_whole_blocks("numel", numel, Format::kBlock);
    }
    Work work() const { return all_or_none(numel); }
    int64_t byte_count() const { return numel / Format::kBlock * Format::kBytes; }
    Status run(const uint8_t* x, float* y, const Launch& launch) const {
        const EncodedRows blocks{x, nullptr, false, 1, numel / Format::kBlock, 1};
        return dequantize_rows<Format>(launch, blocks, FloatArray::of(y));
    }
};

template <class T>
struct DequantizeBlocks {
    int64_t rows, columns;
    int32_t format;

    Status check() const {
        BK_TRY(require_non_negative({{"rows", rows}}));
        return codec::Formats::with(
            format, [&](auto numbered) { return require_whole_blocks("columns", columns, decltype(numbered)::type::kBlock); });
    }
    Work work() const { return all_or_none(rows > 0 ? columns : 0); }
    int64_t row_bytes() const {
        const codec::BlockSize block = codec::BlockSize::of(format);
        return columns / block.values * block.bytes;
    }
    Status run(const uint8_t* x, T* y, const Launch& launch) const {
        return codec::Formats::with(format, [&](auto numbered) {
            using Format = typename decltype(numbered)::type;
            const EncodedRows blocks{x, nullptr, false, 1, rows * (columns / Format::kBlock), 1};
            return dequantize_rows<Format>(launch, blocks, FloatArray::of(y));
        });
    }
};

template <class T, class I>
struct TakeBlocks {
    int64_t num_indices, num_rows, columns;
    int32_t format;

    Status check() const {
        BK_TRY(require_non_negative({{"num_indices", num_indices}, {"num_rows", num_rows}}));
        return codec::Formats::with(
            format, [&](auto numbered) { return require_whole_blocks("columns", columns, decltype(numbered)::type::kBlock); });
    }
    Work work() const {
        if (num_indices == 0 || columns == 0) return Work::kNone;
        return num_rows == 0 ? Work::kZeros : Work::kAll;
    }
    int64_t row_bytes() const { return DequantizeBlocks<T>{num_rows, columns, format}.row_bytes(); }
    Status run(const uint8_t* x, const I* indices, T* y, const Launch& launch) const {
        if (work() == Work::kZeros)
            return fill_bytes(launch, y, 0, sizeof(T) * static_cast<size_t>(num_indices) * static_cast<size_t>(columns));
        return codec::Formats::with(format, [&](auto numbered) {
            using Format = typename decltype(numbered)::type;
            const EncodedRows blocks{x, indices, sizeof(I) == 8, num_indices, columns / Format::kBlock, num_rows};
            return dequantize_rows<Format>(launch, blocks, FloatArray::of(y));
        });
    }
};

}  // namespace bk

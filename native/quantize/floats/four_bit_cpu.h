// SPDX-License-Identifier: Apache-2.0
// Products with weights of four bits and a code book on the CPU, by the tiles of quantize/products/dispatches_cpu.h. A value
// is its code's number times the magnitude of its block, rounded once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "quantize/floats/four_bit.h"
#include "quantize/products/codes_kernel_cpu.h"
#include "quantize/products/dispatches_cpu.h"

namespace bk::floats {

struct FourBitProduct : BlockProduct {
    FourBitWeights of;
    float book[codec::kBookCodes];
};

// Rows are told apart by pointers a byte apart, since rows of an odd k begin within a byte.
template <int>
struct FourBitRows {
    static int64_t row_bytes(const BlockProduct&) { return 1; }
    static void decode(const BlockProduct& product, const uint8_t* row, int64_t first, int64_t count, float* to) {
        const auto& p = static_cast<const FourBitProduct&>(product);
        const FourBitWeights& w = p.of;
        const int64_t index = row - p.weights;
        for (int64_t done = 0; done < count;) {
            const int64_t column = first + done, flat = index * w.k + column;
            const bool has_pairs = w.layout == FourBitLayout::kRowPairs;
            const int64_t at = has_pairs ? column : flat, length = std::min(count - done, w.block - at % w.block);
            decode_block(p, index, column, length, w.maxima.of(w.block_of(index, column)), to + done);
            done += length;
        }
    }

private:
    static void decode_block(const FourBitProduct& p, int64_t row, int64_t column, int64_t count, float scale, float* to) {
        const FourBitWeights& w = p.of;
        if (w.layout == FourBitLayout::kRowPairs)
            return expand_nibbles(w.codes + row / 2 * w.k + column, row % 2 == 0 ? Nibbles::kLow : Nibbles::kHigh, count,
                                  p.book, scale, to);
        int64_t flat = row * w.k + column, done = 0;
        if (flat % 2 != 0) to[done++] = math::product(p.book[w.codes[flat++ / 2] & 15], scale);
        const int64_t pairs = (count - done) / 2 * 2;
        expand_nibbles(w.codes + flat / 2, Nibbles::kHighFirst, pairs, p.book, scale, to + done);
        done += pairs;
        if (done < count) to[done] = math::product(p.book[w.codes[(flat + pairs) / 2] >> 4], scale);
    }
};

template <FourBitLayout, class T>
Status four_bit_product(const Launch&, const FourBitWeights& w, int64_t vectors, const T* y, T* out, const T* bias) {
    static const uint8_t none = 0;  // without codes k is 0
    const uint8_t* const rows = w.codes == nullptr ? &none : w.codes;
    FourBitProduct p{{vectors, w.n, w.k, rows, y, out, bias, w.k, 1, w.n, kFloatDtype<T>}, w, {}};
    for (int i = 0; i < codec::kBookCodes; ++i) p.book[i] = codec::code_book_value(w.book, i);
    return multiply_row_tiles<FourBitRows>(p);
}

}  // namespace bk::floats

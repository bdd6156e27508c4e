// SPDX-License-Identifier: Apache-2.0
// Products of few rows with weights of four bits.
#include "quantize/floats/few_rows_launch.cuh"

namespace bk::floats {

void set_book(FewRows& p, codec::CodeBook book) {
    if (book == codec::CodeBook::kFp4) {  // three times its values are exact
        for (int i = 0; i < codec::kBookCodes; ++i) p.values[i] = narrow<f16>(codec::code_book_value(book, i) * 3).bits;
        p.unit = 1.f / 3;
        p.low_unit = 0;
        return;
    }
    p.unit = 1;
    p.low_unit = 0x1p-18f;  // 128 of them are the last place of f16 below 1
    for (uint32_t& word : p.digits) word = 0;
    for (int i = 0; i < codec::kBookCodes; ++i) {
        const float value = codec::code_book_value(book, i);
        f16 below = narrow<f16>(value);
        if (widen(below) > value) below.bits = static_cast<uint16_t>(value < 0 ? below.bits + 1 : below.bits - 1);
        const float digit = (value - widen(below)) / p.low_unit + 0.5f;
        p.values[i] = below.bits;
        p.digits[i / 4] |= static_cast<uint32_t>(digit > 127 ? 127 : digit) << (8 * (i % 4));
    }
}

bool takes_few_rows(const FewRows& p) {
    const bool has_rows = p.layout != FewRowsLayout::kRowPairs || p.n % 2 == 0;
    return p.dtype != FloatDtype::kF32 && p.n > 0 && p.k > 0 && p.k % kFewStep == 0 && has_rows && is_aligned(p.codes, 16) &&
           has_shared(FewRowsShape<FewRowsLayout::kColumns, 1>::shared(few_rows_slices(p.k)));
}

Status few_rows_product(const Launch& launch, const FewRows& p) {
    switch (p.layout) {
        case FewRowsLayout::kColumns: return few_rows_of<FewRowsLayout::kColumns>(launch, p);
        case FewRowsLayout::kRowPairs: return few_rows_of<FewRowsLayout::kRowPairs>(launch, p);
        case FewRowsLayout::kMx32: return few_rows_of<FewRowsLayout::kMx32>(launch, p);
        default: return few_rows_of<FewRowsLayout::kMx16>(launch, p);
    }
}

}  // namespace bk::floats

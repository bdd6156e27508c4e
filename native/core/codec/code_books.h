// SPDX-License-Identifier: Apache-2.0
// Code books of 16 values in [-1, 1], which the largest magnitude of a block multiplies.
//
// NF4: quantiles of the normal distribution with an exact 0 (QLoRA, arXiv 2305.14314, appendix E), ascending.
// FP4: bitsandbytes' 4-bit float, a sign bit and the magnitudes 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6, 1/4.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk::codec {

enum class CodeBook : int32_t { kNf4, kFp4 };

constexpr int kBookCodes = 16;

BK_HD float code_book_value(CodeBook book, int code) {
    const float nf4[kBookCodes] = {-1.0f,
                                   -0.6961928009986877f,
                                   -0.5250730514526367f,
                                   -0.39491748809814453f,
                                   -0.28444138169288635f,
                                   -0.18477343022823334f,
                                   -0.09105003625154495f,
                                   0.0f,
                                   0.07958029955625534f,
                                   0.16093020141124725f,
                                   0.24611230194568634f,
                                   0.33791524171829224f,
                                   0.44070982933044434f,
                                   0.5626170039176941f,
                                   0.7229568362236023f,
                                   1.0f};
    const float magnitude[8] = {0.0f, 0.0625f / 12, 8.0f / 12, 1.0f, 4.0f / 12, 6.0f / 12, 2.0f / 12, 3.0f / 12};
    if (book == CodeBook::kNf4) return nf4[code];
    return code < 8 ? magnitude[code] : -magnitude[code - 8];
}

// Tables for the nearest code by binary search. Entry i of `above` is the largest f32 that is not above the midpoint of
// sorted values i and i + 1, so that ties go to the lower of two values, of FP4 to the smaller magnitude.
struct BookSearch {
    float above[16];  // the last entry only fills up
    int32_t codes[16];

    // Writes entry i.
    BK_HD void set(CodeBook book, int i) {
        const int ascending[8] = {0, 1, 6, 7, 4, 5, 2, 3};
        const int last = book == CodeBook::kNf4 ? 15 : 7;
        codes[i] = book == CodeBook::kNf4 ? i : ascending[i < 7 ? i : 7];
        above[i] = bit_cast<float>(0x7f800000u);
        if (i >= last) return;
        const int next = book == CodeBook::kNf4 ? i + 1 : ascending[i + 1];
        above[i] = below_midpoint(code_book_value(book, codes[i]), code_book_value(book, next));
    }

    // The code nearest to x, which is no NaN.
    BK_HD uint32_t nearest(CodeBook book, float x) const {
        const bool has_sign = book == CodeBook::kFp4 && x < 0.0f;
        const float y = has_sign ? -x : x;
        int at = y > above[7] ? 8 : 0;
        at += y > above[at + 3] ? 4 : 0;
        at += y > above[at + 1] ? 2 : 0;
        at += y > above[at] ? 1 : 0;
        return static_cast<uint32_t>(codes[at]) | (has_sign ? 8u : 0u);
    }

private:
    // The largest f32 at most (a + b) / 2: sums of two f32 are exact in f64 here.
    BK_HD static float below_midpoint(float a, float b) {
        const double midpoint = 0.5 * (static_cast<double>(a) + static_cast<double>(b));
        const float rounded = static_cast<float>(midpoint);
        if (static_cast<double>(rounded) <= midpoint) return rounded;
        const uint32_t bits = bit_cast<uint32_t>(rounded);
        return bit_cast<float>(rounded > 0.0f ? bits - 1 : bits + 1);
    }
};

}  // namespace bk::codec

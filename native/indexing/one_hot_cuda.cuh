// SPDX-License-Identifier: Apache-2.0
// A pointwise op without inputs: each output vector computes its own rows and columns, so that nothing is written
// twice.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/math/fastdiv.h"
#include "core/pointwise/pointwise.h"
#include "indexing/one_hot.h"

namespace bk {

// Fewer than 2^31 elements.
template <class Bits, class I>
struct OneHotFunctor {
    const I* src;
    uint32_t rows;
    FastDiv<uint32_t> classes;
    Bits one;

    struct Segment {
        const OneHotFunctor& fn;
        uint32_t row, column;
        static constexpr int64_t count = INT64_MAX;
        BK_HD Bits operator()(int64_t k) const {
            // From 32 classes on a vector spans at most two rows.
            const uint32_t classes = fn.classes.divisor(), at = column + static_cast<uint32_t>(k);
            uint32_t rows_down = at >= classes, class_of = rows_down ? at - classes : at;
            if (classes < 32) {
                const DivMod<uint32_t> split = fn.classes(at);
                rows_down = split.quotient;
                class_of = split.remainder;
            }
            const uint32_t from = row + rows_down < fn.rows ? row + rows_down : fn.rows - 1;
            return static_cast<int64_t>(fn.src[from]) == int64_t{class_of} ? fn.one : Bits{};
        }
    };
    BK_HD Segment at(int64_t i) const {
        const DivMod<uint32_t> split = classes(static_cast<uint32_t>(i));
        return {*this, split.quotient, split.remainder};
    }
};

template <class Bits, class I>
Status one_hot(const Launch& launch, int64_t numel, int32_t classes, const I* src, Bits* out, const Bits& one) {
    constexpr int64_t most = (int64_t{1} << 31) - 64;
    const int64_t whole = most / classes, rows = std::max<int64_t>(1, whole >= 256 ? whole / 256 * 256 : whole);
    for (int64_t row = 0; row * classes < numel; row += rows) {
        const int64_t count = std::min(numel - row * classes, rows * classes);
        const OneHotFunctor<Bits, I> fn{src + row, static_cast<uint32_t>(ceil_div<int64_t>(count, classes)),
                                        FastDiv<uint32_t>(classes), one};
        BK_TRY(pointwise(launch, count, fn, outputs(out + row * classes), inputs()));
    }
    return Status::kOk;
}

}  // namespace bk

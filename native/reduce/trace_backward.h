// SPDX-License-Identifier: Apache-2.0
// The gradient of the trace.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "core/pointwise/pointwise.h"

namespace bk {

// dy on the diagonal, 0 elsewhere.
template <class T>
struct DiagonalOf {
    using C = compute_t<T>;
    const T* dy;
    FastDiv<uint64_t> columns;

    struct Segment {
        static constexpr bool has_rare = false;
        int64_t count, diagonal;  // its index, or -1
        C value;
        BK_HD C operator()(int64_t k) const { return k == diagonal ? value : C(0); }
    };
    BK_HD Segment at(int64_t i) const {
        const DivMod<uint64_t> split = columns(static_cast<uint64_t>(i));
        const int64_t row = static_cast<int64_t>(split.quotient), column = static_cast<int64_t>(split.remainder);
        const int64_t left = static_cast<int64_t>(columns.divisor()) - column, diagonal = row - column;
        return {left, diagonal >= 0 && diagonal < left ? diagonal : -1, widen(*dy)};
    }
};

template <class T>
struct TraceBackward {
    int32_t rows;
    int32_t columns;

    Work work() const { return rows == 0 || columns == 0 ? Work::kNone : Work::kAll; }
    Status check() const { return require_non_negative({{"rows", rows}, {"columns", columns}}); }
    Status run(const T* dy, T* dx, const Launch& launch) const {
        const DiagonalOf<T> fn{dy, FastDiv<uint64_t>(columns)};
        return pointwise(launch, int64_t{rows} * columns, fn, outputs(dx), inputs());
    }
};

}  // namespace bk

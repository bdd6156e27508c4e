// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding with given tables of cosines and sines.
#pragma once

#include <cstdint>

#include "attention/rope/rotation.h"
#include "core/abi/checks.h"
#include "core/abi/launch.h"

namespace bk {

BK_COLD inline Status require_pairs(int32_t d) {
    if (d == 0 || d % 2 != 0) return fail(Status::kInvalidProblem, "d is %d, must be even and >= 2", d);
    return Status::kOk;
}

// Rows [bh, seq, d] with td = seq * d; U is the tables' dtype. With stride_b = 0 all bh share one table.
template <class T, class U, bool kSplit, bool kInverse>
struct RopeApply {
    int32_t bh;
    int32_t td;
    int32_t d;
    int32_t stride_b;

    Work work() const { return all_or_none(int64_t{bh} * td); }
    Status check() const {
        BK_TRY(require_non_negative({{"bh", bh}, {"td", td}, {"d", d}, {"stride_b", stride_b}}));
        BK_TRY(require_pairs(d));
        if (td % d != 0) return fail(Status::kInvalidProblem, "td is %d, must be a multiple of d, %d", td, d);
        return Status::kOk;
    }
    int64_t table_row() const { return td / 2; }
    Status run(const T* x, const U* cos_tab, const U* sin_tab, T* y, const Launch& launch) const {
        return rotate(launch, shape(), RotaryTables<U>{cos_tab, sin_tab, stride_b, d / 2}, x, y);
    }

private:
    RotaryShape shape() const {
        const bool shares = stride_b == 0;
        const RotaryStrides strides{shares ? 0 : int64_t{td}, 0, td, d};
        return {shares ? 1 : bh, 1, shares ? bh : 1, td / d, d / 2, 0, kSplit, kInverse, strides, strides};
    }
};

// Rows [t_outer, h_heads, d]: the heads of a token share its table row.
template <class T, class U, bool kSplit, bool kInverse>
struct RopeApplyThd {
    int32_t t_outer;
    int32_t h_heads;
    int32_t d;
    int32_t stride_b;

    Work work() const { return t_outer == 0 || h_heads == 0 ? Work::kNone : Work::kAll; }
    Status check() const {
        BK_TRY(require_non_negative({{"t_outer", t_outer}, {"h_heads", h_heads}, {"d", d}, {"stride_b", stride_b}}));
        return require_pairs(d);
    }
    int64_t table_row() const { return d / 2; }
    Status run(const T* x, const U* cos_tab, const U* sin_tab, T* y, const Launch& launch) const {
        return rotate(launch, shape(), RotaryTables<U>{cos_tab, sin_tab, 0, stride_b}, x, y);
    }

private:
    RotaryShape shape() const {
        const RotaryStrides strides{0, 0, d, int64_t{h_heads} * d};
        return {1, 1, h_heads, t_outer, d / 2, 0, kSplit, kInverse, strides, strides};
    }
};

}  // namespace bk

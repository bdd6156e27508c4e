// SPDX-License-Identifier: Apache-2.0
// Reductions of fused linear cross entropy: the scaled sum of row losses, and the number of targets not ignored.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/reduce/reduce.h"
#include "core/reduce/sums.h"

namespace bk {

BK_COLD inline ReduceAxes<1, 1> axes_of_rows(int64_t rows) {
    ReduceAxes<1, 1> axes;
    axes.reduced.append(rows, {1});
    return axes;
}

// out = denom_inv * sum of losses of dtype L, f32, or f64 if T is f64.
template <class T, class L = float>
struct FlceFinalize {
    using C = compute_t<T>;
    struct Sum {
        using Acc = SumAcc<C>;
        static constexpr bool ignores_index = true, may_be_lost = true;
        C scale;
        BK_HD Acc identity() const { return {0, 0}; }
        BK_HD void add(Acc& acc, int64_t, L x) const { acc.recent += static_cast<C>(x); }
        BK_HD void settle(Acc& acc, int64_t) const { acc = {acc.sum + acc.recent, 0}; }
        BK_HD Acc combine(const Acc& a, const Acc& b) const { return a + b; }
        BK_HD C finish(const Acc& acc, int64_t) const { return acc.times(scale); }

        BK_HD bool is_lost(const Acc& acc) const { return !is_finite(acc.sum); }
        BK_HD Acc start_again() const { return {0, 0}; }
        BK_HD void add_again(Acc& acc, int64_t, L x) const { acc.add_scaled(static_cast<C>(x)); }
        BK_HD Acc end_again(const Acc& acc) const { return acc.sealed(); }
    };

    int64_t n_rows;
    L denom_inv;

    Status check() const { return require_non_negative({{"n_rows", n_rows}}); }
    Work work() const { return n_rows == 0 ? Work::kZeros : Work::kAll; }
    Status run(const L* loss_1d, T* out, const Launch& launch) const {
        if (n_rows == 0) return write_zeros(launch, 1, out);
        return reduce(launch, axes_of_rows(n_rows), Sum{static_cast<C>(denom_inv)}, outputs(out), inputs(loss_1d));
    }
};

struct FlceCount {
    struct Count {
        struct Acc {
            int64_t count;
        };
        static constexpr bool ignores_index = true;
        int64_t ignored;
        BK_HD Acc identity() const { return {0}; }
        BK_HD void add(Acc& acc, int64_t, int64_t target) const { acc.count += target != ignored; }
        BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.count + b.count}; }
        BK_HD int64_t finish(const Acc& acc, int64_t) const { return acc.count; }
    };

    int32_t bt;
    int64_t ignore_index;

    Status check() const { return require_non_negative({{"bt", bt}}); }
    Work work() const { return bt == 0 ? Work::kZeros : Work::kAll; }
    Status run(const int64_t* target, int64_t* count_out, const Launch& launch) const {
        if (bt == 0) return write_zeros(launch, 1, count_out);
        return reduce(launch, axes_of_rows(bt), Count{ignore_index}, outputs(count_out), inputs(target));
    }
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Scatter-reduce: out[c with c[axis] = index[c]] = combine(itself, updates[c]), all duplicates combined. Indices
// outside [0, targets), and `dropped`, are skipped. A row scatter is the case of an index with stride 0 along the row.
//
// GPU without a workspace: atomics, each step rounded to T. With one: equal targets are grouped by a stable sort and
// combined in a fixed order in the compute type, rounded once. Many long fibers that are dense or adjacent are
// accumulated in shared memory and rounded once, with or without a workspace; in a fixed order, except sums of adjacent
// fibers without a workspace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/layout/layout.h"
#include "core/segmented/reduce_ops.h"
#include "core/types/dtype.h"
#include "core/types/vec.h"

namespace bk {

struct ScatterLayout {
    enum Operand { kUpdates, kIndex, kOut };

    Layout<3> cells;  // the axes of the updates without the scatter axis
    int64_t n;        // updates along the scatter axis
    int64_t step[3];
    int64_t targets;
    int64_t dropped;

    BK_HD bool keeps(int64_t index) const { return index >= 0 && index < targets && index != dropped; }

    int64_t fibers() const { return cells.numel(); }

    // All axes; out is broadcast (stride 0) along the scatter axis.
    Layout<3> all() const {
        Layout<3> all = cells;
        all.append(n, {step[kUpdates], step[kIndex], 0});
        return collapse(all);
    }

    // out spans the offsets [low, low + span).
    struct Extent {
        int64_t low, span;
    };
    Extent reach() const {
        int64_t low = 0, high = 0;
        const auto add = [&](int64_t extent, int64_t stride) { (stride < 0 ? low : high) += (extent - 1) * stride; };
        for (int d = 0; d < cells.rank; ++d) add(cells.extent[d], cells.stride[kOut][d]);
        add(targets, step[kOut]);
        return {low, high - low + 1};
    }
};

// The updates as a dense matrix: row r goes to row index[r % n] of block r / n of out, dense too.
struct ScatterRows {
    int64_t blocks, columns;  // columns == 0: not such a matrix

    static ScatterRows of(const ScatterLayout& s) {
        const Layout<3> c = collapse(s.cells);
        int at = c.rank;
        int64_t columns = 1;
        using L = ScatterLayout;
        if (at > 0 && c.stride[L::kUpdates][at - 1] == 1 && c.stride[L::kOut][at - 1] == 1 && c.stride[L::kIndex][at - 1] == 0)
            columns = c.extent[--at];
        int64_t blocks = 1;
        bool dense = s.step[L::kUpdates] == columns && s.step[L::kOut] == columns && s.step[L::kIndex] == 1;
        for (; at > 0; --at) {  // outer axes must be contiguous
            dense = dense && c.stride[L::kIndex][at - 1] == 0 && c.stride[L::kUpdates][at - 1] == blocks * s.n * columns &&
                    c.stride[L::kOut][at - 1] == blocks * s.targets * columns;
            blocks *= c.extent[at - 1];
        }
        constexpr int64_t limit = int64_t{1} << 31;
        dense = dense && s.n < limit && s.targets < limit - 1 && blocks < limit && blocks * s.n < limit &&
                blocks * s.targets < limit - 1;
        return {blocks, dense ? columns : 0};
    }
};

// A scatter operator is a trivially copyable struct of
//
//   C combine(C a, C b) const        two updates, or a cell and an update
//   C identity() const               neutral in combine()
//   Acc                              the accumulator of several updates: C, or Counted<C> for means
//   C finish(C cell, const Acc&) const       the new value of a cell
//
// ScatterOp supplies all but the first two.
template <class Op, class C>
struct ScatterOp {
    using Acc = C;
    BK_HD C finish(C cell, C all) const { return static_cast<const Op*>(this)->combine(cell, all); }
};

template <class C>
struct Counted {
    C sum;
    uint32_t count;
};

// The accumulator of one update, or of none.
template <class Op, class C>
BK_HD typename Op::Acc to_accumulator(const Op&, C x, bool is_update) {
    if constexpr (std::is_same_v<typename Op::Acc, C>)
        return x;
    else
        return {x, is_update};
}
// Whether an accumulator differs from that of no update.
template <class Op, class C>
BK_HD bool has_updates(const Op& op, C all) {
    return all != op.identity();
}
template <class Op, class C>
BK_HD bool has_updates(const Op&, const Counted<C>& all) {
    return all.count != 0;
}
template <class Op, class C>
BK_HD C combine_accumulators(const Op& op, C a, C b) {
    return op.combine(a, b);
}
template <class Op, class C>
BK_HD Counted<C> combine_accumulators(const Op& op, const Counted<C>& a, const Counted<C>& b) {
    return {op.combine(a.sum, b.sum), a.count + b.count};
}

// Integers wrap.
template <class C>
struct ScatterSum : ScatterOp<ScatterSum<C>, C> {
    static BK_HD C combine(C a, C b) { return static_cast<C>(static_cast<acc_t<C>>(a) + static_cast<acc_t<C>>(b)); }
    static BK_HD C identity() { return C(0); }
};

template <class C>
struct ScatterProduct : ScatterOp<ScatterProduct<C>, C> {
    static BK_HD C combine(C a, C b) { return static_cast<C>(static_cast<acc_t<C>>(a) * static_cast<acc_t<C>>(b)); }
    static BK_HD C identity() { return C(1); }
};

// NaN propagates.
template <class C>
struct ScatterMax : ScatterOp<ScatterMax<C>, C> {
    static BK_HD C combine(C a, C b) { return math::select(bool(int(b > a) | int(b != b)), b, a); }
    static BK_HD C identity() { return kLowest; }

private:
    using Limits = std::numeric_limits<C>;
    static constexpr C kLowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
};

template <class C>
struct ScatterMin : ScatterOp<ScatterMin<C>, C> {
    static BK_HD C combine(C a, C b) { return math::select(bool(int(b < a) | int(b != b)), b, a); }
    static BK_HD C identity() { return kGreatest; }

private:
    using Limits = std::numeric_limits<C>;
    static constexpr C kGreatest = Limits::has_infinity ? Limits::infinity() : Limits::max();
};

enum class Reduction : int32_t { kSum, kProd, kMean, kAmax, kAmin };

// The reduction is chosen at run time, so that a GPU has one kernel for all. A cell with updates is itself an operand
// if includes_self, else it is overwritten.
template <class C>
struct RuntimeScatterOp {
    using Acc = Counted<C>;
    Reduction reduction;
    bool includes_self, resets;

    BK_HD bool is_sum() const { return !resets && (reduction == Reduction::kSum || reduction == Reduction::kMean); }
    BK_HD C combine(C a, C b) const {
        switch (reduction) {
            case Reduction::kProd: return ScatterProduct<C>::combine(a, b);
            case Reduction::kAmax: return ScatterMax<C>::combine(a, b);
            case Reduction::kAmin: return ScatterMin<C>::combine(a, b);
            default: return ScatterSum<C>::combine(a, b);
        }
    }
    BK_HD C identity() const {
        switch (reduction) {
            case Reduction::kProd: return ScatterProduct<C>::identity();
            case Reduction::kAmax: return ScatterMax<C>::identity();
            case Reduction::kAmin: return ScatterMin<C>::identity();
            default: return C(0);
        }
    }
    BK_HD C finish(C cell, const Acc& all) const {
        const C sum = includes_self ? combine(cell, all.sum) : all.sum;
        return reduction == Reduction::kMean ? mean_of(sum, int64_t{all.count} + includes_self) : sum;
    }
    // Integer means round down.
    static BK_HD C mean_of(C sum, int64_t count) {
        if constexpr (std::is_integral_v<C>) {
            const int64_t quotient = int64_t{sum} / count;
            return static_cast<C>(quotient - (int64_t{sum} % count < 0));
        } else {
            return sum / static_cast<C>(count);
        }
    }
};

template <class Op>
constexpr bool kIsRuntimeScatterOp = false;
template <class C>
constexpr bool kIsRuntimeScatterOp<RuntimeScatterOp<C>> = true;

template <class Op>
constexpr bool kIsScatterSum = false;
template <class C>
constexpr bool kIsScatterSum<ScatterSum<C>> = true;

template <class Op, class T>
size_t scatter_reduce_workspace(const ScatterLayout& layout);

// No extent of the layout is 0. Ids: a pointer to integers, or an IdArray.
template <class Op, class T, class Ids>
Status scatter_reduce(const Launch& launch, const ScatterLayout& layout, const T* updates, Ids index, T* out,
                      const Op& op = Op{});

}  // namespace bk

#if BK_CUDA
#include "core/scatter/scatter_reduce_cuda.cuh"
#else
#include "core/scatter/scatter_reduce_cpu.h"
#endif

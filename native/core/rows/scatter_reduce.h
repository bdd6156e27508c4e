// The scatter skeleton: out[c with index[c] along an axis] = combine(itself, updates[c]), duplicates all combined.
//
// Indices outside [0, targets), and `dropped`, combine nothing. Rows by index are the case of an index that stands still
// along the row. Without a workspace a GPU combines by atomics, each result rounded to T; with one, equal targets are
// brought together by a stable sort and combined in a fixed order in the compute type, rounded once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/pointwise/layout.h"
#include "core/types/dtype.h"
#include "core/types/vec.h"

namespace bk {

struct ScatterLayout {
    enum Operand { kUpdates, kIndex, kOut };

    Layout<3> cells;  // the axes of the updates but for `axis`
    int64_t n;        // updates along the axis
    int64_t step[3];  // strides along it
    int64_t targets;  // elements of out along it
    int64_t dropped;

    BK_HD bool keeps(int64_t index) const { return index >= 0 && index < targets && index != dropped; }

    int64_t lines() const { return cells.numel(); }

    // All axes; out stands still along the scattered one.
    Layout<3> all() const {
        Layout<3> all = cells;
        all.append(n, {step[kUpdates], step[kIndex], 0});
        return collapse(all);
    }

    // Offsets [low, low + span) of out's elements.
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

// The updates as a dense matrix whose row r goes to a row of out, also dense: of block r / n, at the index of r % n.
struct ScatterRows {
    int64_t blocks, columns;  // no columns: it is none

    static ScatterRows of(const ScatterLayout& s) {
        const Layout<3> c = collapse(s.cells);
        int at = c.rank;
        int64_t columns = 1;
        using L = ScatterLayout;
        if (at > 0 && c.stride[L::kUpdates][at - 1] == 1 && c.stride[L::kOut][at - 1] == 1 && c.stride[L::kIndex][at - 1] == 0)
            columns = c.extent[--at];
        int64_t blocks = 1;
        bool dense = s.step[L::kUpdates] == columns && s.step[L::kOut] == columns && s.step[L::kIndex] == 1;
        for (; at > 0; --at) {  // of several axes each steps over the whole of the next
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

// What one thread combines of equal targets; `identity` changes nothing.
template <class C>
struct ScatterSum {
    static BK_HD C combine(C a, C b) { return a + b; }
    static BK_HD C identity() { return C(0); }
};

template <class C>
struct ScatterProduct {
    static BK_HD C combine(C a, C b) { return a * b; }
    static BK_HD C identity() { return C(1); }
};

// NaN wins.
template <class C>
struct ScatterMax {
    static BK_HD C combine(C a, C b) { return a != a || a > b ? a : b != b || b > a ? b : a; }
    static BK_HD C identity() {
        return std::numeric_limits<C>::has_infinity ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::lowest();
    }
};

template <class C>
struct ScatterMin {
    static BK_HD C combine(C a, C b) { return a != a || a < b ? a : b != b || b < a ? b : a; }
    static BK_HD C identity() {
        return std::numeric_limits<C>::has_infinity ? std::numeric_limits<C>::infinity() : std::numeric_limits<C>::max();
    }
};

template <class Op>
constexpr bool kIsScatterSum = false;
template <class C>
constexpr bool kIsScatterSum<ScatterSum<C>> = true;

template <class Op, class T, class I>
size_t scatter_reduce_workspace(const ScatterLayout& layout);

// No extent of the layout is 0.
template <class Op, class T, class I>
Status scatter_reduce(const Launch& launch, const ScatterLayout& layout, const T* updates, const I* index, T* out);

}  // namespace bk

#if BK_CUDA
#include "core/rows/scatter_reduce_cuda.cuh"
#else
#include "core/rows/scatter_reduce_cpu.h"
#endif

// Gradients of scatter_reduce: of what the cells had before, and of the updates.
//
// A cell and its updates share the gradient of a mean equally, and that of an extreme if they have it; NaN equals NaN
// here. A factor gets the product of the others, which is the product over the factor itself; beside one zero alone
// they are multiplied along the line, for that zero. What is counted of a cell's updates is kept in a workspace of 8
// bytes a cell, by a GPU in shared memory where lines are many; without either it is counted again wherever it is asked
// for.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/workspace.h"
#include "indexing/placed.h"
#include "indexing/scatter_reduce.h"

namespace bk {

template <class T>
struct ScatterGradient {
    using C = compute_t<T>;

    // Operands of the walks, beside two numbers: a place along the axis, and the line, which counts what lies beside
    // it.
    enum Operand { kDy, kX, kUpdates, kIndex, kY, kGradient, kAlong, kLine, kOperands };

    Reduction reduction;
    bool includes_self;
    int64_t n, targets;
    int64_t step[kGradient];  // strides along the axis of the first five
    const T* dy;
    const T* x;
    const T* updates;
    IdArray index;
    const T* y;
    const uint64_t* counts;          // [lines, targets]; null: there are none
    const uint32_t* near = nullptr;  // those of the one line that is asked for, in halves of 16 bits; null: there are none

    // The updates of a cell in the low half; in the high half those that share an extreme, or are 0.
    static BK_HD int64_t updates_of(uint64_t count) { return static_cast<int64_t>(count & 0xffffffffu); }
    static BK_HD int64_t marked_of(uint64_t count) { return static_cast<int64_t>(count >> 32); }

    // Of fewer than 2^16 updates.
    static BK_HD uint32_t in_halves(uint64_t count) { return static_cast<uint32_t>(count | count >> 16); }
    static BK_HD uint64_t of_halves(uint32_t count) { return (count & 0xffffu) | uint64_t{count >> 16} << 32; }

    static BK_HD bool same(C a, C b) { return a == b || (a != a && b != b); }
    BK_HD bool is_extreme() const { return reduction == Reduction::kAmax || reduction == Reduction::kAmin; }
    BK_HD bool keeps(int64_t i) const { return i >= 0 && i < targets; }
    BK_HD uint64_t amount(C update, C result) const {
        const bool marked = is_extreme() ? same(update, result) : reduction == Reduction::kProd && update == C(0);
        return uint64_t{1} | static_cast<uint64_t>(marked) << 32;
    }
    BK_HD uint64_t count(int64_t line, const T* own, IdArray ids, int64_t i, C result) const {
        if (near != nullptr) return of_halves(near[i]);
        if (counts != nullptr) return counts[line * targets + i];
        uint64_t found = 0;
        for (int64_t j = 0; j < n; ++j)
            if (ids[j * step[kIndex]] == i) found += amount(widen(own[j * step[kUpdates]]), result);
        return found;
    }
    // Of the updates of cell i of a line, but for the one at `left_out`.
    BK_HD C product(const T* own, IdArray ids, int64_t i, int64_t left_out) const {
        C all = 1;
        for (int64_t j = 0; j < n; ++j)
            if (j != left_out && ids[j * step[kIndex]] == i) all *= widen(own[j * step[kUpdates]]);
        return all;
    }

    // What an update adds to the count of a cell; the cell's place is -1 where there is none.
    template <class Offsets>
    BK_HD uint64_t counted(const Offsets& at, int64_t* place) const {
        const int64_t i = (index + signed_offset(at.of[kIndex]))[0];
        *place = keeps(i) ? signed_offset(at.of[kLine]) * targets + i : -1;
        if (!keeps(i)) return 0;
        if (!is_extreme() && reduction != Reduction::kProd) return 1;
        const C result = is_extreme() ? widen(y[signed_offset(at.of[kY]) + i * step[kY]]) : C(0);
        return amount(widen(updates[signed_offset(at.of[kUpdates])]), result);
    }

    template <class Offsets>
    BK_HD C of_update(const Offsets& at) const {
        const int64_t j = signed_offset(at.of[kAlong]), line = signed_offset(at.of[kLine]);
        const IdArray here = index + signed_offset(at.of[kIndex]), ids = here + -j * step[kIndex];
        const int64_t i = here[0];
        if (!keeps(i)) return 0;
        const C gradient = widen(dy[signed_offset(at.of[kDy]) + i * step[kDy]]);
        if (reduction == Reduction::kSum) return gradient;
        const T* const update = updates + signed_offset(at.of[kUpdates]);
        const T* const own = update - j * step[kUpdates];
        if (reduction == Reduction::kMean)
            return gradient / static_cast<C>(updates_of(count(line, own, ids, i, C(0))) + includes_self);
        const C u = widen(*update), result = widen(y[signed_offset(at.of[kY]) + i * step[kY]]);
        if (reduction == Reduction::kProd && u != C(0)) return gradient * (result / u);
        if (is_extreme() && !same(u, result)) return 0;
        const uint64_t found = count(line, own, ids, i, result);
        const C before = includes_self ? widen(x[signed_offset(at.of[kX]) + i * step[kX]]) : C(1);
        if (is_extreme()) return gradient / static_cast<C>(marked_of(found) + (includes_self && same(before, result)));
        if (marked_of(found) > 1 || before == C(0)) return gradient * result;
        return gradient * (before * product(own, ids, i, j));
    }

    template <class Offsets>
    BK_HD C of_cell(const Offsets& at) const {
        const int64_t i = signed_offset(at.of[kAlong]), line = signed_offset(at.of[kLine]);
        const C gradient = widen(dy[signed_offset(at.of[kDy])]);
        if (n == 0 || (includes_self && reduction == Reduction::kSum)) return gradient;
        const T* const own = updates + signed_offset(at.of[kUpdates]);
        const IdArray ids = index + signed_offset(at.of[kIndex]);
        if (!includes_self) return updates_of(count(line, own, ids, i, C(0))) == 0 ? gradient : C(0);
        if (reduction == Reduction::kMean) return gradient / static_cast<C>(updates_of(count(line, own, ids, i, C(0))) + 1);
        const C before = widen(x[signed_offset(at.of[kX])]), result = widen(y[signed_offset(at.of[kY])]);
        if (reduction == Reduction::kProd && before != C(0)) return gradient * (result / before);
        if (is_extreme() && !same(before, result)) return 0;
        const uint64_t found = count(line, own, ids, i, result);
        if (is_extreme()) return gradient / static_cast<C>(marked_of(found) + 1);
        return marked_of(found) > 0 ? gradient * result : gradient * product(own, ids, i, -1);
    }
};

// Over the updates, and over the cells that they may go to.
struct ScatterGradientLayout {
    Layout<8> updates, cells;
    int64_t count;                         // of cells
    Layout<8> update_lines, cell_lines;    // but for the axis
    int64_t next_update[8], next_cell[8];  // steps of the operands along it
};

inline size_t scatter_counts_bytes(int64_t cells) {
    Carver carver;
    carver.take<uint64_t>(cells);
    return carver.bytes();
}

template <class T>
bool counts_updates(const ScatterGradientLayout& layout, const ScatterGradient<T>& gradient) {
    return (gradient.reduction != Reduction::kSum || !gradient.includes_self) && layout.updates.numel() > 0;
}

// The counts in the caller's workspace; null where that has no room for them, or where nothing is to be counted.
template <class T>
uint64_t* find_scatter_counts(const Launch& launch, const ScatterGradientLayout& layout, const ScatterGradient<T>& gradient) {
    if (!counts_updates(layout, gradient) || !workspace_holds(launch, scatter_counts_bytes(layout.count))) return nullptr;
    return Carver(launch.workspace).take<uint64_t>(layout.count);
}

template <class T>
Status scatter_gradients(const Launch& launch, const ScatterGradientLayout& layout, ScatterGradient<T> gradient, T* dx,
                         T* dupdates);

template <class T, class I>
struct ScatterReduceBackward {
    int64_t upd_numel;
    int32_t rank;
    int32_t scatter_dim;
    int32_t out_dim_size;
    int32_t reduce;
    int32_t include_self;
    const int32_t* upd_shape;
    const int64_t* stride_dout;
    const int64_t* stride_x;
    const int64_t* stride_updates;
    const int64_t* stride_index;
    const int64_t* stride_out;
    const int64_t* stride_dx;
    const int64_t* stride_dupdates;

    Work work() const { return all_or_none(upd_numel + cells()); }
    Status check() const {
        BK_TRY(rule().check());
        BK_TRY(check_shape("upd_numel", upd_numel, rank, "upd_shape", upd_shape,
                           {{"stride_dout", stride_dout},
                            {"stride_x", stride_x},
                            {"stride_updates", stride_updates},
                            {"stride_index", stride_index},
                            {"stride_out", stride_out},
                            {"stride_dx", stride_dx}},
                           {{"stride_dupdates", stride_dupdates}}));
        BK_TRY(require_axis("scatter_dim", scatter_dim, rank));
        return require_non_negative({{"out_dim_size", out_dim_size}});
    }
    Status locate_dout(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate(operand, name, role, size, "stride_dout", stride_dout);
    }
    Status locate_x(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate(operand, name, role, size, "stride_x", stride_x);
    }
    Status locate_out(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate(operand, name, role, size, "stride_out", stride_out);
    }
    Status locate_dx(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate(operand, name, role, size, "stride_dx", stride_dx);
    }
    size_t workspace_size() const {
        const bool counts = rule().reduction() != Reduction::kSum || include_self == 0;
        return counts && upd_numel > 0 ? scatter_counts_bytes(cells()) : 0;
    }
    Status run(const T* dout, const T* x, const T* updates, const I* index, const T* out, T* dx, T* dupdates,
               const Launch& launch) const {
        if (dx == nullptr && dupdates == nullptr) return fail(Status::kInvalidProblem, "dx and dupdates are both NULL");
        using G = ScatterGradient<T>;
        G gradient{rule().reduction(),
                   rule().includes_self(),
                   upd_shape[scatter_dim],
                   out_dim_size,
                   {},
                   dout,
                   x,
                   updates,
                   IdArray(index),
                   out,
                   nullptr};
        const int64_t* const strides[] = {stride_dout, stride_x, stride_updates, stride_index, stride_out};
        ScatterGradientLayout layout{{}, {}, cells(), {}, {}, {}, {}};
        int64_t line[kMaxRank] = {}, lines = 1;
        for (int32_t d = rank - 1; d >= 0; --d) {
            if (d == scatter_dim) continue;
            line[d] = lines;
            lines *= upd_shape[d];
        }
        for (int k = 0; k < G::kGradient; ++k) gradient.step[k] = strides[k][scatter_dim];
        for (int32_t d = 0; d < rank; ++d) {
            int64_t of_update[G::kOperands] = {}, of_cell[G::kOperands] = {};
            const bool along = d == scatter_dim;
            for (int k = 0; k < G::kGradient; ++k) {
                const bool is_line = k == G::kUpdates || k == G::kIndex;
                of_update[k] = along && !is_line ? 0 : strides[k][d];
                of_cell[k] = along && is_line ? 0 : strides[k][d];
            }
            of_update[G::kGradient] = stride_dupdates[d];
            of_cell[G::kGradient] = stride_dx[d];
            of_update[G::kAlong] = of_cell[G::kAlong] = along;
            of_update[G::kLine] = of_cell[G::kLine] = along ? 0 : line[d];
            layout.updates.append(upd_shape[d], of_update);
            layout.cells.append(along ? out_dim_size : upd_shape[d], of_cell);
            if (along) {
                std::copy(of_update, of_update + G::kOperands, layout.next_update);
                std::copy(of_cell, of_cell + G::kOperands, layout.next_cell);
            } else {
                layout.update_lines.append(upd_shape[d], of_update);
                layout.cell_lines.append(upd_shape[d], of_cell);
            }
        }
        layout.updates = collapse(layout.updates);
        layout.cells = layout.count == 0 ? Layout<8>{} : collapse(layout.cells);  // of which no place is asked for
        return scatter_gradients(launch, layout, gradient, dx, dupdates);
    }

private:
    ScatterRule rule() const { return {reduce, include_self}; }
    // Of the lines of updates; without updates along the axis all have their gradients from dout.
    int64_t cells() const {
        int64_t cells = out_dim_size;
        for (int32_t d = 0; d < rank; ++d)
            if (d != scatter_dim) cells *= upd_shape[d];
        return cells;
    }
    Status locate(Operand* operand, const char* name, Role role, int64_t size, const char* strides_name,
                  const int64_t* strides) const {
        return locate_placed(operand, name, role, size, strides_name, rank, upd_shape, scatter_dim, out_dim_size, strides);
    }
};

}  // namespace bk

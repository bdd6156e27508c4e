// SPDX-License-Identifier: Apache-2.0
// Gradients of scatter_reduce with respect to x (the initial cells) and the updates.
//
// A mean's gradient is shared equally by all its operands, an extreme's by those that equal it (NaN equals NaN here). A
// product's operand u gets dy * y / u; if y is 0, only the sole zero of a cell has a gradient, for which the others are
// multiplied along the fiber. Counts of a cell's updates are kept in a workspace of 8 bytes a cell, or in a GPU's
// shared memory for many fibers; without either they are recounted at each use.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/workspace.h"
#include "indexing/indexed_operand.h"
#include "indexing/scatter/scatter_reduce.h"

namespace bk {

template <class T>
struct ScatterGradient {
    using C = compute_t<T>;

    // Operands of the walks; kAlong is the index along the axis, kFiber the index of the fiber.
    enum Operand { kDy, kX, kUpdates, kIndex, kY, kGradient, kAlong, kFiber, kOperands };

    Reduction reduction;
    bool includes_self;
    int64_t n, targets;
    int64_t step[kGradient];  // strides of the first five along the axis
    const T* dy;
    const T* x;
    const T* updates;
    IdArray index;
    const T* y;
    const uint64_t* counts;                   // [fibers, targets]; may be null
    const uint32_t* shared_counts = nullptr;  // the current fiber's, packed in 16 bits each; may be null

    // A count has the cell's updates in its low half, and in the high half those that equal the extreme, or are 0.
    static BK_HD int64_t num_updates(uint64_t count) { return static_cast<int64_t>(count & 0xffffffffu); }
    static BK_HD int64_t num_marked(uint64_t count) { return static_cast<int64_t>(count >> 32); }

    // Counts of fewer than 2^16 updates in 16 bits.
    static BK_HD uint32_t pack16(uint64_t count) { return static_cast<uint32_t>(count | count >> 16); }
    static BK_HD uint64_t unpack16(uint32_t count) { return (count & 0xffffu) | uint64_t{count >> 16} << 32; }

    static BK_HD bool same(C a, C b) { return a == b || (a != a && b != b); }
    BK_HD bool is_extreme() const { return reduction == Reduction::kAmax || reduction == Reduction::kAmin; }
    BK_HD bool keeps(int64_t i) const { return i >= 0 && i < targets; }
    BK_HD uint64_t count_of(C update, C result) const {
        const bool marked = is_extreme() ? same(update, result) : reduction == Reduction::kProd && update == C(0);
        return uint64_t{1} | static_cast<uint64_t>(marked) << 32;
    }
    BK_HD uint64_t count(int64_t fiber, const T* fiber_updates, IdArray fiber_ids, int64_t i, C result) const {
        if (shared_counts != nullptr) return unpack16(shared_counts[i]);
        if (counts != nullptr) return counts[fiber * targets + i];
        uint64_t tally = 0;
        for (int64_t j = 0; j < n; ++j)
            if (fiber_ids[j * step[kIndex]] == i) tally += count_of(widen(fiber_updates[j * step[kUpdates]]), result);
        return tally;
    }
    // The product of cell i's updates in a fiber, except update `left_out`.
    BK_HD C product(const T* fiber_updates, IdArray fiber_ids, int64_t i, int64_t left_out) const {
        C all = 1;
        for (int64_t j = 0; j < n; ++j)
            if (j != left_out && fiber_ids[j * step[kIndex]] == i) all *= widen(fiber_updates[j * step[kUpdates]]);
        return all;
    }

    // The count that an update adds to its cell; the cell is -1 for an index out of range.
    template <class Offsets>
    BK_HD uint64_t count_update(const Offsets& at, int64_t* cell) const {
        const int64_t i = (index + signed_offset(at.of[kIndex]))[0];
        *cell = keeps(i) ? signed_offset(at.of[kFiber]) * targets + i : -1;
        if (!keeps(i)) return 0;
        if (!is_extreme() && reduction != Reduction::kProd) return 1;
        const C result = is_extreme() ? widen(y[signed_offset(at.of[kY]) + i * step[kY]]) : C(0);
        return count_of(widen(updates[signed_offset(at.of[kUpdates])]), result);
    }

    template <class Offsets>
    BK_HD C of_update(const Offsets& at) const {
        const int64_t j = signed_offset(at.of[kAlong]), fiber = signed_offset(at.of[kFiber]);
        const IdArray here = index + signed_offset(at.of[kIndex]), fiber_ids = here + -j * step[kIndex];
        const int64_t i = here[0];
        if (!keeps(i)) return 0;
        const C gradient = widen(dy[signed_offset(at.of[kDy]) + i * step[kDy]]);
        if (reduction == Reduction::kSum) return gradient;
        const T* const update = updates + signed_offset(at.of[kUpdates]);
        const T* const fiber_updates = update - j * step[kUpdates];
        if (reduction == Reduction::kMean)
            return gradient / static_cast<C>(num_updates(count(fiber, fiber_updates, fiber_ids, i, C(0))) + includes_self);
        const C u = widen(*update), result = widen(y[signed_offset(at.of[kY]) + i * step[kY]]);
        if (reduction == Reduction::kProd && u != C(0)) return gradient * (result / u);
        if (is_extreme() && !same(u, result)) return 0;
        const uint64_t tally = count(fiber, fiber_updates, fiber_ids, i, result);
        const C initial = includes_self ? widen(x[signed_offset(at.of[kX]) + i * step[kX]]) : C(1);
        if (is_extreme()) return gradient / static_cast<C>(num_marked(tally) + (includes_self && same(initial, result)));
        if (num_marked(tally) > 1 || initial == C(0)) return gradient * result;
        return gradient * (initial * product(fiber_updates, fiber_ids, i, j));
    }

    template <class Offsets>
    BK_HD C of_cell(const Offsets& at) const {
        const int64_t i = signed_offset(at.of[kAlong]), fiber = signed_offset(at.of[kFiber]);
        const C gradient = widen(dy[signed_offset(at.of[kDy])]);
        if (n == 0 || (includes_self && reduction == Reduction::kSum)) return gradient;
        const T* const fiber_updates = updates + signed_offset(at.of[kUpdates]);
        const IdArray fiber_ids = index + signed_offset(at.of[kIndex]);
        if (!includes_self) return num_updates(count(fiber, fiber_updates, fiber_ids, i, C(0))) == 0 ? gradient : C(0);
        if (reduction == Reduction::kMean)
            return gradient / static_cast<C>(num_updates(count(fiber, fiber_updates, fiber_ids, i, C(0))) + 1);
        const C initial = widen(x[signed_offset(at.of[kX])]), result = widen(y[signed_offset(at.of[kY])]);
        if (reduction == Reduction::kProd && initial != C(0)) return gradient * (result / initial);
        if (is_extreme() && !same(initial, result)) return 0;
        const uint64_t tally = count(fiber, fiber_updates, fiber_ids, i, result);
        if (is_extreme()) return gradient / static_cast<C>(num_marked(tally) + 1);
        return num_marked(tally) > 0 ? gradient * result : gradient * product(fiber_updates, fiber_ids, i, -1);
    }
};

// Walks over the updates, and over the cells that they may go to.
struct ScatterGradientLayout {
    Layout<8> updates, cells;
    int64_t count;
    Layout<8> update_fibers, cell_fibers;  // without the scatter axis
    int64_t update_step[8], cell_step[8];  // strides along it
};

inline size_t scatter_counts_bytes(int64_t cells) {
    Carver carver;
    carver.take<uint64_t>(cells);
    return carver.bytes();
}

template <class T>
bool needs_counts(const ScatterGradientLayout& layout, const ScatterGradient<T>& gradient) {
    return (gradient.reduction != Reduction::kSum || !gradient.includes_self) && layout.updates.numel() > 0;
}

// The counts in the workspace; null if it is too small or nothing needs counting.
template <class T>
uint64_t* find_scatter_counts(const Launch& launch, const ScatterGradientLayout& layout, const ScatterGradient<T>& gradient) {
    if (!needs_counts(layout, gradient) || !workspace_holds(launch, scatter_counts_bytes(layout.count))) return nullptr;
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
        int64_t fiber_stride[kMaxRank] = {}, fibers = 1;
        for (int32_t d = rank - 1; d >= 0; --d) {
            if (d == scatter_dim) continue;
            fiber_stride[d] = fibers;
            fibers *= upd_shape[d];
        }
        for (int k = 0; k < G::kGradient; ++k) gradient.step[k] = strides[k][scatter_dim];
        for (int32_t d = 0; d < rank; ++d) {
            int64_t of_update[G::kOperands] = {}, of_cell[G::kOperands] = {};
            const bool along = d == scatter_dim;
            for (int k = 0; k < G::kGradient; ++k) {
                const bool is_fiber_operand = k == G::kUpdates || k == G::kIndex;
                of_update[k] = along && !is_fiber_operand ? 0 : strides[k][d];
                of_cell[k] = along && is_fiber_operand ? 0 : strides[k][d];
            }
            of_update[G::kGradient] = stride_dupdates[d];
            of_cell[G::kGradient] = stride_dx[d];
            of_update[G::kAlong] = of_cell[G::kAlong] = along;
            of_update[G::kFiber] = of_cell[G::kFiber] = along ? 0 : fiber_stride[d];
            layout.updates.append(upd_shape[d], of_update);
            layout.cells.append(along ? out_dim_size : upd_shape[d], of_cell);
            if (along) {
                std::copy(of_update, of_update + G::kOperands, layout.update_step);
                std::copy(of_cell, of_cell + G::kOperands, layout.cell_step);
            } else {
                layout.update_fibers.append(upd_shape[d], of_update);
                layout.cell_fibers.append(upd_shape[d], of_cell);
            }
        }
        layout.updates = collapse(layout.updates);
        layout.cells = layout.count == 0 ? Layout<8>{} : collapse(layout.cells);  // never walked
        return scatter_gradients(launch, layout, gradient, dx, dupdates);
    }

private:
    ReduceRule rule() const { return {reduce, include_self}; }
    // All cells of the updates' fibers; without updates their gradients equal dout.
    int64_t cells() const {
        int64_t cells = out_dim_size;
        for (int32_t d = 0; d < rank; ++d)
            if (d != scatter_dim) cells *= upd_shape[d];
        return cells;
    }
    Status locate(Operand* operand, const char* name, Role role, int64_t size, const char* strides_name,
                  const int64_t* strides) const {
        return locate_indexed(operand, name, role, size, strides_name, rank, upd_shape, scatter_dim, out_dim_size, strides);
    }
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Launch plan of a pointwise kernel over strided operands, made on the host and independent of the functor: vectors
// along the last axis, transposing tiles through shared memory, or single elements.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/layout/layout.h"
#include "core/pointwise/pointwise.h"
#include "core/pointwise/pointwise_call.cuh"
#include "core/pointwise/tile.cuh"

namespace bk {

// Every thread walks up to kWalkedAxes axes; slower ones are decoded from the block index.
constexpr int kWalkedAxes = 4;
constexpr int kMaxAxes = 16;  // rank 8 doubled by a repeat
constexpr int kMaxOutputs = 3;

constexpr int kTileThreads = 256;
constexpr int kRowsPerPass = kTileThreads / kTile;

enum StridedKind { kByVectors, kByTiles, kByElements };

template <int Operands>
struct StridedPlan {
    StridedKind kind = kByElements;
    Walk<Operands, uint32_t, kWalkedAxes> walk;  // over elements or vectors; over the axes outside the tile if kByTiles
    FastDiv<uint32_t> row_blocks;                // blocks of one walk; blockIdx.x also counts the slower axes
    int outer_rank = 0;
    FastDiv<uint32_t> outer_extent[kMaxAxes - kWalkedAxes];
    uint32_t outer_step[kMaxAxes - kWalkedAxes][Operands] = {};
    uint32_t count = 0;         // elements or vectors of the walk
    unsigned broadcast = 0;     // vectors: bit k is set if operand k has stride 0 along them
    unsigned scalar = 0;        // vectors: bit k is set if operand k is accessed element by element
    uint32_t inner = 0;         // elements of a row if vectors do not cover it exactly; else 0
    int shift = 0;              // elements by which the first vector begins before the row
    FastDiv<uint32_t> per_row;  // vectors of a row
    unsigned staged = 0;        // tiles: bit k is set if input k goes through shared memory; 0: no tiles
    FastDiv<uint32_t> row_tiles, column_tiles;
    bool pairs = false;  // 16-bit operands of tiles are accessed two elements at a time
    uint32_t rows = 0, columns = 0;
    uint32_t row_step[Operands] = {}, column_step[Operands] = {};
    // Each result is stored `copies` times along an axis on which every input is broadcast.
    int copies = 1;
    uint32_t copy_step[kMaxOutputs] = {};
};

// Removes up to 8 steps of the first axis on which every input is broadcast from a large layout: a thread computes such
// a result once and stores it that often. The last axis, allowed by `splits_last`, is split into segments of whole
// vectors, at least a warp's worth each.
template <int Operands, int MaxRank>
void choose_copies(Layout<Operands, MaxRank>* layout, int outputs, int lanes, bool splits_last, StridedPlan<Operands>* plan) {
    constexpr int64_t kMinElements = int64_t{1} << 20;  // elements that still fill a 132-SM chip
    const int last = layout->rank - 1;
    for (int d = 0; d <= last; ++d) {
        if (d == last && !splits_last) return;
        bool all_broadcast = Operands > outputs;
        for (int k = outputs; k < Operands; ++k) all_broadcast = all_broadcast && layout->stride[k][d] == 0;
        if (!all_broadcast) continue;
        const int64_t extent = layout->extent[d];
        const auto splits = [&](int64_t count) {
            return extent % count == 0 && (d < last || (extent / count % lanes == 0 && extent / count >= 32 * lanes));
        };
        int count = 8;
        while (count > 1 && !splits(count)) --count;
        if (layout->numel() / count < kMinElements) return;
        // Copies are adjacent or, along the last axis, a segment apart.
        const int64_t distance = d < last ? 1 : extent / count;
        plan->copies = count;
        for (int k = 0; k < outputs; ++k) plan->copy_step[k] = static_cast<uint32_t>(distance * layout->stride[k][d]);
        layout->extent[d] /= count;
        if (d < last)
            for (int k = 0; k < Operands; ++k) layout->stride[k][d] *= count;
        return;
    }
}

// Makes the last axis count vectors if every operand is dense or, for inputs, broadcast along it. `residue` is how many
// elements past an aligned address each operand begins. A misaligned first output makes the vectors begin before the
// row, where it is aligned; operands with another residue are accessed element by element.
template <int Operands, int MaxRank>
bool choose_vectors(Layout<Operands, MaxRank>* layout, int outputs, int lanes, bool positional, const int (&residue)[Operands],
                    StridedPlan<Operands>* plan) {
    const int last = layout->rank - 1;
    if (last < 0) return false;
    const int64_t inner = layout->extent[last];
    const int shift = positional || inner < 8 * lanes ? 0 : residue[0];
    const bool ragged = shift != 0 || inner % lanes != 0;
    if (ragged && (positional || inner < 4 * lanes)) return false;
    unsigned broadcast = 0, scalar = 0;
    for (int k = 0; k < Operands; ++k) {
        const int64_t step = layout->stride[k][last];
        if (step != 1 && (step != 0 || k < outputs)) return false;
        bool aligned = residue[k] == shift;
        for (int d = 0; step == 1 && d < last; ++d) aligned = aligned && layout->stride[k][d] % lanes == 0;
        if (k < outputs) aligned = aligned && plan->copy_step[k] % static_cast<uint32_t>(lanes) == 0;
        if (step == 0) broadcast |= 1u << k;
        if (step == 1 && !aligned) scalar |= 1u << k;
    }
    plan->broadcast = broadcast;
    plan->scalar = scalar;
    plan->inner = ragged ? static_cast<uint32_t>(inner) : 0;
    plan->shift = shift;
    layout->extent[last] = ceil_div<int64_t>(inner + shift, lanes);
    plan->per_row = FastDiv<uint32_t>(layout->extent[last]);
    for (int k = 0; k < Operands; ++k) layout->stride[k][last] *= lanes;
    return true;
}

// Picks the axis that forms tiles with the last one so that every input that is not dense along the last axis is read
// along its own fastest axis; removes both from the layout.
template <int Operands, int MaxRank>
void choose_tiles(Layout<Operands, MaxRank>* layout, int outputs, int side, StridedPlan<Operands>* plan) {
    constexpr int64_t kMinExtent = kTile / 2;  // of both extents; narrower tiles would idle
    const int last = layout->rank - 1;
    int row = -1;
    unsigned staged = 0;
    for (int k = outputs; k < Operands; ++k) {
        int fastest = last;
        for (int d = last - 1; d >= 0; --d) {
            const int64_t step = magnitude(layout->stride[k][d]);
            if (step != 0 && layout->stride[k][last] != 0 && step < magnitude(layout->stride[k][fastest])) fastest = d;
        }
        if (fastest == last || (row >= 0 && fastest != row) || layout->extent[fastest] < kMinExtent) continue;
        row = fastest;
        staged |= 1u << (k - outputs);
    }
    if (staged == 0 || layout->extent[last] < kMinExtent) return;
    plan->staged = staged;
    plan->rows = static_cast<uint32_t>(layout->extent[row]);
    plan->columns = static_cast<uint32_t>(layout->extent[last]);
    plan->row_tiles = FastDiv<uint32_t>(ceil_div<int64_t>(plan->rows, side * kTile));
    plan->column_tiles = FastDiv<uint32_t>(ceil_div<int64_t>(plan->columns, side * kTile));
    for (int k = 0; k < Operands; ++k) {
        plan->row_step[k] = static_cast<uint32_t>(layout->stride[k][row]);
        plan->column_step[k] = static_cast<uint32_t>(layout->stride[k][last]);
    }
    Layout<Operands, MaxRank> outer = *layout;
    outer.rank = 0;
    for (int d = 0; d < last; ++d) {
        if (d == row) continue;
        outer.extent[outer.rank] = layout->extent[d];
        for (int k = 0; k < Operands; ++k) outer.stride[k][outer.rank] = layout->stride[k][d];
        ++outer.rank;
    }
    *layout = outer;
}

// Whether every operand of a tile can be accessed by aligned pairs of elements.
template <int Operands, int MaxRank>
bool tiles_allow_pairs(const Layout<Operands, MaxRank>& outer, const StridedPlan<Operands>& plan, int outputs,
                       const int (&residue)[Operands]) {
    if (plan.rows % 2 != 0 || plan.columns % 2 != 0) return false;
    for (int k = 0; k < Operands; ++k) {
        const bool staged = k >= outputs && (plan.staged >> (k - outputs) & 1);
        const uint32_t along = staged ? plan.row_step[k] : plan.column_step[k];
        const uint32_t across = staged ? plan.column_step[k] : plan.row_step[k];
        if (along != 1 || across % 2 != 0 || residue[k] % 2 != 0) return false;
        for (int d = 0; d < outer.rank; ++d)
            if (outer.stride[k][d] % 2 != 0) return false;
    }
    return true;
}

// Gives the last `walked_axes` axes to the walk; returns the product of the slower extents.
template <int Operands, int MaxRank>
int64_t split_axes(const Layout<Operands, MaxRank>& layout, int walked_axes, StridedPlan<Operands>* plan) {
    const int slower = layout.rank > walked_axes ? layout.rank - walked_axes : 0;
    int64_t count = 1;
    for (int d = slower - 1; d >= 0; --d) {
        plan->outer_extent[plan->outer_rank] = FastDiv<uint32_t>(layout.extent[d]);
        for (int k = 0; k < Operands; ++k) plan->outer_step[plan->outer_rank][k] = static_cast<uint32_t>(layout.stride[k][d]);
        ++plan->outer_rank;
        count *= layout.extent[d];
    }
    Layout<Operands, kWalkedAxes> walked;
    for (int d = slower; d < layout.rank; ++d) {
        int64_t strides[Operands];
        for (int k = 0; k < Operands; ++k) strides[k] = layout.stride[k][d];
        walked.append(layout.extent[d], strides);
    }
    plan->walk = Walk<Operands, uint32_t, kWalkedAxes>(walked);
    plan->count = static_cast<uint32_t>(walked.numel());
    return count;
}

// `offset` counts elements from the call's pointers.
template <int Operands, int MaxRank>
BK_COLD Status run_strided_from(const PointwiseCall& call, const Layout<Operands, MaxRank>& given, const int64_t* offset) {
    const PointwiseKernels& kernels = call.kernels;
    Layout<Operands, MaxRank> layout = given;
    int64_t slower = 1;
    for (int d = 0; d + kWalkedAxes < layout.rank; ++d) slower *= layout.extent[d];
    if (!layout.fits_32bit() || slower > kMaxGridY) {
        // A layout beyond 32-bit offsets or kMaxGridY is halved along a slow axis, or the one with the farthest reach.
        int axis = 0;
        int64_t farthest = -1;
        for (int d = 0; d < layout.rank; ++d)
            for (int k = -1; k < Operands; ++k) {
                const int64_t reach = layout.extent[d] * (k < 0 ? 1 : magnitude(layout.stride[k][d]));
                if (layout.extent[d] > 1 && (slower <= kMaxGridY || d + kWalkedAxes < layout.rank) && reach > farthest)
                    farthest = reach, axis = d;
            }
        const int64_t half = layout.extent[axis] / 2;
        layout.extent[axis] = half;
        BK_TRY(run_strided_from(call, layout, offset));
        layout.extent[axis] = given.extent[axis] - half;
        int64_t second[Operands];
        for (int k = 0; k < Operands; ++k) second[k] = offset[k] + half * layout.stride[k][axis];
        return run_strided_from(call, layout, second);
    }
    StridedPlan<Operands> plan;
    choose_copies(&layout, kernels.outputs, kernels.vector, !kernels.positional, &plan);
    int residue[Operands];  // elements past an aligned address
    for (int k = 0; k < Operands; ++k) {
        const int64_t first = static_cast<int64_t>(reinterpret_cast<uintptr_t>(call.pointer[k]) / kernels.size[k]) + offset[k];
        residue[k] = static_cast<int>((first % kernels.vector + kernels.vector) % kernels.vector);
    }
    const bool vectors =
        kernels.vector > 1 && choose_vectors(&layout, kernels.outputs, kernels.vector, kernels.positional, residue, &plan);
    char* start[Operands];
    for (int k = 0; k < Operands; ++k) {
        const int64_t first = offset[k] - (plan.broadcast >> k & 1 ? 0 : plan.shift);
        start[k] = call.pointer[k] == nullptr ? nullptr : call.pointer[k] + first * kernels.size[k];
    }
    if (!vectors && !kernels.positional && plan.copies == 1) choose_tiles(&layout, kernels.outputs, kernels.side, &plan);
    if (kernels.pairs && plan.staged != 0) plan.pairs = tiles_allow_pairs(layout, plan, kernels.outputs, residue);
    // Blocks stay within a row of vectors if at most a fifth of their threads idle then.
    const int64_t row = vectors ? layout.extent[layout.rank - 1] : 0;
    const int64_t row_blocks = ceil_div<int64_t>(row, kPointwiseThreads);
    const bool by_row =
        vectors && layout.rank > 1 && layout.rank <= kMaxAxes - kWalkedAxes && 4 * row_blocks * kPointwiseThreads <= 5 * row;
    const int64_t slow = split_axes(layout, by_row ? 1 : kWalkedAxes, &plan);
    int64_t x = ceil_div<int64_t>(plan.count, vectors ? kPointwiseThreads : kTileThreads * kernels.group);
    if (plan.staged != 0) x = int64_t{plan.count} * plan.row_tiles.divisor() * plan.column_tiles.divisor();
    plan.row_blocks = FastDiv<uint32_t>(x);
    if (vectors) plan.kind = kByVectors;
    if (plan.staged != 0) plan.kind = kByTiles;
    const Grid grid{dim3(static_cast<unsigned>(by_row ? x * slow : x), static_cast<unsigned>(by_row ? 1 : slow)),
                    dim3(vectors ? kPointwiseThreads : kTileThreads), 1,
                    static_cast<unsigned>(plan.staged != 0 ? kernels.tile_bytes : 0)};
    return (vectors ? kernels.vectors : kernels.strided)(call, grid, &plan, start);
}

template <int Operands, int MaxRank>
Status run_strided(const PointwiseCall& call, const Layout<Operands, MaxRank>& layout) {
    const int64_t origin[Operands] = {};
    return run_strided_from(call, layout, origin);
}

}  // namespace bk

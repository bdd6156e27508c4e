// SPDX-License-Identifier: Apache-2.0
// Step k gives the gradients of the gates of the token that is k from the end: the gradient of h is the sum of what the step
// before left and the product of its gates' gradients. The last step, behind the first token, has the product alone.
#pragma once

#include "recurrent/cells/steps_cuda.cuh"

namespace bk::recurrent {

constexpr int kBackwardBlocks = 2;  // of 16 units, at most, that a block has

// Gradients of the states behind the last token.
struct StartBackward {
    CellProblem p;
    CellGradients d;
    StepBuffers b;

    int64_t items() const { return p.directions * p.batch; }
    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t wide = CellProblem::padded(p.hidden);
        for (int64_t unit = team.rank; unit < p.hidden; unit += team.size) {
            const int64_t from = item * p.hidden + unit;
            b.h[item * wide + unit] = d.dh_n != nullptr ? load_float(p.type, d.dh_n, from) : 0.0f;
            b.c[item * wide + unit] = d.dc_n != nullptr ? load_float(p.type, d.dc_n, from) : 0.0f;
        }
    }
};

struct BackwardStep {
    CellBackward backward;
    StepBuffers b;
    StepShape shape;
    int64_t row_blocks;
};

template <class E, int kTiles>
__global__ void __launch_bounds__(kStepThreads, sizeof(E) == 2 ? 2 : 1)
    backward_step_kernel(const __grid_constant__ BackwardStep s, int64_t step) {
    using Product = StepProduct<E, kTiles, kBackwardBlocks>;
    __shared__ float partials[Product::kFloats];
    const CellProblem& p = s.backward.p;
    const StepTile at = StepTile::of(p, s.shape);
    const CellTile& tile = at.tile;
    const int thread = static_cast<int>(threadIdx.x), wide = CellProblem::padded(p.hidden), gates = p.gates_count();
    const int64_t token = p.seqlen - 1 - step, t = p.is_backwards(tile.direction) ? step : token, deep = int64_t{gates} * wide;
    const int depth = static_cast<int>(deep / 16), fragment = 32 * Product::kWords;
    const int64_t column = tile.direction * (wide / 16) + at.unit / 16, pitch = int64_t{depth} * fragment;
    const int blocks = min(s.shape.units, wide - at.unit) / 16;
    const float* const operand = s.b.operand(step, tile.direction, deep, s.row_blocks) + tile.first * 16;
    const int saved = saved_of(p.cell);
    if (step < p.seqlen && thread < tile.rows * saved) {
        const int64_t row = p.at_token(t, tile.first + thread / saved, tile.direction);
        prefetch_cache_line(p.saved + (row * saved + thread % saved) * p.hidden + at.unit);
    }
    Product product;
    product.run({static_cast<const uint4*>(s.b.matrix) + column * pitch, fragment, pitch,
                 reinterpret_cast<const uint4*>(operand), s.row_blocks * 32, blocks, step == 0 ? 0 : depth},
                partials);

    const int64_t state = p.at_state(tile.first, tile.direction) * wide;
    CellRows rows{};
    rows.h = s.b.h + state;
    rows.c = s.b.c + state;
    rows.h_pitch = rows.c_pitch = wide;
    // Gradients of the sums go to the next step's operand, where the gates lie apart by a constant.
    float* const next = s.b.operand(step + 1, tile.direction, deep, s.row_blocks);
    rows.gate_pitch = wide * s.row_blocks * 8;
    for (int i = thread; i < Product::kRows * blocks * 16; i += kStepThreads) {
        const int row = i / (blocks * 16), column_of = i % (blocks * 16), unit = at.unit + column_of;
        if (row >= tile.rows) continue;
        rows.sums = next + operand_index(s.row_blocks, unit, tile.first + row);
        rows.first_unit = unit;
        if (unit >= p.hidden) {
            for (int gate = 0; gate < gates; ++gate) *rows.sum_at(row, gate, unit) = 0.0f;
            continue;
        }
        Units dh = Units::of(rows.h_at(row, unit), 1);
        if (step > 0) dh.at[0] += Product::total(partials, column_of / 16, row, column_of % 16);
        if (step == p.seqlen) {
            s.backward.store_h(tile, row, unit, dh.at[0]);
            s.backward.store_c(tile, row, unit, *rows.c_at(row, unit));
            continue;
        }
        const bool is_in = s.backward.is_in(tile, t, row);
        if (is_in) s.backward.add_dy(tile, t, row, unit, 1, &dh);
        // A GRU puts what goes around the sums there; a sequence without the token keeps the gradient.
        if (!is_in || s.backward.goes_through_sums()) (is_in ? Units::zeros() : dh).put(rows.h_at(row, unit), 1);
        s.backward.unit_step(tile, rows, t, row, unit, 1, dh);
    }
}

inline Status run_steps_backward(const Launch& launch, const CellProblem& p, const CellGradients& d,
                                 const StepBuffers& buffers) {
    const PackFragments pack{p, buffers.matrix, multiplies_f32(p, false), true};
    BK_TRY(run_teams(launch, pack.items(), 4096, pack));
    const StartBackward start{p, d, buffers};
    BK_TRY(run_teams(launch, start.items(), 4096, start));
    // Blocks in the order of what they load for a product, matrices of 16 bits being half of f32.
    constexpr int kUnits = kStepUnits * kBackwardBlocks;
    StepShape shape{kUnits, kStepRows};
    for (const StepShape& less :
         {StepShape{kUnits, kStepRows / 2}, StepShape{kStepUnits, kStepRows}, StepShape{kStepUnits, kStepRows / 2}})
        if (!shape.fits(p)) shape = less;
    const BackwardStep step{{p, d}, buffers, shape, StepBuffers::row_blocks(p)};
    const int64_t steps = p.seqlen + (d.dh0 != nullptr || d.dc0 != nullptr ? 1 : 0);
    return with_step_element(p, false, [&](auto element) {
        using E = std::conditional_t<std::is_same_v<decltype(element), f16>, float, decltype(element)>;
        if (shape.sequences == kStepRows)
            return run_step_kernels(launch, step, shape.items(p), steps, backward_step_kernel<E, kStepRows / 8>);
        return run_step_kernels(launch, step, shape.items(p), steps, backward_step_kernel<E, kStepRows / 16>);
    });
}

}  // namespace bk::recurrent

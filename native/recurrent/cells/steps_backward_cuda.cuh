// SPDX-License-Identifier: Apache-2.0
// Tokens from the last to the first. The gradient of h is the sum of what the launch before left and of the product of R with
// the gradients of the sums of gates; behind the first token there is this product alone.
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
        for (int64_t unit = team.rank; unit < b.wide; unit += team.size) {
            const bool has_h = unit < p.outputs && d.dh_n != nullptr, has_c = unit < p.hidden && d.dc_n != nullptr;
            b.h[item * b.wide + unit] = has_h ? load_float(p.type, d.dh_n, item * p.outputs + unit) : 0.0f;
            b.c[item * b.wide + unit] = has_c ? load_float(p.type, d.dc_n, item * p.hidden + unit) : 0.0f;
        }
    }
};

// Launch `at` has a product of a token: that of R, and where there are two, then that of P with the gradient of h, or of R's
// third gate with that of n.
struct BackwardStep : TokenStep<CellBackward> {
    StepShape shape;

    BK_HD int32_t width(int64_t at) const { return is_projection(at) ? pass.p.hidden : pass.p.outputs; }
};

template <class E, int kTiles>
__global__ void __launch_bounds__(kStepThreads, sizeof(E) == 2 && kTiles == 2 ? 2 : 1)
    backward_step_kernel(const __grid_constant__ BackwardStep s, int64_t at) {
    using Product = StepProduct<E, kTiles, kBackwardBlocks>;
    __shared__ float partials[Product::kFloats];
    const CellProblem& p = s.pass.p;
    const bool is_projection = s.is_projection(at), is_second = s.is_second(at), is_reset = s.products() == 2 && !p.projects();
    const StepTile block = StepTile::of(p, s.shape, s.width(at));
    const CellTile& tile = block.tile;
    const int thread = static_cast<int>(threadIdx.x), gates = p.gates_count(), saved = saved_of(p.cell);
    const int64_t step = at / s.products(), token = p.seqlen - 1 - step, t = p.is_backwards(tile.direction) ? step : token;
    if (step < p.seqlen && thread < tile.rows * saved && (is_second || !p.projects())) {
        const int64_t row = p.at_token(t, tile.first + thread / saved, tile.direction);
        prefetch_cache_line(p.saved + (row * saved + thread % saved) * p.hidden + block.unit);
    }
    // Fragments of the matrix: a direction's column blocks, and K blocks, those of a gate side by side.
    const int fragment = 32 * Product::kWords, of_gate = CellProblem::padded(p.hidden) / 16;
    const int all = is_projection ? CellProblem::padded(p.outputs) / 16 : gates * of_gate;
    const int first = is_reset && is_second ? 2 * of_gate : 0, depth = is_reset && !is_second ? 2 * of_gate : all - first;
    const int64_t column_block = tile.direction * (CellProblem::padded(s.width(at)) / 16) + block.unit / 16;
    const int blocks = min(s.shape.units, CellProblem::padded(s.width(at)) - block.unit) / 16;
    const uint4* const matrix = static_cast<const uint4*>(is_projection ? s.b.projection : s.b.recurrent);
    const float* const operand = s.b.operand(at, tile.direction) + first * s.b.row_blocks * 128 + tile.first * 16;
    Product product;
    product.run({matrix + (column_block * all + first) * fragment, fragment, int64_t{all} * fragment,
                 reinterpret_cast<const uint4*>(operand), s.b.row_blocks * 32, blocks, at == 0 ? 0 : depth},
                partials);

    const int64_t state = p.at_state(tile.first, tile.direction) * s.b.wide;
    CellRows rows{};
    rows.h = s.b.h + state;
    rows.c = s.b.c + state;
    rows.h_pitch = rows.c_pitch = s.b.wide;
    // Gradients of the sums go to the next launch's operand, where the gates lie apart by a constant.
    float* const next = s.b.operand(at + 1, tile.direction);
    rows.gate_pitch = of_gate * s.b.row_blocks * 128;
    for (int i = thread; i < Product::kRows * blocks * 16; i += kStepThreads) {
        const int row = i / (blocks * 16), column = i % (blocks * 16), unit = block.unit + column;
        if (row >= tile.rows) continue;
        rows.sums = next + operand_index(s.b.row_blocks, unit, tile.first + row);
        rows.first_unit = unit;
        const bool is_in = step < p.seqlen && unit < s.width(at) && s.pass.is_in(tile, t, row);
        const bool gives_output = p.projects() && !is_second;  // the next operand is the gradient of h
        if (!is_in)
            for (int gate = 0; gate < (gives_output ? 1 : gates); ++gate) *rows.sum_at(row, gate, unit) = 0.0f;
        if (unit >= s.width(at)) continue;
        Units x{};
        if (at > 0) x.at[0] = Product::total(partials, column / 16, row, column % 16);
        if (!is_second) x.at[0] += *rows.h_at(row, unit);
        if (step == p.seqlen) {
            s.pass.store_h(tile, row, unit, x.at[0]);
            continue;
        }
        if (is_second && is_reset) {
            if (is_in) s.pass.reset(tile, rows, t, row, unit, 1, x);
            continue;
        }
        if (is_in && !is_second) s.pass.add_dy(tile, t, row, unit, 1, &x);
        // A GRU puts what goes around the sums there; a sequence without the token keeps the gradient.
        if (!is_second && (!is_in || s.pass.goes_through_sums())) (is_in ? Units::zeros() : x).put(rows.h_at(row, unit), 1);
        if (gives_output) {
            s.pass.store_output(tile, t, row, unit, 1, is_in ? x : Units::zeros());
            if (is_in) *rows.sum_at(row, 0, unit) = x.at[0];
            continue;
        }
        s.pass.unit_step(tile, rows, t, row, unit, 1, x);
        if (step + 1 == p.seqlen) s.pass.store_c(tile, row, unit, *rows.c_at(row, unit));
    }
}

inline Status run_steps_backward(const Launch& launch, const CellProblem& p, const CellGradients& d,
                                 const StepBuffers& buffers) {
    BK_TRY(pack_steps(launch, p, buffers, false));
    const StartBackward start{p, d, buffers};
    BK_TRY(run_teams(launch, start.items(), 4096, start));
    // Blocks in the order of what they load for a product, matrices of 16 bits being half of f32.
    constexpr int kUnits = kStepUnits * kBackwardBlocks;
    StepShape shape{kUnits, kStepRows};
    for (const StepShape& less :
         {StepShape{kUnits, kStepRows / 2}, StepShape{kStepUnits, kStepRows}, StepShape{kStepUnits, kStepRows / 2}})
        if (!shape.fits(p)) shape = less;
    const BackwardStep step{{{p, d}, buffers}, shape};
    const int64_t launches = p.seqlen * step.products() + (d.dh0 != nullptr ? 1 : 0);
    return with_step_element(p, false, [&](auto element) {
        using E = std::conditional_t<std::is_same_v<decltype(element), f16>, float, decltype(element)>;
        if (shape.sequences == kStepRows)
            return run_step_kernels(launch, step, shape, launches, backward_step_kernel<E, kStepRows / 8>);
        return run_step_kernels(launch, step, shape, launches, backward_step_kernel<E, kStepRows / 16>);
    });
}

}  // namespace bk::recurrent

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "core/intrinsics/prefetch.cuh"
#include "recurrent/cells/fragments_cuda.cuh"

namespace bk::recurrent {

// Units and sequences of a step's blocks.
struct StepShape {
    int units, sequences;

    BK_HD int64_t unit_blocks(int32_t width) const { return (width + int64_t{units} - 1) / units; }
    BK_HD int64_t tiles(const CellProblem& p) const { return (p.batch + sequences - 1) / sequences; }
    int64_t items(const CellProblem& p, int32_t width) const { return p.directions * unit_blocks(width) * tiles(p); }
    // Whether the blocks are enough for the device; larger ones load less.
    bool fits(const CellProblem& p) const {
        return (sequences <= kStepRows / 2 || p.batch > kStepRows / 2) && 4 * items(p, p.hidden) >= 3 * device_sms();
    }
};

struct StepTile {
    CellTile tile;
    int unit;

    BK_DEVICE static StepTile of(const CellProblem& p, const StepShape& shape, int32_t width) {
        const int64_t blocks = shape.unit_blocks(width), block = blockIdx.x, tiles = shape.tiles(p);
        const int64_t first = block / blocks % tiles * shape.sequences, left = p.batch - first;
        return {{block / blocks / tiles, first, static_cast<int>(left < shape.sequences ? left : shape.sequences)},
                static_cast<int>(block % blocks * shape.units)};
    }
};

// The first product of a token, or the second one.
template <class Step, class... P>
Status run_step_kernels(const Launch& launch, const Step& step, const StepShape& shape, int64_t launches,
                        void (*kernel)(P...)) {
    for (int64_t at = 0; at < launches; ++at) {
        const int64_t items = shape.items(step.problem(), step.width(at));
        if (items > kMaxGridX)
            return fail(Status::kUnsupported, "%lld blocks are too many for one launch", static_cast<long long>(items));
        Grid grid{dim3(static_cast<unsigned>(items)), dim3(kStepThreads)};
        grid.overlaps = at > 0 && has_dependent_launch();  // the first one waits for the packed matrices
        BK_TRY(launch_kernel(launch, grid, kernel, step, at));
    }
    return Status::kOk;
}

// States in front of the first token, and zeros in the padding of operands.
struct StartForward {
    CellProblem p;
    StepBuffers b;

    int64_t items() const { return p.directions * b.row_blocks * 8; }
    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t direction = item / (b.row_blocks * 8), n = item % (b.row_blocks * 8);
        const bool has_row = n < p.batch;
        for (int64_t unit = team.rank; unit < b.wide; unit += team.size) {
            const int64_t from = p.at_state(n, direction);
            const bool has_h = has_row && unit < p.outputs && p.h0 != nullptr;
            const bool has_c = has_row && unit < p.hidden && p.c0 != nullptr;
            const float h = has_h ? load_float(p.type, p.h0, from * p.outputs + unit) : 0.0f;
            const float c = has_c ? load_float(p.type, p.c0, from * p.hidden + unit) : 0.0f;
            const int64_t to = operand_index(b.row_blocks, unit, n);
            b.operand(0, direction)[to] = h;
            b.operand(1, direction)[to] = 0.0f;
            if (!has_row) continue;
            b.h[from * b.wide + unit] = h;
            b.c[from * b.wide + unit] = c;
        }
    }
};

// Products of a token, of which a launch has one: that of the recurrent matrix, and where there are two, a second one.
template <class Pass>
struct TokenStep {
    Pass pass;
    StepBuffers b;

    BK_HD const CellProblem& problem() const { return pass.p; }
    BK_HD int products() const { return pass.p.projects() || pass.p.cell == Cell::kGruResetFirst ? 2 : 1; }
    BK_HD bool is_second(int64_t at) const { return products() == 2 && at % 2 == 1; }
    BK_HD bool is_projection(int64_t at) const { return pass.p.projects() && is_second(at); }
};

// Launch `at` has a product of a token: R h of all gates, and where there are two, then P (o tanh(c)), or, R h having been of r
// and z alone, R (r h) of n.
struct ForwardStep : TokenStep<CellForward> {
    BK_HD int32_t width(int64_t at) const { return is_projection(at) ? pass.p.outputs : pass.p.hidden; }
    BK_HD int first_gate(int64_t at) const { return is_second(at) && !is_projection(at) ? 2 : 0; }
    BK_HD int gates(int64_t at) const {
        if (products() == 1) return pass.p.gates_count();
        return is_second(at) ? 1 : pass.p.projects() ? pass.p.gates_count() : 2;
    }
};

template <class E, int kTiles>
__global__ void __launch_bounds__(kStepThreads, sizeof(E) == 2 && kTiles == 2 ? 2 : 1)
    forward_step_kernel(const __grid_constant__ ForwardStep s, int64_t at) {
    using Product = StepProduct<E, kTiles, kMaxGates>;
    __shared__ float partials[Product::kFloats];
    const CellProblem& p = s.pass.p;
    const bool is_projection = s.is_projection(at), is_second = s.is_second(at), is_reset = s.products() == 2 && !p.projects();
    const StepTile block = StepTile::of(p, {kStepUnits, Product::kRows}, s.width(at));
    const CellTile& tile = block.tile;
    const int thread = static_cast<int>(threadIdx.x), gates = s.gates(at), first_gate = s.first_gate(at);
    const int64_t step = at / s.products(), t = p.is_backwards(tile.direction) ? p.seqlen - 1 - step : step;
    if (thread < tile.rows * gates && !is_projection) {
        const int64_t row = p.at_token(t, tile.first + thread / gates, tile.direction) * p.gate_rows();
        const int64_t from = row + (first_gate + thread % gates) * p.hidden + block.unit;
        prefetch_cache_line(static_cast<const char*>(p.gates) + from * (p.type == RowType::kF32 ? 4 : 2));
    }
    // Fragments of the matrix: a direction's row blocks, K blocks, and gates, or of P one.
    const int fragment = 32 * Product::kWords, of_block = is_projection ? 1 : p.gates_count();
    const int depth = CellProblem::padded(is_projection ? p.hidden : p.outputs) / 16;
    const int64_t row_block = tile.direction * (CellProblem::padded(s.width(at)) / 16) + block.unit / 16;
    const uint4* const matrix = static_cast<const uint4*>(is_projection ? s.b.projection : s.b.recurrent);
    const float* const operand = s.b.operand(at, tile.direction) + tile.first * 16;
    Product product;
    product.run({matrix + (row_block * depth * of_block + first_gate) * fragment, int64_t{of_block} * fragment, fragment,
                 reinterpret_cast<const uint4*>(operand), s.b.row_blocks * 32, gates, depth},
                partials);

    const int64_t state = p.at_state(tile.first, tile.direction) * s.b.wide;
    CellRows rows{};
    rows.h = s.b.h + state;
    rows.c = s.b.c + state;
    rows.sums = rows.operand = partials;
    rows.h_pitch = rows.c_pitch = s.b.wide;
    rows.sum_pitch = rows.operand_pitch = Product::kPitch;
    rows.gate_pitch = Product::kTileFloats;
    rows.first_unit = block.unit;
    float* const next = s.b.operand(at + 1, tile.direction);
    const bool is_last = step + 1 == p.seqlen, gives = is_second || s.products() == 1;
    for (int i = thread; i < Product::kRows * kStepUnits; i += kStepThreads) {
        const int row = i / kStepUnits, unit = block.unit + i % kStepUnits;
        if (row >= tile.rows || unit >= s.width(at)) continue;
        for (int gate = 0; gate < gates; ++gate)
            *rows.sum_at(row, first_gate + gate, unit) = Product::total(partials, gate, row, i % kStepUnits);
        const bool is_in = t < p.length(tile.first + row);
        if (is_reset && !is_second)
            s.pass.reset(tile, rows, t, row, unit, 1);
        else if (is_in && !is_projection)
            s.pass.unit_step(tile, rows, t, row, unit, 1);
        else if (!is_projection)
            s.pass.skip(tile, t, row, unit, 1);
        Units x = is_in ? Units::of(rows.operand_at(row, unit), 1) : Units::zeros();
        if (gives) s.pass.give(tile, rows, t, row, unit, 1, x, is_in);
        if (gives && !is_in) x = Units::of(rows.h_at(row, unit), 1);
        next[operand_index(s.b.row_blocks, unit, tile.first + row)] = x.at[0];
        if (is_last && gives) s.pass.store_h(tile, rows, row, unit, 1);
        if (is_last && !is_projection) s.pass.store_c(tile, rows, row, unit, 1);
    }
}

inline Status run_steps(const Launch& launch, const CellProblem& p, const StepBuffers& buffers) {
    BK_TRY(pack_steps(launch, p, buffers, true));
    const StartForward start{p, buffers};
    BK_TRY(run_teams(launch, start.items(), 4096, start));
    const ForwardStep step{{{p}, buffers}};
    const int64_t launches = p.seqlen * step.products();
    constexpr StepShape large{kStepUnits, kStepRows}, small{kStepUnits, kStepRows / 2};
    return with_step_element(p, true, [&](auto element) {
        using E = decltype(element);
        if (large.fits(p)) return run_step_kernels(launch, step, large, launches, forward_step_kernel<E, kStepRows / 8>);
        return run_step_kernels(launch, step, small, launches, forward_step_kernel<E, kStepRows / 16>);
    });
}

}  // namespace bk::recurrent

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "core/intrinsics/prefetch.cuh"
#include "recurrent/cells/fragments_cuda.cuh"

namespace bk::recurrent {

// Units and sequences of a step's blocks.
struct StepShape {
    int units, sequences;

    BK_HD int64_t unit_blocks(const CellProblem& p) const { return (p.hidden + int64_t{units} - 1) / units; }
    BK_HD int64_t tiles(const CellProblem& p) const { return (p.batch + sequences - 1) / sequences; }
    int64_t items(const CellProblem& p) const { return p.directions * unit_blocks(p) * tiles(p); }
    // Whether the blocks are enough for the device; larger ones load less.
    bool fits(const CellProblem& p) const {
        return (sequences <= kStepRows / 2 || p.batch > kStepRows / 2) && 4 * items(p) >= 3 * device_sms();
    }
};

struct StepTile {
    CellTile tile;
    int unit;

    BK_DEVICE static StepTile of(const CellProblem& p, const StepShape& shape) {
        const int64_t blocks = shape.unit_blocks(p), block = blockIdx.x, tiles = shape.tiles(p);
        const int64_t first = block / blocks % tiles * shape.sequences, left = p.batch - first;
        return {{block / blocks / tiles, first, static_cast<int>(left < shape.sequences ? left : shape.sequences)},
                static_cast<int>(block % blocks * shape.units)};
    }
};

// Kernels of one token after the other; all but the first start while the one before ends.
template <class Step, class... P>
Status run_step_kernels(const Launch& launch, const Step& step, int64_t items, int64_t steps, void (*kernel)(P...)) {
    if (items > kMaxGridX)
        return fail(Status::kUnsupported, "%lld blocks are too many for one launch", static_cast<long long>(items));
    Grid grid{dim3(static_cast<unsigned>(items)), dim3(kStepThreads)};
    for (int64_t at = 0; at < steps; ++at) {
        grid.overlaps = at > 0 && has_dependent_launch();
        BK_TRY(launch_kernel(launch, grid, kernel, step, at));
    }
    return Status::kOk;
}

// States in front of the first token, and zeros in the padding of operands.
struct StartForward {
    CellProblem p;
    StepBuffers b;
    int64_t row_blocks;

    int64_t items() const { return p.directions * row_blocks * 8; }
    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t direction = item / (row_blocks * 8), n = item % (row_blocks * 8), wide = CellProblem::padded(p.hidden);
        const bool has_row = n < p.batch;
        for (int64_t unit = team.rank; unit < wide; unit += team.size) {
            const bool is_in = has_row && unit < p.hidden;
            const int64_t from = p.at_state(n, direction) * p.hidden + unit;
            const float h = is_in && p.h0 != nullptr ? load_float(p.type, p.h0, from) : 0.0f;
            const float c = is_in && p.c0 != nullptr ? load_float(p.type, p.c0, from) : 0.0f;
            const int64_t to = operand_index(row_blocks, unit, n);
            b.operand(0, direction, wide, row_blocks)[to] = h;
            b.operand(1, direction, wide, row_blocks)[to] = 0.0f;
            if (!has_row) continue;
            b.h[p.at_state(n, direction) * wide + unit] = h;
            b.c[p.at_state(n, direction) * wide + unit] = c;
        }
    }
};

struct ForwardStep {
    CellForward forward;
    StepBuffers b;
    int64_t row_blocks;
};

template <class E, int kTiles>
__global__ void __launch_bounds__(kStepThreads, sizeof(E) == 2 && kTiles == 2 ? 2 : 1)
    forward_step_kernel(const __grid_constant__ ForwardStep s, int64_t step) {
    using Product = StepProduct<E, kTiles, kMaxGates>;
    __shared__ float partials[Product::kFloats];
    const CellProblem& p = s.forward.p;
    const StepTile at = StepTile::of(p, {kStepUnits, Product::kRows});
    const CellTile& tile = at.tile;
    const int thread = static_cast<int>(threadIdx.x), wide = CellProblem::padded(p.hidden), gates = p.gates_count();
    const int64_t t = p.is_backwards(tile.direction) ? p.seqlen - 1 - step : step;
    if (thread < tile.rows * gates) {
        const int64_t row = p.at_token(t, tile.first + thread / gates, tile.direction) * p.gate_rows();
        const int64_t from = row + thread % gates * p.hidden + at.unit;
        prefetch_cache_line(static_cast<const char*>(p.gates) + from * (p.type == RowType::kF32 ? 4 : 2));
    }
    const int depth = wide / 16, fragment = 32 * Product::kWords;
    const uint4* const matrix = static_cast<const uint4*>(s.b.matrix);
    const float* const operand = s.b.operand(step, tile.direction, wide, s.row_blocks) + tile.first * 16;
    Product product;
    product.run({matrix + (tile.direction * depth + at.unit / 16) * depth * gates * fragment, int64_t{gates} * fragment,
                 fragment, reinterpret_cast<const uint4*>(operand), s.row_blocks * 32, gates, depth},
                partials);

    const int64_t state = p.at_state(tile.first, tile.direction) * wide;
    CellRows rows{};
    rows.h = s.b.h + state;
    rows.c = s.b.c + state;
    rows.sums = rows.operand = partials;
    rows.h_pitch = rows.c_pitch = wide;
    rows.sum_pitch = rows.operand_pitch = Product::kPitch;
    rows.gate_pitch = Product::kTileFloats;
    rows.first_unit = at.unit;
    float* const next = s.b.operand(step + 1, tile.direction, wide, s.row_blocks);
    for (int i = thread; i < Product::kRows * kStepUnits; i += kStepThreads) {
        const int row = i / kStepUnits, unit = at.unit + i % kStepUnits;
        if (row >= tile.rows || unit >= p.hidden) continue;
        for (int gate = 0; gate < gates; ++gate)
            *rows.sum_at(row, gate, unit) = Product::total(partials, gate, row, i % kStepUnits);
        const bool is_in = t < p.length(tile.first + row);
        Units h = Units::zeros();
        if (is_in) {
            s.forward.unit_step(tile, rows, t, row, unit, 1);
            h = Units::of(rows.operand_at(row, unit), 1);
        } else {
            s.forward.skip(tile, t, row, unit, 1);
        }
        s.forward.give(tile, rows, t, row, unit, 1, h, is_in);
        if (step + 1 < p.seqlen) {
            next[operand_index(s.row_blocks, unit, tile.first + row)] = is_in ? h.at[0] : *rows.h_at(row, unit);
            continue;
        }
        s.forward.store_h(tile, rows, row, unit, 1);
        s.forward.store_c(tile, rows, row, unit, 1);
    }
}

inline Status run_steps(const Launch& launch, const CellProblem& p, const StepBuffers& buffers) {
    const PackFragments pack{p, buffers.matrix, multiplies_f32(p, true), false};
    BK_TRY(run_teams(launch, pack.items(), 4096, pack));
    const ForwardStep step{{p}, buffers, StepBuffers::row_blocks(p)};
    const StartForward start{p, buffers, step.row_blocks};
    BK_TRY(run_teams(launch, start.items(), 4096, start));
    constexpr StepShape large{kStepUnits, kStepRows}, small{kStepUnits, kStepRows / 2};
    return with_step_element(p, true, [&](auto element) {
        using E = decltype(element);
        if (large.fits(p))
            return run_step_kernels(launch, step, large.items(p), p.seqlen, forward_step_kernel<E, kStepRows / 8>);
        return run_step_kernels(launch, step, small.items(p), p.seqlen, forward_step_kernel<E, kStepRows / 16>);
    });
}

}  // namespace bk::recurrent

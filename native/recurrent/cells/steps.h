// SPDX-License-Identifier: Apache-2.0
// A launch for each token on a GPU: a block has 16 hidden units, with all their gates, of up to 32 sequences, so that every SM
// reads its part of the recurrent matrix alone. The launch of a token waits for the one before it, as kernels of a stream do;
// nothing else synchronises, and graphs can capture it.
//
// The matrix is packed once for each call, in its own dtype and the order of tensor-core fragments. The operand of the product,
// h or the gradients of the gates, is f32 in a buffer of this order that the launch before has written. A matrix of 16 bits
// multiplies its 24 bits as three numbers of bf16, or 22 as two of f16; f32 is 3xTF32. Sums have one order for every batch.
// States in f32 stay in place.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "recurrent/cells/backward.h"

namespace bk::recurrent {

constexpr int kStepUnits = 16, kStepRows = 32;

// Elements of a direction's recurrent matrix that one launch for all tokens serves best, 64 x 64 x 4 of them: a launch takes
// about two microseconds. The batch has no say, so that a sequence has the same bits in every batch.
constexpr int64_t kTeamElements = int64_t{1} << 14;

// Cells with a second product within a token are not divided into steps.
inline bool goes_by_steps(const CellProblem& p) {
    return BK_CUDA && p.seqlen > 0 && !p.projects() && p.outputs == p.hidden && p.cell != Cell::kGruResetFirst &&
           p.gate_rows() > kTeamElements / p.outputs;
}

// Workspace of a layer that goes by steps.
struct StepBuffers {
    // The matrix: [directions, blocks of 16 rows, blocks of 16 of K, gates, fragment].
    void* matrix;
    // A token reads one and writes the other: [directions, blocks of 16 of K, blocks of 8 sequences, fragment].
    float* operands[2];
    float *h, *c;  // [directions, batch, padded hidden]

    // The operand of a step; `deep` is the padded K.
    BK_HD float* operand(int64_t step, int64_t direction, int64_t deep, int64_t row_blocks) const {
        return operands[step % 2] + direction * deep * row_blocks * 8;
    }
    static int64_t row_blocks(const CellProblem& p) { return ceil_div<int64_t>(p.batch, kStepRows) * (kStepRows / 8); }

    static StepBuffers carve(Carver* carver, const CellProblem& p, int64_t deep) {
        StepBuffers b{};
        if (!goes_by_steps(p)) return b;
        const int64_t wide = CellProblem::padded(p.hidden), states = p.directions * p.batch * wide;
        b.matrix = carver->take<float>(p.directions * p.gates_count() * wide * wide);
        for (float*& operand : b.operands) operand = carver->take<float>(p.directions * deep * row_blocks(p) * 8);
        b.h = carver->take<float>(states);
        b.c = carver->take<float>(states);
        return b;
    }
};

// All tokens of a layer that goes by steps.
Status run_steps(const Launch& launch, const CellProblem& p, const StepBuffers& buffers);
Status run_steps_backward(const Launch& launch, const CellProblem& p, const CellGradients& d, const StepBuffers& buffers);

}  // namespace bk::recurrent

#if BK_CUDA
#include "recurrent/cells/steps_backward_cuda.cuh"
#include "recurrent/cells/steps_cuda.cuh"
#else
#include "recurrent/cells/steps_cpu.h"
#endif

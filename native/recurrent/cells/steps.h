// SPDX-License-Identifier: Apache-2.0
// A launch for each product of a token on a GPU: a block has 16 hidden units, with all their gates, of up to 32 sequences, so
// that every SM reads its part of the recurrent matrix alone. A launch waits for the one before it, as kernels of a stream do;
// nothing else synchronises, and graphs can capture it. Tokens have two products with a projection, and with a reset gate in
// front of R.
//
// The matrix is packed once for each call, in its own dtype and the order of tensor-core fragments. The operand of the product,
// h or the gradients of the gates, is f32 in a buffer of this order that the launch before has written. Beside a matrix of bf16
// it is split into three numbers of bf16, which have all its 24 bits, beside f16 into two, which have 22; f32 is 3xTF32. Sums
// have one order for every batch. States in f32 stay in place.
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

// Whether a layer has a launch for each product; a projection changes only how many these are.
inline bool goes_by_steps(const CellProblem& p) { return BK_CUDA && p.seqlen > 0 && p.gate_rows() > kTeamElements / p.outputs; }

// Workspace of a layer that goes by steps.
struct StepBuffers {
    void *recurrent, *projection;  // as PackFragments has them
    // A launch reads one and writes the other: [directions, blocks of 16 of K, blocks of 8 sequences, fragment].
    float* operands[2];
    float *h, *c;        // [directions, batch, wide]
    float* outputs;      // of the backward pass with a projection: the gradient of h
    int32_t wide, deep;  // hidden or outputs, and K, padded
    int64_t row_blocks;  // of eight sequences

    // The operand of a launch.
    BK_HD float* operand(int64_t at, int64_t direction) const { return operands[at % 2] + direction * deep * row_blocks * 8; }

    static StepBuffers carve(Carver* carver, const CellProblem& p, bool is_forward) {
        StepBuffers b{};
        if (!goes_by_steps(p)) return b;
        const int64_t hidden = CellProblem::padded(p.hidden), outputs = CellProblem::padded(p.outputs);
        const bool may_project = p.cell == Cell::kLstm;
        b.wide = static_cast<int32_t>(hidden > outputs ? hidden : outputs);
        const int64_t deep = is_forward ? hidden : hidden * p.gates_count();
        b.deep = static_cast<int32_t>(deep > outputs ? deep : outputs);
        b.row_blocks = ceil_div<int64_t>(p.batch, kStepRows) * (kStepRows / 8);
        b.recurrent = carver->take<float>(p.directions * p.gates_count() * hidden * outputs);
        b.projection = carver->take<float>(may_project ? p.directions * hidden * outputs : 0);
        for (float*& operand : b.operands) operand = carver->take<float>(p.directions * b.deep * b.row_blocks * 8);
        b.h = carver->take<float>(p.directions * p.batch * b.wide);
        b.c = carver->take<float>(p.directions * p.batch * b.wide);
        b.outputs = carver->take<float>(may_project && !is_forward ? p.seqlen * p.batch * p.directions * p.outputs : 0);
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

// SPDX-License-Identifier: Apache-2.0
// No layer goes by steps: threads of a CPU share out sequences.
#pragma once

#include "recurrent/cells/steps.h"

namespace bk::recurrent {

inline Status run_steps(const Launch&, const CellProblem&, const StepBuffers&) { return Status::kOk; }
inline Status run_steps_backward(const Launch&, const CellProblem&, const CellGradients&, const StepBuffers&) {
    return Status::kOk;
}

}  // namespace bk::recurrent

# SPDX-License-Identifier: Apache-2.0
"""Every op can be captured in a CUDA graph, and a replay computes on the arrays' new values."""

import pytest
from cuda.bindings import runtime
from gpu_tools import captured, check, prepare, problem_of, stream, variants

from harness import NAN_POISON, cuda_check


@pytest.mark.parametrize(("op", "workspace"), variants())
def test_capture_and_replay(library, op, workspace):
    case, problem = problem_of(op)
    _, other = problem_of(op, "replay")
    if any(other.arrays[name].shape != array.shape for name, array in problem.arrays.items()):
        other = problem  # values decide about sizes
    other.scalars, other.host = problem.scalars, problem.host  # the graph has these
    direct, direct_other = (prepare(library, op, p, workspace) for p in (problem, other))
    outcome = check(library, case, op, problem, direct, workspace, direct.run())
    outcome_other = check(library, case, op, other, direct_other, workspace, direct_other.run())

    prepared = prepare(library, op, problem, workspace)
    with stream() as handle:
        graph, status = captured(handle, lambda: prepared.run(handle))
        assert status == 0
        for name, buffer in prepared.given.items():
            buffer.check(f"{op}: {name} during the capture", written=False)
        replay = cuda_check(runtime.cudaGraphInstantiate(graph, 0))
        for inputs, reference, want in (
            (direct, outcome, problem),
            (direct_other, outcome_other, other),
            (direct, outcome, problem),
        ):
            for name, buffer in prepared.given.items():
                if name in prepared.row.points:
                    continue  # addresses within its own memory
                buffer.image = inputs.buffers[name].image
                buffer.block.write(buffer.image)
            prepared.workspace and prepared.workspace.set_bits(NAN_POISON)
            cuda_check(runtime.cudaGraphLaunch(replay, handle))
            cuda_check(runtime.cudaStreamSynchronize(handle))
            check(library, case, op, want, prepared, workspace, reference=reference)
        cuda_check(runtime.cudaGraphExecDestroy(replay))
        cuda_check(runtime.cudaGraphDestroy(graph))

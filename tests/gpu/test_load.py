# SPDX-License-Identifier: Apache-2.0
"""Deterministic ops give the same bits while other streams keep the chip busy with launches of the same op."""

import contextlib

import pytest
from cuda.bindings import runtime
from gpu_tools import check, full_variants, gate, prepare, problem_of, stream

from harness import OPS, cuda_check

FAMILIES = ("embedding", "indexing", "segment", "shape_layout")
REPEATS, STREAMS, LOAD = 6, 3, 8  # launches that are compared; other streams, and launches on each


def promised():
    """Every op of the families, and way to call it, that promises an order of its additions."""
    for op, workspace in full_variants():
        claim = OPS[op][0].deterministic
        if OPS[op][0].family in FAMILIES and (claim == "yes" or (claim == "workspace" and workspace)):
            yield op, workspace


@pytest.mark.parametrize(("op", "workspace"), list(promised()))
def test_the_same_bits_under_load(library, op, workspace):
    case, problem = problem_of(op)
    alone = prepare(library, op, problem, workspace)
    outcome = check(library, case, op, problem, alone, workspace, alone.run())
    repeats = [prepare(library, op, problem, workspace) for _ in range(REPEATS)]
    load = [[prepare(library, op, problem_of(op, 2)[1], workspace) for _ in range(LOAD)] for _ in range(STREAMS)]
    with contextlib.ExitStack() as streams:
        own, *others = [streams.enter_context(stream()) for _ in range(1 + STREAMS)]
        with gate() as held:  # all begin together
            for handle in (own, *others):
                held.hold(handle)
            for handle, launches in zip(others, load):
                assert [launch.run(handle) for launch in launches] == [0] * LOAD
            assert [launch.run(own) for launch in repeats] == [0] * REPEATS
        for handle in (own, *others):
            cuda_check(runtime.cudaStreamSynchronize(handle))
        for launch in repeats:
            check(library, case, op, problem, launch, workspace, reference=outcome)

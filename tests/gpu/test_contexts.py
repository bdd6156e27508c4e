# SPDX-License-Identifier: Apache-2.0
"""Ops run in the current context, also in one made by cuCtxCreate, and in the primary one again afterwards."""

import pytest
from cuda.bindings import driver
from gpu_tools import check, full_variants, in_thread, prepare, problem_of

from harness import cuda_check


@pytest.fixture(scope="module")
def context():
    """A context that is not the device's primary one."""
    cuda_check(driver.cuInit(0))
    made = cuda_check(driver.cuCtxCreate(None, 0, cuda_check(driver.cuDeviceGet(0))))
    cuda_check(driver.cuCtxPopCurrent())
    yield made
    cuda_check(driver.cuCtxDestroy(made))


def run_and_check(library, op, workspace, seed):
    case, problem = problem_of(op, seed)
    prepared = prepare(library, op, problem, workspace)
    return check(library, case, op, problem, prepared, workspace, prepared.run())


@pytest.mark.parametrize(("op", "workspace"), full_variants())
def test_other_context(library, context, op, workspace):
    def elsewhere():
        cuda_check(driver.cuCtxPushCurrent(context))
        try:
            run_and_check(library, op, workspace, "other context")
            assert int(cuda_check(driver.cuCtxGetCurrent())) == int(context), "the op changed the current context"
        finally:
            cuda_check(driver.cuCtxPopCurrent())
        return True

    run_and_check(library, op, workspace, "primary")
    assert in_thread(elsewhere)
    run_and_check(library, op, workspace, "primary again")

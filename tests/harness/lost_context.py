# SPDX-License-Identifier: Apache-2.0
"""Names the test in which a kernel faults.

A fault, such as an access to an illegal address, ends a process's CUDA context: every later call fails with the same
error. The test after which the context is lost says so, and names the one before it, whose kernels may still have run.
A worker of pytest-xdist then ends, so that a new process runs the other tests; alone, the later tests fail at once.
"""

import os
from collections.abc import Generator

import pytest

FAULTS = {700: "illegal address", 714: "hardware stack", 715: "illegal instruction", 716: "misaligned address",
          717: "invalid address space", 718: "invalid program counter", 719: "launch failure"}  # fmt: skip


class LostContext:
    def __init__(self) -> None:
        self.before = "none"
        self.lost = ""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, None, None]:
        outcome = yield
        report = outcome.get_result()
        fault = fault_of_device() if report.failed and not self.lost else None
        if fault:
            self.lost = f"{item.nodeid} lost the CUDA context ({fault}), or {self.before} before it did"
            report.sections.append(("CUDA", self.lost))
        if report.when == "teardown":
            self.before = item.nodeid

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if not self.lost:
            return
        if hasattr(item.config, "workerinput"):
            os._exit(1)
        pytest.fail(self.lost, pytrace=False)


def fault_of_device() -> str | None:
    """The fault that ended the context of this process, if one did."""
    from cuda.bindings import runtime

    return FAULTS.get(int(runtime.cudaDeviceSynchronize()[0]))

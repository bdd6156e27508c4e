# SPDX-License-Identifier: Apache-2.0
"""Ranks are processes with the CPU library, whose engines are tested: they are left out for a library of GPUs or
fibers, and under sanitizers, where they would find nothing that other tests do not find.
"""

import pathlib

import pytest

import baracuda as bk
from distributed import ranks

HERE = pathlib.Path(__file__).parent


def pytest_ignore_collect(collection_path, config):
    return True if bk.default_library().backend != "cpu" else None


@pytest.hookimpl(tryfirst=True)  # before marks are selected by
def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.unsanitized("ranks are processes, which call what other tests call"))


@pytest.fixture(scope="session", autouse=True)
def _ended():
    yield
    ranks.end_all()

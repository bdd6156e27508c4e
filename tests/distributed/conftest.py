# SPDX-License-Identifier: Apache-2.0
"""Ranks are processes with the CPU library; they end with the session."""

import pytest

import baracuda as bk
from distributed import ranks


def pytest_ignore_collect(collection_path, config):
    return True if bk.default_library().backend != "cpu" else None


@pytest.hookimpl(tryfirst=True)  # before marks are selected by
def pytest_collection_modifyitems(items):
    for item in items:
        if "distributed" in item.path.parts:
            item.add_marker(pytest.mark.unsanitized("ranks are processes, which call what other tests call"))


@pytest.fixture(scope="session", autouse=True)
def _ended():
    yield
    ranks.end_all()

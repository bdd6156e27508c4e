"""Fixtures for all tests."""

import numpy as np
import pytest

import baracuda as bk


@pytest.fixture(scope="session")
def library() -> bk.Library:
    """The library under test: the default one."""
    return bk.default_library()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260731)

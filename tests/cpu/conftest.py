import ctypes

import pytest


@pytest.fixture
def set_threads(library):
    """omp_set_num_threads of the OpenMP runtime that the library has loaded."""
    runtime = ctypes.CDLL("libgomp.so.1")
    before = runtime.omp_get_max_threads()
    yield runtime.omp_set_num_threads
    runtime.omp_set_num_threads(before)

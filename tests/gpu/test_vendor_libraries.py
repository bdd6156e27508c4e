# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's libraries behind core/vendor/vendor.h: the entries of its table, and the guarantees that its handles rely
on."""

import ctypes
import subprocess
import sys

import pytest
from cuda.bindings import runtime
from gpu_tools import captured, in_thread, stream

import baracuda as bk
from baracuda._library import vendor
from harness import cuda_check

KEYS = ("cublasLt", "cudnn", "cufft", "cusolver", "nccl")
# the functions that return the version (and whether through a pointer), make a handle, and set its stream
FUNCTIONS = {
    "cublasLt": ("cublasLtGetVersion", False, "cublasLtCreate", None),
    "cudnn": ("cudnnGetVersion", False, "cudnnCreate", "cudnnSetStream"),
    "cufft": ("cufftGetVersion", True, None, None),
    "cusolver": ("cusolverGetVersion", True, "cusolverDnCreate", "cusolverDnSetStream"),
    "nccl": ("ncclGetVersion", True, None, None),
}
MAJOR_UNIT = {"cufft": 1000, "cusolver": 1000}


def opened(library, key):
    """The first soname that is loaded after preload(), and the library; None where it is not installed."""
    try:
        vendor.preload(library, key)
    except bk.UnsupportedError as error:
        assert vendor.vendors(library)[key]["packages"][0] in str(error)
        return None
    for soname in vendor.vendors(library)[key]["sonames"]:
        try:
            return soname, ctypes.CDLL(soname)
        except OSError:
            continue
    raise AssertionError(f"{key} is loaded, but by none of the sonames that the library asks for")


def test_table(library):
    assert tuple(vendor.vendors(library)) == KEYS


@pytest.mark.parametrize("key", KEYS)
def test_version(library, key):
    """The version is read in the right unit: its major is the number in the soname."""
    if found := opened(library, key):
        soname, lib = found
        name, by_pointer, *_ = FUNCTIONS[key]
        if by_pointer:
            value = ctypes.c_int()
            assert getattr(lib, name)(ctypes.byref(value)) == 0
            version = value.value
        else:
            getattr(lib, name).restype = ctypes.c_size_t
            version = getattr(lib, name)()
        assert version // MAJOR_UNIT.get(key, 10000) == int(soname.rpartition(".")[2])


@pytest.mark.parametrize("key", [key for key in KEYS if FUNCTIONS[key][2]])
def test_handle_beside_a_capture(library, key):
    """A handle made in the relaxed mode and set to a captured stream leaves another thread's capture alone."""
    if not (found := opened(library, key)):
        return
    _, _, create, set_stream = FUNCTIONS[key]
    lib = found[1]

    def make():
        relaxed = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed
        cuda_check(runtime.cudaThreadExchangeStreamCaptureMode(relaxed))
        handle = ctypes.c_void_p()
        assert getattr(lib, create)(ctypes.byref(handle)) == 0
        if set_stream:
            assert getattr(lib, set_stream)(handle, ctypes.c_void_p(own)) == 0
        return True

    with stream() as own:
        graph, is_made = captured(own, lambda: in_thread(make))
        assert is_made
        cuda_check(runtime.cudaGraphDestroy(graph))


def test_info_says_where_they_are(library):
    result = subprocess.run([sys.executable, "-m", "baracuda", "info"], capture_output=True, text=True, check=True)
    for about in vendor.vendors(library).values():
        (line,) = [line for line in result.stdout.splitlines() if line.strip().startswith(about["name"])]
        assert ".so" in line or f"not found: install the package {about['packages'][0]}" in line

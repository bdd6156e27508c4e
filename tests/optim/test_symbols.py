# SPDX-License-Identifier: Apache-2.0
"""The C functions: what they refuse, with which text, and the reference's numbers."""

import re

import numpy as np
import pytest

COMMON = {
    "lr": 0.1, "step": 1, "grad_scale": 1.0, "max_norm": 0.0, "ema_decay": 0.0, "maximize": 0, "rounding": 0,
    "state_bits": 32, "zero_grads": 0, "seed": 0, "lr_at": None, "step_at": None, "scale_at": None,
    "found_inf_at": None, "norm_at": None,
}  # fmt: skip
ADAM = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.0, "decoupled": 0, "bias_correction": 1}


@pytest.fixture
def call(library):
    def run(name, *arguments):
        ffi = library.ffi
        given = [ffi.NULL if a is None else a for a in arguments]
        status = getattr(library.lib, name)(*given)
        return status, library.last_error() if status else ""

    return run


def lists(library, numbers, ctype):
    return library.ffi.new(f"{ctype}[]", numbers)


def table(library, device, sizes=(4,)):
    """A table of as many parameters with gradients as states, on the device."""
    ffi, lib = library.ffi, library.lib
    refs = [[device.put(np.ones(n)) for n in sizes] for _ in range(4)]
    each = [lists(library, [ffi.cast("void*", ref.ptr) for ref in group], "void*") for group in refs]
    own = lists(library, list(sizes), "int64_t")
    chunks = lib.baracuda_kernels_optim_chunk_count(len(sizes), own)
    nbytes = lib.baracuda_kernels_optim_table_bytes(len(sizes), chunks)
    host, target = np.zeros(nbytes // 4, np.uint32), device.put(np.zeros(nbytes // 4), "u32")
    at = ffi.cast("void*", host.ctypes.data)
    null = ffi.NULL
    assert lib.baracuda_kernels_optim_table_fill(len(sizes), own, *each[:4], null, null, null, at, nbytes) == 0
    assert lib.baracuda_kernels_optim_upload_run(at, ffi.cast("void*", target.ptr), nbytes, null) == 0
    np.testing.assert_array_equal(device.bits(target).view(np.uint32), host)
    return ffi.cast("void*", target.ptr), len(sizes), chunks, refs


@pytest.mark.parametrize(("status", "text", "changes"), [
    (2, r"optim_adam_f32_run: beta1 is 1, must be in \[0, 1\)", {"beta1": 1.0}),
    (2, "beta2 is nan", {"beta2": float("nan")}),
    (2, "eps is -1, must be >= 0", {"eps": -1.0}),
    (2, "weight_decay is -1", {"weight_decay": -1.0}),
    (2, "step is 0, must be >= 1", {"step": 0}),
    (2, r"ema_decay is 2, must be in \[0, 1\]", {"ema_decay": 2.0}),
    (2, "rounding is 3, must be 0, 1 or 2", {"rounding": 3}),
    (3, "rounding is 1, error words", {"rounding": 1}),
    (3, "rounding is 2, stochastic", {"rounding": 2}),
    (2, "state_bits is 16, must be 32 or 8", {"state_bits": 16}),
    (2, "n_tensors is -1, must be >= 0", {"n_tensors": -1}),
    (2, "n_chunks is -1, must be >= 0", {"n_chunks": -1}),
    (2, "table is NULL", {"table": None}),
    (1, "table is 0x", {"table": 4}),
])  # fmt: skip
def test_refusals(library, device, call, status, text, changes):
    at, n, chunks, refs = table(library, device)
    arguments = {"table": at, "n_tensors": n, "n_chunks": chunks, **ADAM, **COMMON, **changes}
    if arguments["table"] == 4:
        arguments["table"] = at + 4
    found = call("baracuda_kernels_optim_adam_f32_run", *arguments.values(), None)
    assert found[0] == status
    assert re.search(text, found[1]), found[1]
    np.testing.assert_array_equal(device.values(refs[0][0]), 1)


def test_nothing_to_do(call):
    assert call("baracuda_kernels_optim_adam_f32_run", None, 0, 0, *ADAM.values(), *COMMON.values(), None) == (0, "")
    assert call("baracuda_kernels_optim_upload_run", None, None, 0, None) == (0, "")


def test_tables(library, device, call):
    lib, ffi = library.lib, library.ffi
    sizes = lists(library, [0, 1, 4096, 4097, 2**33], "int64_t")
    assert lib.baracuda_kernels_optim_chunk_count(5, sizes) == 0 + 1 + 1 + 2 + 2**21
    assert lib.baracuda_kernels_optim_chunk_count(1, lists(library, [-1], "int64_t")) == -1
    assert "sizes[0] is -1" in library.last_error()
    assert lib.baracuda_kernels_optim_table_bytes(3, 10) == 32 + 3 * 64 + 40
    host = lists(library, [0] * 64, "uint64_t")
    one = lists(library, [ffi.cast("void*", 4096)], "void*")
    four = lists(library, [4], "int64_t")
    name = "baracuda_kernels_optim_table_fill"
    assert call(name, 1, four, one, *[None] * 6, host, 8) == (4, "optim_table_fill: table_bytes is 8, must be >= 84")
    assert call(name, 1, four, None, *[None] * 6, host, 512) == (2, "optim_table_fill: params is NULL")
    assert call(name, 1, None, one, *[None] * 6, host, 512) == (2, "optim_table_fill: sizes is NULL")
    empty = lists(library, [ffi.NULL], "void*")
    assert call(name, 1, four, empty, *[None] * 6, host, 512) == (2, "optim_table_fill: params[0] is NULL")
    status, text = call("baracuda_kernels_optim_upload_run", host, host, 6, None)
    assert (status, text) == (2, "optim_upload_run: bytes is 6, must be a multiple of 4")


def test_workspaces(library, device, call):
    at, n, chunks, _ = table(library, device, (4, 5000))
    lib = library.lib
    needed = lib.baracuda_kernels_optim_lamb_f32_workspace_size(n, chunks)
    given = [at, n, chunks, *ADAM.values(), 0.0, 10.0, *COMMON.values()]
    status, text = call("baracuda_kernels_optim_lamb_f32_run", *given, None, 0, None)
    assert (status, text) == (4, f"optim_lamb_f32_run: workspace_bytes is 0, must be >= {needed}")
    norm = device.put([0.0])
    pointer = library.ffi.cast("void*", norm.ptr)
    numbers = (at, n, chunks, 2.0, 1.0, None, pointer, None, None, 0, None)
    status, text = call("baracuda_kernels_optim_norm_f32_run", *numbers)
    assert status == 4 and text.endswith(f"must be >= {lib.baracuda_kernels_optim_norm_workspace_size(chunks)}")


def test_found_inf_of_a_norm(library, device, call):
    at, n, chunks, refs = table(library, device, (4, 5000))
    ffi = library.ffi
    norm, found, scale = device.put([7.0]), device.put([7.0]), device.put([2.0])
    nbytes = library.lib.baracuda_kernels_optim_norm_workspace_size(chunks)
    workspace = device.poison((nbytes,), "u8")
    pointers = [ffi.cast("void*", each.ptr) for each in (scale, norm, found, workspace)]
    for value in (1.0, np.inf):
        device.set(refs[1][0], [1, 1, value, 1])
        assert call("baracuda_kernels_optim_norm_f32_run", at, n, chunks, 2.0, -3.0, *pointers, nbytes, None)[0] == 0
        assert device.values(norm) == pytest.approx(1.5 * np.sqrt(5003 + value**2))
        assert device.values(found) == np.isinf(value)


def test_the_numbers_of_the_reference(library):
    lib = library.lib
    assert lib.baracuda_optim_chunk_size() == 2048
    assert lib.baracuda_optim_max_tensors_per_launch() == 110
    assert lib.baracuda_optim_max_blocks_per_launch() == 320
    counts = [lib.baracuda_optim_chunk_count(n) for n in (-1, 0, 1, 2048, 2049, 2**31 - 1)]
    assert counts == [0, 0, 1, 1, 2, 2**20]


def test_refusals_of_the_reference(library, device, call):
    four, p = lists(library, [4], "int32_t"), lists(library, [library.ffi.cast("void*", 4096)], "void*")
    numbers = (1, 0.1, 0.9, 0.99, 1e-8, 0.0, 1, 0, None)
    name = "baracuda_optim_adam_f32_run"
    assert call(name, 0, four, p, p, p, p, *numbers) == (2, f"{name}: n_tensors is 0, must be > 0")
    assert call(name, 1, None, p, p, p, p, *numbers) == (2, f"{name}: sizes is NULL")
    assert call(name, 1, four, p, None, p, p, *numbers) == (2, f"{name}: grads is NULL")
    minus = lists(library, [-4], "int32_t")
    assert call(name, 1, minus, p, p, p, p, *numbers) == (2, f"{name}: sizes[0] is -4, must be >= 0")
    nothing = lists(library, [library.ffi.NULL], "void*")
    assert call(name, 1, four, p, p, nothing, p, *numbers) == (2, f"{name}: exp_avg[0] is NULL")

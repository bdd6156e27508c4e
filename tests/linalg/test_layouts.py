# SPDX-License-Identifier: Apache-2.0
"""Layouts and extents of strided matrices: results over an operand whose strides differ are refused, and workspaces of
matrices that no memory holds are large numbers."""

import numpy as np
import pytest

from .test_spectral_symbols import Device

MOST = 2**31 - 1
BATCH, N = 3, 4
DENSE = (N * N, N, 1)
# Other orders of the same elements, which begin at the same address: of rows and columns, of the batch and one of them.
OTHERS = [(N * N, 1, N), (1, 3 * N, 3), (1, 3, 3 * N), (3, 1, 3 * N), (N, 3 * N, 1)]


@pytest.fixture
def device(library):
    found = Device(library)
    found.function("linalg_cholesky_f32_run")
    return found


def strides(device, values):
    return device.ffi.new("int64_t[3]", values)


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_a_result_over_its_operand_has_equal_strides(device, other):
    """Whatever the strides have in common: both arrays cover the same bytes."""
    a = device.put(np.stack([np.eye(N, dtype=np.float32)] * BATCH), "f32")
    info = device.empty((BATCH,), "i32")
    given = [device.ffi.NULL, 0, device.ffi.NULL]
    run = lambda s: device.call(  # noqa: E731
        "linalg_cholesky_f32_run", BATCH, N, 0, strides(device, DENSE), strides(device, s), a, a, info, *given
    )
    assert run(other) == 2
    assert "l overlaps a" in device.ffi.string(device.library.lib.baracuda_kernels_last_error()).decode()
    np.testing.assert_array_equal(device.values(a), np.stack([np.eye(N)] * BATCH))
    assert run(DENSE) == 0
    np.testing.assert_array_equal(device.values(a), np.stack([np.eye(N)] * BATCH))


@pytest.mark.parametrize(
    "name, extents",
    [
        ("linalg_det_f64", (MOST, 1000)),
        ("linalg_det_c64", (1000, MOST)),
        ("linalg_slogdet_c64", (1 << 16, 1 << 16)),
        ("linalg_lstsq_c64", (1, MOST, MOST, 1)),
        ("linalg_solve_c64", (1, MOST, 1)),
        ("linalg_ldl_solve_c64", (1, MOST, 1)),
    ],
)
def test_workspaces_of_broadcast_matrices_do_not_overflow(device, name, extents):
    """Strides of 0 make a small array a matrix of any extents: its workspace is a large number, not a wrapped one."""
    function = device.function(f"{name}_workspace_size")
    types = [t.cname for t in device.ffi.typeof(function).args]
    scalars = iter([*extents, 0])
    lists = iter([(0, 0, 0), (0, 0, 0), (MOST, 1, 1)])  # of a, b and x
    kept = [
        strides(device, next(lists)) if t.endswith("*") else -1.0 if t == "double" else next(scalars) for t in types
    ]
    smallest = extents[0] * extents[1] * 4
    assert smallest < function(*kept) < 2**64 - 1


@pytest.mark.parametrize(
    "name, extents",
    [
        ("eigh_f64", (0, MOST)),
        ("eigh_c64", (1, MOST)),
        ("svd_f64", (MOST, MOST)),
        ("svd_batched_f64", (1, MOST, MOST)),
        ("svda_batched_f64", (1, MOST, MOST, MOST, MOST)),
        ("lstsq_f64", (MOST, MOST, MOST)),
        ("solve_f64", (MOST, MOST)),
        ("inverse_f64", (MOST, MOST)),
        ("lu_f64", (MOST, MOST, MOST)),
        ("qr_f64", (MOST, MOST, MOST)),
        ("eig", (5, 1, 1, MOST)),
    ],
)
def test_workspaces_of_the_largest_extents_do_not_overflow(device, name, extents):
    size, *_ = device.size(f"{name}_workspace_size", *extents, sizes=2 if name == "eig" else 1)
    assert 2**31 < size < 2**63

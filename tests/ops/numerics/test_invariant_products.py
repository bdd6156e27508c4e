# SPDX-License-Identifier: Apache-2.0
"""Batch-invariant products: the bits of a row of D do not change with the number of rows, their order, their
neighbours, pitch, alignment, layout of A, or workspace.
"""

import numpy as np
import pytest

import tolerances
from cases import Draw
from cases.gemm.epilogue import WITHOUT_Z, epilogue, gated, without
from cases.gemm.scaled import scaled
from harness import OPS, launch
from naming import each_row

ANY, INVARIANT = 0, 5  # values of the parameter backend
ROWS = 140
BY_ROWS = {"a": 0, "r": 0, "row_bias": 0, "a_scale": 0}  # operands with an element or a row for each row of D
SPECIAL = (3, 7, 100)  # rows of NaN, of infinities, and of subnormals
# name -> rows of the whole problem, elements between rows, whether A is transposed
SELECTIONS = {
    "reversed": (range(ROWS)[::-1], 0, False),
    "first": ((0,), 0, False),
    "last": ((ROWS - 1,), 3, True),
    "two": ((64, 1), 8, False),
    "eight": (range(20, 28), 0, True),
    "nine": (range(11, 20), 5, False),
    "slice": (range(31, 97), 0, False),
    "repeated": ((*range(ROWS), *range(9, ROWS)), 1, False),
}
OF_GEMM = {
    "gemm_epilogue_{T}": (epilogue, {"coeffs": (0.75, 0), "activation": 2, "null": without("bias", "r", "row_bias")}),
    "gemm_epilogue_t{T}": (epilogue, {"coeffs": (1, 0), "null": without("bias")}),
    "gemm_epilogue_{T}_{U}": (epilogue, {"coeffs": (1, 0), "activation": 4, "null": without("r")}),
    "gemm_gated_{T}": (gated, {"null": WITHOUT_Z}),
    "gemm_scaled_{T}_{U}": (scaled, {"coeffs": (0.5, 0), "scaling": 1}),
    "gemm_scaled_{T}_fp8e4m3_{U}": (scaled, {"coeffs": (0.5, 0), "scaling": 1, "of_b": "fp8e4m3"}),
}


def of_rows(op, name, whole, rows, gap, a_is_transposed, backend):
    """The problem of some rows of a whole one."""
    row, slots = OPS[op]
    make, options = OF_GEMM[row.name]
    layout = whole.scalars["layout"] + 2 * a_is_transposed
    gaps = {"gaps": (gap, gap, gap)} if make is scaled else {"gap": gap}
    n, k = whole.scalars["n"], whole.scalars["k"]
    p = make(Draw(slots, name), len(rows), n, k, layout=layout, **gaps, **options)
    rows = np.array(rows)
    for operand, array in p.arrays.items():
        if array.values is None or operand == "d":
            continue
        values = whole.arrays[operand].values
        if operand in BY_ROWS:
            values = values[:, rows] if values.ndim == 3 else values[rows]
        array.values = np.ascontiguousarray(np.swapaxes(values, -1, -2) if operand == "a" and layout > 1 else values)
    p.scalars["backend"] = backend
    return p


def whole_problem(op, layout, n, k):
    row, slots = OPS[op]
    make, options = OF_GEMM[row.name]
    p = make(Draw(slots, f"{op} {layout} {n} {k}"), ROWS, n, k, layout=layout, **options)
    a = p.arrays["a"]
    values = a.values.copy()
    if slots["T"].startswith("fp8"):
        values[..., SPECIAL[0], k // 2] = np.nan
    elif slots["T"] != "i8":
        tiny = np.finfo(np.float64 if slots["T"] == "f64" else np.float32).smallest_subnormal
        tiny = 2.0**-24 if slots["T"] == "f16" else tiny * 2**16
        for which, value in zip(SPECIAL, (np.nan, np.inf, tiny)):
            values[..., which, k // 2] = value
    a.values = values
    return p


def bits(library, op, name, whole, selection, backend, workspace):
    rows, gap, a_is_transposed = selection
    outcome = launch(library, op, of_rows(op, name, whole, rows, gap, a_is_transposed, backend), workspace=workspace)
    assert outcome.status == 0, outcome.text
    d = np.asarray(outcome.bits["d"])
    return outcome.dtypes["d"], d.reshape(len(rows), whole.scalars["n"])


@each_row([op for op in OPS if OPS[op][0].name in OF_GEMM])
@pytest.mark.parametrize(("layout", "n", "k"), [(0, 72, 700), (1, 72, 700), (0, 5, 40), (1, 37, 136)])
def test_rows_of_products(library, op, layout, n, k):
    name = f"{op} {layout} {n} {k}"
    whole = whole_problem(op, layout, n, k)
    dtype, expected = bits(library, op, name, whole, (range(ROWS), 0, False), INVARIANT, "full")
    for label, selection in SELECTIONS.items():
        for workspace in (None, "full"):
            _, found = bits(library, op, name, whole, selection, INVARIANT, workspace)
            what = f"{op}: {label}, workspace {workspace}"
            tolerances.check_bits(what, found, expected[np.array(selection[0])], dtype)


@each_row([op for op in ("gemm_epilogue_f32", "gemm_epilogue_bf16_f32") if op in OPS])
def test_other_kernels_are_not_invariant(library, op):
    """The test above would find a kernel whose sums depend on the number of rows."""
    whole = whole_problem(op, 1, 72, 700)
    _, expected = bits(library, op, op, whole, (range(ROWS), 0, False), ANY, "full")
    _, found = bits(library, op, op, whole, (range(8), 0, False), ANY, None)
    assert not np.array_equal(found, expected[:8])


@each_row([op for op in OPS if OPS[op][0].name == "gemm_epilogue_{T}" and OPS[op][1]["T"] != "f64"])
def test_long_sums_on_the_cpu(library, op):
    """Sums of more than 32768 elements have totals, whose spans may not depend on where operands are packed."""
    if library.backend != "cpu":
        return
    whole = whole_problem(op, 1, 24, 40_000)
    dtype, expected = bits(library, op, op, whole, (range(ROWS), 0, False), INVARIANT, "full")
    for rows in ((5,), range(9, 18)):
        _, found = bits(library, op, op, whole, (rows, 0, False), INVARIANT, "full")
        tolerances.check_bits(f"{op}: {rows}", found, expected[np.array(rows)], dtype)

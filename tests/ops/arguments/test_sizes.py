# SPDX-License-Identifier: Apache-2.0
"""Operands of 2^47 bytes and more: _can_implement refuses any that is longer, and _run does not touch their pointers.

The data pointers are NULL: a call that accepted such a problem would report that.
"""

import dataclasses
import re

from cases import CASES, Draw
from harness import OPS, can_implement, itemsize, last_error
from harness.launch import scalar_arguments
from naming import each_row

MOST = 2**47
# Ops with extents that are multiples of up to 256.
PAIRS = tuple(f"_{t}_{code}" for t in ("f32", "f16", "bf16", "f64") for code in ("s4", "u4"))  # two a byte
SPARSE = [f"gemm_{t}_sparse24" for t in ("f32", "f16", "bf16")]
PACKED = ("gemm_s4_", "gemm_u4_", "gemm_bin_", "gemm_dense_s4", "gemm_dense_u4", "gemm_dense_bin")
MULTIPLES = (
    *PACKED, "int4_", "nf4_", *SPARSE, "moe_wmma_gguf", "moe_scalar_gguf", "quantize_mx", "dequantize_mx",
    "dequantize_blocks", "quantize_blocks", "take_blocks", "mmvq_", "quantized_matmul", "nv12_to_rgb",
    "dequantize_blocks", "quantize_blocks", "take_blocks", "mmvq_", "quantized_matmul", "mx_matmul",
)  # fmt: skip
# Operands of images have one axis more than the strides here, and their bad calls include strides that are too long.
STRIDED = [
    op for op, (row, _) in OPS.items()
    if any(p.direction == "host" for p in row.problem) and any(p.role == "rank" for p in row.problem)
    and not op.startswith(("im2col", "col2im", "interpolate", "grid_sample"))
    and row.family != "pool"
]  # fmt: skip
FLAT = [
    op for op, (row, _) in OPS.items()
    if row.problem[0].name == "numel" and op not in set(STRIDED)
    and not any(p.name == "shape4" for p in row.problem)  # extents that numel must be the product of
]  # fmt: skip
# Ops of operands with one extent each, which fits, or with extents that follow from others and are refused themselves.
ONE_EXTENT = r"ring_attention_init|searchsorted_[a-z]+\d+$|bincount|histogram|unique_(?!r|c)|conv_transpose|col2im_1d"
# Ops whose operand sizes are products of several extents; a gradient that is told its element count is refused as too
# short.
OTHERS = [
    op for op, (row, _) in OPS.items()
    if op not in {*FLAT, *STRIDED} and sum(p.role == "extent" for p in row.problem) > 1 and "nll_backward" not in op
    and row.family != "pool"  # outputs have the extents that windows leave
    and not any(" at " in p.shape for p in row.pointers)
    and not re.match(ONE_EXTENT, op)
    and not op.startswith(("recurrent_", "rwkv7"))  # rows of keys, and directions, are bounded
]  # fmt: skip


def plain(op):
    row, slots = OPS[op]
    return CASES[row.name].problems[CASES[row.name].plain](Draw(slots, "sizes"))


def run_with_null(library, op, problem):
    row, _ = OPS[op]
    null, values = library.ffi.NULL, scalar_arguments(library, op, problem)
    arguments = [null if p.is_pointer else values[p.name] for p in row.params]
    return library.function(op)(*arguments, *((null,) if row.is_bare else (null, 0, null)))


def check_taken(library, op, problem):
    assert can_implement(library, op, problem) == (0, "")
    assert run_with_null(library, op, problem) == 2
    assert last_error(library).endswith("is NULL")


def check_refused(library, op, problem, name):
    status, text = can_implement(library, op, problem)
    assert status == 2, f"can_implement takes {problem.scalars} {problem.host}"
    assert text.startswith(f"{op}: {name}"), text
    assert run_with_null(library, op, problem) == 2
    assert last_error(library) == text


@each_row(FLAT)
def test_contiguous(library, op):
    row, slots = OPS[op]
    problem = plain(op)
    counted = [p for p in row.pointers if re.search(r"\b(numel|results)\b", p.shape)] or row.pointers
    bytes_each = max(itemsize(p.dtype_of(slots)) / (2 if "/" in p.shape else 1) for p in counted)
    if "channel_stride" in problem.scalars:
        problem.scalars |= {"channel_stride": 1, "channel_extent": 1}
    most = int(MOST / bytes_each)
    for numel in (most, most + 2, 2**60, 2**63 - 2, 2**63 - 1):
        problem.scalars["numel"] = numel
        if numel == most:
            check_taken(library, op, problem)
        else:
            check_refused(library, op, problem, "numel ")


def set_strides(problem, name, strides):
    """Sets the strides, and the scalars that repeat one of them, for axis 1."""
    problem.host[name] = strides
    problem.scalars |= {scalar: strides[1] for scalar in problem.scalars if scalar.endswith(f"_{name}")}


@each_row(STRIDED)
def test_strided(library, op):
    """Each operand alone is as long as it may be, and then one stride longer."""
    row, slots = OPS[op]
    for p in row.pointers:
        stride = f"stride_{p.name}"
        if not any(q.name == stride for q in row.problem):
            continue
        size = itemsize(p.dtype_of(slots))
        axis = 1
        extent = plain(op).arrays[p.name].shape[axis - 3]
        most = MOST // size // extent
        for entry in (most - 40, -(most - 40)):
            problem = plain(op)
            set_strides(problem, stride, (1, entry, 35 * extent))
            if row.check_params == row.params:
                check_taken(library, op, problem)
        for entry in (most + 1, -most - 1, 2**60, 2**63 - 1, -(2**63)):
            problem = plain(op)
            set_strides(problem, stride, (1, entry, 35 * extent))
            if row.check_params == row.params:
                check_refused(library, op, problem, f"{stride}[1] is {entry}")
            else:
                assert run_with_null(library, op, problem) == 2
                assert f"{stride}[1] is {entry}" in last_error(library)


@each_row([op for op in STRIDED if {"numel", "shape"} <= {p.name for p in OPS[op][0].problem}])
def test_broadcast_operands(library, op):
    """An index space of 2^62 elements, in which a gradient, or an input, has one element."""
    row, _ = OPS[op]
    extent = 2**31 - 1
    strides = [p.name for p in row.problem if p.role == "stride" and p.direction == "host"]
    host = plain(op).host | {"shape": (extent, extent), **dict.fromkeys(strides, (0, 0))}
    problem = dataclasses.replace(plain(op), scalars=plain(op).scalars | {"numel": extent**2, "rank": 2}, host=host)
    check_refused(library, op, problem, "numel is ")


@each_row(OTHERS)
def test_other_extents(library, op):
    """Every extent as large as it may be, beside others that make an operand longer than 2^47 bytes."""
    row, _ = OPS[op]
    extents = {p.name for p in row.problem if p.role in ("extent", "pitch")}
    extents -= {"m"} if op.startswith("gemv_dense_m1") else set()  # m is 0 or 1
    extents -= {"width", "dstate", "head_dim", "state_dim"} if row.family == "ssm" else set()  # limited: status 3
    unit = 256 if op.startswith(MULTIPLES) else 2 if op.startswith("rope") or op.endswith(PAIRS) else 1
    problem, most = plain(op), 2**31 - unit
    problem.scalars |= dict.fromkeys(extents, most)
    if "is_concatenated" in problem.scalars:
        problem.scalars["is_concatenated"] = 1  # concatenated targets, whose count is no product of two extents
    assert can_implement(library, op, problem)[0] == 2
    check_refused(library, op, problem, "")
    # bytes of a row of blocks, and the channels and taps of columns
    assert str(most) in last_error(library) or re.search("(row_bytes|column_rows|rows) is", last_error(library))
    assert "2^47 bytes" in last_error(library)

# SPDX-License-Identifier: Apache-2.0
"""Example programs of the plans of GGUF's formats, one for each page of a format."""

from __future__ import annotations

import re

PAGE = re.compile(r"(?P<op>dequantize|mmvq(?:_multim)?)_(?P<format>q\d_[01K])(?:_m(?P<m>\d)|(?P<strided>_actstrided))?")
COUNT = 256  # values of a row
WEIGHTS = """
rows = np.linspace(-1, 1, 3 * {count}, dtype=np.float32).reshape(3, {count})
weights = bk.quantize_blocks(rows, "{format}")
"""
DEQUANTIZE = """
values = bk.empty((3 * {count},), bk.f32)
plan = bk.GgufDequantizePlan.select(
    None, bk.GgufDequantizeDescriptor(bk.GgufBlockFormat.{member}, 3 * {count}, element=bk.f32)
)
plan.run(None, bk.workspace(plan), bk.GgufDequantizeArgs(input=bk.upload(weights.reshape(-1)), output=values))
print(bk.download(values)[:4])
"""
VECTOR = """
output = bk.empty((3,), bk.f32)
plan = bk.GgufMmvqPlan.select(
    None, bk.GgufMmvqDescriptor(bk.GgufBlockFormat.{member}, nrows=3, ncols={count}, element=bk.f32)
)
args = bk.GgufMmvqArgs(weight=bk.upload(weights.reshape(-1)), activation=activation, output=output)
plan.run(None, None, args)
print(bk.download(output))
"""
ACTIVATION = """
activation = bk.upload(np.ones({count}, np.float32))
"""
COLUMN = """
matrix = bk.upload(np.ones(({count}, 2), np.float32))
activation = bk.TensorRef(matrix.ptr, ({count},), bk.f32, strides=(2,))  # its first column
"""
MATRIX = """
activations, output = bk.upload(np.ones(({m}, {count}), np.float32)), bk.empty(({m}, 3), bk.f32)
plan = bk.GgufMmvqMultiMPlan.select(
    None, bk.GgufMmvqMultiMDescriptor(bk.GgufBlockFormat.{member}, nrows=3, ncols={count}, m={m}, element=bk.f32)
)
args = bk.GgufMmvqMultiMArgs(weight=bk.upload(weights.reshape(-1)), activations=activations, output=output)
plan.run(None, bk.empty((plan.workspace_size,), bk.u8), args)
print(bk.download(output)[0])
"""


def program(page: str) -> str:
    """The program of a page, by its key; empty for other pages."""
    found = PAGE.fullmatch(page)
    if not found:
        return ""
    if found["op"] == "dequantize":
        text = WEIGHTS + DEQUANTIZE
    elif found["m"]:
        text = WEIGHTS + MATRIX
    else:
        text = WEIGHTS + (COLUMN if found["strided"] else ACTIVATION) + VECTOR
    member = found["format"].upper()
    return re.sub(r"\n+", "\n", text.format(count=COUNT, format=found["format"], member=member, m=found["m"])).strip()

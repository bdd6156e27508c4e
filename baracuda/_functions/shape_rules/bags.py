# SPDX-License-Identifier: Apache-2.0
"""Shape rules of embedding bags with per-sample weights, sparse gradients or include_last_offset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_flag, as_integer, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, check_shape
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError


def by_offsets(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    indices, offsets = shapes["indices"], shapes["offsets"]
    has_last = as_flag("include_last_offset", numbers.get("include_last_offset", spec.layout == "last_offset_bags"))
    if len(indices) != 1 or len(offsets) != 1 or offsets[0] < has_last:
        raise InvalidProblemError(f"indices have shape {indices} and offsets {offsets}, must have one axis each")
    bags, matrix = offsets[0] - has_last, shapes.get("weight", shapes.get("dout", ()))
    if len(matrix) != 2:
        raise InvalidProblemError(
            f"{'weight' if 'weight' in shapes else 'dout'} has shape {matrix}, must have two axes"
        )
    rows = as_integer("num_embeddings", numbers.get("num_embeddings", matrix[0]), 0, INT32_MAX)
    table, out = (rows, matrix[1]), (bags, matrix[1])
    extents = {
        "weight": table, "dweight": table, "dout": out, "out": out, "out_index": out, "indices": indices,
        "per_sample_weights": indices, "dper_sample_weights": indices, "offsets": offsets, "rows": indices,
        "values": (indices[0], matrix[1]), "count": (1,),
    }  # fmt: skip
    for name, shape in shapes.items():
        if name in extents:
            check_shape(name, shape, extents[name])
    operands = {param.name: extents[param.name] for param in spec.row.params if param.is_pointer}
    values = {"total_indices": indices[0], "num_embeddings": rows, "embedding_dim": matrix[1], "num_bags": bags}
    for name, value in values.items():
        if exceeds(INT32_MAX, value):
            raise InvalidProblemError(f"{name} is {value}, must be <= {INT32_MAX}")
    return CallMeta(values, operands, {each.pointer: operands[each.pointer] for each in spec.outputs})

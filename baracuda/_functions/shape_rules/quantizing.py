# SPDX-License-Identifier: Apache-2.0
"""Shape rules of float-coded formats: the extents of codes and scales follow from those of the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, if_contiguous
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError

Shapes = Mapping[str, Shape]
Numbers = Mapping[str, Any]


def _matrix(name: str, shapes: Shapes) -> Shape:
    if len(shapes[name]) != 2:
        raise InvalidProblemError(f"{name} has shape {shapes[name]}, must be a matrix")
    return shapes[name]


def _contiguous(values: dict[str, Any], extents: Mapping[str, Shape], shapes: dict[str, Shape]) -> CallMeta:
    return CallMeta(values, extents, shapes, op_views=dict.fromkeys(extents, if_contiguous))


def _nf4_dequantize(spec: Spec, shapes: Shapes, numbers: Numbers) -> CallMeta:
    (pairs, k), (n, blocks) = _matrix("w_packed", shapes), _matrix("absmax", shapes)
    if n != 2 * pairs or not blocks or k % blocks:
        raise InvalidProblemError(
            f"absmax has shape {(n, blocks)}, must be ({2 * pairs}, a divisor of {k}) for w_packed {(pairs, k)}"
        )
    extents = {"w_packed": (pairs, k), "absmax": (n, blocks), "out": (n, k)}
    return _contiguous({"n": n, "k": k, "block_size": k // blocks}, extents, {"out": (n, k)})


_RULES: dict[str, Callable[[Spec, Shapes, Numbers], CallMeta]] = {
    "nf4_dequantize_{T}": _nf4_dequantize,
}  # fmt: skip


def has_rule(row: str) -> bool:
    return row in _RULES


def of_codes(spec: Spec, shapes: Shapes, numbers: Numbers) -> CallMeta:
    """The rule of the function's row."""
    return _RULES[spec.row.name](spec, shapes, numbers)

# SPDX-License-Identifier: Apache-2.0
"""Sharding rules: XLA may partition a call along axes whose elements the op computes independently.

Each axis of an operand or a result is a factor of the rule. Axes along which results depend on a whole row, and axes
that are summed over, are replicated; along all others a device computes its own shard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.experimental.custom_partitioning import SdyShardingRule, custom_partitioning

from baracuda._functions.spec import Spec

Shape = tuple[int, ...]
_ELEMENTWISE = ("pointwise", "masked")
_ALONG = ("softmax", "scan", "sort", "gated", "norm")  # shape rules of rows along one or several axes


def is_partitionable(spec: Spec) -> bool:
    """Whether rows or elements are independent of one another."""
    return spec.layout in (*_ELEMENTWISE, *_ALONG, "linear")


def partitionable(spec: Spec, names: Sequence[str], numbers: Mapping[str, Any], function: Callable[..., Any]) -> Any:
    """The function of arrays of these names, with a partitioning rule for XLA."""
    whole = custom_partitioning(function)

    def partition(mesh: Any, arguments: Any, results: Any) -> Any:
        shardings = jax.tree.map(lambda each: each.sharding, arguments)
        return mesh, function, jax.tree.map(lambda each: each.sharding, results), shardings

    def rule(mesh: Any, operands: Any, results: Any) -> Any:
        given = [tuple(each.shape) for each in jax.tree.leaves(operands)]
        return _rule(spec, names, numbers, given, [tuple(each.shape) for each in jax.tree.leaves(results)])

    whole.def_partition(partition=partition, sharding_rule=rule)
    return whole


def _rule(
    spec: Spec, names: Sequence[str], numbers: Mapping[str, Any], operands: Sequence[Shape], results: Sequence[Shape]
) -> SdyShardingRule:
    rank = max([len(shape) for shape in (*operands, *results)])
    extents = [max([shape[a - rank] for shape in (*operands, *results) if len(shape) >= rank - a] or [1])
               for a in range(rank)]  # fmt: skip
    unique = iter(range(1000))

    def mapping(name: str, shape: Shape) -> tuple[str, ...]:
        if spec.layout == "linear" and name in ("weight", "bias"):
            return ("n", "k")[: len(shape)]
        if spec.layout == "linear":
            last = "k" if name == "x" else "n"
            return (*[f"i{a}" for a in range(len(shape) - 1)], last)
        if spec.layout == "norm" and len(shape) < rank:  # parameters have the shape of a row
            return tuple([f"i{a}" for a in axes])
        at = range(rank - len(shape), rank)
        return tuple([f"i{a}" if extent == extents[a] and extent > 1 else f"s{next(unique)}"
                      for a, extent in zip(at, shape)])  # fmt: skip

    axis = numbers.get("axis")
    axes = sorted({a % rank for a in ([axis] if isinstance(axis, int) else axis or ())}) if rank else []
    given = [mapping(name, shape) for name, shape in zip(names, operands)]
    made = [mapping("", shape) for shape in results]
    used = dict.fromkeys([factor for each in (*given, *made) for factor in each])
    row_factors = {f"i{a}" for a in axes} if spec.layout in _ALONG else {"k"}
    summed_factors = {
        f for f in used if f.startswith("i") and any([shape and f not in each for each, shape in zip(made, results)])
    }
    singletons = {f for f in used if f.startswith("s")}
    replicated = tuple([f for f in used if f in row_factors or f in summed_factors or f in singletons])
    return SdyShardingRule(tuple(given), tuple(made), need_replication_factors=replicated)

# SPDX-License-Identifier: Apache-2.0
"""matmul_backward for broadcast batch axes and for vectors, on top of the op, which takes equal batch axes.

A single matrix b is multiplied with the rows of all matrices a at once, so that its gradient is one GEMM. Gradients of
other broadcast operands are summed over the batch.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from baracuda._arrays.frameworks import as_array, result_framework
from baracuda._call.scalars import shown
from baracuda._functions.shape_rules.call_meta import Shape, check_shape
from baracuda._functions.shape_rules.gemm import batch_of
from baracuda.errors import InvalidProblemError, naming
from baracuda.tensor import tensor


def broadcasting(same_batch: Callable[..., Any]) -> Callable[..., Any]:
    """matmul_backward of operands of any shapes, from the op of equal batch axes."""

    @functools.wraps(same_batch)
    def matmul_backward(dy: Any, a: Any, b: Any, *, needs: Any = None, out: Any = None) -> Any:
        shapes: list[Any] = [getattr(each, "shape", None) for each in (dy, a, b)]
        if None in shapes or (min(map(len, shapes[1:])) > 1 and shapes[1][:-2] == shapes[2][:-2]):
            return same_batch(dy, a, b, needs=needs, out=out)
        with naming("matmul_backward"):
            results = _gradients(same_batch, _array(dy, "dy"), _array(a, "a"), _array(b, "b"), needs)
            return results if out is None else _copy_to(results, out)

    return matmul_backward


def _array(given: Any, name: str) -> Any:
    return given if hasattr(given, "__array_namespace__") else as_array(given, name)


def _copy_to(results: tuple[Any, Any], out: Any) -> Any:
    from baracuda import functions

    if not isinstance(out, (tuple, list)) or len(out) != len(results):
        raise InvalidProblemError(f"out is {shown(out)}, must be a tuple of (da, db)")
    for result, target in zip(results, out):
        if result is not None and target is not None:
            functions.cast(result, tensor(target, "out").dtype, out=target)
    return out


def _gradients(same_batch: Callable[..., Any], dy: Any, a: Any, b: Any, needs: Any) -> Any:
    shape_a, shape_b = tuple(a.shape), tuple(b.shape)
    if not shape_a or not shape_b:
        raise InvalidProblemError(f"{'b' if shape_a else 'a'} has shape (), must have an axis")
    matrix_a = shape_a if len(shape_a) > 1 else (1, *shape_a)
    matrix_b = shape_b if len(shape_b) > 1 else (*shape_b, 1)
    if matrix_a[-1] != matrix_b[-2]:
        raise InvalidProblemError(
            f"a has shape {shape_a} and b {shape_b}: the sums have {matrix_a[-1]} and {matrix_b[-2]} summands"
        )
    batch, rows, columns = batch_of(matrix_a, matrix_b), matrix_a[-2:-1], matrix_b[-1:]
    check_shape("dy", tuple(dy.shape), (*batch, *rows[: len(shape_a) - 1], *columns[: len(shape_b) - 1]))
    if math.prod(matrix_b[:-2]) == 1:  # all rows of a form one matrix
        all_rows = math.prod(batch) * matrix_a[-2]
        shapes: tuple[Shape, Shape, Shape] = ((all_rows, *columns), (all_rows, matrix_a[-1]), matrix_b[-2:])
    else:
        shapes = ((*batch, *rows, *columns), (*batch, *matrix_a[-2:]), (*batch, *matrix_b[-2:]))
        a = result_framework(a).broadcast_to(_reshaped(a, matrix_a), shapes[1])
        b = result_framework(b).broadcast_to(_reshaped(b, matrix_b), shapes[2])
    given = [_reshaped(each, shape) for each, shape in zip((dy, a, b), shapes)]
    da, db = same_batch(*given, needs=needs)
    return _sum_to(da, matrix_a, shape_a), _sum_to(db, matrix_b, shape_b)


def _reshaped(array: Any, shape: Shape) -> Any:
    return array if tuple(array.shape) == shape else result_framework(array).reshaped(array, shape)


def _sum_to(gradient: Any, shape: Shape, operand_shape: Shape) -> Any:
    """A gradient, summed to the shape of its operand."""
    from baracuda import functions

    if gradient is None:
        return None
    if math.prod(gradient.shape) != math.prod(shape):
        gradient = functions.sum_to_size(gradient, shape)
    return _reshaped(gradient, operand_shape)

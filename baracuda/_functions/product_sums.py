"""Gradients of all products that matmul makes: batch axes broadcast, and a vector is a row or a column.

The op gives those of as many matrices a as b. Here one matrix stands for the rows of all others, so that its gradient
is one product; other operands that broadcast have theirs summed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from baracuda._functions.arrays import known, result_kind
from baracuda._functions.layout import Shape, check_shape
from baracuda._functions.products import batch_of
from baracuda._scalars import shown
from baracuda.errors import InvalidProblemError, naming
from baracuda.tensor import tensor


def broadcasting(at_once: Callable[..., Any]) -> Callable[..., Any]:
    """matmul_backward of operands of any shapes, by the one of equal batches."""

    @functools.wraps(at_once)
    def matmul_backward(dy: Any, a: Any, b: Any, *, needs: Any = None, out: Any = None) -> Any:
        shapes = [getattr(each, "shape", None) for each in (dy, a, b)]
        if None in shapes or (min(map(len, shapes[1:])) > 1 and shapes[1][:-2] == shapes[2][:-2]):
            return at_once(dy, a, b, needs=needs, out=out)
        with naming("matmul_backward"):
            results = _summed(at_once, _array(dy, "dy"), _array(a, "a"), _array(b, "b"), needs)
            return results if out is None else _copied(results, out)

    return matmul_backward


def _array(given: Any, name: str) -> Any:
    return given if hasattr(given, "__array_namespace__") else known(given, name)


def _copied(results: tuple[Any, Any], out: Any) -> Any:
    from baracuda import functions

    if not isinstance(out, (tuple, list)) or len(out) != len(results):
        raise InvalidProblemError(f"out is {shown(out)}, must be a tuple of (da, db)")
    for result, target in zip(results, out):
        if result is not None and target is not None:
            functions.cast(result, tensor(target, "out").dtype, out=target)
    return out


def _summed(at_once: Callable[..., Any], dy: Any, a: Any, b: Any, needs: Any) -> Any:
    own_a, own_b = tuple(a.shape), tuple(b.shape)
    if not own_a or not own_b:
        raise InvalidProblemError(f"{'b' if own_a else 'a'} has shape (), must have an axis")
    of_a = own_a if len(own_a) > 1 else (1, *own_a)
    of_b = own_b if len(own_b) > 1 else (*own_b, 1)
    if of_a[-1] != of_b[-2]:
        raise InvalidProblemError(f"a has shape {own_a} and b {own_b}: the sums have {of_a[-1]} and {of_b[-2]} terms")
    batch, rows, columns = batch_of(of_a, of_b), of_a[-2:-1], of_b[-1:]
    check_shape("dy", tuple(dy.shape), (*batch, *rows[: len(own_a) - 1], *columns[: len(own_b) - 1]))
    if math.prod(of_b[:-2]) == 1:  # the rows of all products are those of one
        whole = math.prod(batch) * of_a[-2]
        shapes: tuple[Shape, Shape, Shape] = ((whole, *columns), (whole, of_a[-1]), of_b[-2:])
    else:
        shapes = ((*batch, *rows, *columns), (*batch, *of_a[-2:]), (*batch, *of_b[-2:]))
        a = result_kind(a).spread(_reshaped(a, of_a), shapes[1])
        b = result_kind(b).spread(_reshaped(b, of_b), shapes[2])
    given = [_reshaped(each, shape) for each, shape in zip((dy, a, b), shapes)]
    da, db = at_once(*given, needs=needs)
    return _total(da, of_a, own_a), _total(db, of_b, own_b)


def _reshaped(array: Any, shape: Shape) -> Any:
    return array if tuple(array.shape) == shape else result_kind(array).reshaped(array, shape)


def _total(gradient: Any, shape: Shape, own: Shape) -> Any:
    """Summed to the shape that an operand has."""
    from baracuda import functions

    if gradient is None:
        return None
    if math.prod(gradient.shape) != math.prod(shape):
        gradient = functions.sum_to_size(gradient, shape)
    return _reshaped(gradient, own)

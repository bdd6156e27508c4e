# SPDX-License-Identifier: Apache-2.0
"""Composite functions: isnan, isinf, isfinite, addmm, baddbmm, einsum, index_fill, index_copy and write_slice.

They take the arrays that `baracuda.functions` takes. Results belong to the framework of the first array and are on its
device and stream.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

from baracuda import functions
from baracuda._arrays.frameworks import as_array, result_framework
from baracuda._arrays.shaping import broadcast, empty_like, given_array, reshaped
from baracuda._call.scalars import INT32_MAX, as_integers
from baracuda._functions.dispatch import Function
from baracuda._functions.shape_rules.call_meta import Shape, axis_of
from baracuda._functions.shape_rules.gemm import batch_of
from baracuda._functions.spec import Argument, specs
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError, naming
from baracuda.tensor import tensor

# --- tests of floats --------------------------------------------------------------------------------------------------

_BYTES = (ElementKind.FP8_E4M3, ElementKind.FP8_E5M2)


@naming("isnan")
def isnan(x: Any, *, out: Any = None) -> Any:
    """Whether an element is NaN, as bool; no integer is."""
    x, _ = _comparable(x)
    return functions.ne(x, x, out=out)


@naming("isinf")
def isinf(x: Any, *, out: Any = None) -> Any:
    """Whether an element is an infinity of either sign, as bool; no integer is."""
    x, is_float = _comparable(x)
    return functions.eq(functions.abs(x), math.inf, out=out) if is_float else functions.ne(x, x, out=out)


@naming("isfinite")
def isfinite(x: Any, *, out: Any = None) -> Any:
    """Whether an element is neither NaN nor an infinity, as bool; every integer is."""
    x, is_float = _comparable(x)
    return functions.lt(functions.abs(x), math.inf, out=out) if is_float else functions.eq(x, x, out=out)


def _comparable(x: Any) -> tuple[Any, bool]:
    """The array in a dtype that comparisons take, and whether it is of floats."""
    element = tensor(given_array(x, "x"), "x").dtype
    return (functions.cast(x, ElementKind.F32) if element in _BYTES else x), element.is_float or element in _BYTES


# --- matrix products --------------------------------------------------------------------------------------------------


@functools.cache
def _gemm_accumulate() -> Function:
    """d = alpha a b + beta d: the function of matmul's row with alpha and beta as arguments."""
    numbers = tuple([Argument(name, number=name, default=1.0) for name in ("alpha", "beta")])
    plain = specs()["matmul"].described
    return Function(dataclasses.replace(plain, name="addmm", fixed={}, numbers=numbers, absent=()))


@naming("addmm")
def addmm(x: Any, a: Any, b: Any, *, beta: float = 1.0, alpha: float = 1.0, out: Any = None) -> Any:
    """beta x + alpha a b of matrices a and b, rounded once; x broadcasts to the shape of the product and is not read if
    beta is 0. out may be x.

    InvalidProblemError for shapes that do not fit, and dtypes that differ.
    """
    return _gemm_add(x, a, b, beta, alpha, out, 2)


@naming("baddbmm")
def baddbmm(x: Any, a: Any, b: Any, *, beta: float = 1.0, alpha: float = 1.0, out: Any = None) -> Any:
    """addmm of batches of matrices, (..., m, k) and (..., k, n), whose leading axes broadcast.

    InvalidProblemError for shapes that do not fit, and dtypes that differ.
    """
    return _gemm_add(x, a, b, beta, alpha, out, 0)


def _gemm_add(x: Any, a: Any, b: Any, beta: float, alpha: float, out: Any, rank: int) -> Any:
    x, a, b = (given_array(each, name) for name, each in (("x", x), ("a", a), ("b", b)))
    for name, each in (("a", a), ("b", b)):
        if len(each.shape) < 2 or (rank and len(each.shape) != rank):
            raise InvalidProblemError(
                f"{name} has shape {tuple(each.shape)}, must be {'a matrix' if rank else 'matrices'}"
            )
    shape = (*batch_of(tuple(a.shape), tuple(b.shape)), a.shape[-2], b.shape[-1])
    whole = broadcast("x", x, shape)
    if out is not x:
        out = functions.cast(whole, tensor(a, "a").dtype, out=out)
    return _gemm_accumulate().call(None, (a, b), (alpha, beta), out)


@naming("einsum")
def einsum(subscripts: str, a: Any, b: Any) -> Any:
    """Einstein summation of two arrays, with subscripts as in numpy.einsum: "bij,bjk->bik". Letters that the result
    lacks are summed over; without "->" the result has those that occur once, in alphabetical order. It is one batched
    GEMM, after sums over the letters that occur in one operand only.

    InvalidProblemError for letters that do not fit the arrays, UnsupportedError for an ellipsis, and a letter that one
    operand has twice.
    """
    first, second, result = _letters(subscripts)
    a, b = given_array(a, "a"), given_array(b, "b")
    extents: dict[str, int] = {}
    for name, letters, each in (("a", first, a), ("b", second, b)):
        if len(letters) != len(each.shape):
            raise InvalidProblemError(f"{name} has shape {tuple(each.shape)}, but {len(letters)} letters, {letters!r}")
        for letter, extent in zip(letters, each.shape):
            if extents.setdefault(letter, extent) != extent:
                raise InvalidProblemError(f"axis {letter!r} has {extents[letter]} elements in a and {extent} in {name}")
    a, first = _sum_out(a, first, second + result)
    b, second = _sum_out(b, second, first + result)
    batch = [letter for letter in first if letter in second and letter in result]
    inner = [letter for letter in first if letter in second and letter not in result]
    left, right = ([letter for letter in own if letter not in batch + inner] for own in (first, second))
    sizes = [math.prod([extents[letter] for letter in each]) for each in (batch, left, inner, right)]
    rows = _as_matrices(a, first, [*batch, *left, *inner], (sizes[0], sizes[1], sizes[2]))
    columns = _as_matrices(b, second, [*batch, *inner, *right], (sizes[0], sizes[2], sizes[3]))
    made = [*batch, *left, *right]
    found = reshaped(functions.matmul(rows, columns), tuple([extents[letter] for letter in made]))
    order = [made.index(letter) for letter in result]
    return found if order == sorted(order) else functions.permute(found, order)


def _letters(subscripts: str) -> tuple[str, str, str]:
    text = subscripts.replace(" ", "") if isinstance(subscripts, str) else ""
    if "." in text:
        raise UnsupportedError(f"subscripts is {subscripts!r}: an ellipsis is not supported")
    given, arrow, result = text.partition("->")
    operands = given.split(",")
    if len(operands) != 2 or not all([letter.isalpha() for letter in (*"".join(operands), *result)]):
        raise InvalidProblemError(f"subscripts is {subscripts!r}, must be as 'ij,jk->ik', of two operands")
    first, second = operands
    if not arrow:
        result = "".join(sorted([letter for letter in set(first + second) if (first + second).count(letter) == 1]))
    for own in (first, second):
        if len(set(own)) != len(own):
            raise UnsupportedError(f"subscripts is {subscripts!r}: {own!r} has a letter twice")
    if len(set(result)) != len(result) or not set(result) <= set(first + second):
        raise InvalidProblemError(f"subscripts is {subscripts!r}: the result has letters twice, or of no operand")
    return first, second, result


def _sum_out(x: Any, own: str, others: str) -> tuple[Any, str]:
    """x summed over the letters that only it has, and the letters that remain."""
    axes = tuple([k for k, letter in enumerate(own) if letter not in others])
    return (functions.sum(x, axis=axes), "".join([c for c in own if c in others])) if axes else (x, own)


def _as_matrices(x: Any, own: str, order: Sequence[str], shape: Shape) -> Any:
    axes = tuple([own.index(letter) for letter in order])
    return reshaped(x if axes == tuple(range(len(own))) else result_framework(x).permuted(x, axes), shape)


# --- in-place updates -------------------------------------------------------------------------------------------------


@naming("index_fill")
def index_fill(x: Any, index: Any, value: Any, *, axis: int = 0, out: Any = None) -> Any:
    """x with the number value at the indices along axis; index has one axis. Indices outside of x are skipped.

    InvalidProblemError for an index of more axes.
    """
    return _replaced(x, index, None, value, axis, out)


@naming("index_copy")
def index_copy(x: Any, index: Any, source: Any, *, axis: int = 0, out: Any = None) -> Any:
    """x with slice k of source along axis at index[k]; index has one axis. Indices outside of x are skipped; of equal
    ones the last wins on the CPU, any on a GPU.

    InvalidProblemError unless source has the shape of x with one slice along axis for each index.
    """
    return _replaced(x, index, source, None, axis, out)


def _replaced(x: Any, index: Any, source: Any, value: Any, axis: int, out: Any) -> Any:
    x, index = given_array(x, "x"), given_array(index, "index")
    shape = tuple(x.shape)
    along = axis_of("axis", axis, shape)
    if len(index.shape) != 1:
        raise InvalidProblemError(f"index has shape {tuple(index.shape)}, must have one axis")
    part = (*shape[:along], index.shape[0], *shape[along + 1 :])
    if source is None:
        source = functions.fill(empty_like(x, (), tensor(x, "x").dtype), value)
        source = broadcast("value", source, part)
    elif tuple((source := given_array(source, "source")).shape) != part:
        raise InvalidProblemError(f"source has shape {tuple(source.shape)}, expected {part}")
    aligned = tuple([index.shape[0] if a == along else 1 for a in range(len(shape))])
    everywhere = broadcast("index", reshaped(index, aligned), part)
    copy = x if out is x else functions.cast(x, tensor(x, "x").dtype, out=out)
    return functions.scatter(everywhere, source, shape[along], axis=along, out=copy)


@naming("write_slice")
def write_slice(x: Any, source: Any, start: Sequence[int], *, out: Any = None) -> Any:
    """x with source in the window that begins at start, an index for each axis.

    InvalidProblemError for a window that is not inside x, and dtypes that differ.
    """
    x, source = given_array(x, "x"), given_array(source, "source")
    view, part = tensor(x, "x"), tensor(source, "source")
    first = as_integers("start", start, 0, INT32_MAX)
    if len(first) != len(view.shape) or len(part.shape) != len(first):
        raise InvalidProblemError(
            f"start is {first} and source has shape {part.shape}, expected {len(view.shape)} axes"
        )
    if any([low + extent > whole for low, extent, whole in zip(first, part.shape, view.shape)]):
        raise InvalidProblemError(f"source of shape {part.shape} at {first} is not within x, of shape {view.shape}")
    if part.dtype != view.dtype:
        raise InvalidProblemError(f"source has dtype {part.dtype}, expected {view.dtype}, that of x")
    copy = x if out is x else functions.cast(x, view.dtype, out=out)
    whole = tensor(as_array(copy, "out"), "out")
    window = whole[tuple([slice(low, low + extent) for low, extent in zip(first, part.shape)])]
    functions.cast(source, view.dtype, out=window)
    return copy


__all__ = [
    "addmm", "baddbmm", "einsum", "index_copy", "index_fill", "isfinite", "isinf", "isnan", "write_slice",
]  # fmt: skip

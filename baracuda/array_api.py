# SPDX-License-Identifier: Apache-2.0
"""The functions under the names and signatures of the Python array API standard (2024.12), for NumPy arrays.

    from baracuda import array_api as xp
    y = xp.sum(xp.multiply(x, 2.0), axis=-1)

Functions that compute, copy or count elements are this library's and also take arrays of other frameworks, to which
results then belong; dtypes, creation and views (`reshape`, `expand_dims`, `broadcast_to` ...) are NumPy's. Missing
parts of the standard are listed in tests/functions/array_api_exceptions.txt.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import (  # noqa: F401
    arange,
    asarray,
    astype,
    bool,
    broadcast_arrays,
    broadcast_to,
    can_cast,
    e,
    empty,
    empty_like,
    expand_dims,
    eye,
    finfo,
    float32,
    float64,
    from_dlpack,
    full,
    full_like,
    iinfo,
    inf,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    linspace,
    matrix_transpose,
    meshgrid,
    moveaxis,
    nan,
    newaxis,
    ones,
    ones_like,
    pi,
    reshape,
    result_type,
    squeeze,
    uint8,
    uint16,
    uint32,
    uint64,
    unstack,
    zeros,
    zeros_like,
)  # fmt: skip

import baracuda as bk
from baracuda import fft  # noqa: F401  (the extension)
from baracuda._arrays.frameworks import result_framework
from baracuda._functions.shape_rules.call_meta import axis_of
from baracuda._promotion import NUMBERS as _NUMBERS
from baracuda._promotion import as_dtype as _as
from baracuda._promotion import copied as _copy
from baracuda._promotion import element_of as _element
from baracuda._promotion import kind_of as _kind
from baracuda._promotion import promoted as _promoted
from baracuda.descriptor import MAX_RANK
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.linalg import standard as linalg  # noqa: F401
from baracuda.search import results as _sets

__array_api_version__ = "2024.12"
Array = Any
Axis = int | tuple[int, ...] | None
Flag = builtins.bool
# dtypes that reductions lack -> dtypes with their values or bits
_WIDENED = {ElementKind.U16: ElementKind.I32, ElementKind.U64: ElementKind.I64}


class __array_namespace_info__:
    """NumPy's namespace info, without complex dtypes, which only the extension `fft` takes."""

    def __init__(self) -> None:
        self._numpy: Any = np.__array_namespace_info__()

    def capabilities(self) -> dict[str, Any]:
        return {**self._numpy.capabilities(), "max dimensions": MAX_RANK}

    def default_device(self) -> str:
        return str(self._numpy.default_device())

    def devices(self) -> list[str]:
        return list(self._numpy.devices())

    def default_dtypes(self, *, device: str | None = None) -> dict[str, Any]:
        return {name: dtype for name, dtype in self._numpy.default_dtypes(device=device).items() if dtype.kind != "c"}

    def dtypes(self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, Any]:
        found = self._numpy.dtypes(device=device, kind=kind)
        return {name: dtype for name, dtype in found.items() if dtype.kind != "c"}


# --- elementwise ------------------------------------------------------------------------------------------------------


def _named(function: Callable[..., Any], name: str, ours: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} of the array API standard; see baracuda.{ours}."
    return function


def _unary(name: str, ours: str = "") -> Callable[[Array], Array]:
    ours = ours or name

    def function(x: Array, /) -> Array:
        return getattr(bk, ours)(x)

    return _named(function, name, ours)


def _whole(name: str) -> Callable[[Array], Array]:
    """A rounding function; integers are returned as they are."""

    def function(x: Array, /) -> Array:
        return _copy(x) if _kind(x) in "iu" else getattr(bk, name)(x)

    return _named(function, name, name)


def _binary(name: str, ours: str = "", of_bool: str = "") -> Callable[[Array, Array], Array]:
    """A binary function; `of_bool` is the one for bool."""
    ours = ours or name

    def function(x1: Array, x2: Array, /) -> Array:
        x1, x2 = _promoted(x1, x2)
        return getattr(bk, of_bool if of_bool and "b" in (_kind(x1), _kind(x2)) else ours)(x1, x2)

    return _named(function, name, ours)


abs, square, negative, reciprocal = _unary("abs"), _unary("square"), _unary("negative", "neg"), _unary("reciprocal")
acos, acosh, asin, asinh = _unary("acos"), _unary("acosh"), _unary("asin"), _unary("asinh")
atan, atanh, cos, cosh, sin, sinh = (_unary(n) for n in ("atan", "atanh", "cos", "cosh", "sin", "sinh"))
tan, tanh, exp, expm1 = _unary("tan"), _unary("tanh"), _unary("exp"), _unary("expm1")
log, log1p, log2, log10, sqrt = _unary("log"), _unary("log1p"), _unary("log2"), _unary("log10"), _unary("sqrt")
logical_not = _unary("logical_not")
ceil, floor, round, trunc = _whole("ceil"), _whole("floor"), _whole("round"), _whole("trunc")
add, subtract, multiply, divide = (
    _binary("add"),
    _binary("subtract", "sub"),
    _binary("multiply", "mul"),
    _binary("divide", "div"),
)
remainder, pow = _binary("remainder"), _binary("pow")
atan2, hypot, copysign, nextafter = _binary("atan2"), _binary("hypot"), _binary("copysign"), _binary("nextafter")
maximum, minimum = _binary("maximum"), _binary("minimum")
equal, not_equal = _binary("equal", "eq"), _binary("not_equal", "ne")
less, less_equal = _binary("less", "lt"), _binary("less_equal", "le")
greater, greater_equal = _binary("greater", "gt"), _binary("greater_equal", "ge")
logical_and, logical_or, logical_xor = _binary("logical_and"), _binary("logical_or"), _binary("logical_xor")
bitwise_and = _binary("bitwise_and", of_bool="logical_and")
bitwise_or = _binary("bitwise_or", of_bool="logical_or")
bitwise_xor = _binary("bitwise_xor", of_bool="logical_xor")
bitwise_left_shift, bitwise_right_shift = _binary("bitwise_left_shift"), _binary("bitwise_right_shift")


def floor_divide(x1: Array, x2: Array, /) -> Array:
    """The quotient rounded down. As in the standard, a finite number by an infinity gives a zero with its sign, and an
    infinity by a finite number an infinity.
    """
    x1, x2 = _promoted(x1, x2)
    found = bk.floor_divide(x1, x2)
    if _kind(found) != "f":
        return found
    return bk.where(isinf(x2), bk.div(x1, x2), found)


def bitwise_invert(x: Array, /) -> Array:
    return bk.logical_not(x) if _kind(x) == "b" else bk.bitwise_not(x)


def positive(x: Array, /) -> Array:
    return _copy(x)


def sign(x: Array, /) -> Array:
    """The sign, NaN for NaN; baracuda.sign gives 0 there."""
    return bk.where(bk.ne(x, x), x, bk.sign(x)) if _kind(x) == "f" else bk.sign(x)


def signbit(x: Array, /) -> Array:
    return bk.lt(bk.copysign(1.0, x), 0.0)


def isnan(x: Array, /) -> Array:
    return bk.ne(x, x)


def isfinite(x: Array, /) -> Array:
    return bk.lt(bk.abs(x), math.inf) if _kind(x) == "f" else bk.eq(x, x)


def isinf(x: Array, /) -> Array:
    return bk.eq(bk.abs(x), math.inf) if _kind(x) == "f" else bk.ne(x, x)


def logaddexp(x1: Array, x2: Array, /) -> Array:
    x1, x2 = _promoted(x1, x2)
    larger, smaller = bk.maximum(x1, x2), bk.minimum(x1, x2)
    apart = bk.where(bk.eq(x1, x2), 0.0, bk.sub(smaller, larger))  # infinities are not subtracted from themselves
    return bk.add(larger, bk.log1p(bk.exp(apart)))


def clip(x: Array, /, min: Array | None = None, max: Array | None = None) -> Array:
    low, high = [b if b is None or type(b) in _NUMBERS else _as(b, _element(x)) for b in (min, max)]
    if low is not None and high is not None:
        return bk.clamp(x, low, high)
    if low is not None:
        return bk.maximum(x, low)
    return bk.minimum(x, high) if high is not None else _copy(x)


def where(condition: Array, x1: Array, x2: Array, /) -> Array:
    return bk.where(condition, *_promoted(x1, x2))


# --- statistics, searching --------------------------------------------------------------------------------------------


def _wide(x: Array, dtype: Any) -> tuple[Array, ElementKind]:
    """The array to sum and the dtype of the sum: 64 bits for integers and bools; unsigned sums wrap like signed."""
    wide = {"b": ElementKind.I64, "i": ElementKind.I64, "u": ElementKind.U64}
    wanted = as_element(dtype) if dtype is not None else wide.get(_kind(x), _element(x))
    return _as(x, ElementKind.I64 if wanted.integer_range is not None else wanted), wanted


def sum(x: Array, /, *, axis: Axis = None, dtype: Any = None, keepdims: Flag = False) -> Array:
    summed, wanted = _wide(x, dtype)
    return _as(bk.sum(summed, axis=axis, keepdims=keepdims), wanted)


def prod(x: Array, /, *, axis: Axis = None, dtype: Any = None, keepdims: Flag = False) -> Array:
    multiplied, wanted = _wide(x, dtype)
    return _as(bk.prod(multiplied, axis=axis, keepdims=keepdims), wanted)


def mean(x: Array, /, *, axis: Axis = None, keepdims: Flag = False) -> Array:
    return bk.mean(x, axis=axis, keepdims=keepdims)


def var(x: Array, /, *, axis: Axis = None, correction: float = 0, keepdims: Flag = False) -> Array:
    return bk.var(x, axis=axis, correction=_whole_number(correction), keepdims=keepdims)


def std(x: Array, /, *, axis: Axis = None, correction: float = 0, keepdims: Flag = False) -> Array:
    return bk.std(x, axis=axis, correction=_whole_number(correction), keepdims=keepdims)


def _whole_number(correction: float) -> int:
    if correction != int(correction):
        raise UnsupportedError(f"correction is {correction!r}, must be a whole number")
    return int(correction)


def _ordered(x: Array) -> tuple[Array, Callable[[Array], Array]]:
    """An array of a dtype that reductions take, in the order of x, and the function that maps back."""
    element = _element(x)
    wide = _WIDENED.get(element)
    if wide is None:
        return x, lambda result: result
    if element.itemsize < 8:
        return bk.cast(x, wide), lambda result: bk.cast(result, element)
    highest = -(2**63)  # flipping this bit maps the unsigned order to the signed one
    return bk.bitwise_xor(bk.cast(x, wide), highest), lambda result: bk.cast(bk.bitwise_xor(result, highest), element)


def max(x: Array, /, *, axis: Axis = None, keepdims: Flag = False) -> Array:
    given, back = _ordered(x)
    return back(bk.max(given, axis=axis, keepdims=keepdims))


def min(x: Array, /, *, axis: Axis = None, keepdims: Flag = False) -> Array:
    given, back = _ordered(x)
    return back(bk.min(given, axis=axis, keepdims=keepdims))


def argmax(x: Array, /, *, axis: int | None = None, keepdims: Flag = False) -> Array:
    return bk.argmax(_ordered(x)[0], axis=axis, keepdims=keepdims)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: Flag = False) -> Array:
    return bk.argmin(_ordered(x)[0], axis=axis, keepdims=keepdims)


def _is_set(x: Array) -> Array:
    return bk.ne(x, 0) if _element(x) in _WIDENED else x


def all(x: Array, /, *, axis: Axis = None, keepdims: Flag = False) -> Array:
    return bk.all(_is_set(x), axis=axis, keepdims=keepdims)


def any(x: Array, /, *, axis: Axis = None, keepdims: Flag = False) -> Array:
    return bk.any(_is_set(x), axis=axis, keepdims=keepdims)


def count_nonzero(x: Array, /, *, axis: Axis = None, keepdims: Flag = False) -> Array:
    return bk.count_nonzero(_is_set(x), axis=axis, keepdims=keepdims)


def nonzero(x: Array, /) -> tuple[Array, ...]:
    if not x.ndim:
        raise InvalidProblemError("x has no axis")
    positions, count = bk.nonzero(x)
    return tuple([bk.cast(positions[: int(count), axis], ElementKind.I64) for axis in range(x.ndim)])


def searchsorted(
    x1: Array, x2: Array, /, *, side: str = "left", sorter: Array | None = None
) -> Array:  # fmt: skip
    if side not in ("left", "right"):
        raise InvalidProblemError(f"side is {side!r}, must be 'left' or 'right'")
    x1, x2 = _promoted(x1, x2)
    return bk.searchsorted(x1, x2, sorter, right=side == "right")


def isin(x1: Array, x2: Array, /, *, invert: Flag = False) -> Array:
    x1, x2 = [_filled(x, other) if type(x) in _NUMBERS else x for x, other in ((x1, x2), (x2, x1))]
    return bk.isin(*_promoted(x1, x2), invert=invert)


def _filled(value: float, like: Array) -> Array:
    """A number as an array of the dtype of another."""
    return bk.fill(_empty([], _element(like), like), value)


# --- sets -------------------------------------------------------------------------------------------------------------


def unique_all(x: Array, /) -> _sets.UniqueAll:
    return _sets.UniqueAll(*bk.unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False))


def unique_counts(x: Array, /) -> _sets.UniqueCounts:
    return _sets.UniqueCounts(*bk.unique(x, return_counts=True, equal_nan=False))


def unique_inverse(x: Array, /) -> _sets.UniqueInverse:
    return _sets.UniqueInverse(*bk.unique(x, return_inverse=True, equal_nan=False))


def unique_values(x: Array, /) -> Array:
    return bk.unique(x, equal_nan=False)


# --- cumulative -------------------------------------------------------------------------------------------------------


def _accumulated(ours: str, first: int) -> Callable[..., Array]:
    def function(x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: Flag = False) -> Array:
        if axis is None and x.ndim != 1:
            raise InvalidProblemError(f"axis is None, but x has {x.ndim} axes")
        along = 0 if axis is None else axis_of("axis", axis, x.shape)
        given, wanted = _wide(x, dtype)
        result = _as(getattr(bk, ours)(given, axis=along), wanted)
        if not include_initial:
            return result
        start = bk.fill(_empty([1 if a == along else extent for a, extent in enumerate(x.shape)], wanted, x), first)
        return bk.concat(start, result, axis=along)

    return _named(function, f"cumulative_{ours.removeprefix('cum')}", ours)


cumulative_sum, cumulative_prod = _accumulated("cumsum", 0), _accumulated("cumprod", 1)


def _empty(shape: Sequence[int], element: ElementKind, like: Array) -> Array:
    framework = result_framework(like)
    return framework.empty(tuple(shape), framework.native(element, like), like)


def diff(
    x: Array, /, *, axis: int = -1, n: int = 1, prepend: Array | None = None, append: Array | None = None
) -> Array:  # fmt: skip
    x = concat([part for part in (prepend, x, append) if part is not None], axis=axis)
    along = axis_of("axis", axis, x.shape)
    for _ in range(n):
        later, earlier = (x[tuple([part if a == along else slice(None) for a in range(x.ndim)])]
                          for part in (slice(1, None), slice(None, -1)))  # fmt: skip
        x = bk.ne(later, earlier) if _kind(x) == "b" else bk.sub(later, earlier)
    return x


# --- copies ---------------------------------------------------------------------------------------------------------


def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Array:
    parts = _promoted(*arrays)
    if axis is None:
        parts, axis = [part.reshape(-1) for part in parts], 0
    if len(parts) == 1:
        return _copy(parts[0])
    while len(parts) > 1:  # pairwise: each element is copied log2(parts) times
        pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
        parts = [bk.concat(pair[0], pair[1], axis=axis) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    rank = len(arrays[0].shape) + 1
    along = axis_of("axis", axis, (1,) * rank)
    new_axis = (*[slice(None)] * along, None)
    return concat([array[new_axis] for array in arrays], axis=along)


def flip(x: Array, /, *, axis: Axis = None) -> Array:
    return bk.flip(x, axis=axis)


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    return bk.permute(x, axes)


def roll(x: Array, /, shift: int | tuple[int, ...], *, axis: Axis = None) -> Array:
    return bk.roll(x, shift, axis=axis)


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    if 0 not in repetitions:
        return bk.tile(x, repetitions)
    rank = _larger(x.ndim, len(repetitions))
    shape, times = ((*[1] * (rank - len(each)), *each) for each in (tuple(x.shape), repetitions))
    return _empty([extent * count for extent, count in zip(shape, times)], _element(x), x)


def tril(x: Array, /, *, k: int = 0) -> Array:
    return bk.tril(x, diagonal=k)


def triu(x: Array, /, *, k: int = 0) -> Array:
    return bk.triu(x, diagonal=k)


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    if axis is None and x.ndim != 1:
        raise InvalidProblemError(f"axis is None, but x has {x.ndim} axes")
    along = 0 if axis is None else axis_of("axis", axis, x.shape)
    result = bk.index_select(x, _non_negative(indices.reshape(-1), x.shape[along]), axis=along)
    return result.reshape(*x.shape[:along], *indices.shape, *x.shape[along + 1 :])


def sort(x: Array, /, *, axis: int = -1, descending: Flag = False, stable: Flag = True) -> Array:
    """Always stable."""
    return bk.sort(x, axis, descending=descending)


def argsort(x: Array, /, *, axis: int = -1, descending: Flag = False, stable: Flag = True) -> Array:
    """Always stable."""
    return bk.argsort(x, axis, descending=descending)


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    if x.ndim != indices.ndim:
        raise InvalidProblemError(f"x has {x.ndim} axes and indices {indices.ndim}, must have as many")
    along = axis_of("axis", axis, x.shape)
    one = [[1 if a == along else extent for a, extent in enumerate(each.shape)] for each in (x, indices)]
    whole = np.broadcast_shapes(*map(tuple, one))
    given, positions = [
        result_framework(each).broadcast_to(
            each, tuple([each.shape[along] if a == along else n for a, n in enumerate(whole)])
        )
        for each in (x, indices)
    ]
    return bk.gather(given, _non_negative(positions, x.shape[along]), axis=along)


def _larger(a: int, b: int) -> int:
    return a if a > b else b


def _non_negative(indices: Array, extent: int) -> Array:
    """Non-negative indices; negative ones count from the last."""
    found = _as(indices, ElementKind.I64)
    return bk.where(bk.lt(found, 0), bk.add(found, extent), found)


# --- matmul -----------------------------------------------------------------------------------------------------------


def matmul(x1: Array, x2: Array, /) -> Array:
    a, b = _promoted(x1, x2)
    if not a.ndim or not b.ndim:
        raise InvalidProblemError("matmul takes no scalars")
    return bk.matmul(a, b)


def tensordot(x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    a, b = _promoted(x1, x2)
    first, second = (range(a.ndim - axes, a.ndim), range(axes)) if isinstance(axes, int) else axes
    first, second = ([axis_of("axes", k, each.shape) for k in axes] for axes, each in ((first, a), (second, b)))
    if [a.shape[k] for k in first] != [b.shape[k] for k in second]:
        raise InvalidProblemError(f"x1 has shape {tuple(a.shape)} and x2 {tuple(b.shape)}, which differ along axes")
    left = [k for k in range(a.ndim) if k not in first]
    right = [k for k in range(b.ndim) if k not in second]
    shared = math.prod([a.shape[k] for k in first])
    rows = _matrix(a, (*left, *first), (math.prod([a.shape[k] for k in left]), shared))
    columns = _matrix(b, (*second, *right), (shared, math.prod([b.shape[k] for k in right])))
    return bk.matmul(rows, columns).reshape([*[a.shape[k] for k in left], *[b.shape[k] for k in right]])


def _matrix(x: Array, order: tuple[int, ...], shape: tuple[int, int]) -> Array:
    return result_framework(x).permuted(x, order).reshape(shape)


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    axis -= _larger(x1.ndim, x2.ndim) if axis >= 0 else 0
    extents = [each.shape[axis_of("axis", axis, each.shape)] for each in (x1, x2)]
    if extents[0] != extents[1]:
        raise InvalidProblemError(f"x1 has {extents[0]} elements along axis {axis} and x2 {extents[1]}")
    products = multiply(x1, x2)
    return _as(bk.sum(_wide(products, None)[0], axis=axis), _element(products))


def __dir__() -> list[str]:
    return sorted(name for name in globals() if not name.startswith("_") and name not in _OTHERS)


_OTHERS = {
    "annotations", "builtins", "math", "Callable", "Sequence", "Any", "np", "bk", "Array", "Axis", "Flag", "as_element",
    "InvalidProblemError", "UnsupportedError", "ElementKind", "axes_of", "axis_of", "result_framework", "MAX_RANK",
}  # fmt: skip

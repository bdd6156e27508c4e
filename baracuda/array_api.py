"""The functions under the names and signatures of the Python array API standard (2024.12), for NumPy arrays.

    from baracuda import array_api as xp
    y = xp.sum(xp.multiply(x, 2.0), axis=-1)

What computes, moves or counts elements is the library's; dtypes, creation and views (`reshape`, `expand_dims`,
`broadcast_to` ...) are NumPy's. Where nothing has to be converted, arrays of other kinds are taken as well. What is
missing of the standard stands in tests/functions/array_api_exceptions.txt.
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
from baracuda.dtypes import as_element
from baracuda.errors import InvalidProblemError, UnsupportedError

__array_api_version__ = "2024.12"
__array_namespace_info__ = np.__array_namespace_info__
Array = Any
Axis = int | tuple[int, ...] | None
Flag = builtins.bool
_SCALARS = (int, float)  # and bool, a kind of int
_WIDENED = {"u2": np.int32, "u8": np.int64}  # dtypes that reductions lack, and what has their values, or their bits


def _dtype(x: Array) -> np.dtype[Any]:
    return x.dtype if isinstance(x, (np.ndarray, np.generic)) else as_element(x.dtype).numpy_dtype


def _promoted(*arrays: Array) -> list[Array]:
    """Arrays of one dtype. Python numbers are left to the functions, which give them that of the arrays."""
    dtypes = {_dtype(x) for x in arrays if not isinstance(x, _SCALARS)}
    if len(dtypes) == 1:
        return list(arrays)
    if not dtypes:
        raise InvalidProblemError("none of the arguments is an array")
    dtype = np.result_type(*dtypes)
    return [x if isinstance(x, _SCALARS) or _dtype(x) == dtype else bk.cast(x, dtype) for x in arrays]


def _kind(x: Array) -> str:
    return "" if isinstance(x, _SCALARS) else _dtype(x).kind


def _copy(x: Array) -> Array:
    return bk.cast(x, _dtype(x))


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
    """Of rounding, which leaves integers as they are."""

    def function(x: Array, /) -> Array:
        return _copy(x) if _kind(x) in "iu" else getattr(bk, name)(x)

    return _named(function, name, name)


def _binary(name: str, ours: str = "", of_bool: str = "") -> Callable[[Array, Array], Array]:
    """`of_bool` is the function that serves bool."""
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
floor_divide, remainder, pow = _binary("floor_divide"), _binary("remainder"), _binary("pow")
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


def bitwise_invert(x: Array, /) -> Array:
    return bk.logical_not(x) if _kind(x) == "b" else bk.bitwise_not(x)


def positive(x: Array, /) -> Array:
    return _copy(x)


def sign(x: Array, /) -> Array:
    """NaN of NaN, where baracuda.sign has 0."""
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
    bounds = [None if b is None or isinstance(b, _SCALARS) else bk.cast(b, _dtype(x)) if _dtype(b) != _dtype(x) else b
              for b in (min, max)]  # fmt: skip
    low, high = (given if bound is None else bound for bound, given in zip(bounds, (min, max)))
    if low is not None and high is not None:
        return bk.clamp(x, low, high)
    if low is not None:
        return bk.maximum(x, low)
    return bk.minimum(x, high) if high is not None else _copy(x)


def where(condition: Array, x1: Array, x2: Array, /) -> Array:
    return bk.where(condition, *_promoted(x1, x2))


# --- statistics, searching --------------------------------------------------------------------------------------------


def _wide(x: Array, dtype: Any) -> tuple[Array, np.dtype[Any]]:
    """What is summed, and the dtype of the sum: 64 bits for integers, of which those without a sign wrap alike."""
    own = _dtype(x)
    wanted = np.dtype(dtype) if dtype is not None else np.dtype({"i": "i8", "u": "u8"}.get(own.kind, own))
    inner = np.dtype(np.int64) if wanted.kind in "iu" else wanted
    return (x if own == inner else bk.cast(x, inner)), wanted


def _as(x: Array, dtype: np.dtype[Any]) -> Array:
    return x if _dtype(x) == dtype else bk.cast(x, dtype)


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
    """An array whose order is that of x, of a dtype that reductions take, and the way back."""
    dtype = _dtype(x)
    wide = _WIDENED.get(dtype.str[1:])
    if wide is None:
        return x, lambda result: result
    if dtype.itemsize < 8:
        return bk.cast(x, wide), lambda result: bk.cast(result, dtype)
    turn = -(2**63)  # the order of the bits is that of signed integers, but for the highest
    return bk.bitwise_xor(bk.cast(x, wide), turn), lambda result: bk.cast(bk.bitwise_xor(result, turn), dtype)


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
    return bk.ne(x, 0) if _dtype(x).str[1:] in _WIDENED else x


def all(x: Array, /, *, axis: Axis = None, keepdims: Flag = False) -> Array:
    return bk.all(_is_set(x), axis=axis, keepdims=keepdims)


def any(x: Array, /, *, axis: Axis = None, keepdims: Flag = False) -> Array:
    return bk.any(_is_set(x), axis=axis, keepdims=keepdims)


def count_nonzero(x: Array, /, *, axis: Axis = None, keepdims: Flag = False) -> Array:
    return bk.count_nonzero(_is_set(x), axis=axis, keepdims=keepdims)


def nonzero(x: Array, /) -> tuple[Array, ...]:
    if not x.ndim:
        raise InvalidProblemError("x has no axis")
    places, count = bk.nonzero(x)
    return tuple([places[: int(count), axis].astype(np.int64) for axis in range(x.ndim)])


def _accumulated(ours: str, first: int) -> Callable[..., Array]:
    def function(x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: Flag = False) -> Array:
        if axis is None and x.ndim != 1:
            raise InvalidProblemError(f"axis is None, but x has {x.ndim} axes")
        along = 0 if axis is None else axis % x.ndim
        given, wanted = _wide(x, dtype)
        result = _as(getattr(bk, ours)(given, axis=along), wanted)
        if not include_initial:
            return result
        start = bk.fill(np.empty([1 if a == along else extent for a, extent in enumerate(x.shape)], wanted), first)
        return bk.concat(start, result, axis=along)

    return _named(function, f"cumulative_{ours.removeprefix('cum')}", ours)


cumulative_sum, cumulative_prod = _accumulated("cumsum", 0), _accumulated("cumprod", 1)


def diff(
    x: Array, /, *, axis: int = -1, n: int = 1, prepend: Array | None = None, append: Array | None = None
) -> Array:  # fmt: skip
    x = concat([part for part in (prepend, x, append) if part is not None], axis=axis)
    along = axis % x.ndim
    for _ in range(n):
        later, earlier = (x[tuple([part if a == along else slice(None) for a in range(x.ndim)])]
                          for part in (slice(1, None), slice(None, -1)))  # fmt: skip
        x = bk.ne(later, earlier) if _kind(x) == "b" else bk.sub(later, earlier)
    return x


# --- moves ------------------------------------------------------------------------------------------------------------


def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Array:
    parts = _promoted(*arrays)
    if axis is None:
        parts, axis = [part.reshape(-1) for part in parts], 0
    if len(parts) == 1:
        return _copy(parts[0])
    while len(parts) > 1:  # each element is moved as often as the number of parts can be halved
        pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
        parts = [bk.concat(*pair, axis=axis) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    return concat([np.expand_dims(array, axis) for array in arrays], axis=axis)


def flip(x: Array, /, *, axis: Axis = None) -> Array:
    return bk.flip(x, axis=axis)


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    return bk.permute(x, axes)


def roll(x: Array, /, shift: int | tuple[int, ...], *, axis: Axis = None) -> Array:
    return bk.roll(x, shift, axis=axis)


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    return bk.tile(x, repetitions)


def tril(x: Array, /, *, k: int = 0) -> Array:
    return bk.tril(x, diagonal=k)


def triu(x: Array, /, *, k: int = 0) -> Array:
    return bk.triu(x, diagonal=k)


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    if axis is None and x.ndim != 1:
        raise InvalidProblemError(f"axis is None, but x has {x.ndim} axes")
    along = 0 if axis is None else axis % x.ndim
    result = bk.index_select(x, _place(indices.reshape(-1), x.shape[along]), axis=along)
    return result.reshape(*x.shape[:along], *indices.shape, *x.shape[along + 1 :])


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    along = axis % x.ndim
    whole = [_larger(a, b) for a, b in zip(x.shape, indices.shape)]
    given = np.broadcast_to(x, [x.shape[along] if a == along else extent for a, extent in enumerate(whole)])
    places = np.broadcast_to(
        indices, [indices.shape[along] if a == along else extent for a, extent in enumerate(whole)]
    )
    return bk.gather(given, _place(places, x.shape[along]), axis=along)


def _larger(a: int, b: int) -> int:
    return a if a > b else b


def _place(indices: Array, extent: int) -> Array:
    """Indices that count from 0; negative ones count from the last."""
    found = _as(indices, np.dtype(np.int64))
    return bk.where(bk.lt(found, 0), bk.add(found, extent), found)


# --- products ---------------------------------------------------------------------------------------------------------


def matmul(x1: Array, x2: Array, /) -> Array:
    a, b = _promoted(x1, x2)
    if not a.ndim or not b.ndim:
        raise InvalidProblemError("matmul takes no scalars")
    if a.ndim > 2 and b.ndim > 2 and a.shape[:-2] != b.shape[:-2]:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = np.broadcast_to(a, (*batch, *a.shape[-2:])), np.broadcast_to(b, (*batch, *b.shape[-2:]))
    return bk.matmul(a, b)


def tensordot(x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    a, b = _promoted(x1, x2)
    first, second = (range(a.ndim - axes, a.ndim), range(axes)) if isinstance(axes, int) else axes
    first, second = [k % a.ndim for k in first], [k % b.ndim for k in second]
    left = [k for k in range(a.ndim) if k not in first]
    right = [k for k in range(b.ndim) if k not in second]
    shared = math.prod([a.shape[k] for k in first])
    rows = a.transpose(*left, *first).reshape(-1 if a.size else math.prod([a.shape[k] for k in left]), shared)
    columns = b.transpose(*second, *right).reshape(shared, -1 if b.size else math.prod([b.shape[k] for k in right]))
    return bk.matmul(rows, columns).reshape([*[a.shape[k] for k in left], *[b.shape[k] for k in right]])


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    products = multiply(x1, x2)
    return _as(bk.sum(_wide(products, None)[0], axis=axis), _dtype(products))


class linalg:
    """The part of the extension that is made of these functions."""

    matmul, matrix_transpose = staticmethod(matmul), staticmethod(np.matrix_transpose)
    tensordot, vecdot = staticmethod(tensordot), staticmethod(vecdot)

    @staticmethod
    def outer(x1: Array, x2: Array, /) -> Array:
        return multiply(x1.reshape(-1, 1), x2.reshape(1, -1))

    @staticmethod
    def diagonal(x: Array, /, *, offset: int = 0) -> Array:
        return np.linalg.diagonal(x, offset=offset)

    @staticmethod
    def trace(x: Array, /, *, offset: int = 0, dtype: Any = None) -> Array:
        return sum(np.linalg.diagonal(x, offset=offset), axis=-1, dtype=dtype)

    @staticmethod
    def vector_norm(x: Array, /, *, axis: Axis = None, keepdims: Flag = False, ord: float = 2) -> Array:
        if ord in (math.inf, -math.inf):
            return (bk.max if ord > 0 else bk.min)(bk.abs(x), axis=axis, keepdims=keepdims)
        if ord == 0:
            return bk.cast(bk.count_nonzero(x, axis=axis, keepdims=keepdims), _dtype(x))
        return bk.norm_p(x, float(ord), axis=axis, keepdims=keepdims)

    @staticmethod
    def matrix_norm(x: Array, /, *, keepdims: Flag = False, ord: Any = "fro") -> Array:
        if ord == "fro":
            return bk.norm2(x, axis=(-2, -1), keepdims=keepdims)
        if ord not in (1, -1, math.inf, -math.inf):
            raise UnsupportedError(f"ord is {ord!r}, must be 'fro', 1, -1, inf or -inf")
        along, across = (-2, -1) if ord in (1, -1) else (-1, -2)
        sums = bk.sum(bk.abs(x), axis=along, keepdims=True)
        found = (bk.max if ord > 0 else bk.min)(sums, axis=across, keepdims=True)
        return found if keepdims else found.reshape(x.shape[:-2])


def __dir__() -> list[str]:
    return sorted(name for name in globals() if not name.startswith("_") and name not in _OTHERS)


_OTHERS = {
    "annotations", "builtins", "math", "Callable", "Sequence", "Any", "np", "bk", "Array", "Axis", "Flag", "as_element",
    "InvalidProblemError", "UnsupportedError",
}  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Random arrays of a shape: a call of C for each, without a cache, since no two calls have the same offset."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from baracuda._arrays.frameworks import POINTERS, Framework, as_array, library_for, result_framework
from baracuda._call import checking
from baracuda._call.checking import watched_call
from baracuda._call.scalars import INT64_MAX, INT64_MIN, as_integer, as_integers, as_real
from baracuda._library.loader import Library, default_library, symbol_name
from baracuda._library.op_table import ops
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError, naming
from baracuda.random.generator import Source
from baracuda.tensor import TensorRef, tensor

Shape = int | Iterable[int]


class Target:
    """The array that a call writes: the caller's `out`, or a new one of a shape beside `like`."""

    __slots__ = ("array", "framework", "is_given", "library", "like", "view")

    def __init__(self, shape: Shape | None, dtype: Any, like: Any, out: Any, default: ElementKind) -> None:
        self.is_given = out is not None
        given = out if self.is_given else like
        if given is None:
            given = np.empty(0, np.float32) if default_library().backend == "cpu" else TensorRef(0, (0,), "f32")
            library = default_library()
        else:
            library = library_for(tensor(as_array(given, "like"), "out" if self.is_given else "like").device)
        self.library: Library = library
        self.framework: Framework = result_framework(given).on(library.backend)
        self.like = as_array(given, "like")
        if self.is_given:
            self.array = self.like
        else:
            if shape is None:
                raise InvalidProblemError("shape is None, must be given without out")
            extents = (shape,) if isinstance(shape, (int, np.integer)) else shape
            kind = default if dtype is None and like is None else as_element(dtype) if dtype is not None else None
            if kind is None:
                kind = tensor(self.like, "like").dtype
            native = self.framework.native(kind, given)
            self.array = self.framework.empty(as_integers("shape", extents, 0), native, self.like)
        self.view = tensor(self.array, "out")
        if self.is_given:
            self._check(shape, dtype)

    def _check(self, shape: Shape | None, dtype: Any) -> None:
        wanted = self.view.shape if shape is None else (shape,) if isinstance(shape, (int, np.integer)) else shape
        if tuple(wanted) != self.view.shape or (dtype is not None and as_element(dtype) is not self.view.dtype):
            raise InvalidProblemError(
                f"out has shape {self.view.shape} and dtype {self.view.dtype}, not those that are asked for"
            )
        if not self.view.is_dense:
            raise UnsupportedError(f"out has strides {self.view.strides}, must be in row-major order")
        if self.view.readonly:
            raise InvalidProblemError("out is read-only")

    def call(self, op: str, arguments: tuple[Any, ...], state: TensorRef | None = None) -> None:
        """Run an op of C, on the framework's stream. Its last pointer is the target, the one before it the state."""
        ffi, row = self.library.ffi, ops()[op].row
        views = dict(zip([param.name for param in reversed(row.pointers)], (self.view, state)))
        with self.framework.guard(self.like):
            stream = self.framework.stream(self.like) if self.library.backend == "cuda" else 0
            call = (*arguments, ffi.NULL, 0, ffi.cast("void *", stream))
            if checking.active is not None:
                checking.active.keep([self.array], state)
            status = watched_call(self.library.function(op), row, views, {}, stream, call)
        if status:
            self.library.check(symbol_name(op), status)

    def finished(self) -> Any:
        return self.array if self.is_given else self.framework.finish(self.array)


def draw(
    name: str, shape: Shape | None, numbers: tuple[Any, ...], *, dtype: Any, like: Any, out: Any, generator: Any,
    seed: Any, default: ElementKind = ElementKind.F32,
) -> Any:  # fmt: skip
    """An array of the op random_<name>_<dtype> with these numbers."""
    with naming(f"random.{name}"):
        source = Source(generator, seed)
        target = Target(shape, dtype, like, out, default)
        op = f"random_{name}_{target.view.dtype.symbol}"
        if op not in ops():
            raise UnsupportedError(f"dtype is {target.view.dtype}, which {name} does not have")
        count = math.prod(target.view.shape)
        first_seed, offset = source.numbers(count, target.view.dtype)
        state = None if source.state is None else tensor(source.state, "generator")
        at = POINTERS[type(None)](None) if state is None else state.pointer
        target.call(op, (count, *numbers, first_seed, offset, at, target.view.pointer), state)
        if source.state is not None:
            advance(source.state, count, target.view.dtype)
        return target.finished()


def advance(state: Any, count: int, dtype: Any = ElementKind.F32) -> None:
    """Move a state in device memory on by the numbers of `count` elements of a dtype, in stream order.

    Functions that draw from a state do it themselves.
    """
    from baracuda.random.generator import WORDS_OF_BLOCK, words_of

    with naming("random.advance"):
        blocks = -(-as_integer("count", count, 0) * words_of(as_element(dtype)) // WORDS_OF_BLOCK)
        target = Target(None, None, None, state, ElementKind.I64)
        target.call("random_advance", (blocks, target.view.pointer))


def uniform(
    shape: Shape | None = None, low: float = 0.0, high: float = 1.0, *, generator: Any = None, seed: int | None = None,
    dtype: Any = None, like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Uniform numbers in [low, high)."""
    numbers = (as_real("low", low), as_real("high", high))
    return draw("uniform", shape, numbers, dtype=dtype, like=like, out=out, generator=generator, seed=seed)


def normal(
    shape: Shape | None = None, mean: float = 0.0, stddev: float = 1.0, *, generator: Any = None,
    seed: int | None = None, dtype: Any = None, like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Normal numbers."""
    numbers = (as_real("mean", mean), as_real("stddev", stddev))
    return draw("normal", shape, numbers, dtype=dtype, like=like, out=out, generator=generator, seed=seed)


def log_normal(
    shape: Shape | None = None, mean: float = 0.0, stddev: float = 1.0, *, generator: Any = None,
    seed: int | None = None, dtype: Any = None, like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Exponentials of normal numbers; mean and stddev are those of the logarithm."""
    numbers = (as_real("mean", mean), as_real("stddev", stddev))
    return draw("log_normal", shape, numbers, dtype=dtype, like=like, out=out, generator=generator, seed=seed)


def truncated_normal(
    shape: Shape | None = None, mean: float = 0.0, stddev: float = 1.0, low: float = -2.0, high: float = 2.0, *,
    generator: Any = None, seed: int | None = None, dtype: Any = None, like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Normal numbers that lie in [low, high]."""
    numbers = tuple(as_real(n, v) for n, v in (("mean", mean), ("stddev", stddev), ("low", low), ("high", high)))
    return draw("truncated_normal", shape, numbers, dtype=dtype, like=like, out=out, generator=generator, seed=seed)


def exponential(
    shape: Shape | None = None, rate: float = 1.0, *, generator: Any = None, seed: int | None = None, dtype: Any = None,
    like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Exponentially distributed numbers of the mean 1 / rate, above 0."""
    return draw("exponential", shape, (as_real("rate", rate),), dtype=dtype, like=like, out=out, generator=generator,
                seed=seed)  # fmt: skip


def _located(name: str, shape: Shape | None, location: float, scale: float, options: dict[str, Any]) -> Any:
    return draw(name, shape, (as_real("location", location), as_real("scale", scale)), **options)


def gumbel(
    shape: Shape | None = None, location: float = 0.0, scale: float = 1.0, *, generator: Any = None,
    seed: int | None = None, dtype: Any = None, like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Numbers of Gumbel's distribution."""
    options = {"dtype": dtype, "like": like, "out": out, "generator": generator, "seed": seed}
    return _located("gumbel", shape, location, scale, options)


def cauchy(
    shape: Shape | None = None, location: float = 0.0, scale: float = 1.0, *, generator: Any = None,
    seed: int | None = None, dtype: Any = None, like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Numbers of Cauchy's distribution."""
    options = {"dtype": dtype, "like": like, "out": out, "generator": generator, "seed": seed}
    return _located("cauchy", shape, location, scale, options)


def laplace(
    shape: Shape | None = None, location: float = 0.0, scale: float = 1.0, *, generator: Any = None,
    seed: int | None = None, dtype: Any = None, like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Numbers of Laplace's distribution."""
    options = {"dtype": dtype, "like": like, "out": out, "generator": generator, "seed": seed}
    return _located("laplace", shape, location, scale, options)


def logistic(
    shape: Shape | None = None, location: float = 0.0, scale: float = 1.0, *, generator: Any = None,
    seed: int | None = None, dtype: Any = None, like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Numbers of the logistic distribution."""
    options = {"dtype": dtype, "like": like, "out": out, "generator": generator, "seed": seed}
    return _located("logistic", shape, location, scale, options)


def geometric(
    shape: Shape | None = None, p: float = 0.5, *, generator: Any = None, seed: int | None = None, dtype: Any = None,
    like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Numbers of trials of the probability p to the first success, from 1 on."""
    return draw("geometric", shape, (as_real("p", p),), dtype=dtype, like=like, out=out, generator=generator,
                seed=seed)  # fmt: skip


def integers(
    low: int, high: int | None = None, shape: Shape | None = None, *, generator: Any = None, seed: int | None = None,
    dtype: Any = None, like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Integers in [low, high), or in [0, low) without high, each equally likely; of i64 by default."""
    first, end = (0, low) if high is None else (low, high)
    numbers = (as_integer("low", first, INT64_MIN, INT64_MAX), as_integer("high", end, INT64_MIN, INT64_MAX))
    if shape is None and out is None:
        shape = ()
    if dtype is None and out is None:
        dtype = ElementKind.I64
    return draw("integers", shape, numbers, dtype=dtype, like=like, out=out, generator=generator, seed=seed,
                default=ElementKind.I64)  # fmt: skip


def bits(
    shape: Shape | None = None, *, generator: Any = None, seed: int | None = None, dtype: Any = None, like: Any = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """Random bits of an integer dtype, u32 by default."""
    return draw("bits", shape, (), dtype=dtype, like=like, out=out, generator=generator, seed=seed,
                default=ElementKind.U32)  # fmt: skip


def bernoulli(
    p: Any = 0.5, shape: Shape | None = None, *, generator: Any = None, seed: int | None = None, dtype: Any = None,
    like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """1 with the probability p, else 0. Of an array p the result has its shape and dtype, else it is f32 by default."""
    if hasattr(p, "shape") and tuple(p.shape) != ():
        if shape is not None or dtype is not None or like is not None:
            raise InvalidProblemError("random.bernoulli: an array p gives the shape and the dtype")
        return of_array("bernoulli", p, generator, seed, out, ElementKind.F32)
    return draw("bernoulli", shape, (as_real("p", p),), dtype=dtype, like=like, out=out, generator=generator, seed=seed)


def poisson(rate: Any, *, generator: Any = None, seed: int | None = None, out: Any = None) -> Any:
    """Poisson variables with the rates of an array, in its dtype."""
    return of_array("poisson", rate, generator, seed, out, ElementKind.F64)


def of_array(name: str, array: Any, generator: Any, seed: Any, out: Any, width: ElementKind) -> Any:
    """A function of arrays, with numbers of `width`."""
    from baracuda import functions

    with naming(f"random.{name}"):
        source = Source(generator, seed)
        count = math.prod(array.shape)
        first_seed, offset = source.numbers(count, width)
        given: dict[str, Any] = {"seed": first_seed, "offset": offset, "out": out}
        result = getattr(functions, name)(array, source.state, **given)
        if source.state is not None:
            advance(source.state, count, width)
        return result

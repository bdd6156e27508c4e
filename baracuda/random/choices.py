# SPDX-License-Identifier: Apache-2.0
"""Categories by weights, permutations, and choices of the elements of an axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from baracuda import functions
from baracuda._arrays.frameworks import as_array, result_framework
from baracuda._call.scalars import as_integer
from baracuda._functions.shape_rules.call_meta import axis_of
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, naming
from baracuda.random.arrays import advance, bits, exponential
from baracuda.random.generator import Source
from baracuda.tensor import tensor


def multinomial(
    weights: Any, num_samples: int, replacement: bool = False, *, generator: Any = None, seed: int | None = None
) -> Any:
    """Indices of num_samples categories for each row of weights along the last axis, of i64, as torch.multinomial.

    Weights are of a float dtype, not negative, and need not add to 1. With replacement draws are independent, found in
    the cumulated weights of f64; a row whose total is not positive and finite gives -1. Without replacement categories
    are drawn one after another: they are the largest of weight / E, E exponentially distributed (Efraimidis and
    Spirakis 2006), in this order, and those of weight 0 come last.

    InvalidProblemError for more samples than categories without replacement.
    """
    with naming("random.multinomial"):
        given = as_array(weights, "weights")
        shape = tensor(given, "weights").shape
        if not shape:
            raise InvalidProblemError("weights has no axis, must have one of categories at least")
        count = as_integer("num_samples", num_samples, 0)
        if not replacement and count > shape[-1]:
            raise InvalidProblemError(f"num_samples is {count}, but there are {shape[-1]} categories")
        source = Source(generator, seed)
        if replacement:
            cdf = functions.cumsum(functions.cast(given, ElementKind.F64), axis=-1)
            drawn = math.prod(shape[:-1]) * count
            first, offset = source.numbers(drawn, ElementKind.F64)
            y = functions.multinomial_of_cdf(cdf, count, source.state, seed=first, offset=offset)
            if source.state is not None:
                advance(source.state, drawn, ElementKind.F64)
            return y
    wide = functions.cast(given, ElementKind.F64)
    keys = functions.div(wide, exponential(shape, like=wide, generator=generator, seed=seed))
    return functions.topk(keys, count, axis=-1)[1]


def permutation(n: Any, *, axis: int = 0, generator: Any = None, seed: int | None = None, like: Any = None) -> Any:
    """A random permutation of 0 ... n - 1, of i64, or the slices of an array along an axis in random order.

    Indices are sorted by random keys of 64 bits, so that all orders are equally likely to within 2^-64 n^2.
    """
    with naming("random.permutation"):
        if isinstance(n, (int, np.integer)):
            count = as_integer("n", n, 0)
            return functions.argsort(
                bits(count, dtype=ElementKind.I64, like=like, generator=generator, seed=seed), axis=0
            )
        given = as_array(n, "x")
        shape = tensor(given, "x").shape
        along = axis_of("axis", axis, shape)
    order = permutation(shape[along], generator=generator, seed=seed, like=n)
    return functions.index_select(n, order, axis=along)


def shuffle(x: Any, *, axis: int = 0, generator: Any = None, seed: int | None = None) -> Any:
    """The slices of an array along an axis in random order, written to the array; the array."""
    moved = permutation(x, axis=axis, generator=generator, seed=seed)
    framework = result_framework(x)
    framework.copy(x, moved)
    return x


def choice(
    n: Any, size: int, replacement: bool = True, weights: Any = None, *, axis: int = 0, generator: Any = None,
    seed: int | None = None, like: Any = None,
) -> Any:  # fmt: skip
    """`size` of the numbers 0 ... n - 1, or slices of an array along an axis, with or without replacement.

    weights has a weight for each, and all are equal without it.
    """
    from baracuda.random.arrays import integers

    with naming("random.choice"):
        is_number = isinstance(n, (int, np.integer))
        count = as_integer("n", n, 0) if is_number else tensor(as_array(n, "n"), "n").shape[axis]
        taken = as_integer("size", size, 0)
        if not replacement and taken > count:
            raise InvalidProblemError(f"size is {taken}, but there are {count} to choose from")
        if replacement and taken and not count:
            raise InvalidProblemError(f"size is {taken}, but there is nothing to choose from")
    beside = like if is_number else n
    if weights is not None:
        index = multinomial(weights, taken, replacement, generator=generator, seed=seed)
    elif replacement:
        index = integers(0, max(count, 1), taken, like=beside, generator=generator, seed=seed)
    else:
        index = permutation(count, generator=generator, seed=seed, like=beside)[:taken]
    return index if is_number else functions.index_select(n, index, axis=axis)

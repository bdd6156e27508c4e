# SPDX-License-Identifier: Apache-2.0
"""Initial weights of layers: Glorot and Bengio 2010 (Xavier), He et al. 2015 (Kaiming), Saxe et al. 2014 (orthogonal),
as torch.nn.init has them.

A weight is (fan out, fan in, kernel ...).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from baracuda import functions, linalg
from baracuda._arrays.frameworks import as_array
from baracuda._arrays.shaping import reshaped
from baracuda._call.scalars import as_integers, as_real
from baracuda.concatenation import as_strided
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError, naming
from baracuda.random.arrays import Shape, normal, uniform
from baracuda.tensor import tensor

GAINS = {
    "linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75, "leaky_relu": math.sqrt(2),
}  # fmt: skip
WEIGHTS = (ElementKind.F32, ElementKind.F64, ElementKind.F16, ElementKind.BF16)


def gain(nonlinearity: str, negative_slope: float = 0.01) -> float:
    """The factor by which weights before a nonlinearity keep the deviation; of leaky_relu by its negative slope."""
    if nonlinearity not in GAINS:
        raise InvalidProblemError(f"nonlinearity is {nonlinearity!r}, must be one of {', '.join(GAINS)}")
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + negative_slope**2))
    return GAINS[nonlinearity]


def _fans(shape: Shape | None, out: Any) -> tuple[int, int]:
    """(fan in, fan out) of a weight."""
    extents = _extents(shape, out)
    kernel = math.prod(extents[2:])
    return extents[1] * kernel, extents[0] * kernel


def _extents(shape: Shape | None, out: Any) -> tuple[int, ...]:
    given: Any = tensor(out, "out").shape if shape is None and out is not None else shape
    if not isinstance(given, Iterable):
        raise InvalidProblemError(f"shape is {given!r}, must have two axes or more")
    extents = as_integers("shape", given, 0)
    if len(extents) < 2:
        raise InvalidProblemError(f"shape is {extents}, must have two axes or more")
    return extents


def _scaled(
    name: str, shape: Shape | None, factor: float, mode: str, options: dict[str, Any], *, is_normal: bool
) -> Any:
    """Numbers of the deviation factor / sqrt(fan), by the mode's fan."""
    with naming(f"random.{name}"):
        fan_in, fan_out = _fans(shape, options["out"])
        fans = {"fan_in": float(fan_in), "fan_out": float(fan_out), "fan_avg": (fan_in + fan_out) / 2}
        if mode not in fans:
            raise InvalidProblemError(f"mode is {mode!r}, must be one of {', '.join(fans)}")
        deviation = as_real("gain", factor) / math.sqrt(max(fans[mode], np.finfo(np.float64).tiny))
    if not fans[mode]:
        deviation = 1.0  # of no elements
    if is_normal:
        return normal(shape, 0.0, deviation, **options)
    bound = deviation * math.sqrt(3)
    return uniform(shape, -bound, bound, **options)


def xavier_uniform(
    shape: Shape | None = None, gain: float = 1.0, *, generator: Any = None, seed: int | None = None, dtype: Any = None,
    like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Uniform numbers of the variance gain^2 2 / (fan in + fan out)."""
    options = {"generator": generator, "seed": seed, "dtype": dtype, "like": like, "out": out}
    return _scaled("xavier_uniform", shape, gain, "fan_avg", options, is_normal=False)


def xavier_normal(
    shape: Shape | None = None, gain: float = 1.0, *, generator: Any = None, seed: int | None = None, dtype: Any = None,
    like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Normal numbers of the variance gain^2 2 / (fan in + fan out)."""
    options = {"generator": generator, "seed": seed, "dtype": dtype, "like": like, "out": out}
    return _scaled("xavier_normal", shape, gain, "fan_avg", options, is_normal=True)


def kaiming_uniform(
    shape: Shape | None = None, *, negative_slope: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Any = None, seed: int | None = None, dtype: Any = None, like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Uniform numbers of the variance gain^2 / fan, of the nonlinearity's gain and the fan of the mode."""
    options = {"generator": generator, "seed": seed, "dtype": dtype, "like": like, "out": out}
    return _scaled("kaiming_uniform", shape, gain(nonlinearity, negative_slope), mode, options, is_normal=False)


def kaiming_normal(
    shape: Shape | None = None, *, negative_slope: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Any = None, seed: int | None = None, dtype: Any = None, like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """Normal numbers of the variance gain^2 / fan, of the nonlinearity's gain and the fan of the mode."""
    options = {"generator": generator, "seed": seed, "dtype": dtype, "like": like, "out": out}
    return _scaled("kaiming_normal", shape, gain(nonlinearity, negative_slope), mode, options, is_normal=True)


def orthogonal(
    shape: Shape | None = None, gain: float = 1.0, *, generator: Any = None, seed: int | None = None, dtype: Any = None,
    like: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """gain times a random orthogonal matrix (fan out, fan in x kernel) of Haar's distribution: rows are orthonormal, or
    columns where there are more rows.

    It is Q of the QR factorisation of normal numbers, columns of Q having the signs of R's diagonal (Mezzadri 2007).
    f16 and bf16 weights are computed in f32. Its bits depend on the QR of the device.
    """
    with naming("random.orthogonal"):
        extents, beside, factor = _extents(shape, out), like if out is None else out, as_real("gain", gain)
        given = dtype if dtype is not None or beside is None else tensor(as_array(beside, "like"), "like").dtype
        element = ElementKind.F32 if given is None else as_element(given)
        if element not in WEIGHTS:
            raise UnsupportedError(f"dtype is {element}, which orthogonal does not have")
        rows, columns = extents[0], math.prod(extents[1:])
        work = element if element is ElementKind.F64 else ElementKind.F32
        wide, rank = max(rows, columns), min(rows, columns)
        x = normal((wide, rank), generator=generator, seed=seed, dtype=work, like=beside)
        if rank:
            q, r = linalg.qr(x)
            signs = functions.copysign(1.0, as_strided(r, (rank,), (rank + 1,)))
            x = functions.mul(q, functions.mul(signs, factor))
        x = reshaped(x if wide == rows else functions.permute(x, (1, 0)), extents)
        return x if out is None and work is element else functions.cast(x, element, out=out)

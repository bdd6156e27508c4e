# SPDX-License-Identifier: Apache-2.0
"""Initial weights of layers: Glorot and Bengio 2010 (Xavier), He et al. 2015 (Kaiming), as torch.nn.init has them.

A weight is (fan out, fan in, kernel ...). There is no orthogonal initialiser, which needs a QR decomposition.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from baracuda._call.scalars import as_integers, as_real
from baracuda.errors import InvalidProblemError, naming
from baracuda.random.arrays import Shape, normal, uniform
from baracuda.tensor import tensor

GAINS = {
    "linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75, "leaky_relu": math.sqrt(2),
}  # fmt: skip


def gain(nonlinearity: str, negative_slope: float = 0.01) -> float:
    """The factor by which weights before a nonlinearity keep the deviation; of leaky_relu by its negative slope."""
    if nonlinearity not in GAINS:
        raise InvalidProblemError(f"nonlinearity is {nonlinearity!r}, must be one of {', '.join(GAINS)}")
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + negative_slope**2))
    return GAINS[nonlinearity]


def _fans(shape: Shape | None, out: Any) -> tuple[int, int]:
    """(fan in, fan out) of a weight."""
    given: Any = tensor(out, "out").shape if shape is None and out is not None else shape
    if not isinstance(given, Iterable):
        raise InvalidProblemError(f"shape is {given!r}, must have two axes or more")
    extents = as_integers("shape", given, 0)
    if len(extents) < 2:
        raise InvalidProblemError(f"shape is {extents}, must have two axes or more")
    kernel = math.prod(extents[2:])
    return extents[1] * kernel, extents[0] * kernel


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

# SPDX-License-Identifier: Apache-2.0
"""Tables of cosines and sines, with frequencies scaled for longer contexts: linear, YaRN and LongRoPE."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from baracuda._call.scalars import INT32_MAX, as_integer, as_real
from baracuda.errors import InvalidProblemError
from baracuda.rotary.pairs import ROPE_DEFAULT_BASE, even, positive


@dataclasses.dataclass(frozen=True)
class LinearScaling:
    """Positions divided by factor (Chen et al. 2023); by default they are not scaled."""

    factor: float = 1.0


@dataclasses.dataclass(frozen=True)
class YaRNScaling:
    """Peng et al. 2023. A pair that rotates r times within original_max_seq_len keeps its frequency for r >= beta, has
    it divided by scale for r <= alpha, and a mean of both between. Cosines and sines are multiplied by 0.1 ln(scale) +
    1 where scale > 1.
    """

    scale: float
    alpha: float
    beta: float
    original_max_seq_len: int


@dataclasses.dataclass(frozen=True)
class LongRoPEScaling:
    """Ding et al. 2024: the frequency of each pair divided by its factor. If original_max_seq_len is given, cosines
    and sines are multiplied by sqrt(1 + ln(s) / ln(original_max_seq_len)), s = max_seq_len / original_max_seq_len > 1.
    """

    per_dim_factors: Sequence[float]
    original_max_seq_len: int | None = None


class RopeScaledTableBuilder:
    """Tables for rope_apply, of shape (max_seq_len, head_dim / 2), by a scaling of the frequencies."""

    def __init__(
        self, head_dim: int, max_seq_len: int, base: float = ROPE_DEFAULT_BASE,
        scaling: LinearScaling | YaRNScaling | LongRoPEScaling | None = None,
    ) -> None:  # fmt: skip
        self.head_dim = even("head_dim", head_dim, 2)
        self.max_seq_len = as_integer("max_seq_len", max_seq_len, 1, INT32_MAX)
        self.base = positive("base", base)
        self.scaling = LinearScaling() if scaling is None else scaling
        if not isinstance(self.scaling, (LinearScaling, YaRNScaling, LongRoPEScaling)):
            raise InvalidProblemError(
                f"scaling is {scaling!r}, must be a LinearScaling, YaRNScaling or LongRoPEScaling"
            )
        self.inverse_frequencies, self.amplitude = self._scaled()

    def _scaled(self) -> tuple[np.ndarray[Any, Any], float]:
        """(radians per position of each pair, factor of cosines and sines)"""
        pairs, scaling = self.head_dim // 2, self.scaling
        plain = np.float64(self.base) ** (-np.arange(pairs) / pairs)
        if isinstance(scaling, LinearScaling):
            return plain / positive("factor", scaling.factor), 1.0
        if isinstance(scaling, YaRNScaling):
            scale, length = (
                positive("scale", scaling.scale),
                as_integer("original_max_seq_len", scaling.original_max_seq_len, 1),
            )
            alpha, beta = as_real("alpha", scaling.alpha), as_real("beta", scaling.beta)
            if not alpha < beta:
                raise InvalidProblemError(f"alpha is {alpha}, must be < beta, {beta}")
            share = np.clip((beta - length * plain / (2 * math.pi)) / (beta - alpha), 0, 1)
            return plain * (1 - share) + plain * share / scale, 0.1 * math.log(scale) + 1 if scale > 1 else 1.0
        factors = [positive(f"per_dim_factors[{i}]", factor) for i, factor in enumerate(scaling.per_dim_factors)]
        if len(factors) != pairs:
            raise InvalidProblemError(f"per_dim_factors has {len(factors)} numbers, must have head_dim / 2 = {pairs}")
        amplitude = 1.0
        if scaling.original_max_seq_len is not None:
            length = as_integer("original_max_seq_len", scaling.original_max_seq_len, 2)
            amplitude = math.sqrt(1 + max(math.log(self.max_seq_len / length), 0) / math.log(length))
        return plain / np.array(factors), amplitude

    def build(self, dtype: Any = np.float32) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """(cos, sin) of all positions, rounded from f64."""
        angles = np.arange(self.max_seq_len)[:, None] * self.inverse_frequencies
        return (self.amplitude * np.cos(angles)).astype(dtype), (self.amplitude * np.sin(angles)).astype(dtype)

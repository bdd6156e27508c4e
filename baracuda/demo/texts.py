# SPDX-License-Identifier: Apache-2.0
"""Batches of random texts for training, chosen and copied on the device: a step waits for nothing from the host.

The texts of a step depend on the seed and the number of the step alone. Their starts are Philox numbers, the same on
every device.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import baracuda as bk

Array = np.ndarray[Any, Any]
STREAM = 1 << 63  # apart from the streams of dropout and of the parameters' first values


class Texts:
    """`count` texts of `length` tokens a step, at random positions of a text of i64 tokens, and the tokens that follow
    them. Each of the batches, of count / batches texts, is divided: this rank has those in `rows`, and of these the
    tokens at `positions`.
    """

    def __init__(
        self, text: Array, count: int, length: int, *, seed: int, batches: int, rows: slice, positions: Any,
        library: bk.Library,
    ) -> None:  # fmt: skip
        if len(text) <= length:
            raise bk.InvalidProblemError(f"the text has {len(text)} tokens, must have more than {length}")
        self.library, self._host, self._rows, self._batches = library, text, rows, batches
        self.count, self.length, self.most = count, length, len(text) - length
        self._positions = np.arange(length)[positions]
        self._text = bk.upload(text, bk.i64, library=library)
        self._starts = bk.empty((count,), bk.i64, library=library)
        self._seed = (seed + STREAM) % (1 << 64)
        self._state = self._generator(0).state(self._text)

    def _generator(self, step: int) -> bk.random.Generator:
        """The generator in front of a step."""
        one = bk.random.Generator(self._seed)
        one.take(self.count, bk.i64)
        return bk.random.Generator(self._seed, step * one.block)

    def restart(self, step: int) -> None:
        """Go on with another step."""
        state = self._generator(step).state(self._text)
        bk.upload(bk.download(state, library=self.library), out=self._state, library=self.library)

    def draw(self, tokens: bk.TensorRef, targets: bk.TensorRef) -> None:
        """Enqueue the copies of the next step's texts: (batches, rows * positions) each."""
        bk.random.integers(0, self.most, generator=self._state, out=self._starts)
        starts = self._starts.reshape(self._batches, -1)
        for batch in range(self._batches):
            own = starts[batch, self._rows]
            for shift, out in ((0, tokens), (1, targets)):
                rows = out[batch].reshape(own.shape[0], -1)
                for column, first, width in self._runs():
                    bk.index_select(self._windows(first + shift, width), own, 0, out=rows[:, column : column + width])

    def host(self, step: int) -> tuple[Array, Array]:
        """The tokens and targets of a step, on the host."""
        generator = self._generator(step)
        starts = bk.random.integers(0, self.most, (self.count,), generator=generator, like=self._text)
        chosen = bk.download(starts, library=self.library).reshape(self._batches, -1)[:, self._rows, None]
        inputs, targets = (self._host[chosen + self._positions + shift].reshape(self._batches, -1) for shift in (0, 1))
        return inputs, targets

    def _windows(self, first: int, width: int) -> bk.TensorRef:
        """Row k has `width` tokens from first + k on: a view of the text."""
        return bk.TensorRef(
            self._text.ptr + 8 * first, (self.most, width), bk.i64, (1, 1), device=self._text.device, readonly=True,
            owner=self._text,
        )  # fmt: skip

    def _runs(self) -> list[tuple[int, int, int]]:
        """Adjacent positions: the column of the first, the position, and how many."""
        breaks = np.flatnonzero(np.diff(self._positions) != 1) + 1
        columns = [0, *breaks.tolist(), len(self._positions)]
        return [(begin, int(self._positions[begin]), end - begin) for begin, end in itertools.pairwise(columns)]

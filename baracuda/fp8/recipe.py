# SPDX-License-Identifier: Apache-2.0
"""Delayed scaling (Micikevicius et al. 2022): a tensor is cast with the scale that the largest magnitudes of the last
history_len passes give, and its own largest magnitude is noted for the next ones.

    cast    y = fp8(x scale), to nearest, ties to even, saturated;  history[0] = max(history[0], max |x|)
    update  A = max(history);  scale = MAX / A / 2^margin;  the history moves by one pass

MAX is 448 for e4m3 and 57344 for e5m2. NaN does not count for the maximum; a history of zeros gives the scale 1, an
infinite one that of MAX. The window slides: a magnitude counts for the next history_len passes, not for one. Everything
stays on the device, so that graphs capture casts and updates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from baracuda import functions, memory
from baracuda._arrays.shaping import reshaped
from baracuda._call.scalars import as_integer
from baracuda._library.loader import Library, default_library
from baracuda.distributed.streams import functions_on
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError
from baracuda.tensor import TensorRef, tensor

if TYPE_CHECKING:
    from baracuda.distributed.communicator import Communicator

FORMATS = {"e4m3": (ElementKind.FP8_E4M3, 448.0), "e5m2": (ElementKind.FP8_E5M2, 57344.0)}
_LONGEST = 8192
_ALGORITHMS = ("max", "most_recent")
_LARGEST = float(np.finfo(np.float32).max)


class Fp8Recipe:
    """The state of one tensor's casts. `algorithm` is "max" of the history or "most_recent" pass; with a communicator,
    the history is the maximum over its ranks, which all update together.
    """

    def __init__(
        self, fmt: str = "e4m3", history_len: int = 1024, *, margin: int = 0, algorithm: str = "max",
        library: Library | None = None, comm: Communicator | None = None,
    ) -> None:  # fmt: skip
        if fmt not in FORMATS:
            raise InvalidProblemError(f"fmt is {fmt!r}, must be e4m3 or e5m2")
        if algorithm not in _ALGORITHMS:
            raise InvalidProblemError(f"algorithm is {algorithm!r}, must be max or most_recent")
        self.fmt, (self.dtype, self.max_representable) = fmt, FORMATS[fmt]
        self.history_len = as_integer("history_len", history_len, 1, _LONGEST)
        self.margin, self.algorithm, self.comm = as_integer("margin", margin, -126, 126), algorithm, comm
        self.library = library or default_library()
        ones = np.ones(1, np.float32)
        self.scale = memory.upload(ones, library=self.library)
        self.scale_inv = memory.upload(ones, library=self.library)
        self.amax_history = memory.zeros((self.history_len,), ElementKind.F32, library=self.library)
        self._moved = memory.zeros((self.history_len,), ElementKind.F32, library=self.library)
        self._constants = {
            value: memory.upload(np.full(1, value, np.float32), library=self.library)
            for value in (0.0, self.max_representable)
        }

    @property
    def write_pos(self) -> int:
        """The slot of the pass in progress: the history moves, not the slot."""
        return 0

    def cast(self, x: Any, *, out: Any = None) -> Any:
        """x as 8-bit floats, whose values are x scale."""
        wide = x if tensor(x, "x").dtype is ElementKind.F32 else functions.cast(x, ElementKind.F32)
        if tensor(x, "x").numel:
            amax = functions.nanmax(functions.abs(wide))
            slot = self.amax_history[:1]
            functions.fmax(slot, reshaped(amax, (1,)), out=slot)
        return functions.cast(functions.mul(wide, self.scale), self.dtype, out=out)

    def dequantize(self, codes: Any, dtype: object = "f32", *, out: Any = None) -> Any:
        """codes times scale_inv, rounded once to dtype."""
        wide = functions.cast(codes, ElementKind.F32)
        product = functions.mul(wide, self.scale_inv, out=wide)
        return functions.cast(product, dtype if out is None else tensor(out, "out").dtype, out=out)

    def update_after_pass(self) -> None:
        """New scales, and a new pass."""
        if self.comm is not None:
            self.comm.all_reduce(self.amax_history, "max", out=self.amax_history)
        history, top = self.amax_history, self._constants[self.max_representable]
        window = history if self.algorithm == "max" else history[:1]
        amax = functions.max(window, axis=0, keepdims=True)
        amax = functions.minimum(amax, _LARGEST)  # infinite magnitudes
        is_known = functions.gt(amax, 0.0)
        infinite = functions.ge(amax, _LARGEST)
        amax = functions.where(functions.logical_and(is_known, functions.logical_not(infinite)), amax, top)
        factor = 2.0**-self.margin
        functions.minimum(functions.mul(functions.div(top, amax), factor), _LARGEST, out=self.scale)
        functions.div(functions.mul(amax, 1.0 / factor), self.max_representable, out=self.scale_inv)
        functions.cast(self._constants[0.0], ElementKind.F32, out=self._moved[:1])
        if self.history_len > 1:
            functions.cast(history[:-1], ElementKind.F32, out=self._moved[1:])
        functions.cast(self._moved, ElementKind.F32, out=history)


class Fp8CastPlan:
    """The reference's plan: casts to bytes and notes the magnitude."""

    def run(self, stream: object, x: Any, y: Any, recipe: Fp8Recipe) -> None:
        """x of f32, f16 or bf16 into the bytes y, as many."""
        source, target = _equal(x, "x", y, "y")
        with functions_on(stream, is_cuda=recipe.library.backend == "cuda"):
            recipe.cast(source, out=target.view(recipe.dtype))


class Fp8DequantPlan:
    """The reference's plan: bytes as floats of y's dtype."""

    def run(self, stream: object, x: Any, y: Any, recipe: Fp8Recipe) -> None:
        source, target = _equal(x, "x", y, "y")
        with functions_on(stream, is_cuda=recipe.library.backend == "cuda"):
            recipe.dequantize(source.view(recipe.dtype), out=target)


def _equal(x: Any, x_name: str, y: Any, y_name: str) -> tuple[TensorRef, TensorRef]:
    a, b = tensor(x, x_name), tensor(y, y_name)
    if a.numel != b.numel or not a.numel:
        raise InvalidProblemError(f"{x_name} has {a.numel} elements, {y_name} {b.numel}, must be equal and not 0")
    return a.reshape(-1), b.reshape(-1)

# SPDX-License-Identifier: Apache-2.0
"""Generators: a seed and the Philox blocks of its stream that have been used."""

from __future__ import annotations

import secrets
import threading
from typing import Any

import numpy as np

from baracuda import memory
from baracuda._arrays.frameworks import framework_of, library_for, result_framework
from baracuda._call.scalars import UINT64_MAX, as_integer
from baracuda._library.loader import default_library
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError
from baracuda.tensor import TensorRef, tensor

WORDS_OF_BLOCK = 4


def words_of(dtype: ElementKind) -> int:
    """32-bit words of a number for an element of the dtype."""
    return 2 if dtype.bits == 64 else 1


class Generator:
    """A stream of random numbers: Philox 4x32-10 with the key `seed`.

    Functions of `baracuda.random` draw from it and move it on, so that successive calls give different numbers, and a
    new generator of one seed repeats them, on every device. A seed of None is taken from the operating system.
    `block` counts the blocks of four 32-bit words that were used. Generators may be shared by threads.

    `state(like)` is a copy in device memory, for CUDA graphs: functions take it as `generator`, and `advance` moves it
    on by a kernel of the graph.
    """

    __slots__ = ("_lock", "block", "seed")

    def __init__(self, seed: int | None = None, block: int = 0) -> None:
        self.seed = secrets.randbits(64) if seed is None else as_integer("seed", seed, 0, UINT64_MAX)
        self.block = as_integer("block", block, 0, UINT64_MAX)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Generator(seed={self.seed}, block={self.block})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.seed, self.block)

    def take(self, count: int, dtype: ElementKind = ElementKind.F32) -> int:
        """Reserve numbers for `count` elements of a dtype; the offset of the first one, for a call with this seed."""
        of_block = WORDS_OF_BLOCK // words_of(dtype)
        with self._lock:
            first = self.block
            self.block = (first + -(-count // of_block)) % (UINT64_MAX + 1)
        return first * of_block % (UINT64_MAX + 1)

    def spawn(self, count: int) -> list[Generator]:
        """Independent generators, whose seeds are numbers of this one."""
        from baracuda.random.arrays import bits

        drawn = bits(count, generator=self, dtype=ElementKind.I64)
        seeds = memory.download(drawn) if isinstance(drawn, TensorRef) else drawn
        return [Generator(int(seed) % (UINT64_MAX + 1)) for seed in seeds]

    def state(self, like: Any = None) -> Any:
        """{seed, block} as an array of two i64 beside another array, or in memory of the default library."""
        values = np.array([self.seed, self.block], np.uint64).view(np.int64)
        if like is None:
            on_cuda = default_library().backend == "cuda"
            return memory.upload(values) if on_cuda else values
        framework = result_framework(like)
        if framework_of(like) is None or isinstance(like, TensorRef):
            return memory.upload(values, library=library_for(tensor(like, "like").device))
        made = framework.empty((2,), framework.native(ElementKind.I64, like), like)
        made[:] = type(made)(values) if isinstance(made, np.ndarray) else _native(made, values)
        return made


def _native(made: Any, values: np.ndarray[Any, Any]) -> Any:
    """Two numbers as the framework of an array assigns them."""
    return made.new_tensor(values.tolist()) if hasattr(made, "new_tensor") else type(made)(values.tolist())


_default: Generator | None = None
_default_lock = threading.Lock()


def default_generator() -> Generator:
    """The generator of calls that name none; its seed is of the operating system, or that of `manual_seed`."""
    global _default
    with _default_lock:
        if _default is None:
            _default = Generator()
        return _default


def manual_seed(seed: int) -> Generator:
    """Give calls that name no generator a new one of this seed; the generator."""
    global _default
    made = Generator(seed)
    with _default_lock:
        _default = made
    return made


class Source:
    """Source of the random numbers of a call: a generator, a seed alone, or a state in device memory."""

    __slots__ = ("generator", "state")

    def __init__(self, generator: Any, seed: Any) -> None:
        if seed is not None:
            if generator is not None:
                raise InvalidProblemError("generator and seed are both given, must be one of them")
            generator = Generator(seed)
        self.state = None if generator is None or isinstance(generator, Generator) else generator
        self.generator = generator if self.state is None and generator is not None else None
        if self.state is None and self.generator is None:
            self.generator = default_generator()
        if self.state is not None:
            view = tensor(self.state, "generator")
            if view.dtype is not ElementKind.I64 or view.shape != (2,) or not view.is_dense:
                raise InvalidProblemError(
                    f"generator is {view.dtype} of shape {view.shape}, must be a Generator, or a state of two i64"
                )

    def numbers(self, count: int, dtype: ElementKind) -> tuple[int, int]:
        """(seed, offset) for `count` elements; a state is moved on by `advance`."""
        if self.generator is None:
            return 0, 0
        return self.generator.seed, self.generator.take(count, dtype)

# SPDX-License-Identifier: Apache-2.0
"""A tiny model, and engines that serve it."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import baracuda as bk
from baracuda.serve import config, gguf, tokenizer
from baracuda.serve.engine import Engine, load
from baracuda.serve.model import Limits, Model
from baracuda.serve.weights import Weights
from harness.gguf_files import tiny_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """File, metadata and float64 values of a model."""
    return tiny_model(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="session")
def words(tiny) -> tokenizer.Tokenizer:
    return tokenizer.from_gguf(tiny[1])


@pytest.fixture
def make_model(library: bk.Library) -> Callable[..., Model]:
    def make(path: Any, *, batch_invariant: bool = False, dtype: bk.ElementKind = bk.f32, **limits: int) -> Model:
        file = gguf.read(path)
        sizes = config.from_gguf(file.metadata, file.tensors["token_embd.weight"].shape[0])
        given = Limits(**{"pages": 64, "tokens": 128, "sequences": 16} | limits)
        weights = Weights(file.tensors, library, dtype=dtype)
        return Model(sizes, weights, given, library, batch_invariant=batch_invariant)

    return make


@pytest.fixture
def make_engine(tiny, library: bk.Library) -> Iterator[Callable[..., Engine]]:
    made = []

    def make(**options: Any) -> Engine:
        made.append(load(tiny[0], library, **{"cache_tokens": 1024, "step_tokens": 64, "sequences": 16} | options))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def prompt(rng: np.random.Generator) -> Callable[[int], list[int]]:
    """Random tokens of the tiny model that are not special."""
    return lambda length: rng.integers(3, 260, length).tolist()

# SPDX-License-Identifier: Apache-2.0
"""Text from the model, token by token with a cache of keys and values."""

import numpy as np
import pytest

import baracuda as bk
from baracuda.demo.forward import Buffers, forward
from baracuda.demo.generate import Generator
from demo import small


def test_the_cache_changes_nothing(library):
    """The most likely tokens are those of forwards of the whole text."""
    trainer = small.trainer(library, 40)
    small.run(trainer, 40)
    p = trainer.p
    found = Generator(p).generate(small.text(3), 10, top_p=1e-6)
    text = small.text(3).tolist()
    embedding = bk.download(p.values["embedding"], library=library)
    for _ in range(10):
        tokens = bk.upload(np.array(text), bk.i64, library=library)
        features = bk.download(forward(p, Buffers(p, 1, len(text)), tokens), library=library)
        text.append(int((features[-1] @ embedding.T).argmax()))
    assert found == text


@pytest.mark.parametrize("dtype", [bk.f32, bk.bf16], ids=str)
def test_the_seed_decides(library, dtype):
    generator = Generator(small.trainer(library, 1, dtype).p)
    first, again, other = (generator.generate(small.text(3), 10, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_text_ends_with_the_context(library):
    generator = Generator(small.trainer(library, 1).p)
    assert len(generator.generate(small.text(3), 100)) == small.CONFIG.context


@pytest.mark.parametrize("count", [0, small.CONFIG.context + 1])
def test_prompts_that_are_refused(library, count):
    with pytest.raises(ValueError, match=f"has {count} tokens, must have 1 to"):
        Generator(small.trainer(library, 1).p).generate(small.text(count), 1)

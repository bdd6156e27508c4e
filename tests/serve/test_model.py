# SPDX-License-Identifier: Apache-2.0
"""Logits of the model against float64, in chunks, in batches, and bit by bit where batch_invariant promises it."""

import numpy as np
import pytest

import baracuda as bk
from baracuda.serve.model import Chunk
from harness.gguf_files import tiny_model
from harness.llama_reference import logits as reference

TOLERANCE = 2e-5  # relative to the greatest logit: f32 rounds the sums of some hundred products in each of 2 layers


def last_logits(model, chunks):
    return bk.download(model.forward(chunks), library=model.library).copy()


@pytest.mark.parametrize("form", ["f32", "f16", "bf16", "q4_0", "q4_1", "q8_0"])
def test_logits_of_each_format(form, tmp_path, make_model, prompt):
    path, metadata, values = tiny_model(tmp_path / "model.gguf", form=form)
    tokens = prompt(40)
    got = last_logits(make_model(path), [Chunk(tokens, 0, [5, 3, 9], True)])
    want = reference(metadata, values, tokens)[-1:]
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * abs(want).max())


def test_logits_of_rotated_halves_and_biases(tmp_path, make_model, prompt):
    path, metadata, values = tiny_model(tmp_path / "model.gguf", architecture="qwen2")
    tokens = prompt(40)
    got = last_logits(make_model(path), [Chunk(tokens, 0, [0, 1, 2], True)])
    want = reference(metadata, values, tokens)[-1:]
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * abs(want).max())


# The rounding of rows, 2^-8 of bf16 and 2^-11 of f16, at some ten steps of each of 2 layers.
@pytest.mark.parametrize(("dtype", "tolerance"), [(bk.bf16, 0.04), (bk.f16, 0.005)], ids=["bf16", "f16"])
@pytest.mark.parametrize("form", ["f32", "q8_0"])
def test_logits_of_narrow_rows(dtype, tolerance, form, tmp_path, make_model, prompt):
    path, metadata, values = tiny_model(tmp_path / "model.gguf", form=form)
    model, tokens = make_model(path, dtype=dtype), prompt(40)
    for start, end in ((0, 39), (39, 40)):
        got = last_logits(model, [Chunk(tokens[start:end], start, [5, 3, 9], True)])
        want = reference(metadata, values, tokens[:end])[-1:]
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * abs(want).max())


def test_chunks_of_several_sequences(tiny, make_model, prompt):
    """Sequences that begin, continue and generate in one step, on pages in any order."""
    path, metadata, values = tiny
    model = make_model(path)
    texts = [prompt(n) for n in (70, 33, 1, 16)]
    pages = [[7, 1, 30, 2, 11], [9, 0, 8], [40], [41]]
    model.forward([Chunk(texts[0][:50], 0, pages[0], False), Chunk(texts[1][:32], 0, pages[1], False)])
    chunks = [
        Chunk(texts[0][50:], 50, pages[0], True), Chunk(texts[1][32:], 32, pages[1], True),
        Chunk(texts[2], 0, pages[2], True), Chunk(texts[3], 0, pages[3], True),
    ]  # fmt: skip
    got = last_logits(model, chunks)
    want = np.stack([reference(metadata, values, text)[-1] for text in texts])
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * abs(want).max())


def test_decoding_by_a_graph(tiny, make_model, prompt):
    """Single tokens of two sequences, whose pages grow and change while the graph is replayed."""
    path, metadata, values = tiny
    model = make_model(path)
    texts, pages = [prompt(38), prompt(25)], [[7, 1, 30], [9, 8]]
    model.forward([Chunk(text[:14], 0, page, False) for text, page in zip(texts, pages)])
    for length in range(15, 26):
        if length == 20:  # a long step in between has other numbers at the same offsets
            model.forward([Chunk(prompt(50), 0, [40, 41, 42, 43], True)])
        got = last_logits(
            model, [Chunk(text[length - 1 : length], length - 1, page, True) for text, page in zip(texts, pages)]
        )
        want = np.stack([reference(metadata, values, text[:length])[-1] for text in texts])
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * abs(want).max())


def test_many_rows_of_decoded_matrices(tiny, make_model, prompt):
    """Prompts multiply decoded matrices, on the CPU those of more than 32 rows; the last step multiplies codes."""
    path, metadata, values = tiny
    model, tokens = make_model(path), prompt(40)
    for start, end in ((0, 37), (37, 40)):
        got = last_logits(model, [Chunk(tokens[start:end], start, [5, 3, 9], True)])
        want = reference(metadata, values, tokens[:end])[-1:]
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * abs(want).max())


def test_no_logits_where_none_are_wanted(tiny, make_model, prompt):
    assert make_model(tiny[0]).forward([Chunk(prompt(5), 0, [0], False)]) is None


def test_batch_invariant_bits(tiny, make_model, prompt):
    """A sequence alone in one chunk, and among others in chunks of any size on other pages."""
    model = make_model(tiny[0], batch_invariant=True, pages=128)
    text = prompt(75)
    want = last_logits(model, [Chunk(text, 0, [0, 1, 2, 3, 4], True)])
    pages = [60, 50, 61, 51, 62]
    others = [Chunk(prompt(n), 0, [70 + 4 * k + j for j in range(4)], True) for k, n in enumerate((1, 3, 40, 7))]
    start = 0
    for length in (1, 40, 2, 32):
        got = last_logits(model, [*others[:2], Chunk(text[start : start + length], start, pages, True), *others[2:]])
        start += length
    np.testing.assert_array_equal(got[2].view(np.uint32), want[0].view(np.uint32))

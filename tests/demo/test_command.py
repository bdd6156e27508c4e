# SPDX-License-Identifier: Apache-2.0
"""`python -m baracuda.demo train`, with a small model on a small text."""

import dataclasses
import re
import xml.etree.ElementTree

import numpy as np
import pytest

import baracuda as bk
from baracuda.demo import __main__ as command
from baracuda.demo import train
from baracuda.demo.corpus import Corpus, read_corpus
from baracuda.demo.training import OPTIMIZERS, Schedule
from demo import small


def copies(count, seed):
    """Letters, each of which is most often the third one before it: a trigram does not see that."""
    rng = np.random.default_rng(seed)
    letters = rng.integers(0, 4, count)
    for k in range(3, count):
        letters[k] = letters[k] if rng.random() < 0.1 else letters[k - 3]
    return bytes((letters + ord("a")).tolist())


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    config = dataclasses.replace(small.CONFIG, vocabulary=256)
    schedule = Schedule(steps=200, batch=8, length=16, rate=0.02, warmup=5)
    monkeypatch.setitem(train.SIZES, "tiny", train.Size(config, bk.f32, 0, 0, schedule))
    monkeypatch.setattr(train, "read_corpus", lambda *_: Corpus(copies(5000, 1), copies(500, 2), 1, 1))
    monkeypatch.setattr(train, "gemm_rate", lambda *_: 1e9)


def run(library, capsys, *options):
    """Exit status and output."""
    status = command.main(["train", "--backend", library.backend, "--tokens", "8", "--prompt", "abc", *options])
    return status, capsys.readouterr().out


def losses(output):
    """Losses of held-out text: the model's, the trigram's."""
    return [float(value) for value in re.findall(r"(?:held out|trigram): +([\d.]+) nats", output)]


def test_beats_a_trigram_where_that_sees_too_little(library, capsys, tmp_path):
    curve = tmp_path / "curve.svg"
    status, output = run(library, capsys, "--curve", str(curve))
    model, trigram = losses(output)
    assert status == 0, output
    assert model < 0.8 < 1.2 < trigram
    assert re.search(r"step 200/200  loss [\d.]+  [\d,]+ tokens/s  \d+% of peak", output)
    assert re.search(r"sample:\nabc[a-d]{8}\n", output)
    root = xml.etree.ElementTree.parse(curve).getroot()
    assert root.tag.endswith("svg")
    assert len(root.findall("{*}polyline")) == 2 and len(root.findall("{*}circle")) == 3


def test_a_model_that_learned_nothing_is_a_failure(library, capsys):
    status, output = run(library, capsys, "--steps", "1")
    assert status == 1
    assert "FAILED: a trigram model is better" in output.splitlines()[-1]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_resumes(library, capsys, tmp_path, optimizer):
    path = tmp_path / "model.safetensors"
    more = ("--optimizer", optimizer, "--dropout", "0.1")
    _, whole = run(library, capsys, *more, "--checkpoint", str(path), "--save-every", "50")
    _, end = run(library, capsys, "--resume", str(path))
    assert "resumed after step 200" in end
    assert losses(end) == losses(whole)


def test_another_text_is_refused(library, capsys, tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    run(library, capsys, "--steps", "1", "--checkpoint", str(path))
    monkeypatch.setattr(train, "read_corpus", lambda *_: Corpus(copies(5000, 3), copies(500, 2), 1, 1))
    with pytest.raises(SystemExit, match="another text"):
        run(library, capsys, "--resume", str(path))


@pytest.mark.parametrize(
    "given, text",
    [
        (["--steps", "0"], "--steps: 0 is not above 0"),
        (["--size", "huge"], "invalid choice"),
        (["--resume", "x", "--steps", "9"], "--steps cannot change"),
        (["--optimizer", "muon", "--ranks", "2"], "--optimizer muon is of one rank"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_are_refused(given, text, capsys):
    with pytest.raises(SystemExit):
        command.main(["train", *given])
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("given", [[], ["nonsense"]], ids=str)
def test_unknown_commands(given, capsys):
    assert command.main(given) == 2
    assert "train" in capsys.readouterr().err


def test_the_corpus_is_the_standard_library(monkeypatch):
    corpus = read_corpus(30_000, 10_000)
    again = read_corpus(30_000, 10_000)
    assert corpus == again
    assert len(corpus.train) >= 30_000 and len(corpus.held_out) >= 10_000
    assert read_corpus(60_000, 10_000).held_out == corpus.held_out
    assert corpus.held_out not in corpus.train

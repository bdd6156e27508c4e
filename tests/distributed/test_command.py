# SPDX-License-Identifier: Apache-2.0
"""`python -m baracuda.demo train` on several ranks: what it prints, its exit status, checkpoints that other layouts
resume, and the launcher.
"""

import argparse
import dataclasses
import io
import os
import pathlib
import re
import subprocess
import sys
import time
from contextlib import redirect_stdout

import numpy as np
import pytest

import baracuda as bk
from baracuda.demo import train
from baracuda.demo.corpus import Corpus
from baracuda.demo.training import Schedule
from baracuda.distributed import launch
from baracuda.distributed.mesh import Layout, Mesh
from distributed import ranks, training

TRAINING = pytest.mark.needs_ops("attention_f32", "gemm_dense_f32", "optim_adam_f32", "sample_tokens_f32")


PROGRAM = """
import os, sys, time
rank = int(os.environ["RANK"])
os.write(1, f"{rank} {os.environ['WORLD_SIZE']}\\n".encode())  # at once: the ranks share the pipe
if rank == 1:
    sys.exit(7)
time.sleep(30 if len(sys.argv) > 1 else 0)
"""


def small_sizes():
    config = dataclasses.replace(training.CONFIG, vocabulary=256)
    schedule = Schedule(steps=30, batch=8, length=16, rate=0.02, warmup=5)
    train.SIZES["tiny"] = train.Size(config, bk.f32, 0, 0, schedule)
    letters = np.random.default_rng(1).integers(0, 4, 5500)
    for k in range(3, len(letters)):
        letters[k] = letters[k - 3] if k % 10 else letters[k]
    text = bytes((letters + ord("a")).tolist())
    train.read_corpus = lambda *_: Corpus(text[:5000], text[5000:], 1, 1)
    train.gemm_rate = lambda *_: 1e9


def trained(comm, layout, *arguments):
    """Output of the command on a rank, and its status."""
    small_sizes()
    options = train.parse(["--tokens", "8", "--prompt", "abc", *arguments])
    mesh = None if layout is None else Mesh(comm, Layout(**layout))
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = train.run(options, comm.library, mesh)
    return status, printed.getvalue()


def held_out(text):
    return float(re.search(r"held out: ([\d.]+) nats", text)[1])


@TRAINING
def test_layouts_agree(tmp_path):
    alone = ranks.run(1, trained, None, "--evaluations", "1")[0]
    folder = str(tmp_path / "model")
    found = ranks.run(
        2,
        trained,
        {"data": 2, "zero": 3},
        "--evaluations",
        "1",
        "--ranks",
        "2",
        "--checkpoint",
        folder,
        "--save-every",
        "20",
    )
    assert [status for status, _ in found] == [alone[0]] * 2
    for _, text in found:
        assert held_out(text) == pytest.approx(held_out(alone[1]), abs=2e-3)
    assert "sample:\nabc" in found[0][1] and "sample" not in found[1][1]
    assert sorted(path.name for path in pathlib.Path(folder).iterdir()) == ["step-00000020", "step-00000030"]
    (pathlib.Path(folder) / "step-00000030" / "whole.json").unlink()
    again = ranks.run(
        2, trained, {"tensor": 2}, "--evaluations", "1", "--ranks", "2", "--tensor", "2", "--resume", folder
    )
    assert "resumed after step 20" in again[0][1]
    assert held_out(again[0][1]) == pytest.approx(held_out(alone[1]), abs=2e-3)


def test_options(capsys):
    for arguments, text in (
        (["--gpus", "2", "--ranks", "2"], "give one of both"),
        (["--ranks", "3", "--tensor", "2"], "3 ranks are not divided"),
        (["--ranks", "0"], "not above 0"),
    ):
        with pytest.raises(SystemExit):
            train.parse(arguments)
        assert text in capsys.readouterr().err
    assert isinstance(train.parse(["--ranks", "2", "--checkpoint", "folder"]), argparse.Namespace)


def test_the_launcher(tmp_path):
    """Each process is told its rank; the status is that of the first that fails, and the others are ended."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    assert launch.run([sys.executable, str(program), "long"], 3, grace=0.2) == 7
    command = [sys.executable, "-m", "baracuda.distributed", "--ranks", "2", str(program)]
    root = pathlib.Path(bk.__file__).parents[1]
    result = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert (result.returncode, sorted(result.stdout.split("\n"))) == (7, ["", "0 2", "1 2"])
    with pytest.raises(bk.InvalidProblemError, match="ranks is 0"):
        launch.run(["true"], 0)


WAITING = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1], os.environ["RANK"]).write_text(str(os.getpid()))
time.sleep(600)
"""


def test_a_launcher_that_is_ended_ends_its_ranks(tmp_path):
    program, folder = tmp_path / "program.py", tmp_path / "started"
    program.write_text(WAITING)
    folder.mkdir()
    command = [sys.executable, "-m", "baracuda.distributed", "--ranks", "2", str(program), str(folder)]
    with subprocess.Popen(command, cwd=pathlib.Path(bk.__file__).parents[1]) as launcher:
        try:
            while len(pids := [int(path.read_text() or 0) for path in folder.iterdir()]) < 2 or 0 in pids:
                assert launcher.poll() is None
                time.sleep(0.02)
        finally:
            launcher.terminate()
        assert launcher.wait() == 143
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

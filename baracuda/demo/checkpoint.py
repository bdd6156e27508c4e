# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as safetensors files (PyPI: safetensors), from which a run goes on bit by bit as if it had not stopped.

Tensors are the parameters by their names, and the states of the optimiser: "optimizer.exp_avg.layers.0.q". bf16 and f16
are widened to f32, which is exact. The metadata have the number of steps, the sizes of the model, the schedule of the
training, a checksum of the text and the merges of the tokenizer.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import pathlib
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

import baracuda as bk
from baracuda.demo.parameters import Config, Parameters
from baracuda.demo.tokenizer import Tokenizer
from baracuda.demo.training import Schedule, Trainer

Array = np.ndarray[Any, Any]
PREFIX = "optimizer."


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    config: Config
    dtype: bk.ElementKind
    schedule: Schedule
    tokenizer: Tokenizer
    text: int  # a checksum of the training text
    step: int
    losses: list[float]  # of the steps done
    tensors: Mapping[str, Array]

    def restore(self, trainer: Trainer) -> None:
        """Bring a trainer of the same sizes and schedule to the step."""
        p = trainer.p
        if self.config != p.config:
            raise SystemExit(f"the checkpoint has the sizes {self.config}, not {p.config}")
        if self.text != checksum(trainer):
            raise SystemExit("the checkpoint was trained on another text, that of another version of Python")
        restore_parameters(p, self.tensors)
        states: list[dict[str, Any]] = [{"step": self.step} for _ in trainer.names]
        for name, values in self.tensors.items():
            if name.startswith(PREFIX):
                state, _, parameter = name.removeprefix(PREFIX).partition(".")
                states[trainer.names.index(parameter)][state] = bk.upload(values, library=p.library)
        groups = trainer.optimizer.state_dict()["param_groups"]
        trainer.optimizer.load_state_dict({"state": dict(enumerate(states)), "param_groups": groups})
        trainer.restart(self.step)


def require_safetensors() -> None:
    if importlib.util.find_spec("safetensors") is None:
        raise SystemExit("checkpoints need the package safetensors: pip install safetensors")


def restore_parameters(p: Parameters, tensors: Mapping[str, Array]) -> None:
    for name, view in p.values.items():
        bk.upload(tensors[name], out=view, library=p.library)


def save(path: pathlib.Path, trainer: Trainer, tokenizer: Tokenizer, losses: list[float]) -> None:
    """Write a checkpoint; a file of this name is replaced when the new one is complete."""
    from safetensors.numpy import save_file

    p = trainer.p
    tensors = {name: _host(p, view) for name, view in p.values.items()}
    for number, state in trainer.optimizer.state.items():
        for name, value in state.items():
            if isinstance(value, bk.TensorRef):
                tensors[f"{PREFIX}{name}.{trainer.names[number]}"] = _host(p, value)
    metadata = {
        "config": dataclasses.asdict(p.config), "dtype": p.dtype.symbol, "step": trainer.step,
        "schedule": dataclasses.asdict(trainer.schedule), "merges": tokenizer.merges, "text": checksum(trainer),
        "losses": losses,
    }  # fmt: skip
    partial = path.with_name(path.name + ".partial")
    save_file(tensors, partial, {name: json.dumps(value) for name, value in metadata.items()})
    os.replace(partial, path)


def load(path: pathlib.Path) -> Checkpoint:
    from safetensors import safe_open
    from safetensors.numpy import load_file

    with safe_open(path, framework="np") as file:
        metadata = {name: json.loads(value) for name, value in file.metadata().items()}
    tensors = load_file(path)
    schedule = metadata["schedule"] | {"betas": tuple(metadata["schedule"]["betas"])}
    return Checkpoint(
        Config(**metadata["config"]), getattr(bk, metadata["dtype"]), Schedule(**schedule),
        Tokenizer(metadata["merges"]), metadata["text"], metadata["step"], metadata["losses"], tensors,
    )  # fmt: skip


def checksum(trainer: Trainer) -> int:
    return zlib.crc32(np.ascontiguousarray(trainer.text, np.int64).tobytes())


def _host(p: Parameters, view: bk.TensorRef) -> Array:
    values = bk.download(view, library=p.library)
    return values.astype(np.float32) if view.dtype in (bk.bf16, bk.f16) else values

# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, from which a run goes on bit by bit as if it had not stopped: of one rank a safetensors file (PyPI:
safetensors), of several a folder (baracuda.distributed.checkpoint). Either can be resumed in any layout of ranks.

Tensors are the parameters by their names, the biases of experts, and the states of the optimiser:
"optimizer.exp_avg.layers.0.q". In files bf16 and f16 are widened to f32, which is exact. The metadata have the number
of steps, the sizes of the model, the schedule of the training, a checksum of the text and the merges of the tokenizer.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import pathlib
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import baracuda as bk
from baracuda.demo.parameters import Config, Parameters
from baracuda.demo.tokenizer import Tokenizer
from baracuda.demo.training import Part, Schedule, Trainer
from baracuda.distributed import checkpoint as sharded

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
        names = dict.fromkeys(
            [key.removeprefix(PREFIX).partition(".")[0] for key in self.tensors if key.startswith(PREFIX)]
        )
        for optimizer, parts in trainer.optimizers:
            states: list[dict[str, Any]] = []
            for part in parts:
                state: dict[str, Any] = {"step": self.step}
                for name in [name for name in names if f"{PREFIX}{name}.{part.name}" in self.tensors]:
                    whole = p.ranks.take(part.name, np.asarray(self.tensors[f"{PREFIX}{name}.{part.name}"])).reshape(-1)
                    own = whole[part.start : part.start + part.value.numel].reshape(part.value.shape)
                    state[name] = bk.upload(own, library=p.library)
                states.append(state)
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": dict(enumerate(states)), "param_groups": groups})
        trainer.restart(self.step)


def require_safetensors() -> None:
    if importlib.util.find_spec("safetensors") is None:
        raise SystemExit("checkpoints need the package safetensors: pip install safetensors")


def restore_parameters(p: Parameters, tensors: Mapping[str, Array]) -> None:
    for name in (*p.config.shapes(), *p.config.biases()):
        p.write(name, tensors[name])


def save(path: pathlib.Path, trainer: Trainer, tokenizer: Tokenizer, losses: list[float]) -> None:
    """Write a checkpoint; a file of this name is replaced when the new one is complete."""
    from safetensors.numpy import save_file

    p = trainer.p
    metadata = _metadata(trainer, tokenizer, losses)
    if p.ranks.mesh is not None:
        sharded.save(p.ranks.mesh.world, path, trainer.step, _ranges(trainer), metadata)
        return
    tensors = {name: _host(p, view) for name, view in p.values.items()}
    for part, state in _states(trainer):
        for name, value in state.items():
            if isinstance(value, bk.TensorRef):
                tensors[f"{PREFIX}{name}.{part.name}"] = _host(p, value)
    partial = path.with_name(path.name + ".partial")
    save_file(tensors, partial, {name: json.dumps(value) for name, value in metadata.items()})
    os.replace(partial, path)


def _metadata(trainer: Trainer, tokenizer: Tokenizer, losses: list[float]) -> dict[str, Any]:
    p = trainer.p
    return {
        "config": dataclasses.asdict(p.config), "dtype": p.dtype.symbol, "step": trainer.step,
        "schedule": dataclasses.asdict(trainer.schedule), "merges": tokenizer.merges, "text": checksum(trainer),
        "losses": losses,
    }  # fmt: skip


def _states(trainer: Trainer) -> Iterator[tuple[Part, dict[str, Any]]]:
    """Updated parameters, and the state of their optimiser."""
    for optimizer, parts in trainer.optimizers:
        yield from zip(parts, optimizer.state.values())


def _ranges(trainer: Trainer) -> Iterator[sharded.Range]:
    """The ranges that this rank writes: one rank writes those of equal copies."""
    p, mesh = trainer.p, trainer.p.ranks.mesh
    assert mesh is not None
    shapes = p.config.shapes()
    for part, state in _states(trainer):
        is_copy = (mesh.layout.zero == 0 and mesh.replicas.rank > 0) or (
            not p.ranks.is_divided(part.name) and mesh.tensor.rank > 0
        )
        if is_copy:
            continue
        split, at = p.ranks.split(part.name), (mesh.tensor.rank, mesh.tensor.size)
        arrays = {part.name: part.value}
        arrays |= {f"{PREFIX}{k}.{part.name}": x for k, x in state.items() if isinstance(x, bk.TensorRef)}
        for name, view in arrays.items():
            data = bk.download(view.reshape(-1), library=p.library)
            yield sharded.Range(name, shapes[part.name], split, *at, part.start, data)


def load(path: pathlib.Path) -> Checkpoint:
    """A file, or the last whole checkpoint of a folder."""
    if path.is_dir():
        reader = sharded.load(path)
        return _checkpoint(reader.metadata, reader)
    require_safetensors()
    from safetensors import safe_open
    from safetensors.numpy import load_file

    with safe_open(path, framework="np") as file:
        metadata = {name: json.loads(value) for name, value in file.metadata().items()}
    return _checkpoint(metadata, load_file(path))


def _checkpoint(metadata: Mapping[str, Any], tensors: Mapping[str, Array]) -> Checkpoint:
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

# SPDX-License-Identifier: Apache-2.0
"""The sizes of a Llama-shaped model and the names of its tensors, from a file's metadata."""

from __future__ import annotations

import dataclasses
from typing import Any

from baracuda.serve.errors import ModelFileError

ARCHITECTURES = ("llama", "qwen2")
HALVES = "baracuda.rope.halves"  # metadata: rope rotates halves, whatever the architecture


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of a decoder. `rotates_halves` says which features are a pair of rope: i and i + head_dim / 2, or adjacent
    ones.
    """

    vocabulary: int
    context: int
    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    rope_base: float
    rotates_halves: bool

    def __post_init__(self) -> None:
        for name in ("vocabulary", "context", "layers", "width", "hidden", "heads", "kv_heads", "head_dim"):
            if getattr(self, name) < 1:
                raise ModelFileError(f"{name} is {getattr(self, name)}, must be > 0")
        if self.heads % self.kv_heads:
            raise ModelFileError(f"{self.heads} heads of queries do not share {self.kv_heads} heads of keys evenly")
        if self.head_dim % 2:
            raise ModelFileError(f"head_dim is {self.head_dim}, must be even")


def from_gguf(metadata: dict[str, Any], vocabulary: int) -> Config:
    """`vocabulary` is the number of rows of the embedding."""
    kind = metadata.get("general.architecture")
    if kind not in ARCHITECTURES:
        raise ModelFileError(f"general.architecture is {kind!r}, served are {', '.join(ARCHITECTURES)}")

    def number(name: str, default: Any = None) -> Any:
        value = metadata.get(f"{kind}.{name}", default)
        if not isinstance(value, (int, float)):
            raise ModelFileError(f"{kind}.{name} is {value!r}, must be a number")
        return value

    heads, width = number("attention.head_count"), number("embedding_length")
    if heads < 1:
        raise ModelFileError(f"{kind}.attention.head_count is {heads}, must be > 0")
    head_dim = number("attention.key_length", width // heads)
    scaling = metadata.get(f"{kind}.rope.scaling.type", "none")
    if scaling != "none":
        raise ModelFileError(f"{kind}.rope.scaling.type is {scaling!r}, served is 'none'")
    if number("rope.dimension_count", head_dim) != head_dim:
        raise ModelFileError(f"rope of {number('rope.dimension_count')} of {head_dim} features is not served")
    return Config(
        vocabulary, number("context_length"), number("block_count"), width, number("feed_forward_length"), heads,
        number("attention.head_count_kv", heads), head_dim, number("attention.layer_norm_rms_epsilon"),
        number("rope.freq_base", 10000.0), rotates_halves=kind != "llama" or bool(metadata.get(HALVES)),
    )  # fmt: skip

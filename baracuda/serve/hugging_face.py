# SPDX-License-Identifier: Apache-2.0
"""Reader of a model's folder as Hugging Face has it: config.json, tokenizer.json, *.safetensors (package safetensors).

The result is what a GGUF file of the model would hold: the same metadata and names, with tensors in f32, f16 or bf16.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
from typing import Any

import numpy as np

from baracuda.serve.blocks import format_of
from baracuda.serve.config import HALVES
from baracuda.serve.errors import ModelFileError
from baracuda.serve.gguf import GgufFile, Tensor

MODEL_TYPES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2"}
GGML_TYPES = {"F32": 0, "F16": 1, "BF16": 30}
NUMBERS = {
    "num_hidden_layers": "block_count", "max_position_embeddings": "context_length", "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length", "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv", "head_dim": "attention.key_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon", "rope_theta": "rope.freq_base",
}  # fmt: skip
TENSORS = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
OTHERS = {
    "model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}  # fmt: skip
LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)")


def read(folder: pathlib.Path) -> GgufFile:
    """The metadata and tensors of a folder."""
    config = _json(folder / "config.json")
    kind = MODEL_TYPES.get(str(config.get("model_type")))
    if kind is None:
        raise ModelFileError(f"model_type is {config.get('model_type')!r}, served are {', '.join(MODEL_TYPES)}")
    if config.get("rope_scaling"):
        raise ModelFileError(f"rope_scaling is {config['rope_scaling']!r}, served is none")
    given = config.get("rope_parameters") or {}  # newer files have rope_theta there
    if given.get("rope_type", "default") != "default":
        raise ModelFileError(f"rope_type is {given['rope_type']!r}, served is 'default'")
    numbers = {key: config[name] for name, key in NUMBERS.items() if config.get(name) is not None}
    if "rope_theta" in given:
        numbers["rope.freq_base"] = given["rope_theta"]
    metadata = {f"{kind}.{key}": number for key, number in numbers.items()}
    metadata |= {"general.architecture": kind, "general.name": folder.resolve().name, HALVES: True}
    metadata |= _tokenizer(folder, config)
    return GgufFile(metadata, _tensors(folder, tied=bool(config.get("tie_word_embeddings"))))


def _tensors(folder: pathlib.Path, tied: bool) -> dict[str, Tensor]:
    try:
        import safetensors
    except ImportError as error:
        raise ModelFileError(f"{folder} needs the package safetensors ({error})") from None
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelFileError(f"{folder} has no *.safetensors")
    tensors = {}
    deserialize: Any = safetensors.deserialize  # its stub has no types
    for file in files:
        for name, found in deserialize(file.read_bytes()):
            renamed = _renamed(name)
            if renamed is None or (tied and renamed == "output.weight"):
                continue
            shape, dtype = tuple(found["shape"]), found["dtype"]
            if dtype not in GGML_TYPES:
                raise ModelFileError(f"{name} has dtype {dtype}, served are {', '.join(GGML_TYPES)}")
            data = np.frombuffer(found["data"], np.uint8).reshape(math.prod(shape[:-1]), -1)
            tensors[renamed] = Tensor(renamed, shape, format_of(GGML_TYPES[dtype], name), data)
    return tensors


def _renamed(name: str) -> str | None:
    """The name in GGUF; None for tensors that are computed, such as the frequencies of rope."""
    if name in OTHERS:
        return OTHERS[name]
    match = LAYER.fullmatch(name)
    if match is None or match[2] not in TENSORS:
        if name.endswith("rotary_emb.inv_freq"):
            return None
        raise ModelFileError(f"the tensor {name} is not served")
    return f"blk.{match[1]}.{TENSORS[match[2]]}.{match[3]}"


def _tokenizer(folder: pathlib.Path, config: dict[str, Any]) -> dict[str, Any]:
    described = _json(folder / "tokenizer.json")
    options_file = folder / "tokenizer_config.json"
    options = _json(options_file) if options_file.exists() else {}
    model = described["model"]
    if model.get("type") != "BPE":
        raise ModelFileError(f"the tokenizer is {model.get('type')!r}, served is 'BPE'")
    added = {each["id"]: each["content"] for each in described.get("added_tokens", [])}
    strings = {number: text for text, number in model["vocab"].items()} | added
    size = max([*strings, int(config.get("vocab_size", 0)) - 1]) + 1
    ends = config.get("eos_token_id")
    template = options.get("chat_template")
    template_file = folder / "chat_template.jinja"
    if template_file.exists():
        template = template_file.read_text("utf-8")
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    metadata = {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": _rules(described.get("pre_tokenizer")),
        "tokenizer.ggml.tokens": [strings.get(number, f"<unused {number}>") for number in range(size)],
        "tokenizer.ggml.token_type": [3 if number in added or number not in strings else 1 for number in range(size)],
        "tokenizer.ggml.merges": merges, "tokenizer.ggml.bos_token_id": config.get("bos_token_id"),
        "tokenizer.chat_template": template if isinstance(template, str) else None,
        "tokenizer.ggml.add_bos_token": bool(options.get("add_bos_token")),
    }  # fmt: skip
    numbers = ends if isinstance(ends, list) else [] if ends is None else [ends]
    metadata |= {f"tokenizer.ggml.{name}_token_id": number for name, number in zip(("eos", "eot", "eom"), numbers)}
    return {key: value for key, value in metadata.items() if value is not None}


def _rules(described: Any) -> str:
    """The name of the rules of pre-tokenisation that a tokenizer.json spells out."""
    steps = described.get("pretokenizers", [described]) if described else []
    kinds = [step.get("type") for step in steps]
    patterns = "".join([str(step.get("pattern", {}).get("Regex", "")) for step in steps if step["type"] == "Split"])
    if kinds == ["ByteLevel"]:
        return "gpt-2"
    if kinds == ["Digits", "ByteLevel"] and steps[0].get("individual_digits"):
        return "smollm"
    if kinds == ["Split", "ByteLevel"] and r"\p{N}{1,3}" in patterns:
        return "llama-bpe"
    if kinds == ["Split", "ByteLevel"] and r"|\p{N}|" in patterns:
        return "qwen2"
    raise ModelFileError(f"the pre-tokenizer {kinds} of tokenizer.json is not served")


def _json(path: pathlib.Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ModelFileError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ModelFileError(f"{path} is no object of JSON")
    return found

# SPDX-License-Identifier: Apache-2.0
"""Writes GGUF files, and tiny models of random weights."""

import pathlib
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
TYPE_IDS = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 8, "bf16": 30}
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>'"
    " + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def encode(values: np.ndarray, form: str) -> bytes:
    """A matrix in a format: scales are those of the block's extremes, rounded to f16 first."""
    if form == "f32":
        return values.astype("<f4").tobytes()
    if form == "f16":
        return values.astype("<f2").tobytes()
    if form == "bf16":
        return (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    blocks = values.reshape(-1, 32)
    low, high = blocks.min(1, keepdims=True), blocks.max(1, keepdims=True)
    least, most, zero = {"q4_0": (-8, 7, 0), "q4_1": (0, 15, None), "q8_0": (-127, 127, 0)}[form]
    offset = low if zero is None else np.zeros_like(low)
    scale = (high - low) / 15 if zero is None else np.maximum(abs(low), abs(high)) / most
    scale, offset = (np.asarray(x).astype("<f2") for x in (scale, offset))
    exact = (blocks - offset.astype(float)) / np.where(scale, scale, 1).astype(float)
    codes = np.clip(np.rint(exact), least, most).astype(int)
    parts = [scale.view(np.uint8)] + [offset.view(np.uint8)] * (form == "q4_1")
    if form == "q8_0":
        parts.append(codes.astype(np.int8).view(np.uint8))
    else:
        nibbles = (codes - least).astype(np.uint8)
        parts.append(nibbles[:, :16] | nibbles[:, 16:] << 4)
    return np.concatenate(parts, axis=1).tobytes()


def decode(data: bytes, form: str, columns: int) -> np.ndarray:
    """The values of an encoded matrix, element by element, in float64."""
    if form in ("f32", "f16"):
        return np.frombuffer(data, "<f4" if form == "f32" else "<f2").astype(float).reshape(-1, columns)
    if form == "bf16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").astype(float).reshape(-1, columns)
    size = {"q4_0": 18, "q4_1": 20, "q8_0": 34}[form]
    values = []
    for at in range(0, len(data), size):
        block = data[at : at + size]
        scale = float(np.frombuffer(block[:2], "<f2")[0])
        if form == "q8_0":
            values += [scale * struct.unpack("b", block[2 + k : 3 + k])[0] for k in range(32)]
            continue
        codes = block[4 if form == "q4_1" else 2 :]
        offset = float(np.frombuffer(block[2:4], "<f2")[0]) if form == "q4_1" else -8 * scale
        values += [scale * (codes[k % 16] >> (4 * (k // 16)) & 15) + offset for k in range(32)]
    return np.array(values).reshape(-1, columns)


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(item: Any) -> bytes:
    """A metadata value with its type before it."""
    if isinstance(item, bool):
        return struct.pack("<IB", BOOL, item)
    if isinstance(item, int):
        return struct.pack("<II", U32, item)
    if isinstance(item, float):
        return struct.pack("<If", F32, item)
    if isinstance(item, str):
        return struct.pack("<I", STRING) + string(item)
    kind = STRING if isinstance(item[0], str) else I32
    body = b"".join(string(each) if kind == STRING else struct.pack("<i", each) for each in item)
    return struct.pack("<IIQ", ARRAY, kind, len(item)) + body


def write(
    path: pathlib.Path, metadata: Mapping[str, Any], tensors: Mapping[str, tuple[tuple[int, ...], str, bytes]]
) -> pathlib.Path:
    """`tensors` are row-major shape, format and bytes by name."""
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    head += [string(key) + value(item) for key, item in metadata.items()]
    body = bytearray()
    for name, (shape, form, data) in tensors.items():
        body += b"\0" * (-len(body) % 32)
        extents = struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        head.append(string(name) + extents + struct.pack("<IQ", TYPE_IDS[form], len(body)))
        body += data
    start = b"".join(head)
    path.write_bytes(start + b"\0" * (-len(start) % 32) + body)
    return path


SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = ("t h", "th e", "Ġ the", "i n", "Ġ a", "a n", "an d")


def vocabulary() -> list[str]:
    """Special tokens, a letter for each byte, and the merged tokens."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    letters = [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]
    return [*SPECIALS, *letters, *(merge.replace(" ", "") for merge in MERGES)]


def tiny_model(
    path: pathlib.Path, *, architecture: str = "llama", form: str = "q4_1", layers: int = 2, seed: int = 1,
    context: int = 256, **changes: Any,
) -> tuple[pathlib.Path, dict[str, Any], dict[str, np.ndarray]]:  # fmt: skip
    """A model of random weights: its file, its metadata, and the values of its tensors in float64."""
    tokens = vocabulary()
    width, hidden, heads, kv_heads = 64, 96, 4, 2
    kv = width // heads * kv_heads
    metadata = {
        "general.architecture": architecture, "general.name": "Tiny Model", f"{architecture}.block_count": layers,
        f"{architecture}.context_length": context, f"{architecture}.embedding_length": width,
        f"{architecture}.feed_forward_length": hidden, f"{architecture}.attention.head_count": heads,
        f"{architecture}.attention.head_count_kv": kv_heads,
        f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5, f"{architecture}.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(SPECIALS) + [1] * (len(tokens) - len(SPECIALS)),
        "tokenizer.ggml.merges": list(MERGES), "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": CHATML,
    } | changes  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (len(tokens), width), "output_norm.weight": (width,)}
    for layer in range(layers):
        of = {
            "attn_norm": (width,), "attn_q": (width, width), "attn_k": (kv, width), "attn_v": (kv, width),
            "attn_output": (width, width), "ffn_norm": (width,), "ffn_up": (hidden, width), "ffn_gate": (hidden, width),
            "ffn_down": (width, hidden),
        }  # fmt: skip
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in of.items()}
        if architecture == "qwen2":
            shapes |= {f"blk.{layer}.attn_{x}.bias": (n,) for x, n in {"q": width, "k": kv, "v": kv}.items()}
    rng = np.random.default_rng(seed)
    tensors, values = {}, {}
    for name, shape in shapes.items():
        given = rng.standard_normal(shape) * (0.15 if len(shape) == 2 else 0.3) + ("norm" in name)
        kind = "f32" if len(shape) == 1 else "q8_0" if name == "token_embd.weight" else form
        data = encode(given, kind)
        tensors[name] = (shape, kind, data)
        values[name] = decode(data, kind, shape[-1]).reshape(shape)
    return write(path, metadata, tensors), metadata, values

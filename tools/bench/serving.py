#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of a served model: decoding at several numbers of sequences, and prefill, beside what memory allows.

usage: python -m tools.bench.serving [--model FILE | --size 135m] [--format q8_0] [--dtype bf16]
       [--sequences "1 8 64"] [--prompt 512] [--tokens 64] [--json FILE]

Without a file the model has the shapes of SmolLM2-135M, Llama 3.2 1B or Llama 3.1 8B, and weights of one random block.
A step is the scheduler's: forward, sampling by temperature 0.8 and top_p 0.9, and the tokens on the host. `of memory`
is the time that a copy of as many bytes as the weights and the keys and values have would take, over the step's.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import time
from typing import Any

import numpy as np

import baracuda as bk
from baracuda.serve import blocks, config, gguf
from baracuda.serve.__main__ import DTYPES
from baracuda.serve.config import Config
from baracuda.serve.model import Limits, Model
from baracuda.serve.request import Options
from baracuda.serve.scheduler import Scheduler
from baracuda.serve.sequence import Request
from baracuda.serve.tokenizer import Tokenizer, byte_letters
from baracuda.serve.weights import Weights

SIZES = {
    "135m": Config(49152, 8192, 30, 576, 1536, 9, 3, 64, 1e-5, 1e5, False),
    "1b": Config(128256, 8192, 16, 2048, 8192, 32, 8, 64, 1e-5, 5e5, False),
    "8b": Config(128256, 8192, 32, 4096, 14336, 32, 8, 128, 1e-5, 5e5, False),
}
FORMATS = {"q4_0": 2, "q4_1": 3, "q8_0": 8, "q4_k": 12, "q6_k": 14}  # GGML's type ids
COPIES, STEP_TOKENS = 10, 512


def random_tensors(c: Config, form: str, library: bk.Library) -> dict[str, gguf.Tensor]:
    """Tensors whose rows are views of one, so that the host needs little memory."""
    of_matrix, of_vector = blocks.format_of(FORMATS[form], form), blocks.format_of(0, "f32")
    assert of_matrix.block is not None
    q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
    values = np.random.default_rng(0).standard_normal(max(c.width, c.hidden, q)).astype(np.float32)
    blocks_of_row = bk.quantize_blocks(bk.upload(values * 0.02, library=library), of_matrix.block)
    row = bk.download(blocks_of_row, library=library).reshape(-1)
    matrices = {"token_embd": (c.vocabulary, c.width)}
    vectors = {"output_norm": c.width}
    for layer in range(c.layers):
        shapes = {
            "attn_q": (q, c.width), "attn_k": (kv, c.width), "attn_v": (kv, c.width), "attn_output": (c.width, q),
            "ffn_up": (c.hidden, c.width), "ffn_gate": (c.hidden, c.width), "ffn_down": (c.width, c.hidden),
        }  # fmt: skip
        matrices |= {f"blk.{layer}.{name}": shape for name, shape in shapes.items()}
        vectors |= {f"blk.{layer}.{name}": c.width for name in ("attn_norm", "ffn_norm")}
    found = {}
    for name, (rows, columns) in matrices.items():
        nbytes = columns // of_matrix.values * of_matrix.bytes
        data = np.broadcast_to(row[:nbytes], (rows, nbytes))
        found[f"{name}.weight"] = gguf.Tensor(name, (rows, columns), of_matrix, data)
    for name, extent in vectors.items():
        data = np.ones((1, extent), np.float32).view(np.uint8)
        found[f"{name}.weight"] = gguf.Tensor(name, (extent,), of_vector, data)
    return found


def weight_bytes(tensors: dict[str, gguf.Tensor]) -> int:
    """Bytes that a token reads: all but an embedding that is not the head."""
    unread = ["token_embd.weight"] if "output.weight" in tensors else []
    return sum(tensor.data.size for name, tensor in tensors.items() if name not in unread)


def copy_rate(library: bk.Library) -> float:
    """Bytes read and written a second by a copy of 1 GiB (64 MiB on a CPU)."""
    on_cuda = library.backend == "cuda"
    x, y = (bk.zeros((1 << (30 if on_cuda else 26),), bk.u8, library=library) for _ in range(2))
    host_x, host_y = (None, None) if on_cuda else (np.asarray(x), np.asarray(y))

    def copy() -> None:
        if on_cuda:
            from cuda.bindings import runtime

            kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice
            for _ in range(COPIES):
                runtime.cudaMemcpyAsync(y.ptr, x.ptr, x.nbytes, kind, 2)
            bk.synchronize(library=library)
        else:
            for _ in range(COPIES):
                host_y[:] = host_x  # type: ignore[index]

    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        copy()
        seconds.append(time.perf_counter() - start)
    return 2 * COPIES * x.nbytes / min(seconds)


def timed_step(scheduler: Scheduler) -> float:
    start = time.perf_counter()
    scheduler.step()
    return time.perf_counter() - start


def longest(count: int, prompt: int, tokens: int) -> int:
    """Tokens that a sequence generates at most."""
    return tokens + 8 + -(-count * prompt // STEP_TOKENS) + count


def measure(model: Model, words: Tokenizer, count: int, prompt: int, tokens: int) -> dict[str, float]:
    """Steps of `count` sequences that were given `prompt` tokens each."""
    scheduler = Scheduler(model)
    rng = np.random.default_rng(1)
    errors: list[str] = []
    # The first sequence generates while the last one is prefilled.
    options = Options(max_tokens=longest(count, prompt, tokens), temperature=0.8, top_p=0.9, ignore_eos=True)
    for _ in range(count):
        text = rng.integers(0, len(words), prompt).tolist()
        scheduler.submit(Request(text, options, words, lambda delta: errors.append(delta.error or "")))
    start, known = time.perf_counter(), 0
    while scheduler.waiting or any(request.computed < prompt for request in scheduler.running):
        scheduler.step()
        known += 1
    prefill = time.perf_counter() - start
    for _ in range(3):  # the first one captures a graph
        scheduler.step()
    seconds = [timed_step(scheduler) for _ in range(tokens - 3)]
    if any(errors):
        raise RuntimeError(next(filter(None, errors)))
    return {"sequences": count, "step_ms": statistics.median(seconds) * 1e3, "prefill_tokens": count * prompt / prefill}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.serving", description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--size", choices=SIZES, default="135m")
    parser.add_argument("--format", choices=FORMATS, default="q8_0")
    parser.add_argument("--dtype", choices=DTYPES, default="f32", help="of activations, keys and values")
    parser.add_argument("--sequences", default="1 8 64")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    library = bk.default_library()
    if args.model:
        file = gguf.read(args.model)
        tensors = file.tensors
        sizes = config.from_gguf(file.metadata, tensors["token_embd.weight"].shape[0])
    else:
        sizes = SIZES[args.size]
        tensors = random_tensors(sizes, args.format, library)
    letters = byte_letters()
    words = Tokenizer([letters[n % 256] + str(n) for n in range(sizes.vocabulary)], [], [], "default")
    counts = [int(count) for count in args.sequences.split()]
    tokens = args.prompt + longest(max(counts), args.prompt, args.tokens)
    pages = -(-tokens // Limits.page_size) * max(counts)
    limits = Limits(pages=pages, tokens=max(STEP_TOKENS, *counts), sequences=max(counts))
    model = Model(sizes, Weights(tensors, library, dtype=DTYPES[args.dtype]), limits, library)
    rate, weights = copy_rate(library), weight_bytes(tensors)
    kv = 2 * DTYPES[args.dtype].bits // 8 * sizes.layers * sizes.kv_heads * sizes.head_dim  # bytes of a token
    print(f"{library.backend}: {weights / 1e6:,.0f} MB of weights, copy {rate / 1e9:,.0f} GB/s", flush=True)
    rows: list[dict[str, Any]] = []
    for count in counts:
        row = measure(model, words, count, args.prompt, args.tokens)
        least = (weights + count * kv * (args.prompt + args.tokens / 2)) / rate
        row |= {"of_memory": least / row["step_ms"] * 1e3, "tokens": count / row["step_ms"] * 1e3}
        rows.append(row)
        speed = f"{row['tokens']:9,.0f} tokens/s, {row['of_memory']:.2f} of memory"
        prefill = f"prefill {row['prefill_tokens']:9,.0f} tokens/s"
        print(f"{count:4} sequences: step {row['step_ms']:8.3f} ms, {speed}; {prefill}", flush=True)
    if args.json:
        name = str(args.model.name) if args.model else f"{args.size} {args.format} {args.dtype}"
        args.json.write_text(
            json.dumps({"backend": library.backend, "model": name, "copy": rate, "rows": rows}, indent=1)
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

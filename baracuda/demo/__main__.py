# SPDX-License-Identifier: Apache-2.0
"""python -m baracuda.demo train | classify | chat | generate | serve"""

from __future__ import annotations

import importlib
import os
import sys

from baracuda._cli.console import exit_status

COMMANDS = {
    "train": "train a language model", "classify": "train a text classifier", "chat": "talk with a GGUF model",
    "generate": "continue a text with one", "serve": "serve one over HTTP",
}  # fmt: skip
SERVED = ("chat", "generate", "serve")  # commands of baracuda.serve


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] not in COMMANDS:
        print("usage: python -m baracuda.demo COMMAND [options]; -h after a command has its options", file=sys.stderr)
        print("\n".join([f"  {name:10} {text}" for name, text in COMMANDS.items()]), file=sys.stderr)
        return 0 if given in (["-h"], ["--help"]) else 2
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # many short launches: idle threads must not keep cores busy
    if given[0] in SERVED:
        from baracuda.serve import __main__ as server

        return server.main(given)
    command = importlib.import_module(f"baracuda.demo.{given[0]}")
    return int(command.main(given[1:]))


if __name__ == "__main__":
    sys.exit(exit_status(main))

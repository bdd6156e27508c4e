"""Writes the signatures of the functions on arrays for type checkers and editors.

usage: python -m tools.gen_stub FILE

The functions are made from the op table when they are first named (baracuda/functions.py), where no checker sees them.
"""

import pathlib
import sys
import textwrap

from baracuda._functions.spec import specs
from baracuda.functions import signature, summary

PROLOGUE = '''"""Signatures of baracuda/functions.py. Written by tools/gen_stub.py: do not edit."""

from collections.abc import Sequence
from typing import Any

from baracuda.kinds import EmbeddingBagMode, LossReduction

# Of NumPy, PyTorch, CuPy, JAX; a TensorRef; whatever has DLPack, an array interface or the buffer protocol; a number
Array = Any

'''


def stub() -> str:
    parts = [PROLOGUE]
    for spec in specs().values():
        result = "Any" if len(spec.outputs) == 1 else f"tuple[{', '.join(['Any'] * len(spec.outputs))}]"
        body = textwrap.indent("\n".join(textwrap.wrap(f'"""{summary(spec)}"""', 112)), "    ")
        parts.append(f"def {spec.name}({signature(spec, annotated=True)}) -> {result}:\n{body}\n")
    return "".join(parts)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    pathlib.Path(sys.argv[1]).write_text(stub())

"""Writes the signatures of the functions on arrays for type checkers and editors: `make stub`.

usage: python -m tools.gen_stub [--check] FILE

The functions are made from the op table when they are first named (baracuda/functions.py), where no checker sees them.
--check only says whether FILE is as it would be written.
"""

import pathlib
import sys
import textwrap

from baracuda._functions.spec import specs
from baracuda.functions import documentation, signature

PROLOGUE = '''"""Signatures of baracuda/functions.py. Written by tools/gen_stub.py: do not edit."""

from collections.abc import Sequence
from typing import Any

from baracuda.kinds import EmbeddingBagMode

# NumPy, PyTorch, CuPy and JAX arrays, TensorRefs, whatever has DLPack, an array interface or the buffer protocol, numbers
Array = Any

'''


def stub() -> str:
    parts = [PROLOGUE]
    for spec in specs().values():
        result = "Any" if len(spec.outputs) == 1 else f"tuple[{', '.join(['Any'] * len(spec.outputs))}]"
        text = documentation(spec).replace("\\", "\\\\")
        body = textwrap.indent(f'"""{text}"""', "    ", lambda line: bool(line.strip()))
        parts.append(f"def {spec.name}({signature(spec, annotated=True)}) -> {result}:\n{body}\n    ...\n\n")
    return "".join(parts)


if __name__ == "__main__":
    *options, file = sys.argv[1:] or [""]
    if not file or options not in ([], ["--check"]):
        sys.exit(__doc__)
    target, text = pathlib.Path(file), stub()
    if options and target.read_text() != text:
        sys.exit(f"{target} is not what the op table says: run `make stub`")
    target.write_text(text)

# SPDX-License-Identifier: Apache-2.0
"""A program that runs in a process for each ISA path, which the CPU library chooses at first use: prints the path and a
digest of the results of every elementwise op of the given dtypes. All NaN are equal: their bits depend on the order of
operands."""

import hashlib
import json
import sys

import numpy as np

import baracuda as bk
from cases import CASES, Draw
from harness import OPS, launch

FAMILIES = ("unary_", "binary_", "gated_", "ternary_", "prelu_")


def chosen(dtypes):
    """Contiguous forms; gated ops have strided forms only."""
    for op, (row, slots) in OPS.items():
        contiguous = "_strided" not in row.name or row.name.startswith("gated_")
        if row.name.startswith(FAMILIES) and slots.get("T") in dtypes and contiguous:
            yield op, CASES[row.name], slots


def digest(outcome):
    made = hashlib.sha256()
    for name in sorted(outcome.bits):
        bits = outcome.bits[name]
        values = outcome.values(name)
        if values.dtype.kind == "f":  # payloads of NaN may differ
            bits = np.where(np.isnan(values), bits.dtype.type(0x7FFF), bits)
        made.update(bits.tobytes())
    return made.hexdigest()


def main(dtypes):
    library = bk.default_library()
    digests = {}
    for op, case, slots in chosen(dtypes):
        for name in dict.fromkeys((case.plain, case.large_of(slots))):
            outcome = launch(library, op, case.problems[name](Draw(slots, name)))
            assert outcome.status == 0, outcome.text
            digests[f"{op}, {name}"] = digest(outcome)
    json.dump({"isa": library.build_info.get("isa"), "digests": digests}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
